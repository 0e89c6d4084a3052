"""Where the middle of an interval lies, as users see it: how many of them have many points on one side, or the other.

The score of w is the larger number of users with more than so many points in [low, w - 1], or in [w + 1, high]. It is
constant in segments, at most two of them a user and one more, so that what it costs depends on the examples alone.

>>> points = np.array([[0, 1], [1, 2], [2, 2], [5, 5]], dtype=np.uint64)
>>> found = PointsByUser.of(points).sides(0, 6, more_than=0)
>>> [found.score(w) for w in range(7)]
[4, 3, 2, 3, 3, 3, 4]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.samples import Words
from dpledger.mechanisms.selection.choice import Choice

__all__ = ["MOVED", "PointsByUser", "Sides"]

Ints: TypeAlias = npt.NDArray[np.int64]

LARGEST = 2**64 - 1
MOVED = "a user is in each of the two counts once or not at all"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Sides:
    """`scores[s]`: the score of the places from the one after `ends[s-1]` (at first `low`) to `ends[s]`, these too."""

    low: int
    ends: Sequence[int]
    scores: Ints

    def score(self, w: int) -> int:
        """The score of one place."""
        return int(self.scores[next(s for s, end in enumerate(self.ends) if w <= end)])

    def drawn(self, choice: Choice, entropy: Entropy) -> int:
        """A place, the likelier the lower its score."""
        starts = [self.low, *(end + 1 for end in self.ends[:-1])]
        counts = [end - start + 1 for start, end in zip(starts, self.ends, strict=True)]
        return self.low + choice.one(-self.scores, entropy=entropy, counts=counts)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PointsByUser:
    """The points of each user, a row each, in order."""

    rows: Words

    @classmethod
    def of(cls, points: Words) -> PointsByUser:
        """Of users with one row each."""
        return cls(np.sort(points, axis=1))

    def sides(self, low: int, high: int, *, more_than: int) -> Sides:
        """The scores of the places from `low` to `high`, at most 2^64, by users with more than so many points.

        Claim: each is max(#{i : more points in [low, w-1]}, #{i : more points in [w+1, high]}).
        Source: docs/proofs/learning_median.md, "Sides"; Li-Wang-Ye 2024, lemma 5.1."""
        first = self._below(low) + more_than
        left = self._taken(first, first < self.rows.shape[1], low, high - 1)
        last = self._below(high + 1) - 1 - more_than
        right = self._taken(last, last >= 0, low + 1, high)
        ends = np.unique(np.concatenate([left, right - np.uint64(1)]))
        here = np.searchsorted(left, ends, side="left")
        there = len(right) - np.searchsorted(right, ends, side="right")
        scores = np.append(np.maximum(here, there), len(left)).astype(np.int64)
        return Sides(low, [*ends.tolist(), high], scores)

    def _taken(self, places: Ints, there: npt.NDArray[np.bool_], low: int, high: int) -> Words:
        """The points at one place of each user who has it, those from `low` to `high`, in order."""
        users = np.flatnonzero(there)
        found: Words = np.sort(self.rows[users, places[users]])
        return found[_under(found, low) : _under(found, high + 1)]

    def _below(self, v: int) -> Ints:
        """How many points of each user are below v."""
        if v > LARGEST:
            return np.full(len(self.rows), self.rows.shape[1], dtype=np.int64)
        found: Ints = np.count_nonzero(self.rows < np.uint64(v), axis=1).astype(np.int64)
        return found


def _under(words: Words, v: int) -> int:
    """How many of these words, in order, are below v."""
    return len(words) if v > LARGEST else int(np.searchsorted(words, np.uint64(max(v, 0)), side="left"))
