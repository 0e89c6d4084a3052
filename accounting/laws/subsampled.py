"""The Poisson-sampled Gaussian: remove is ((1-q) N(0,s^2) + q N(1,s^2), N(0,s^2)), add the same pair turned round.

With L(x) = log(1 - q + q e^{(x - 1/2)/s^2}) and I(w) = E_{N(0,s^2)} e^{w L(x)}: E e^{z loss} is I(z+1) for remove and
I(-z) for add. I is computed by the trapezoid rule, whose error is proven from the strip |Im x| < pi s^2 in which L is
analytic. Source: Zhu-Dong-Wang 2022, Theorem 11 (the pairs); Trefethen-Weideman 2014, Theorem 5.1 (the rule);
docs/proofs/engine.md, section 4 (the strip bounds).
"""

from __future__ import annotations

import contextlib
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
from dpledger.accounting.laws.sampled_curve import FRACTIONS, log_growth, loss_curve, short_step, strip_error
from dpledger.accounting.laws.sampled_price import divergence_upper
from dpledger.decimals import float_up
from dpledger.errors import WorkLimit

__all__ = ["Direction", "SampledGaussianLoss", "rdp_upper"]

Direction = Literal["add", "remove"]

MOST_POINTS = 1 << 16  # of one quadrature
MOST_WORK = 1 << 24  # points times nodes
CELLS = 160
DIGITS = 44.0  # the discretisation error of a quadrature is below e^-DIGITS, relative
LARGE = 0.7  # K from here on is summed as it is; below, as log1p(I - 1)


@dataclass(frozen=True, slots=True)
class SampledGaussianLoss:
    """`rate` in (0, 1), `sigma` = the noise multiplier, above 0."""

    rate: float
    sigma: float
    direction: Direction
    infinite_mass: float = 0.0

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
        return self.quadrature(c, 0.0).cumulants

    def log_moments(self, c: Array) -> Array:
        return np.array([at.value + at.error for at in (self.cumulants(x) for x in c.tolist())])

    def tilted(self, c: float) -> TiltedSampled:
        return TiltedSampled(self, c, self.quadrature(c, 0.0))

    def quadrature(self, c: float, t: float) -> Quadrature:
        """The trapezoid rule, fine enough for frequencies up to t."""
        heights = FRACTIONS * math.pi * self.sigma**2
        exponents = log_growth(self.sigma, self.power(c), heights) + t * heights / self.sigma**2
        step = float(np.max(2 * math.pi * heights / (exponents + math.log(2) + DIGITS)))
        step = short_step(min(step, 0.7 * self.sigma))
        low, high = self._range(c)
        if not (high - low) / step < MOST_POINTS:
            raise WorkLimit(f"the quadrature of a sampled Gaussian needs more than {MOST_POINTS} points")
        return Quadrature(self, c, step, math.floor(low / step), math.ceil(high / step))

    def _range(self, c: float) -> tuple[float, float]:
        reach = self.sigma * math.sqrt(2 * (DIGITS + 12))
        if self.direction == "remove":
            return -reach, c + 1 + reach
        low, high = -c * self._slope(0.0), 0.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if -c * self._slope(middle) > middle else (low, middle)
        return low - reach, reach

    def _slope(self, x: float) -> float:
        """s(x) = sigma^2 L'(x), in (0, 1)."""
        u = (x - 0.5) / self.sigma**2
        odds = math.log(self.rate) - math.log1p(-self.rate) + u
        return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0

    def rdp_upper(self, order: float) -> float:
        """Claim: at least the Renyi divergence in this direction. Source: Mironov-Talwar-Zhang 2019, section 3.3."""
        c = excess(order)
        with contextlib.suppress(WorkLimit):
            at = self.cumulants(c)
            if at.value > LARGE:
                return price(at.value, at.error, c)
        return divergence_upper(self.rate, self.sigma, self.power(c), c)


