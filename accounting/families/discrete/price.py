"""What Laplace noise on the integers costs."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.conversions import rdp_of_pure, zcdp_of_pure
from dpledger.decimals import ZERO, is_whole, round_up, subtract
from dpledger.errors import ParameterError

__all__ = ["discrete_laplace_epsilon", "discrete_laplace_rdp", "discrete_laplace_rho"]

ONE = Decimal(1)


def discrete_laplace_epsilon(scale: Decimal, sensitivity: Decimal) -> Decimal:
    """sensitivity / scale, rounded up. Claim: the integer mechanism is result-DP. Source: Ghosh et al. 2012."""
    _require_whole(sensitivity)
    return round_up(Fraction(sensitivity) / Fraction(scale))


@lru_cache(maxsize=1024)
def discrete_laplace_rho(scale: Decimal, sensitivity: Decimal) -> Decimal:
    """The zCDP price of Laplace noise on the integers: e - (t / sinh t)(1 - exp(-e)), t = 1/scale, e = sensitivity t.

    Claim: rho-zCDP, for an integer statistic in any number of dimensions (convex in the sensitivity and 0 at 0).
    Source: docs/proofs/filters.md, "Prices".
    """
    _require_whole(sensitivity)
    if not sensitivity:
        return ZERO
    with localcontext(outward.context(scale, sensitivity)):
        step = 1 / scale
        u = outward.exp(-step)
        shrunk = 2 * step * u / (1 - u * u)  # t / sinh t
        exact = sensitivity * step + shrunk * outward.expm1(-sensitivity * step)
    return min(outward.above(exact), zcdp_of_pure(discrete_laplace_epsilon(scale, sensitivity)))


@lru_cache(maxsize=1024)
def discrete_laplace_rdp(scale: Decimal, sensitivity: Decimal, order: Decimal) -> Decimal:
    """The Renyi divergence of Laplace noise on the integers, shifted by `sensitivity` steps.

    Claim: (order, result)-RDP, for an integer statistic in any number of dimensions: with q = e^(-1/scale), a =
    q^(1-order), b = q^order and r = q^(2 order - 1), the moment of a shift by k is the convex sum
    M(k) = [(1 - rq) a^k + (q - r) b^k] / ((1+q)(1-r)), log-convex in k with M(0) = 1.
    Source: docs/proofs/filters.md, "Prices".
    """
    _require_whole(sensitivity)
    if not sensitivity:
        return ZERO
    more = subtract(order, ONE)
    with localcontext(outward.context(scale, sensitivity, more)):
        q, r = outward.exp(-1 / scale), outward.exp(-(2 * order - 1) / scale)
        growing, falling = (1 - r * q) / ((1 + q) * (1 - r)), (q - r) / ((1 + q) * (1 - r))
        epsilon = sensitivity / scale
        ratio = falling / growing * outward.exp(-(2 * order - 1) * epsilon)
        exact = epsilon + (outward.ln(growing) + outward.ln1p(ratio)) / more
    return min(outward.above(exact), rdp_of_pure(discrete_laplace_epsilon(scale, sensitivity), order))


def _require_whole(sensitivity: Decimal) -> None:
    if not is_whole(sensitivity):
        raise ParameterError("DiscreteLaplaceLaw.sensitivity", sensitivity, "a whole number (of an integer statistic)")
