"""Interactions of different kinds that are open at once in one scope, against the best analyst, exactly.

He opens a sparse vector, a chain, a run, a plan that is priced from its profile, what fails rarely; asks them in any
order, closes any of them, gets back what settling gives back, and opens more while the scope admits it. Value iteration
over every state finds what he reaches: never more than the budget. Twins of the rules are broken by the same attacks.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpledger.accounting import filters
from dpledger.accounting.arithmetic.conversions import best_order_minus_one, delta_of_gdp
from dpledger.accounting.composition import RandomizedResponseLaw, SparseVectorLaw
from dpledger.accounting.filters import (
    AllowanceFilter,
    BasicFilter,
    Boundary,
    EitherFilter,
    Filter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
    advanced,
    opened_by,
)
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.planning.allotting import require_certified
from dpledger.accounting.pricing import costs
from dpledger.accounting.profile import compose
from dpledger.ledger.rules.scope_state import is_exclusive
from open_games import ADD, Amounts, Game, Open, Scope, State, game
from open_interactions import (
    UNITS,
    Attested,
    Declared,
    Failing,
    Forked,
    Plan,
    Refined,
    Sharpened,
    Talk,
    Told,
    Vector,
    jump,
    rare_loss,
    rarely,
    respond,
    responses,
)

pytestmark = pytest.mark.sliced

TAIL = Decimal("0.02")
VECTOR = Vector(SparseVectorLaw("basic", 1, "0.375", 0, 8, 8))
CHAIN = Refined((1, 2), far=1)
RUN = responses(1, 2)
STEADY = responses(2, 2, 2)
BOUND = Attested(1, 3, 2)
FAILS = Failing(2, TAIL)
RARE = Plan((rare_loss(), respond(1)), TAIL)
COARSE = Refined((1, 2), far=0)
GAUSSIAN = Sharpened((Decimal("0.25"), Decimal("0.5")), (1.5, 0.5))


def mixture(epsilon: str, delta_sum: str, *boundaries: tuple[str, str]) -> EitherFilter:
    return EitherFilter(epsilon, delta_sum, tuple(Boundary(more, delta) for more, delta in boundaries))


def allowance(steps: int, epsilon_rest: Decimal, delta_rest: str) -> AllowanceFilter:
    """Of responses of two units, whose epsilon is just what the engine certifies at 0.05, and a rest."""
    law = RandomizedResponseLaw(2 * UNITS)
    upper = Decimal(compose((law, steps), relation=ADD).epsilon("0.05").upper)
    filter_ = AllowanceFilter(law, steps, f"{upper + Decimal('1e-9'):.9f}", "0.05", epsilon_rest, delta_rest)
    require_certified(filter_, ADD)
    return filter_


FILTERS: dict[str, Filter] = {
    "basic": BasicFilter("0.875", "0.06"),
    "one order": mixture("0.875", "0.04", ("1.5", "0.1")),
    "default": opened_by(ApproxDP("0.875", "0.1")),
    "mixture": mixture("0.75", "0.04", ("3", "0.03"), ("1", "0.05"), ("0.3", "0.04")),
    "allowance": allowance(4, 6 * UNITS, "0.02"),
}
MENUS: dict[str, tuple[Talk, ...]] = {
    "vector beside run": (VECTOR, RUN),
    "vector beside steps beside what fails": (VECTOR, STEADY, FAILS),
    "chain beside vector": (COARSE, VECTOR),
    "chain beside what fails": (CHAIN, FAILS),
    "declared bound beside run": (BOUND, RUN),
    "rare loss by its profile beside vector": (RARE, VECTOR),
    "rare loss by its profile beside declared bound beside run": (RARE, BOUND, RUN),
}


def promise(filter_: Filter) -> tuple[float, float]:
    budget = filters.budget_guarantee(filter_)
    assert isinstance(budget, ApproxDP)
    return float(budget.epsilon), float(budget.delta)


@functools.cache
def played(filter_: Filter, talks: tuple[Talk, ...], most: int = 2) -> Game:
    found = game(Scope(filter_, talks, most))
    assert found.most_open() == min(most, len(talks))
    return found


# ---- what holds ------------------------------------------------------------------------------------------------------


CASES = [
    pytest.param(FILTERS[name], menu, id=f"{name}, {words}")
    for name in FILTERS
    for words, menu in MENUS.items()
    if name != "allowance" or RARE not in menu  # it takes no price from a profile
]


@pytest.mark.parametrize(("filter_", "menu"), CASES)
def test_no_analyst_gets_past_a_filter_with_interactions_of_different_kinds_open_at_once(
    filter_: Filter, menu: tuple[Talk, ...]
) -> None:
    epsilon, delta = promise(filter_)
    reached = played(filter_, menu).delta(epsilon)
    assert reached <= delta
    assert FAILS not in menu or reached > 0.0195


@pytest.mark.parametrize("name", ["basic", "default", "allowance"])
def test_three_may_be_open_at_once(name: str) -> None:
    epsilon, delta = promise(FILTERS[name])
    reached = played(FILTERS[name], (Vector(VECTOR.law, most=1), FAILS, responses(1, 1)), 3).delta(epsilon)
    assert 0.0195 < reached <= delta


@pytest.mark.parametrize("menu", [(VECTOR, RUN), (COARSE, VECTOR), (BOUND, RUN)], ids=("run", "chain", "declared"))
def test_a_pure_budget_is_reached_and_never_passed(menu: tuple[Talk, ...]) -> None:
    pure = played(PureFilter("0.875"), menu)
    assert pure.delta(0.875) <= 1e-12
    assert pure.delta(0.75) > 0


def test_failures_reach_their_share_of_delta() -> None:
    """Three failures of 0.02 fit into 0.06: what else is open costs no delta, and adds none."""
    filter_ = FILTERS["basic"]
    assert played(filter_, (VECTOR, STEADY, FAILS)).delta(0.875) > 0.979 * 0.06


def test_an_allowance_is_reached_by_runs_that_overlap_and_stop_early() -> None:
    filter_ = allowance(6, Decimal(0), "0")
    reached = game(Scope(filter_, (STEADY,), 3)).delta(float(filter_.epsilon))
    assert 0.05 * (1 - 1e-6) < reached <= 0.05


def test_a_mixture_is_reached_by_a_plan_that_is_left_for_another() -> None:
    """A first step that tells a little; after one answer the plan goes on to its rare large loss, after the other it is
    left, what it still held comes back, and another plan takes it: each touches where the bound is an equality."""
    filter_ = mixture("8", "0", ("8", "0.005"), ("1", "0.005"))
    plan, other = Plan((jump(0.2, 0.2), jump(7.875, 0.2266))), Plan((jump(8.625, 0.01225),))
    reached = game(Scope(filter_, (plan, other))).delta(8.0)
    assert 0.0099 < reached <= 0.01
    assert game(Scope(filter_, (plan,))).delta(8.0) < 0.9 * reached


@pytest.mark.parametrize("delta", ["0.05"])
@pytest.mark.parametrize("menu", [(VECTOR, RUN), (COARSE, VECTOR), (BOUND, STEADY)], ids=("run", "chain", "declared"))
@pytest.mark.parametrize("name", ["default", "mixture"])
def test_a_reading_holds_wherever_the_analyst_stops_and_whatever_is_open(
    name: str, menu: tuple[Talk, ...], delta: str
) -> None:
    filter_ = mixture("0.875", "0", ("3", "0.05"), ("0.5", "0.05")) if name == "mixture" else FILTERS[name]

    @functools.cache
    def read(sums: object) -> float:
        return float(filters.reading(filter_, dict(sums), Decimal(delta)))  # type: ignore[call-overload]

    assert played(filter_, menu).delta(lambda state: read(state.sums)) <= float(delta)


# ---- budgets in other currencies -------------------------------------------------------------------------------------


OTHERS: dict[str, tuple[Talk, ...]] = {
    "vector beside Gaussian chain": (VECTOR, GAUSSIAN),
    "chain beside run": (COARSE, RUN),
    "Gaussian chain beside run beside declared bound": (GAUSSIAN, STEADY, BOUND),
}
with_others = pytest.mark.parametrize("menu", OTHERS.values(), ids=OTHERS)


@with_others
def test_no_analyst_gets_past_a_zcdp_filter(menu: tuple[Talk, ...]) -> None:
    played_ = played(ZCDPFilter("0.2"), menu)
    for order in (1.05, 1.5, 2.0, 4.0, 16.0):
        assert 0 < played_.moment(order) <= order * 0.2


@with_others
def test_no_analyst_gets_past_any_order_of_a_renyi_grid(menu: tuple[Talk, ...]) -> None:
    played_ = played(RDPFilter(("1.5", 4, 16), ("0.6", "1.2", "3.5")), menu)
    for order, epsilon in ((1.5, 0.6), (4.0, 1.2), (16.0, 3.5)):
        assert 0 < played_.moment(order) <= epsilon


@with_others
def test_no_analyst_gets_past_a_gaussian_filter(menu: tuple[Talk, ...]) -> None:
    played_ = played(GDPFilter("0.8"), menu)
    for epsilon in ("0", "0.75"):
        assert played_.delta(float(epsilon)) <= float(delta_of_gdp(Decimal("0.8"), Decimal(epsilon)))


@with_others
def test_no_analyst_gets_past_an_advanced_filter(menu: tuple[Talk, ...]) -> None:
    assert 0 < played(advanced("0.875", "0.1"), menu).delta(0.875) <= 0.1


# ---- twins -----------------------------------------------------------------------------------------------------------


class PaysAsItGoes(Scope):
    """An interaction opens at what it has lost by then, nothing, and is charged what it loses as it answers: the budget
    is looked at after the outcome."""

    def cap(self, which: int) -> Amounts:
        talk = self.talks[which]
        return self.settled(Open(which, talk.start, super().cap(which)))

    def asked(self, state: State, place: int, told: Told) -> State:
        before, after = state.open[place], super().asked(state, place, told)
        charged = self.settled(Open(before.which, told, super().cap(before.which)))
        sums = self.with_(self.without(state.sums, before.charged), charged)
        told_ = tuple(one._replace(charged=charged) if one.told is told else one for one in after.open)
        return State(sums, told_)


class PaysBackTooEarly(Scope):
    """What is settled goes on answering."""

    def closed(self, state: State, place: int) -> State | None:
        one = state.open[place]
        settled = self.settled(one)
        if settled == one.charged:
            return None
        still_open = (*state.open[:place], one._replace(charged=settled), *state.open[place + 1 :])
        return State(self.with_(self.without(state.sums, one.charged), settled), still_open)


class CountsTheLargestCap(Scope):
    """Of those that are open only the one with the largest cap is counted."""

    def admits(self, state: State, charged: Amounts) -> bool:
        settled = state.sums
        for one in state.open:
            settled = self.without(settled, one.charged)
        caps = [dict(one.charged) for one in state.open] + [dict(charged)]
        largest = {name: max(cap[name] for cap in caps) for name in caps[0]}
        return super().admits(State(settled), tuple(largest.items()))


class ReadsALossAsAGuarantee(Scope):
    """What is settled costs in every currency what an epsilon of the realised loss would have cost."""

    def settled(self, one: Open) -> Amounts:
        lost = PureDP(dict(super().settled(one))["pure"])
        return tuple((dict(one.charged) | dict(costs.charge(self.filter, lost, ADD))).items())


class LetsAllOverlap(Scope):
    """An exclusive interaction is opened beside others, and others beside it."""

    def may_overlap(self, state: State, which: int) -> bool:
        return True


class LetsWhatWasReservedStart(Scope):
    """A release that was reserved before runs while an exclusive interaction is open."""

    def may_start(self, state: State, place: int) -> bool:
        return True


SMALL: tuple[Talk, ...] = (Vector(VECTOR.law, most=1), RUN)


@pytest.mark.parametrize("twin", [PaysAsItGoes, PaysBackTooEarly, CountsTheLargestCap])
@pytest.mark.parametrize("name", ["pure", "basic"])
def test_twins_that_count_too_little_of_what_is_open_are_broken(name: str, twin: type[Scope]) -> None:
    """In the pure currencies every loss that was not counted shows."""
    filter_ = PureFilter("0.5") if name == "pure" else BasicFilter("0.5", "0.01")
    delta = 0.0 if name == "pure" else 0.01
    assert game(Scope(filter_, SMALL)).delta(0.5) <= delta + 1e-12
    assert game(twin(filter_, SMALL)).delta(0.5) > delta + 0.009


def test_a_realised_loss_is_no_guarantee_where_renyi_prices_are_added() -> None:
    """The common answer costs nearly nothing, and always pushes the same way."""
    filter_ = mixture("1", "0", (f"{best_order_minus_one(Decimal(1), Decimal('0.01'))}", "0.01"))
    drift = (Declared(Decimal("0.0625"), Decimal("0.4375")),)
    assert game(Scope(filter_, drift)).delta(1.0) <= 0.01
    assert game(ReadsALossAsAGuarantee(filter_, drift)).delta(1.0) > 0.015


# ---- why an approximate zCDP is open alone ---------------------------------------------------------------------------


FORKED = Forked(Decimal("3.55"), Decimal("0.0075"), 0.27, (8.85, 11.8))
NARROW = mixture("13.5", "0.0075", ("0.9", "0.0069"))
TWO_PLANS = (Plan((rarely(0.075, 5.475),)), responses(21))
BETWEEN: tuple[Talk, ...] = (FORKED, *TWO_PLANS)


@pytest.mark.parametrize("asked", [0, 1], ids=("revealing", "large loss"))
@pytest.mark.parametrize("side", ["left over right", "right over left"])
def test_what_is_asked_of_it_alone_keeps_its_claim(asked: int, side: str) -> None:
    """Of the laws of all that it tells, the part below a multiple of the other law leaves out delta. Its divergence
    rises with the order, so that between two orders the next one bounds it; above the last the largest loss does."""
    left, right = laws(FORKED, asked)
    most, rho = float(FORKED.delta), float(FORKED.rho)
    part, other = truncated(left, right, most) if side == "left over right" else truncated(right, left, most)
    loss = np.log(part[part > 0] / other[part > 0])
    orders = np.linspace(1.001, 4, 3000)
    moments = np.exp((orders[:, None] - 1) * loss) @ part[part > 0]
    divergences = np.log(moments) / (orders - 1)
    assert divergences[0] <= rho
    assert (divergences[1:] <= rho * orders[:-1]).all()
    assert loss.max() <= rho * orders[-1]


def laws(talk: Forked, asked: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Of everything that it tells when this is asked of it: its law under D and under D'."""
    outcomes = (*talk.left[asked], *talk.right)
    return (
        np.array([mass / 2 for mass, _ in outcomes]),
        np.array([mass * math.exp(-loss) / 2 for mass, loss in outcomes]),
    )


