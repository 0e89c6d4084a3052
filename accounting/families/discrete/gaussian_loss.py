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

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, by_squaring
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.laws.fourier import nodes_of_sums
from dpledger.accounting.laws.law import Cumulants, ListedLosses, Loss, Nodes, excess, prices
from dpledger.accounting.laws.tails import LARGEST_EXPONENT, TailProfile, listed_profile
from dpledger.errors import WorkLimit

__all__ = ["DiscreteGaussianLoss"]

WINDOW_SIGMAS = 11.0  # half width of the window, in sigma: e^{-60} of the mass is outside
MOST_VALUES = 1 << 16
SMOOTH = 2.0  # sigma from which sums over the integers are integrals
FLAT = 62.0  # the exponent of the first wave from which on all waves together are below WAVES
WAVES = 1e-25
MOST_SUMS = 1024  # sums of noises on the integers: where they are more, smoothing is narrow
DIGITS_KEPT = 600.0  # digits, to base e, of an outcome of several runs that is looked at
TINY = 1e-280  # masses below are counted among those not listed: where products underflow, none above is touched


@dataclass(frozen=True, slots=True)
class DiscreteGaussianLoss(Loss):
    """`sigma` above 0; `shift` = the sensitivity of the integer statistic, a whole number of at least 1."""

    sigma: float
    shift: int
    infinite_mass: float = 0.0
    largest: float = math.inf
    largest_down: float = math.inf

    def cumulants(self, c: float) -> Cumulants:
        if self.sigma >= SMOOTH:
            square = scalars.square(self.shift / self.sigma)
            value = square * c * (c + 1) / 2
            return Cumulants(value, 16 * UNIT * value + WAVES, square * (c + 0.5), square)
        windows = self._windows(np.array([-c * self.shift]))
        (value,), (error,) = self._log_ratios(np.array([c]), windows)
        losses, weights = self._losses(windows.points[0]), windows.weights[0]
        mean = float(elementary.product(weights, losses))
        variance = float(elementary.product(weights, scalars.square(losses - mean)))
        return Cumulants(float(value), float(error), mean, variance)

    def _log_ratios(self, c: Array, windows: _Windows) -> tuple[Array, Array]:
        """K at each c, from windows around -c d, and its error."""
        normaliser = self._windows(np.zeros(1))
        tilts = scalars.square(self.shift) / (2 * scalars.square(self.sigma)) * c * (c + 1)
        values = tilts + windows.log_totals - normaliser.log_totals
        errors = windows.relative + normaliser.relative + 16 * UNIT * (tilts + np.abs(values) + 2)
        return values, errors

    def _losses(self, points: Array) -> Array:
        losses: Array = (scalars.square(self.shift) - 2.0 * self.shift * points) / (2 * scalars.square(self.sigma))
        return losses

    def _windows(self, centres: Array) -> _Windows:
        """sum over integers of e^{-(k - centre)^2/2s^2}, around each centre: as many of them around each, so that no
        sum depends on the other centres."""
        reach = self._reach()
        first = np.floor(centres - reach)
        points = first[:, None] + np.arange(math.ceil(2 * reach) + 3, dtype=np.float64)
        away = points - centres[:, None]
        exponents = -scalars.square(away) / (2 * scalars.square(self.sigma))
        tops = exponents.max(axis=1)
        masses = elementary.exp(exponents - tops[:, None])
        totals = masses.sum(axis=1)
        moved = np.abs(points).max(axis=1) * (4 * UNIT / scalars.square(self.sigma))  # of centre, which is rounded
        each = 8 * UNIT * (np.abs(exponents) + 1) + moved[:, None] * np.abs(away)
        missing = (masses * each).sum(axis=1) + self._outside(reach, tops)
        relative = (missing / totals + UNIT * (points.shape[1] + 8)) * (1 + 1e-6)
        return _Windows(points, masses / totals[:, None], tops + elementary.log(totals), relative)

    def _reach(self) -> float:
        """The half width of a window."""
        reach = WINDOW_SIGMAS * self.sigma + 2
        if not reach < MOST_VALUES / 2:
            raise WorkLimit(f"a discrete Gaussian of sigma {self.sigma:g} has more than {MOST_VALUES} points")
        return reach

    def _outside(self, reach: float, tops: Array) -> Array:
        """What is beyond each window on both sides, at most, in units of e^top."""
        log_first = -scalars.square(reach - 1) / (2 * scalars.square(self.sigma)) - tops
        bounds: Array = 2 * elementary.exp(log_first) / -scalars.expm1(-(reach - 1) / scalars.square(self.sigma))
        return bounds

    def outcomes(self, digits: float) -> tuple[Array, Array, Array, float]:
        """Losses, logarithms of masses, their errors, and log of the mass left out: below e^-(digits + 30)."""
        reach = self.sigma * math.sqrt(2 * (digits + 40)) + 2
        if not reach < MOST_VALUES / 2:
            raise WorkLimit(f"a discrete Gaussian of sigma {self.sigma:g} has more than {MOST_VALUES} points")
        points = np.arange(-math.ceil(reach), math.ceil(reach) + 1, dtype=np.float64)
        at = self._windows(np.zeros(1))
        normaliser, relative = float(at.log_totals[0]), float(at.relative[0])
        exponents = -scalars.square(points) / (2 * scalars.square(self.sigma))
        errors = 8 * UNIT * (np.abs(exponents) + abs(normaliser)) + relative
        first = math.ceil(reach) + 1
        fall = -scalars.expm1(-first / scalars.square(self.sigma))
        log_beyond = (
            scalars.log(2 / fall)
            - scalars.square(first) / (2 * scalars.square(self.sigma)) * (1 - 1e-12)
            - normaliser
            + 1e-9
        )
        return self._losses(points), exponents - normaliser, errors, log_beyond

    def log_moments(self, c: Array) -> Array:
        if self.sigma >= SMOOTH:
            bounds: Array = scalars.square(self.shift / self.sigma) * c * (c + 1) / 2 * (1 + 16 * UNIT) + WAVES
            return bounds
        values, errors = self._log_ratios(c, self._windows(-c * self.shift))
        return values + errors

    def tilted(self, c: float) -> TiltedDiscreteGaussian:
        return TiltedDiscreteGaussian(self, c, self.cumulants(c))

    def rdp_upper(self, orders: Array) -> Array:
        """Claim: at least the Renyi divergences. Source: their definition, and the Gaussian's, which bound them
        (Canonne-Kamath-Steinke 2020, Proposition 5)."""
        c = excess(orders)
        gaussian = GaussianLoss(scalars.square(self.shift / self.sigma) * (1 + 8 * UNIT)).rdp_upper(orders)
        return np.minimum(gaussian, prices(self.log_moments(c), c))

    @property
    def smooths(self) -> bool:
        return True

    def counted(self, count: int, log_delta: float) -> ListedLosses | None:
        """The outcomes of a discrete Gaussian, run `count` times, but for a mass that is small beside e^log_delta; None
        where they are more than MOST_SUMS. The loss depends on the sum of the noises alone, whose masses are sums of
        positive products. Source: docs/proofs/lattice.md, section 7."""
        digits = -log_delta if count == 1 else min(DIGITS_KEPT, scalars.log(count) - log_delta)
        try:
            losses, log_masses, mass_errors, log_beyond = self.outcomes(digits)
        except WorkLimit:
            return None
        if count == 1:
            errors = 8 * UNIT * (np.abs(losses) + scalars.square(self.shift / self.sigma))
            return ListedLosses(losses, log_masses, errors, mass_errors + 8 * UNIT * np.abs(log_masses), log_beyond)
        size = count * (losses.size - 1) + 1
        if size > MOST_SUMS:
            return None
        # each mass within a relative error of at most 2 `count` UNIT times the last size, where nothing underflows
        masses = by_squaring(elementary.exp(log_masses), count, elementary.convolved)
        sums = np.arange(size, dtype=np.float64) - size // 2
        scale = scalars.square(self.shift / self.sigma) / 2
        totals = scale * (count - 2 * sums / self.shift)
        each = float(np.max(mass_errors + 8 * UNIT * (np.abs(log_masses) + 1)))
        kept = masses > TINY
        error = count * (each + 2 * UNIT * size)
        return ListedLosses(
            totals[kept],
            elementary.log(masses[kept]),
            8 * UNIT * (np.abs(totals[kept]) + 2 * scale * count),
            np.full(int(kept.sum()), error * (1 + 1e-6)) + 4 * UNIT * np.abs(elementary.log(masses[kept])),
            float(elementary.logaddexp(log_beyond + scalars.log(count), scalars.log(4 * size * TINY))),
        )

    def profile(self) -> TailProfile | None:
        """Every outcome that is not rarer than TINY."""
        try:
            losses, logs, mass_errors, _ = self.outcomes(LARGEST_EXPONENT)
        except WorkLimit:
            return None
        order = np.argsort(losses, kind="stable")
        values, logs = losses[order], logs[order]
        moved = 8 * UNIT * (float(np.max(np.abs(values))) + scalars.square(self.shift / self.sigma))
        error = float(np.max(mass_errors)) + UNIT * (64 + values.size + 16 * float(np.max(np.abs(logs)))) + 2 * moved
        return listed_profile(
            values, (elementary.exp(logs), elementary.exp(logs - values)), moved, error, (-math.inf, math.inf)
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Windows:
    """A row for each centre: its points and their normalised masses; the logarithm of its sum, and its error."""

    points: Array
    weights: Array
    log_totals: Array
    relative: Array


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
        return law.sigma >= SMOOTH and 2 * math.pi * (math.pi * scalars.square(law.sigma) - t * law.shift) >= FLAT

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        """Those of a Gaussian, as far as the waves of Poisson's sum are nothing: docs/proofs/engine.md, section 7."""
        t = step * np.arange(count, dtype=np.float64)
        if self._flat(float(t[-1])):
            decay = t * t * (self.cumulants.variance / 2)
            return Nodes((-decay).astype(np.complex128), 16 * UNIT * (decay + t * self.cumulants.mean) + WAVES)
        return self._summed(t, step, work)

    def _summed(self, t: Array, step: float, work: int) -> Nodes:
        window = self.law._windows(np.array([-self.c * self.law.shift]))
        if window.points.size * t.size > work:
            raise WorkLimit(f"the nodes of a discrete Gaussian need more than {work} terms")
        losses, weights = self.law._losses(window.points[0]), window.weights[0]
        points = losses - self.cumulants.mean
        displaced = 8 * UNIT * float(elementary.product(weights, np.abs(losses) + abs(self.cumulants.mean)))
        return nodes_of_sums(weights, points, step, t.size, 2 * float(window.relative[0]) + t * displaced)
