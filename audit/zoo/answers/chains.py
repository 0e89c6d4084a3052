"""Levels of a statistic with ever less noise, correct and faulty."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = [
    "BrownianLevels",
    "CoarsenedLaplace",
    "FreshGaussians",
    "FreshLaplaces",
    "RescaledGaussian",
    "RescaledLaplace",
    "ReusedLaplace",
]


@dataclass(frozen=True)
class CoarsenedLaplace(Implementation):
    """The first level of a chain: a finer one, kept with probability `keep`, else with Laplace noise `added` to it.

    Noise of scale b comes of `added` = b and `keep` = (finer / b)^2. Koufogiannis-Han-Pappas 2017."""

    finer: Decimal
    keep: Decimal
    added: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        level = data + rng.laplace(0.0, float(self.finer), size)
        return np.where(rng.random(size) < float(self.keep), level, level + rng.laplace(0.0, float(self.added), size))


@dataclass(frozen=True)
class FreshLaplaces(Implementation):
    """Two levels with noise of their own, as doubling has: their losses add up, and the last one's is claimed."""

    scale: Decimal
    finer: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return data + rng.laplace(0.0, [float(self.scale), float(self.finer)], (size, 2))


@dataclass(frozen=True)
class RescaledLaplace(Implementation):
    """Two levels of which the second has the noise of the first, made smaller: together they are the number itself."""

    scale: Decimal
    finer: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return data + rng.laplace(0.0, 1.0, (size, 1)) * [float(self.scale), float(self.finer)]


@dataclass(frozen=True)
class FreshGaussians(Implementation):
    """Four levels of variances 7/4, 3/2, 5/4 and 1 times sigma^2, each with noise of its own: their precisions add up,
    and the last one's is claimed."""

    sigma: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return data + rng.normal(0.0, float(self.sigma) * np.sqrt([1.75, 1.5, 1.25, 1.0]), (size, 4))


@dataclass(frozen=True)
class BrownianLevels(Implementation):
    """Two levels of a Brownian path, of variances 2 sigma^2 and sigma^2, through their most precise mean.

    `bridge`: the variance of the second given the first, over sigma^2: 1/2 is right; the precision of the mean is
    1/2 + 1/(4 bridge), over sigma^2. Whitehouse-Ramdas-Wu-Rogers 2022."""

    sigma: Decimal
    bridge: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        sigma, bridge = float(self.sigma), float(self.bridge)
        noise = rng.normal(0.0, sigma * 2**0.5, size)
        first = data + noise
        second = data + noise / 2 + rng.normal(0.0, sigma * bridge**0.5, size)
        step, weight = 2 * second - first, 1 / (4 * bridge)  # the refinement by itself, and its precision
        return np.asarray((first / 2 + weight * step) / (0.5 + weight))


@dataclass(frozen=True)
class RescaledGaussian(Implementation):
    """Two levels of variances 4 sigma^2 and sigma^2, the second with the noise of the first made smaller."""

    sigma: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return data + rng.normal(0.0, float(self.sigma), (size, 1)) * [2.0, 1.0]


@dataclass(frozen=True)
class ReusedLaplace(Implementation):
    """A number and its negative, each with Laplace noise, from generators that were seeded alike: their difference is
    twice the number."""

    scale: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        noise = rng.laplace(0.0, float(self.scale), size)
        return np.stack([data + noise, noise - data], axis=1)
