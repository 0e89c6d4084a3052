"""Many distinct finite losses with equally many values as one loss: one row of an array for each.

The same sums and the same error terms as `laws.finite`, row by row. docs/proofs/engine.md, sections 3 and 6.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.engine.composed import sum_up
from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.fourier import node_sums, rounding_of_node_sums
from dpledger.accounting.laws.law import Cumulants, Nodes, excess, price, spread_of
from dpledger.errors import WorkLimit

__all__ = ["BundledAtoms"]

MOST_CELLS = 1 << 17  # rows times nodes formed at once


@dataclass(frozen=True, eq=False)
class _Rows:
    """Normalised tilted masses, their relative error in the mean, K and its error, mean, variance: row by row."""

    weights: Array
    relative: Array
    value: Array
    error: Array
    mean: Array
    variance: Array


@dataclass(frozen=True, eq=False)
class BundledAtoms:
    """Finite losses with equally many values, each with its count: the sum of all of them, as one loss."""

    parts: tuple[tuple[FiniteLoss, int], ...]

    @functools.cached_property
    def infinite_mass(self) -> float:
        return -math.expm1(math.fsum(count * math.log1p(-law.infinite_mass) for law, count in self.parts))

    @functools.cached_property
    def largest(self) -> float:
        return sum_up([count * law.largest for law, count in self.parts])

    @functools.cached_property
    def largest_down(self) -> float:
        return -sum_up([-count * law.largest_down for law, count in self.parts])

    @functools.cached_property
    def _counts(self) -> Array:
        return np.array([count for _, count in self.parts], dtype=np.float64)

    @functools.cached_property
    def _values(self) -> tuple[Array, Array, Array]:
        """Losses, logarithms of their masses, errors of the losses."""
        losses, masses, errors = zip(*((law.losses, law.masses, law.loss_errors) for law, _ in self.parts), strict=True)
        return np.array(losses), np.log(np.array(masses)), np.array(errors)

    @functools.cached_property
    def _masses(self) -> tuple[Array, Array]:
        """The infinite mass and the relative error of the others."""
        pairs = np.array([(law.infinite_mass, law.mass_error) for law, _ in self.parts])
        return pairs[:, 0], pairs[:, 1]

    def _weights(self, c: float | Array) -> tuple[Array, Array, Array]:
        """As `FiniteLoss._weights`, for each c (if several) and each row."""
        losses, logs, errors = self._values
        infinite, mass_error = self._masses
        exponents = logs + np.multiply.outer(c, losses)
        top = exponents.max(axis=-1)
        weights = np.exp(exponents - top[..., None])
        total = weights.sum(axis=-1)
        weights /= total[..., None]
        moved = np.multiply.outer(c, errors + 4 * UNIT * np.abs(losses))
        each = moved + 4 * UNIT * (np.abs(exponents) + (np.abs(top) + 4)[..., None])
        fixed = mass_error * (1 + 2 * infinite / (1 - infinite)) + (losses.shape[1] + 16) * UNIT
        relative = (weights * each).sum(axis=-1) * (1 + 1e-6) + fixed
        return weights, top + np.log(total) - np.log1p(-infinite), relative

    def _rows(self, c: float) -> _Rows:
        """As `FiniteLoss.tilted`, row by row."""
        weights, value, relative = self._weights(c)
        losses = self._values[0]
        mean = (weights * losses).sum(axis=1)
        variance = (weights * (losses - mean[:, None]) ** 2).sum(axis=1)
        return _Rows(weights, relative, value, relative + 8 * UNIT * (np.abs(value) + 2), mean, variance)

    def cumulants(self, c: float) -> Cumulants:
        return self._added(self._rows(c))

    def _added(self, rows: _Rows) -> Cumulants:
        value, error, mean, variance = (
            math.fsum((self._counts * each).tolist()) for each in (rows.value, rows.error, rows.mean, rows.variance)
        )
        rounding = 8 * UNIT * math.fsum((self._counts * np.abs(rows.value)).tolist())
        return Cumulants(value, error * (1 + 1e-9) + rounding, mean, variance)

    def log_moments(self, c: Array) -> Array:
        _, values, relative = self._weights(c)
        sizes = np.abs(values)
        upper = values + relative + 8 * UNIT * (sizes + 2)
        bounds: Array = upper @ self._counts + (len(self.parts) + 8) * UNIT * ((sizes + relative) @ self._counts)
        return bounds

    def tilted(self, c: float) -> TiltedAtoms:
        return TiltedAtoms(self, self._rows(c))

    def rdp_upper(self, order: float) -> float:
        """Claim: at least the Renyi divergence of the sum; infinite where the loss can be. Source: Mironov 2017,
        Propositions 1 and 9."""
        if self.infinite_mass > 0:
            return math.inf
        c = excess(order)
        at = self.cumulants(c)
        return price(at.value, at.error, c)


@dataclass(frozen=True, eq=False)
class TiltedAtoms:
    """A bundle of finite losses, tilted."""

    law: BundledAtoms
    rows: _Rows

    @functools.cached_property
    def cumulants(self) -> Cumulants:
        return self.law._added(self.rows)

    def log_decay(self, t: Array) -> Array:
        """Atoms need not decay."""
        return np.zeros_like(t)

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        rows, counts = self.rows, self.law._counts
        if rows.weights.shape[1] * count > work:
            raise WorkLimit(f"the nodes of a finite loss need more than {work} terms")
        log_phi, spread = np.zeros(count, dtype=np.complex128), np.zeros(count)
        slack = (len(counts) + 4) * UNIT
        for some in _in_blocks(len(counts), max(1, MOST_CELLS // count)):
            nodes = self._nodes_of(some, step, count)
            log_phi += counts[some] @ nodes.log_phi
            spread += counts[some] @ (nodes.spread + slack * np.abs(nodes.log_phi))
        moved = 4 * UNIT * float(counts @ np.abs(rows.mean))  # the rounding of the sum of the means
        return Nodes(log_phi, (spread + np.arange(count) * (step * moved)) * (1 + 1e-9))

    def _nodes_of(self, some: slice, step: float, count: int) -> Nodes:
        """As `TiltedFinite.nodes`, row by row."""
        losses, _, errors = (each[some] for each in self.law._values)
        weights, relative, mean = self.rows.weights[some], self.rows.relative[some], self.rows.mean[some]
        points = losses - mean[:, None]
        phi = node_sums(weights, points, step, count)
        sizes = np.abs(points) + np.abs(mean)[:, None]
        displaced = (weights * (errors + 2 * UNIT * sizes)).sum(axis=1)
        error = 2 * relative[:, None] + rounding_of_node_sums(weights, points, step, count)
        return spread_of(phi, error + np.multiply.outer(displaced, step * np.arange(count, dtype=np.float64)))


def _in_blocks(rows: int, most: int) -> list[slice]:
    return [slice(start, start + most) for start in range(0, rows, most)]
