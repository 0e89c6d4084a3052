"""What the engine assumes of floating-point arithmetic, and the check of it.

Additions, multiplications, divisions and square roots are those of IEEE 754 (error at most `UNIT` relative). Of the
elementary functions the engine assumes that numpy returns exp, expm1, log and log1p within 4 units in the last place,
and sin and cos within `CIRCULAR` in absolute terms, sin x for |x| < 1 within `CIRCULAR` |x|. `require_assumptions`
measures this once a process, against exact integer arithmetic, before the first bound is returned.
docs/proofs/engine.md, section 6.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.decimals import magnitude, own_context
from dpledger.errors import CannotCertify

__all__ = [
    "CIRCULAR",
    "SUBNORMAL",
    "ULPS",
    "UNIT",
    "Array",
    "ComplexArray",
    "Rounding",
    "agrees",
    "down",
    "fixed_point_circle",
    "lowered",
    "quietly",
    "raised",
    "require_assumptions",
    "rounded_out",
    "up",
]

Array: TypeAlias = npt.NDArray[np.float64]
P = ParamSpec("P")
T = TypeVar("T")
ComplexArray: TypeAlias = npt.NDArray[np.complex128]
Rounding: TypeAlias = Literal["above", "below"]
"""On which side of the truth a bound lies."""

UNIT = 2.0**-53
"""The relative error of one rounding to nearest, in binary64."""
ULPS = 4
"""The error, in units in the last place, that is assumed of exp, expm1, log and log1p."""
CIRCULAR = 8 * UNIT
"""The absolute error that is assumed of sin and cos; for sin x, |x| < 1, in units of |x|."""
SUBNORMAL = 2.0**-1068
"""More than a few roundings below the least normal float, 2^-1022, add up to: each is at most ULPS times 2^-1074."""

_POINTS = 48  # points a function; the tests check thousands against an independent library
_BITS = 200  # of the fixed-point sine and cosine
_WIDE = own_context(45)


def up(value: float) -> float:
    """The next float above `value`."""
    return math.nextafter(value, math.inf)


def down(value: float) -> float:
    """The next float below `value`."""
    return math.nextafter(value, -math.inf)


def lowered(value: float, error: float) -> float:
    """Claim: at most any x >= 0 of which `value` >= 0 is wrong by the relative `error` and a few roundings, below the
    normal floats too, where a rounding is absolute."""
    least = value * (1 - error) - SUBNORMAL
    return least if least > 0 else 0.0


def raised(value: float, error: float) -> float:
    """Claim: at least any x >= 0 of which `value` >= 0 is wrong by the relative `error` and a few roundings, below the
    normal floats too."""
    return up(value * (1 + error) + SUBNORMAL)


def rounded_out(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Claim: around every x in [0, 1] of which the bounds are wrong by a few roundings and one elementary function,
    together 16 UNIT relative, below the normal floats too: `lowered` and `raised`, for many."""
    below, above = lower * (1 - 16 * UNIT) - SUBNORMAL, upper * (1 + 16 * UNIT) + SUBNORMAL
    return np.maximum(0.0, below), np.minimum(1.0, above)


def quietly(function: Callable[P, T]) -> Callable[P, T]:
    """A decorator: what is below the normal floats is counted in errors, whatever the caller's `np.seterr` says of it.

    Each call enters a context of its own: one `np.errstate` shared by calls is not safe before numpy 2."""

    @functools.wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> T:
        with np.errstate(under="ignore"):
            return function(*args, **kwargs)

    return quiet


