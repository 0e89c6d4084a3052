"""What a profile promises: sides, edges, relations, the algebra of trees, the curve and the trade-off."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    Filtered,
    GaussianLaw,
    LaplaceLaw,
    Parallel,
    PoissonSampled,
    PostProcessed,
    Repeated,
    Sequence,
    SparseVectorLaw,
    SparseVectorOutcome,
)
from dpledger.accounting.documents import Document, DocumentLine
from dpledger.accounting.filters import BasicFilter, Boundary, EitherFilter, Filter, PureFilter
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PureDP
from dpledger.accounting.profile import Bounds, compose
from dpledger.errors import CannotCertify, ParameterError, RelationError
from dpledger.relations import Relation, Unit
from engine_oracles import gaussian_delta, holds_delta, holds_epsilon, mp, real

STEP = PoissonSampled(GaussianLaw("1.1"), rate="0.02")


def overlap(left: Bounds, right: Bounds) -> bool:
    return max(left.lower, right.lower) <= min(left.upper, right.upper)


# ---- bounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lower", "upper"), [(2.0, 1.0), (math.nan, 1.0), (0.0, math.nan)])
def test_bounds_that_are_none_cannot_exist(lower: float, upper: float) -> None:
    with pytest.raises(ParameterError, match="Bounds"):
        Bounds(lower, upper)


def test_numbers_of_numpy_are_numbers() -> None:
    profile = compose(GaussianLaw(1))
    assert profile.epsilon(np.float64(1e-5)) == profile.epsilon("1e-5")
    assert profile.delta(np.float64(0.5)) == profile.delta("0.5")


@pytest.mark.parametrize("delta", ["-1e-9", "1.5", "nan", "inf", "none", math.nan, -0.1, 2, True, None, "1e-5x", ""])
def test_a_delta_that_is_no_probability_is_refused(delta: object) -> None:
    with pytest.raises(ParameterError, match="delta"):
        compose(GaussianLaw(1)).epsilon(delta)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", ["-1", "nan", "inf", "one", False])
def test_an_epsilon_that_is_none_is_refused(epsilon: object) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        compose(GaussianLaw(1)).delta(epsilon)  # type: ignore[arg-type]


# ---- edges ----------------------------------------------------------------------------------------------------------


def test_nothing_costs_nothing() -> None:
    for tree in (PureDP(0), ApproxDP(0, 0), GDP(0), LaplaceLaw(0), BoundedRange(0), DiscreteLaplaceLaw(1, "0.5")):
        assert compose(tree).epsilon(0) == Bounds(0.0, 0.0)
        assert compose(tree).delta(0) == Bounds(0.0, 0.0)


def test_a_delta_of_zero_costs_the_largest_loss() -> None:
    tree = Sequence(
        (Repeated(PureDP("0.1"), times=7), LaplaceLaw("0.4"), BoundedRange("0.3"), DiscreteLaplaceLaw(2, 3))
    )
    at = compose(tree).epsilon(0)
    assert at.lower <= 2.9 <= at.upper
    assert at.upper - at.lower < 1e-13
    assert compose(GaussianLaw(5)).epsilon(0) == Bounds(math.inf, math.inf)


def test_an_approximate_guarantee_gives_itself_back() -> None:
    profile = compose(ApproxDP("0.7", "1e-5"))
    at = profile.epsilon("1e-5")
    assert at.lower <= 0.7 <= at.upper <= 0.7 * (1 + 1e-14)
    assert profile.epsilon("0.99e-5") == Bounds(math.inf, math.inf)
    assert profile.epsilon("1.01e-5").upper < 0.7
    point = profile.delta("0.7")
    assert point.lower <= 1e-5 <= point.upper <= 1.0001e-5
    beyond = profile.delta(50)
    assert beyond.lower <= 1e-5 <= beyond.upper


def test_basic_composition_is_never_beaten_from_above() -> None:
    """(sum eps, sum delta) always holds, exactly at that delta."""
    at = compose(Repeated(ApproxDP("0.1", "1e-6"), times=5)).epsilon("5e-6")
    assert at.upper <= 0.5 * (1 + 1e-12)


def test_a_delta_of_one_or_above_the_advantage_costs_nothing() -> None:
    assert compose(GaussianLaw(1)).epsilon(1) == Bounds(0.0, 0.0)
    assert compose(GaussianLaw(1)).epsilon("0.5") == Bounds(0.0, 0.0)
    assert compose(ApproxDP(1, "0.5")).epsilon(1) == Bounds(0.0, 0.0)


def test_far_deltas() -> None:
    at = compose(Repeated(PoissonSampled(GaussianLaw(1), rate="0.01"), times=10**5)).epsilon("1e-300")
    assert at.lower <= 184.28111758
    assert at.upper >= 184.28111757
    assert at.upper - at.lower < 1e-4


# ---- trees ----------------------------------------------------------------------------------------------------------

LEAVES: list[Composition] = [
    GaussianLaw("2.5"),
    LaplaceLaw("0.3"),
    PureDP("0.2"),
    ApproxDP("0.2", "1e-8"),
    GDP("0.3"),
    BoundedRange("0.25"),
    DiscreteLaplaceLaw("4", 1),
    DiscreteGaussianLaw("5", 1),
    STEP,
    PoissonSampled(ApproxDP("0.9", "1e-7"), rate="0.1"),
]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.kind)
def test_repeated_is_a_sequence_of_equals(leaf: Composition) -> None:
    once = compose(Repeated(leaf, times=6)).epsilon("1e-6")
    spelled = compose(Sequence((leaf, Repeated(leaf, times=2), Sequence((leaf, leaf)), PostProcessed(leaf)))).epsilon(
        "1e-6"
    )
    assert overlap(once, spelled)
    assert once.upper > 0


@settings(max_examples=6, deadline=None)
@given(st.lists(st.sampled_from(LEAVES), min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_order_does_not_matter(leaves: list[Composition], random: object) -> None:
    shuffled = leaves[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert overlap(compose(Sequence(tuple(leaves))).epsilon("1e-6"), compose(Sequence(tuple(shuffled))).epsilon("1e-6"))


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(LEAVES), st.sampled_from(LEAVES))
def test_more_is_never_cheaper(leaf: Composition, other: Composition) -> None:
    alone, both = compose(leaf).epsilon("1e-6"), compose(Sequence((leaf, other))).epsilon("1e-6")
    assert both.upper >= alone.lower


@settings(max_examples=20, deadline=None)
@given(st.floats(0.5, 20), st.floats(1.05, 3), st.integers(1, 5000), st.sampled_from(["0.3", "1e-4", "1e-9"]))
def test_more_noise_costs_less(multiplier: float, factor: float, times: int, delta: str) -> None:
    loud = compose(Repeated(GaussianLaw(multiplier * factor), times=times)).epsilon(delta)
    quiet = compose(Repeated(GaussianLaw(multiplier), times=times)).epsilon(delta)
    assert loud.lower <= quiet.upper


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(LEAVES), st.integers(1, 40), st.sampled_from(["1e-2", "1e-5", "1e-9"]))
def test_epsilon_and_delta_undo_each_other(leaf: Composition, times: int, delta: str) -> None:
    profile = compose(Repeated(leaf, times=times))
    at = profile.epsilon(delta)
    if at.upper < math.inf:
        assert profile.delta(at.upper).lower <= float(delta) * (1 + 1e-12)
    if 0 < at.lower < math.inf:
        assert profile.delta(at.lower).upper >= float(delta) * (1 - 1e-12)


def test_parallel_parts_cost_the_largest() -> None:
    parts = (PureDP(1), GaussianLaw(2), STEP)
    at = compose(Parallel(parts)).epsilon("1e-6")
    alone = [compose(part).epsilon("1e-6") for part in parts]
    assert at == Bounds(max(b.lower for b in alone), max(b.upper for b in alone))
    nested = compose(Repeated(Parallel((PureDP("0.5"), PureDP("0.1"))), times=3)).epsilon(0)
    assert nested.lower <= 1.5 <= nested.upper <= 1.5 + 1e-12
    with pytest.raises(CannotCertify, match="parallel"):
        compose(Parallel(parts[:2]), relation=Relation.REPLACE_ONE)
    with pytest.raises(CannotCertify, match="64"):
        compose(Repeated(Parallel(parts), times=100))


def test_outcomes_do_not_change_the_plan() -> None:
    """An ex-ante profile is that of the cap: what was published is not used."""
    law = {"cutoff": 1, "epsilon": "1", "delta": "1e-6", "threshold_scale": "2", "query_scale": "4"}
    outcome = SparseVectorOutcome(closed_epochs=(), open_epoch=3, halted=False)
    plain = SparseVectorLaw(mode="single_threshold", **law)  # type: ignore[arg-type]
    done = SparseVectorLaw(mode="single_threshold", outcome=outcome, **law)  # type: ignore[arg-type]
    assert compose(plain).epsilon("1e-5") == compose(done).epsilon("1e-5")
    assert overlap(compose(plain).epsilon("1e-5"), compose(ApproxDP(1, "1e-6")).epsilon("1e-5"))
    assert compose(Repeated(STEP, times=500, done=3)).epsilon("1e-5") == compose(Repeated(STEP, times=500)).epsilon(
        "1e-5"
    )


@pytest.mark.parametrize(
    ("filter_", "epsilon", "delta"),
    [
        (PureFilter(1), "1", "0"),
        (BasicFilter(1, "1e-6"), "1", "1e-6"),
        (EitherFilter(2, "1e-7", (Boundary(10, "7e-8"), Boundary(7, "3e-8"))), "2", "2e-7"),
    ],
)
def test_a_filter_costs_its_budget_for_what_it_admits(filter_: Filter, epsilon: str, delta: str) -> None:
    tree = Filtered(filter_, (LaplaceLaw("0.01"), PureDP("0.02")))
    assert compose(tree).epsilon("1e-4") == compose(ApproxDP(epsilon, delta)).epsilon("1e-4")


@pytest.mark.parametrize("part", [GaussianLaw("0.01"), PureDP("1.5"), ApproxDP("0.1", "1e-5")])
def test_parts_that_their_filter_would_not_have_admitted_have_no_profile(part: Composition) -> None:
    """The budget is the guarantee of what was admitted: these parts were not, and cost more than it."""
    for filter_ in (PureFilter(1), BasicFilter(1, "1e-6")):
        with pytest.raises(CannotCertify, match="would not have been admitted"):
            compose(Filtered(filter_, (LaplaceLaw("0.01"), part)))


# ---- leaves with Renyi curves only ----------------------------------------------------------------------------------


def test_zcdp_is_bounded_above_by_its_conversion_and_below_by_the_rest() -> None:
    """Bun-Steinke 2016: a Gaussian of mu^2 = 2 rho is rho-zCDP, so the upper bound of the promise holds for it."""
    promise = compose(Sequence((ZCDP("0.08"), GaussianLaw(3)))).epsilon("1e-6")
    actual = compose(Sequence((GaussianLaw("2.5"), GaussianLaw(3)))).epsilon("1e-6")
    rest = compose(GaussianLaw(3)).epsilon("1e-6")
    assert promise.upper >= actual.upper
    assert promise.upper < 1.2 * actual.upper
    assert promise.lower == rest.lower
    alone = compose(ZCDP("0.08")).epsilon("1e-6")
    assert alone.lower == 0
    assert alone.upper < 0.08 + 2 * math.sqrt(0.08 * math.log(1e6))


def test_approximate_zcdp_adds_its_delta() -> None:
    assert compose(ZCDP("0.1", "1e-6")).epsilon("1e-6").upper == math.inf
    looser, exact = compose(ZCDP("0.1", "1e-6")).epsilon("2e-6"), compose(ZCDP("0.1")).epsilon("1e-6")
    assert looser.upper >= exact.upper * (1 - 1e-6)
    assert looser.upper < exact.upper * (1 + 1e-4)


def test_an_rdp_curve_is_used_at_its_orders() -> None:
    """At one order a the conversion of Canonne et al. 2020 is epsilon(a) + log1p(-1/a) - log(delta a)/(a - 1)."""
    at = compose(RDP(orders=("8",), epsilons=("0.4",))).epsilon("1e-5")
    expected = 0.4 + math.log1p(-1 / 8) - math.log(1e-5 * 8) / 7
    assert expected <= at.upper <= expected * (1 + 1e-9)
    grid = compose(RDP(orders=("2", "8", "32"), epsilons=("0.1", "0.4", "1.8"))).epsilon("1e-5")
    assert grid.upper <= at.upper
    assert compose(RDP(orders=("8",), epsilons=("0.4",))).delta("1.9").upper <= 1.01e-5 * math.exp((expected - 1.9) * 7)


def test_curves_on_a_secret_batch_are_refused() -> None:
    for leaf in (ZCDP("0.1"), RDP(orders=("2",), epsilons=("0.1",))):
        with pytest.raises(CannotCertify, match="secret batch"):
            compose(PoissonSampled(leaf, rate="0.5"))


# ---- relations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", list(Relation))
def test_the_relation_sets_the_shift_of_a_gaussian(relation: Relation) -> None:
    """Replacing a unit, or flipping its label, moves a sum by twice the bound on one contribution."""
    mu = real(2) if relation in {Relation.REPLACE_ONE, Relation.LABEL_FLIP} else real(1)
    at = compose(GaussianLaw(1), relation=relation).epsilon("1e-5")
    assert holds_epsilon(at.lower, at.upper, lambda e: gaussian_delta(mu, e), real("1e-5"))
    assert compose(GDP(1), relation=relation).epsilon("1e-5") == compose(GaussianLaw(1)).epsilon("1e-5")


def test_secret_batches_need_a_unit_that_can_be_absent() -> None:
    assert compose(STEP, relation=Relation.ZERO_OUT).epsilon("1e-5") == compose(STEP).epsilon("1e-5")
    for relation in (Relation.REPLACE_ONE, Relation.LABEL_FLIP):
        with pytest.raises(CannotCertify, match=relation.value):
            compose(PoissonSampled(LaplaceLaw(1), rate="0.1"), relation=relation)


@pytest.mark.parametrize("leaf", [PureDP(1), ApproxDP(1, "1e-6"), LaplaceLaw(1), GDP(1), DiscreteLaplaceLaw(1, 1)])
def test_a_null_unit_in_a_secret_batch_hides_under_gaussian_noise_only(leaf: Composition) -> None:
    """Of any other mechanism nobody said that it answers a batch with a null unit as it answers one without it."""
    for tree in (PoissonSampled(leaf, rate="0.1"), PoissonSampled(Sequence((GaussianLaw(1), GDP(1))), rate="0.1")):
        with pytest.raises(CannotCertify, match="Gaussian noise only"):
            compose(tree, relation=Relation.ZERO_OUT)


def test_rates_multiply_and_a_rate_of_one_is_no_sampling() -> None:
    twice = PoissonSampled(PoissonSampled(GaussianLaw(1), rate="0.5"), rate="0.04")
    assert overlap(compose(twice).epsilon("1e-5"), compose(PoissonSampled(GaussianLaw(1), rate="0.02")).epsilon("1e-5"))
    assert compose(PoissonSampled(LaplaceLaw(1), rate=1)).epsilon("1e-3") == compose(LaplaceLaw(1)).epsilon("1e-3")


def test_one_batch_read_twice_is_refused() -> None:
    with pytest.raises(CannotCertify, match="one secret batch"):
        compose(PoissonSampled(Sequence((PureDP(1), PureDP(2))), rate="0.1"))


def test_several_gaussians_on_one_batch_are_one() -> None:
    pair = PoissonSampled(Sequence((GaussianLaw(3), GaussianLaw(4))), rate="0.1")
    single = PoissonSampled(GaussianLaw("2.4"), rate="0.1")
    assert overlap(
        compose(Repeated(pair, times=300)).epsilon("1e-5"), compose(Repeated(single, times=300)).epsilon("1e-5")
    )


def test_documents_bring_their_relation() -> None:
    document = Document(Relation.REPLACE_ONE, (DocumentLine(GaussianLaw(1), count=3),))
    assert compose(document).epsilon("1e-5") == compose(
        Repeated(GaussianLaw(1), times=3), relation="replace_one"
    ).epsilon("1e-5")
    with pytest.raises(RelationError, match="replace_one"):
        compose(document, relation=Relation.ADD_REMOVE)
    one_way = Document(Relation.ADD_REMOVE, (DocumentLine(STEP, count=200),), direction="add")
    assert compose(one_way).epsilon("1e-5") == compose(Repeated(STEP, times=200), direction="add").epsilon("1e-5")
    with pytest.raises(RelationError, match="add"):
        compose(one_way, direction="remove")


def test_both_directions_cost_the_larger() -> None:
    tree = Repeated(STEP, times=300)
    both, add, remove = compose(tree), compose(tree, direction="add"), compose(tree, direction="remove")
    assert both.epsilon("1e-5").upper == max(add.epsilon("1e-5").upper, remove.epsilon("1e-5").upper)
    with pytest.raises(ParameterError, match="direction"):
        compose(tree, direction="sideways")  # type: ignore[arg-type]


@dataclass(frozen=True)
class Mechanism:
    """A mechanism as `compose` sees one: parts, and the same under a relation."""

    doubled: bool = False
    unit: Unit | None = None
    relation: Relation | None = None

    def under(self, relation: Relation, unit: Unit) -> Mechanism:
        return Mechanism(relation is Relation.REPLACE_ONE, unit, relation)

    def parts(self) -> Composition:
        return LaplaceLaw(2 if self.doubled else 1)


def test_mechanisms_are_fixed_under_the_relation_first() -> None:
    assert compose(Mechanism()).epsilon(0).upper == compose(LaplaceLaw(1)).epsilon(0).upper
    assert (
        compose(Mechanism(), relation=Relation.REPLACE_ONE).epsilon(0).upper == compose(LaplaceLaw(2)).epsilon(0).upper
    )
    counted = compose((Mechanism(), 3), (PureDP("0.5"), 2)).epsilon(0)
    assert counted.lower <= 4 <= counted.upper <= 4 + 1e-12
    with pytest.raises(ParameterError, match="at least one"):
        compose({})


def test_a_mechanism_may_name_its_relation() -> None:
    fixed = Mechanism(relation=Relation.REPLACE_ONE)
    assert compose(fixed).epsilon(0).upper == compose(LaplaceLaw(2)).epsilon(0).upper
    assert compose(fixed, PureDP(1)).epsilon(0).lower <= 3
    with pytest.raises(RelationError, match="add_remove and replace_one"):
        compose(fixed, Mechanism(relation=Relation.ADD_REMOVE))


# ---- the whole curve ------------------------------------------------------------------------------------------------


def test_the_advantage_is_the_total_variation() -> None:
    at = compose(GaussianLaw(1)).advantage()
    exact = 2 * NormalDist().cdf(0.5) - 1
    assert at.lower <= exact <= at.upper
    assert at.upper - at.lower < 1e-8


def test_the_curve_falls_from_the_advantage_to_nothing() -> None:
    profile = compose(Repeated(STEP, times=400))
    points = profile.curve(9)
    assert len(points) == 9
    assert points[0][0] == 0.0
    assert overlap(points[0][1], profile.advantage())
    assert points[-1][1].upper < 1e-11
    assert all(later.lower <= earlier.upper for (_, earlier), (_, later) in pairwise(points))
    with pytest.raises(ParameterError, match="count"):
        profile.curve(1)


@pytest.mark.parametrize("alpha", ["0", "0.003", "0.1", "0.31", "0.5", "0.9", "1"])
def test_the_trade_off_of_a_gaussian(alpha: str) -> None:
    """Dong-Roth-Su 2022: f(alpha) = Phi(Phi^-1(1 - alpha) - mu)."""
    at = compose(GaussianLaw("0.8")).tradeoff(alpha)
    normal, a = NormalDist(), float(alpha)
    exact = 1.0 if a == 0 else 0.0 if a == 1 else normal.cdf(normal.inv_cdf(1 - a) - 1.25)
    assert at.lower <= exact + 1e-12
    assert at.upper >= exact - 1e-12
    assert at.upper - at.lower < 1e-4


@pytest.mark.parametrize("alpha", ["0.01", "0.2", "0.4", "0.7"])
def test_the_trade_off_of_randomised_response(alpha: str) -> None:
    """Kairouz et al. 2015: f(alpha) = max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha))."""
    at = compose(ApproxDP(1, "0.01")).tradeoff(alpha)
    a = float(alpha)
    exact = max(0.0, 0.99 - math.e * a, (0.99 - a) / math.e)
    assert at.lower <= exact + 1e-12
    assert at.upper >= exact - 1e-12
    assert at.upper - at.lower < 1e-3


def test_points_of_the_profile_hold_the_closed_form() -> None:
    profile = compose(GaussianLaw("0.7"))
    check: Callable[[str], object] = lambda e: gaussian_delta(1 / real("0.7"), real(e))  # noqa: E731
    for epsilon in ("0", "0.5", "3", "11", "25"):
        at = profile.delta(epsilon)
        assert holds_delta(at.lower, at.upper, check(epsilon))
    assert profile.delta(Decimal("1e4")).upper <= mp.mpf("1e-300")
