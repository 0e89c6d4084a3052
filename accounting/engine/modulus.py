"""Upper bounds that need no contour: Chernoff's, and one that knows how fast the transform decays.

Of two directions the second matters only where it is above the first, and mostly it is not, but by less than what a
Chernoff bound gives away: about log(c sqrt(2 pi K'')). The modulus of the transform gives most of that back:

    d(eps) <= e^{K(c) - c eps} (1/pi) int_0^inf |phi(t)| / |(c + it)(c + 1 + it)| dt

Sources: Canonne-Kamath-Steinke 2020, Proposition 12 (Chernoff); docs/proofs/engine.md, section 8 (the modulus).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.engine.bundle import bundled
from dpledger.accounting.engine.composed import Composed, TiltedComposition, sum_up
from dpledger.accounting.engine.contour import Ladder
from dpledger.accounting.engine.solve import Interval, from_logs
from dpledger.accounting.engine.tilt import Saddle, best_of, ladder_near, ladder_of, tilt_near
from dpledger.accounting.laws.closed_moments import added_moment
from dpledger.errors import WorkLimit

__all__ = ["modulus_ladder", "upper_delta", "upper_epsilon"]

FEW_PARTS, LEAST_TILT = 8, 1e-200
SHARES = (0.75, 1.0)  # of a tilt: closed forms of K rise too steeply
_STEPS = np.concatenate([np.linspace(0.0, 5.0, 72), elementary.geometric(5.2, 80.0, 16)])  # in units of 1 / sqrt(K'')


def upper_epsilon(composed: Composed, log_delta: float, floor: float) -> Interval:
    """(0, an upper bound) of the least epsilon >= 0 with d(epsilon) <= e^log_delta, one that is near the least where
    that is near `floor` > 0.

    Claim: holds it. Source: the module.
    """
    upper = math.inf
    for ladder in _ladders(composed, floor, log_delta):
        upper = min(upper, ladder.epsilon(log_delta))
        if upper <= floor:
            break
    return Interval(0.0, max(0.0, upper))


def upper_delta(composed: Composed, epsilon: float, floor: float) -> Interval:
    """(0, an upper bound) of d(epsilon), epsilon > 0, one that is near it where it is near `floor` in (0, 1).

    Claim: holds it. Source: the module.
    """
    upper, log_floor = 0.0, scalars.log(floor)
    for ladder in _ladders(composed, epsilon, log_floor):
        upper = min(upper, ladder.log_delta(epsilon))
        if upper <= log_floor:
            break
    return Interval(0.0, from_logs(Interval(-math.inf, upper)).upper)


def _ladders(composed: Composed, epsilon: float, log_delta: float) -> Iterator[Ladder]:
    """Bounds for the neighbourhood of a point of the profile, those that cost least first."""
    tilts = [share * tilt_near(epsilon, log_delta) for share in SHARES]
    closed = [(c, _closed_moment(composed, c)) for c in tilts]
    if all(moment < math.inf for _, moment in closed):
        yield ladder_of(*np.array(closed).T)
    composed = bundled(composed)
    ladder = ladder_near(composed, epsilon, log_delta)
    if ladder is None:
        return
    yield ladder
    tilted = _worth_a_look(composed, best_of(ladder, log_delta), epsilon)
    if tilted:
        yield modulus_ladder(tilted)


def _closed_moment(composed: Composed, c: float) -> float:
    """An upper bound of K(c) in closed form; infinite where there is none."""
    if len(composed.parts) > FEW_PARTS or not LEAST_TILT < c < math.inf:
        return math.inf
    return sum_up([count * added_moment(loss, c) for loss, count in composed.parts])


def _worth_a_look(composed: Composed, saddle: Saddle | None, epsilon: float) -> TiltedComposition | None:
    """The law tilted at a saddle, where the modulus may well show that its epsilon is below this one."""
    if saddle is None:
        return None
    try:
        tilted = composed.tilted(saddle.c)
    except WorkLimit:
        return None
    at, c = tilted.cumulants, tilted.c
    if not at.variance > 0:
        return None
    log_delta = at.value - scalars.log(c) - scalars.log1p(c) - scalars.log(2 * math.pi * at.variance) / 2 - c * epsilon
    return tilted if log_delta < saddle.log_delta else None


def modulus_ladder(tilted: TiltedComposition) -> Ladder:
    """One point: the bound that the decay of the tilted law gives.

    Claim: d(eps) <= e^{log_bounds - c eps} for every eps. Source: docs/proofs/engine.md, section 8 (the modulus).
    """
    at, c = tilted.cumulants, tilted.c
    t = _STEPS / math.sqrt(at.variance)
    decay = elementary.exp(tilted.log_decay(t))
    decay[0] = 1.0
    heights = decay / elementary.hypot(1.0, t / c) / elementary.hypot(1.0, t / (c + 1))
    last = float(t[-1])
    integral = float(elementary.product(np.diff(t), heights[:-1])) + float(decay[-1]) * c * ((c + 1) / last)
    front = at.value + at.error + scalars.log(integral / math.pi) - scalars.log(c) - scalars.log1p(c)
    front += 1e-12 * (1 + abs(at.value) + abs(scalars.log(c)) + abs(front))
    return Ladder(np.array([c]), np.array([at.value + at.error]), np.array([front]))
