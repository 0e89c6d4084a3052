"""How rows become what a learner is given: each entry by itself, so that a chunk holds nothing of another one.

An entry is a number, or a word in the columns that are declared to hold words. The dtype, the categories and the index
of a table tell of all its rows: none of them reaches a learner. Numbers are the nearest float64; what is no finite
number, a date too, counts as `missing`, a public number. Words are read as `rows.word` reads them, "nan" where
there is none.

>>> form = Form.of(np.array([[1, 2], [3, 4]]), words=(), missing=0.0)
>>> form.read([[5, "6"], [None, float("inf")]])
array([[5., 6.],
       [0., 0.]])
>>> form.asked([[1, 2, 3]])
Traceback (most recent call last):
...
dpledger.errors.ParameterError: queries: expected rows of shape (2,), as those that were fitted, got rows of shape (3,)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError
from dpledger.mechanisms.numeric.containers import array_of
from dpledger.mechanisms.numeric.rows import numbers, word

__all__ = ["Column", "Form", "classes_of", "finite_or_nan", "numbers_of", "scores_of"]

Column = str | int


@dataclass(frozen=True, slots=True, repr=False)
class Form:
    """How rows of a dataset are read. `names`: of the columns of a table; `shape`: of a row of an array; None where the
    container does not say. `words`: the columns, by name or place, that hold words."""

    names: tuple[Any, ...] | None
    shape: tuple[int, ...] | None
    words: tuple[Column, ...]
    missing: float

    @classmethod
    def of(cls, rows: Any, *, words: tuple[Column, ...], missing: float) -> Form:
        """The form of a container, by its type, axes and names of columns alone. ParameterError for words in columns
        that it does not have."""
        if not isinstance(words, tuple) or not all(isinstance(one, (str, int)) for one in words):
            raise ParameterError("words", type(words).__name__, "a tuple of columns, by name or place")
        names, shape = _names(rows), None
        if names is None:
            array = array_of(rows)
            shape = None if array is None else array.shape[1:]
        strangers = [one for one in words if not _has(names, shape, one)]
        if strangers:
            raise ParameterError("words", strangers[0], "columns of the data, by name in a table, else by place")
        return cls(names, shape, words, missing)

    def read(self, rows: Any) -> Any:
        """The rows in the form that learners get: a table of a table, float64 of all else, objects where there are
        words. Raises where rows are ragged."""
        if self.names is not None:
            return self._table(rows)
        array = _array(rows)
        if not self.words:
            return _numbers(array, self.missing)
        if array.ndim == 1:
            return _words(array)
        entries = np.asarray(rows, dtype=object) if isinstance(rows, list) else array.astype(object)
        for place in range(entries.shape[1]):
            column = entries[:, place]
            entries[:, place] = _words(column) if place in self.words else _numbers(column, self.missing)
        return entries

    def asked(self, rows: Any) -> Any:
        """Queries in that form. ParameterError where they have another one: what is asked is public."""
        try:
            found = self.read(rows)
        except (ValueError, TypeError, KeyError, IndexError):
            found = None
        if found is None or found.ndim == 0:
            raise ParameterError("queries", type(rows).__name__, "rows as those that were fitted: an array or a table")
        if self.shape is not None and found.shape[1:] != self.shape:
            raise ParameterError(
                "queries",
                f"rows of shape {found.shape[1:]}",
                f"rows of shape {self.shape}, as those that were fitted",
            )
        return found

    def alone(self, row: Any) -> Any:
        """One query as a container of it alone."""
        if self.names is None:
            return [row] if not isinstance(row, np.ndarray) else row[None]
        if isinstance(row, Mapping) or _is_series(row):
            return [[row[name] for name in self.names]]
        return row if _names(row) is not None else [list(row)]

    def _table(self, rows: Any) -> Any:
        """A table of fresh columns, under its names and a fresh index."""
        import pandas as pd  # here: not every ensemble is of tables

        assert self.names is not None, "asked of tables alone"
        if _names(rows) is not None:
            columns = [rows[name].to_numpy(dtype=None) for name in self.names]
        else:
            entries = np.array(rows, dtype=object).reshape(len(rows), len(self.names))
            columns = [entries[:, place] for place in range(len(self.names))]
        read = {
            name: _words(column) if name in self.words else _numbers(column, self.missing)
            for name, column in zip(self.names, columns, strict=True)
        }
        return pd.DataFrame(read)


def finite_or_nan(number: object, *, field: str) -> float:
    """A number as a float. NaN is one here: learners that know it may be given it."""
    value = None
    if isinstance(number, (int, float, np.integer, np.floating)) and not isinstance(number, (bool, np.timedelta64)):
        with suppress(OverflowError):
            value = float(number)
    if value is None or math.isinf(value):
        raise ParameterError(field, type(number).__name__, "a finite number, or NaN where the learner takes it")
    return value


def classes_of(labels: Any, classes: int) -> npt.NDArray[np.int64]:
    """Labels, or what a model predicts, as classes: int64, -1 for what is none of 0 to classes - 1. Each by itself."""
    values = numbers_of(labels)
    known = (values >= 0) & (values < classes) & (values == np.floor(values))
    return np.where(known, values, -1).astype(np.int64)


def numbers_of(labels: Any) -> npt.NDArray[np.float64]:
    """Labels, or what a model predicts, as numbers: NaN for what is none. Each by itself."""
    array = _array(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    return numbers(array if array.ndim == 1 else list(array), missing=np.nan)


def scores_of(answers: Any) -> npt.NDArray[np.float64]:
    """What a model predicts as scores from 0 to 1, clipped; NaN for what is no number."""
    return np.clip(numbers_of(answers), 0.0, 1.0)


def _names(rows: Any) -> tuple[Any, ...] | None:
    """The names of the columns of a table; None for all else. ParameterError where two columns share one."""
    if not (hasattr(rows, "iloc") and hasattr(rows, "columns")):
        return None
    names = tuple(rows.columns)
    if len(set(names)) != len(names):
        raise ParameterError("data", "a table with two columns of one name", "columns with names of their own")
    return names


def _array(rows: Any) -> npt.NDArray[Any]:
    """Rows as an array; what is masked in it is no number."""
    found = array_of(rows)
    if found is None:
        found = array_of(np.asarray(rows))
    assert found is not None, "an array"
    return found


def _is_series(row: Any) -> bool:
    return hasattr(row, "iloc") and hasattr(row, "index") and not hasattr(row, "columns")


def _has(names: tuple[Any, ...] | None, shape: tuple[int, ...] | None, column: Column) -> bool:
    if names is not None:
        return column in names
    most = shape[0] if shape else 1 if shape == () else None  # of a list nobody knows
    return isinstance(column, int) and column >= 0 and (most is None or column < most)


def _numbers(array: npt.NDArray[Any], missing: float) -> npt.NDArray[np.float64]:
    flat = array.reshape(-1)
    found = numbers(flat if flat.dtype.kind in "fiub" else list(flat), missing=missing)
    return np.where(np.isfinite(found), found + 0.0, missing).reshape(array.shape)  # of zeros one alone


def _words(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    found = np.empty(len(column), dtype=object)
    found[:] = [word(entry) or "nan" for entry in column]  # as it is: `tolist` makes numbers of some dates
    return found
