"""Small mechanisms in plain numpy, correct and faulty, each a frozen callable that travels to worker processes.

They draw idealised floating-point noise from a seeded generator: for audits and their tests, never for a release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger import decimals
from dpledger.schema import Plain

__all__ = [
    "AddedGaussian",
    "AddedLaplace",
    "BrownianLevels",
    "CoarsenedLaplace",
    "FreshGaussians",
    "FreshLaplaces",
    "KeptThreshold",
    "LeakyLaplace",
    "MeanOfUnchecked",
    "Numbers",
    "ParsingCount",
    "RandomizedResponse",
    "RescaledLaplace",
    "Rng",
    "ScaleOfTheData",
    "SparseVectorRun",
    "Specimen",
]

Rng: TypeAlias = np.random.Generator
Numbers: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Specimen:
    """What specimens share: a name and public parameters for the ledger's note."""

    @property
    def kind(self) -> str:
        return f"zoo.{type(self).__name__}"

    def parameters(self) -> Mapping[str, Plain]:
        """The parameters as exact decimals."""
        return {field.name: decimals.text(Decimal(getattr(self, field.name))) for field in fields(self)}


@dataclass(frozen=True)
class AddedLaplace(Specimen):
    """A number plus Laplace noise. Its loss on numbers at distance d is d / scale. Dwork et al. 2006."""

    scale: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return data + rng.laplace(0.0, float(self.scale), size)


@dataclass(frozen=True)
class AddedGaussian(Specimen):
    """A number plus Gaussian noise. At distance d its curve is that of mu = d / sigma. Balle-Wang 2018."""

    sigma: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return data + rng.normal(0.0, float(self.sigma), size)


@dataclass(frozen=True)
class RandomizedResponse(Specimen):
    """A bit, kept with the given probability, else flipped. Its loss is log(keep / (1 - keep)). Warner 1965."""

    keep: Decimal

    def __call__(self, data: bool, size: int, rng: Rng) -> Numbers:
        return np.equal(rng.random(size) < float(self.keep), data)


@dataclass(frozen=True)
class LeakyLaplace(Specimen):
    """A number plus Laplace noise; with probability `leak` the number itself, which has a loss without bound."""

    scale: Decimal
    leak: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        noisy = data + rng.laplace(0.0, float(self.scale), size)
        return np.where(rng.random(size) < float(self.leak), data, noisy)


@dataclass(frozen=True)
class MeanOfUnchecked(Specimen):
    """The mean of numbers plus Laplace noise, without a total map: one NaN among the data is seen by everybody."""

    scale: Decimal

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        return float(np.mean(data)) + rng.laplace(0.0, float(self.scale), size)


@dataclass(frozen=True)
class ParsingCount(Specimen):
    """A noisy count of whole numbers in text; one record that is none raises: an outcome of infinite loss."""

    scale: Decimal

    def __call__(self, data: Sequence[str], rng: Rng) -> float:
        return len([int(text) for text in data]) + float(rng.laplace(0.0, float(self.scale)))


@dataclass(frozen=True)
class ScaleOfTheData(Specimen):
    """Laplace noise around zero whose scale is computed from the data: nothing moves but the spread."""

    factor: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return rng.laplace(0.0, float(self.factor) * data, size)


@dataclass(frozen=True)
class SparseVectorRun(Specimen):
    """How many queries fall below a threshold of 0 before the first that does not: sparse vector with one answer.

    `threshold_scale` 0 is a fault: no noise on the threshold, so each further answer costs more. Lyu-Su-Li 2017."""

    threshold_scale: Decimal
    query_scale: Decimal

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        threshold = rng.laplace(0.0, float(self.threshold_scale), (size, 1)) if self.threshold_scale else 0.0
        noisy = np.asarray(data, dtype=np.float64) + rng.laplace(0.0, float(self.query_scale), (size, len(data)))
        passed = noisy > threshold
        return np.where(passed.any(axis=1), passed.argmax(axis=1), len(data))


@dataclass(frozen=True)
class KeptThreshold(Specimen):
    """Which queries reach a threshold of 0, up to the one that makes it `halts` of them, as the bits of a number: all
    against one noisy threshold. With the noise of a single halt each further one costs 2 / query_scale more."""

    threshold_scale: Decimal
    query_scale: Decimal
    halts: int

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        threshold = rng.laplace(0.0, float(self.threshold_scale), (size, 1))
        noisy = np.asarray(data, dtype=np.float64) + rng.laplace(0.0, float(self.query_scale), (size, len(data)))
        above = noisy >= threshold
        above &= above.cumsum(axis=1) <= self.halts
        return above @ (1 << np.arange(len(data)))


@dataclass(frozen=True)
class CoarsenedLaplace(Specimen):
    """The first level of a chain: a finer one, kept with probability `keep`, else with Laplace noise `added` to it.

    Noise of scale b comes of `added` = b and `keep` = (finer / b)^2. Koufogiannis-Han-Pappas 2017."""

    finer: Decimal
    keep: Decimal
    added: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        level = data + rng.laplace(0.0, float(self.finer), size)
        return np.where(rng.random(size) < float(self.keep), level, level + rng.laplace(0.0, float(self.added), size))


@dataclass(frozen=True)
class FreshLaplaces(Specimen):
    """Two levels with noise of their own, as doubling has: their losses add up, and the last one's is claimed."""

    scale: Decimal
    finer: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return data + rng.laplace(0.0, [float(self.scale), float(self.finer)], (size, 2))


@dataclass(frozen=True)
class RescaledLaplace(Specimen):
    """Two levels of which the second has the noise of the first, made smaller: together they are the number itself."""

    scale: Decimal
    finer: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return data + rng.laplace(0.0, 1.0, (size, 1)) * [float(self.scale), float(self.finer)]


@dataclass(frozen=True)
class FreshGaussians(Specimen):
    """Four levels of variances 7/4, 3/2, 5/4 and 1 times sigma^2, each with noise of its own: their precisions add up,
    and the last one's is claimed."""

    sigma: Decimal

    def __call__(self, data: float, size: int, rng: Rng) -> Numbers:
        return data + rng.normal(0.0, float(self.sigma) * np.sqrt([1.75, 1.5, 1.25, 1.0]), (size, 4))


@dataclass(frozen=True)
class BrownianLevels(Specimen):
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
