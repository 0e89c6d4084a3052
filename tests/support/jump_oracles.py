"""The profile of a Poisson-sampled Gaussian run many times, direction remove, by convolving masses on a lattice
directly: no transform, no tilt, all terms positive, so that tails of any size keep their digits.

A cell's P and Q mass are kept, its outcomes moved to its two ends: that is above the profile, by the second order of
the spacing, so that two spacings say how much. Nothing splits small losses from large ones: it is another way to the
number that `engine.jumps` bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Listed:
    """P masses on the losses (start + i) spacing, and what is counted as infinite."""

    start: int
    spacing: float
    masses: Array
    infinite: float

    def delta(self, epsilon: float) -> float:
        losses = (self.start + np.arange(self.masses.size)) * self.spacing
        return self.infinite + float(self.masses @ np.maximum(-np.expm1(epsilon - losses), 0.0))


def repeated(once: Listed, count: int, largest: float) -> Listed:
    """So many runs; sums above `largest` count as infinite."""
    if count == 1:
        return once
    half = repeated(once, count // 2, largest)
    both = _sum(half, half, largest)
    return _sum(both, once, largest) if count % 2 else both


def _sum(first: Listed, second: Listed, largest: float) -> Listed:
    start = first.start + second.start
    masses = np.convolve(first.masses, second.masses)
    kept = max(1, int(largest / first.spacing) - start)
    beyond = first.infinite * (second.infinite + float(second.masses.sum())) + second.infinite * float(
        first.masses.sum()
    )
    return Listed(start, first.spacing, masses[:kept], beyond + float(masses[kept:].sum()))


def above(rate: float, sigma: float, largest: float, cells: int) -> Listed:
    spacing = largest / cells
    start = math.floor(math.log1p(-rate) / spacing) - 1
    points = (start + np.arange(cells - start + 1, dtype=np.float64)) * spacing
    p, q, last = _between(rate, sigma, points)
    share = np.clip(-np.expm1(-np.log(np.maximum(p, 1e-320) / np.maximum(q, 1e-320)) + points[:-1]), 0.0, None)
    share = np.where(q > 1e-300, np.minimum(share / -math.expm1(-spacing), 1.0), 1.0)
    masses = np.zeros(points.size)
    masses[1:] += p * share
    masses[:-1] += p * (1 - share)
    return Listed(start, spacing, masses, last)


def _between(rate: float, sigma: float, points: Array) -> tuple[Array, Array, float]:
    """P and Q mass of the losses between neighbouring points, and the P mass beyond the last."""
    inner = np.maximum(np.expm1(points) / rate, -1.0)
    with np.errstate(divide="ignore"):
        x = 0.5 + sigma**2 * np.log1p(inner)
    q, shifted = (_tails((x - mean) / sigma) for mean in (0.0, 1.0))
    tails = (1 - rate) * q + rate * shifted
    return -np.diff(tails), -np.diff(q), float(tails[-1])


def _tails(x: Array) -> Array:
    return np.array([0.5 * math.erfc(value / math.sqrt(2)) for value in x.tolist()])


# ---- two runs, by a quadrature in one outcome -----------------------------------------------------------------------


def two_runs(rate: float, sigma: float, epsilon: float) -> float:
    """delta(epsilon) of two runs: the mean over the first outcome x of the closed form of one run at epsilon - L(x).
    By Gauss-Legendre on panels that narrow geometrically to where that is 0; right to about ten digits."""
    around = epsilon + np.concatenate([sign * rate * np.logspace(-8, 12, 161) for sign in (-1.0, 1.0)])
    bends = _outcome(rate, sigma, np.append(around[(around > 0) & (around < 600)], epsilon))
    last = float(_outcome(rate, sigma, np.array([epsilon]))[0])
    plain = np.concatenate([np.arange(-16, 0) * sigma, np.linspace(0.0, last, 80), last + np.arange(1, 60) * sigma / 2])
    edges = np.unique(np.concatenate([plain, bends[(bends > -16 * sigma) & (bends < last + 30 * sigma)]]))
    nodes, weights = np.polynomial.legendre.leggauss(12)
    middles, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    x = (middles[:, None] + halves[:, None] * nodes).ravel()
    w = (halves[:, None] * weights).ravel()
    losses = np.log1p(rate * np.expm1((x - 0.5) / sigma**2))
    normal = np.exp(-x * x / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    return float(np.sum(w * normal * np.exp(losses) * _one_run(rate, sigma, epsilon - losses)))


def _outcome(rate: float, sigma: float, losses: Array) -> Array:
    outcomes: Array = 0.5 + sigma**2 * np.log1p(np.expm1(losses) / rate)
    return outcomes


def _one_run(rate: float, sigma: float, epsilons: Array) -> Array:
    """P - e^epsilon Q of the outcomes whose loss is above epsilon."""
    inner = np.expm1(epsilons) / rate
    x = 0.5 + sigma**2 * np.log1p(np.maximum(inner, -1 + 1e-15))
    q, shifted = (_tails((x - mean) / sigma) for mean in (0.0, 1.0))
    deltas: Array = np.where(inner > -1, rate * (shifted - (1 + inner) * q), -np.expm1(epsilons))
    return deltas
