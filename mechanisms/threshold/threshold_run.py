"""An open sparse vector: numbers become steps, and a test's result ABOVE or BELOW.

A number that a query returns is data and always has an answer (NaN by a public rule).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.decimals import negative
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.containers import array_of
from dpledger.mechanisms.numeric.grid import TotalMap, to_steps, vector_to_steps
from dpledger.mechanisms.threshold.conversation import OneTestAQuery
from dpledger.mechanisms.threshold.epochs import SMALL, EpochPlan, Epochs

__all__ = [
    "AnswerCounts",
    "Number",
    "Outcome",
    "Queries",
    "Query",
    "SparseVectorRun",
    "ThresholdSide",
    "Thresholding",
    "steps_of",
]

ThresholdSide: TypeAlias = Literal["below", "above"]
Number: TypeAlias = "int | float | Fraction | Decimal | np.integer[Any] | np.floating[Any] | np.bool_"
Query: TypeAlias = "Number | Callable[[Any], Number]"
"""A function of the data, or its value on them."""
Queries: TypeAlias = "list[Any] | tuple[Any, ...] | npt.NDArray[Any]"
"""Many queries: each a `Query`; or an array or a column of values."""

_NUMBERS = (int, float, Fraction, Decimal, np.integer, np.floating, np.bool_)
_BEYOND_FLOATS = Decimal("1e400")  # beyond every float: what an infinite query counts as


class Outcome(Enum):
    """The answer to one query."""

    ABOVE = "above"
    BELOW = "below"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCounts:
    """What a run answered, in numbers: all of it is known to whoever got the answers."""

    asked: int
    above: int
    below: int
    halted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholding(EpochPlan):
    """The tests of a sparse vector, in whole steps of a grid. With `charged` = "above", of -query against -threshold.

    `scale`: how any number becomes steps (`steps_of`).
    """

    scale: TotalMap
    charged: ThresholdSide

    def steps(self, value: object) -> int:
        """A query's value in steps, its sign turned where "above" is charged. Total for every number."""
        steps = to_steps(value, self.scale)
        return steps if self.charged == "below" else -steps

    def steps_of_all(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """`steps` of every entry of an array of numbers: int64, or Python integers where one does not fit."""
        steps = vector_to_steps(values, self.scale, len(values))
        return steps if self.charged == "below" else -steps

    def answer(self, passed: bool) -> Outcome:
        """The answer to a query that passed its test (free) or did not (charged)."""
        return Outcome.ABOVE if passed == (self.charged == "below") else Outcome.BELOW


def steps_of(grid: Decimal, missing: ThresholdSide) -> TotalMap:
    """How a query's value becomes whole steps of `grid`: infinite is beyond every float, NaN on the side `missing`."""
    absent = negative(_BEYOND_FLOATS) if missing == "below" else _BEYOND_FLOATS
    return TotalMap(grid=grid, bound=_BEYOND_FLOATS, missing=absent)


def queries_read_as(missing: ThresholdSide) -> tuple[str, ...]:
    """What values of queries count as that are no ordinary numbers, a sentence each: for receipts."""
    return (
        "a query is handed the data as they are; one that comes to no number ends the run at its full charge",
        f"a value of a query that is NaN is {missing} the threshold; an infinite one is beyond every number",
    )


class SparseVectorRun(OneTestAQuery[Query, Queries, Outcome, AnswerCounts]):
    """The conversation of a `SparseVector`. A query that is infinite or NaN has an answer like any other; one that
    raises, or returns no number, breaks its contract.

    `ask_many` takes a list, a tuple, or an array or column of numbers.
    """

    what = "a sparse vector run"
    contract = "a query raised or did not return a number"

    def __init__(self, plan: Thresholding, data: object, entropy: Entropy) -> None:
        super().__init__(Epochs(plan, entropy))
        self._plan = plan
        self._data = data

    def _read(self, query: Query) -> tuple[int, None]:
        value = query(self._data) if callable(query) else query
        if not isinstance(value, _NUMBERS):
            raise TypeError("a query's value is a number")
        return self._plan.steps(value), None

    def _require_many(self, queries: Queries) -> int:
        array = array_of(queries)
        if not isinstance(queries, (list, tuple)) and (array is None or array.ndim != 1):
            what = "a list, a tuple, or an array of numbers with one axis"
            raise ParameterError("queries", type(queries).__name__, what)
        return len(queries)

    def _read_many(self, queries: Queries) -> tuple[npt.NDArray[Any], None]:
        array = array_of(queries)
        left = self._left(len(queries))
        if array is not None and array.dtype.kind in "iufb":
            return self._plan.steps_of_all(array[:left]), None
        asked = queries if array is None else array
        steps = [self._read(query)[0] for query in asked[:left]]
        return np.array(steps, dtype=np.int64 if all(abs(step) < SMALL for step in steps) else object), None

    def _answer(self, passed: bool, _read: None, /) -> Outcome:
        return self._plan.answer(passed)

    def _answers(self, passed: npt.NDArray[np.bool_], _read: None, /) -> tuple[Outcome, ...]:
        answers = {one: self._plan.answer(one) for one in (True, False)}
        return tuple(map(answers.__getitem__, passed.tolist()))

    def _told(self) -> AnswerCounts:
        free, charged = self.asked - self._tests.charged, self._tests.charged
        above, below = (free, charged) if self._plan.charged == "below" else (charged, free)
        return AnswerCounts(asked=self.asked, above=above, below=below, halted=self.halted)
