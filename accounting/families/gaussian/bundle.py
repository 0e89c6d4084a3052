"""Many distinct sampled Gaussians as one loss: their quadratures side by side (`quadratures`).

docs/proofs/engine.md, sections 3, 4 and 6.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.families.gaussian.layer_rows import LayerRows
from dpledger.accounting.families.gaussian.quadratures import (
    Grids,
    Laws,
    Tilts,
    bounds_of_moments,
    grids_for,
    layers_of,
    node_sums,
    tilted_on,
)
from dpledger.accounting.laws.law import FLOOR, MOST_DECAYS, Cumulants, Direction, Loss, Nodes, excess, prices, sum_up
from dpledger.accounting.laws.sampled_curve import ALIAS
from dpledger.errors import WorkLimit

__all__ = ["FEWEST", "BundledGaussians", "in_bundles"]

CHUNK = 256  # losses of one bundle
FEWEST = 10  # distinct sampled Gaussians that are worth a bundle


class Law(Protocol):
    """A sampled Gaussian without a cut, as far as a bundle needs it."""

    @property
    def rate(self) -> float: ...
    @property
    def sigma(self) -> float: ...
    @property
    def direction(self) -> Direction: ...
    @property
    def largest(self) -> float: ...
    @property
    def largest_down(self) -> float: ...


def in_bundles(group: Sequence[tuple[Law, int]]) -> tuple[Loss, ...] | None:
    """Bundles of at most CHUNK losses, whose arrays stay in the cache: the first holds those that decay fastest, and
    only it tells its decay; the others hold losses with equally many points. None where they are too few."""
    if len(group) < FEWEST:
        return None
    ordered = sorted(
        group, key=lambda part: scalars.square(part[0].rate) * part[1] / scalars.square(part[0].sigma), reverse=True
    )
    rest = sorted(ordered[CHUNK:], key=lambda part: part[0].sigma)
    others = [tuple(rest[start : start + CHUNK]) for start in range(0, len(rest), CHUNK)]
    return BundledGaussians(tuple(ordered[:CHUNK])), *(BundledGaussians(chunk, decays=False) for chunk in others)


@dataclass(frozen=True, eq=False)
class BundledGaussians(Loss):
    """Sampled Gaussians of one direction, without cuts, each with its count: the sum of all of them, as one loss. A row
    of an array is of one loss, run once. `decays`: whether their decay is told; otherwise it is bounded by 1."""

    parts: tuple[tuple[Law, int], ...]
    decays: bool = True
    infinite_mass: float = 0.0

    @functools.cached_property
    def largest(self) -> float:
        return sum_up([count * law.largest for law, count in self.parts])

    @functools.cached_property
    def largest_down(self) -> float:
        return -sum_up([-count * law.largest_down for law, count in self.parts])

    @functools.cached_property
    def counts(self) -> Array:
        return np.array([count for _, count in self.parts], dtype=np.float64)

    @functools.cached_property
    def laws(self) -> Laws:
        """Their parameters, as columns."""
        numbers = np.array([(law.rate, law.sigma) for law, _ in self.parts])
        return Laws(numbers[:, :1], numbers[:, 1:], 1.0 if self.parts[0][0].direction == "remove" else -1.0)

    def cumulants(self, c: float) -> Cumulants:
        return self.tilted(c).cumulants

    def log_moments(self, c: Array) -> Array:
        grids = self._grids_up_to(float(np.max(c)))
        rows = np.stack([bounds_of_moments(grids, tilt) for tilt in c.tolist()])
        slack = (len(self.parts) + 8) * UNIT * elementary.product(np.abs(rows), self.counts)
        bounds: Array = elementary.product(rows, self.counts) + slack
        return bounds

    def rdp_upper(self, orders: Array) -> Array:
        """Claim: at least the Renyi divergences of the sum. Source: Mironov 2017, Propositions 1 and 9."""
        c = excess(orders)
        tilted = [self.tilted(x).cumulants for x in c.tolist()]
        return prices(np.array([at.value + at.error for at in tilted]), c)

    def profile(self) -> None:
        """None: a lattice takes losses one by one."""

    def tilted(self, c: float) -> TiltedBundle:
        return TiltedBundle(self, c, tilted_on(self._grids_up_to(c), c))

    @functools.cached_property
    def _kept(self) -> dict[float, Grids]:
        return {}

    def _grids_up_to(self, c: float) -> Grids:
        """Grids at frequency 0 for tilts up to c, kept for neighbouring tilts."""
        for top, grids in self._kept.items():
            if c <= top <= 8 * c:
                return grids
        top = math.ldexp(1.0, math.frexp(c)[1] + 1)
        return self._kept.setdefault(top, grids_for(self.laws, top, 0.0))


@dataclass(frozen=True, eq=False)
class TiltedBundle:
    """A bundle tilted at c; the grids of `base` serve at frequency 0."""

    law: BundledGaussians
    c: float
    base: Tilts

    @functools.cached_property
    def cumulants(self) -> Cumulants:
        base, counts = self.base, self.law.counts
        values = counts * base.value
        rounding = 8 * UNIT * float(np.abs(values).sum())
        return Cumulants(
            math.fsum(values.tolist()),
            float(elementary.product(counts, base.error)) * (1 + 1e-9) + rounding * (1 + 1e-9),
            math.fsum((counts * base.mean).tolist()),
            float(elementary.product(counts, base.variance)),
        )

    @functools.cached_property
    def _layers(self) -> LayerRows:
        return layers_of(self.base, self.c, MOST_DECAYS)

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:  # noqa: ARG002 - for ever
        """That of the first MOST_DECAYS laws."""
        if not self.law.decays:
            return np.zeros(t.shape)
        decays = self._layers.log_decay(t)
        total: Array = elementary.product(self.law.counts[:MOST_DECAYS], decays) * (1 - 1e-12)
        return total

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        """log Phi of all, each with its count, and its spread. Source: docs/proofs/engine.md, section 6 (products)."""
        law, counts = self.law, self.law.counts
        grids = grids_for(law.laws, self.c, step * (count - 1))
        if grids.x.size * count > 64 * work:
            raise WorkLimit(f"the nodes of {len(law.parts)} sampled Gaussians need more than {64 * work} terms")
        fine = tilted_on(grids, self.c)
        points = grids.losses - self.base.mean[:, None]
        phi, block = node_sums(fine.weights, step * points, count)
        modulus = np.maximum(elementary.modulus(phi), FLOOR)
        real, imaginary = elementary.log(modulus), elementary.angle(phi)
        errors = self._errors(fine, points, step * np.arange(count, dtype=np.float64), block)
        sizes = np.abs(real) + np.abs(imaginary)
        spread = elementary.log1p((errors + FLOOR) / modulus) + 8 * UNIT * (1 + sizes)
        spread += ((len(law.parts) + 4) * UNIT) * sizes
        log_phi = elementary.product(counts, real) + 1j * elementary.product(counts, imaginary)
        return Nodes(log_phi, elementary.product(counts, spread) * (1 + 1e-9))

    def _errors(self, fine: Tilts, points: Array, t: Array, block: int) -> Array:
        """Bounds of |phi - computed|: of the quadrature, of the points, and of the products that form the phases."""
        grids, k = fine.grids, np.arange(t.size, dtype=np.float64)
        sizes = np.abs(grids.losses) + np.abs(self.base.mean)[:, None]
        displaced = np.einsum("ij,ij->i", fine.weights, grids.errors + 2 * UNIT * sizes) * (1 + 1e-6)
        turned = np.einsum("ij,ij->i", fine.weights, np.abs(points)) * (1 + 1e-6)
        fixed = 2 * (ALIAS + fine.defect) + 1.01 * (fine.error + self.base.error)
        products = UNIT * (8 * grids.x.shape[1] + 40 * (k + block))
        reach = t + (t[1] if t.size > 1 else 0.0) * block
        moved = np.multiply.outer(displaced, t) + np.multiply.outer(4 * UNIT * turned, reach)
        errors: Array = fixed[:, None] + moved + products
        return errors
