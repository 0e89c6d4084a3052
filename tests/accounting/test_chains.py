"""A chain of ever finer releases of one statistic: it costs what its last level costs, and never their sum.

Oracles: the joint law of two levels of a discrete Laplace chain, enumerated; Gaussian increments in exact fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting import filters
from dpledger.accounting.arithmetic.conversions import zcdp_of_pure
from dpledger.accounting.chains import ChainLaw, Level, finer, finest, is_within
from dpledger.accounting.composition import (
    Chain,
    Composition,
    DiscreteLaplaceLaw,
    GaussianLaw,
    Group,
    LaplaceLaw,
    Parallel,
    PoissonSampled,
    PostProcessed,
    Repeated,
    Sequence,
)
from dpledger.accounting.documents import parse_tree
from dpledger.accounting.ex_post.boundaries import (
    LinearBoundary,
    MixtureBoundary,
    TimeUniformBoundary,
    height,
)
from dpledger.accounting.filters import Filter
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP
from dpledger.accounting.pricing import outcomes
from dpledger.accounting.pricing.costs import charge, cost, settled
from dpledger.accounting.profile import compose
from dpledger.accounting.rules import check
from dpledger.errors import ClaimTooSmall, ParameterError
from dpledger.relations import Relation
from dpledger.schema import plain

pytestmark = pytest.mark.sliced

ADD = Relation.ADD_REMOVE
ORDERS = (Decimal("1.5"), Decimal(2), Decimal(16))
CLOSED = PureDP(0)
amounts = st.integers(1, 900).map(lambda n: Decimal(n) / 100)
Make = Callable[[Decimal], Any]
KINDS: dict[str, Make] = {
    "laplace": LaplaceLaw,
    "discrete_laplace": lambda epsilon: DiscreteLaplaceLaw(Decimal(3) / epsilon, 3),
    "gaussian": lambda mu: GaussianLaw(1 / mu),
}
"""A level by how much it tells."""
LAPLACE_KINDS = ("laplace", "discrete_laplace")
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
laplace_kinds = pytest.mark.parametrize("make", [KINDS[kind] for kind in LAPLACE_KINDS], ids=LAPLACE_KINDS)


# ---- what a chain is ------------------------------------------------------------------------------------------------


@every_kind
@given(st.lists(amounts, min_size=1, max_size=6), amounts)
@settings(max_examples=40, deadline=None)
def test_the_last_level_counts_and_not_how_many_came_before(make: Make, levels: list[Decimal], cap: Decimal) -> None:
    """Appending a level changes nothing but which is the last; one of the same scale changes nothing."""
    of, levels = make(max(*levels, cap)), sorted(levels)
    reached: Level = CLOSED
    for level in levels:
        assert finer(reached, make(level)) == make(level)
        reached = make(level)
        assert finer(reached, make(level)) == reached
        found, last = cost(Chain(of, reached), ADD, orders=ORDERS), cost(reached, ADD, orders=ORDERS)
        if isinstance(of, GaussianLaw):
            assert (found.rho, found.mu_squared, found.rdp) == (last.rho, last.mu_squared, last.rdp)
        else:
            assert found.pure == last.pure
    kept: tuple[ChainLaw, ...] = ()
    for level in levels:
        kept = finest(kept, make(level))
    assert kept == (make(levels[-1]),)


@every_kind
@given(amounts, amounts)
@settings(max_examples=40, deadline=None)
def test_a_finer_level_never_costs_less(make: Make, one: Decimal, other: Decimal) -> None:
    low, high = sorted((one, other))
    before, after = (cost(Chain(make(high), make(level)), ADD, orders=ORDERS) for level in (low, high))
    for name in ("pure", "rho", "mu_squared"):
        cheap, dear = getattr(before, name), getattr(after, name)
        assert cheap is dear is None or cheap <= dear
    assert cost(Chain(make(low)), ADD).rho <= cost(Chain(make(high)), ADD).rho  # type: ignore[operator]


@every_kind
def test_two_chains_add_and_a_plan_of_many_counts_each_at_its_cap(make: Make) -> None:
    one, other = Chain(make(Decimal(1)), make(Decimal("0.25"))), Chain(make(Decimal(2)))
    both = cost(Sequence((one, other)), ADD, orders=ORDERS)
    assert both == cost(one, ADD, orders=ORDERS) + cost(other, ADD, orders=ORDERS)
    assert cost(Repeated(one, times=3), ADD) == cost(Chain(one.of), ADD).times(3)
    assert cost(PostProcessed(one), ADD, orders=ORDERS) == cost(one, ADD, orders=ORDERS)
    assert cost(Parallel((one, other)), ADD) == cost(one, ADD).or_worse(cost(other, ADD))


@every_kind
def test_the_pair_of_a_chain_is_that_of_its_finest_level(make: Make) -> None:
    chain = Chain(make(Decimal(1)), make(Decimal("0.25")))
    for tree, alone in (
        (chain, chain.of),
        (Group(chain, k=2, relation=ADD), Group(chain.of, k=2, relation=ADD)),
        (PoissonSampled(chain, rate="0.1"), PoissonSampled(chain.of, rate="0.1")),
        (Repeated(chain, times=2), Repeated(chain.of, times=2)),
    ):
        assert compose(tree).epsilon("1e-5") == compose(alone).epsilon("1e-5")
    sampled = cost(PoissonSampled(chain, rate="0.1"), ADD, orders=ORDERS)
    assert sampled == cost(PoissonSampled(chain.of, rate="0.1"), ADD, orders=ORDERS)
    assert outcomes.certain(chain) is None
    assert outcomes.planned(chain) == Chain(chain.of)


@every_kind
@given(amounts, amounts, amounts)
def test_levels_are_compared_exactly(make: Make, one: Decimal, other: Decimal, third: Decimal) -> None:
    left, right = make(one), make(other)
    assert is_within(left, right) == (one <= other)
    assert is_within(CLOSED, left)
    assert not is_within(left, CLOSED)
    assert finer(left, right) == make(max(one, other)) == finer(right, left)
    assert finest(finest((left,), right), make(third)) == (make(max(one, other, third)),)
    strange = next(other for name, other in KINDS.items() if KINDS[name] is not make)(one)
    assert not is_within(strange, left)
    assert set(finest((left,), strange)) == {left, strange}


@pytest.mark.parametrize(
    ("of", "reached"),
    [
        (LaplaceLaw(1), LaplaceLaw("1.0000000000000000000000001")),
        (LaplaceLaw(1), GaussianLaw(4)),
        (LaplaceLaw(1), PureDP("0.5")),
        (GaussianLaw(2), GaussianLaw("1.9999999999999999999999999")),
        (DiscreteLaplaceLaw(4, 2), DiscreteLaplaceLaw(3, 2)),
        (DiscreteLaplaceLaw(4, 2), DiscreteLaplaceLaw(4, 1)),
    ],
    ids=str,
)
def test_what_is_no_level_of_the_chain_cannot_be_reached(of: ChainLaw, reached: Level) -> None:
    with pytest.raises(ParameterError, match=r"Chain\.reached: expected a level of this chain"):
        Chain(of, reached)
    written: Any = {"kind": "chain", "of": plain(of), "reached": plain(reached)}
    with pytest.raises(ParameterError, match="reached"):
        parse_tree(written)


def test_a_boundary_is_for_gaussian_noise() -> None:
    with pytest.raises(ParameterError, match=r"Chain\.boundary: expected none"):
        Chain(LaplaceLaw(1), boundary=LinearBoundary(1, "1e-6"))


# ---- Laplace kinds --------------------------------------------------------------------------------------------------

WIDE = 60  # steps to either side; what lies beyond is below 1e-17


def noise(q: Fraction, at: int) -> Fraction:
    return (1 - q) / (1 + q) * q ** abs(at)


def coarsened(old: Fraction, new: Fraction, at: int) -> Fraction:
    """The law of the older level minus the newer one: the same, or Laplace noise of the older scale added."""
    same = new / old * ((1 - old) / (1 - new)) ** 2
    return (same if at == 0 else Fraction(0)) + (1 - same) * noise(old, at)


def joint(old: Fraction, new: Fraction, first: int, second: int, statistic: int) -> Fraction:
    return noise(new, second - statistic) * coarsened(old, new, first - second)


@pytest.mark.parametrize(("old", "new"), [("1/2", "1/3"), ("3/5", "1/2"), ("2/3", "1/5")])
def test_a_two_level_chain_stopped_by_what_it_publishes_loses_what_its_last_level_does(old: str, new: str) -> None:
    """The analyst stops after the first level exactly if it is even: every transcript, and no other price fits."""
    q, r = Fraction(old), Fraction(new)
    sensitivity = 2
    scales = [Decimal(str(-1 / math.log(x))) for x in (q, r)]
    coarse, fine = (DiscreteLaplaceLaw(scale, sensitivity) for scale in scales)
    prices = [cost(Chain(fine, level), ADD).pure for level in (coarse, fine)]
    assert None not in prices
    total = Fraction(0)
    worst = [Fraction(1), Fraction(1)]
    for first in range(-WIDE, WIDE + 1):
        marginal = sum(joint(q, r, first, second, 0) for second in range(-WIDE, WIDE + 1))
        if abs(first) < 20:
            assert float(marginal) == pytest.approx(float(noise(q, first)), rel=1e-7)
        if first % 2 == 0:
            total += noise(q, first)
            worst[0] = max(worst[0], noise(q, first) / noise(q, first - sensitivity))
            continue
        for second in range(-WIDE, WIDE + 1):
            here, there = (joint(q, r, first, second, at) for at in (0, sensitivity))
            total += here
            worst[1] = max(worst[1], here / there, there / here)
    assert float(total) == pytest.approx(1, abs=1e-9)
    for ratio, price in zip(worst, prices, strict=True):
        assert math.log(ratio) == pytest.approx(float(price or 0), rel=1e-11)


def test_a_refinement_of_a_laplace_chain_is_no_step_of_the_difference() -> None:
    """U8: given the first level, the second loses up to the sum of both epsilons, not their difference."""
    q, r = Fraction(1, 2), Fraction(1, 4)
    step = max(
        joint(q, r, first, second, 0) / noise(q, first) / (joint(q, r, first, second, 1) / noise(q, first - 1))
        for first in range(-9, 10)
        for second in range(-9, 10)
    )
    assert math.log(step) == pytest.approx(math.log(2) + math.log(4))


@pytest.mark.parametrize("epsilon", ["0.5", "2", "8"])
def test_differences_of_a_laplace_chain_would_be_billed_too_low_in_zcdp(epsilon: str) -> None:
    """U8's twin: on a fine grid the differences add up to nothing, while the chain shows a whole release."""
    of = LaplaceLaw(epsilon)
    truth = [cost(of, ADD, orders=ORDERS).rdp[order] for order in ORDERS]
    steps = 1000
    differences = zcdp_of_pure(of.epsilon / steps) * steps
    chain = cost(Chain(of, LaplaceLaw(of.epsilon / steps)), ADD, orders=ORDERS)
    assert chain.rho is not None
    for order, needed in zip(ORDERS, truth, strict=True):
        assert needed is not None
        assert order * differences < needed <= order * chain.rho


