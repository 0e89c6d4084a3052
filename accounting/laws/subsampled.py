"""The Poisson-sampled Gaussian: remove is ((1-q) N(0,s^2) + q N(1,s^2), N(0,s^2)), add the same pair turned round.

With L(x) = log(1 - q + q e^{(x - 1/2)/s^2}) and I(w) = E_{N(0,s^2)} e^{w L(x)}: E e^{z loss} is I(z+1) for remove and
I(-z) for add. I is computed by the trapezoid rule, whose error is proven from the strip |Im x| < pi s^2 in which L is
analytic. Source: Zhu-Dong-Wang 2022, Theorem 11 (the pairs); Trefethen-Weideman 2014, Theorem 5.1 (the rule);
docs/proofs/engine.md, section 4 (the strip bounds).
"""

from __future__ import annotations

import contextlib
import functools
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import numpy as np

from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.laws.fourier import node_sums, rounding_of_node_sums
from dpledger.accounting.laws.gaussian import GaussianLoss
from dpledger.accounting.laws.law import Cumulants, Nodes, excess, price, spread_of
from dpledger.accounting.laws.layers import Layers, layers_below
from dpledger.accounting.laws.sampled_curve import loss_curve, quadrature_step
from dpledger.accounting.laws.sampled_price import divergence_upper
from dpledger.accounting.laws.smooth_cut import Cut
from dpledger.decimals import float_up
from dpledger.errors import WorkLimit

__all__ = ["Direction", "SampledGaussianLoss", "rdp_upper"]

Direction = Literal["add", "remove"]

DIGITS = 44.0  # the discretisation error of a quadrature is below e^-DIGITS, relative
ALIAS = 1.01 * math.exp(-DIGITS)
MOST_POINTS = 1 << 16  # of one quadrature
MOST_CUT_POINTS = 1 << 13  # at frequency 0 with a cut, whose factor costs a call a point
CELLS = 160
LARGE = 0.7  # K from here on is priced as it is; below, as log1p(I - 1)


@dataclass(frozen=True, slots=True)
class SampledGaussianLoss:
    """`rate` in (0, 1), `sigma` = the noise multiplier, above 0. `cut`: with it (direction remove) the measures have
    mass below 1, and K(0) < 0."""

    rate: float
    sigma: float
    direction: Direction
    infinite_mass: float = 0.0
    cut: Cut | None = None

    @property
    def largest(self) -> float:
        return math.inf if self.direction == "remove" else self._saturation(1.0)

    @property
    def largest_down(self) -> float:
        return math.inf if self.direction == "remove" else self._saturation(-1.0)

    def _saturation(self, side: float) -> float:
        """-log(1 - q), moved outward by more than its rounding."""
        return -math.log1p(-self.rate) * (1 + side * 8 * UNIT) + side * 4 * UNIT * self.rate / (1 - self.rate)

    def power(self, c: float) -> float:
        """w, the power of the density ratio that e^{c loss} is under N(0, sigma^2)."""
        return c + 1 if self.direction == "remove" else -c

    def cumulants(self, c: float) -> Cumulants:
        return _weighted(_grid_up_to(self, c), c).cumulants

    def log_moments(self, c: Array) -> Array:
        grid = _grid_up_to(self, float(np.max(c)))
        w = c + 1 if self.direction == "remove" else -c
        exponents = np.multiply.outer(w, grid.values) - grid.squares
        top = np.max(exponents, axis=1)
        weights = np.exp(exponents - top[:, None])
        total = np.sum(weights, axis=1)
        slack = grid.errors + (8 * UNIT) * np.abs(grid.values)
        each = np.abs(w) * (weights @ slack) + (8 * UNIT) * (weights @ grid.squares)
        rounding = each / total * (1 + 1e-6) + UNIT * (grid.x.size + 52 + 8 * np.abs(top))
        missing = ALIAS + rounding + _tails(grid, w, weights / total[:, None])
        values = top + np.log(total * grid.scale)
        with np.errstate(invalid="ignore", divide="ignore"):
            bounds: Array = values - np.log1p(-np.minimum(missing, 1.0)) + 8 * UNIT * (np.abs(values) + np.abs(top) + 2)
        return np.where(missing < 0.5, bounds, math.inf)

    def tilted(self, c: float) -> TiltedSampled:
        return TiltedSampled(self, c, _weighted(_grid_up_to(self, c), c))

    def rdp_upper(self, order: float) -> float:
        """Claim: at least the Renyi divergence in this direction. Source: Mironov-Talwar-Zhang 2019, section 3.3."""
        c = excess(order)
        with contextlib.suppress(WorkLimit):
            at = self.cumulants(c)
            if at.value > LARGE:
                return price(at.value, at.error, c)
        return divergence_upper(self.rate, self.sigma, self.power(c), c)


