"""From costs to coordinates: what a filter charges for a request, what of it settles, and the sums of charges."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, TypeAlias, assert_never

from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.filters.coordinates import mixed_names, names, orders, renyi_names
from dpledger.accounting.filters.kinds import (
    SQUARE_DIGITS,
    AllowanceFilter,
    BasicFilter,
    EitherFilter,
    Filter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
)
from dpledger.decimals import ZERO, add, multiply, round_up, subtract

__all__ = [
    "TOO_LARGE",
    "Account",
    "Coordinates",
    "Sum",
    "Sums",
    "charge",
    "currencies",
    "opening",
    "settle",
    "with_charge",
    "without_charge",
]

Coordinates = Mapping[str, Decimal]
"""One charge by the names of its coordinates. A coordinate that is absent has no price: it counts as infinite."""
TOO_LARGE = Decimal(10**18)  # no decimal that is written down reaches it, and no budget
Sum: TypeAlias = tuple[Decimal, int]
"""The exact sum of the priced charges, and how many charges have no price: while there is one, the sum is infinite."""
Sums = Mapping[str, Sum]
"""A filter's sums by the names of its coordinates."""


def opening(filter_: Filter) -> Sums:
    """The sums of a scope in which nothing has happened yet."""
    return dict.fromkeys(names(filter_), (ZERO, 0))


class Account(NamedTuple):
    """Coordinates that a charge fills in one of several currencies: `names`, and what it costs in each currency, at
    least one, the preferred first."""

    names: tuple[str, ...]
    currencies: tuple[Coordinates, ...]


def charge(filter_: Filter, cost: Cost) -> Coordinates:
    """The coordinates of a request that costs `cost`; one without a price, or of 10^18 and more, is absent.

    Where a filter counts in two currencies (its mixed accounts; a Renyi grid), a request with both prices pays in one:
    the smaller, on a grid the one that takes the smaller share of a budget. What it does not use is 0. Each account of
    a mixture chooses for itself.
    """
    return {name: price for account in currencies(filter_, cost) for name, price in account.currencies[0].items()}


def currencies(filter_: Filter, cost: Cost) -> tuple[Account, ...]:
    """What a request may be charged, account by account: a charge is sound if in each it covers one currency."""
    match filter_:
        case PureFilter():
            return (_one(pure=None if cost.delta else cost.pure),)
        case BasicFilter():
            return (_one(pure=cost.pure, delta=cost.delta),)
        case ZCDPFilter():
            return (_one(rho=cost.rho, delta=cost.delta),)
        case GDPFilter():
            return (_one(mu_squared=None if cost.delta else _written(cost.mu_squared)),)
        case RDPFilter():
            return (Account(names(filter_), _grid_currencies(filter_, cost)),)
        case EitherFilter():
            mixed = zip(mixed_names(filter_), orders(filter_), strict=True)
            return (
                _one(pure=cost.pure, delta=cost.delta),
                *(_mixed_account(pair, order, cost) for pair, order in mixed),
            )
        case AllowanceFilter():  # `costs` counts the copies
            return (_one(pure=cost.pure, delta=cost.delta),)
        case _:
            assert_never(filter_)


def _one(**prices: Decimal | None) -> Account:
    """An account, or several, with one currency."""
    return Account(tuple(prices), (_present(**prices),))


def _mixed_account(pair: tuple[str, str], order: Decimal, cost: Cost) -> Account:
    """A pure price or the Renyi price of `order`, the smaller first; of equal ones the pure, which outcomes refund."""
    pure, renyi = pair
    priced = [(cost.pure, renyi, pure), (_renyi_price(order, cost), pure, renyi)]
    found = [
        (price, {nothing: ZERO, taken: price})
        for price, nothing, taken in priced
        if price is not None and price < TOO_LARGE
    ]
    found.sort(key=lambda one: one[0])
    return Account(pair, tuple(charged for _, charged in found) or ({},))


def _grid_currencies(filter_: RDPFilter, cost: Cost) -> tuple[Coordinates, ...]:
    """The pure price, the same at every order, or the Renyi price of each. A delta has no place in RDP."""
    if cost.delta:
        return ({},)
    grid = tuple(zip(renyi_names(filter_), filter_.orders, strict=True))
    renyi = _present(**{name: _renyi_price(order, cost) for name, order in grid})
    found: list[Coordinates] = []
    if cost.pure is not None and cost.pure < TOO_LARGE:
        found.append({"pure": cost.pure, **dict.fromkeys((name for name, _ in grid), ZERO)})
    if len(renyi) == len(grid):
        found.append({"pure": ZERO, **renyi})
    found.sort(key=lambda charged: _burden(filter_, charged))
    return tuple(found) or ({"pure": ZERO, **renyi},)


