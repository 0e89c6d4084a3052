"""The discrete Gaussian: noise of pmf proportional to e^{-k^2/2s^2} on the integers, around 0 and around a shift.

The loss (d^2 - 2kd)/2s^2 at k, d the shift, runs over a lattice; tilting at c moves the centre of k to -cd and nothing
else. For sigma above 2 the sum over the integers is the integral, but for waves of e^{-2 pi^2 s^2} (Poisson); below, a
window around the centre holds all but a negligible mass, which is bounded and counted as an error.
Source: Canonne-Kamath-Steinke 2020, Definition 1 and Theorem 5; docs/proofs/engine.md, section 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.fourier import node_sums, rounding_of_node_sums
from dpledger.accounting.laws.gaussian import GaussianLoss
from dpledger.accounting.laws.law import Cumulants, Nodes, excess, prices, spread_of
from dpledger.errors import WorkLimit

__all__ = ["DiscreteGaussianLoss"]

WINDOW_SIGMAS = 11.0  # half width of the window, in sigma: e^{-60} of the mass is outside
MOST_VALUES = 1 << 16
SMOOTH = 2.0  # sigma from which sums over the integers are integrals
FLAT = 62.0  # the exponent of the first wave from which on all waves together are below WAVES
WAVES = 1e-25


@dataclass(frozen=True, slots=True)
class DiscreteGaussianLoss:
    """`sigma` above 0; `shift` = the sensitivity of the integer statistic, a whole number of at least 1."""

    sigma: float
    shift: int
    infinite_mass: float = 0.0
    largest: float = math.inf
    largest_down: float = math.inf

    def cumulants(self, c: float) -> Cumulants:
        if self.sigma >= SMOOTH:
            square = (self.shift / self.sigma) ** 2
            value = square * c * (c + 1) / 2
            return Cumulants(value, 16 * UNIT * value + WAVES, square * (c + 0.5), square)
        at, normaliser = self._window(-c * self.shift), self._window(0.0)
        scale = self.shift**2 / (2 * self.sigma**2)
        value = scale * c * (c + 1) + at.log_total - normaliser.log_total
        losses = (self.shift**2 - 2.0 * self.shift * at.points) / (2 * self.sigma**2)
        mean = float(at.weights @ losses)
        variance = float(at.weights @ (losses - mean) ** 2)
        error = at.relative + normaliser.relative + 16 * UNIT * (scale * c * (c + 1) + abs(value) + 2)
        return Cumulants(value, error, mean, variance)

    def _window(self, centre: float) -> _Window:
        """sum over integers of e^{-(k - centre)^2/2s^2}."""
        reach = self._reach()
        points = np.arange(math.floor(centre - reach), math.ceil(centre + reach) + 1, dtype=np.float64)
        exponents = -((points - centre) ** 2) / (2 * self.sigma**2)
        top = float(np.max(exponents))
        masses = np.exp(exponents - top)
        total = float(np.sum(masses))
        moved = float(np.max(np.abs(points))) * 4 * UNIT / self.sigma**2  # of centre, which is rounded
        each = 8 * UNIT * (np.abs(exponents) + 1) + moved * np.abs(points - centre)
        relative = (float(masses @ each) + self._outside(reach, top)) / total + UNIT * (points.size + 8)
        return _Window(points, masses / total, top + math.log(total), relative * (1 + 1e-6))

    def _reach(self) -> float:
        """The half width of a window."""
        reach = WINDOW_SIGMAS * self.sigma + 2
        if not reach < MOST_VALUES / 2:
            raise WorkLimit(f"a discrete Gaussian of sigma {self.sigma:g} has more than {MOST_VALUES} points")
        return reach

    def _outside(self, reach: float, top: float) -> float:
        """What is beyond a window on both sides, at most, in units of e^top."""
        log_first = -((reach - 1) ** 2) / (2 * self.sigma**2) - top
        return 2 * math.exp(log_first) / -math.expm1(-(reach - 1) / self.sigma**2)

    def outcomes(self, digits: float) -> tuple[Array, Array, Array, float]:
        """Losses, logarithms of masses, their errors, and log of the mass left out: below e^-(digits + 30)."""
        reach = self.sigma * math.sqrt(2 * (digits + 40)) + 2
        if not reach < MOST_VALUES / 2:
            raise WorkLimit(f"a discrete Gaussian of sigma {self.sigma:g} has more than {MOST_VALUES} points")
        points = np.arange(-math.ceil(reach), math.ceil(reach) + 1, dtype=np.float64)
        normaliser = self._window(0.0)
        exponents = -(points**2) / (2 * self.sigma**2)
        losses = (self.shift**2 - 2.0 * self.shift * points) / (2 * self.sigma**2)
        errors = 8 * UNIT * (np.abs(exponents) + abs(normaliser.log_total) + 1) + normaliser.relative
        first = math.ceil(reach) + 1
        fall = -math.expm1(-first / self.sigma**2)
        log_beyond = math.log(2 / fall) - first**2 / (2 * self.sigma**2) * (1 - 1e-12) - normaliser.log_total + 1e-9
        return losses, exponents - normaliser.log_total, errors, log_beyond

    def log_moments(self, c: Array) -> Array:
        if self.sigma >= SMOOTH:
            bounds: Array = (self.shift / self.sigma) ** 2 * c * (c + 1) / 2 * (1 + 16 * UNIT) + WAVES
            return bounds
        return np.array([at.value + at.error for at in (self.cumulants(x) for x in c.tolist())])

    def tilted(self, c: float) -> TiltedDiscreteGaussian:
        return TiltedDiscreteGaussian(self, c, self.cumulants(c))

    def rdp_upper(self, orders: Array) -> Array:
        """Claim: at least the Renyi divergences. Source: their definition; where that is too many terms, the Gaussian's
        bound them (Canonne-Kamath-Steinke 2020, Proposition 5)."""
        c = excess(orders)
        gaussian = GaussianLoss((self.shift / self.sigma) ** 2 * (1 + 8 * UNIT)).rdp_upper(orders)
        return np.minimum(gaussian, prices(np.array([self._log_moment(x) for x in c.tolist()]), c))

    def _log_moment(self, c: float) -> float:
        try:
            at = self.cumulants(c)
        except WorkLimit:
            return math.inf
        return at.value + at.error


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    points: Array
    weights: Array
    log_total: float
    relative: float


@dataclass(frozen=True, slots=True, eq=False)
class TiltedDiscreteGaussian:
    """The lattice of losses under its tilted masses."""

    law: DiscreteGaussianLoss
    c: float
    cumulants: Cumulants

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        """That of a Gaussian up to where the waves of Poisson's sum count; then a lattice comes back."""
        if not self._flat(horizon):
            return np.zeros_like(t)
        bounds: Array = t * t * (-self.cumulants.variance / 2 * (1 - 1e-12)) + WAVES
        return np.minimum(bounds, 0.0)

    def _flat(self, t: float) -> bool:
        law = self.law
        return law.sigma >= SMOOTH and 2 * math.pi * (math.pi * law.sigma**2 - t * law.shift) >= FLAT

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        """Those of a Gaussian, as far as the waves of Poisson's sum are nothing: docs/proofs/engine.md, section 7."""
        t = step * np.arange(count, dtype=np.float64)
        if self._flat(float(t[-1])):
            decay = t * t * (self.cumulants.variance / 2)
            return Nodes((-decay).astype(np.complex128), 16 * UNIT * (decay + t * self.cumulants.mean) + WAVES)
        return self._summed(t, step, work)

    def _summed(self, t: Array, step: float, work: int) -> Nodes:
        law, window = self.law, self.law._window(-self.c * self.law.shift)
        if window.points.size * t.size > work:
            raise WorkLimit(f"the nodes of a discrete Gaussian need more than {work} terms")
        losses = (law.shift**2 - 2.0 * law.shift * window.points) / (2 * law.sigma**2)
        points = losses - self.cumulants.mean
        phi = node_sums(window.weights, points, step, t.size)
        displaced = 8 * UNIT * float(window.weights @ (np.abs(losses) + abs(self.cumulants.mean)))
        error = 2 * window.relative + rounding_of_node_sums(window.weights, points, step, t.size) + t * displaced
        return spread_of(phi, error)
