"""The second tier of the samplers: arrays of numbers held as unevaluated sums of two float64.

It decides what float64 leaves open, up to some 2^50 steps in a scale, by the same prefix of 63 bits. Numbers are split
so that every product that matters is exact (24 bits times 29), and what is rounded is some 2^-11 of the whole or less.
Facts used: add, subtract, multiply, divide and square root of float64 are correctly rounded, and so are conversions
between integers, float32 and float64; the first tier's logarithm is needed as a first guess only. Proof:
docs/proofs/noise.md, section 3.2.

>>> steps = Steps.of(Fraction(2**40))
>>> prefix = np.array([2**62])  # U = 1/2
>>> found = exponential_cells(steps, 0.0, prefix)
>>> int(found.cells[0]) == math.floor(2**40 * math.log(2)), bool(found.sure()[0])
(True, True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.decimals import own_context
from dpledger.mechanisms.noise.floats import BITS, UNIT

__all__ = ["REACH", "ScaledSteps", "TrackedNumbers", "exponential_cells", "exponentials", "polar_cells"]

_Floats: TypeAlias = npt.NDArray[np.float64]
_Ints: TypeAlias = npt.NDArray[np.int64]
_Bools: TypeAlias = npt.NDArray[np.bool_]

REACH = 2.0**52
"""Steps in a scale: beyond, cells might not fit int64, and hardly any would be certain."""

_SMALLEST_PREFIX = 2**43  # exponentials are computed for U >= 2^-20
_PER_UNIT = 2**10  # entries of the table of exponentials for each unit of the logarithm
_ENTRIES = 14 * _PER_UNIT + 1  # e^14 > 2^20
_TABLE_BITS = 128
_SHORT = 29  # bits: times a float32, the product is exact
_SHORT_UNIT: float = 2.0**-_SHORT
_TO_SHORT = 1.5 * 2.0 ** (52 - _SHORT)  # added and subtracted: rounds to a multiple of 2^-29
_LOW = BITS - _SHORT  # bits of a prefix below its first 29
_HALF_BITS = 26  # of a coordinate: its square is exact
_HALF_UNIT: float = 2.0**-_HALF_BITS
_LOW_OF_COORDINATE = BITS - _HALF_BITS

# docs/proofs/noise.md, section 3.2
_EXPONENTIAL = 2.0**-61
_PREFIX = 2.0**-62
_LOGARITHM = 2.0**-67
_NORMAL = 2.0**-60
_NORMAL_AT_ONE = 2.0**-61
_ROUNDING = 2.0**-50


@dataclass(frozen=True, slots=True)
class ScaledSteps:
    """Steps in a scale: exactly; as float64; and as a number of 29 bits plus what is left."""

    exact: Fraction
    near: float
    head: float
    tail: float

    @classmethod
    def of(cls, exact: Fraction) -> ScaledSteps:
        """The splits of `exact`."""
        mantissa, exponent = math.frexp(float(exact))
        head = math.ldexp(round(math.ldexp(mantissa, _SHORT)), exponent - _SHORT)
        return cls(exact, float(exact), head, float(exact - Fraction(head)))


class TrackedNumbers(NamedTuple):
    """Numbers, each known as a whole number and a fraction, to within a tolerance."""

    cells: _Ints
    fraction: _Floats
    tolerance: _Floats

    def sure(self, fine: float = 1.0) -> _Bools:
        """Of which numbers the whole part is certain. `fine` (at least 1) widens the tolerance."""
        certain: _Bools = np.abs(self.fraction - 0.5) < 0.5 - fine * self.tolerance
        return certain


def exponential_cells(steps: ScaledSteps, offset: float, prefix: _Ints) -> TrackedNumbers:
    """steps E + offset for uniforms of these prefixes of 63 bits."""
    uniform, whole, first, second = _exponentials_of(prefix)
    tolerance = (steps.near * _PREFIX) / uniform
    tolerance += steps.near * _EXPONENTIAL + _ROUNDING
    tolerance[prefix < _SMALLEST_PREFIX] = np.inf
    first += second
    return TrackedNumbers(*_split(steps, whole, -first, offset), tolerance)


def exponentials(prefix: _Ints) -> tuple[_Floats, _Floats, _Floats]:
    """E = high + low of uniforms of these prefixes of 63 bits, and how far it errs at most: infinitely below 2^-20."""
    uniform, whole, first, second = _exponentials_of(prefix)
    unsure = _PREFIX / uniform + _LOGARITHM
    unsure[prefix < _SMALLEST_PREFIX] = np.inf
    return whole - first, -second, unsure


def _exponentials_of(prefix: _Ints) -> tuple[_Floats, _Floats, _Floats, _Floats]:
    """U as float64, and `_logarithm` of it."""
    clipped = np.maximum(prefix, _SMALLEST_PREFIX)
    high = (clipped >> _LOW).astype(np.float64) * _SHORT_UNIT
    low = (clipped & (2**_LOW - 1)) * UNIT
    uniform = high + low
    return uniform, *_logarithm(high, low, uniform, -np.log(uniform))


def polar_cells(steps: ScaledSteps, prefix: _Ints, squares: _Floats) -> TrackedNumbers:
    """steps N + 1/2 of both coordinates for points of these prefixes, int64[2, n]. `squares`: S as the first tier has
    it, with 2^-20 <= S <= 1 - 2^-20."""
    high = (prefix >> _LOW_OF_COORDINATE).astype(np.float64) * _HALF_UNIT
    low = (prefix & (2**_LOW_OF_COORDINATE - 1)) * UNIT
    rough = -np.log(squares)
    factor = np.sqrt(2.0 * rough / squares)
    tolerance = _NORMAL_AT_ONE / rough
    tolerance += _NORMAL
    tolerance *= factor * steps.near
    tolerance += _ROUNDING

    square = high * high
    square = square[0] + square[1]  # exact: multiples of 2^-52 below 1
    short = (square + _TO_SHORT) - _TO_SHORT
    cross = (2.0 * high + low) * low
    rest = (square - short) + (cross[0] + cross[1])  # S = short + rest

    whole, first, second = _logarithm(short, rest, squares, rough)
    guess = _float32(factor)  # of sqrt(-2 ln S / S); what it lacks, by its square
    guess_squared = guess * guess
    head = _float32(guess_squared)
    lack = 2.0 * (whole - first) - head * short
    lack -= (guess_squared - head) * short
    lack -= guess_squared * rest
    lack -= 2.0 * second
    lack /= guess_squared * squares
    correction = guess * (0.5 * lack) * (1.0 - 0.25 * lack)

    product = high * guess
    variate = _float32(product)
    left = (product - variate) + (high * correction + low * (guess + correction))
    return TrackedNumbers(*_split(steps, variate, left, 0.5), tolerance)


def _logarithm(high: _Floats, low: _Floats, near: _Floats, rough: _Floats) -> tuple[_Floats, _Floats, _Floats]:
    """-ln(high + low) = whole - first - second: `whole` in steps of 2^-10; `whole - first` is a float64.

    `high` is a multiple of 2^-29 up to 1, `near` the sum as float64, `rough` the logarithm to 2^-20. With e^whole as
    head + tail, (high + low) e^whole = 1 + z for a small z, and ln(1 + z) is summed up to z^5."""
    index = np.rint(rough * _PER_UNIT)
    heads, tails = _exponentials()
    place = index.astype(np.intp)
    head = heads.take(place)
    first = high * head
    first -= 1.0
    second = low * head
    second += tails.take(place) * near
    z = first + second
    series = z * -0.2
    series += 0.25
    series *= z
    series -= 1 / 3
    series *= z
    series += 0.5
    series *= z
    series *= z
    second -= series
    index *= 1 / _PER_UNIT
    return index, first, second


def _split(steps: ScaledSteps, short: _Floats, rest: _Floats, offset: float) -> tuple[_Ints, _Floats]:
    """steps * (short + rest) + offset as a whole number and a fraction; 24 bits in `short`, so that its product with
    the head of the steps is exact."""
    product = short * steps.head
    rest = rest * steps.near
    rest += short * steps.tail
    whole = np.floor(product)
    product -= whole
    rest += offset
    rest += product
    more = np.floor(rest)
    rest -= more
    return whole.astype(np.int64) + more.astype(np.int64), rest


def _float32(numbers: _Floats) -> _Floats:
    return numbers.astype(np.float32).astype(np.float64)


@lru_cache(maxsize=1)
def _exponentials() -> tuple[_Floats, _Floats]:
    """e^(i / 1024) for i = 0, 1, ...: heads of 24 bits, and tails. Powers of one fixed-point number, rounded down."""
    context = own_context(60)
    one = 1 << _TABLE_BITS
    step = math.floor(Fraction(context.exp(context.divide(Decimal(1), Decimal(_PER_UNIT)))) * one)
    heads, tails = np.empty(_ENTRIES), np.empty(_ENTRIES)
    power = one
    for i in range(_ENTRIES):
        heads[i] = np.float32(power / one)
        tails[i] = (power - (int(heads[i] * 2**23) << (_TABLE_BITS - 23))) / one
        power = (power * step) >> _TABLE_BITS
    return heads, tails
