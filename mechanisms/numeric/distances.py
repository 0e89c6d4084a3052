"""Rows as clipped values in a range: each by itself in whole steps from the centre, and a mean out of their sum.

>>> values = Distances(lower=Decimal(0), upper=Decimal(10), missing=Decimal(5), grid=Decimal("0.5"))
>>> steps = values.steps([3, 40, "unknown"])
>>> steps.tolist(), values.total(steps), values.mean(values.total(steps), 3)
([-4, 10, 0], 6, 6.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpledger.decimals import add, subtract, text
from dpledger.errors import ParameterError
from dpledger.mechanisms.numeric.grid import check_map, nearest_whole
from dpledger.mechanisms.numeric.rows import blocks, numbers

__all__ = ["Distances", "check_range", "clipped_as"]

_MOST_STEPS = 2**52  # so that a value in steps is an exact float


def check_range(lower: Decimal, upper: Decimal, missing: Decimal) -> None:
    """Raise ParameterError unless lower < upper and `missing` is between them."""
    if lower >= upper:
        raise ParameterError("upper", upper, f"a number above lower, {text(lower)}")
    if not lower <= missing <= upper:
        raise ParameterError("missing", missing, "a number between lower and upper")


def clipped_as(lower: Decimal, upper: Decimal, missing: Decimal) -> tuple[str, ...]:
    """What receipts say of entries that are no numbers, or outside of a range, a sentence each."""
    return (
        f"NaN or any other non-number counts as {text(missing)}; text counts as the number that it says",
        f"a number outside [{text(lower)}, {text(upper)}], also infinity, counts as the nearer end",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """How the entries of rows become distances from the centre of [lower, upper], in steps of `grid`. What is no number
    counts as `missing`. Public."""

    lower: Decimal
    upper: Decimal
    missing: Decimal
    grid: Decimal

    def check(self) -> None:
        """Raise ParameterError unless the grid is a power of two with fewer than 2^52 steps in the range."""
        check_map(self.grid, subtract(self.upper, self.lower), Decimal(0))
        if self.reach >= _MOST_STEPS:
            raise ParameterError("grid", str(self.grid), "a grid with fewer than 2^52 steps in the range")

    @property
    def reach(self) -> int:
        """The most steps that a value lies from the centre."""
        return math.ceil(Fraction(subtract(self.upper, self.lower)) / 2 / Fraction(self.grid))

    @np.errstate(all="ignore")  # the caller's would raise of a denormal number
    def steps(self, data: object) -> npt.NDArray[np.int64]:
        """Each row as a clipped value in whole steps from the centre, each by itself. Total: never raises."""
        values = numbers(data, missing=float(self.missing))
        clipped = np.clip(values, float(self.lower), float(self.upper))
        steps = nearest_whole((clipped - self._centre) / float(self.grid))
        return np.clip(steps, -self.reach, self.reach).astype(np.int64)

    def totals(self, data: object) -> tuple[int, int]:
        """The exact sum of the steps of the rows, and how many rows there are."""
        total = rows = 0
        for block in blocks(data, missing=float(self.missing)):
            total += self.total(self.steps(block))
            rows += len(block)
        return total, rows

    def total(self, steps: npt.NDArray[np.int64]) -> int:
        """The exact sum."""
        return int(steps.sum()) if len(steps) * self.reach < 2**62 else sum(steps.tolist())

    def mean(self, total: int, count: float) -> float:
        """The mean whose distances add up to `total`, of so many rows, or one if they are fewer."""
        mean = self._centre + total / max(count, 1) * float(self.grid)
        return min(max(mean, float(self.lower)), float(self.upper))

    @property
    def _centre(self) -> float:
        return float(add(self.lower, self.upper)) / 2
