"""Elementary functions of many floats, the same to the last bit on every machine: `scalars`, for arrays.

numpy's own take what a processor has: their last digits differ, and so do those of its products of matrices and of
complex numbers. These keep to what IEEE 754 fixes: one addition, multiplication, division or square root at a time, and
sums in numpy's own order, which no processor changes. Where `scalars` raises, the result is infinite or NaN, silently.

Claim: exp, log, expm1, log1p within 2 units in the last place, sin and cos within 2 `UNIT`, arctan2 within 6, and erfc
as in `scalars` (the tests measure it against mpmath).

>>> exp(np.array([0.0, 1.0])), log(np.array([0.0, 10.0]))
(array([1.        , 2.71828183]), array([      -inf, 2.30258509]))
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import Array, ComplexArray

__all__ = [
    "angle",
    "arctan2",
    "circle",
    "convolved",
    "cos",
    "erfc",
    "exp",
    "expm1",
    "from_polar",
    "geometric",
    "hypot",
    "log",
    "log1p",
    "log_of_sum",
    "logaddexp",
    "modulus",
    "product",
    "running_log_of_sum",
    "sin",
    "sinh",
    "times",
]

Whole: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[Any]  # real or complex
Floats: TypeAlias = npt.ArrayLike
OfMany: TypeAlias = Callable[[Floats], Array]
_FEW = 32  # entries: fewer go one by one
_BLOCK = 8192
_FAR = 690.0  # the size of x up to which e^x is far from the ends of floats
_LEAST_NORMAL = 2.0**-1022
_ROOT_HALF_BITS = int(np.float64(scalars.ROOT_HALF).view(np.int64))

_POWER, _POWER_LOW = np.array(scalars.POWER), np.array(scalars.POWER_LOW)
_LOG_HIGH, _LOG_LOW = np.array(scalars.LOG_HIGH), np.array(scalars.LOG_LOW)
_ERFCX = np.array(scalars.ERFCX)


def _entry_by_entry(
    of_one: Callable[[float], float],
) -> Callable[[Callable[[Array], Array]], Callable[[Floats], Array]]:
    """A decorator: a few entries go through the function of one, many in blocks that a processor keeps at hand. The
    values are the same."""

    def of_many(function: Callable[[Array], Array]) -> OfMany:
        @functools.wraps(function)
        def entries(x: Floats) -> Any:
            given = np.asarray(x, dtype=np.float64)
            flat = given.ravel()
            if flat.size <= _FEW:
                try:
                    return np.array([of_one(value) for value in flat.tolist()]).reshape(given.shape)[()]
                except (OverflowError, ValueError):
                    pass
            with np.errstate(all="ignore"):
                if flat.size <= _BLOCK:
                    return function(flat).reshape(given.shape)[()]
                result = np.empty(flat.shape)
                for start in range(0, flat.size, _BLOCK):
                    part = slice(start, start + _BLOCK)
                    result[part] = function(flat[part])
            return result.reshape(given.shape)[()]

        return entries

    return of_many


def _stepped(x: Array) -> tuple[Whole, Array, Array, Array]:
    """Of x = k log(2)/64 + r: k; e^r - 1; p = 2^((k mod 64)/64), as a float; and the rest of p, with p (e^r - 1)."""
    steps = x * scalars.PER_STEP
    np.rint(steps, out=steps)
    k = steps.astype(np.int64)
    r = x - steps * scalars.STEP_HIGH
    steps *= scalars.STEP_LOW
    r -= steps
    rise = scalars.series_expm1(r)
    place = k & (scalars.STEPS - 1)
    power = _POWER.take(place, mode="clip")
    small = np.multiply(power, rise, out=r)
    small += _POWER_LOW.take(place, mode="clip")
    return k, rise, power, small


@_entry_by_entry(scalars.exp)
def exp(x: Array) -> Array:
    """e^x."""
    if np.abs(x).max() <= _FAR:
        k, _, power, small = _stepped(x)
        power += small
        bits = power.view(np.int64)
        bits += (k & -scalars.STEPS) << 46  # k div 64 more in the exponent: no result is near its ends
        return power
    k, _, power, small = _stepped(np.clip(x, scalars.EXP_LEAST, scalars.EXP_MOST))
    result: Array = np.ldexp(power + small, k >> 6)
    return result


@_entry_by_entry(scalars.expm1)
def expm1(x: Array) -> Array:
    """e^x - 1, exact to its last digits where x is small."""
    within = bool(x.max() <= _FAR)
    k, rise, power, small = _stepped(np.maximum(x, -40.0) if within else np.clip(x, -40.0, scalars.EXP_MOST))
    whole = k >> 6
    half = whole if within else np.minimum(whole, 1000)  # 2^whole may be infinite where e^x is not
    scale = ((half + 1023) << 52).view(np.float64) if within else np.ldexp(1.0, half)
    power *= scale
    power -= 1
    small *= scale
    power += small
    grown = power if within else np.ldexp(power, whole - half)
    return np.where(k == 0, rise, grown)


@_entry_by_entry(scalars.log)
def log(x: Array) -> Array:
    """The natural logarithm; -inf at 0, NaN below."""
    if x.min() >= _LEAST_NORMAL and x.max() < math.inf:
        return _usual_log(x)
    m, whole = np.frexp(x)
    low = m < scalars.ROOT_HALF
    result = _log_of((whole - low).astype(np.float64), np.where(low, 2 * m, m))
    usual = (x > 0) & (x < math.inf)
    if not usual.all():
        result = np.where(usual, result, np.where(x == 0, -math.inf, np.where(x > 0, math.inf, math.nan)))
    return result


def _usual_log(x: Array) -> Array:
    """Of normal floats."""
    bits = x.view(np.int64)
    exponent = (bits - _ROOT_HALF_BITS) >> 52
    return _log_of(exponent.astype(np.float64), (bits - (exponent << 52)).view(np.float64))


def _log_of(e: Array, m: Array) -> Array:
    """log(2^e m), m from `ROOT_HALF` to twice as much."""
    parts = m * scalars.PARTS
    np.rint(parts, out=parts)
    place = parts.astype(np.intp)
    place -= scalars.FIRST_PART
    parts /= scalars.PARTS
    u = m - parts
    u /= parts
    small = e * scalars.LN2_LOW
    small += _LOG_LOW.take(place, mode="clip")
    small += scalars.series_log1p(u)
    result = e * scalars.LN2_HIGH
    result += _LOG_HIGH.take(place, mode="clip")
    result += small
    return result


@_entry_by_entry(scalars.log1p)
def log1p(x: Array) -> Array:
    """log(1 + x), exact to its last digits where x is small; -inf at -1, NaN below."""
    whole = 1 + x
    most = x.max()
    lost = x - (whole - 1) if most < 1 else np.where(x < 1, x - (whole - 1), 1 - (whole - x))
    lost /= whole
    if most < math.inf and x.min() > -1:
        lost += _usual_log(whole)
        return lost
    lost = np.where(np.isfinite(lost), lost, 0.0)
    lost += log(whole)
    return lost


@_entry_by_entry(scalars.sin)
def sin(x: Array) -> Array:
    """The sine; NaN for |x| >= 2^26."""
    sines, cosines, odd, k = _on_circle(x)
    return _turned(np.where(odd, cosines, sines), k)


@_entry_by_entry(scalars.cos)
def cos(x: Array) -> Array:
    """The cosine; NaN for |x| >= 2^26."""
    sines, cosines, odd, k = _on_circle(x)
    return _turned(np.where(odd, sines, cosines), k + 1)


def circle(x: Floats) -> tuple[Array, Array]:
    """The sine and the cosine; NaN for |x| >= 2^26."""
    given = np.asarray(x, dtype=np.float64)
    flat = given.ravel()
    if flat.size <= _FEW:
        return sin(given), cos(given)
    all_sines, all_cosines = np.empty(flat.size), np.empty(flat.size)
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            sines, cosines, odd, k = _on_circle(flat[part])
            all_sines[part] = _turned(np.where(odd, cosines, sines), k)
            all_cosines[part] = _turned(np.where(odd, sines, cosines), k + 1)
    return all_sines.reshape(given.shape), all_cosines.reshape(given.shape)


def _on_circle(x: Array) -> tuple[Array, Array, npt.NDArray[np.bool_], Whole]:
    """Of x = k pi/2 + r: sin r, cos r, whether k is odd, and k."""
    if not (x.min() > -scalars.MOST_QUARTERS and x.max() < scalars.MOST_QUARTERS):
        x = np.where(np.abs(x) < scalars.MOST_QUARTERS, x, math.nan)
    quarters = x * scalars.PER_QUARTER
    np.rint(quarters, out=quarters)
    r = x - quarters * scalars.QUARTER_HIGH
    r -= quarters * scalars.QUARTER_MIDDLE
    r -= quarters * scalars.QUARTER_LOW
    k = quarters.astype(np.int64)
    return scalars.series_sin(r), scalars.series_cos(r), (k & 1).astype(np.bool_), k


def _turned(value: Array, k: Whole) -> Array:
    """-value where the second bit of k is set."""
    bits = value.view(np.int64)
    bits ^= (k & 2) << 62
    return value


def arctan2(y: Floats, x: Floats) -> Array:
    """The angle of x + iy, in [-pi, pi]; 0 at 0."""
    y, x = np.asarray(y, dtype=np.float64), np.asarray(x, dtype=np.float64)
    across, up = np.abs(x), np.abs(y)
    with np.errstate(all="ignore"):
        share = np.minimum(across, up) / np.maximum(across, up)
        first = scalars.arctan_of_share(np.where(np.isnan(share), 0.0, share))
    first = np.where(up > across, (scalars.QUARTER - first) + scalars.QUARTER_REST, first)
    first = np.where(np.signbit(x), (scalars.HALF - first) + scalars.HALF_REST, first)
    turned: Array = np.copysign(first, y)
    return turned


@_entry_by_entry(scalars.erfc)
def erfc(x: Array) -> Array:
    """1 - erf(x)."""
    size = np.minimum(np.abs(x), scalars.FAR_ERFC)
    rest = (size - scalars.ERFCX_CENTRE) / (size + scalars.ERFCX_CENTRE)
    parts = rest * scalars.ERFCX_PARTS
    np.rint(parts, out=parts)
    rows = _ERFCX.take(parts.astype(np.intp) + scalars.ERFCX_PARTS, axis=1, mode="clip")
    parts /= scalars.ERFCX_PARTS
    rest -= parts
    tail = rest * rows[-1]
    for row in rows[-2:0:-1]:
        tail += row
        tail *= rest
    tail += rows[0]
    tail /= 1 + 2 * size
    high = np.rint(size * 1024)
    high /= 1024
    square, more = high * high, (size - high) * (size + high)
    whole = square + more
    tail *= exp(-whole)
    tail -= tail * (more - (whole - square))
    result: Array = np.where(x < 0, 2 - tail, tail)
    return result


# ---- made of these --------------------------------------------------------------------------------------------------


def sinh(x: Floats) -> Array:
    """The hyperbolic sine."""
    grown = expm1(np.abs(x))
    result: Array = np.copysign((grown + grown / (grown + 1)) / 2, x)
    return result


def hypot(x: Floats, y: Floats) -> Array:
    """The square root of x^2 + y^2."""
    first, second = np.abs(np.asarray(x, dtype=np.float64)), np.abs(np.asarray(y, dtype=np.float64))
    most = np.maximum(first, second)
    with np.errstate(all="ignore"):
        share = np.minimum(first, second) / most
        result: Array = np.where((most > 0) & (most < math.inf), most * np.sqrt(1 + share * share), most)
    return result


def logaddexp(x: Floats, y: Floats) -> Array:
    """log(e^x + e^y)."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    most = np.maximum(x, y)
    with np.errstate(all="ignore"):
        result: Array = np.where(np.isfinite(most), most + log1p(exp(np.minimum(x, y) - most)), most)
    return result


