"""Which method answers: the hand-over from a list of ingredients to certified bounds.

    what is asked                                     answered by
    epsilon at delta = 0, delta at or below           the edges: the largest loss, or infinite
      the mass at infinity
    everything else                                   the contour (`solve`)
    leaves with Renyi curves only, in addition        upper bound from the curves (`renyi`), lower bound without them

Intervals for one number are intersected, never averaged.
"""

from __future__ import annotations

import math

from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.floating import UNIT
from dpledger.accounting.engine.renyi import curve_ladder, log_finite_of_curves
from dpledger.accounting.engine.solve import Interval, finite_delta, finite_epsilon
from dpledger.accounting.laws.reading import Ingredients

__all__ = ["delta_interval", "epsilon_interval"]

NOTHING = Interval(0.0, 0.0)
_CLOSE = 1e-14  # relative: nearer than this to the mass at infinity, epsilon is reported as unbounded


def epsilon_interval(what: Ingredients, delta_down: float, delta_up: float) -> Interval:
    """Bounds of the least epsilon >= 0 with delta(epsilon) <= delta.

    Claim: the upper bound holds for every delta >= delta_down, the lower for every delta <= delta_up.
    Source: docs/proofs/engine.md, sections 1 and 8.
    """
    composed = Composed(what.losses) if what.losses else None
    lower = _from_losses(composed, delta_down, delta_up)
    if not what.curves:
        return lower
    return Interval(lower.lower, _from_curves(composed, what, delta_down))


def _from_losses(composed: Composed | None, delta_down: float, delta_up: float) -> Interval:
    if composed is None:
        return NOTHING
    if delta_down >= 1:
        return NOTHING
    mass = composed.infinite_mass
    if delta_up < mass * (1 - _CLOSE):
        return Interval(math.inf, math.inf)
    above = _finite_part(delta_up, mass, 1.0)
    below = _finite_part(delta_down, mass, -1.0)
    if above >= 1:
        found = Interval(0.0, composed.largest)
    elif above > 0:
        found = finite_epsilon(composed, math.log(below if below > 0 else above), math.log(above))
    else:
        found = finite_epsilon(composed, -800.0, -800.0) if mass == 0 else Interval(0.0, math.inf)
        found = Interval(found.lower, composed.largest)
    if below > 0:
        return found
    return Interval(found.lower, composed.largest if mass == 0 else math.inf)


def _finite_part(delta: float, mass: float, side: float) -> float:
    """(delta - m)/(1 - m), moved outward (`side`) by more than its rounding; 0 where delta is not clearly above m."""
    if mass == 0:
        return delta * (1 + side * 4 * UNIT)
    if delta <= mass * (1 + _CLOSE):
        return 0.0
    value = (delta - mass) / (1 - mass)
    return value * (1 + side * 16 * UNIT * (delta / (delta - mass) + 1))


def _from_curves(composed: Composed | None, what: Ingredients, delta_down: float) -> float:
    """Claim: at least the least epsilon >= 0 with delta(epsilon) <= delta_down."""
    log_finite = log_finite_of_curves(what.curves) + (composed.log_finite if composed else 0.0)
    below = _finite_part(delta_down, -math.expm1(log_finite), -1.0)
    if below <= 0:
        return math.inf
    return max(0.0, curve_ladder(composed, what.curves).epsilon(math.log(below)))


def delta_interval(what: Ingredients, epsilon: float) -> Interval:
    """Bounds of delta(epsilon), epsilon >= 0, in [0, 1].

    Claim: lower <= delta(epsilon) <= upper. Source: docs/proofs/engine.md, sections 1 and 8.
    """
    composed = Composed(what.losses) if what.losses else None
    alone = _delta_of_losses(composed, epsilon)
    if not what.curves:
        return alone
    log_finite = log_finite_of_curves(what.curves) + (composed.log_finite if composed else 0.0)
    log_delta = curve_ladder(composed, what.curves).log_delta(epsilon)
    return Interval(alone.lower, _with_mass(log_delta, log_finite, 1.0))


def _delta_of_losses(composed: Composed | None, epsilon: float) -> Interval:
    if composed is None:
        return NOTHING
    logs = finite_delta(composed, epsilon)
    lower = _with_mass(logs.lower, composed.log_finite, -1.0)
    return Interval(lower, _with_mass(logs.upper, composed.log_finite, 1.0))


def _with_mass(log_finite_delta: float, log_finite: float, side: float) -> float:
    """m + (1 - m) d from log d and log(1 - m), moved outward by more than its rounding."""
    finite = math.exp(min(log_finite_delta, 0.0)) * (1 + side * 4 * UNIT * (1 + abs(max(log_finite_delta, -1e4))))
    value = -math.expm1(log_finite) + math.exp(log_finite) * finite
    moved = math.nextafter(value * (1 + side * 16 * UNIT), side * math.inf)
    return min(1.0, moved) if side > 0 else (moved if moved > 0 else 0.0)
