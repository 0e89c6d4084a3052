"""From certified bounds of log delta to certified bounds of epsilon: search freely, then verify both ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.engine.composed import Composed, bundled
from dpledger.accounting.engine.tilt import (
    CLOSE_MULTIPLES,
    MOST_NODES,
    Saddle,
    chernoff_bounds_around,
    choose_contour,
    saddle_for_delta,
)
from dpledger.accounting.laws.intervals import Interval
from dpledger.errors import WorkLimit

__all__ = ["finite_epsilon", "is_at_most", "logs_of", "solved"]

TOLERANCE = 1e-8
WIDTH = 2e-4
SHARP = 1e-7  # relative width that is tried for once more where nothing is smoothed
ATTEMPTS = 3
ROUGH, MOST_ROUGH = 1e-3, 1 << 9  # the tolerance and the nodes of a contour that need only tell which is larger
_SETTLED = 3e-5  # a step of Newton's method in log delta after which the next would be below its rounding
_STEPS = 24  # doublings of the distance before an end is given up


def logs_of(down: float, up: float) -> tuple[float, float]:
    """Logarithms, rounded outward."""
    low, high = scalars.log(down), scalars.log(up)
    return low - 2 * UNIT * abs(low), high + 2 * UNIT * abs(high)


def finite_epsilon(composed: Composed, log_delta_down: float, log_delta_up: float, most: int = MOST_NODES) -> Interval:
    """Bounds of the least epsilon >= 0 with d(epsilon) <= delta, d the profile of the finite loss. By contours of at
    most `most` nodes each.

    Claim: the upper bound holds for every delta >= e^log_delta_down, the lower for every delta <= e^log_delta_up.
    Source: docs/proofs/engine.md, sections 1 and 2.
    """
    composed = bundled(composed)
    found = Interval(0.0, max(0.0, composed.largest))
    try:
        saddle = saddle_for_delta(composed, log_delta_down, WIDTH)
        chernoff = chernoff_bounds_around(composed, saddle.c)
        found = found.meet(Interval(0.0, max(0.0, chernoff.epsilon(log_delta_down))))
        tolerance, width = TOLERANCE, WIDTH
        guess = saddle.epsilon - scalars.log(max(1.0, -2 * log_delta_down)) / (2 * saddle.c)  # what Chernoff gives away
        for _ in range(ATTEMPTS):
            contour = choose_contour(composed, saddle, chernoff, tolerance=tolerance, width=width, most=most)
            found = found.meet(solved(contour, found, guess, log_delta_down, log_delta_up))
            sharp = SHARP + 2 * (log_delta_up - log_delta_down) / max(contour.c * found.upper, 1e-300)
            if found.relative_width() <= (WIDTH if contour.mu_squared else min(WIDTH, sharp)) or found.upper <= 0:
                break
            guess = _middle(found, saddle)
            saddle = Saddle(saddle.c, guess, saddle.log_delta)
            chernoff = chernoff_bounds_around(composed, saddle.c, CLOSE_MULTIPLES)
            tolerance, width = tolerance * 1e-3, width / 4
    except WorkLimit:
        return found
    return found


def is_at_most(composed: Composed, log_delta: float, epsilon: float) -> bool:
    """Whether Chernoff bounds, or the upper sum of one rough contour, show that d(epsilon) <= e^log_delta, epsilon > 0.

    Claim: true only where it is. Source: docs/proofs/engine.md, sections 2 and 8."""
    composed = bundled(composed)
    try:
        saddle = saddle_for_delta(composed, log_delta, WIDTH)
        chernoff = chernoff_bounds_around(composed, saddle.c)
        if chernoff.log_delta(epsilon) <= log_delta:
            return True
        contour = choose_contour(composed, saddle, chernoff, tolerance=ROUGH, width=WIDTH, most=MOST_ROUGH)
        return contour.bounds(epsilon).upper <= log_delta
    except WorkLimit:
        return False


def _middle(found: Interval, saddle: Saddle) -> float:
    """Where to look next: the middle of what was found, or, where that is wide, its upper end."""
    if found.upper == math.inf:
        return saddle.epsilon
    return (found.lower + found.upper) / 2 if found.relative_width() < 0.01 else found.upper


class LogDelta(Protocol):
    """log d(epsilon): bounds, estimates with the derivative, and how far from a guess they may be asked for."""

    @property
    def c(self) -> float: ...
    @property
    def window(self) -> float: ...
    def estimate(self, epsilon: float) -> tuple[float, float]: ...
    def bounds(self, epsilon: float) -> Interval: ...


def solved(contour: LogDelta, found: Interval, guess: float, log_down: float, log_up: float) -> Interval:
    """Both ends of epsilon, each a float at which the bounds were evaluated."""
    upper = found.upper
    start, slope = _newton(contour, min(guess, upper), log_down)
    if start <= 0 and contour.bounds(0.0).upper <= log_down:
        return Interval(0.0, 0.0)
    here = contour.bounds(start)
    above = _walk(start, slope, here.upper - log_down, lambda e: contour.bounds(e).upper - log_down, 1.0, upper)
    below = _walk(start, slope, log_up - here.lower, lambda e: log_up - contour.bounds(e).lower, -1.0, found.lower)
    return Interval(max(0.0, below), max(0.0, min(upper, above)))


def _newton(contour: LogDelta, epsilon: float, log_delta: float) -> tuple[float, float]:
    """A root of log S(eps) = log_delta, and the slope there."""
    slope = -contour.c
    for _ in range(40):
        value, slope = contour.estimate(epsilon)
        if math.isnan(value) or not slope < 0:
            return max(epsilon, 0.0), -contour.c
        move = (log_delta - value) / slope
        move = min(max(move, -contour.window / 4), contour.window / 4)
        epsilon += move
        if abs(move) <= 1e-13 * abs(epsilon) or abs(move * slope) < _SETTLED:
            break
    return epsilon, slope


def _walk(start: float, slope: float, gap: float, excess: Callable[[float], float], sign: float, limit: float) -> float:
    """The first point from `start`, where the excess is `gap`, in the direction `sign` with an `excess` that is not
    positive; `limit` if none is."""
    at, distance = start, 0.0
    for attempt in range(_STEPS):
        if sign * (limit - at) <= 0:
            return limit
        if gap <= 0:
            return at
        step = gap / -slope if math.isfinite(gap) else max(abs(at) * 1e-9, 1e-12) * 4.0**attempt
        distance = max(2 * distance, 1.001 * step, abs(at) * 2.0**-52)
        at = start + sign * distance
        gap = excess(at)
    return limit
