"""Learners of a class, right and wrong, on examples (point, label): finite outcomes, so that every true loss is
enumerated. What is drawn is the place of a concept; thresholds are 1[x < u]."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.guarantees import PureDP
from dpledger.audit.zoo.cases import Case
from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = [
    "LEARNED_CLASSES",
    "CandidatesOfTheSample",
    "ConsistentThresholds",
    "EdgesOfTheSample",
    "ExactMean",
    "LargestPoint",
    "ParityByElimination",
    "RaisingThresholds",
    "SampledPoint",
    "WeighedPointOrZero",
    "WeighedThresholds",
]

Examples: TypeAlias = Sequence[tuple[int, int]]
Floats: TypeAlias = npt.NDArray[np.float64]


def _errors(data: Examples, thresholds: npt.NDArray[np.int64]) -> Floats:
    found = np.zeros(len(thresholds))
    for x, y in data:
        found += (x < thresholds) != y
    return found


def _weighed(errors: Floats, exponent: Decimal, size: int, rng: Rng) -> Numbers:
    weights = np.exp(-float(exponent) * (errors - errors.min()))
    return rng.choice(len(errors), size=size, p=weights / weights.sum())


@dataclass(frozen=True)
class WeighedThresholds(Implementation):
    """A threshold on `points` points, with weight e^(-exponent errors). McSherry-Talwar 2007."""

    points: int
    exponent: Decimal

    def __call__(self, data: Examples, size: int, rng: Rng) -> Numbers:
        return _weighed(_errors(data, np.arange(self.points + 1)), self.exponent, size, rng)


@dataclass(frozen=True)
class WeighedPointOrZero(Implementation):
    """The identity of one bit or its complement, with weight e^(-exponent errors)."""

    exponent: Decimal

    def __call__(self, data: Examples, size: int, rng: Rng) -> Numbers:
        wrong = sum(x != y for x, y in data)
        return _weighed(np.array([wrong, len(data) - wrong], dtype=np.float64), self.exponent, size, rng)


@dataclass(frozen=True)
class ConsistentThresholds(Implementation):
    """Only the thresholds with the fewest errors stand for choice, uniformly: the support depends on the sample."""

    points: int

    def __call__(self, data: Examples, size: int, rng: Rng) -> Numbers:
        errors = _errors(data, np.arange(self.points + 1))
        return rng.choice(np.flatnonzero(errors == errors.min()), size=size)


@dataclass(frozen=True)
class CandidatesOfTheSample(Implementation):
    """Only thresholds just above a point of the sample stand for choice, with the right weights."""

    exponent: Decimal

    def __call__(self, data: Examples, size: int, rng: Rng) -> Numbers:
        thresholds = np.unique([x + 1 for x, _ in data])
        return thresholds[_weighed(_errors(data, thresholds), self.exponent, size, rng)]


@dataclass(frozen=True)
class EdgesOfTheSample(Implementation):
    """The edges of the bins are quantiles of the sample: three candidates, with the right weights."""

    exponent: Decimal

    def __call__(self, data: Examples, size: int, rng: Rng) -> Numbers:
        edges = np.quantile([x for x, _ in data], [0.25, 0.5, 0.75])
        errors = np.array([sum((x < edge) != y for x, y in data) for edge in edges], dtype=np.float64)
        return edges[_weighed(errors, self.exponent, size, rng)]


@dataclass(frozen=True)
class RaisingThresholds(Implementation):
    """The right weights, but a point outside the domain raises: an outcome of infinite loss."""

    points: int
    exponent: Decimal

    def __call__(self, data: Examples, rng: Rng) -> int:
        if any(not 0 <= x < self.points for x, _ in data):
            raise ValueError("a point outside the domain")
        return int(_weighed(_errors(data, np.arange(self.points + 1)), self.exponent, 1, rng)[0])


@dataclass(frozen=True)
class LargestPoint(Implementation):
    """One above the largest point with label 1, without privacy."""

    def __call__(self, data: Examples, size: int, _: Rng) -> Numbers:
        return np.full(size, max((x + 1 for x, y in data if y), default=0))


@dataclass(frozen=True)
class SampledPoint(Implementation):
    """The first point with label 1 (-1: the constant 0), without privacy."""

    def __call__(self, data: Examples, size: int, _: Rng) -> Numbers:
        return np.full(size, next((x for x, y in data if y), -1))


@dataclass(frozen=True)
class ParityByElimination(Implementation):
    """The parity on `bits` bits that agrees with the sample and is the least number (-1: none), without privacy."""

    bits: int

    def __call__(self, data: Examples, size: int, _: Rng) -> Numbers:
        agreeing = (r for r in range(1 << self.bits) if all((r & x).bit_count() % 2 == y for x, y in data))
        return np.full(size, next(agreeing, -1))


@dataclass(frozen=True)
class ExactMean(Implementation):
    """The mean of the labels, without noise."""

    def __call__(self, data: Examples, size: int, _: Rng) -> Numbers:
        return np.full(size, np.mean([y for _, y in data]))


_FOUR = (((0, 0), (0, 1), (0, 1), (0, 1)), ((0, 1), (0, 1), (0, 1), (0, 1)))
_ALIKE = ((0, 0),) * 15


def _learned(
    about: str,
    mechanism: Callable[..., Any],
    pair: tuple[Examples, Examples],
    true_epsilon: float = math.inf,
    *,
    batched: bool = True,
) -> Case:
    """A learner, claimed at 1 under replace_one."""
    return Case(
        about=about,
        mechanism=mechanism,
        left=pair[0],
        right=pair[1],
        claim=PureDP(1),
        true_epsilon=true_epsilon,
        batched=batched,
    )


LEARNED_CLASSES: Mapping[str, Case] = MappingProxyType(
    {
        "learned_threshold": _learned(
            "a threshold by the exponential mechanism, as claimed; the worst of all pairs of four records",
            WeighedThresholds(3, Decimal("0.5")),
            _FOUR,
            0.9284528164,
        ),
        "learned_bit": _learned(
            "two complementary concepts by the exponential mechanism, as claimed; where all other records agree",
            WeighedPointOrZero(Decimal("0.5")),
            ((*_ALIKE, (0, 0)), (*_ALIKE, (0, 1))),
            0.9994239399,
        ),
        "learned_threshold_whole_exponent": _learned(
            "weight exp(-epsilon errors) where records are replaced; at worst 2",
            WeighedThresholds(3, Decimal(1)),
            _FOUR,
            1.9619628236,
        ),
        "learned_threshold_consistent_only": _learned(
            "only concepts that agree with the sample stand for choice",
            ConsistentThresholds(3),
            (((1, 1), (1, 1)), ((1, 1), (1, 0))),
        ),
        "learned_threshold_candidates_of_sample": _learned(
            "only thresholds at points of the sample stand for choice",
            CandidatesOfTheSample(Decimal("0.5")),
            (((1, 1), (2, 0)), ((1, 1), (3, 0))),
        ),
        "learned_stump_edges_of_sample": _learned(
            "bins whose edges are quantiles of the sample",
            EdgesOfTheSample(Decimal("0.5")),
            (((1, 1), (2, 1), (4, 0), (5, 0)), ((1, 1), (2, 1), (4, 0), (7, 0))),
        ),
        "learned_threshold_raises": _learned(
            "a record outside the domain raises",
            RaisingThresholds(3, Decimal("0.5")),
            (((0, 1), (2, 0)), ((0, 1), (9, 0))),
            batched=False,
        ),
        "learned_threshold_not_private": _learned(
            "one above the largest point with label 1, without noise", LargestPoint(), (((1, 1),), ((2, 1),))
        ),
        "learned_point_not_private": _learned(
            "the first point with label 1, without noise", SampledPoint(), (((1, 1),), ((2, 1),))
        ),
        "learned_parity_not_private": _learned(
            "a parity by elimination, without noise", ParityByElimination(2), (((1, 1),), ((1, 0),))
        ),
        "exact_mean": _learned("the mean of labels, without noise", ExactMean(), (((0, 1),), ((0, 0),))),
    }
)
"""Learners of a class, right and wrong, by name."""
