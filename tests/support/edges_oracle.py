"""What a list of edges allows, by a linear programme that shares no code with the auditor; and small laws to audit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.stats import norm

from dpledger.audit.evidence.edges import Edges
from dpledger.audit.outcomes.structure import Outcomes

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator


def largest_mean_by_edges(a: Floats, b: Floats, slopes: Sequence[float], costs: Sequence[float]) -> float:
    """The largest E_P a + E_Q b over all P and Q on these cells with P(S) + slope Q(not S) <= cost for every set S of
    cells and every edge: sum max(P_i, slope Q_i) <= cost."""
    size, edges = len(a), len(slopes)
    columns = 2 * size + edges * size  # P, Q, and of each edge what is at least both
    rows, bounds = [], []
    for edge, (slope, cost) in enumerate(zip(slopes, costs, strict=True)):
        start = (2 + edge) * size
        for cell in range(size):
            for column, factor in ((cell, 1.0), (size + cell, slope)):
                row = np.zeros(columns)
                row[column], row[start + cell] = factor, -1
                rows.append(row)
                bounds.append(0.0)
        row = np.zeros(columns)
        row[start : start + size] = 1
        rows.append(row)
        bounds.append(cost)
    masses = np.zeros((2, columns))
    masses[0, :size], masses[1, size : 2 * size] = 1, 1
    goal = -np.concatenate([a, b, np.zeros(edges * size)])
    found = linprog(goal, np.array(rows), bounds, masses, np.ones(2))
    assert found.success, found.message
    return -float(found.fun or 0.0)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The profile of a Gaussian mechanism. Source: Balle-Wang 2018."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def gaussian_profile(mu: float) -> Edges:
    """Eight knots of it a direction."""
    return Edges.of_points([(t, gaussian_delta(t, mu)) for t in np.linspace(0, 4.05, 8)])


@dataclass(frozen=True)
class Drawn:
    """Numbers of one side as outcomes."""

    numbers: Floats
    losses: Floats | None = None

    @property
    def outcomes(self) -> Outcomes:
        return Outcomes(len(self.numbers), {"output": self.numbers.reshape(-1, 1)}, {}, self.losses)
