"""A whole profile at once: a few contours, each good for a stretch of the profile, instead of one for each point.

An *expansion* is a contour made for one value of log delta, its *expansion point*. Away from it the certificate stays
valid and slowly grows wide. So each point is asked of the nearest expansion and, where that is not narrow, of the next
one; bounds for one number are intersected. What is wide then is left to the method for one point.
docs/proofs/engine.md, sections 1 and 8.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, quietly
from dpledger.accounting.engine.composed import Composed, bundled
from dpledger.accounting.engine.covering import (
    LARGEST_EPSILON,
    SHARP,
    SMOOTHED,
    WIDE,
    AskedEpsilons,
    BoolArray,
    Indices,
    RisingEpsilons,
    cover,
    from_logs_at,
)
from dpledger.accounting.engine.dispatch import delta_interval, epsilon_interval
from dpledger.accounting.engine.enumeration import closed_form, direct_deltas
from dpledger.accounting.engine.infinite_mass import finite_parts, with_mass
from dpledger.accounting.engine.methods import Target, few, methods
from dpledger.accounting.engine.saddle_point import Contour
from dpledger.accounting.engine.solve import TOLERANCE, WIDTH
from dpledger.accounting.engine.tilt import MOST_NODES, chernoff_bounds_around, choose_contour, saddle_for_delta
from dpledger.accounting.laws.law import Deltas
from dpledger.accounting.lowering import PldList
from dpledger.decimals import float_down, float_up
from dpledger.errors import WorkLimit

__all__ = ["ProfileCurve", "RisingEpsilons"]

FIRST, NEXT = (-0.7, -2.5), 4.0  # log delta of the first expansions; the gaps then grow by this
LAST = -720.0  # log delta of the last expansion
NOTHING_SHOWN = scalars.log1p(-scalars.exp(FIRST[0])) + 0.01  # epsilon there: of a delta of 1 - e^epsilon, and more
ONE_EXPANSION = 1e-6  # relative width of delta up to which one expansion is enough
PRICED = 2e-4  # the same, where no point is asked alone
WIDE_EPSILON = 5e-4  # the same of epsilon
BLOCK = 1 << 16  # points times nodes
HANDFUL = 16  # runs up to which no contour decays within a few hundred nodes
MANY = 8  # points that are worth expansions: fewer are asked one by one
STRIDE = 8  # of the points that are asked first
_NEWTON, _WALKS = 12, 5
_NEAR_ROOT = 1e-11  # of log delta


class ProfileCurve:
    """The profile of one list of losses, with every expansion that was made for it; of few runs only such as take at
    most `nodes_of_few` nodes, and none of a handful where that is not all that any may take."""

    __slots__ = ("_composed", "_direct", "_expansions", "_most", "_what")

    def __init__(self, what: PldList, nodes_of_few: int = MOST_NODES) -> None:
        finite = _finite(what)
        self._what, self._direct = what, None if finite is None else _direct(finite)
        self._composed = finite if self._direct is None else None
        self._most = MOST_NODES
        if finite is not None and few(finite):
            self._most = 0 if nodes_of_few < MOST_NODES and finite.runs <= HANDFUL else nodes_of_few
        self._expansions: dict[float, _Expansion | None] = {}

    @quietly
    def deltas(self, points: RisingEpsilons, floors: Array, *, alone: bool = True) -> tuple[Array, Array]:
        """Lower and upper bounds of delta at each epsilon >= 0, which rise; not closer than `floors[i]` asks for.
        Where no method for many points is sharp, each is asked `alone`, which may take long, or is left as it is, and
        a width of 2e-4 is enough.

        Claim: lower[i] <= delta <= upper[i] at epsilon number i. Source: docs/proofs/engine.md, sections 1 and 8.
        """
        epsilons, composed = points.near, self._composed
        if composed is not None and epsilons.size < MANY and closed_form(composed) is not None:
            composed = None  # a closed form, for one point
        asked = AskedEpsilons(
            points, floors, np.zeros(epsilons.shape), np.ones(epsilons.shape), SHARP if alone else PRICED
        )
        if self._direct is not None:
            below, above = points.below_and_above()
            lower, upper = self._direct(above)
            asked.meet(np.arange(epsilons.size), lower, upper if below is above else self._direct(below)[1])
        if composed is not None:
            near = np.minimum(epsilons, LARGEST_EPSILON)
            self._few_first(near, floors, asked.upper)
            left = np.flatnonzero(asked.upper > floors)
            if left.size and epsilons.size >= MANY:
                asked.lower[left], asked.upper[left] = self._narrowed(near[left], floors[left])
            asked.lower[near < epsilons] = 0.0
            for method in methods(composed, Target(0.0, 1.0, deltas=True, roughly=not alone)):
                assert method.deltas is not None
                cover(method.deltas, composed, asked)
        for i in asked.left(WIDE).tolist() if alone or composed is None else ():
            start, end = points.ends(i)
            floor = float(floors[i])
            found = delta_interval(self._what, start, floor)
            lowest = found if start == end else delta_interval(self._what, end, floor)
            asked.lower[i], asked.upper[i] = max(asked.lower[i], lowest.lower), min(asked.upper[i], found.upper)
        return asked.lower, asked.upper

    def _few_first(self, epsilons: Array, floors: Array, upper: Array) -> None:
        """Where others are known to be above: a few points speak for those that follow, as delta falls."""
        if epsilons.size < 4 * STRIDE or not np.all(floors > 0):
            return
        some = self._narrowed(epsilons[::STRIDE], floors[::STRIDE])[1]
        np.minimum(upper, np.repeat(some, STRIDE)[: upper.size], out=upper)

    def _narrowed(self, epsilons: Array, floors: Array) -> tuple[Array, Array]:
        """What the expansions say of delta."""
        assert self._composed is not None
        least = float(floors.min(initial=math.inf))
        logs = self._log_deltas(epsilons, scalars.log(least) if 0 < least < math.inf else LAST)
        return with_mass(*from_logs_at(*logs), self._composed.log_finite)

    @quietly
    def epsilons(self, deltas: Sequence[Decimal], floors: Array) -> tuple[Array, Array]:
        """Lower and upper bounds of epsilon at each delta; where it is not above `floors[i]`, that is all they say.

        Claim: lower[i] <= epsilon(deltas[i]) <= upper[i]. Source: docs/proofs/engine.md, sections 1 and 8.
        """
        lower, upper = np.zeros(len(deltas)), np.full(len(deltas), math.inf)
        composed = self._composed
        if composed is not None:
            down, up = np.array(list(map(float_down, deltas))), np.array(list(map(float_up, deltas)))
            down, up = finite_parts(down, up, composed.infinite_mass)
            inside = np.flatnonzero((down > 0) & (up < 1))
            low, high = elementary.log(down[inside]), elementary.log(up[inside])
            low, high = low - (8 * UNIT) * np.abs(low), high + (8 * UNIT) * np.abs(high)
            lower[inside], upper[inside] = self._epsilons(low, high, floors[inside])
        with np.errstate(invalid="ignore"):
            wide = (upper > floors) & ~((upper - lower <= WIDE_EPSILON * upper) & (upper < math.inf))
        for i in np.flatnonzero(wide).tolist():
            alone = epsilon_interval(self._what, deltas[i])
            lower[i], upper[i] = max(lower[i], alone.lower), min(upper[i], alone.upper)
        return lower, upper

    # ---- the expansions ---------------------------------------------------------------------------------------------

    def _expansion(self, place: float) -> _Expansion | None:
        """That for a log delta; None where its contour is too much work."""
        assert self._composed is not None
        if place not in self._expansions:
            self._expansions[place] = _expansion(self._composed, place, self._most) if self._most else None
        return self._expansions[place]

    def _log_deltas(self, epsilons: Array, least: float) -> tuple[Array, Array]:
        """Bounds of log delta of the finite loss, for delta down to e^least; infinite where no expansion says more."""
        assert self._composed is not None
        lower, upper = np.full(epsilons.shape, -math.inf), np.full(epsilons.shape, math.inf)
        expansions: list[_Expansion] = []
        near = epsilons
        for place in PLACES.tolist():
            if self._most and place == FIRST[0] and _is_needless(self._composed):
                continue
            expansion = self._expansion(place)
            if expansion is None:
                break
            expansions.append(expansion)
            near = near[near < expansion.end]
            if not near.size or expansion.epsilon > near[-1] or place < least:
                break
        if expansions:
            at = np.array([expansion.epsilon for expansion in expansions])
            nearest = np.searchsorted((at[1:] + at[:-1]) / 2, epsilons)
            _narrow(expansions, nearest, epsilons, lower, upper)
            beside = np.clip(np.where(epsilons > at[nearest], nearest + 1, nearest - 1), 0, len(expansions) - 1)
            with np.errstate(invalid="ignore"):
                _narrow(expansions, np.where(upper - lower <= ONE_EXPANSION, -1, beside), epsilons, lower, upper)
        upper[near.size :] = np.minimum(upper[near.size :], LAST)
        beyond = epsilons >= self._composed.largest
        lower[beyond], upper[beyond] = -math.inf, -math.inf
        return lower, upper

    def _epsilons(self, low: Array, high: Array, floors: Array) -> tuple[Array, Array]:
        """Bounds of epsilon of the finite loss for every log delta from low[i] to high[i]; (0, largest) where an
        expansion says no more."""
        assert self._composed is not None
        lower, upper = np.zeros(low.shape), np.full(low.shape, self._composed.largest)
        nearest = np.searchsorted(-(PLACES[1:] + PLACES[:-1]) / 2, -low)
        for i in np.unique(nearest).tolist():
            expansion = self._expansion(float(PLACES[i]))
            if expansion is None:
                continue
            asked = np.flatnonzero(nearest == i)
            below, above = _solved(expansion, low[asked], high[asked], floors[asked])
            lower[asked], upper[asked] = np.maximum(lower[asked], below), np.minimum(upper[asked], above)
        return lower, upper


def _finite(what: PldList) -> Composed | None:
    """The losses, where they are all there is and some of them finite."""
    if not what.losses or what.curves:
        return None
    composed = Composed(what.losses)
    return composed if composed.log_finite > -math.inf else None


def _direct(composed: Composed) -> Deltas | None:
    """The whole profile, where its finite part needs no contour."""
    direct = direct_deltas(composed)
    if direct is None or direct.one_by_one:
        return None
    deltas = direct.deltas

    def whole(epsilons: Array) -> tuple[Array, Array]:
        lower, upper = deltas(np.minimum(epsilons, LARGEST_EPSILON))  # delta falls
        return with_mass(np.where(epsilons > LARGEST_EPSILON, 0.0, lower), np.minimum(upper, 1.0), composed.log_finite)

    return whole


# ---- expansions -----------------------------------------------------------------------------------------------------


def _places() -> tuple[float, ...]:
    gaps = itertools.accumulate(itertools.count(FIRST[0] - FIRST[1] + NEXT, NEXT), initial=-FIRST[1])
    return (FIRST[0], *(-place for place in itertools.takewhile(lambda place: place <= -LAST, gaps)))


PLACES = np.array(_places())
"""log delta of every expansion, falling."""


@dataclass(frozen=True, slots=True)
class _Expansion:
    """A contour, the log delta that it was made for, and about the epsilon there; `end`: an epsilon beyond which a
    Chernoff bound is below every delta that is asked about."""

    log_delta: float
    epsilon: float
    end: float
    contour: Contour

    def bounds(self, epsilons: Array) -> tuple[Array, Array]:
        """Claim: lower[i] <= log delta(epsilons[i]) <= upper[i]. Source: `Contour.bounds_at`."""
        return self._in_blocks(self.contour.bounds_at, epsilons)

    def estimates(self, epsilons: Array) -> tuple[Array, Array]:
        """log S and its slope at each epsilon, uncertified."""
        return self._in_blocks(self.contour.estimates_at, epsilons)

    def _in_blocks(self, answer: Callable[[Array], tuple[Array, Array]], epsilons: Array) -> tuple[Array, Array]:
        """A matrix of points times nodes at a time that stays in the cache."""
        size = max(1, BLOCK // self.contour.count)
        found = [answer(epsilons[start : start + size]) for start in range(0, epsilons.size, size)]
        return np.concatenate([pair[0] for pair in found]), np.concatenate([pair[1] for pair in found])


def _is_needless(composed: Composed) -> bool:
    """Whether the first expansion is worth no contour: of few runs that hardly show anything it is for an epsilon far
    below 0, where delta is 1 - e^epsilon and little else, and says nothing of those above."""
    if not few(composed):
        return False
    with contextlib.suppress(WorkLimit):
        return saddle_for_delta(composed, FIRST[0], WIDTH).epsilon < NOTHING_SHOWN
    return False


def _expansion(composed: Composed, log_delta: float, most: int) -> _Expansion | None:
    """None where the contour needs more than `most` nodes, or is too much work."""
    composed = bundled(composed)
    try:
        saddle = saddle_for_delta(composed, log_delta, WIDTH)
        width = min(WIDTH, SMOOTHED / max(saddle.c * saddle.epsilon, 1e-9))
        chernoff = chernoff_bounds_around(composed, saddle.c)
        contour = choose_contour(composed, saddle, chernoff, tolerance=TOLERANCE, width=width, most=most)
    except WorkLimit:
        return None
    return _Expansion(log_delta, saddle.epsilon, chernoff.epsilon(LAST), contour)


# ---- delta for epsilon ----------------------------------------------------------------------------------------------


def _narrow(expansions: list[_Expansion], which: Indices, epsilons: Array, lower: Array, upper: Array) -> None:
    """Intersect with what expansion number `which[i]` says at each epsilon; -1: none is asked."""
    for i, expansion in enumerate(expansions):
        asked = np.flatnonzero(which == i)
        if asked.size:
            low, high = expansion.bounds(epsilons[asked])
            lower[asked], upper[asked] = np.maximum(lower[asked], low), np.minimum(upper[asked], high)


# ---- epsilon for delta ----------------------------------------------------------------------------------------------


def _solved(expansion: _Expansion, low: Array, high: Array, floors: Array) -> tuple[Array, Array]:
    """Roots of the uncertified sum, then outward on both sides until the certificate holds; no closer where epsilon is
    at most its floor."""
    lower, upper = np.zeros(low.shape), np.full(low.shape, math.inf)
    upper[expansion.bounds(floors)[1] <= low] = 0.0
    upper = np.where(upper == 0, floors, math.inf)
    upper[expansion.bounds(np.zeros(1))[1] <= low] = 0.0
    left = np.flatnonzero(upper == math.inf)
    if left.size:
        low, high = low[left], high[left]
        roots, slopes = _roots(expansion, low)
        below, above = expansion.bounds(roots)
        upper[left] = _outward(roots, (above - low) / -slopes, lambda at, i: expansion.bounds(at)[1] <= low[i])
        behind = _outward(-roots, (high - below) / -slopes, lambda at, i: expansion.bounds(-at)[0] >= high[i])
        lower[left] = np.maximum(0.0, -behind)
    return lower, upper


def _roots(expansion: _Expansion, log_deltas: Array) -> tuple[Array, Array]:
    """Where log S is log_deltas[i], by Newton's method, and the slopes there; NaN where that fails."""
    most = expansion.contour.window / 4
    roots = expansion.epsilon + (expansion.log_delta - log_deltas) / expansion.contour.c
    for _ in range(_NEWTON):
        values, slopes = expansion.estimates(roots)
        misses = log_deltas - values
        roots = roots + np.clip(misses / slopes, -most, most)
        if not np.any(np.abs(misses) > _NEAR_ROOT):
            break
    return roots, np.where(slopes < 0, slopes, math.nan)


def _outward(roots: Array, distances: Array, holds: Callable[[Array, Indices], BoolArray]) -> Array:
    """The first points tried above the roots where the certificate `holds`; infinite where none is found."""
    found = np.full(roots.shape, math.inf)
    reach = np.maximum(1.001 * distances, np.abs(roots) * 2.0**-52)
    left = np.arange(roots.size)
    for _ in range(_WALKS):
        left = left[np.isfinite(reach[left])]
        if left.size == 0:
            break
        at = roots[left] + reach[left]
        good = holds(at, left)
        found[left[good]] = at[good]
        left = left[~good]
        reach[left] *= 2
    return found
