"""Filters: the rule by which a scope admits requests while parameters are chosen adaptively.

A filter is constants, fixed when its scope opens. It turns the cost of a request into *coordinates* (what is summed and
written on the wire) and says whether sums of coordinates are admitted. It has no state of its own: `Sums` are values,
which the caller keeps.

    F1 `pure`    epsilon                                    sum of pure prices <= epsilon
    F2 `basic`   epsilon, delta_sum                         that, and sum of deltas <= delta_sum
    F7 `mixed`   epsilon, delta_boundary, delta_sum,        mixed_pure + mixed_rdp + offset <= epsilon,
                 order_minus_one, offset                    and sum of deltas <= delta_sum
    F8 `either`  as F7                                      F2's test or F7's, both accounts kept side by side

Coordinates: `pure` (epsilons), `delta`, and in the mixed account `mixed_pure` or `mixed_rdp`, of which a request fills
the cheaper and leaves the other 0; `mixed_rdp` is the Renyi divergence of order 1 + order_minus_one. Statements and
proofs: docs/proofs/filters.md.

>>> either = opened_by(ApproxDP(3, 1e-6))
>>> price = charge(either, Cost(pure=Decimal(1), rho=Decimal("0.4"), mu_squared=None))
>>> sums = with_charge(either, opening(either), price)
>>> admits(either, sums), left(either, sums)["pure"]
(True, '2')
>>> admits(either, with_charge(either, sums, charge(either, Cost(pure=Decimal(4), rho=None, mu_squared=None))))
False
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, assert_never

from pydantic import Field, model_validator

from dpledger.accounting.conversions import best_order_minus_one, boundary_offset
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Guarantee, PureDP
from dpledger.accounting.prices import Cost
from dpledger.decimals import (
    INFINITY,
    ZERO,
    Exact,
    OpenProbability,
    Positive,
    Probability,
    add,
    multiply,
    round_down,
    round_up,
    subtract,
    text,
)
from dpledger.errors import ParameterError
from dpledger.schema import record, tag

__all__ = [
    "BasicFilter",
    "Coordinates",
    "EitherFilter",
    "Filter",
    "MixedFilter",
    "PureFilter",
    "Sum",
    "Sums",
    "admits",
    "asked",
    "budget_guarantee",
    "charge",
    "left",
    "names",
    "opened_by",
    "opening",
    "orders",
    "reading",
    "settle",
    "spent",
    "with_charge",
    "without_charge",
]

Coordinates = Mapping[str, Decimal]
"""One charge by the names of its coordinates. A coordinate that is absent has no price: it counts as infinite."""
Sum: TypeAlias = tuple[Decimal, int]
"""The exact sum of the priced charges, and how many charges have no price: while there is one, the sum is infinite."""
Sums = Mapping[str, Sum]
"""A filter's sums by the names of its coordinates."""

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


# ---- opening --------------------------------------------------------------------------------------------------------


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


def opening(filter_: Filter) -> Sums:
    """The sums of a scope in which nothing has happened yet."""
    return dict.fromkeys(names(filter_), (ZERO, 0))


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


# ---- charging and settling ------------------------------------------------------------------------------------------


