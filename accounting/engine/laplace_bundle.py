"""Many distinct Laplace losses as one loss: one row of an array for each.

The formulas of `laws.laplace`, row by row. docs/proofs/engine.md, sections 3 and 6.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.engine.parts import Parts
from dpledger.accounting.laws.exponential_atoms import few_turns
from dpledger.accounting.laws.laplace import (
    LaplaceLoss,
    laplace_cumulants,
    laplace_decay,
    laplace_nodes,
    low_nodes,
    spread_out,
)
from dpledger.accounting.laws.law import Cumulants, Nodes, decay_of_bounded

__all__ = ["BundledLaplace"]

MOST_CELLS = 1 << 17  # rows times nodes formed at once
MANY_RUNS = 1 << 15  # from here on the closed form's cancellation near phi = 1 may count
Rows: TypeAlias = tuple[Array, Array, Array, Array]


@dataclass(frozen=True, eq=False)
class BundledLaplace(Parts[LaplaceLoss]):
    """Laplace losses, each with its count: the sum of all of them, as one loss."""

    @functools.cached_property
    def epsilons(self) -> Array:
        return np.array([law.epsilon for law, _ in self.parts])

    def cumulants(self, c: float) -> Cumulants:
        return self.added(*laplace_cumulants(self.epsilons, c))

    def log_moments(self, c: Array) -> Array:
        tilts, e0 = c[:, None], self.epsilons
        width, most = 2 * tilts + 1, tilts * e0
        ratio = np.log1p(tilts / width * np.expm1(-width * e0))
        return self.bounds_of_moments(most + ratio + 16 * UNIT * (most + np.abs(ratio)))

    def tilted(self, c: float) -> TiltedLaplaces:
        return TiltedLaplaces(self, c, laplace_cumulants(self.epsilons, c))


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
        log_phi, spread, turning = np.zeros(count, dtype=np.complex128), np.zeros(count), []
        slack, reach = (len(self.law.parts) + 4) * UNIT, step * (count - 1)
        many = self.law.counts.sum() >= MANY_RUNS
        for i, (law, times) in enumerate(self.law.parts):
            if not (many and few_turns(law.epsilon, self.c, reach)):
                turning.append(i)
                continue
            low = low_nodes(law.epsilon, self.c, Cumulants(*(float(row[i]) for row in self.rows)), step, count)
            log_phi += times * low.log_phi
            spread += times * (low.spread + slack * np.abs(low.log_phi))
        t, most = step * np.arange(count, dtype=np.float64), max(1, MOST_CELLS // count)
        for start in range(0, len(turning), most):
            some = np.array(turning[start : start + most])
            value, error, mean = (row[some, None] for row in self.rows[:3])
            rows = laplace_nodes(self.law.epsilons[some, None], self.c, (value, error, mean), t)
            nodes = self.law.multiplied(rows, some)
            log_phi += nodes.log_phi
            spread += nodes.spread
        moved = 4 * UNIT * float(self.law.counts @ np.abs(self.rows[2]))  # the rounding of the sum of the means
        return Nodes(log_phi, (spread + t * moved) * (1 + 1e-9))
