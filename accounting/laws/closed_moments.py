"""Upper bounds of K for sampled Gaussians in closed form, without a quadrature: wider than by that, and far cheaper.

Remove, at a whole tilt n: E e^{nL} - 1 = sum_k C(n+1, k) q^k (1-q)^{n+1-k} (e^{k(k-1)/2s^2} - 1), of terms >= 0; K is
convex, so between whole tilts it is below its chords. Add: with y = e^{(x-1/2)/s^2}, of mean 1 and variance V,
(1 + q(y-1))^{-c} is at most its second order expansion at 1, the last term times (1-q)^{-c-2} where y < 1; and no loss
is above -log(1-q). Source: Mironov-Talwar-Zhang 2019, section 3.3 (remove); docs/proofs/engine.md, section 4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.sampled_grid import UNDERFLOW
from dpledger.accounting.laws.subsampled import SampledGaussianLoss

__all__ = ["RemovedMoments", "added_moment"]

MOST_TILTS = 64  # whole ones
MOST_EXPONENT = 600.0
LEAST_SIGMA, MOST_RATE = 0.05, 1 - 1e-6  # of laws that are bounded here


def added_moment(loss: Loss, c: float) -> float:
    """An upper bound of K(c), c > 0, of a sampled Gaussian of the direction add; infinite for other losses.

    Claim: at least K(c). Source: module."""
    if not isinstance(loss, SampledGaussianLoss) or loss.direction != "add" or _is_steep(loss):
        return math.inf
    rate, precision, log_rest = loss.rate, 1 / (loss.sigma * loss.sigma), scalars.log1p(-loss.rate)
    doubts = 1 + 32 * UNIT * (4 + precision + (c + 2) * (1 - log_rest) / (1 - rate))
    if not max(precision, -(c + 2) * log_rest) < MOST_EXPONENT:
        return math.inf
    variance = scalars.expm1(precision)
    bent = variance + scalars.expm1(-(c + 2) * log_rest) * min(variance, 1.0)
    expanded = c * (c + 1) / 2 * rate * (rate * bent)
    return min(scalars.log1p(expanded * doubts), -c * log_rest) * doubts + UNDERFLOW


def _is_steep(loss: SampledGaussianLoss) -> bool:
    return loss.sigma < LEAST_SIGMA or loss.rate > MOST_RATE


@dataclass(frozen=True, eq=False)
class RemovedMoments:
    """What bounds K at some tilts, which rise, in the direction remove."""

    tilts: Array

    def rows(self, losses: Sequence[SampledGaussianLoss]) -> Array:
        """Upper bounds of K at each tilt, a row for each loss, without cuts. Infinite where there is none.

        Claim: each is at least K. Source: module."""
        nothing = np.full((len(losses), self.tilts.size), math.inf)
        if self.tilts[-1] > MOST_TILTS or any(map(_is_steep, losses)):
            return nothing
        rate, square = np.array([(loss.rate, loss.sigma * loss.sigma) for loss in losses]).T[:, :, None]
        k, pairs, choices, chords = self._orders
        log_rest = elementary.log1p(-rate)
        log_odds = elementary.log(rate) - log_rest
        gains = pairs / square
        exponents = k * log_odds + gains  # convex in k, from 0
        if not exponents[:, -1].max() < MOST_EXPONENT:
            return nothing
        doubts = (16 * UNIT) * (gains[:, -1:] + k.size * (np.abs(log_odds) + 2 / (1 - rate)))
        excess = elementary.product(elementary.exp(exponents) * -elementary.expm1(-gains), choices) * elementary.exp(
            k[1:] * log_rest + doubts
        )
        bounds: Array = elementary.product(elementary.log1p(excess), chords) * (1 + 80 * UNIT) + UNDERFLOW
        return bounds

    @functools.cached_property
    def _orders(self) -> tuple[Array, Array, Array, Array]:
        """k from 0 to one more than the last whole tilt; k(k-1)/2; C(n+1, k) for each k, a row, and whole tilt n from
        0, a column; the share of each whole tilt, a row, in the chord over each tilt."""
        k = np.arange(math.ceil(float(self.tilts[-1])) + 2, dtype=np.float64)
        choices = [[float(math.comb(n, j)) for n in range(1, k.size)] for j in range(k.size)]
        below = np.ceil(self.tilts) - 1
        share, every = self.tilts - below, np.arange(self.tilts.size)
        chords = np.zeros((k.size - 1, self.tilts.size))
        chords[below.astype(np.intp), every], chords[below.astype(np.intp) + 1, every] = 1 - share, share
        return k, k * (k - 1) / 2, np.array(choices), chords
