"""Where to put the line: the tilt c, the window W, the number of nodes, the smoothing. Nothing here needs proof: any
choice gives a valid certificate, a good one a narrow certificate. docs/proofs/engine.md, section 8."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.engine.composed import Composed, TiltedComposition, log_kappa
from dpledger.accounting.engine.saddle_point import SMOOTHED, ChernoffBounds, Contour, horizon_of
from dpledger.errors import WorkLimit

__all__ = [
    "CLOSE_MULTIPLES",
    "MOST_NODES",
    "Saddle",
    "chernoff_bounds",
    "chernoff_bounds_around",
    "choose_contour",
    "saddle_for_delta",
    "saddle_for_epsilon",
]

MULTIPLES = elementary.geometric(0.35, 2.4, 16)
CLOSE_MULTIPLES = elementary.geometric(0.8, 1.3, 24)  # where K bends sharply at the saddle
MOST_NODES = 1 << 14
MOST_WORK = 1 << 24  # nodes times losses
MOST_BURNT = 18.0  # digits (natural) that the sum may cancel: beyond, its rounding is larger than what is left
DECAY_NODES = 400  # up to here proven decay is preferred to smoothing
_COUNTS = elementary.geometric(2, MOST_NODES, 36)
CLIFF = 30.0  # of the logarithm of what is left out, from one count to the next
_ITERATIONS = 60
_NO_GAP = 1e-9  # of the least c: what does not lie ahead is not the least
_NO_TILT = 1e-9  # as good as none
_CLOSE = 0.4  # a relative step of h after which a tilt is good enough: the next one would be far smaller
_PINNED = 0.005  # a relative width of c between two of its bounds, where h all but jumps, that is narrow enough
_FIRST_STEP, _LATER_STEPS = 1e6, 5.0  # factors by which the first step and the others may move a tilt


@dataclass(frozen=True, slots=True)
class Saddle:
    """A tilt, and the point (epsilon, log delta) of the profile that it is for, roughly."""

    c: float
    epsilon: float
    log_delta: float


@functools.lru_cache(maxsize=16)
def saddle_for_delta(composed: Composed, log_delta: float, width: float) -> Saddle:
    """The c that gives the least Chernoff bound of epsilon at log_delta; `width`: the relative width
    aimed at. It is where h(c) = c K' - K + log(1 + c), which rises, reaches -log_delta."""
    best = composed.largest
    low, high = 0.0, math.inf
    bend, reach = min(loss.bend for loss, _ in composed.parts), _FIRST_STEP
    c = min(bend, _tilt_of_small_losses(composed, -log_delta))
    for _ in range(_ITERATIONS):
        at = composed.moments(c)
        chernoff = (at.value + _log_kappa(c) - log_delta) / c
        best = min(best, chernoff) if chernoff > 0 else best
        cap = 5 / (width * best) if composed.largest < math.inf and width * best > 0 else math.inf
        height = c * at.mean - at.value + scalars.log1p(c)
        low, high = (c, high) if height < -log_delta else (low, c)
        if c >= cap and height < -log_delta:
            following = max(cap, low / 4)
            at = composed.moments(following)
            return Saddle(following, (at.value + _log_kappa(following) - log_delta) / following, log_delta)
        slope = c * (c * at.variance + 1 / (1 + c))
        following = _risen(c, height, slope, -log_delta, reach)
        if c < bend < following:
            following = bend
        if low < following < high:
            if abs(following / c - 1) * max(1.0, slope / height) < _CLOSE:
                break
        else:
            following = math.sqrt(max(low, c / 5) * min(high, 4 * c))
            if abs(following / c - 1) < _PINNED:
                break
        c, reach = following, _LATER_STEPS
    value = at.value + (following - c) * (at.mean + (following - c) * at.variance / 2)
    return Saddle(following, (value + _log_kappa(following) - log_delta) / following, log_delta)