@functools.cache
def require_assumptions() -> None:
    """Check once that numpy's elementary functions are as accurate as assumed; CannotCertify where one is not."""
    wide = np.append(_between(-700, 700), _between(-2, 2))
    positive = np.exp2(np.append(_between(-60, 60), _between(-1, 1)))
    small = np.append(_between(-0.99, 3), np.exp2(_between(-60, 60)))
    angles = np.append(_between(-7, 7), _between(-1e6, 1e6))
    slight = np.exp2(_between(-60, 0))
    powers = [x.exp(_WIDE) for x in map(Decimal.from_float, wide.tolist())]
    _require("exp", np.exp(wide), powers)
    _require("expm1", np.expm1(wide), [_WIDE.subtract(power, 1) for power in powers])
    _require_logarithm("log", np.log(positive), list(map(Decimal.from_float, positive.tolist())))
    _require_logarithm("log1p", np.log1p(small), [_WIDE.add(1, x) for x in map(Decimal.from_float, small.tolist())])
    _require_circular("cos", np.cos(angles), angles, lambda pair: pair[0])
    _require_circular("sin", np.sin(angles), angles, lambda pair: pair[1])
    _require_circular("sin", np.sin(slight), slight, lambda pair: pair[1])


def _between(low: float, high: float) -> Array:
    """Half of the points, spread over an interval by multiples of the golden ratio."""
    points: Array = low + (high - low) * np.mod(np.arange(1, _POINTS // 2 + 1) * 0.6180339887498949, 1.0)
    return points


def agrees(computed: float, truth: Decimal, ulps: int) -> bool:
    """Whether a float is within so many units in the last place of a number."""
    apart = magnitude(_WIDE.subtract(Decimal.from_float(computed), truth))
    return math.isfinite(computed) and apart <= Decimal.from_float(ulps * math.ulp(float(truth)))


def _require(name: str, computed: Array, exact: list[Decimal]) -> None:
    for value, truth in zip(computed.tolist(), exact, strict=True):
        if not agrees(value, truth, ULPS):
            raise CannotCertify(f"numpy's {name} is less accurate here than the engine's error bounds assume")


def _require_logarithm(name: str, computed: Array, arguments: list[Decimal]) -> None:
    """Whether each argument is between the exponentials of both ends: decimals take them five times as fast as
    logarithms. The ends are no further off than `agrees` allows, on whichever side of a power of two the truth is."""
    for value, argument in zip(computed.tolist(), arguments, strict=True):
        apart = ULPS * math.ulp(math.nextafter(value, 0.0))
        ends = (Decimal.from_float(end) for end in (value - apart, value + apart) if math.isfinite(end))
        powers = [end.exp(_WIDE) for end in ends]
        if not (len(powers) == 2 and powers[0] <= argument <= powers[1]):
            raise CannotCertify(f"numpy's {name} is less accurate here than the engine's error bounds assume")


def _require_circular(name: str, computed: Array, angles: Array, pick: Callable[[tuple[int, int]], int]) -> None:
    for value, angle in zip(computed.tolist(), angles.tolist(), strict=True):
        truth = pick(fixed_point_circle(angle)) / 2**_BITS
        if not abs(value - truth) <= (CIRCULAR - UNIT) * (min(1.0, abs(angle)) if name == "sin" else 1.0):
            raise CannotCertify(f"numpy's {name} is less accurate here than the engine's error bounds assume")


def fixed_point_circle(angle: float) -> tuple[int, int]:
    """cos and sin of `angle` in units of 2^-200: Taylor's series of angle/2^r, then r doublings, in whole numbers."""
    numerator, denominator = angle.as_integer_ratio()
    halvings = max(0, math.frexp(angle)[1]) + 8
    guard = _BITS + 3 * halvings
    one = 1 << guard
    x = (numerator << guard) // (denominator << halvings)
    cosine, sine, term, k = 0, 0, one, 0
    while term:
        if k % 2 == 0:
            cosine += term if k % 4 == 0 else -term
        else:
            sine += term if k % 4 == 1 else -term
        k += 1
        term = (term * x >> guard) // k if term > 0 else -((-term * x >> guard) // k)
        if abs(term) <= 1:
            break
    for _ in range(halvings):
        cosine, sine = (cosine * cosine - sine * sine) >> guard, (2 * cosine * sine) >> guard
    return cosine >> (guard - _BITS), sine >> (guard - _BITS)
