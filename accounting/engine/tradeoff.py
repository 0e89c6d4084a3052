"""The trade-off curve from bounds of a profile, by duality.

For a symmetric profile, f(alpha) = sup over y >= 1 of max(1 - delta(y) - y alpha, (1 - delta(y) - alpha)/y), y = e^eps:
the largest of lines. A line with an upper bound of delta lies below f. Between two known points delta is convex in y
and lies above the lines through its neighbours, so f lies below the largest value that those allow.
Source: Dong-Roth-Su 2022, Proposition 2.13; docs/proofs/engine.md, section 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from dpledger.accounting.engine.solve import Interval

__all__ = ["tradeoff_interval"]

_SLACK = 1e-13  # more than the roundings of the few operations on numbers below 1
_FARTHEST = 690.0  # e^690 is a float
_ROUNDS = 4
_POINTS = 9  # new points a round


@dataclass(frozen=True, slots=True)
class _Known:
    y: float
    delta: Interval


def tradeoff_interval(delta: Callable[[float], Interval], reach: float, alpha: float) -> Interval:
    """Bounds of f(alpha), from `delta(epsilon)`, for 0 <= alpha <= 1; beyond `reach` little of the profile is left.

    Claim: lower <= f(alpha) <= upper. Source: the module.
    """
    if alpha >= 1:
        return Interval(0.0, 0.0)
    floor, reach = delta(_FARTHEST).lower, min(reach, _FARTHEST)
    known = [_known(delta, reach * i / (4 * _POINTS)) for i in range(4 * _POINTS + 1)]
    found = Interval(0.0, 1.0)
    for _ in range(_ROUNDS):
        steep, flat = _segments(known, floor, alpha, _steep), _segments(known, floor, alpha, _flat)
        lower = max(0.0, *(max(1 - k.delta.upper - k.y * alpha, (1 - k.delta.upper - alpha) / k.y) for k in known))
        upper = max(0.0, max(steep), max(flat))
        found = Interval(max(0.0, lower - _SLACK), min(1 - alpha, upper) + _SLACK)
        if found.upper - found.lower <= 1e-6:
            break
        worst = {values.index(max(values)) for values in (steep, flat)}
        known = _refined(known, worst, delta)
    return found


def _known(delta: Callable[[float], Interval], epsilon: float) -> _Known:
    return _Known(math.exp(epsilon), delta(epsilon))


def _refined(known: list[_Known], segments: set[int], delta: Callable[[float], Interval]) -> list[_Known]:
    fresh: list[_Known] = []
    for i in segments:
        low = math.log(known[max(0, i - 1)].y)
        high = math.log(known[min(len(known) - 1, i + 2)].y)
        fresh.extend(_known(delta, low + (high - low) * j / (_POINTS + 1)) for j in range(1, _POINTS + 1))
    ordered = sorted([*known, *fresh], key=lambda k: k.y)
    return [k for i, k in enumerate(ordered) if i == 0 or k.y > ordered[i - 1].y]


def _steep(y: float, delta: float, alpha: float) -> float:
    return 1 - delta - y * alpha


def _flat(y: float, delta: float, alpha: float) -> float:
    return (1 - delta - alpha) / y


def _segments(
    known: list[_Known], floor: float, alpha: float, line: Callable[[float, float, float], float]
) -> list[float]:
    """For each segment between neighbours, and the ray beyond the last, the largest value that convexity allows.

    `floor`: a lower bound of delta at _FARTHEST, hence of delta up to there; beyond, a line is below 0."""
    values = []
    for i, (left, right) in enumerate(pairwise(known)):
        before = known[i - 1] if i > 0 else None
        after = known[i + 2] if i + 2 < len(known) else None
        corners = [(left.y, left.delta.lower), (right.y, right.delta.lower)]
        corners += _lowest_corner(before, left, right, after)
        values.append(max(line(y, low, alpha) for y, low in corners))
    values.append(max(line(known[-1].y, floor, alpha), line(math.exp(_FARTHEST), 0.0, alpha)))
    return values


def _lowest_corner(
    before: _Known | None, left: _Known, right: _Known, after: _Known | None
) -> list[tuple[float, float]]:
    """Where the two lines that bound delta from below between `left` and `right` meet.

    The largest of linear functions is convex; a value 1 - delta - y alpha, or one divided by y, is largest at a corner.
    """
    falling = (left.delta.lower - before.delta.upper) / (left.y - before.y) if before else -math.inf
    rising = (after.delta.upper - right.delta.lower) / (after.y - right.y) if after else 0.0
    rising = min(rising, 0.0)
    if math.isinf(falling):
        return [(left.y, right.delta.lower + rising * (left.y - right.y))]
    if falling >= rising:
        return [(left.y, right.delta.lower)]  # rounding of bounds: fall back to monotony
    meet = (left.delta.lower - right.delta.lower + rising * right.y - falling * left.y) / (rising - falling)
    y = min(max(meet, left.y), right.y)
    low = max(left.delta.lower + falling * (y - left.y), right.delta.lower + rising * (y - right.y))
    return [(y, low - 1e-15)]
