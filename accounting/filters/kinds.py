"""The kinds of filter, with sound constants; what each guarantees."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, assert_never, get_args

from pydantic import Field, field_validator, model_validator

from dpledger.accounting.filters.allowance import AllowanceFilter
from dpledger.accounting.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    Grid,
    Guarantee,
    PureDP,
    one_epsilon_an_order,
    rising_orders,
)
from dpledger.decimals import ZERO, add, text, total
from dpledger.errors import ParameterError
from dpledger.number_fields import OpenProbability, Positive, Probability
from dpledger.schema import given, record, tag

__all__ = [
    "KINDS",
    "MOST_BOUNDARIES",
    "SQUARE_DIGITS",
    "AllowanceFilter",
    "BasicFilter",
    "Boundary",
    "EitherFilter",
    "Filter",
    "GDPFilter",
    "PureFilter",
    "RDPFilter",
    "ZCDPFilter",
    "budget_guarantee",
    "delta_boundaries",
    "tail_budget",
]

SQUARE_DIGITS = 120  # the square of a decimal is cut, if at all, only at the last place that a decimal may have
MOST_MU = 10**9  # its square, and so every sum that is admitted, is below 10^18, as numbers on the wire are
MOST_ORDERS = 256  # of a grid: each is a coordinate of every charge
MOST_BOUNDARIES = 16  # of a mixture: each is two coordinates of every charge


@record
class PureFilter:
    """F1. Guarantee: epsilon-DP. Source: Rogers-Roth-Ullman-Vadhan 2016; docs/proofs/filters.md, "F1 and F2".

    >>> budget = dpl.filters.PureFilter(epsilon=1)
    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=budget)
    >>> scope.afford(dpl.LaplaceLaw("0.1"), most=50).one_by_one
    10
    """

    epsilon: Positive
    kind: Literal["pure"] = tag(default="pure")


@record
class BasicFilter:
    """F2. Guarantee: (epsilon, delta_sum)-DP. Source: Rogers et al. 2016, Lemma 3.5; docs/proofs/filters.md, "F1 and
    F2".

    >>> budget = dpl.filters.BasicFilter(epsilon=1, delta_sum="1e-6")
    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=budget)
    >>> scope.quote(dpl.Laplace(sensitivity=1, epsilon="0.1")).admitted
    True
    """

    epsilon: Positive
    delta_sum: Probability
    kind: Literal["basic"] = tag(default="basic")


@record
class ZCDPFilter:
    """F3. Guarantee: delta_sum-approximate rho-zCDP. Source: Whitehouse-Ramdas-Rogers-Wu 2023, Theorem 1;
    docs/proofs/filters.md, "F3".

    >>> budget = dpl.filters.ZCDPFilter(rho="0.1", delta_sum=0)
    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=budget)
    >>> scope.afford(dpl.GaussianLaw(10), most=50).one_by_one
    20
    """

    rho: Positive
    delta_sum: Probability = given(default=ZERO)
    kind: Literal["zcdp"] = tag(default="zcdp")


@record
class RDPFilter:
    """F4. Guarantee: the Renyi divergence of orders[i] is at most epsilons[i], for every i. Orders rise, above 1; each
    epsilon is above 0. Source: Feldman-Zrnic 2021, Theorem 4.3; docs/proofs/filters.md, "F4".

    >>> budget = dpl.filters.RDPFilter(orders=(2, 8), epsilons=("0.5", "1"))
    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=budget)
    >>> scope.afford(dpl.GaussianLaw(10), most=50).one_by_one
    25
    """

    orders: Grid
    epsilons: Grid
    kind: Literal["rdp"] = tag(default="rdp")

    if not TYPE_CHECKING:

        @field_validator("orders")
        @classmethod
        def _orders_rise(cls, orders):
            if len(orders) > MOST_ORDERS:
                raise ValueError(f"at most {MOST_ORDERS} orders")
            return rising_orders(orders)

        @field_validator("epsilons")
        @classmethod
        def _one_epsilon_an_order(cls, epsilons, info):
            if not all(epsilon > 0 for epsilon in epsilons):
                raise ValueError("epsilons above 0")
            return one_epsilon_an_order(epsilons, info.data.get("orders", epsilons))


@record
class GDPFilter:
    """F5. Guarantee: mu-GDP. Source: Smith-Thakurta 2022, Theorem 1; docs/proofs/filters.md, "F5".

    >>> budget = dpl.filters.GDPFilter(mu=1)
    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=budget)
    >>> scope.afford(dpl.GaussianLaw(10), most=50).one_by_one
    50
    """

    mu: Positive
    kind: Literal["gdp"] = tag(default="gdp")

    if not TYPE_CHECKING:

        @field_validator("mu")
        @classmethod
        def _square_is_a_number(cls, mu):
            if mu >= MOST_MU:
                raise ValueError(f"a number below {MOST_MU}")
            return mu


@record
class Boundary:
    """One order of a mixture, less one, and what of delta its account may let fail.

    >>> one = dpl.filters.Boundary(order_minus_one=30, delta_boundary="4e-7")  # the order 31
    >>> float(one.order_minus_one), float(one.delta_boundary)
    (30.0, 4e-07)
    """

    order_minus_one: Positive
    delta_boundary: OpenProbability


@record
class EitherFilter:
    """F6. Guarantee: (epsilon, the sum of the boundaries' deltas + delta_sum)-DP. Source: docs/proofs/filters.md, "F6".

    The orders differ, and the deltas stay below 1 together; anything else is a ParameterError.

    >>> budget = dpl.filters.EitherFilter(epsilon=1, delta_sum="1e-7", boundaries=(dpl.filters.Boundary(30, "9e-7"),))
    >>> scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=budget)
    >>> scope.quote(dpl.Gaussian(sensitivity=1, noise_multiplier=50)).admitted
    True
    """

    epsilon: Positive
    delta_sum: Probability
    boundaries: tuple[Boundary, ...]
    kind: Literal["either"] = tag(default="either")

    if not TYPE_CHECKING:

        @field_validator("boundaries")
        @classmethod
        def _orders_differ(cls, boundaries):
            if not 1 <= len(boundaries) <= MOST_BOUNDARIES:
                raise ValueError(f"from 1 to {MOST_BOUNDARIES} boundaries")
            if len({boundary.order_minus_one for boundary in boundaries}) < len(boundaries):
                raise ValueError("boundaries of different orders")
            return boundaries

        @model_validator(mode="after")
        def _sound(self):
            boundary = delta_boundaries(self)
            if not add(boundary, self.delta_sum) < 1:
                raise ParameterError("delta_sum", self.delta_sum, f"a number below 1 - {text(boundary)}")
            return self


Filter: TypeAlias = PureFilter | BasicFilter | ZCDPFilter | RDPFilter | GDPFilter | EitherFilter | AllowanceFilter
KINDS: tuple[type[Filter], ...] = get_args(Filter)
"""The classes of the union, for a value of which nothing is known yet."""


def delta_boundaries(filter_: EitherFilter) -> Decimal:
    """What of delta all boundaries together may let fail."""
    return total(boundary.delta_boundary for boundary in filter_.boundaries)


if not TYPE_CHECKING:
    Filter = Annotated[Filter, Field(discriminator="kind")]


def budget_guarantee(filter_: Filter) -> Guarantee:
    """What holds for everything that the filter admits, however its parameters were chosen.

    Claim: the whole transcript of admitted requests meets the result. Source: docs/proofs/filters.md.
    """
    match filter_:
        case PureFilter(epsilon=epsilon):
            return PureDP(epsilon)
        case BasicFilter(epsilon=epsilon, delta_sum=delta_sum):
            return ApproxDP(epsilon, delta_sum)
        case ZCDPFilter(rho=rho, delta_sum=delta_sum):
            return ZCDP(rho, delta_sum)
        case RDPFilter(orders=renyi_orders, epsilons=epsilons):
            return RDP(renyi_orders, epsilons)
        case GDPFilter(mu=mu):
            return GDP(mu)
        case EitherFilter(epsilon=epsilon, delta_sum=delta_sum):
            return ApproxDP(epsilon, add(delta_boundaries(filter_), delta_sum))
        case AllowanceFilter():
            return ApproxDP(filter_.epsilon, filter_.delta)
        case _:
            assert_never(filter_)


def tail_budget(filter_: Filter) -> Decimal | None:
    """The delta of which a request that is priced by its profile may take its share (`accounting.certified`); None
    where the filter counts no pure, Renyi or zCDP prices beside a delta, and so takes no such request."""
    match filter_:
        case BasicFilter(delta_sum=delta_sum) | EitherFilter(delta_sum=delta_sum):
            return delta_sum
        case ZCDPFilter(delta_sum=delta_sum):
            return delta_sum or None
        case PureFilter() | RDPFilter() | GDPFilter() | AllowanceFilter():
            return None
        case _:
            assert_never(filter_)
