"""An interval that holds a number."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["NOTHING", "Interval"]


@dataclass(frozen=True, slots=True)
class Interval:
    """lower <= truth <= upper."""

    lower: float
    upper: float

    def meet(self, other: Interval) -> Interval:
        """What two intervals for the same number leave."""
        return Interval(max(self.lower, other.lower), min(self.upper, other.upper))

    def relative_width(self) -> float:
        if self.upper == self.lower:
            return 0.0
        return (self.upper - self.lower) / self.upper if 0 < self.upper < math.inf else math.inf


NOTHING = Interval(0.0, 0.0)
