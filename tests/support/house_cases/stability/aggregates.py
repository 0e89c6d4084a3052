"""Answers by the votes of many models, correct and faulty: samplers of continuous noise, in plain numpy.

    W = threshold + Laplace(threshold_scale)
    each query: the class with the most votes where its distance + Laplace(query_scale) > W, else unstable; after an
    unstable answer a fresh W, and at the `cutoff`-th the end

The fault is in how votes come about, or in what is taken for their distance. An outcome is the whole transcript, as one
number to the base 4: 1 and 2 for the classes 0 and 1, 3 for unstable, 0 for what was not asked.
Sources: Bassily-Thakkar-Thakurta 2018; docs/proofs/stability.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = [
    "AsManyAsRows",
    "HalfCount",
    "Plurality",
    "RunsOfAList",
    "StandardisedTogether",
    "TunedCutoff",
    "VotedAnswers",
    "WholeGap",
    "far_flip",
    "models",
    "narrow_flip",
]

Wholes = npt.NDArray[np.int64]
CHUNKS = 101
UNSTABLE = 3
BASE = 4


@dataclass(frozen=True)
class VotedAnswers(Implementation):
    """Data: the votes of the models, a row a model and a column a query, classes 0 and 1. One unit is a row."""

    threshold_scale: Decimal
    query_scale: Decimal
    threshold: Decimal
    cutoff: Decimal = Decimal(1)

    def votes(self, data: Any) -> Wholes:
        """Who votes for what."""
        return np.asarray(data)

    def distances(self, ahead: Wholes) -> Wholes:
        """By the lead of class 1 over class 0 in each query: half the gap, less one."""
        return np.asarray(np.maximum(0, (np.abs(ahead) - 1) // 2))

    def cutoffs(self, _data: Any) -> int:
        """How many unstable answers end it."""
        return int(self.cutoff)

    def said(self, passed: npt.NDArray[np.bool_], value: int) -> Wholes:
        """What is published by the tests of one query."""
        return np.where(passed, 1 + value, UNSTABLE)

    def __call__(self, data: Any, size: int, rng: Rng) -> Numbers:
        votes = self.votes(data)
        ahead = 2 * votes.sum(axis=0) - len(votes)
        distances, values = self.distances(ahead), (ahead > 0).astype(np.int64)
        left = np.full(size, self.cutoffs(data))
        above = self._thresholds(size, rng)
        code = np.zeros(size, dtype=np.int64)
        for distance, value in zip(distances, values.tolist(), strict=True):
            open_ = left > 0
            passed = distance + rng.laplace(0.0, float(self.query_scale), size) > above
            code = BASE * code + np.where(open_, self.said(passed, value), 0)
            charged = open_ & ~passed
            left = left - charged
            above = np.where(charged, self._thresholds(size, rng), above)
        return code

    def _thresholds(self, size: int, rng: Rng) -> Numbers:
        return float(self.threshold) + rng.laplace(0.0, float(self.threshold_scale), size)


@dataclass(frozen=True)
class WholeGap(VotedAnswers):
    """The whole gap, less one, as the distance: one vote moves it by 2, so everything costs twice."""

    def distances(self, ahead: Wholes) -> Wholes:
        return np.asarray(np.maximum(0, np.abs(ahead) - 1))


@dataclass(frozen=True)
class HalfCount(VotedAnswers):
    """How far a count is from half of the models: half the gap, and 1 where one vote away there is a tie that the
    other class wins. A query that is critical passes too often. The outcome is whether class 1 was ever answered."""

    def distances(self, ahead: Wholes) -> Wholes:
        return np.abs(ahead) // 2

    def __call__(self, data: Any, size: int, rng: Rng) -> Numbers:
        code = super().__call__(data, size, rng)
        places = BASE ** np.arange(np.asarray(data).shape[1])
        return np.asarray((code[:, None] // places % BASE == 2).any(axis=1))


@dataclass(frozen=True)
class RunsOfAList(VotedAnswers):
    """Data: labels, one a unit. Chunks are runs of the list, of two labels each; a model votes for the first of its
    run. One unit in front shifts every run."""

    def votes(self, data: Any) -> Wholes:
        return np.asarray(data)[: 2 * CHUNKS : 2, None]


@dataclass(frozen=True)
class StandardisedTogether(VotedAnswers):
    """Data: numbers, one a unit. They are centred by the mean of all of them, and scaled, before chunks are cut; a
    model votes by the sign of what it is asked, in these terms: 1. One outlier moves every vote."""

    def votes(self, data: Any) -> Wholes:
        numbers = np.asarray(data, dtype=np.float64)
        asked = (1.0 - numbers.mean()) / numbers.std()
        return np.full((CHUNKS, 1), int(asked > 0))


@dataclass(frozen=True)
class AsManyAsRows(VotedAnswers):
    """Data: the votes of whoever is there, one a unit. There is a chunk for each ten of them, a private number, and
    how many chunks there are is public: it is the outcome, beside what a model says."""

    def __call__(self, data: Any, size: int, _rng: Rng) -> Numbers:
        return np.full(size, len(data) // 10)


@dataclass(frozen=True)
class TunedCutoff(VotedAnswers):
    """The first column is a validation row, which is private and not asked: the cutoff is one more than it has votes
    against its winner. Where the run halts tells of them."""

    def votes(self, data: Any) -> Wholes:
        return np.asarray(data)[:, 1:]

    def cutoffs(self, data: Any) -> int:
        against = int(np.asarray(data)[:, 0].sum())
        return 1 + min(against, len(data) - against)


@dataclass(frozen=True)
class Plurality(VotedAnswers):
    """What is unstable is answered by the class with more votes: "a coin is as good"."""

    def said(self, passed: npt.NDArray[np.bool_], value: int) -> Wholes:
        return np.full(len(passed), 1 + value)


def models(*gaps: int, models: int = CHUNKS) -> Wholes:
    """Votes with these leads of class 0, one a query: as many models vote for 1 as leaves that gap."""
    ones = [(models - gap) // 2 for gap in gaps]
    votes = np.arange(models)[:, None] < np.array(ones)[None, :]
    result: Wholes = votes.astype(np.int64)
    result.setflags(write=False)
    return result


def far_flip(first: int, last: int, times: int, *, rows: int = 1) -> tuple[Wholes, Wholes]:
    """Two tables of which `rows` models differ: they lower the lead of class 0, `first`, on so many queries, and raise
    it from `last` on one more."""
    return models(*(first,) * times, last), models(*(first - 2 * rows,) * times, last + 2 * rows)


def narrow_flip(models_: int, queries: int) -> tuple[Wholes, Wholes]:
    """Two tables of which one model differs: class 1 leads by the least that it can, or does not lead."""
    least = 2 - models_ % 2
    return models(*(-least,) * queries, models=models_), models(*(2 - least,) * queries, models=models_)
