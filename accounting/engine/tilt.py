"""Where to put the line: the tilt c, the window W, the number of nodes, the smoothing. Nothing here needs proof: any
choice gives a valid certificate, a good one a narrow certificate. docs/proofs/engine.md, section 8."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.engine.composed import Composed, TiltedComposition, log_kappa
from dpledger.accounting.engine.contour import Contour, Ladder
from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.errors import WorkLimit

__all__ = ["Saddle", "choose_contour", "ladder_around", "saddle_for_delta", "saddle_for_epsilon"]

MULTIPLES = np.geomspace(0.35, 2.4, 16)
MOST_NODES = 1 << 14
MOST_WORK = 1 << 22  # nodes times losses
FEW_NODES = 400  # up to here proven decay is preferred to smoothing
_ITERATIONS = 60
_NO_TILT = 1e-9  # as good as none


@dataclass(frozen=True, slots=True)
class Saddle:
    """A tilt, and the point (epsilon, log delta) of the profile that it is for, roughly."""

    c: float
    epsilon: float
    log_delta: float


def saddle_for_delta(composed: Composed, log_delta: float, width: float, most: float = math.inf) -> Saddle:
    """The c, up to `most`, that gives the least Chernoff bound of epsilon at log_delta; `width`: the relative width
    aimed at."""
    best = min(composed.largest, math.inf)
    low, high = 0.0, math.inf
    c = min(most, _first_guess(composed, log_delta))
    for _ in range(_ITERATIONS):
        at = composed.moments(c)
        chernoff = (at.value + float(log_kappa(c)) - log_delta) / c
        best = min(best, chernoff) if chernoff > 0 else best
        cap = 5 / (width * best) if composed.largest < math.inf and best > 0 else math.inf
        gap = c * at.mean - at.value + math.log1p(c) + log_delta
        low, high = (c, high) if gap < 0 else (low, c)
        if c >= min(cap, most) and gap < 0:
            c = min(most, max(cap, low / 4))
            break
        following = min(most, _newton(c, gap, c * at.variance + 1 / (1 + c), low, high))
        if abs(following / c - 1) < 0.02:
            c = following
            break
        c = following
    at = composed.moments(c)
    return Saddle(c, (at.value + float(log_kappa(c)) - log_delta) / c, log_delta)


def saddle_for_epsilon(composed: Composed, epsilon: float) -> Saddle:
    """The c that gives the least Chernoff bound of delta at epsilon; not so small, where delta is close to 1, that the
    window would span many deviations."""
    still = composed.moments(_NO_TILT)
    floor = 1 / (4 * math.sqrt(max(still.variance, 0.0)) + max(still.mean - epsilon, 0.0) + 1)
    low, high = 0.0, math.inf
    c = max(1.0, floor)
    for _ in range(_ITERATIONS):
        at = composed.moments(c)
        gap = at.mean + math.log(c) - math.log1p(c) - epsilon
        low, high = (c, high) if gap < 0 else (low, c)
        following = _newton(c, gap, at.variance + 1 / (c * (c + 1)), low, high)
        if abs(following / c - 1) < 0.02 or following > 1e12 or following < floor:
            break
        c = following
    c = max(c, floor)
    at = composed.moments(c)
    return Saddle(c, epsilon, min(0.0, at.value + float(log_kappa(c)) - c * epsilon))


def _first_guess(composed: Composed, log_delta: float) -> float:
    variance = composed.moments(1.0).variance
    guess = math.sqrt(2 * max(-log_delta, 0.1) / variance) if variance > 0 else 1.0
    return min(max(guess, 1e-6), 1e6)


def _newton(c: float, gap: float, slope: float, low: float, high: float) -> float:
    following = c - gap / slope if slope > 0 else 2 * c
    following = min(max(following, c / 5), 4 * c)
    if low < following < high:
        return following
    return math.sqrt(max(low, c / 5) * min(high, 4 * c))


def ladder_around(composed: Composed, saddle: Saddle) -> Ladder:
    """Chernoff bounds at multiples of the saddle's c: bounds by themselves, and what bounds the aliases."""
    c = saddle.c * MULTIPLES
    log_moments = composed.log_moments(c)
    return Ladder(c, log_moments, log_moments + log_kappa(c) * (1 - 4 * UNIT) + 4 * UNIT * np.abs(log_moments))


def choose_contour(composed: Composed, saddle: Saddle, ladder: Ladder, *, tolerance: float, width: float) -> Contour:
    """A contour for the neighbourhood of `saddle`; `tolerance`: relative error of delta aimed at by proven decay,
    `width`: relative width of epsilon aimed at by smoothing."""
    best, window = _tilt_and_window(ladder, saddle, -math.log(tolerance))
    tilted = composed.tilted(float(ladder.c[best]))
    step = _thirty_bits(2 * math.pi / window)
    count, mu_squared = _nodes_and_smoothing(tilted, saddle, step, tolerance, width)
    if count * len(composed.parts) > MOST_WORK:
        raise WorkLimit(f"{len(composed.parts)} losses need {count} nodes each: more than {MOST_WORK} in all")
    return Contour(tilted, ladder, step=step, count=count, mu_squared=mu_squared)


def _tilt_and_window(ladder: Ladder, saddle: Saddle, digits: float) -> tuple[int, float]:
    c, target = ladder.c, saddle.log_delta
    excess = ladder.log_bounds - c * saddle.epsilon - target + digits + 2
    best, best_cost, best_window = 0, math.inf, math.inf
    for i in range(len(c) - 3):
        behind = (digits + 1 - target) / c[i]
        ahead = float(np.min(excess[i + 1 :] / (c[i + 1 :] - c[i])))
        window = max(float(behind), ahead)
        burnt = float(ladder.log_moments[i] - c[i] * saddle.epsilon - target)
        cost = window * (1 + max(0.0, burnt - 4) / 2)
        if cost < best_cost:
            best, best_cost, best_window = i, cost, window
    return best, best_window


def _nodes_and_smoothing(
    tilted: TiltedComposition, saddle: Saddle, step: float, tolerance: float, width: float
) -> tuple[int, float]:
    c = tilted.c
    deviation = max(math.sqrt(max(tilted.cumulants.variance, 0.0)), 1 / c)
    main = 0.3 / (c * (c + 1)) * max(1.0, 2 * math.pi / step / (20 * deviation))
    t = step * np.geomspace(2, MOST_NODES, 120)
    left_out = tilted.log_decay(t) + np.log(2 / (step * t))
    target = math.log(tolerance * main)
    decaying = _first_below(left_out, t, step, target)
    mu_squared = min(0.3 * width * max(saddle.epsilon, 1 / c) / (c + 1), 0.2 / (c * (c + 1)), 1.0)
    smoothed = _first_below(left_out - mu_squared * t * t / 2, t, step, target)
    if decaying <= max(3 * smoothed, FEW_NODES) and decaying < MOST_NODES:
        return decaying, 0.0
    return smoothed, mu_squared


def _first_below(values: Array, t: Array, step: float, target: float) -> int:
    below = np.flatnonzero(values <= target)
    return MOST_NODES if below.size == 0 else min(MOST_NODES, math.ceil(t[below[0]] / step) + 1)


def _thirty_bits(step: float) -> float:
    """`step` rounded down to 30 significant bits: its multiples up to 2^23 are exact."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, 30)), exponent - 30)
