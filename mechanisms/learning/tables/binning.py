"""Bins of the columns of a table: public numbers and words that exist before the data, as a total map of rows.

A column of numbers with k edges has k + 1 bins, the first and the last without end; bin i holds edges[i-1] <= value <
edges[i]. A column of words has a bin for each listed value. Whatever else an entry is (no number, no listed value)
lies in a bin of its own, number 0. A row that holds nothing in any column is the null record.

>>> bins = Binning({"age": [18, 65]}, {"colour": ["red", "blue"]}, source="the census form")
>>> rows = [{"age": 70, "colour": "blue"}, {"age": "?", "colour": "green"}, {"age": None}, 3]
>>> found = bins.read(rows)
>>> found.places.tolist(), found.known.tolist()
([[3, 2], [0, 0], [0, 0], [0, 0]], [True, True, False, False])
>>> bins.points, bins.width
(12, 4)
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Annotated, Any, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
from pydantic import PlainValidator

from dpledger.decimals import Number, read, round_up, text, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.numeric.containers import array_of, holds_entries
from dpledger.mechanisms.numeric.rows import numbers, word, word_positions
from dpledger.schema import Plain, listed, one_text
from dpledger.spelling import meant

__all__ = ["MOST_BINS", "Binned", "Binning", "BinningField", "Bins", "Categories", "Column", "Feature", "binning_of"]

Column: TypeAlias = str | int
"""The label of a column of a table, or the position of a column of an array."""
Flags: TypeAlias = npt.NDArray[np.bool_]

MOST_COLUMNS = 10**4
MOST_BINS = 10**6  # of all columns together
MOST_BINS_OF_ONE = 10**5
EDGE_DIGITS = 30  # of an edge that divides a range: beyond those of a float, so that it lies where it should
_SHOWN = 5  # columns of a repr
_NOTHING = "nan"  # the word of what holds nothing
_ROWS = (
    "a table of pandas or polars, an array with two axes, or a list of rows (lists, or dicts by the names of columns); "
    "what is lazy is computed first"
)


@dataclass(frozen=True, slots=True)
class Bins:
    """A column of numbers and the edges of its bins."""

    column: Column
    edges: tuple[Decimal, ...]

    @property
    def width(self) -> int:
        """How many tests 1[value >= edge] there are."""
        return len(self.edges)

    @property
    def cells(self) -> int:
        """How many bins, with the one of what is no number."""
        return len(self.edges) + 2


@dataclass(frozen=True, slots=True)
class Categories:
    """A column of words and those that are listed."""

    column: Column
    values: tuple[str, ...]

    @property
    def width(self) -> int:
        """How many tests 1[value = v] there are."""
        return len(self.values)

    @property
    def cells(self) -> int:
        """How many values, and the rest."""
        return len(self.values) + 1


Feature: TypeAlias = Bins | Categories


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Binned:
    """`places`: the bin of each row in each column; `known`: which rows are no null record."""

    places: npt.NDArray[np.intp]
    known: Flags


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Binning:
    """The columns that are read, each with its bins; whatever else a table holds is not looked at.

    `edges`: for columns of numbers, increasing numbers; `categories`: for columns of words, their values (two are the
    same where they are the same word: 1, 1.0 and "1" are). A column is the label of a column of a table, or a position
    of one of an array; a table or an array without it is refused. In a list of dicts each row is read by itself, so
    that a misspelt name only counts as missing, in all of them: give a table where you can. `source`: where they come
    from, in words, which the record keeps. Edges that are computed from the sample (its quantiles, its least and
    greatest value) make what is learned depend on it without any bound.

    >>> bins = dpl.learning.Binning({"age": [18, 65]}, {"colour": ["red", "blue"]}, source="the census form")
    >>> bins.read([{"age": 70, "colour": "blue"}, {"age": "?"}]).places.tolist()
    [[3, 2], [0, 0]]
    """

    features: tuple[Feature, ...] = field(init=False)
    source: str = field(init=False)

    def __init__(
        self,
        edges: Mapping[Any, Sequence[Number]] | None = None,
        categories: Mapping[Any, Sequence[object]] | None = None,
        *,
        source: str,
    ) -> None:
        found = [Bins(_column(name), _edges(row, name)) for name, row in _items(edges, "edges")]
        worded = [Categories(_column(name), _values(row, name)) for name, row in _items(categories, "categories")]
        features: tuple[Feature, ...] = (*found, *worded)
        names = [one.column for one in features]
        if not 0 < len(set(names)) == len(names) <= MOST_COLUMNS:
            raise ParameterError("edges", f"{len(names)} columns", f"1 to {MOST_COLUMNS} columns, each once")
        if sum(one.width for one in features) > MOST_BINS:
            raise ParameterError("edges", "more", f"at most {MOST_BINS:,} edges and values in all")
        said = one_text(source, field="source")
        if not 0 < len(said) <= 500:
            raise ParameterError(
                "source", f"{len(said)} characters", "where the bins come from, in 1 to 500 characters"
            )
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "source", said)

    def __repr__(self) -> str:
        named = ", ".join(map(str, self.columns[:_SHOWN])) + (", ..." if len(self.columns) > _SHOWN else "")
        return f"Binning({named}: {self.width} tests, source={self.source!r})"

    @classmethod
    def equal(cls, ranges: Mapping[Any, tuple[Number, Number]], *, bins: int, source: str) -> Binning:
        """So many bins of one width in the range (low, high) of each column; the first and the last have no end.

        >>> found = Binning.equal({"age": (0, 100)}, bins=4, source="ages of people")
        >>> [int(edge) for edge in found.features[0].edges]
        [25, 50, 75]
        """
        many = whole(bins, field="bins", least=2, most=MOST_BINS_OF_ONE)
        edges = {name: _between(pair, many) for name, pair in _items(ranges, "ranges")}
        if not edges:
            raise ParameterError("ranges", "none", "a range (low, high) of at least one column")
        return cls(edges, source=source)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those that are read, in the order in which they were given, numbers first."""
        return tuple(one.column for one in self.features)

    @property
    def points(self) -> int:
        """How many rows can be told apart: a bin of each column."""
        return math.prod(one.cells for one in self.features)

    @property
    def width(self) -> int:
        """How many tests of one column there are: value >= edge, value = v."""
        return sum(one.width for one in self.features)

    @property
    def digest(self) -> str:
        """The SHA-256 of all columns and their bins, as text."""
        return hashlib.sha256(repr([_told(one) for one in self.features]).encode()).hexdigest()

    def described(self) -> Mapping[str, Plain]:
        """The bins as the record keeps them."""
        return {"columns": len(self.features), "tests": self.width, "sha256": self.digest, "source": self.source}

    def rows(self, x: object) -> int:
        """How many rows there are. ParameterError unless `x` are rows that have these columns; what an entry is never
        matters."""
        if _is_table(x):
            labels = list(x.columns)  # type: ignore[attr-defined]  # a table
            for name in self.columns:
                if labels.count(name) != 1:
                    found = f"{labels.count(name)} columns {name!r}"
                    raise ParameterError("data", found, f"one column {name!r}{meant(name, labels)}")
            return len(x)  # type: ignore[arg-type]  # a table
        rows = array_of(x)
        if rows is None and isinstance(x, (list, tuple)):
            return len(x)
        if rows is None or rows.ndim != 2:
            axes = "" if rows is None else f" with {rows.ndim} axes"
            raise ParameterError("data", f"{type(x).__name__}{axes}", _ROWS)
        for name in self.columns:
            if isinstance(name, str):
                raise ParameterError("data", "an array", f"a table with a column {name!r}")
            if name >= rows.shape[1]:
                raise ParameterError("data", f"{rows.shape[1]} columns", f"a column {name}, counted from 0")
        return len(rows)

    def read(self, x: object) -> Binned:
        """The bin of each row in each column: of that row alone. ParameterError as `rows` raises it."""
        self.rows(x)
        columns = [_entries(x, one.column) for one in self.features]
        read = [_read(one, entries) for one, entries in zip(self.features, columns, strict=True)]
        known = np.asarray(np.logical_or.reduce([holds for _, holds in read]), dtype=bool)
        places = np.stack([places for places, _ in read], axis=1) * known[:, None]
        return Binned(places, known)

    def read_as(self) -> tuple[str, ...]:
        """What entries count as that are in none of the bins, a sentence each: for receipts."""
        kinds = {type(one) for one in self.features}
        numbered = "of a column of numbers text counts as the number that it says; NaN or any other non-number is"
        worded = (
            "of a column of words entries are compared as words, so that 1, 1.0 and True are one; any other word is"
        )
        said = [words for kind, words in ((Bins, numbered), (Categories, worded)) if kind in kinds]
        nowhere = "a row counts nowhere if all columns that are read hold NaN, or nothing"
        return (*(f"{words} in a bin of its own" for words in said), nowhere)

    def numbered(self, x: object) -> list[int | None]:
        """Each row as a number below `points`, whose digits are its bins, that of the first column the lowest; the null
        record as None."""
        found = self.read(x)
        weights = list(accumulate((one.cells for one in self.features[:-1]), operator.mul, initial=1))
        wide = np.int64 if self.points < 2**63 else object
        totals = found.places.astype(wide) @ np.array(weights, dtype=wide)
        return [int(total) if known else None for total, known in zip(totals, found.known, strict=True)]

    def tests(self, x: object) -> npt.NDArray[np.uint8]:
        """Each row as `width` bits, what every test of one column says of it: uint8[rows, width]."""
        found = self.read(x)
        bits = [_bits(one, found.places[:, at]) for at, one in enumerate(self.features)]
        every: npt.NDArray[np.uint8] = np.concatenate(bits, axis=1)
        return every


