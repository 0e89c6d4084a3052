"""Filters against the best adaptive analyst, exactly: value iteration over everything that small mechanisms can do.

The product decides what is admitted and what settles; the oracle knows the true losses. A twin of the filter that
picks its order afterwards, or refunds a Renyi price by the realised loss, is broken by the same attack.
"""

import functools
import math
from dataclasses import dataclass
from decimal import Decimal

import pytest

from dpledger.accounting import filters, rules
from dpledger.accounting.arithmetic.conversions import best_order_minus_one, boundary_offset
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.composition import Repeated
from dpledger.accounting.filters import (
    BasicFilter,
    Boundary,
    EitherFilter,
    Filter,
    PureFilter,
    ZCDPFilter,
    opened_by,
)
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.decimals import round_up
from dpledger.relations import Relation
from filter_games import UNIT, UNITS, Kept, Product, cost, game, realised
from price_oracles import Move, best_attack, lopsided, mp, real, response

pytestmark = pytest.mark.sliced


def either(epsilon: str, *boundaries: tuple[str, str], delta_sum: str = "0") -> EitherFilter:
    """A mixture of boundaries (order_minus_one, delta)."""
    return EitherFilter(epsilon, delta_sum, tuple(Boundary(more, delta) for more, delta in boundaries))


def allowed(filter_: EitherFilter) -> float:
    budget = filters.budget_guarantee(filter_)
    assert isinstance(budget, ApproxDP)
    return float(budget.delta)


MIXTURES = (
    either("1", ("1.5", "0.1")),
    either("1", ("0.6", "0.3")),
    either("1.5", ("2", "0.05")),
    either("1", ("1.5", "0.06"), ("0.4", "0.04")),
    either("1", ("3", "0.03"), ("1", "0.05"), ("0.3", "0.04")),
)


@pytest.mark.parametrize("filter_", MIXTURES, ids=lambda f: f"{f.epsilon} {len(f.boundaries)}")
@pytest.mark.parametrize(
    "moves",
    [
        ("pure 2", "zcdp 2"),
        ("pure 4", "zcdp 1", "pure 1"),
        ("refunded 4 1", "pure 2"),
        ("refunded 1 4", "zcdp 2"),
        ("outcome 4 1", "outcome 1 4", "zcdp 1"),
    ],
    ids=" + ".join,
)
def test_no_adaptive_analyst_gets_past_the_either_filter(filter_: EitherFilter, moves: tuple[str, ...]) -> None:
    product, played = game(filter_, *moves)
    reached = best_attack(product, product.start(), played, float(filter_.epsilon), UNIT)
    assert reached <= allowed(filter_)


@pytest.mark.parametrize("moves", [("failing 2", "pure 2"), ("failing 2", "refunded 4 1", "zcdp 2")], ids=" + ".join)
def test_failures_add_up_to_at_most_their_share_of_delta(moves: tuple[str, ...]) -> None:
    filter_ = either("1", ("1.5", "0.07"), ("0.6", "0.03"), delta_sum="0.05")  # two failures fit
    product, played = game(filter_, *moves)
    reached = best_attack(product, product.start(), played, 1.0, UNIT)
    assert 0.039 < reached <= 0.15


@pytest.mark.parametrize("delta", ["0.03", "0.1", "0.3"])
@pytest.mark.parametrize("moves", [("pure 2", "zcdp 2"), ("refunded 4 1", "refunded 1 4", "zcdp 2")], ids=" + ".join)
@pytest.mark.parametrize(
    "filter_", [either("1.5", ("1.5", "0.1")), either("1.5", ("2", "0.06"), ("0.5", "0.04"))], ids=("one", "two")
)
def test_a_reading_holds_wherever_the_analyst_stops(filter_: EitherFilter, moves: tuple[str, ...], delta: str) -> None:
    """The excess over the reading, which each path earns for itself, stays below the delta it was read at."""
    product, played = game(filter_, *moves)

    @functools.cache
    def read(state: Kept) -> float:
        return float(filters.reading(filter_, dict(state), Decimal(delta)))

    assert best_attack(product, product.start(), played, read, UNIT) <= float(delta)


BELOW: dict[str, Filter] = {
    "basic": BasicFilter(2, "0.1"),
    "either": either("1.5", ("1.5", "0.06"), ("0.4", "0.04"), delta_sum="0.1"),
    "one order": EitherFilter("1.5", "0.1", (Boundary(2, "0.1"),)),
    "zcdp": ZCDPFilter("0.15", "0.1"),
}


