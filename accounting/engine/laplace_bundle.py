"""Many distinct Laplace losses as one loss: one row of an array for each.

The formulas of `laws.laplace`, row by row. docs/proofs/engine.md, sections 3 and 6.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.engine.parts import Parts, Some, in_blocks, joined
from dpledger.accounting.laws.exponential_atoms import few_turns
from dpledger.accounting.laws.laplace import (
    LaplaceLoss,
    laplace_cumulants,
    laplace_decay,
    laplace_error,
    laplace_nodes,
    low_nodes,
    spread_out,
)
from dpledger.accounting.laws.law import Cumulants, Nodes, decay_of_bounded

__all__ = ["BundledLaplace"]

MANY_RUNS = 1 << 12  # from here on the closed form's cancellation near phi = 1 may count
Rows: TypeAlias = tuple[Array, Array, Array, Array]


@dataclass(frozen=True, eq=False)
class BundledLaplace(Parts[LaplaceLoss]):
    """Laplace losses, each with its count: the sum of all of them, as one loss."""

    @functools.cached_property
    def epsilons(self) -> Array:
        return np.array([law.epsilon for law, _ in self.parts])

    @functools.cached_property
    def least(self) -> float:
        return min(law.epsilon for law, _ in self.parts)

    def cumulants(self, c: float) -> Cumulants:
        """For a search, without an error."""
        return self.searched(*laplace_cumulants(self.epsilons, self.least, c))

    def log_moments(self, c: Array) -> Array:
        tilts, e0 = c[:, None], self.epsilons
        width, most = 2 * tilts + 1, tilts * e0
        ratio = np.log1p(tilts / width * np.expm1(-width * e0))
        return self.bounds_of_moments(most + ratio + 16 * UNIT * (most + np.abs(ratio)))

    def tilted(self, c: float) -> TiltedLaplaces:
        value, mean, variance = laplace_cumulants(self.epsilons, self.least, c)
        return TiltedLaplaces(self, c, (value, laplace_error(self.epsilons, c, value), mean, variance))


@dataclass(frozen=True, eq=False)
class TiltedLaplaces:
    """A bundle tilted at c; `rows`: K of each loss there, its error, mean and variance."""

    law: BundledLaplace
    c: float
    rows: Rows

    @functools.cached_property
    def cumulants(self) -> Cumulants:
        return self.law.added(*self.rows)

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        e0, counts = self.law.epsilons, self.law.counts
        decays = laplace_decay(e0[:, None], self.c, t)
        if horizon < math.inf:
            variances = spread_out(e0, self.rows[0], self.rows[1])
            for row, epsilon, variance in zip(decays, e0.tolist(), variances.tolist(), strict=True):
                np.minimum(row, decay_of_bounded(epsilon * (1 + 1e-9), variance, t, horizon), out=row)
        total: Array = counts @ np.minimum(decays, 0.0) * (1 - 1e-11)
        return total

    def nodes(self, step: float, count: int, work: int) -> Nodes:  # noqa: ARG002 - a few terms a node
        law, (value, error, mean, _) = self.law, self.rows
        t, low = step * np.arange(count, dtype=np.float64), self._hardly_turned(step * (count - 1))
        blocks: Sequence[Some] = in_blocks(len(law.parts), count)
        if low:
            turning = np.delete(np.arange(len(law.parts)), low)
            blocks = [turning[some] for some in in_blocks(turning.size, count)]
        found = [self._low_nodes(i, step, count) for i in low]
        for some in blocks:
            at = value[some, None], error[some, None], mean[some, None]
            found.append(law.multiplied(laplace_nodes(law.epsilons[some, None], self.c, at, t), some))
        moved = 4 * UNIT * float(law.counts @ np.abs(mean))  # the rounding of the sum of the means
        return joined(found, moved, t)

    def _low_nodes(self, i: int, step: float, count: int) -> Nodes:
        at, slack = Cumulants(*(float(row[i]) for row in self.rows)), (len(self.law.parts) + 4) * UNIT
        law, times = self.law.parts[i]
        nodes = low_nodes(law.epsilon, self.c, at, step, count)
        return Nodes(times * nodes.log_phi, times * (nodes.spread + slack * np.abs(nodes.log_phi)))

    def _hardly_turned(self, reach: float) -> list[int]:
        """The losses whose phi hardly leaves 1 up to `reach`, where their runs are so many that digits count."""
        if self.law.counts.sum() < MANY_RUNS:
            return []
        return [i for i, epsilon in enumerate(self.law.epsilons.tolist()) if few_turns(epsilon, self.c, reach)]
