"""Medians of users, the least of noisy counts, and thresholds learned by halving, right and wrong. True losses by
enumeration, of noisy counts by integration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
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
    "MEDIANS",
    "HalvedThreshold",
    "LeastNoisyCount",
    "MedianOfPoints",
    "MedianOfUsers",
    "NoisyCounts",
    "ThresholdAtOwnLevel",
]

Points: TypeAlias = Sequence[tuple[int, ...]]
"""The points of each user."""
Examples: TypeAlias = Sequence[tuple[tuple[int, int], ...]]
"""The examples (point, label) of each user."""
Floats: TypeAlias = npt.NDArray[np.float64]


def _weighed(scores: Sequence[int], exponent: Decimal) -> Floats:
    weights = np.exp(-float(exponent) * (np.array(scores) - min(scores)))
    law: Floats = weights / weights.sum()
    return law


@dataclass(frozen=True)
class MedianOfUsers(Implementation):
    """A place among 0 to `points`, with weight e^-exponent for each user with a point on the side where more have one.
    Li-Wang-Ye 2024, lemma 5.1."""

    points: int
    exponent: Decimal

    def law(self, data: Points) -> Floats:
        """The probability of each place."""
        sides = [(self.beyond(data, 0, w), self.beyond(data, w + 1, self.points + 1)) for w in range(self.points + 1)]
        return _weighed([max(side) for side in sides], self.exponent)

    def beyond(self, data: Points, first: int, stop: int) -> int:
        """What is counted on a side."""
        return sum(any(first <= x < stop for x in user) for user in data)

    def __call__(self, data: Points, size: int, rng: Rng) -> Numbers:
        return rng.choice(self.points + 1, size=size, p=self.law(data))


@dataclass(frozen=True)
class MedianOfPoints(MedianOfUsers):
    """It counts points in place of users: a user moves a score by all of his."""

    def beyond(self, data: Points, first: int, stop: int) -> int:
        """What is counted on a side."""
        return sum(first <= x < stop for user in data for x in user)


@dataclass(frozen=True)
class NoisyCounts(Implementation):
    """Counts with Laplace noise of this scale, each published."""

    scale: Decimal

    def __call__(self, data: Sequence[int], size: int, rng: Rng) -> Numbers:
        return np.array(data) + rng.laplace(0, float(self.scale), (size, len(data)))


@dataclass(frozen=True)
class LeastNoisyCount(NoisyCounts):
    """The place of the least of them alone."""

    def __call__(self, data: Sequence[int], size: int, rng: Rng) -> Numbers:
        found: Numbers = super().__call__(data, size, rng).argmin(axis=1)
        return found


@dataclass(frozen=True)
class HalvedThreshold(Implementation):
    """A threshold on `points` points by rounds of a median and of a choice of three (permute-and-flip) by the users who
    err; the whole transcript. One mistake or more, and one point or more on a side, is what counts."""

    points: int
    rounds: int
    median_exponent: Decimal
    exponent: Decimal

    def law(self, data: Examples) -> Mapping[tuple[int, ...], float]:
        """The probability of each transcript: a place and a side a round."""
        return dict(self._rounds(data, 0, self.points, ()))

    def _rounds(
        self, data: Examples, low: int, high: int, path: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], float]]:
        if low == high or len(path) == 2 * self.rounds:
            yield path, 1.0
            return
        errors = [sum(any((x < v) != y for x, y in user) for user in data) for v in range(self.points + 1)]
        inside = [tuple(x - low for x, _ in user if low <= x <= high) for user in data]
        median = MedianOfUsers(high - low, self.median_exponent).law(inside)
        for w, chosen in zip(range(low, high + 1), median.tolist(), strict=True):
            ranges = [range(low, w), range(w, w + 1), range(w + 1, high + 1)]
            standing = [side for side, where in enumerate(ranges) if where]
            fewest = [min(errors[v] for v in ranges[side]) for side in standing]
            for side, taken in zip(standing, _flipped(fewest, float(self.exponent)), strict=True):
                for rest, more in self._rounds(data, ranges[side][0], ranges[side][-1], (*path, w, side)):
                    yield rest, chosen * taken * more

    def __call__(self, data: Examples, size: int, rng: Rng) -> Numbers:
        law = self.law(data)
        return rng.choice([self.number(path) for path in law], size=size, p=list(law.values()))

    def number(self, path: tuple[int, ...]) -> int:
        """A transcript as one number."""
        return sum((1 + digit) * (self.points + 4) ** at for at, digit in enumerate(path))


def _flipped(counts: Sequence[int], exponent: float) -> list[float]:
    """Permute-and-flip: in random order, each is taken with probability e^-exponent for each step above the least."""
    found = [0.0] * len(counts)
    for order in itertools.permutations(range(len(counts))):
        missed = 1 / math.factorial(len(counts))
        for place in order:
            weight = math.exp(-exponent * (counts[place] - min(counts)))
            found[place] += missed * weight
            missed *= 1 - weight
    return found


@dataclass(frozen=True)
class ThresholdAtOwnLevel(Implementation):
    """A threshold by the users with more mistakes than the sample's own least error asks for: a user who moves that
    level moves the counts of all."""

    points: int
    exponent: Decimal

    def law(self, data: Examples) -> Floats:
        """The probability of each threshold."""
        mistakes = [[sum((x < v) != y for x, y in user) for user in data] for v in range(self.points + 1)]
        level = min(map(sum, mistakes)) // len(data)
        return _weighed([sum(a > level for a in each) for each in mistakes], self.exponent)

    def __call__(self, data: Examples, size: int, rng: Rng) -> Numbers:
        return rng.choice(self.points + 1, size=size, p=self.law(data))


def _shown(about: str, mechanism: Implementation, pair: tuple[Any, Any], true_epsilon: float) -> Case:
    """Claimed at epsilon 1."""
    return Case(
        about=about,
        mechanism=mechanism,  # type: ignore[arg-type]  # each of these is called with data, size and generator
        left=pair[0],
        right=pair[1],
        claim=PureDP(1),
        true_epsilon=true_epsilon,
    )


_HALF, _EIGHTH = Decimal("0.5"), Decimal("0.125")
_COUNTS = ((3, 1, 1), (4, 0, 0))
_ONES, _ZEROS = ((0, 1), (1, 1)), ((0, 0), (1, 0))
_SPLIT = ((*(_ONES,) * 4, *(_ZEROS,) * 4), (*(_ONES,) * 3, *(_ZEROS,) * 4, ((0, 1), (1, 0))))
_ZERO_ZERO, _ONE_ONE = ((0, 0), (0, 0)), ((1, 1), (1, 1))
_SHARED = ((_ZERO_ZERO, _ZEROS, ((0, 1), (1, 1))), (_ZERO_ZERO, ((0, 1), (0, 1)), ((0, 1), (1, 1))))
_WHOLE = ((_ZERO_ZERO, ((1, 0), (1, 1)), _ONE_ONE), (_ONE_ONE, ((1, 0), (1, 1)), _ONE_ONE))

MEDIANS: Mapping[str, Case] = MappingProxyType(
    {
        "median_of_users": _shown(
            "a median by users on each side, as claimed; the worst of all pairs of four users",
            MedianOfUsers(4, _HALF),
            (((0, 0), (0, 0), (2, 3), (2, 3)), ((0, 0), (2, 3), (2, 3), (3, 3))),
            0.7904759740,
        ),
        "median_of_points": _shown(
            "points are counted and not users, two of each; the worst of all pairs of four users",
            MedianOfPoints(4, _HALF),
            (((0, 0),) * 4, (*((0, 0),) * 3, (1, 1))),
            1.8201806321,
        ),
        "median_of_three_points": _shown(
            "points are counted and not users, three of each; the worst of all pairs of four users",
            MedianOfPoints(4, _HALF),
            (((0, 0, 0),) * 4, (*((0, 0, 0),) * 3, (1, 1, 1))),
            2.9300258983,
        ),
        "least_noisy_count": _shown(
            "which of three noisy counts is the least, as claimed", LeastNoisyCount(Decimal(2)), _COUNTS, 0.9510169715
        ),
        "least_noisy_count_half_noise": _shown(
            "which of three counts is the least, with half of the noise; at worst 2",
            LeastNoisyCount(Decimal(1)),
            _COUNTS,
            1.9762297369,
        ),
        "noisy_counts": _shown("three noisy counts, as claimed", NoisyCounts(Decimal(3)), ((3, 3, 3), (4, 4, 4)), 1.0),
        "noisy_counts_third_of_noise": _shown(
            "three noisy counts with the noise of one", NoisyCounts(Decimal(1)), ((3, 3, 3), (4, 4, 4)), 3.0
        ),
        "halved_threshold": _shown(
            "two rounds of a median and a comparison, a quarter of epsilon each, as claimed; the worst of three users",
            HalvedThreshold(2, 2, _EIGHTH, _EIGHTH),
            _SHARED,
            0.5513020810,
        ),
        "halved_threshold_without_shares": _shown(
            "two rounds of a median and a comparison, each at all of epsilon; the worst of three users; at worst 4",
            HalvedThreshold(2, 2, _HALF, _HALF),
            _WHOLE,
            2.2478443243,
        ),
        "threshold_at_own_level": _shown(
            "the level of mistakes that counts follows from the sample's own least error",
            ThresholdAtOwnLevel(2, _HALF),
            _SPLIT,
            1.8645858391,
        ),
    }
)
"""Medians and thresholds of users, right and wrong, by name."""
