"""The test that admits a request, the reading of what was spent, and the words of a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import assert_never

from dpledger.accounting.conversions import boundary_offset
from dpledger.accounting.filters.charges import Coordinates, Sums, opening, with_charge
from dpledger.accounting.filters.kinds import BasicFilter, Boundary, EitherFilter, Filter, MixedFilter, PureFilter
from dpledger.decimals import INFINITY, ZERO, add, round_up, subtract, text

__all__ = ["admits", "asked", "left", "reading", "spent"]


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
