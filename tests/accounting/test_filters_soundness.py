"""Filters against the best adaptive analyst, exactly: value iteration over everything that small mechanisms can do.

The product decides what is admitted and what settles; the oracle knows the true losses. A twin of the filter that
picks its order afterwards, or refunds a Renyi price by the realised loss, is broken by the same attack.
"""

import math
from dataclasses import dataclass
from decimal import Decimal

import pytest

from dpledger.accounting import filters
from dpledger.accounting.filters import Boundary, EitherFilter, MixedFilter, PureFilter, opened_by
from dpledger.accounting.guarantees import ApproxDP, PureDP
from filter_games import UNIT, Kept, cost, game, realised
from price_oracles import Move, best_attack, lopsided, response


def either(epsilon: str, *boundaries: tuple[str, str], delta_sum: str = "0") -> EitherFilter:
    """A mixture of boundaries (order_minus_one, delta)."""
    return EitherFilter(epsilon, delta_sum, tuple(Boundary(more, delta) for more, delta in boundaries))


@pytest.mark.parametrize("boundary", [("1", "0.1", "1.5"), ("1", "0.3", "0.6"), ("1.5", "0.05", "2")])
@pytest.mark.parametrize(
    "moves",
    [
        ("pure 2", "zcdp 2"),
        ("pure 4", "zcdp 1", "pure 1"),
        ("refunded 4 1", "pure 2"),
        ("refunded 1 4", "zcdp 2"),
    ],
    ids=" + ".join,
)
def test_no_adaptive_analyst_gets_past_the_either_filter(
    boundary: tuple[str, str, str], moves: tuple[str, ...]
) -> None:
    filter_ = either(*boundary)
    product, played = game(filter_, *moves)
    reached = best_attack(product, product.start(), played, float(filter_.epsilon), UNIT)
    assert reached <= float(filter_.delta_boundary)


@pytest.mark.parametrize("moves", [("failing 2", "pure 2"), ("failing 2", "refunded 4 1", "zcdp 2")], ids=" + ".join)
def test_failures_add_up_to_at_most_their_share_of_delta(moves: tuple[str, ...]) -> None:
    filter_ = either("1", "0.1", "1.5", delta_sum="0.05")  # two failures fit
    product, played = game(filter_, *moves)
    reached = best_attack(product, product.start(), played, 1.0, UNIT)
    assert 0.039 < reached <= 0.15


@pytest.mark.parametrize("delta", ["0.03", "0.1", "0.3"])
@pytest.mark.parametrize("moves", [("pure 2", "zcdp 2"), ("refunded 4 1", "refunded 1 4", "zcdp 2")], ids=" + ".join)
def test_a_reading_holds_wherever_the_analyst_stops(moves: tuple[str, ...], delta: str) -> None:
    """The excess over the reading, which each path earns for itself, stays below the delta it was read at."""
    filter_ = either("1.5", "0.1", "1.5")
    product, played = game(filter_, *moves)

    def read(state: Kept) -> float:
        return float(filters.reading(filter_, dict(state), Decimal(delta)))

    assert best_attack(product, product.start(), played, read, UNIT) <= float(delta)


def test_no_adaptive_analyst_gets_past_the_mixed_filter() -> None:
    same = either("2", "0.05", "2")
    filter_ = MixedFilter(same.epsilon, same.delta_boundary, same.delta_sum, same.order_minus_one, same.offset)
    product, moves = game(filter_, "pure 4", "zcdp 2", "refunded 4 1")
    assert 0 < best_attack(product, product.start(), moves, 2.0, UNIT) <= 0.05


def test_no_adaptive_analyst_gets_past_the_pure_filter() -> None:
    product, moves = game(PureFilter("1.25"), "pure 4", "refunded 4 1", "refunded 1 4")
    assert best_attack(product, product.start(), moves, 1.25, UNIT) <= 1e-12


def test_the_same_moves_without_a_filter_reach_any_delta() -> None:
    class Open:
        def admit(self, state: int, move: Move) -> tuple[int, ...] | None:
            return None if state == 0 else (state - 1,) * len(move.outcomes)

    _, moves = game(either("1", "0.1", "1.5"), "pure 4", "refunded 4 1")
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
    filter_, unit = opened_by(ApproxDP(1, "0.02")), 0.04
    assert isinstance(filter_, EitherFilter)
    twin = Forgetful(1.0, float(filter_.order_minus_one), float(filter_.offset), unit)
    moves = tuple(Move(f"{low}", lopsided(1, low, unit)) for low in (7, 4))
    assert best_attack(twin, 0, moves, 1.0, unit) > 0.015


def test_a_renyi_price_is_not_refunded_by_an_outcome() -> None:
    filter_ = opened_by(ApproxDP(1, "0.02"))
    cap = cost(PureDP("0.3"), filter_)
    reserved = filters.charge(filter_, cap)
    assert reserved["mixed_pure"] == 0 < reserved["mixed_rdp"]
    settled = filters.settle(filter_, reserved, realised(cap, Decimal("0.01")))
    assert settled == {**reserved, "pure": Decimal("0.01")}
