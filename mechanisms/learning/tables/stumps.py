"""Stumps: concepts that look at one column of a table, and the two constants.

>>> from dpledger.mechanisms.learning.tables.binning import Binning
>>> stumps = StumpClass(Binning({"age": [18, 65]}, {"colour": ["red"]}, source="the census form"))
>>> stumps.size, [stumps.words(place) for place in (0, 4, 5, 6)]
(8, ['always 0', 'age >= 65', 'not age >= 65', "colour = 'red'"])
>>> stumps.predict(4, [{"age": 70}, {"age": 20}, {"colour": "red"}]).tolist()
[1, 0, 0]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from dpledger.decimals import text, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.learning.error_counts import ErrorCounts
from dpledger.mechanisms.learning.samples import LabeledSample, labels_of
from dpledger.mechanisms.learning.tables.binning import Binned, Binning, Bins, Categories
from dpledger.schema import Plain

__all__ = ["StumpClass"]

CONSTANTS = 2  # places 0 and 1


@dataclass(frozen=True, slots=True)
class StumpClass:
    """1[value >= edge] of each edge and 1[value = v] of each listed value, their complements, and the two constants.

    Place 0 is the constant 0, place 1 the constant 1; place 2 + 2i is test i of the binning, and 3 + 2i its complement.
    A column of B bins has 2(B - 1) stumps, one of V values 2V.

    >>> stumps = dpl.learning.StumpClass(dpl.learning.Binning({"age": [18, 65]}, source="the census form"))
    >>> stumps.size, stumps.words(4)
    (6, 'age >= 65')
    """

    binning: Binning

    def __post_init__(self) -> None:
        if not isinstance(self.binning, Binning):
            raise ParameterError("binning", type(self.binning).__name__, "a Binning")

    @property
    def size(self) -> int:
        """How many stumps there are."""
        return CONSTANTS + 2 * self.binning.width

    def predict(self, place: int, x: object) -> npt.NDArray[np.uint8]:
        """The stump at that place, of each row of `x`."""
        return self.labels(whole(place, field="place", most=self.size - 1), self.binning.read(x))

    def labels(self, place: int, rows: Binned) -> npt.NDArray[np.uint8]:
        """The same, of rows that are in their bins already."""
        if place < CONSTANTS:
            return np.full(len(rows.places), place, dtype=np.uint8)
        column, number = self._test(place)
        match self.binning.features[column]:
            case Bins():
                says = rows.places[:, column] >= number + 2
            case Categories():
                says = rows.places[:, column] == number + 1
            case other:
                assert_never(other)
        return (says ^ bool(place & 1)).astype(np.uint8)

    def sums(self, rows: Binned, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """For each stump, the sum of the weights of the rows that it labels 1: whole numbers, so that no order of the
        rows matters. One pass over each column."""
        every = int(weights.sum())
        held = [_held(one, rows.places[:, at], weights) for at, one in enumerate(self.binning.features)]
        tests = np.concatenate(held)
        found = np.empty(self.size, dtype=np.int64)
        found[:CONSTANTS] = 0, every
        found[CONSTANTS::2], found[CONSTANTS + 1 :: 2] = tests, every - tests
        return found

    @property
    def domain(self) -> Binning:
        """What they are functions of: the columns that have bins."""
        return self.binning

    @property
    def vc(self) -> None:
        """The VC dimension: None, for to find it may take longer than to learn."""
        return None

    def errors(self, sample: LabeledSample) -> ErrorCounts:
        """A stump errs on all ones, but for those that it labels 1, and on the zeros that it does."""
        rows, y = self.binning.read(sample.x), labels_of(sample.y)
        wrong = np.where(rows.known, 1 - 2 * y.astype(np.int64), 0)
        errors = int(np.count_nonzero(y[rows.known])) + self.sums(rows, wrong)
        return ErrorCounts(errors, np.ones(self.size, dtype=np.int64))

    def described(self) -> Mapping[str, Plain]:
        """The class as the record keeps it, of its bins their SHA-256."""
        return {"class": "stumps", "concepts": self.size, "binning": dict(self.binning.described())}

    def words(self, place: int) -> str:
        """What the stump says, in words."""
        at = whole(place, field="place", most=self.size - 1)
        if at < CONSTANTS:
            return f"always {at}"
        column, number = self._test(at)
        negated = "not " if at & 1 else ""
        match self.binning.features[column]:
            case Bins(column=name, edges=edges):
                return f"{negated}{name} >= {text(edges[number])}"
            case Categories(column=name, values=values):
                return f"{negated}{name} = {values[number]!r}"
            case other:
                assert_never(other)

    def _test(self, place: int) -> tuple[int, int]:
        """Which column a stump looks at, and the number of its test there."""
        number = (place - CONSTANTS) // 2
        for column, one in enumerate(self.binning.features):
            if number < one.width:
                return column, number
            number -= one.width
        raise AssertionError("a place of the class")


def _held(
    feature: Bins | Categories, places: npt.NDArray[np.intp], weights: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """For each test of a column, the weights of the rows that pass it."""
    by_bin = np.zeros(feature.cells, dtype=np.int64)
    np.add.at(by_bin, places, weights)
    match feature:
        case Bins():
            above: npt.NDArray[Any] = np.cumsum(by_bin[::-1])[::-1]
            return np.asarray(above[2:], dtype=np.int64)
        case Categories():
            return by_bin[1:]
        case _:
            assert_never(feature)
