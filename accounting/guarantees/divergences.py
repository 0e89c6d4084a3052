"""What is promised as a divergence that adds up: zero-concentrated, Gaussian and Renyi differential privacy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal, localcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from pydantic import field_validator

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.conversions import epsilon_of_gdp, epsilon_of_rdp, epsilon_of_zcdp
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.guarantees.answers import (
    TOO_LARGE,
    Need,
    NeverFails,
    NoProfile,
    ReadAtAnyDelta,
    Say,
    below_limit,
    some_of,
)
from dpledger.decimals import INFINITY, ZERO, Number, multiply, round_up, subtract, text, total
from dpledger.number_fields import Exact, Promise, PromisedProbability
from dpledger.schema import given, record, tag

__all__ = ["GDP", "RDP", "ZCDP", "Grid", "one_epsilon_an_order", "rising_orders"]

if TYPE_CHECKING:

    class Grid:
        """A field that holds a tuple of Decimals and takes any tuple of what `read` takes."""

        @overload
        def __get__(self, instance: None, owner: type) -> Grid: ...
        @overload
        def __get__(self, instance: object, owner: type) -> tuple[Decimal, ...]: ...
        def __get__(self, instance: object | None, owner: type) -> Any: ...
        def __set__(self, instance: object, value: tuple[Number, ...]) -> None: ...

else:
    Grid = tuple[Exact, ...]


@record
class ZCDP(ReadAtAnyDelta, NoProfile):
    """delta-approximate rho-zero-concentrated DP: the Renyi divergence of order a is at most a*rho, for every a > 1
    (after removing mass delta). Bun-Steinke 2016.

    >>> round(dpl.compose(dpl.ZCDP(rho="0.01")).epsilon("1e-6").upper, 4)
    0.6218
    """

    rho: Promise
    delta: PromisedProbability = given(default=Decimal(0))
    kind: Literal["zcdp"] = tag(default="zcdp")

    variant: ClassVar[str] = "zero-concentrated differential privacy"
    registered: ClassVar[str] = "Zero-concentrated DP"
    is_point: ClassVar[bool] = False

    @property
    def fails(self) -> Decimal:
        return self.delta

    def epsilon_at(self, delta: Decimal) -> Decimal:
        """The epsilon that this means at `delta`; infinite where it means none there.

        Claim: it implies (result, delta)-DP, for a finite result. Source: `epsilon_of_zcdp`."""
        return epsilon_of_zcdp(self.rho, subtract(delta, self.delta)) if delta > self.delta else INFINITY

    def needs(self, price: Cost) -> tuple[Need, ...]:
        return Need("rho", self.rho, price.rho), Need("delta", self.delta, price.delta)

    @property
    def summand(self) -> ZCDP | None:
        return None if self.delta else self  # with a delta it is not known to compose concurrently

    @classmethod
    def sum_of(cls, parts: Sequence[ZCDP]) -> tuple[ZCDP | None, ...]:
        """Source: Lyu 2022."""
        return (below_limit(cls, total(part.rho for part in parts)),)

    def in_words(self, say: Say) -> str:
        return f"ρ = {say(self.rho)}" + (f", δ = {say(self.delta)}" if self.delta else "")


@record
class GDP(NeverFails, ReadAtAnyDelta, NoProfile):
    """mu-Gaussian DP: at least as hard to tell apart as N(0,1) and N(mu,1). Dong-Roth-Su 2022.

    >>> round(dpl.compose(dpl.GDP(mu="0.5")).epsilon("1e-6").upper, 4)
    2.2541
    """

    mu: Promise
    kind: Literal["gdp"] = tag(default="gdp")

    variant: ClassVar[str] = "Gaussian differential privacy"
    registered: ClassVar[str] = "Custom"
    is_point: ClassVar[bool] = False

    def epsilon_at(self, delta: Decimal) -> Decimal:
        """The epsilon that this means at `delta`; infinite where it means none there.

        Claim: it implies (result, delta)-DP, for a finite result. Source: `epsilon_of_gdp`."""
        return epsilon_of_gdp(self.mu, delta) if delta or not self.mu else INFINITY

    def needs(self, price: Cost) -> tuple[Need, ...]:
        return Need("mu^2", multiply(self.mu, self.mu), price.mu_squared), Need("delta", ZERO, price.delta)

    @property
    def summand(self) -> GDP:
        return self

    @classmethod
    def sum_of(cls, parts: Sequence[GDP]) -> tuple[GDP | None, ...]:
        """Source: Vadhan-Zhang 2023."""
        return (below_limit(cls, _root_of_squares(part.mu for part in parts)),)

    def in_words(self, say: Say) -> str:
        return f"μ = {say(self.mu)}"


def rising_orders(orders: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
    """The orders of a Renyi grid; ValueError unless there are some, rising, each above 1."""
    if not orders or orders[0] <= 1 or any(b <= a for a, b in pairwise(orders)):
        raise ValueError("at least one order, rising, each above 1")
    return orders


def one_epsilon_an_order(epsilons: tuple[Decimal, ...], orders: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
    """The epsilons of a Renyi grid; ValueError unless they are as many as its orders."""
    if len(epsilons) != len(orders):
        raise ValueError("as many epsilons as orders")
    return epsilons


@record
class RDP(NeverFails, ReadAtAnyDelta, NoProfile):
    """Renyi DP on a grid: the divergence of order orders[i] is at most epsilons[i]. Orders rise, above 1.
    Mironov 2017.

    >>> round(dpl.compose(dpl.RDP(orders=(2, 16), epsilons=("0.01", "0.08"))).epsilon("1e-6").upper, 4)
    0.7517
    """

    orders: Grid
    epsilons: Grid
    kind: Literal["rdp"] = tag(default="rdp")

    if not TYPE_CHECKING:

        @field_validator("orders")
        @classmethod
        def _orders_rise_above_one(cls, orders):
            return rising_orders(orders)

        @field_validator("epsilons")
        @classmethod
        def _one_epsilon_an_order(cls, epsilons, info):
            return one_epsilon_an_order(epsilons, info.data.get("orders", epsilons))

    variant: ClassVar[str] = "Rényi differential privacy"
    registered: ClassVar[str] = "Renyi DP"
    is_point: ClassVar[bool] = False

    def epsilon_at(self, delta: Decimal) -> Decimal:
        """The epsilon that this means at `delta`; infinite where it means none there.

        Claim: it implies (result, delta)-DP, for a finite result. Source: `epsilon_of_rdp`."""
        grid = zip(self.orders, self.epsilons, strict=True)
        return min(epsilon_of_rdp(order, epsilon, delta) for order, epsilon in grid) if delta else INFINITY

    def needs(self, price: Cost) -> tuple[Need, ...]:
        grid = zip(self.orders, self.epsilons, strict=True)
        each = (Need(f"epsilon({text(order)})", most, price.rdp.get(order)) for order, most in grid)
        return (*each, Need("delta", ZERO, price.delta))

    @property
    def summand(self) -> RDP:
        return self

    @classmethod
    def sum_of(cls, parts: Sequence[RDP]) -> tuple[RDP | None, ...]:
        """At the orders that all of them name; all of them, where there is no such order. Source: Lyu 2022."""
        shared = set(parts[0].orders).intersection(*(part.orders for part in parts))
        if not shared:
            return tuple(parts)
        grids = [dict(zip(part.orders, part.epsilons, strict=True)) for part in parts]
        sums = {order: total(grid[order] for grid in grids) for order in sorted(shared)}
        return (None if max(sums.values()) >= TOO_LARGE else cls(tuple(sums), tuple(sums.values())),)

    def in_words(self, say: Say) -> str:
        points = [f"ε({text(order)}) = {say(at)}" for order, at in zip(self.orders, self.epsilons, strict=True)]
        return some_of(points, "orders")


def _root_of_squares(numbers: Iterable[Decimal]) -> Decimal:
    squares = total(multiply(number, number) for number in numbers)
    with localcontext(outward.context(squares)):
        root = squares.sqrt()
        return round_up(root) if root * root == squares else outward.above(root)
