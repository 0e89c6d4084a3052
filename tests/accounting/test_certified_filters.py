"""Filters that are charged prices from profiles against the best adaptive analyst, exactly: value iteration.

A rare large loss is run again and again, beside small ones, whatever has come out so far. Its price puts the large loss
into delta; a twin that does not count that delta is broken by the same attack.
"""

import math
from dataclasses import replace
from decimal import Decimal

import pytest

from dpledger.accounting import filters
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.certified import certified_cost, certified_rho, cheaper_cost
from dpledger.accounting.composition import PmfPair
from dpledger.accounting.filters import BasicFilter, Boundary, EitherFilter, Filter, ZCDPFilter, opened_by
from dpledger.accounting.guarantees import ApproxDP
from dpledger.decimals import read
from dpledger.relations import Relation
from filter_games import UNIT, Product, game
from price_oracles import Move, best_attack

pytestmark = pytest.mark.sliced

RARE, LARGE = 0.03, 12  # a loss of 1.5, three times in a hundred
TAIL = Decimal("0.02")


def rare() -> tuple[tuple[float, int], ...]:
    """Losses of +LARGE, rarely, and else of +1 and -1 units: masses under D, for which those under D' sum to 1 too."""
    up, down = math.exp(-UNIT), math.exp(UNIT)
    rest, under = 1 - RARE, 1 - RARE * math.exp(-LARGE * UNIT)
    mass = (rest * down - under) / (down - up)
    return ((RARE, LARGE), (mass, 1), (rest - mass, -1))


def pair() -> PmfPair:
    """The same as a tree, to 15 digits."""
    left = [read(round(mass, 15)) for mass, _ in rare()[:2]]
    right = [read(round(mass * math.exp(-loss * UNIT), 15)) for mass, loss in rare()[:2]]
    return PmfPair((*left, 1 - sum(left)), (*right, 1 - sum(right)))


def priced(filter_: Filter) -> Cost:
    return cheaper_cost(pair(), Relation.ADD_REMOVE, TAIL, filters.orders(filter_))


def attacked(filter_: Filter, price: Cost, *others: str) -> float:
    """What the best analyst reaches who may run the rare loss at `price`, and the others at theirs."""
    beside, moves = game(filter_, *others)
    product = Product(filter_, {**beside.prices, "rare": (price, (price, price, price))})
    played = (Move("rare", rare()), *moves)
    return best_attack(product, product.start(), played, float(filter_.epsilon), UNIT)  # type: ignore[union-attr]


FILTERS: dict[str, tuple[Filter, float]] = {
    "basic": (BasicFilter("0.75", "0.1"), 0.1),
    "one order": (EitherFilter(1, "0.06", (Boundary("1.5", "0.1"),)), 0.16),
    "either": (opened_by(ApproxDP(1, "0.2")), 0.2),
}


@pytest.mark.parametrize("others", [(), ("pure 1",), ("zcdp 1", "refunded 2 1")], ids=" + ".join)
@pytest.mark.parametrize("name", FILTERS)
def test_no_adaptive_analyst_gets_past_a_filter_that_prices_by_profile(name: str, others: tuple[str, ...]) -> None:
    filter_, delta = FILTERS[name]
    if name == "basic" and "zcdp 1" in others:
        others = ("refunded 2 1",)
    reached = attacked(filter_, priced(filter_), *others)
    assert 0 < reached <= delta


def test_a_rare_loss_costs_far_less_than_its_parts() -> None:
    order = Decimal("2.5")
    whole = certified_cost(pair(), Relation.ADD_REMOVE, TAIL, (order,))
    assert whole.pure is not None
    assert whole.pure < Decimal("0.5")  # its largest loss is 1.5


NARROW: dict[str, tuple[Filter, float]] = {
    "one order": (EitherFilter(2, "0.02", (Boundary("1.5", "0.05"),)), 0.07),
    "either": (opened_by(ApproxDP("1.5", "0.05")), 0.05),
}


# ---- in rho ---------------------------------------------------------------------------------------------------------

IN_RHO = ZCDPFilter("0.15", "0.05")  # two tails of 0.02 fit
ROUGHLY = [0.05 * 1.05**k for k in range(160)]  # orders less one


def failing_beyond(rho: float, epsilon: float) -> float:
    """What a zCDP of rho may fail at epsilon, by the best of many orders."""
    least = min(
        more * ((1 + more) * rho - epsilon) + more * math.log(more) - (1 + more) * math.log1p(more) for more in ROUGHLY
    )
    return math.exp(min(least, 0.0))


def attacked_in_rho(filter_: ZCDPFilter, price: Cost, epsilon: float, *others: str) -> float:
    beside, moves = game(filter_, *others)
    product = Product(filter_, {**beside.prices, "rare": (price, (price, price, price))})
    return best_attack(product, product.start(), (Move("rare", rare()), *moves), epsilon, UNIT)


def priced_in_rho() -> Cost:
    line = certified_rho(pair(), Relation.ADD_REMOVE, TAIL)
    return replace(certified_cost(pair(), Relation.ADD_REMOVE, TAIL, ()), rho=line)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 1.5, 2.5])
@pytest.mark.parametrize("others", [(), ("zcdp 1",), ("pure 2", "zcdp 2")], ids=" + ".join)
def test_no_adaptive_analyst_gets_past_rho_that_prices_by_profile(epsilon: float, others: tuple[str, ...]) -> None:
    most = float(IN_RHO.delta_sum) + failing_beyond(float(IN_RHO.rho), epsilon)
    assert attacked_in_rho(IN_RHO, priced_in_rho(), epsilon, *others) <= most


def test_a_twin_in_rho_that_does_not_count_the_tail_is_broken() -> None:
    """One tail fits, and rho for three: the twin runs the rare loss three times."""
    filter_, price = ZCDPFilter("0.09", "0.02"), priced_in_rho()
    assert price.rho is not None
    assert price.rho < Decimal("0.03")
    most = 0.02 + failing_beyond(0.09, 1.0)
    assert attacked_in_rho(filter_, price, 1.0) <= 0.02 < most
    assert attacked_in_rho(filter_, replace(price, delta=Decimal(0)), 1.0) > 1.2 * most


@pytest.mark.parametrize("name", NARROW)
def test_a_twin_that_does_not_count_the_tail_is_broken(name: str) -> None:
    filter_, delta = NARROW[name]
    price = priced(filter_)
    assert attacked(filter_, price) <= delta < attacked(filter_, replace(price, delta=Decimal(0)))
