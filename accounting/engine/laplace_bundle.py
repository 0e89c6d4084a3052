"""Many distinct Laplace losses as one loss: one row of an array for each.

The formulas of `laws.laplace`, row by row. docs/proofs/engine.md, sections 3 and 6.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpledger.accounting.engine.composed import sum_up
from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.laws.laplace import (
    LaplaceLoss,
    laplace_decay,
    laplace_nodes,
    low_nodes,
    spread_out,
)
from dpledger.accounting.laws.law import Cumulants, Nodes, decay_of_bounded, excess, price

__all__ = ["BundledLaplace"]

MOST_CELLS = 1 << 17  # rows times nodes formed at once
Rows: TypeAlias = tuple[Array, Array, Array, Array]


@dataclass(frozen=True, eq=False)
class BundledLaplace:
    """Laplace losses, each with its count: the sum of all of them, as one loss."""

    parts: tuple[tuple[LaplaceLoss, int], ...]

    @property
    def infinite_mass(self) -> float:
        return 0.0

    @functools.cached_property
    def largest(self) -> float:
        return sum_up([count * law.largest for law, count in self.parts])

    @functools.cached_property
    def largest_down(self) -> float:
        return -sum_up([-count * law.largest_down for law, count in self.parts])

    @functools.cached_property
    def epsilons(self) -> Array:
        return np.array([law.epsilon for law, _ in self.parts])

    @functools.cached_property
    def counts(self) -> Array:
        return np.array([count for _, count in self.parts], dtype=np.float64)

    def cumulants(self, c: float) -> Cumulants:
        return self.added(self.rows(c))

    def rows(self, c: float) -> Rows:
        """K, its error, mean and variance of each loss, run once."""
        each = (law.cumulants(c) for law, _ in self.parts)
        value, error, mean, variance = np.array([(at.value, at.error, at.mean, at.variance) for at in each]).T
        return value, error, mean, variance

    def added(self, rows: Rows) -> Cumulants:
        value, error, mean, variance = (math.fsum((self.counts * each).tolist()) for each in rows)
        rounding = 8 * UNIT * math.fsum((self.counts * np.abs(rows[0])).tolist())
        return Cumulants(value, error * (1 + 1e-9) + rounding, mean, variance)

    def log_moments(self, c: Array) -> Array:
        tilts, e0 = c[:, None], self.epsilons
        ratio = np.log1p(tilts / (2 * tilts + 1) * np.expm1(-(2 * tilts + 1) * e0))
        upper = tilts * e0 + ratio + 16 * UNIT * (tilts * e0 + np.abs(ratio))
        bounds: Array = upper @ self.counts + (len(self.parts) + 8) * UNIT * (np.abs(upper) @ self.counts)
        return bounds

    def tilted(self, c: float) -> TiltedLaplaces:
        return TiltedLaplaces(self, c, self.rows(c))

    def rdp_upper(self, order: float) -> float:
        """Claim: at least the Renyi divergence of the sum. Source: Mironov 2017, Propositions 1 and 6."""
        c = excess(order)
        at = self.cumulants(c)
        return price(at.value, at.error, c)


@dataclass(frozen=True, eq=False)
class TiltedLaplaces:
    """A bundle tilted at c; `rows`: those of the bundle there."""

    law: BundledLaplace
    c: float
    rows: Rows

    @functools.cached_property
    def cumulants(self) -> Cumulants:
        return self.law.added(self.rows)

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
        slack = (len(self.law.parts) + 4) * UNIT
        for i, (law, times) in enumerate(self.law.parts):
            low = low_nodes(law.epsilon, self.c, Cumulants(*(float(row[i]) for row in self.rows)), step, count)
            if low is None:
                turning.append(i)
            else:
                log_phi += times * low.log_phi
                spread += times * (low.spread + slack * np.abs(low.log_phi))
        t, most = step * np.arange(count, dtype=np.float64), max(1, MOST_CELLS // count)
        for start in range(0, len(turning), most):
            some = turning[start : start + most]
            counts, (value, error, mean) = self.law.counts[some], (row[some, None] for row in self.rows[:3])
            nodes = laplace_nodes(self.law.epsilons[some, None], self.c, (value, error, mean), t)
            log_phi += counts @ nodes.log_phi
            spread += counts @ (nodes.spread + slack * np.abs(nodes.log_phi))
        moved = 4 * UNIT * float(self.law.counts @ np.abs(self.rows[2]))  # the rounding of the sum of the means
        return Nodes(log_phi, (spread + t * moved) * (1 + 1e-9))
