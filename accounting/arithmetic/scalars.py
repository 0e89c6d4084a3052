"""Elementary functions of one float, the same to the last bit on every machine, with the errors of `math`.

A C library has other roundings of exp and log for processors that can do more at once, so a price made with them has
other last digits elsewhere, and whoever compares prices would call an honest one dishonest. These are made of
additions, multiplications, divisions and square roots, which IEEE 754 fixes, and of tables from decimals, which are
rounded correctly. `elementary` has them for arrays, of the same series.

Claim: exp, log, expm1, log1p within 2 units in the last place, erfc within 6 (the tests measure it against mpmath).
Source: Tang, Table-driven implementation of the exponential function (1989), of the logarithm function (1990).

>>> exp(1.0), log(10.0), expm1(1e-9), log1p(1e-9)
(2.718281828459045, 2.302585092994046, 1.0000000005000001e-09, 9.999999995e-10)
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import zip_longest
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.decimals import own_context

__all__ = [
    "asinh",
    "bits_above",
    "cos",
    "erfc",
    "exp",
    "expm1",
    "hypot",
    "log",
    "log1p",
    "log_factorial",
    "sin",
    "square",
    "tanh",
]

Numbers = TypeVar("Numbers", float, npt.NDArray[np.float64])
"""One, or many: a series is the same."""

_WIDE = own_context(60)
_LN2 = _WIDE.ln(Decimal(2))


def _cut(value: Decimal, bits: int) -> float:
    """`value` down to a multiple of 2^-bits."""
    return math.ldexp(math.floor(_WIDE.multiply(value, Decimal(1 << bits))), -bits)


def _rest(value: Decimal, *parts: float) -> float:
    for part in parts:
        value = _WIDE.subtract(value, Decimal.from_float(part))
    return float(value)


# ---- exp and expm1: e^x = 2^(k/64) e^r, |r| <= ln 2 / 128 -----------------------------------------------------------

STEPS = 64  # in a factor of two
EXP_LEAST, EXP_MOST = -746.0, 710.0  # beyond, e^x is 0 or infinite
_STEP = _WIDE.divide(_LN2, Decimal(STEPS))
PER_STEP = float(_WIDE.divide(Decimal(1), _STEP))
STEP_HIGH = _cut(_STEP, 42)  # times every k, of at most 17 bits, without a rounding
STEP_LOW = _rest(_STEP, STEP_HIGH)
_POWERS = [_WIDE.exp(_WIDE.multiply(_STEP, Decimal(j))) for j in range(STEPS)]
POWER = [float(power) for power in _POWERS]
POWER_LOW = [_rest(power, high) for power, high in zip(_POWERS, POWER, strict=True)]


def series_expm1(r: Numbers) -> Numbers:
    """e^r - 1 for |r| <= ln 2 / 128."""
    rest = r / 720
    rest += 1 / 120
    rest *= r
    rest += 1 / 24
    rest *= r
    rest += 1 / 6
    rest *= r
    rest += 0.5
    rest *= r * r
    rest += r
    return rest


def exp(x: float) -> float:
    """e^x. Raises OverflowError as `math.exp`."""
    if not EXP_LEAST < x < EXP_MOST:
        return _far_exp(x)
    k = round(x * PER_STEP)
    rise = series_expm1((x - k * STEP_HIGH) - k * STEP_LOW)
    power = POWER[k % STEPS]
    return math.ldexp(power + (POWER_LOW[k % STEPS] + power * rise), k // STEPS)


def _far_exp(x: float) -> float:
    if EXP_MOST <= x < math.inf:
        raise OverflowError("math range error")
    return 0.0 if x <= EXP_LEAST else float(x)


def expm1(x: float) -> float:
    """e^x - 1, exact to its last digits where x is small. Raises OverflowError as `math.expm1`."""
    if not -40.0 < x < EXP_MOST:
        return -1.0 if x <= -40.0 else _far_exp(x)
    k = round(x * PER_STEP)
    rise = series_expm1((x - k * STEP_HIGH) - k * STEP_LOW)
    if not k:
        return rise
    power = POWER[k % STEPS]
    whole = k // STEPS
    if whole > 1000:  # 2^whole may be infinite where e^x is not
        return math.ldexp(power + (POWER_LOW[k % STEPS] + power * rise), whole)
    scale = math.ldexp(1.0, whole)
    return (power * scale - 1) + (POWER_LOW[k % STEPS] + power * rise) * scale


# ---- log and log1p: x = 2^e m, m = f (1 + u), f = j/128, |u| <= 2^-7.5 ----------------------------------------------

PARTS = 128
ROOT_HALF = math.sqrt(0.5)  # m is in [root half, root two)
FIRST_PART = round(ROOT_HALF * PARTS)
_LOGS = [
    _WIDE.ln(_WIDE.divide(Decimal(j), Decimal(PARTS))) for j in range(FIRST_PART, round(2 * ROOT_HALF * PARTS) + 1)
]
LN2 = float(_LN2)
LN2_HIGH = _cut(_LN2, 41)  # multiples of 2^-41 add up without a rounding
LN2_LOW = _rest(_LN2, LN2_HIGH)
LOG_HIGH = [_cut(log, 41) for log in _LOGS]
LOG_LOW = [_rest(log, high) for log, high in zip(_LOGS, LOG_HIGH, strict=True)]


def series_log1p(u: Numbers) -> Numbers:
    """log(1 + u) for |u| <= 2^-7.5."""
    down = -u
    rest = down / 8
    rest += 1 / 7
    rest *= down
    rest += 1 / 6
    rest *= down
    rest += 0.2
    rest *= down
    rest += 0.25
    rest *= down
    rest += 1 / 3
    rest *= down
    rest += 0.5
    rest *= u * down
    rest += u
    return rest


def log(x: float) -> float:
    """The natural logarithm. Raises ValueError as `math.log`."""
    if not 0 < x < math.inf:
        if x <= 0:
            raise ValueError("math domain error")
        return float(x)
    m, e = math.frexp(x)
    if m < ROOT_HALF:
        m, e = 2 * m, e - 1
    j = round(m * PARTS)
    f = j / PARTS
    place = j - FIRST_PART
    return (e * LN2_HIGH + LOG_HIGH[place]) + ((e * LN2_LOW + LOG_LOW[place]) + series_log1p((m - f) / f))


def log1p(x: float) -> float:
    """log(1 + x), exact to its last digits where x is small. Raises ValueError as `math.log1p`."""
    if not -1 < x < math.inf:
        if x <= -1:
            raise ValueError("math domain error")
        return float(x)
    whole = 1 + x
    lost = x - (whole - 1) if x < 1 else 1 - (whole - x)
    return log(whole) + lost / whole


# ---- sin and cos: x = k pi/2 + r, |r| <= pi/4 -----------------------------------------------------------------------

_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
_QUARTER = _WIDE.divide(_PI, Decimal(2))
PER_QUARTER = float(_WIDE.divide(Decimal(1), _QUARTER))
MOST_QUARTERS = float(1 << 26)  # so many times each part of a quarter is exact
QUARTER_HIGH = _cut(_QUARTER, 26)
QUARTER_MIDDLE = _cut(_WIDE.subtract(_QUARTER, Decimal.from_float(QUARTER_HIGH)), 52)
QUARTER_LOW = _rest(_QUARTER, QUARTER_HIGH, QUARTER_MIDDLE)
_SINES = [(-1) ** n / math.factorial(2 * n + 1) for n in range(1, 9)]
_COSINES = [(-1) ** n / math.factorial(2 * n) for n in range(2, 10)]


def _horner(x: Numbers, coefficients: list[float]) -> Numbers:
    result = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        result += coefficient
        result *= x
    result += coefficients[0]
    return result


def series_sin(r: Numbers) -> Numbers:
    """sin r for |r| <= pi/4."""
    squared = r * r
    rest = _horner(squared, _SINES)
    rest *= squared
    rest *= r
    rest += r
    return rest


def series_cos(r: Numbers) -> Numbers:
    """cos r for |r| <= pi/4."""
    squared = r * r
    rest = _horner(squared, _COSINES)
    rest *= squared * squared
    rest -= 0.5 * squared
    rest += 1.0
    return rest


def _arctan(t: Fraction) -> float:
    """The angle whose tangent is t, for t in [0, 1]: Euler's series, in fractions."""
    term = total = t / (1 + t * t)
    n = 0
    while term > Fraction(1, 1 << 80):
        n += 1
        term = term * 2 * n * t * t / ((2 * n + 1) * (1 + t * t))
        total += term
    return float(total)


