"""A mixture of Gaussians against the one around 0: remove is (w_0 N(0, s^2) + sum w_j N(r_j, s^2), N(0, s^2)), add the
same pair turned round.

With L(x) of `mixture_curve`, E e^{z loss} is I(z+1) for remove and I(-z) for add, I(w) = E_{N(0, s^2)} e^{w L(x)}, by
the trapezoid rule of the sampled Gaussian (`sampled_grid`), which is the mixture of one shift. docs/proofs/mixtures.md.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import ERFC_ULPS, UNIT, Array, rounded_out
from dpledger.accounting.families.gaussian.mixture_curve import Mixture, MixtureCurve
from dpledger.accounting.families.gaussian.smooth_cut import Cut
from dpledger.accounting.families.gaussian.tilted_rows import ByTheRule
from dpledger.accounting.laws.closed_forms import at_one, crossing
from dpledger.accounting.laws.intervals import NOTHING, Interval
from dpledger.accounting.laws.law import ClosedForm, Direction, excess, prices
from dpledger.accounting.laws.tails import TailProfile, Tails
from dpledger.errors import WorkLimit

__all__ = ["MixtureLoss"]

_DEVIATIONS = 60.0  # the mass beyond is below TINY
_ENOUGH = 600.0  # of epsilon: a profile beyond it is bounded by 0 from below


@dataclass(frozen=True, slots=True)
class MixtureLoss(ByTheRule):
    """The loss of `mixture` in a direction."""

    mixture: Mixture
    direction: Direction
    infinite_mass: float = 0.0

    @property
    def pairs(self) -> MixturePair:
        return _row(self.mixture, self.direction)

    @property
    def largest(self) -> float:
        return self._saturation(1.0)

    @property
    def largest_down(self) -> float:
        return self._saturation(-1.0)

    def _saturation(self, side: float) -> float:
        """-log w_0 in the direction add, moved outward by more than its rounding."""
        rest, weights = self.mixture.rest, self.mixture.weights
        if self.direction == "remove" or not rest:
            return math.inf
        moved = math.fsum(weights)
        value = -scalars.log1p(-moved) if rest > 0.5 else -scalars.log(rest)
        return value * (1 + side * 16 * UNIT) + side * 8 * UNIT * (moved / rest)

    def rdp_upper(self, orders: Array) -> Array:
        """Claim: at least the Renyi divergences in this direction, each a function of its own order alone; infinite
        where the rule does not resolve it. Source: Mironov 2017, Definition 3."""
        c = excess(orders)
        return prices(np.array([self._log_moment(one) for one in c.tolist()]), c)

    def _log_moment(self, c: float) -> float:
        try:
            return float(self.log_moments(np.array([c]))[0])
        except WorkLimit:
            return math.inf

    @property
    def closed(self) -> ClosedForm:
        """By the tails of the normal laws at the point where the loss is epsilon."""
        return ClosedForm(self._deltas, self._epsilon)

    def _deltas(self, epsilons: Array) -> tuple[Array, Array]:
        profile = self.profile()
        first, second = profile.lines(np.minimum(epsilons, _ENOUGH))
        near = elementary.exp(np.minimum(epsilons, _ENOUGH)) * second
        lower = np.where(epsilons < _ENOUGH, first - near - 16 * UNIT * (first + near), 0.0)
        below, above = rounded_out(np.maximum(lower, 0.0), profile.above(epsilons))
        return below, np.where(epsilons >= self.largest, 0.0, above)

    def _epsilon(self, down: float, up: float) -> Interval:
        if at_one(self._deltas, 0.0).upper <= down:
            return NOTHING
        return crossing(self._deltas, down, up, 0.0, min(self.largest, self._far(down)))

    def _far(self, delta: float) -> float:
        """Beyond which the loss has a mass below delta: P(Z > z) <= e^{-z^2/2}."""
        z = math.sqrt(-2 * scalars.log(delta)) * (1 + 1e-9) * self.mixture.sigma
        at = self.mixture.curve(np.array([1 + z if self.direction == "remove" else -z]))
        value = float(at.values[0]) if self.direction == "remove" else -float(at.values[0])
        return max(0.0, value + 2 * float(at.errors[0]))

    @property
    def bend(self) -> float:
        """The least of those of its shifts, each alone, that are not sure."""
        if self.direction == "add":
            return math.inf
        each = zip(self.mixture.shifts, self.mixture.log_weights, strict=True)
        bends = (-2 * scalars.square(self.mixture.sigma / shift) * weight for shift, weight in each if weight < 0)
        return min(bends, default=math.inf)

    def profile(self) -> TailProfile:
        """The loss rises with the outcome: its tails are those of normal laws."""
        mixture, rest = self.mixture, self.mixture.rest
        least = scalars.log(rest) if rest else -math.inf
        if self.direction == "remove":
            smallest = least - 1e-12 * (1 + abs(least))
            return TailProfile(functools.partial(_removed, mixture), mixture.slack, smallest, math.inf)
        return TailProfile(functools.partial(_added, mixture), mixture.slack, -math.inf, self.largest)


@dataclass(frozen=True, slots=True, eq=False)
class MixturePair:
    """The one row that the rule sees."""

    mixture: Mixture
    direction: Direction
    cut: Cut | None = None

    @property
    def sigma(self) -> Array:
        return np.array([[self.mixture.sigma]])

    def curve(self, x: Array) -> MixtureCurve:
        at = self.mixture.curve(x[0])
        return MixtureCurve(at.values[None], at.slopes[None], at.errors[None], at.slope_error)

    def slope(self, x: Array) -> Array:
        return self.curve(x).slopes


@functools.lru_cache(maxsize=64)
def _row(mixture: Mixture, direction: Direction) -> MixturePair:
    return MixturePair(mixture, direction)


def _removed(mixture: Mixture, losses: Array) -> Tails:
    """Of the outcomes above x, where L is l."""
    mixed, without, error = _masses(mixture, mixture.places(losses), 1.0)
    return Tails(mixed, without, error)


def _added(mixture: Mixture, losses: Array) -> Tails:
    """Of the outcomes below x, where L is -l."""
    mixed, without, error = _masses(mixture, mixture.places(-losses), -1.0)
    return Tails(without, mixed, error)


def _masses(mixture: Mixture, x: Array, side: float) -> tuple[Array, Array, Array]:
    """P and Q of the outcomes beyond x on one side, and a bound of their relative errors (beside TINY)."""
    shifts = np.array((0.0, *mixture.shifts))[:, None]
    at = np.clip((x - shifts) / mixture.sigma, -_DEVIATIONS, _DEVIATIONS) * side
    halves = 0.5 * elementary.erfc(at * math.sqrt(0.5))
    weights = np.array((mixture.rest, *mixture.weights))[:, None]
    moved = UNIT * (16 * np.abs(at).max(axis=0) + 8 / mixture.sigma)
    far = np.maximum(at.max(axis=0), 0.0)  # the hazard of a normal law at x is at most x + 1
    error = (2 * ERFC_ULPS + len(shifts) + 8) * UNIT + 2.1 * moved * (far + 1)
    return (weights * halves).sum(axis=0), halves[0], error
