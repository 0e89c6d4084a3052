"""How rich a class is: the VC dimension of a finite matrix, exactly, with a set that is shattered.

>>> from dpledger.mechanisms.learning.theory.concepts import ParityClass, matrix_of
>>> vc_dim(matrix_of(ParityClass(3)))
VCDimension(dimension=3, witness=(1, 2, 4))
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dpledger.decimals import whole
from dpledger.errors import WorkLimit
from dpledger.mechanisms.learning.theory.concepts import matrix_from

__all__ = ["VCDimension", "vc_dim"]

Matrix = npt.NDArray[np.bool_]

WORK = 10**7  # cells that are split, or patterns that are compared


@dataclass(frozen=True, slots=True)
class VCDimension:
    """The dimension, and as many points that are shattered."""

    dimension: int
    witness: tuple[int, ...]


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
            raise WorkLimit(
                f"the search ended at its work limit: the VC dimension is from {len(self.best)} to {self.most}"
            )
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
