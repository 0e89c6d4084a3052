"""Rows and parameters that a statistic of records must stand, or refuse, whatever they hold."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd

__all__ = [
    "COLUMNS_OF_NUMBERS",
    "INF",
    "NAN",
    "NO_COLUMNS",
    "NO_NUMBERS",
    "NO_POSITIVES",
    "NO_ROWS",
    "ODD_VALUES",
    "ROWS",
    "refused",
]

NAN, INF = float("nan"), float("inf")
ODD_VALUES: tuple[object, ...] = (
    NAN,
    INF,
    -INF,
    Decimal("sNaN"),
    10**400,
    -(10**400),
    True,
    np.int8(-3),
    np.float32(1.5),
    np.uint64(2**64 - 1),
    np.array(3.0),
    1e308,
    Fraction(1, 3),
    Decimal("1e999"),
    Decimal("-0.1"),
    np.longdouble("1e4000"),
    5e-324,
    # an entry of numpy, whatever its dtype is: that may follow from one record
    np.array("a"),
    np.str_("3"),
    np.complex128(1j),
    np.datetime64(1, "s"),
    np.timedelta64(1, "s"),
)
NO_NUMBERS: tuple[object, ...] = (
    None,
    "3",
    b"1",
    [],
    [1.0, 2.0],
    (1,),
    {},
    {1},
    object(),
    1j,
    np.array([1.0, 2.0]),
    np.array([[3]]),
    np.array([]),
    pd.Series([1.0]),
    pd.NA,
    iter([1]),
)
ROWS: tuple[object, ...] = (
    [],
    (),
    [*ODD_VALUES, *NO_NUMBERS],
    [NO_NUMBERS, [1, 2], [3]],
    np.array([3, 10**400, None, NAN, "x"], dtype=object),
    pd.Series(["a", None], dtype="category"),
    range(3),
)
COLUMNS_OF_NUMBERS = (
    np.array(["1e4000", "nan"], dtype=np.longdouble),
    np.array([True, False]),
    np.array([], dtype=np.float64),
    pd.Series([1, None, 3], dtype="Int64"),
    np.ma.masked_array([1.0, 2.0], mask=[True, False]),
    np.array(["a", "2"]),
    np.array([b"a", b"2"]),
    np.array([1j]),
    np.array([1, 2], dtype="datetime64[s]"),
)
NO_ROWS: tuple[object, ...] = (
    None,
    5,
    3.5,
    "text",
    b"text",
    {"a": 1},
    {1, 2},
    {"a": 1}.values(),
    iter([1, 2]),
    (row for row in [1, 2]),
    object(),
    np.array(5),
)
NO_COLUMNS = (
    *NO_ROWS,
    np.zeros((3, 2)),
    pd.DataFrame({"a": [1.0, NAN]}),
)
NO_POSITIVES: tuple[object, ...] = (0, -1, NAN, INF, -INF, "nan", "", "one", None, "1e-61", 10**18, [], True)


def refused(field: str, *values: object) -> tuple[dict[str, object], ...]:
    return tuple({field: value} for value in values)
