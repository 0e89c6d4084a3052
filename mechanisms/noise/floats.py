"""The first tier of the samplers: float64 with a bound on its error, for one variate and for arrays of them alike.

Each function is written once and runs on plain numbers with `math` and on arrays with `numpy`, named by the argument
`by`. A number is believed only where the whole interval [y - tolerance, y + tolerance] lies inside one cell. The
tolerances are derived in docs/proofs/noise.md, section 3, from three facts: add, multiply, divide and square root are
correctly rounded (IEEE 754); so is the conversion of an integer; and the logarithms of `math` and `numpy` are within
2^-48, relatively (16 units in the last place; numpy aims at 4, the tests measure it).

>>> cell, sure = settled(4.75, 2.0**-40, math)
>>> int(cell), bool(sure)
(4, True)
>>> bool(settled(5.0, 2.0**-40, math)[1])
False
"""

from __future__ import annotations

import math
from typing import Any, Final

__all__ = [
    "BITS",
    "EDGE",
    "MARGIN_ERROR",
    "ROUNDING",
    "SMALLEST_PREFIX",
    "UNIT",
    "cells_of",
    "exponential",
    "margin",
    "polar",
    "settled",
]

BITS: Final = 63
"""of a uniform's known prefix"""

UNIT: Final = 2.0**-BITS
SMALLEST_PREFIX: Final = 2**46
"""Exponentials are computed for U >= 2^-17."""

EDGE: Final = 2.0**-20
"""Polar factors are computed for EDGE <= S <= 1 - EDGE."""

MARGIN_ERROR: Final = 2.0**-40
"""of an exponential minus a threshold"""

ROUNDING: Final = 2.0**-51
"""Adding one half, and taking the fraction."""

_EXPONENTIAL_RELATIVE = 2.0**-47
_EXPONENTIAL_ABSOLUTE = 2.0**-52
_NORMAL = 2.0**-48
_NORMAL_AT_ONE = 2.0**-50


def exponential(prefix: Any, by: Any) -> Any:
    """-ln of a uniform with this prefix of 63 bits, at least `SMALLEST_PREFIX`."""
    return -by.log(prefix * UNIT)


def cells_of(exponentials: Any, scale: float, offset: float, coarse: float, by: Any) -> tuple[Any, Any]:
    """floor(scale E + offset), and whether it is certain. The boundary at 0 is never crossed, for E > 0: so what is
    below one half is as good as one half."""
    y = exponentials * scale
    y = y + offset if offset else (max(y, 0.5) if by is math else by.maximum(y, 0.5))
    tolerance = y * (coarse * _EXPONENTIAL_RELATIVE)
    tolerance += coarse * (scale * _EXPONENTIAL_ABSOLUTE + ROUNDING)
    return settled(y, tolerance, by)


def polar(squares: Any, scale: float, coarse: float, by: Any) -> tuple[Any, Any]:
    """scale * sqrt(-2 ln s / s), and the tolerance of a product with a coordinate."""
    logarithm = -by.log(squares)
    factor = by.sqrt(2.0 * logarithm / squares) * scale
    tolerance = (coarse * _NORMAL_AT_ONE) / logarithm
    tolerance += coarse * _NORMAL
    tolerance *= factor
    tolerance += coarse * ROUNDING
    return factor, tolerance


def margin(exponentials: Any, distance: Any, halved: float) -> Any:
    """E - distance^2 * halved: positive where a proposal of the discrete Gaussian is kept."""
    return exponentials - distance * distance * halved


def settled(y: Any, tolerance: Any, by: Any) -> tuple[Any, Any]:
    """floor(y), and whether it is the same for every number within `tolerance` of y (never where y is not finite)."""
    cells = by.floor(y)
    fraction = y - cells
    fraction -= 0.5
    return cells, abs(fraction) < 0.5 - tolerance
