"""Data by unit of privacy: something with a length and an item for each unit, or a tuple of such, side by side.

Item i is everything of unit i. An array, a list, a table with `iloc`, or a tuple of them with equal lengths, will do.
Where a unit is a person with many rows, item i is all the rows of person i, and the gradients function still returns
one row for it.

>>> units = Units.of((np.arange(3), ["a", "b", "c"]))
>>> len(units), units.take(np.array([0, 2]))
(3, (array([0, 2]), ['a', 'c']))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError

__all__ = ["Units"]


@dataclass(frozen=True, slots=True, repr=False)
class Units:
    """The units of a dataset, to be taken by position. Shows nothing of them."""

    columns: tuple[Any, ...]
    side_by_side: bool

    @classmethod
    def of(cls, data: object) -> Units:
        """The units of `data`; ParameterError where it has no items by position, or columns of different lengths.

        No message says how many units there are: under add_remove that is private.
        """
        columns = data if isinstance(data, tuple) else (data,)
        if not columns:
            raise ParameterError("data", "an empty tuple", "an array, a list, a table or a tuple of them")
        if len({_length(column) for column in columns}) != 1:
            raise ParameterError("data", "columns of different lengths", "one item of each column for each unit")
        return cls(columns, isinstance(data, tuple))

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, positions: npt.NDArray[np.int64]) -> Any:
        """The items at `positions`, in the form of the data: an array of an array, a list of a list, ..."""
        taken = tuple(_taken(column, positions) for column in self.columns)
        return taken if self.side_by_side else taken[0]


def _length(column: Any) -> int:
    try:
        if hasattr(column, "__getitem__") and not isinstance(column, (str, bytes, Mapping, Set)):
            return len(column)
    except TypeError:  # a number, an iterator, an array without axes
        pass
    raise ParameterError("data", type(column).__name__, "an array, a list, a table or a tuple of them")


def _taken(column: Any, positions: npt.NDArray[np.int64]) -> Any:
    if hasattr(column, "iloc"):
        return column.iloc[positions]
    if isinstance(column, Sequence):
        return [column[position] for position in positions.tolist()]
    return column[positions]
