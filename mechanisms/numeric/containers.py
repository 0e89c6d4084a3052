"""Arrays and columns of tables as numpy arrays, without a look at what they hold.

Only of libraries whose arrays hold their entries. What says that it is an array may compute them when it is asked, as a
lazy table does, by the caller's own functions: mechanisms ask before anything is charged, and an error of such a
function would tell of a record, for nothing. Whoever has a lazy one computes it first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError

__all__ = ["array_of", "check_one_index"]

HOLD_ENTRIES = frozenset({"dpledger", "jax", "jaxlib", "numpy", "pandas", "polars", "pyarrow", "tensorflow", "torch"})
"""The libraries, by name: what a class says of its own data is not asked."""


def array_of(data: object) -> npt.NDArray[Any] | None:
    """`data` as an array, if they are an array, a column or a table of a library whose arrays hold their entries; what
    is masked as None. None for all else. Of numpy's own kind: a row of a `matrix` would be another one."""
    if isinstance(data, np.ma.MaskedArray):
        found, masked = np.array(np.ma.getdata(data), dtype=object), np.ma.getmaskarray(data)
        if masked.dtype == np.bool_:  # not of records, which are no rows of numbers or words
            found[masked] = None
        return found
    if isinstance(data, np.ndarray):
        return np.asarray(data)
    if hasattr(data, "__array__") and isinstance(data, Iterable) and _holds_entries(type(data)):
        return np.asarray(data)
    return None


def _holds_entries(kind: type) -> bool:
    return any(base.__module__.partition(".")[0] in HOLD_ENTRIES for base in kind.__mro__)


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
