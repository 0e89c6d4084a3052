"""L(x) = log(1 - q + q e^{(x - 1/2)/s^2}), the loss of a sampled Gaussian, and the trapezoid rule for its powers.

docs/proofs/engine.md, section 4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, BoolArray

__all__ = [
    "ALIAS",
    "DIGITS",
    "MOST_POINTS",
    "Curve",
    "LossCurve",
    "mixed_curve",
    "mixed_slopes",
    "quadrature_step",
    "short_step",
    "step_of_few",
]

DIGITS = 44.0  # the discretisation error of a quadrature is below e^-DIGITS, relative
ALIAS = 1.01 * scalars.exp(-DIGITS)
MOST_POINTS = 1 << 16  # of one quadrature
_FARTHEST_HEIGHT = 0.97  # of the strip, in units of its half width pi s^2
_LOW_HEIGHTS = elementary.geometric(1e-4, 0.49, 48)  # up to half of it: there arg(1 - s + s e^{iv}) rises with v
_LOG_2 = scalars.log(2)
_SHARES = np.array([0.6, 0.8, 1.0])  # of the best height for a parabola, where log cos falls faster
_LARGEST_EXPONENT = 600.0  # beyond, 1 - q is below the rounding of q e^u, and products with e^u would overflow


class Curve(Protocol):
    """A loss at points x, rising and convex in x: `values` L; `slopes` sigma^2 L', in [0, 1], which rise, each within a
    relative `slope_error`; `errors`, of the values."""

    @property
    def values(self) -> Array: ...
    @property
    def slopes(self) -> Array: ...
    @property
    def errors(self) -> Array: ...
    @property
    def slope_error(self) -> float: ...


@dataclass(frozen=True, eq=False)
class LossCurve:
    """L at points x where (x - 1/2)/s^2 is `u`; `far`: where u is so large that L is u + log q, None where it is
    nowhere. `values`; `gains` e^L - 1, infinite where it might overflow; `slopes` s = sigma^2 L'; `errors`, of the
    values, and `gain_errors`."""

    rate: float | Array
    u: Array
    far: BoolArray | None
    values: Array
    gains: Array
    slope_error: float = 0.0  # below every margin that its readers leave

    @functools.cached_property
    def slopes(self) -> Array:
        return mixed_slopes(self.rate, self.u)

    @property
    def gain_errors(self) -> Array:
        bounds: Array = (8 * UNIT) * (np.abs(self.gains) + np.abs(self.u) * (self.gains + self.rate))
        return bounds

    @functools.cached_property
    def errors(self) -> Array:
        sizes = np.abs(self.values)
        return self._or_far(
            lambda: (4 * UNIT) * sizes + self.gain_errors / (self.gains + 1),
            lambda: (8 * UNIT) * (sizes + self.u + np.abs(elementary.log(self.rate))),
        )

    def _or_far(self, near: Callable[[], Array], far: Callable[[], Array]) -> Array:
        if self.far is None:
            return near()
        with np.errstate(invalid="ignore"):
            return np.where(self.far, far(), near())


def mixed_slopes(rate: float | Array, u: Array) -> Array:
    """s = q e^u / (1 - q + q e^u): sums and quotients of what is above 0, so its relative error is a few roundings and
    what u errs by."""
    grown = rate * elementary.exp(np.minimum(u, _LARGEST_EXPONENT))
    slopes: Array = grown / (grown + (1 - rate))
    return slopes


def mixed_curve(rate: float | Array, u: Array) -> LossCurve:
    """log(1 - q + q e^u), with error bounds that include the rounding of q and a relative error of 6 UNIT in u.
    `rate`: one, or a column beside the rows of u."""
    gains = rate * elementary.expm1(np.minimum(u, _LARGEST_EXPONENT))
    values = elementary.log1p(gains)
    if not float(u.max()) > _LARGEST_EXPONENT:
        return LossCurve(rate, u, None, values, gains)
    far = u > _LARGEST_EXPONENT
    return LossCurve(rate, u, far, np.where(far, u + elementary.log(rate), values), np.where(far, math.inf, gains))


def short_step(steps: Array) -> Array:
    """Each step rounded down to 20 significant bits: its multiples up to 2^33 are exact."""
    mantissas, powers = np.frexp(steps)
    short: Array = np.ldexp(np.floor(np.ldexp(mantissas, 20)), powers - 20)
    return short


def quadrature_step(
    sigma: float | Array,
    power: float | Array,
    frequency: float,
    digits: float | Array,
    *,
    cut_width: float = math.inf,
) -> Array:
    """A step h for which the trapezoid rule integrates e^{(w + it) L} N(0, s^2), w = `power`, to e^-digits; with the
    factor of a cut of this width too. Of columns a column.

    Claim: |rule - integral| <= 1.01 e^-digits I(w) for every |t| <= frequency, and for every power between 0 and w
    (where w > 0: for every positive power). Source: Trefethen-Weideman 2014, Theorem 5.1; docs/proofs/engine.md,
    sections 4 and 10.
    """
    variance, falling = sigma * sigma, np.minimum(power, 0.0)
    parabola = 1 / variance + 1 / scalars.square(cut_width)
    best = np.sqrt(2 * (_LOG_2 + digits) / (parabola - falling / (4 * (variance * variance))))
    heights = np.minimum(_SHARES * best, _FARTHEST_HEIGHT * math.pi * variance)
    exponents = heights * heights / 2 * parabola + heights * frequency / variance
    if falling.any():
        exponents += falling * elementary.log(elementary.cos(heights / (2 * variance)))
    longest = np.max(2 * math.pi * heights / (exponents + _LOG_2 + digits), axis=-1, keepdims=True)
    return short_step(np.minimum(longest, 0.7 * sigma))


def step_of_few(
    sigma: float, cut_width: float, frequency: float, digits: float, slopes: Array, log_beyond: Array
) -> float:
    """A step as that of `quadrature_step` for a power w > 0 and a cut, where large slopes are rare: s is at most
    `slopes[i]` but on a share of at most e^`log_beyond[i]` of I(w), for each i.

    Claim: |rule - integral| <= 1.01 e^-digits I(w) for every |t| <= frequency. Source: docs/proofs/engine.md,
    section 10.
    """
    heights = _LOW_HEIGHTS * (math.pi * scalars.square(sigma))
    v = heights / scalars.square(sigma)
    s = slopes[:, None]
    sines, cosines = elementary.circle(v)
    turned = elementary.arctan2(s * sines, 1 - s + s * cosines) * (1 + 1e-12)
    turns = elementary.logaddexp(frequency * turned, log_beyond[:, None] + frequency * v).min(axis=0)
    exponents = (
        heights * heights / 2 * (1 / scalars.square(sigma) + 1 / scalars.square(cut_width)) + turns + (_LOG_2 + digits)
    )
    return float(short_step(np.minimum(np.max(2 * math.pi * heights / exponents), 0.7 * sigma)))
