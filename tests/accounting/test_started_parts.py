"""A sequence of which only the first parts were started: what it costs, and what shows how many they were.

A count alone is a mechanism's word. It stands where the ledger granted steps, or beside an outcome that tells of as
many answers.
"""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting import filters
from dpledger.accounting.composition import (
    Composition,
    GaussianLaw,
    Group,
    LaplaceLaw,
    Parallel,
    PostProcessed,
    Repeated,
    Sequence,
    SparseVectorLaw,
    SparseVectorOutcome,
)
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.accounting.pricing import outcomes
from dpledger.accounting.pricing.costs import charge, cost, settled
from dpledger.accounting.profile import compose
from dpledger.errors import ParameterError
from dpledger.relations import Relation

ADD = Relation.ADD_REMOVE
ORDERS = (Decimal("2.5"), Decimal(9))
small = st.integers(1, 400).map(lambda n: Decimal(n) / 100)
parts = st.lists(st.one_of(small.map(PureDP), small.map(LaplaceLaw), small.map(GaussianLaw)), min_size=1, max_size=6)
CHECK = SparseVectorLaw("single_threshold", 1, 1, 0, 2, 4)


def checked(tests: int) -> SparseVectorLaw:
    """An above-threshold check that halted at its last test, or was never asked."""
    outcome = SparseVectorOutcome((tests,) if tests else (), 0, bool(tests))
    return SparseVectorLaw("single_threshold", 1, 1, 0, 2, 4, outcome=outcome)


@given(parts, st.data())
@settings(max_examples=60, deadline=None)
def test_the_first_parts_are_charged(of: list[Composition], data: st.DataObject) -> None:
    done = data.draw(st.integers(1, len(of)))
    started = cost(Sequence(tuple(of), done=done), ADD, orders=ORDERS)
    assert started == cost(Sequence(tuple(of[:done])), ADD, orders=ORDERS)
    assert outcomes.planned(Sequence(tuple(of), done=done)) == Sequence(tuple(of))


@given(parts)
@settings(max_examples=40, deadline=None)
def test_what_never_started_costs_nothing_and_what_was_planned_costs_the_most(of: list[Composition]) -> None:
    filter_ = filters.opened_by(ApproxDP(1000, "1e-6"))
    reserved = charge(filter_, Sequence(tuple(of)), ADD)
    last = dict.fromkeys(reserved, Decimal(0))
    for done in range(len(of) + 1):
        found = dict(settled(filter_, reserved, Sequence(tuple(of), done=done), ADD))
        assert all(last[name] <= found[name] <= reserved[name] for name in reserved)
        last = found
    assert last == reserved
    nothing = settled(filter_, reserved, Sequence(tuple(of), done=0), ADD)
    assert not any(nothing.values())


def test_more_parts_than_were_planned_cannot_have_started() -> None:
    with pytest.raises(ParameterError, match=r"Sequence\.done: expected at most 1, the number of parts, got 2"):
        Sequence((LaplaceLaw(1),), done=2)


def test_the_engine_reads_the_plan() -> None:
    """The stop may depend on what was published: the profile of what happened to start is no guarantee."""
    of = (LaplaceLaw(1), LaplaceLaw(2))
    assert compose(Sequence(of, done=1)).epsilon("1e-6") == compose(Sequence(of)).epsilon("1e-6")


# ---- evidence -------------------------------------------------------------------------------------------------------

ROUNDS = tuple(LaplaceLaw(Decimal(2) ** k / 10) for k in range(5))


@given(st.integers(0, 8), st.integers(0, 5))
def test_beside_an_outcome_as_many_started_as_it_tells_of_answers(tests: int, done: int) -> None:
    """Doubling: each round is tested once, and the answer of round t costs epsilon_t."""
    told = Sequence((checked(tests), Sequence(ROUNDS, done=done)))
    recorded = outcomes.recorded(told, None)
    started = max(done, min(tests, 5))
    assert recorded == Sequence((checked(tests), Sequence(ROUNDS, done=started)))
    check = cost(checked(tests), ADD).pure
    assert check is not None
    assert cost(recorded, ADD).pure == check + sum(Decimal(2) ** k / 10 for k in range(started))


@pytest.mark.parametrize(
    "told",
    [
        Sequence(ROUNDS, done=1),
        Sequence((CHECK, Sequence(ROUNDS, done=1))),
        Sequence((LaplaceLaw(1), Sequence(ROUNDS, done=1))),
        Sequence((Sequence((checked(1),)), Sequence(ROUNDS, done=1))),
        Sequence((checked(1), PostProcessed(Sequence(ROUNDS, done=1)))),
        Parallel((checked(1), Sequence(ROUNDS, done=1))),
        Group(Sequence(ROUNDS, done=1), k=2, relation=ADD),
        Repeated(Sequence((CHECK, Sequence(ROUNDS, done=1))), times=2, done=1),
    ],
    ids=str,
)
def test_a_count_that_nothing_tells_of_is_dropped(told: Composition) -> None:
    recorded = outcomes.recorded(told, None)
    assert "done=1" not in str(recorded)
    assert outcomes.planned(recorded) == outcomes.planned(told)


def test_granted_steps_of_a_sequence_stand_at_their_caps() -> None:
    told = Sequence((checked(1), Sequence(ROUNDS, done=0), LaplaceLaw(1)), done=1)
    recorded = outcomes.recorded(told, 2)
    assert recorded == Sequence((CHECK, Sequence(ROUNDS), LaplaceLaw(1)), done=2)
    assert outcomes.recorded(Sequence((checked(1), LaplaceLaw(1))), 0) == Sequence((CHECK, LaplaceLaw(1)))
    ran = outcomes.certain(Sequence((LaplaceLaw(1), LaplaceLaw(2)), done=1))
    assert ran == Sequence((LaplaceLaw(1),))


@pytest.mark.parametrize(
    "told",
    [
        Sequence((checked(0), Sequence((LaplaceLaw(1), checked(5)), done=1))),
        Sequence((checked(0), Repeated(checked(5), times=3, done=0))),
    ],
    ids=str,
)
def test_a_part_that_never_started_tells_of_no_answer(told: Composition) -> None:
    """It would stand for answers that were handed out, and cost nothing."""
    with pytest.raises(ParameterError, match="never started"):
        outcomes.require_possible(told)


def test_a_count_of_steps_is_a_stopping_rule_in_zcdp() -> None:
    filter_ = filters.opened_by(ZCDP(9))
    plan = Sequence((GaussianLaw(1), GaussianLaw(2), GaussianLaw(4)))
    reserved = charge(filter_, plan, ADD)
    assert settled(filter_, reserved, Sequence(plan.of, done=2), ADD)["rho"] == Decimal("0.625")
