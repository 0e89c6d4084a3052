"""Exact profiles of one mechanism, run once.

    Laplace            delta = 1 - e^{(eps - e0)/2}, 0 <= eps <= e0                       Balle-Wang 2018, section 3
    bounded range      delta = (1 - e^{(eps - eta)/2})^2 / (1 - e^-eta), 0 <= eps <= eta  Dong-Durfee-Rogers 2020
    sampled, remove    delta = q base(log(1 + (e^eps - 1)/q))                             Balle-Barthe-Gaboardi 2018
    sampled, add       delta = r base(log(q e^eps / r)), r = 1 - (1-q) e^eps              the same, turned round

where `base` is the profile of what is sampled. Proofs: docs/proofs/engine.md, section 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpledger.accounting.engine.solve import Interval
from dpledger.accounting.floating import UNIT, down, lowered, raised, up

__all__ = [
    "added_delta",
    "bounded_range_delta",
    "bounded_range_epsilon",
    "crossing",
    "guessed_addition",
    "laplace_delta",
    "laplace_epsilon",
    "nearest",
    "removed_delta",
    "removed_epsilon",
]

_HALVINGS = 60
_DOUBLINGS = 18  # of the distance, fourfold each
_FINE = 1e-10  # relative width at which a bracket is narrow enough


def laplace_delta(e0: float, epsilon: float) -> Interval:
    """delta(epsilon) of one Laplace release, epsilon >= 0."""
    if epsilon >= up(e0 * (1 + 4 * UNIT)):
        return Interval(0.0, 0.0)
    error = 4 * UNIT * (e0 + epsilon)  # of the exponent, the rounding of e0 included
    lower, upper = -math.expm1(min(0.0, (epsilon - e0) / 2 + error)), -math.expm1((epsilon - e0) / 2 - error)
    return Interval(lowered(lower, 8 * UNIT), min(1.0, raised(upper, 8 * UNIT)))


def laplace_epsilon(e0: float, delta_down: float, delta_up: float) -> Interval:
    """epsilon(delta) of one Laplace release: e0 + 2 log(1 - delta)."""
    slack = 8 * UNIT * e0
    lower = e0 + 2 * math.log1p(-delta_up) * (1 + 8 * UNIT) - slack if delta_up < 1 else 0.0
    upper = e0 + 2 * math.log1p(-delta_down) * (1 - 8 * UNIT) + slack if delta_down < 1 else 0.0
    return Interval(lower if lower > 0 else 0.0, upper if upper > 0 else 0.0)


def bounded_range_delta(eta: float, epsilon: float) -> Interval:
    """delta(epsilon) of the envelope of eta-bounded range, epsilon >= 0."""
    root = laplace_delta(eta, epsilon)
    if root.upper == 0:
        return root
    whole = -math.expm1(-eta)
    return Interval(lowered(root.lower**2 / whole, 8 * UNIT), min(1.0, raised(root.upper**2 / whole, 8 * UNIT)))


def bounded_range_epsilon(eta: float, delta_down: float, delta_up: float) -> Interval:
    """epsilon(delta) of the envelope: eta + 2 log(1 - sqrt(delta (1 - e^-eta)))."""
    whole = -math.expm1(-eta)
    least, most = math.sqrt(delta_down * whole) * (1 - 8 * UNIT), math.sqrt(delta_up * whole) * (1 + 8 * UNIT)
    return laplace_epsilon(eta, least, most)


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
        value = epsilon + math.log(rate)
        return value + side * 16 * UNIT * (epsilon + abs(math.log(rate))) if math.isfinite(value) else value
    return math.log1p(rate * math.expm1(epsilon)) * (1 + side * 16 * UNIT)


def removed_delta(rate: float, base: Callable[[float], Interval], epsilon: float) -> Interval:
    """delta(epsilon) in the direction remove, epsilon >= 0; `base(epsilon)` bounds that of what is sampled."""
    if epsilon > 700:
        inner, error = epsilon - math.log(rate), 16 * UNIT * (epsilon + abs(math.log(rate)))
    else:
        inner = math.log1p(math.expm1(epsilon) / rate)
        error = 16 * UNIT * (inner + 1)
    lower, upper = base(inner + error).lower, base(max(0.0, inner - error)).upper
    return Interval(lowered(lower * rate, 4 * UNIT), raised(upper * rate, 4 * UNIT))


def added_delta(rate: float, base: Callable[[float], Interval], epsilon: float) -> Interval:
    """delta(epsilon) in the direction add, epsilon >= 0; `base(epsilon)` bounds that of what is sampled."""
    if epsilon > 700:
        return Interval(0.0, 0.0)
    gain = (1 - rate) * math.expm1(epsilon)
    error = 8 * UNIT * (rate + gain) + 4 * UNIT * math.exp(epsilon) * rate
    least, most = rate - gain - error, rate - gain + error
    if most <= 0:
        return Interval(0.0, 0.0)
    upper = most * base(max(0.0, _inner(rate, epsilon, most, -1.0))).upper
    lower = least * base(_inner(rate, epsilon, least, 1.0)).lower if least > 0 else 0.0
    return Interval(lowered(lower, 4 * UNIT), raised(upper, 4 * UNIT))


def _inner(rate: float, epsilon: float, remainder: float, side: float) -> float:
    """log(q e^eps / r), moved outward."""
    value = epsilon + math.log(rate / remainder)
    return value + side * 16 * UNIT * (1 + epsilon + abs(math.log(rate / remainder)))


def nearest(
    answer: Callable[[float], Interval], delta_down: float, delta_up: float, guess: float, known: Interval
) -> Interval:
    """As `crossing`, from a guess of the root: outward on both sides until `answer` decides, or `known` ends.

    Claim, Assumes: those of `crossing`.
    """
    lower, upper = known.lower, known.upper
    for k in range(_DOUBLINGS):
        at = guess * (1 + _FINE * 4.0**k)
        if at >= known.upper or answer(at).upper <= delta_down:
            upper = min(at, known.upper)
            break
    for k in range(_DOUBLINGS):
        at = guess * (1 - _FINE * 4.0**k)
        if at <= known.lower or answer(at).lower >= delta_up:
            lower = max(at, known.lower)
            break
    return Interval(lower, upper)


def guessed_addition(rate: float, sigma: float, delta: float) -> float:
    """Where delta(epsilon) of a sampled Gaussian, direction add, is about `delta`: nothing is proven of it."""
    mu, low, high = 1 / sigma, 0.0, -math.log1p(-rate)
    for _ in range(_HALVINGS):
        epsilon = (low + high) / 2
        left = rate - (1 - rate) * math.expm1(epsilon)
        inner = epsilon + math.log(rate / left) if left > 0 else math.inf
        tail = math.erfc((inner / mu - mu / 2) / math.sqrt(2)) / 2
        near = math.exp(min(inner, 700.0)) * math.erfc((inner / mu + mu / 2) / math.sqrt(2)) / 2
        low, high = (epsilon, high) if left * (tail - near) > delta else (low, epsilon)
    return (low + high) / 2


def crossing(
    answer: Callable[[float], Interval], delta_down: float, delta_up: float, low: float, high: float
) -> Interval:
    """Bounds of the least epsilon in [low, high] with delta(epsilon) <= delta, by halving, `answer` bounding delta.

    Claim: the upper bound holds for every delta >= delta_down, the lower for every delta <= delta_up.
    Assumes: delta falls; `low` and `high` are bounds already.
    """
    lower, upper = low, high
    undecided_low, undecided_high = low, high
    for _ in range(_HALVINGS):
        if undecided_high - undecided_low <= _FINE * max(undecided_high, 1e-300):
            break
        middle = (undecided_low + undecided_high) / 2
        at = answer(middle)
        if at.upper <= delta_down:
            upper = undecided_high = middle
        elif at.lower >= delta_up:
            lower = undecided_low = middle
        else:
            undecided_low, undecided_high = _sides(answer, delta_down, delta_up, (lower, middle, upper))
            return Interval(undecided_low, undecided_high)
    return Interval(lower, upper)


def _sides(
    answer: Callable[[float], Interval], delta_down: float, delta_up: float, known: tuple[float, float, float]
) -> tuple[float, float]:
    """From a point that is undecided, the nearest decided points on both sides, by halving each side."""
    lower, middle, upper = known
    near_low = near_high = middle
    for _ in range(_HALVINGS):
        if near_low - lower <= _FINE * middle and upper - near_high <= _FINE * middle:
            break
        if near_low - lower > _FINE * middle:
            probe = (lower + near_low) / 2
            lower, near_low = (probe, near_low) if answer(probe).lower >= delta_up else (lower, probe)
        if upper - near_high > _FINE * middle:
            probe = (upper + near_high) / 2
            upper, near_high = (probe, near_high) if answer(probe).upper <= delta_down else (upper, probe)
    return lower, upper
