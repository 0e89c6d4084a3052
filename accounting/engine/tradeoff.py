"""What a test may reach, from bounds of a profile, by duality.

For P and Q let delta(y) = sup_S P(S) - y Q(S) and back(y) = sup_S Q(S) - y P(S). A test whose false-positive rate, that
under Q, is alpha has a true-positive rate, that under P, of at most delta(y) + y alpha and 1 - (1 - back(y) - alpha)/y,
for every y >= 1, and the least of these lines is reached. A line with an upper bound of delta lies above. Between two
known points delta is convex in y and lies above the lines through its neighbours, so the rate lies above the least
value that those allow. The trade-off function is what is missing to 1.
Source: Dong-Roth-Su 2022, Proposition 2.13; docs/proofs/engine.md, section 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary
from dpledger.accounting.arithmetic.floating import Array

__all__ = ["Deltas", "power_bounds"]

Deltas: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Lower and upper bounds of delta at several epsilons >= 0 that rise."""
TestLine: TypeAlias = Callable[[Array, Array, Array], Array]
"""The value of a line, from y - 1, delta(y) and alpha, which broadcast."""

_SLACK = 1e-11  # relative: more than the roundings of e^epsilon and of the lines
_ROUNDING = 1e-14  # more than a few roundings
_LARGEST_EPSILON = 690.0  # e^690 is a float
_BEYOND = 1e300  # an epsilon at which only what is lost at infinity is left
_FIRST, _MORE, _ROUNDS = 49, 12, 6  # points at first, new ones in a segment and round, rounds
_NEARER, _NEAR = 1e14, 12  # how much nearer to 0 the first point is than an even one; how many lie between
_NARROW = 1e-6  # relative width at which no more points are asked
_OWN = 0.9  # a share of the width that is there because delta is known no better: more points narrow it little
_DROP = 1e-3  # of alpha: what is left beyond the last point
_APART = 1e-9  # relative distance of two y - 1 at which they count as one
_LEAST_EPSILON = 1e-12  # what is asked spans so much at least


def power_bounds(there: Deltas, back: Deltas, reach: float, alphas: Array) -> tuple[Array, Array]:
    """Bounds of the greatest true-positive rate at each false-positive rate in `alphas`, 0 <= alpha <= 1. `there` and
    `back` bound the two profiles: one function, where they are the same; beyond an epsilon of `reach` little is left.

    Claim: lower[i] <= rate <= upper[i]. Source: the module.
    """
    (least,), (most,) = there(np.array([_BEYOND]))
    inner = np.clip(alphas, np.min(alphas, initial=1.0, where=alphas > 0), 1.0)
    reach, some = min(max(reach, _LEAST_EPSILON), _LARGEST_EPSILON), float(np.min(inner))
    if back is there:
        lower, upper = _least(there, (_steep, _flat), _far_enough(there, reach, some), inner)
    else:
        profiles = (there, _steep), (back, _flat)
        ends = [_least(deltas, (line,), _far_enough(deltas, reach, some), inner) for deltas, line in profiles]
        lower, upper = (np.minimum(*sides) for sides in zip(*ends, strict=True))
    lower, upper = np.clip(lower, inner, 1.0), np.clip(upper, inner, 1.0)
    return np.where(alphas <= 0, least, lower), np.where(alphas <= 0, most, upper)  # what only P shows


def _steep(over: Array, delta: Array, alpha: Array) -> Array:
    return delta + alpha + over * alpha


def _flat(over: Array, delta: Array, alpha: Array) -> Array:
    return (over + delta + alpha) / (1 + over)


def _far_enough(deltas: Deltas, reach: float, alpha: float) -> float:
    """`reach`, or more, until delta is far below alpha there."""
    while reach < _LARGEST_EPSILON and deltas(np.array([reach]))[1][0] > _DROP * alpha:
        reach = min(_LARGEST_EPSILON, 1.5 * reach)
    return reach


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """Bounds of delta at points that rise, each kept as y - 1: however near to 1 all are, it has its digits."""

    over: Array
    lower: Array
    upper: Array

    def with_points(self, deltas: Deltas, epsilons: Array) -> _Curve:
        """With those of more points that are apart: all that it holds stay."""
        epsilons = epsilons[_apart(self.over, elementary.expm1(epsilons))]
        if not epsilons.size:
            return self
        fresh = _asked(deltas, epsilons)
        over = np.concatenate([self.over, fresh.over])
        order = np.argsort(over, kind="stable")
        lower, upper = np.concatenate([self.lower, fresh.lower]), np.concatenate([self.upper, fresh.upper])
        return _Curve(over[order], lower[order], upper[order])


