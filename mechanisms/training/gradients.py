"""What the caller's function returns for a batch, as one row of real numbers for each unit.

The function is the caller's, so its shape and dtype are a contract: what breaks it ends the run. Within the contract
each row is read by itself, and each entry by itself: in a list every row has its own dtype, an array of objects is read
entry by entry, and what is no real number there counts as NaN, so that its row counts as zero.

>>> batch = np.array([[3.0, 4.0], [0.0, 1.0]])
>>> unit_rows(lambda rows: rows, Units.of(batch), np.array([1]), dimension=2).tolist()
[[0.0, 1.0]]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError
from dpledger.mechanisms.numeric.rows import numbers
from dpledger.mechanisms.training.batches import Positions
from dpledger.mechanisms.training.units import Units

__all__ = ["BrokenShape", "Gradients", "probe", "unit_rows"]

Gradients: TypeAlias = Callable[[Any], npt.ArrayLike]
"""The items of a batch (of b units, also 0) -> real numbers of shape (b, dimension): an array, or for b > 0 a list of
rows. Row i may depend, bit for bit, on item i, on earlier outputs of the run and on public values, and on nothing else.
Gradients that look at the rest of the batch void the guarantee: batch normalisation does, and so does a matrix product
whose last bits change with the size of the batch. `check_batch_invariance` finds both, `microbatch=1` rules them out.
"""

_REAL = "biuf"  # kinds of dtype: booleans, whole numbers, floats


class BrokenShape(Exception):
    """The function did not return one row of real numbers for each item. Says what it returned: not to be shown where
    the items are private."""


def unit_rows(
    gradients: Gradients, units: Units, batch: Positions, *, dimension: int, microbatch: int | None = None
) -> npt.NDArray[Any]:
    """The row of each unit of `batch`: (len(batch), dimension), of real numbers.

    `microbatch`: how many units the function is called on at a time; None: on all of the batch in one call. The last
    call is filled up with null rows: repeats of its last unit, whose gradients are thrown away, so that every call has
    the same shape, and an item for which the function is made. Raises BrokenShape, or what the function raises.
    """
    if microbatch is None:
        return _rows(gradients(units.take(batch)), len(batch), dimension)
    result = np.empty((len(batch), dimension))
    for start in range(0, len(batch), microbatch):
        group = batch[start : start + microbatch]
        filled = np.concatenate([group, np.repeat(group[-1:], microbatch - len(group))])
        found = _rows(gradients(units.take(filled)), microbatch, dimension)
        with np.errstate(all="ignore"):  # a wider float that overflows counts as infinite
            result[start : start + len(group)] = found[: len(group)]
    return result


def probe(gradients: Gradients, units: Units, dimension: int) -> None:
    """Call `gradients` on no units: ParameterError unless it returns real numbers of shape (0, dimension)."""
    expected = f"real numbers of shape (rows, {dimension}), one row a unit, also for no units"
    try:
        unit_rows(gradients, units, np.zeros(0, dtype=np.int64), dimension=dimension)
    except BrokenShape as error:
        raise ParameterError("gradients", f"{error} on an empty batch", expected) from None
    except Exception as error:  # the batch was empty: what it says holds nothing of the data
        raise ParameterError("gradients", f"{type(error).__name__} on an empty batch", expected) from error


def _rows(result: Any, count: int, dimension: int) -> npt.NDArray[Any]:
    if isinstance(result, (list, tuple)) and result:
        found = [_row(row, dimension) for row in result]
        rows: npt.NDArray[Any] = np.array(found)
    else:
        rows = _read(np.asarray(result))
    if rows.shape != (count, dimension):
        raise BrokenShape(f"{rows.dtype} of shape {rows.shape}")
    return rows


def _row(row: Any, dimension: int) -> npt.NDArray[np.float64]:
    """A row of a list, by itself: the dtype of the others says nothing about it. float64[dimension]."""
    entries = np.asarray(row)
    if entries.shape != (dimension,):
        raise BrokenShape(f"a row of shape {entries.shape}")
    if entries.dtype.kind not in _REAL + "O":
        return np.full(dimension, np.nan)
    with np.errstate(all="ignore"):
        return _read(entries).astype(np.float64)


def _read(entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if entries.dtype.kind == "O":
        return numbers(list(entries.reshape(-1)), missing=np.nan).reshape(entries.shape)
    if entries.dtype.kind not in _REAL:
        raise BrokenShape(f"{entries.dtype} of shape {entries.shape}")
    return entries