def sin(x: float) -> float:
    """The sine. Raises ValueError for |x| >= 2^26."""
    return _on_circle(x, 0)


def cos(x: float) -> float:
    """The cosine. Raises ValueError for |x| >= 2^26."""
    return _on_circle(x, 1)


def _on_circle(x: float, ahead: int) -> float:
    if not abs(x) < MOST_QUARTERS:
        if math.isnan(x):
            return x
        raise ValueError("an angle of 2^26 or more")
    k = round(x * PER_QUARTER)
    r = ((x - k * QUARTER_HIGH) - k * QUARTER_MIDDLE) - k * QUARTER_LOW
    value = series_cos(r) if (k + ahead) % 2 else series_sin(r)
    return -value if (k + ahead) % 4 >= 2 else value


# ---- arctan: of t = j/32 + a rest ------------------------------------------------------------------------------------

QUARTER, HALF = float(_QUARTER), float(_PI)
QUARTER_REST, HALF_REST = _rest(_QUARTER, QUARTER), _rest(_PI, HALF)
_TURNS = 32
_ARCTANS = np.array([_arctan(Fraction(j, _TURNS)) for j in range(_TURNS + 1)])
_ARCTAN = [(-1) ** n / (2 * n + 1) for n in range(1, 6)]


def arctan_of_share(t: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The angle whose tangent is t, for t in [0, 1]."""
    place = np.rint(t * _TURNS)
    c = place / _TURNS
    rest = (t - c) / (1 + t * c)
    squared = rest * rest
    turn: npt.NDArray[np.float64] = rest + rest * (squared * _horner(squared, _ARCTAN))
    return _ARCTANS[place.astype(np.intp)] + turn


# ---- erfc: e^(-x^2) times a function that is nearly level -----------------------------------------------------------

FAR_ERFC = 27.5  # erfc is below every float from here on
ERFCX_CENTRE = 3.0
# of (1 + 2x) e^(x^2) erfc(x) in Chebyshev polynomials of y = (x - 3)/(x + 3)
_ERFCX = """
    1.17756257419656 0.005353904539615676 -0.09377550342284209 0.05436652555744322
    -0.018976596707845208 0.004453426061462712 -0.0006335531710553147 1.7661719523171593e-05
    1.2841532864056671e-05 -2.0072285659059913e-06 -1.807522790414837e-07 7.549828343825093e-08
    1.885668523838603e-09 -2.699519049798364e-09 -1.460079119939105e-11 1.0361607445969489e-10
    1.475715976623473e-12 -4.277340064396911e-12 -2.07922492859799e-13 1.8134502003176963e-13
    1.973425574544739e-14 -7.287943737592673e-15 -1.5169878690228116e-15 2.3514112258781403e-16
    1.0006111691821667e-16 -2.0572528169538546e-18 -5.608608218863183e-18 -5.546884725994431e-19
"""


ERFCX_PARTS = 64
ERFCX_DEGREE = 6  # within 2e-17 of what it is for, relative
_ERFCX_BITS = 120


def _around_each_part() -> list[list[float]]:
    """The Taylor coefficients of the series in y at each j/64 from -1 to where x is `FAR_ERFC`, those of one power in a
    row: in whole multiples of 2^-120."""
    powers, now, before = [0], [1], [0]
    for number, coefficient in enumerate(_ERFCX.split()):
        scaled = math.floor(Fraction(coefficient) * (1 << _ERFCX_BITS))
        powers = [power + scaled * of_it for power, of_it in zip_longest(powers, now, fillvalue=0)]
        doubled = [0, *((2 if number else 1) * of_it for of_it in now)]
        now, before = [more - less for more, less in zip_longest(doubled, before, fillvalue=0)], now
    last = round((FAR_ERFC - ERFCX_CENTRE) / (FAR_ERFC + ERFCX_CENTRE) * ERFCX_PARTS)
    rows: list[list[float]] = []
    for j in range(-ERFCX_PARTS, last + 1):
        left, row = powers[::-1], list[float]()
        for _ in range(ERFCX_DEGREE + 1):  # division by y - j/64, again and again
            for place in range(1, len(left)):
                left[place] += left[place - 1] * j // ERFCX_PARTS
            row.append(math.ldexp(float(left.pop()), -_ERFCX_BITS))
        rows.append(row)
    return [list(column) for column in zip(*rows, strict=True)]


ERFCX = _around_each_part()


def erfc(x: float) -> float:
    """1 - erf(x)."""
    size = abs(x)
    if not size < FAR_ERFC:
        return x if x != x else 0.0 if x > 0 else 2.0
    y = (size - ERFCX_CENTRE) / (size + ERFCX_CENTRE)
    part = round(y * ERFCX_PARTS)
    rest = y - part / ERFCX_PARTS
    tail = _horner(rest, [row[part + ERFCX_PARTS] for row in ERFCX]) / (1 + 2 * size)
    high = round(size * 1024) / 1024  # its square is exact
    square, more = high * high, (size - high) * (size + high)
    whole = square + more
    tail *= exp(-whole)
    tail -= tail * (more - (whole - square))
    return 2 - tail if x < 0 else tail


# ---- made of these and of less --------------------------------------------------------------------------------------


def square(x: Numbers) -> Numbers:
    """x x: `x**2` is the C library's power."""
    return x * x


def bits_above(x: float) -> int:
    """The least k with 2^k >= x, for x > 0."""
    m, e = math.frexp(x)
    return e - (m == 0.5)


def tanh(x: float) -> float:
    """The hyperbolic tangent."""
    grown = expm1(min(2 * abs(x), 100.0))
    return math.copysign(grown / (grown + 2), x)


def asinh(x: float) -> float:
    """The inverse of the hyperbolic sine."""
    size = abs(x)
    if size > 1e9:
        return math.copysign(log(size) + LN2, x)
    return math.copysign(log1p(size + size * size / (1 + math.sqrt(1 + size * size))), x)


def hypot(x: float, y: float) -> float:
    """The square root of x^2 + y^2."""
    most, least = max(abs(x), abs(y)), min(abs(x), abs(y))
    if not most or math.isinf(most):
        return most
    share = least / most
    return most * math.sqrt(1 + share * share)


def log_factorial(n: int) -> float:
    """log n!, for n >= 0: a guide, by Stirling's series from 32 on."""
    if n < 32:
        return log(math.factorial(n))
    small = 1.0 / (n * n)
    series = (1 / 12 - small * (1 / 360 - small * (1 / 1260 - small / 1680))) / n
    return (n + 0.5) * log(n) - n + 0.5 * log(2 * math.pi) + series