def _apart(held: Array, fresh: Array) -> npt.NDArray[np.bool_]:
    """Which of the fresh points are apart from those held and from the last fresh one that is kept; both rise."""
    place = np.searchsorted(held, fresh)
    before, behind = held[np.maximum(place - 1, 0)], held[np.minimum(place, held.size - 1)]
    kept: npt.NDArray[np.bool_] = np.minimum(np.abs(fresh - before), np.abs(behind - fresh)) > _APART * fresh
    last = 0.0
    for i in np.flatnonzero(kept).tolist():
        if fresh[i] - last > _APART * fresh[i]:
            last = fresh[i]
        else:
            kept[i] = False
    return kept


def _asked(deltas: Deltas, epsilons: Array) -> _Curve:
    lower, upper = deltas(epsilons)
    return _Curve(elementary.expm1(epsilons), lower, upper)


def _least(deltas: Deltas, lines: tuple[TestLine, ...], reach: float, alphas: Array) -> tuple[Array, Array]:
    """Bounds of the least value of the lines along the profile, at each alpha."""
    floor, alpha = deltas(np.array([_BEYOND]))[0], alphas[:, None]
    curve = _asked(deltas, _first(reach))
    lower, upper = np.zeros(alphas.shape), np.full(alphas.shape, math.inf)
    for left in range(_ROUNDS, -1, -1):
        over, low = _corners(curve)
        tops = [np.min(line(curve.over, curve.upper, alpha), axis=1) for line in lines]
        valleys = [np.min(line(over[:, None], low[:, None], alpha), axis=0) for line in lines]  # an alpha and a segment
        beyond = [line(curve.over[-1:], floor, alpha)[:, 0] for line in lines]
        bottoms = [np.minimum(np.min(valley, axis=1), end) for valley, end in zip(valleys, beyond, strict=True)]
        lower, upper = np.maximum(lower, np.min(bottoms, axis=0)), np.minimum(upper, np.min(tops, axis=0))
        known = np.min([np.min(line(curve.over, curve.lower, alpha), axis=1) for line in lines], axis=0)
        wide = (upper - lower > _NARROW * upper) & (upper - known < _OWN * (upper - lower))
        if left == 0 or not wide.any():
            break
        worst = np.unique(
            np.concatenate([np.argmin(one, axis=1)[wide & (np.min(one, axis=1) < upper)] for one in valleys])
        )
        finer = curve.with_points(deltas, _between(curve, worst))
        if finer is curve:
            break
        curve = finer
    return lower * (1 - _SLACK), upper * (1 + _SLACK)


def _first(reach: float) -> Array:
    """Even points from 0 to `reach`, and some ever nearer to 0: all that one direction shows may be there."""
    even = np.linspace(0.0, reach, _FIRST)
    near = elementary.geometric(float(even[1]) / _NEARER, float(even[1]), _NEAR + 1)
    return np.concatenate([even[:1], near[:-1], even[1:]])


def _between(curve: _Curve, segments: Array) -> Array:
    """More points in some segments and their neighbours, rising."""
    logs = elementary.log1p(curve.over)
    low, high = logs[np.maximum(segments - 1, 0)], logs[np.minimum(segments + 2, logs.size - 1)]
    inside = np.linspace(0, 1, _MORE + 2)[1:-1]
    points: Array = np.unique(low[:, None] + (high - low)[:, None] * inside)
    return points


def _corners(curve: _Curve) -> tuple[Array, Array]:
    """For each segment between neighbours, its two ends and where the two lines that bound delta from below meet:
    points (y - 1, delta), three rows. A line's value is least at one of them.

    A slope is known as well as its points are far apart: what its rounding, and that of the two y - 1, may make over
    the segment is taken off."""
    over, low, high = curve.over, curve.lower, curve.upper
    left, right, width = over[:-1], over[1:], np.diff(over)
    falling, lost = np.full(width.shape, -np.inf), _ROUNDING * high[:-1]
    falling[1:] = (low[1:-1] - high[:-2]) / width[:-1]
    lost[1:] += _ROUNDING * (1 + width[1:] / width[:-1]) * (2 * high[:-2] + np.abs(falling[1:]) * left[1:])
    rising = np.zeros(width.shape)
    rising[:-1] = np.minimum((high[2:] - low[1:-1]) / width[1:], 0.0)
    lost[:-1] += _ROUNDING * (1 + width[:-1] / width[1:]) * (2 * high[1:-1] + np.abs(rising[:-1]) * over[2:])
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = left + (low[1:] - rising * width - low[:-1]) / (falling - rising)
        at = np.where(falling < rising, np.clip(meet, left, right), left)
        deep = np.maximum(low[:-1] + falling * (at - left), low[1:] + rising * (at - right))
    first = np.isneginf(falling)
    deep = np.where(first, low[1:] - rising * width, np.where(falling < rising, deep, low[1:]))  # or monotony
    at = np.where(first, left, at)
    return np.stack([left, right, at]), np.stack([low[:-1], low[1:], np.maximum(deep - lost, 0.0)])
