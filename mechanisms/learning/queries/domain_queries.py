"""Queries of numbered points and labels, told by their values: the records are counted once, for however many queries.

What a query comes to is a sum over cells (point and label) of the records there, times its value in whole steps: the
same whole number as of the records one by one.

>>> from decimal import Decimal
>>> below = DomainQuery([[1, 1, 0], [0, 0, 0]])  # 1[x < 2 and y = 0]
>>> below([0, 1, 2, 0], [0, 1, 0, 0]).tolist()
[1.0, 0.0, 0.0, 1.0]
>>> Records([0, 1, 2, 0], [0, 1, 0, 0], 4).sums([below], QueryRange(low=Decimal(0), high=Decimal(1), grid=Decimal(1)))
[2]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError
from dpledger.mechanisms.learning.queries.ranges import QueryRange
from dpledger.mechanisms.learning.samples import labels_of, points_of
from dpledger.mechanisms.numeric.rows import check_column

__all__ = ["DomainQuery", "Records"]

MOST_POINTS = 2**24
_CELLS_AT_ONCE = 2**22  # of values that are multiplied
_EXACT_IN_FLOAT = 2**53
_KINDS = "biuf"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class DomainQuery:
    """A query by its value at each point of {0..points-1}: a matrix of two rows, those of label 0 and of label 1, with
    a column for each point. Public, finite numbers; at most 2^24 points.

    It is a function of rows and labels like every query, which are read as those of a `LabeledSample` are: a row is the
    nearest point, one that is no number is the null record and counts as the low end of the oracle's range. Many such
    queries on the same points cost one look at the records. ParameterError for any other matrix. Rows with columns are
    no points: asked of such, it is a query that raises.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> oracle = dpl.learning.StatisticalQueryOracle(epsilon=40, queries=2, values="whole")
    >>> run = oracle.open(dpl.learning.LabeledSample([0, 1, 2, 2] * 50, [0, 1, 0, 1] * 50), entropy=seeded(1))
    >>> [run.ask(dpl.learning.DomainQuery(values)) for values in ([[1, 1, 0], [1, 1, 0]], [[0, 0, 0], [1, 1, 1]])]
    [100, 100]
    """

    values: Floats

    def __init__(self, values: object) -> None:
        object.__setattr__(self, "values", _two_rows(values))

    def __repr__(self) -> str:
        return f"DomainQuery(points={self.points})"

    @property
    def points(self) -> int:
        """How many points the domain has."""
        return int(self.values.shape[1])

    def __call__(self, x: object, y: object) -> Floats:
        """The value of each record; NaN of the null record."""
        check_column(x)
        found = points_of(x, self.points)
        values: Floats = self.values[labels_of(y), found.points.astype(np.intp)]
        return np.where(found.known, values, np.nan)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Records:
    """The records that a query is asked of, which are `rows` many. Shows nothing of them."""

    x: Any
    y: Any
    rows: int
    _counted: dict[int, _Cells] = field(default_factory=dict, init=False)

    def sums(self, queries: Sequence[Callable[[Any, Any], Any]], unit: QueryRange) -> list[int]:
        """What each query comes to, in steps. Raises whatever a query of the caller's raises.

        Claim: of a `DomainQuery` the same as of its values record by record.
        Source: docs/proofs/learning_queries.md, "Cells"."""
        on_points: dict[int, list[int]] = {}
        found = [0] * len(queries)
        for place, query in enumerate(queries):
            if isinstance(query, DomainQuery):
                on_points.setdefault(query.points, []).append(place)
            else:
                found[place] = unit.total(query(self.x, self.y), rows=self.rows)
        for points, places in on_points.items():
            values = [query.values for query in map(queries.__getitem__, places) if isinstance(query, DomainQuery)]
            for place, total in zip(places, self._cells(points).sums(values, unit), strict=True):
                found[place] = total
        return found

    def _cells(self, points: int) -> _Cells:
        """The counts, kept: threads that count at once come to the same."""
        if points not in self._counted:
            self._counted[points] = _Cells.of(self, points)
        return self._counted[points]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _Cells:
    """How many records there are of each label at each point, in one row, and how many are null."""

    counts: npt.NDArray[np.int64]
    nulls: int

    @classmethod
    def of(cls, records: Records, points: int) -> _Cells:
        check_column(records.x)  # of rows with columns no cell is meant
        read = points_of(records.x, points)
        at = labels_of(records.y).astype(np.intp) * points + read.points.astype(np.intp)
        counts = np.bincount(at[read.known], minlength=2 * points).astype(np.int64)
        return cls(counts, int(np.count_nonzero(~read.known)))

    def sums(self, values: Sequence[Floats], unit: QueryRange) -> list[int]:
        """Exact, in any order: whole numbers, in floats where these hold every partial sum."""
        nulls = self.nulls * int(unit.steps(np.array([np.nan]))[0])
        if (int(self.counts.sum()) + 1) * unit.reach >= _EXACT_IN_FLOAT:
            present = np.flatnonzero(self.counts)
            many = self.counts[present].tolist()
            steps = (unit.steps(one.reshape(-1)[present]).tolist() for one in values)
            return [nulls + sum(map(int.__mul__, many, row)) for row in steps]
        counts, found = self.counts.astype(np.float64), list[int]()
        at_once = max(1, _CELLS_AT_ONCE // len(counts))
        for start in range(0, len(values), at_once):
            block = np.stack([unit.steps(one.reshape(-1)) for one in values[start : start + at_once]])
            found += [nulls + int(total) for total in block.astype(np.float64) @ counts]
        return found


def _two_rows(given: object) -> Floats:
    rows: npt.NDArray[Any] = np.zeros(0)
    if isinstance(given, np.ndarray | list | tuple):
        with suppress(ValueError, TypeError, OverflowError):  # ragged, or numbers beyond every type
            rows = np.asarray(given)
    if rows.ndim != 2 or len(rows) != 2 or rows.dtype.kind not in _KINDS or not 0 < rows.shape[1] <= MOST_POINTS:
        expected = "a matrix of two rows of numbers, for labels 0 and 1, with a column for each of 1 to 2^24 points"
        raise ParameterError("values", type(given).__name__, expected)
    with np.errstate(all="ignore"):
        found = np.array(rows, dtype=np.float64)
    if not np.isfinite(found).all():
        raise ParameterError("values", "a number that is not finite", "finite numbers")
    found.setflags(write=False)
    return found
