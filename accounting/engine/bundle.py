"""Many distinct sampled Gaussians as one loss: their quadratures side by side (`quadratures`).

docs/proofs/engine.md, sections 3, 4 and 6.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.engine.composed import MOST_DECAYS, Composed
from dpledger.accounting.engine.finite_bundle import BundledAtoms
from dpledger.accounting.engine.layer_rows import LayerRows
from dpledger.accounting.engine.parts import Parts
from dpledger.accounting.engine.quadratures import (
    Grids,
    Laws,
    Tilts,
    bounds_of_moments,
    grids_for,
    layers_of,
    node_sums,
    tilted_on,
)
from dpledger.accounting.engine.sampled_laplace_bundle import BundledSampledLaplace
from dpledger.accounting.engine.two_ended_bundle import MANY_RUNS, BundledTwoEnded
from dpledger.accounting.laws.finite import FiniteLoss, WorstCase
from dpledger.accounting.laws.laplace import LaplaceLoss
from dpledger.accounting.laws.law import FLOOR, Cumulants, Loss, Nodes
from dpledger.accounting.laws.sampled_laplace import SampledLaplaceLoss
from dpledger.accounting.laws.subsampled import ALIAS, SampledGaussianLoss
from dpledger.errors import WorkLimit

__all__ = ["Bundle", "BundledGaussians", "bundled", "bundles_of"]

CHUNK = 256  # losses of one bundle
ROWS = 64  # and of one where each is a row by itself
FEWEST = 10  # distinct sampled Gaussians that are worth a bundle
FEWEST_SAMPLED_LAPLACE = 3  # and sampled Laplace losses
FEWEST_TWO_ENDED = 2  # and Laplace losses and worst cases
FEWEST_FINITE = 2  # and finite losses
FEWEST_ROWS = 4  # and that are worth one where each is a row by itself


@functools.lru_cache(maxsize=16)
def bundled(composed: Composed) -> Composed:
    """The same composition, its sampled Gaussians of one direction as one loss where they are many, and so its Laplace
    losses with the worst cases of (epsilon, delta) that run less often, its sampled Laplace losses, and its finite
    losses with equally many values."""
    gaussians: dict[str, list[tuple[SampledGaussianLoss, int]]] = {"add": [], "remove": []}
    sampled: dict[str, list[tuple[SampledLaplaceLoss, int]]] = {"add": [], "remove": []}
    ended: list[tuple[LaplaceLoss | WorstCase, int]] = []
    worst: list[tuple[WorstCase, int]] = []
    finite: dict[int, list[tuple[FiniteLoss, int]]] = {}
    whole: list[tuple[Loss, int]] = []
    for loss, count in composed.parts:
        if isinstance(loss, LaplaceLoss):
            ended.append((loss, count))
        elif isinstance(loss, WorstCase):
            worst.append((loss, count))
        elif isinstance(loss, SampledGaussianLoss) and loss.cut is None:
            gaussians[loss.direction].append((loss, count))
        elif isinstance(loss, SampledLaplaceLoss):
            sampled[loss.direction].append((loss, count))
        elif isinstance(loss, FiniteLoss):
            finite.setdefault(loss.losses.size, []).append((loss, count))
        else:
            whole.append((loss, count))
    for some in gaussians.values():
        whole.extend(some if len(some) < FEWEST else [(bundle, 1) for bundle in _in_chunks(some)])
    for few in sampled.values():
        whole.extend(few if len(few) < FEWEST_SAMPLED_LAPLACE else [(bundle, 1) for bundle in _of_laplace(few)])
    if sum(count for _, count in worst) < MANY_RUNS:
        ended.extend(worst)
    else:
        finite.setdefault(2, []).extend(worst)
    whole.extend(ended if len(ended) < FEWEST_TWO_ENDED else [(BundledTwoEnded(tuple(ended)), 1)])
    for equal in finite.values():
        whole.extend(equal if len(equal) < FEWEST_FINITE else [(BundledAtoms(tuple(equal)), 1)])
    return composed if len(whole) == len(composed.parts) else Composed(tuple(whole))


Bundle: TypeAlias = "BundledGaussians | BundledSampledLaplace"


def bundles_of(losses: Sequence[Loss]) -> tuple[list[tuple[Bundle, list[int]]], list[int]]:
    """The sampled Gaussians and the sampled Laplace losses among `losses` in bundles, each run once, with their
    numbers, where they are several; and the numbers of the others."""
    if len(losses) < FEWEST_ROWS:
        return [], list(range(len(losses)))
    gaussians: dict[str, list[tuple[int, SampledGaussianLoss]]] = {}
    laplace: dict[str, list[tuple[int, SampledLaplaceLoss]]] = {}
    others: list[int] = []
    for i, loss in enumerate(losses):
        if isinstance(loss, SampledGaussianLoss) and loss.cut is None:
            gaussians.setdefault(loss.direction, []).append((i, loss))
        elif isinstance(loss, SampledLaplaceLoss):
            laplace.setdefault(loss.direction, []).append((i, loss))
        else:
            others.append(i)
    bundles: list[tuple[Bundle, list[int]]] = []
    groups: list[Sequence[tuple[int, Loss]]] = [*gaussians.values(), *laplace.values()]
    others.extend(i for group in groups if len(group) < FEWEST_ROWS for i, _ in group)
    for some in gaussians.values():
        some.sort(key=lambda numbered: numbered[1].sigma)  # with about as many points each
        bundles.extend((BundledGaussians(tuple((law, 1) for _, law in c)), [i for i, _ in c]) for c in _chunks(some))
    for more in laplace.values():
        bundles.extend(
            (BundledSampledLaplace(tuple((law, 1) for _, law in c)), [i for i, _ in c]) for c in _chunks(more)
        )
    return bundles, others


T = TypeVar("T")


def _chunks(group: list[T]) -> list[list[T]]:
    """A group that is worth rows, in parts of at most ROWS."""
    if len(group) < FEWEST_ROWS:
        return []
    return [group[start : start + ROWS] for start in range(0, len(group), ROWS)]


def _in_chunks(group: list[tuple[SampledGaussianLoss, int]]) -> list[BundledGaussians]:
    """Bundles of at most CHUNK losses, whose arrays stay in the cache: the first holds those that decay fastest, and
    only it tells its decay; the others hold losses with equally many points."""
    ordered = sorted(
        group, key=lambda part: scalars.square(part[0].rate) * part[1] / scalars.square(part[0].sigma), reverse=True
    )
    rest = sorted(ordered[CHUNK:], key=lambda part: part[0].sigma)
    others = [tuple(rest[start : start + CHUNK]) for start in range(0, len(rest), CHUNK)]
    return [BundledGaussians(tuple(ordered[:CHUNK])), *(BundledGaussians(chunk, decays=False) for chunk in others)]


def _of_laplace(group: list[tuple[SampledLaplaceLoss, int]]) -> list[BundledSampledLaplace]:
    """As `_in_chunks`; losses of about one size need about as many panels."""
    ordered = sorted(group, key=lambda part: scalars.square(part[0].rate * part[0].epsilon) * part[1], reverse=True)
    rest = sorted(ordered[CHUNK:], key=lambda part: part[0].epsilon)
    others = [tuple(rest[start : start + CHUNK]) for start in range(0, len(rest), CHUNK)]
    first = BundledSampledLaplace(tuple(ordered[:CHUNK]))
    return [first, *(BundledSampledLaplace(chunk, decays=False) for chunk in others)]


@dataclass(frozen=True, eq=False)
class BundledGaussians(Parts[SampledGaussianLoss]):
    """Sampled Gaussians of one direction, without cuts, each with its count: the sum of all of them, as one loss.
    `decays`: whether their decay is told; otherwise it is bounded by 1."""

    decays: bool = True

    @functools.cached_property
    def laws(self) -> Laws:
        """Their parameters, as columns."""
        numbers = np.array([(law.rate, law.sigma) for law, _ in self.parts])
        return Laws(numbers[:, :1], numbers[:, 1:], 1.0 if self.parts[0][0].direction == "remove" else -1.0)

    def cumulants(self, c: float) -> Cumulants:
        return self.tilted(c).cumulants

    def log_moments(self, c: Array) -> Array:
        return self.bounds_of_moments(self.moment_rows(c).T)

    def moment_rows(self, c: Array) -> Array:
        """Upper bounds of K of each law, one run of it, at several c: shape (laws, c); infinite where there is none."""
        grids = self._grids_up_to(float(np.max(c)))
        return np.stack([bounds_of_moments(grids, tilt) for tilt in c.tolist()], axis=1)

    def tilted(self, c: float) -> TiltedBundle:
        return TiltedBundle(self, c, tilted_on(self._grids_up_to(c), c))

    def tilted_up_to(self, c: float, frequency: float) -> TiltedBundle:
        """`tilted`, on the grids of its own nodes up to a frequency."""
        return TiltedBundle(self, c, tilted_on(grids_for(self.laws, c, frequency), c), frequency)

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
    """A bundle tilted at c; the grids of `base` serve up to a `frequency`."""

    law: BundledGaussians
    c: float
    base: Tilts
    frequency: float = 0.0

    @functools.cached_property
    def cumulants(self) -> Cumulants:
        base = self.base
        return self.law.added(base.value, base.error, base.mean, base.variance)

    @functools.cached_property
    def _layers(self) -> LayerRows:
        return layers_of(self.base, self.c, MOST_DECAYS)

    def decay_rows(self, t: Array) -> Array:
        """Upper bounds of log |phi(s)|, for ever from each t on, of the first MOST_DECAYS laws: a row for each, one run
        of it."""
        return self._layers.log_decay(t)

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:  # noqa: ARG002 - for ever
        if not self.law.decays:
            return np.zeros(t.shape)
        total: Array = elementary.product(self.law.counts[:MOST_DECAYS], self.decay_rows(t)) * (1 - 1e-12)
        return total

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        """log Phi of all, each with its count, and its spread. Source: docs/proofs/engine.md, section 6 (products)."""
        return self.law.multiplied(self.node_rows(step, count, work))

    def node_rows(self, step: float, count: int, work: int) -> tuple[Array, Array, Array]:
        """Real and imaginary part of log phi and its spread: a row for each law, one run of it. Raises WorkLimit."""
        end = step * (count - 1)
        grids = self.base.grids if end <= self.frequency else grids_for(self.law.laws, self.c, end)
        if grids.x.size * count > 64 * work:
            raise WorkLimit(f"the nodes of {len(self.law.parts)} sampled Gaussians need more than {64 * work} terms")
        fine = self.base if grids is self.base.grids else tilted_on(grids, self.c)
        points = grids.losses - self.base.mean[:, None]
        phi, block = node_sums(fine.weights, step * points, count)
        modulus = np.maximum(elementary.modulus(phi), FLOOR)
        real, imaginary = elementary.log(modulus), elementary.angle(phi)
        errors = self._errors(fine, points, step * np.arange(count, dtype=np.float64), block)
        spread = elementary.log1p((errors + FLOOR) / modulus) + 8 * UNIT * (1 + np.abs(real) + np.abs(imaginary))
        return real, imaginary, spread

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
