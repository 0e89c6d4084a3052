"""Tests whose noise falls: what they draw, what they lose, how far above the threshold what passes is, what is paid."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

import dpledger as dpl
from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.families.sparse_vector import certify, ex_post_epsilon
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import DiscreteLaplace, Sensitivity
from dpledger.mechanisms.refinement.accuracy_plans import calibrated
from dpledger.mechanisms.refinement.checks.falling import Stages, room_of, stages_of
from dpledger.mechanisms.refinement.checks.runs import FallingTests, Stage
from dpledger.mechanisms.threshold.threshold_run import Thresholding, steps_of
from dpledger.relations import Relation, Unit
from falling_oracle import FallingLaw

pytestmark = pytest.mark.sliced

FINE, QUERY = 2, 3
LAW = SparseVectorLaw("single_threshold", 1, 2, 0, FINE, QUERY, falling=True)
FIRST = 5  # tests of the coarse stage
EXACT = FallingLaw(first=FIRST, fine=FINE, query=QUERY)
FRESH = FallingLaw(first=FIRST, fine=FINE, query=QUERY, shared=False)


def loss(asked: int, halts: bool) -> float:
    """What the accounting says of a run that ended after so many tests."""
    closed, still = ((asked,), 0) if halts else ((), asked)
    return float(ex_post_epsilon(LAW, SparseVectorOutcome(closed, still, halts, ratio=2 if asked <= FIRST else None)))


def begun(entropy: Any) -> FallingTests:
    plan = Thresholding(
        law=LAW,
        threshold=0,
        threshold_noise=None,
        query_noise=DiscreteLaplace(QUERY),
        sensitivity=Sensitivity(1, "linf", "a test's"),
        max_queries=2 * FIRST,
        scale=steps_of(Decimal(1), "below"),
        charged="above",
    )
    return FallingTests(plan, (Stage(FIRST, Decimal(2), 0), Stage(2 * FIRST, Decimal(1), 0)), entropy)


def ended(queries: tuple[int, ...], entropy: Any) -> SparseVectorLaw:
    tests = begun(entropy)
    any(map(tests.is_above, queries))
    return tests.ended()


def test_what_is_drawn_has_the_exact_law() -> None:
    queries, runs = (-2, 0, -3, -1, -2, -3, 1, 2), 4_000
    entropy = seeded(11)
    seen = Counter((law.outcome.tests, law.outcome.halted) for law in (ended(queries, entropy) for _ in range(runs)))  # type: ignore[union-attr]
    wanted = {(n, True): EXACT.probability(queries[:n], halts=True) for n in range(1, 9)}
    wanted[8, False] = EXACT.probability(queries, halts=False)
    assert sum(wanted.values()) == pytest.approx(1, abs=1e-6)
    assert set(seen) <= set(wanted)
    expected = runs * np.array(list(wanted.values())) / sum(wanted.values())
    assert stats.chisquare([seen[one] for one in wanted], expected).pvalue > 1e-9


PLACES = (-30, -3, 0, 3, 30)


def worst(law: FallingLaw, asked: int, halts: bool) -> float:
    """The largest log ratio of this end, over queries at `PLACES` that move by one: those of a stage are equal, but for
    the last."""
    found = -math.inf
    for coarse, fine, last in itertools.product(PLACES, repeat=3):
        probability = law.probability(_queries(asked, coarse, fine, last), halts)
        for a, b, c in itertools.product((-1, 1), repeat=3):
            there = law.probability(_queries(asked, coarse + a, fine + b, last + c), halts)
            found = max(found, math.log(probability / there))
    return found


def _queries(asked: int, coarse: int, fine: int, last: int) -> tuple[int, ...]:
    return (*([coarse] * min(asked - 1, FIRST)), *([fine] * max(asked - 1 - FIRST, 0)), last)


@pytest.mark.parametrize("halts", [True, False])
@pytest.mark.parametrize(("asked", "near"), [(1, 0.9), (2, 0.9), (FIRST, 0.9), (FIRST + 1, 0.5), (2 * FIRST, 0.99)])
def test_no_end_reveals_more_than_its_loss(asked: int, near: float, halts: bool) -> None:
    """And nearly as much: of the coarse scales alone, where it ended among them."""
    found = worst(EXACT, asked, halts)
    assert near * loss(asked, halts) < found <= loss(asked, halts) + 1e-6  # the noise is cut off far out


def test_fresh_noise_on_the_threshold_reveals_more() -> None:
    assert worst(FRESH, 2 * FIRST, True) > loss(2 * FIRST, True) + 0.05


def test_the_loss_of_a_single_threshold_is_divided_by_the_ratio() -> None:
    single = SparseVectorLaw("single_threshold", 1, 2, 0, FINE, QUERY)
    for ratio, tests in itertools.product(("1", "1.5", "7"), (1, 4)):
        whole = ex_post_epsilon(single, SparseVectorOutcome((tests,), 0, True))
        part = ex_post_epsilon(LAW, SparseVectorOutcome((tests,), 0, True, ratio=ratio))
        assert Fraction(part) >= min(Fraction(1, 2) + Fraction(2, 3), Fraction(tests, 3)) / Fraction(ratio)
        assert float(part) == pytest.approx(float(whole) / float(ratio))


@pytest.mark.parametrize(
    "changes", [{"mode": "basic"}, {"cutoff": 2, "epsilon": 9}, {"stable_at": 40, "delta": "0.1"}], ids=str
)
def test_only_one_charge_on_a_single_threshold_has_falling_noise(changes: dict[str, Any]) -> None:
    given_: dict[str, Any] = {"mode": "single_threshold", "cutoff": 1, "epsilon": 2, "delta": 0}
    with pytest.raises(ParameterError, match=r"SparseVectorLaw\.falling"):
        certify(SparseVectorLaw(**{**given_, **changes}, threshold_scale=FINE, query_scale=QUERY, falling=True))


@pytest.mark.parametrize(("falling", "ratio"), [(None, "2"), (None, "1"), (True, "0.99")])
def test_a_ratio_that_cannot_be_is_refused(falling: Any, ratio: str) -> None:
    law = SparseVectorLaw("single_threshold", 1, 2, 0, FINE, QUERY, falling=falling)
    with pytest.raises(ParameterError, match=r"SparseVectorOutcome\.ratio"):
        ex_post_epsilon(law, SparseVectorOutcome((1,), 0, True, ratio=ratio))


# ---- how far above the threshold ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("levels", "wide", "missed"), [(100, 1.1, 0.05), (30, 1.3, 0.2), (100, 0.8, 0.01)])
def test_what_may_not_pass_passes_with_the_chance_that_is_said(levels: int, wide: float, missed: float) -> None:
    """Simulated in floats: at most `missed`, of which less than a fifth is given away."""
    stages, runs, rng = stages_of(walk=levels, levels=levels), 60_000, np.random.default_rng(5)
    assert stages is not None
    room = room_of(stages, wide=wide, missed=missed, least=1.0)
    scales = [float(ratio) for ratio in stages.ratios]
    noise, passed = rng.laplace(0, scales[-1], runs), np.zeros(runs, dtype=bool)
    for stage in reversed(range(len(scales))):
        if stage < len(scales) - 1:
            moved = rng.random(runs) >= (scales[stage + 1] / scales[stage]) ** 2
            noise = noise + moved * rng.laplace(0, scales[stage], runs)
        for _ in range(stages.ends[stage] - (0, *stages.ends)[stage]):
            passed |= rng.laplace(0, wide * scales[stage], runs) - noise > room * scales[stage]
    assert stats.binom.sf(passed.sum() - 1, runs, missed) > 1e-9
    assert stats.binom.cdf(passed.sum(), runs, 0.8 * missed) > 1e-9


@given(walk=st.integers(1, 2000), more=st.integers(0, 100))
def test_every_level_is_in_a_stage_and_scales_fall(walk: int, more: int) -> None:
    stages = stages_of(walk=walk, levels=walk + more)
    if stages is None:
        assert walk < 12
        return
    assert stages.ends == tuple(sorted(set(stages.ends)))
    assert stages.ends[-1] == walk + more
    assert stages.ratios[-1] == 1
    ratios = [stages.ratio(k) for k in range(1, walk + more + 1)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] == 2


def test_one_stage_is_one_threshold() -> None:
    """The same number as the check of one threshold, but for the rounding to cells: a hundredth of it."""
    single = calibrated(moved=1, alpha=1, beta=0.1, levels=100)
    wide = 2 * single.share / (100 - single.share)
    one = room_of(Stages((100,), (Decimal(1),)), wide=wide, missed=single.missed, least=1.0)
    known = single.ratio * (1 - single.slack)
    assert known <= one <= 1.01 * known


# ---- in accuracy first ----------------------------------------------------------------------------------------------


def some_data(rows: int = 3000) -> tuple[Any, Any]:
    x = np.random.default_rng(2).uniform(-0.5, 0.5, (rows, 2))
    return x, x @ [0.8, -0.6]


def ridge(**changes: Any) -> dpl.ex_post.AccuracyFirst:
    given_: dict[str, Any] = {"family": "ridge", "rows": 3000, "dimension": 2, "regularisation": "0.05"}
    return dpl.ex_post.AccuracyFirst(**{**given_, "target_excess_risk": "0.05", **changes})


def test_sums_of_ridge_are_tested_with_noise_that_falls_and_charged_what_was_reached() -> None:
    placed = ridge().under(Relation.REPLACE_ONE, Unit("stay"))
    stages: Any = placed.parameters()["check_stages"]
    early = 0
    for seed in range(20):
        release = placed.release(some_data(), entropy=seeded(seed))
        parts: Any = release.parts
        found, law = release.value, parts.of[0]
        assert found.reached
        stage = next(place for place, end in enumerate(stages) if found.level <= end)
        ratio = law.outcome.ratio or Decimal(1)
        assert float(ratio) == pytest.approx(2 ** (1 - stage / (len(stages) - 1)), rel=1e-9)
        paid = ex_post_epsilon(law, law.outcome)
        assert float(paid) <= float(law.epsilon) / float(ratio) * (1 + 1e-9)
        early += ratio > 1
    assert early > 5


def test_a_scope_is_charged_that_and_a_verifier_agrees() -> None:
    book = dpl.Ledger.in_memory()
    scope = book.scope("stays", unit="stay", relation="replace_one", budget=dpl.PureDP(50))
    receipt = scope.release(ridge(), some_data())
    body: Any = receipt.entry.body
    check, chain = body.parts.of
    paid = ex_post_epsilon(check, check.outcome) + chain.reached.epsilon
    assert 50 - float(scope.account().left_by_account["pure"]) == pytest.approx(float(paid))
    book.verify()


def test_a_shorter_walk_has_the_scales_of_its_last_level() -> None:
    """So its check costs less: what it would have had up to there."""
    whole = ridge().under(Relation.REPLACE_ONE, Unit("stay"))
    half = ridge(keep=whole.plan().levels // 2).under(Relation.REPLACE_ONE, Unit("stay"))
    assert float(half.plan().check_epsilon) == pytest.approx(float(whole.plan().check_epsilon) / 2)
    parts: Any = half.release(some_data(), entropy=seeded(1)).parts
    assert parts.of[0].outcome.ratio is None


@pytest.mark.parametrize(
    "changes",
    [
        {"perturbed": "output"},
        {"family": "logistic"},
        {"noise": "gaussian"},
        {"family": "logistic", "target_excess_risk": None, "target_error_rate": "0.2"},
        {"levels": 5},
    ],
    ids=str,
)
def test_any_other_walk_has_one_threshold(changes: dict[str, Any]) -> None:
    assert "check_stages" not in ridge(**changes).parameters()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_what_passes_is_as_good_as_asked(seed: int) -> None:
    """Nearly always: here the target is far above what is reached."""
    release = ridge(beta="0.000001").release(some_data(), entropy=seeded(seed))
    theta = np.array(release.value.theta)
    x, y = some_data()
    risk = float(np.mean((x @ theta - y) ** 2) / 2 + 0.025 * theta @ theta)
    assert not release.value.reached or risk < 0.05 + 0.025
