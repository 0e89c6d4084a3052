"""Answers that count as a number: an estimate with what says how far off it may be."""

from __future__ import annotations

import operator
from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["AsNumber"]


def _as_float(name: str) -> Any:
    """An operator of the float that an answer counts as."""
    operate = getattr(operator, name)
    return lambda self, other: operate(float(self), _plain(other))


def _mirrored(name: str) -> Any:
    operate = getattr(operator, name)
    return lambda self, other: operate(_plain(other), float(self))


def _plain(other: Any) -> Any:
    return float(other) if isinstance(other, AsNumber) else other


class AsNumber:
    """Base of an answer that is computed with, compared, rounded and written as `float(self)`; numpy takes it too.

    `==` is left to the answer itself, which is more than its number."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy's numbers and arrays leave an operator to us

    @abstractmethod
    def __float__(self) -> float: ...

    __add__, __radd__ = _as_float("add"), _mirrored("add")
    __sub__, __rsub__ = _as_float("sub"), _mirrored("sub")
    __mul__, __rmul__ = _as_float("mul"), _mirrored("mul")
    __truediv__, __rtruediv__ = _as_float("truediv"), _mirrored("truediv")
    __floordiv__, __rfloordiv__ = _as_float("floordiv"), _mirrored("floordiv")
    __mod__, __rmod__ = _as_float("mod"), _mirrored("mod")
    __pow__, __rpow__ = _as_float("pow"), _mirrored("pow")
    __lt__, __le__, __gt__, __ge__ = _as_float("lt"), _as_float("le"), _as_float("gt"), _as_float("ge")

    def __neg__(self) -> float:
        return -float(self)

    def __pos__(self) -> float:
        return float(self)

    def __abs__(self) -> float:
        return abs(float(self))

    def __round__(self, digits: int | None = None) -> float:
        return round(float(self), digits)

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(float(self), dtype=dtype)
