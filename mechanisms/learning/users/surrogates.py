"""The scores of hypotheses outside the class, among users: how few some concept near the hypothesis fails.

    Q(h) = min over f of (users with more than `level` mistakes by f + users with an example on which h and f differ)

One user moves each of these sums by at most two, whatever the examples are; by at most one where labels alone change;
all of them in one direction where a user comes or goes. Source: Li-Wang-Ye 2024, theorem 4.6.

>>> from dpledger.mechanisms.learning.samples import UserSample
>>> from dpledger.mechanisms.learning.users.mistakes import mistakes_of
>>> from dpledger.mechanisms.learning.users.reading import users_of
>>> two, every = FiniteClass([[0, 0], [1, 1]]), FiniteClass([[0, 0], [0, 1], [1, 0], [1, 1]])
>>> users = users_of(UserSample(np.array([[0, 1], [1, 1]]), np.array([[1, 0], [1, 1]])), 2)
>>> matrix_scores(two, every, users, mistakes_of(two, users).beyond(1)).tolist()
[1, 1, 2, 0]
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.learning.error_counts import ErrorCounts
from dpledger.mechanisms.learning.representations.representations import HashedPointRepresentation
from dpledger.mechanisms.learning.theory.concepts import FiniteClass
from dpledger.mechanisms.learning.users.mistakes import PointMistakes
from dpledger.mechanisms.learning.users.reading import Users

__all__ = ["hashed_user_scores", "matrix_scores"]

Ints: TypeAlias = npt.NDArray[np.int64]

PAIRS_AT_ONCE = 2**22


def matrix_scores(concepts: FiniteClass, hypotheses: FiniteClass, users: Users, failed: ErrorCounts) -> Ints:
    """Q of every hypothesis, for two classes on the same points; `failed`: the users by each concept.

    Claim: exact. Users with the same set of points count together."""
    held = np.zeros((len(users), concepts.points), dtype=np.bool_)
    np.put_along_axis(held, users.points.astype(np.int64), True, axis=1)
    sets, many = np.unique(np.packbits(held, axis=1), axis=0, return_counts=True)
    both = np.concatenate([hypotheses.matrix, concepts.matrix])
    differ = np.zeros((hypotheses.size, concepts.size), dtype=np.int64)
    for bits, times in zip(sets, many.tolist(), strict=True):
        at = np.unpackbits(bits, count=concepts.points).astype(bool)
        _, names = np.unique(np.packbits(both[:, at], axis=1), axis=0, return_inverse=True)
        names = names.reshape(-1)
        differ += times * (names[: hypotheses.size, None] != names[None, hypotheses.size :])
    return np.asarray((failed.errors[None, :] + differ).min(axis=1), dtype=np.int64)


def hashed_user_scores(hashed: HashedPointRepresentation, found: PointMistakes, level: int) -> Ints:
    """Q of every cell of every hash, for the class of all points.

    With E the users whom a point fails, D those with an example in the cell, U those with the point, J those with both,
    o those whose examples in the point's cell are all that point: E + D - o for a point of the cell, E + D + U - J for
    another. A point that nobody has differs from nothing but the cell. Claim: exact.
    Source: docs/proofs/learning_users.md, section 5."""
    failed = found.beyond(level)
    copies = (hashed.cells(found.seen, copy=copy) for copy in range(hashed.copies))
    return np.concatenate([_of_cells(cells, hashed.cells_each, found, failed) for cells in copies])


def _of_cells(cells: Ints, many: int, found: PointMistakes, failed: ErrorCounts) -> Ints:
    """Q of so many cells; `cells`: those of the points that occur."""
    seen, owners, at = found.seen, found.owners, found.at
    in_cells, which, alone = np.unique(owners * many + cells[at], return_inverse=True, return_counts=True)
    holders, held = np.divmod(in_cells, many)
    inside = np.bincount(held, minlength=many)
    own = np.bincount(at[alone[which.reshape(-1)] == 1], minlength=len(seen))
    having = np.bincount(at, minlength=len(seen))
    by_point = failed.errors[: len(seen)]
    candidates = [*failed.errors[len(seen) :].tolist(), *([int((by_point + having).min())] if len(seen) else [])]
    most = np.full(many, min(candidates), dtype=np.int64)  # Q less D, from above
    if len(seen):
        np.minimum.at(most, cells, by_point - own)
        _lowered(most, by_point, having, np.flatnonzero(by_point < most.max()), (owners, at), (holders, held))
    return most + inside


def _lowered(
    most: Ints,
    by_point: Ints,
    having: Ints,
    points: Ints,
    pairs: tuple[Ints, Ints],
    in_cells: tuple[Ints, Ints],
) -> None:
    """E + U - J of `points` and the cells that somebody has beside them; of the point's own cell it is no less than Q.
    The users of one point stay together, so that J is whole."""
    (owners, at), (holders, held) = pairs, in_cells
    wanted = np.zeros(len(by_point), dtype=np.bool_)
    wanted[points] = True
    kept = wanted[at]
    owners, at = owners[kept], at[kept]
    order = np.argsort(at, kind="stable")
    owners, at = owners[order], at[order]
    first, last = np.searchsorted(holders, owners), np.searchsorted(holders, owners, side="right")
    passed = np.cumsum(last - first)
    ends = np.flatnonzero(np.append(at[1:] != at[:-1], True)) + 1 if len(at) else np.zeros(0, dtype=np.int64)
    start = 0
    while start < len(at):
        before = int(passed[start - 1]) if start else 0
        fits = int(np.searchsorted(passed[ends - 1], before + PAIRS_AT_ONCE, side="right"))
        end = int(ends[max(fits - 1, int(np.searchsorted(ends, start, side="right")))])
        sizes = (last - first)[start:end]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        beside = held[np.repeat(first[start:end], sizes) + within]
        found, both = np.unique(np.repeat(at[start:end], sizes) * len(most) + beside, return_counts=True)
        point, cell = np.divmod(found, len(most))
        np.minimum.at(most, cell, by_point[point] + having[point] - both)
        start = end
