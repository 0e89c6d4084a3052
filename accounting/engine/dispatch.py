"""Which method answers: the hand-over from a list of losses to certified bounds.

    what is asked                                      answered by
    delta at or below the mass at infinity; delta = 0  the edges: infinite, or the largest loss
    a loss that is surely infinite                     epsilon is infinite for every delta below 1
    Gaussians only, however many                       the closed form of one
    one loss with a closed form                        that (`direct`)
    finite losses with few outcomes                    counting them (`direct`, `enumeration`)
    a direction that is not the larger one             one rough contour (`is_at_most`), first
    everything else                                    the table `methods.METHODS`, one after the other
    leaves with Renyi curves only, in addition         upper bound with the curves (`renyi`), lower bound without them

Every method bounds the profile of the finite loss; the mass at infinity is added in one place. Intervals for one number
are intersected, never averaged. docs/proofs/engine.md, section 8.
"""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import UNIT, quietly, raised
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.covering import LARGEST_EPSILON, alone
from dpledger.accounting.engine.enumeration import closed_form, direct_deltas, outcomes_of
from dpledger.accounting.engine.infinite_mass import AT_THE_MASS, finite_parts, with_mass
from dpledger.accounting.engine.large_loss_layers import FEW_PARTS
from dpledger.accounting.engine.lattice import SMALL, lattice_epsilon
from dpledger.accounting.engine.methods import (
    NARROW_ENOUGH,
    Target,
    counted_epsilon,
    few,
    methods,
)
from dpledger.accounting.engine.renyi import curve_bounds, log_finite_of_curves
from dpledger.accounting.engine.solve import is_at_most, logs_of
from dpledger.accounting.laws.closed_forms import at_one, at_the_ends
from dpledger.accounting.laws.intervals import NOTHING, Interval
from dpledger.accounting.laws.law import Loss, sum_up
from dpledger.accounting.lowering import PldList
from dpledger.decimals import float_down, float_up

__all__ = ["LARGEST_EPSILON", "delta_interval", "epsilon_interval", "rough_epsilon"]

_CLEARLY = 20.0  # by this much, in logarithms, outcomes that are not listed are rarer than delta
ALMOST_SURE = (0.9999, 0.99, 0.5)
ROUGH = 1e-3  # relative width of an epsilon for a guess
_FAR_ABOVE, _FAR = (1.0, 4.0, 12.0, 30.0), 600.0  # above epsilon: losses that one run is tested for; an epsilon
_SLACK = 1e-12  # relative: more than a few roundings
_GRID, _GRID_WIDTH = 1 / 256, 0.01  # steps of log delta at which epsilon is asked; relative width of delta that is wide
_GRID_SPAN = 1e-4  # of what delta is at most: the least that is asked
_LEAST = 1e-280  # a delta: of less no logarithm is asked
_LARGE = 1e4  # an epsilon that a quadrature may be too much work for


@quietly
def epsilon_interval(what: PldList, delta: Decimal, floor: float = 0.0) -> Interval:
    """Bounds of the least epsilon >= 0 with delta(epsilon) <= delta, 0 <= delta <= 1; where that is not above `floor`,
    however wide.

    Claim: lower <= epsilon <= upper. Source: docs/proofs/engine.md, sections 1 and 8.
    """
    if delta >= 1:
        return NOTHING
    composed = Composed(what.losses) if what.losses else None
    if composed is not None and composed.log_finite == -math.inf:
        return Interval(math.inf, math.inf)
    alone = NOTHING if composed is None else _epsilon_of_losses(composed, delta, what.failure, floor)
    if not what.curves:
        return alone
    return Interval(alone.lower, _epsilon_with_curves(composed, what, float_down(delta)))


@quietly
def rough_epsilon(what: PldList, delta: Decimal) -> float | None:
    """About the least epsilon, to 1e-3 or so, where that takes far less than its bounds: of few runs, which lattices
    are made for; None elsewhere. No bound: for a guess."""
    composed = Composed(what.losses) if what.losses and not what.curves else None
    if composed is None or not few(composed) or not composed.infinite_mass < float_down(delta) < 1:
        return None
    found = lattice_epsilon(composed, float_down(delta), float_up(delta), ROUGH)
    return (found.lower + found.upper) / 2


