"""The Laplace pair Lap(0,1), Lap(e0,1), e0 = sensitivity / scale.

E[e^{zL}] = [(1+z) e^{z e0} + z e^{-(1+z) e0}] / (2z+1): atoms of the loss at e0 and -e0, a density in between.
Source: Mironov 2017, Proposition 6, for real z; the identity holds for all complex z by continuation.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, BoolArray, Rounding, down, up
from dpledger.accounting.laws.closed_forms import linear_tail_delta, linear_tail_epsilon
from dpledger.accounting.laws.exponential_atoms import atoms_of, few_turns, nodes_on
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import FLOOR, ClosedForm, Cumulants, Loss, Nodes, decay_of_bounded
from dpledger.accounting.laws.tails import Base, TailProfile, Tails, rounded_threshold

__all__ = ["LaplaceLoss", "laplace_base"]


@dataclass(frozen=True, slots=True)
class LaplaceLoss(Loss):
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
        b = scalars.exp(-(2 * c + 1) * e0)
        ratio = scalars.log1p(c / (2 * c + 1) * scalars.expm1(-(2 * c + 1) * e0))
        whole = 1 + c + c * b
        first = (1 + b - 2 * e0 * c * b) / whole
        mean = e0 + first - 2 / (2 * c + 1)
        variance = 4 * e0 * b * (e0 * c - 1) / whole - scalars.square(first) + 4 / scalars.square(2 * c + 1)
        near_two_point = (2 * c + 1) * e0 < 1e-2 or variance <= 0
        if near_two_point:
            variance = e0 * e0 * min(1.0, 4 * b)
        return Cumulants(c * e0 + ratio, 16 * UNIT * (c * e0 + abs(ratio)), mean, variance)

    def log_moments(self, c: Array) -> Array:
        ratio = elementary.log1p(c / (2 * c + 1) * elementary.expm1(-(2 * c + 1) * self.epsilon))
        bounds: Array = c * self.epsilon + ratio + 16 * UNIT * (c * self.epsilon + np.abs(ratio))
        return bounds

    def tilted(self, c: float) -> TiltedLaplace:
        return TiltedLaplace(self.epsilon, c, self.cumulants(c))

    @property
    def closed(self) -> ClosedForm:
        """delta = 1 - e^{(eps - e0)/2}, 0 <= eps <= e0. Source: Balle-Wang 2018, section 3."""
        return ClosedForm(
            functools.partial(linear_tail_delta, self.epsilon), functools.partial(linear_tail_epsilon, self.epsilon)
        )

    def profile(self) -> TailProfile:
        """By the tails of the two Laplace laws."""
        base = laplace_base(self.epsilon)
        return TailProfile(lambda points: base(points, "above"), rounded_threshold, -self.largest, self.largest)


@functools.lru_cache(maxsize=64)
def _atoms(e0: float) -> FiniteLoss:
    return atoms_of(e0, 0.25, 0.0, (scalars.exp(-e0) / 2, 0.5))


@dataclass(frozen=True, slots=True)
class TiltedLaplace:
    """The Laplace loss tilted at c."""

    epsilon: float
    c: float
    cumulants: Cumulants

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        """The atom at e0 does not decay, the density does. Source: docs/proofs/engine.md, section 3."""
        e0, c = self.epsilon, self.c
        b = scalars.exp(-(2 * c + 1) * e0)
        moduli = elementary.hypot(1 + c, t) / elementary.hypot(1 + 2 * c, 2 * t)
        decays = elementary.log((2 * c + 1) * (moduli + b / 2) / (1 + c + c * b)) + 32 * UNIT
        bounded = decay_of_bounded(e0 * (1 + 1e-9), self._least_variance, t, horizon)
        bounds: Array = np.minimum(decays, bounded)
        return bounds

    @property
    def _least_variance(self) -> float:
        """Claim: at most the variance. Source: docs/proofs/engine.md, section 3."""
        at = self.cumulants
        return self.epsilon * self.epsilon * scalars.exp(-self.epsilon - 2 * (at.value + at.error)) * (1 - 1e-9)

    def nodes(self, step: float, count: int, work: int) -> Nodes:  # noqa: ARG002 - a few terms a node
        """M(z) = e^{z e0} (1 + s(z) (e^{-(2z + 1) e0} - 1)), s = z / (2z + 1). Where phi has hardly left 1
        (`few_turns`), as atoms, without cancellation. Source: docs/proofs/engine.md, section 6 (Laplace)."""
        at, e0, c, t = self.cumulants, self.epsilon, self.c, step * np.arange(count, dtype=np.float64)
        if few_turns(e0, c, step * (count - 1)):
            return nodes_on(_atoms(e0), c, at, step, count)
        square, width = t * t, 2 * c + 1
        length = scalars.square(width) + 4 * square
        along, across = (c * width + 2 * square) / length, t / length  # s
        damping = scalars.exp(-width * e0)
        sines, cosines = elementary.circle(e0 * (2 * t))
        missing, wave = 1 - damping * cosines, damping * sines
        real, imaginary = 1 - along * missing + across * wave, along * wave + across * missing
        modulus = np.maximum(elementary.hypot(real, imaginary), FLOOR)
        log_modulus = elementary.log(modulus) - (at.value - c * e0)
        angle = t * (e0 - at.mean) - elementary.arctan2(imaginary, real)
        relative = (40 * UNIT + 4 * UNIT * (t + c) * (e0 * damping)) / modulus
        position = t * (4 * UNIT * (e0 + abs(at.mean)))
        computed = 1.01 * at.error + 4 * UNIT * (np.abs(log_modulus) + np.abs(angle) + 2)
        return Nodes(log_modulus + 1j * angle, elementary.log1p(relative) + position + computed)


def laplace_base(e0: float) -> Base:
    """Atoms at e0 and -e0, a density between. Source: Balle-Wang 2018, section 3."""
    return functools.partial(_laplace, e0)


def _laplace(e0: float, v: Array, side: Rounding) -> Tails:
    inside = np.clip(v, -e0, e0)
    low, high = elementary.exp((inside - e0) / 2) / 2, elementary.exp(-(inside + e0) / 2) / 2
    over, under = v >= e0, v < -e0
    error = np.full(v.shape, UNIT * (16 + 8 * e0))
    if side == "above":
        return Tails(_filled(1 - low, under, over), _filled(high, under, over), error)
    return Tails(_filled(low, over, under), _filled(1 - high, over, under), error)


def _filled(values: Array, ones: BoolArray, zeros: BoolArray) -> Array:
    return np.where(ones, 1.0, np.where(zeros, 0.0, values))
