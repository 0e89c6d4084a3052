"""A statistic of each group: the statistics of rows, side by side for many groups, in one release.

One unit's rows are spread over the groups, so what bounds it is how many rows it has in all of them together: a
statistic of groups is that of rows, for a unit that adds or removes so many (twice as many where a unit is exchanged:
so many go, and so many come). Each group's numbers get noise of their own. Proof: docs/proofs/groups.md, section 3.

>>> each = GroupStatistic(Count(epsilon=1, of="rows")).placed(rows=4)
>>> each.epsilon, each.parts().kind, [law.scale for law, _ in each.noises()]
(Decimal('1'), 'discrete_laplace', [Decimal('4')])
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Self, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.frames import Column, numbers_at
from dpledger.mechanisms.noise import Law, Sensitivity, draw
from dpledger.mechanisms.numeric.clipped_mean import ClippedMean, MeanEstimate
from dpledger.mechanisms.numeric.one_shot import ShortText
from dpledger.mechanisms.numeric.statistics import Count, Histogram
from dpledger.mechanisms.statistics.sums import ClippedSum
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, record, tag

__all__ = ["GroupStatistic", "Statistic"]

Statistic: TypeAlias = Count | ClippedSum | ClippedMean | Histogram
"""What can be released by group."""

Wholes: TypeAlias = npt.NDArray[Any]
"""Whole numbers: int64, or Python's own where one may not fit."""

Floats: TypeAlias = npt.NDArray[np.float64]

_BLOCK = 2**18  # rows at a time: their values stay in the cache
_HALF = 26  # bits of the lower half of a value in steps, which has up to 52: sums of 2^27 of them are exact floats
_SMALL = 2**62  # whole numbers below it fit