def _epsilon_of_losses(composed: Composed, delta: Decimal, failure: Fraction, floor: float) -> Interval:
    down, up = float_down(delta), float_up(delta)
    mass = composed.infinite_mass
    if up < mass * (1 - AT_THE_MASS):
        return Interval(math.inf, math.inf)
    below, above = map(float, finite_parts(np.array(down), np.array(up), mass))
    affordable = delta >= failure  # exactly: then the largest loss is always enough
    upper = composed.largest if affordable else math.inf
    found = _finite_epsilon(composed, below, above, floor)
    if below > 0 or delta == 0 or affordable:
        return Interval(found.lower, min(found.upper, max(0.0, upper)))
    return Interval(found.lower, math.inf)


def _finite_epsilon(composed: Composed, down: float, up: float, floor: float = 0.0) -> Interval:
    """Bounds of the least epsilon with d(epsilon) <= delta, d the profile of the finite loss, down <= delta <= up;
    where that is not above `floor`, however wide."""

    def answer(low: float, high: float) -> Interval:
        closed = closed_form(composed)
        if closed is not None:
            return closed.epsilon(low, high)
        outcomes = outcomes_of(composed, scalars.log(low))
        if outcomes is not None and outcomes.log_beyond < scalars.log(low) - _CLEARLY:
            return counted_epsilon(outcomes, composed, low, high)
        return _composed_epsilon(composed, low, high, floor if (low, high) == (down, up) else 0.0)

    return at_the_ends(answer, (composed.largest_down, composed.largest), down, up)


def _composed_epsilon(composed: Composed, down: float, up: float, floor: float) -> Interval:
    """The hand-over proper: one method after the other until the interval is narrow, or not above `floor`. Each
    interval holds epsilon."""
    found = Interval(0.0, composed.largest)
    if composed.largest <= floor:  # infinite, it may be
        return found
    if floor > 0 and is_at_most(composed, logs_of(down, down)[0], floor):
        return found.meet(Interval(0.0, floor))
    room = SMALL if few(composed) else 0.0
    for method in methods(composed, Target(down, up)):
        assert method.epsilon is not None
        found = found.meet(method.epsilon(composed, down, up))
        if found.upper < math.inf and found.upper - found.lower <= method.enough * max(found.upper, room):
            return found
    if len(composed.parts) <= FEW_PARTS:
        found = found.meet(_part_by_part(composed, down, up))
    return _by_deltas(composed, down, up, found) if found.upper > floor else found


def _by_deltas(composed: Composed, down: float, up: float, known: Interval) -> Interval:
    """`known`, where it is wide, with what delta is at epsilons inside it: where d is at most `down`, the least epsilon
    is at most this one, and where it is above `up`, more.

    Claim: holds epsilon. Source: that of `_by_epsilons`.
    """
    while NARROW_ENOUGH * known.upper < known.upper - known.lower < math.inf:
        middle = (known.lower + known.upper) / 2
        at = _delta_by_methods(composed, middle)
        if at.upper <= down:
            known = Interval(known.lower, middle)
        elif at.lower > up:
            known = Interval(middle, known.upper)
        else:
            break
    return known


def _part_by_part(composed: Composed, down: float, up: float) -> Interval:
    """What each loss, run once, says of all of them: they cost at least the dearest and, delta shared, at most the sum.

    Claim: holds epsilon of the composition. Source: Dwork-Roth 2014, Theorem 3.16 (upper); leaving out a release is
    post-processing (lower).
    """
    runs = composed.runs
    if runs == 1:
        return Interval(0.0, composed.largest)
    lowers, uppers = [], []
    for loss, count in composed.parts:
        once = Composed(((loss, 1),))
        lowers.append(_finite_epsilon(once, down, up).lower)
        uppers.append(count * _finite_epsilon(once, math.nextafter(down / runs * (1 - 4 * UNIT), 0.0), up / runs).upper)
    return Interval(max(lowers), sum_up(uppers))


def _epsilon_with_curves(composed: Composed | None, what: PldList, down: float) -> float:
    """Claim: at least the least epsilon >= 0 with delta(epsilon) <= down."""
    below = (down - _mass_beside_curves(composed, what)) * (1 - 4 * UNIT)
    if below <= 0:
        return math.inf
    upper = curve_bounds(composed, what.curves).epsilon(scalars.log(below))
    return upper if upper > 0 else 0.0


