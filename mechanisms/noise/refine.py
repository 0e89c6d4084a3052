"""One variate in exact arithmetic: uniform numbers whose bits are drawn when a decision needs them.

A variate is a fixed function of infinitely many fair bits. A prefix of the bits confines it to an interval with
rational ends; where the interval lies in one cell of the grid (or on one side of a threshold) the answer is known, and
where it does not, 64 more bits are drawn. With probability one this ends. The transcendental functions are those of
`decimal`, which are correctly rounded, moved outward by one unit in the last place. Proof: docs/proofs/noise.md.

>>> from dpledger.mechanisms.entropy import seeded
>>> exponential_cell(Fraction(10), Fraction(0), Lazy(1, 1, seeded(0))) < 7  # U in [1/2, 1]: 10 E <= 10 ln 2
True
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

from dpledger.decimals import own_context
from dpledger.mechanisms.entropy import Entropy

__all__ = ["Lazy", "exponential_cell", "exponential_exceeds", "polar_cells"]

_WORD_BITS = 64
_GUARD_DIGITS = 20


class Lazy:
    """A uniform number known to lie in [numerator, numerator + 1] / 2^bits; `refine` draws 64 more of its bits."""

    __slots__ = ("_entropy", "bits", "numerator")

    def __init__(self, numerator: int, bits: int, entropy: Entropy) -> None:
        self.numerator = numerator
        self.bits = bits
        self._entropy = entropy

    def refine(self) -> None:
        """Draw 64 more bits."""
        self.numerator = (self.numerator << _WORD_BITS) | int(self._entropy.words(1)[0])
        self.bits += _WORD_BITS

    def bounds(self) -> tuple[Fraction, Fraction]:
        """The ends of the interval known so far."""
        unit = 1 << self.bits
        return Fraction(self.numerator, unit), Fraction(self.numerator + 1, unit)


def exponential_cell(ratio: Fraction, offset: Fraction, uniform: Lazy) -> int:
    """floor(ratio * E + offset) for E = -ln(uniform), a standard exponential variate. uniform in [0, 1]."""
    while True:
        ends = _exponential(uniform)
        if ends is not None:
            low, high = (math.floor(ratio * end + offset) for end in ends)
            if low == high:
                return low
        uniform.refine()


def exponential_exceeds(threshold: Fraction, uniform: Lazy) -> bool:
    """Whether E > threshold, for E = -ln(uniform). uniform in [0, 1]."""
    while True:
        ends = _exponential(uniform)
        if ends is not None:
            if ends[0] > threshold:
                return True
            if ends[1] < threshold:
                return False
        uniform.refine()


def polar_cells(ratio: Fraction, first: Lazy, second: Lazy) -> tuple[int, int] | None:
    """The two normal variates of the polar method, times `ratio` and rounded to nearest; None where it rejects.

    `first`, `second`: uniform in [-1, 1], known to the same number of bits. Source: Marsaglia-Bray 1964.
    """
    half = Fraction(1, 2)
    while True:
        squares = _add(_square(first), _square(second))
        if squares[0] >= 1:
            return None
        if squares[0] > 0 and squares[1] < 1:
            factor = _polar_factor(squares, _digits(first.bits))
            cells = [
                tuple(math.floor(ratio * end + half) for end in _times(lazy.bounds(), factor))
                for lazy in (first, second)
            ]
            if all(low == high for low, high in cells):
                return cells[0][0], cells[1][0]
        first.refine()
        second.refine()


def _exponential(uniform: Lazy) -> tuple[Fraction, Fraction] | None:
    """Bounds of -ln(uniform), or None where it is not bounded yet."""
    if uniform.numerator == 0:
        return None
    low, high = uniform.bounds()
    digits = _digits(uniform.bits)
    return -_ln_above(high, digits), -_ln_below(low, digits)


def _polar_factor(squares: tuple[Fraction, Fraction], digits: int) -> tuple[Fraction, Fraction]:
    """Bounds of sqrt(-2 ln s / s) for s between the bounds `squares`, inside (0, 1): it falls as s rises."""
    low, high = squares
    least = max(Fraction(0), -2 * _ln_above(high, digits) / high)
    most = -2 * _ln_below(low, digits) / low
    return _root_below(least, digits), _root_above(most, digits)


def _digits(bits: int) -> int:
    return bits + _GUARD_DIGITS  # more than the 2 * bits * log10(2) digits that a square of the uniform carries


def _down(number: Fraction, digits: int) -> Decimal:
    return own_context(digits, ROUND_FLOOR).divide(Decimal(number.numerator), Decimal(number.denominator))


def _up(number: Fraction, digits: int) -> Decimal:
    return own_context(digits, ROUND_CEILING).divide(Decimal(number.numerator), Decimal(number.denominator))


def _ln_below(number: Fraction, digits: int) -> Fraction:
    context = own_context(digits)
    return Fraction(context.next_minus(context.ln(_down(number, digits))))


def _ln_above(number: Fraction, digits: int) -> Fraction:
    context = own_context(digits)
    logarithm = context.ln(_up(number, digits))
    return Fraction(context.next_plus(logarithm)) if logarithm < 0 else Fraction(0)  # numbers are at most 1


def _root_below(number: Fraction, digits: int) -> Fraction:
    context = own_context(digits)
    return Fraction(context.next_minus(context.sqrt(_down(number, digits)))) if number else Fraction(0)


def _root_above(number: Fraction, digits: int) -> Fraction:
    context = own_context(digits)
    return Fraction(context.next_plus(context.sqrt(_up(number, digits))))


def _square(lazy: Lazy) -> tuple[Fraction, Fraction]:
    low, high = lazy.bounds()
    small, large = sorted((low * low, high * high))
    return (Fraction(0) if low < 0 < high else small), large


def _add(left: tuple[Fraction, Fraction], right: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    return left[0] + right[0], left[1] + right[1]


def _times(signed: tuple[Fraction, Fraction], positive: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    low = signed[0] * (positive[0] if signed[0] > 0 else positive[1])
    high = signed[1] * (positive[1] if signed[1] > 0 else positive[0])
    return low, high