# ---- quadrature -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Points x and all that depends on x alone; good for every tilt in (0, c_top] and frequency up to t_top.

    `squares`: x^2 / 2 sigma^2 - log chi(x). `scale`: step / (sigma sqrt(2 pi)).
    """

    law: SampledGaussianLoss
    step: float
    scale: float
    x: Array
    values: Array
    slopes: Array
    errors: Array
    squares: Array


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """The normalised tilted weights on a grid, their defect (tails and rounding, relative) and the cumulants."""

    grid: Grid
    weights: Array
    defect: float
    cumulants: Cumulants


def _power_of_two(c: float) -> float:
    """The least power of two that is at least c: neighbouring tilts share a grid."""
    mantissa, exponent = math.frexp(c)
    return math.ldexp(1.0, exponent - 1 if mantissa == 0.5 else exponent)


def _grid_up_to(law: SampledGaussianLoss, c: float) -> Grid:
    """A grid at frequency 0 for tilts up to c, kept for the next call unless it is large or of a cut loss."""
    if law.cut or c >= 1000 * law.sigma:
        return make_grid(law, c, 0.0)
    return _kept_grid(law, _power_of_two(c))


@functools.lru_cache(maxsize=1024)
def _kept_grid(law: SampledGaussianLoss, c_top: float) -> Grid:
    return make_grid(law, c_top, 0.0)


def make_grid(law: SampledGaussianLoss, c_top: float, t_top: float) -> Grid:
    """The grid of the trapezoid rule for tilts up to c_top and frequencies up to t_top.

    Raises WorkLimit where it needs more than MOST_POINTS points (MOST_CUT_POINTS while a cut is being placed).
    """
    cut_width = law.cut.width if law.cut else math.inf
    step = quadrature_step(law.sigma, law.power(c_top), t_top, DIGITS, cut_width=cut_width)
    low, high = _range(law, c_top)
    most = MOST_CUT_POINTS if law.cut and t_top == 0 else MOST_POINTS
    if not (high - low) / step < most:
        raise WorkLimit(f"the quadrature of a sampled Gaussian needs more than {most} points")
    x = np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64) * step
    curve = loss_curve(law.rate, law.sigma, x)
    scale = step / (law.sigma * math.sqrt(2 * math.pi))
    squares = x * x / (2 * law.sigma**2)
    if law.cut:
        squares -= law.cut.log_kept(x)
    return Grid(law, step, scale, x, curve.values, curve.slopes, curve.errors, squares)


def _range(law: SampledGaussianLoss, c: float) -> tuple[float, float]:
    """Where the tilted weights are, for every tilt up to c: from the mode of the tilted density outward."""
    reach = law.sigma * math.sqrt(2 * (DIGITS + 12))
    if law.direction == "remove":
        high = c + 1 + reach
        if law.cut:
            widths = 1.3 * (c + 1) * law.cut.width / law.sigma**2 + math.sqrt(2 * (DIGITS + 12))
            high = min(high, law.cut.point + widths * law.cut.width)
        return -reach, high
    low, high = -c * _slope(law, 0.0), 0.0
    while high - low > 0.1 * law.sigma:
        middle = (low + high) / 2
        low, high = (middle, high) if -c * _slope(law, middle) > middle else (low, middle)
    return low - reach, reach


def _slope(law: SampledGaussianLoss, x: float) -> float:
    """s(x) = sigma^2 L'(x), in (0, 1)."""
    odds = math.log(law.rate) - math.log1p(-law.rate) + (x - 0.5) / law.sigma**2
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0


def _weighted(grid: Grid, c: float) -> Weighted:
    """The rule's weights for e^{w L(x)} N(0, sigma^2); WorkLimit where the range does not hold them."""
    law, w = grid.law, grid.law.power(c)
    exponents = w * grid.values - grid.squares
    top = float(exponents.max())
    weights = np.exp(exponents - top)
    total = float(weights.sum())
    weights /= total
    size = abs(w) * float(weights @ (grid.errors + (8 * UNIT) * np.abs(grid.values)))
    rounding = (size + 8 * UNIT * (float(weights @ grid.squares) + abs(top) + 4)) * (1 + 1e-6)
    defect = rounding + UNIT * (grid.x.size + 20) + float(_tails(grid, np.array([w]), weights[None, :])[0])
    if not defect < 0.25:
        raise WorkLimit("the quadrature of a sampled Gaussian does not resolve its integrand")
    sign = 1.0 if law.direction == "remove" else -1.0
    value = top + math.log(total * grid.scale)
    mean = sign * float(weights @ grid.values)
    variance = float(weights @ (sign * grid.values - mean) ** 2)
    error = -math.log1p(-ALIAS - defect) + 8 * UNIT * (abs(value) + abs(top) + 2)
    return Weighted(grid, weights, defect, Cumulants(value, error, mean, variance))


