"""Mechanisms that answer once, correct and faulty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = [
    "AddedGaussian",
    "AddedLaplace",
    "FlippedBit",
    "LeakyLaplace",
    "MeanOfUnchecked",
    "ScaleOfTheData",
]


@dataclass(frozen=True)
class AddedLaplace(Implementation):
    """A number plus Laplace noise. Its loss on numbers at distance d is d / scale. Dwork et al. 2006."""

    scale: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return data + rng.laplace(0.0, float(self.scale), size)


@dataclass(frozen=True)
class AddedGaussian(Implementation):
    """A number plus Gaussian noise. At distance d its curve is that of mu = d / sigma. Balle-Wang 2018."""

    sigma: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return data + rng.normal(0.0, float(self.sigma), size)


@dataclass(frozen=True)
class FlippedBit(Implementation):
    """A bit, kept with the given probability, else flipped. Its loss is log(keep / (1 - keep)). Warner 1965."""

    keep: Decimal

    def __call__(self, data: bool, size: int, rng: Rng) -> Numbers:
        return np.equal(rng.random(size) < float(self.keep), data)


@dataclass(frozen=True)
class LeakyLaplace(Implementation):
    """A number plus Laplace noise; with probability `leak` the number itself, which has a loss without bound."""

    scale: Decimal
    leak: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        noisy = data + rng.laplace(0.0, float(self.scale), size)
        return np.where(rng.random(size) < float(self.leak), data, noisy)


@dataclass(frozen=True)
class MeanOfUnchecked(Implementation):
    """The mean of numbers plus Laplace noise, without a total map: one NaN among the data is seen by everybody."""

    scale: Decimal

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        return float(np.mean(data)) + rng.laplace(0.0, float(self.scale), size)


@dataclass(frozen=True)
class ScaleOfTheData(Implementation):
    """Laplace noise around zero whose scale is computed from the data: nothing moves but the spread."""

    factor: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return rng.laplace(0.0, float(self.factor) * data, size)
