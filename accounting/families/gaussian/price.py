"""What Gaussian noise costs."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dpledger.accounting.arithmetic.prices import Cost
from dpledger.decimals import multiply, round_up

__all__ = ["gaussian_cost", "gaussian_mu_squared"]

HALF = Decimal("0.5")
WIDE_DIGITS = 40  # kept of a rational price that may be compared with the square of a declared number


def gaussian_mu_squared(sensitivity: Decimal | int, sigma: Decimal) -> Decimal:
    """(sensitivity / sigma)^2, rounded up at forty digits. Claim: mu-GDP. Source: Dong-Roth-Su 2022, Theorem 2.7."""
    return round_up((Fraction(sensitivity) / Fraction(sigma)) ** 2, digits=WIDE_DIGITS)


def gaussian_cost(mu_squared: Decimal, orders: tuple[Decimal, ...]) -> Cost:
    """mu-GDP: mu^2/2-zCDP. Source: Dong-Roth-Su 2022, Corollary B.6."""
    half = multiply(mu_squared, HALF)
    rdp = {order: round_up(multiply(half, order)) for order in orders}
    return Cost(pure=None, rho=round_up(half), mu_squared=mu_squared, rdp=rdp)