def log_of_sum(logs: Floats) -> Array:
    """log of the sum of e^x along the first axis."""
    logs = np.asarray(logs, dtype=np.float64)
    most = np.max(logs, axis=0)
    with np.errstate(all="ignore"):
        total = most + log(exp(logs - np.where(np.isfinite(most), most, 0.0)).sum(axis=0))
    result: Array = np.where(np.isfinite(most), total, most)
    return result


def geometric(first: float, last: float, count: int) -> Array:
    """`count` >= 2 points with one ratio, from `first` to `last`, both above 0 and exact."""
    points = exp(np.linspace(scalars.log(first), scalars.log(last), count))
    points[0], points[-1] = first, last
    return points


def modulus(z: Values) -> Array:
    """|z|."""
    return hypot(z.real, z.imag)


def angle(z: Values) -> Array:
    """The angle of z, in [-pi, pi]."""
    return arctan2(z.imag, z.real)


def from_polar(size: Array, turn: Array) -> ComplexArray:
    """The complex number of this modulus and this angle."""
    result = np.empty(turn.shape, dtype=np.complex128)
    sines, cosines = circle(turn)
    result.real, result.imag = size * cosines, size * sines
    return result


def times(left: Values, right: Values) -> ComplexArray:
    """left * right, entry by entry."""
    result = np.empty(np.broadcast_shapes(left.shape, right.shape), dtype=np.complex128)
    np.subtract(left.real * right.real, left.imag * right.imag, out=result.real)
    np.add(left.real * right.imag, left.imag * right.real, out=result.imag)
    return result


