"""The zCDP, Renyi, Gaussian and advanced filters against the best adaptive analyst, exactly: what he reaches, in the
currency that the filter promises, stays within the budget whatever he chooses and whenever he stops."""

import math
from dataclasses import dataclass
from decimal import Decimal

import pytest

from dpledger.accounting import filters
from dpledger.accounting.arithmetic.conversions import delta_of_gdp, zcdp_within
from dpledger.accounting.filters import Filter, GDPFilter, RDPFilter, ZCDPFilter, advanced, opened_by
from dpledger.accounting.guarantees import GDP, RDP, ZCDP
from dpledger.errors import ParameterError
from filter_games import UNIT, Kept, game
from price_oracles import Move, best_attack, best_moment, least, lopsided, mp, real

ORDERS = (1.05, 1.5, 2.0, 4.0, 16.0)
MOVES = [("pure 2", "zcdp 3"), ("pure 4", "pure 1", "zcdp 2"), ("refunded 4 1", "pure 2"), ("refunded 1 4", "zcdp 1")]
played_with = pytest.mark.parametrize("moves", MOVES, ids=" + ".join)


@played_with
@pytest.mark.parametrize("rho", ["0.05", "0.3"])
def test_no_adaptive_analyst_gets_past_the_zcdp_filter(rho: str, moves: tuple[str, ...]) -> None:
    product, played = game(ZCDPFilter(rho), *moves)
    for order in ORDERS:
        reached = best_moment(product, product.start(), played, order - 1, UNIT)
        assert 0 < reached <= order * float(rho)


@played_with
def test_no_adaptive_analyst_gets_past_any_order_of_the_renyi_grid(moves: tuple[str, ...]) -> None:
    """One order is the tight one for fine moves, another for coarse ones; a pure leaf is charged at every order."""
    filter_ = RDPFilter(("1.5", 4, 16), ("0.1", "0.35", "1"))
    product, played = game(filter_, *moves, "outcome 3 1")
    for order, epsilon in zip((1.5, 4.0, 16.0), (0.1, 0.35, 1.0), strict=True):
        reached = best_moment(product, product.start(), played, order - 1, UNIT)
        assert 0 < reached <= epsilon


def test_a_refund_on_the_grid_is_earned_in_pure_epsilons_and_is_used() -> None:
    """After cheap outcomes (one unit, reserved at four) more runs fit than at caps, and every order still holds."""
    filter_ = RDPFilter((2,), ("0.8",))
    product, (move,) = game(filter_, "outcome 1 4")
    assert filters.charge(filter_, product.prices[move.name][0]) == {"pure": Decimal("0.5"), "rdp_0": 0}
    state, runs = product.start(), 0
    while (after := product.admit(state, move)) is not None:
        state, runs = after[0], runs + 1
    assert runs == 3
    assert 0 < best_moment(product, product.start(), (move,), 1.0, UNIT) <= 0.8


@played_with
@pytest.mark.parametrize("mu", ["0.5", "1.1"])
def test_no_adaptive_analyst_gets_past_the_gaussian_filter(mu: str, moves: tuple[str, ...]) -> None:
    pure = tuple(move for move in moves if not move.startswith("zcdp"))  # zCDP has no Gaussian price
    product, played = game(GDPFilter(mu), *pure)
    for epsilon in ("0", "0.25", "1", "2"):
        allowed = float(delta_of_gdp(Decimal(mu), Decimal(epsilon)))
        assert best_attack(product, product.start(), played, float(epsilon), UNIT) <= allowed


@played_with
def test_no_adaptive_analyst_gets_past_the_advanced_filter(moves: tuple[str, ...]) -> None:
    for epsilon, delta in (("1", "0.1"), ("1.5", "0.05")):
        product, played = game(advanced(epsilon, delta), *moves)
        reached = best_attack(product, product.start(), played, float(epsilon), UNIT)
        assert 0 < reached <= float(delta)


@pytest.mark.parametrize(
    ("filter_", "epsilon", "failing"),
    [(ZCDPFilter("0.2", "0.05"), 1.5, None), (advanced(1, "0.1", "0.05"), 1.0, 0.15)],
    ids=["zcdp", "advanced"],
)
def test_failures_add_up_to_at_most_their_share_of_delta(
    filter_: ZCDPFilter, epsilon: float, failing: float | None
) -> None:
    """Two failures of 0.02 fit into 0.05, and are reached: they never add to what the good part may lose."""
    product, played = game(filter_, "failing 2", "pure 2")
    most = 0.05 + zcdp_delta(filter_.rho, epsilon) if failing is None else failing
    assert 0.039 < best_attack(product, product.start(), played, epsilon, UNIT) <= most


def zcdp_delta(rho: Decimal, epsilon: float) -> float:
    """The least over orders of the delta of rho-zCDP, from its definition, at 60 digits."""

    def at(more: object) -> object:
        m = real(more)
        return m * ((m + 1) * real(rho) - epsilon) + m * mp.log(m / (1 + m)) - mp.log(1 + m)

    return float(mp.exp(least(at, 1e-3, 1e4)))


@pytest.mark.parametrize("delta", ["0.03", "0.2"])
@pytest.mark.parametrize(
    "filter_", [ZCDPFilter("0.2"), RDPFilter((2, 6), ("0.3", "1")), GDPFilter("0.7"), advanced("1.2", "0.1")]
)
def test_a_reading_holds_wherever_the_analyst_stops(filter_: Filter, delta: str) -> None:
    """The excess over the reading, which each path earns for itself, stays below the delta it was read at."""
    moves = ("pure 2", "refunded 1 4") if isinstance(filter_, GDPFilter) else ("pure 2", "zcdp 3", "refunded 1 4")
    product, played = game(filter_, *moves)

    def read(state: Kept) -> float:
        return float(filters.reading(filter_, dict(state), Decimal(delta)))

    assert best_attack(product, product.start(), played, read, UNIT) <= float(delta)


