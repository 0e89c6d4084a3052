"""How many users make more than so many mistakes by each concept of a class, in segments of concepts alike.

    a_i(f) = the mistakes of user i by f;  K(f) = how many users have a_i(f) > level

One user moves every K by at most one, whatever the examples are; all in one direction where a user comes or goes.
Whole numbers alone, so that the order of users cannot matter. Null users count nowhere.

>>> sample = UserSample(np.array([[5, 9], [5, 5]]), np.array([[1, 1], [0, 1]]))
>>> found = mistakes_of(PointClass(2**64), users_of(sample, 2**64))
>>> found.users, found.beyond(0).errors.tolist(), [int(many) for many in found.beyond(0).counts]
(2, [2, 2, 2], [1, 1, 18446744073709551614])
>>> found.beyond(1).errors.tolist()
[0, 0, 1]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from dpledger.errors import ParameterError
from dpledger.mechanisms.learning.error_counts import ErrorCounts, counted_in
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, OneClass, ParityClass, PointClass, ThresholdClass
from dpledger.mechanisms.learning.users.reading import Users, users_of
from dpledger.mechanisms.learning.users.sweep import ThresholdSweeps

__all__ = [
    "Mistakes",
    "PointMistakes",
    "UserClass",
    "for_users",
    "is_below_half",
    "mistakes_in",
    "mistakes_of",
    "point_mistakes",
]

Ints: TypeAlias = npt.NDArray[np.int64]

UserClass: TypeAlias = FiniteClass | PointClass | ThresholdClass
"""The classes that users learn. Others are matrices: `FiniteClass(matrix_of(...))`."""

CELLS_AT_ONCE = 2**24


def for_users(concepts: OneClass) -> UserClass:
    """The class, where users can learn it; ParameterError for parities, which must come as a matrix."""
    match concepts:
        case FiniteClass() | PointClass() | ThresholdClass():
            return concepts
        case ParityClass() | StumpClass():
            expected = "points, thresholds or a matrix (`FiniteClass(matrix_of(parities))`)"
            raise ParameterError("concept_class", type(concepts).__name__, expected)
        case _:
            assert_never(concepts)


def is_below_half(concepts: UserClass) -> bool:
    """Whether the class holds both constants, or the complement of every concept."""
    match concepts:
        case ThresholdClass():
            return True
        case PointClass(points=points):
            return points == 2
        case FiniteClass():
            rows = {row.tobytes() for row in concepts.matrix}
            constants = {np.full(concepts.points, label, dtype=np.bool_).tobytes() for label in (False, True)}
            return constants <= rows or {(~row).tobytes() for row in concepts.matrix} == rows
        case _:
            assert_never(concepts)


class Mistakes(Protocol):
    """The mistakes of all users by all concepts, whatever the level."""

    @property
    def users(self) -> int:
        """How many users there are that are not null."""
        ...

    def beyond(self, level: int) -> ErrorCounts:
        """How many users make more than `level` mistakes, of the concepts of each segment."""
        ...


def mistakes_of(concepts: UserClass, users: Users) -> Mistakes:
    """The mistakes of every user by every concept.

    Claim: `beyond(level)` is K of each concept. Source: docs/proofs/learning_users.md, section 2."""
    match concepts:
        case FiniteClass():
            return _by_matrix(concepts, users)
        case PointClass():
            return point_mistakes(concepts, users)
        case ThresholdClass():
            return ThresholdSweeps.of(concepts, users)
        case _:
            assert_never(concepts)


def mistakes_in(concepts: OneClass, sample: UserSample) -> Mistakes:
    """The mistakes of the users of a sample."""
    known = for_users(concepts)
    return mistakes_of(known, users_of(sample, known.points))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _OfMatrix:
    """`often[f, a]`: how many users make a mistakes by f."""

    users: int
    often: Ints

    def beyond(self, level: int) -> ErrorCounts:
        return ErrorCounts(self.often[:, level + 1 :].sum(axis=1), np.ones(len(self.often), dtype=np.int64))


def _by_matrix(concepts: FiniteClass, users: Users) -> _OfMatrix:
    """a_i(f) = positives of i + sum over points of f(x) (zeros - ones of i at x)."""
    m, size = users.examples, concepts.size
    matrix = concepts.matrix.T
    often = np.zeros(size * (m + 1), dtype=np.int64)
    wide = min(size, CELLS_AT_ONCE // concepts.points + 1)
    for first in range(0, size, wide):
        part = matrix[:, first : first + wide].astype(np.int32)
        columns = np.arange(first, first + part.shape[1], dtype=np.int64) * (m + 1)
        step = max(1, CELLS_AT_ONCE // max(part.shape[1], m))
        for at in range(0, len(users), step):
            x, y = users.points[at : at + step].astype(np.int64), users.labels[at : at + step].astype(np.int32)
            ends = np.arange(0, x.size + 1, m)
            signs = csr_array(((1 - 2 * y).reshape(-1), x.reshape(-1), ends), shape=(len(x), concepts.points))
            found = signs @ part + y.sum(axis=1, dtype=np.int32)[:, None]
            often += np.bincount((found + columns).reshape(-1), minlength=len(often))
    return _OfMatrix(len(users), often.reshape(size, m + 1))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PointMistakes:
    """By points. `ones`: of each user; and of each pair of a user and a point among the examples: `owners`, the place
    `at` of the point in `seen`, and the user's `mistakes` by it."""

    points: int
    ones: Ints
    seen: npt.NDArray[np.uint64]
    owners: Ints
    at: Ints
    mistakes: Ints

    @property
    def users(self) -> int:
        """How many there are."""
        return len(self.ones)

    def beyond(self, level: int) -> ErrorCounts:
        """By a point that a user does not have, the mistakes are the user's ones."""
        elsewhere = int((self.ones > level).sum())
        change = (self.mistakes > level).astype(np.int64) - (self.ones[self.owners] > level)
        moved = np.zeros(len(self.seen), dtype=np.int64)
        np.add.at(moved, self.at, change)
        rest = self.points - len(self.seen)
        counts = np.ones(len(self.seen) + 1, dtype=counted_in(self.points))
        counts[-1] = rest
        held = len(counts) if rest else len(self.seen)
        return ErrorCounts(np.append(elsewhere + moved, elsewhere)[:held], counts[:held], first=self.seen)


def point_mistakes(concepts: PointClass, users: Users) -> PointMistakes:
    """By every point, of the users who have it."""
    n, m = users.points.shape
    seen, places = np.unique(users.points, return_inverse=True)
    pairs = np.repeat(np.arange(n, dtype=np.int64), m) * max(1, len(seen)) + places.reshape(-1)
    distinct, which = np.unique(pairs, return_inverse=True)
    signs = (1 - 2 * users.labels.astype(np.int64)).reshape(-1)
    ones = users.labels.sum(axis=1, dtype=np.int64)
    moved = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(moved, which.reshape(-1), signs)
    owners, at = np.divmod(distinct, max(1, len(seen)))
    return PointMistakes(concepts.points, ones, seen, owners, at, ones[owners] + moved)
