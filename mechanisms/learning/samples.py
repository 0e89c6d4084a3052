"""Labelled samples, whatever they hold: every row is read by itself, and none raises.

A point is a whole number of a public domain {0..points-1}: a number is read as the nearest point, and what is no number
is the null record, which counts nowhere; text counts as the number that it says. A row of bits holds zeros and ones,
read likewise. A label is 1 where it is 1 (or true), else 0. Containers, axes and lengths are checked by `check_sample`,
before anything is charged.

>>> found = points_of([3, -1, 99, 2.6, "x", 2**70], 8)
>>> found.points.tolist(), found.known.tolist()
([3, 0, 7, 3, 0, 7], [True, True, True, True, False, True])
>>> labels_of([1, 0, "yes", True, None]).tolist()
[1, 0, 0, 1, 0]

Assumes: whoever builds an array keeps each record in it (an array of floats holds no whole number above 2^53 exactly; a
list does).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.containers import array_of, check_one_index
from dpledger.mechanisms.numeric.rows import check_column, check_rows, numbers, tally
from dpledger.mechanisms.units import ByUnit, in_random_order, rows_at
from dpledger.relations import Unit

__all__ = [
    "BitRows",
    "LabeledSample",
    "Points",
    "UserSample",
    "Words",
    "are_bits",
    "are_points",
    "bits_of",
    "capped",
    "capped_as",
    "check_labels",
    "check_sample",
    "check_units",
    "check_users",
    "class_labels_of",
    "labeled_sample",
    "labels_of",
    "labels_read_as",
    "points_of",
]

Words: TypeAlias = npt.NDArray[np.uint64]
Labels: TypeAlias = npt.NDArray[np.uint8]

WORD_BITS = 64
_DIGITS = re.compile(r"-?[0-9]{1,40}", re.ASCII)  # of more, a float says which end of a domain it is


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class LabeledSample:
    """Rows and their labels. `x`: one point a row, or (of parities) a row of bits; `y`: one label a row. `units`: for
    each row the id of whom it belongs to, as of `ByUnit`; needed where one unit may have many rows, of which a learner
    then takes at most as many. Raises ParameterError where there is no id for each row, or where columns of pandas have
    different indexes.

    >>> sample = dpl.learning.LabeledSample(x=[3, 7, 5], y=[1, 0, 1])
    >>> len(sample.x)
    3
    >>> visits = dpl.learning.LabeledSample(x=[3, 7, 5], y=[1, 0, 1], units=["ann", "ann", "bob"])
    """

    x: object
    y: object
    units: object = None
    by_unit: ByUnit | None = field(init=False)

    def __post_init__(self) -> None:
        check_one_index(self.x, self.y, field="data")
        by_unit = None if self.units is None else ByUnit((self.x, self.y), units=self.units)
        object.__setattr__(self, "by_unit", by_unit)

    def __repr__(self) -> str:
        return "LabeledSample(...)"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class UserSample:
    """One user a row: `x` and `y` are arrays of points and labels, shape (users, examples of each).

    >>> sample = dpl.learning.UserSample(x=np.array([[3, 7], [5, 5]]), y=np.array([[1, 0], [1, 1]]))
    >>> sample.x.shape
    (2, 2)
    """

    x: npt.NDArray[Any]
    y: npt.NDArray[Any]

    def __repr__(self) -> str:
        return "UserSample(...)"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Points:
    """Points, uint64[rows]; `known`: which rows are no null record (of the others the point is 0)."""

    points: Words
    known: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class BitRows:
    """Rows of bits, uint8[rows, bits]; `known` as in `Points`."""

    bits: Labels
    known: npt.NDArray[np.bool_]


LABELS_READ_AS = "a label that is 1, True or text that says 1 counts as 1; every other, also NaN or a missing one, as 0"
"""What `labels_of` makes of labels, for receipts."""


def labels_read_as(classes: int) -> str:
    """What labels count as, for receipts."""
    if classes == 2:
        return LABELS_READ_AS
    return f"a label that is no whole number from 0 to {classes - 1}, also NaN or a missing one, counts as 0"


def points_read_as(points: int, what: str = "a row") -> str:
    """What `points_of` makes of what is a number, for receipts."""
    return f"{what} is the nearest of the points 0 to {points - 1}; text counts as the number that it says, True is 1"


def check_sample(data: object, *, bits: int | None = None) -> None:
    """ParameterError unless `data` are a LabeledSample with as many labels as rows, one entry each; with `bits`, a row
    may also be that many bits. What an entry is never matters."""
    sample = labeled_sample(data)
    rows = array_of(sample.x)
    wide = bits is not None and (rows is None or rows.ndim == 2)
    if wide and rows is not None and rows.shape[1] != bits:
        raise ParameterError("data", f"x of {rows.shape[1]} columns", f"{bits} columns: one bit each")
    (check_rows if wide else check_column)(sample.x)
    check_labels(sample, tally(sample.x))


def labeled_sample(data: object) -> LabeledSample:
    """The data, if they are a LabeledSample; else ParameterError."""
    if not isinstance(data, LabeledSample):
        raise ParameterError("data", type(data).__name__, "LabeledSample(x, y)")
    return data


def check_labels(sample: LabeledSample, rows: int) -> None:
    """ParameterError unless there are as many labels."""
    check_column(sample.y)
    if tally(sample.y) != rows:
        raise ParameterError("data", "another number of labels than of rows", "one label a row")


def check_units(sample: LabeledSample, unit: Unit | None) -> None:
    """ParameterError where one unit may have many rows and the sample does not say whose each is."""
    if unit is not None and unit.max_contributions > 1 and sample.by_unit is None:
        raise ParameterError(
            "units",
            f"nothing, in a scope where one {unit.name} may have {unit.max_contributions} rows",
            f"an id for each row (LabeledSample(x, y, units=ids)): of each {unit.name} so many count, taken at random",
        )


def capped(sample: LabeledSample, most: int, *, entropy: Entropy) -> LabeledSample:
    """At most so many rows of each unit, which ones a coin of its own says; without those that belong to nobody. The
    sample as it is, where it does not say whose rows are.

    Claim: samples that differ in one unit become samples that differ in at most `most` rows, all of that unit, whatever
    the coins of the others say. Source: docs/proofs/learning_pac.md, "Many rows of a
    unit"."""
    if sample.by_unit is None:
        return sample
    rows, _, ranks = in_random_order(sample.by_unit, entropy=entropy)
    kept = np.sort(rows[ranks < most])
    return LabeledSample(rows_at(sample.x, kept), rows_at(sample.y, kept))


