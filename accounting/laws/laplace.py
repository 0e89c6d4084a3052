"""The Laplace pair Lap(0,1), Lap(e0,1), e0 = sensitivity / scale.

E[e^{zL}] = [(1+z) e^{z e0} + z e^{-(1+z) e0}] / (2z+1): atoms of the loss at e0 and -e0, a density in between.
Source: Mironov 2017, Proposition 6, for real z; the identity holds for all complex z by continuation.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpledger.accounting.engine.floating import UNIT, Array, down, up
from dpledger.accounting.laws.exponential_atoms import atoms_of, few_turns, nodes_on
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import Cumulants, Nodes, decay_of_bounded, excess, price

__all__ = [
    "LaplaceLoss",
    "laplace_cumulants",
    "laplace_decay",
    "laplace_nodes",
    "low_nodes",
    "spread_out",
]


@dataclass(frozen=True, slots=True)
class LaplaceLoss:
    """`epsilon` = sensitivity (l1) / scale, above 0."""

    epsilon: float
    infinite_mass: float = 0.0

    @property
    def largest(self) -> float:
        return up(self.epsilon)

    @property
    def largest_down(self) -> float:
        return down(self.epsilon)

    def cumulants(self, c: float) -> Cumulants:
        e0 = self.epsilon
        b = math.exp(-(2 * c + 1) * e0)
        ratio = math.log1p(c / (2 * c + 1) * math.expm1(-(2 * c + 1) * e0))
        whole = 1 + c + c * b
        first = (1 + b - 2 * e0 * c * b) / whole
        mean = e0 + first - 2 / (2 * c + 1)
        variance = 4 * e0 * b * (e0 * c - 1) / whole - first**2 + 4 / (2 * c + 1) ** 2
        near_two_point = (2 * c + 1) * e0 < 1e-2 or variance <= 0
        if near_two_point:
            variance = e0 * e0 * min(1.0, 4 * b)
        return Cumulants(c * e0 + ratio, 16 * UNIT * (c * e0 + abs(ratio)), mean, variance)

    def log_moments(self, c: Array) -> Array:
        ratio = np.log1p(c / (2 * c + 1) * np.expm1(-(2 * c + 1) * self.epsilon))
        bounds: Array = c * self.epsilon + ratio + 16 * UNIT * (c * self.epsilon + np.abs(ratio))
        return bounds

    def tilted(self, c: float) -> TiltedLaplace:
        return TiltedLaplace(self.epsilon, c, self.cumulants(c))

    def rdp_upper(self, order: float) -> float:
        """Claim: at least the Renyi divergence. Source: Mironov 2017, Proposition 6."""
        c = excess(order)
        at = self.cumulants(c)
        return price(at.value, at.error, c)


@functools.lru_cache(maxsize=64)
def _atoms(e0: float) -> FiniteLoss:
    return atoms_of(e0, 0.25, 0.0, (math.exp(-e0) / 2, 0.5))


@dataclass(frozen=True, slots=True)
class TiltedLaplace:
    """The Laplace loss tilted at c."""

    epsilon: float
    c: float
    cumulants: Cumulants

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        at = self.cumulants
        variance = spread_out(self.epsilon, at.value, at.error)
        bounded = decay_of_bounded(self.epsilon * (1 + 1e-9), float(variance), t, horizon)
        bounds: Array = np.minimum(laplace_decay(self.epsilon, self.c, t), bounded)
        return bounds

    def nodes(self, step: float, count: int, work: int) -> Nodes:  # noqa: ARG002 - a few terms a node
        at, t = self.cumulants, step * np.arange(count, dtype=np.float64)
        if few_turns(self.epsilon, self.c, step * (count - 1)):
            return low_nodes(self.epsilon, self.c, at, step, count)
        real, imaginary, spread = laplace_nodes(self.epsilon, self.c, (at.value, at.error, at.mean), t)
        return Nodes(real + 1j * imaginary, spread)


# ---- the formulas, for one epsilon or for a column of them ----------------------------------------------------------

Some: TypeAlias = float | Array


def spread_out(e0: Some, value: Some, error: Some) -> Array:
    """Claim: at most the variance tilted at the c where K is `value`. Source: docs/proofs/engine.md, section 3."""
    bound: Array = e0 * e0 * np.exp(-e0 - 2 * (value + error)) * (1 - 1e-9)
    return bound


def laplace_decay(e0: Some, c: float, t: Array) -> Array:
    """Upper bounds of log |phi| from t on: the atom at e0 does not decay, the density does. docs/proofs/engine.md,
    section 3."""
    b = np.exp(-(2 * c + 1) * e0)
    moduli = np.hypot(1 + c, t) / np.hypot(1 + 2 * c, 2 * t)
    bounds: Array = np.log((2 * c + 1) * (moduli + b / 2) / (1 + c + c * b)) + 32 * UNIT
    return bounds


def laplace_nodes(e0: Some, c: float, at: tuple[Some, Some, Some], t: Array) -> tuple[Array, Array, Array]:
    """Real and imaginary part of log phi at each t, and its spread; `at`: K(c), its error, K'(c)."""
    value, error, mean = at
    z = c + 1j * t
    turned = e0 * (2 * t)
    damping = np.exp(-(2 * c + 1) * e0)
    ratio = 1 - z / (2 * z + 1) * (1 - damping * (np.cos(turned) - 1j * np.sin(turned)))
    modulus = np.maximum(np.abs(ratio), 1e-300)
    real = np.log(modulus) - (value - c * e0)
    imaginary = np.arctan2(ratio.imag, ratio.real) + t * (e0 - mean)
    relative = (40 * UNIT + 4 * UNIT * (t + c) * e0) / modulus
    position = t * (4 * UNIT * (e0 + np.abs(mean)))
    computed = 1.01 * error + 4 * UNIT * (np.abs(real) + np.abs(imaginary) + 2)
    return real, imaginary, np.log1p(relative) + position + computed


def low_nodes(e0: float, c: float, at: Cumulants, step: float, count: int) -> Nodes:
    """phi where it has hardly left 1 (`few_turns`), without cancellation."""
    return nodes_on(_atoms(e0), c, at, step, count)


def laplace_cumulants(e0: Array, c: float) -> tuple[Array, Array, Array, Array]:
    """`LaplaceLoss.cumulants` of each epsilon: K, its error, mean, variance."""
    width = 2 * c + 1
    fallen = np.expm1(-width * e0)
    b = 1 + fallen
    ratio, most = np.log1p(c / width * fallen), c * e0
    whole = (1 + c) + c * b
    first = (1 + b - 2 * b * most) / whole
    variance = 4 * e0 * b * (most - 1) / whole - first * first + (2 / width) ** 2
    near_two_point = (width * e0 < 1e-2) | (variance <= 0)
    if near_two_point.any():
        variance[near_two_point] = (e0 * e0 * np.minimum(1.0, 4 * b))[near_two_point]
    return most + ratio, 16 * UNIT * (most + np.abs(ratio)), e0 + first - 2 / width, variance
