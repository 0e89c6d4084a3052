"""The Gaussian pair N(0,1), N(mu,1): its loss is N(mu^2/2, mu^2), so K(z) = mu^2 z(z+1)/2.

Composition adds mu^2: a list of Gaussians is one Gaussian. Source: Dong-Roth-Su 2022, Corollary 3.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.law import Cumulants, Nodes, excess, prices

__all__ = ["GaussianLoss"]


@dataclass(frozen=True, slots=True)
class GaussianLoss:
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

    def rdp_upper(self, orders: Array) -> Array:
        """Claim: at least mu^2 order / 2. Source: Mironov 2017, Proposition 7."""
        c = excess(orders)
        return prices(self.log_moments(c), c)


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