def saddle_for_epsilon(composed: Composed, epsilon: float) -> Saddle:
    """The c that gives the least Chernoff bound of delta at epsilon; not so small, where delta is close to 1, that the
    window would span many deviations."""
    still = composed.moments(_NO_TILT)
    floor = 1 / (math.sqrt(max(still.variance, 0.0)) + max(still.mean - epsilon, 0.0) / 4 + 1)
    low, high = 0.0, math.inf
    c = max(1.0, floor)
    for _ in range(_ITERATIONS):
        at = composed.moments(c)
        gap = at.mean + scalars.log(c) - scalars.log1p(c) - epsilon
        low, high = (c, high) if gap < 0 else (low, c)
        following = _newton(c, gap, at.variance + 1 / (c * (c + 1)), low, high)
        if abs(following / c - 1) < 0.02 or following > 1e12 or following < floor:
            break
        c = following
    c = max(c, floor)
    at = composed.moments(c)
    return Saddle(c, epsilon, min(0.0, at.value + _log_kappa(c) - c * epsilon))


def _tilt_of_small_losses(composed: Composed, height: float) -> float:
    """The tilt where c^2 K'' / 2 + log(1 + c) is `height` for losses so small that K'' is their variance at 0; 1 where
    they end beyond 1, and that says little."""
    variance = composed.moments(_NO_TILT).variance
    if any(1 < loss.largest < math.inf for loss, _ in composed.parts) or not (0 < variance < math.inf and height > 0):
        return 1.0
    c = math.sqrt(2 * height / variance)
    return math.sqrt(2 * max(height - scalars.log1p(c), height / 2) / variance)


def _risen(c: float, height: float, slope: float, target: float, reach: float) -> float:
    """Newton's step for log h in log c, exact where h is a power of c; at most a factor `reach`."""
    if not (height > 0 and slope > 0):
        return c * min(reach, _LATER_STEPS)
    factor = scalars.log(target / height) * height / slope if target > 0 else -math.inf
    bound = scalars.log(reach)
    return c * scalars.exp(min(max(factor, -bound), bound))


def _log_kappa(c: float) -> float:
    """`log_kappa` of one c, where nothing needs proof."""
    return -c * scalars.log1p(1 / c) - scalars.log1p(c)


def _newton(c: float, gap: float, slope: float, low: float, high: float) -> float:
    following = c - gap / slope if slope > 0 else 2 * c
    following = min(max(following, c / 5), 4 * c)
    if low < following < high:
        return following
    return math.sqrt(max(low, c / 5) * min(high, 4 * c))


def chernoff_bounds_around(composed: Composed, tilt: float, multiples: Array = MULTIPLES) -> ChernoffBounds:
    """Chernoff bounds at multiples of a tilt: bounds by themselves, and what bounds the aliases."""
    c = tilt * multiples
    return chernoff_bounds(c, composed.log_moments(c))


def chernoff_bounds(c: Array, log_moments: Array) -> ChernoffBounds:
    """The Chernoff bounds of upper bounds of K."""
    return ChernoffBounds(c, log_moments, log_moments + log_kappa(c) * (1 - 4 * UNIT) + 4 * UNIT * np.abs(log_moments))


def choose_contour(
    composed: Composed,
    saddle: Saddle,
    chernoff: ChernoffBounds,
    *,
    tolerance: float,
    width: float,
    most: int = MOST_NODES,
) -> Contour:
    """A contour for the neighbourhood of `saddle`; `tolerance`: relative error of delta aimed at by proven decay,
    `width`: relative width of epsilon aimed at by smoothing. Raises WorkLimit for more than `most` nodes."""
    best, window = _tilt_and_window(chernoff, saddle, -scalars.log(tolerance))
    tilted = composed.tilted(float(chernoff.c[best]))
    step = _thirty_bits(2 * math.pi / window)
    count, mu_squared = _nodes_and_smoothing(tilted, saddle, step, tolerance, width)
    if count > most or count * len(composed.parts) > MOST_WORK:
        raise WorkLimit(f"a contour of {len(composed.parts)} losses needs {count} nodes: too many")
    return Contour(tilted, chernoff, step=step, count=count, mu_squared=mu_squared)


