"""How prices combine: sequences add, repeats multiply, the greatest of disjoint parts counts, a filter its budget."""

from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import (
    Composition,
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
from dpledger.accounting.filters import PureFilter, opened_by
from dpledger.accounting.guarantees import GDP, ZCDP, ApproxDP, PureDP
from dpledger.accounting.pricing.outcomes import planned
from dpledger.accounting.rules import cost
from dpledger.errors import CannotCertify, ClaimTooSmall, ParameterError
from dpledger.relations import Relation

ADD = Relation.ADD_REMOVE
ORDERS = (Decimal("2.5"), Decimal(9))
BASIC = SparseVectorLaw("basic", 3, 1, 0, 6, 12)

small = st.integers(1, 400).map(lambda n: Decimal(n) / 100)
leaves: st.SearchStrategy[Composition] = st.one_of(
    small.map(PureDP),
    small.map(LaplaceLaw),
    small.map(lambda e: ApproxDP(e, "1e-7")),
    small.map(GaussianLaw),
    small.map(ZCDP),
    small.map(GDP),
)


@given(st.lists(leaves, min_size=1, max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_order_and_grouping_do_not_matter(parts: list[Composition], random: st.DrawFn) -> None:
    whole = cost(Sequence(tuple(parts)), ADD, orders=ORDERS) if _priced(parts) else None
    shuffled = list(parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    nested = Sequence((Sequence(tuple(shuffled[:1])), *shuffled[1:]))
    if whole is not None:
        assert cost(nested, ADD, orders=ORDERS) == whole


def _priced(parts: list[Composition]) -> bool:
    """Gaussian-type leaves have no pure price and approximate ones no mu: RDP prices all of these."""
    return cost(Sequence(tuple(parts)), ADD, orders=ORDERS).rdp[ORDERS[0]] is not None


@given(leaves, st.integers(1, 10**6))
@settings(max_examples=40, deadline=None)
def test_repeating_is_multiplying(leaf: Composition, times: int) -> None:
    one, many = cost(leaf, ADD, orders=ORDERS), cost(Repeated(leaf, times=times), ADD, orders=ORDERS)
    assert many == one.times(times)
    assert many.delta == one.delta * times


@given(leaves, leaves)
@settings(max_examples=40, deadline=None)
def test_adding_a_part_never_lowers_a_price(left: Composition, right: Composition) -> None:
    one, both = cost(left, ADD, orders=ORDERS), cost(Sequence((left, right)), ADD, orders=ORDERS)
    for before, after in [
        (one.pure, both.pure),
        (one.rho, both.rho),
        (one.mu_squared, both.mu_squared),
        (one.delta, both.delta),
        (one.rdp[ORDERS[0]], both.rdp[ORDERS[0]]),
    ]:
        assert after is None or (before is not None and after >= before)


@given(leaves, leaves)
@settings(max_examples=40, deadline=None)
def test_disjoint_parts_cost_at_most_their_sequence(left: Composition, right: Composition) -> None:
    apart, together = (
        cost(Parallel((left, right)), ADD, orders=ORDERS),
        cost(Sequence((left, right)), ADD, orders=ORDERS),
    )
    assert apart.delta <= together.delta
    for order in ORDERS:
        a, b = apart.rdp[order], together.rdp[order]
        assert a is not None
        assert b is not None
        assert a <= b


def test_a_currency_that_one_part_lacks_has_no_price() -> None:
    found = cost(Sequence((LaplaceLaw(1), GaussianLaw(2))), ADD)
    assert found.pure is None
    assert found.rho is not None
    found = cost(Parallel((LaplaceLaw(1), GaussianLaw(2))), ADD)
    assert found.pure is None
    assert found.mu_squared is not None


def test_disjoint_parts_take_the_greatest_of_each_currency() -> None:
    found = cost(Parallel((ApproxDP(1, "1e-6"), ApproxDP(2, "1e-9"))), ADD)
    assert (found.pure, found.delta) == (Decimal(2), Decimal("0.000001"))


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT, Relation.LABEL_FLIP])
def test_disjoint_parts_are_refused_where_a_unit_may_move(relation: Relation) -> None:
    with pytest.raises(CannotCertify, match="add_remove only"):
        cost(Parallel((PureDP(1), PureDP(1))), relation)


@given(leaves, leaves, st.sampled_from(list(Relation)))
@settings(max_examples=40, deadline=None)
def test_parts_by_unit_take_the_greatest_of_each_currency_under_every_relation(
    left: Composition, right: Composition, relation: Relation
) -> None:
    """At most what the sequence costs, and as much where all but one cost nothing."""
    apart = cost(Parallel((left, right), by="unit"), relation, orders=ORDERS)
    one, other = cost(left, relation, orders=ORDERS), cost(right, relation, orders=ORDERS)
    assert apart == one.or_worse(other)
    together = cost(Sequence((left, right)), relation, orders=ORDERS)
    for order in ORDERS:
        a, b = apart.rdp[order], together.rdp[order]
        assert a is not None
        assert b is not None
        assert a <= b
    alone = cost(Parallel((left, Repeated(left, times=1, done=0)), by="unit"), relation, orders=ORDERS)
    assert alone == one


def test_steps_of_a_plan_that_never_started_are_not_charged() -> None:
    step = ApproxDP("0.1", "1e-7")
    stopped = cost(Repeated(step, times=100, done=7), ADD, orders=ORDERS)
    assert stopped == cost(Repeated(step, times=7), ADD, orders=ORDERS)
    assert cost(Repeated(step, times=100, done=0), ADD).pure == 0
    with pytest.raises(ParameterError, match=r"Repeated\.done: expected at most 100"):
        cost(Repeated(step, times=100, done=101), ADD)


def test_many_runs_pay_their_delta_many_times() -> None:
    """Counting it once would claim delta where independent failures reach 1 - (1 - delta)^n."""
    found = cost(Repeated(ApproxDP(1, "0.01"), times=50), ADD)
    assert found.delta >= Decimal(1) - Decimal("0.99") ** 50


def test_post_processing_is_free() -> None:
    assert cost(PostProcessed(LaplaceLaw(1)), ADD, orders=ORDERS) == cost(LaplaceLaw(1), ADD, orders=ORDERS)
    sampled = PoissonSampled(GaussianLaw(4), rate="0.1")
    inside = PoissonSampled(PostProcessed(GaussianLaw(4)), rate="0.1")
    assert cost(PostProcessed(inside), ADD, orders=ORDERS) == cost(sampled, ADD, orders=ORDERS)


# ---- sparse vector --------------------------------------------------------------------------------------------------


def ran(closed: tuple[int, ...], open_epoch: int) -> SparseVectorLaw:
    outcome = SparseVectorOutcome(closed, open_epoch, len(closed) == BASIC.cutoff)
    return SparseVectorLaw("basic", 3, 1, 0, 6, 12, outcome=outcome)


def test_a_sparse_vector_costs_its_cap_until_its_outcome_is_known() -> None:
    cap, pure = cost(BASIC, ADD, orders=ORDERS), cost(PureDP(1), ADD)
    assert (cap.pure, cap.delta, cap.rho, cap.mu_squared) == (Decimal(1), Decimal(0), pure.rho, pure.mu_squared)
    settled = cost(ran((5, 9), 100), ADD, orders=ORDERS)
    assert settled.pure == Decimal("0.833333333334")  # two epochs of a third, and one shift of a sixth
    assert (settled.rho, settled.rdp) == (cost(BASIC, ADD).rho, cost(BASIC, ADD, orders=ORDERS).rdp)
    assert cost(ran((), 0), ADD).pure == 0
    assert cost(ran((1,), 0), ADD).pure == Decimal("0.0833333333334")  # one test alone reveals 1/12


@given(st.lists(st.integers(1, 30), max_size=3).map(tuple), st.integers(0, 30))
def test_an_outcome_never_costs_more_than_the_cap(closed: tuple[int, ...], open_epoch: int) -> None:
    tree = ran(closed, 0 if len(closed) == 3 else open_epoch)
    settled, cap = cost(tree, ADD), cost(planned(tree), ADD)
    assert settled.pure is not None
    assert cap.pure is not None
    assert settled.pure <= cap.pure
    assert settled.delta == cap.delta


def test_a_sparse_vector_whose_scales_do_not_keep_its_claim_has_no_price() -> None:
    with pytest.raises(ClaimTooSmall, match=r"claims epsilon 0\.9, its scales give 1"):
        cost(SparseVectorLaw("basic", 3, "0.9", 0, 6, 12), ADD)


# ---- filters --------------------------------------------------------------------------------------------------------


def test_what_a_filter_admitted_costs_its_budget() -> None:
    either = opened_by(ApproxDP(3, "1e-6"))
    tree = Filtered(either, (PureDP("0.3"), GaussianLaw(5), ran((2,), 0)))
    assert cost(tree, ADD, orders=ORDERS) == cost(ApproxDP(3, "1e-6"), ADD, orders=ORDERS)
    assert cost(Filtered(PureFilter(2), (PureDP(1), LaplaceLaw(1))), ADD) == cost(PureDP(2), ADD)


def test_what_a_filter_would_have_refused_has_no_price() -> None:
    with pytest.raises(CannotCertify, match="part 1 of a filtered node"):
        cost(Filtered(PureFilter(2), (PureDP("1.5"), PureDP("0.6"))), ADD)
    with pytest.raises(CannotCertify, match="part 0"):
        cost(Filtered(PureFilter(2), (GaussianLaw(100),)), ADD)


def test_the_replay_of_a_filter_takes_each_part_at_its_cap_after_the_earlier_ones_settled() -> None:
    cheap, whole = ran((1,), 0), Filtered(PureFilter("1.05"), (ran((1,), 0), ran((1,), 0)))
    assert cost(Filtered(PureFilter("1.2"), (cheap, cheap)), ADD).pure == Decimal("1.2")
    with pytest.raises(CannotCertify, match="part 1"):
        cost(whole, ADD)


def test_what_no_theorem_covers_is_an_error_and_not_zero() -> None:
    with pytest.raises(CannotCertify, match="no theorem prices this repeated under add_remove"):
        cost(Repeated(PoissonSampled(ZCDP("0.1", "1e-9"), rate="0.1"), times=3), ADD)
