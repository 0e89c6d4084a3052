"""What Gaussian noise costs."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dpledger.decimals import round_up

__all__ = ["gaussian_mu_squared"]


WIDE_DIGITS = 40  # kept of a rational price that may be compared with the square of a declared number


def gaussian_mu_squared(sensitivity: Decimal | int, sigma: Decimal) -> Decimal:
    """(sensitivity / sigma)^2, rounded up at forty digits. Claim: mu-GDP. Source: Dong-Roth-Su 2022, Theorem 2.7."""
    return round_up((Fraction(sensitivity) / Fraction(sigma)) ** 2, digits=WIDE_DIGITS)
