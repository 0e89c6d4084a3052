"""One guarantee turned into a weaker one, each formula by its name and with its source.

Every result is rounded to the side that keeps it true: upper bounds up, so converting there and back never improves a
guarantee.

>>> zcdp_of_pure(Decimal(1))
Decimal('0.462117157261')
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import lru_cache

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import ZERO, add, in_own_context, multiply, round_down, round_up, subtract
from dpledger.errors import ParameterError

__all__ = [
    "best_order_minus_one",
    "boundary_offset",
    "delta_of_gdp",
    "epsilon_of_gdp",
    "epsilon_of_rdp",
    "epsilon_of_zcdp",
    "gdp_within",
    "mu_squared_of_pure",
    "order_for_zcdp",
    "rdp_of_pure",
    "zcdp_of_gdp",
    "zcdp_of_pure",
    "zcdp_within",
]

HALF = Decimal("0.5")
ONE = Decimal(1)
ROOT_WIDTH = Decimal("1e-11")  # relative width of a root that is searched
ROUNDING = Decimal("1e-50")  # of the terms: far above the rounding of sixty digits, far below every margin
LEAST_ORDER, GREATEST_ORDER = Decimal("1e-40"), Decimal("1e17")  # of order - 1, within what a decimal may hold
ROOT_RATIO = Decimal("1.0000000000001")
NEAR_RATIO = Decimal("1.000001")


@lru_cache(maxsize=4096)
def zcdp_of_pure(epsilon: Decimal) -> Decimal:
    """epsilon tanh(epsilon/2): the rho of an epsilon-DP mechanism.

    Claim: epsilon-DP implies result-zCDP.
    Source: Bun-Steinke 2016, Proposition 3.3 gives epsilon^2/2; the sharper form is docs/proofs/filters.md, "Prices".
    """
    if not epsilon:
        return ZERO
    with localcontext(outward.context(epsilon)):
        return min(epsilon, outward.above(epsilon * outward.tanh(epsilon / 2)))


@lru_cache(maxsize=4096)
def rdp_of_pure(epsilon: Decimal, order: Decimal) -> Decimal:
    """[log cosh((order - 1/2) epsilon) - log cosh(epsilon/2)] / (order - 1): that of randomized response.

    Claim: epsilon-DP implies (order, result)-RDP, for order > 1.
    Source: Mironov 2017, Proposition 5; randomized response is the worst (Kairouz-Oh-Viswanath 2015, Theorem 2.1).
    """
    if not epsilon:
        return ZERO
    more = subtract(order, ONE)
    with localcontext(outward.context(epsilon, more)):
        lost = outward.ln1p(outward.exp(-epsilon)) - outward.ln1p(outward.exp(-(2 * order - 1) * epsilon))
        return min(epsilon, outward.above(epsilon - lost / more))


@lru_cache(maxsize=4096)
def mu_squared_of_pure(epsilon: Decimal) -> Decimal:
    """The square of mu = -2 Phi^-1(1/(1 + e^epsilon)).

    Claim: epsilon-DP implies mu-GDP. Source: docs/proofs/filters.md, "Prices".
    """
    if not epsilon:
        return ZERO
    with localcontext(outward.context(epsilon)):
        half = outward.tail_quantile(epsilon + outward.ln1p(outward.exp(-epsilon)))
        return outward.above(4 * half * half)


# ---- from zCDP, GDP and RDP -----------------------------------------------------------------------------------------


def zcdp_of_gdp(mu: Decimal) -> Decimal:
    """mu^2/2. Claim: mu-GDP implies result-zCDP. Source: Dong-Roth-Su 2022, Corollary B.6."""
    return round_up(multiply(multiply(mu, mu), HALF))


def epsilon_of_rdp(order: Decimal, divergence: Decimal, delta: Decimal) -> Decimal:
    """divergence + [log(1/delta) + (order-1) log(1 - 1/order) - log order] / (order - 1), or 0 where that is negative.

    Claim: (order, divergence)-RDP implies (result, delta)-DP. Source: Canonne-Kamath-Steinke 2020, Proposition 12.
    """
    _require_delta(delta)
    epsilon = outward.above(add(divergence, boundary_offset(subtract(order, ONE), delta)))
    return epsilon if epsilon > 0 else ZERO


def epsilon_of_zcdp(rho: Decimal, delta: Decimal) -> Decimal:
    """The least over orders of epsilon_of_rdp(order, order rho, delta).

    Claim: rho-zCDP implies (result, delta)-DP. Source: Canonne-Kamath-Steinke 2020, Corollary 13. The best order - 1 is
    the root of rho l^2 + log(1 + l) = log(1/delta); any order is sound.
    """
    _require_delta(delta)
    if not rho:
        return ZERO
    order = order_for_zcdp(rho, delta)
    return epsilon_of_rdp(order, multiply(rho, order), delta)


def delta_of_gdp(mu: Decimal, epsilon: Decimal) -> Decimal:
    """Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).

    Claim: mu-GDP implies (epsilon, result)-DP. Source: Dong-Roth-Su 2022, Corollary 2.13.
    """
    if not mu:
        return ZERO
    with localcontext(outward.context(mu, epsilon)):
        missed = outward.normal_tail(epsilon / mu - mu / 2)[1]
        repaid = outward.normal_tail(epsilon / mu + mu / 2)[0]
        delta = outward.above(missed - outward.exp(epsilon) * repaid if repaid else missed)
        return delta if delta < 1 else ONE


@lru_cache(maxsize=4096)
def epsilon_of_gdp(mu: Decimal, delta: Decimal) -> Decimal:
    """The least epsilon with delta_of_gdp(mu, epsilon) <= delta, from above by at most one part in 10^11.

    Claim: mu-GDP implies (result, delta)-DP. Source: Dong-Roth-Su 2022, Corollary 2.13.
    """
    _require_delta(delta)
    if delta_of_gdp(mu, ZERO) <= delta:
        return ZERO
    high = epsilon_of_zcdp(zcdp_of_gdp(mu), delta)  # holds: the conversion of a weaker promise
    low = ZERO
    while subtract(high, low) > multiply(high, ROOT_WIDTH):
        middle = round_up(multiply(add(low, high), HALF))
        if middle in (low, high):
            break
        low, high = (low, middle) if delta_of_gdp(mu, middle) <= delta else (middle, high)
    return high


@lru_cache(maxsize=1024)
def gdp_within(epsilon: Decimal, delta: Decimal) -> Decimal:
    """The most GDP that (epsilon, delta) holds, to twelve digits, rounded down.

    Claim: result-GDP implies (epsilon, delta)-DP. Source: Dong-Roth-Su 2022, Corollary 2.13; delta_of_gdp rises with
    mu, and is at most mu/2 at epsilon 0.
    """
    _require_delta(delta)
    low = multiply(delta, 2)
    high = multiply(low, 2)
    while delta_of_gdp(high, epsilon) <= delta:
        low, high = high, multiply(high, 2)
    while subtract(high, low) > multiply(high, ROOT_WIDTH):
        middle = round_up(multiply(add(low, high), HALF))
        if middle in (low, high):
            break
        low, high = (middle, high) if delta_of_gdp(middle, epsilon) <= delta else (low, middle)
    return round_down(low)


def _require_delta(delta: Decimal) -> None:
    if not 0 < delta < 1:
        raise ParameterError("delta", delta, "a number in (0, 1)")


def _last(true_below: Callable[[Decimal], bool]) -> Decimal:
    """The greatest order - 1 at which `true_below` holds, which is true up to some order: to twelve digits, rounded
    down, within 1e-40 and 1e17."""
    low, high = LEAST_ORDER, GREATEST_ORDER
    while high > multiply(low, ROOT_RATIO):
        near = high <= multiply(
            low, NEAR_RATIO
        )  # further off, both sides differ by far more than the last of 32 digits
        with localcontext(outward.context()):
            middle = (low * high).sqrt()
        with localcontext(outward.context(middle, digits=outward.DIGITS if near else 32)):
            holds = true_below(middle)
        low, high = (middle, high) if holds else (low, middle)
    return round_down(low)


# ---- the boundary of a mixed filter ---------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def boundary_offset(order_minus_one: Decimal, delta: Decimal) -> Decimal:
    """[log(1/delta) + l log(l/(1+l)) - log(1+l)] / l for l = order_minus_one: what a bound on the Renyi divergence of
    order 1 + l must be raised by to be an epsilon at `delta`. Not rounded; negative for a large order.

    Claim: (1+l, r)-RDP implies (r + result, delta)-DP; result is from above, by less than 1e-45 of its terms.
    Source: Canonne-Kamath-Steinke 2020, Proposition 12; docs/proofs/filters.md, "One order".
    """
    with localcontext(outward.context(order_minus_one, delta)):
        numerator = _log_failure(order_minus_one) - outward.ln(delta)
        terms = abs(outward.ln(delta)) + 1 + outward.ln1p(order_minus_one)
        return (numerator + terms * ROUNDING) / order_minus_one


@in_own_context
def _log_failure(order_minus_one: Decimal) -> Decimal:
    """l log(l/(1+l)) - log(1+l): the logarithm of max over x of (1 - e^-x) e^(-l x)."""
    return -order_minus_one * outward.ln1p(1 / order_minus_one) - outward.ln1p(order_minus_one)


@lru_cache(maxsize=256)
def best_order_minus_one(epsilon: Decimal, delta: Decimal) -> Decimal:
    """The l at which a boundary of (epsilon, delta) holds the most zCDP: it maximises (epsilon - offset(l))/(1 + l)
    where the offset is not negative. Any l is sound; this one is fixed by public numbers. Twelve digits.

    Source: docs/proofs/filters.md, "One order" (the ratio is quasi-concave).
    """

    with localcontext(outward.context(delta)):
        failing = -outward.ln(delta)

    @in_own_context
    def holds_more_above(more: Decimal) -> bool:
        """The sign of the derivative of (l epsilon - N)/(l (1+l)), N = log(1/delta) - l log(1 + 1/l) - log(1 + l)."""
        unspent = failing - outward.ln1p(more)
        pull = more * outward.ln1p(1 / more)
        return unspent > pull and unspent * (2 * more + 1) > more * (more * epsilon + pull)

    return _last(holds_more_above)


@lru_cache(maxsize=1024)
def zcdp_within(epsilon: Decimal, delta: Decimal) -> Decimal:
    """The most zCDP that (epsilon, delta) holds: the greatest (epsilon - offset(l)) / (1 + l). Not rounded; 0 where the
    boundary holds nothing.

    Claim: rho-zCDP implies (epsilon, delta)-DP for every rho <= result (each l gives such a rho; this is the best one,
    up to twelve digits of l). Source: Canonne-Kamath-Steinke 2020, Corollary 13; docs/proofs/filters.md, "F3".
    """
    more = best_order_minus_one(epsilon, delta)
    room = subtract(epsilon, boundary_offset(more, delta))
    with localcontext(outward.context(epsilon, more)):
        return room / (1 + more) * (1 - ROUNDING) if room > 0 else ZERO


@lru_cache(maxsize=1024)
def order_for_zcdp(rho: Decimal, delta: Decimal) -> Decimal:
    """The order at which epsilon_of_zcdp(rho, delta) reads rho-zCDP (rho above 0): fixed by these two numbers."""
    _require_delta(delta)

    @in_own_context
    def too_small(more: Decimal) -> bool:
        return rho * more**2 + outward.ln1p(more) < -outward.ln(delta)

    return add(ONE, _last(too_small))
