"""Labelled examples, each bounded by itself: what empirical risks are computed from, whatever the rows hold.

    x = features / feature_bound, rounded towards 0 to steps of 2^-18, in the l1 ball of radius 1
    y = label / label_bound, rounded likewise, in [-1, 1]; of a classification +1 above 0, else -1

What is no number counts as 0, and so does a row of a list that has another length. Each row is read without a look at
the others, and a row in whole steps lies in the ball exactly, so that sums over rows are sums of whole numbers: a unit
moves them by what it adds, in any order of rows.

>>> shape = Shape(rows=2, dimension=2, feature_bound=Decimal(10), label_bound=Decimal(1), target=None)
>>> features, labels = bounded(([[5, float("nan")], [30, -10]], [0.5, 7]), shape, signs=False)
>>> (features / ONE).tolist(), (labels / ONE).tolist()
([[0.5, 0.0], [0.5, -0.5]], [0.5, 1.0])
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from dpledger.decimals import float_up, text
from dpledger.errors import ParameterError
from dpledger.mechanisms.numeric.containers import array_of, check_one_index
from dpledger.mechanisms.numeric.rows import numbers

__all__ = ["ONE", "Shape", "bounded", "check_examples"]

Steps: TypeAlias = npt.NDArray[np.int64]

ONE = 2**18
"""The steps in 1. A product of two entries is a whole number of 2^-36."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is public of the examples: how many (None where that is private), of how many features, by which bounds they
    are scaled, and the name of the label's column where they come as one table."""

    rows: int | None
    dimension: int
    feature_bound: Decimal
    label_bound: Decimal
    target: str | None


def check_examples(data: object, shape: Shape) -> None:
    """Raise ParameterError unless `data` are so many examples of so many features: a pair of an array with two axes and
    a column of labels, or a table with the column `target`. Of lists their length is asked; no row is looked at."""
    features, labels = _shapes(data, shape)
    if shape.rows is None:
        if len(features) != 2 or features[1] != shape.dimension or labels != features[:1]:
            raise ParameterError(
                "data", "another shape", f"features with {shape.dimension} columns, a label for each row"
            )
    elif features != (shape.rows, shape.dimension) or labels != (shape.rows,):
        expected = f"features of shape ({shape.rows}, {shape.dimension}) and {shape.rows} labels"
        raise ParameterError("data", f"shapes {features} and {labels}", expected)


def _shapes(data: object, shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of features and labels; of a list of rows as they will be read."""
    if shape.target is not None or not _is_pair(data):
        features, labels = _columns(data, shape)
        return features.shape, labels.shape
    features, labels = data
    check_one_index(features, labels, field="data")
    rows = (len(features), shape.dimension) if _is_list(features) else _array(features).shape
    return rows, (len(labels),) if _is_list(labels) else _array(labels).shape


def examples_read_as(shape: Shape, *, signs: bool) -> tuple[str, ...]:
    """What entries count as that are no numbers, or beyond their bounds, a sentence each: for receipts."""
    return (
        "NaN or any other non-number counts as 0; text counts as the number that it says",
        f"an entry beyond {text(shape.feature_bound)}, also infinity, counts as that with its sign; a row is shrunk",
        "a label above 0 counts as 1, every other, also NaN or a missing one, as -1"
        if signs
        else f"a label beyond {text(shape.label_bound)}, also infinity, counts as that with its sign",
    )


def bounded(data: object, shape: Shape, *, signs: bool) -> tuple[Steps, Steps]:
    """The features and labels in whole steps of 2^-18: int64[rows, dimension] and int64[rows]. `signs`: labels are
    +1 and -1.

    Claim: the absolute values of each row of features add up to at most ONE, exactly, as does that of each label, and
    each row is a function of its own entries."""
    features, labels = _columns(data, shape)
    x = _towards_zero(_read(features).reshape(features.shape), shape.feature_bound)
    sizes = np.abs(x).sum(axis=1, keepdims=True)
    shrunk = np.sign(x) * (np.abs(x) * ONE // np.maximum(sizes, ONE))
    y = _read(labels)
    return shrunk, np.where(y > 0, ONE, -ONE) if signs else _towards_zero(y, shape.label_bound)


def _columns(data: object, shape: Shape) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    if shape.target is not None:
        return _table(data, shape.target)
    if _is_pair(data):
        features, labels = data
        rows = _listed(features, shape.dimension) if _is_list(features) else _array(features)
        return rows, _listed([[label] for label in _entries(labels)], 1).reshape(-1) if _is_list(labels) else _array(
            labels
        )
    raise ParameterError("data", type(data).__name__, "a pair (features, labels), or a table and `target`")


def _table(data: Any, target: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    columns = getattr(data, "columns", None)
    if columns is None or list(columns).count(target) != 1:
        raise ParameterError("data", type(data).__name__, f"a table with one column {target!r}: the target")
    return _array(data[[name for name in columns if name != target]]), _array(data[target])


def _array(column: object) -> npt.NDArray[Any]:
    found = array_of(column)
    if found is None:
        raise ParameterError("data", type(column).__name__, "an array, a table, or a list of rows")
    return found


def _is_pair(data: object) -> TypeGuard[tuple[Any, Any]]:
    return isinstance(data, tuple) and len(data) == 2


def _is_list(column: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    """By its type alone: what an object says of its own class is code of its own."""
    return issubclass(type(column), list | tuple)


def _is_array(row: object) -> TypeGuard[npt.NDArray[Any]]:
    return issubclass(type(row), np.ndarray)


def _entries(column: list[object] | tuple[object, ...]) -> list[object]:
    """What a list holds. Of a class made from one, what the list itself holds: its own iteration may raise."""
    return [*(list.__iter__(column) if isinstance(column, list) else tuple.__iter__(column))]


def _row(row: object, dimension: int) -> list[object]:
    """The entries of one row of a list, whatever it is; of one that is no row of so many, none. No code of the row
    runs."""
    entries = [row]
    if _is_list(row):
        entries = _entries(row)
    elif _is_array(row):
        plain = np.ndarray.view(row, np.ndarray)
        entries = list(plain) if plain.ndim == 1 else entries
    return entries if len(entries) == dimension else [None] * dimension


def _listed(rows: list[Any] | tuple[Any, ...], dimension: int) -> npt.NDArray[Any]:
    """The objects that rows of a list hold, as they are: object[rows, dimension]."""
    result = np.empty((len(rows), dimension), dtype=object)
    for place, row in enumerate(_entries(rows)):
        for column, entry in enumerate(_row(row, dimension)):
            result[place, column] = entry
    return result


def _read(entries: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return numbers(entries.reshape(-1), missing=0.0)


def _towards_zero(values: npt.NDArray[np.float64], bound: Decimal) -> Steps:
    with np.errstate(all="ignore"):  # beyond every float is beyond the bound, below every float is 0
        scaled = np.clip(values / float_up(bound), -1.0, 1.0)
    steps: Steps = np.trunc(scaled * ONE).astype(np.int64)
    return steps
