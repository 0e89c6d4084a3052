"""Many distinct sampled Gaussians as one loss: their quadratures side by side, one row of an array for each.

The same rule, the same strip and the same error terms as `laws.subsampled`, row by row: docs/proofs/engine.md, sections
3, 4 and 6. Only the order of the work differs. Phases are formed by multiplication, so that a term at node k is
a product of k phases, with at most k + 2 roundings of complex products.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.engine.composed import MOST_DECAYS, Composed, sum_up
from dpledger.accounting.engine.finite_bundle import BundledAtoms
from dpledger.accounting.engine.floating import UNIT, Array, ComplexArray
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import FLOOR, Cumulants, Loss, Nodes, Tilted, excess, price
from dpledger.accounting.laws.subsampled import ALIAS, DIGITS, SampledGaussianLoss
from dpledger.errors import WorkLimit

__all__ = ["BundledGaussians", "bundled", "bundles_of"]

CHUNK = 256  # losses of one bundle
FEWEST = 24  # distinct losses that are worth a bundle
FEWEST_ROWS = 4  # and that are worth one where each is a row by itself
MOST_CELLS = 1 << 24  # of one array
_FRACTIONS = np.geomspace(1e-6, 0.97, 40)  # as in laws.sampled_curve


def bundled(composed: Composed) -> Composed:
    """The same composition, its sampled Gaussians of one direction as one loss where they are many, and so its finite
    losses with equally many values."""
    gaussians: dict[str, list[tuple[SampledGaussianLoss, int]]] = {"add": [], "remove": []}
    finite: dict[int, list[tuple[FiniteLoss, int]]] = {}
    rest: list[tuple[Loss, int]] = []
    for loss, count in composed.parts:
        if isinstance(loss, SampledGaussianLoss) and loss.cut is None:
            gaussians[loss.direction].append((loss, count))
        elif isinstance(loss, FiniteLoss):
            finite.setdefault(loss.losses.size, []).append((loss, count))
        else:
            rest.append((loss, count))
    sizes = [*map(len, gaussians.values()), *map(len, finite.values())]
    if max(sizes) < FEWEST:
        return composed
    if max(map(len, gaussians.values())) < FEWEST:
        rest.extend(part for group in gaussians.values() for part in group)
    else:
        rest.extend((bundle, 1) for group in gaussians.values() if group for bundle in _in_chunks(group))
    for equal in finite.values():
        rest.extend(equal if len(equal) < FEWEST else [(BundledAtoms(tuple(equal)), 1)])
    return Composed(tuple(rest))


def bundles_of(losses: Sequence[Loss]) -> tuple[list[tuple[BundledGaussians, list[int]]], list[int]]:
    """The sampled Gaussians among `losses` in bundles, each run once, with their numbers, where they are several; and
    the numbers of the others."""
    found: dict[str, list[int]] = {"add": [], "remove": []}
    others: list[int] = []
    for i, loss in enumerate(losses):
        if isinstance(loss, SampledGaussianLoss) and loss.cut is None:
            found[loss.direction].append(i)
        else:
            others.append(i)
    bundles: list[tuple[BundledGaussians, list[int]]] = []
    for group in found.values():
        if len(group) < FEWEST_ROWS:
            others.extend(group)
            continue
        for start in range(0, len(group), CHUNK):
            chosen = group[start : start + CHUNK]
            laws = tuple((law, 1) for law in (losses[i] for i in chosen) if isinstance(law, SampledGaussianLoss))
            bundles.append((BundledGaussians(laws), chosen))
    return bundles, others


def _in_chunks(group: list[tuple[SampledGaussianLoss, int]]) -> list[BundledGaussians]:
    """Bundles of at most CHUNK losses, whose arrays stay in the cache; the first holds those that decay fastest, and
    only it tells its decay."""
    ordered = sorted(group, key=lambda part: part[0].rate ** 2 * part[1] / part[0].sigma ** 2, reverse=True)
    chunks = [tuple(ordered[start : start + CHUNK]) for start in range(0, len(ordered), CHUNK)]
    return [BundledGaussians(chunk, decays=MOST_DECAYS if i == 0 else 0) for i, chunk in enumerate(chunks)]


@dataclass(frozen=True, eq=False)
class _Rows:
    """The grid of each law: points `x`, the loss there, its errors, x^2 / 2 sigma^2; `scale`: step/sigma sqrt(2 pi)."""

    x: Array
    values: Array
    errors: Array
    squares: Array
    steps: Array
    scale: Array
    first_slopes: Array


@dataclass(frozen=True, eq=False)
class _Tilt:
    """Row by row: normalised weights, their defect, K and its error, mean, variance."""

    rows: _Rows
    weights: Array
    defect: Array
    value: Array
    error: Array
    mean: Array
    variance: Array


@dataclass(frozen=True, eq=False)
class BundledGaussians:
    """Sampled Gaussians of one direction, without cuts, each with its count: the sum of all of them, as one loss.
    `decays`: how many of them have their decay told; that of the others is bounded by 1."""

    parts: tuple[tuple[SampledGaussianLoss, int], ...]
    decays: int = MOST_DECAYS

    @property
    def infinite_mass(self) -> float:
        return 0.0

    @property
    def largest(self) -> float:
        return sum_up([count * law.largest for law, count in self.parts])

    @property
    def largest_down(self) -> float:
        return -sum_up([-count * law.largest_down for law, count in self.parts])

    @functools.cached_property
    def sign(self) -> float:
        return 1.0 if self.parts[0][0].direction == "remove" else -1.0

    @functools.cached_property
    def _columns(self) -> tuple[Array, Array, Array]:
        """Rates, sigmas and counts, as columns."""
        numbers = np.array([(law.rate, law.sigma, count) for law, count in self.parts], dtype=np.float64)
        return numbers[:, :1], numbers[:, 1:2], numbers[:, 2:]

    def power(self, c: float) -> float:
        return self.parts[0][0].power(c)

    def cumulants(self, c: float) -> Cumulants:
        return self._added(self._tilt(self._rows_up_to(c), c))

    def log_moments(self, c: Array) -> Array:
        rows = self._rows_up_to(float(np.max(c)))
        at = [self._added(self._tilt(rows, tilt)) for tilt in c.tolist()]
        return np.array([one.value + one.error for one in at])

    def moment_rows(self, c: Array) -> Array:
        """Upper bounds of K of each law, one run of it, at several c: shape (laws, c); infinite where there is none."""
        rows = self._rows_up_to(float(np.max(c)))
        bounds = np.full((len(self.parts), c.size), math.inf)
        for i, tilt in enumerate(c.tolist()):
            with contextlib.suppress(WorkLimit):
                at = self._tilt(rows, tilt)
                bounds[:, i] = at.value + at.error
        return bounds

    def tilted(self, c: float) -> TiltedBundle:
        return TiltedBundle(self, c, self._tilt(self._rows_up_to(c), c))

    def rdp_upper(self, order: float) -> float:
        """Claim: at least the Renyi divergence of the sum. Source: Mironov 2017, Proposition 1 and 9."""
        c = excess(order)
        at = self.cumulants(c)
        return price(at.value, at.error, c)

    def _added(self, tilt: _Tilt) -> Cumulants:
        counts = self._columns[2][:, 0]
        value, error, mean, variance = (
            math.fsum((counts * each).tolist()) for each in (tilt.value, tilt.error, tilt.mean, tilt.variance)
        )
        rounding = 8 * UNIT * math.fsum((counts * np.abs(tilt.value)).tolist())
        return Cumulants(value, error * (1 + 1e-9) + rounding, mean, variance)

    @functools.cached_property
    def _kept(self) -> dict[float, _Rows]:
        return {}

    def _rows_up_to(self, c: float) -> _Rows:
        """Grids at frequency 0 for tilts up to c, kept for neighbouring tilts."""
        mantissa, exponent = math.frexp(c)
        top = math.ldexp(1.0, exponent - 1 if mantissa == 0.5 else exponent)
        if top not in self._kept:
            self._kept[top] = self._make_rows(top, 0.0)
        return self._kept[top]

    def _make_rows(self, c_top: float, t_top: float) -> _Rows:
        rate, sigma, _ = self._columns
        steps = self._steps(c_top, t_top)
        reach = sigma * math.sqrt(2 * (DIGITS + 12))
        low, high = (-reach, c_top + 1 + reach) if self.sign > 0 else (-c_top * _slope(rate, sigma, 0.0) - reach, reach)
        first = np.floor(low / steps)
        size = int(np.max(np.ceil(high / steps) - first)) + 1
        if not size * len(self.parts) < MOST_CELLS:
            raise WorkLimit(f"{len(self.parts)} quadratures of sampled Gaussians need more than {MOST_CELLS} points")
        x = (first + np.arange(size)) * steps
        values, errors = _curve(rate, (x - 0.5) / sigma**2)
        scale = steps[:, 0] / (sigma[:, 0] * math.sqrt(2 * math.pi))
        slopes = _slope(rate, sigma, x[:, :1])[:, 0] * (1 + 1e-9)
        return _Rows(x, values, errors, x * x / (2 * sigma**2), steps, scale, slopes)

    def _steps(self, c_top: float, t_top: float) -> Array:
        """`quadrature_step` of each law."""
        _, sigma, _ = self._columns
        heights = _FRACTIONS * (math.pi * sigma**2)
        exponents = heights * heights / (2 * sigma**2) + heights * (t_top / sigma**2) + (math.log(2) + DIGITS)
        power = self.power(c_top)
        if power < 0:
            exponents = exponents + power * np.log(np.cos(heights / (2 * sigma**2)))
        widest = np.max(2 * math.pi * heights / exponents, axis=1, keepdims=True)
        mantissas, powers = np.frexp(np.minimum(widest, 0.7 * sigma))
        steps: Array = np.ldexp(np.floor(np.ldexp(mantissas, 20)), powers - 20)
        return steps

    def _tilt(self, rows: _Rows, c: float) -> _Tilt:
        """As `laws.subsampled._weighted`, row by row."""
        w = self.power(c)
        exponents = w * rows.values - rows.squares
        top = exponents.max(axis=1)
        weights = np.exp(exponents - top[:, None])
        total = weights.sum(axis=1)
        weights /= total[:, None]
        slack = rows.errors + (8 * UNIT) * np.abs(rows.values)
        size = abs(w) * np.einsum("ij,ij->i", weights, slack)
        squares = np.einsum("ij,ij->i", weights, rows.squares)
        rounding = (size + 8 * UNIT * (squares + np.abs(top) + 4)) * (1 + 1e-6)
        defect = rounding + UNIT * (rows.x.shape[1] + 20) + self._tails(rows, w, weights)
        if not np.all(defect < 0.25):
            raise WorkLimit("the quadrature of a sampled Gaussian does not resolve its integrand")
        value = top + np.log(total * rows.scale)
        mean = self.sign * np.einsum("ij,ij->i", weights, rows.values)
        square = np.einsum("ij,ij->i", weights, (self.sign * rows.values - mean[:, None]) ** 2)
        error = -np.log1p(-ALIAS - defect) + 8 * UNIT * (np.abs(value) + np.abs(top) + 2)
        return _Tilt(rows, weights, defect, value, error, mean, square)

    def _tails(self, rows: _Rows, w: float, weights: Array) -> Array:
        """Claim: at least the sum of the terms left out, row by row. Source: docs/proofs/engine.md, section 4."""
        scale = rows.steps[:, 0] / self._columns[1][:, 0] ** 2
        right = rows.x[:, -1] - max(w, 0.0)
        left = -rows.x[:, 0] + min(w, 0.0) * rows.first_slopes
        if not (np.all(right > 0) and np.all(left > 0)):
            raise WorkLimit("the tails of a sampled Gaussian's quadrature are not seen to fall")
        after = (weights[:, -1] + 1e-300) / -np.expm1(-scale * right)
        before = (weights[:, 0] + 1e-300) / -np.expm1(-scale * left)
        bounds: Array = (after + before) * (1 + 1e-6)
        return bounds


@dataclass(frozen=True, eq=False)
class TiltedBundle:
    """A bundle tilted at c."""

    law: BundledGaussians
    c: float
    base: _Tilt

    @functools.cached_property
    def cumulants(self) -> Cumulants:
        return self.law._added(self.base)

    @functools.cached_property
    def _decaying(self) -> list[tuple[SampledGaussianLoss, int]]:
        """The losses that decay fastest: the others are bounded by 1."""
        counts = self.law._columns[2][:, 0]
        order = np.argsort(-counts * self.base.variance)[: self.law.decays]
        return [self.law.parts[i] for i in order.tolist()]

    @functools.cached_property
    def _decays(self) -> list[tuple[int, Tilted]]:
        return [(count, law.tilted(self.c)) for law, count in self._decaying]

    def log_decay(self, t: Array) -> Array:
        total = np.zeros(t.shape)
        for count, tilted in self._decays:
            total += count * tilted.log_decay(t)
        return total * (1 - 1e-12)

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        """log Phi of all, each with its count, and its spread. Source: docs/proofs/engine.md, section 6 (products)."""
        counts = self.law._columns[2][:, 0]
        real, imaginary, spread = self.node_rows(step, count, work)
        spread += (len(self.law.parts) * UNIT) * (np.abs(real) + np.abs(imaginary))
        return Nodes(counts @ real + 1j * (counts @ imaginary), counts @ spread * (1 + 1e-9))

    def node_rows(self, step: float, count: int, work: int) -> tuple[Array, Array, Array]:
        """Real and imaginary part of log phi and its spread: a row for each law, one run of it. Raises WorkLimit."""
        rows = self.law._make_rows(self.c, step * (count - 1))
        if rows.x.size * count > 64 * work:
            raise WorkLimit(f"the nodes of {len(self.law.parts)} sampled Gaussians need more than {64 * work} terms")
        fine, mean = self.law._tilt(rows, self.c), self.base.mean[:, None]
        points = self.law.sign * rows.values - mean
        angles = step * points
        phi = _node_sums(fine.weights, np.cos(angles) + 1j * np.sin(angles), count)
        modulus = np.maximum(np.abs(phi), FLOOR)
        real, imaginary = np.log(modulus), np.angle(phi)
        errors = self._errors(fine, points, mean, step, count)
        spread = np.log1p((errors + FLOOR) / modulus) + 8 * UNIT * (1 + np.abs(real) + np.abs(imaginary))
        return real, imaginary, spread

    def _errors(self, fine: _Tilt, points: Array, mean: Array, step: float, count: int) -> Array:
        """Bounds of |phi - computed|: of the quadrature, of the points, and of the products that form the phases."""
        rows, k = fine.rows, np.arange(count, dtype=np.float64)
        sizes = np.abs(rows.values) + np.abs(mean)
        displaced = np.einsum("ij,ij->i", fine.weights, rows.errors + 2 * UNIT * sizes) * (1 + 1e-6)
        turned = np.einsum("ij,ij->i", fine.weights, np.abs(points)) * (1 + 1e-6)
        fixed = ALIAS + fine.defect + 1.01 * (fine.error + self.base.error)
        products = UNIT * (4 * rows.x.shape[1] + 40 * k)
        errors: Array = fixed[:, None] + np.multiply.outer(displaced + 4 * UNIT * turned, step * k) + products
        return errors


def _node_sums(weights: Array, turn: ComplexArray, count: int) -> ComplexArray:
    """sum_j weights[i, j] turn[i, j]^k for k below `count`: `laws.fourier.node_sums`, row by row, with k = b B + r."""
    block = 1 << max(0, (count - 1).bit_length() + 1) // 2
    table = np.ones((weights.shape[0], block, weights.shape[1]), dtype=np.complex128)
    for r in range(1, block):
        np.multiply(table[:, r - 1], turn, out=table[:, r])
    jump = table[:, -1] * turn
    starts = np.empty((weights.shape[0], -(-count // block), weights.shape[1]), dtype=np.complex128)
    starts[:, 0] = weights
    for b in range(1, starts.shape[1]):
        np.multiply(starts[:, b - 1], jump, out=starts[:, b])
    sums: ComplexArray = np.matmul(starts, table.transpose(0, 2, 1)).reshape(weights.shape[0], -1)[:, :count]
    return sums


def _slope(rate: Array, sigma: Array, x: Array | float) -> Array:
    """s(x) = sigma^2 L'(x), in (0, 1)."""
    odds = np.log(rate) - np.log1p(-rate) + (x - 0.5) / sigma**2
    slopes: Array = 1 / (1 + np.exp(np.minimum(-odds, 700.0)))
    return slopes


def _curve(rate: Array, u: Array) -> tuple[Array, Array]:
    """log(1 - q + q e^u) with bounds of its error: `laws.sampled_curve.mixed_curve`, row by row."""
    gains = rate * np.expm1(np.minimum(u, 700.0))
    values = np.log1p(gains)
    errors = (4 * UNIT) * np.abs(values) + (8 * UNIT) * (np.abs(gains) + np.abs(u) * (gains + rate)) / (gains + 1)
    far = u > 700
    if far.any():
        logs = np.broadcast_to(np.log(rate), u.shape)
        values = np.where(far, u + logs, values)
        errors = np.where(far, UNIT * (8 * np.abs(values) + 8 * u + 8 * np.abs(logs)), errors)
    return values, errors
