"""Filters against the best adaptive analyst, exactly: value iteration over everything that small mechanisms can do.

The product decides what is admitted and what settles; the oracle knows the true losses. A twin of the filter that
picks its order afterwards, or refunds a Renyi price by the realised loss, is broken by the same attack.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import pytest
from price_oracles import Move, best_attack, lopsided, response

from dpledger.accounting import filters, rules
from dpledger.accounting.conversions import boundary_offset
from dpledger.accounting.filters import EitherFilter, Filter, MixedFilter, PureFilter, opened_by
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.accounting.prices import Cost
from dpledger.decimals import round_up
from dpledger.relations import Relation

Kept = tuple[tuple[str, filters.Sum], ...]
UNIT = 0.125


def cost(tree: PureDP | ZCDP | ApproxDP, filter_: Filter) -> Cost:
    return rules.cost(tree, Relation.ADD_REMOVE, orders=filters.orders(filter_))


def realised(cap: Cost, epsilon: Decimal) -> Cost:
    """A pure ex-post outcome: only the pure price settles."""
    return Cost(pure=epsilon, delta=cap.delta, rho=cap.rho, mu_squared=cap.mu_squared, rdp=cap.rdp)


@dataclass(frozen=True)
class Product:
    """The product's filter, told the price of each move and of each of its outcomes."""

    filter: Filter
    prices: Mapping[str, tuple[Cost, tuple[Cost, ...]]]

    def admit(self, state: Kept, move: Move) -> tuple[Kept, ...] | None:
        cap, outcomes = self.prices[move.name]
        reserved = filters.charge(self.filter, cap)
        sums = dict(state)
        if not filters.admits(self.filter, filters.with_charge(self.filter, sums, reserved)):
            return None
        settled = (filters.settle(self.filter, reserved, outcome) for outcome in outcomes)
        return tuple(tuple(filters.with_charge(self.filter, sums, charge).items()) for charge in settled)

    def start(self) -> Kept:
        return tuple(filters.opening(self.filter).items())


def game(filter_: Filter) -> tuple[Product, tuple[Move, ...]]:
    """Randomized responses declared as pure DP or as zCDP alone, and two mechanisms that are refunded when cheap."""
    prices: dict[str, tuple[Cost, tuple[Cost, ...]]] = {}
    moves = []
    for units in (2, 4):
        epsilon = Decimal(units) * Decimal(str(UNIT))
        for tree in (PureDP(epsilon), ZCDP(round_up(epsilon.__float__() * math.tanh(float(epsilon) / 2)))):
            name, price = f"{tree.kind} {units}", cost(tree, filter_)
            moves.append(Move(name, response(units, UNIT)))
            prices[name] = (price, (price, price))
    for high, low in ((4, 1), (1, 4)):
        cap = cost(PureDP(Decimal("0.5")), filter_)
        name = f"ex post {high} {low}"
        moves.append(Move(name, lopsided(high, low, UNIT)))
        prices[name] = (cap, tuple(realised(cap, Decimal(units) * Decimal(str(UNIT))) for units in (high, low)))
    return Product(filter_, prices), tuple(moves)


def either(epsilon: str, boundary: str, order_minus_one: str) -> EitherFilter:
    more, delta = Decimal(order_minus_one), Decimal(boundary)
    offset = max(Decimal(0), round_up(boundary_offset(more, delta)))
    return EitherFilter(Decimal(epsilon), delta, Decimal(0), more, offset)


@pytest.mark.parametrize(
    ("epsilon", "boundary", "order_minus_one"),
    [("1", "0.1", "1.5"), ("1.5", "0.05", "2"), ("1", "0.3", "0.6"), ("2", "0.05", "1")],
)
def test_no_adaptive_analyst_gets_past_the_either_filter(epsilon: str, boundary: str, order_minus_one: str) -> None:
    filter_ = either(epsilon, boundary, order_minus_one)
    product, moves = game(filter_)
    reached = best_attack(product, product.start(), moves, float(epsilon), UNIT)
    assert 0 < reached <= float(boundary)


def test_no_adaptive_analyst_gets_past_the_mixed_filter() -> None:
    same = either("2", "0.05", "2")
    filter_ = MixedFilter(same.epsilon, same.delta_boundary, same.delta_sum, same.order_minus_one, same.offset)
    product, moves = game(filter_)
    assert best_attack(product, product.start(), moves, 2.0, UNIT) <= 0.05


def test_no_adaptive_analyst_gets_past_the_pure_filter() -> None:
    product, moves = game(PureFilter("1.25"))
    assert best_attack(product, product.start(), moves, 1.25, UNIT) <= 1e-12


def test_an_analyst_is_refused_only_where_the_budget_ends() -> None:
    """The attack is real: without a filter the same moves reach any delta."""

    class Open:
        def admit(self, state: int, move: Move) -> tuple[int, ...] | None:
            return None if state == 0 else (state - 1,) * len(move.outcomes)

    _, moves = game(either("1", "0.1", "1.5"))
    assert best_attack(Open(), 24, moves, 1.0, UNIT) > 0.5


# ---- what the filters must not do ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frontier:
    """The broken twin: the order is chosen for each history, and pure and Renyi charges share the epsilon."""

    epsilon: float
    delta: float
    rho: float
    unit: float

    def admit(self, state: tuple[int, int], move: Move) -> tuple[tuple[int, int], ...] | None:
        steps, pure = state
        after = (steps + 1, pure) if move.name == "fine" else (steps, pure + move.outcomes[0][1])
        allowed = self.least(after[0]) + after[1] * self.unit <= self.epsilon
        return (after,) * len(move.outcomes) if allowed else None

    def least(self, steps: int) -> float:
        if steps == 0:
            return 0.0
        grid = (math.exp(0.02 * k) for k in range(-200, 300))
        return min((1 + more) * steps * self.rho + self.offset(more) for more in grid)

    def offset(self, more: float) -> float:
        return (-math.log(self.delta) + more * math.log(more / (1 + more)) - math.log1p(more)) / more


def test_choosing_the_order_afterwards_is_unsound() -> None:
    """Stop where the path is lucky, then spend what the best order of that path leaves: delta 0.014 for 0.01."""
    unit = 0.1
    twin = Frontier(epsilon=3.0, delta=0.01, rho=unit * math.tanh(unit / 2), unit=unit)
    moves = (Move("fine", response(1, unit)), *(Move(f"pure {k}", response(k, unit)) for k in range(1, 31, 2)))
    assert best_attack(twin, (0, 0), moves, 3.0, unit) > 0.0135


@dataclass(frozen=True)
class Forgetful:
    """The broken twin: a zCDP price is settled at half the square of the realised loss."""

    epsilon: float
    more: float
    offset: float

    def admit(self, state: int, move: Move) -> tuple[int, ...] | None:
        """`state`: the sum of squares of losses, in squared units."""
        cap = max(abs(gain) for _, gain in move.outcomes) ** 2
        if (1 + self.more) * (state + cap) * UNIT**2 / 2 + self.offset > self.epsilon:
            return None
        return tuple(state + gain**2 for _, gain in move.outcomes)


def test_settling_a_renyi_price_at_the_realised_loss_is_unsound() -> None:
    filter_ = opened_by(ApproxDP(1, "0.02"))
    assert isinstance(filter_, EitherFilter)
    twin = Forgetful(1.0, float(filter_.order_minus_one), float(filter_.offset))
    moves = tuple(Move(f"{high}/{low}", lopsided(high, low, UNIT)) for high, low in ((1, 8), (8, 1), (4, 1), (1, 4)))
    assert best_attack(twin, 0, moves, 1.0, UNIT) > 0.01
