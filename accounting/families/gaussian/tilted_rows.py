"""The loss of sampled Gaussians, and of mixtures, by the trapezoid rule: of one pair, or of several as one loss.

docs/proofs/engine.md, sections 3, 4 and 6.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.families.gaussian.sampled_grid import (
    BLOCK,
    Grid,
    Pairs,
    TiltedPairs,
    Weighted,
    fine_grid,
    kept_grid,
    log_moments,
    power,
    row_products,
    tilted,
    weighted,
)
from dpledger.accounting.laws.fourier import node_deviations, nodes_of_deviations, rounding_of_deviations
from dpledger.accounting.laws.law import Cumulants, Loss, Nodes
from dpledger.accounting.laws.layers import Layers, layers_below
from dpledger.accounting.laws.sampled_curve import ALIAS
from dpledger.errors import WorkLimit

__all__ = ["ByTheRule", "TiltedRows"]

CELLS = 160  # of the layers of one pair
MOST_AT_ONCE = 64  # pairs whose nodes may together be so many times the work of one
_ENDS = np.arange(CELLS + 1, dtype=np.float64) / CELLS
_ONCE = np.ones(1)


class ByTheRule(Loss, Protocol):
    """The sum of the losses of `pairs`, each as often as `counts` says."""

    __slots__ = ()

    @property
    def pairs(self) -> Pairs: ...

    @property
    def counts(self) -> Array:
        return _ONCE

    @property
    def decays(self) -> bool:
        """Whether its decay is told; otherwise it is bounded by 1."""
        return True

    def grid_up_to(self, c: float) -> Grid:
        """A grid at frequency 0 for tilts up to c."""
        return kept_grid(self.pairs, c)

    def log_moments(self, c: Array) -> Array:
        rows = log_moments(self.grid_up_to(float(np.max(c))), c)
        bounds: Array = _added((rows + (self.counts.size + 9) * UNIT * np.abs(rows)).T, self.counts)
        return bounds

    def tilted(self, c: float) -> TiltedRows:
        return TiltedRows(tilted(self.grid_up_to(c), c), self.counts, self.decays)

    @property
    def decays_slowly(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class TiltedRows:
    """The sum of so many runs of each pair, tilted; the grid of `base` serves at frequency 0."""

    base: TiltedPairs
    counts: Array
    decays: bool

    @functools.cached_property
    def cumulants(self) -> Cumulants:
        return self.base.cumulants(self.counts)

    @functools.cached_property
    def layers(self) -> Layers:
        """Those below the density of each tilted loss."""
        return _layers(self.base)

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:  # noqa: ARG002 - for ever
        if not self.decays:
            return np.zeros(t.shape)
        return _added(self.layers.log_decay(t), self.counts) * (1 - 1e-12)

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        """log Phi of all, each with its count, and its spread. Source: docs/proofs/engine.md, section 6 (products)."""
        grid, pairs = fine_grid(self.base, step * (count - 1)), self.counts.size
        if grid.x.size * count > min(pairs, MOST_AT_ONCE) * work:
            raise WorkLimit(f"the nodes of {pairs} sampled Gaussians need more than {work} terms each")
        fine = weighted(grid, self.base.c)
        points = grid.losses - self.base.mean[:, None]
        size = max(1, BLOCK // (grid.x.shape[1] * math.isqrt(count)))
        parts = [slice(start, start + size) for start in range(0, pairs, size)]
        deviations = [node_deviations(fine.weights[part], points[part], step, count) for part in parts]
        each = nodes_of_deviations(np.concatenate(deviations), self._errors(fine, points, step, count))
        real, imaginary = each.log_phi.real, each.log_phi.imag
        spread = each.spread + ((pairs + 4) * UNIT) * (np.abs(real) + np.abs(imaginary))
        log_phi = _added(real, self.counts) + 1j * _added(imaginary, self.counts)
        return Nodes(log_phi, _added(spread, self.counts) * (1 + 1e-9))

    def _errors(self, fine: Weighted, points: Array, step: float, count: int) -> Array:
        """Bounds of |computed - exact| phi(t) - 1. Source: docs/proofs/engine.md, section 6 (phi - 1)."""
        sizes, means = fine.weights * np.abs(points), np.abs(self.base.mean)[:, None]
        size = sizes.sum(axis=1)
        moved = row_products(fine.weights, fine.grid.curve.errors + 2 * UNIT * (np.abs(points) + means))
        normal = 1.01 * (ALIAS + fine.defect)
        relative = row_products(sizes, fine.relative_errors()) + size * normal
        t = step * np.arange(count, dtype=np.float64)
        weighed = np.minimum(4 * normal[:, None], relative[:, None] * t)
        rounding = rounding_of_deviations(1.0, size[:, None], points.shape[1], t)
        errors: Array = (weighed + moved[:, None] * t + rounding) * (1 + 1e-3)
        return errors + 2.1 * (ALIAS + fine.tails)[:, None]


def _added(rows: Array, counts: Array) -> Array:
    """Each row as often as its count says."""
    total: Array = rows[0] * counts[0] if counts.size == 1 else elementary.product(counts, rows)
    return total


def _layers(base: TiltedPairs) -> Layers:
    """Cells in x between far quantiles. On each the logarithm of the density of the loss is at least the less of its
    ends, less what it may sag below their chord.

    Claim: the layers are below the tilted densities. Source: docs/proofs/engine.md, section 3."""
    grid, pairs, w = base.grid, base.grid.pairs, power(base.grid.pairs, base.c)
    variance, kept = scalars.square(pairs.sigma), base.weights > 1e-8
    before, behind = np.argmax(kept, axis=1), np.argmax(kept[:, ::-1], axis=1)
    first = grid.x[:, :1] + grid.steps * (before[:, None] - 0.5)
    last = grid.x[:, -1:] - grid.steps * (behind[:, None] - 0.5)
    ends, width = first + (last - first) * _ENDS, (last - first) / CELLS
    curve = pairs.curve(ends)
    slopes, thinned = curve.slopes, elementary.log(np.maximum(curve.slopes, 1e-300))
    powers, squares = w * curve.values, ends * ends / (2 * variance)
    constant = (base.values + base.errors)[:, None] + elementary.log(math.sqrt(2 * math.pi) / pairs.sigma) + 1e-9
    rounding = (8 * UNIT) * (np.abs(powers) + squares + np.abs(thinned) + np.abs(constant)) + curve.slope_error
    log_density = powers - squares - thinned - constant - rounding - abs(w) * curve.errors
    bending = slopes * (1 - slopes)
    bending = np.maximum(bending[:, 1:], bending[:, :-1])
    bending[(slopes[:, 1:] >= 0.5) & (slopes[:, :-1] < 0.5)] = 0.25
    most = np.maximum((w + 1) / scalars.square(variance) * bending - 1 / variance, 0.0)  # of the second derivative
    sag = most * (width * width / 8 * (1 + 1e-6))
    log_floor = np.minimum(log_density[:, 1:], log_density[:, :-1]) - sag
    if pairs.cut:
        log_kept = pairs.cut.log_kept(ends)
        log_floor += np.minimum(log_kept[:, 1:], log_kept[:, :-1])  # the least on the cell: there is one maximum
    widths = (curve.values - curve.errors)[:, 1:] - (curve.values + curve.errors)[:, :-1]
    return layers_below(elementary.exp(np.minimum(log_floor, 700.0)), np.maximum(widths, 0.0))