def capped_as(unit: Unit | None) -> tuple[str, ...]:
    """What `capped` makes of the rows of a unit that may have several, for receipts."""
    if unit is None or unit.max_contributions == 1:
        return ()
    return (
        f"of one {unit.name} at most {unit.max_contributions} rows count, taken at random; a row whose id is no text, "
        "bytes, UUID or number, also NaN or a missing one, counts nowhere",
    )


def check_users(data: object, *, examples: int) -> None:
    """ParameterError unless `data` are a UserSample of two arrays with one shape, `examples` columns each."""
    if not isinstance(data, UserSample):
        raise ParameterError("data", type(data).__name__, "UserSample(x, y)")
    for column, values in (("x", data.x), ("y", data.y)):
        if not isinstance(values, np.ndarray):
            raise ParameterError("data", f"{column}: {type(values).__name__}", "arrays: one user a row")
        if values.ndim != 2 or values.shape[1] != examples:
            found = f"{values.ndim} axes" if values.ndim != 2 else f"{values.shape[1]} examples a user"
            expected = f"{examples}, as many as a unit may contribute (`cap_users` makes them of rows)"
            raise ParameterError("data", f"{column}: {found}", expected)
    if data.x.shape != data.y.shape:
        raise ParameterError("data", "another number of users in y than in x", "one label an example")


def points_of(x: object, points: int) -> Points:
    """Each row as a point of {0..points-1} (points at most 2^64), by a total map that is fixed by `points` alone."""
    rows = array_of(x)
    if rows is None or rows.dtype.kind not in "biuf":
        return _each(x if rows is None else rows.tolist(), points)
    last = np.uint64(points - 1)
    if rows.dtype.kind == "f":
        values = _floats(rows)
        known = ~np.isnan(values)
        beyond = values >= _float_from(points - 1)
        inside = np.where(known & ~beyond & (values > 0), values, 0.0)
        return Points(np.where(beyond, last, np.minimum(np.rint(inside).astype(np.uint64), last)), known)
    plain = np.asarray(rows)
    low = plain.astype(np.uint64) if plain.dtype.kind in "bu" else np.maximum(plain, 0).astype(np.uint64)
    return Points(np.minimum(low, last), np.ones(len(low), dtype=bool))


def are_points(x: object, points: int) -> bool:
    """Whether each row is a whole number of {0..points-1}, as it stands."""
    rows = array_of(x)
    if rows is None or rows.dtype.kind not in "biuf":
        return all(
            _is_point(row, points) for row in (x if isinstance(x, Sequence) else list(rows if rows is not None else ()))
        )
    found = points_of(rows, points)
    same = rows == found.points.astype(rows.dtype) if rows.dtype.kind == "f" else (rows >= 0) & (rows <= points - 1)
    return bool((found.known & same).all())


def are_bits(x: object, width: int) -> bool:
    """Whether each row is `width` zeros and ones, or a number of so many digits (up to 64)."""
    rows = array_of(x)
    if rows is not None and rows.ndim == 2 and rows.dtype.kind in "biuf":
        return bool(np.isin(rows, (0, 1)).all())
    if rows is not None and rows.ndim == 1 and rows.dtype.kind in "biuf":
        return are_points(rows, 1 << min(width, WORD_BITS))
    return all(
        _are_bits(row, width) for row in (x if isinstance(x, Sequence) else list(rows if rows is not None else ()))
    )


