"""One of two filters, fixed by the first charge: exact value iteration against every analyst of a small class, and the
twin that lets either filter admit later on, which the same analyst breaks."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from decimal import Decimal

import pytest

from dpledger.accounting import filters
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.filters import BasicFilter, Boundary, EitherFilter, Filter
from dpledger.decimals import round_up
from filter_games import UNIT, Kept, game
from price_oracles import REVEALED, Move, best_attack, lopsided

pytestmark = pytest.mark.sliced

Costs = dict[str, Cost]
Both = tuple[Kept, Kept]


@dataclass(frozen=True)
class Pair:
    """The two filters that a scope may have, and what each move costs, outcomes apart."""

    opened: Filter
    instead: Filter
    prices: tuple[tuple[str, Cost], ...]

    def start(self) -> Both:
        return tuple(filters.opening(self.opened).items()), tuple(filters.opening(self.instead).items())

    def after(self, filter_: Filter, sums: Kept, move: Move) -> Kept | None:
        """The sums with the move; None where this filter refuses it."""
        cost = dict(self.prices)[move.name]
        found = filters.with_charge(filter_, dict(sums), filters.charge(filter_, cost))
        return tuple(found.items()) if filters.admits(filter_, found) else None


@dataclass(frozen=True)
class AtFirst(Pair):
    """As the product: the first charge fixes the opened filter, unless that refuses it and the other admits it.
    `state`: the sums of both before it; afterwards those of the one that was fixed, and nothing of the other."""

    def admit(self, state: Both, move: Move) -> tuple[Both, ...] | None:
        own, other = state
        if own:
            after = self.after(self.opened, own, move)
            if after is not None:
                return ((after, ()),) * len(move.outcomes)
            if not other:
                return None
        after = self.after(self.instead, other, move)
        return None if after is None else (((), after),) * len(move.outcomes)


@dataclass(frozen=True)
class Later(Pair):
    """The broken twin: either filter admits, as each is asked for the first time, and after the first charge too."""

    def admit(self, state: Both, move: Move) -> tuple[Both, ...] | None:
        own, other = state
        first = self.after(self.opened, own, move) if own else None
        second = self.after(self.instead, other, move) if other else None
        if first is None and second is None:
            return None
        return ((first or (), second or ()),) * len(move.outcomes)


# ---- one rare loss, then a jump on its branch and an (e, d) step on the other ----------------------------------------

PLACES = 50_000  # losses are told in parts of it
FINE = 1 / PLACES
EPSILON, DELTA = Decimal(2), Decimal("0.0002")
MORE = 1 / math.expm1(0.1)  # of the order: its bound touches where a loss is 0.1 above epsilon
MIXTURE = EitherFilter(EPSILON, DELTA / 2, (Boundary(Decimal(MORE), DELTA / 2),))
BASIC = BasicFilter(EPSILON, DELTA)


def renyi(outcomes: tuple[tuple[float, int], ...]) -> float:
    """The divergence of order 1 + MORE, the larger of both directions."""
    there = sum(mass * math.exp(MORE * loss * FINE) for mass, loss in outcomes)
    back = sum(mass * math.exp(-(1 + MORE) * loss * FINE) for mass, loss in outcomes)
    return math.log(max(there, back)) / MORE


def priced(outcomes: tuple[tuple[float, int], ...]) -> Cost:
    loss = max(abs(loss) for _, loss in outcomes)
    (order,) = filters.orders(MIXTURE)
    return Cost(
        pure=Decimal(loss) / PLACES,
        rho=None,
        mu_squared=None,
        rdp={order: round_up(renyi(outcomes) * (1 + 1e-9))},
    )


def rare_then_jump() -> tuple[tuple[Move, ...], tuple[tuple[str, Cost], ...]]:
    """The likeliest loss of 1.7 after which a jump of 0.4 fits the mixture; a step that reveals all with DELTA."""

    def menu(low: int) -> tuple[tuple[float, int], ...]:
        return lopsided(1700 * PLACES // 1000, low, FINE)

    jump = lopsided(400 * PLACES // 1000, 400 * PLACES // 1000, FINE)

    def fits(low: int) -> bool:
        pair = Later(MIXTURE, BASIC, (("rare", priced(menu(low))), ("jump", priced(jump))))
        after = pair.after(MIXTURE, pair.start()[0], Move("rare", menu(low)))
        return after is not None and pair.after(MIXTURE, after, Move("jump", jump)) is not None

    low = max(low for low in range(1, 200) if fits(low))
    revealing = ((float(DELTA), REVEALED), (1 - float(DELTA), 0))
    moves = Move("rare", menu(low)), Move("jump", jump), Move("reveals", revealing)
    nothing = Cost(pure=Decimal(0), delta=DELTA, rho=None, mu_squared=None)
    return moves, (("rare", priced(menu(low))), ("jump", priced(jump)), ("reveals", nothing))


@functools.cache
def reached(kind: type[AtFirst | Later]) -> float:
    moves, prices = rare_then_jump()
    pair = kind(MIXTURE, BASIC, prices)
    return best_attack(pair, pair.start(), moves, float(EPSILON), FINE)


def test_either_filter_later_on_reaches_half_as_much_again() -> None:
    assert 1.49 < reached(Later) / float(DELTA) <= 1.5


def test_the_same_analyst_stays_within_delta_where_the_first_charge_fixes_one() -> None:
    assert 0.999 < reached(AtFirst) / float(DELTA) <= 1 + 1e-12


# ---- small mechanisms, every way of asking ---------------------------------------------------------------------------

PAIRS = (
    (EitherFilter(1, "0.05", (Boundary("1.5", "0.05"),)), BasicFilter(1, "0.1")),
    (EitherFilter("1.5", "0.02", (Boundary(2, "0.015"), Boundary("0.5", "0.005"))), BasicFilter("1.5", "0.04")),
)


@pytest.mark.parametrize(("opened", "instead"), PAIRS, ids=("one order", "two orders"))
@pytest.mark.parametrize("moves", [("failing 2", "pure 2"), ("failing 4", "zcdp 1", "pure 1")], ids=" + ".join)
def test_no_adaptive_analyst_gets_past_what_the_first_charge_fixed(
    opened: EitherFilter, instead: BasicFilter, moves: tuple[str, ...]
) -> None:
    """The first move may fill all of delta, which fixes the basic filter, or less, which fixes the mixture."""
    product, played = game(opened, *moves)
    half = Move("failing half", ((float(instead.delta_sum), REVEALED), (1 - float(instead.delta_sum), 0)))
    prices = tuple((name, cap) for name, (cap, _) in product.prices.items())
    whole = Cost(pure=Decimal(0), delta=instead.delta_sum, rho=Decimal(0), mu_squared=None)
    pair = AtFirst(opened, instead, (*prices, (half.name, whole)))
    found = best_attack(pair, pair.start(), (*played, half), float(opened.epsilon), UNIT)
    assert float(opened.delta_sum) < found <= float(instead.delta_sum) + 1e-12
