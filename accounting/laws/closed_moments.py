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
from numpy.typing import NDArray

from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.subsampled import SampledGaussianLoss

__all__ = ["RemovedMoments", "added_moment"]

MOST_TILTS = 64  # whole ones
MOST_EXPONENT = 600.0


def added_moment(loss: Loss, c: float) -> float:
    """An upper bound of K(c), c > 0, of a sampled Gaussian of the direction add; infinite for other losses.

    Claim: at least K(c). Source: module."""
    if not isinstance(loss, SampledGaussianLoss) or loss.direction != "add":
        return math.inf
    rate, precision, log_rest = loss.rate, 1 / (loss.sigma * loss.sigma), math.log1p(-loss.rate)
    doubts = 1 + 32 * UNIT * (4 + precision + (c + 2) * (1 - log_rest) / (1 - rate))
    if not max(precision, -(c + 2) * log_rest) < MOST_EXPONENT or doubts > 1.001:
        return math.inf
    variance = math.expm1(precision)
    bent = variance + math.expm1(-(c + 2) * log_rest) * min(variance, 1.0)
    expanded = c * (c + 1) / 2 * rate * (rate * bent)
    return min(math.log1p(expanded * doubts), -c * log_rest) * doubts


@dataclass(frozen=True, eq=False)
class RemovedMoments:
    """What bounds K at some tilts, which rise, in the direction remove."""

    tilts: Array

    def rows(self, losses: Sequence[SampledGaussianLoss]) -> Array:
        """Upper bounds of K at each tilt, a row for each loss, without cuts. Infinite where there is none.

        Claim: each is at least K. Source: module."""
        if self.tilts[-1] > MOST_TILTS:
            return np.full((len(losses), self.tilts.size), math.inf)
        parameters = np.array([(loss.rate, loss.sigma) for loss in losses])
        rate, log_rest = parameters[:, :1], np.log1p(-parameters[:, :1])
        k, pairs, choices, below, share = self._orders
        log_odds = np.log(rate) - log_rest
        with np.errstate(over="ignore", invalid="ignore"):
            gains = pairs / (parameters[:, 1:] * parameters[:, 1:])
            doubts = (16 * UNIT) * (gains[:, -1:] + k.size * (np.abs(log_odds) + 2 / (1 - rate)))
            exponents = (k * log_odds + gains)[:, None] + (k[1:] * log_rest + doubts)[:, :, None] + choices
            moments = np.log1p((np.exp(exponents) @ -np.expm1(-gains)[:, :, None])[:, :, 0])
            chords = (1 - share) * moments[:, below] + share * moments[:, below + 1]
        return np.where(chords >= 0, chords * (1 + 16 * UNIT), math.inf)

    @functools.cached_property
    def _orders(self) -> tuple[Array, Array, Array, NDArray[np.intp], Array]:
        """k from 0 to one more than the last whole tilt; k(k-1)/2; log C(n+1, k) for whole tilts n from 0; the whole
        tilt below each tilt, and how far it is on its way from there to the next."""
        below = np.ceil(self.tilts) - 1
        k = np.arange(int(below[-1]) + 3, dtype=np.float64)
        return k, k * (k - 1) / 2, _log_choices(k.size), below.astype(np.intp), self.tilts - below


@functools.lru_cache(maxsize=64)
def _log_choices(size: int) -> Array:
    """log C(n + 1, k) for n below size - 1 and k below size; -inf where k is above n + 1."""
    return np.array([[math.log(math.comb(n, k)) if k <= n else -math.inf for k in range(size)] for n in range(1, size)])
