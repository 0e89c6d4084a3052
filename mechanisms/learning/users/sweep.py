"""How many users have more than so many mistakes, for all thresholds at once: one pass over the points in order.

The mistakes of 1[x < v] change where v passes a point of the user's, by one an example, so that the count of users is
constant from one point that occurs to the next. What it costs depends on the examples alone, and not on the domain.

>>> points, labels = np.array([[1, 4], [2, 2]], dtype=np.uint64), np.array([[1, 0], [0, 1]], dtype=np.uint8)
>>> found = ThresholdSweep.of(6, Users(points, labels)).users_above(0)
>>> [found.at(v) for v in range(7)]
[2, 2, 1, 1, 1, 2, 2]
>>> found.least(3, 6), found.least(5, 6)
(1, 2)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.learning.error_counts import ErrorCounts, both, counted_in
from dpledger.mechanisms.learning.samples import Words
from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
from dpledger.mechanisms.learning.users.reading import Users

__all__ = ["ThresholdCounts", "ThresholdSweep", "ThresholdSweeps"]

Ints: TypeAlias = npt.NDArray[np.int64]

BEYOND = 2**64


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ThresholdCounts:
    """`counts[s]`: the count of every threshold v with exactly s of the sorted points `ends` below it."""

    ends: Words
    counts: Ints

    def at(self, v: int) -> int:
        """The count of 1[x < v]."""
        return int(self.counts[self._segment(v)])

    def least(self, low: int, high: int) -> int:
        """The least count of the thresholds from `low` to `high`, both of them among these."""
        return int(self.counts[self._segment(low) : self._segment(high) + 1].min())

    def _segment(self, v: int) -> int:
        return len(self.ends) if v >= BEYOND else int(np.searchsorted(self.ends, np.uint64(v), side="left"))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ThresholdSweep:
    """Every user's mistakes, in the order of their own points, of thresholds on {0..points-1}. `first`: those of v = 0.
    `running`: those once v has passed the point at that place. `order`: the places of all users in a row, by their
    points; `ends`: the points that occur, and `passed` how many examples lie at each or below it."""

    points: int
    first: Ints
    running: npt.NDArray[np.int32]
    order: npt.NDArray[np.intp]
    ends: Words
    passed: Ints

    @classmethod
    def of(cls, points: int, users: Users) -> ThresholdSweep:
        """Of these users."""
        own = np.argsort(users.points, axis=1, kind="stable")
        first = np.count_nonzero(users.labels, axis=1).astype(np.int64)
        steps = 1 - 2 * np.take_along_axis(users.labels, own, axis=1).astype(np.int32)
        running = np.cumsum(steps, axis=1, dtype=np.int32)
        running += first[:, None].astype(np.int32)
        flat = np.take_along_axis(users.points, own, axis=1).reshape(-1)
        order = np.argsort(flat)
        ordered = flat[order]
        last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(ordered) else np.zeros(0, np.int64)
        return cls(points, first, running, order, ordered[last], last.astype(np.int64) + 1)

    @property
    def users(self) -> int:
        """How many users there are."""
        return len(self.first)

    def beyond(self, level: int) -> ErrorCounts:
        """As `users_above`, in segments of thresholds and how many are in each."""
        found = self.users_above(level)
        wide = counted_in(2 * (self.points + 1))  # where it is counted both ways
        edges = [np.array([-1], dtype=wide), found.ends.astype(wide), np.array([self.points], dtype=wide)]
        return ErrorCounts(found.counts, np.diff(np.concatenate(edges)))

    def users_above(self, mistakes: int) -> ThresholdCounts:
        """For each threshold, how many users have more than so many mistakes.

        Claim: K(v) = #{i : a_i(c_v) > mistakes}. Source: docs/proofs/learning_median.md, "The sweep"."""
        above = self.running > mistakes
        before = np.concatenate([(self.first > mistakes)[:, None], above[:, :-1]], axis=1)
        change = above.astype(np.int8) - before.astype(np.int8)
        total = np.cumsum(change.reshape(-1)[self.order], dtype=np.int64)
        start = int(np.count_nonzero(self.first > mistakes))
        return ThresholdCounts(self.ends, start + np.concatenate([np.zeros(1, dtype=np.int64), total[self.passed - 1]]))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ThresholdSweeps:
    """Of 1[x < v] and, where a class holds them, of 1[x >= v]: which err where the others do on the other labels."""

    ways: tuple[ThresholdSweep, ...]

    @classmethod
    def of(cls, concepts: ThresholdClass, users: Users) -> ThresholdSweeps:
        """Of every concept of the class."""
        of_labels = (users, Users(users.points, 1 - users.labels)) if concepts.both_ways else (users,)
        return cls(tuple(ThresholdSweep.of(concepts.points, one) for one in of_labels))

    @property
    def users(self) -> int:
        """How many users there are."""
        return self.ways[0].users

    def beyond(self, level: int) -> ErrorCounts:
        """How many users have more than so many mistakes, in segments of thresholds and how many are in each."""
        return reduce(both, (way.beyond(level) for way in self.ways))
