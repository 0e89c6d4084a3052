"""Sums along the last axis in one order that this module fixes, whatever the memory layout.

    while more than one column is left:  the last half of the columns is added to the first half, column by column
                                         (of an odd number, the middle one waits for the next round)

Each round is one addition of two arrays, entry by entry, and IEEE 754 rounds each entry by itself. So the sum of a row
is a function of that row and of its length alone, bit for bit: not of strides, alignment or the other rows. That cannot
be said of `numpy.sum`, `einsum`, `@` and `dot`, whose order of additions follows layout, size and machine.

>>> row_sums(np.array([[1.0, 2.0, 3.0], [0.5, 0.25, 0.0]])).tolist()
[6.0, 0.75]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError

__all__ = ["fold", "row_sums"]

_NUMBERS = "biufc"  # kinds of numpy dtypes
_EXPECTED = "an array of numbers, of one or more axes"


def row_sums(terms: npt.ArrayLike) -> npt.NDArray[Any]:
    """The sums of `terms` along its last axis, in the fixed order: (..., d) to (...), in the dtype of `terms`.

    The batch-invariant way to write products: `row_sums(x * w)` for `x @ w`, (b, d) and (d,) to (b,);
    `row_sums(x[:, None, :] * w)` for `x @ w.T`, (b, d) and (h, d) to (b, h). Sums of no terms are 0.
    Claim: each sum is that of its terms, each times a factor between (1 - u)^r and (1 + u)^r; u is the unit roundoff of
    the dtype, r = ceil(log2 d). Source: docs/proofs/dp_sgd.md, section 1. Assumes: nothing overflows. Raises
    ParameterError where `terms` are no array of numbers with at least one axis.

    >>> rows, weights = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, 0.25])
    >>> dpl.learning.row_sums(rows * weights).tolist()  # as rows @ weights
    [1.0, 2.5]
    """
    try:
        copied = np.array(terms, copy=True)
    except (ValueError, TypeError):
        raise ParameterError("terms", type(terms).__name__, _EXPECTED) from None
    if not copied.ndim or copied.dtype.kind not in _NUMBERS:
        raise ParameterError("terms", f"{copied.dtype} with {copied.ndim} axes", _EXPECTED)
    if copied.dtype.kind == "b":
        copied = copied.astype(np.int64)  # + of booleans is "or"
    if not copied.shape[-1]:
        return np.zeros(copied.shape[:-1], dtype=copied.dtype)
    return np.ascontiguousarray(fold(copied))  # numpy's exp may take other instructions for entries that lie apart


def fold(terms: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`row_sums` of an array with at least one column, which it overwrites. Returns a view: the first column."""
    width = terms.shape[-1]
    while width > 1:
        half = width // 2
        terms[..., :half] += terms[..., width - half : width]
        width -= half
    first: npt.NDArray[Any] = terms[..., 0]
    return first
