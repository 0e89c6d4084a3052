"""The scores of hypotheses outside the class: how well some concept near the hypothesis does.

    Q(h) = min over f of (errors of f + records on which f and h differ)

One record moves each of these sums by at most two, and by at most one where its label alone changes; all of them in one
direction where it is added or removed. Source: Li-Wang-Ye 2024, theorem 3.4.

>>> from dpledger.mechanisms.learning.samples import LabeledSample
>>> two = FiniteClass([[0, 0], [1, 0], [1, 1]])
>>> every = FiniteClass([[0, 0], [0, 1], [1, 0], [1, 1]])
>>> surrogate_scores(two, every, LabeledSample([0, 0, 1, 1, 0], [1, 1, 1, 0, 0])).tolist()
[3, 5, 2, 2]
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.learning.error_counts import by_point
from dpledger.mechanisms.learning.representations.boosted import BoostedRepresentation, ones_of
from dpledger.mechanisms.learning.representations.representations import HashedPointRepresentation
from dpledger.mechanisms.learning.samples import LabeledSample, labels_of, points_of
from dpledger.mechanisms.learning.theory.concepts import FiniteClass

__all__ = ["boosted_errors", "boosted_scores", "hashed_errors", "hashed_scores", "surrogate_scores"]

Ints: TypeAlias = npt.NDArray[np.int64]

CELLS_AT_ONCE = 2**24


def surrogate_scores(concepts: FiniteClass, hypotheses: FiniteClass, sample: LabeledSample) -> Ints:
    """Q of every hypothesis, for two classes on the same points.

    Claim: exact. The products are of whole numbers below 2^53, in doubles."""
    found = points_of(sample.x, concepts.points)
    x, y = found.points[found.known].astype(np.intp), labels_of(sample.y)[found.known]
    ones = np.bincount(x[y == 1], minlength=concepts.points).astype(np.float64)
    every = np.bincount(x, minlength=concepts.points).astype(np.float64)
    matrix, others = concepts.matrix.astype(np.float64), hypotheses.matrix.astype(np.float64)
    errors = matrix @ (every - 2 * ones) + ones.sum()
    sizes, step = matrix @ every, max(1, CELLS_AT_ONCE // max(concepts.points, concepts.size))
    scores = [
        (errors + sizes + (part @ every)[:, None] - 2 * (part * every) @ matrix.T).min(axis=1)
        for part in (others[at : at + step] for at in range(0, len(others), step))
    ]
    least: Ints = np.rint(np.concatenate(scores)).astype(np.int64)
    return least


def hashed_scores(hashed: HashedPointRepresentation, sample: LabeledSample) -> Ints:
    """Q of every cell, for the class of all points: n1 + n(cell) - 2 max n1(j), j in the cell, where the cell holds a
    point of the domain; n1 + 2 min n0(j) where it holds none.

    Source: docs/proofs/learning_representations.md, section 3."""
    seen, zeros, ones = by_point(sample, 1 << hashed.dimension)
    least = int(zeros.min()) if len(seen) == 1 << hashed.dimension else 0
    every = int(ones.sum())
    found = []
    for copy in range(hashed.copies):
        cells = hashed.cells(seen, copy=copy)
        inside = np.zeros(hashed.cells_each, dtype=np.int64)
        most = np.zeros(hashed.cells_each, dtype=np.int64)
        np.add.at(inside, cells, ones + zeros)
        np.maximum.at(most, cells, ones)
        found.append(np.where(hashed.occupied(copy=copy), every + inside - 2 * most, every + 2 * least))
    return np.concatenate(found)


def hashed_errors(hashed: HashedPointRepresentation, sample: LabeledSample) -> Ints:
    """The errors of every cell: the ones elsewhere and the zeros in it."""
    seen, zeros, ones = by_point(sample, 1 << hashed.dimension)
    found = np.full(hashed.size, int(ones.sum()))
    for copy in range(hashed.copies):
        np.add.at(found, hashed.cells(seen, copy=copy) + (copy << hashed.bits), zeros - ones)
    return found


def boosted_scores(boosted: BoostedRepresentation, sample: LabeledSample) -> Ints:
    """Q of every majority, for the class of all points: n1 + |h| - 2 max n1(j), j among the points that occur with
    h(j) = 1, |h| the records there; n1 + 2 min n0(j) where there is none and all points occur, else n1.

    Source: docs/proofs/learning_representations.md, section 3."""
    seen, zeros, ones = by_point(sample, 1 << boosted.dimension)
    inside, most = np.zeros(boosted.size, dtype=np.int64), np.zeros(boosted.size, dtype=np.int64)
    somewhere = np.zeros(boosted.size, dtype=np.bool_)
    for number, where in enumerate(ones_of(boosted, seen)):
        inside[where] += ones[number] + zeros[number]
        most[where] = np.maximum(most[where], ones[number])
        somewhere |= where
    least = int(zeros.min()) if len(seen) == 1 << boosted.dimension else 0
    return int(ones.sum()) + np.where(somewhere, inside - 2 * most, 2 * least)


def boosted_errors(boosted: BoostedRepresentation, sample: LabeledSample) -> Ints:
    """The errors of every majority."""
    seen, zeros, ones = by_point(sample, 1 << boosted.dimension)
    found = np.full(boosted.size, int(ones.sum()))
    for number, where in enumerate(ones_of(boosted, seen)):
        found[where] += zeros[number] - ones[number]
    return found
