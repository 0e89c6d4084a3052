"""What is answered where values are released: the value itself, or `UNSTABLE`; and many queries side by side.

>>> UNSTABLE
UNSTABLE
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError
from dpledger.mechanisms.numeric.containers import array_of

__all__ = [
    "DISTANCES_READ_AS",
    "FAR",
    "UNSTABLE",
    "SideBySide",
    "StableAnswer",
    "StableCounts",
    "Unstable",
    "far_or",
    "pair_of",
    "unstable",
]

FAR = 2**62 - 1
"""What a longer distance counts as, an infinite one too. A cap keeps the contract: min(d, FAR) moves no further than d,
and is 0 where d is. No scale that a threshold below 2^53 allows can bring it down to one, for a delta up to 0.4."""


class Unstable(StrEnum):
    """The one answer of a test that failed. A text, so that a ledger keeps it, or a digest of it, like any value: an
    entry then does not say which it was. Of a kept one `==` holds, `is` does not.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> winner = dpl.stability.StableRelease(epsilon=1, delta="1e-6")
    >>> winner.release(("B", 0), entropy=seeded(1)).value == dpl.stability.UNSTABLE
    True
    """

    UNSTABLE = "UNSTABLE"

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


UNSTABLE: Final = Unstable.UNSTABLE
"""The answer in place of a value that a unit too near might have decided."""


def unstable(count: int) -> npt.NDArray[Any]:
    """So many answers UNSTABLE: themselves, where numpy would make a text of each."""
    answers = np.empty(count, dtype=object)
    answers.fill(UNSTABLE)
    return answers


StableAnswer: TypeAlias = "Hashable | Literal[Unstable.UNSTABLE]"
"""The value of a query on the data, or UNSTABLE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StableCounts:
    """What a run answered, in numbers: all of it is known to whoever got the answers."""

    asked: int
    answered: int
    unstable: int
    halted: bool


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class SideBySide(Sequence[tuple[Any, Any]]):
    """Many queries as the values and the distances that they have on the data: arrays, columns or lists of one length.
    Shows nothing of them, and no copy is made.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> run = dpl.stability.StableQueries(epsilon=1, delta="1e-6", cutoff=3).open(None, entropy=seeded(3))
    >>> run.ask_many(dpl.stability.SideBySide(values=["a", "b"], distances=[300, 0]))
    ('a', UNSTABLE)
    """

    values: npt.NDArray[Any]
    distances: npt.NDArray[Any]

    def __init__(self, values: object, distances: object) -> None:
        for field, given in (("values", values), ("distances", distances)):
            array = _one_axis(given)
            if array is None:
                raise ParameterError(field, type(given).__name__, "an array, a column or a list, with one axis")
            object.__setattr__(self, field, array)
        if len(self.values) != len(self.distances):
            expected = f"as many as there are values: {len(self.values)}"
            raise ParameterError("distances", f"{len(self.distances)} of them", expected)

    def __repr__(self) -> str:
        return f"SideBySide({len(self)} queries)"

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, place: int) -> tuple[Any, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> SideBySide: ...
    def __getitem__(self, place: int | slice) -> tuple[Any, Any] | SideBySide:
        if isinstance(place, slice):
            return SideBySide(self.values[place], self.distances[place])
        return self.values[place], self.distances[place]

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return zip(self.values.tolist(), self.distances.tolist(), strict=True)

    def first(self, count: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """The first of them: their values, and their distances in whole steps. TypeError or ValueError for a distance
        that is none, and for a value that cannot be hashed."""
        values, distances = self.values[:count], self.distances[:count]
        if values.dtype == object:
            for value in values:
                hash(value)
        return values, _steps_of_all(distances)


def _one_axis(given: object) -> npt.NDArray[Any] | None:
    if isinstance(given, (list, tuple)):
        return np.fromiter(given, dtype=object, count=len(given))  # one entry each, whatever they are
    array = array_of(given)
    return None if array is None or array.ndim != 1 else array


def pair_of(answer: object) -> tuple[Hashable, int]:
    """The value and the distance, in whole steps, that a query came to. TypeError or ValueError for anything else."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError("a query comes to a pair: value, distance")
    value, distance = answer
    hash(value)
    return value, far_or(distance)


DISTANCES_READ_AS = (
    "an infinite distance is a large one; NaN, or anything else than a whole number from 0, ends the run at its full "
    "charge"
)
"""What `far_or` makes of a distance, for receipts."""


def far_or(distance: object) -> int:
    """A distance as a whole number from 0 to FAR. TypeError or ValueError for what is none."""
    if not isinstance(distance, (int, float, Fraction, Decimal, np.integer, np.floating, np.bool_)):
        raise TypeError("a distance is a number")
    if isinstance(distance, (np.floating, np.bool_)):
        distance = float(distance)
    if distance < 0 or distance != distance:
        raise ValueError("a distance is 0 or more")
    if distance >= FAR:
        return FAR
    steps = int(distance)
    if steps != distance:
        raise ValueError("a distance is whole")
    return steps


def _steps_of_all(distances: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """`far_or` of every entry."""
    kind = distances.dtype.kind
    if kind not in "iuf":
        return np.fromiter(map(far_or, distances.tolist()), dtype=np.int64, count=len(distances))
    if not (distances >= 0).all():
        raise ValueError("distances are 0 or more")
    if kind == "u":
        return np.minimum(distances.astype(np.uint64), np.uint64(FAR)).astype(np.int64)
    if kind == "i":
        return np.minimum(distances.astype(np.int64), FAR)
    floats = distances.astype(np.float64)
    if (floats != np.trunc(floats)).any():
        raise ValueError("distances are whole")
    near = floats < 2.0**62
    return np.where(near, np.where(near, floats, 0).astype(np.int64), FAR)
