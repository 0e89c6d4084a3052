"""The kinds of filter, with sound constants; what a budget opens, and what a filter guarantees."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, assert_never

from pydantic import Field, field_validator, model_validator

from dpledger.accounting.conversions import best_order_minus_one, boundary_offset, zcdp_within
from dpledger.accounting.filters.allowance import NAMES, AllowanceFilter
from dpledger.accounting.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Grid,
    Guarantee,
    PrivacyCurve,
    PureDP,
    one_epsilon_an_order,
    rising_orders,
)
from dpledger.decimals import (
    ZERO,
    Exact,
    Number,
    OpenProbability,
    Positive,
    Probability,
    add,
    multiply,
    read,
    round_down,
    round_up,
    text,
)
from dpledger.errors import ParameterError
from dpledger.schema import given, record, tag

__all__ = [
    "KINDS",
    "SQUARE_DIGITS",
    "AdvancedFilter",
    "AllowanceFilter",
    "BasicFilter",
    "Boundary",
    "EitherFilter",
    "Filter",
    "GDPFilter",
    "MixedFilter",
    "PureFilter",
    "RDPFilter",
    "ZCDPFilter",
    "advanced",
    "budget_guarantee",
    "names",
    "opened_by",
    "orders",
    "renyi_names",
]

HALF = Decimal("0.5")
ONE = Decimal(1)
SQUARE_DIGITS = 120  # the square of a decimal is cut, if at all, only at the last place that a decimal may have
MOST_MU = 10**9  # its square, and so every sum that is admitted, is below 10^18, as numbers on the wire are
MOST_ORDERS = 256  # of a grid: each is a coordinate of every charge
HALF_DIGITS = 60  # a half of delta is cut, if at all, only at the last place that a decimal may have


@record
class PureFilter:
    """F1. Guarantee: epsilon-DP. Source: Rogers-Roth-Ullman-Vadhan 2016; docs/proofs/filters.md, "F1 and F2"."""

    epsilon: Positive
    kind: Literal["pure"] = tag(default="pure")


@record
class BasicFilter:
    """F2. Guarantee: (epsilon, delta_sum)-DP. Source: Rogers et al. 2016, Lemma 3.5; docs/proofs/filters.md, "F1 and
    F2"."""

    epsilon: Positive
    delta_sum: Probability
    kind: Literal["basic"] = tag(default="basic")


@record
class ZCDPFilter:
    """F3. Guarantee: delta_sum-approximate rho-zCDP. Source: Whitehouse-Ramdas-Rogers-Wu 2023, Theorem 1;
    docs/proofs/filters.md, "F3 and F6"."""

    rho: Positive
    delta_sum: Probability = given(default=ZERO)
    kind: Literal["zcdp"] = tag(default="zcdp")


@record
class RDPFilter:
    """F4. Guarantee: the Renyi divergence of orders[i] is at most epsilons[i], for every i. Orders rise, above 1; each
    epsilon is above 0. Source: Feldman-Zrnic 2021, Theorem 4.3; docs/proofs/filters.md, "F4"."""

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
    """F5. Guarantee: mu-GDP. Source: Smith-Thakurta 2022, Theorem 1; docs/proofs/filters.md, "F5"."""

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
class AdvancedFilter:
    """F6. Guarantee: (epsilon, delta_boundary + delta_sum)-DP, by holding the sum of rho to `rho`. Source:
    Whitehouse-Ramdas-Rogers-Wu 2023, Theorem 1; docs/proofs/filters.md, "F3 and F6".

    `rho` is at most what the boundary holds (conversions.zcdp_within; `advanced` fills it in) and the two deltas stay
    below 1 together; anything else is a ParameterError."""

    epsilon: Positive
    delta_boundary: OpenProbability
    delta_sum: Probability
    rho: Positive
    kind: Literal["advanced"] = tag(default="advanced")

    if not TYPE_CHECKING:

        @model_validator(mode="after")
        def _sound(self):
            return _with_sound_rho(self)


@record
class MixedFilter:
    """F7. Guarantee: (epsilon, delta_boundary + delta_sum)-DP. Source: docs/proofs/filters.md, "F7".

    `offset` is at least the boundary's constant (conversions.boundary_offset) and the two deltas stay below 1 together;
    anything else is a ParameterError."""

    epsilon: Positive
    delta_boundary: OpenProbability
    delta_sum: Probability
    order_minus_one: Positive
    offset: Exact
    kind: Literal["mixed"] = tag(default="mixed")

    if not TYPE_CHECKING:

        @model_validator(mode="after")
        def _sound(self):
            return _with_sound_constants(self)


@record
class EitherFilter:
    """F8. Guarantee: (epsilon, delta_boundary + delta_sum)-DP. Source: docs/proofs/filters.md, "F8".

    Its constants meet the conditions of F7's."""

    epsilon: Positive
    delta_boundary: OpenProbability
    delta_sum: Probability
    order_minus_one: Positive
    offset: Exact
    kind: Literal["either"] = tag(default="either")

    if not TYPE_CHECKING:

        @model_validator(mode="after")
        def _sound(self):
            return _with_sound_constants(self)


Boundary: TypeAlias = MixedFilter | EitherFilter
Filter: TypeAlias = (
    PureFilter
    | BasicFilter
    | ZCDPFilter
    | RDPFilter
    | GDPFilter
    | AdvancedFilter
    | MixedFilter
    | EitherFilter
    | AllowanceFilter
)
KINDS = (
    PureFilter,
    BasicFilter,
    ZCDPFilter,
    RDPFilter,
    GDPFilter,
    AdvancedFilter,
    MixedFilter,
    EitherFilter,
    AllowanceFilter,
)
"""The classes of the union, for a value of which nothing is known yet."""