def _tails(grid: Grid, w: Array, weights: Array) -> Array:
    """For each power (row) the relative weight beyond both ends, infinite where it is not seen to fall.

    Claim: at least the sum of the terms left out. Source: docs/proofs/engine.md, section 4.
    """
    x, scale = grid.x, grid.step / grid.law.sigma**2
    right = x[-1] - np.maximum(w, 0.0)
    left = -x[0] + np.minimum(w, 0.0) * grid.slopes[0]
    rise = 1.0
    if grid.law.cut:  # beyond the end chi falls further; before the start it rises, to 1 at most
        right = right + grid.law.sigma**2 * grid.law.cut.hazard(float(x[-1]))
        rise = math.exp(-float(grid.law.cut.log_kept(x[:1])[0]))
    if not (right > 0).all() or not (left > 0).all():
        return np.full(w.shape, math.inf)
    after = (weights[:, -1] + 1e-300) / -np.expm1(-scale * right)
    before = rise * weights[:, 0] / -np.expm1(-scale * left)
    bounds: Array = (after + before) * (1 + 1e-6)
    return bounds


# ---- the tilted law -------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class TiltedSampled:
    """A sampled Gaussian's loss tilted at c."""

    law: SampledGaussianLoss
    c: float
    base: Weighted
    _layers: Layers | None = None

    @property
    def cumulants(self) -> Cumulants:
        return self.base.cumulants

    def log_decay(self, t: Array) -> Array:
        if self._layers is None:
            self._layers = _layers(self.law, self.law.power(self.c), self.base)
        return self._layers.log_decay(t)

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        t = step * np.arange(count, dtype=np.float64)
        grid = make_grid(self.law, self.c, float(t[-1]))
        if grid.x.size * count > work:
            raise WorkLimit(f"the nodes of a sampled Gaussian need more than {work} terms")
        fine = _weighted(grid, self.c)
        sign = 1.0 if self.law.direction == "remove" else -1.0
        points = sign * grid.values - self.cumulants.mean
        phi = node_sums(fine.weights, points, step, count)
        sizes = np.abs(grid.values) + abs(self.cumulants.mean)
        displaced = float(fine.weights @ (grid.errors + 2 * UNIT * sizes)) * (1 + 1e-6)
        fixed = ALIAS + fine.defect + 1.01 * fine.cumulants.error
        return spread_of(phi, fixed + t * displaced + rounding_of_node_sums(fine.weights, points, step, count))


def _layers(law: SampledGaussianLoss, w: float, base: Weighted) -> Layers:
    """Cells in x between far quantiles; below the density of the loss by its log-Lipschitz constant on each."""
    variance, grid = law.sigma**2, base.grid
    kept = np.flatnonzero(base.weights > 1e-8)
    ends = np.linspace(grid.x[kept[0]] - 0.5 * grid.step, grid.x[kept[-1]] + 0.5 * grid.step, 2 * CELLS + 1)
    curve = loss_curve(law.rate, law.sigma, ends)
    edges, middles = ends[::2], ends[1::2]
    slopes, loss = curve.slopes[::2], curve.values[::2]
    at = base.cumulants
    log_constant = at.value + at.error + math.log(law.sigma * math.sqrt(2 * math.pi))
    log_density = w * curve.values[1::2] - middles**2 / (2 * variance) - log_constant
    log_density -= np.log(np.maximum(curve.slopes[1::2], 1e-300) / variance)
    if law.cut:
        log_density += law.cut.log_kept(edges[1:])  # the least on the cell
    bends = (w + 1) * slopes
    most = np.abs(np.maximum(bends[:-1], bends[1:]) - edges[:-1] - 1)
    least = np.abs(np.minimum(bends[:-1], bends[1:]) - edges[1:] - 1)
    slack = np.maximum(most, least) / variance * np.diff(edges) / 2
    floor = np.exp(np.minimum(log_density - slack - 1e-9, 700.0))
    widths = np.diff(loss) - curve.errors[2::2] - curve.errors[:-2:2]
    usable = (widths > 0) & (curve.slopes[1::2] > 1e-300)
    return layers_below(np.where(usable, floor, 0.0), np.where(usable, widths, 0.0))


def rdp_upper(rate: Decimal, noise_multiplier: Decimal, order: Decimal) -> float:
    """The Renyi divergence of `order` > 1 of a Poisson-sampled Gaussian, both directions, rounded up.

    Claim: at least the larger of D(P||Q) and D(Q||P) for the pairs of the module; infinite where no bound was found.
    Source: Mironov-Talwar-Zhang 2019, section 3.3; docs/proofs/engine.md, section 5.
    """
    above = float_up(order)
    rounded, sigma = float(rate), float(noise_multiplier)
    if rounded >= 1:
        return GaussianLoss(1 / sigma**2).rdp_upper(above)
    return max(SampledGaussianLoss(rounded, sigma, side).rdp_upper(above) for side in ("add", "remove"))
