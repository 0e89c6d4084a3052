"""What a test may reach, from bounds of a profile, by duality.

For P and Q let delta(y) = sup_S P(S) - y Q(S) and back(y) = sup_S Q(S) - y P(S). A test whose false-positive rate, under
Q, is alpha has a true-positive rate, under P, of at most delta(y) + y alpha and at most 1 - (1 - back(y) - alpha)/y, for
every y >= 1, and the least of these lines is reached. A line with an upper bound of delta lies above. Between two known
points delta is convex in y and lies above the lines through its neighbours, so the rate lies above the least value that
those allow. The trade-off function is what is missing to 1.
Source: Dong-Roth-Su 2022, Proposition 2.13; docs/proofs/engine.md, section 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from dpledger.accounting.engine.floating import Array
from dpledger.accounting.engine.solve import Interval

__all__ = ["Deltas", "power_interval"]

Deltas: TypeAlias = Callable[[Array], tuple[list[float], list[float]]]
"""Lower and upper bounds of delta at several epsilons >= 0 that rise."""

_SLACK = 1e-11  # relative: more than the roundings of e^epsilon and of the lines
_ROUNDING = 1e-14  # more than a few roundings
_LOST = 1e-14  # absolute: those of 1 - (1 - ...)
_FARTHEST = 690.0  # e^690 is a float
_BEYOND = 1e300  # an epsilon at which only what is lost at infinity is left
_FIRST, _MORE, _ROUNDS = 37, 12, 5  # points at first, new ones in a segment and round, rounds
_NARROW = 1e-6  # relative width at which no more points are asked
_DROP = 1e-3  # of alpha: what is left beyond the last point


@dataclass(frozen=True, slots=True)
class _Known:
    y: float
    delta: Interval


Curve: TypeAlias = list[_Known]
Line: TypeAlias = Callable[[float, float], float]


def power_interval(there: Deltas, back: Deltas, reach: float, alpha: float) -> Interval:
    """Bounds of the greatest true-positive rate at a false-positive rate of at most `alpha`, 0 <= alpha <= 1; `there`
    and `back` bound the two profiles; beyond an epsilon of `reach` little is left of them.

    Claim: lower <= rate <= upper. Source: the module.
    """
    if alpha >= 1:
        return Interval(1.0, 1.0)
    if alpha <= 0:  # what only P shows
        (lower,), (upper,) = there(np.array([_BEYOND]))
        return Interval(lower, upper)

    def steep(y: float, delta: float) -> float:
        return delta + y * alpha

    def flat(y: float, delta: float) -> float:
        return (y - 1 + delta + alpha) / y

    sides: tuple[tuple[Deltas, Line, float], ...] = ((there, steep, 0.0), (back, flat, _LOST))
    reach = _far_enough(there, min(reach, _FARTHEST), alpha)
    found = [_least(deltas, line, reach, lost) for deltas, line, lost in sides]
    lower, upper = (min(ends) for ends in zip(*((f.lower, f.upper) for f in found), strict=True))
    return Interval(max(alpha, lower), max(alpha, min(1.0, upper)))


def _far_enough(deltas: Deltas, reach: float, alpha: float) -> float:
    """`reach`, or more, until delta is far below alpha there."""
    while reach < _FARTHEST and deltas(np.array([reach]))[1][0] > _DROP * alpha > 0:
        reach = min(_FARTHEST, 1.5 * reach)
    return reach


def _least(deltas: Deltas, line: Line, reach: float, lost: float) -> Interval:
    """Bounds of the least value of `line` along the profile."""
    floor = deltas(np.array([_BEYOND]))[0][0]
    curve = _asked(deltas, np.linspace(0.0, reach, _FIRST))
    for final in (*(False for _ in range(_ROUNDS)), True):
        upper = min(line(known.y, known.delta.upper) for known in curve)
        lowest = [min(line(y, low) for y, low in corners) for corners in _corners(curve)]
        beyond = line(curve[-1].y, floor)
        lower = min(*lowest, beyond)
        if final or upper - lower <= _NARROW * upper:
            break
        curve = _refined(deltas, curve, lowest.index(min(lowest)))
    return Interval(lower * (1 - _SLACK) - lost, upper * (1 + _SLACK) + lost)


def _asked(deltas: Deltas, epsilons: Array) -> Curve:
    bounds = zip(*deltas(epsilons), strict=True)
    return [_Known(math.exp(at), Interval(*pair)) for at, pair in zip(epsilons.tolist(), bounds, strict=True)]


def _refined(deltas: Deltas, curve: Curve, segment: int) -> Curve:
    """With more points in a segment and its neighbours."""
    low, high = math.log(curve[max(0, segment - 1)].y), math.log(curve[min(len(curve) - 1, segment + 2)].y)
    fresh = _asked(deltas, np.linspace(low, high, _MORE + 2)[1:-1])
    ordered = sorted([*curve, *fresh], key=lambda known: known.y)
    return [known for i, known in enumerate(ordered) if i == 0 or known.y > ordered[i - 1].y * (1 + 1e-9)]


def _corners(curve: Curve) -> list[list[tuple[float, float]]]:
    """For each segment between neighbours, where the lower bound that convexity gives is lowest: its ends and where the
    two lines meet. A line's value is least at one of them."""
    found = []
    for i, (left, right) in enumerate(pairwise(curve)):
        before = curve[i - 1] if i > 0 else None
        after = curve[i + 2] if i + 2 < len(curve) else None
        ends = [(left.y, left.delta.lower), (right.y, right.delta.lower)]
        found.append([*ends, _lowest_corner(before, left, right, after)])
    return found


def _lowest_corner(before: _Known | None, left: _Known, right: _Known, after: _Known | None) -> tuple[float, float]:
    """Where the two lines that bound delta from below between `left` and `right` meet, less their roundings: a slope is
    known as well as its ends are far apart."""
    width, falling, rising, error = right.y - left.y, -math.inf, 0.0, _ROUNDING * left.delta.upper
    if before is not None:
        falling, lost = _slope((before.y, before.delta.upper), (left.y, left.delta.lower), width)
        error += lost
    if after is not None:
        slope, lost = _slope((right.y, right.delta.lower), (after.y, after.delta.upper), width)
        rising, error = min(slope, 0.0), error + lost
    if before is None:
        return left.y, max(0.0, right.delta.lower + rising * (left.y - right.y) - error)
    if falling >= rising:
        return left.y, right.delta.lower  # rounding of bounds: fall back to monotony
    meet = (left.delta.lower - right.delta.lower + rising * right.y - falling * left.y) / (rising - falling)
    y = min(max(meet, left.y), right.y)
    low = max(left.delta.lower + falling * (y - left.y), right.delta.lower + rising * (y - right.y))
    return y, max(0.0, low - error)


def _slope(low: tuple[float, float], high: tuple[float, float], width: float) -> tuple[float, float]:
    """The slope between two points (y, delta), the first with the smaller y; and what its rounding, and that of the two
    y, make at most over a `width`."""
    apart = high[0] - low[0]
    slope = (high[1] - low[1]) / apart
    return slope, _ROUNDING * (1 + width / apart) * (low[1] + high[1] + abs(slope) * high[0])
