"""The envelope of eta-bounded range: the loss has density e^{(l - eta)/2} / (2 (1 - e^{-eta})) on [-eta, eta].

It dominates every eta-bounded-range mechanism, chosen adaptively too: delta(eps) = (1 - e^{(eps - eta)/2})^2 /
(1 - e^{-eta}). Source: Dong-Durfee-Rogers 2020, Lemma 4.2 and Theorem 2 (the sup over positions of the interval).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, down, rounded_out, up
from dpledger.accounting.laws.closed_forms import linear_tail_delta, linear_tail_epsilon
from dpledger.accounting.laws.exponential_atoms import atoms_of, few_turns, nodes_on
from dpledger.accounting.laws.finite import FiniteLoss, FinitePair
from dpledger.accounting.laws.intervals import Interval
from dpledger.accounting.laws.law import ClosedForm, Cumulants, Loss, Nodes, decay_of_bounded
from dpledger.accounting.laws.tails import TailProfile, Tails, rounded_threshold

__all__ = ["USUALLY_RARE", "BoundedRangeLoss", "far_tilt", "range_pair", "worst_position"]

SLIGHT, NEAR = 0.02, 1.9  # the largest c eta and eta for which K is summed from 1
TERMS = 14
USUALLY_RARE = 10.0  # -log of how rare the losses are that are asked for, as a rule
_TILTS = 1e-4, 1e12
_RAREST = -700.0  # products with a mass of its exponential are not yet below the normal floats


def range_pair(eta: float, position: float) -> FinitePair:
    """A pair with two losses that lie `eta` apart, the larger one at `position` times eta, 0 < position < 1: a
    mechanism of this range. A lower loss that P meets with a mass below e^_RAREST is one of Q alone, which costs less.
    Source: Dong-Durfee-Rogers 2020, Lemma 4.1 (the worst pairs have two losses)."""
    whole, high = -scalars.expm1(-eta), position * eta
    low, error = high - eta, 8 * UNIT * eta
    likely, shown = -scalars.expm1(low) / whole, -scalars.expm1(-high) / whole  # to P, to Q
    if low < _RAREST:
        return FinitePair((high,), (likely,), (likely * scalars.exp(-high),), 0.0, shown, (error,), 32 * UNIT)
    return FinitePair(
        (high, low),
        (likely, shown * scalars.exp(low)),
        (likely * scalars.exp(-high), shown),
        0.0,
        0.0,
        (error, error),
        (32 + 16 * eta) * UNIT,
        0.0,
    )


def worst_position(eta: float, tilt: float) -> float:
    """Where the larger of two losses must stand, as a part of eta, for the largest moment E e^{tilt L}, tilt above 0.

    Source: docs/proofs/bounded_ranges.md, section 5."""
    whole = scalars.expm1(-(1 + tilt) * eta) / scalars.expm1(-tilt * eta)
    return min(max(1 + scalars.log(tilt / (1 + tilt) * whole) / eta, 0.01), 0.99)


def far_tilt(runs: Iterable[tuple[float, int]], rare: float = USUALLY_RARE) -> float:
    """The tilt at which the loss of these runs, each an eta with a count, is as rare as e^-rare, about. A guess:
    nothing that is certified rests on it."""
    each, (low, high) = tuple(runs), _TILTS
    while high > low * 1.01:
        tilt = math.sqrt(low * high)
        is_far = sum(count * _rate(eta, tilt) for eta, count in each) > rare
        low, high = (low, tilt) if is_far else (tilt, high)
    return low


def _rate(eta: float, tilt: float) -> float:
    """c K'(c) - K(c) of a run at the worst position for the tilt c."""
    high = worst_position(eta, tilt) * eta
    whole, low = -scalars.expm1(-eta), high - eta
    likely, other = -scalars.expm1(low) / whole, scalars.exp(low) * -scalars.expm1(-high) / whole
    weight = other / likely * scalars.exp(-tilt * eta)  # of the lower loss, tilted
    return tilt * (high - eta * weight / (1 + weight)) - (scalars.log(likely) + tilt * high + scalars.log1p(weight))


@dataclass(frozen=True, slots=True)
class BoundedRangeLoss(Loss):
    """`eta`, above 0: all losses of a pair of neighbours lie in an interval of this length."""

    eta: float
    infinite_mass: float = 0.0

    @property
    def largest(self) -> float:
        return up(self.eta)

    @property
    def largest_down(self) -> float:
        return down(self.eta)

    def cumulants(self, c: float) -> Cumulants:
        eta, a = self.eta, 2 * c + 1
        ratio = scalars.log(scalars.expm1(-a * eta) / (a * scalars.expm1(-eta)))
        decay = scalars.exp(-a * eta) / -scalars.expm1(-a * eta)
        mean = eta + 2 * eta * decay - 2 / a
        variance = 4 / scalars.square(a) - 4 * scalars.square(eta) * decay * (1 + decay)
        if a * eta < 1e-2 or variance <= 0:
            variance = scalars.square(eta) / 3 * min(1.0, 4 * scalars.exp(-a * eta))
        if c * eta <= SLIGHT and eta <= NEAR:
            value = float(_near(eta, np.array(c)))
            return Cumulants(value, 80 * UNIT * value, mean, variance)
        return Cumulants(c * eta + ratio, 16 * UNIT * (1 + c * eta + abs(ratio)), mean, variance)

    def log_moments(self, c: Array) -> Array:
        a = 2 * c + 1
        ratio = elementary.log(elementary.expm1(-a * self.eta) / (a * scalars.expm1(-self.eta)))
        bounds: Array = c * self.eta + ratio + 16 * UNIT * (1 + c * self.eta + np.abs(ratio))
        slight = c * self.eta <= SLIGHT
        if self.eta <= NEAR and slight.any():
            bounds[slight] = _near(self.eta, c[slight]) * (1 + 80 * UNIT)
        return bounds

    def tilted(self, c: float) -> TiltedBoundedRange:
        return TiltedBoundedRange(self.eta, c, self.cumulants(c))

    @property
    def closed(self) -> ClosedForm:
        """delta = (1 - e^{(eps - eta)/2})^2 / (1 - e^-eta), 0 <= eps <= eta. Source: Dong-Durfee-Rogers 2020."""
        return ClosedForm(functools.partial(_delta, self.eta), functools.partial(_epsilon, self.eta))

    def profile(self) -> TailProfile:
        """By the tails of the envelope."""
        return TailProfile(functools.partial(_tails, self.eta), rounded_threshold, -self.largest, self.largest)