# ---- what the filters must not do -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnyOrder:
    """The broken twin of the grid: it admits while *some* order still holds. `state`: coarse and fine steps."""

    filter: RDPFilter
    prices: tuple[tuple[float, float], ...]

    def admit(self, state: tuple[int, int], move: Move) -> tuple[tuple[int, int], ...] | None:
        after = (state[0] + (move.name == "coarse"), state[1] + (move.name == "fine"))
        spent = (after[0] * coarse + after[1] * fine for coarse, fine in self.prices)
        held = (total <= float(most) for total, most in zip(spent, self.filter.epsilons, strict=True))
        return (after,) * len(move.outcomes) if any(held) else None


def test_admitting_while_some_order_holds_breaks_the_others() -> None:
    filter_ = RDPFilter((2, 16), ("0.3", "0.9"))
    product, moves = game(filter_, "pure 6", "pure 1")
    charges = [filters.charge(filter_, product.prices[move.name][0]) for move in moves]
    twin = AnyOrder(filter_, tuple((float(charges[0][f"rdp_{j}"]), float(charges[1][f"rdp_{j}"])) for j in range(2)))
    named = (Move("coarse", moves[0].outcomes), Move("fine", moves[1].outcomes))
    reached = [best_moment(twin, (0, 0), named, order - 1, UNIT) for order in (2.0, 16.0)]
    assert reached[0] > 0.3 * 1.5 or reached[1] > 0.9 * 1.5


@dataclass(frozen=True)
class Forgetful:
    """The broken twin of the zCDP filter: it settles at half the square of the realised loss."""

    rho: float
    unit: float

    def admit(self, state: int, move: Move) -> tuple[int, ...] | None:
        cap = max(abs(gain) for _, gain in move.outcomes) ** 2
        if (state + cap) * self.unit**2 / 2 > self.rho:
            return None
        return tuple(state + gain**2 for _, gain in move.outcomes)


def test_settling_rho_at_the_realised_loss_is_unsound() -> None:
    """The common outcome costs nearly nothing, and always pushes the same way: twice the promise and more."""
    moves = (Move("often up", lopsided(1, 8, 0.05)), Move("often down", lopsided(8, 1, 0.05)))
    assert best_moment(Forgetful(0.3, 0.05), 0, moves, 3.0, 0.05) > 2 * 4 * 0.3
    product, played = game(ZCDPFilter("0.3"), "refunded 6 1", "refunded 1 6")
    assert best_moment(product, product.start(), played, 3.0, UNIT) <= 4 * 0.3


# ---- constants ------------------------------------------------------------------------------------------------------


def test_each_guarantee_opens_the_filter_that_keeps_it() -> None:
    budgets = (ZCDP("0.3"), ZCDP("0.3", "1e-7"), RDP((2, "3.5"), ("0.1", "0.2")), GDP("0.7"))
    for budget in budgets:
        assert filters.budget_guarantee(opened_by(budget)) == budget


@pytest.mark.parametrize(("epsilon", "delta"), [("3", "1e-6"), ("0.1", "1e-5"), ("20", "0.01")])
def test_the_advanced_filter_holds_the_most_zcdp_that_its_boundary_holds(epsilon: str, delta: str) -> None:
    """rho turns into epsilon at delta, by the definition at 60 digits; a little more does not."""
    filter_ = advanced(epsilon, delta)
    assert zcdp_delta(filter_.rho, float(epsilon)) <= float(delta) * (1 + 1e-9)
    assert zcdp_delta(filter_.rho * Decimal("1.001"), float(epsilon)) > float(delta)
    assert filter_.rho <= zcdp_within(Decimal(epsilon), Decimal(delta))


@pytest.mark.parametrize("bad", ["0", "-1", "NaN", "Infinity", "one"])
def test_bad_numbers_name_their_field(bad: str) -> None:
    for make, field in (
        (lambda: ZCDPFilter(bad), r"ZCDPFilter\.rho"),
        (lambda: GDPFilter(bad), r"GDPFilter\.mu"),
        (lambda: RDPFilter((bad,), (1,)), r"RDPFilter\.orders"),
        (lambda: RDPFilter((2,), (bad,)), r"RDPFilter\.epsilons"),
        (lambda: advanced(bad, "1e-6"), "epsilon"),
        (lambda: advanced(1, bad), "delta_boundary"),
    ):
        with pytest.raises(ParameterError, match=field):
            make()


def test_grids_that_are_none_are_refused() -> None:
    for orders, epsilons in (((), ()), ((2, 2), (1, 1)), ((3, 2), (1, 1)), ((2,), (1, 1)), ((2, 3), (1, 0))):
        with pytest.raises(ParameterError, match=r"RDPFilter\.(orders|epsilons)"):
            RDPFilter(orders, epsilons)
    with pytest.raises(ParameterError, match="at most 256 orders"):
        RDPFilter(tuple(range(2, 300)), tuple(range(2, 300)))


def test_a_gaussian_budget_of_many_digits_can_still_be_written() -> None:
    """The square of a number with forty places has eighty: limits are rounded down, charges up."""
    filter_ = GDPFilter("0." + "1" * 40)
    assert not math.isnan(float(filters.left(filter_, filters.opening(filter_))["mu_squared"]))
