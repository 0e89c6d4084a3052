"""Whether the gradient of a unit keeps its last bit when the rest of the batch changes, tried on made-up rows.

The guarantee of DP-SGD takes it from the caller's function (docs/proofs/dp_sgd.md, section 5), and ordinary code breaks
it: a matrix product of BLAS, `numpy.sum` and `einsum` add in an order that follows the size and the layout of a batch;
batch normalisation looks at everybody. Sums by `row_sums` keep it, and `microbatch=1` keeps it for every function.

>>> from dpledger.mechanisms.training.row_sums import row_sums
>>> rows, weights = np.random.default_rng(0).normal(size=(40, 784)), np.linspace(-1, 1, 784)
>>> print(check_batch_invariance(lambda x: row_sums(x * weights)[:, np.newaxis] * x, rows))
no gradient of 40 rows changed in 104 batches; that does not prove that none ever does
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpledger.decimals import whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.training.batches import Positions
from dpledger.mechanisms.training.gradients import BrokenShape, Gradients, probe, unit_rows
from dpledger.mechanisms.units import Units

__all__ = ["BatchInvariance", "check_batch_invariance"]

_SEED = 0  # of which made-up rows share a batch
_EVERY_SIZE = 32  # batches of every size up to this, and then by a factor of 1.25
_STEP = 1.25
_EXPECTED = "gradients of which row i depends, bit for bit, on item i alone"
_ADVICE = (
    "write the products with dpl.learning.row_sums, leave out what looks at the whole batch, or take microbatch=1, "
    "which calls the function on one unit at a time"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInvariance:
    """What was tried without finding a gradient that changes: `rows` made-up items in `batches` batches."""

    rows: int
    batches: int

    def __str__(self) -> str:
        return (
            f"no gradient of {self.rows} rows changed in {self.batches} batches; "
            "that does not prove that none ever does"
        )


def check_batch_invariance(
    gradients: Gradients, made_up_rows: object, *, microbatch: int | None = None
) -> BatchInvariance:
    """Try `gradients` on made-up items: alone, all together, and in batches of many sizes that start anywhere.

    `made_up_rows`: items in the form and dtype of your data, in the same kind of container, as extreme as they may be
    and at least as many as your largest batch; never private ones, since a message may say which one failed.
    `microbatch`: as in the run. Returns what was tried. Raises ParameterError, naming the batch, where the gradient of
    an item is not the one that it has alone, where the function raises, or where it returns another shape than
    (items, dimension). A gradient that is not finite counts as zero, and so does -0.0.
    Claim: none; it finds functions that break the assumption of `DPSGD`, and proves of none that it keeps it.

    >>> weights, made_up = np.linspace(-1, 1, 8), np.random.default_rng(0).normal(size=(20, 8))
    >>> gradients = lambda x: dpl.learning.row_sums(x * weights)[:, np.newaxis] * x
    >>> tried = dpl.learning.check_batch_invariance(gradients, made_up)
    >>> tried.rows
    20
    """
    units = Units.of(made_up_rows)
    if len(units) < 2:
        raise ParameterError("made_up_rows", f"{len(units)} rows", "at least two: a gradient alone, and one in company")
    if microbatch is not None:
        microbatch = whole(microbatch, field="microbatch", least=1, most=2**31)
    dimension = probe(gradients, units, examples=units, microbatch=microbatch)
    alone = np.concatenate([_tried(gradients, units, one, dimension, microbatch) for one in _each(len(units))])
    batches = 0
    for batch in _batches(len(units)):
        _compare(alone[batch], _tried(gradients, units, batch, dimension, microbatch), batch)
        batches += 1
    return BatchInvariance(rows=len(units), batches=len(units) + batches)


def _each(count: int) -> Iterator[Positions]:
    for position in range(count):
        yield np.array([position], dtype=np.int64)


def _batches(count: int) -> Iterator[Positions]:
    """All, all but the first, and of each size a batch of neighbours and one of scattered rows; rising, as batches of a
    run are."""
    generator = np.random.default_rng(_SEED)
    everyone = np.arange(count, dtype=np.int64)
    yield everyone
    yield everyone[1:]
    for size in _sizes(count):
        start = int(generator.integers(count - size + 1))
        yield everyone[start : start + size]
        yield np.sort(generator.choice(everyone, size, replace=False))


def _sizes(count: int) -> Iterator[int]:
    size = 2
    while size < count:
        yield size
        size = size + 1 if size < _EVERY_SIZE else int(size * _STEP)


def _tried(
    gradients: Gradients, units: Units, batch: Positions, dimension: int, microbatch: int | None
) -> npt.NDArray[np.float64]:
    """The gradients of a batch as the clipped sum reads them: float64[batch, dimension]."""
    try:
        rows = unit_rows(gradients, units, batch, dimension=dimension, microbatch=microbatch)
    except BrokenShape as error:
        expected = f"one row of {dimension} numbers for each item"
        raise ParameterError("gradients", f"{error} for {_named(batch)}", expected) from None
    except Exception as error:
        raise _failed(error, _named(batch)) from error
    with np.errstate(all="ignore"):
        found = np.array(rows, dtype=np.float64)
    found[~np.isfinite(found).all(axis=1)] = 0.0
    return found


def _compare(alone: npt.NDArray[np.float64], together: npt.NDArray[np.float64], batch: Positions) -> None:
    changed = np.flatnonzero((alone != together).any(axis=1))
    if not len(changed):
        return
    with np.errstate(all="ignore"):
        largest = float(np.abs(alone - together).max())
    raise ParameterError(
        "gradients",
        f"{len(changed)} of {len(batch)} gradients changed, by up to {largest:.2g}, in {_named(batch)}",
        f"{_EXPECTED}; {_ADVICE}",
    )


def _failed(error: Exception, where: str) -> ParameterError:
    return ParameterError("gradients", f"{type(error).__name__} on {where}", "a function that raises on no batch")


def _named(batch: Positions) -> str:
    """Which batch, in words. The rows are made up."""
    if len(batch) == 1:
        return f"made-up row {int(batch[0])} alone"
    return f"the batch of {len(batch)} from row {int(batch[0])} to {int(batch[-1])}"
