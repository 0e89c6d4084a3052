"""The twelve uses of a realised loss that are wrong (U1 to U12), each with what it claims, what is true, exactly, and
where the product refuses it.

| use | claimed | true |
|---|---|---|
| U1 report the realised loss as a guarantee | 0.01 | 5 |
| U2 test the budget after the outcome | 1 | 5 and what was spent before |
| U3 realised losses in advanced composition | (0.5307, 1e-6) | delta 0.2103 |
| U4 delta counted once for K runs | delta | 1 - (1-delta)^K |
| U5 the best of K hidden runs billed as one | 1 | 13.1326 |
| U6 a Gaussian tail where one happens to stop | 0.05, 1e-3, 1e-6 | 0.438, 0.0161, 1.92e-5 |
| U7 the order that is best afterwards | 0.01 | 0.0140 |
| U8 refinements as steps of the difference | 0.5 | 1.5 |
| U9 the loss of an outcome that nobody saw | 0.01 | 1.087 |
| U10 a probabilistic bound kept through a function | delta | 1/2 + delta |
| U11 the deltas of the path that was taken | 1e-9 | 1e-3 |
| U12 a budget that is raised after outputs | 1 | 5 |
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

import dpledger as dpl
from dpledger.accounting import filters
from dpledger.accounting.composition import (
    Chain,
    ExPostDP,
    ExPostOutcome,
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
    PostProcessed,
    RandomizedResponseLaw,
    Repeated,
)
from dpledger.accounting.ex_post import senses
from dpledger.accounting.ex_post.boundaries import LinearBoundary, MixtureBoundary, height
from dpledger.accounting.filters import BasicFilter, PureFilter, ZCDPFilter
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.pricing.costs import charge, cost, settled
from dpledger.accounting.rules import check
from dpledger.audit import audit_mechanism
from dpledger.decimals import ZERO
from dpledger.errors import CannotCertify, ClaimTooSmall, ScopeError
from dpledger.ledger.accounts.recomposition import attested
from dpledger.relations import Relation
from finite_mechanisms import integrated_delta

ADD = Relation.ADD_REMOVE
CHEAP, DEAR = ExPostOutcome("0.01"), ExPostOutcome(5)
COIN = ExPostDP(5, "pure")  # a published coin takes a randomised response of 0.01 or of 5


def kept(epsilon: float) -> float:
    """The chance that a randomised response keeps the bit."""
    return math.exp(epsilon) / (1 + math.exp(epsilon))


def coin(bit: bool) -> npt.NDArray[np.float64]:
    """The law of (cheap, 1), (cheap, 0), (dear, 1), (dear, 0)."""
    rows = [(kept(e), 1 - kept(e)) if bit else (1 - kept(e), kept(e)) for e in (0.01, 5)]
    return np.array(rows).ravel() / 2


def loss(p: Any, q: Any) -> float:
    return float(np.log(p / q).max())


def test_u1_a_realised_loss_is_no_guarantee() -> None:
    assert loss(coin(True), coin(False)) == pytest.approx(5)
    cheap = ExPostDP(5, "pure", outcome=CHEAP)
    assert senses.guarantee(cheap) == ApproxDP(5)
    check(PureDP(5), COIN, ADD)
    with pytest.raises(ClaimTooSmall):
        check(PureDP("0.01"), cheap, ADD)
    assert dpl.compose(cheap).epsilon(0).lower >= 4.999


def test_u2_the_budget_is_tested_before_the_outcome() -> None:
    """At its cap: a budget of 1 with 0.9 spent has no room for it, though it came out at 0.01 half of the time."""
    one = PureFilter(1)
    assert not filters.admits(one, filters.with_charge(one, filters.opening(one), charge(one, COIN, ADD)))
    six = PureFilter(6)
    spent = filters.with_charge(six, filters.opening(six), charge(six, PureDP("0.9"), ADD))
    assert filters.admits(six, filters.with_charge(six, spent, charge(six, COIN, ADD)))
    assert 0.9 + loss(coin(True), coin(False)) > 5


def test_u3_realised_losses_do_not_compose_by_their_squares() -> None:
    """Losses of -1 in one of 174 steps and of +0.01 otherwise; a hundred steps that all came out common, with
    probability 0.561."""
    a, b, steps = 1.0, 0.01, 100
    rare = (1 - math.exp(-b)) / (math.exp(a) - math.exp(-b))
    assert rare == pytest.approx(0.00576, abs=5e-6)
    assert (1 - rare) ** steps == pytest.approx(0.561, abs=5e-4)
    told = math.sqrt(2 * steps * math.log(1e6)) * b + steps * b * b / 2
    assert told == pytest.approx(0.5307, abs=5e-5)
    counts = np.arange(steps + 1)
    lost, masses = (steps - counts) * b - counts * a, stats.binom.pmf(counts, steps, rare)

    def delta(epsilon: float) -> float:
        return float((masses * np.maximum(0, -np.expm1(epsilon - lost))).sum())

    assert delta(told) == pytest.approx(0.2103, abs=5e-5)
    assert delta(0.999998) <= 1.2e-6 <= delta(0.999997)
    step = ExPostDP(1, "pure")
    advanced: ZCDPFilter = filters.advanced(3, "1e-6", "1e-7")
    reserved = charge(advanced, step, ADD)
    assert settled(advanced, reserved, ExPostDP(1, "pure", outcome=ExPostOutcome("0.01")), ADD) == reserved


@pytest.mark.parametrize("runs", [2, 10, 1000])
def test_u4_deltas_add_up(runs: int) -> None:
    """K runs fail with 1 - (1-delta)^K, which is above delta, and not above what is charged."""
    leaf = ExPostDP(1, "probabilistic", "0.0001")
    exact = 1 - (1 - 0.0001) ** runs
    assert 0.0001 < exact <= float(senses.concurrent([leaf] * runs).delta)
    assert exact <= float(cost(Repeated(leaf, times=runs), ADD).delta)
    with pytest.raises(ClaimTooSmall):
        check(ApproxDP(runs, "0.0001"), Repeated(leaf, times=runs), ADD)


def best_of_ten(bit: bool, size: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """The true bit if one of ten hidden responses of epsilon 1 shows it."""
    shown = (rng.random((size, 10)) < kept(1)).any(axis=1)
    return np.where(shown, bit, not bit)


def test_u5_hidden_runs_are_all_billed_and_a_choice_among_them_is_none_of_them() -> None:
    all_wrong = (1 - kept(1)) ** 10
    exact = math.log((1 - all_wrong) / all_wrong)
    assert exact == pytest.approx(math.log((1 + math.e) ** 10 - 1))
    assert exact == pytest.approx(13.1326, abs=5e-5)
    with pytest.raises(ClaimTooSmall):
        check(PureDP(1), Repeated(RandomizedResponseLaw(1), times=10), ADD)
    result = audit_mechanism(
        best_of_ten, True, False, PureDP(1), trials=5_000, batched=True, seed=1, stop_at_violation=False
    )
    assert result.verdict == "violation"
    assert 5 < result.epsilon_lower <= exact


LEVELS = [2.0**level for level in range(20)]  # variances of the loss, each twice the one before


def normal(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


def crossed(curve: Any) -> float:
    """P(the loss, less half its variance, is above the curve at one of the levels), by quadrature level by level: the
    standardised path is x' = (x + w)/sqrt 2."""
    unit, weights = np.polynomial.legendre.leggauss(150)
    low = -9.0
    density: npt.NDArray[np.float64] | None = None
    points = np.zeros(0)
    for variance in LEVELS:
        high = min(9.0, curve(variance) / math.sqrt(variance))
        now = (high - low) / 2 * unit + (high + low) / 2
        if density is None:
            density_now = normal(now)
        else:
            density_now = normal(now[:, None] * math.sqrt(2) - points[None, :]) * math.sqrt(2) @ density
        points, density = now, density_now * weights * (high - low) / 2
    assert density is not None
    return 1 - float(density.sum())


