"""Sums and means whose bounds, counts and scales come from where they must not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple

from dpledger.audit.zoo.cases import INFINITE, Case, Shown, family
from dpledger.audit.zoo.implementations import Implementation, Rng

__all__ = ["SUMMED"]


class Sums(NamedTuple):
    """A noisy sum and a noisy count."""

    total: float
    rows: float


@dataclass(frozen=True)
class SumAndCount(Implementation):
    """Of numbers in [0, 1] the sum and the count, each with half of epsilon."""

    def __call__(self, data: Sequence[float], rng: Rng) -> Sums:
        return Sums(sum(data) + float(rng.laplace(scale=2.0)), len(data) + float(rng.laplace(scale=2.0)))


@dataclass(frozen=True)
class MeanByTrueCount(Implementation):
    """A noisy sum, divided by the true number of rows."""

    def __call__(self, data: Sequence[float], rng: Rng) -> dict[str, float]:
        return {"mean": (sum(data) + float(rng.laplace(scale=2.0))) / len(data)}


@dataclass(frozen=True)
class MeanOfClipped(Implementation):
    """A noisy mean of numbers in [0, 10], clipped to that. `own`: to the least and the largest of the data."""

    own: bool

    def __call__(self, data: Sequence[float], rng: Rng) -> float:
        low, high = (min(data), max(data)) if self.own else (0.0, 10.0)
        return min(max(sum(data) / len(data) + float(rng.laplace(scale=10 / len(data))), low), high)


@dataclass(frozen=True)
class PlainSum(Implementation):
    """A noisy sum of numbers that are said to be in [0, 1]. `clips`: they are made so."""

    clips: bool

    def __call__(self, data: Sequence[float], rng: Rng) -> float:
        return sum(min(max(x, 0.0), 1.0) if self.clips else x for x in data) + float(rng.laplace())


@dataclass(frozen=True)
class RunningSums(Implementation):
    """The sums of the first row, the first two, and so on, each with noise of this scale."""

    scale: Decimal

    def __call__(self, data: Sequence[int], rng: Rng) -> list[float]:
        return [sum(data[: stop + 1]) + float(rng.laplace(scale=float(self.scale))) for stop in range(len(data))]


@dataclass(frozen=True)
class NoisyRows(Implementation):
    """Each row with noise, as a list. Where rows come and go its length tells of one."""

    def __call__(self, data: Sequence[float], rng: Rng) -> list[float]:
        return [x + float(rng.laplace()) for x in data]


@dataclass(frozen=True)
class MedianWithItsGap(Implementation):
    """The median with noise for the gap to its neighbours in these very data."""

    def __call__(self, data: Sequence[float], rng: Rng) -> float:
        ordered = sorted(data)
        middle = len(ordered) // 2
        gap = max(ordered[middle + 1] - ordered[middle], ordered[middle] - ordered[middle - 1])
        return ordered[middle] + float(rng.laplace(scale=gap)) if gap else ordered[middle]


SUMMED: Mapping[str, Case] = MappingProxyType(
    {
        **family(
            ((1.0,), (1.0, 1.0)),
            sum_and_count=Shown("a noisy sum and a noisy count, as a named tuple", SumAndCount(), 1.0, 500),
            mean_by_true_count=Shown(
                "divided by the true count: the scale is private", MeanByTrueCount(), INFINITE, 4_000
            ),
        ),
        **family(
            ((0.0, 10.0), (0.0, 0.0)),
            clipped_to_public_range=Shown("a noisy mean, clipped to [0, 10]", MeanOfClipped(False), 1.0),
            clipped_to_own_range=Shown("clipped to the range of the data", MeanOfClipped(True), INFINITE),
        ),
        **family(
            ((1.0,), (1.0, 5.0)),
            sum_of_clipped=Shown("a noisy sum of rows that are clipped to [0, 1]", PlainSum(True), 1.0),
            sum_of_unclipped=Shown("rows that are believed to be in [0, 1]; this one is 5", PlainSum(False), 5.0),
        ),
        **family(
            ((0, 1, 1, 1), (1, 1, 1, 1)),
            running_sums=Shown("four running sums with noise for all of them", RunningSums(Decimal(4)), 1.0, 500),
            running_sums_noise_of_one=Shown("with the noise of one", RunningSums(Decimal(1)), 4.0),
        ),
        **family(
            ((0.0, 1.0), (0.0, 0.0)),
            noisy_rows=Shown("rows with noise each, where one is replaced", NoisyRows(), 1.0, 500),
        ),
        **family(
            ((0.0, 1.0), (0.0,)),
            noisy_rows_come_and_go=Shown("the length of the list tells of a row", NoisyRows(), INFINITE),
        ),
        **family(
            ((1.0, 1.0, 1.0), (1.0, 1.0, 9.0)),
            median_with_its_gap=Shown("a median with noise for the gap in the data", MedianWithItsGap(), INFINITE),
        ),
    }
)
"""Sums, right and wrong, by name."""
