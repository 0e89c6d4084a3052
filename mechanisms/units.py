"""Data by unit of privacy: something with a length and an item for each unit, or a tuple of such, side by side.

Item i is everything of unit i. An array, a list, a table with `iloc`, or a tuple of them with equal lengths, will do.
Where a unit is a person with many rows, item i is all the rows of person i: `ByUnit` makes such items from an id beside
each row. What a mechanism computes from an item, whatever it holds, it then bounds as one.

>>> units = Units.of((np.arange(3), ["a", "b", "c"]))
>>> len(units), units.take(np.array([0, 2]))
(3, (array([0, 2]), ['a', 'c']))
>>> people = Units.of(ByUnit(np.arange(4), ["ann", "bob", "ann", None]))
>>> len(people), people.take(np.array([0, 1]))
(2, [array([0, 2]), array([1])])
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import uniform
from dpledger.mechanisms.numeric.containers import array_of, check_one_index
from dpledger.mechanisms.numeric.rows import word
from dpledger.relations import Unit

__all__ = ["ByUnit", "Units", "check_rows", "check_whole_units", "id_word", "in_random_order", "rows_at"]

_Positions: TypeAlias = npt.NDArray[np.int64]

_NOBODY = -1
_NAN = "nan"  # what numpy writes for a missing number among text
_WHOLE = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_WRITTEN_BITS = 2000  # of a whole number: `sys.set_int_max_str_digits` refuses no number of 640 digits
_LONGEST_ID = 100  # digits of a decimal: one of a million digits is no id


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ByUnit:
    """Rows, and beside each the id of the unit that it belongs to. Item i is then all the rows of unit i, in the order
    and the form of `rows`; of a tuple of columns, those of each column.

    `rows`: an array, a list, a table or a tuple of them, side by side. `units`: a list, an array or a column, with an
    id for each row: text, bytes, a UUID or a number. Two ids are those of one unit where they are the same word: 2, 2.0
    and "2" are, since numpy may write one as the other. A row whose id is anything else, like NaN, "nan" or None,
    belongs to nobody and is left out: many people may share what is missing, and one of them would move what is
    computed of all. Raises ParameterError where `units` are no such container, not as many as the rows, or a column of
    pandas with another index than the rows; never because of an id.
    Assumes: the id of a row depends on that row alone, and an array of ids keeps each of them (one of floats does not
    keep whole numbers beyond 2^53).

    >>> visits = dpl.ByUnit([120, 135, 110], units=["ann", "ann", "bob"])
    >>> visits.units
    ['ann', 'ann', 'bob']
    """

    rows: object
    units: object
    groups: tuple[_Positions, ...] = field(init=False)
    words: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        columns = _columns(self.rows)
        ids = _ids(self.units)
        if len(ids) != _length(columns[0]):
            raise ParameterError("units", "another number of ids than rows", "an id for each row")
        check_one_index(*columns, self.units, field="units")
        groups, words = _grouped(ids)
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "words", words)

    def __repr__(self) -> str:
        return "ByUnit(...)"

    def at_most(self, most: int, *, entropy: Entropy) -> object:
        """So many rows of each unit at most, in the form of `rows`, in the order that they stand: which ones, a coin of
        each unit says. Rows of nobody are left out.

        Claim: data that differ in one unit give rows that differ in at most `most`, all of that unit, whatever the
        coins of the others say. Source: docs/proofs/learning_pac.md, "Many rows of a unit"."""
        rows, _, ranks = in_random_order(self, entropy=entropy)
        kept = np.sort(rows[ranks < most])
        columns = tuple(rows_at(column, kept) for column in _columns(self.rows))
        return columns if isinstance(self.rows, tuple) else columns[0]

    @property
    def largest(self) -> int:
        """How many rows the unit with the most has: data, and not to be shown."""
        return max(map(len, self.groups), default=0)


@dataclass(frozen=True, slots=True, repr=False)
class Units:
    """The units of a dataset, to be taken by position. Shows nothing of them. `groups`: the rows of each unit, and
    `words` its id; None where item i of each column is unit i."""

    columns: tuple[Any, ...]
    side_by_side: bool
    groups: tuple[_Positions, ...] | None = None
    words: tuple[str, ...] | None = None

    @classmethod
    def of(cls, data: object) -> Units:
        """The units of `data`; ParameterError where it has no items by position, or columns of different lengths or,
        of pandas, with different indexes.

        No message says how many units there are: under add_remove that is private.
        """
        if isinstance(data, ByUnit):
            return cls(_columns(data.rows), isinstance(data.rows, tuple), data.groups, data.words)
        return cls(_columns(data), isinstance(data, tuple))

    def __len__(self) -> int:
        return len(self.columns[0]) if self.groups is None else len(self.groups)

    def take(self, positions: _Positions) -> Any:
        """The items at `positions`, in the form of the data: an array of an array, a list of a list, ...; a list of
        such, one for each unit, where units have groups of rows."""
        taken = tuple(self._items(column, positions) for column in self.columns)
        return taken if self.side_by_side else taken[0]

    def item(self, position: int) -> Any:
        """The item at `position`: of a tuple of columns, one of each."""
        taken = self.take(np.array([position]))
        return tuple(_first(column) for column in taken) if self.side_by_side and self.groups is None else _first(taken)

    def rows(self, positions: _Positions) -> tuple[Any, ...]:
        """The rows of the units at `positions`, one unit's after another's, of each column in its own form."""
        if self.groups is not None:
            groups = [self.groups[position] for position in positions.tolist()]
            positions = np.concatenate(groups) if groups else np.zeros(0, dtype=np.int64)
        return tuple(rows_at(column, positions) for column in self.columns)

    def owners(self, positions: _Positions) -> _Positions:
        """Beside each of `rows(positions)`, which of the positions it is of: 0, 1, ..."""
        sizes = [1 if self.groups is None else len(self.groups[position]) for position in positions.tolist()]
        return np.repeat(np.arange(len(positions)), sizes)

    def _items(self, column: Any, positions: _Positions) -> Any:
        if self.groups is None:
            return rows_at(column, positions)
        return [rows_at(column, self.groups[position]) for position in positions.tolist()]


def check_whole_units(data: object, unit: Unit | None, *, grouped: bool, by_ids: str = "", beside: str = "") -> None:
    """ParameterError where the data are not items by position; or do not say how rows belong to units, though one unit
    may have many rows and nobody declared (`grouped`) that each item is a whole one; or where both are said. `by_ids`:
    how a caller of the mechanism passes ids otherwise, `beside`: what else it may say, for the message."""
    by_unit = isinstance(data, ByUnit)
    if by_unit and grouped:
        raise ParameterError("grouped", "True, and units", "one of the two: items that are whole units, or ids of rows")
    if unit is not None and unit.max_contributions > 1 and not (by_unit or grouped):
        raise ParameterError(
            "units",
            f"nothing, in a scope where one {unit.name} may have {unit.max_contributions} rows",
            f"an id for each row ({by_ids}ByUnit(rows, units=ids) as data), or grouped=True "
            f"where each item already holds everything of one {unit.name}: each {unit.name} is bounded as one{beside}",
        )
    Units.of(data)


def check_rows(data: object) -> None:
    """ParameterError where the data are not items by position, or say how rows belong to units though each counts by
    itself."""
    if isinstance(data, ByUnit):
        raise ParameterError("by_row", "True, and units", "one of the two: rows that count one by one, or ids of rows")
    Units.of(data)


def in_random_order(data: ByUnit, *, entropy: Entropy) -> tuple[_Positions, _Positions, _Positions]:
    """The rows that belong to somebody, one unit's after another's, those of each in an order drawn for that unit
    alone: the position of each, its unit, and its rank in that unit, from 0. int64[rows] each."""
    sizes = np.array([len(group) for group in data.groups], dtype=np.int64)
    rows = np.concatenate([*data.groups, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((uniform(2**64, len(rows), entropy=entropy, given=True), owners))
    return rows[order], owners, np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _columns(data: object) -> tuple[Any, ...]:
    columns = data if isinstance(data, tuple) else (data,)
    if not columns:
        raise ParameterError("data", "an empty tuple", "an array, a list, a table or a tuple of them")
    if len({_length(column) for column in columns}) != 1:
        raise ParameterError("data", "columns of different lengths", "one item of each column for each unit")
    check_one_index(*columns, field="data")
    return columns


def _length(column: Any) -> int:
    try:
        if hasattr(column, "__getitem__") and not isinstance(column, (str, bytes, Mapping, Set)):
            return len(column)
    except TypeError:  # a number, an iterator, an array without axes
        pass
    raise ParameterError("data", type(column).__name__, "an array, a list, a table or a tuple of them")


def rows_at(column: Any, positions: _Positions) -> Any:
    """The rows of a column at these positions, in the form of the column."""
    if hasattr(column, "iloc"):
        return column.iloc[positions]
    if isinstance(column, Sequence):
        return [column[position] for position in positions.tolist()]
    return column[positions]


def _first(items: Any) -> Any:
    return items.iloc[0] if hasattr(items, "iloc") else items[0]


def _ids(units: object) -> Sequence[object]:
    """The ids as they are, one by one: in a list each keeps its own type."""
    if isinstance(units, Sequence) and not isinstance(units, (str, bytes, bytearray, memoryview)):
        return units
    array = array_of(units)
    if array is None or array.ndim != 1:
        raise ParameterError("units", type(units).__name__, "a list, an array or a column of ids, one for each row")
    return list(array)


def _grouped(ids: Sequence[object]) -> tuple[tuple[_Positions, ...], tuple[str, ...]]:
    """The positions, rising, of the rows of each unit, and the word that its id is."""
    places: dict[str, int] = {}
    of_row = np.array([_place(name, places) for name in ids], dtype=np.int64)
    order = np.argsort(of_row, kind="stable").astype(np.int64)
    starts = np.searchsorted(of_row[order], np.arange(len(places) + 1))
    return tuple(order[start:stop] for start, stop in pairwise(starts)), tuple(places)


def _place(name: object, places: dict[str, int]) -> int:
    key = id_word(name)
    return _NOBODY if key is None else places.setdefault(key, len(places))


def id_word(name: object) -> str | None:
    """The word that an id is (`numeric.rows.word`), but with all digits of a whole number: two people whose ids are
    near each other are two. None where it is no id. Total."""
    try:
        return _id_word(name)
    except Exception:  # of the entry's own code
        return None


def _id_word(name: object) -> str | None:
    match name:
        case bytes():
            return _id_word(name.decode("latin-1"))
        case str() if _WHOLE.fullmatch(name):
            return str(name)
        case UUID():
            return str(name)
    whole = _whole(name)
    key = word(name) if whole is None else _digits(whole)
    return None if key == _NAN else key


def _digits(whole: int) -> str:
    """In hexadecimal where Python may not write the number in decimals."""
    return str(whole) if whole.bit_length() <= _WRITTEN_BITS else hex(whole)


def _whole(name: object) -> int | None:
    """The whole number that a number is, exactly; None for all else."""
    match name:
        case np.timedelta64():  # numpy counts it among the whole numbers
            return None
        case int() | np.integer() | np.bool_():
            return int(name)
        case float() | np.floating():
            return int(name) if np.isfinite(name) and name == np.floor(name) else None
        case Decimal():
            small = name.is_finite() and name.adjusted() <= _LONGEST_ID
            return int(name) if small and name == int(name) else None
        case _:
            return None
