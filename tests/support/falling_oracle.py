"""The exact law of tests whose noise falls once, by quadrature; shares no code with the mechanism.

Whole queries, one step of sensitivity. The threshold's noise is Laplace of scale `fine` in the second stage and twice
that in the first, rounded to whole steps: the coarser is the finer, with probability 1/4, else that plus independent
noise of the coarse scale. `shared=False`: the faulty one, in which both are independent. Query noise is discrete.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

__all__ = ["FallingLaw"]


def _below(x: Floats, scale: float) -> Floats:
    tail = np.exp(-np.abs(x) / scale) / 2
    return np.where(x < 0, tail, 1 - tail)


@dataclass(frozen=True)
class FallingLaw:
    """`first`: tests of the first stage. `fine`, `query`: the scales of the last one. Thresholds are 0."""

    first: int
    fine: float
    query: float
    shared: bool = True

    @cached_property
    def joint(self) -> tuple[Floats, Floats]:
        """Whole steps, and P(coarse noise = i, fine noise = j) over them."""
        reach = math.ceil(50 * self.fine)
        steps = np.arange(-reach, reach + 1, dtype=np.float64)
        coarse = 2 * self.fine

        def cells(middle: Floats, scale: float) -> Floats:
            return _below(steps + 0.5 - middle, scale) - _below(steps - 0.5 - middle, scale)

        alone = cells(np.zeros(1), self.fine)
        if not self.shared:
            return steps, np.outer(cells(np.zeros(1), coarse), alone)
        unit, weights = np.polynomial.legendre.leggauss(12)
        spread = np.zeros((steps.size, steps.size))
        for j, step in enumerate(steps):
            for low in (step - 0.5, step):  # the density has a kink at 0
                y = low + 0.25 + 0.25 * unit
                density = 0.25 * weights * np.exp(-np.abs(y) / self.fine) / (2 * self.fine)
                spread[:, j] += sum(d * cells(np.array([at]), coarse) for at, d in zip(y, density, strict=True))
        return steps, 0.25 * np.diag(alone) + 0.75 * spread

    def probability(self, queries: Sequence[int], halts: bool) -> float:
        """P(the tests of `queries` are all below), or (`halts`) all but the last, which is above."""
        steps, joint = self.joint
        likely = [np.ones_like(steps), np.ones_like(steps)]
        for place, query in enumerate(queries):
            stage = int(place >= self.first)
            q = math.exp(-1 / (self.query * (2 - stage)))
            t = query + steps  # above: query + noise >= -steps, the threshold 0 less its noise
            above = np.where(t >= 0, 1 - q ** (t + 1) / (1 + q), q ** (-t) / (1 + q))
            likely[stage] = likely[stage] * (above if halts and place == len(queries) - 1 else 1 - above)
        return float(likely[0] @ joint @ likely[1])