def product(left: Values, right: npt.ArrayLike) -> Any:
    """left @ right, of vectors and matrices, and of stacks of them."""
    right = np.asarray(right)
    if "c" in (left.dtype.kind, right.dtype.kind):
        return _complex_product(left, right)
    if left.ndim == 1 and right.ndim == 1:
        return (left * right).sum()
    if right.ndim == 1:
        return np.einsum("...j,j->...", left, right)
    if left.ndim == 1:
        return np.einsum("j,...jk->...k", left, right)
    return np.einsum("...ij,...jk->...ik", left, right)


def _complex_product(left: Values, right: Values) -> ComplexArray:
    a, b = np.ascontiguousarray(left.real), np.ascontiguousarray(left.imag)
    x, y = np.ascontiguousarray(right.real), np.ascontiguousarray(right.imag)
    real = product(a, x) - product(b, y)
    result = np.empty(np.shape(real), dtype=np.complex128)
    result.real, result.imag = real, product(a, y) + product(b, x)
    return result


def convolved(left: Array, right: Array) -> Array:
    """np.convolve of two vectors."""
    few, many = sorted((left, right), key=np.size)
    result = np.zeros(few.size + many.size - 1)
    for place, factor in enumerate(few.tolist()):
        result[place : place + many.size] += factor * many
    return result


def running_log_of_sum(logs: Array) -> Array:
    """log of the sum of e^x of each entry and all before it."""
    so_far, sums = -math.inf, []
    for log_term in logs.tolist():
        most, least = max(so_far, log_term), min(so_far, log_term)
        so_far = most + scalars.log1p(scalars.exp(least - most)) if math.isfinite(most) else most
        sums.append(so_far)
    return np.array(sums)
