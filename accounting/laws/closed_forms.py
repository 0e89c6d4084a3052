"""Exact profiles of one mechanism, run once; delta at many epsilons at once.

    sampled, remove    delta = q base(log(1 + (e^eps - 1)/q))                             Balle-Barthe-Gaboardi 2018
    sampled, add       delta = r base(log(q e^eps / r)), r = 1 - (1-q) e^eps              the same, turned round

where `base` is the profile of what is sampled. Proofs: docs/proofs/engine.md, section 7.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, down, rounded_out, up
from dpledger.accounting.laws.intervals import NOTHING, Interval
from dpledger.accounting.laws.law import ClosedForm, Deltas, Direction

__all__ = [
    "at_one",
    "at_the_ends",
    "crossing",
    "linear_tail_delta",
    "linear_tail_epsilon",
    "nearest",
    "sampled_closed",
]

_LARGEST_POWER = 700.0  # e^700 is a float
_NEGLIGIBLE = 60.0  # e^-60 is nothing beside 1
_HALVINGS = 60
_DOUBLINGS = 18  # of the distance, fourfold each
_FINE = 1e-10  # relative width at which a bracket is narrow enough


def linear_tail_delta(e0: float, epsilons: Array) -> tuple[Array, Array]:
    """Bounds of delta 1 - e^{(eps - e0)/2} at each epsilon >= 0."""
    error = 4 * UNIT * (e0 + epsilons)  # of the exponent, the rounding of e0 included
    lower, upper = (-elementary.expm1(np.minimum((epsilons - e0) / 2 + side, 0.0)) for side in (error, -error))
    beyond = epsilons >= up(e0 * (1 + 4 * UNIT))
    below, above = rounded_out(lower, np.where(beyond, 0.0, upper))
    return below, np.where(beyond, 0.0, above)


def linear_tail_epsilon(e0: float, delta_down: float, delta_up: float) -> Interval:
    """epsilon(delta) where delta = 1 - e^{(eps - e0)/2}: e0 + 2 log(1 - delta)."""
    slack = 8 * UNIT * e0
    lower = e0 + 2 * scalars.log1p(-delta_up) * (1 + 8 * UNIT) - slack if delta_up < 1 else 0.0
    upper = e0 + 2 * scalars.log1p(-delta_down) * (1 - 8 * UNIT) + slack if delta_down < 1 else 0.0
    return Interval(lower if lower > 0 else 0.0, upper if upper > 0 else 0.0)


def at_one(deltas: Deltas, epsilon: float) -> Interval:
    """What holds at one epsilon."""
    lower, upper = deltas(np.array([epsilon]))
    return Interval(float(lower[0]), float(upper[0]))


def at_the_ends(
    answer: Callable[[float, float], Interval], ends: tuple[float, float], down: float, up: float
) -> Interval:
    """Bounds of the least epsilon >= 0 for a delta from `down` to `up`; `answer` knows those in (0, 1). `ends`:
    the largest loss, rounded down and up."""
    if up >= 1:
        return NOTHING if down >= 1 else Interval(0.0, at_the_ends(answer, ends, down, down).upper)
    if down <= 0:
        lower = at_the_ends(answer, ends, up, up).lower if up > 0 else max(0.0, ends[0])
        return Interval(lower, max(0.0, ends[1]))
    return answer(down, up)


def sampled_closed(
    base: ClosedForm,
    ends: tuple[float, float],
    *,
    rate: float,
    direction: Direction,
    largest: float,
    guess: Callable[[float], float] | None,
) -> ClosedForm:
    """The profile of one run on a Poisson sample, from that of what is sampled, whose largest loss is between `ends`.
    `largest`: that of the sample. `guess`: where delta(epsilon) is about so much, in the direction add."""
    sampled = removed_delta if direction == "remove" else added_delta
    deltas = functools.partial(sampled, rate, base.deltas)

    def removed(down: float, up: float) -> Interval:
        whole = functools.partial(at_the_ends, base.epsilon, ends)
        return removed_epsilon(rate, lambda d, u: NOTHING if d >= 1 else whole(d, u), down, up)

    def added(down: float, up: float) -> Interval:
        if at_one(deltas, 0.0).upper <= down:
            return NOTHING
        if guess is not None:
            return nearest(deltas, down, up, guess(down), Interval(0.0, largest))
        return crossing(deltas, down, up, 0.0, largest)

    return ClosedForm(deltas, removed if direction == "remove" else added)


def removed_epsilon(
    rate: float, base: Callable[[float, float], Interval], delta_down: float, delta_up: float
) -> Interval:
    """epsilon(delta) in the direction remove; `base(delta_down, delta_up)` is that of what is sampled."""
    least, most = down(delta_down / rate * (1 - 4 * UNIT)), up(delta_up / rate * (1 + 4 * UNIT))
    wide = base(min(1.0, max(least, 0.0)), min(1.0, most))
    return Interval(_mixed(rate, wide.lower, -1.0), _mixed(rate, wide.upper, 1.0))


def _mixed(rate: float, epsilon: float, side: float) -> float:
    """log(1 + q (e^eps - 1)), moved outward."""
    if epsilon > 700:
        value = epsilon + scalars.log(rate)
        return value + side * 16 * UNIT * (epsilon + abs(scalars.log(rate))) if math.isfinite(value) else value
    return scalars.log1p(rate * scalars.expm1(epsilon)) * (1 + side * 16 * UNIT)


def removed_delta(rate: float, base: Deltas, epsilons: Array) -> tuple[Array, Array]:
    """Bounds of delta in the direction remove at each epsilon >= 0; `base` bounds that of what is sampled."""
    distance = -scalars.log(rate)
    far = max(_LARGEST_POWER - distance, _NEGLIGIBLE)  # beyond, the quotient may overflow: a sum of logarithms
    inner = np.where(
        epsilons > far, epsilons + distance, elementary.log1p(elementary.expm1(np.minimum(epsilons, far)) / rate)
    )
    error = 16 * UNIT * (inner + distance + 1)
    lower, upper = base(inner + error)[0], base(np.fmax(0.0, inner - error))[1]
    return rounded_out(lower * rate, upper * rate)


def added_delta(rate: float, base: Deltas, epsilons: Array) -> tuple[Array, Array]:
    """Bounds of delta in the direction add at each epsilon >= 0; `base` bounds that of what is sampled."""
    near = np.minimum(epsilons, _LARGEST_POWER)
    gain = (1 - rate) * elementary.expm1(near)
    error = 16 * UNIT * (rate + gain) + 4 * UNIT * elementary.exp(near) * rate
    least, most = rate - gain - error, rate - gain + error
    some, surely = (most > 0) & (epsilons <= _LARGEST_POWER), (least > 0) & (epsilons <= _LARGEST_POWER)
    lower, upper = np.zeros(epsilons.shape), np.zeros(epsilons.shape)
    upper[some] = most[some] * base(np.fmax(0.0, _inner(rate, epsilons[some], most[some], -1.0)))[1]
    lower[surely] = least[surely] * base(_inner(rate, epsilons[surely], least[surely], 1.0))[0]
    below, above = rounded_out(lower, upper)
    return below, np.where(some, above, 0.0)


def _inner(rate: float, epsilons: Array, remainders: Array, side: float) -> Array:
    """log(q e^eps / r), moved outward."""
    added = elementary.log(rate / remainders)
    moved: Array = epsilons + added + side * 16 * UNIT * (1 + epsilons + np.abs(added))
    return moved


def nearest(answer: Deltas, delta_down: float, delta_up: float, guess: float, known: Interval) -> Interval:
    """As `crossing`, from a guess of the root: outward on both sides until `answer` decides, or `known` ends.

    Claim, Assumes: those of `crossing`.
    """
    lower, upper = math.inf, -math.inf  # not decided yet
    for k in range(_DOUBLINGS):
        before, after = guess * (1 - _FINE * 4.0**k), guess * (1 + _FINE * 4.0**k)
        least, most = answer(np.array([before, after]))
        if lower == math.inf and (before <= known.lower or least[0] >= delta_up):
            lower = max(before, known.lower)
        if upper == -math.inf and (after >= known.upper or most[1] <= delta_down):
            upper = min(after, known.upper)
        if lower < math.inf and upper > -math.inf:
            break
    return Interval(lower if lower < math.inf else known.lower, upper if upper > -math.inf else known.upper)


def crossing(
    answer: Deltas, delta_down: float, delta_up: float, low: float, high: float, *, at_once: int = 31
) -> Interval:
    """Bounds of the least epsilon in [low, high] with delta(epsilon) <= delta: `answer` bounds delta `at_once` points
    at a time, between the nearest ones that it decided and, where some are undecided, on both sides of those.

    Claim: the upper bound holds for every delta >= delta_down, the lower for every delta <= delta_up.
    Assumes: delta falls; `low` and `high` are bounds already.
    """
    lower, upper = low, high
    first, last = high, low  # the outermost undecided points: none while they are in this order
    shares = np.arange(1, at_once + 1) / (at_once + 1)
    for _ in range(_HALVINGS):
        gaps = [(lower, upper)] if first > last else [(lower, first), (last, upper)]
        wide = [(left, right) for left, right in gaps if right - left > _FINE * max(right, 1e-300)]
        if not wide:
            break
        points = np.concatenate([left + (right - left) * shares for left, right in wide])
        least, most = answer(points)
        good, bad = most <= delta_down, least >= delta_up
        upper = min(upper, float(np.min(points, initial=upper, where=good)))
        lower = max(lower, float(np.max(points, initial=lower, where=bad)))
        undecided = ~(good | bad)
        first = max(lower, min(first, float(np.min(points, initial=first, where=undecided))))
        last = min(upper, max(last, float(np.max(points, initial=last, where=undecided))))
    return Interval(lower, upper)
