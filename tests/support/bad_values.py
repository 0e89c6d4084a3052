"""Values that are hardly ever right anywhere: what a test gives to every parameter of the public surface."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

import dpledger as dpl

__all__ = ["SECRET", "bad_values"]

SECRET = 777123.25
"""What stands in every container: it must not show in a message."""


class Colour(Enum):
    """An enum of another kind."""

    RED = "red"


class Many(IntEnum):
    """A number by inheritance."""

    THREE = 3


class Raises:
    """Everything that Python may ask of an object fails."""

    def __repr__(self) -> str:
        raise RuntimeError(f"no text {SECRET}")

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError(f"not comparable {SECRET}")

    def __hash__(self) -> int:
        raise RuntimeError(f"no hash {SECRET}")

    def __bool__(self) -> bool:
        raise RuntimeError(f"no truth {SECRET}")

    def __float__(self) -> float:
        raise RuntimeError(f"no float {SECRET}")

    def __index__(self) -> int:
        raise RuntimeError(f"no index {SECRET}")

    def __len__(self) -> int:
        raise RuntimeError(f"no length {SECRET}")

    def __iter__(self) -> Any:
        raise RuntimeError(f"no items {SECRET}")


class LongName:
    """An object whose text has many lines."""

    def __repr__(self) -> str:
        return f"{SECRET}\n" * 1000


def bad_values() -> dict[str, Callable[[], object]]:
    """Values by name, each made anew: hardly any of them is right anywhere."""
    return {
        "None": lambda: None,
        "nan": lambda: float("nan"),
        "inf": lambda: float("inf"),
        "-inf": lambda: float("-inf"),
        "-1": lambda: -1,
        "0": lambda: 0,
        "-0.0": lambda: -0.0,
        "1": lambda: 1,
        "2.5": lambda: 2.5,
        "1e400": lambda: "1e400",
        "1e-400": lambda: "1e-400",
        "10**400": lambda: 10**400,
        "10**5000": lambda: 10**5000,
        "Decimal 1E+999999": lambda: Decimal("1E+999999"),
        "Decimal 1E-999999": lambda: Decimal("1E-999999"),
        "Decimal NaN": lambda: Decimal("NaN"),
        "Decimal sNaN": lambda: Decimal("sNaN"),
        "Decimal of many digits": lambda: Decimal("0." + "1" * 5000),
        "True": lambda: True,
        "numpy True": lambda: np.True_,
        "array": lambda: np.array([SECRET, 2.0]),
        "array of one": lambda: np.array([1]),
        "array of none": lambda: np.array([]),
        "array of no axes": lambda: np.array(1.0),
        "Series": lambda: pd.Series([SECRET] * 100, name=str(SECRET)),
        "DataFrame": lambda: pd.DataFrame({str(SECRET): [SECRET]}),
        "Timestamp": lambda: pd.Timestamp(SECRET),
        "bytes": lambda: b"\x00\xff bytes",
        "empty text": lambda: "",
        "control characters": lambda: "a\x00\n\x1b[31mb\u202e",
        "lone surrogate": lambda: "\ud800",
        "long text": lambda: "long " * 10**5,
        "text": lambda: "voodoo",
        "colour": lambda: Colour.RED,
        "IntEnum": lambda: Many.THREE,
        "lambda": lambda: lambda *_: SECRET,
        "class": lambda: dpl.PureDP,
        "raises": Raises,
        "long repr": LongName,
        "float16": lambda: np.float16(0.1),
        "float32": lambda: np.float32(0.1),
        "float32 nan": lambda: np.float32("nan"),
        "longdouble": lambda: np.longdouble("0.1"),
        "longdouble inf": lambda: np.longdouble("inf"),
        "int64": lambda: np.int64(3),
        "timedelta64": lambda: np.timedelta64(3, "s"),
        "a third": lambda: Fraction(1, 3),
        "a half": lambda: Fraction(1, 2),
        "complex": lambda: 1 + 2j,
        "nested lists": lambda: [[[SECRET]]],
        "list of objects": lambda: [Raises()],
        "empty tuple": lambda: (),
        "empty list": list,
        "empty dict": dict,
        "dict": lambda: {"kind": "voodoo", "more": [SECRET]},
        "set": lambda: {SECRET},
        "object": object,
        "a guarantee": lambda: dpl.PureDP("0.125"),
        "a mechanism": lambda: dpl.Laplace(sensitivity=1, epsilon="0.125"),
        "a relation": lambda: dpl.Relation.LABEL_FLIP,
        "a unit": lambda: dpl.Unit("user"),
    }
