"""Upper bounds from Renyi divergences, for leaves that promise no more: zCDP and RDP curves.

A curve promises K(c) <= c D(1 + c), c > 0; K of a composition is at most the sum. Then delta(eps) <= kappa(c)
e^{K(c) - c eps}. Source: Canonne-Kamath-Steinke 2020, Proposition 12; Bun-Steinke 2016, Lemma 2.3 and Definition 8.1.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.engine.composed import Composed, bundled, log_kappa
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.renyi_curves import RenyiCurve
from dpledger.decimals import float_down, float_up
from dpledger.errors import CannotCertify, WorkLimit

__all__ = ["curve_bounds", "log_finite_of_curves"]

_GRID = elementary.geometric(1e-4, 1e6, 400)


def log_finite_of_curves(curves: tuple[tuple[RenyiCurve, int], ...]) -> float:
    """log of the mass that the deltas of approximate zCDP leave, rounded down."""
    missed = [(float_up(curve.delta), count) for curve, count in curves]
    if any(delta >= 1 for delta, _ in missed):  # nearer to 1 than any float
        return -math.inf
    return math.fsum(count * scalars.log1p(-delta) for delta, count in missed) * (1 + 8 * UNIT)


def curve_bounds(composed: Composed | None, curves: tuple[tuple[RenyiCurve, int], ...]) -> CurveBounds:
    """Chernoff bounds at many orders, of the losses and the curves together."""
    return _chernoff_bounds(None if composed is None else composed.parts, curves)


@functools.lru_cache(maxsize=8)
def _chernoff_bounds(
    losses: tuple[tuple[Loss, int], ...] | None, curves: tuple[tuple[RenyiCurve, int], ...]
) -> CurveBounds:
    return CurveBounds(None if losses is None else bundled(Composed(losses)), curves)


class CurveBounds:
    """Bounds K(c) + log kappa(c) - c eps of log delta(eps), at many c; K is infinite where a curve says nothing.

    K of the losses costs the work of a quadrature each, so it is formed only where it may give the best bound: K is
    convex and K(0) = 0, so that lines through known points lie below it beyond them."""

    def __init__(self, composed: Composed | None, curves: tuple[tuple[RenyiCurve, int], ...]) -> None:
        orders = [float_down(order) - 1 for curve, _ in curves for order in curve.orders]
        c = np.unique(np.concatenate([_GRID, np.array([x for x in orders if x > 0])]))
        total = np.zeros_like(c)
        for curve, count in curves:
            total += count * curve.moments(c)
        kept = np.isfinite(total)
        if not kept.any():
            raise CannotCertify("no float lies between 1 and the Renyi orders that are stated: state one above 1.0001")
        self._c, self._curves, self._composed = c[kept], total[kept], composed
        self._rounding = (len(curves) + 16) * UNIT
        self._learnt = _Learnt(np.zeros(self._c.size), np.full(self._c.size, composed is None))

    def epsilon(self, log_delta: float) -> float:
        """Claim: delta(result) <= e^log_delta. Source: Canonne-Kamath-Steinke 2020, Proposition 12."""

        def at(bounds: Array) -> Array:
            slack = 8 * UNIT * (np.abs(bounds) + abs(log_delta))
            epsilons: Array = (bounds - log_delta + slack) / self._c
            return epsilons

        return self._smallest(at)

    def log_delta(self, epsilon: float) -> float:
        """Claim: at least log delta(epsilon). Source: Canonne-Kamath-Steinke 2020, Proposition 12."""
        moved = self._c * (epsilon - 8 * UNIT * abs(epsilon))
        return self._smallest(lambda bounds: bounds - moved + 8 * UNIT * np.abs(bounds))

    def _smallest(self, at: Callable[[Array], Array]) -> float:
        """The smallest of the bounds, which rise with K: known where what is at most each of them is smallest."""
        log_kappas = log_kappa(self._c) * (1 - 16 * UNIT) + 1e-14
        learnt = self._learnt
        while True:
            found = at((self._curves + learnt.least) * (1 + self._rounding) + log_kappas)
            best = int(np.argmin(found))
            if learnt.known[best]:
                return float(found[best])
            learnt = self._learnt = self._learn(learnt, best)  # of two threads that learn at once, one is kept

    def _learn(self, learnt: _Learnt, i: int) -> _Learnt:
        """K of the losses at one more c: where that is too much work, it is taken for infinite from there on."""
        assert self._composed is not None
        least, known = learnt.least.copy(), learnt.known.copy()
        try:
            value = float(self._composed.log_moments(self._c[i : i + 1])[0])
        except WorkLimit:
            value = math.inf
        if value == math.inf:
            least[i:], known[i:] = math.inf, True
            return _Learnt(least, known)
        least[i], known[i] = value, True
        points = [-1, *(k for k in np.flatnonzero(known).tolist() if least[k] < math.inf)]
        place = points.index(i)
        for left, right in itertools.pairwise(points[place - 1 : place + 2]):
            _raise(self._c, least, known, left, right)
        return _Learnt(least, known)


@dataclass(frozen=True, slots=True)
class _Learnt:
    """At each c a number that is at most K of the losses, and K itself where it is known. Never changed: threads share
    its Chernoff bounds, and what one of them learns is a new one."""

    least: Array
    known: npt.NDArray[np.bool_]


def _raise(c: Array, least: Array, known: npt.NDArray[np.bool_], left: int, right: int) -> None:
    """The line through two neighbouring known points (-1: the origin) is below K outside of them."""
    start, low = (c[left], least[left]) if left >= 0 else (0.0, 0.0)
    line = low + (c - start) * ((least[right] - low) / (c[right] - start))
    outside = ~known & ((c < start) | (c > c[right]))
    least[outside] = np.maximum(least[outside], line[outside])
