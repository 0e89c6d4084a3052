"""Rows, whatever they hold: how a statistic reads data without ever raising because of a record.

What a mechanism takes is fixed by its parameters: rows in a list, an array or a column of a table, read as numbers or
as words. `check_rows` and `check_column` refuse another container; what an array's dtype is says nothing, since numpy
chooses it after looking at every record. Each row is then read by itself, in a way that does not change when another
record makes the array wider: a truth value among numbers is 1 or 0, a number among words is its text.

>>> numbers(["x", 2, True, "2.5", float("nan")], missing=0.5)
array([0.5, 2. , 1. , 2.5, 0.5])
>>> trues([True, False, 1, 2, None])
2
>>> import numpy as np
>>> trues(np.array([True, False, 1, 2]))
2

Assumes: whoever builds an array keeps each record in it. Arrays that hold float16 or float32 numbers beside text, or
numbers beside dates or durations, do not; a list or a column of objects does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import Sensitivity
from dpledger.mechanisms.numeric.containers import array_of
from dpledger.relations import Relation, Unit

__all__ = [
    "OfUnits",
    "blocks",
    "capped_where_known",
    "check_column",
    "check_rows",
    "count_is_public",
    "count_sensitivity",
    "counted",
    "interval_positions",
    "intervals_of",
    "numbers",
    "refuse_ids_of_one_row",
    "rows_of",
    "tally",
    "trues",
    "with_or_without_ids",
    "word",
    "word_positions",
]

_ROWS = (
    "rows: a list, a tuple, an array or a column of a table (`list(data)` makes them of an iterator; compute a lazy "
    "column first)"
)
_FLOAT_KINDS = "fiub"  # of numpy dtypes: what is cast to float64 as each entry by itself would be
_BLOCK = 2**16  # rows that are read at a time, so that they stay in the cache
_NO_ENTRIES = frozenset({"NaTType", "NAType"})  # of pandas
_TRUTHS = {"True": 1.0, "False": 0.0}  # as numpy writes them into an array of text
_NO_NUMBER = float("nan")


def rows_of(unit: Unit | None) -> int:
    """How many rows one unit may contribute; one, while no unit is fixed."""
    return 1 if unit is None else unit.max_contributions


@runtime_checkable
class OfUnits(Protocol):
    """Rows, and whose each of them is (`ByUnit`)."""

    @property
    def rows(self) -> object:
        """The rows themselves."""
        ...

    def at_most(self, most: int, *, entropy: Entropy) -> object:
        """So many of each unit at most, which ones a coin of its own says."""
        ...


def with_or_without_ids(data: object) -> object:
    """The rows that `counted` reads, for a check of their kind. ParameterError for ids beside several columns."""
    if not isinstance(data, OfUnits):
        return data
    if isinstance(data.rows, tuple):
        raise ParameterError("data", f"ids beside {len(data.rows)} columns", "ids beside one column")
    return data.rows


def counted(data: object, unit: Unit | None, *, entropy: Entropy) -> object:
    """The rows that count: where it is known whose they are, as many of each unit as it may have."""
    return data.at_most(rows_of(unit), entropy=entropy) if isinstance(data, OfUnits) else data


def refuse_ids_of_one_row(relation: Relation | None, unit: Unit | None) -> None:
    """ParameterError where one row is exchanged for one: a row without an id counts nowhere, so that with ids the
    number of rows that count would not be public. Source: docs/proofs/statistics.md, section 1."""
    if relation in (Relation.REPLACE_ONE, Relation.ZERO_OUT) and rows_of(unit) == 1:
        name = "unit" if unit is None else unit.name
        raise ParameterError("data", "ids of rows", f"rows alone under {relation}, where one {name} has one row")


def capped_where_known(unit: Unit | None) -> tuple[str, ...]:
    """What receipts say of a statistic of a column, where one unit may have several rows."""
    if unit is None or unit.max_contributions == 1:
        return ()
    most = f"that no {unit.name} has more than {unit.max_contributions} rows is taken at its word"
    return (f"{most}, unless ids of rows are given (`ByUnit`): then so many of each count, taken at random",)


def count_is_public(relation: Relation | None, unit: Unit | None) -> bool:
    """Whether all neighbours have as many rows."""
    return relation is Relation.LABEL_FLIP or (relation is Relation.REPLACE_ONE and rows_of(unit) == 1)


def count_sensitivity(unit: Unit | None) -> Sensitivity:
    """How far one unit moves a count of rows, under every relation."""
    return Sensitivity(rows_of(unit), "l1", "a unit changes a count by at most the rows it contributes")


def check_rows(data: object) -> None:
    """Raise ParameterError unless `data` have rows, of whatever kind."""
    if _container(data) is None:
        raise ParameterError("data", type(data).__name__, _ROWS)


def check_column(data: object) -> None:
    """Raise ParameterError unless `data` are rows of one entry each. What an entry is never matters."""
    check_rows(data)
    rows = _container(data)
    if isinstance(rows, np.ndarray) and rows.ndim != 1:
        expected = "one axis: one entry a row (of a table, one column: data['name'])"
        raise ParameterError("data", f"{type(data).__name__} with {rows.ndim} axes", expected)


def tally(data: object) -> int:
    """How many rows there are, whatever they hold."""
    return len(_rows(data))


def trues(data: object) -> int:
    """How many rows are true: True, and what it becomes among numbers or words, 1 and "True"."""
    return int(np.count_nonzero(numbers(data, missing=0.0) == 1.0))


def numbers(data: object, *, missing: float) -> npt.NDArray[np.float64]:
    """One float64 a row, the nearest to its value; NaN, and what is no number, as `missing`. float64[rows].

    True is 1 and False is 0; text is the number that Python reads in it; a number beyond every float is infinite."""
    rows = _rows(data)
    if isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in _FLOAT_KINDS:
        with np.errstate(all="ignore"):  # a wider float may overflow: it counts as infinite
            values = rows.astype(np.float64)
    else:
        values = np.array([_number(row) for row in rows], dtype=np.float64)
    return np.where(np.isnan(values), missing, values)


def blocks(data: object, *, missing: float) -> Iterator[npt.NDArray[np.float64]]:
    """The rows as `numbers` reads them, a block at a time."""
    rows = array_of(data)
    if rows is None or rows.dtype.kind not in _FLOAT_KINDS:
        yield numbers(data, missing=missing)
    else:
        yield from (numbers(rows[at : at + _BLOCK], missing=missing) for at in range(0, len(rows), _BLOCK))


def interval_positions(data: object, edges: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """For each row the i with edges[i] <= row < edges[i + 1] (the last interval has both ends); len(edges) - 1 for the
    rows in none."""
    return intervals_of(numbers(data, missing=np.nan), edges)


def intervals_of(values: npt.NDArray[np.float64], edges: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """The same of numbers, NaN for what is none."""
    found = np.searchsorted(edges, values, side="right") - 1
    found[values == edges[-1]] = len(edges) - 2
    found[(found < 0) | np.isnan(values)] = len(edges) - 1
    return found


def word_positions(data: object, words: Sequence[str]) -> npt.NDArray[np.intp]:
    """For each row its place among `words`, compared by `word`; len(words) for the rows that are none of them."""
    places = {word(item): place for place, item in enumerate(words)}
    other = len(words)
    seen: dict[str, int] = {}  # text comes again and again

    def place_of(row: object) -> int:
        if type(row) is not str:
            return places.get(word(row), other)
        if row not in seen:
            seen[row] = places.get(word(row), other)
        return seen[row]

    return np.array([place_of(row) for row in _rows(data)], dtype=np.intp)


def word(row: object) -> str | None:
    """The word that a row is; None for what is none. Text is itself; a number, and the text that Python or numpy writes
    for one, is the shortest text of the nearest float64, without a point where it is whole, so that 1, 1.0, True and
    "1.0" are the word "1" ("01" is another). None, and the NaN, NaT and NA that pandas makes of it, are "nan"."""
    try:
        return _word(row)
    except Exception:  # of the entry's own code
        return None


def _word(row: object) -> str | None:
    if isinstance(row, bytes):
        row = row.decode("ascii", "replace")
    if isinstance(row, str):
        text = str.rstrip(row, "\0")  # as an array of text keeps it
        value = _number(text)
        return _text_of(value) if _is_written(text, value) else text
    if isinstance(row, complex | np.complexfloating) and row.imag:
        return str(complex(row))
    value = _number(row)
    if np.isnan(value):
        return "nan" if _is_missing(row) else None
    return _text_of(value)


def _is_missing(row: object) -> bool:
    """Of what is no number."""
    if isinstance(row, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(row))
    is_nan = isinstance(row, (float, np.floating, complex, np.complexfloating))
    return row is None or is_nan or type(row).__name__ in _NO_ENTRIES


def _text_of(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


def _is_written(text: str, value: float) -> bool:
    """Whether `text` is how Python or numpy writes a number, which is nearest to `value`."""
    if np.isnan(value):
        return False
    digits = text.removeprefix("-")
    is_whole = digits.isascii() and digits.isdigit() and (digits == text == "0" or not digits.startswith("0"))
    return is_whole or text in _TRUTHS or text in (str(value), str(complex(value)))


def _rows(data: object) -> npt.NDArray[Any] | Sequence[object]:
    found = _container(data)
    return () if found is None else found


def _container(data: object) -> npt.NDArray[Any] | Sequence[object] | None:
    """`data` as rows that can be walked; None where they are nothing of the kind."""
    if isinstance(data, Sequence):
        return None if isinstance(data, (str, bytes, bytearray, memoryview)) else data
    array = array_of(data)
    return array if array is not None and array.ndim else None


def _number(row: object) -> float:
    """The float64 nearest to a row; NaN for what is no number."""
    try:
        return _nearest(row)
    except Exception:  # a signalling NaN, or the entry's own code
        return _NO_NUMBER


def _nearest(row: object) -> float:
    if isinstance(row, np.ndarray) and row.ndim == 0:
        row = row[()]
    if isinstance(row, (str, bytes)):
        return _read(row)
    if isinstance(row, (complex, np.complexfloating)):
        return float(row.real) if not row.imag else _NO_NUMBER
    if isinstance(row, (float, np.floating)):
        return float(row)
    if not isinstance(row, (int, np.integer, np.bool_, Decimal, Fraction)) or isinstance(row, np.timedelta64):
        return _NO_NUMBER
    try:
        return float(row)
    except OverflowError:
        return float("inf") if row > 0 else -float("inf")


def _read(text: str | bytes) -> float:
    """The number that a text says."""
    if isinstance(text, bytes):
        text = text.decode("ascii", "replace")
    if text in _TRUTHS:
        return _TRUTHS[text]
    try:
        value = complex(text)
    except ValueError:
        return _NO_NUMBER
    return value.real if not value.imag else _NO_NUMBER
