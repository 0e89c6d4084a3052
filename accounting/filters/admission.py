"""The test that admits a request, the reading of what was spent, and the words of a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dpledger.accounting.conversions import boundary_offset, epsilon_of_gdp, epsilon_of_rdp, order_for_zcdp
from dpledger.accounting.filters import allowance
from dpledger.accounting.filters.charges import Coordinates, Sums, opening, with_charge
from dpledger.accounting.filters.kinds import (
    SQUARE_DIGITS,
    AdvancedFilter,
    AllowanceFilter,
    BasicFilter,
    Boundary,
    EitherFilter,
    Filter,
    GDPFilter,
    MixedFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
    renyi_names,
)
from dpledger.decimals import INFINITY, ZERO, add, multiply, round_down, round_up, subtract, text
from dpledger.errors import ParameterError

__all__ = ["admits", "asked", "fits", "fullest", "left", "reading", "spent"]


def admits(filter_: Filter, sums: Sums) -> bool:
    """Whether the filter admits these sums, those of the request under decision included.

    Claim: if every request was admitted before it ran, the transcript meets `budget_guarantee(filter_)`.
    Source: docs/proofs/filters.md, the section of each filter.
    """
    return _within(filter_, _accounts(filter_, sums))


def fits(filter_: Filter, sums: Sums, more: Mapping[str, Decimal]) -> bool:
    """Whether the filter would admit, beside these sums, a request that asks `more` of each account (`asked`).

    Claim: for every charge c, fits(f, s, asked(f, c)) is admits(f, with_charge(f, s, c)): accounts add up as
    coordinates do. ParameterError unless `more` names exactly the accounts of the filter."""
    held = _accounts(filter_, sums)
    if set(more) != set(held):
        raise ParameterError("asked", ", ".join(sorted(more)) or "nothing", f"the accounts {', '.join(sorted(held))}")
    return _within(filter_, {account: (add(total, more[account]), limit) for account, (total, limit) in held.items()})


def _within(filter_: Filter, accounts: Mapping[str, tuple[Decimal, Decimal]]) -> bool:
    """Whether every account is within its limit; of `pure` and `mixed`, where there are both, either."""
    within = {account: total <= limit for account, (total, limit) in accounts.items()}
    if isinstance(filter_, EitherFilter):
        return (within["pure"] or within["mixed"]) and within["delta"]
    return all(within.values())


def _total(sums: Sums, name: str) -> Decimal:
    priced, unpriced = sums[name]
    return INFINITY if unpriced else priced


def _mixed_total(filter_: Boundary, sums: Sums) -> Decimal:
    return add(_total(sums, "mixed_pure"), _total(sums, "mixed_rdp"), filter_.offset)


def _grid_totals(filter_: RDPFilter, sums: Sums) -> tuple[Decimal, ...]:
    """At each order, what was charged in Renyi divergences of that order and in pure epsilons."""
    pure = _total(sums, "pure")
    return tuple(add(pure, _total(sums, name)) for name in renyi_names(filter_))


def fullest(filter_: RDPFilter, sums: Sums) -> str:
    """The coordinate of the order that has used the largest share of its budget."""
    totals = _grid_totals(filter_, sums)
    if any(total.is_infinite() for total in totals):
        return next(name for name, total in zip(renyi_names(filter_), totals, strict=True) if total.is_infinite())
    shares = [Fraction(total) / Fraction(epsilon) for total, epsilon in zip(totals, filter_.epsilons, strict=True)]
    return renyi_names(filter_)[shares.index(max(shares))]


def reading(filter_: Filter, sums: Sums, delta: Decimal) -> Decimal:
    """An epsilon that, with `delta`, bounds the loss of what has happened so far (an ex-post reading, not a claim).

    F1: the sum of pure prices. F2: that, if delta covers delta_sum; else infinite. F3, F6: the sum of rho at the order
    that reads the filter's rho best at this delta. F4: the sum at the order that reads the filter's grid best. F5: the
    budget, converted, once anything is charged. F7: the mixed account with the offset that the rest of delta, above
    delta_sum, buys at the filter's fixed order. F8: the smaller of F2's and F7's. F9: `allowance.reading`.
    Claim: for each delta fixed in advance the transcript is integrated ex-post (result, delta) at every prefix.
    Source: docs/proofs/filters.md, "Readings".
    """
    match filter_:
        case PureFilter():
            return _total(sums, "pure")
        case BasicFilter(delta_sum=delta_sum):
            return _total(sums, "pure") if delta >= delta_sum else INFINITY
        case ZCDPFilter(rho=rho, delta_sum=delta_sum) | AdvancedFilter(rho=rho, delta_sum=delta_sum):
            return _zcdp_reading(rho, _total(sums, "rho"), delta, delta_sum)
        case RDPFilter():
            return _grid_reading(filter_, _grid_totals(filter_, sums), delta)
        case GDPFilter(mu=mu):
            return _budget_reading(_total(sums, "mu_squared"), delta, lambda: epsilon_of_gdp(mu, delta))
        case MixedFilter():
            return _mixed_reading(filter_, sums, delta)
        case EitherFilter(delta_sum=delta_sum):
            basic = _total(sums, "pure") if delta >= delta_sum else INFINITY
            return min(basic, _mixed_reading(filter_, sums, delta))
        case AllowanceFilter():
            copies, pure = (_total(sums, name) for name in ("copies", "pure"))
            return allowance.reading(filter_, copies=copies, pure=pure, delta=delta)
        case _:
            assert_never(filter_)


def _mixed_reading(filter_: Boundary, sums: Sums, delta: Decimal) -> Decimal:
    boundary = subtract(delta, filter_.delta_sum)
    if boundary <= 0:
        return INFINITY
    if boundary == filter_.delta_boundary:
        return _mixed_total(filter_, sums)
    spent_ = add(_total(sums, "mixed_pure"), _total(sums, "mixed_rdp"))
    return INFINITY if spent_.is_infinite() else _raised(spent_, filter_.order_minus_one, boundary)


def _zcdp_reading(rho: Decimal, spent_: Decimal, delta: Decimal, delta_sum: Decimal) -> Decimal:
    boundary = subtract(delta, delta_sum)
    if spent_.is_infinite() or boundary < 0:
        return INFINITY
    if not spent_ or delta >= 1:
        return ZERO
    if not boundary:
        return INFINITY
    order = order_for_zcdp(rho, boundary)
    return _raised(multiply(spent_, order), subtract(order, Decimal(1)), boundary)


def _grid_reading(filter_: RDPFilter, totals: tuple[Decimal, ...], delta: Decimal) -> Decimal:
    def converted() -> Decimal:
        budgets = zip(filter_.orders, filter_.epsilons, totals, strict=True)
        order, _, spent_ = min(budgets, key=lambda at: epsilon_of_rdp(at[0], at[1], delta))
        return _raised(spent_, subtract(order, Decimal(1)), delta)

    return _budget_reading(max(totals), delta, converted)


def _budget_reading(spent_: Decimal, delta: Decimal, converted: Callable[[], Decimal]) -> Decimal:
    """`converted`, but 0 while nothing is charged or delta is 1, and infinite at delta = 0 or without a price."""
    if spent_.is_infinite():
        return INFINITY
    if not spent_ or delta >= 1:
        return ZERO
    return converted() if delta else INFINITY


def _raised(divergence: Decimal, order_minus_one: Decimal, delta: Decimal) -> Decimal:
    """A Renyi divergence as an epsilon at `delta`."""
    epsilon = round_up(add(divergence, boundary_offset(order_minus_one, delta)))
    return epsilon if epsilon > 0 else ZERO


# ---- words for a refusal --------------------------------------------------------------------------------------------


def asked(filter_: Filter, charged: Coordinates) -> dict[str, str]:
    """What a charge asks of each account (`copies`, `pure`, `delta`, ...), as decimal texts; `inf` where it has no
    price."""
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
        case ZCDPFilter(rho=rho, delta_sum=delta_sum) | AdvancedFilter(rho=rho, delta_sum=delta_sum):
            return {"rho": (_total(sums, "rho"), rho), "delta": (_total(sums, "delta"), delta_sum)}
        case RDPFilter(epsilons=epsilons):
            totals = zip(_grid_totals(filter_, sums), epsilons, strict=True)
            return dict(zip(renyi_names(filter_), totals, strict=True))
        case GDPFilter(mu=mu):  # a sum of prices has no more digits than the limit is cut to
            return {"mu_squared": (_total(sums, "mu_squared"), round_down(multiply(mu, mu), digits=SQUARE_DIGITS))}
        case MixedFilter(delta_sum=delta_sum):
            return {"mixed": _mixed_account(filter_, sums), "delta": (_total(sums, "delta"), delta_sum)}
        case EitherFilter(epsilon=epsilon, delta_sum=delta_sum):
            return {
                "pure": (_total(sums, "pure"), epsilon),
                "mixed": _mixed_account(filter_, sums),
                "delta": (_total(sums, "delta"), delta_sum),
            }
        case AllowanceFilter(steps=steps, epsilon_rest=epsilon, delta_rest=delta):
            limits = zip(allowance.NAMES, (Decimal(steps), epsilon, delta), strict=True)
            return {name: (_total(sums, name), limit) for name, limit in limits}
        case _:
            assert_never(filter_)


def _mixed_account(filter_: Boundary, sums: Sums) -> tuple[Decimal, Decimal]:
    total = add(_total(sums, "mixed_pure"), _total(sums, "mixed_rdp"))
    return total, subtract(filter_.epsilon, filter_.offset)
