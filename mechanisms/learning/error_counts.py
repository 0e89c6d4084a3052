"""How many records each concept of a class labels otherwise, in segments of concepts that err equally often.

Whole numbers alone: the order of the rows cannot matter, and one record moves each count by at most one. Null records
count nowhere. Claim: each count is the number of records of the sample with h(x) != y, null records left out. Source:
docs/proofs/learning_pac.md, "Counts".

>>> found = of_thresholds(2**64, LabeledSample([5, 9], [1, 0]))
>>> found.errors.tolist(), [int(many) for many in found.counts]
([1, 0, 1], [6, 4, 18446744073709551607])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.errors import WorkLimit
from dpledger.mechanisms.learning.samples import LabeledSample, Words, bits_of, labels_of, points_of

__all__ = [
    "MOST_PARITY_BITS",
    "ErrorCounts",
    "both",
    "by_point",
    "counted_in",
    "of_matrix",
    "of_parities",
    "of_points",
    "of_thresholds",
]

Ints: TypeAlias = npt.NDArray[np.int64]

MOST_PARITY_BITS = 26
CELLS_AT_ONCE = 2**24  # of a matrix that is multiplied in doubles, which hold every count


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ErrorCounts:
    """`errors`: of the concepts of each segment; `counts`: how many there are (int64, or Python integers). The segments
    in a row hold the places of the class in order; with `first`, sorted places that are a segment each and come before
    all others."""

    errors: Ints
    counts: npt.NDArray[Any]
    first: Words | None = None

    def by_errors(self) -> npt.NDArray[Any]:
        """How many concepts err so often: entry k is of `least` + k errors."""
        totals = np.zeros(int(self.errors.max()) - self.least + 1, dtype=self.counts.dtype)
        np.add.at(totals, self.errors - self.least, self.counts)
        return totals

    @property
    def least(self) -> int:
        """The fewest errors of a segment."""
        return int(self.errors.min())

    def member(self, errors: int, rank: int) -> int:
        """The place in the class of concept number `rank` of those with so many errors."""
        segments = np.flatnonzero(self.errors == errors)
        passed = np.cumsum(self.counts[segments])
        which = int(np.searchsorted(passed, rank, side="right"))
        segment = int(segments[which])
        before = int(self.counts[:segment].sum()) + rank - (int(passed[which - 1]) if which else 0)
        return self.place(before)

    def ranked(self, totals: npt.NDArray[Any], rank: int) -> int:
        """The place in the class of concept number `rank` of all, those with the fewest errors first; `totals`: what
        `by_errors` says."""
        passed = np.cumsum(totals)
        more = int(np.searchsorted(passed, rank, side="right"))
        return self.member(self.least + more, rank - (int(passed[more - 1]) if more else 0))

    def place(self, found: int) -> int:
        """The place in the class of the concept that is number `found` of all segments in a row."""
        if self.first is None:
            return found
        if found < len(self.first):
            return int(self.first[found])
        rank = found - len(self.first)  # among the places that are not in `first`
        low, high = 0, len(self.first)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if int(self.first[middle]) - middle <= rank else (low, middle)
        return rank + low


def both(first: ErrorCounts, second: ErrorCounts) -> ErrorCounts:
    """Of the concepts of two classes, those of the first before the others; each in segments alone."""
    counts = np.concatenate([first.counts, second.counts])
    return ErrorCounts(np.concatenate([first.errors, second.errors]), counts)


def counted_in(size: int) -> npt.DTypeLike:
    """The type in which concepts are counted of which there are so many: int64 where it holds all of them together, for
    counts are added; else Python integers. Of the class alone, never of how a sample divides it."""
    return np.int64 if size < 2**63 else object


def _known(sample: LabeledSample, points: int) -> tuple[Words, npt.NDArray[np.uint8]]:
    found = points_of(sample.x, points)
    return found.points[found.known], labels_of(sample.y)[found.known]


def by_point(sample: LabeledSample, points: int) -> tuple[Words, Ints, Ints]:
    """The points that occur, in order, and how many records of label 0 and of label 1 each has."""
    x, y = _known(sample, points)
    seen, at = np.unique(x, return_inverse=True)
    ones = np.bincount(at[y == 1], minlength=len(seen)).astype(np.int64)
    zeros = np.bincount(at[y == 0], minlength=len(seen)).astype(np.int64)
    return seen, zeros, ones


def of_matrix(matrix: npt.NDArray[np.bool_], sample: LabeledSample) -> ErrorCounts:
    """Of the rows of a matrix."""
    size, points = matrix.shape
    x, y = _known(sample, points)
    signs = 1 - 2 * y.astype(np.int64)
    weights = np.zeros(points, dtype=np.int64)
    np.add.at(weights, x.astype(np.intp), signs)
    held, step = weights.astype(np.float64), max(1, CELLS_AT_ONCE // points)
    found = [matrix[at : at + step].astype(np.float64) @ held for at in range(0, size, step)]
    errors = np.rint(np.concatenate(found)).astype(np.int64) + int(y.sum(dtype=np.int64))
    return ErrorCounts(errors, np.ones(size, dtype=np.int64))


def of_points(points: int, sample: LabeledSample) -> ErrorCounts:
    """c_j errs on the ones elsewhere and on the zeros at j; whoever did not occur, on all ones."""
    seen, zeros, ones = by_point(sample, points)
    every, rest = int(ones.sum()), points - len(seen)
    errors = np.append(every - ones + zeros, every)
    counts = np.ones(len(seen) + 1, dtype=counted_in(points))
    counts[-1] = rest
    return ErrorCounts(errors, counts, first=seen)


def of_thresholds(points: int, sample: LabeledSample, *, both_ways: bool = False) -> ErrorCounts:
    """Of 1[x < u]; with `both_ways` those of 1[x >= u] after them."""
    seen, zeros, ones = by_point(sample, points)
    wide = counted_in((points + 1) * (2 if both_ways else 1))
    below = _below(points, seen, zeros, ones, wide)
    return both(below, _below(points, seen, ones, zeros, wide)) if both_ways else below


def _below(points: int, seen: Words, zeros: Ints, ones: Ints, wide: npt.DTypeLike) -> ErrorCounts:
    """Between two points that occur, c_u errs on the zeros below u and the ones from u on."""
    errors = int(ones.sum()) + np.concatenate([[0], np.cumsum(zeros - ones)]).astype(np.int64)
    ends = [np.array([-1], dtype=wide), seen.astype(wide), np.array([points], dtype=wide)]
    return ErrorCounts(errors, np.diff(np.concatenate(ends)))


def of_parities(dimension: int, sample: LabeledSample) -> ErrorCounts:
    """c_r errs on (n - W_r)/2 records, W the Walsh-Hadamard transform of the sums of (-1)^y at each point. WorkLimit
    where there are too many."""
    if dimension > MOST_PARITY_BITS:
        raise WorkLimit(f"parities of {dimension} bits: each is weighed, of at most {MOST_PARITY_BITS} bits")
    rows = bits_of(sample.x, dimension)
    bits, y = rows.bits[rows.known], labels_of(sample.y)[rows.known]
    at = bits.astype(np.int64) @ (np.int64(1) << np.arange(dimension, dtype=np.int64))
    wave = np.zeros(1 << dimension, dtype=np.int64)
    np.add.at(wave, at, 1 - 2 * y.astype(np.int64))
    half = 1
    while half < len(wave):
        pairs = wave.reshape(-1, 2, half)
        low = pairs[:, 0, :].copy()
        pairs[:, 0, :] += pairs[:, 1, :]
        np.subtract(low, pairs[:, 1, :], out=pairs[:, 1, :])
        half *= 2
    return ErrorCounts((len(y) - wave) // 2, np.ones(len(wave), dtype=np.int64))
