"""How rich a class is: shattered sets, VC dimension and growth, exactly for finite matrices, and Sauer's bound.

>>> from dpledger.mechanisms.learning.theory.concepts import ParityClass, ThresholdClass, matrix_of
>>> vc_dim(matrix_of(ParityClass(3)))
VCDimension(dimension=3, witness=(1, 2, 4))
>>> growth(matrix_of(ThresholdClass(8)), 3), sauer(1, 3), vc_union(1, 2)
(4, 4, 3)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dpledger.decimals import whole
from dpledger.errors import WorkLimit
from dpledger.mechanisms.learning.theory.concepts import matrix_from

__all__ = ["VCDimension", "growth", "is_shattered", "sauer", "vc_dim", "vc_union"]

Matrix = npt.NDArray[np.bool_]

WORK = 10**7  # cells that are split, or patterns that are compared


@dataclass(frozen=True, slots=True)
class VCDimension:
    """The dimension, and as many points that are shattered."""

    dimension: int
    witness: tuple[int, ...]


def is_shattered(matrix: object, points: Sequence[int]) -> bool:
    """Whether the concepts (rows) label these points (columns) in every way."""
    rows = matrix_from(matrix)
    chosen = [whole(point, field="points", most=rows.shape[1] - 1) for point in points]
    return len(np.unique(rows[:, chosen], axis=0)) == 2 ** len(chosen) if chosen else True


def vc_dim(matrix: object, *, work_limit: int = WORK) -> VCDimension:
    """The VC dimension of the concepts (rows), with points that attest it.

    Claim: exact. A set of k points is shattered where it parts the distinct concepts into 2^k cells, none empty; a cell
    of s concepts is shattered by at most log2 s further points. Raises WorkLimit, which says what is known, once more
    than `work_limit` cells were split. Source: docs/proofs/learning_pac.md, "VC dimension"."""
    rows = np.unique(matrix_from(matrix), axis=0)
    limit = whole(work_limit, field="work_limit", least=1)
    search = _Search(columns=_columns(rows), most=len(rows).bit_length() - 1, left=limit)
    search.deeper([(1 << len(rows)) - 1], 0, ())
    return VCDimension(len(search.best), tuple(sorted(search.best)))


@dataclass(slots=True)
class _Search:
    """`columns`: (point, the set of concepts that hold it), of each pair of complements one."""

    columns: list[tuple[int, int]]
    most: int
    left: int
    best: tuple[int, ...] = field(default=())

    def deeper(self, cells: list[int], start: int, chosen: tuple[int, ...]) -> None:
        """Every shattered set that goes on from `chosen` and may be larger than the best."""
        if len(chosen) > len(self.best):
            self.best = chosen
        for at in range(start, len(self.columns)):
            missing = len(self.best) + 1 - len(chosen)  # points that a larger set must still take
            if len(self.best) == self.most or len(self.columns) - at < missing:
                return
            point, holders = self.columns[at]
            halves = self._split(cells, holders, 1 << (missing - 1))
            if halves is not None:
                self.deeper(halves, at + 1, (*chosen, point))

    def _split(self, cells: list[int], holders: int, least: int) -> list[int] | None:
        """Each cell in two; None where one is of fewer than `least` concepts."""
        halves = []
        for cell in cells:
            self.left -= 1
            inside = cell & holders
            outside = cell ^ inside
            if inside.bit_count() < least or outside.bit_count() < least:
                break
            halves += [inside, outside]
        if self.left < 0:
            raise WorkLimit(f"the VC dimension is from {len(self.best)} to {self.most}: the work limit ends the search")
        return halves if len(halves) == 2 * len(cells) else None


def _columns(rows: Matrix) -> list[tuple[int, int]]:
    """The columns that differ from all others, from their complements, and from the constants; the most even first."""
    found: dict[int, int] = {}
    everyone = (1 << len(rows)) - 1
    for point in range(rows.shape[1]):
        holders = int.from_bytes(np.packbits(rows[:, point], bitorder="little").tobytes(), "little")
        if 0 < holders < everyone:
            found.setdefault(min(holders, everyone ^ holders), point)
    evenly = sorted(found.items(), key=lambda one: (-min(one[0].bit_count(), len(rows) - one[0].bit_count()), one[1]))
    return [(point, holders) for holders, point in evenly]


def growth(matrix: object, points: int, *, work_limit: int = WORK) -> int:
    """In how many ways the concepts label that many points at most. Claim: exact, by all sets of columns."""
    rows = np.unique(matrix_from(matrix), axis=0)
    k = whole(points, field="points", most=rows.shape[1])
    if k > 62:
        raise WorkLimit("the growth is computed for at most 62 points")
    if math.comb(rows.shape[1], k) * len(rows) > whole(work_limit, field="work_limit", least=1):
        raise WorkLimit(f"{math.comb(rows.shape[1], k)} sets of {k} points are beyond the work limit")
    powers = np.int64(1) << np.arange(k, dtype=np.int64)
    sets = itertools.combinations(range(rows.shape[1]), k)
    return max(len(np.unique(rows[:, list(chosen)].astype(np.int64) @ powers)) for chosen in sets)


def sauer(vc: int, points: int) -> int:
    """sum over i <= vc of C(points, i); 2^points up to vc (a slide of Nissim 2017 has 2^vc there).

    Claim: at least the growth of every class of that VC dimension. Source: Sauer 1972."""
    dimension, n = whole(vc, field="vc"), whole(points, field="points")
    return sum(math.comb(n, i) for i in range(min(dimension, n) + 1))


def vc_union(vc: int, classes: int) -> int:
    """The largest k with 2^k <= classes sauer(vc, k).

    Claim: at least the VC dimension of the union of so many classes, each of VC dimension at most vc.
    Source: Li-Wang-Ye 2024, lemma 3.3; docs/proofs/learning_pac.md, "Unions"."""
    dimension, many = whole(vc, field="vc"), whole(classes, field="classes", least=1)
    k = dimension
    while 1 << (k + 1) <= many * sauer(dimension, k + 1):
        k += 1
    return k
