"""A rough picture of some losses: atoms where their mass is. The lattice takes its range, tilt and window from it.

Nothing here is a bound: every choice gives valid bounds, and good ones narrow bounds. Losses that are too rare to
matter at the delta asked for are left out, so that they do not rule the tilt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.engine.composed import log_kappa
from dpledger.accounting.engine.saddle_point import ChernoffBounds
from dpledger.accounting.laws.law import Profiled

__all__ = ["SupportEstimate", "support_estimate"]

DIGITS = 11.0  # aliases are to be below e^-DIGITS of delta
_SCALES = elementary.geometric(1e-7, 1.0, 80)
_STRIDE = 3  # of the points at which the range is looked for
_LARGEST = 500.0  # losses beyond are not looked at
_LIKELY = 1e-10  # the mass below the lowest atom
_COARSE = elementary.geometric(1e-3, 1e5, 36)  # tilts
_FINE = elementary.geometric(0.35, 2.4, 16)


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """One loss, run `count` times: `losses` (rising) and logarithms of their masses; its range is `low` to `high`."""

    losses: Array
    log_masses: Array
    count: int
    low: float
    high: float

    def log_moments(self, c: Array) -> Array:
        exponents = np.multiply.outer(c, self.losses) + self.log_masses
        top = np.max(exponents, axis=1)
        moments: Array = self.count * (top + elementary.log(np.sum(elementary.exp(exponents - top[:, None]), axis=1)))
        return moments

    def range(self, c: float, log_share: float) -> tuple[float, float]:
        """The range, less what is low and has less than a share of the mass when tilted by c."""
        exponents = c * self.losses + self.log_masses
        tilted = np.cumsum(elementary.exp(exponents - np.max(exponents)))
        first = int(np.searchsorted(tilted, tilted[-1] * scalars.exp(log_share - 7)))
        return (self.low if first < 2 else float(self.losses[first - 2])), self.high


@dataclass(frozen=True, slots=True, eq=False)
class SupportEstimate:
    """Atoms of every loss."""

    parts: tuple[Atoms, ...]

    @property
    def runs(self) -> int:
        return sum(part.count for part in self.parts)

    def chernoff(self, c: Array) -> ChernoffBounds:
        log_moments = np.sum([part.log_moments(c) for part in self.parts], axis=0)
        return ChernoffBounds(c, log_moments, log_moments + log_kappa(c))

    def saddle_for_delta(self, log_delta: float) -> tuple[float, float]:
        """The tilt with the least Chernoff bound of epsilon at a delta, and that bound."""
        chernoff = self.chernoff(_COARSE)
        bounds = (chernoff.log_bounds - log_delta) / chernoff.c
        best = int(np.argmin(bounds))
        return float(chernoff.c[best]), float(bounds[best])

    def saddle_for_epsilon(self, epsilon: float) -> tuple[float, float]:
        """The tilt with the least Chernoff bound of delta at an epsilon, and the log of that bound."""
        chernoff = self.chernoff(_COARSE)
        bounds = chernoff.log_bounds - chernoff.c * epsilon
        best = int(np.argmin(bounds))
        return float(chernoff.c[best]), float(bounds[best])

    def tilt_and_window(self, about: float, epsilon: float, log_delta: float) -> tuple[float, float]:
        """Of the tilts about one, that with the smallest window whose aliases are small at epsilon."""
        chernoff = self.chernoff(about * _FINE)
        c, excess = chernoff.c, chernoff.log_bounds - chernoff.c * epsilon - log_delta + DIGITS + 2
        gaps = c[None, :] - c[:-3, None]
        ahead = np.min(np.where(gaps > 0, excess[None, :] / np.where(gaps > 0, gaps, 1.0), math.inf), axis=1)
        windows = np.maximum((DIGITS + 1 - log_delta) / c[:-3], ahead)
        chosen = int(np.argmin(windows))
        return float(c[chosen]), float(windows[chosen])


def support_estimate(parts: Sequence[tuple[Profiled, int]], log_delta: float, log_share: float) -> SupportEstimate:
    """Atoms of losses whose mass beyond the highest atom is about a share of delta."""
    return SupportEstimate(tuple(_atoms(law, count, log_delta + log_share) for law, count in parts))


def _atoms(law: Profiled, count: int, log_beyond: float) -> Atoms:
    points = np.concatenate([-_towards(-law.smallest)[::-1], _towards(law.largest)])
    beyond = scalars.exp(max(log_beyond, -700.0))
    some = np.append(np.arange(0, points.size - 1, _STRIDE), points.size - 1)
    mass = law.lines(points[some])[0]
    first = min(max(0, int(np.searchsorted(-mass, -(1 - _LIKELY))) - 1), some.size - 2)
    last = max(first + 1, min(int(np.searchsorted(-mass, -beyond)), some.size - 1))
    chosen = points[some[first] : some[last] + 1]
    points = np.concatenate([chosen, np.linspace(chosen[0], chosen[-1], 64)[1:-1]])
    points.sort()
    left, right = law.lines(points)
    high = float(points[min(int(np.searchsorted(-left, -beyond)), points.size - 1)])
    within = points <= high
    left, right = np.append(1.0, left[within]), np.append(1.0, right[within])
    masses, others = -np.diff(left), -np.diff(right)
    usable = (masses > 1e-13 * left[:-1]) & (others > 1e-13 * right[:-1])
    if not usable.any():
        return Atoms(np.zeros(1), np.zeros(1), count, float(points[0]), high)
    ends = points[within][usable]
    starts = np.append(-math.inf, points[within])[:-1][usable]
    losses = np.clip(
        elementary.log(masses[usable] / others[usable]), starts, ends
    )  # differences of near equals are noise
    return Atoms(losses, elementary.log(masses[usable]), count, float(points[0]), high)


def _towards(end: float) -> Array:
    """Rising losses from near 0 to `end`, dense on a logarithmic scale at both ends."""
    if end > _LARGEST:
        return _LARGEST * _SCALES
    whole = max(end, 1e-300)
    return whole * np.concatenate([_SCALES[:-8], 1 - _SCALES[-9:0:-2], [1.0]])
