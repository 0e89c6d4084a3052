"""Many distinct Laplace losses and worst cases of (epsilon, delta) as one loss: one row of an array for each.

Both have atoms at e0 and -e0, and a transform M(z) = e^{z e0} (1 + s(z) (e^{-w(z) e0} - 1)):

    Laplace       s = z / (2z + 1)         w = 2z + 1
    worst case    s = 1 / (1 + e^{e0})     w = 2z

The formulas of `laws.laplace`, row by row. docs/proofs/engine.md, sections 3 and 6.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.engine.parts import NodeRows, Parts, Some, in_blocks, joined
from dpledger.accounting.laws.exponential_atoms import few_turns
from dpledger.accounting.laws.finite import WorstCase
from dpledger.accounting.laws.laplace import (
    LaplaceLoss,
    laplace_decay,
    laplace_share,
    low_nodes,
    nodes_of_share,
    spread_out,
)
from dpledger.accounting.laws.law import Cumulants, Nodes, decay_of_bounded

__all__ = ["MANY_RUNS", "BundledTwoEnded"]

MANY_RUNS = 1 << 12  # from here on the closed form's cancellation near phi = 1 may count
CLOSE_ENDS = 1e-5  # of (2c + 1) e0: below it a loss is all but at its ends, and its variance would cancel
RATIO_ERROR = 32 * UNIT  # of K(c) - c e0
Rows: TypeAlias = tuple[Array, Array, Array, Array]


@dataclass(frozen=True, eq=False)
class BundledTwoEnded(Parts[LaplaceLoss | WorstCase]):
    """Laplace losses and worst cases of (epsilon, delta), each with its count: the sum of all of them, as one loss."""

    @functools.cached_property
    def infinite_mass(self) -> float:
        masses = [(count, law.infinite_mass) for law, count in self.parts if law.infinite_mass]
        return -scalars.expm1(math.fsum(count * scalars.log1p(-mass) for count, mass in masses))

    @functools.cached_property
    def epsilons(self) -> Array:
        return np.array([law.epsilon for law, _ in self.parts])

    @functools.cached_property
    def least(self) -> float:
        return min(law.epsilon for law, _ in self.parts)

    @functools.cached_property
    def shares(self) -> tuple[Array, Array]:
        """What to multiply z / (2z + 1) by, 1 for a Laplace loss, and what to add, for s: s of a worst case."""
        laplace = np.array([float(isinstance(law, LaplaceLoss)) for law, _ in self.parts])
        rare = elementary.exp(-self.epsilons)
        return laplace, (1 - laplace) * (rare / (1 + rare))

    def cumulants(self, c: float) -> Cumulants:
        """For a search, without an error."""
        ratio, mean, variance = self._moments(c)
        return self.searched(c * self.epsilons + ratio, mean, variance)

    def _moments(self, c: float) -> tuple[Array, Array, Array]:
        """K - c e0, K' and K'', row by row."""
        e0, (laplace, rare), width = self.epsilons, self.shares, 2 * c + 1
        share, slope = laplace * (c / width) + rare, laplace * (1 / width / width)
        fallen = elementary.expm1(e0 * (-2 * c - laplace))
        moved = share * fallen
        scale, pull = 1 / (1 + moved), 2 * e0 * (1 + fallen)
        first = (slope * fallen - pull * share) * scale
        second = (2 * (pull * (e0 * share - slope)) - 4 / width * (slope * fallen)) * scale
        variance = second - first * first
        if width * self.least < CLOSE_ENDS:
            variance = np.where(width * e0 < CLOSE_ENDS, e0 * e0, variance)
        return elementary.log1p(moved), e0 + first, variance

    def log_moments(self, c: Array) -> Array:
        tilts, e0, (laplace, rare) = c[:, None], self.epsilons, self.shares
        most, share = tilts * e0, tilts / (2 * tilts + 1) * laplace + rare
        ratio = elementary.log1p(share * elementary.expm1(e0 * (-2 * tilts - laplace)))
        return self.bounds_of_moments(most + ratio + 16 * UNIT * (most + np.abs(ratio)))

    def tilted(self, c: float) -> TiltedTwoEnded:
        ratio, mean, variance = self._moments(c)
        most = c * self.epsilons
        return TiltedTwoEnded(self, c, (most + ratio, 16 * UNIT * (most - ratio), mean, variance), ratio)