def _burden(filter_: RDPFilter, charged: Coordinates) -> Fraction:
    """The largest share that a charge takes of the budget of an order."""
    amounts = (add(charged[name], charged["pure"]) for name in renyi_names(filter_))
    shares = zip(amounts, filter_.epsilons, strict=True)
    return max(Fraction(amount) / Fraction(most) for amount, most in shares)


def _renyi_price(order: Decimal, cost: Cost) -> Decimal | None:
    """The divergence of this order: the one asked for, or order * rho, whichever is smaller."""
    prices = [price for price in (cost.rdp.get(order),) if price is not None]
    if cost.rho is not None:
        prices.append(round_up(multiply(cost.rho, order)))
    return min(prices, default=None)


def _written(price: Decimal | None) -> Decimal | None:
    """A price that may be the square of a long decimal: rounded up, if at all, at the last place a decimal may have."""
    return None if price is None else round_up(price, digits=SQUARE_DIGITS)


def settle(filter_: Filter, reserved: Coordinates, outcome_cost: Cost) -> Coordinates:
    """What stays charged of `reserved` once the outcome, and so `outcome_cost`, is known.

    Each coordinate stays in the currency that was taken and falls to its settled price, never above what was reserved.
    delta is never refunded, and a coordinate that had no price has none. Assumes: `outcome_cost` refunds only what a
    theorem refunds (rules.cost does: pure ex-post losses, and steps of a plan that never started).
    Source: docs/proofs/filters.md, "Refunds".
    """
    settled = dict(reserved)
    for name, price in _settled_prices(filter_, reserved, outcome_cost).items():
        if name in reserved and price is not None:
            settled[name] = min(reserved[name], price)
    return settled


def _settled_prices(filter_: Filter, reserved: Coordinates, cost: Cost) -> Mapping[str, Decimal | None]:
    match filter_:
        case PureFilter() | BasicFilter() | AllowanceFilter():
            return {"pure": cost.pure}
        case ZCDPFilter():
            return {"rho": cost.rho}
        case GDPFilter():
            return {"mu_squared": _written(cost.mu_squared)}
        case RDPFilter():
            if reserved.get("pure"):
                return {"pure": cost.pure}
            grid = zip(renyi_names(filter_), filter_.orders, strict=True)
            return {name: _renyi_price(order, cost) for name, order in grid}
        case EitherFilter():
            prices = {"pure": cost.pure}
            for pair, order in zip(mixed_names(filter_), orders(filter_), strict=True):
                prices |= _settled_mixed(pair, order, reserved, cost)
            return prices
        case _:
            assert_never(filter_)


def _settled_mixed(
    pair: tuple[str, str], order: Decimal, reserved: Coordinates, cost: Cost
) -> dict[str, Decimal | None]:
    pure, renyi = pair
    return {renyi: _renyi_price(order, cost)} if reserved.get(renyi) else {pure: cost.pure}


def _present(**prices: Decimal | None) -> dict[str, Decimal]:
    return {name: price for name, price in prices.items() if price is not None and price < TOO_LARGE}


def with_charge(filter_: Filter, sums: Sums, charged: Coordinates, *, times: int = 1) -> Sums:
    """The sums after one more charge, or so many of it."""
    return {name: _plus(sums[name], charged.get(name), times) for name in names(filter_)}


def without_charge(filter_: Filter, sums: Sums, charged: Coordinates) -> Sums:
    """The sums after that charge is taken away again (aborted, or about to be replaced by its settled value)."""
    return {name: _minus(sums[name], charged.get(name)) for name in names(filter_)}


def _plus(sum_: Sum, price: Decimal | None, times: int) -> Sum:
    priced, unpriced = sum_
    if price is None:
        return priced, unpriced + times
    return add(priced, price if times == 1 else multiply(price, times)), unpriced


def _minus(sum_: Sum, price: Decimal | None) -> Sum:
    priced, unpriced = sum_
    return (priced, unpriced - 1) if price is None else (subtract(priced, price), unpriced)
