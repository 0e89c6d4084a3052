"""Numbers held as unevaluated sums of two float64, elementwise: some 100 bits, on every machine the same.

Only add, subtract, multiply, divide and square root are used, which IEEE 754 rounds correctly: neither a fused multiply
nor a C library changes a bit. Sums and products of two float64 are split into what is rounded and what was lost,
exactly (Knuth, TAOCP 2, section 4.2.2; Dekker 1971). Bounds of the errors: docs/proofs/noise.md, section 10.

>>> third = from_fraction(Fraction(1, 3))
>>> product = times(third, whole(np.array([3.0])))
>>> abs(Fraction(float(product.high[0])) + Fraction(float(product.low[0])) - 1) < Fraction(1, 2**100)
True
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Doubles", "add", "from_fraction", "from_words", "negated_where", "root", "times", "two_sum", "whole"]

_Floats: TypeAlias = npt.NDArray[np.float64]

_SPLITTER = 2.0**27 + 1
_LOW_BITS = 32
_LOW_MASK = np.uint64(2**_LOW_BITS - 1)


class Doubles(NamedTuple):
    """high + low, abs(low) at most half a unit in the last place of high."""

    high: _Floats
    low: _Floats


def whole(numbers: _Floats) -> Doubles:
    """The numbers themselves."""
    return Doubles(numbers, np.zeros_like(numbers))


def from_fraction(number: Fraction) -> Doubles:
    """A rational number, to 2^-106 of itself."""
    high = float(number)
    return Doubles(np.array([high]), np.array([float(number - Fraction(high))]))


def from_words(words: npt.NDArray[np.uint64]) -> Doubles:
    """words / 2^64, exactly."""
    upper = (words >> np.uint64(_LOW_BITS)).astype(np.float64) * 2.0**-32
    return two_sum(upper, (words & _LOW_MASK).astype(np.float64) * 2.0**-64)


def two_sum(x: _Floats, y: _Floats) -> Doubles:
    """x + y, exactly."""
    total = x + y
    part = total - x
    return Doubles(total, (x - (total - part)) + (y - part))


def add(x: Doubles, y: Doubles) -> Doubles:
    """x + y, to 2^-103 of abs(x) + abs(y)."""
    total, lost = two_sum(x.high, y.high)
    return two_sum(total, lost + (x.low + y.low))


def times(x: Doubles, y: Doubles) -> Doubles:
    """x y, to 2^-102 of itself."""
    product, lost = _two_product(x.high, y.high)
    return two_sum(product, lost + (x.high * y.low + x.low * y.high))


def root(x: Doubles) -> Doubles:
    """The square root of x > 0, to 2^-102 of itself."""
    near = np.sqrt(x.high)
    square, lost = _two_product(near, near)
    return two_sum(near, (((x.high - square) - lost) + x.low) / (2.0 * near))


def negated_where(negative: npt.NDArray[np.bool_], x: Doubles) -> Doubles:
    """-x where `negative` says so."""
    return Doubles(np.where(negative, -x.high, x.high), np.where(negative, -x.low, x.low))


def _two_product(x: _Floats, y: _Floats) -> Doubles:
    """x y, exactly."""
    product = x * y
    (upper_x, lower_x), (upper_y, lower_y) = _halves(x), _halves(y)
    lost = ((upper_x * upper_y - product) + upper_x * lower_y + lower_x * upper_y) + lower_x * lower_y
    return Doubles(product, lost)


def _halves(x: _Floats) -> tuple[_Floats, _Floats]:
    """x = upper + lower, of 26 bits each."""
    scaled = _SPLITTER * x
    upper = scaled - (scaled - x)
    return upper, x - upper
