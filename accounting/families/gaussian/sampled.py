"""The Poisson-sampled Gaussian: remove is ((1-q) N(0,s^2) + q N(1,s^2), N(0,s^2)), add the same pair turned round.

With L(x) = log(1 - q + q e^{(x - 1/2)/s^2}) and I(w) = E_{N(0,s^2)} e^{w L(x)}: E e^{z loss} is I(z+1) for remove and
I(-z) for add. I is computed by the trapezoid rule, whose error is proven from the strip |Im x| < pi s^2 in which L is
analytic. Source: Zhu-Dong-Wang 2022, Theorem 11 (the pairs); Trefethen-Weideman 2014, Theorem 5.1 (the rule);
docs/proofs/engine.md, section 4 (the strip bounds).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.families.gaussian.bundle import in_bundles
from dpledger.accounting.families.gaussian.loss import GaussianLoss, gaussian_base
from dpledger.accounting.families.gaussian.rare import RareGaussian
from dpledger.accounting.families.gaussian.sampled_grid import (
    Pair,
    Weighted,
    cumulants,
    fine_grid,
    grid_up_to,
    log_moments,
    rough_cumulants,
    weighted,
)
from dpledger.accounting.families.gaussian.sampled_price import divergences_upper
from dpledger.accounting.families.gaussian.smooth_cut import Cut
from dpledger.accounting.laws.closed_forms import sampled_closed
from dpledger.accounting.laws.fourier import node_deviations, nodes_of_deviations, rounding_of_deviations
from dpledger.accounting.laws.law import ClosedForm, Cumulants, Direction, Loss, Nodes, excess
from dpledger.accounting.laws.layers import Layers, layers_below
from dpledger.accounting.laws.sampled_curve import ALIAS, LossCurve, loss_curve
from dpledger.accounting.laws.tails import TailProfile, sampled_profile
from dpledger.errors import WorkLimit

__all__ = ["SMALL_SIGMA", "SampledGaussianLoss", "TiltedSampled", "rdp_both_ways"]

CELLS = 160
SMALL_SIGMA = 0.3  # up to here the variance says nothing of the losses: single ones rule it
MUCH_NOISE = 10.0  # a noise multiplier
_HALVINGS = 60
_ENDS = np.arange(CELLS + 1, dtype=np.float64) / CELLS


@dataclass(frozen=True, slots=True)
class SampledGaussianLoss(Loss):
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
        return -scalars.log1p(-self.rate) * (1 + side * 8 * UNIT) + side * 4 * UNIT * self.rate / (1 - self.rate)

    @property
    def chi_squared(self) -> float:
        """About the chi-square divergence of the pair: the variance of the loss, where that is small."""
        return scalars.square(self.rate) * scalars.expm1(min(1 / scalars.square(self.sigma), 500.0))

    def power(self, c: float) -> float:
        """w, the power of the density ratio that e^{c loss} is under N(0, sigma^2)."""
        return c + 1 if self.direction == "remove" else -c

    def curve(self, x: Array) -> LossCurve:
        return loss_curve(self.rate, self.sigma, x)

    def slope(self, x: float) -> float:
        odds = scalars.log(self.rate) - scalars.log1p(-self.rate) + (x - 0.5) / scalars.square(self.sigma)
        return 1 / (1 + scalars.exp(-odds)) if odds > -700 else 0.0

    def cumulants(self, c: float) -> Cumulants:
        return rough_cumulants(grid_up_to(self, c), c)

    def log_moments(self, c: Array) -> Array:
        return log_moments(grid_up_to(self, float(np.max(c))), c)

    def tilted(self, c: float) -> TiltedSampled:
        base = weighted(grid_up_to(self, c), c)
        return TiltedSampled(self, c, base, cumulants(base))

    def rdp_upper(self, orders: Array) -> Array:
        """Claim: at least the Renyi divergences in this direction. Source: Mironov-Talwar-Zhang 2019, section 3.3."""
        c = excess(orders)
        return divergences_upper(self.rate, self.sigma, c + 1 if self.direction == "remove" else -c, c)

    @property
    def closed(self) -> ClosedForm:
        """From that of the Gaussian. Source: Balle-Barthe-Gaboardi 2018."""
        base = GaussianLoss(1 / scalars.square(self.sigma))
        return sampled_closed(
            base.closed,
            (math.inf, math.inf),
            rate=self.rate,
            direction=self.direction,
            largest=self.largest,
            guess=functools.partial(_guessed_addition, self.rate, self.sigma),
        )

    @property
    def kin(self) -> Direction | None:
        return None if self.cut else self.direction

    def bundled(self, parts: Sequence[tuple[SampledGaussianLoss, int]]) -> tuple[Loss, ...] | None:
        return in_bundles(parts)

    @property
    def decays_slowly(self) -> bool:
        return True

    @property
    def small_variance(self) -> float | None:
        return self.chi_squared if self.sigma > SMALL_SIGMA else None

    @property
    def bend(self) -> float:
        """That of a sample that holds the unit, at the shift that pays for its rate: beyond, K rises as no parabola."""
        if self.direction == "add" or self.cut:
            return math.inf
        return -2 * scalars.square(self.sigma) * scalars.log(self.rate)

    @property
    def steep(self) -> bool:
        """Under much noise the loss is all but linear in the outcome."""
        return not self.sigma > MUCH_NOISE

    @property
    def rare(self) -> RareGaussian | None:
        if self.direction == "add" or self.cut:
            return None
        return RareGaussian(self.rate, self.sigma, self.chi_squared, lambda cut: replace(self, cut=cut))

    def profile(self) -> TailProfile | None:
        """By the tails of the Gaussian pair; None of a cut loss."""
        if self.cut:
            return None
        base = gaussian_base(1 / self.sigma)
        return sampled_profile(base, math.inf, rate=self.rate, direction=self.direction, largest=self.largest)


# ---- the tilted law -------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class TiltedSampled:
    """The loss of a pair of the rule tilted at c."""

    law: Pair
    c: float
    base: Weighted
    cumulants: Cumulants
    _layers: Layers | None = None

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:  # noqa: ARG002 - for ever
        if self._layers is None:
            self._layers = _layers(self.law, self.base, self.cumulants)
        return self._layers.log_decay(t)

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        grid = fine_grid(self.base, self.cumulants, step * (count - 1))
        if grid.x.size * count > work:
            raise WorkLimit(f"the nodes of a sampled Gaussian need more than {work} terms")
        fine = weighted(grid, self.c)
        points = grid.losses - self.cumulants.mean
        deviations = node_deviations(fine.weights, points, step, count)
        return nodes_of_deviations(deviations, _errors_of_nodes(fine, points, self.cumulants.mean, step, count))


def _errors_of_nodes(fine: Weighted, points: Array, mean: float, step: float, count: int) -> Array:
    """Bounds of |computed - exact| phi(t) - 1. Source: docs/proofs/engine.md, section 6 (phi - 1)."""
    sizes = fine.weights * np.abs(points)
    size = float(sizes.sum())
    moved = float(elementary.product(fine.weights, fine.grid.curve.errors + 2 * UNIT * (np.abs(points) + abs(mean))))
    normal = 1.01 * (ALIAS + fine.defect)
    relative = float(elementary.product(sizes, fine.relative_errors())) + size * normal
    t = step * np.arange(count, dtype=np.float64)
    weighed = np.minimum(4 * normal, t * relative)
    rounding = rounding_of_deviations(1.0, size, points.size, t)
    errors: Array = (weighed + t * moved + rounding) * (1 + 1e-3) + 2.1 * (ALIAS + fine.tails)
    return errors


def _layers(law: Pair, base: Weighted, at: Cumulants) -> Layers:
    """Cells in x between far quantiles. On each the logarithm of the density of the loss is at least the less of its
    ends, less what it may sag below their chord."""
    variance, grid, w = scalars.square(law.sigma), base.grid, base.power
    kept = np.flatnonzero(base.weights > 1e-8)
    first, last = float(grid.x[kept[0]]) - grid.step / 2, float(grid.x[kept[-1]]) + grid.step / 2
    ends = first + (last - first) * _ENDS
    curve = law.curve(ends)
    values, slopes, error = curve.values, curve.slopes, curve.most_error
    farthest, steepest = max(first * first, last * last) / (2 * variance), scalars.log(max(slopes[0], 1e-300))
    constant = at.value + at.error + scalars.log(math.sqrt(2 * math.pi) / law.sigma) + 1e-9
    reach = abs(w) * max(abs(values[0]), abs(values[-1]))
    constant += 8 * UNIT * (reach + farthest - steepest + abs(constant)) + abs(w) * error + curve.slope_error
    log_density = w * values - ends * ends / (2 * variance) - elementary.log(np.maximum(slopes, 1e-300)) - constant
    bending = slopes * (1 - slopes)
    most = np.maximum(bending[1:], bending[:-1])
    most[max(0, int(slopes.searchsorted(0.5)) - 1) :][:1] = 0.25
    width = (last - first) / CELLS
    sag = np.maximum((w + 1) / scalars.square(variance) * most - 1 / variance, 0.0) * (width * width / 8 * (1 + 1e-6))
    log_floor = np.minimum(log_density[1:], log_density[:-1]) - sag
    if law.cut:
        log_kept = law.cut.log_kept(ends)
        log_floor += np.minimum(log_kept[1:], log_kept[:-1])  # the least on the cell: there is one maximum
    return layers_below(elementary.exp(np.minimum(log_floor, 700.0)), np.maximum(np.diff(values) - 2 * error, 0.0))


def rdp_both_ways(rate: float, sigma: float, orders: Array) -> tuple[Array, Array]:
    """The Renyi divergences of a Poisson-sampled Gaussian, rounded up: adding the unit, removing it.

    Claim: at least D(Q||P) and D(P||Q) for the pairs of the module at each order; infinite where no bound was found.
    Source: Mironov-Talwar-Zhang 2019, section 3.3; docs/proofs/engine.md, section 5.
    """
    c = excess(orders)
    adding, removing = np.split(divergences_upper(rate, sigma, np.append(-c, c + 1), np.append(c, c)), 2)
    return adding, removing


def _guessed_addition(rate: float, sigma: float, delta: float) -> float:
    """Where delta(epsilon) of a sampled Gaussian, direction add, is about `delta`: nothing is proven of it."""
    mu, low, high = 1 / sigma, 0.0, -scalars.log1p(-rate)
    for _ in range(_HALVINGS):
        epsilon = (low + high) / 2
        left = rate - (1 - rate) * scalars.expm1(epsilon)
        inner = epsilon + scalars.log(rate / left) if left > 0 else math.inf
        tail = scalars.erfc((inner / mu - mu / 2) / math.sqrt(2)) / 2
        near = scalars.exp(min(inner, 700.0)) * scalars.erfc((inner / mu + mu / 2) / math.sqrt(2)) / 2
        low, high = (epsilon, high) if left * (tail - near) > delta else (low, epsilon)
    return (low + high) / 2
