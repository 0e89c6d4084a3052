"""What the caller's function returns for a batch, as one row of real numbers for each unit.

The function is the caller's, and the shape of what it returns is a contract: what breaks it ends the run. The dtype is
none, since one record may have decided it: each row of a list is read by itself, each entry of an array by itself
(`numeric.rows.numbers`), and what is no real number counts as NaN, so that its row counts as zero.

>>> batch = np.array([[3.0, 4.0], [0.0, 1.0]])
>>> unit_rows(lambda rows: rows, Units.of(batch), np.array([1]), dimension=2).tolist()
[[0.0, 1.0]]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError, shortened
from dpledger.mechanisms.numeric.containers import array_of
from dpledger.mechanisms.numeric.rows import numbers
from dpledger.mechanisms.training.batches import Positions
from dpledger.mechanisms.training.empty_batches import empty_batches
from dpledger.mechanisms.units import Units

__all__ = ["BrokenShape", "Gradients", "not_on_nobody", "probe", "unit_rows"]

Gradients: TypeAlias = Callable[[Any], npt.ArrayLike]
"""The items of a batch (of b units, also 0) -> real numbers of shape (b, dimension): an array, or for b > 0 a list of
rows. Row i may depend, bit for bit, on item i, on earlier outputs of the run and on public values, and on nothing else.
Gradients that look at the rest of the batch void the guarantee: batch normalisation does, and so does a matrix product
whose last bits change with the size of the batch. `check_batch_invariance` finds both, `microbatch=1` rules them out.
"""

_LONGEST_CAUSE = 300  # characters of what a function raised
_REAL = "biuf"  # kinds of dtype that become float64 as each entry by itself would: booleans, whole numbers, floats


class _Unfit(Exception):
    """What a function did wrong on a batch that is public."""


class BrokenShape(Exception):
    """The function did not return one row for each item. Says what it returned: not to be shown where the items are
    private."""


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


def probe(
    gradients: Gradients,
    units: Units,
    dimension: int | None = None,
    *,
    examples: Units | None = None,
    microbatch: int | None = None,
) -> int:
    """Call `gradients` on no units, until it takes those of one type (`empty_batches`), and return the length of a
    gradient; on `examples`, made-up ones, if there are any, `microbatch` of them where the run calls it on as many.
    ParameterError, with what it raised first, unless it returns real numbers of shape (items, dimension). What is seen
    is public: the batch is empty and of types that no record decides, or made up."""
    if examples is None:
        batches, count, where = empty_batches(units), 0, "an empty batch"
    else:
        if not len(examples):
            raise ParameterError("example_rows", "none", "at least one made-up row")
        positions = np.resize(np.arange(len(examples)), microbatch or len(examples))
        units, count = examples, len(positions)
        batches, where = iter([units.take(positions)]), f"{count} made-up row{'s' * (count > 1)}"
    expected = f"real numbers of shape (rows, {dimension or 'dimension'}), one row a unit"
    if examples is None:
        expected += (
            ", also for no units, of types that no record decides (or example_rows=, made-up rows, of a function that "
            "cannot take none)"
        )
    if any(isinstance(column, (list, tuple)) for column in units.columns):
        expected += "; rows in a list come as a list: give numpy.array(rows) where the function computes with arrays"
    wrong: list[_Unfit] = []
    for batch in batches:
        try:
            return _length(gradients, batch, (count, dimension), where)
        except _Unfit as unfit:
            wrong.append(unfit)
    told = shortened(str(wrong[0]), limit=_LONGEST_CAUSE)
    raise ParameterError("gradients", told, expected) from wrong[0].__cause__


def _length(gradients: Gradients, batch: Any, shape: tuple[int, int | None], where: str) -> int:
    """The length of a gradient of `batch`. _Unfit, naming the batch by `where`, unless there are as many as `shape`
    says, of that length or of any."""
    try:
        found = _array(gradients(batch))
    except Exception as error:
        raise _Unfit(f"{type(error).__name__} on {where}: {' '.join(str(error).split())}") from error
    count, dimension = shape
    fits = found.ndim == 2 and len(found) == count and dimension in (None, found.shape[1])
    if not fits or found.dtype.kind not in _REAL + "O":
        raise _Unfit(f"{found.dtype} of shape {found.shape} on {where}")
    return int(found.shape[1])


def not_on_nobody(gradients: Gradients, dimension: int) -> Gradients:
    """The same function, which is not called on an empty batch: no units have no rows, of shape (0, dimension).

    >>> not_on_nobody(lambda rows: rows / len(rows), 2)(np.zeros((0, 2))).shape
    (0, 2)
    """

    def rows(batch: Any) -> npt.ArrayLike:
        first = batch[0] if isinstance(batch, tuple) else batch
        return gradients(batch) if len(first) else np.zeros((0, dimension))

    return rows


def _rows(result: Any, count: int, dimension: int) -> npt.NDArray[Any]:
    if isinstance(result, (list, tuple)) and result:
        rows = np.array([_row(row, dimension) for row in result])
    else:
        rows = _read(_array(result))
    if rows.shape != (count, dimension):
        raise BrokenShape(f"shape {rows.shape}")
    return rows


def _row(row: Any, dimension: int) -> npt.NDArray[np.float64]:
    """A row of a list, by itself: the dtype of the others says nothing about it. float64[dimension]."""
    entries = _read(_array(row))
    if entries.shape != (dimension,):
        raise BrokenShape(f"a row of shape {entries.shape}")
    with np.errstate(all="ignore"):  # a wider float that overflows counts as infinite
        return entries.astype(np.float64)


def _array(result: Any) -> npt.NDArray[Any]:
    found = None if type(result) is np.ndarray else array_of(result)
    return np.asarray(result) if found is None else found


def _read(entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if entries.dtype.kind in _REAL:
        return entries
    return numbers(entries.reshape(-1), missing=np.nan).reshape(entries.shape)
