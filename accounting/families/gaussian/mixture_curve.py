"""L(x) = log(w_0 + sum_j w_j e^{(r_j x - r_j^2/2)/s^2}), the loss of a mixture of Gaussians, and where it has a value.

Shifts r_j in (0, 1], the last of them 1, so that the strip of `laws.sampled_curve`, |Im x| < pi s^2, is that of L too.
docs/proofs/mixtures.md, section 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.errors import WorkLimit

__all__ = ["Mixture", "MixtureCurve"]

SLACK = 2e-14
"""How far from l the loss may be at the point that `Mixture.places` finds, over 1 + |l| + 1/s^2 - min log w_j."""
_LARGEST_EXPONENT = 600.0  # e^600 is a float, and so are its products with points
_LARGEST_MOVED = 1e30  # times that exponential it is a float too
_LOST = 1e-60  # more than e^600 times what a weight may be off by below the normal floats
_FROM_ONE = -0.5  # e^L - 1 above this is summed from 1; below, what is left of 1 would cancel
_TABLE = 2048  # points between which a place is looked up
_STEPS = 120  # of which each third halves
_BEFORE = 45.0  # e^-45 is below every rounding: there L is at its least


@dataclass(frozen=True, eq=False)
class MixtureCurve:
    """L at points that rise (`laws.sampled_curve.Curve`)."""

    values: Array
    slopes: Array
    errors: Array
    slope_error: float


@dataclass(frozen=True, slots=True)
class Mixture:
    """Noise of deviation `sigma` around 0 with probability `rest`, else around `shifts[j]` with `weights[j]`: shifts
    rise to 1; a weight may be 0 as a float, its logarithm is finite. Each number is within two roundings of the exact
    one, `rest` above 1e-290 or 0."""

    sigma: float
    shifts: tuple[float, ...]
    weights: tuple[float, ...]
    log_weights: tuple[float, ...]
    rest: float

    @property
    def inverse(self) -> float:
        """1/s^2."""
        return 1 / scalars.square(self.sigma)

    def curve(self, x: Array) -> MixtureCurve:
        """Claim: |values - L(x)| <= errors, |slopes - s(x)| <= slope_error s(x) + 1e-60, x being exact. Source:
        docs/proofs/mixtures.md, section 3."""
        shifts, weights = np.array(self.shifts)[:, None], np.array(self.weights)[:, None]
        u = shifts * (x - shifts / 2) * self.inverse
        moved = UNIT * (24 * np.abs(u) + 8 * shifts * shifts * self.inverse)
        growth = elementary.expm1(np.minimum(u, _LARGEST_EXPONENT))
        terms = weights * growth
        gains = terms.sum(axis=0)
        grown = weights * elementary.exp(np.minimum(u, _LARGEST_EXPONENT))
        rounding = (grown * np.minimum(moved, _LARGEST_MOVED)).sum(axis=0) * 1.01 + (
            len(self.shifts) + 12
        ) * UNIT * np.abs(terms).sum(axis=0)
        rounding += len(self.shifts) * _LOST
        beyond = (u.max(axis=0) > _LARGEST_EXPONENT) | (moved.max(axis=0) > _LARGEST_MOVED)
        others = np.flatnonzero(~(gains > _FROM_ONE) | beyond)
        gains[others] = 0.0
        values = elementary.log1p(gains)
        errors = 4 * UNIT * np.abs(values) + 1.01 * rounding / (1 + gains)
        slopes = (shifts * grown).sum(axis=0) / (1 + gains)
        if others.size:
            values[others], slopes[others], errors[others] = self._by_logarithms(u[:, others], moved[:, others])
        relative = 3 * float(moved.max()) + (2 * len(self.shifts) + 60) * UNIT
        return MixtureCurve(values, slopes, errors, 2 * relative + 4 * UNIT * float(np.abs(u).max()))

    def _by_logarithms(self, u: Array, moved: Array) -> tuple[Array, Array, Array]:
        """L, s and errors of L as the logarithm of a sum whose largest term is taken out."""
        logs = u + np.array(self.log_weights)[:, None]
        first = np.full((1, u.shape[1]), scalars.log(self.rest)) if self.rest else np.zeros((0, u.shape[1]))
        every = np.concatenate([first, logs])
        top = every.max(axis=0)
        terms = elementary.exp(every - top)
        total = terms.sum(axis=0)
        values = top + elementary.log(total)
        shares = terms / total
        shifts = np.array((0.0,) * len(first) + self.shifts)[:, None]
        apart = UNIT * (8 + len(every) + 4 * np.abs(every) + 4 * np.abs(top))
        apart[len(first) :] += moved
        return values, (shifts * shares).sum(axis=0), (shares * apart).sum(axis=0) * 1.01 + 8 * UNIT * np.abs(values)

    def places(self, losses: Array) -> Array:
        """x with L(x) = l for each l, within `slack`; -inf where L is above l everywhere. WorkLimit where that is not
        reached."""
        least = scalars.log(self.rest) if self.rest else -math.inf
        inner = losses > least
        found: Array = np.full(losses.shape, -math.inf)
        if inner.any():
            found[inner] = self._newton(losses[inner], least)
        return found

    def slack(self, losses: Array) -> Array:
        bounds: Array = SLACK * (1 + np.abs(losses) + self.inverse - min(self.log_weights))
        return bounds

    def _newton(self, losses: Array, least: float) -> Array:
        """Between two points of a table, by Newton's rule and by halving."""
        variance = scalars.square(self.sigma)
        far = float(losses.max())
        last = (far - self.log_weights[-1]) * variance + 1  # L is at least that of the last shift
        before = _BEFORE - (least if self.rest else float(losses.min()) - 1)  # L is at most log(w_0 + e^{r_1 x/s^2})
        first = min(0.0, last) - max(before, 0.0) * variance / self.shifts[0]
        table = first + (last - first) * (np.arange(_TABLE + 1, dtype=np.float64) / _TABLE)
        place = self.curve(table).values.searchsorted(losses).clip(1, _TABLE)
        low, high = table[place - 1], table[place]
        x: Array = high
        slack = self.slack(losses)
        for step in range(_STEPS):
            at = self.curve(x)
            off = at.values - losses
            missed = np.abs(off) + at.errors > slack
            if not missed.any():
                return x
            low, high = np.where(off < 0, x, low), np.where(off > 0, x, high)
            newton = x - off / np.maximum(at.slopes * self.inverse, 1e-300)
            inside = (newton > low) & (newton < high) & (step % 3 < 2)
            x = np.where(missed, np.where(inside, newton, (low + high) / 2), x)
        raise WorkLimit("a loss of a mixture of Gaussians is not found")