@laplace_kinds
@pytest.mark.parametrize(
    ("budget", "comes_back"),
    [(PureDP(9), True), (ApproxDP(9, "1e-6"), True), (ZCDP(9), False), (GDP(9), False), (RDP((2, 8), (9, 9)), True)],
    ids=lambda one: getattr(one, "kind", ""),
)
def test_a_laplace_chain_gives_back_epsilons_alone(make: Make, budget: Any, comes_back: bool) -> None:
    filter_ = filters.opened_by(budget)
    chain = Chain(make(Decimal(3)), make(Decimal("0.75")))
    reserved = charge(filter_, outcomes.planned(chain), ADD)
    left = settled(filter_, reserved, chain, ADD)
    closed = settled(filter_, reserved, Chain(chain.of, CLOSED), ADD)
    epsilons = {name for name in reserved if "pure" in name and reserved[name]}
    assert bool(epsilons) == comes_back
    for name, amount in reserved.items():
        assert (left[name], closed[name]) == ((Decimal("0.75"), 0) if name in epsilons else (amount, amount))


def test_a_group_of_units_loses_its_multiple_of_the_last_level() -> None:
    chain = Group(Chain(LaplaceLaw(2), LaplaceLaw("0.5")), k=3, relation=ADD)
    found = cost(chain, ADD)
    assert (found.pure, found.rho) == (Decimal("1.5"), cost(Group(Chain(LaplaceLaw(2)), k=3, relation=ADD), ADD).rho)


