"""Many distinct sampled Laplace losses as one loss: one row of an array for each.

The same Gauss-Legendre rule on panels and the same error terms as `laws.sampled_laplace`, row by row; every row has as
many panels as the one that needs most. Node sums as in `quadratures`. docs/proofs/engine.md, sections 3, 4 and 6.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.engine.parts import Parts
from dpledger.accounting.engine.quadratures import MOST_IN_AN_ARRAY, curves, node_sums
from dpledger.accounting.laws.gauss_legendre import gauss_legendre
from dpledger.accounting.laws.law import FLOOR, Cumulants, Nodes
from dpledger.accounting.laws.layers import Layers
from dpledger.accounting.laws.sampled_laplace import (
    POINTS,
    SampledLaplaceLoss,
    best_ellipse,
    half_width,
    layers_of_tilted,
)
from dpledger.errors import WorkLimit

__all__ = ["BundledSampledLaplace", "TiltedSampledLaplaces"]


@dataclass(frozen=True, eq=False)
class _Grids:
    """Row by row, as `laws.sampled_laplace.Grid`: points, L there, bounds of its errors, logarithms of the masses
    under Q and bounds of their errors; half lengths of the panels, and their middles."""

    points: Array
    values: Array
    errors: Array
    log_masses: Array
    mass_errors: Array
    half: Array
    middles: Array


@dataclass(frozen=True, eq=False)
class _Tilts:
    """Row by row: normalised tilted weights, their relative defect, K and its error, mean, variance."""

    grids: _Grids
    weights: Array
    defect: Array
    value: Array
    error: Array
    mean: Array
    variance: Array


@dataclass(frozen=True, eq=False)
class BundledSampledLaplace(Parts[SampledLaplaceLoss]):
    """Sampled Laplace losses of one direction, each with its count: the sum of all of them, as one loss. `decays`:
    whether their decay is told; otherwise it is bounded by 1."""

    decays: bool = True

    @functools.cached_property
    def sign(self) -> float:
        """1 for remove, -1 for add."""
        return 1.0 if self.parts[0][0].direction == "remove" else -1.0

    def power(self, c: float) -> float:
        """w, the power of the density ratio that e^{c loss} is under Q."""
        return self.parts[0][0].power(c)

    @functools.cached_property
    def _numbers(self) -> tuple[Array, Array]:
        """Rates and epsilons, as columns."""
        numbers = np.array([(law.rate, law.epsilon) for law, _ in self.parts])
        return numbers[:, :1], numbers[:, 1:]

    def cumulants(self, c: float) -> Cumulants:
        return self.tilted(c).cumulants

    def log_moments(self, c: Array) -> Array:
        return self.bounds_of_moments(self.moment_rows(c).T)

    def moment_rows(self, c: Array) -> Array:
        """Upper bounds of K of each law, one run of it, at several c: shape (laws, c)."""
        rows = (self.tilted_rows(each, 0.0) for each in c.tolist())
        return np.stack([tilts.value + tilts.error for tilts in rows], axis=1)

    def tilted(self, c: float) -> TiltedSampledLaplaces:
        return TiltedSampledLaplaces(self, c, self.tilted_rows(c, 0.0))

    @functools.cached_property
    def _kept(self) -> dict[int, _Grids]:
        return {}

    def _grids(self, power: float, frequency: float) -> _Grids:
        """Grids that are fine enough, as far as can be told beforehand. Raises WorkLimit where they are too large."""
        needed = math.ceil(float(np.max(self._numbers[1])) / float(half_width(np.array([power]), frequency)[0]))
        if needed * POINTS * len(self.parts) >= MOST_IN_AN_ARRAY:
            raise WorkLimit(f"the quadratures of {len(self.parts)} sampled Laplace losses need too many points")
        panels = 1 << max(0, needed - 1).bit_length()
        if panels not in self._kept:
            self._kept[panels] = self._grids_of(panels)
        return self._kept[panels]

    def _grids_of(self, panels: int) -> _Grids:
        rates, e0 = self._numbers
        nodes, weights = gauss_legendre(POINTS)
        half = e0 / panels
        middles = -e0 + half * (2 * np.arange(panels, dtype=np.float64) + 1)
        inner = (middles[:, :, None] + half[:, :, None] * nodes).reshape(len(e0), -1)
        points = np.concatenate([-e0, inner, e0], axis=1)
        log_inner = np.tile(elementary.log(half * weights / 4), panels) - (e0 + inner) / 2
        log_masses = np.concatenate([np.full(e0.shape, -scalars.log(2)), log_inner, -e0 - scalars.log(2)], axis=1)
        moved = 6 * UNIT * e0  # of a point, absolutely: from the middle, the half width and e0
        values, errors = curves(rates, points)
        slopes = np.minimum(rates * elementary.exp(points - values) * (1 + 1e-9), 1.0)
        mass_errors = 8 * UNIT * (np.abs(log_masses) + 2) + 2 * moved
        return _Grids(points, values, errors + slopes * (1.01 * moved), log_masses, mass_errors, half, middles)

    def tilted_rows(self, c: float, frequency: float) -> _Tilts:
        """The tilted weights for e^{w L} under Q, good up to a frequency. Raises WorkLimit where one is not."""
        w = self.power(c)
        grids = self._grids(w, frequency)
        exponents = w * grids.values + grids.log_masses
        top = exponents.max(axis=1)
        weights = elementary.exp(exponents - top[:, None])
        total = weights.sum(axis=1)
        weights /= total[:, None]
        each = abs(w) * grids.errors + grids.mass_errors + 8 * UNIT * (np.abs(exponents) + (np.abs(top) + 4)[:, None])
        value = top + elementary.log(total)
        rule = elementary.exp(np.minimum(0.0, self._log_rule_errors(grids, w, frequency) - value))
        missed = np.einsum("ij,ij->i", weights, each) * (1 + 1e-6)
        defect = 1.01 * rule + missed + UNIT * (weights.shape[1] + 20)
        if not np.all(defect < 0.25):
            raise WorkLimit("the quadrature of sampled Laplace noise does not resolve its integrand")
        mean = self.sign * np.einsum("ij,ij->i", weights, grids.values)
        variance = np.einsum("ij,ij->i", weights, scalars.square(self.sign * grids.values - mean[:, None]))
        error = -elementary.log1p(-defect) + 8 * UNIT * (np.abs(value) + 2)
        return _Tilts(grids, weights, defect, value, error, mean, variance)

    def _log_rule_errors(self, grids: _Grids, power: float, frequency: float) -> Array:
        """log of the rule's error, in the units of I, row by row.

        Claim: at least log |rule - integral| for e^{(w + it) L}, |t| <= frequency. Source: docs/proofs/engine.md,
        section 4, Lemma 8."""
        rates, e0 = self._numbers
        rho = float(best_ellipse(float(np.max(grids.half)), np.array([power]), frequency)[0])
        across, height = grids.half * (rho + 1 / rho) / 2, grids.half * (rho - 1 / rho) / 2
        losses = curves(rates, grids.middles + (across if power >= 0 else -across))[0] * power
        if power < 0:
            losses += power * elementary.log(elementary.cos(height / 2))
        logs = losses - (e0 + grids.middles - across) / 2 + frequency * height
        top = logs.max(axis=1)
        total: Array = top + elementary.log(elementary.exp(logs - top[:, None]).sum(axis=1) * grids.half[:, 0] / 4)
        return total + scalars.log(8 / (rho - 1)) - (2 * POINTS - 1) * scalars.log(rho) + 1e-6


@dataclass(frozen=True, eq=False)
class TiltedSampledLaplaces:
    """A bundle tilted at c."""

    law: BundledSampledLaplace
    c: float
    base: _Tilts

    @functools.cached_property
    def cumulants(self) -> Cumulants:
        base = self.base
        return self.law.added(base.value, base.error, base.mean, base.variance)

    @functools.cached_property
    def _layers(self) -> list[Layers]:
        base, power = self.base, self.law.power(self.c)
        tops = (base.value + base.error).tolist()
        rows = zip(self.law.parts, base.grids.points, base.weights, tops, strict=True)
        return [layers_of_tilted(law, power, points, weights, top) for (law, _), points, weights, top in rows]

    def decay_rows(self, t: Array) -> Array:
        """Upper bounds of log |phi(s)|, for ever from each t on: a row for each law, one run of it."""
        return np.array([layers.log_decay(t) for layers in self._layers])

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:  # noqa: ARG002 - for ever
        if not self.law.decays:
            return np.zeros(t.shape)
        total: Array = elementary.product(self.law.counts, self.decay_rows(t)) * (1 - 1e-12)
        return total

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        """log Phi of all, each with its count, and its spread. Source: docs/proofs/engine.md, section 6 (products)."""
        return self.law.multiplied(self.node_rows(step, count, work))

    def node_rows(self, step: float, count: int, work: int) -> tuple[Array, Array, Array]:
        """Real and imaginary part of log phi and its spread: a row for each law, one run of it. Raises WorkLimit."""
        t = step * np.arange(count, dtype=np.float64)
        fine = self.law.tilted_rows(self.c, float(t[-1]))
        if fine.weights.size * count > 64 * work:
            raise WorkLimit(
                f"the nodes of {len(self.law.parts)} sampled Laplace losses need more than {64 * work} terms"
            )
        points = self.law.sign * fine.grids.values - self.base.mean[:, None]
        phi, block = node_sums(fine.weights, step * points, count)
        sizes = np.abs(fine.grids.values) + np.abs(self.base.mean)[:, None]
        displaced = np.einsum("ij,ij->i", fine.weights, fine.grids.errors + 2 * UNIT * sizes) * (1 + 1e-6)
        turned = np.einsum("ij,ij->i", fine.weights, np.abs(points)) * (1 + 1e-6)
        products = UNIT * (8 * points.shape[1] + 40 * (np.arange(count, dtype=np.float64) + block))
        fixed = fine.defect + 1.01 * fine.error + 1.01 * self.base.error
        errors = fixed[:, None] + np.multiply.outer(displaced, t) + products
        errors += np.multiply.outer(4 * UNIT * turned, t + step * block)
        modulus = np.maximum(elementary.modulus(phi), FLOOR)
        real, imaginary = elementary.log(modulus), elementary.angle(phi)
        return (
            real,
            imaginary,
            elementary.log1p((errors + FLOOR) / modulus) + 8 * UNIT * (1 + np.abs(real) + np.abs(imaginary)),
        )
