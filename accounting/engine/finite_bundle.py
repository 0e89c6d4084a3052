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
from dpledger.accounting.laws.finite import FiniteLoss, from_one, mean_error, nodes_of_atoms, reach_and_variance
from dpledger.accounting.laws.law import Cumulants, Nodes, decay_of_bounded, excess, price
from dpledger.errors import WorkLimit

__all__ = ["BundledAtoms"]

MOST_CELLS = 1 << 17  # rows times nodes formed at once


@dataclass(frozen=True, eq=False)
class _Rows:
    """Normalised tilted masses, their relative errors before that, K and its error, mean, variance: row by row."""

    weights: Array
    each: Array
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
    def _masses(self) -> tuple[Array, Array, Array]:
        """The infinite mass, the relative error of the others, and by how much they may miss 1 together."""
        rows = np.array([(law.infinite_mass, law.mass_error, law.imbalance) for law, _ in self.parts])
        return rows[:, 0], rows[:, 1], rows[:, 2]

    def _weights(self, c: float | Array) -> tuple[Array, Array, Array]:
        """As `FiniteLoss._weights`, for each c (if several) and each row."""
        losses, logs, errors = self._values
        infinite, mass_error, _ = self._masses
        exponents = logs + np.multiply.outer(c, losses)
        top = exponents.max(axis=-1)
        weights = np.exp(exponents - top[..., None])
        total = weights.sum(axis=-1)
        weights /= total[..., None]
        moved = np.multiply.outer(c, errors + 4 * UNIT * np.abs(losses))
        each = moved + 4 * UNIT * (np.abs(exponents) + (np.abs(top) + 4)[..., None])
        fixed = mass_error * (1 + 2 * infinite / (1 - infinite)) + (losses.shape[1] + 16) * UNIT
        return weights, each + fixed[:, None], top + np.log(total) - np.log1p(-infinite)

    def _from_one(self, c: Array) -> tuple[Array, Array]:
        """As `FiniteLoss._from_one`, for each c and each row."""
        losses, _, errors = self._values
        infinite, mass_error, imbalance = self._masses
        masses = np.array([law.masses for law, _ in self.parts])
        return from_one(c, losses, masses, errors, (mass_error, infinite), imbalance)

    def _rows(self, c: float) -> _Rows:
        """As `FiniteLoss.tilted`, row by row."""
        weights, each, value = self._weights(c)
        losses = self._values[0]
        mean = (weights * losses).sum(axis=1)
        variance = (weights * (losses - mean[:, None]) ** 2).sum(axis=1)
        error = mean_error(weights, each) + 8 * UNIT * (np.abs(value) + 2)
        (other,), (other_error,) = self._from_one(np.array([c]))
        value = np.where(other_error < error, other, value)
        return _Rows(weights, each, value, np.minimum(error, other_error), mean, variance)

    def cumulants(self, c: float) -> Cumulants:
        return self._added(self._rows(c))

    def _added(self, rows: _Rows) -> Cumulants:
        value, error, mean, variance = (
            math.fsum((self._counts * each).tolist()) for each in (rows.value, rows.error, rows.mean, rows.variance)
        )
        rounding = 8 * UNIT * math.fsum((self._counts * np.abs(rows.value)).tolist())
        return Cumulants(value, error * (1 + 1e-9) + rounding, mean, variance)

    def log_moments(self, c: Array) -> Array:
        weights, each, values = self._weights(c)
        others, other_errors = self._from_one(c)
        upper = np.minimum(values + mean_error(weights, each) + 8 * UNIT * (np.abs(values) + 2), others + other_errors)
        bounds: Array = upper @ self._counts + (len(self.parts) + 8) * UNIT * (np.abs(upper) @ self._counts)
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

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        """Atoms need not decay for ever. As `TiltedFinite.log_decay`, row by row."""
        rows, total = self.rows, np.zeros_like(t)
        if horizon == math.inf:
            return total
        losses, _, errors = self.law._values
        bounds = reach_and_variance(losses, errors, rows.each, rows.variance)
        for reach, variance, count in zip(*(each.tolist() for each in (*bounds, self.law._counts)), strict=True):
            total += count * decay_of_bounded(reach, variance, t, horizon)
        return total * (1 - 1e-12)

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
        rows = self.rows
        return nodes_of_atoms(losses, errors, rows.weights[some], rows.each[some], rows.mean[some], step, count)


def _in_blocks(rows: int, most: int) -> list[slice]:
    return [slice(start, start + most) for start in range(0, rows, most)]