def _tilt_and_window(chernoff: ChernoffBounds, saddle: Saddle, digits: float) -> tuple[int, float]:
    """One of the Chernoff bounds, but the last three, whose window costs least; the window: long enough for the aliases
    behind, and for those ahead by the best of the points above."""
    c, target = chernoff.c, saddle.log_delta
    excess = chernoff.log_bounds - c * saddle.epsilon - target + digits + 2
    ahead = (excess / np.maximum(c - c[:-3, None], _NO_GAP * c[0])).min(axis=1)
    windows = np.maximum((digits + 1 - target) / c[:-3], ahead)
    burnt = chernoff.log_moments[:-3] - c[:-3] * saddle.epsilon - target
    spent = np.maximum(0.0, burnt - 4) / 2 + elementary.exp(np.minimum(burnt - MOST_BURNT, 300.0))
    best = int(np.argmin(windows * (1 + spent)))
    return best, float(windows[best])


def _nodes_and_smoothing(
    tilted: TiltedComposition, saddle: Saddle, step: float, tolerance: float, width: float
) -> tuple[int, float]:
    c = tilted.c
    deviation = max(math.sqrt(max(tilted.cumulants.variance, 0.0)), 1 / c)
    window = 2 * math.pi / step
    burnt = tilted.cumulants.value - c * saddle.epsilon - saddle.log_delta
    plain = scalars.log(0.3 / (c * (c + 1)) * max(1.0, window / (20 * deviation)))
    target = scalars.log(tolerance) + min(plain, scalars.log(window) - max(burnt, 0.0))
    few = step * _COUNTS[: _COUNTS.searchsorted(DECAY_NODES) + 1]  # most often so many are enough
    decaying = _first_below(tilted.log_decay(few) + elementary.log(2 / (step * few)), target)
    if decaying <= DECAY_NODES:
        return decaying, 0.0
    t = step * _COUNTS
    everywhere = tilted.log_decay(t)
    kernel = elementary.log(2 / (step * t))
    decaying = _first_below(everywhere + kernel, target)
    mu_squared = min(0.25 * width * max(saddle.epsilon, 1 / c) / (c + 1), 0.2 / (c * (c + 1)), 1.0)
    smooth = kernel - mu_squared / 2 * t * t
    smoothed = _first_below(everywhere + smooth, target)
    if decaying <= 3 * smoothed and decaying < MOST_NODES:
        return decaying, 0.0
    most = _most_smoothing(0.25 * width * max(saddle.epsilon, 1 / c) / (c + 1), c)
    count = min(smoothed, _nodes_to_horizon(tilted, (everywhere, kernel), t, target, mu_squared))
    if count == MOST_NODES and most > mu_squared:
        return _nodes_to_horizon(tilted, (everywhere, kernel), t, target, most), most
    return count, mu_squared


def _nodes_to_horizon(
    tilted: TiltedComposition, known: tuple[Array, Array], t: Array, target: float, mu_squared: float
) -> int:
    """How many nodes, where decay is asked for up to the horizon of the smoothing, which does the rest. `known`: the
    decay for ever, and the kernel."""
    (everywhere, kernel), horizon = known, horizon_of(mu_squared, 0.0)
    near = elementary.logaddexp(tilted.log_decay(t, horizon), mu_squared / 2 * t * t - scalars.square(SMOOTHED) / 2)
    decays = np.where(t <= 0.7 * horizon, np.minimum(everywhere, near), everywhere)
    return _first_below(decays + kernel - mu_squared / 2 * t * t, target)


def _most_smoothing(share: float, c: float) -> float:
    """The largest mu^2, about, whose bump mu^2 e^{mu^2/8} is at most `share`, and which moves K little."""
    if share < 100:
        return 0.0
    return min(8 * scalars.log(share / (8 * scalars.log(share))), 0.2 / (c * (c + 1)))


def _first_below(values: Array, target: float) -> int:
    """How many nodes until `values`, at the _COUNTS, fall below the target: between two, by interpolation, but for a
    fall so steep that it may all lie at the end."""
    below = np.flatnonzero(values <= target)
    if below.size == 0:
        return MOST_NODES
    i = int(below[0])
    if i == 0:
        return math.ceil(float(_COUNTS[0]))
    above, under = float(values[i - 1]), float(values[i])
    share = (above - target) / (above - under) if above - under < CLIFF else 1.0
    few, many = float(_COUNTS[i - 1]), float(_COUNTS[i])
    return min(MOST_NODES, math.ceil(few + share * (many - few)))


def _thirty_bits(step: float) -> float:
    """`step` rounded down to 30 significant bits: its multiples up to 2^23 are exact."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, 30)), exponent - 30)