class Quadrature:
    """Normalised weights of the trapezoid rule at x = step * (first..last), for e^{w L(x)} N(0, sigma^2)."""

    __slots__ = ("c", "cumulants", "curve", "defect", "law", "step", "weights", "x")

    def __init__(self, law: SampledGaussianLoss, c: float, step: float, first: int, last: int) -> None:
        self.law, self.c, self.step = law, c, step
        w, variance = law.power(c), law.sigma**2
        self.x = x = np.arange(first, last + 1, dtype=np.float64) * step
        self.curve = curve = loss_curve(law.rate, law.sigma, x)
        square = x * x / (2 * variance)
        gain = w * curve.values
        exponents = gain - square
        top = float(np.max(exponents))
        weights = np.exp(exponents - top)
        total = float(np.sum(weights))
        self.weights = weights = weights / total
        each = abs(w) * curve.errors + 8 * UNIT * (np.abs(gain) + square + abs(top) + 4)
        rounding = float(weights @ each) * (1 + 1e-6) + UNIT * (x.size + 20)
        tails = self._tails(w)
        self.defect = tails + rounding
        value = top + math.log(total * step / (law.sigma * math.sqrt(2 * math.pi)))
        missing = math.exp(float(strip_error(law.sigma, w, step, np.zeros(1))[0])) + self.defect
        if not missing < 0.5:
            raise WorkLimit("the quadrature of a sampled Gaussian does not resolve its integrand")
        sign = 1.0 if law.direction == "remove" else -1.0
        mean = sign * float(weights @ curve.values)
        spread = float(weights @ (sign * curve.values - mean) ** 2)
        error = -math.log1p(-missing) + 8 * UNIT * (abs(value) + abs(top) + 2)
        self.cumulants = Cumulants(value, error, mean, spread)

    def _tails(self, w: float) -> float:
        """Claim: at least the relative weight beyond both ends. Source: docs/proofs/engine.md, section 4."""
        x, slopes, scale = self.x, self.curve.slopes, self.step / self.law.sigma**2
        if self.law.direction == "remove":
            right, left = x[-1] - w, -x[0]
        else:
            right, left = x[-1], -x[0] + w * slopes[0]
        if not (right > 0 and left > 0):
            return math.inf
        after = self.weights[-1] / -math.expm1(-scale * right)
        before = self.weights[0] / -math.expm1(-scale * left)
        return float(after + before) * (1 + 1e-6)


@dataclass(slots=True, eq=False)
class TiltedSampled:
    """A sampled Gaussian's loss tilted at c."""

    law: SampledGaussianLoss
    c: float
    base: Quadrature
    _layers: Layers | None = None

    @property
    def cumulants(self) -> Cumulants:
        return self.base.cumulants

    def log_decay(self, t: Array) -> Array:
        if self._layers is None:
            self._layers = self._find_layers()
        return self._layers.log_decay(t)

    def _find_layers(self) -> Layers:
        """Cells in x between far quantiles; below the density of the loss by its log-Lipschitz constant on each."""
        law, base = self.law, self.base
        variance, w = law.sigma**2, law.power(self.c)
        kept = np.flatnonzero(base.weights > 1e-8)
        low, high = float(base.x[kept[0]]), float(base.x[kept[-1]])
        edges = np.linspace(low - 0.5 * base.step, high + 0.5 * base.step, CELLS + 1)
        at_edges = loss_curve(law.rate, law.sigma, edges)
        middles = (edges[1:] + edges[:-1]) / 2
        at = loss_curve(law.rate, law.sigma, middles)
        log_constant = base.cumulants.value + base.cumulants.error + math.log(law.sigma * math.sqrt(2 * math.pi))
        log_density = w * at.values - middles**2 / (2 * variance) - log_constant
        with np.errstate(divide="ignore"):
            log_density = log_density - np.log(at.slopes / variance)
        rising = np.stack([(w + 1) * at_edges.slopes[:-1], (w + 1) * at_edges.slopes[1:]])
        most = np.abs(rising.max(axis=0) - edges[:-1] - 1)
        least = np.abs(rising.min(axis=0) - edges[1:] - 1)
        lipschitz = np.maximum(most, least) / variance
        floor = np.exp(np.minimum(log_density - lipschitz * np.diff(edges) / 2 - 1e-9, 700.0))
        widths = np.diff(at_edges.values) - at_edges.errors[1:] - at_edges.errors[:-1]
        usable = (widths > 0) & np.isfinite(floor)
        return layers_below(np.where(usable, floor, 0.0), np.where(usable, widths, 0.0))

    def nodes(self, step: float, count: int) -> Nodes:
        t = step * np.arange(count, dtype=np.float64)
        fine = self.law.quadrature(self.c, float(t[-1]))
        if fine.x.size * count > MOST_WORK:
            raise WorkLimit(f"the nodes of a sampled Gaussian need more than {MOST_WORK} terms")
        sign = 1.0 if self.law.direction == "remove" else -1.0
        points = sign * fine.curve.values - self.cumulants.mean
        phi = node_sums(fine.weights, points, step, count)
        sizes = np.abs(fine.curve.values) + abs(self.cumulants.mean)
        displaced = float(fine.weights @ (fine.curve.errors + 2 * UNIT * sizes)) * (1 + 1e-6)
        alias = np.exp(np.minimum(strip_error(self.law.sigma, self.law.power(self.c), fine.step, t), 0.0))
        error = alias + fine.defect + 1.01 * fine.cumulants.error + t * displaced
        return spread_of(phi, error + rounding_of_node_sums(fine.weights, points, step, count))


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
