"""Rows, whatever they hold: how a statistic reads data without ever raising because of a record.

Each function maps every row by itself, so changing one row changes one term. Data may be an array (or a column of a
table), or a sequence, like a list; `check_rows` and `check_column` refuse what is neither: text, a set, a mapping, an
iterator (which could be read only once).

>>> tally([True, False, None])
2
>>> numbers(["x", 2, float("nan")], missing=0.5)
array([0.5, 2. , 0.5])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError
from dpledger.mechanisms.noise import Sensitivity
from dpledger.relations import Unit

__all__ = [
    "NUMBERS",
    "WORDS",
    "check_column",
    "check_rows",
    "count_sensitivity",
    "interval_positions",
    "numbers",
    "rows_of",
    "tally",
    "word_positions",
]

NUMBERS = "biufO"
"""Kinds of numpy dtypes that may hold numbers."""
WORDS = "UTO"
"""Kinds of numpy dtypes that may hold words."""
_KINDS = {NUMBERS: "an array of numbers", WORDS: "an array of words"}
_ROWS = "rows: a list, a tuple, an array or a column of a table (`list(data)` makes them of an iterator)"
_FLOAT_KINDS = "fiu"
_LARGEST = 1.7e308  # what is beyond a float counts as this, with its sign


def rows_of(unit: Unit | None) -> int:
    """How many rows one unit may contribute; one, while no unit is fixed."""
    return 1 if unit is None else unit.max_contributions


def count_sensitivity(unit: Unit | None) -> Sensitivity:
    """How far one unit moves a count of rows, under every relation."""
    return Sensitivity(rows_of(unit), "l1", "a unit changes a count by at most the rows it contributes")


def check_rows(data: object) -> None:
    """Raise ParameterError unless `data` have rows, of whatever kind."""
    if _container(data) is None:
        raise ParameterError("data", type(data).__name__, _ROWS)


def check_column(data: object, kinds: str) -> None:
    """Raise ParameterError unless `data` are rows of one entry each and, in an array, of a dtype of these kinds."""
    check_rows(data)
    rows = _container(data)
    if not isinstance(rows, np.ndarray):
        return
    if rows.ndim != 1:
        raise ParameterError("data", f"{type(data).__name__} with {rows.ndim} axes", "one axis: one entry a row")
    if rows.dtype.kind not in kinds:
        raise ParameterError("data", f"{type(data).__name__} of {rows.dtype}", _KINDS[kinds])


def tally(data: object) -> int:
    """How many rows there are, without those that are False."""
    rows = _rows(data)
    if isinstance(rows, np.ndarray) and rows.dtype == np.bool_ and rows.ndim == 1:
        return int(np.count_nonzero(rows))
    if isinstance(rows, np.ndarray) and rows.dtype != object:
        return len(rows)
    return sum(not (isinstance(row, (bool, np.bool_)) and not row) for row in rows)


def numbers(data: object, *, missing: float) -> npt.NDArray[np.float64]:
    """One float64 a row; NaN, and what is no number, as `missing`. float64[rows]."""
    rows = _rows(data)
    if isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in _FLOAT_KINDS:
        with np.errstate(all="ignore"):  # a wider float may overflow: it counts as infinite
            values = rows.astype(np.float64)
    else:
        values = np.array([_number(row) for row in rows], dtype=np.float64)
    return np.where(np.isnan(values), missing, values)


def interval_positions(data: object, edges: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """For each row the i with edges[i] <= row < edges[i + 1] (the last interval has both ends); len(edges) - 1 for the
    rows in none."""
    values = numbers(data, missing=np.nan)
    found = np.searchsorted(edges, values, side="right") - 1
    found[values == edges[-1]] = len(edges) - 2
    found[(found < 0) | np.isnan(values)] = len(edges) - 1
    return found


def word_positions(data: object, words: Sequence[str]) -> npt.NDArray[np.intp]:
    """For each row its place among `words`; len(words) for the rows that are none of them."""
    places = {word: place for place, word in enumerate(words)}
    other = len(words)
    return np.array([places.get(row, other) if isinstance(row, str) else other for row in _rows(data)], dtype=np.intp)


def _rows(data: object) -> npt.NDArray[Any] | Sequence[object]:
    found = _container(data)
    return () if found is None else found


def _container(data: object) -> npt.NDArray[Any] | Sequence[object] | None:
    """`data` as rows that can be walked; None where they are nothing of the kind."""
    if isinstance(data, Sequence):
        return None if isinstance(data, (str, bytes, bytearray, memoryview)) else data
    if not isinstance(data, np.ndarray) and hasattr(data, "__array__") and isinstance(data, Iterable):
        data = np.asarray(data)
    return data if isinstance(data, np.ndarray) and data.ndim else None


def _number(row: object) -> float:
    if isinstance(row, np.ndarray) and row.ndim == 0:
        row = row[()]
    if isinstance(row, (float, np.floating)):
        return float(row)
    if not isinstance(row, (int, np.integer, np.bool_, Decimal, Fraction)) or isinstance(row, np.timedelta64):
        return float("nan")
    try:
        return float(row)
    except OverflowError:
        return _LARGEST if row > 0 else -_LARGEST
    except ValueError:  # a signalling NaN
        return float("nan")
