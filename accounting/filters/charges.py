"""From costs to coordinates: what a filter charges for a request, what of it settles, and the sums of charges."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TypeAlias, assert_never

from dpledger.accounting.filters.kinds import (
    BasicFilter,
    Boundary,
    EitherFilter,
    Filter,
    MixedFilter,
    PureFilter,
    names,
    orders,
)
from dpledger.accounting.prices import Cost
from dpledger.decimals import ZERO, add, multiply, round_up, subtract

__all__ = ["Coordinates", "Sum", "Sums", "charge", "opening", "settle", "with_charge", "without_charge"]

Coordinates = Mapping[str, Decimal]
"""One charge by the names of its coordinates. A coordinate that is absent has no price: it counts as infinite."""
TOO_LARGE = Decimal(10) ** 18  # no decimal that is written down reaches it, and no budget
Sum: TypeAlias = tuple[Decimal, int]
"""The exact sum of the priced charges, and how many charges have no price: while there is one, the sum is infinite."""
Sums = Mapping[str, Sum]
"""A filter's sums by the names of its coordinates."""


def opening(filter_: Filter) -> Sums:
    """The sums of a scope in which nothing has happened yet."""
    return dict.fromkeys(names(filter_), (ZERO, 0))


def charge(filter_: Filter, cost: Cost) -> Coordinates:
    """The coordinates of a request that costs `cost`; one without a price, or of 10^18 and more, is absent.

    In the mixed account a request with both prices pays the smaller; the coordinate it does not use is 0.
    """
    match filter_:
        case PureFilter():
            return _present(pure=None if cost.delta else cost.pure)
        case BasicFilter():
            return _present(pure=cost.pure, delta=cost.delta)
        case MixedFilter():
            return {**_present(delta=cost.delta), **_mixed_charge(filter_, cost)}
        case EitherFilter():
            return {**_present(pure=cost.pure, delta=cost.delta), **_mixed_charge(filter_, cost)}
        case _:
            assert_never(filter_)


def _mixed_charge(filter_: Boundary, cost: Cost) -> Coordinates:
    renyi = _renyi_price(filter_, cost)
    if renyi is not None and renyi < TOO_LARGE and (cost.pure is None or renyi < cost.pure):
        return {"mixed_pure": ZERO, "mixed_rdp": renyi}
    if cost.pure is not None and cost.pure < TOO_LARGE:
        return {"mixed_pure": cost.pure, "mixed_rdp": ZERO}
    return {}


def _renyi_price(filter_: Boundary, cost: Cost) -> Decimal | None:
    """The divergence of order 1 + order_minus_one: the one asked for, or order * rho, whichever is smaller."""
    (order,) = orders(filter_)
    prices = [price for price in (cost.rdp.get(order),) if price is not None]
    if cost.rho is not None:
        prices.append(round_up(multiply(cost.rho, order)))
    return min(prices, default=None)


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
        case PureFilter() | BasicFilter():
            return {"pure": cost.pure}
        case MixedFilter() | EitherFilter():
            if reserved.get("mixed_rdp"):
                return {"pure": cost.pure, "mixed_rdp": _renyi_price(filter_, cost)}
            return {"pure": cost.pure, "mixed_pure": cost.pure}
        case _:
            assert_never(filter_)


def _present(**prices: Decimal | None) -> dict[str, Decimal]:
    return {name: price for name, price in prices.items() if price is not None and price < TOO_LARGE}


def with_charge(filter_: Filter, sums: Sums, charged: Coordinates) -> Sums:
    """The sums after one more charge."""
    return {name: _plus(sums[name], charged.get(name)) for name in names(filter_)}


def without_charge(filter_: Filter, sums: Sums, charged: Coordinates) -> Sums:
    """The sums after that charge is taken away again (aborted, or about to be replaced by its settled value)."""
    return {name: _minus(sums[name], charged.get(name)) for name in names(filter_)}


def _plus(sum_: Sum, price: Decimal | None) -> Sum:
    priced, unpriced = sum_
    return (priced, unpriced + 1) if price is None else (add(priced, price), unpriced)


def _minus(sum_: Sum, price: Decimal | None) -> Sum:
    priced, unpriced = sum_
    return (priced, unpriced - 1) if price is None else (subtract(priced, price), unpriced)
