"""Losses of bounded ranges that run several times, each run chosen by what came out before.

`worst_of_runs` lists losses whose composition dominates all that such runs can show, together with anything of fixed
losses in between; `attained_by_runs` those of one such conversation. Few runs are one loss, found by value iteration on
lattices of losses; of many, only the last ones are, and each of the earlier ones is a loss with few values that
dominates a run from where they start. Source: Dong-Durfee-Rogers 2020 (the recursion); docs/proofs/bounded_ranges.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.families.bounded_range.lattice import (
    BLOCKS,
    FINEST,
    SLACK,
    RangeLattice,
    RangeTable,
    after,
    after_below,
    moved,
    moved_below,
    of_lines,
    of_values,
    shifted,
    smoothed,
)
from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss, far_tilt, range_pair, worst_position
from dpledger.accounting.laws.draws import Runs, in_blocks
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import Loss

__all__ = [
    "IN_ANY_ORDER",
    "IN_GROUPS",
    "LEAST",
    "LONGEST",
    "Effort",
    "Lattices",
    "all_of",
    "attained_by_runs",
    "is_iterated",
    "loss_of",
    "worst_of_runs",
]

WIDEST = 32.0  # an eta above is so coarse on the lattice that its envelope is as good
_MOST = 640  # cells of a lattice, for one eta
_WIDE = 3.0  # an eta above takes more cells
_GROWTH = 1.6  # a run's loss is made anew when there are so many times as many after it
LEAST = 1e-290  # of a value: what is lost below the normal floats is less
_SEEN = 1e12  # times the least value: from here on its place does not show
_WIDER = 1.5  # times a range: what a run that is wider than so does not smooth more of
_COARSER = 3e-5  # of the squares of all ranges: that of the step of a loss, which hardly adds to its variance
_GROWN = 1 + 2.0**-40  # what a run may add to delta, relative, beyond its loss: rounding errors where delta is about 1
_FEWEST = 600  # values of a loss that are not worth fewer
_TRIED, _ROUNDS = 17, 3  # weights of the widest losses, more and more closely
LONGEST = 1 << 15  # points of a function that is moved to another lattice
_COMPOSED = 400  # runs of one range that a function is composed with, one by one
_ALL_COMPOSED = 4000  # of all ranges: what _GROWN adds is within what the masses of a loss are stated with


@dataclass(frozen=True, slots=True)
class Effort:
    """`last`: so many runs are iterated one by one. `enough`: from so many on a run's loss is kept. `cells` of the
    lattice times runs, and the fewest cells for one eta, where there is one."""

    last: int
    enough: int
    cells: int
    fewest: int


_ALONE, _AMONG_OTHERS = Effort(64, 200, 1600, 48), Effort(24, 48, 640, 24)
_MIXED = Effort(44, 100, 800, 38)
IN_ANY_ORDER, IN_GROUPS = Effort(44, 100, 560, 42), Effort(44, 100, 180, 42)


def worst_of_runs(runs: Runs, *, is_alone: bool = True) -> tuple[tuple[Loss, int], ...]:
    """Losses, each with how often it is run: together they dominate adaptive runs of these bounded ranges, in this
    order.

    Claim: so they do, also where runs of what has fixed dominating pairs come in between; those of one range also where
    runs of other ranges do. Source: docs/proofs/bounded_ranges.md, sections 2 to 4."""
    apart = tuple((BoundedRangeLoss(eta), count) for eta, count in runs if not is_iterated(eta))
    rest = in_blocks((eta, count) for eta, count in runs if is_iterated(eta))
    if sum(count for _, count in rest) < 2:
        return (*apart, *((BoundedRangeLoss(eta), count) for eta, count in rest))
    effort = _AMONG_OTHERS if not is_alone else _ALONE if len(rest) == 1 else _MIXED
    return (*apart, *_worst(rest, effort))


def is_iterated(eta: float) -> bool:
    return _MOST * FINEST < eta <= WIDEST


def attained_by_runs(runs: Runs, tilts: tuple[float, ...], tilt: float) -> tuple[tuple[Loss, int], ...]:
    """Losses that one adaptive conversation of these bounded ranges, in this order, shows, or more: the last runs go by
    what came out, at any position, then at the worst ones for these `tilts`; the first have two losses at the worst one
    for `tilt`.

    Claim: at every epsilon some conversation has at least their delta. Source: docs/proofs/bounded_ranges.md,
    section 5."""
    kept: Loss | None
    kept, held = _kept(runs, tilts)
    if kept is None and runs:  # of the last run alone the envelope is the supremum
        kept, held = BoundedRangeLoss(runs[-1][0]), 1
    each: list[tuple[Loss, int]] = []
    for eta, count in reversed(runs):
        left = max(0, count - held)
        held -= count - left
        if left:
            each.append((range_pair(eta, worst_position(eta, tilt)).loss(), left))
    return tuple(each) if kept is None else ((kept, 1), *each)


def _as_smooth(runs: Iterable[tuple[float, int]], eta: float) -> float:
    """Of as many runs of this range a function is as smooth as of these. A much wider one leaves corners behind, as a
    narrow one does, and counts for no more than few."""
    return sum(count * scalars.square(min(each / eta, _WIDER)) for each, count in runs)


def _missing(last: int, past: float) -> int:
    return max(0, math.ceil(last - past))


@functools.lru_cache(maxsize=256)
def _worst(runs: Runs, effort: Effort) -> tuple[tuple[Loss, int], ...]:
    made = _Above(runs, effort)
    for eta, count in reversed(runs):
        made.run(eta, count)
    return made.losses() or tuple((BoundedRangeLoss(eta), count) for eta, count in runs)


@functools.lru_cache(maxsize=256)
def _kept(runs: Runs, tilts: tuple[float, ...]) -> tuple[FiniteLoss | None, int]:
    """The loss of the last runs, which go by what came out, and how many they are: all, unless they are many."""
    effort = _ALONE if len(runs) == 1 else _MIXED
    lattices = Lattices(runs, effort)
    values, falls, step = np.zeros(1), np.zeros(1), 0.0
    held, table = 0, RangeTable()
    past: list[tuple[float, int]] = []
    for eta, count in reversed(runs):
        lattice = lattices.of(eta)
        free = min(count, _missing(effort.last, _as_smooth(past, eta)))
        few = count - free if len(runs) > 1 and count - free <= _COMPOSED else 0
        if (
            not is_iterated(eta)
            or not free + few
            or (values.size - 1) * step + (free + few) * eta > LONGEST * lattice.step
        ):
            break
        if 0 < step != lattice.step:
            values, falls = moved_below(step, values, falls, lattice.step)
        step = lattice.step
        places = tuple(sorted({round(worst_position(eta, tilt) * lattice.cells) for tilt in tilts}))
        for run in range(free + few):
            values, falls = after_below(lattice, values, falls, table, None if run < free else places)
        held += free + few
        past.append((eta, count))
        if free + few < count:
            break
    if held < 2:
        return None, 0
    for stride in _strides(runs, step, values.size):
        kept = of_lines(stride * step, values[::stride], falls[::stride])
        if kept is not None:
            return kept, held
    return None, 0


def _strides(runs: Runs, step: float, points: int) -> Iterator[int]:
    """How many steps are one of a loss, which has fewer values then: so few that it hardly shows, and fewer still
    where rounding hides their differences."""
    longest = math.sqrt(_COARSER * sum(count * eta * eta for eta, count in runs))
    first = max(1, min(points // _FEWEST, math.floor(longest / step)))
    while first * _FEWEST < 16 * points:
        yield first
        first *= 2


class Lattices:
    """Of the ranges of a mix: about as fine as that of the widest, and so fine that all steps of all runs add as small
    a part of their squares as `fewest` cells do for one range."""

    def __init__(self, runs: Runs, effort: Effort) -> None:
        self.widest = max(eta for eta, _ in runs)
        iterated = min(effort.last, sum(count for _, count in runs))
        shares = [(eta / self.widest, count) for eta, count in runs]
        steps = sum(count * math.sqrt(share) for share, count in shares)
        squares = sum(count * share * share for share, count in shares)
        fewest = (effort.fewest + (2 * BLOCKS if self.widest > _WIDE else 0)) * math.sqrt(steps / squares)
        self.cells = min(_MOST, max(fewest, effort.cells / iterated))
        self.step = self.widest / self.cells

    def of(self, eta: float) -> RangeLattice:
        share = eta / self.widest
        blocks = math.ceil(self.cells * math.sqrt(share * math.sqrt(share)) / BLOCKS - 0.25)
        return RangeLattice(eta, BLOCKS * max(1, blocks))


class _Above:
    """A function on a lattice, and losses beside it: together they are above delta of the runs so far, from the last
    one back."""

    def __init__(self, runs: Runs, effort: Effort) -> None:
        self.runs, self.effort, self.lattices, self.tilt = runs, effort, Lattices(runs, effort), far_tilt(runs)
        self.beside: list[tuple[Loss, int]] = []
        self.step, self.values = 0.0, np.zeros(1)
        self.table = RangeTable()
        self.past: list[tuple[float, int]] = []  # runs that `values` holds
        self.least = LEAST  # added to each value at most
        self.composed = 0  # runs, each of which may add as much as _GROWN says

    def run(self, eta: float, count: int) -> None:
        """As many runs before the others."""
        lattice = self.lattices.of(eta)
        if (self.values.size - 1) * self.step > LONGEST * lattice.step:
            self._apart(eta, count)
            return
        if 0 < self.step != lattice.step:
            self.values = moved(self.step, self.values, lattice.step)
        self.step = lattice.step
        now = min(count, _missing(self.effort.last, _as_smooth(self.past, eta)))
        for _ in range(now):
            self.values = after(lattice, self.values, self.table)
        self.past.append((eta, now))
        self.values[:-1] = np.maximum(self.values[:-1], self.least)
        if now < count:
            self._with_few_values(lattice, count - now)

    def _apart(self, eta: float, count: int) -> None:
        """By themselves, in whatever order."""
        self.beside.extend(worst_of_runs(((eta, count),), is_alone=False))

    def _with_few_values(self, lattice: RangeLattice, left: int) -> None:
        eta = lattice.eta
        lattice, self.values = smoothed(lattice, self.values)
        self.step = lattice.step
        everywhere: _Weights | None = None  # the last that were compared at all points
        found: tuple[_Weights, float] | None = None
        while left:
            past = _as_smooth(self.past, eta)
            now = left if past >= self.effort.enough else min(left, math.ceil(past * (_GROWTH - 1)))
            seen = self.least * _SEEN
            again = _dominating(lattice, self.values, self.table, self.tilt, seen)
            found = again or found  # what does once, does for ever
            if found is None:
                break
            weights, beyond = found
            everywhere = everywhere if beyond else weights
            if now > min(_COMPOSED, _ALL_COMPOSED - self.composed):
                break
            for _ in range(now):
                self.values = _composed(lattice, self.values, weights)
            self.composed += now
            self.least += 2 * now * beyond
            self.values[:-1] += self.least
            self.past.append((eta, now))
            left -= now
        if left and everywhere is not None:
            self.beside.append((_few_values(lattice, everywhere), left))
        elif left:
            self._apart(eta, left)

    def losses(self) -> tuple[tuple[Loss, int], ...]:
        found = loss_of(self.runs, self.step, self.values, all_of(self.past))
        return () if found is None else ((found, 1), *self.beside)


def all_of(runs: Iterable[tuple[float, int]]) -> float:
    """The sum of these ranges: beyond it nothing is lost."""
    return math.fsum(count * eta for eta, count in runs)


def loss_of(runs: Runs, step: float, values: Array, largest: float) -> FiniteLoss | None:
    """The loss whose delta is at least these values; None where rounding hides it."""
    tried = (of_values(stride * step, values[::stride], largest) for stride in _strides(runs, step, values.size))
    return next((found for found in tried if found is not None), None)


# ---- a run before the others ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Weights:
    """Of a loss with the values 0, +-5/8 eta and +-eta."""

    none: float
    most: float
    whole: float


def _part(lattice: RangeLattice) -> int:
    return lattice.cells * 5 // 8


def _dominating(
    lattice: RangeLattice, values: Array, table: RangeTable, tilt: float, seen: float
) -> tuple[_Weights, float] | None:
    """A loss of few values after which delta is at least what any run makes of it, but for what is added to it, that
    adds least where delta falls like e^{-tilt epsilon}; None where there is none. Source:
    docs/proofs/bounded_ranges.md, section 4."""
    worst = after(lattice, values, table)
    still = np.concatenate([values, np.zeros(lattice.cells)])
    more = worst / _GROWN - still
    most, whole = (shifted(lattice, values, far) - still for far in (_part(lattice), lattice.cells))
    asked = more > 0
    rare = more.size if values[-2] >= seen else int(np.argmax(values < seen))
    asked[rare:] = False
    near = asked & (most > 0)
    far = asked & ~near & (whole > 0)
    if (asked & ~near & ~far).any():
        return None
    least = float(np.max(more[far] / whole[far], initial=0.0)) * (1 + 1e-9)
    ratios = more[near] / most[near], whole[near] / most[near]
    there = int(np.argmax(values[1:-1] < values[:-2] * scalars.exp(-tilt * lattice.step)))
    costs = whole[there], most[there]
    low, high, best = least, 1.0, None
    for _ in range(_ROUNDS):  # what is needed of the other is convex in the weight of the whole, and so is the cost
        tried = np.linspace(low, high, _TRIED)
        needed = np.array([float(np.max(ratios[0] - weight * ratios[1], initial=0.0)) for weight in tried]) * (1 + 1e-9)
        cost = np.where(needed + tried <= 1, tried * costs[0] + needed * costs[1], np.inf)
        k = int(np.argmin(cost))
        if math.isfinite(cost[k]):
            best = _Weights(max(0.0, 1 - float(tried[k] + needed[k])), float(needed[k]), float(tried[k]))
        low, high = float(tried[max(k - 1, 0)]), float(tried[min(k + 1, _TRIED - 1)])
    if best is None:
        return None
    missing = more[rare:] - best.most * most[rare:] - best.whole * whole[rare:]
    return best, float(np.max(missing, initial=0.0)) if rare < more.size else 0.0


def _composed(lattice: RangeLattice, values: Array, weights: _Weights) -> Array:
    found: Array = weights.most * shifted(lattice, values, _part(lattice))
    found += weights.whole * shifted(lattice, values, lattice.cells)
    found[: values.size] += weights.none * values
    return found * SLACK


def _few_values(lattice: RangeLattice, weights: _Weights) -> FiniteLoss:
    losses = lattice.eta * np.array([1, 5 / 8, 0, -5 / 8, -1])
    each = np.array([weights.whole, weights.most, weights.none, weights.most, weights.whole])
    masses = each / (1 + elementary.exp(-losses))
    masses[2] = weights.none
    there = masses > 0
    errors = 4 * UNIT * np.abs(losses)
    return FiniteLoss(losses[there], masses[there], errors[there], 2 * (_GROWN - 1), 0.0)