def truncated(
    law: np.ndarray[Any, Any], other: np.ndarray[Any, Any], most: float
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The part of `law` below so great a multiple of the other one that it lacks `most` at the most."""
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if law.sum() - np.minimum(law, middle * other).sum() > most else (low, middle)
    return np.minimum(law, high * other), other


def test_alone_it_keeps_the_budget_and_overlapping_others_it_does_not() -> None:
    """What others tell between its two answers decides what is asked of it; on one side only. Where the loss is likely
    the question is for what its guarantee leaves out, where the moments are it is for the large loss."""
    assert is_exclusive(FORKED.form, FORKED.plan)
    epsilon, delta = promise(NARROW)
    assert 0.9 * delta < game(Scope(NARROW, BETWEEN)).delta(epsilon) <= delta
    assert game(LetsAllOverlap(NARROW, BETWEEN)).delta(epsilon) > 1.15 * delta


def test_what_was_reserved_before_it_opened_breaks_it_too() -> None:
    """On the side where it is not wanted the reserved release is given back, and another takes its place."""
    releases = tuple(replace(plan, form="release") for plan in TWO_PLANS)
    epsilon, delta = promise(NARROW)
    assert 0.9 * delta < game(Scope(NARROW, (FORKED, *releases))).delta(epsilon) <= delta
    assert game(LetsWhatWasReservedStart(NARROW, (FORKED, *releases))).delta(epsilon) > 1.15 * delta
