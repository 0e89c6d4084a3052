"""Arrays and columns of tables as numpy arrays, in which no entry decides how another is read.

Only of libraries whose arrays hold their entries. What says that it is an array may compute them when it is asked, as a
lazy table does, by the caller's own functions: mechanisms ask before anything is charged, and an error of such a
function would tell of a record, for nothing. Whoever has a lazy one computes it first.

Numpy makes floats of whole numbers beside a missing one, so that neighbours above 2^53 become one, and raises where it
has no place for an entry (a date after the year 9999). Such a column is read entry by entry; what cannot be read is
None. Dates and durations are handed on as objects, for one of them gives all the others their unit, and of some units
numpy makes whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError

__all__ = ["array_of", "check_one_index", "holds_entries"]

HOLD_ENTRIES = frozenset({"dpledger", "jax", "jaxlib", "numpy", "pandas", "polars", "pyarrow", "tensorflow", "torch"})
"""The libraries, by name: what a class says of its own data is not asked."""
HOLD_TABLES = frozenset({"pandas", "polars", "pyarrow"})
"""Those of them whose columns may hold anything."""


def array_of(data: object) -> npt.NDArray[Any] | None:
    """`data` as an array, if they are an array, a column or a table of a library whose arrays hold their entries; what
    is masked as None. None for all else. Of numpy's own kind: a row of a `matrix` would be another one."""
    found = _array(data)
    return found if found is None or found.dtype.kind not in "mM" else _objects(found)


def _objects(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The entries, each as it is."""
    return np.fromiter(array.flat, dtype=object, count=array.size).reshape(array.shape)


def _array(data: object) -> npt.NDArray[Any] | None:
    if isinstance(data, np.ma.MaskedArray):
        found, masked = _objects(np.ma.getdata(data)), np.ma.getmaskarray(data)
        if masked.dtype == np.bool_:  # not of records, which are no rows of numbers or words
            found[masked] = None
        return found
    if isinstance(data, np.ndarray):
        return np.asarray(data)
    if hasattr(data, "__array__") and isinstance(data, Iterable) and holds_entries(data):
        return _column_or_table(data) if _is_of(HOLD_TABLES, data) else _tensor(data)
    return None


def holds_entries(data: object) -> bool:
    """Whether it is of a library whose arrays and tables hold their entries: to look at it computes nothing."""
    return _is_of(HOLD_ENTRIES, data)


def _is_of(libraries: frozenset[str], data: object) -> bool:
    return any(base.__module__.partition(".")[0] in libraries for base in type(data).__mro__)


def _tensor(data: object) -> npt.NDArray[Any]:
    """ParameterError for a type that numpy does not read."""
    try:
        return np.asarray(data)
    except Exception:
        expected = "an array that numpy reads: dense, of a type that numpy has, on the CPU, and without a gradient"
        raise ParameterError("data", f"a {type(data).__name__} that numpy does not read", expected) from None


def _column_or_table(data: Any) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] | None = None
    with suppress(Exception):  # an entry that numpy has no place for
        found = np.asarray(data)
    columns = _columns(data)
    if found is None and columns is not None:
        return np.stack([_one_by_one(column) for column in columns], axis=1)
    if found is None or (columns is None and found.dtype.kind == "f" and not _is_declared_float(data)):
        return _one_by_one(data)
    return found


def _columns(data: Any) -> list[Any] | None:
    """Those of a table; None of a column."""
    if hasattr(data, "get_columns"):  # polars
        return list(data.get_columns())
    if hasattr(data, "iloc"):
        return [data.iloc[:, place] for place in range(data.shape[1])] if data.ndim == 2 else None
    return list(data.columns) if hasattr(data, "columns") else None


def _is_declared_float(column: object) -> bool:
    """Whether the column's own type says so, by its name: float64, Float64, double[pyarrow], Sparse[float64, nan]."""
    name = str(getattr(column, "dtype", getattr(column, "type", ""))).lower()
    return "float" in name or "double" in name


def _one_by_one(column: Any) -> npt.NDArray[Any]:
    """Each entry as it is, in an array of objects; None for one that is missing or cannot be read."""
    found = np.empty(len(column), dtype=object)
    for place, entry in enumerate(_listed(column)):
        found[place] = None if type(entry).__name__ == "NAType" else entry
    return found


def _listed(column: Any) -> list[object]:
    for way in ("to_pylist", "to_list", "tolist"):  # of pyarrow, of columns, of the arrays that pandas has in them
        if hasattr(column, way):
            with suppress(Exception):
                return list(getattr(column, way)())
    entries = column.iloc if hasattr(column, "iloc") else column
    found: list[object] = [None] * len(column)
    for place in range(len(found)):
        with suppress(Exception):
            entry = entries[place]
            found[place] = entry.as_py() if hasattr(entry, "as_py") else entry
    return found


def check_one_index(*columns: object, field: str) -> None:
    """ParameterError where two of these columns are of pandas and their rows lie otherwise, as their indexes say: side
    by side by position, each row would stand beside what is of another."""
    indexes = [column.index for column in columns if hasattr(column, "iloc") and hasattr(column, "index")]
    if not all(index is indexes[0] or index.equals(indexes[0]) for index in indexes):
        raise ParameterError(
            field,
            "columns of pandas with different indexes",
            "columns of one frame, which is sorted or filtered first (`.to_numpy()` where their order is the same)",
        )