@pytest.mark.parametrize("delta", ["0.01", "0.02", "0.04", "0.05", "0.1"])
@pytest.mark.parametrize("name", BELOW)
def test_a_reading_below_the_delta_of_the_filter_holds_too(name: str, delta: str) -> None:
    """Where as much as may fail of what was charged is within it. Two in a hundred fail of a move, and up to five of
    them are admitted."""
    moves = ("failing 2", "zcdp 2") if name == "zcdp" else ("failing 2", "pure 2", "zcdp 2", "refunded 4 1")
    product, played = game(BELOW[name], *moves)

    @functools.cache
    def read(state: Kept) -> float:
        return float(filters.reading(BELOW[name], dict(state), Decimal(delta)))

    reached = best_attack(product, product.start(), played, read, UNIT)
    assert reached <= float(delta) + 1e-12
    if name in ("basic", "either"):
        assert (reached > 0) == (delta != "0.01")


def test_no_adaptive_analyst_gets_past_one_order() -> None:
    filter_ = EitherFilter(2, 0, (Boundary(2, "0.05"),))
    product, moves = game(filter_, "pure 4", "zcdp 2", "refunded 4 1")
    assert 0 < best_attack(product, product.start(), moves, 2.0, UNIT) <= 0.05


# ---- plans that stop when it suits, several at a time ----------------------------------------------------------------


@dataclass(frozen=True)
class Plans:
    """Plans of three responses, opened, asked and closed in any order: `state` is the sums, and of each open plan how
    many of its steps ran. What was never granted comes back when a plan closes."""

    filter: EitherFilter
    units: int
    most: int = 2

    def cost(self, done: int | None) -> Cost:
        return rules.cost(
            Repeated(PureDP(UNITS * self.units), times=3, done=done),
            Relation.ADD_REMOVE,
            orders=filters.orders(self.filter),
        )

    def admit(self, state: tuple[Kept, tuple[int, ...]], move: Move) -> tuple[tuple[Kept, tuple[int, ...]], ...] | None:
        kept, running = state
        sums, reserved = dict(kept), filters.charge(self.filter, self.cost(None))
        verb, _, place = move.name.partition(" ")
        if verb == "open":
            after = filters.with_charge(self.filter, sums, reserved)
            if len(running) == self.most or not filters.admits(self.filter, after):
                return None
            return ((tuple(after.items()), (*running, 0)),)
        if int(place) >= len(running):
            return None
        at = int(place)
        if verb == "ask":
            asked = (*running[:at], running[at] + 1, *running[at + 1 :])
            return None if running[at] == 3 else ((kept, asked), (kept, asked))
        if not running[at]:  # a plan that closes before its first step leaves everything as it was
            return None
        left = filters.settle(self.filter, reserved, self.cost(running[at]))
        settled = filters.with_charge(self.filter, filters.without_charge(self.filter, sums, reserved), left)
        return ((tuple(settled.items()), (*running[:at], *running[at + 1 :])),)


@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("filter_", MIXTURES[3:], ids=lambda f: f"{len(f.boundaries)} orders")
def test_plans_that_stop_when_it_suits_and_overlap_stay_within_delta(filter_: EitherFilter, units: int) -> None:
    still = ((1.0, 0),)
    moves = (
        Move("open", still),
        *(Move(f"ask {place}", response(units, UNIT)) for place in (0, 1)),
        *(Move(f"close {place}", still) for place in (0, 1)),
    )
    start: tuple[Kept, tuple[int, ...]] = (tuple(filters.opening(filter_).items()), ())
    reached = best_attack(Plans(filter_, units), start, moves, float(filter_.epsilon), UNIT)
    assert 0 < reached <= allowed(filter_)


def test_no_adaptive_analyst_gets_past_the_pure_filter() -> None:
    product, moves = game(PureFilter("1.25"), "pure 4", "refunded 4 1", "refunded 1 4")
    assert best_attack(product, product.start(), moves, 1.25, UNIT) <= 1e-12


def test_the_same_moves_without_a_filter_reach_any_delta() -> None:
    class Open:
        def admit(self, state: int, move: Move) -> tuple[int, ...] | None:
            return None if state == 0 else (state - 1,) * len(move.outcomes)

    _, moves = game(MIXTURES[0], "pure 4", "refunded 4 1")
    assert best_attack(Open(), 24, moves, 1.0, UNIT) > 0.5


