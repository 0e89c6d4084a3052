"""Real numbers and the grid: which step a mechanism takes, and how a number becomes whole steps, whatever it is.

A step is a power of two, so that a float is a multiple of a fine enough step exactly and a result is a float. Rounding
is floor(x + 1/2): it is monotone and commutes with whole steps, so two numbers at most m steps apart are at most m
steps apart after it. Hence a sensitivity that is rounded up to whole steps covers the rounding (`on_grid`).

>>> to_steps(3.3, TotalMap(grid=Decimal("0.5"), bound=Decimal(100), missing=Decimal(0)))
7
>>> default_grid(scale=Fraction(10))
Decimal('0.0078125')
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.decimals import float_up, magnitude, text
from dpledger.errors import ParameterError
from dpledger.mechanisms.numeric.containers import array_of
from dpledger.mechanisms.numeric.one_shot import derived

__all__ = [
    "Floats",
    "TotalMap",
    "check_map",
    "check_number",
    "check_number_or_vector",
    "check_vector",
    "default_grid",
    "exact_decimal",
    "nearest_whole",
    "number_or_vector_to_steps",
    "on_grid",
    "to_floats",
    "to_steps",
    "vector_to_steps",
]

Floats: TypeAlias = npt.NDArray[np.float64]

_FINEST, _COARSEST = -60, 59  # powers of two that are decimals of the profile: 60 digits after the point, 18 before
_NEGLIGIBLE = -100  # the power of ten of numbers that are far below every step
_BEYOND_BOUNDS = 500  # the power of ten of numbers that are beyond every bound
_DOUBLE = 8  # bytes of a float64
_EXACT_IN_FLOAT = 2**53
_SMALL = 2**62  # int64 arrays hold numbers below this
_HALF = 0.5
_STEPS_PER_SCALE = 2**10  # a default grid is this much finer than the noise and the sensitivity: they lose 0.1 %


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalMap:
    """How any number becomes whole steps of `grid`: what is no number counts as `missing`, all else is clamped to
    [-bound, bound] and rounded to the nearest step. Public.

    `ratio`: the grid as a ratio of whole numbers; `step`: as a float, which it is. `lowest`, `highest`, `absent`: the
    steps of -bound, bound and missing."""

    grid: Decimal
    bound: Decimal
    missing: Decimal
    ratio: tuple[int, int] = field(init=False, repr=False, compare=False)
    step: float = field(init=False, repr=False, compare=False)
    lowest: int = field(init=False, repr=False, compare=False)
    highest: int = field(init=False, repr=False, compare=False)
    absent: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, value in _in_steps(self.grid, self.bound, self.missing).items():
            object.__setattr__(self, name, value)

    def words(self) -> tuple[str, ...]:
        """What numbers count as that are not finite, and what is no number."""
        return (
            f"NaN or any other non-number counts as {text(self.missing)}",
            f"a number beyond {text(self.bound)}, also infinity, counts as {text(self.bound)} with its sign",
        )


@functools.lru_cache(maxsize=512)
def _in_steps(grid: Decimal, bound: Decimal, missing: Decimal) -> Mapping[str, Any]:
    """What follows from the parameters of a map: asked again at every release."""
    ratio, furthest = Fraction(grid).as_integer_ratio(), Fraction(bound)
    lowest, highest = _nearest_step(-furthest, ratio), _nearest_step(furthest, ratio)
    absent = min(max(_nearest_step(Fraction(missing), ratio), lowest), highest)
    return {"ratio": ratio, "step": float_up(grid), "lowest": lowest, "highest": highest, "absent": absent}


def exact_decimal(number: Fraction) -> Decimal:
    """A fraction whose denominator is a power of two, at most 2^60, as the decimal that it is."""
    twos = number.denominator.bit_length() - 1
    return Decimal(f"{number.numerator * 5**twos}E-{twos}")


def default_grid(**lengths: Fraction) -> Decimal:
    """The largest power of two that is at most 1/1024 of each length (the noise, the sensitivity), named by the
    parameter that it comes from. ParameterError, naming the parameter, if that is below 2^-60."""
    field, length = min(lengths.items(), key=lambda item: item[1])
    target = length / _STEPS_PER_SCALE
    exponent = target.numerator.bit_length() - target.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > target
    if exponent < _FINEST:
        raise ParameterError(field, f"a length of {float(length):.3g}", "lengths of at least 2^-50, or a grid")
    return exact_decimal(Fraction(2) ** min(exponent, _COARSEST))


def check_map(grid: Decimal, bound: Decimal, missing: Decimal) -> None:
    """Raise ParameterError unless grid is a power of two and `missing` within the bound."""
    step = Fraction(grid)
    if step.numerator & (step.numerator - 1) or step.denominator & (step.denominator - 1):
        raise ParameterError("grid", str(grid), "a power of two, like 0.0078125 (2^-7)")
    if magnitude(missing) > bound:
        raise ParameterError("missing", str(missing), f"a number within the bound, {bound}")


def on_grid(sensitivity: Decimal, grid: Decimal, dimension: int = 1) -> Decimal:
    """How far, in the l1 norm, a number or a vector of this dimension moves once it is rounded: of a number the least
    multiple of `grid` that is not below `sensitivity`, and a step more for each further entry.

    Claim: |x - y| <= sensitivity implies |round(x) - round(y)| * grid <= on_grid(sensitivity, grid, dimension).
    Source: docs/proofs/noise.md, section 5.
    """
    steps = math.ceil(Fraction(sensitivity) / Fraction(grid)) + dimension - 1
    return derived(exact_decimal(steps * Fraction(grid)), sensitivity=sensitivity)


def check_number(data: object) -> None:
    """Raise ParameterError unless `data` are one number of Python, or one entry of numpy: of whatever value and dtype,
    which may follow from one record."""
    match data:
        case int() | float() | Decimal() | Fraction():
            return
        case np.ndarray() | np.generic() if data.ndim == 0:
            return
        case _:
            expected = "one number: an int, a float, a Decimal, a Fraction or a number of numpy"
            raise ParameterError("data", _form(data), expected)


def check_vector(data: object, dimension: int) -> None:
    """Raise ParameterError unless `data` are a list, a tuple, an array or a column of this length and one axis, of
    whatever values and dtype."""
    entries = _entries(data)
    if entries is None:
        raise ParameterError("data", _form(data), f"a list or an array of {dimension} numbers, of one axis")
    if len(entries) != dimension:
        raise ParameterError("data", f"{type(data).__name__} of another length", f"{dimension} numbers")


def check_number_or_vector(data: object, dimension: int) -> None:
    """Raise ParameterError unless `data` are one number or, where the dimension is above 1, a vector of that length."""
    if dimension == 1:
        check_number(data)
    else:
        check_vector(data, dimension)


def _entries(data: object) -> npt.NDArray[Any] | list[Any] | tuple[Any, ...] | None:
    """The entries of a vector; None where `data` are none, whatever they hold."""
    if isinstance(data, (list, tuple)):
        return data
    array = array_of(data)
    return array if array is not None and array.ndim == 1 else None


def _form(data: object) -> str:
    return f"{type(data).__name__} with {data.ndim} axes" if isinstance(data, np.ndarray) else type(data).__name__


def to_steps(value: object, how: TotalMap) -> int:
    """`value` in whole steps of the grid. Total: never raises, whatever `value` is. Rounding is monotone, so clamping
    may come after it."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, float):
        steps = float(value) / how.step  # exact where it counts: the step is a power of two
        if -_EXACT_IN_FLOAT < steps < _EXACT_IN_FLOAT:
            below = math.floor(steps)
            return min(max(below + (steps - below >= _HALF), how.lowest), how.highest)
    return min(max(_nearest_step(_exact(value, how), how.ratio), how.lowest), how.highest)