@quietly
def delta_interval(what: PldList, epsilon: float, floor: float = 0.0) -> Interval:
    """Bounds of delta(epsilon), epsilon >= 0, in [0, 1]; where that is not above `floor`, however wide.

    Claim: lower <= delta(epsilon) <= upper. Source: docs/proofs/engine.md, sections 1 and 8.
    """
    composed = Composed(what.losses) if what.losses else None
    known = NOTHING
    if composed is not None and composed.log_finite == -math.inf:
        return Interval(1.0, 1.0)
    if epsilon > LARGEST_EPSILON:
        left = _whole(composed, NOTHING).lower if composed is not None else 0.0
        return Interval(left, delta_interval(what, LARGEST_EPSILON).upper)
    if composed is not None:
        enough = float(finite_parts(np.array(floor), np.array(floor), composed.infinite_mass)[0])
        known = _whole(composed, _finite_delta(composed, epsilon, enough))
    if not what.curves:
        return known
    chernoff = scalars.exp(min(0.0, curve_bounds(composed, what.curves).log_delta(epsilon)))
    together = raised(chernoff, 1e-12) + _mass_beside_curves(composed, what)
    return Interval(known.lower, min(1.0, together * (1 + 4 * UNIT)))


def _whole(composed: Composed, finite: Interval) -> Interval:
    """The profile, from that of the finite loss."""
    return Interval(*map(float, with_mass(np.array(finite.lower), np.array(finite.upper), composed.log_finite)))


def _mass_beside_curves(composed: Composed | None, what: PldList) -> float:
    """What is lost before a Renyi bound speaks: added in full to its delta. The bound is of what is left, a sub-measure
    where the lost mass depends on the path (a filter's delta), so that no factor 1 - mass may be taken off."""
    log_finite = log_finite_of_curves(what.curves) + (composed.log_finite if composed else 0.0)
    return raised(-scalars.expm1(log_finite), 1e-14) if log_finite < 0 else 0.0


def _finite_delta(composed: Composed, epsilon: float, floor: float = 0.0) -> Interval:
    """Bounds of the profile of the finite loss; where that is not above `floor`, however wide."""
    result = _from_below(composed, epsilon, _delta_by_methods(composed, epsilon, floor))
    return _by_epsilons(composed, epsilon, result) if result.upper > floor else result


def _delta_by_methods(composed: Composed, epsilon: float, floor: float = 0.0) -> Interval:
    """The same, but for what epsilons say of it."""
    result = Interval(0.0, 1.0)
    direct = direct_deltas(composed)
    if direct is not None:
        result = result.meet(at_one(direct.deltas, epsilon))
        if direct.is_sharp or result.relative_width() <= NARROW_ENOUGH:
            return result
    if 0 < floor < 1 and epsilon > 0 and is_at_most(composed, logs_of(floor, floor)[0], epsilon):
        return result.meet(Interval(0.0, floor))
    for method in methods(composed, Target(floor, floor, deltas=True)):
        assert method.deltas is not None
        if result.relative_width() > method.enough and result.upper > 0:
            result = result.meet(alone(method.deltas, composed, epsilon, result.upper))
    if result.relative_width() > NARROW_ENOUGH and result.upper > floor and composed.runs > 1:
        result = _delta_of_runs(composed, epsilon, result)
        if len(composed.parts) > 1 and result.relative_width() > NARROW_ENOUGH:
            result = _delta_of_parts(composed, epsilon, result)
    if result.upper == 1 and epsilon > _LARGE:  # delta falls: what is known nearer by holds here too
        result = result.meet(Interval(0.0, _delta_by_methods(composed, math.sqrt(epsilon)).upper))
    return result


def _delta_of_runs(composed: Composed, epsilon: float, known: Interval) -> Interval:
    """`known`, with what single runs say. At most: the chance that any of them shows more than its share of epsilon.
    At least: that of one run, or of a test that looks whether any run's loss is far above epsilon.

    Claim: holds d(epsilon). Source: docs/proofs/engine.md, section 8 (single runs, parts).
    """
    if len(composed.parts) > FEW_PARTS:
        return known
    once = [Composed(((loss, 1),)) for loss, _ in composed.parts]
    counts = [count for _, count in composed.parts]

    def each(at: float) -> list[Interval]:
        return [_finite_delta(one, at) for one in once]

    shares = each(math.nextafter(epsilon / composed.runs, 0.0) * (1 - 4 * UNIT))
    upper = _any([share.upper for share in shares], counts) * (1 + _SLACK)
    lower = max(_finite_delta(one, _beside(composed, one, epsilon)).lower for one in once)
    found = known.meet(Interval(lower, min(1.0, upper)))
    if composed.log_finite < 0 or epsilon > _FAR or any(direct_deltas(one) is None for one in once):
        return found
    near, grown = each(0.0), scalars.exp(epsilon)
    for more in _FAR_ABOVE:
        far = each(epsilon + more)
        seen = _any([at.lower for at in far], counts)
        beyond = scalars.expm1(epsilon + more)
        wrong = [min(1.0, (at.upper - it.lower) / beyond * (1 + _SLACK)) for at, it in zip(near, far, strict=True)]
        found = found.meet(Interval(seen * (1 - _SLACK) - grown * _any(wrong, counts) * (1 + _SLACK), 1.0))
    return found