# ---- Gaussian kind --------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8, unique=True))
def test_gaussian_refinements_are_releases_whose_prices_add_up_to_the_last_level(variances: list[int]) -> None:
    """Given the levels before, level k is a Gaussian release of (1/t_k - 1/t_{k-1})/2: they telescope."""
    falling = sorted((Fraction(t, 1000) for t in variances), reverse=True)
    precision = [1 / t for t in falling]
    increments = [(new - old) / 2 for old, new in zip([Fraction(0), *precision], precision, strict=False)]
    assert all(increment > 0 for increment in increments)
    last = GaussianLaw(Decimal(str(math.sqrt(falling[-1]))))
    rho = cost(Chain(last, last), ADD).rho
    assert rho is not None
    assert float(rho) == pytest.approx(float(sum(increments)), rel=1e-11)


@pytest.mark.parametrize(
    "filter_",
    [filters.opened_by(one) for one in (ApproxDP(9, "1e-6"), ZCDP(9), GDP(9), RDP((2, 8), (9, 9)))],
    ids=lambda one: str(one.kind),
)
@given(low=amounts, high=amounts)
@settings(max_examples=25, deadline=None)
def test_a_gaussian_chain_settles_exactly_at_its_last_level(filter_: Filter, low: Decimal, high: Decimal) -> None:
    make = KINDS["gaussian"]
    chain = Chain(make(max(low, high)), make(min(low, high)))
    assert chain.reached is not None
    for relation in Relation:
        reserved = charge(filter_, Chain(chain.of), relation)
        assert reserved == charge(filter_, chain.of, relation)
        assert settled(filter_, reserved, chain, relation) == charge(filter_, chain.reached, relation)
        closed = settled(filter_, reserved, Chain(chain.of, CLOSED), relation)
        assert not any(closed.values())


