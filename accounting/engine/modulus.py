"""An upper bound of epsilon that needs no contour: Chernoff's, and one that knows how fast the transform decays.

Of two directions the second matters only where it is above the first, and mostly it is not, but by less than what a
Chernoff bound gives away: about log(c sqrt(2 pi K'')). The modulus of the transform gives most of that back:

    d(eps) <= e^{K(c) - c eps} (1/pi) int_0^inf |phi(t)| / |(c + it)(c + 1 + it)| dt

Sources: Canonne-Kamath-Steinke 2020, Proposition 12 (Chernoff); docs/proofs/engine.md, section 8 (the modulus).
"""

from __future__ import annotations

import math

import numpy as np

from dpledger.accounting.engine.bundle import bundled
from dpledger.accounting.engine.composed import Composed, TiltedComposition
from dpledger.accounting.engine.floating import UNIT
from dpledger.accounting.engine.solve import Interval
from dpledger.accounting.engine.tilt import best_of, ladder_near
from dpledger.errors import WorkLimit

__all__ = ["modulus_epsilon", "upper_epsilon"]

_STEPS = np.concatenate([np.linspace(0.0, 5.0, 36), np.geomspace(5.5, 80.0, 12)])  # in units of 1 / sqrt(K'')


def upper_epsilon(composed: Composed, log_delta: float, floor: float) -> Interval:
    """(0, an upper bound) of the least epsilon >= 0 with d(epsilon) <= e^log_delta, one that is near the least where
    that is near `floor` > 0.

    Claim: holds it. Source: the module.
    """
    composed = bundled(composed)
    ladder = ladder_near(composed, floor, log_delta)
    if ladder is None:
        return Interval(0.0, math.inf)
    upper, saddle = ladder.epsilon(log_delta), best_of(ladder, log_delta)
    if upper > floor and saddle is not None:
        try:
            tilted = composed.tilted(saddle.c)
            if _guess(tilted, log_delta) < floor:
                upper = min(upper, modulus_epsilon(tilted, log_delta))
        except WorkLimit:
            pass
    return Interval(0.0, max(0.0, upper))


def _guess(tilted: TiltedComposition, log_delta: float) -> float:
    """Epsilon as the saddle point gives it: about the least that `modulus_epsilon` can be."""
    at, c = tilted.cumulants, tilted.c
    if not at.variance > 0:
        return math.inf
    return (at.value - math.log(c) - math.log1p(c) - math.log(2 * math.pi * at.variance) / 2 - log_delta) / c


def modulus_epsilon(tilted: TiltedComposition, log_delta: float) -> float:
    """An epsilon with d(epsilon) <= e^log_delta, from the decay of the tilted law; possibly below 0.

    Claim: d(result) <= e^log_delta. Source: docs/proofs/engine.md, section 8 (the modulus).
    """
    at, c = tilted.cumulants, tilted.c
    t = _STEPS / math.sqrt(at.variance)
    decay = np.exp(tilted.log_decay(t))
    decay[0] = 1.0
    heights = decay / np.hypot(1.0, t / c) / np.hypot(1.0, t / (c + 1))
    last = float(t[-1])
    integral = float(np.diff(t) @ heights[:-1]) + float(decay[-1]) * c * ((c + 1) / last)
    log_most = at.value + at.error + math.log(integral / math.pi) - math.log(c) - math.log1p(c)
    slack = 1e-12 * (1 + abs(at.value) + abs(math.log(c)) + abs(log_most) + abs(log_delta))
    return math.nextafter((log_most - log_delta + slack) / c * (1 + 4 * UNIT), math.inf)