def labels_of(y: object) -> Labels:
    """Each label: 1 where it is 1 or true, else 0."""
    ones: Labels = (numbers(y, missing=0.0) == 1.0).astype(np.uint8)
    return ones


def class_labels_of(y: object, classes: int) -> npt.NDArray[np.intp]:
    """Each label as a class, 0 to classes - 1: 0 where it is none of them."""
    said = numbers(y, missing=0.0)
    places = np.where((said >= 0) & (said < classes) & (said == np.floor(said)), said, 0.0)
    found: npt.NDArray[np.intp] = places.astype(np.intp)
    return found


def bits_of(x: object, width: int) -> BitRows:
    """Each row as `width` bits: the columns of an array, the entries of a list, or (up to 64) the digits of a number,
    the lowest first. A row of another length, and one in which something is no number, is the null record."""
    rows = array_of(x)
    if rows is not None and rows.ndim == 2:
        if rows.dtype.kind in "biuf":
            return _of_numbers(_floats(rows))
        found = [numbers(row, missing=np.nan) for row in rows]
        return _of_numbers(np.array(found, dtype=np.float64).reshape(len(found), rows.shape[1]))
    if rows is not None and rows.dtype.kind in "biuf":
        return _digits(points_of(rows, 1 << min(width, WORD_BITS)), width)
    one_by_one = [
        _row(row, width) for row in (x if isinstance(x, Sequence) else list(rows if rows is not None else ()))
    ]
    return _of_numbers(np.array(one_by_one, dtype=np.float64).reshape(len(one_by_one), width))


def _float_from(least: int) -> float:
    """The least float64 that is no smaller."""
    nearest = float(least)
    return nearest if nearest >= least else math.nextafter(nearest, math.inf)


def _floats(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """An array of numbers as float64, and without a warning: of a number beyond every float64, which is infinite, and
    of a signalling NaN it would tell that it is there."""
    with np.errstate(all="ignore"):
        return np.asarray(rows, dtype=np.float64)


def _row(row: object, width: int) -> npt.NDArray[np.float64]:
    """One row of bits; NaN in all places for the null record."""
    null = np.full(width, np.nan)
    if isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim == 1):
        with suppress(Exception):  # of the row's own code
            said = numbers(row, missing=np.nan)
            return said if said.shape == (width,) else null
        return null
    found = points_of([row], 1 << min(width, WORD_BITS))
    return _digits(found, width).bits[0].astype(np.float64) if found.known[0] else null


def _digits(found: Points, width: int) -> BitRows:
    bits = np.zeros((len(found.points), width), dtype=np.uint8)
    for place in range(min(width, WORD_BITS)):
        bits[:, place] = found.points >> np.uint64(place) & np.uint64(1)
    return BitRows(bits, found.known)


def _of_numbers(values: npt.NDArray[np.float64]) -> BitRows:
    known = np.asarray(~np.isnan(values).any(axis=1))
    return BitRows((values >= 0.5).astype(np.uint8) * known[:, None].astype(np.uint8), known)


def _each(rows: object, points: int) -> Points:
    """Rows of a list, read one by one: a whole number exactly, whatever its size."""
    listed = rows if isinstance(rows, Sequence) else ()
    found = [_point(row, points) for row in listed]
    known = np.array([at is not None for at in found], dtype=bool)
    return Points(np.array([at or 0 for at in found], dtype=np.uint64), known)


def _point(row: object, points: int) -> int | None:
    """None for what is no number."""
    try:
        return _nearest_point(row, points)
    except Exception:  # of the row's own code
        return None


def _nearest_point(row: object, points: int) -> int | None:
    if isinstance(row, (str, bytes)) and (said := _whole_number(row)) is not None:
        return min(max(said, 0), points - 1)
    if isinstance(row, (int, np.integer, np.bool_)) and not isinstance(row, np.timedelta64):
        return min(max(int(row), 0), points - 1)
    value = float(numbers([row], missing=np.nan)[0])
    if np.isnan(value):
        return None
    if value >= points - 1:
        return points - 1
    return round(value) if value > 0 else 0


def _whole_number(text: str | bytes) -> int | None:
    """The whole number that a text is the digits of, exactly: numpy writes one so, beside text. None for all else."""
    digits = text.decode("latin-1") if isinstance(text, bytes) else text
    return int(digits) if _DIGITS.fullmatch(digits) else None


def _is_point(row: object, points: int) -> bool:
    value = numbers([row], missing=np.nan)[0]
    return not isinstance(row, (str, bytes)) and value == np.floor(value) and _point(row, points) == row


def _are_bits(row: object, width: int) -> bool:
    if isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim):
        return len(row) == width and bool(np.isin(numbers(row, missing=np.nan), (0.0, 1.0)).all())
    return _is_point(row, 1 << min(width, WORD_BITS))
