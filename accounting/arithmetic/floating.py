"""What the engine assumes of floating-point arithmetic.

Additions, multiplications, divisions and square roots are those of IEEE 754 (error at most `UNIT` relative). Of
`elementary` and `scalars` it assumes that exp, expm1, log and log1p are within `ULPS` units in the last place, each of
which is at most 2 `UNIT` relative, and sin and cos within `CIRCULAR` in absolute terms, sin x for |x| < 1 within
`CIRCULAR` |x|. docs/proofs/engine.md, section 6.

A program can switch the first off for a thread of its own, and `require_ieee` sees that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.errors import FloatsAltered

__all__ = [
    "CIRCULAR",
    "ERFC_ULPS",
    "SUBNORMAL",
    "ULPS",
    "UNIT",
    "Array",
    "BoolArray",
    "ComplexArray",
    "Rounding",
    "by_squaring",
    "down",
    "lowered",
    "quietly",
    "raised",
    "require_ieee",
    "rounded_out",
    "up",
]

Array: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
P = ParamSpec("P")
T = TypeVar("T")
ComplexArray: TypeAlias = npt.NDArray[np.complex128]
Rounding: TypeAlias = Literal["above", "below"]
"""On which side of the truth a bound lies."""

UNIT = 2.0**-53
"""The relative error of one rounding to nearest, in binary64."""
ULPS = 2
"""The error, in units in the last place, that is assumed of exp, expm1, log and log1p."""
ERFC_ULPS = 6
"""The error, in units in the last place, that is assumed of erfc."""
CIRCULAR = 8 * UNIT
"""The absolute error that is assumed of sin and cos; for sin x, |x| < 1, in units of |x|."""
SUBNORMAL = 2.0**-1068
"""More than a few roundings below the least normal float, 2^-1022, add up to: each is at most ULPS times 2^-1074."""


def require_ieee() -> None:
    """Raises FloatsAltered unless floats of this thread round to nearest, and keep what is below 2^-1022."""
    one, least = 1.0, 2.0**-1022
    if least * 0.5 == 0:
        raise FloatsAltered(
            "this thread takes numbers below 2^-1022 for zero, so no bound holds, and nothing was computed: call "
            "torch.set_flush_denormal(False), or do not load, in this process, the library that was compiled with "
            "-ffast-math"
        )
    if not one + UNIT == one == one - UNIT / 4:
        raise FloatsAltered(
            "floats of this thread do not round to nearest, so no bound holds, and nothing was computed: set the "
            "rounding mode back (fesetround)"
        )


def up(value: float) -> float:
    """The next float above `value`."""
    return math.nextafter(value, math.inf)


def down(value: float) -> float:
    """The next float below `value`."""
    return math.nextafter(value, -math.inf)


def by_squaring(base: T, count: int, product: Callable[[T, T], T]) -> T:
    """base^count, count >= 1, of an associative product."""
    result: T | None = None
    while True:
        if count & 1:
            result = base if result is None else product(result, base)
        count >>= 1
        if not count:
            assert result is not None
            return result
        base = product(base, base)


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
    FloatsAltered where it is not there at all.

    Each call enters a context of its own: one `np.errstate` shared by calls is not safe before numpy 2."""

    @functools.wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> T:
        require_ieee()
        with np.errstate(under="ignore"):
            return function(*args, **kwargs)

    return quiet
