"""Odometers: what a charge counts, and that no adaptive analyst, who stops where she likes, gets past the reading."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from itertools import repeat

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom, norm

from dpledger.accounting.arithmetic.conversions import zcdp_of_pure
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.ex_post.odometer import Odometer, Spend, read, spend
from dpledger.decimals import add
from dpledger.errors import ParameterError
from exact_tests import SIGNIFICANCE
from price_oracles import Move, best_attack, failing, lopsided, response

pytestmark = pytest.mark.sliced

UNIT = 0.25
ODOMETER = Odometer("linear", tuning="0.5", delta_boundary="0.1", delta_sum="0.05")
KINDS = ("linear", "mixture")


def pure(epsilon: float, delta: str = "0") -> Cost:
    exact = Decimal(str(epsilon))
    return Cost(pure=exact, delta=Decimal(delta), rho=zcdp_of_pure(exact), mu_squared=None)


# ---- what a charge counts -------------------------------------------------------------------------------------------


def test_a_fine_charge_counts_in_rho_and_a_coarse_one_in_pure() -> None:
    fine, coarse = spend(ODOMETER, pure(0.25)), spend(ODOMETER, pure(1))
    nothing = Decimal(0)
    assert fine == Spend(nothing, zcdp_of_pure(Decimal("0.25")), nothing)
    assert coarse == Spend(Decimal(1), nothing, nothing)


def test_what_settles_stays_in_its_currency_and_keeps_its_delta() -> None:
    free = Cost(pure=Decimal(0), rho=Decimal(0), mu_squared=None)
    assert spend(ODOMETER, pure(1, "0.01"), pure(0.5)) == Spend(Decimal("0.5"), Decimal(0), Decimal("0.01"))
    assert spend(ODOMETER, pure(1, "0.01"), pure(3)) == spend(ODOMETER, pure(1, "0.01"))
    assert spend(ODOMETER, pure(0.25), free) == Spend(Decimal(0), Decimal(0), Decimal(0))


def test_while_nothing_counts_in_rho_the_reading_is_the_pure_sum() -> None:
    assert read(ODOMETER, []).epsilon_upper == 0
    assert read(ODOMETER, [spend(ODOMETER, pure(1))] * 3).epsilon_upper == 3


def test_without_a_price_or_beyond_its_deltas_nothing_is_known() -> None:
    unpriced = spend(ODOMETER, Cost(pure=None, rho=None, mu_squared=Decimal(1)))
    assert read(ODOMETER, [unpriced]).epsilon_upper.is_infinite()
    most = [spend(ODOMETER, pure(1, "0.05"))]
    assert read(ODOMETER, most).epsilon_upper == 1
    assert read(ODOMETER, [*most, spend(ODOMETER, pure(1, "1e-30"))]).epsilon_upper.is_infinite()
    assert read(ODOMETER, most).delta == Decimal("0.15")


def test_the_two_deltas_leave_room() -> None:
    with pytest.raises(ParameterError, match="delta_sum"):
        Odometer("mixture", tuning=1, delta_boundary="0.5", delta_sum="0.5")
    with pytest.raises(ParameterError, match="boundary"):
        Odometer("fixed_time", tuning=1, delta_boundary="0.5")  # type: ignore[arg-type]


amounts = st.integers(1, 400).map(lambda n: n / 100)


@given(st.sampled_from(KINDS), st.lists(amounts, max_size=6), amounts, st.randoms())
@settings(max_examples=40, deadline=None)
def test_order_changes_nothing_and_more_is_no_less(
    kind: str, charged: list[float], more: float, random: object
) -> None:
    odometer = Odometer(kind, tuning="0.5", delta_boundary="0.1")  # type: ignore[arg-type]
    spends = [spend(odometer, pure(one)) for one in charged]
    shuffled = sorted(spends, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert read(odometer, shuffled) == read(odometer, spends)
    larger = read(odometer, [*spends, spend(odometer, pure(more))])
    assert larger.epsilon_upper >= read(odometer, spends).epsilon_upper


# ---- every analyst of a small class, exactly ------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """A state: how many moves are left, and what was counted."""

    left: int
    fine: int = 0
    failing: int = 0
    pure_units: int = 0


@dataclass(frozen=True)
class Game:
    """Fine responses count in rho, lopsided ones in pure, refunded to the realised loss, failing ones with a delta."""

    def admit(self, state: Shown, move: Move) -> tuple[Shown, ...] | None:
        if not state.left:
            return None
        after = replace(state, left=state.left - 1)
        match move.name:
            case "fine":
                return (replace(after, fine=state.fine + 1),) * 2
            case "failing":
                return (replace(after, failing=state.failing + 1),) * 3
            case _:
                return tuple(replace(after, pure_units=state.pure_units + abs(loss)) for _, loss in move.outcomes)


MOVES = (
    Move("fine", response(1, UNIT)),
    Move("lopsided", lopsided(4, 1, UNIT)),
    Move("failing", failing(1, 0.02, UNIT)),
)


def reading(odometer: Odometer, deviation: bool = True) -> Callable[[Shown], float]:
    @cache
    def shown(state: Shown) -> float:
        spends = [
            *repeat(spend(odometer, pure(UNIT)), state.fine),
            *repeat(spend(odometer, pure(UNIT, "0.02")), state.failing),
            *repeat(spend(odometer, pure(UNIT * 4), pure(UNIT)), state.pure_units),
        ]
        found = read(odometer, spends)
        return float(found.epsilon_upper if deviation else add(found.pure, found.rho))

    return shown


@pytest.mark.parametrize("kind", KINDS)
def test_no_adaptive_analyst_gets_past_the_odometer(kind: str) -> None:
    odometer = Odometer(kind, tuning="0.5", delta_boundary="0.1", delta_sum="0.05")  # type: ignore[arg-type]
    reached = best_attack(Game(), Shown(18), MOVES, reading(odometer), UNIT)
    print(kind, reached)
    assert 0.039 < reached <= 0.15


def test_all_of_delta_sum_is_reached_by_failures_alone() -> None:
    """0.02 twice; a third charge passes `delta_sum`, and nothing is claimed any more."""
    reached = best_attack(Game(), Shown(14), MOVES[2:], reading(ODOMETER), UNIT)
    assert reached == pytest.approx(1 - 0.98**2, abs=1e-3)


def test_the_sum_of_rho_alone_is_no_odometer() -> None:
    assert best_attack(Game(), Shown(14), MOVES[:1], reading(ODOMETER, deviation=False), UNIT) > 0.15


@dataclass(frozen=True)
class Realised:
    """Lopsided releases that count in rho: at their cap, or, in the twin, at what the realised loss would cost."""

    refunds: bool

    def admit(self, state: Shown, move: Move) -> tuple[Shown, ...] | None:
        if not state.left:
            return None
        after = replace(state, left=state.left - 1)
        small = replace(after, fine=state.fine + 1) if self.refunds else replace(after, failing=state.failing + 1)
        return small, replace(after, failing=state.failing + 1)


@pytest.mark.parametrize("refunds", [False, True])
def test_settling_rho_at_the_realised_loss_is_unsound(refunds: bool) -> None:
    """The likely loss of +1 unit looks cheap, and its drift is that of the unlikely -4."""
    odometer = Odometer("linear", tuning="0.5", delta_boundary="0.01")
    prices = {units: zcdp_of_pure(Decimal(str(units * UNIT))) for units in (1, 4)}

    @cache
    def shown(state: Shown) -> float:
        counted = {1: state.fine, 4: state.failing}
        spends = [Spend(Decimal(0), prices[units] * times, Decimal(0)) for units, times in counted.items()]
        return float(read(odometer, spends).epsilon_upper)

    reached = best_attack(Realised(refunds), Shown(40), (Move("lopsided", lopsided(1, 4, UNIT)),), shown, UNIT)
    assert (reached > 0.04) if refunds else (reached <= 0.01)


# ---- a stream over eight decades ------------------------------------------------------------------------------------

PATHS = 20_000
RHO = np.geomspace(1, 1e8, 250)  # sums of rho after each Gaussian release


@pytest.fixture(scope="module")
def losses() -> np.ndarray:
    """The loss of a stream of Gaussian releases under D: N(rho, 2 rho), with independent increments."""
    steps = np.diff(RHO, prepend=0.0)
    noise = np.random.default_rng(20261123).standard_normal((PATHS, RHO.size))
    return np.cumsum(noise * np.sqrt(2 * steps) + steps, axis=1)


def got_past(losses: np.ndarray, shown: Callable[[float], float], by: float) -> int:
    """How many analysts find the loss above the reading by at least `by`, and stop there: each of them is worth
    1 - e^-by of delta."""
    return int(np.count_nonzero((losses >= np.array([shown(rho) for rho in RHO]) + by).any(axis=1)))


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_analysts_of_a_long_stream_get_past_it_than_delta(losses: np.ndarray, kind: str) -> None:
    odometer = Odometer(kind, tuning=1, delta_boundary="0.05")  # type: ignore[arg-type]

    def shown(rho: float) -> float:
        cost = Cost(pure=None, rho=Decimal(repr(float(rho))), mu_squared=None)
        return float(read(odometer, [spend(odometer, cost)]).epsilon_upper)

    past = got_past(losses, shown, by=0)
    print(kind, past / PATHS)
    assert binom.sf(past - 1, PATHS, 0.05) > SIGNIFICANCE


def test_a_fixed_time_reading_is_passed_by_most(losses: np.ndarray) -> None:
    """Integrated delta of at least 0.25, where 0.05 is claimed."""
    past = got_past(losses, lambda rho: rho + float(norm.isf(0.05) * np.sqrt(2 * rho)), by=5)
    print("fixed time", past / PATHS)
    worth = 1 - np.exp(-5)
    assert binom.sf(past - 1, PATHS, 0.25 / worth) < SIGNIFICANCE
