"""Plans of label-private students and of soft labels: known numbers, and what they promise, counted anew."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings, strategies as st
from scipy import stats

from dpledger.accounting.composition import SparseVectorLaw
from dpledger.accounting.families.sparse_vector import certify
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.stability.on_average import mean_learner
from dpledger.mechanisms.stability.plans import label_private
from dpledger.mechanisms.stability.plans.label_private import label_private_plan, student_error
from dpledger.mechanisms.stability.plans.soft import bins_for, soft_plan

pytestmark = pytest.mark.sliced

BUDGET: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}


def sauer(dimension: int, points: int) -> int:
    return sum(math.comb(points, i) for i in range(dimension + 1))


def student(dimension: int, rows: int, best: float, failure: float) -> float:
    """x of the relative deviation bound, with another library's quantile."""
    q = float(stats.binom.ppf(1 - failure / 2, rows, best)) / rows
    square = 4 * (math.log(4) + math.log(sauer(dimension, 2 * rows)) + math.log(2 / failure)) / rows
    return q + square / 2 + math.sqrt(square) * math.sqrt(q + square / 4)


# ---- students -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dimension", "alpha", "rows", "cutoff"), [(1, "0.1", 2348, 79), (1, "0.05", 4905, 82), (5, "0.1", 6977, 207)]
)
def test_known_plans(dimension: int, alpha: str, rows: int, cutoff: int) -> None:
    plan = label_private_plan(dimension, alpha, **BUDGET)
    assert (plan.public_rows, plan.cutoff) == (rows, cutoff)
    assert plan.needed == plan.chunks * plan.chunk_size
    assert plan.error <= Decimal(alpha)
    assert plan.words().startswith(f"{rows} public rows, and {plan.needed} private records in {plan.chunks} chunks")


def test_no_fewer_rows_would_do() -> None:
    assert student(1, 2348, 0.025, 0.025) <= 0.075
    assert min(student(1, rows, 0.025, 0.025) for rows in range(1, 2348)) > 0.075
    assert any(student(1, rows, 0.025, 0.025) > 0.075 for rows in range(2349, 2500)), "it is not monotone"


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(
    st.integers(1, 8),
    st.sampled_from(["0.3", "0.1", "0.05"]),
    st.sampled_from(["0.3", "0.05", "1e-6"]),
    st.sampled_from(["0", "0.001", "0.05"]),
)
def test_what_a_plan_promises_holds_when_it_is_counted_anew(dimension: int, alpha: str, beta: str, gamma: str) -> None:
    regime: Any = "agnostic" if float(gamma) else "realizable"
    plan = label_private_plan(dimension, alpha, beta=beta, **BUDGET, regime=regime, gamma=gamma)
    a, g, b, size = float(plan.accuracy), float(gamma), float(beta), plan.chunk_size
    spoils = 3 * (a + g)
    assert float(stats.binom.sf(plan.spoilt, plan.public_rows, spoils)) <= b / 6 * (1 + 1e-6)
    assert plan.cutoff == plan.spoilt + 1
    assert isinstance(plan.tests.law, SparseVectorLaw)
    certify(plan.tests.law)
    bound = student(dimension, plan.public_rows, g + spoils, b / 2)
    assert bound + spoils <= 7 * g + float(alpha) + 1e-9
    assert float(plan.student_error) == pytest.approx(bound, rel=1e-9)
    log_labellings = math.log(sauer(dimension, 2 * size))
    models = math.log(b / 6 / plan.chunks)
    if regime == "realizable":
        assert math.log(2) + log_labellings - a * size / 2 * math.log(2) <= models + 1e-6
    else:
        assert math.log(4) + log_labellings - size * a * a / 32 <= models + 1e-6
    assert Fraction(plan.chunks) >= 6 * (Fraction(plan.required_distance) + 1)


def test_every_hypothesis_keeps_the_bound_at_once() -> None:
    """Thresholds on [0, 1] where the label is always 0: the one that errs on k rows and most beyond them."""
    rng = np.random.default_rng(20)
    rows, failure = 60, Decimal("0.2")
    bounds = np.array([float(student_error(1, rows, mistakes, failure)) for mistakes in range(rows + 1)])
    drawn = np.sort(rng.random((2000, rows)), axis=1)
    errors = 1 - np.concatenate([np.zeros((2000, 1)), drawn], axis=1)[:, ::-1]
    assert (errors > bounds).any(axis=1).mean() <= 0.2
    assert (errors > np.arange(rows + 1) / rows).any(axis=1).mean() > 0.99, "seen errors alone bound nothing"


def test_a_search_that_leaps_finds_rows_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_private, "STEPS", 3)
    rows = label_private_plan(1, "0.1", **BUDGET).public_rows
    assert 2348 <= rows < 2500
    assert student(1, rows, 0.025, 0.025) <= 0.075 < student(1, rows - 1, 0.025, 0.025)


