"""Arrays and columns of tables as numpy arrays, without a look at what they hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError

__all__ = ["array_of", "check_one_index"]


def array_of(data: object) -> npt.NDArray[Any] | None:
    """`data` as an array, if they are an array, a column or a table; masked entries as None. None for all else. Of
    numpy's own kind: a row of a `matrix` would be another one."""
    if isinstance(data, np.ma.MaskedArray):
        found, masked = np.array(np.ma.getdata(data), dtype=object), np.ma.getmaskarray(data)
        if masked.dtype == np.bool_:  # not of records, which are no rows of numbers or words
            found[masked] = None
        return found
    if isinstance(data, np.ndarray):
        return np.asarray(data)
    if hasattr(data, "__array__") and isinstance(data, Iterable):
        return np.asarray(data)
    return None


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
