"""Invariants of trees, filters and records that no other test states as a law; docs/testing.md lists all 23."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, reject, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.composition import (
    Chain,
    Composition,
    DiscreteLaplaceLaw,
    ExPostDP,
    ExPostOutcome,
    GaussianLaw,
    Group,
    LaplaceLaw,
    Parallel,
    PoissonSampled,
    PostProcessed,
    Repeated,
    Sequence,
    SparseVectorLaw,
    SparseVectorOutcome,
)
from dpledger.accounting.families.sparse_vector import certify
from dpledger.accounting.filters import BasicFilter, Filter, opened_by
from dpledger.accounting.guarantees import GDP, ZCDP, AccuracyFailure, ApproxDP, PrivacyFailure, PureDP
from dpledger.accounting.pricing import outcomes
from dpledger.accounting.pricing.costs import charge, cost, settled
from dpledger.accounting.rules import check
from dpledger.decimals import ZERO
from dpledger.errors import BudgetRefused, CannotCertify, ClaimTooSmall, RelationError
from dpledger.mechanisms.threshold import AboveThreshold
from dpledger.relations import Relation
from ledger_mechanisms import Once, laplace, stream

ADD = Relation.ADD_REMOVE
ORDERS = (Decimal(2), Decimal(9))
amounts = st.integers(1, 400).map(lambda hundredths: Decimal(hundredths) / 100)
deltas = st.sampled_from([Decimal(0), Decimal("1e-9"), Decimal("1e-6")])
trees: st.SearchStrategy[Composition] = st.recursive(
    st.one_of(
        amounts.map(PureDP),
        amounts.map(LaplaceLaw),
        amounts.map(GaussianLaw),
        amounts.map(ZCDP),
        amounts.map(GDP),
        st.builds(lambda epsilon, delta: ApproxDP(epsilon, delta), amounts, deltas),
        st.builds(lambda scale, far: DiscreteLaplaceLaw(scale, far), amounts, st.integers(1, 3)),
        amounts.map(LaplaceLaw).map(Chain),
        amounts.map(lambda epsilon: ExPostDP(epsilon, "pure")),
    ),
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(lambda of: Sequence(tuple(of))),
        st.lists(parts, min_size=1, max_size=3).map(lambda of: Parallel(tuple(of), by="unit")),
        st.builds(lambda part, times: Repeated(part, times=times), parts, st.integers(1, 5)),
        parts.map(PostProcessed),
    ),
    max_leaves=5,
)


def price(tree: Composition, relation: Relation = ADD) -> Cost:
    return cost(tree, relation, orders=ORDERS)


def currencies(price_: Cost) -> list[Decimal | None]:
    return [price_.pure, price_.rho, price_.mu_squared, *(price_.rdp.get(order) for order in ORDERS), price_.delta]


def at_most(one: Cost, other: Cost) -> bool:
    """In every currency; what has no price counts as infinite."""
    pairs = zip(currencies(one), currencies(other), strict=True)
    return all(more is None or (less is not None and less <= more * (1 + Decimal("1e-10"))) for less, more in pairs)


# ---- I-3: relations -------------------------------------------------------------------------------------------------


@given(trees, st.sampled_from(list(Relation)))
@settings(max_examples=50)
def test_only_group_and_converted_change_the_relation(tree: Composition, relation: Relation) -> None:
    """A sequence of a part is priced as the part under the same relation; a mechanism of another one is refused."""
    assert at_most(price(tree, relation), price(Sequence((tree,)), relation))
    assert at_most(price(Sequence((tree,)), relation), price(tree, relation))
    for other in set(Relation) - {relation}:
        if (other, relation) != (Relation.REPLACE_ONE, Relation.LABEL_FLIP):
            with pytest.raises(CannotCertify):
                price(Group(tree, k=1, relation=other), relation)


@given(trees)
@settings(max_examples=50)
def test_who_may_replace_a_record_may_flip_its_label(tree: Composition) -> None:
    replaced = Group(tree, k=1, relation=Relation.REPLACE_ONE)
    try:
        flipped = price(replaced, Relation.LABEL_FLIP)
    except CannotCertify:  # so little noise that the group has no guarantee
        reject()
    assert at_most(flipped, price(replaced, Relation.REPLACE_ONE))


@pytest.mark.parametrize("relation", [one for one in Relation if one is not ADD])
def test_a_mechanism_of_another_relation_is_refused_and_nothing_is_charged(relation: Relation) -> None:
    scope = dpl.Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=PureDP(9))
    with pytest.raises(RelationError):
        scope.release(dpl.Laplace(sensitivity=1, epsilon=1, relation=relation), 1)
    assert scope.account().admissions == ()


# ---- I-4: claims ----------------------------------------------------------------------------------------------------


@given(cap=amounts, share=st.integers(1, 99), before=trees)
@settings(max_examples=50)
def test_no_outcome_supports_a_claim(cap: Decimal, share: int, before: Composition) -> None:
    """Whatever a run lost, its claim is held to the cap: for stated losses, counted tests, levels and started parts."""
    told = ExPostDP(cap, "pure", outcome=ExPostOutcome(cap * share / 100))
    level = Chain(LaplaceLaw(cap), reached=LaplaceLaw(cap * share / 100))
    vector = replace(AboveThreshold(cap, 0, sensitivity=1).parts(), outcome=SparseVectorOutcome((), 1, halted=False))
    started = Sequence((LaplaceLaw(cap * share / 200), LaplaceLaw(cap * (200 - share) / 200)), done=1)
    for ran in (told, level, vector, started, PostProcessed(told)):
        check(PureDP(cap), ran, ADD)
        assert (price(ran).pure or ZERO) < cap
        with pytest.raises(ClaimTooSmall):
            check(PureDP(cap * Decimal("0.999")), ran, ADD)
    beside = price(before).pure
    assume(beside is not None and not price(before).delta)
    assert beside is not None
    with pytest.raises(ClaimTooSmall):
        check(PureDP(beside + cap * Decimal("0.999")), Sequence((before, told)), ADD)


# ---- I-8, I-10, I-11: monotone --------------------------------------------------------------------------------------

RISING: list[Callable[[Decimal], Composition]] = [
    PureDP,
    LaplaceLaw,
    ZCDP,
    GDP,
    lambda amount: GaussianLaw(1 / amount),
    lambda amount: DiscreteLaplaceLaw(1 / amount, 1),
    lambda amount: Chain(LaplaceLaw(amount)),
    lambda amount: Chain(GaussianLaw(1 / amount)),
    lambda amount: ExPostDP(amount, "integrated", "1e-9"),
    lambda amount: AboveThreshold(amount, 0, sensitivity=1).parts(),
]
ROUND: list[Callable[[Composition], Composition]] = [
    lambda part: Sequence((part, LaplaceLaw(1))),
    lambda part: Repeated(part, times=3),
    lambda part: Parallel((part, LaplaceLaw(1)), by="unit"),
    PostProcessed,
    lambda part: Group(part, k=2, relation=ADD),
    lambda part: PoissonSampled(part, rate="0.3"),
]


@pytest.mark.parametrize("made", RISING)
@pytest.mark.parametrize("around", ROUND)
@given(one=st.integers(2, 30), other=st.integers(2, 30))
@settings(max_examples=15, deadline=None)
def test_raising_the_parameter_of_a_part_never_lowers_a_price(made: Any, around: Any, one: int, other: int) -> None:
    low, high = (around(made(Decimal(tenths) / 8)) for tenths in sorted((one, other)))
    assert at_most(price(low), price(high))


@given(trees, st.integers(0, 3))
@settings(max_examples=50)
def test_disjoint_parts_cost_as_much_as_their_sequence_where_one_alone_costs(tree: Composition, place: int) -> None:
    parts: list[Composition] = [PureDP(0)] * 3
    parts.insert(place, tree)
    apart, together = price(Parallel(tuple(parts))), price(Sequence(tuple(parts)))
    assert at_most(apart, together)
    assert at_most(together, apart)


@given(st.lists(amounts, min_size=1, max_size=5))
def test_a_level_of_the_same_scale_changes_nothing_and_a_chain_is_its_last(levels: list[Decimal]) -> None:
    of, last = LaplaceLaw(max(levels)), LaplaceLaw(min(levels))
    assert price(Chain(of, reached=of)) == price(Chain(of))
    assert price(Chain(of, reached=last)).pure == last.epsilon


# ---- I-12: failures of utility --------------------------------------------------------------------------------------


@given(beta=st.integers(1, 99), trials=amounts)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_a_failure_of_utility_is_no_delta(beta: int, trials: Decimal) -> None:
    """It enters no claim, no price and no sum; the same tree with and without it is charged the same."""
    charged = []
    private, useful = PrivacyFailure("1e-6", "approximation"), AccuracyFailure(Decimal(beta) / 100, "within 3")
    for causes in ((private,), (private, useful)):
        scope = dpl.Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=ApproxDP(9, "1e-5"))
        claim = ApproxDP(trials, "1e-6")
        scope.release(Once(claimed=claim, made_of=claim, causes=causes), 1)
        charged.append(scope.account().admissions[-1].charged)
    assert charged[0] == charged[1]
    assert charged[0]["delta"] == Decimal("1e-6")


# ---- I-17: senses ---------------------------------------------------------------------------------------------------


@given(epsilon=amounts, delta=deltas.filter(bool), share=st.integers(0, 100))
@settings(max_examples=30)
def test_a_probabilistic_bound_is_priced_as_an_integrated_one_below_every_node(
    epsilon: Decimal, delta: Decimal, share: int
) -> None:
    loss = ExPostOutcome(epsilon * share / 100)
    probabilistic, integrated = (ExPostDP(epsilon, sense, delta, loss) for sense in ("probabilistic", "integrated"))
    for around in ROUND:
        assert price(around(probabilistic)) == price(around(integrated))


# ---- I-20: scales ---------------------------------------------------------------------------------------------------


@given(threshold=st.integers(1, 60), query=st.integers(1, 60), epsilon=amounts, monotone=st.booleans())
def test_scales_that_give_more_than_they_claim_are_refused(
    threshold: int, query: int, epsilon: Decimal, monotone: bool
) -> None:
    """Exactly where 1/threshold_scale + 2/query_scale (monotone 1/query_scale) is above epsilon."""
    b1, b2 = Decimal(threshold) / 8, Decimal(query) / 8
    law = SparseVectorLaw("single_threshold", 1, epsilon, 0, b1, b2, monotone=True if monotone else None)
    needed = (Decimal(1) / b1) + (1 if monotone else 2) / b2
    assume(abs(needed - epsilon) > Decimal("1e-20"))
    if needed > epsilon:
        for refused in (certify, price):
            with pytest.raises(ClaimTooSmall):
                refused(law)
    else:
        assert price(law).pure == epsilon


# ---- I-22: interleaving ---------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["0.25", "0.5", "0.75"]), min_size=1, max_size=7))
@settings(max_examples=25, deadline=None)
def test_the_caps_of_all_that_is_open_are_reserved_together(epsilons: list[str]) -> None:
    """What would pass the budget of 2 is refused, and a smaller one may follow; a release between them counts too."""
    scope = dpl.Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=PureDP(2))
    held, sessions = Decimal("0.1"), []
    scope.release(laplace("0.1"), 1)
    for epsilon in epsilons:
        if held + Decimal(epsilon) > 2:
            with pytest.raises(BudgetRefused):
                scope.open(stream(epsilon), None)
        else:
            sessions.append(scope.open(stream(epsilon), None))
            held += Decimal(epsilon)
        assert sum(one.charged["pure"] for one in scope.account().admissions) == held
    for session in sessions:
        session.close()
    assert sum(one.charged["pure"] for one in scope.account().admissions) == Decimal("0.1"), "none was asked"


# ---- I-6: what comes back -------------------------------------------------------------------------------------------


@given(cap=amounts, share=st.integers(0, 100), delta=deltas, wide=st.booleans())
@settings(max_examples=50)
def test_a_loss_lies_between_nothing_and_its_cap_and_delta_stays(
    cap: Decimal, share: int, delta: Decimal, wide: bool
) -> None:
    from_filter: Filter = BasicFilter(9, "0.01") if wide else opened_by(ApproxDP(9, "0.01"))
    leaf = ExPostDP(cap, "integrated", delta)
    ran = replace(leaf, outcome=ExPostOutcome(cap * share / 100))
    assert outcomes.planned(ran) == leaf
    reserved = charge(from_filter, leaf, ADD)
    after = settled(from_filter, reserved, ran, ADD)
    assert after["delta"] == reserved["delta"]
    for name, amount in after.items():
        assert 0 <= amount <= reserved[name]
