"""The smooth cut: for many sampled Gaussians of a small rate, where one large loss among many rules the tail.

Then E e^{cL} is ruled by outcomes far beyond what matters at this delta, and every exponential bound is loose. Take
away most of what lies beyond a point X, by a factor chi on both densities:

    delta_chi(eps) <= delta(eps) <= delta_chi(eps) + sum T_i E_{P_i}(1 - chi_i)

where delta_chi is the profile of the measures chi P, chi Q, of mass below 1, which the contour takes as any other.
Direction remove only: in the direction add the loss is bounded. docs/proofs/engine.md, section 10.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.covering import Answer, contours
from dpledger.accounting.engine.solve import WIDTH, finite_delta, finite_epsilon, from_logs
from dpledger.accounting.engine.tilt import saddle_for_delta
from dpledger.accounting.laws.intervals import Interval
from dpledger.accounting.laws.law import Loss
from dpledger.errors import WorkLimit

__all__ = ["cut_delta", "cut_epsilon", "cuts"]

LOST = 3e-7  # of delta: what the cuts may take away in all
ROOM = 1.5  # tilts up to so many times the one aimed at are to fit the cut
ROUNDS = 6
PLACED = 2  # times that cuts are placed for one epsilon, each by the bound that the last one gave


def cut_epsilon(composed: Composed, down: float, up: float) -> Interval:
    """Bounds of the least epsilon >= 0 with d(epsilon) <= delta, from a cut of every loss that can be cut.

    Claim: the upper bound holds for every delta >= down, the lower for every delta <= up. Source:
    docs/proofs/engine.md, section 10.
    """
    whole = Interval(0.0, composed.largest)
    if not _can_be_cut(composed):
        return whole
    try:
        cut, lost = _placed(composed, down)
        left = down - lost * (1 + 1e-9)
        if not left > 0:
            return whole
        log_up = scalars.log(up)
        return finite_epsilon(cut, scalars.log(left) - 1e-13, log_up + 2 * UNIT * abs(log_up))
    except WorkLimit:
        return whole


def cut_delta(composed: Composed, epsilon: float, about: float) -> Interval:
    """Bounds of d(epsilon), from cuts placed for a delta of `about`.

    Claim: lower <= d(epsilon) <= upper. Source: docs/proofs/engine.md, section 10.
    """
    whole = Interval(0.0, 1.0)
    if not _can_be_cut(composed):
        return whole
    try:
        cut, lost = _placed(composed, about)
        found = from_logs(finite_delta(cut, epsilon))
    except WorkLimit:
        return whole
    return Interval(found.lower, min(1.0, (found.upper + lost) * (1 + 1e-9)))


def cuts(composed: Composed, epsilon: float, about: float) -> Iterator[Answer]:
    """Contours behind cuts that are placed for a delta of `about`, then for what they say of it: a `covering.Method`.

    Claim: as `cut_delta`. Source: docs/proofs/engine.md, section 10.
    """
    if not _can_be_cut(composed):
        return
    for _ in range(PLACED):
        cut, lost = _placed(composed, about)
        for answer in contours(cut, epsilon, about):
            yield functools.partial(_with_lost, answer, lost)
            about = min(about, float(answer(np.array([epsilon]))[1][0]))


def _with_lost(answer: Answer, lost: float, epsilons: Array) -> tuple[Array, Array]:
    lower, upper = answer(epsilons)
    return lower, np.minimum(1.0, (upper + lost) * (1 + 1e-9))


def _can_be_cut(composed: Composed) -> bool:
    return any(loss.rare is not None for loss, _ in composed.parts)


def _placed(composed: Composed, delta: float) -> tuple[Composed, float]:
    """Cuts that fit the tilt which the cut losses themselves ask for, and the mass that they take away: found by
    repetition. Any cut is valid."""
    log_delta = scalars.log(delta)
    tilt = saddle_for_delta(composed, log_delta, WIDTH).c
    share = LOST * delta / len(composed.parts)
    for _ in range(ROUNDS):
        each = [(*_cut(loss, share / count, ROOM * tilt), count) for loss, count in composed.parts]
        cut = Composed(tuple((loss, count) for loss, _, count in each))
        wanted = saddle_for_delta(cut, log_delta, WIDTH, most=4 * tilt).c
        if wanted <= 1.2 * tilt:
            break
        tilt = wanted
    return cut, sum(count * lost for _, lost, count in each)


def _cut(loss: Loss, mass: float, tilt: float) -> tuple[Loss, float]:
    return (loss, 0.0) if loss.rare is None else loss.rare.cut_away(mass, tilt)