def _bits(feature: Feature, places: npt.NDArray[np.intp]) -> npt.NDArray[np.uint8]:
    """What the tests of one column say."""
    match feature:
        case Bins():
            said = places[:, None] >= np.arange(2, feature.cells)
        case Categories():
            said = places[:, None] == np.arange(1, feature.cells)
        case _:
            assert_never(feature)
    return np.asarray(said, dtype=np.uint8)


def _read(feature: Feature, entries: object) -> tuple[npt.NDArray[np.intp], Flags]:
    """The bin of each entry, and whether it holds anything."""
    match feature:
        case Bins(edges=edges):
            values = numbers(entries, missing=np.nan)
            holds = ~np.isnan(values)
            inner = np.array([float(edge) for edge in edges], dtype=np.float64)
            return np.where(holds, np.searchsorted(inner, values, side="right") + 1, 0), holds
        case Categories(values=values):
            found = word_positions(entries, values)
            places = np.where(found < len(values), found + 1, 0)
            holds = places > 0
            if _NOTHING in values:  # listed, it has a bin, and holds nothing all the same
                holds[found == values.index(_NOTHING)] = False
            for at in np.flatnonzero(places == 0):
                holds[at] = word(entries[at]) not in (None, _NOTHING)  # type: ignore[index]  # rows
            return places, holds
        case _:
            assert_never(feature)


