"""The exact law of AboveThreshold and of its mutants, by quadrature; shares no code with the mechanism.

A run on values f_1, f_2, ... against the threshold 0 ends "above at t" or "below all along". With noise of scale b1 on
the threshold and b2 on queries, P(above at t) = E_Z [prod_{i<t} P(f_i + X < Z) P(f_t + X >= Z)], Z the threshold's.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
FAR = 1000.0


@functools.cache
def _gauss() -> tuple[Floats, Floats]:
    points, weights = np.polynomial.legendre.leggauss(40)
    return points, weights


@dataclass(frozen=True)
class Run:
    """Scales in units of the sensitivity; threshold 0. A `threshold_scale` of 0: no noise on the threshold."""

    threshold_scale: float
    query_scale: float

    def below(self, values: Sequence[float]) -> float:
        """P(every answer is BELOW)."""
        return self._probability(tuple(values), halted=False)

    def above_at_last(self, values: Sequence[float]) -> float:
        """P(the last answer is the first ABOVE)."""
        return self._probability(tuple(values), halted=True)

    @functools.cache  # noqa: B019
    def _probability(self, values: tuple[float, ...], *, halted: bool) -> float:
        z, weights = self._nodes(values)
        likelihood = np.ones_like(z)
        for value in values[:-1] if halted else values:
            likelihood *= _cdf((z - value) / self.query_scale)
        if halted:
            likelihood *= _cdf((values[-1] - z) / self.query_scale)
        return float(weights @ likelihood)

    def _nodes(self, values: Sequence[float]) -> tuple[Floats, Floats]:
        """Points and weights that integrate against the law of the threshold, with kinks at the values."""
        if not self.threshold_scale:
            return np.zeros(1), np.ones(1)
        scale = self.threshold_scale
        edges = sorted({0.0, *values})
        grid = np.concatenate([np.linspace(edge - 60 * scale, edge + 60 * scale, 61) for edge in edges])
        ends = np.unique(np.concatenate([grid, np.array(edges)]))
        unit, unit_weights = _gauss()
        low, high = ends[:-1, None], ends[1:, None]
        points = (low + high) / 2 + (high - low) / 2 * unit
        density = np.exp(-np.abs(points) / scale) / (2 * scale)
        return points.ravel(), (unit_weights * (high - low) / 2 * density).ravel()

    def worst_halt(self, tests: int, *, one_way: bool = False) -> float:
        """The largest log ratio of "above at `tests`": below-queries move up by 1 and the last one down (`one_way`:
        not at all), or the other way about. Values below are equal."""
        last = 0.0 if one_way else 1.0
        here = self._ratio_of_halts
        return max(_sup(lambda a, b: here(tests, a, b, 1.0, -last)), _sup(lambda a, b: here(tests, a, b, -1.0, last)))

    def _ratio_of_halts(self, tests: int, below: float, above: float, move: float, last: float) -> float:
        values = [below] * (tests - 1) + [above]
        moved = [below + move] * (tests - 1) + [above + last]
        return math.log(self.above_at_last(values) / self.above_at_last(moved))

    def worst_silence(self, tests: int, value: float = FAR) -> float:
        """The log ratio of "below all along" where all queries at `value` move up by 1."""
        return math.log(self.below([value] * tests) / self.below([value + 1] * tests))


def _cdf(x: Floats) -> Floats:
    """P(X <= x) of Laplace noise of scale 1."""
    tail = np.exp(-np.abs(x)) / 2
    return np.where(x < 0, tail, 1 - tail)


PLACES = (-40.0, -20.0, -10.0, -5.0, -2.0, 0.0, 2.0, 5.0, 10.0, 20.0, 40.0)


def _sup(ratio: Callable[[float, float], float]) -> float:
    """The greatest over a grid of values: where tests are lost or won far from the threshold, losses come to their
    suprema."""
    return max(ratio(below, above) for below, above in itertools.product(PLACES, PLACES))