@pytest.mark.parametrize(("delta", "true"), [("0.05", 0.438), ("0.001", 0.0161), ("0.000001", 1.92e-5)])
def test_u6_a_tail_at_one_time_is_none_at_a_time_that_depends_on_outcomes(delta: str, true: float) -> None:
    tail = float(stats.norm.isf(float(delta)))
    assert crossed(lambda variance: tail * math.sqrt(variance)) == pytest.approx(true, rel=5e-3)
    for kind in (LinearBoundary, MixtureBoundary):
        boundary = kind(1, delta)
        found = crossed(lambda variance, psi=boundary: float(height(psi, Decimal(variance))))
        assert found <= float(delta) * (1 + 1e-6) + 1e-12
    assert cost(Chain(GaussianLaw(1)), ADD).pure is None, "without a boundary it has no such price"


def test_u8_a_refinement_is_no_release_of_the_difference() -> None:
    """Scales 2 and 1, a statistic that moves by 1: given the first level the second loses 1 + 1/2, not 1 - 1/2. Where
    the levels differ, the density of (x, y) is that of y times what joins them, which is free of the data."""

    def log_density(at: float, scale: float) -> float:
        return -abs(at) / scale

    def of_the_step(x: float, y: float) -> float:
        finer = log_density(y, 1) - log_density(y - 1, 1)
        return finer - (log_density(x, 2) - log_density(x - 1, 2))

    grid = np.linspace(-5, 5, 101)
    assert max(of_the_step(x, y) for x in grid for y in grid) == pytest.approx(1.5)
    assert max(log_density(y, 1) - log_density(y - 1, 1) for y in grid) == pytest.approx(1)
    whole = cost(LaplaceLaw(1), ADD)
    for reached in ("0.5", "0.75", "1"):
        chain = cost(Chain(LaplaceLaw(1), LaplaceLaw(reached)), ADD)
        assert (chain.rho, chain.mu_squared) == (whole.rho, whole.mu_squared)
        assert chain.pure == Decimal(reached)


