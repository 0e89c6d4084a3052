"""Empty batches, on which the caller's function is tried before anything is spent: of types that no record decides.

A column holds floats, whole numbers or objects as its entries are, and one missing or odd entry decides for all. What a
function makes of an empty slice of it, an error above all, would tell of that one record, for nothing. So it is tried
in the form of the data (columns by name, further axes, a list as a list), on entries of types that are fixed here.

>>> [batch.dtype.name for batch in empty_batches(Units.of(np.array([1, 2])))]
['float64', 'int64', 'float32', 'object', 'str32']
>>> next(empty_batches(Units.of(([1, 2], np.ones((2, 3)))))), next(empty_batches(Units.of([1, None])))
(([], array([], shape=(0, 3), dtype=float64)), [])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any

import numpy as np

from dpledger.errors import ParameterError
from dpledger.mechanisms.units import Units

__all__ = ["empty_batches"]

_OF_ARRAYS = ("float64", "int64", "float32", "object", "U1")
_OF_TABLES = ("float64", "int64", "object")
_OF_TENSORS = ("Float", "Double", "Long")
_MOST = 256  # of columns side by side, whose types may differ


def empty_batches(units: Units) -> Iterator[Any]:
    """Batches of no units, in the form of the data, each of other types; at least one. What they are does not depend on
    what any entry is. ParameterError for a column whose rows are not taken by position."""
    if units.groups is not None:
        yield units.take(np.zeros(0, dtype=np.int64))
        return
    for batch in islice(product(*map(_empty, units.columns)), _MOST):
        yield batch if units.side_by_side else batch[0]


def _empty(column: Any) -> list[Any]:
    """No items of a column. Of a library that is not known here: as the column itself has none."""
    made = type(column)
    library = made.__module__.partition(".")[0]
    if isinstance(column, np.ndarray):
        return [column[:0].astype(_of_fields(column.dtype, kind)) for kind in _OF_ARRAYS]
    if isinstance(column, Sequence):
        return [[]]
    if library == "pandas":
        form = {"columns": column.columns} if column.ndim == 2 else {"name": column.name}
        return [made(**form, dtype=kind) for kind in _OF_TABLES]
    if library == "polars" and hasattr(column, "columns"):
        return [made(schema=dict.fromkeys(column.columns, kind)) for kind in (float, int, str)]
    if library == "polars":
        return [made(column.name, [], dtype=kind) for kind in (float, int, str)]
    if library == "torch":
        return [column.new_zeros((0, *column.shape[1:])).type(f"torch.{kind}Tensor") for kind in _OF_TENSORS]
    if library in ("jax", "jaxlib"):
        return [column[:0].astype(kind) for kind in ("float32", "int32")]
    try:
        return [column[np.zeros(0, dtype=np.int64)]]
    except Exception:
        expected = "rows that an array of positions takes, as those of an array, a list or a frame of pandas or polars"
        raise ParameterError("data", made.__name__, expected) from None


def _of_fields(dtype: np.dtype[Any], kind: str) -> np.dtype[Any]:
    """The type `kind`, or of records one whose fields all have it."""
    if dtype.names is None:
        return np.dtype(kind)
    return np.dtype([(name, kind, dtype[name].shape) for name in dtype.names])
