"""Choices by scores and answers at random, correct and faulty. Outputs are few: every true loss is enumerated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

import numpy as np

from dpledger.audit.zoo.cases import INFINITE, Case, Shown, family
from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = ["SELECTED", "NoisyBest", "OneOfMany", "WeightedChoice", "WeightedOccurring"]


@dataclass(frozen=True)
class WeightedChoice(Implementation):
    """One of some candidates, with weights e^(exponent score)."""

    exponent: Decimal

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        scores = float(self.exponent) * np.asarray(data, dtype=np.float64)
        weights = np.exp(scores - scores.max())
        return rng.choice(len(data), size, p=weights / weights.sum())


@dataclass(frozen=True)
class WeightedOccurring(Implementation):
    """The same, but only among candidates with a count above 0: that a candidate is chosen shows that it occurs."""

    exponent: Decimal

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        occurring = np.flatnonzero(np.asarray(data) > 0)
        chosen: Numbers = occurring[WeightedChoice(self.exponent)([data[int(i)] for i in occurring], size, rng)]
        return chosen


@dataclass(frozen=True)
class NoisyBest(Implementation):
    """The candidate with the highest score plus an exponential variate of mean 1 / exponent: permute-and-flip."""

    exponent: Decimal

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        noise = rng.exponential(1 / float(self.exponent), (size, len(data)))
        chosen: Numbers = (np.asarray(data, dtype=np.float64) + noise).argmax(axis=1)
        return chosen


@dataclass(frozen=True)
class OneOfMany(Implementation):
    """One of `answers` answers: the true one with this chance, each other one as often as the rest."""

    kept: Decimal
    answers: int

    def __call__(self, data: int, size: int, rng: Rng) -> Numbers:
        others = (data + rng.integers(1, self.answers, size)) % self.answers
        return np.where(rng.random(size) < float(self.kept), data, others)


_HALF = Decimal("0.5")

SELECTED: Mapping[str, Case] = MappingProxyType(
    {
        **family(
            ((4.0, *(3.0,) * 3), (3.0, *(4.0,) * 3)),  # one score falls and all others rise
            batched=True,
            exponential_mechanism=Shown(
                "one of four candidates by weights e^(score / 2), as claimed", WeightedChoice(_HALF), 0.7461540879
            ),
            exponential_mechanism_undivided=Shown(
                "weights e^score, as where scores move in one direction; at worst 2",
                WeightedChoice(Decimal(1)),
                1.4706149197,
                15_000,
            ),
        ),
        **family(
            ((4.0, 3.0, 1.0), (4.0, 3.0, 0.0)),
            batched=True,
            exponential_mechanism_of_what_occurs=Shown(
                "candidates are those that somebody has", WeightedOccurring(_HALF), INFINITE, 2_000
            ),
        ),
        **family(
            ((3.0, 0.0), (2.0, 1.0)),  # the first is the best alone
            batched=True,
            permute_and_flip=Shown("the best of two by score + Exp(2), as claimed; attained", NoisyBest(_HALF), 1.0),
            permute_and_flip_half_noise=Shown(
                "noise of Exp(1), as where scores move in one direction", NoisyBest(Decimal(1)), 2.0, 4_000
            ),
        ),
        **family(
            (0, 1),
            batched=True,
            randomized_response_of_a_bit_for_five=Shown(
                "one of five answers, kept as often as a bit would be: ln 4 more",
                OneOfMany(Decimal("0.7310585786"), 5),
                1 + math.log(4),
            ),
        ),
    }
)
"""Choices, right and wrong, by name."""