def _entries(x: object, name: Column) -> object:
    """The entries of one column."""
    if _is_table(x):
        column = array_of(x[name])  # type: ignore[index]  # a table
        return column if column is not None else list(x[name])  # type: ignore[index]
    rows = array_of(x)
    if rows is not None:
        return rows[:, name]  # type: ignore[index]  # a position: `rows` refused the rest
    return [_entry(row, name) for row in x] if isinstance(x, (list, tuple)) else []


def _entry(row: object, name: Column) -> object:
    """One entry of a row that is a list, an array or a dict; None where there is none."""
    with suppress(Exception):  # of the row's own code
        if isinstance(row, dict):
            return row.get(name)
        if isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim == 1):
            return row[name] if isinstance(name, int) and name < len(row) else None
    return None


def _is_table(x: object) -> bool:
    """Whether it has columns by name, whose entries are there before anybody looks at them."""
    parts = ("__len__", "__getitem__", "columns")
    return all(hasattr(x, name) for name in parts) and not isinstance(x, type) and holds_entries(x)


def _told(feature: Feature) -> list[object]:
    match feature:
        case Bins(column=column, edges=edges):
            return ["numbers", column, *map(text, edges)]
        case Categories(column=column, values=values):
            return ["words", column, *values]
        case _:
            assert_never(feature)


def _items(given: object, field: str) -> list[tuple[Any, Any]]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise ParameterError(field, type(given).__name__, "a mapping from columns")
    return list(given.items())


def _column(name: object) -> Column:
    if isinstance(name, str) and 0 < len(name) <= 500:
        return str(name)
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool) and 0 <= name < 2**31:
        return int(name)
    raise ParameterError("column", name, "a label of 1 to 500 characters, or a position of at least 0")


def _edges(row: object, name: Column) -> tuple[Decimal, ...]:
    edges = tuple(read(edge, field="edges", signed=True) for edge in listed(row, field="edges", most=MOST_BINS_OF_ONE))
    if not edges or any(float(low) >= float(high) for low, high in pairwise(edges)):
        raise ParameterError(
            "edges", f"{len(edges)} edges of column {name!r}", "at least one, each above the one before"
        )
    return edges


def _values(row: object, name: Column) -> tuple[str, ...]:
    words = [word(value) for value in listed(row, field="categories", most=MOST_BINS_OF_ONE)]
    found = tuple(value for value in words if value is not None)
    if not 0 < len(set(found)) == len(words):
        raise ParameterError("categories", f"{len(words)} values of column {name!r}", "at least one, each word once")
    return found


def _between(pair: object, bins: int) -> list[Decimal]:
    ends = [read(end, field="ranges", signed=True) for end in listed(pair, field="ranges", most=2)]
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise ParameterError("ranges", ", ".join(map(text, ends)), "(low, high) with low below high")
    low, high = map(Fraction, ends)
    return [round_up(low + (high - low) * step / bins, digits=EDGE_DIGITS) for step in range(1, bins)]


def binning_of(value: object) -> Binning:
    """The value, if it is a Binning; else ParameterError."""
    if not isinstance(value, Binning):
        raise ParameterError("binning", type(value).__name__, "a Binning")
    return value


BinningField: TypeAlias = Annotated[Binning, PlainValidator(binning_of)]
"""The field of a learner that reads tables."""
