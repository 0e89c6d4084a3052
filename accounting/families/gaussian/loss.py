"""The Gaussian pair N(0,1), N(mu,1): its loss is N(mu^2/2, mu^2), so K(z) = mu^2 z(z+1)/2.

Composition adds mu^2: a list of Gaussians is one Gaussian. Source: Dong-Roth-Su 2022, Corollary 3.3.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import ERFC_ULPS, UNIT, Array, Rounding
from dpledger.accounting.families.gaussian.normal_tails import gaussian_delta, gaussian_epsilon
from dpledger.accounting.laws.law import ClosedForm, Cumulants, Loss, Nodes, Parts
from dpledger.accounting.laws.tails import Base, TailProfile, Tails, rounded_threshold

__all__ = ["GaussianLoss", "gaussian_base"]

LEAST_SMOOTHING = 1e-4  # mu^2 of a Gaussian that hardly smooths
DEVIATIONS = 60.0  # standard deviations: the mass beyond is below TINY


@dataclass(frozen=True, slots=True)
class GaussianLoss(Loss):
    """`mu_squared` = (sensitivity / sigma)^2, above 0."""

    mu_squared: float
    infinite_mass: float = 0.0
    largest: float = math.inf
    largest_down: float = math.inf

    def cumulants(self, c: float) -> Cumulants:
        value = self.mu_squared * c * (c + 1) / 2
        return Cumulants(value, 8 * UNIT * value, self.mu_squared * (c + 0.5), self.mu_squared)

    def log_moments(self, c: Array) -> Array:
        bounds: Array = self.mu_squared * c * (c + 1) / 2 * (1 + 8 * UNIT)
        return bounds

    def tilted(self, c: float) -> TiltedGaussian:
        return TiltedGaussian(self.mu_squared, self.cumulants(c))

    @property
    def closed(self) -> ClosedForm:
        """Source: Balle-Wang 2018, Theorem 8. Mills' ratio is a continued fraction of its own for each epsilon."""
        epsilon = functools.partial(gaussian_epsilon, self.mu_squared)
        return ClosedForm(functools.partial(_deltas, self.mu_squared), epsilon, one_by_one=True)

    def joined(self, parts: Parts) -> GaussianLoss | None:
        """mu^2 of the whole within 4 UNIT: squares add."""
        squares = [count * loss.mu_squared for loss, count in parts if isinstance(loss, GaussianLoss)]
        return GaussianLoss(math.fsum(squares)) if len(squares) == len(parts) else None

    @property
    def smooths(self) -> bool:
        return self.mu_squared > LEAST_SMOOTHING

    def profile(self) -> TailProfile:
        """By the tails of the two normal laws."""
        base = gaussian_base(math.sqrt(self.mu_squared))
        return TailProfile(lambda points: base(points, "above"), rounded_threshold, -math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class TiltedGaussian:
    """Tilting moves the mean of a Gaussian and nothing else."""

    mu_squared: float
    cumulants: Cumulants

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:  # noqa: ARG002 - for ever
        bounds: Array = scalars.square(t) * (-self.mu_squared / 2 * (1 - 1e-12))
        return bounds

    def nodes(self, step: float, count: int, work: int) -> Nodes:  # noqa: ARG002 - one term a node
        t = step * np.arange(count, dtype=np.float64)
        decay = scalars.square(t) * (self.mu_squared / 2)
        return Nodes((-decay).astype(np.complex128), 8 * UNIT * (decay + t * self.cumulants.mean))


def gaussian_base(mu: float) -> Base:
    """N(mu^2/2, mu^2) under P, N(-mu^2/2, mu^2) under Q. Source: Balle-Wang 2018, Theorem 8."""
    return functools.partial(_gaussian, mu)


def _gaussian(mu: float, v: Array, side: Rounding) -> Tails:
    at = np.clip(v / mu, -DEVIATIONS - mu, DEVIATIONS + mu)
    sign = math.sqrt(0.5) if side == "above" else -math.sqrt(0.5)
    left, right = (at - mu / 2) * sign, (at + mu / 2) * sign
    halves = 0.5 * elementary.erfc(np.concatenate([left, right]))
    moved = 8 * UNIT * (np.abs(at) + mu)  # of an argument: the roundings here and that of mu
    far = np.maximum(np.maximum(left, right), 0.0)  # the hazard of erfc at x is at most 2 (x + 1) for x > 0, 2 below
    return Tails(halves[: at.size], halves[at.size :], 2 * ERFC_ULPS * UNIT + 2.1 * moved * (far + 1))


def _deltas(mu_squared: float, epsilons: Array) -> tuple[Array, Array]:
    found = [gaussian_delta(mu_squared, epsilon) for epsilon in epsilons.tolist()]
    return np.array([at.lower for at in found]), np.array([at.upper for at in found])
