"""A factor chi(x) = N((X - x)/width) on both densities of a sampled Gaussian, N the normal distribution function.

It is entire, falls from 1 to 0 around X, and |chi(x + ib)| <= e^{b^2 / 2 width^2} chi(x). The difference of two such
factors of one width is a *window*: it rises around `start`, falls around X, and has the same bound.
docs/proofs/engine.md, sections 10 and 11.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array

__all__ = ["Cut", "mass_beyond"]

_WHOLE = 8.4  # deviations before the point up to which chi is 1 within half a UNIT
_APART = 4.0  # widths, at least, between the ends of a window
_ASYMPTOTIC_FROM = 36.0  # from here on the asymptotic series of the tail: its next term is below 1e-16
TAIL_UNDERFLOW = 1e-320  # more than what a tail below the normal floats may be off by


@dataclass(frozen=True, slots=True)
class Cut:
    """`point` X and `width`, both exact. With a `start` it is a window: then X - start is at least 4 widths. `tilt`: up
    to which it is meant to be used."""

    point: float
    width: float
    start: float = -math.inf
    tilt: float = 0.0

    def log_kept(self, x: Array) -> Array:
        """log chi(x), within 8 UNIT (4 - log chi)."""
        if self.start == -math.inf:
            return _log_tails((x - self.point) / self.width)
        after, before = (x - self.point) / self.width, (self.start - x) / self.width
        logs, farther = _log_tails(np.maximum(after, before)), -np.minimum(after, before)
        both = farther < _WHOLE + _APART  # elsewhere the far end takes away less than a rounding
        logs[both] += elementary.log1p(-elementary.exp(_log_tails(farther[both]) - logs[both]))
        return logs

    def hazard(self, x: float) -> float:
        """A lower bound of -(log chi)' at x and beyond: the hazard of the normal law is at least its argument.

        Source: Gordon 1941 (Mills' ratio).
        """
        y = (x - self.point) / self.width
        return y / self.width * (1 - 1e-9) if y > 0 else 0.0

    def rise(self, x: float) -> float:
        """A lower bound of (log chi)' at x and before, of a window: its mirror image."""
        y = (self.start - x) / self.width
        return y / self.width * (1 - 1e-9) if 0 < y < math.inf else 0.0

    def log_growth(self, x: float) -> float:
        """Claim: chi(x') <= e^growth chi(x) for all x' < x; x before the middle of a window."""
        return 0.0 if self.start > -math.inf else -float(self.log_kept(np.array([x]))[0])


def _log_tails(y: Array) -> Array:
    """log of the mass of N(0,1) beyond each y; 0 where it is all but 1."""
    logs = np.zeros(y.shape)
    near, far = (y > -_WHOLE) & (y < _ASYMPTOTIC_FROM), y >= _ASYMPTOTIC_FROM
    logs[near] = elementary.log(elementary.erfc(y[near] / math.sqrt(2)) / 2)
    if far.any():
        squares, rest = y[far] * y[far], elementary.log(y[far] * math.sqrt(2 * math.pi))
        v = 1 / squares
        series = 1 - v * (1 - v * (3 - v * (15 - v * (105 - v * (945 - v * 10395)))))
        logs[far] = elementary.log(series) - rest - squares / 2
    return logs


def mass_beyond(rate: float, sigma: float, cut: Cut) -> float:
    """E_P(1 - chi), rounded up, P = (1-q) N(0, s^2) + q N(1, s^2): that x + width Z is beyond X, Z normal.

    Claim: at least the mass. Source: the sum of independent normals is normal.
    """
    spread = scalars.hypot(sigma, cut.width) * math.sqrt(2)
    near, far = cut.point / spread, (cut.point - 1) / spread
    total = (1 - rate) * scalars.erfc(near) + rate * scalars.erfc(far)
    moved = 1 + UNIT * (64 + 32 * near * near + 32 * far * far)  # the roundings of the arguments
    return total / 2 * moved + TAIL_UNDERFLOW