def charge(filter_: Filter, cost: Cost) -> Coordinates:
    """The coordinates of a request that costs `cost`; one without a price is absent.

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
    if renyi is not None and (cost.pure is None or renyi < cost.pure):
        return {"mixed_pure": ZERO, "mixed_rdp": renyi}
    if cost.pure is not None:
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
    return {name: price for name, price in prices.items() if price is not None}


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


# ---- the test -------------------------------------------------------------------------------------------------------


def admits(filter_: Filter, sums: Sums) -> bool:
    """Whether the filter admits these sums, those of the request under decision included.

    Claim: if every request was admitted before it ran, the transcript meets `budget_guarantee(filter_)`.
    Source: docs/proofs/filters.md, "F1 and F2", "F7", "F8".
    """
    match filter_:
        case PureFilter(epsilon=epsilon):
            return _total(sums, "pure") <= epsilon
        case BasicFilter(epsilon=epsilon, delta_sum=delta_sum):
            return _total(sums, "pure") <= epsilon and _total(sums, "delta") <= delta_sum
        case MixedFilter(epsilon=epsilon, delta_sum=delta_sum):
            return _mixed_total(filter_, sums) <= epsilon and _total(sums, "delta") <= delta_sum
        case EitherFilter(epsilon=epsilon, delta_sum=delta_sum):
            carried = _total(sums, "pure") <= epsilon or _mixed_total(filter_, sums) <= epsilon
            return carried and _total(sums, "delta") <= delta_sum
        case _:
            assert_never(filter_)


def _total(sums: Sums, name: str) -> Decimal:
    priced, unpriced = sums[name]
    return INFINITY if unpriced else priced


def _mixed_total(filter_: Boundary, sums: Sums) -> Decimal:
    return add(_total(sums, "mixed_pure"), _total(sums, "mixed_rdp"), filter_.offset)


def reading(filter_: Filter, sums: Sums, delta: Decimal) -> Decimal:
    """An epsilon that, with `delta`, bounds the loss of what has happened so far (an ex-post reading, not a claim).

    F1: the sum of pure prices. F2: that, if delta covers delta_sum; else infinite. F7: the mixed account with the
    offset that the rest of delta, above delta_sum, buys at the filter's fixed order. F8: the smaller of the two.
    Claim: for each delta fixed in advance the transcript is integrated ex-post (result, delta) at every prefix.
    Source: docs/proofs/filters.md, "Readings".
    """
    match filter_:
        case PureFilter():
            return _total(sums, "pure")
        case BasicFilter(delta_sum=delta_sum):
            return _total(sums, "pure") if delta >= delta_sum else INFINITY
        case MixedFilter():
            return _mixed_reading(filter_, sums, delta)
        case EitherFilter(delta_sum=delta_sum):
            basic = _total(sums, "pure") if delta >= delta_sum else INFINITY
            return min(basic, _mixed_reading(filter_, sums, delta))
        case _:
            assert_never(filter_)


def _mixed_reading(filter_: Boundary, sums: Sums, delta: Decimal) -> Decimal:
    boundary = subtract(delta, filter_.delta_sum)
    if boundary <= 0:
        return INFINITY
    if boundary == filter_.delta_boundary:
        return _mixed_total(filter_, sums)
    spent_ = add(_total(sums, "mixed_pure"), _total(sums, "mixed_rdp"))
    if spent_.is_infinite():
        return INFINITY
    epsilon = round_up(add(spent_, boundary_offset(filter_.order_minus_one, boundary)))
    return epsilon if epsilon > 0 else ZERO


# ---- words for a refusal --------------------------------------------------------------------------------------------


def asked(filter_: Filter, charged: Coordinates) -> dict[str, str]:
    """What a charge asks of each account (`pure`, `mixed`, `delta`), as decimal texts; `inf` for what has no price."""
    return spent(filter_, with_charge(filter_, opening(filter_), charged))


def spent(filter_: Filter, sums: Sums) -> dict[str, str]:
    """What each account holds, as decimal texts; `inf` while a charge has no price in it."""
    return {account: text(total) for account, (total, _) in _accounts(filter_, sums).items()}


def left(filter_: Filter, sums: Sums) -> dict[str, str]:
    """What each account could still take, rounded down: 0 once it is exhausted or holds a charge without a price."""
    return {
        account: text(subtract(limit, total)) if total < limit else "0"
        for account, (total, limit) in _accounts(filter_, sums).items()
    }


def _accounts(filter_: Filter, sums: Sums) -> Mapping[str, tuple[Decimal, Decimal]]:
    """Each account's total and limit. The mixed account's limit is what the offset leaves of epsilon."""
    match filter_:
        case PureFilter(epsilon=epsilon):
            return {"pure": (_total(sums, "pure"), epsilon)}
        case BasicFilter(epsilon=epsilon, delta_sum=delta_sum):
            return {"pure": (_total(sums, "pure"), epsilon), "delta": (_total(sums, "delta"), delta_sum)}
        case MixedFilter(delta_sum=delta_sum):
            return {"mixed": _mixed_account(filter_, sums), "delta": (_total(sums, "delta"), delta_sum)}
        case EitherFilter(epsilon=epsilon, delta_sum=delta_sum):
            return {
                "pure": (_total(sums, "pure"), epsilon),
                "mixed": _mixed_account(filter_, sums),
                "delta": (_total(sums, "delta"), delta_sum),
            }
        case _:
            assert_never(filter_)


def _mixed_account(filter_: Boundary, sums: Sums) -> tuple[Decimal, Decimal]:
    total = add(_total(sums, "mixed_pure"), _total(sums, "mixed_rdp"))
    return total, subtract(filter_.epsilon, filter_.offset)
