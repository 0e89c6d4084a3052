"""The methods by which a profile is bounded, as a table: in which order, and where each is worth asking.

An epsilon, a delta and a curve of many deltas are asked by the same table: whoever asks goes through the methods that
apply to its `Target`, until what it has is narrow. All are valid wherever they are asked; the saddle-point one is the
first. docs/proofs/engine.md, section 8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.engine import covering
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.covering import contours
from dpledger.accounting.engine.enumeration import MANY_OUTCOMES, enumerated, ratios
from dpledger.accounting.engine.large_loss_layers import FEW_PARTS, has_large_losses
from dpledger.accounting.engine.large_losses import large_losses_epsilon, layers, two_scales
from dpledger.accounting.engine.lattice import lattice_epsilon, lattices
from dpledger.accounting.engine.second_moment import moment_epsilon
from dpledger.accounting.engine.solve import finite_epsilon, logs_of
from dpledger.accounting.laws.closed_forms import at_one, crossing
from dpledger.accounting.laws.intervals import NOTHING, Interval
from dpledger.accounting.laws.law import ListedLosses

__all__ = ["METHODS", "NARROW_ENOUGH", "Method", "Target", "counted_epsilon", "few", "methods"]

SHARP = 1e-6  # relative width above which losses that decay slowly are asked for by another method as well
TRIED_NODES = 200  # of a contour that is tried where another method is likely to be needed
NARROW_ENOUGH = 1e-3  # relative width above which the next method is asked too
FEW = 63  # runs up to here: a transform that decays slowly is work for a contour
RARE = 1e-9  # of delta: the mass of a value that need not be counted
CHEAP = 1 << 12  # terms of a sum that take no longer than calling numpy


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked of the profile d of the finite loss: the least epsilon with d(epsilon) <= delta, for every delta
    from `down` to `up`; or `deltas`, d at one epsilon or at many; these `roughly`, where the work of single points is
    not worth it."""

    down: float
    up: float
    deltas: bool = False
    roughly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A way to bound d. `applies`: whether it is worth asking. Of an epsilon, from `down` and `up`; of deltas, as
    `covering`; None where it is not for that. `enough`: the relative width that is narrow enough after it."""

    name: str
    applies: Callable[[Composed, Target], bool]
    enough: float
    epsilon: Callable[[Composed, float, float], Interval] | None = None
    deltas: covering.Method | None = None


def methods(composed: Composed, target: Target) -> Iterator[Method]:
    """Those that answer what is asked, the most promising first."""
    for method in METHODS:
        if (method.deltas if target.deltas else method.epsilon) is not None and method.applies(composed, target):
            yield method


# ---- where a method is worth asking ----------------------------------------------------------------------------------


def few(composed: Composed) -> bool:
    """Whether runs are few and some of them sampled: a quadrature whose transform hardly decays."""
    return any(loss.decays_slowly for loss, _ in composed.parts) and composed.runs <= FEW


def _smoothed(composed: Composed) -> bool:
    """Whether there is noise among the losses whose transform decays."""
    return any(loss.smooths for loss, _ in composed.parts)


def _crowded(composed: Composed, _: Target) -> bool:
    """Whether a contour of all that is asked is much work: of few runs that nothing smooths."""
    return few(composed) and not _smoothed(composed)


def _has_two_scales(composed: Composed, target: Target) -> bool:
    return not target.deltas and not few(composed) and _two_scales(composed, target.down)


@functools.lru_cache(maxsize=16)
def _two_scales(composed: Composed, down: float) -> bool:
    return two_scales(composed, logs_of(down, down)[0])


def _near_enough(composed: Composed, target: Target) -> bool:
    """Whether what lattices leave of many deltas is near enough: of few runs layers take ten times as long."""
    return target.roughly and few(composed)


# ---- the saddle-point method ----------------------------------------------------------------------------------------


def _tried(composed: Composed, down: float, up: float) -> Interval:
    """A contour, if it takes but a few nodes."""
    return finite_epsilon(composed, *logs_of(down, up), most=TRIED_NODES)


def _contour(composed: Composed, down: float, up: float) -> Interval:
    """Where digits are lost, with large losses apart as well, if they were not taken apart before."""
    found = finite_epsilon(composed, *logs_of(down, up))
    lost = SHARP < found.relative_width() <= NARROW_ENOUGH and len(composed.parts) <= FEW_PARTS
    if not lost or not has_large_losses(composed) or _has_two_scales(composed, Target(down, up)):
        return found
    return found.meet(large_losses_epsilon(composed, down, up))


# ---- counting -------------------------------------------------------------------------------------------------------


def _many_outcomes(composed: Composed, down: float, up: float) -> Interval:
    """By counting, where that is some work: for an epsilon on a heavy atom the contour smooths to first order only."""
    runs = composed.runs
    outcomes = enumerated(composed.parts, MANY_OUTCOMES, RARE * down / runs)
    return Interval(0.0, composed.largest) if outcomes is None else counted_epsilon(outcomes, composed, down, up)


def counted_epsilon(outcomes: ListedLosses, composed: Composed, down: float, up: float) -> Interval:
    """The least epsilon, by a sum over outcomes, all but a mass that is small beside `down`."""
    scale = scalars.log(down)
    high = composed.largest  # a bound known otherwise: `crossing` returns it without asking
    low = max(0.0, float(outcomes.losses.min()))
    if high <= 0:
        return NOTHING
    over = up / down * (1 + 8 * UNIT * (1 + abs(scale)))
    under = 1 - 8 * UNIT * (1 + abs(scale))
    shares = functools.partial(ratios, outcomes, log_scale=scale)
    if at_one(shares, 0.0).upper <= under:
        return NOTHING
    if low > 0 and not at_one(shares, low).lower >= over:
        low = 0.0
    listed = float(outcomes.losses.max())  # beyond are losses that are too rare to be listed
    if high > listed and at_one(shares, listed).upper <= under:
        high = listed
    return crossing(shares, under, over, low, high, at_once=max(1, min(31, CHEAP // outcomes.losses.size)))


# ---- the table ------------------------------------------------------------------------------------------------------

METHODS = (
    Method(
        name="a contour of few nodes",
        applies=lambda composed, target: _crowded(composed, target) or _has_two_scales(composed, target),
        enough=SHARP,
        epsilon=_tried,
        deltas=functools.partial(contours, most=TRIED_NODES),
    ),
    Method(
        name="a fine lattice",
        applies=_crowded,
        enough=SHARP,
        epsilon=functools.partial(lattice_epsilon, width=SHARP / 2),
    ),
    Method(
        name="large losses apart, before a contour of many nodes",
        applies=lambda composed, target: _crowded(composed, target) or _has_two_scales(composed, target),
        enough=SHARP,
        epsilon=lambda composed, down, up: large_losses_epsilon(composed, down, up),
    ),
    Method(
        name="a lattice, before a contour of many nodes",
        applies=_crowded,
        enough=SHARP,
        epsilon=lattice_epsilon,
        deltas=lattices,
    ),
    Method(
        name="a contour",
        applies=lambda *_: True,
        enough=NARROW_ENOUGH,
        epsilon=_contour,
        deltas=contours,
    ),
    Method(
        name="large losses apart",
        applies=lambda composed, target: not (_near_enough(composed, target) or _has_two_scales(composed, target)),
        enough=NARROW_ENOUGH,
        epsilon=lambda composed, down, up: large_losses_epsilon(composed, down, up),
        deltas=layers,
    ),
    Method(
        name="counting many outcomes",
        applies=lambda composed, _: not few(composed),
        enough=NARROW_ENOUGH,
        epsilon=_many_outcomes,
    ),
    Method(
        name="a lattice",
        applies=lambda composed, target: not _crowded(composed, target) and (few(composed) or not target.roughly),
        enough=NARROW_ENOUGH,
        epsilon=lattice_epsilon,
        deltas=lattices,
    ),
    Method(
        name="the second moment",
        applies=lambda *_: True,
        enough=NARROW_ENOUGH,
        epsilon=moment_epsilon,
    ),
)
"""In the order in which they are asked."""
