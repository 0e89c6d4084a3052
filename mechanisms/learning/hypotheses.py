"""What was learned: a function of points, told by public numbers.

>>> from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
>>> found = Concept(ThresholdClass(8), 3)
>>> found.predict([2, 3]).tolist(), found.params, found.output_in_class
([1, 0], {'place': '3'}, True)
>>> print(found)
x < 3
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.learning.theory.concepts import AnyClass
from dpledger.mechanisms.numeric.rows import check_rows, tally
from dpledger.schema import Plain

__all__ = ["Concept", "ConstantLabel", "Hypothesis", "Placed"]

MOST_DECIMAL_BITS = 128


@runtime_checkable
class Hypothesis(Protocol):
    """A frozen function from rows to labels."""

    def predict(self, x: object) -> npt.NDArray[np.uint8]:
        """The label of each row of `x`, 0 or 1; no row raises. ParameterError for a container that holds no rows."""
        ...

    @property
    def params(self) -> Mapping[str, Plain]:
        """The numbers that tell it."""
        ...

    @property
    def output_in_class(self) -> bool:
        """Whether it is a concept of the class that was learned."""
        ...


class Placed(Hypothesis, Protocol):
    """One of many that stand in an order."""

    @property
    def place(self) -> int:
        """Where it stands."""
        ...


@dataclass(frozen=True, slots=True)
class Concept:
    """The concept at `place` of a class."""

    concepts: AnyClass
    place: int

    def __repr__(self) -> str:
        return f"Concept(concepts={self.concepts!r}, place={_in_text(self.place)})"

    def __str__(self) -> str:
        return self.concepts.words(self.place)

    def predict(self, x: object) -> npt.NDArray[np.uint8]:
        """Its label of each row of `x`."""
        return self.concepts.predict(self.place, x)

    @property
    def params(self) -> Mapping[str, Plain]:
        """Its place, in text, since it may be beyond every word; hexadecimal where it has more than 128 bits, as that
        of a long parity. Either is what `int(text, 0)` reads."""
        return {"place": _in_text(self.place)}

    @property
    def output_in_class(self) -> bool:
        """It is one of the class."""
        return True


@dataclass(frozen=True, slots=True)
class ConstantLabel:
    """One label for all points, where the class does not hold it."""

    label: int

    def predict(self, x: object) -> npt.NDArray[np.uint8]:
        """The label, once a row of `x`."""
        check_rows(x)
        return np.full(tally(x), self.label, dtype=np.uint8)

    @property
    def params(self) -> Mapping[str, Plain]:
        """The label."""
        return {"label": self.label}

    @property
    def output_in_class(self) -> bool:
        """It is none of the class."""
        return False


def _in_text(place: int) -> str:
    """Whatever the place is: Python writes no number of more than some thousand decimal digits."""
    return str(place) if place.bit_length() <= MOST_DECIMAL_BITS else hex(place)
