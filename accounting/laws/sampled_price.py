"""The Renyi divergence of a sampled Gaussian where it is small: I - 1 without the cancellation in log I.

E_{N(0,s^2)} e^L = 1, so I(w) - 1 = E[e^{wL} - 1 - w(e^L - 1)], and this integrand is nowhere negative for w >= 1 and
w <= 0. The trapezoid rule sums it with every error added. Source: Mironov-Talwar-Zhang 2019, section 3.3 (the
divergence); docs/proofs/engine.md, section 5.
"""

from __future__ import annotations

import math

import numpy as np

from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.law import price
from dpledger.accounting.laws.sampled_curve import LossCurve, loss_curve, quadrature_step

__all__ = ["divergence_upper"]

MOST_PRICE_POINTS = 1 << 17


def divergence_upper(rate: float, sigma: float, power: float, c: float) -> float:
    """log I(w) / c, rounded up; w = `power` is c + 1 or -c.

    Claim: at least the Renyi divergence of order 1 + c of the pair that w stands for; infinite where the rule would
    need more than MOST_PRICE_POINTS points, or I overflows. Source: docs/proofs/engine.md, section 5.
    """
    digits = 75 + 2 * math.log(1 / rate)
    step = quadrature_step(sigma, power, 0.0, digits)
    reach = sigma * math.sqrt(2 * (digits + 12))
    low, high = min(power, 0.0) - reach, max(power, 1.0) + reach
    if not (high - low) / step < MOST_PRICE_POINTS:
        return math.inf
    x = np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64) * step
    square = x * x / (2 * sigma**2)
    curve = loss_curve(rate, sigma, x)
    with np.errstate(over="ignore", invalid="ignore"):
        terms, errors = _terms(curve, power, square)
        total = float(np.sum(terms))
        scale = step / (sigma * math.sqrt(2 * math.pi))
        missing = float(np.sum(errors)) + _tails(curve, power, x, square, step / sigma**2)
        excess = scale * (total * (1 + UNIT * (x.size + 20)) + missing) * (1 + 8 * UNIT)
    alias = 1.01 * math.exp(-digits) * (2 * (1 + excess) + 1 + 2 * abs(power))
    bound = excess + alias
    if not bound < math.inf:
        return math.inf
    return price(math.log1p(bound), 4 * UNIT * math.log1p(bound), c)


def _terms(curve: LossCurve, w: float, square: Array) -> tuple[Array, Array]:
    """The integrand times e^{-x^2/2s^2}, and bounds of the errors."""
    y, weight = curve.gains, np.exp(-square)
    powered = np.exp(w * curve.values - square)
    linear = np.where(weight > 0, weight * w * y, 0.0)
    direct = np.where(
        w * curve.values > 1, powered - weight - linear, weight * np.expm1(np.minimum(w * curve.values, 1.0)) - linear
    )
    small = (np.abs(y) < 1e-3) & (np.abs(w * y) < 1e-3)
    ys = np.where(small, y, 0.0)
    series = ys * ys * (w * (w - 1)) * (0.5 + (w - 2) * ys * (1 / 6 + (w - 3) * ys * (1 / 24 + (w - 4) * ys / 120)))
    rest = np.abs(ys) ** 2 * abs(w * (w - 1)) * (np.abs(w * ys) + 5 * np.abs(ys)) ** 4 / 360
    slope = np.abs(w) * np.where(small, 1.01 * np.abs((w - 1) * ys), 0.0)
    rough = abs(w) * (powered * np.exp(-np.minimum(curve.values, 700.0)) + weight)
    moved = np.where(small, slope * weight, rough) * curve.gain_errors
    arithmetic = UNIT * (
        16 * powered * (1 + np.abs(w * curve.values)) + 16 * weight + 16 * np.abs(linear) + 8 * square * powered
    )
    terms = np.where(small, series * weight, direct)
    exact = np.where(small, weight * rest + 32 * UNIT * series * weight * (1 + square), arithmetic)
    return terms, exact + moved + np.where(small, 0.0, 16 * UNIT * square * (weight + np.abs(linear)))


def _tails(curve: LossCurve, w: float, x: Array, square: Array, scale: float) -> float:
    """Claim: at least the sum of |term| beyond both ends: each of e^{wL}, |w| e^L and 1 + |w| falls geometrically."""
    ends = np.array([0, -1])
    powered = np.exp(w * curve.values[ends] - square[ends])
    single = abs(w) * np.exp(curve.values[ends] - square[ends]) + (1 + abs(w)) * np.exp(-square[ends])
    right_power = float(x[-1] - max(w, 0.0))
    left_power = float(-x[0] + min(w, 0.0) * curve.slopes[0])
    right_single, left_single = float(x[-1] - 1), float(-x[0])
    if min(right_power, left_power, right_single, left_single) <= 0:
        return math.inf
    before = powered[0] / -math.expm1(-scale * left_power) + single[0] / -math.expm1(-scale * left_single)
    after = powered[1] / -math.expm1(-scale * right_power) + single[1] / -math.expm1(-scale * right_single)
    return float(before + after) * (1 + 1e-6)
