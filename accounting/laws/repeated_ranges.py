"""Losses of bounded ranges that run several times, each run chosen by what came out before.

`worst_of_runs` lists losses whose composition dominates all that such runs can show, together with anything of fixed
losses in between; `attained_by_runs` those of one such conversation. Few runs are one loss, found by value iteration on
lattices of losses; of many, only the last ones are, and each of the earlier ones is a loss with few values that
dominates a run from where they start. Source: Dong-Durfee-Rogers 2020 (the recursion); docs/proofs/bounded_ranges.md.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.bounded_range import BoundedRangeLoss, far_tilt, range_pair, worst_position
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.range_lattice import (
    BLOCKS,
    FINEST,
    SLACK,
    Lattice,
    after,
    after_below,
    moved,
    moved_below,
    of_lines,
    of_values,
    shifted,
    smoothed,
)

__all__ = ["Runs", "attained_by_runs", "in_blocks", "worst_of_runs"]

Runs: TypeAlias = tuple[tuple[float, int], ...]
"""Ranges, each with how often it is run, the first of them first."""

WIDEST = 32.0  # an eta above is so coarse on the lattice that its envelope is as good
_MOST = 640  # cells of a lattice, for one eta
_WIDE = 3.0  # an eta above takes more cells
_GROWTH = 1.8  # a run's loss is made anew when there are so many times as many after it
_RAREST = 1e-280  # values below are not compared: what is taken from them is not a normal float
_GROWN = 1 + 2.0**-40  # what a run may add to delta, relative, beyond its loss: rounding errors where delta is about 1
_TRIED, _ROUNDS = 17, 3  # weights of the widest losses, more and more closely
_LONGEST = 1 << 14  # points of a function that is moved to another lattice
_COMPOSED = 256  # runs whose losses a function is composed with, one by one


@dataclass(frozen=True, slots=True)
class _Effort:
    """`last`: so many runs are iterated one by one. `enough`: from so many on a run's loss is kept. `cells` of the
    lattice times runs, and the fewest cells for one eta."""

    last: int
    enough: int
    cells: int
    fewest: int


_ALONE, _AMONG_OTHERS = _Effort(64, 200, 1600, 40), _Effort(24, 48, 640, 24)
_MIXED = _Effort(32, 100, 800, 40)


def in_blocks(runs: Iterable[tuple[float, int]]) -> Runs:
    """The same runs, those of one range that follow each other as one."""
    grouped = itertools.groupby(runs, key=lambda each: each[0])
    return tuple((eta, sum(count for _, count in each)) for eta, each in grouped)


def worst_of_runs(runs: Runs, *, is_alone: bool = True) -> tuple[tuple[Loss, int], ...]:
    """Losses, each with how often it is run: together they dominate adaptive runs of these bounded ranges, in this
    order.

    Claim: so they do, also where runs of what has fixed dominating pairs come in between; those of one range also where
    runs of other ranges do. Source: docs/proofs/bounded_ranges.md, sections 2 to 4."""
    apart = tuple((BoundedRangeLoss(eta), count) for eta, count in runs if not _is_iterated(eta))
    rest = in_blocks((eta, count) for eta, count in runs if _is_iterated(eta))
    if sum(count for _, count in rest) < 2:
        return (*apart, *((BoundedRangeLoss(eta), count) for eta, count in rest))
    effort = _AMONG_OTHERS if not is_alone else _ALONE if len(rest) == 1 else _MIXED
    return (*apart, *_worst(rest, effort))


def _is_iterated(eta: float) -> bool:
    return _MOST * FINEST < eta <= WIDEST


def attained_by_runs(runs: Runs, tilt: float) -> tuple[tuple[Loss, int], ...]:
    """Losses that one adaptive conversation of these bounded ranges, in this order, shows, or more: two losses at the
    worst position for this tilt, and the last runs by what came out.

    Claim: at every epsilon some conversation has at least their delta. Source: docs/proofs/bounded_ranges.md,
    section 5."""
    fixed, last = _split(runs, (_ALONE if len(runs) == 1 else _MIXED).last)
    kept = _kept(last) if sum(count for _, count in last) > 1 else None
    if kept is None:
        fixed = runs
    each = tuple((range_pair(eta, worst_position(eta, tilt)).loss(), count) for eta, count in fixed)
    return each if kept is None else ((kept, 1), *each)


def _split(runs: Runs, last: int) -> tuple[Runs, Runs]:
    """The first runs, and the last ones, so many that what comes before makes little of what came out."""
    first: list[tuple[float, int]] = []
    iterated: list[tuple[float, int]] = []
    square = 0.0
    for eta, count in reversed(runs):
        now = min(count, _missing(square, eta, last)) if _is_iterated(eta) and not first else 0
        if now:
            iterated.insert(0, (eta, now))
            square += now * eta * eta
        if now < count:
            first.insert(0, (eta, count - now))
    return tuple(first), tuple(iterated)


def _missing(square: float, eta: float, last: int) -> int:
    """How many runs of this range are iterated after what has this sum of squares."""
    return max(0, math.ceil(last - square / (eta * eta)))


@functools.lru_cache(maxsize=256)
def _worst(runs: Runs, effort: _Effort) -> tuple[tuple[Loss, int], ...]:
    made = _Above(runs, effort)
    for eta, count in reversed(runs):
        made.run(eta, count)
    return made.losses() or tuple((BoundedRangeLoss(eta), count) for eta, count in runs)


@functools.lru_cache(maxsize=256)
def _kept(runs: Runs) -> FiniteLoss | None:
    effort = _ALONE if len(runs) == 1 else _MIXED
    lattices = _Lattices(runs, effort)
    values, falls, step = np.zeros(1), np.zeros(1), 0.0
    for eta, count in reversed(runs):
        lattice = lattices.of(eta)
        if 0 < step != lattice.step:
            values, falls = moved_below(step, values, falls, lattice.step)
        step = lattice.step
        for _ in range(count):
            values, falls = after_below(lattice, values, falls)
    stride = 2 * max(1, round(lattices.step / step))
    return of_lines(stride * step, values[::stride], falls[::stride])


class _Lattices:
    """Of the ranges of a mix: about as fine as that of the widest, and never with fewer cells than blocks."""

    def __init__(self, runs: Runs, effort: _Effort) -> None:
        self.widest = max(eta for eta, _ in runs)
        iterated = min(effort.last, sum(count for _, count in runs))
        fewest = effort.fewest + (2 * BLOCKS if self.widest > _WIDE else 0)
        self.cells = min(_MOST, max(fewest, effort.cells // iterated))
        self.step = self.widest / self.cells

    def of(self, eta: float) -> Lattice:
        share = (eta / self.widest) ** 0.75
        return Lattice(eta, BLOCKS * max(1, math.floor(self.cells * share / BLOCKS)))


class _Above:
    """A function on a lattice, and losses: together they are above delta of the runs so far, from the last one back."""

    def __init__(self, runs: Runs, effort: _Effort) -> None:
        self.effort, self.lattices, self.tilt = effort, _Lattices(runs, effort), far_tilt(runs)
        self.base: tuple[float, Array] = (0.0, np.zeros(1))  # what the losses are composed with
        self.composed: list[tuple[Loss, int]] = []  # those that `values` already holds
        self.beside: list[tuple[Loss, int]] = []  # and those that it does not
        self.step, self.values = 0.0, np.zeros(1)
        self.square = 0.0  # of the ranges that `values` holds

    def run(self, eta: float, count: int) -> None:
        """As many runs before the others."""
        lattice = self.lattices.of(eta)
        if self.step and (self.values.size - 1) * self.step > _LONGEST * lattice.step / 2:
            self.beside.extend(worst_of_runs(((eta, count),), is_alone=False))  # Theorem 1
            return
        self._move(lattice)
        now = min(count, _missing(self.square, eta, self.effort.last))
        for _ in range(now):
            self.values = after(lattice, self.values)
        self.square += now * eta * eta
        self._rebase()
        if now < count:
            self._with_few_values(lattice, count - now)

    def _move(self, lattice: Lattice) -> None:
        if 0 < self.step != lattice.step:
            self.values = moved(self.step, self.values, lattice.step)
        self.step = lattice.step
        self._rebase()

    def _rebase(self) -> None:
        grown = sum(count for _, count in self.composed)
        self.values = self.values * _GROWN ** (2 * grown) if grown else self.values
        self.base, self.composed = (self.step, self.values), []

    def _with_few_values(self, lattice: Lattice, left: int) -> None:
        eta = lattice.eta
        lattice, self.values, blur = smoothed(lattice, self.values)
        self.step = lattice.step
        self.composed.append((blur, 1))
        weights = None
        while left:
            if self.values[-2] > _RAREST:
                weights = _dominating(lattice, self.values, self.tilt) or weights  # what does once, does for ever
            if weights is None:
                self.beside.append((BoundedRangeLoss(eta), left))
                return
            past = self.square / (eta * eta)
            is_enough = past >= self.effort.enough or not self.values[-2] > _RAREST
            now = left if is_enough else min(left, math.ceil(past * (_GROWTH - 1)))
            left -= now
            loss = (_few_values(lattice, weights), now)
            if now > _COMPOSED:
                self.beside.append(loss)
                continue
            for _ in range(now):
                self.values = _composed(lattice, self.values, weights)
            self.square += now * eta * eta
            self.composed.append(loss)

    def losses(self) -> tuple[tuple[Loss, int], ...]:
        step, values = self.base
        others = (*self.composed, *self.beside)
        stride = max(1, round(self.lattices.step / step)) * (4 if others else 1)
        found = of_values(stride * step, values[::stride])
        return () if found is None else ((found, 1), *others)


# ---- a run before the others ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Weights:
    """Of a loss with the values 0, +-5/8 eta and +-eta."""

    none: float
    most: float
    whole: float


def _part(lattice: Lattice) -> int:
    return lattice.cells * 5 // 8


def _dominating(lattice: Lattice, values: Array, tilt: float) -> _Weights | None:
    """A loss of few values after which delta is at least what any run makes of it, that adds least where delta falls
    like e^{-tilt epsilon}; None where there is none. Source: docs/proofs/bounded_ranges.md, section 4."""
    worst = after(lattice, values)
    still = np.concatenate([values, np.zeros(lattice.cells)])
    more = worst / _GROWN - still
    most, whole = (shifted(lattice, values, far) - still for far in (_part(lattice), lattice.cells))
    asked = more > 0
    near = asked & (most > 0)
    far = asked & ~near & (whole > 0)
    if (asked & ~near & ~far).any():
        return None
    least = float(np.max(more[far] / whole[far], initial=0.0)) * (1 + 1e-9)
    ratios = more[near] / most[near], whole[near] / most[near]
    there = int(np.argmax(values[1:-1] < values[:-2] * math.exp(-tilt * lattice.step)))
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
    return best


def _composed(lattice: Lattice, values: Array, weights: _Weights) -> Array:
    found: Array = weights.most * shifted(lattice, values, _part(lattice))
    found += weights.whole * shifted(lattice, values, lattice.cells)
    found[: values.size] += weights.none * values
    return found * SLACK


def _few_values(lattice: Lattice, weights: _Weights) -> FiniteLoss:
    losses = lattice.eta * np.array([1, 5 / 8, 0, -5 / 8, -1])
    each = np.array([weights.whole, weights.most, weights.none, weights.most, weights.whole])
    masses = each / (1 + np.exp(-losses))
    masses[2] = weights.none
    there = masses > 0
    errors = 4 * UNIT * np.abs(losses)
    return FiniteLoss(losses[there], masses[there], errors[there], 2 * (_GROWN - 1), 0.0)
