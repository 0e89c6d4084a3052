"""L(x) = log(1 - q + q e^{(x - 1/2)/s^2}), the loss of a sampled Gaussian, and the trapezoid rule for its powers.

docs/proofs/engine.md, section 4.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array

__all__ = [
    "ALIAS",
    "DIGITS",
    "MOST_POINTS",
    "Curve",
    "LossCurve",
    "loss_curve",
    "mixed_curve",
    "quadrature_step",
    "short_step",
    "step_of_few",
]

DIGITS = 44.0  # the discretisation error of a quadrature is below e^-DIGITS, relative
ALIAS = 1.01 * scalars.exp(-DIGITS)
MOST_POINTS = 1 << 16  # of one quadrature
_FARTHEST_HEIGHT = 0.97  # of the strip, in units of its half width pi s^2
_LOW_HEIGHTS = elementary.geometric(1e-4, 0.49, 48)  # up to half of it: there arg(1 - s + s e^{iv}) rises with v
_SHARES = (0.6, 0.8, 1.0)  # of the height that is best for a parabola: heights tried where log cos falls faster
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
    @property
    def most_error(self) -> float:
        """A bound of all `errors`."""
        ...


@dataclass(frozen=True, eq=False)
class LossCurve:
    """L at points x where (x - 1/2)/s^2 is `u`, at most `most`: `values`; `gains` e^L - 1, infinite where it might
    overflow; `slopes` s = sigma^2 L'; `errors`, of the values, and `gain_errors`."""

    rate: float
    u: Array
    most: float
    values: Array
    gains: Array
    slope_error: float = 0.0  # below every margin that its readers leave

    @functools.cached_property
    def slopes(self) -> Array:
        if self.most <= _LARGEST_EXPONENT:
            return (self.gains + self.rate) / (self.gains + 1)
        with np.errstate(invalid="ignore"):
            near = (self.gains + self.rate) / (self.gains + 1)
        return np.where(self.u > _LARGEST_EXPONENT, 1.0, near)

    @functools.cached_property
    def gain_errors(self) -> Array:
        bounds: Array = (8 * UNIT) * (np.abs(self.gains) + np.abs(self.u) * (self.gains + self.rate))
        return bounds

    @functools.cached_property
    def errors(self) -> Array:
        values, u = np.abs(self.values), self.u
        if self.most <= _LARGEST_EXPONENT:
            near: Array = (4 * UNIT) * values + self.gain_errors / (self.gains + 1)
            return near
        with np.errstate(invalid="ignore"):
            mixed = (4 * UNIT) * values + self.gain_errors / (self.gains + 1)
        return np.where(u > _LARGEST_EXPONENT, (8 * UNIT) * (values + u + abs(scalars.log(self.rate))), mixed)

    @property
    def most_error(self) -> float:
        """A bound of all `errors`. Assumes: u rises."""
        largest = max(abs(float(self.values[0])), abs(float(self.values[-1])))
        farthest = max(abs(float(self.u[0])), abs(float(self.u[-1])))
        beyond = abs(scalars.log(self.rate)) if farthest > _LARGEST_EXPONENT else 0.0
        return (8 * UNIT) * (largest + max(1.0, self.rate / (1 - self.rate)) + farthest + beyond) * (1 + 1e-9)


def loss_curve(rate: float, sigma: float, x: Array) -> LossCurve:
    """L(x), with bounds of |computed - exact| that include the rounding of q and sigma.

    Assumes: x is exact, and rises.
    """
    return mixed_curve(rate, (x - 0.5) / scalars.square(sigma))


def mixed_curve(rate: float, u: Array, *, rises: bool = True) -> LossCurve:
    """log(1 - q + q e^u), with error bounds that include the rounding of q and a relative error of 6 UNIT in u.

    `rises`: whether u does.
    """
    most = float(u[-1]) if rises else float(u.max())
    gains = rate * elementary.expm1(np.minimum(u, _LARGEST_EXPONENT))
    values = elementary.log1p(gains)
    if most > _LARGEST_EXPONENT:
        far = u > _LARGEST_EXPONENT
        values[far], gains[far] = u[far] + scalars.log(rate), math.inf
    return LossCurve(rate, u, most, values, gains)


def short_step(step: float) -> float:
    """`step` rounded down to 20 significant bits: its multiples up to 2^33 are exact."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, 20)), exponent - 20)


def quadrature_step(
    sigma: float, power: float, frequency: float, digits: float, *, cut_width: float = math.inf
) -> float:
    """A step h for which the trapezoid rule integrates e^{(w + it) L} N(0, s^2), w = `power`, to e^-digits; with the
    factor of a cut of this width too.

    Claim: |rule - integral| <= 1.01 e^-digits I(w) for every |t| <= frequency, and for every power between 0 and w
    (where w > 0: for every positive power). Source: Trefethen-Weideman 2014, Theorem 5.1; docs/proofs/engine.md,
    sections 4 and 10.
    """
    farthest = _FARTHEST_HEIGHT * math.pi * scalars.square(sigma)
    bending = (
        1 / scalars.square(sigma)
        + 1 / scalars.square(cut_width)
        + max(0.0, -power) / (4 * scalars.square(scalars.square(sigma)))
    )
    best = math.sqrt(2 * (scalars.log(2) + digits) / bending)

    def step_of(height: float) -> float:
        exponent = height * height / 2 * (
            1 / scalars.square(sigma) + 1 / scalars.square(cut_width)
        ) + height * frequency / scalars.square(sigma)
        if power < 0:
            exponent += power * scalars.log(scalars.cos(height / (2 * scalars.square(sigma))))
        return 2 * math.pi * height / (exponent + scalars.log(2) + digits)

    shares = _SHARES if power < 0 else (1.0,)
    longest = max(step_of(min(share * best, farthest)) for share in shares)
    return short_step(min(longest, 0.7 * sigma))


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
        heights * heights / 2 * (1 / scalars.square(sigma) + 1 / scalars.square(cut_width))
        + turns
        + (scalars.log(2) + digits)
    )
    return short_step(min(float(np.max(2 * math.pi * heights / exponents)), 0.7 * sigma))