@record
class GroupStatistic:
    """A statistic by groups, of a column (None: of whole rows)."""

    statistic: Statistic
    column: ShortText | None = given(default=None)
    kind: Literal["group_statistic"] = tag(default="group_statistic")

    def __post_init__(self) -> None:
        of_rows = isinstance(self.statistic, Count) and self.statistic.of == "rows"
        if of_rows is not (self.column is None):
            named = f"{self.statistic.kind} {'with' if of_rows else 'without'} a column"
            raise ParameterError("column", named, "a pair (column, statistic); Count(of='rows') alone")
        if isinstance(self.statistic, Histogram) and self.statistic.edges is None:
            raise ParameterError("categories", "those of a column by group", "a Count by two columns, or edges")

    def placed(self, *, rows: int) -> Self:
        """The same where so many rows of one unit go or come, in all groups together. ParameterError where it has no
        noise for so many."""
        return dataclasses.replace(
            self, statistic=self.statistic.under(Relation.ADD_REMOVE, Unit(max_contributions=rows))
        )

    @property
    def epsilon(self) -> Decimal:
        """What it costs a unit in all groups together."""
        return self.statistic.epsilon

    @property
    def name(self) -> str:
        """What it is called."""
        match self.statistic:
            case Count(of="rows"):
                return "count"
            case Count():
                return f"{self.column}_count"
            case ClippedSum():
                return f"{self.column}_sum"
            case ClippedMean():
                return f"{self.column}_mean"
            case Histogram():
                return f"{self.column}_histogram"
            case _:
                assert_never(self.statistic)

    @property
    def names(self) -> tuple[str, ...]:
        """What its columns are called in a frame: one for each interval of a histogram."""
        if isinstance(self.statistic, Histogram):
            return tuple(f"{self.column}_{label}" for label in self.statistic.labels())
        return (self.name,)

    def parts(self) -> Composition:
        """Its leaves."""
        return self.statistic.parts()

    def parameters(self) -> Mapping[str, Plain]:
        """Of the statistic, with its kind and its column."""
        column: dict[str, Plain] = {} if self.column is None else {"column": self.column}
        return {"kind": self.statistic.kind, **column, **self.statistic.parameters()}

    def values_read_as(self) -> tuple[str, ...]:
        """What odd values of its column count as."""
        alone = dataclasses.replace(self.statistic, unit=None)  # of a unit's rows as many count as may
        return tuple(f"{self.name}: {told}" for told in alone.values_read_as())

    def noises(self) -> tuple[tuple[Law, Sensitivity], ...]:
        """The noise of each of a group's numbers, and how far one unit moves that number, in all groups together."""
        return self.statistic.noises()

    def released(self, groups: Groups, column: Column | None, *, entropy: Entropy) -> tuple[tuple[int, ...], ...]:
        """The noisy numbers of each group: those that noise was added to."""
        exact = self._exact(groups, column)
        noisy = [
            draw(law, numbers, sensitivity=moved, entropy=entropy)
            for numbers, (law, moved) in zip(exact, self.noises(), strict=True)
        ]
        return tuple(zip(*(numbers.tolist() for numbers in noisy), strict=True))

    def estimates(self, numbers: tuple[int, ...]) -> dict[str, int | float | MeanEstimate]:
        """What the noisy numbers of a group say, by name."""
        match self.statistic:
            case Count() | Histogram():
                return dict(zip(self.names, numbers, strict=True))
            case ClippedSum():
                return {self.name: self.statistic.in_units(numbers[0])}
            case ClippedMean():
                total, count = numbers
                return {self.name: self.statistic.value_of((total, count))}
            case _:
                assert_never(self.statistic)

    def interval(self, name: str, numbers: tuple[int, ...], confidence: Number) -> tuple[float, float]:
        """Two numbers that hold what the name says of the group's rows that count with at least this probability."""
        match self.statistic:
            case Count() | Histogram():
                value, slack = numbers[self.names.index(name)], self.statistic.interval(confidence)
                return value - slack, value + slack
            case ClippedSum():
                total, within = self.statistic.in_units(numbers[0]), self.statistic.interval(confidence)
                return total - within, total + within
            case ClippedMean():
                steps, count = numbers
                return self.statistic.value_of((steps, count)).interval(confidence)
            case _:
                assert_never(self.statistic)

    def _exact(self, groups: Groups, column: Column | None) -> tuple[Wholes, ...]:
        match self.statistic:
            case Count(of="rows"):
                return (groups.sizes(),)
            case Count():
                assert column is not None, "true rows are counted of a column"
                return (groups.trues(column),)
            case ClippedSum():
                assert column is not None, "a sum is of a column"
                values = self.statistic.values
                return (groups.totals(column, values.whole, values.missing),)
            case ClippedMean():
                assert column is not None, "a mean is of a column"
                distances = self.statistic.values
                return groups.totals(column, distances.steps, distances.missing), groups.sizes()
            case Histogram():
                assert column is not None, "a histogram is of a column"
                return tuple(groups.spread(column, self.statistic.places, len(self.statistic.labels())))
            case _:
                assert_never(self.statistic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Which rows count and where: `rows`, their positions (None: all of them); `codes`, the group of each, from 0, -1
    for a row of none; `count`, how many groups there are."""

    rows: npt.NDArray[np.int64] | None
    codes: npt.NDArray[np.int64]
    count: int

    def sizes(self) -> Wholes:
        """How many rows each group has."""
        return self._counted(self.codes)

    def trues(self, column: Column) -> Wholes:
        """How many true rows each group has."""
        found = np.zeros(self.count, dtype=np.int64)
        for codes, rows in self._blocks():
            found += self._counted(codes[numbers_at(column, rows, missing=0.0) == 1.0])
        return found

    def spread(self, column: Column, places_of: Callable[[Floats], Wholes], count: int) -> Wholes:
        """How many rows each group has in each of so many places, by a row a place; others count nowhere."""
        found = np.zeros((count, self.count), dtype=np.int64)
        for codes, rows in self._blocks():
            places = places_of(numbers_at(column, rows, missing=math.nan))
            for place in range(count):
                found[place] += self._counted(codes[places == place])
        return found

    def totals(self, column: Column, steps_of: Callable[[Floats], Wholes], missing: Decimal) -> Wholes:
        """The sum of each group's values in whole steps of at most 52 bits, exactly: by halves of theirs, as floats."""
        high, low = np.zeros(self.count, dtype=np.int64), np.zeros(self.count, dtype=np.int64)
        for codes, rows in self._blocks():
            steps = steps_of(numbers_at(column, rows, missing=float(missing)))
            high += self._summed(codes, steps >> _HALF)
            low += self._summed(codes, steps & (1 << _HALF) - 1)
        found: Wholes = high.astype(object) * 2**_HALF + low.astype(object)
        return found.astype(np.int64) if max(map(abs, found), default=0) < _SMALL else found

    def _summed(self, codes: Wholes, weights: Wholes) -> Wholes:
        return np.bincount(codes + 1, weights=weights, minlength=self.count + 1)[1:].astype(np.int64)

    def _counted(self, codes: Wholes) -> Wholes:
        return np.bincount(codes + 1, minlength=self.count + 1)[1:].astype(np.int64)

    def _blocks(self) -> Iterator[tuple[Wholes, slice | npt.NDArray[np.int64]]]:
        size = max(_BLOCK, self.count)
        for start in range(0, len(self.codes), size):
            part = slice(start, start + size)
            yield self.codes[part], part if self.rows is None else self.rows[part]
