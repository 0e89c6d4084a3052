"""Tests that are charged where they fail, and values that are released where they pass; correct and faulty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

import numpy as np

from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = ["ChargedTests", "NoisyRelease", "ProposedNoise", "ReleasedValues", "RemovalsOnly"]

Redraw: TypeAlias = Literal["charge", "query", "never"]


def _laplace(scale: Decimal, size: int, rng: Rng) -> Numbers:
    return rng.laplace(0.0, float(scale), size) if scale else np.zeros(size)


@dataclass(frozen=True)
class _Charged(Implementation):
    """Queries against a noisy threshold; a run halts at `cutoff` that fail. The threshold is redrawn after each
    `charge`, for each `query`, or `never`; with a scale of 0 it has no noise."""

    threshold_scale: Decimal
    query_scale: Decimal
    cutoff: int
    threshold: Decimal
    redraw: Redraw

    def parameters(self) -> dict[str, str]:
        """The scales and the threshold as exact decimals, the rest as it is."""
        return {name: str(getattr(self, name)) for name in self.__dataclass_fields__}

    def _tests(self, queries: Sequence[float], size: int, rng: Rng) -> Iterator[tuple[Numbers, Numbers]]:
        """Of each query: which runs ask it, and in which of them it passes."""
        charges = np.zeros(size, dtype=np.int64)
        noise = _laplace(self.threshold_scale, size, rng)
        for query in queries:
            asked = charges < self.cutoff
            passed = asked & (query + _laplace(self.query_scale, size, rng) > float(self.threshold) + noise)
            failed = asked & ~passed
            charges += failed
            yield asked, passed
            fresh = {"charge": failed, "query": asked, "never": np.zeros(size, dtype=np.bool_)}[self.redraw]
            noise = np.where(fresh, _laplace(self.threshold_scale, size, rng), noise)


@dataclass(frozen=True)
class ChargedTests(_Charged):
    """A run's answers as the digits of a number, 1 for one that failed, 2 for one that passed, 0 once it halted; or, of
    a long run, how many failed."""

    shows: Literal["answers", "charges"]

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        told = np.zeros(size, dtype=np.int64)
        for asked, passed in self._tests(data, size, rng):
            told = 3 * told + asked + passed if self.shows == "answers" else told + (asked & ~passed)
        return told


@dataclass(frozen=True)
class ReleasedValues(_Charged):
    """Data are a value and the distances of queries that all have it: how often the value was released, times the
    value. `filled`: a fault: what is unstable is answered with the value too."""

    filled: bool

    def __call__(self, data: tuple[float, Sequence[float]], size: int, rng: Rng) -> Numbers:
        value, distances = data
        released = np.zeros(size)
        for asked, passed in self._tests(distances, size, rng):
            released += asked if self.filled else passed
        return value * released + 0.0  # never -0.0, which would show the sign of the value


@dataclass(frozen=True)
class NoisyRelease(Implementation):
    """Data are a value and its distance: the value if distance and noise are above the threshold, else 0. `flagged`: a
    fault: what is unstable is answered with the value too, marked by half of one."""

    scale: Decimal
    threshold: Decimal
    flagged: bool

    def __call__(self, data: tuple[float, float], size: int, rng: Rng) -> Numbers:
        value, distance = data
        passed = distance + _laplace(self.scale, size, rng) > float(self.threshold)
        return np.where(passed, value, value + 0.5 if self.flagged else 0.0)

    def parameters(self) -> dict[str, str]:
        """The scale and the threshold as exact decimals."""
        return {"scale": str(self.scale), "threshold": str(self.threshold), "flagged": str(self.flagged)}


@dataclass(frozen=True)
class ProposedNoise(Implementation):
    """Data are a number and its distance from data that jump: the number with Laplace noise of `value_scale` if the
    distance and noise are above the threshold, else -1000. Without a threshold, a fault, nothing is tested."""

    test_scale: Decimal
    value_scale: Decimal
    threshold: Decimal | None

    def __call__(self, data: tuple[float, float], size: int, rng: Rng) -> Numbers:
        number, distance = data
        noisy = number + _laplace(self.value_scale, size, rng)
        if self.threshold is None:
            return noisy
        return np.where(distance + _laplace(self.test_scale, size, rng) > float(self.threshold), noisy, -1000.0)

    def parameters(self) -> dict[str, str]:
        """The scales and the threshold as exact decimals."""
        return {name: str(getattr(self, name)) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class RemovalsOnly(Implementation):
    """Data are a number of rows: whether there are three, by a distance that counts removals to another answer:
    infinite where there are fewer, though one row more would change it."""

    scale: Decimal
    threshold: Decimal

    def __call__(self, data: int, size: int, rng: Rng) -> Numbers:
        enough = data >= 3
        distance = float(data - 3) if enough else np.inf
        passed = distance + _laplace(self.scale, size, rng) > float(self.threshold)
        return np.where(passed, 1.0 + enough, 0.0)