def test_u9_nothing_comes_back_for_what_nobody_saw() -> None:
    """With the coin hidden a cheap branch is no comfort: the bit alone loses 1.087."""
    seen = [coin(bit)[:2] + coin(bit)[2:] for bit in (True, False)]
    assert loss(*seen) == pytest.approx(1.0874, abs=5e-4)
    assert loss(*seen) > 0.01
    cheap = ExPostDP(5, "pure", outcome=CHEAP)
    assert senses.post_processed(cheap) == COIN
    assert cost(PoissonSampled(cheap, "0.5"), ADD) == cost(PoissonSampled(COIN, "0.5"), ADD)
    assert cost(Repeated(cheap, times=3), ADD).pure == 15
    assert attested(cheap) == (cheap,), "and whose word the loss is stands in the record"


def test_u10_a_probabilistic_bound_does_not_pass_a_function() -> None:
    """The numbers are in test_senses.py (test_probabilistic_is_not). No node reads it as more than integrated."""
    delta, epsilon = 0.001, 1.0
    p = np.array([delta + 0.5, 0.5 - delta])
    q = np.array([delta * math.exp(-1.1) + 0.5 * math.exp(-1), 0.0])
    q[1] = 1 - q[0]
    assert math.log(p[0] / q[0]) > epsilon
    assert p[0] == 0.5 + delta
    assert integrated_delta([p, q], np.full(2, epsilon)) <= delta
    leaf = ExPostDP(1, "probabilistic", "0.001")
    assert senses.post_processed(leaf).sense == "integrated"
    as_integrated = ExPostDP(1, "integrated", "0.001")
    assert cost(PostProcessed(leaf), ADD) == cost(PostProcessed(as_integrated), ADD)
    with pytest.raises(CannotCertify):
        senses.in_sense(senses.post_processed(leaf), "probabilistic")


def test_u11_a_delta_is_the_plans_and_not_the_paths() -> None:
    """A published coin takes delta 1e-9 or 1e-3; on half of all paths the smaller one was taken."""
    told, planned = Decimal("1e-9"), Decimal("1e-3")
    revealing = [np.array([(1 - d) / 2, d / 2]) for d in (1e-9, 1e-3)]
    p = np.concatenate([*revealing, [0.0, 0.0]])
    q = np.concatenate([[one[0], 0.0] for one in revealing] + [[revealing[0][1], revealing[1][1]]])
    assert integrated_delta([p, q], np.zeros(6)) == pytest.approx((1e-9 + 1e-3) / 2)
    assert integrated_delta([p, q], np.zeros(6)) > float(told)
    leaf = ExPostDP(0, "integrated", planned)
    basic = BasicFilter(1, told)
    assert not filters.admits(basic, filters.with_charge(basic, filters.opening(basic), charge(basic, leaf, ADD)))
    wide = BasicFilter(1, "0.01")
    reserved = charge(wide, leaf, ADD)
    after = settled(wide, reserved, ExPostDP(0, "integrated", planned, ExPostOutcome(ZERO)), ADD)
    assert after["delta"] == reserved["delta"] == planned


def test_u12_a_budget_is_not_raised_after_outputs() -> None:
    """A budget of 1 that becomes 5 where a published bit says so is one of 5: that path may lose 5."""
    book = dpl.Ledger.in_memory()
    book.scope("rows", unit="record", relation="add_remove", budget=PureDP(1))
    with pytest.raises(ScopeError):
        book.scope("rows", unit="record", relation="add_remove", budget=PureDP(5))
    assert book.scope("rows").account().filter == PureFilter(1)