def test_students_that_cannot_be() -> None:
    with pytest.raises(InfeasiblePlan, match="must be below 1"):
        label_private_plan(1, "0.1", **BUDGET, regime="agnostic", gamma="0.2")
    bad: dict[str, dict[str, Any]] = {
        "alpha": {"alpha": 0},
        "beta": {"beta": 2},
        "gamma": {"gamma": "0.1"},
        "vc": {"vc": 0},
    }
    for field, words in bad.items():
        with pytest.raises(ParameterError, match=field):
            label_private_plan(**{"vc": 1, "alpha": "0.1", "beta": "0.05", **BUDGET, **words})


# ---- soft labels ----------------------------------------------------------------------------------------------------

SOFT: dict[str, Any] = {**BUDGET, "beta": "0.05", "max_queries": 200, "uncertain": 20}


def stable(size: int) -> Decimal:
    """The mean learner of scores in [0, 1]."""
    return mean_learner(max(size, 2), variance="0.25").mu


@settings(deadline=None, max_examples=25)
@given(
    st.integers(5, 9),
    st.sampled_from(["0", "0.01", "0.1", "0.3"]),
    st.integers(1, 10**4),
    st.integers(0, 60),
    st.sampled_from(["auto", "kov", "single_threshold"]),
)
def test_a_soft_plan_keeps_what_its_theorem_asks_for(
    magnitude: int, zeta: str, queries: int, uncertain: int, mode: Any
) -> None:
    asked = {**SOFT, "max_queries": queries, "uncertain": min(uncertain, queries), "mode": mode}
    try:
        plan = soft_plan(10**magnitude, stable, zeta, **asked)
    except InfeasiblePlan:
        reject()
    assert isinstance(plan.tests.law, SparseVectorLaw)
    certify(plan.tests.law)
    k, size = plan.chunks, 10**magnitude // plan.chunks
    assert k % 3
    assert queries * stats.binom.sf(k // 3, k, 0.25) <= 0.025 * (1 + 1e-6)
    assert Fraction(k) >= 6 * (Fraction(plan.required_distance) + 1)
    assert plan.required_gap == 2 * (plan.required_distance + 1)
    assert plan.cutoff == min(asked["uncertain"] + 1, 2 * queries)
    r = math.sqrt(2 * size) * float(stable(size))
    assert float(plan.radius) == pytest.approx(r, rel=1e-9)
    width = Fraction(1, plan.bins)
    assert width >= 4 * Fraction(plan.radius)
    assert width > Fraction(plan.radius) + Fraction(zeta)
    wider = Fraction(1, plan.bins + 1)
    assert wider < 4 * Fraction(plan.radius) or wider <= Fraction(plan.radius) + Fraction(zeta)
    assert plan.accuracy == pytest.approx(Decimal(3) / (4 * plan.bins), rel=Decimal("1e-11"))


@pytest.mark.parametrize(
    ("stray", "zeta", "bins"),
    [("0.01", "0", 25), ("0.125", "0", 2), ("0.01", "0.09", 9), ("0.01", "0.0899", 10), ("0", "0", 10**6)],
)
def test_bins_are_the_most_that_are_wide_enough(stray: str, zeta: str, bins: int) -> None:
    assert bins_for(Decimal(stray), Decimal(zeta)) == bins


@pytest.mark.parametrize(("stray", "zeta"), [("0.126", "0"), ("0.1", "0.4"), ("0.05", "0.45"), ("9", "0")])
def test_one_bin_is_refused(stray: str, zeta: str) -> None:
    with pytest.raises(InfeasiblePlan, match="leave one bin"):
        bins_for(Decimal(stray), Decimal(zeta))


def test_the_published_soft_plan_pays_twice_for_every_failure() -> None:
    ours, paper = (soft_plan(10**11, stable, "0.05", **SOFT, mode=mode) for mode in ("auto", "paper"))
    assert (ours.failed_tests, paper.failed_tests) == (21, 42)
    assert paper.mode == "paper"
    assert paper.chunks > 5 * ours.chunks
    assert paper.status == "conservative"
    assert float(paper.radius) == pytest.approx(math.sqrt(32 * paper.chunk_size) * float(stable(paper.chunk_size)))
    assert "at most 20 of them have a mean score far from 0 and 1" in ours.words()


def test_soft_plans_that_cannot_be() -> None:
    with pytest.raises(InfeasiblePlan, match="10 records are fewer than the"):
        soft_plan(10, stable, "0.05", **SOFT)
    with pytest.raises(InfeasiblePlan, match="leave one bin"):
        soft_plan(10**6, lambda size: 1, "0.05", **SOFT)
    bad: dict[str, dict[str, Any]] = {
        "zeta": {"zeta": "0.5"},
        "mu": {"mu": 3},
        "uncertain": {"uncertain": 201},
        "n": {"n": 0},
        "beta": {"beta": 0},
        "mode": {"mode": "soft"},
    }
    for field, words in bad.items():
        with pytest.raises(ParameterError, match=field):
            soft_plan(**{"n": 10**6, "mu": stable, "zeta": "0.05", **SOFT, **words})