# ---- what the filters must not do ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frontier:
    """The broken twin: the Renyi order is chosen for each history. `state`: fine steps so far; -1 once the rest of the
    budget went into one pure mechanism."""

    epsilon: float
    delta: float
    unit: float

    def admit(self, state: int, move: Move) -> tuple[int, ...] | None:
        if state < 0:
            return None
        if move.name == "fine":
            return (state + 1,) * 2 if self.spent(state + 1) <= self.epsilon else None
        rest = math.floor((self.epsilon - self.spent(state)) / self.unit + 1e-9)
        return (-1, -1) if move.outcomes[0][1] == rest else None

    def spent(self, steps: int) -> float:
        """The least over orders of the divergence of all steps, turned into an epsilon at delta."""
        orders = [math.exp(k / 30) for k in range(-100, 200)]
        return min(steps * self.divergence(more) + self.offset(more) for more in orders) if steps else 0.0

    def divergence(self, more: float) -> float:
        fall = math.log(math.cosh((more + 0.5) * self.unit)) if more * self.unit < 300 else (more + 0.5) * self.unit
        return (fall - math.log(math.cosh(self.unit / 2))) / more

    def offset(self, more: float) -> float:
        return (-math.log(self.delta) + more * math.log(more / (1 + more)) - math.log1p(more)) / more


def test_choosing_the_order_afterwards_is_unsound() -> None:
    """Stop where the path is lucky, then spend what the best order of that path leaves: delta 0.0140 for 0.01."""
    unit = 0.1
    twin = Frontier(epsilon=3.0, delta=0.01, unit=unit)
    moves = (Move("fine", response(1, unit)), *(Move(f"rest {k}", response(k, unit)) for k in range(1, 31)))
    assert best_attack(twin, 0, moves, 3.0, unit) > 0.0139


@dataclass(frozen=True)
class Forgetful:
    """The broken twin: a zCDP price is settled at half the square of the realised loss. `state`: the sum of squares."""

    epsilon: float
    more: float
    offset: float
    unit: float

    def admit(self, state: int, move: Move) -> tuple[int, ...] | None:
        cap = max(abs(gain) for _, gain in move.outcomes) ** 2
        if (1 + self.more) * (state + cap) * self.unit**2 / 2 + self.offset > self.epsilon:
            return None
        return tuple(state + gain**2 for _, gain in move.outcomes)


def test_settling_a_renyi_price_at_the_realised_loss_is_unsound() -> None:
    """The common outcome costs nearly nothing, and always pushes the same way: delta above 0.015 for 0.01."""
    unit = 0.04
    more = best_order_minus_one(Decimal(1), Decimal("0.01"))
    twin = Forgetful(1.0, float(more), float(boundary_offset(more, Decimal("0.01"))), unit)
    moves = tuple(Move(f"{low}", lopsided(1, low, unit)) for low in (7, 4))
    assert best_attack(twin, 0, moves, 1.0, unit) > 0.015


def test_a_renyi_price_is_not_refunded_by_an_outcome() -> None:
    filter_ = opened_by(ApproxDP(1, "0.02"))
    cap = cost(PureDP("0.3"), filter_)
    reserved = filters.charge(filter_, cap)
    assert reserved["mixed_pure_0"] == 0 < reserved["mixed_rdp_0"]
    settled = filters.settle(filter_, reserved, realised(cap, Decimal("0.01")))
    assert settled == {**reserved, "pure": Decimal("0.01")}


# ---- how tight a mixture is, and the twins that go beyond ------------------------------------------------------------


FINE = 0.0001
TIGHT = either("8", ("8", "0.005"), ("1", "0.005"))


def jump(name: str, up: float, down: float) -> Move:
    """Losses +up and -down: the smaller `down`, the rarer the other."""
    return Move(name, lopsided(round(up / FINE), round(down / FINE), FINE))


def renyi(move: Move, more: Decimal) -> Decimal:
    """From its definition, at 60 digits."""
    moment = mp.fsum(real(mass) * mp.exp(real(more) * gain * real(FINE)) for mass, gain in move.outcomes)
    return round_up(Decimal(str(max(mp.log(moment) / real(more), mp.mpf(0)))))


def priced(move: Move) -> Cost:
    """At every order of the mixture, and in no other currency."""
    rdp = {1 + one.order_minus_one: renyi(move, one.order_minus_one) for one in TIGHT.boundaries}
    return Cost(pure=None, rho=None, mu_squared=None, rdp=rdp)