BOUNDARIES: tuple[TimeUniformBoundary, ...] = (
    LinearBoundary(1, "1e-6"),
    MixtureBoundary(1, "1e-6"),
)


def test_the_numbers_of_the_boundaries() -> None:
    """At v = 1 and delta = 1e-6; a single fixed time would allow 0.5 + 4.75342."""
    found = [cost(Chain(GaussianLaw(1), boundary=one), ADD).pure for one in BOUNDARIES[:2]]
    assert [float(one or 0) for one in found] == pytest.approx([0.5 + 5.25652, 0.5 + 7.34001], abs=5e-6)


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=lambda one: str(one.kind))
@pytest.mark.parametrize("relation", list(Relation))
def test_a_boundary_gives_a_pure_price_with_its_delta_and_no_mu(
    boundary: TimeUniformBoundary, relation: Relation
) -> None:
    shift = 2 if relation in (Relation.REPLACE_ONE, Relation.LABEL_FLIP) else 1
    chain = Chain(GaussianLaw(2), GaussianLaw(5), boundary)
    bare = cost(Chain(GaussianLaw(2), GaussianLaw(5)), relation, orders=ORDERS)
    found = cost(chain, relation, orders=ORDERS)
    v = Decimal(shift * shift) / 25
    assert found.pure is not None
    assert float(found.pure) == pytest.approx(float(v / 2 + height(boundary, v)), rel=1e-11)
    assert (found.delta, found.mu_squared) == (boundary.delta, None)
    assert (found.rho, found.rdp) == (bare.rho, bare.rdp)
    cap = cost(Chain(GaussianLaw(2), boundary=boundary), relation)
    assert cap.pure is not None
    assert found.pure < cap.pure


