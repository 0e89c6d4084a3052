"""Hypotheses drawn by how well a concept near them does, right and wrong. True losses by enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.guarantees import PureDP
from dpledger.audit.zoo.cases import Case
from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = ["SURROGATES", "DrawnBySurrogate", "SurrogatesApart"]

Matrix: TypeAlias = npt.NDArray[np.int64]

_HYPOTHESES = np.array(list(itertools.product((0, 1), repeat=3)))
_THRESHOLDS = np.array([[int(x < u) for x in range(3)] for u in range(4)])


@dataclass(frozen=True)
class DrawnBySurrogate(Implementation):
    """One of the eight hypotheses on three points, by the errors of a threshold and what they differ in on the examples
    (x, y); e^-exponent a step. A replaced example moves a score by two. Li-Wang-Ye 2024."""

    concepts: ClassVar[Matrix] = _THRESHOLDS
    hypotheses: ClassVar[Matrix] = _HYPOTHESES
    exponent: Decimal

    def law(self, data: Sequence[tuple[int, int]]) -> Numbers:
        """The probability of each hypothesis."""
        x, y = np.array(data).reshape(-1, 2).T
        errors = (self.concepts[:, x] != y).sum(axis=1)
        differ = (self.hypotheses[:, None, x] != self.concepts[None, :, x]).sum(axis=2)
        weights = np.exp(-float(self.exponent) * (errors + differ).min(axis=1))
        return np.asarray(weights / weights.sum())

    def __call__(self, data: Sequence[tuple[int, int]], size: int, rng: Rng) -> Numbers:
        return rng.choice(len(self.hypotheses), size=size, p=self.law(data))


@dataclass(frozen=True)
class SurrogatesApart(DrawnBySurrogate):
    """Two concepts on five points, and hypotheses near to one each: a record that changes sides moves the scores of two
    hypotheses by two, apart."""

    concepts: ClassVar[Matrix] = np.array([[1, 0, 1, 0, 1], [0, 1, 0, 1, 1]])
    hypotheses: ClassVar[Matrix] = np.array([[1, 1, 1, 0, 0], [1, 1, 0, 1, 1], [0, 0, 1, 1, 0]])


def _drawn(about: str, exponent: str, true_epsilon: float) -> Case:
    return Case(
        about=about,
        mechanism=DrawnBySurrogate(Decimal(exponent)),
        left=((0, 0), (0, 0), (2, 1), (2, 1)),
        right=((0, 0), (0, 0), (2, 1), (1, 0)),
        claim=PureDP(1),
        true_epsilon=true_epsilon,
    )


_BOTH_SIDES = ((2, 1), (3, 1)) * 5 + ((4, 1),) * 30

SURROGATES: Mapping[str, Case] = MappingProxyType(
    {
        "surrogate": _drawn("a hypothesis by how well a threshold near it does, as claimed", "0.25", 0.5614640449),
        "surrogate_tight": Case(
            about="a record that changes sides between two concepts, as claimed: all of it",
            mechanism=SurrogatesApart(Decimal("0.25")),
            left=(*_BOTH_SIDES, (0, 1)),
            right=(*_BOTH_SIDES, (1, 1)),
            claim=PureDP(1),
            true_epsilon=0.9993440384,
        ),
        "surrogate_sensitivity_of_one": _drawn(
            "a score that moves by two, as if it moved by one; at worst 2", "0.5", 1.1256498233
        ),
    }
)
"""Surrogates, right and wrong, by name."""
