"""How far two outputs of a query are apart, in exact fractions, and what was declared of that.

>>> one = DeclaredSensitivity(Decimal(1), "l1", None)
>>> one.distance([1, 0.5], [1, 2.0]).power, one.distance(1, [1]).power
(Fraction(3, 2), None)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from dpledger.audit.replay.differences import same
from dpledger.audit.tested.neighbours import OfNumbers, as_read

__all__ = ["DeclaredSensitivity", "OutputDistance", "RaisedOutput", "entries_of"]


@dataclass(frozen=True, slots=True)
class OutputDistance:
    """How far two outputs are apart, in a norm. `power`: of the l2 norm the square. `why`: they are no two lists of
    as many numbers; then no noise covers it."""

    power: Fraction | None
    why: str = ""

    def exceeds(self, bound: Fraction) -> bool:
        return self.power is None or self.power > bound

    @property
    def size(self) -> tuple[bool, Fraction]:
        return self.power is None, self.power or Fraction(0)


@dataclass(frozen=True, slots=True)
class DeclaredSensitivity:
    """How far it may move, and how outputs are read: as a mechanism reads them, or as the numbers that they are."""

    sensitivity: Decimal
    norm: str
    mechanism: OfNumbers | None

    @property
    def bound(self) -> Fraction:
        return Fraction(self.sensitivity) ** (2 if self.norm == "l2" else 1)

    def distance(self, ours: object, theirs: object) -> OutputDistance:
        left, right = entries_of(ours), entries_of(theirs)
        if left.keys() != right.keys():
            return OutputDistance(None, "comes back in another shape, or raises, on one of the two")
        apart = Fraction(0)
        for key in left:
            one, other = self._number(left[key]), self._number(right[key])
            if one is None or other is None:
                if not same(left[key], right[key]):
                    return OutputDistance(None, "is no finite number on one of the two")
                continue
            apart += (one - other) ** 2 if self.norm == "l2" else abs(one - other)
        return OutputDistance(apart)

    def _number(self, entry: object) -> Fraction | None:
        """An entry as what it is; None where it is no finite number."""
        if self.mechanism is not None:
            return as_read(entry, self.mechanism)
        plain = entry.item() if isinstance(entry, np.generic) else entry
        if isinstance(plain, float):
            return Fraction(plain) if math.isfinite(plain) else None
        if isinstance(plain, Decimal):
            return Fraction(plain) if plain.is_finite() else None
        return Fraction(plain) if isinstance(plain, (int, Fraction)) else None


@dataclass(frozen=True, slots=True)
class RaisedOutput:
    """That a query raised, in the place of an output."""

    error: Exception


def entries_of(output: object) -> dict[object, object]:
    """What is compared, by its place; one place for a number, none that any number has for an exception."""
    if isinstance(output, RaisedOutput):
        return {type(output.error): 0}
    if hasattr(output, "to_dict"):  # a series or a frame
        return entries_of(output.to_dict())
    if isinstance(output, Mapping):
        return {("key", key, at): one for key, value in output.items() for at, one in entries_of(value).items()}
    if isinstance(output, (list, tuple)):
        return {(place, at): one for place, value in enumerate(output) for at, one in entries_of(value).items()}
    if isinstance(output, np.ndarray) and output.ndim:
        return {(place, at): one for place, value in enumerate(output) for at, one in entries_of(value).items()}
    return {"": output.item() if isinstance(output, np.ndarray) else output}
