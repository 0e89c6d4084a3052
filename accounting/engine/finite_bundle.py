"""Many distinct finite losses with equally many values as one loss: one row of an array for each.

The same sums and the same error terms as `laws.finite`, row by row. docs/proofs/engine.md, sections 3 and 6.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.engine.composed import sum_up
from dpledger.accounting.engine.parts import Parts, in_blocks, joined
from dpledger.accounting.laws.atoms import SLIGHT, from_one, mean_error, nodes_of_atoms, reach_and_variance
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import Cumulants, Nodes, decay_of_bounded
from dpledger.errors import WorkLimit

__all__ = ["BundledAtoms"]

LARGEST_EXPONENT = 300.0  # the largest c |L| for which e^{cL} needs no scale


@dataclass(frozen=True, slots=True, eq=False)
class _Atoms:
    """Row by row: losses, bounds of their errors and of what a rounding more moves them by; masses. As columns: the
    infinite mass, the relative error of the masses, by how much they may miss 1 together, and what every tilted weight
    may err by. `reach`: of all |L|; `searched`: tilts up to here may be searched from M = 1."""

    losses: Array
    errors: Array
    moved: Array
    masses: Array
    infinite: Array
    mass_error: Array
    imbalance: Array
    fixed: Array
    reach: float
    searched: float


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Normalised tilted masses, their relative errors before that, K and its error, mean, variance: row by row."""

    weights: Array
    each: Array
    value: Array
    error: Array
    mean: Array
    variance: Array


@dataclass(frozen=True, eq=False)
class BundledAtoms(Parts[FiniteLoss]):
    """Finite losses with equally many values, each with its count: the sum of all of them, as one loss."""

    @functools.cached_property
    def infinite_mass(self) -> float:
        return -scalars.expm1(math.fsum(count * scalars.log1p(-law.infinite_mass) for law, count in self.parts))

    @functools.cached_property
    def largest(self) -> float:
        tops = np.nextafter((self._atoms.losses + self._atoms.errors).max(axis=1), math.inf)
        return sum_up((self.counts * tops).tolist())

    @functools.cached_property
    def _atoms(self) -> _Atoms:
        laws = [law for law, _ in self.parts]
        losses, errors = np.array([law.losses for law in laws]), np.array([law.loss_errors for law in laws])
        masses = np.array([law.masses for law in laws])
        numbers = np.array([(law.infinite_mass, law.mass_error, law.imbalance) for law in laws])
        infinite, mass_error, imbalance = numbers[:, :1], numbers[:, 1:2], numbers[:, 2:]
        sizes = np.abs(losses)
        fixed = mass_error * (1 + 2 * infinite / (1 - infinite)) + (losses.shape[1] + 16) * UNIT
        moved, reach = errors + 4 * UNIT * sizes, float(sizes.max())
        searched = LARGEST_EXPONENT / max(reach, UNIT) if float(imbalance.max()) < math.inf else 0.0
        return _Atoms(losses, errors, moved, masses, infinite, mass_error, imbalance, fixed, reach, searched)

    @functools.cached_property
    def _logs(self) -> tuple[Array, Array]:
        """Logarithms of the masses, and of what is finite, as a column."""
        return elementary.log(self._atoms.masses), elementary.log1p(-self._atoms.infinite)

    def _scaled(self, c: float | Array) -> tuple[Array, Array, Array, Array]:
        """For each c (which has two axes more, if several) and each row: logarithms of the terms e^{cL} P, their
        largest; the terms by that, and K."""
        logs, log_finite = self._logs
        exponents = logs + c * self._atoms.losses
        top = np.maximum.reduce(exponents, axis=-1, keepdims=True)
        scaled = elementary.exp(exponents - top)
        value = top + elementary.log(np.add.reduce(scaled, axis=-1, keepdims=True)) - log_finite
        return exponents, top, scaled, value[..., 0]

    def _weights(self, c: float) -> tuple[Array, Array, Array]:
        """As `FiniteLoss._weights`, for each row."""
        atoms = self._atoms
        exponents, top, weights, value = self._scaled(c)
        weights /= weights.sum(axis=1, keepdims=True)
        each = c * atoms.moved + (4 * UNIT) * np.abs(exponents) + ((4 * UNIT) * (np.abs(top) + 4) + atoms.fixed)
        return weights, each, value

    @functools.cached_property
    def _errors(self) -> tuple[Array, Array]:
        """Two rows: a bound of the error of K(c) is the first, c times the second and 8 UNIT |K(c)| more."""
        atoms, (logs, _) = self._atoms, self._logs
        still = 8 * UNIT * np.abs(logs).max(axis=1) + atoms.fixed[:, 0] + 16 * UNIT
        rising = atoms.moved.max(axis=1) + 8 * UNIT * np.abs(atoms.losses).max(axis=1)
        return still * (1 + 1e-6) + 16 * UNIT, rising * (1 + 1e-6)

    def _from_one(self, c: Array) -> tuple[Array, Array]:
        """As `FiniteLoss._from_one`, for each c and each row."""
        atoms = self._atoms
        errors = atoms.mass_error[:, 0], atoms.infinite[:, 0]
        return from_one(c, atoms.losses, atoms.masses, atoms.errors, errors, atoms.imbalance[:, 0])

    def _rows(self, c: float) -> _Rows:
        """As `FiniteLoss.tilted`, row by row."""
        weights, each, value = self._weights(c)
        losses = self._atoms.losses
        mean = (weights * losses).sum(axis=1)
        apart = losses - mean[:, None]
        variance = (weights * (apart * apart)).sum(axis=1)
        error = mean_error(weights, each) + 8 * UNIT * (np.abs(value) + 2)
        if c * self._atoms.reach <= SLIGHT:
            (other,), (other_error,) = self._from_one(np.array([c]))
            value = np.where(other_error < error, other, value)
            error = np.minimum(error, other_error)
        return _Rows(weights, each, value, error, mean, variance)

    def cumulants(self, c: float) -> Cumulants:
        """For a search: from M = 1 + E(e^{cL} - 1), without an error."""
        atoms = self._atoms
        if c > atoms.searched:
            return self.tilted(c).cumulants
        growth = elementary.expm1(c * atoms.losses)
        growth *= atoms.masses
        finite = 1 - atoms.infinite
        excess = growth.sum(axis=1, keepdims=True) / finite
        weights = (atoms.masses + growth) / (finite * (1 + excess))
        mean = (weights * atoms.losses).sum(axis=1)
        apart = atoms.losses - mean[:, None]
        variance = (weights * (apart * apart)).sum(axis=1)
        return self.searched(elementary.log1p(excess[:, 0]), mean, variance)

    def log_moments(self, c: Array) -> Array:
        values, (still, rising) = self._scaled(c[:, None, None])[3], self._errors
        upper = values + 8 * UNIT * np.abs(values) + (still + c[:, None] * rising)
        if float(c.max()) * self._atoms.reach <= SLIGHT:
            others, other_errors = self._from_one(c)
            upper = np.minimum(upper, others + other_errors)
        return self.bounds_of_moments(upper)

    def tilted(self, c: float) -> TiltedAtoms:
        return TiltedAtoms(self, self._rows(c))