def _nearest_step(exact: Fraction, step: tuple[int, int]) -> int:
    """floor(exact / step + 1/2)."""
    part, whole = exact.numerator * step[1], exact.denominator * step[0]
    return (2 * part + whole) // (2 * whole)


def _exact(value: object, how: TotalMap) -> Fraction:
    if isinstance(value, (int, np.integer, np.bool_)) and not isinstance(value, np.timedelta64):
        return Fraction(int(value))
    if isinstance(value, Fraction):
        return value
    if isinstance(value, (float, np.floating)):
        return _exact_float(value, how)
    if not isinstance(value, Decimal) or value.is_nan():
        return Fraction(how.missing)
    if value.is_infinite() or value.adjusted() > _BEYOND_BOUNDS:
        return Fraction(how.bound) * (-1 if value.is_signed() else 1)
    return Fraction(value) if value.adjusted() > _NEGLIGIBLE else Fraction(0)


def _exact_float(value: float | np.floating[Any], how: TotalMap) -> Fraction:
    """A float of any width as the number that it is: none is narrowed, for neighbours far from 0 would part."""
    if np.isfinite(value):
        return Fraction(*value.as_integer_ratio())
    return Fraction(how.missing) if np.isnan(value) else Fraction(how.bound) * (1 if value > 0 else -1)


