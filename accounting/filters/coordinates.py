"""What each filter sums, by name, and at which orders it needs prices.

>>> from dpledger.accounting.filters import EitherFilter, PureFilter, Boundary
>>> names(PureFilter(epsilon=1)), names(EitherFilter(1, "1e-7", (Boundary(30, "9e-7"),)))
(('pure',), ('pure', 'delta', 'mixed_pure_0', 'mixed_rdp_0'))
"""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from dpledger.accounting.filters.allowance import NAMES, AllowanceFilter
from dpledger.accounting.filters.kinds import (
    BasicFilter,
    EitherFilter,
    Filter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
)
from dpledger.decimals import add

__all__ = ["mixed_names", "names", "orders", "renyi_names"]

ONE = Decimal(1)


def names(filter_: Filter) -> tuple[str, ...]:
    """The coordinates that the filter sums."""
    match filter_:
        case PureFilter():
            return ("pure",)
        case BasicFilter():
            return ("pure", "delta")
        case ZCDPFilter():
            return ("rho", "delta")
        case RDPFilter():
            return ("pure", *renyi_names(filter_))
        case GDPFilter():
            return ("mu_squared",)
        case EitherFilter():
            return ("pure", "delta", *(name for pair in mixed_names(filter_) for name in pair))
        case AllowanceFilter():
            return NAMES
        case _:
            assert_never(filter_)


def renyi_names(filter_: RDPFilter) -> tuple[str, ...]:
    """The coordinate of each order, by its place in the grid: `rdp_0`, `rdp_1`, ..."""
    return tuple(f"rdp_{place}" for place in range(len(filter_.orders)))


def mixed_names(filter_: EitherFilter) -> tuple[tuple[str, str], ...]:
    """The two coordinates of each boundary, by its place: `mixed_pure_0` and `mixed_rdp_0`, ..."""
    return tuple((f"mixed_pure_{place}", f"mixed_rdp_{place}") for place in range(len(filter_.boundaries)))


def orders(filter_: Filter) -> tuple[Decimal, ...]:
    """The Renyi orders at which the filter needs the price of a request (for `rules.cost`)."""
    match filter_:
        case PureFilter() | BasicFilter() | ZCDPFilter() | GDPFilter():
            return ()
        case RDPFilter(orders=renyi_orders):
            return renyi_orders
        case EitherFilter(boundaries=boundaries):
            return tuple(add(ONE, boundary.order_minus_one) for boundary in boundaries)
        case AllowanceFilter():
            return ()
        case _:
            assert_never(filter_)
