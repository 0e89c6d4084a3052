"""Data in exact fractions: code that keeps them says what it would say if no number were rounded.

>>> 0.1 + 0.2 == Fraction(0.1) + Fraction(0.2), exactly(0.1) + 0.2 == Fraction(0.1) + Fraction(0.2)
(False, True)
>>> 2.0 * exactly(0.5)
Rational(1, 1)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["Rational", "exactly"]


class Rational(Fraction):
    """A fraction that stays one beside a float of the code's own, which it takes for the number that it is."""

    __slots__ = ()


def _kept(name: str) -> Callable[..., Any]:
    own: Callable[..., Any] = getattr(Fraction, name)

    def operation(self: Rational, *others: object) -> Any:
        read = (Fraction(one) if isinstance(one, float) and math.isfinite(one) else one for one in others)
        found = own(self, *read)
        return Rational(found) if isinstance(found, Fraction) else found

    return operation


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "mod", "rmod", "neg", "pos", "abs"):
    setattr(Rational, f"__{_name}__", _kept(f"__{_name}__"))


def exactly(data: Any) -> Any:
    """`data` with each finite float in it as a fraction: in lists, tuples, dicts, arrays and frames."""
    if isinstance(data, (list, tuple)):
        return type(data)([exactly(one) for one in data])
    if isinstance(data, dict):
        return {key: exactly(one) for key, one in data.items()}
    if isinstance(data, np.ndarray):
        return np.array([exactly(one) for one in data.reshape(-1).tolist()], dtype=object).reshape(data.shape)
    if type(data).__name__ == "DataFrame":
        return data.astype(object).map(exactly)
    return Rational(data) if isinstance(data, float) and math.isfinite(data) else data