def vector_to_steps(values: object, how: TotalMap, dimension: int) -> npt.NDArray[Any]:
    """The `dimension` entries of `values` in whole steps, each as `to_steps` maps it: int64, or Python integers where
    one does not fit.

    Total: never raises, whatever `values` is; what is no vector of this length counts as all missing.
    """
    entries = _entries(values)
    if entries is None or len(entries) != dimension:
        entries = [None] * dimension
    if isinstance(entries, np.ndarray) and entries.dtype.kind == "f" and entries.dtype.itemsize <= _DOUBLE:
        return _floats_to_steps(entries.astype(np.float64), how)
    if isinstance(entries, np.ndarray) and entries.dtype.kind in "iub" and entries.size:
        return _whole_to_steps(entries, how)
    return _integers([to_steps(entry, how) for entry in entries])


def number_or_vector_to_steps(data: object, how: TotalMap, dimension: int) -> npt.NDArray[Any]:
    """The entries of what `check_number_or_vector` takes, in whole steps: [dimension]."""
    return np.array([to_steps(data, how)]) if dimension == 1 else vector_to_steps(data, how, dimension)


def _floats_to_steps(values: Floats, how: TotalMap) -> npt.NDArray[Any]:
    """`to_steps` of every entry, all at once; those that are far away or no numbers by themselves."""
    with np.errstate(all="ignore"):  # beyond every float is beyond the bound; far below the grid is below half a step
        steps = nearest_whole(values / how.step)  # exact else: the grid is a power of two
        near = np.abs(steps) < _EXACT_IN_FLOAT  # not where it is NaN
    if max(-how.lowest, how.highest) < _EXACT_IN_FLOAT:
        nowhere = np.isnan(steps)
        clipped: npt.NDArray[Any] = np.clip(np.where(nowhere, 0.0, steps), how.lowest, how.highest).astype(np.int64)
        clipped[nowhere] = how.absent
        return clipped
    whole: npt.NDArray[Any] = np.where(near, steps, 0.0).astype(np.int64)
    np.clip(whole, max(how.lowest, -_EXACT_IN_FLOAT), min(how.highest, _EXACT_IN_FLOAT), out=whole)
    if near.all():
        return whole
    nowhere = np.isnan(values)
    far = [to_steps(value, how) for value in values[~near & ~nowhere]]
    if max(map(abs, [*far, how.absent])) >= _SMALL:
        whole = whole.astype(object)
    whole[~near & ~nowhere] = far
    whole[nowhere] = how.absent
    return whole


def _whole_to_steps(values: npt.NDArray[Any], how: TotalMap) -> npt.NDArray[Any]:
    """`to_steps` of every whole number, all at once where nothing wraps."""
    up, down = how.ratio
    largest = max(abs(int(values.min())), abs(int(values.max())))
    if 2 * (largest * down + up) >= _SMALL:
        return _integers([to_steps(value, how) for value in values])
    steps: npt.NDArray[Any] = (2 * values.astype(np.int64) * down + up) // (2 * up)
    clipped: npt.NDArray[Any] = np.clip(steps, max(how.lowest, -_SMALL), min(how.highest, _SMALL))
    return clipped


def _integers(steps: list[int]) -> npt.NDArray[Any]:
    small = all(abs(step) < _SMALL for step in steps)
    return np.array(steps, dtype=np.int64 if small else object)


def nearest_whole(values: Floats) -> Floats:
    """floor(x + 1/2), exactly: no sum is rounded."""
    below = np.floor(values)
    result: Floats = below + (values - below >= 0.5)
    return result


def to_floats(steps: npt.NDArray[Any], grid: Decimal) -> Floats:
    """Whole steps as the nearest float64, of the same shape."""
    result: Floats = steps.astype(np.float64) * float_up(grid)
    return result
