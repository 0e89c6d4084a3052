"""Many epsilons of one profile by few answers, each made for one of them and good for its neighbours.

A *method* makes answers for one epsilon, each sharper than the last: contours, lattices, cuts, layers. The middle of
what is asked comes first; each answer is asked about all, and what it leaves wide on both sides is asked in the same
way. Bounds for one number are intersected. docs/proofs/engine.md, sections 1 and 8.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import Array, rounded_out
from dpledger.accounting.engine.composed import Composed, bundled
from dpledger.accounting.engine.infinite_mass import with_mass
from dpledger.accounting.engine.solve import ATTEMPTS, TOLERANCE, WIDTH
from dpledger.accounting.engine.tilt import MOST_NODES, chernoff_bounds_around, choose_contour, saddle_for_epsilon
from dpledger.accounting.laws.closed_forms import at_one
from dpledger.accounting.laws.intervals import Interval
from dpledger.errors import WorkLimit

__all__ = [
    "LARGEST_EPSILON",
    "SMOOTHED",
    "Answer",
    "AskedEpsilons",
    "BoolArray",
    "Indices",
    "Method",
    "RisingEpsilons",
    "alone",
    "contours",
    "cover",
    "from_bounds",
    "from_logs_at",
]

LARGEST_EPSILON = 1e140  # an epsilon beyond which products of floats overflow
SHARP = 1e-5  # relative width of delta above which a point is asked more closely
WIDE = 1e-3  # the same where only a method for one point is left
LEAST_DELTA = 1e-305  # a delta that nobody asks about more closely
SMOOTHED = 3e-4  # relative width of delta that smoothing may cost
FAILED = 3  # answers that are wide where they were made for, after which a method is given up
GAIN, IDLE = 0.9, 2  # a share of the gap that an answer leaves, and how many may leave more than that one after another

Indices: TypeAlias = npt.NDArray[np.intp]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Answer: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Lower and upper bounds of the profile of the finite loss, at each of many epsilons."""
Method: TypeAlias = Callable[[Composed, float, float], Iterator[Answer]]
"""Answers for an epsilon whose delta is known to be at most the second number; they may raise WorkLimit."""


class RisingEpsilons:
    """Epsilons that rise, each the exact number `ends(i)[0]` <= epsilon <= `ends(i)[1]`; `near`: its nearest float."""

    __slots__ = ("_ends", "near")

    def __init__(self, near: Array, ends: Callable[[int], tuple[float, float]] | None = None) -> None:
        self.near, self._ends = near, ends

    def below_and_above(self) -> tuple[Array, Array]:
        """The floats around each epsilon."""
        if self._ends is None:
            return self.near, self.near
        ends = np.array([self.ends(i) for i in range(self.near.size)]).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def ends(self, i: int) -> tuple[float, float]:
        """The floats around epsilon number i."""
        return self._ends(i) if self._ends else (float(self.near[i]), float(self.near[i]))


@dataclass(frozen=True, slots=True, eq=False)
class AskedEpsilons:
    """Points, and what is known of delta at each; no closer than `floors[i]` asks for, nor than `enough`, relative."""

    points: RisingEpsilons
    floors: Array
    lower: Array
    upper: Array
    enough: float = SHARP

    def wide(self, numbers: Indices, enough: float | None = None) -> BoolArray:
        """Which of them are to be asked more closely."""
        lower, upper = self.lower[numbers], self.upper[numbers]
        wide: BoolArray = upper > np.maximum(self.floors[numbers], LEAST_DELTA)
        return wide & (upper - lower > (enough or self.enough) * upper)

    def gap(self, number: Indices) -> float:
        """By how much the bounds of one delta differ."""
        return float(self.upper[number[0]] - self.lower[number[0]])

    def left(self, enough: float | None = None) -> Indices:
        """The numbers of the points that are to be asked more closely."""
        return np.flatnonzero(self.wide(np.arange(self.upper.size), enough))

    def meet(self, numbers: Indices, lower: Array, upper: Array) -> None:
        """Intersect with other bounds."""
        self.lower[numbers] = np.maximum(self.lower[numbers], lower)
        self.upper[numbers] = np.minimum(self.upper[numbers], upper)


