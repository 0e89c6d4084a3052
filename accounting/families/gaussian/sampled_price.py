"""The Renyi divergences of a sampled Gaussian, of many orders in one call, without the cancellation in a small log I.

E_{N(0,s^2)} e^L = 1, so I(w) - 1 = E[e^{wL} - 1 - w(e^L - 1)], and this integrand is nowhere negative for w >= 1 and
w <= 0. The trapezoid rule sums it with every error added. Where e^{wL} might overflow I is summed as it is, from its
largest term. Each power w has points of its own, and a sum of its own: those of all powers lie one after another in the
same arrays, and no bound depends on which others are asked for with it. Source: Mironov-Talwar-Zhang 2019, section 3.3
(the divergence); docs/proofs/engine.md, section 5.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.law import prices
from dpledger.accounting.laws.sampled_curve import LossCurve, mixed_curve, quadrature_step

__all__ = ["divergences_upper"]

MOST_PRICE_POINTS = 1 << 17  # of one power
DIGITS = 44.0  # what is resolved of a large I
TOGETHER = 1 << 12  # points that are summed in one go, but for those of one power: what fits into a near cache
LARGE = 600.0  # the largest logarithm of a term of I for which I - 1 is summed

Indices: TypeAlias = npt.NDArray[np.intp]
Value = TypeVar("Value", bound=np.generic)
Bools: TypeAlias = npt.NDArray[np.bool_]


def divergences_upper(rate: float, sigma: float, powers: Array, c: Array) -> Array:
    """log I(w) / c, rounded up, for each w of `powers` beside its c; w is c + 1 or -c.

    Claim: each is at least the Renyi divergence of order 1 + c of the pair that w stands for; infinite where the rule
    would need more than MOST_PRICE_POINTS points. Each is a function of rate, sigma, w and c alone, bit for bit.
    Source: docs/proofs/engine.md, section 5.
    """
    digits = _digits(rate, sigma, powers)
    reach = sigma * np.sqrt(2 * (digits + 12))
    steps = quadrature_step(sigma, powers[:, None], 0.0, digits[:, None])[:, 0]
    odds = rate / (1 - rate) * scalars.exp(-0.5 / scalars.square(sigma))
    first = np.floor((np.minimum(powers, 0.0) * (odds / (1 + odds)) - reach) / steps)
    counts = np.ceil((np.maximum(powers, 1.0) + reach) / steps) - first + 1
    bounds = np.full(powers.shape, math.inf)
    for chosen in _groups(counts):
        points = _Points(rate, sigma, powers[chosen], steps[chosen], first[chosen], counts[chosen].astype(np.intp))
        with np.errstate(over="ignore", invalid="ignore"):
            logs = _log_moments(points, elementary.exp(-digits[chosen]))
        bounds[chosen] = np.where(logs < math.inf, prices(logs, c[chosen]), math.inf)
    return bounds


def _digits(rate: float, sigma: float, powers: Array) -> Array:
    """The logarithm of 1 over the share of I that the rule must resolve: I - 1 is about (rate/sigma)^2. Less does where
    log I is surely above 1, as I(w) >= rate^w e^{w(w-1)/2s^2} says."""
    surely = powers * scalars.log(rate) + powers * (powers - 1) / (2 * scalars.square(sigma)) > 1
    return np.where((powers > 0) & surely, DIGITS, 75 + 2 * scalars.log(1 / rate))


def _groups(counts: Array) -> Iterator[Indices]:
    """The places of the powers that are summed, in groups that follow each other."""
    summed = np.flatnonzero(counts < MOST_PRICE_POINTS)
    if summed.size:
        groups = np.floor_divide(np.cumsum(counts[summed]), TOGETHER)
        yield from np.split(summed, np.flatnonzero(np.diff(groups)) + 1)


@dataclass(frozen=True, eq=False)
class _Points:
    """The points of the rule for each of `powers`, its multiples `first`, first + 1, ... of its step, so many as
    `counts` says; those of one power after those of the one before."""

    rate: float
    sigma: float
    powers: Array
    steps: Array
    first: Array
    counts: Indices

    @functools.cached_property
    def starts(self) -> Indices:
        """Where the points of each power begin."""
        return np.cumsum(self.counts) - self.counts

    @functools.cached_property
    def x(self) -> Array:
        places = np.arange(int(self.counts.sum()), dtype=np.float64)
        multiples: Array = (places + self.spread(self.first - self.starts)) * self.spread(self.steps)
        return multiples

    @functools.cached_property
    def squares(self) -> Array:
        """x^2 / 2 sigma^2."""
        return self.x * self.x / (2 * scalars.square(self.sigma))

    @functools.cached_property
    def curve(self) -> LossCurve:
        return mixed_curve(self.rate, (self.x - 0.5) / scalars.square(self.sigma))

    def spread(self, values: npt.NDArray[Value]) -> npt.NDArray[Value]:
        """A value of each power, at each of its points."""
        return np.repeat(values, self.counts)

    def rest(self, fall: Array) -> Array:
        """The sum of a geometric series, in units of its first term: one that falls by `fall` steps over sigma^2."""
        bounds: Array = np.where(
            fall > 0, 1 / -elementary.expm1(-self.steps / scalars.square(self.sigma) * fall), math.inf
        )
        return bounds

    def sums(self, terms: Array) -> Array:
        """Of each power, in an order that its number of points fixes."""
        added: Array = np.add.reduceat(terms, self.starts)
        return added


def _log_moments(points: _Points, alias: Array) -> Array:
    """Claim: each is at least log I(w), infinite, or no number. `alias`: the e^-digits of its step. Source:
    docs/proofs/engine.md, section 5."""
    w, curve = points.spread(points.powers), points.curve
    exponents = w * curve.values - points.squares
    highest = np.maximum.reduceat(exponents, points.starts)
    large = highest > LARGE
    tops = np.where(large, highest, 0.0)
    powered = elementary.exp(exponents - points.spread(tops) if large.any() else exponents)
    terms, errors = _terms(points, w, powered)
    if large.any():
        whole = points.spread(large)
        doubts = np.abs(w) * curve.errors + 16 * UNIT * (1 + np.abs(exponents) + points.squares + points.spread(tops))
        doubts = np.where(doubts < 1, doubts * (1 + doubts), math.inf)
        terms, errors = np.where(whole, powered, terms), np.where(whole, powered * doubts, errors)
    missing = points.sums(errors) + _tails(points, powered, large)
    scale = points.steps / (points.sigma * math.sqrt(2 * math.pi))
    excess = scale * (points.sums(terms) * (1 + UNIT * (points.counts + 20)) + missing) * (1 + 8 * UNIT)
    found = excess + 1.01 * alias * (2 * (1 + excess) + 1 + 2 * np.abs(points.powers))
    logs: Array = np.where(large, tops + elementary.log(found), elementary.log1p(found))
    logs += 16 * UNIT * (np.abs(logs) + 2 * tops)
    return logs


def _terms(points: _Points, w: Array, powered: Array) -> tuple[Array, Array]:
    """The integrand times e^{-x^2/2s^2}, and bounds of the errors; `powered` is that of e^{wL}."""
    curve, squares = points.curve, points.squares
    y, weight, wl = curve.gains, elementary.exp(-squares), w * curve.values
    linear = np.where(weight > 0, weight * w * y, 0.0)
    direct = np.where(wl > 1, powered - weight - linear, weight * elementary.expm1(np.minimum(wl, 1.0)) - linear)
    small = (np.abs(y) < 1e-3) & (np.abs(w * y) < 1e-3)
    ys = np.where(small, y, 0.0)
    series = ys * ys * (w * (w - 1)) * (0.5 + (w - 2) * ys * (1 / 6 + (w - 3) * ys * (1 / 24 + (w - 4) * ys / 120)))
    rest = (
        scalars.square(np.abs(ys))
        * np.abs(w * (w - 1))
        * scalars.square(scalars.square(np.abs(w * ys) + 5 * np.abs(ys)))
        / 360
    )
    slope = np.abs(w) * np.where(small, 1.01 * np.abs((w - 1) * ys), 0.0)
    rough = np.abs(w) * (powered * elementary.exp(-np.minimum(curve.values, 700.0)) + weight)
    moved = np.where(small, slope * weight, rough) * curve.gain_errors
    arithmetic = UNIT * (16 * powered * (1 + np.abs(wl)) + 16 * weight + 16 * np.abs(linear) + 8 * squares * powered)
    terms = np.where(small, series * weight, direct)
    exact = np.where(small, weight * rest + 32 * UNIT * series * weight * (1 + squares), arithmetic)
    return terms, exact + moved + np.where(small, 0.0, 16 * UNIT * squares * (weight + np.abs(linear)))


def _tails(points: _Points, powered: Array, large: Bools) -> Array:
    """Claim: at least the sums of |term| beyond both ends: e^{wL} and, where I - 1 is summed, |w| e^L and 1 + |w| fall
    geometrically."""
    w, first, last = points.powers, points.starts, points.starts + points.counts - 1
    slope = (points.curve.gains[first] + points.rate) / (points.curve.gains[first] + 1)
    falls = (-points.x[first] + np.minimum(w, 0.0) * slope, points.x[last] - np.maximum(w, 0.0))
    single_falls = (-points.x[first], points.x[last] - 1)
    beyond = np.zeros(w.shape)
    for end, fall, single_fall in zip((first, last), falls, single_falls, strict=True):
        single = np.abs(w) * elementary.exp(points.curve.values[end] - points.squares[end])
        single += (1 + np.abs(w)) * elementary.exp(-points.squares[end])
        beyond += powered[end] * points.rest(fall) + np.where(large, 0.0, single * points.rest(single_fall))
    return beyond * (1 + 1e-6)
