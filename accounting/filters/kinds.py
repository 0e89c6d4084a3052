"""The kinds of filter, with sound constants; what a budget opens, and what a filter guarantees."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, assert_never

from pydantic import Field, model_validator

from dpledger.accounting.conversions import best_order_minus_one, boundary_offset
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PureDP
from dpledger.decimals import (
    ZERO,
    Exact,
    OpenProbability,
    Positive,
    Probability,
    add,
    multiply,
    round_down,
    round_up,
    text,
)
from dpledger.errors import ParameterError
from dpledger.schema import record, tag

__all__ = [
    "BasicFilter",
    "Boundary",
    "EitherFilter",
    "Filter",
    "MixedFilter",
    "PureFilter",
    "budget_guarantee",
    "names",
    "opened_by",
    "orders",
]

HALF = Decimal("0.5")
ONE = Decimal(1)
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
Filter: TypeAlias = PureFilter | BasicFilter | MixedFilter | EitherFilter


def _with_sound_constants(filter_: Boundary) -> Boundary:
    if not add(filter_.delta_boundary, filter_.delta_sum) < 1:
        raise ParameterError("delta_sum", filter_.delta_sum, "a number below 1 - delta_boundary")
    least = boundary_offset(filter_.order_minus_one, filter_.delta_boundary)
    if filter_.offset < least:
        raise ParameterError("offset", filter_.offset, f"at least {text(round_up(least))}")
    return filter_


if not TYPE_CHECKING:
    Filter = Annotated[Filter, Field(discriminator="kind")]


def opened_by(budget: Guarantee) -> Filter:
    """The filter that a scope's budget opens: F1 for a pure one, F8 for an approximate one.

    F8 gets half of delta for its boundary and half for its charges, the order that holds the most zCDP
    (conversions.best_order_minus_one) and the offset at that order. Raises ParameterError for another kind, and for a
    budget of nothing.
    """
    match budget:
        case PureDP(epsilon=epsilon):
            return PureFilter(epsilon)
        case ApproxDP(epsilon=epsilon, delta=delta):
            return _opened_by_approximate(epsilon, delta)
        case ZCDP() | GDP() | RDP() | BoundedRange():
            raise ParameterError(
                "budget", budget.kind, "pure_dp or approx_dp (filters of other kinds come with a later version)"
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


def budget_guarantee(filter_: Filter) -> Guarantee:
    """What holds for everything that the filter admits, however its parameters were chosen.

    Claim: the whole transcript of admitted requests meets the result. Source: docs/proofs/filters.md.
    """
    match filter_:
        case PureFilter(epsilon=epsilon):
            return PureDP(epsilon)
        case BasicFilter(epsilon=epsilon, delta_sum=delta_sum):
            return ApproxDP(epsilon, delta_sum)
        case MixedFilter() | EitherFilter():
            return ApproxDP(filter_.epsilon, add(filter_.delta_boundary, filter_.delta_sum))
        case _:
            assert_never(filter_)


def names(filter_: Filter) -> tuple[str, ...]:
    """The coordinates that the filter sums."""
    match filter_:
        case PureFilter():
            return ("pure",)
        case BasicFilter():
            return ("pure", "delta")
        case MixedFilter():
            return ("delta", "mixed_pure", "mixed_rdp")
        case EitherFilter():
            return ("pure", "delta", "mixed_pure", "mixed_rdp")
        case _:
            assert_never(filter_)


def orders(filter_: Filter) -> tuple[Decimal, ...]:
    """The Renyi orders at which the filter needs the price of a request (for `rules.cost`)."""
    match filter_:
        case PureFilter() | BasicFilter():
            return ()
        case MixedFilter(order_minus_one=more) | EitherFilter(order_minus_one=more):
            return (add(ONE, more),)
        case _:
            assert_never(filter_)
