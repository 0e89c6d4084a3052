"""The exact clipped sum: each row is clipped to an l2 norm and rounded to whole steps; whole numbers are added.

What one row adds to the sum is a function of that row and of public numbers alone, bit for bit: every step is one IEEE
operation an entry, and squares are added in one fixed order (`row_sums`), whatever layout, strides and dtype the array
has and whatever the other rows hold. Sums of whole numbers do not depend on their order. So what one row adds is
bounded exactly, and no row can reach past its bound through rounding, overflow, underflow or a value that is no number.
Proof: docs/proofs/dp_sgd.md, sections 1 to 3.

>>> clipped_sum(np.array([[3.0, 4.0], [0.0, 0.25]]), clip_norm=1.0, grid=0.25).tolist()
[2, 4]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.noise.sampling import LIMIT, Cells
from dpledger.mechanisms.training.row_sums import fold

__all__ = ["LARGEST_CLIP_STEPS", "clipped_sum"]

LARGEST_CLIP_STEPS = 2**50
"""clip_norm / grid may not pass this: then at least seven rows add up in float64 without rounding."""

_EXACT_IN_FLOAT = 2**53
_BLOCK = 2**17  # numbers at a time: 1 MiB of float64, near the core, and rounds of `fold` that are worth a call
_FAR_EXPONENT = 400  # 2^400: above every clip norm, and its square times 2^31 is still a float

_Floats = npt.NDArray[np.float64]


def clipped_sum(rows: npt.NDArray[Any], *, clip_norm: float, grid: float) -> Cells:
    """sum_i round(v_i / grid), v_i = x_i min(1, clip_norm / ||x_i||), in whole steps.

    `rows`: (b, d), floats, whole numbers or booleans of any width; each entry counts as the nearest float64. A row with
    a value that is not finite there counts as zero. `clip_norm` / `grid` is at most 2^50; `grid` a power of two.
    Returns int64[d], or Python integers in an object array where a sum could pass 2^62.
    Claim: the result is the sum of the results for each row alone, and one row changes it by a vector of l2 norm at
    most clip_norm / grid + sqrt(d) / 2. Source: docs/proofs/dp_sgd.md, lemmas 1 and 2. Assumes: d <= 2^31.
    """
    count, dimension = rows.shape
    largest = int(clip_norm / grid) + 1  # no entry of a clipped and rounded row is larger
    total: Cells = np.zeros(dimension, dtype=np.int64 if count * largest < LIMIT else object)
    height = max(1, min(_BLOCK // dimension, _EXACT_IN_FLOAT // largest))
    buffer = np.empty((min(height, count), dimension))
    with np.errstate(all="ignore"):  # a row that overflows is handled, and a warning would tell of it
        for start in range(0, count, height):
            block = np.ascontiguousarray(rows[start : start + height], dtype=np.float64)  # for speed: layout is free
            whole = _whole_steps(block, clip_norm, grid, buffer[: len(block)])
            total += whole.sum(axis=0).astype(np.int64).astype(total.dtype, copy=False)
    return total


def _whole_steps(block: _Floats, clip_norm: float, grid: float, out: _Floats) -> _Floats:
    """Each row clipped, divided by the grid and rounded to nearest."""
    norms = _norms(block, out)
    wild = ~np.isfinite(norms)
    if wild.any():
        block = block.copy()
        block[wild] = _tamed(block[wild])
        norms[wild] = _norms(block[wild], out[: np.count_nonzero(wild)])
    factors = np.where(norms > clip_norm, clip_norm / norms, 1.0)
    np.multiply(block, (factors / grid)[:, np.newaxis], out=out)
    return np.rint(out, out=out)


def _norms(block: _Floats, workspace: _Floats) -> _Floats:
    """A number for each row that is not below its norm: float64[rows]. `workspace`: of the shape of the block."""
    squares = fold(np.multiply(block, block, out=workspace))
    norms: _Floats = np.sqrt(squares) * (1 + (block.shape[1] + 3) * 2.0**-52)
    return norms


def _tamed(rows: _Floats) -> _Floats:
    """Rows whose squares overflow, shortened to a norm near 2^400 (they are clipped all the same); a row that holds a
    value that is not finite becomes zero."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    finite = np.isfinite(largest)
    _, exponents = np.frexp(np.where(finite, largest, 1.0))
    shortened: _Floats = np.ldexp(rows, (_FAR_EXPONENT - exponents)[:, np.newaxis])
    return np.where(finite[:, np.newaxis], shortened, 0.0)
