"""Rows as clipped values in whole steps of a grid, counted from 0, a block of rows at a time.

>>> values = Values(lower=Decimal(-1), upper=Decimal(10), missing=Decimal(0), grid=Decimal("0.5"))
>>> values.first, values.last, values.total([3, 40, "unknown", -7])
(-2, 20, 24)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpledger.decimals import magnitude
from dpledger.errors import ParameterError
from dpledger.mechanisms.numeric.grid import check_map, nearest_whole
from dpledger.mechanisms.numeric.rows import blocks

__all__ = ["Values"]

_MOST_STEPS = 2**52  # so that a value in steps is an exact float


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """How rows become whole steps of `grid`, a power of two: clipped to [lower, upper] and rounded to the nearest one;
    what is no number counts as `missing`. Public."""

    lower: Decimal
    upper: Decimal
    missing: Decimal
    grid: Decimal

    def check(self) -> None:
        """Raise ParameterError unless the grid is a power of two with more than one and fewer than 2^52 steps."""
        check_map(self.grid, max(magnitude(self.lower), magnitude(self.upper)), Decimal(0))
        if not self.first < self.last or max(-self.first, self.last) >= _MOST_STEPS:
            expected = "a grid with more than one step in the range, and fewer than 2^52 from 0 to its ends"
            raise ParameterError("grid", str(self.grid), expected)

    @property
    def first(self) -> int:
        """The steps of `lower`."""
        return self._nearest(self.lower)

    @property
    def last(self) -> int:
        """The steps of `upper`."""
        return self._nearest(self.upper)

    def steps(self, data: object) -> Iterator[npt.NDArray[np.int64]]:
        """Each row in whole steps, by itself, a block of rows at a time. Total: never raises."""
        for values in blocks(data, missing=float(self.missing)):
            yield self.whole(values)

    @np.errstate(all="ignore")  # the caller's would raise of a denormal number
    def whole(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Numbers, none of them missing, in whole steps: each by itself."""
        lower, upper, scale = float(self.lower), float(self.upper), 1 / float(self.grid)
        steps = nearest_whole(np.clip(values, lower, upper) * scale)
        return np.clip(steps, self.first, self.last).astype(np.int64)

    def total(self, data: object) -> int:
        """The exact sum, in steps."""
        return sum(self._sum(steps) for steps in self.steps(data))

    def _sum(self, steps: npt.NDArray[np.int64]) -> int:
        reach = max(-self.first, self.last)
        return int(steps.sum()) if len(steps) * reach < 2**63 else sum(steps.tolist())

    def _nearest(self, number: Decimal) -> int:
        return math.floor(Fraction(number) / Fraction(self.grid) + Fraction(1, 2))
