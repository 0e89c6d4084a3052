"""Poisson-sampled Laplace noise: the Laplace pair mixed with rate q, in both directions.

With l the loss of the Laplace pair (P, Q), e0 = sensitivity / scale, and L(l) = log(1 - q + q e^l): under Q, l is e0
with mass e^{-e0}/2, -e0 with mass 1/2, and has density e^{-(e0 + l)/2}/4 in between. E e^{z loss} is I(z+1) for remove
and I(-z) for add, I(w) = E_Q e^{w L(l)}; the integral is a Gauss-Legendre rule on panels, with a proven error.
Source: Zhu-Dong-Wang 2022, Theorem 11 (the pairs); docs/proofs/engine.md, section 4, Lemma 8 (the rule).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.families.laplace.loss import LaplaceLoss, laplace_base
from dpledger.accounting.laws.closed_forms import sampled_closed
from dpledger.accounting.laws.fourier import nodes_of_sums
from dpledger.accounting.laws.gauss_legendre import gauss_legendre
from dpledger.accounting.laws.law import ClosedForm, Cumulants, Direction, Loss, Nodes, excess, prices
from dpledger.accounting.laws.layers import Layers, layers_below
from dpledger.accounting.laws.sampled_curve import DIGITS, MOST_POINTS, mixed_curve
from dpledger.accounting.laws.tails import TailProfile, sampled_profile
from dpledger.errors import WorkLimit

__all__ = ["POINTS", "SampledLaplaceLoss", "best_ellipse", "half_width", "layers_of_tilted"]

POINTS = 32  # of the rule, a panel
CELLS = 160
TOGETHER = 1 << 14  # points that are summed in one go, but for those of one power
_UNRESOLVED = "the quadrature of sampled Laplace noise does not resolve its integrand"
_ELLIPSES = np.array([1.5, 1.8, 2.1, 2.5, 3.0, 3.6, 4.5])  # parameters tried
_FLATTEST = 2.0  # imaginary half axes up to here: below pi, where L is analytic; -log cos(b/2) <= 0.31 b


@dataclass(frozen=True, slots=True)
class SampledLaplaceLoss(Loss):
    """`rate` in (0, 1), `epsilon` = sensitivity (l1) / scale, above 0."""

    rate: float
    epsilon: float
    direction: Direction
    infinite_mass: float = 0.0

    @property
    def largest(self) -> float:
        return self._extreme(1.0)

    @property
    def largest_down(self) -> float:
        return self._extreme(-1.0)

    def _extreme(self, side: float) -> float:
        """The loss at the favourable atom, moved outward by more than its rounding."""
        sign = 1.0 if self.direction == "remove" else -1.0
        at = mixed_curve(self.rate, np.array([sign * self.epsilon]))
        return sign * float(at.values[0]) + side * 2 * float(at.errors[0])

    def power(self, c: float) -> float:
        """w, the power of the density ratio that e^{c loss} is under Q."""
        return c + 1 if self.direction == "remove" else -c

    def powers(self, c: Array) -> Array:
        """`power` of each."""
        return c + 1 if self.direction == "remove" else -c

    def log_moments(self, c: Array) -> Array:
        found = self._log_moments(c)
        if not np.isfinite(found).all():
            raise WorkLimit(f"{_UNRESOLVED}, or needs more than {MOST_POINTS} points")
        return found

    def tilted(self, c: float) -> TiltedSampledLaplace:
        return TiltedSampledLaplace(self, c, _weighted(self, c, 0.0))

    def rdp_upper(self, orders: Array) -> Array:
        """Claim: at least the Renyi divergences in this direction. Source: Mironov 2017, Definition 3; they are at most
        the largest loss, its Proposition 9."""
        c = excess(orders)
        bounds: Array = np.minimum(self.largest, prices(self._log_moments(c), c))
        return bounds

    @property
    def closed(self) -> ClosedForm:
        """From that of the Laplace pair. Source: Balle-Barthe-Gaboardi 2018."""
        base = LaplaceLoss(self.epsilon)
        ends = base.largest_down, base.largest
        return sampled_closed(
            base.closed, ends, rate=self.rate, direction=self.direction, largest=self.largest, guess=None
        )

    @property
    def decays_slowly(self) -> bool:
        return True

    def profile(self) -> TailProfile:
        """By the tails of the Laplace pair."""
        base = laplace_base(self.epsilon)
        return sampled_profile(base, self.epsilon, rate=self.rate, direction=self.direction, largest=self.largest)

    def _log_moments(self, c: Array) -> Array:
        """Upper bounds of K, each a function of its own c; infinite where the rule does not resolve it."""
        powers, found = self.powers(c), np.full(c.shape, math.inf)
        panels = _panels(self, powers, 0.0)
        for number in np.unique(panels[np.isfinite(panels)]).tolist():
            (places,) = np.nonzero(panels == number)
            grid = _grid_of(self.rate, self.epsilon, int(number))
            for few in np.array_split(places, min(places.size, math.ceil(places.size * grid.values.size / TOGETHER))):
                at = _tilted(self, grid, powers[few], 0.0)
                found[few] = np.where(at.resolved, at.values + at.errors, math.inf)
        return found


# ---- quadrature -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class LossGrid:
    """Losses l of the pair: its two atoms (first and last), and the `points` of all panels between, with `log_masses`
    under Q, each within `mass_errors`; `values` L(l)."""

    points: Array
    log_masses: Array
    mass_errors: Array
    values: Array
    errors: Array
    slopes: Array
    half: float
    middles: Array


@dataclass(frozen=True, slots=True, eq=False)
class WeightedLosses:
    """Normalised tilted weights, their relative defect (the rule's error and rounding), and the cumulants."""

    grid: LossGrid
    weights: Array
    defect: float
    cumulants: Cumulants


@dataclass(frozen=True, slots=True, eq=False)
class _Tilted:
    """A row for each power: its normalised weights; their relative defect, K, and the error of it."""

    weights: Array
    defects: Array
    values: Array

    @property
    def resolved(self) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self.defects < 0.25
        return found

    @property
    def errors(self) -> Array:
        """Of K, where it is resolved."""
        errors: Array = -elementary.log1p(-np.minimum(self.defects, 0.25)) + 8 * UNIT * (np.abs(self.values) + 2)
        return errors


def half_width(powers: Array, frequency: float) -> Array:
    """The widest panels, as half lengths, for which some ellipse gives DIGITS for a power; checked afterwards, not
    trusted."""
    real, imaginary = (_ELLIPSES + 1 / _ELLIPSES) / 2, (_ELLIPSES - 1 / _ELLIPSES) / 2
    room = (2 * POINTS - 1) * elementary.log(_ELLIPSES) - elementary.log(8 / (_ELLIPSES - 1)) - DIGITS - 1
    sizes = np.abs(powers)[:, None]
    growth = imaginary * (frequency + 0.31 * sizes) + real * (2 * sizes + 1)
    widest: Array = np.max(np.minimum(room / growth, _FLATTEST / imaginary), axis=1)
    return widest


def best_ellipse(half: float, powers: Array, frequency: float) -> Array:
    """About the parameter of the ellipse that gives the smallest error for panels of this half length, for each power,
    whose imaginary half axis is at most _FLATTEST."""
    real, imaginary = (_ELLIPSES + 1 / _ELLIPSES) / 2, (_ELLIPSES - 1 / _ELLIPSES) / 2
    sizes = np.abs(powers)[:, None]
    growth = half * (imaginary * (frequency + 0.31 * sizes) + real * (2 * sizes + 1))
    errors = growth + elementary.log(8 / (_ELLIPSES - 1)) - (2 * POINTS - 1) * elementary.log(_ELLIPSES)
    best: Array = _ELLIPSES[np.argmin(np.where(half * imaginary <= _FLATTEST, errors, math.inf), axis=1)]
    return best


def _panels(law: SampledLaplaceLoss, powers: Array, frequency: float) -> Array:
    """How many panels each power takes: a power of two, so that many of them share a grid; infinite for too many."""
    needed = np.ceil(law.epsilon / half_width(powers, frequency))
    m, e = np.frexp(np.maximum(needed, 1))
    found: Array = np.where(needed * POINTS >= MOST_POINTS, math.inf, np.ldexp(1.0, e - (m == 0.5)))
    return found


@functools.lru_cache(maxsize=16)
def _grid_of(rate: float, e0: float, panels: int) -> LossGrid:
    nodes, weights = gauss_legendre(POINTS)
    half = e0 / panels
    middles = -e0 + half * (2 * np.arange(panels, dtype=np.float64) + 1)
    inner = np.add.outer(middles, half * nodes).ravel()
    points = np.concatenate([[-e0], inner, [e0]])
    log_inner = np.tile(elementary.log(half * weights / 4), panels) - (e0 + inner) / 2
    log_masses = np.concatenate([[-scalars.log(2)], log_inner, [-e0 - scalars.log(2)]])
    moved = 6 * UNIT * e0  # of a point, absolutely: from the middle, the half width and e0
    curve = mixed_curve(rate, points)
    errors = curve.errors + np.where(curve.slopes < 1, curve.slopes, 1.0) * (1.01 * moved)
    mass_errors = 8 * UNIT * (np.abs(log_masses) + 2) + 2 * moved
    return LossGrid(points, log_masses, mass_errors, curve.values, errors, curve.slopes, half, middles)


def _log_rule_errors(law: SampledLaplaceLoss, grid: LossGrid, powers: Array, frequency: float) -> Array:
    """log of the rule's error for each power, in the units of I.

    Claim: at least log |rule - integral| for e^{(w + it) L}, |t| <= frequency. Source: docs/proofs/engine.md,
    section 4, Lemma 8.
    """
    rho = best_ellipse(grid.half, powers, frequency)
    across, height = grid.half * (rho + 1 / rho) / 2, grid.half * (rho - 1 / rho) / 2
    edge = grid.middles + np.where(powers >= 0, across, -across)[:, None]
    losses = mixed_curve(law.rate, edge).values * powers[:, None]
    losses += (np.minimum(powers, 0.0) * elementary.log(elementary.cos(height / 2)))[:, None]
    logs = losses - (law.epsilon + grid.middles - across[:, None]) / 2 + (frequency * height)[:, None]
    tops = logs.max(axis=1)
    totals = tops + elementary.log(elementary.exp(logs - tops[:, None]).sum(axis=1) * (grid.half / 4))
    errors: Array = totals + elementary.log(8 / (rho - 1)) - (2 * POINTS - 1) * elementary.log(rho) + 1e-6
    return errors


def _tilted(law: SampledLaplaceLoss, grid: LossGrid, powers: Array, frequency: float) -> _Tilted:
    """The tilted weights for e^{w L} under Q, for each power w, good up to a frequency. No row depends on another."""
    exponents = powers[:, None] * grid.values + grid.log_masses
    tops = exponents.max(axis=1)
    weights = elementary.exp(exponents - tops[:, None])
    totals = weights.sum(axis=1)
    weights /= totals[:, None]
    each = np.abs(exponents) + (np.abs(tops) + 4)[:, None]
    each = np.abs(powers)[:, None] * grid.errors + grid.mass_errors + 8 * UNIT * each
    values = tops + elementary.log(totals)
    rules = elementary.exp(np.minimum(0.0, _log_rule_errors(law, grid, powers, frequency) - values))
    defects = 1.01 * rules + (weights * each).sum(axis=1) * (1 + 1e-6) + UNIT * (weights.shape[1] + 20)
    return _Tilted(weights, defects, values)


def _weighted(law: SampledLaplaceLoss, c: float, frequency: float) -> WeightedLosses:
    """The tilted weights for e^{w L} under Q, good up to a frequency."""
    powers = np.array([law.power(c)])
    (panels,) = _panels(law, powers, frequency).tolist()
    if panels == math.inf:
        raise WorkLimit(f"the quadrature of sampled Laplace noise needs more than {MOST_POINTS} points")
    grid = _grid_of(law.rate, law.epsilon, int(panels))
    at = _tilted(law, grid, powers, frequency)
    if not at.resolved[0]:
        raise WorkLimit(_UNRESOLVED)
    weights, sign = at.weights[0], 1.0 if law.direction == "remove" else -1.0
    mean = sign * float(elementary.product(weights, grid.values))
    variance = float(elementary.product(weights, scalars.square(sign * grid.values - mean)))
    cumulants = Cumulants(float(at.values[0]), float(at.errors[0]), mean, variance)
    return WeightedLosses(grid, weights, float(at.defects[0]), cumulants)


# ---- the tilted law -------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class TiltedSampledLaplace:
    """A sampled Laplace loss tilted at c."""

    law: SampledLaplaceLoss
    c: float
    base: WeightedLosses
    _layers: Layers | None = None

    @property
    def cumulants(self) -> Cumulants:
        return self.base.cumulants

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:  # noqa: ARG002 - for ever
        if self._layers is None:
            at = self.base.cumulants
            points, weights = self.base.grid.points, self.base.weights
            self._layers = layers_of_tilted(self.law, self.law.power(self.c), points, weights, at.value + at.error)
        bounds: Array = self._layers.log_decay(t)[0]
        return bounds

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        t = step * np.arange(count, dtype=np.float64)
        fine = _weighted(self.law, self.c, float(t[-1]))
        if fine.weights.size * count > work:
            raise WorkLimit(f"the nodes of sampled Laplace noise need more than {work} terms")
        sign = 1.0 if self.law.direction == "remove" else -1.0
        points = sign * fine.grid.values - self.cumulants.mean
        sizes = np.abs(fine.grid.values) + abs(self.cumulants.mean)
        displaced = float(elementary.product(fine.weights, fine.grid.errors + 2 * UNIT * sizes)) * (1 + 1e-6)
        fixed = fine.defect + 1.01 * fine.cumulants.error
        return nodes_of_sums(fine.weights, points, step, count, fixed + t * displaced)


def layers_of_tilted(law: SampledLaplaceLoss, w: float, points: Array, weights: Array, top: float) -> Layers:
    """Cells in l between far quantiles, which the tilted `weights` at `points` tell; `top`: at least K. The log density
    of L has derivative -3/2 + (w + 1) s, s in (0, 1) rising.

    Claim: the layers are below the tilted density. Source: docs/proofs/engine.md, section 3."""
    kept = points[weights > 1e-8]
    low, high = max(float(kept[0]), -law.epsilon * (1 - 1e-9)), min(float(kept[-1]), law.epsilon * (1 - 1e-9))
    if not low < high:
        return layers_below(np.zeros((1, 1)), np.ones((1, 1)))
    ends = np.linspace(low, high, 2 * CELLS + 1)
    curve = mixed_curve(law.rate, ends)
    middles, slopes = ends[1::2], curve.slopes[::2]
    powers, spent = w * curve.values[1::2], (law.epsilon + middles) / 2 + scalars.log(4)
    thinned = elementary.log(np.maximum(curve.slopes[1::2], 1e-300))
    rounding = 8 * UNIT * (np.abs(powers) + law.epsilon + np.abs(thinned) + abs(top) + 4)
    log_density = powers - spent - thinned - top - rounding - abs(w) * curve.errors[1::2]
    bends = np.abs((w + 1) * slopes - 1.5)
    slack = np.maximum(bends[:-1], bends[1:]) * np.diff(ends[::2]) / 2
    floor = elementary.exp(np.minimum(log_density - slack - 1e-9, 700.0))
    widths = np.diff(curve.values[::2]) - curve.errors[2::2] - curve.errors[:-2:2]
    usable = (widths > 0) & (curve.slopes[1::2] > 1e-300)
    return layers_below(np.where(usable, floor, 0.0)[None], np.where(usable, widths, 0.0)[None])