def _delta_of_parts(composed: Composed, epsilon: float, known: Interval) -> Interval:
    """`known`, with what each loss, run as often as it is, says: at least that, and at most that where the others show
    all they can, or anything at all.

    Claim: holds d(epsilon). Source: docs/proofs/engine.md, section 8 (single runs, parts).
    """
    if len(composed.parts) > FEW_PARTS:
        return known
    for i, part in enumerate(composed.parts):
        others, own = Composed((*composed.parts[:i], *composed.parts[i + 1 :])), Composed((part,))
        at = _finite_delta(own, epsilon)
        same = _beside(composed, own, epsilon)
        lower = at.lower if same == epsilon else _finite_delta(own, same).lower
        shown = [_finite_delta(Composed(((loss, 1),)), 0.0).upper for loss, _ in others.parts]
        upper = _any([at.upper, *shown], [1, *(count for _, count in others.parts)]) * (1 + _SLACK)
        left = (epsilon - max(0.0, others.largest)) * (1 - 4 * UNIT)
        if left >= 0:
            upper = min(upper, _finite_delta(own, math.nextafter(left, 0.0)).upper)
        known = known.meet(Interval(lower, min(1.0, upper)))
    return known


def _beside(composed: Composed, own: Composed, epsilon: float) -> float:
    """The epsilon at which a part alone says what it says of the whole: that of Q which is left out has a mass of up to
    1/(1 - m), m what the others lose at infinity. Rounded up."""
    if composed.log_finite == 0:
        return epsilon
    lost = own.log_finite - composed.log_finite
    return epsilon + lost + 8 * UNIT * (epsilon + abs(own.log_finite) + abs(lost))


def _any(chances: list[float], counts: list[int]) -> float:
    """About the chance that one at least happens of so many independent ones of each."""
    if any(chance >= 1 for chance in chances):
        return 1.0
    logs = (count * scalars.log1p(-chance) for chance, count in zip(chances, counts, strict=True))
    return -scalars.expm1(math.fsum(logs))


def _from_below(composed: Composed, epsilon: float, known: Interval) -> Interval:
    """`known`, with what is known at a larger epsilon, where delta is almost 1: delta falls."""
    for delta in ALMOST_SURE if known.relative_width() > NARROW_ENOUGH else ():
        if known.lower < delta < known.upper and _least_epsilon(composed.parts, delta) > epsilon:
            return known.meet(Interval(delta, 1.0))
    return known


def _by_epsilons(composed: Composed, epsilon: float, known: Interval) -> Interval:
    """`known`, where it is wide, with what epsilon is at deltas inside it: where the least epsilon of a delta is at
    most this one, d is at most that delta, and where it is more, at least that. The deltas lie on a fixed grid, so that
    all points of a profile share the answers.

    Claim: holds d(epsilon). Source: d falls, and epsilon is the least with d(epsilon) <= delta.
    """
    if not (known.relative_width() > _GRID_WIDTH and known.upper > _LEAST):
        return known
    first = math.floor(-scalars.log(known.upper) / _GRID) + 1
    last = math.ceil(-scalars.log(max(known.lower, _GRID_SPAN * known.upper)) / _GRID) - 1
    while first <= last:
        number = (first + last) // 2
        delta = scalars.exp(-number * _GRID)
        if not 0 < delta < 1:
            break
        least = _epsilon_on_grid(composed.parts, delta)
        if least.upper <= epsilon:
            known, first = known.meet(Interval(0.0, delta)), number + 1
        else:
            if least.lower > epsilon:
                known = known.meet(Interval(delta, 1.0))
            last = number - 1
    return known


@functools.lru_cache(maxsize=512)
def _epsilon_on_grid(parts: tuple[tuple[Loss, int], ...], delta: float) -> Interval:
    return _finite_epsilon(Composed(parts), delta, delta)


@functools.lru_cache(maxsize=64)
def _least_epsilon(parts: tuple[tuple[Loss, int], ...], delta: float) -> float:
    return _finite_epsilon(Composed(parts), delta, delta).lower
