"""The values that a query may have of a record, in whole steps: clipped, rounded and added exactly.

>>> unit = QueryRange(low=Decimal(0), high=Decimal(1), grid=Decimal("0.25"))
>>> unit.total([0.3, 7, float("nan"), True], rows=4), unit.moved(Relation.ADD_REMOVE, uneven=False)
(9, 4)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

import numpy as np
import numpy.typing as npt

from dpledger.decimals import float_down, float_up, text
from dpledger.errors import ContractViolation, ParameterError
from dpledger.mechanisms.numeric.grid import nearest_whole
from dpledger.mechanisms.numeric.rows import check_column, numbers, tally
from dpledger.relations import Relation

__all__ = ["QueryRange"]

_EXACT_IN_FLOAT = 2**53
_SMALL = 2**62  # sums in int64 stay below this
_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRange:
    """Values from `low` to `high`, in steps of `grid`, a power of two. Public."""

    low: Decimal
    high: Decimal
    grid: Decimal

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ParameterError("high", self.high, f"a number above low, {self.low}")
        if max(-self.lowest, self.highest) >= _EXACT_IN_FLOAT:
            raise ParameterError("grid", self.grid, "one of which low and high are fewer than 2^53 steps")
        if self.lowest == self.highest:
            raise ParameterError("grid", self.grid, "one that tells low from high")

    @property
    def lowest(self) -> int:
        """`low` in steps."""
        return math.floor(Fraction(self.low) / Fraction(self.grid) + _HALF)

    @property
    def highest(self) -> int:
        """`high` in steps."""
        return math.floor(Fraction(self.high) / Fraction(self.grid) + _HALF)

    def read_as(self) -> tuple[str, ...]:
        """What values count as that are outside, or no number, a sentence each: for receipts."""
        low, high = text(self.low), text(self.high)
        return (
            f"a value of a query that is NaN or any other non-number counts as {low}",
            f"a value outside [{low}, {high}], also infinity, counts as the nearer end",
        )

    @property
    def reach(self) -> int:
        """The most steps that a value is from 0."""
        return max(abs(self.lowest), abs(self.highest))

    def moved(self, relation: Relation, *, uneven: bool) -> int:
        """By how many steps a record that changes moves the sum of its values; one that is nulled counts as replaced,
        for a query may come to any value of the null record. `uneven`: of records of a unit that may be exchanged for
        one with more or fewer, so that some are replaced, and others come or go.

        Claim: at most as many. Source: docs/proofs/learning_queries.md, section 1."""
        match relation:
            case Relation.ADD_REMOVE:
                return self.reach
            case Relation.REPLACE_ONE | Relation.ZERO_OUT if uneven:
                return max(self.highest, 0) - min(self.lowest, 0)
            case Relation.REPLACE_ONE | Relation.ZERO_OUT | Relation.LABEL_FLIP:
                return self.highest - self.lowest
            case _:
                assert_never(relation)

    def total(self, values: object, *, rows: int) -> int:
        """The sum, in steps, of one value a row: each clipped to the range by itself, NaN and what is no number at its
        low end. ContractViolation for anything but a column of so many."""
        check_column(values)
        if tally(values) != rows:
            raise ContractViolation("another number of values than of rows")
        steps = self.steps(values)
        return int(steps.sum(dtype=np.int64)) if rows * self.reach < _SMALL else sum(steps.tolist())

    @np.errstate(all="ignore")  # the caller's would raise of a denormal number
    def steps(self, values: object) -> npt.NDArray[np.int64]:
        """Each value by itself, in steps: clipped to the range, NaN and what is no number at its low end."""
        read = np.clip(numbers(values, missing=float_up(self.low)), float_down(self.low), float_up(self.high))
        return np.clip(nearest_whole(read / float_up(self.grid)), self.lowest, self.highest).astype(np.int64)
