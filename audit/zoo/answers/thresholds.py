"""Tests against a noisy threshold, correct and faulty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = ["KeptThreshold", "PublishedComparison", "SparseVectorAnswers"]


@dataclass(frozen=True)
class SparseVectorAnswers(Implementation):
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
class KeptThreshold(Implementation):
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
class PublishedComparison(Implementation):
    """Which query is the first to reach a threshold of 0, from 0, and the noisy value that did: of the same noise that
    was compared. It bounds the threshold, so that every query below costs 1 / query_scale. As one number: 1000 times
    the place, less the value."""

    threshold_scale: Decimal
    query_scale: Decimal

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        threshold = rng.laplace(0.0, float(self.threshold_scale), (size, 1))
        noisy = np.asarray(data, dtype=np.float64) + rng.laplace(0.0, float(self.query_scale), (size, len(data)))
        above = noisy >= threshold
        halted, place = above.any(axis=1), above.argmax(axis=1)
        value = np.clip(noisy[np.arange(size), place], -400, 400)
        return np.where(halted, 1000.0 * place - value, 1000.0 * len(data))
