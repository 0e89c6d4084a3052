"""What one request costs, in each currency a filter may count in.

A `Cost` is the price of a composition tree under one relation. A currency that has no theorem for the tree is None:
unknown is never zero. Prices are rounded up. Two costs add where both have a price (`sequence`).
Source: spec/expost.md 1.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType

from dpledger.decimals import ZERO, add, multiply

__all__ = ["FREE", "Cost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Upper bounds of the privacy loss of a tree.

    `pure`: an epsilon that, with `delta`, bounds it (currency X). `delta`: the failure that goes with every other
    field. `rho`: zCDP (S). `mu`: Gaussian DP. `rdp`: the Renyi divergence of each order asked for.
    None: no theorem gives a price in this currency.
    """

    pure: Decimal | None
    delta: Decimal = ZERO
    rho: Decimal | None
    mu_squared: Decimal | None
    rdp: Mapping[Decimal, Decimal | None] = field(default_factory=lambda: MappingProxyType({}))

    def __add__(self, other: Cost) -> Cost:
        """The cost of both, run one after the other with adaptively chosen parameters."""
        return Cost(
            pure=_sum(self.pure, other.pure),
            delta=add(self.delta, other.delta),
            rho=_sum(self.rho, other.rho),
            mu_squared=_sum(self.mu_squared, other.mu_squared),
            rdp={order: _sum(price, other.rdp.get(order)) for order, price in self.rdp.items()},
        )

    def times(self, count: int) -> Cost:
        """The cost of `count` runs."""
        return Cost(
            pure=_product(self.pure, count),
            delta=multiply(self.delta, count),
            rho=_product(self.rho, count),
            mu_squared=_product(self.mu_squared, count),
            rdp={order: _product(price, count) for order, price in self.rdp.items()},
        )


def _sum(left: Decimal | None, right: Decimal | None) -> Decimal | None:
    return None if left is None or right is None else add(left, right)


def _product(price: Decimal | None, count: int) -> Decimal | None:
    return None if price is None else multiply(price, count)


FREE = Cost(pure=ZERO, rho=ZERO, mu_squared=ZERO)
"""The cost of nothing."""
