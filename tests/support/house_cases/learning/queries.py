"""Statistical queries, right and wrong. Their answers are numbers with Laplace noise, whole numbers with discrete such
noise, so that every true loss is a sum of distances by scales.

The noise of answers that share one draw is `laplace_noise_reused`, among the claimed ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from dpledger.accounting.guarantees import PureDP
from dpledger.audit.zoo.cases import Case
from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = [
    "QUERIED",
    "BlocksInRuns",
    "BlocksInTurn",
    "FalsifiedLiterals",
    "MeanByPrivateCount",
    "MeanByPublicCount",
    "QueriesSoFar",
    "QuerySums",
]

Values: TypeAlias = Sequence[Sequence[int]]


def _whole_noise(scales: Numbers, size: int, rng: Rng) -> Numbers:
    """Discrete Laplace noise: the difference of two geometric numbers."""
    stops = np.broadcast_to(-np.expm1(-1 / scales), (size, len(scales)))
    noise: Numbers = rng.geometric(stops) - rng.geometric(stops)
    return noise


@dataclass(frozen=True)
class MeanByPublicCount(Implementation):
    """The mean of numbers, and noise of one scale."""

    scale: Decimal

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        return float(np.mean(data)) + rng.laplace(0.0, float(self.scale), size)


@dataclass(frozen=True)
class MeanByPrivateCount(Implementation):
    """The mean of numbers in [0, 1], and noise of a scale that follows how many there are."""

    epsilon: Decimal

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        return float(np.mean(data)) + rng.laplace(0.0, 1 / (len(data) * float(self.epsilon)), size)


@dataclass(frozen=True)
class QuerySums(Implementation):
    """Of each query the sum of its values, one a record, and noise of one scale."""

    scale: Decimal

    def __call__(self, data: Values, size: int, rng: Rng) -> Numbers:
        sums = np.sum(data, axis=0)
        noisy: Numbers = sums + _whole_noise(self._scales(len(sums)), size, rng)
        return noisy

    def _scales(self, queries: int) -> Numbers:
        return np.full(queries, float(self.scale))


@dataclass(frozen=True)
class QueriesSoFar(QuerySums):
    """Each query with the noise of as many queries as were asked up to it."""

    def _scales(self, queries: int) -> Numbers:
        return float(self.scale) * (np.arange(queries) + 1)


@dataclass(frozen=True)
class BlocksInTurn(Implementation):
    """The sum of each block, record i being in block i mod `blocks`."""

    blocks: int
    scale: Decimal

    def __call__(self, data: Sequence[int], size: int, rng: Rng) -> Numbers:
        sums = [sum(data[at :: self.blocks]) for at in range(self.blocks)]
        return np.array(sums) + _whole_noise(np.full(self.blocks, float(self.scale)), size, rng)


@dataclass(frozen=True)
class BlocksInRuns(Implementation):
    """The sum of each block, the first `length` records being the first block, the rest the second."""

    length: int
    scale: Decimal

    def __call__(self, data: Sequence[int], size: int, rng: Rng) -> Numbers:
        sums = [sum(data[: self.length]), sum(data[self.length :])]
        return np.array(sums) + _whole_noise(np.full(2, float(self.scale)), size, rng)


@dataclass(frozen=True)
class FalsifiedLiterals(Implementation):
    """On how many positive examples, numbers of `variables` bits, each literal is false, with noise."""

    variables: int
    scale: Decimal

    def __call__(self, data: Sequence[int], size: int, rng: Rng) -> Numbers:
        bits = np.array([[x >> at & 1 for at in range(self.variables)] for x in data])
        counts = np.concatenate([(1 - bits).sum(axis=0), bits.sum(axis=0)])
        return counts + _whole_noise(np.full(len(counts), float(self.scale)), size, rng)


def _queried(
    about: str,
    mechanism: Callable[..., Any],
    left: object,
    right: object,
    true_epsilon: float,
    *,
    claim: PureDP | None = None,
) -> Case:
    """Answers claimed at 1."""
    return Case(
        about=about,
        mechanism=mechanism,
        left=left,
        right=right,
        claim=PureDP(1) if claim is None else claim,
        true_epsilon=true_epsilon,
    )


_ONE, _QUARTER = Decimal(1), Decimal("0.25")
_ALL, _NONE = ((1, 1, 1),), ((0, 0, 0),)
_TURNS = (0, 1) * 6
_RUNS = (0,) * 3 + (1,) * 3

QUERIED: Mapping[str, Case] = MappingProxyType(
    {
        "mean_of_signs": _queried(
            "a mean of four numbers in [-1, 1], one of them replaced, with noise for its distance of 2/4, as claimed",
            MeanByPublicCount(Decimal("0.5")),
            (1.0, 1.0, 1.0, 1.0),
            (1.0, 1.0, 1.0, -1.0),
            1.0,
        ),
        "mean_of_signs_half_noise": _queried(
            "a mean of four numbers in [-1, 1], with noise for a distance of 1/4: that of [0, 1]",
            MeanByPublicCount(_QUARTER),
            (1.0, 1.0, 1.0, 1.0),
            (1.0, 1.0, 1.0, -1.0),
            2.0,
        ),
        "mean_by_private_count": _queried(
            "a mean with noise by the number of records, where that is private; its ratio grows without bound",
            MeanByPrivateCount(_ONE),
            (0.0,) * 10,
            (*(0.0,) * 10, 1.0),
            math.inf,
        ),
        "queries_shared": _queried(
            "three queries, each with noise for a third of epsilon, as claimed", QuerySums(Decimal(3)), _ALL, _NONE, 1.0
        ),
        "queries_not_shared": _queried(
            "three queries, each with noise for all of epsilon", QuerySums(_ONE), _ALL, _NONE, 3.0
        ),
        "queries_so_far": _queried(
            "three queries, the j-th with noise for epsilon/j", QueriesSoFar(_ONE), _ALL, _NONE, 1 + 1 / 2 + 1 / 3
        ),
        "blocks_in_runs": _queried(
            "two blocks of three records by their place, where the first may be removed: both blocks change",
            BlocksInRuns(3, _ONE),
            _RUNS,
            _RUNS[1:],
            2.0,
        ),
        "blocks_in_turn": _queried(
            "record i in block i mod 2, where the first of twelve may be removed: all others change their block",
            BlocksInTurn(2, _ONE),
            _TURNS,
            _TURNS[1:],
            12.0,
        ),
        "falsified_literals": _queried(
            "how often each literal of two variables is false, with noise for four of them, as claimed",
            FalsifiedLiterals(2, Decimal(4)),
            (0, 3, 0),
            (0, 3, 3),
            1.0,
        ),
        "falsified_literals_one_by_one": _queried(
            "how often each literal is false, with noise for one: a record and its complement change all four",
            FalsifiedLiterals(2, _ONE),
            (0, 3, 0),
            (0, 3, 3),
            4.0,
        ),
    }
)
"""Statistical queries, right and wrong, by name."""