def cover(method: Method, composed: Composed, asked: AskedEpsilons) -> None:
    """Intersect with what a method says, until nothing is wide or it has failed a few times.

    Claim: each bound holds after as before, as those of the method do. Source: docs/proofs/engine.md, section 1.
    """
    start = asked.left()
    failed, runs = 0, [start[asked.points.near[start] <= LARGEST_EPSILON]]
    while runs and failed < FAILED:
        run = runs.pop()
        run = run[asked.wide(run)]
        if not run.size:
            continue
        middle = run.size // 2
        own = run[middle : middle + 1]
        about = _finite(composed, float(asked.upper[own[0]]))
        with contextlib.suppress(WorkLimit):
            gap, idle = asked.gap(own), 0
            for answer in method(composed, float(asked.points.near[own[0]]), about):
                asked.meet(run, *_answered(answer, composed, asked.points, run))
                idle = idle + 1 if asked.gap(own) > GAIN * gap else 0
                gap = asked.gap(own)
                if idle == IDLE or not asked.wide(own)[0]:
                    break
        failed += int(asked.wide(own)[0])
        runs += [run[middle + 1 :], run[:middle]]


def alone(method: Method, composed: Composed, epsilon: float, about: float = 1.0) -> Interval:
    """What a method says of d(epsilon) alone, until that is narrow; d is known to be at most `about`.

    Claim: lower <= d(epsilon) <= upper, d the profile of the finite loss. Source: that of the method.
    """
    found = Interval(0.0, 1.0 if epsilon < composed.largest else 0.0)
    with contextlib.suppress(WorkLimit):
        for answer in method(composed, epsilon, about) if found.upper else ():
            found = found.meet(at_one(answer, epsilon))
            if found.relative_width() <= WIDE or found.upper <= LEAST_DELTA:
                break
    return found


def _answered(answer: Answer, composed: Composed, points: RisingEpsilons, run: Indices) -> tuple[Array, Array]:
    ends = np.array([points.ends(i) for i in run.tolist()]).T
    lower, upper = answer(ends[1])
    if np.any(ends[0] < ends[1]):
        upper = answer(ends[0])[1]
    return with_mass(lower, upper, composed.log_finite)


def _finite(composed: Composed, delta: float) -> float:
    """The part of delta that is of the finite loss, about."""
    kept = scalars.exp(composed.log_finite)
    return min(1.0, max((delta - composed.infinite_mass) / kept, LEAST_DELTA)) if kept else 1.0


def contours(
    composed: Composed,
    epsilon: float,
    about: float,  # noqa: ARG001 - of one contour
    most: int = MOST_NODES,
) -> Iterator[Answer]:
    """Chernoff bounds, then contours for one epsilon, each sharper than the last, of at most `most` nodes.

    Claim: as `Contour.bounds_at` and `ChernoffBounds.log_deltas`. Source: docs/proofs/engine.md, section 2.
    """
    composed = bundled(composed)
    saddle = saddle_for_epsilon(composed, epsilon)
    chernoff = chernoff_bounds_around(composed, saddle.c)
    yield lambda epsilons: from_logs_at(np.full(epsilons.shape, -math.inf), chernoff.log_deltas(epsilons))
    made = False
    for first in sorted({min(WIDTH, SMOOTHED / max(saddle.c * epsilon, 1e-9)), WIDTH}):  # smoother, it may be less work
        tolerance, width = TOLERANCE, first
        with contextlib.suppress(WorkLimit):
            for _ in range(0 if made else ATTEMPTS):
                contour = choose_contour(composed, saddle, chernoff, tolerance=tolerance, width=width, most=most)
                yield functools.partial(from_bounds, contour.bounds_at)
                tolerance, width, made = tolerance * 1e-3, width / 4, True


def from_bounds(log_bounds: Answer, epsilons: Array) -> tuple[Array, Array]:
    """Bounds of d itself, from those of log d."""
    return from_logs_at(*log_bounds(epsilons))


def from_logs_at(lower: Array, upper: Array) -> tuple[Array, Array]:
    """e^lower and e^upper, rounded outward: four units of the last place, of a denormal number too."""
    below, above = rounded_out(elementary.exp(lower), elementary.exp(np.minimum(upper, 0.0)))
    return below, np.where(upper == -math.inf, 0.0, above)
