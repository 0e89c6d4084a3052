"""The test that admits a request, the reading of what was spent, and the words of a refusal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dpledger.accounting.arithmetic.conversions import boundary_offset, epsilon_of_gdp, epsilon_of_rdp, order_for_zcdp
from dpledger.accounting.filters import allowance
from dpledger.accounting.filters.charges import TOO_LARGE, Coordinates, Sums, opening, with_charge
from dpledger.accounting.filters.coordinates import mixed_names, renyi_names
from dpledger.accounting.filters.kinds import (
    SQUARE_DIGITS,
    AllowanceFilter,
    BasicFilter,
    EitherFilter,
    Filter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
    delta_boundaries,
)
from dpledger.accounting.filters.mixture import best_alone, mixture_epsilon, shares
from dpledger.decimals import INFINITY, ZERO, add, multiply, round_down, round_up, subtract, text
from dpledger.errors import ParameterError

__all__ = [
    "admits",
    "asked",
    "deciding",
    "delta_for_claims",
    "fits",
    "fullest",
    "leading",
    "left",
    "reading",
    "spent",
    "used",
]

HALF = Decimal("0.5")


def admits(filter_: Filter, sums: Sums) -> bool:
    """Whether the filter admits these sums, those of the request under decision included.

    Claim: if every request was admitted before it ran, the transcript meets `budget_guarantee(filter_)`.
    Source: docs/proofs/filters.md, the section of each filter.
    """
    if isinstance(filter_, EitherFilter) and _fits_alone(filter_, sums):
        return _total(sums, "delta") <= filter_.delta_sum
    return _within(filter_, _accounts(filter_, sums))


def fits(filter_: Filter, sums: Sums, more: Mapping[str, Decimal]) -> bool:
    """Whether the filter would admit, beside these sums, a request that asks `more` of each account (`asked`).

    Claim: for every charge c, fits(f, s, asked(f, s, c)) is admits(f, with_charge(f, s, c)).
    ParameterError unless `more` names exactly the accounts of the filter."""
    held = _accounts(filter_, sums)
    if set(more) != set(held):
        raise ParameterError("asked", ", ".join(sorted(more)) or "nothing", f"the accounts {', '.join(sorted(held))}")
    return _within(filter_, {account: (add(total, more[account]), limit) for account, (total, limit) in held.items()})


def _within(filter_: Filter, accounts: Mapping[str, tuple[Decimal, Decimal]]) -> bool:
    """Whether every account that decides is within its limit."""
    told = _told_only(filter_)
    return all(total <= limit for account, (total, limit) in accounts.items() if account != told)


def used(filter_: Filter, sums: Sums) -> float:
    """About the share of its limit that the fullest of the accounts that decide holds, deltas apart: what a search goes
    by, while `admits` decides."""
    told = (_told_only(filter_), "delta")
    amounts = (amount for account, amount in _accounts(filter_, sums).items() if account not in told)
    return max(float(total) / float(limit) if float(limit) else math.inf for total, limit in amounts)


def deciding(filter_: Filter) -> tuple[str, ...]:
    """The accounts that must all stay within their limits, and no other. The sum of pure prices binds no mixture, which
    counts it too: `mixed` is never above `pure`."""
    told = _told_only(filter_)
    return tuple(account for account in _accounts(filter_, opening(filter_)) if account != told)


def _told_only(filter_: Filter) -> str | None:
    return "pure" if isinstance(filter_, EitherFilter) else None


def _total(sums: Sums, name: str) -> Decimal:
    priced, unpriced = sums[name]
    return INFINITY if unpriced else priced


def _mixed_spent(sums: Sums, pair: tuple[str, str]) -> Decimal:
    return add(*(_total(sums, name) for name in pair))


def _mixed_totals(filter_: EitherFilter, sums: Sums) -> list[Decimal]:
    return [_mixed_spent(sums, pair) for pair in mixed_names(filter_)]


def _mixture(filter_: EitherFilter, sums: Sums, delta: Decimal) -> Decimal:
    """The reading of the mixture with `delta` for its boundaries, which is what the test asks about at their own."""
    pure = _total(sums, "pure")
    found = mixture_epsilon(shares(filter_.boundaries, delta), _mixed_totals(filter_, sums), pure)
    return found if found == pure else _shown(found, pure, filter_.epsilon)


def _shown(found: Decimal, *kept: Decimal) -> Decimal:
    """`found`, rounded up, but not past one of those that it is within; infinite where no number that is written down
    reaches it."""
    shown = min([round_up(found), *(limit for limit in kept if found <= limit)])
    return shown if shown < TOO_LARGE else INFINITY


def _fits_alone(filter_: EitherFilter, sums: Sums) -> bool:
    """Whether one account of the mixture is within epsilon by itself; then all are together."""
    own = shares(filter_.boundaries, delta_boundaries(filter_))
    return best_alone(own, _mixed_totals(filter_, sums), _total(sums, "pure")) <= filter_.epsilon


def leading(filter_: EitherFilter, sums: Sums) -> int:
    """The place of the boundary whose account is the smallest epsilon by itself."""
    own = shares(filter_.boundaries, delta_boundaries(filter_))
    alone = [one.alone(total) for one, total in zip(own, _mixed_totals(filter_, sums), strict=True)]
    return alone.index(min(alone))


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

    F1: the sum of pure prices. F2: that, while the sum of deltas is within delta; else infinite. F3: the sum of rho
    at the order that reads the filter's rho best with the rest of delta, above delta_sum; at delta_sum and below with
    half of delta, while the sum of deltas is within the other half. F4: the sum at the order that reads the filter's
    grid best. F5: the budget, converted, once anything is charged. F6: the mixture with the rest of delta, above
    delta_sum, shared out as at the opening; at delta_sum and below as F2. At F6's own delta a request is admitted just
    when the reading with it stays within epsilon (and the sum of deltas within delta_sum). F7: `allowance.reading`.
    Claim: for each delta fixed in advance the transcript is integrated ex-post (result, delta) at every prefix.
    Source: docs/proofs/filters.md, "Readings".
    """
    match filter_:
        case PureFilter():
            return _total(sums, "pure")
        case BasicFilter():
            return _pure_reading(sums, _total(sums, "pure"), delta)
        case ZCDPFilter(rho=rho, delta_sum=delta_sum):
            claims = delta_sum if delta > delta_sum else multiply(delta, HALF)
            within = _total(sums, "delta") <= claims
            return _zcdp_reading(rho, _total(sums, "rho"), delta, subtract(delta, claims)) if within else INFINITY
        case RDPFilter():
            return _grid_reading(filter_, _grid_totals(filter_, sums), delta)
        case GDPFilter(mu=mu):
            return _budget_reading(_total(sums, "mu_squared"), delta, lambda: epsilon_of_gdp(mu, delta))
        case EitherFilter(delta_sum=delta_sum):
            if delta <= delta_sum:
                return _pure_reading(sums, _total(sums, "pure"), delta)
            return _mixture(filter_, sums, subtract(delta, delta_sum))
        case AllowanceFilter():
            copies, pure, failing = (_total(sums, name) for name in allowance.NAMES)
            return allowance.reading(filter_, copies=copies, pure=pure, failing=failing, delta=delta)
        case _:
            assert_never(filter_)


