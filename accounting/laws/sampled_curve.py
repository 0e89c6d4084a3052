"""L(x) = log(1 - q + q e^{(x - 1/2)/s^2}), the loss of a sampled Gaussian, and the trapezoid rule for its powers.

docs/proofs/engine.md, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.engine.floating import UNIT, Array

__all__ = ["FRACTIONS", "LossCurve", "log_growth", "loss_curve", "short_step", "strip_error"]

FRACTIONS = np.geomspace(1e-6, 0.97, 40)
"""Heights tried for the strip, as fractions of its half width pi s^2."""


@dataclass(frozen=True, slots=True, eq=False)
class LossCurve:
    """L at points x: `values`; `slopes` s = sigma^2 L'; `gains` e^L - 1; `errors`, of the values, and `gain_errors`."""

    values: Array
    slopes: Array
    gains: Array
    errors: Array
    gain_errors: Array


def loss_curve(rate: float, sigma: float, x: Array) -> LossCurve:
    """L(x), with bounds of |computed - exact| that include the rounding of q and sigma.

    Assumes: x is exact.
    """
    u = (x - 0.5) / sigma**2
    near = np.minimum(u, 700.0)
    gains = rate * np.expm1(near)
    values = np.log1p(gains)
    slopes = (gains + rate) / (1 + gains)
    gain_errors = UNIT * (8 * np.abs(gains) + 8 * np.abs(u) * (gains + rate))
    errors = UNIT * 4 * np.abs(values) + gain_errors / (1 + gains)
    far = u > 700
    if far.any():
        values[far], slopes[far] = u[far] + math.log(rate), 1.0
        gains[far], gain_errors[far] = math.inf, math.inf
        errors[far] = UNIT * (8 * np.abs(values[far]) + 8 * u[far] + 8 * abs(math.log(rate)))
    return LossCurve(values, slopes, gains, errors, gain_errors)


def short_step(step: float) -> float:
    """`step` rounded down to 20 significant bits: its multiples up to 2^33 are exact."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, 20)), exponent - 20)


def log_growth(sigma: float, power: float, heights: Array) -> Array:
    """log of the most by which |e^{w L(x)} N(x; 0, s^2)| grows from the real line to Im x = height, w = `power`."""
    growth: Array = heights**2 / (2 * sigma**2)
    if power < 0:
        growth = growth + power * np.log(np.cos(heights / (2 * sigma**2)))
    return growth


def strip_error(sigma: float, power: float, step: float, t: Array) -> Array:
    """log of the trapezoid rule's error on e^{(w + it) L} N(0, s^2), relative to the integral at t = 0.

    Claim: at least log(|rule - integral| / I(w)), for each t. Source: Trefethen-Weideman 2014, Theorem 5.1;
    docs/proofs/engine.md, section 4.
    """
    heights = FRACTIONS * math.pi * sigma**2
    ratio = 2 * math.pi * heights / step
    fall = np.where(ratio > 40, ratio * (1 - 1e-12), np.log(np.expm1(np.minimum(ratio, 40.0))))
    levels = log_growth(sigma, power, heights) * (1 + 1e-12) - fall + math.log(2) + 1e-9
    bounds: Array = np.min(levels + np.multiply.outer(t, heights / sigma**2 * (1 + 1e-9)), axis=-1)
    return bounds