def _require_room(filter_: Boundary | AdvancedFilter) -> None:
    if not add(filter_.delta_boundary, filter_.delta_sum) < 1:
        raise ParameterError("delta_sum", filter_.delta_sum, "a number below 1 - delta_boundary")


def _with_sound_rho(filter_: AdvancedFilter) -> AdvancedFilter:
    _require_room(filter_)
    most = zcdp_within(filter_.epsilon, filter_.delta_boundary)
    if filter_.rho > most:
        raise ParameterError("rho", filter_.rho, f"at most {text(round_down(most))}")
    return filter_


def _with_sound_constants(filter_: Boundary) -> Boundary:
    _require_room(filter_)
    least = boundary_offset(filter_.order_minus_one, filter_.delta_boundary)
    if filter_.offset < least:
        raise ParameterError("offset", filter_.offset, f"at least {text(round_up(least))}")
    return filter_


if not TYPE_CHECKING:
    Filter = Annotated[Filter, Field(discriminator="kind")]


def opened_by(budget: Guarantee) -> Filter:
    """The filter that a scope's budget opens: F1 for a pure one, F8 for an approximate one, F3 for zCDP, F4 for RDP, F5
    for GDP.

    F8 gets half of delta for its boundary and half for its charges, the order that holds the most zCDP
    (conversions.best_order_minus_one) and the offset at that order. Raises ParameterError for another kind, and for a
    budget of nothing.
    """
    match budget:
        case PureDP(epsilon=epsilon):
            return PureFilter(epsilon)
        case ApproxDP(epsilon=epsilon, delta=delta):
            return _opened_by_approximate(epsilon, delta)
        case ZCDP(rho=rho, delta=delta):
            return ZCDPFilter(rho, delta)
        case RDP(orders=orders, epsilons=epsilons):
            return RDPFilter(orders, epsilons)
        case GDP(mu=mu):
            return GDPFilter(mu)
        case BoundedRange() | PrivacyCurve():  # exact profiles do not compose when parameters are chosen adaptively
            raise ParameterError(
                "budget", budget.kind, "a guarantee that composes (pure_dp, approx_dp, zcdp, rdp, gdp)"
            )
        case _:
            assert_never(budget)


def _opened_by_approximate(epsilon: Decimal, delta: Decimal) -> Filter:
    if not epsilon:
        raise ParameterError("budget.epsilon", "0", "a number above 0")
    if not delta:
        return PureFilter(epsilon)
    half = round_down(multiply(delta, HALF), digits=HALF_DIGITS)
    if not half:
        raise ParameterError("budget.delta", text(delta), "0, or enough to be halved within 60 decimal places")
    order_minus_one = best_order_minus_one(epsilon, half)
    offset = max(ZERO, round_up(boundary_offset(order_minus_one, half)))
    return EitherFilter(epsilon, half, half, order_minus_one, offset)


def advanced(epsilon: Number, delta_boundary: Number, delta_sum: Number = ZERO) -> AdvancedFilter:
    """F6 with the most zCDP that its boundary holds. ParameterError where that is nothing.

    Claim: the result's `rho` is sound for its epsilon and delta_boundary. Source: conversions.zcdp_within.
    """
    loss, boundary = read(epsilon, field="epsilon"), read(delta_boundary, field="delta_boundary")
    if not loss > 0:
        raise ParameterError("epsilon", loss, "a number above 0")
    if not 0 < boundary < 1:
        raise ParameterError("delta_boundary", boundary, "a number in (0, 1)")
    return AdvancedFilter(loss, boundary, delta_sum, round_down(zcdp_within(loss, boundary)))


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
        case AdvancedFilter() | MixedFilter() | EitherFilter():
            return ApproxDP(filter_.epsilon, add(filter_.delta_boundary, filter_.delta_sum))
        case AllowanceFilter():
            return ApproxDP(filter_.epsilon, filter_.delta)
        case _:
            assert_never(filter_)


def names(filter_: Filter) -> tuple[str, ...]:
    """The coordinates that the filter sums."""
    match filter_:
        case PureFilter():
            return ("pure",)
        case BasicFilter():
            return ("pure", "delta")
        case ZCDPFilter() | AdvancedFilter():
            return ("rho", "delta")
        case RDPFilter():
            return ("pure", *renyi_names(filter_))
        case GDPFilter():
            return ("mu_squared",)
        case MixedFilter():
            return ("delta", "mixed_pure", "mixed_rdp")
        case EitherFilter():
            return ("pure", "delta", "mixed_pure", "mixed_rdp")
        case AllowanceFilter():
            return NAMES
        case _:
            assert_never(filter_)


def renyi_names(filter_: RDPFilter) -> tuple[str, ...]:
    """The coordinate of each order, by its place in the grid: `rdp_0`, `rdp_1`, ..."""
    return tuple(f"rdp_{place}" for place in range(len(filter_.orders)))


def orders(filter_: Filter) -> tuple[Decimal, ...]:
    """The Renyi orders at which the filter needs the price of a request (for `rules.cost`)."""
    match filter_:
        case PureFilter() | BasicFilter() | ZCDPFilter() | GDPFilter() | AdvancedFilter():
            return ()
        case RDPFilter(orders=renyi_orders):
            return renyi_orders
        case MixedFilter(order_minus_one=more) | EitherFilter(order_minus_one=more):
            return (add(ONE, more),)
        case AllowanceFilter():
            return ()
        case _:
            assert_never(filter_)
