"""What one request costs, in each currency a filter may count in.

A `Cost` is the price of a composition tree under one relation. A currency that has no theorem for the tree is None:
unknown is never zero. Prices are rounded up. Two costs add where both have a price (`sequence`). The functions below
price an epsilon, groups and samples, whatever the law; what a law costs stands in its family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from functools import lru_cache
from types import MappingProxyType

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.conversions import mu_squared_of_pure, rdp_of_pure, zcdp_of_pure
from dpledger.decimals import ZERO, add, multiply, round_up

__all__ = [
    "FREE",
    "Cost",
    "amplified_epsilon",
    "approximate_cost",
    "group_delta",
    "pure_cost",
    "rdp_alone",
    "with_margin",
]

ONE = Decimal(1)
MARGIN = Decimal("1e-8")
"""Relative: what is charged above a price that was computed in floating point, in which machines differ. A verifier
asks for its own, without it. No theorem says that two machines differ by less, and some prices do differ by more
(docs/proofs/filters.md, "Machines"): an honest charge may be refused elsewhere, but none below the truth passes."""
MARGIN_DIGITS = 8  # of a price with its margin: more would differ between machines in every entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Upper bounds of the privacy loss of a tree.

    `pure`: an epsilon that, with `delta`, bounds it (currency X). `delta`: the failure that goes with every other
    field. `rho`: zCDP (S). `mu_squared`: Gaussian DP. `rdp`: the Renyi divergence of each order asked for.
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

    def or_worse(self, other: Cost) -> Cost:
        """The greater price in each currency: the cost of two runs of which a neighbour changes only one."""
        return Cost(
            pure=_greater(self.pure, other.pure),
            delta=max(self.delta, other.delta),
            rho=_greater(self.rho, other.rho),
            mu_squared=_greater(self.mu_squared, other.mu_squared),
            rdp={order: _greater(price, other.rdp.get(order)) for order, price in self.rdp.items()},
        )

    def or_better(self, other: Cost) -> Cost:
        """The smaller price in each currency, of two costs of one run; both without delta."""
        return Cost(
            pure=_smaller(self.pure, other.pure),
            rho=_smaller(self.rho, other.rho),
            mu_squared=_smaller(self.mu_squared, other.mu_squared),
            rdp={order: _smaller(price, other.rdp.get(order)) for order, price in self.rdp.items()},
        )

    def is_unknown(self) -> bool:
        """Whether no currency has a price."""
        return all(price is None for price in (self.pure, self.rho, self.mu_squared, *self.rdp.values()))


def _sum(left: Decimal | None, right: Decimal | None) -> Decimal | None:
    return None if left is None or right is None else add(left, right)


def _product(price: Decimal | None, count: int) -> Decimal | None:
    return None if price is None else multiply(price, count)


def _greater(left: Decimal | None, right: Decimal | None) -> Decimal | None:
    return None if left is None or right is None else max(left, right)


def _smaller(left: Decimal | None, right: Decimal | None) -> Decimal | None:
    if left is None or right is None:
        return left if right is None else right
    return min(left, right)


def with_margin(price: Decimal | None) -> Decimal | None:
    """A price in floating point as it is charged: `MARGIN` above, rounded up. Claim: at least the price."""
    return None if price is None else round_up(multiply(price, add(ONE, MARGIN)), digits=MARGIN_DIGITS)


FREE = Cost(pure=ZERO, rho=ZERO, mu_squared=ZERO)
"""The cost of nothing."""


# ---- an epsilon, groups, sampling ------------------------------------------------------------------------------------


def pure_cost(epsilon: Decimal, orders: tuple[Decimal, ...]) -> Cost:
    """Pure DP in every currency. Source: conversions.zcdp_of_pure, mu_squared_of_pure, rdp_of_pure."""
    return Cost(
        pure=epsilon,
        rho=zcdp_of_pure(epsilon),
        mu_squared=mu_squared_of_pure(epsilon),
        rdp={order: rdp_of_pure(epsilon, order) for order in orders},
    )


def rdp_alone(rdp: Mapping[Decimal, Decimal | None]) -> Cost:
    """Of what no theorem prices but by its Renyi divergences."""
    return Cost(pure=None, rho=None, mu_squared=None, rdp=rdp)


def approximate_cost(epsilon: Decimal, delta: Decimal, orders: tuple[Decimal, ...]) -> Cost:
    """(epsilon, delta)-DP: with probability 1 - delta an epsilon-DP mechanism (Kairouz-Oh-Viswanath 2015, Theorem 2.1),
    so the pure prices hold for the rest, beside delta. GDP has no delta."""
    if not delta:
        return pure_cost(epsilon, orders)
    return Cost(
        pure=epsilon,
        delta=delta,
        rho=zcdp_of_pure(epsilon),
        mu_squared=None,
        rdp={order: rdp_of_pure(epsilon, order) for order in orders},
    )


@lru_cache(maxsize=256)
def group_delta(epsilon: Decimal, delta: Decimal, k: int) -> Decimal | None:
    """delta (e^(k epsilon) - 1)/(e^epsilon - 1), k delta at epsilon = 0; None where that is 1 or more.

    Claim: k steps of an (epsilon, delta)-DP mechanism are (k epsilon, result)-DP. Source: Vadhan 2017, Lemma 2.2.
    """
    if not delta:
        return ZERO
    if not epsilon:
        result = multiply(delta, k)
        return result if result < 1 else None
    if multiply(epsilon, k) > 200:  # delta, at least 10^-60, times e^((k-1) epsilon), k > 1 or epsilon > 200
        return delta if k == 1 else None
    with localcontext(outward.context(epsilon)):
        result = outward.above(delta * outward.expm1(k * epsilon) / outward.expm1(epsilon))
    return result if result < 1 else None


@lru_cache(maxsize=1024)
def amplified_epsilon(epsilon: Decimal, rate: Decimal) -> Decimal:
    """log(1 + rate (e^epsilon - 1)): the epsilon of a mechanism run on a secret Poisson sample.

    Claim: (result, rate*delta)-DP for an (epsilon, delta)-DP mechanism. Assumes: add_remove.
    Source: Li-Qardaji-Su 2012, Theorem 1; Balle-Barthe-Gaboardi 2018, Theorem 8.
    """
    if not epsilon:
        return ZERO
    with localcontext(outward.context(epsilon, rate)):
        return min(epsilon, outward.above(epsilon + outward.ln(rate + (1 - rate) * outward.exp(-epsilon))))
