"""A whole profile at once: a few contours, each good for a stretch of epsilons, instead of one for each point.

An *anchor* is a contour made for one value of log delta. Away from it its certificate stays valid and grows wide
slowly, so each epsilon is asked of the anchors on both sides, and the bounds are intersected. What is wide then is left
to the method for one point. docs/proofs/engine.md, sections 1 and 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dpledger.accounting.engine.choose import answered_by_contour, delta_interval, with_mass
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.contour import Contour
from dpledger.accounting.engine.floating import Array, require_assumptions
from dpledger.accounting.engine.solve import TOLERANCE, WIDTH, Interval, from_logs
from dpledger.accounting.engine.tilt import choose_contour, ladder_around, saddle_for_delta
from dpledger.accounting.laws.reading import Ingredients
from dpledger.errors import WorkLimit

__all__ = ["delta_intervals"]

FIRST, NEXT = (-0.7, -2.5), 4.0  # log delta of the first anchors; the gaps then grow by this
LAST, LEAST = -720.0, 1e-305  # log delta of the last anchor; a delta that nobody asks about more closely
WIDE = 1e-3  # relative width of delta: where both anchors are wider, the point is asked alone


def delta_intervals(what: Ingredients, epsilons: Array, floors: Array) -> list[Interval]:
    """Bounds of delta at each epsilon >= 0, which rise; where delta is not above `floors[i]`, however wide.

    Claim: each lower <= delta(epsilon) <= upper. Source: docs/proofs/engine.md, sections 1 and 8.
    """
    require_assumptions()
    points = epsilons.tolist()
    composed = Composed(what.losses) if what.losses and not what.curves else None
    if composed is None or composed.log_finite == -math.inf or not answered_by_contour(composed):
        return [delta_interval(what, epsilon) for epsilon in points]
    least = float(floors.min(initial=math.inf))
    lower, upper = _log_bounds(composed, epsilons, math.log(least) if 0 < least < math.inf else LAST)
    beyond = epsilons >= composed.largest
    lower[beyond], upper[beyond] = -math.inf, -math.inf
    logs = zip(lower.tolist(), np.minimum(upper, 0.0).tolist(), strict=True)
    finite = (from_logs(Interval(low, high)) for low, high in logs)
    found = [with_mass(interval, composed.log_finite) for interval in finite]
    for i, (epsilon, floor) in enumerate(zip(points, floors.tolist(), strict=True)):
        if found[i].upper > max(floor, LEAST) and found[i].relative_width() > WIDE:
            found[i] = found[i].meet(delta_interval(what, epsilon))
    return found


def _log_bounds(composed: Composed, epsilons: Array, least: float) -> tuple[Array, Array]:
    """Bounds of log delta from the anchors next to each epsilon, down to `least`; infinite where there is none."""
    lower, upper = np.full(epsilons.shape, -math.inf), np.full(epsilons.shape, math.inf)
    places: list[float] = []
    contours: list[Contour] = []
    for place, contour in _anchors(composed, float(epsilons[-1]), least):
        places.append(place)
        contours.append(contour)
    for i, contour in enumerate(contours):
        start = places[i - 1] if i > 0 else -math.inf
        end = places[i + 1] if i + 1 < len(places) else math.inf
        near = (epsilons >= start) & (epsilons <= end)
        if near.any():
            low, high = contour.bounds_at(epsilons[near])
            lower[near], upper[near] = np.maximum(lower[near], low), np.minimum(upper[near], high)
    return lower, upper


def _anchors(composed: Composed, last: float, least: float) -> Iterator[tuple[float, Contour]]:
    """Contours with the epsilon that each is for, rising, until one lies beyond `last` or is for less than `least`."""
    log_delta, gap = FIRST[0], FIRST[0] - FIRST[1]
    while log_delta >= LAST:
        try:
            saddle = saddle_for_delta(composed, log_delta, WIDTH)
            ladder = ladder_around(composed, saddle)
            yield saddle.epsilon, choose_contour(composed, saddle, ladder, tolerance=TOLERANCE, width=WIDTH)
        except WorkLimit:
            return
        if saddle.epsilon > last or log_delta < least:
            return
        log_delta, gap = log_delta - gap, gap + NEXT