def _near(eta: float, c: Array) -> Array:
    """K(c) = log(h((c + 1/2)^2 eta^2) / h(eta^2/4)), h(x) = sinh(sqrt x)/sqrt x, from the difference of two series, all
    of whose terms are positive: within 80 units, relative. Source: docs/proofs/engine.md, section 6 (K from 1)."""
    far, near = scalars.square((c + 0.5) * eta), eta * eta / 4
    terms, power, factor = np.ones_like(far), 1.0, 1 / 6
    change, whole = terms * factor, 1 + near / 6
    for k in range(2, TERMS):
        power *= near
        terms = far * terms + power  # (far^k - near^k) / (far - near)
        factor /= 2 * k * (2 * k + 1)
        change, whole = change + factor * terms, whole + factor * power * near
    values: Array = elementary.log1p(c * (c + 1) * (eta * eta) * change / whole)
    return values


@functools.lru_cache(maxsize=64)
def _atoms(eta: float) -> FiniteLoss:
    return atoms_of(eta, -0.5 / scalars.expm1(-eta), 12 * UNIT)


@dataclass(frozen=True, slots=True)
class TiltedBoundedRange:
    """Tilted, the density grows like e^{(c + 1/2) l}."""

    eta: float
    c: float
    cumulants: Cumulants

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        """From |1 - e^{-(2z+1) eta}| <= 1 + e^{-(2c+1) eta}; up to a horizon, from the least density."""
        damping = scalars.exp(-(2 * self.c + 1) * self.eta)
        half = self.c + 0.5
        bounds = (
            elementary.log(half / elementary.hypot(half, t) * ((1 + damping) / -scalars.expm1(-2 * half * self.eta)))
            + 32 * UNIT
        )
        turn = 2 * half * self.eta
        variance = scalars.square(self.eta) / 3 * turn / scalars.expm1(turn) * (1 - 1e-9) if turn < 500 else 0.0
        return np.minimum(bounds, decay_of_bounded(self.eta * (1 + 1e-9), variance, t, horizon))

    def nodes(self, step: float, count: int, work: int) -> Nodes:  # noqa: ARG002 - a few terms a node
        eta, a = self.eta, 2 * self.c + 1
        if few_turns(eta, self.c, step * (count - 1)):
            return nodes_on(_atoms(eta), self.c, self.cumulants, step, count)
        t = step * np.arange(count, dtype=np.float64)
        damping = scalars.exp(-a * eta)
        sines, cosines = elementary.circle(2 * t * eta)
        turned = 1 - damping * (cosines - 1j * sines)
        ratio = turned / (1 + 2j * t / a) / -scalars.expm1(-a * eta)
        modulus = np.maximum(elementary.modulus(ratio), 1e-300)
        log_phi = elementary.log(modulus) + 1j * (elementary.angle(ratio) + t * (eta - self.cumulants.mean))
        lost = (24 * UNIT + 4 * UNIT * (t + a) * eta) / -scalars.expm1(-a * eta)
        position = 4 * UNIT * t * (eta + abs(self.cumulants.mean))
        with np.errstate(over="ignore"):  # an infinite spread is a valid one
            spread = elementary.log1p((lost + 1e-300) / modulus) + position + 4 * UNIT * (np.abs(log_phi) + 4)
        return Nodes(log_phi, spread)


def _tails(eta: float, points: Array) -> Tails:
    """Density e^{(l - eta)/2} / (2 (1 - e^-eta)) on [-eta, eta]. Source: Dong-Durfee-Rogers 2020."""
    at = np.clip(points, -eta, eta)
    whole = -scalars.expm1(-eta)
    left = -elementary.expm1((at - eta) / 2) / whole
    right = elementary.exp(-(eta + at) / 2) * left
    room = np.maximum(eta - at, 1e-250)
    error = UNIT * (48 + 4 * eta + 8 * (eta + np.abs(at)) / room)
    return Tails(left, right, np.minimum(error, 1.0))


def _delta(eta: float, epsilons: Array) -> tuple[Array, Array]:
    """Bounds of delta of the envelope of eta-bounded range at each epsilon >= 0."""
    least, most = linear_tail_delta(eta, epsilons)
    whole = -scalars.expm1(-eta)
    lower, upper = rounded_out(scalars.square(least) / whole, scalars.square(most) / whole)
    return lower, np.where(most == 0, 0.0, upper)


def _epsilon(eta: float, delta_down: float, delta_up: float) -> Interval:
    """epsilon(delta) of the envelope: eta + 2 log(1 - sqrt(delta (1 - e^-eta)))."""
    whole = -scalars.expm1(-eta)
    least, most = math.sqrt(delta_down * whole) * (1 - 8 * UNIT), math.sqrt(delta_up * whole) * (1 + 8 * UNIT)
    return linear_tail_epsilon(eta, least, most)
