"""One guarantee turned into a weaker one, each formula by its name and with its source.

Every result is rounded to the side that keeps it true: upper bounds up, so converting there and back never improves a
guarantee.

>>> zcdp_of_pure(Decimal(1))
Decimal('0.462117157261')
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache

from dpledger.accounting import outward
from dpledger.decimals import ZERO, round_down, subtract

__all__ = ["best_order_minus_one", "boundary_offset", "mu_squared_of_pure", "rdp_of_pure", "zcdp_of_pure"]

ONE = Decimal(1)
ROUNDING = Decimal("1e-50")  # of the terms: far above the rounding of sixty digits, far below every margin
LEAST_ORDER, GREATEST_ORDER = Decimal("1e-40"), Decimal("1e17")  # of order - 1, within what a decimal may hold
CLOSE = Decimal("1.0000000000001")


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
        u = outward.exp(-epsilon)
        half = outward.tail_quantile(u / (1 + u))
        return outward.above(4 * half * half)


# ---- the boundary of a mixed filter ---------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def boundary_offset(order_minus_one: Decimal, delta: Decimal) -> Decimal:
    """[log(1/delta) + l log(l/(1+l)) - log(1+l)] / l for l = order_minus_one: what a bound on the Renyi divergence of
    order 1 + l must be raised by to be an epsilon at `delta`. Not rounded; negative for a large order.

    Claim: (1+l, r)-RDP implies (r + result, delta)-DP; result is from above, by less than 1e-45 of its terms.
    Source: Canonne-Kamath-Steinke 2020, Proposition 12; docs/proofs/filters.md, "F7".
    """
    with localcontext(outward.context(order_minus_one, delta)):
        numerator = _log_failure(order_minus_one) - outward.ln(delta)
        terms = abs(outward.ln(delta)) + 1 + outward.ln1p(order_minus_one)
        return (numerator + terms * ROUNDING) / order_minus_one


def _log_failure(order_minus_one: Decimal) -> Decimal:
    """l log(l/(1+l)) - log(1+l): the logarithm of max over x of (1 - e^-x) e^(-l x)."""
    return -order_minus_one * outward.ln1p(1 / order_minus_one) - outward.ln1p(order_minus_one)


def best_order_minus_one(epsilon: Decimal, delta: Decimal) -> Decimal:
    """The l at which a boundary of (epsilon, delta) holds the most zCDP: it maximises (epsilon - offset(l))/(1 + l)
    where the offset is not negative. Any l is sound; this one is fixed by public numbers. Twelve digits.

    Source: docs/proofs/filters.md, "F7" (the ratio is quasi-concave).
    """
    low, high = LEAST_ORDER, GREATEST_ORDER
    while high > low * CLOSE:
        with localcontext(outward.context()):
            middle = (low * high).sqrt()
        if _holds_more_above(middle, epsilon, delta):
            low = middle
        else:
            high = middle
    return round_down(low)


def _holds_more_above(order_minus_one: Decimal, epsilon: Decimal, delta: Decimal) -> bool:
    """Whether the zCDP held still rises with the order: the sign of the derivative of (l epsilon - N)/(l (1+l))."""
    with localcontext(outward.context(order_minus_one, delta)):
        more = order_minus_one
        numerator = _log_failure(more) - outward.ln(delta)
        slope = epsilon + outward.ln1p(1 / more)
        return numerator > 0 and slope * more * (1 + more) > (more * epsilon - numerator) * (2 * more + 1)