@dataclass(frozen=True, eq=False)
class TiltedAtoms:
    """A bundle of finite losses, tilted."""

    law: BundledAtoms
    rows: _Rows

    @functools.cached_property
    def cumulants(self) -> Cumulants:
        rows = self.rows
        return self.law.added(rows.value, rows.error, rows.mean, rows.variance)

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        """Atoms need not decay for ever. As `TiltedFinite.log_decay`, row by row."""
        rows, total = self.rows, np.zeros_like(t)
        if horizon == math.inf:
            return total
        atoms = self.law._atoms
        bounds = reach_and_variance(atoms.losses, atoms.errors, rows.each, rows.variance)
        for reach, variance, count in zip(*(each.tolist() for each in (*bounds, self.law.counts)), strict=True):
            total += count * decay_of_bounded(reach, variance, t, horizon)
        return total * (1 - 1e-12)

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        rows, atoms, law = self.rows, self.law._atoms, self.law
        if rows.weights.shape[1] * count > work:
            raise WorkLimit(f"the nodes of a finite loss need more than {work} terms")
        found = []
        for some in in_blocks(len(law.parts), count):
            each = rows.weights[some], rows.each[some], rows.mean[some]
            block = nodes_of_atoms(atoms.losses[some], atoms.errors[some], *each, step, count)
            found.append(law.multiplied(block, some))
        moved = (
            4 * UNIT * float(elementary.product(law.counts, np.abs(rows.mean)))
        )  # the rounding of the sum of the means
        return joined(found, moved, step * np.arange(count, dtype=np.float64))