SIDES = (jump("branch", 0.2, 0.4642), jump("after up", 8, 0.0692), jump("after down", 9.125, 0.0059))
RARER = (jump("branch", 0.9, 0.0464), jump("after up", 7.25, 2.692), jump("after down", 8.75, 0.0177))


@dataclass(frozen=True)
class Alone:
    """The twin that admits while some account is within epsilon by itself, with `delta` for it. `state`: how often each
    move ran."""

    delta: float
    moves: tuple[Move, ...]

    def admit(self, state: tuple[int, ...], move: Move) -> tuple[tuple[int, ...], ...] | None:
        after = tuple(ran + (move is one) for ran, one in zip(state, self.moves, strict=True))
        return None if self.reading(after) > 8 else (after,) * len(move.outcomes)

    def reading(self, state: tuple[int, ...]) -> float:
        """The best order of this history, at the whole `delta`."""
        return min(
            sum(ran * price for ran, price in zip(state, account, strict=True)) + offset
            for account, offset in zip(*self.prices(), strict=True)
        )

    def prices(self) -> tuple[list[list[float]], list[float]]:
        return _alone(self.moves, self.delta)


@functools.cache
def _alone(moves: tuple[Move, ...], delta: float) -> tuple[list[list[float]], list[float]]:
    more = [one.order_minus_one for one in TIGHT.boundaries]
    accounts = [[float(renyi(move, one)) for move in moves] for one in more]
    return accounts, [float(boundary_offset(one, Decimal(str(delta)))) for one in more]


def test_a_mixture_uses_all_of_its_delta_and_no_more() -> None:
    """A first step that tells a little, then one rare large loss, which touches where the bound is an equality."""
    product = Product(TIGHT, {move.name: (priced(move), (priced(move),) * 2) for move in SIDES})
    reached = best_attack(product, product.start(), SIDES, 8.0, FINE)
    alone = best_attack(Alone(0.005, SIDES), (0, 0, 0), SIDES, 8.0, FINE)
    assert alone < 0.007 < 0.0098 < reached <= 0.01


def test_every_order_at_the_whole_delta_is_unsound() -> None:
    assert best_attack(Alone(0.01, RARER), (0, 0, 0), RARER, 8.0, FINE) > 0.017


def test_reading_the_best_order_afterwards_is_unsound() -> None:
    """What no single path sees: each reads its own order, at a delta that all of them share."""

    @dataclass(frozen=True)
    class Twice:
        def admit(self, state: tuple[int, ...], move: Move) -> tuple[tuple[int, ...], ...] | None:
            after = tuple(ran + (move is one) for ran, one in zip(state, RARER, strict=True))
            return (after,) * 2 if sum(after) <= 2 else None

    assert best_attack(Twice(), (0, 0, 0), RARER, Alone(0.01, RARER).reading, FINE) > 0.017

    def read(state: tuple[int, ...]) -> float:
        totals = [
            round_up(sum((Decimal(ran) * price for ran, price in zip(state, account, strict=True)), Decimal(0)))
            for account in ([renyi(move, one.order_minus_one) for move in RARER] for one in TIGHT.boundaries)
        ]
        sums = {**filters.opening(TIGHT), "pure": (Decimal(0), sum(state))}
        sums |= {f"mixed_rdp_{place}": (total, 0) for place, total in enumerate(totals)}
        return float(filters.reading(TIGHT, sums, Decimal("0.01")))

    assert best_attack(Twice(), (0, 0, 0), RARER, functools.cache(read), FINE) <= 0.01


def test_accounts_that_leave_out_the_renyi_prices_are_unsound() -> None:
    @dataclass(frozen=True)
    class OnlyPure:
        filter: EitherFilter

        def admit(self, state: tuple[Kept, int], move: Move) -> tuple[tuple[Kept, int], ...] | None:
            cap = Cost(pure=None, rho=None, mu_squared=None, rdp=dict.fromkeys(filters.orders(self.filter), Decimal(0)))
            sums = filters.with_charge(self.filter, dict(state[0]), filters.charge(self.filter, cap))
            if state[1] == 24 or not filters.admits(self.filter, sums):
                return None
            return ((tuple(sums.items()), state[1] + 1),) * len(move.outcomes)

    _, moves = game(MIXTURES[3], "zcdp 4")
    start: tuple[Kept, int] = (tuple(filters.opening(MIXTURES[3]).items()), 0)
    assert best_attack(OnlyPure(MIXTURES[3]), start, moves, 1.0, UNIT) > 3 * allowed(MIXTURES[3])