def _pure_reading(sums: Sums, pure: Decimal, delta: Decimal) -> Decimal:
    """The sum of pure prices, while what fails beside them is within delta."""
    return pure if _total(sums, "delta") <= delta else INFINITY


def _zcdp_reading(rho: Decimal, spent_: Decimal, delta: Decimal, boundary: Decimal) -> Decimal:
    if spent_.is_infinite():
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
    epsilon = _shown(add(divergence, boundary_offset(order_minus_one, delta)))
    return epsilon if epsilon > 0 else ZERO


# ---- words for a refusal --------------------------------------------------------------------------------------------


def delta_for_claims(filter_: Filter) -> Decimal | None:
    """What of the budget's delta is for requests that have a delta of their own, where the rest of it pays for
    composing those that have none; None where no such rest is kept."""
    match filter_:
        case EitherFilter(delta_sum=delta_sum):
            return delta_sum
        case PureFilter() | BasicFilter() | ZCDPFilter() | RDPFilter() | GDPFilter() | AllowanceFilter():
            return None
        case _:
            assert_never(filter_)


def asked(filter_: Filter, sums: Sums, charged: Coordinates) -> dict[str, str]:
    """What a charge asks of each account (`copies`, `pure`, `mixed`, `delta`), as decimal texts; `inf` where it has
    no price.

    Of a mixture, whose accounts do not add up, it asks what its reading would rise by beside these sums."""
    wanted = spent(filter_, with_charge(filter_, opening(filter_), charged))
    if isinstance(filter_, EitherFilter):
        wanted["mixed"] = text(_rise(filter_, sums, charged))
    return wanted


def _rise(filter_: EitherFilter, sums: Sums, charged: Coordinates) -> Decimal:
    delta = delta_boundaries(filter_)
    after = _mixture(filter_, with_charge(filter_, sums, charged), delta)
    return after if after.is_infinite() else subtract(after, _mixture(filter_, sums, delta))


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
    """Each account's total and limit. The mixture's is told as its reading at the filter's own delta."""
    match filter_:
        case PureFilter(epsilon=epsilon):
            return {"pure": (_total(sums, "pure"), epsilon)}
        case BasicFilter(epsilon=epsilon, delta_sum=delta_sum):
            return {"pure": (_total(sums, "pure"), epsilon), "delta": (_total(sums, "delta"), delta_sum)}
        case ZCDPFilter(rho=rho, delta_sum=delta_sum):
            return {"rho": (_total(sums, "rho"), rho), "delta": (_total(sums, "delta"), delta_sum)}
        case RDPFilter(epsilons=epsilons):
            totals = zip(_grid_totals(filter_, sums), epsilons, strict=True)
            return dict(zip(renyi_names(filter_), totals, strict=True))
        case GDPFilter(mu=mu):  # a sum of prices has no more digits than the limit is cut to
            return {"mu_squared": (_total(sums, "mu_squared"), round_down(multiply(mu, mu), digits=SQUARE_DIGITS))}
        case EitherFilter(epsilon=epsilon, delta_sum=delta_sum):
            return {
                "pure": (_total(sums, "pure"), epsilon),
                "mixed": (_mixture(filter_, sums, delta_boundaries(filter_)), epsilon),
                "delta": (_total(sums, "delta"), delta_sum),
            }
        case AllowanceFilter(steps=steps, epsilon_rest=epsilon, delta_rest=delta):
            limits = zip(allowance.NAMES, (Decimal(steps), epsilon, delta), strict=True)
            return {name: (_total(sums, name), limit) for name, limit in limits}
        case _:
            assert_never(filter_)