DOUBLINGS = range(20)


def passed(prices: list[float]) -> float:
    """How likely the loss of a Gaussian chain, at v = 1, 2, 4, ..., is above its price at some level, by quadrature:
    the density of x = (L - v/2)/sqrt(v) of the chains that were not is carried on, x' = (x + z)/sqrt(2)."""
    grid, width = np.linspace(-9, 9, 1801, retstep=True)
    step = np.exp(-((np.sqrt(2) * grid[None, :] - grid[:, None]) ** 2) / 2) / math.sqrt(math.pi) * width
    density = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
    for k, price in enumerate(prices):
        v = 2.0**k
        density = density * np.clip(((price - v / 2) / math.sqrt(v) - grid) / width + 0.5, 0, 1)
        left = float(density.sum() * width)
        density = density @ step
    return 1 - left


@pytest.mark.parametrize("delta", ["0.05", "0.001"])
def test_wherever_a_chain_stops_it_is_below_its_boundary_and_not_below_a_price_for_one_time(
    delta: str,
) -> None:
    """U6: the Gaussian tail of one fixed level, taken at a level that the outputs choose, fails far more often."""
    levels = [GaussianLaw(Decimal(str(2 ** (-k / 2)))) for k in DOUBLINGS]
    for boundary in (LinearBoundary(1, delta), MixtureBoundary(1, delta)):
        found = [cost(Chain(levels[-1], level, boundary), ADD).pure for level in levels]
        assert found == sorted(found, key=float)  # type: ignore[arg-type]
        assert 0 < passed([float(one or 0) for one in found]) <= float(delta)
    tail = NormalDist().inv_cdf(1 - float(delta))
    once = passed([2.0**k / 2 + tail * math.sqrt(2.0**k) for k in DOUBLINGS])
    assert once == pytest.approx({"0.05": 0.438, "0.001": 0.0161}[delta], rel=0.01)


def test_with_a_boundary_the_delta_stays_whatever_was_reached() -> None:
    filter_ = filters.opened_by(ApproxDP(100, "1e-5"))
    reserved = charge(filter_, Chain(GaussianLaw(2), boundary=BOUNDARIES[0]), ADD)
    for reached in (GaussianLaw(9), CLOSED):
        left = settled(filter_, reserved, Chain(GaussianLaw(2), reached, BOUNDARIES[0]), ADD)
        assert left["delta"] == reserved["delta"] == Decimal("1e-6")
        assert all(left[name] < reserved[name] for name in reserved if reserved[name] and name != "delta")
    assert not any(left[name] for name in left if name != "delta")
    assert "mu_squared" not in charge(filters.opened_by(GDP(9)), Chain(GaussianLaw(2), boundary=BOUNDARIES[0]), ADD)


def test_a_claim_about_a_chain_is_one_about_its_finest_level() -> None:
    check(PureDP(2), Chain(LaplaceLaw(2)), ADD)
    check(GDP(1), Chain(GaussianLaw(1)), ADD)
    check(ApproxDP("5.757", "1e-6"), Chain(GaussianLaw(1), boundary=BOUNDARIES[0]), ADD)
    with pytest.raises(ClaimTooSmall):
        check(PureDP(1), Chain(LaplaceLaw(2)), ADD)
    of: Composition = Chain(LaplaceLaw(2), LaplaceLaw(1))
    assert parse_tree(plain(of)) == of
