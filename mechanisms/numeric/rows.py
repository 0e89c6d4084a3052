"""Rows, whatever they hold: how a statistic reads data without ever raising because of a record.

Each function maps every row by itself, so changing one row changes one term. Data may be an array (or a column of a
table), or a list or tuple; anything else, text included, has no rows.

>>> tally([True, False, None])
2
>>> numbers(["x", 2, float("nan")], missing=0.5)
array([0.5, 2. , 0.5])
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.noise import Sensitivity
from dpledger.relations import Unit

__all__ = ["count_sensitivity", "interval_positions", "numbers", "rows_of", "tally", "word_positions"]

_FLOAT_KINDS = "fiu"
_LARGEST = 1.7e308  # what is beyond a float counts as this, with its sign


def rows_of(unit: Unit | None) -> int:
    """How many rows one unit may contribute; one, while no unit is fixed."""
    return 1 if unit is None else unit.max_contributions


def count_sensitivity(unit: Unit | None) -> Sensitivity:
    """How far one unit moves a count of rows, under every relation."""
    return Sensitivity(rows_of(unit), "l1", "a unit changes a count by at most the rows it contributes")


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


def _rows(data: object) -> npt.NDArray[Any] | Collection[object]:
    if not isinstance(data, (np.ndarray, list, tuple)) and hasattr(data, "__array__") and isinstance(data, Iterable):
        data = np.asarray(data)
    if isinstance(data, np.ndarray):
        return data if data.ndim else ()
    return data if isinstance(data, (list, tuple)) else ()


def _number(row: object) -> float:
    if isinstance(row, np.ndarray) and row.ndim == 0:
        row = row[()]
    if isinstance(row, (float, np.floating)):
        return float(row)
    if not isinstance(row, (int, np.integer, np.bool_, Decimal, Fraction)):
        return float("nan")
    try:
        return float(row)
    except OverflowError:
        return _LARGEST if row > 0 else -_LARGEST
    except ValueError:  # a signalling NaN
        return float("nan")