@dataclass(frozen=True, eq=False)
class TiltedTwoEnded:
    """A bundle tilted at c; `rows`: K of each loss there, its error, mean and variance; `ratio`: K - c e0."""

    law: BundledTwoEnded
    c: float
    rows: Rows
    ratio: Array

    @functools.cached_property
    def cumulants(self) -> Cumulants:
        return self.law.added(*self.rows)

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        """Worst cases need not decay for ever."""
        e0, (laplace, rare), counts = self.law.epsilons, self.law.shares, self.law.counts
        decays = np.minimum(laplace_decay(e0[:, None], self.c, t), 0.0) * laplace[:, None]
        if horizon < math.inf:
            variances = spread_out(e0, self.rows[0], self.rows[1]) * np.where(
                laplace, 1.0, 4 * scalars.square(1 - rare)
            )
            for row, epsilon, variance in zip(decays, e0.tolist(), variances.tolist(), strict=True):
                np.minimum(row, decay_of_bounded(epsilon * (1 + 1e-9), variance, t, horizon), out=row)
        total: Array = elementary.product(counts, decays) * (1 - 1e-11)
        return total

    def nodes(self, step: float, count: int, work: int) -> Nodes:  # noqa: ARG002 - a few terms a node
        law, mean = self.law, self.rows[2]
        t, low = step * np.arange(count, dtype=np.float64), self._hardly_turned(step * (count - 1))
        blocks: Sequence[Some] = in_blocks(len(law.parts), count)
        if low:
            turning = np.delete(np.arange(len(law.parts)), low)
            blocks = [turning[some] for some in in_blocks(turning.size, count)]
        found = [self._low_nodes(i, step, count) for i in low]
        found.extend(law.multiplied(self._node_rows(some, t), some) for some in blocks)
        moved = 4 * UNIT * float(elementary.product(law.counts, np.abs(mean)))  # the rounding of the sum of the means
        return joined(found, moved, t)

    def _node_rows(self, some: Some, t: Array) -> NodeRows:
        laplace, rare = (each[some, None] for each in self.law.shares)
        e0, (error, mean) = self.law.epsilons[some, None], (row[some, None] for row in self.rows[1:3])
        at = self.ratio[some, None], np.minimum(1.01 * error, RATIO_ERROR), mean
        along, across = laplace_share(self.c, t)
        share = laplace * along + rare, laplace * across
        return nodes_of_share(e0, 2 * self.c + laplace, share, self.c, at, t)

    def _low_nodes(self, i: int, step: float, count: int) -> Nodes:
        at, slack = Cumulants(*(float(row[i]) for row in self.rows)), (len(self.law.parts) + 4) * UNIT
        law, times = self.law.parts[i]
        nodes = low_nodes(law.epsilon, self.c, at, step, count)
        return Nodes(times * nodes.log_phi, times * (nodes.spread + slack * np.abs(nodes.log_phi)))

    def _hardly_turned(self, reach: float) -> list[int]:
        """The Laplace losses whose phi hardly leaves 1 up to `reach`, where their runs are so many that digits
        count."""
        laplace = self.law.shares[0]
        if elementary.product(self.law.counts, laplace) < MANY_RUNS:
            return []
        rows = enumerate(zip(self.law.epsilons.tolist(), laplace.tolist(), strict=True))
        return [i for i, (epsilon, density) in rows if density and few_turns(epsilon, self.c, reach)]
