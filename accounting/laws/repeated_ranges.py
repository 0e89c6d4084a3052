"""Losses of a bounded range that is run several times, each run chosen by what came out before.

`worst_of_runs` lists losses whose composition dominates all that such runs can show, together with anything of fixed
losses in between; `attained_by_runs` those of one such conversation. Few runs are one loss, found by value iteration on
a lattice of losses; of many, only the last ones are, and each of the earlier ones is a loss with few values that
dominates a run from where they start. Source: Dong-Durfee-Rogers 2020 (the recursion); docs/proofs/bounded_ranges.md.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.bounded_range import BoundedRangeLoss, range_pair
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import Loss

__all__ = ["attained_by_runs", "worst_of_runs"]

WIDEST = 8.0  # an eta above is so coarse on the lattice that its envelope is as good
_LAST = 64  # runs that are iterated one by one
_CELLS, _FEWEST, _MOST = 1600, 40, 640  # of the lattice: all told, and for one eta
_SLACK = 1 + 96 * UNIT  # of one step, for rounding
_CANCELLED = 1 + 2.0**-40  # what is lost of a chord by its difference
_MASS_ERROR = 1e-9  # relative, of second differences; what is not within it is refused
_GROWTH = 1.5  # a run's loss is made anew when there are so many times as many after it
_ENOUGH = 140  # runs, from which on it is kept
_FINEST = 1e-9  # of a lattice: on a finer one differences are rounding
_RAREST = 1e-280  # values below are not compared: what is taken from them is not a normal float
_GROWN = 1 + 2.0**-36  # what a run may add to delta, relative, beyond its loss: rounding errors where delta is about 1
_BLOCKS = 8  # of positions, each with its own bound of what a cell gains
_SLIGHT = 2.0**-44  # of a value: what a row can gain is added without looking
_RARE = 1e-6  # of delta at 0: where what a run's loss adds is least
_TRIED, _ROUNDS = 17, 3  # weights of the widest losses, more and more closely


@dataclass(frozen=True, slots=True)
class _Lattice:
    """Losses at multiples of eta / cells."""

    eta: float
    cells: int

    @property
    def step(self) -> float:
        return self.eta / self.cells

    def likely(self) -> tuple[Array, Array]:
        """The masses, under P, of the larger and the smaller of two losses, for each position of the larger."""
        at, left = (self.step * np.arange(0, self.cells + 1)[::way] for way in (1, -1))  # both have an exact 0
        whole = -math.expm1(-self.eta)
        return -np.expm1(-left) / whole, np.exp(-left) * -np.expm1(-at) / whole


def worst_of_runs(eta: float, runs: int) -> tuple[tuple[Loss, int], ...]:
    """Losses, each with how often it is run: together they dominate `runs` adaptive runs of eta-bounded range.

    Claim: so they do, also where runs of other ranges, and of what has fixed dominating pairs, come in between.
    Source: docs/proofs/bounded_ranges.md, sections 2 to 4.
    """
    return ((BoundedRangeLoss(eta), runs),) if runs == 1 or eta > WIDEST else _worst(eta, runs)


def attained_by_runs(eta: float, runs: int, position: float) -> tuple[tuple[Loss, int], ...]:
    """Losses that one adaptive conversation of `runs` runs of eta-bounded range shows, or more: two losses with the
    larger one at `position` times eta, and the last runs by what came out.

    Claim: at every epsilon some conversation has at least their delta. Source: docs/proofs/bounded_ranges.md,
    section 5."""
    if runs == 1 or eta > WIDEST:
        return ((range_pair(eta, position).loss(), runs),)
    last = min(runs, _LAST)
    kept = _kept(eta, last)
    if kept is None:
        return ((range_pair(eta, position).loss(), runs),)
    return ((kept, 1),) if last == runs else ((kept, 1), (range_pair(eta, position).loss(), runs - last))


@functools.lru_cache(maxsize=256)
def _worst(eta: float, runs: int) -> tuple[tuple[Loss, int], ...]:
    envelope = ((BoundedRangeLoss(eta), runs),)
    last = min(runs, _LAST)
    lattice = _lattice(eta, last)
    values = _above(lattice, last)
    found = _of_values(lattice, values) if last == runs else _of_values(_Lattice(eta, lattice.cells // 4), values[::4])
    if found is None:
        return envelope
    losses: list[tuple[Loss, int]] = [(found, 1)]
    if last < runs:
        lattice, values, blur = _smoothed(lattice, values)
        losses.append((blur, 1))
    weights = None
    while last < runs:
        if values[-2] > _RAREST:
            weights = _dominating(lattice, values) or weights  # what does once, does for ever
        if weights is None:
            return (*losses, (BoundedRangeLoss(eta), runs - last))
        until = runs if last >= _ENOUGH or not values[-2] > _RAREST else min(runs, math.ceil(last * _GROWTH))
        losses.append((_few_values(lattice, weights), until - last))
        if until < runs:
            for _ in range(until - last):
                values = _composed(lattice, values, weights)
        last = until
    return tuple(losses)


@functools.lru_cache(maxsize=256)
def _kept(eta: float, last: int) -> FiniteLoss | None:
    lattice = _lattice(eta, last)
    values, falls = (each[::2] for each in _below(lattice, last))
    return _of_lines(_Lattice(eta, lattice.cells // 2), values, falls)


def _lattice(eta: float, last: int) -> _Lattice:
    return _Lattice(eta, _BLOCKS * (min(_MOST, max(_FEWEST, _CELLS // last)) // _BLOCKS))


# ---- profiles -------------------------------------------------------------------------------------------------------


def _above(lattice: _Lattice, runs: int) -> Array:
    """At least the worst delta of `runs` runs, at epsilon = 0, step, 2 step, ... as far as it is above 0."""
    values = np.zeros(1)
    for _ in range(runs):
        values = _after(lattice, values)
    return values


def _below(lattice: _Lattice, runs: int) -> tuple[Array, Array]:
    """As many points of the worst delta of runs whose losses are on the lattice, and how steep lines through them are
    that it lies above: by how much they fall in e^epsilon, times e^epsilon."""
    values, falls = np.zeros(1), np.zeros(1)
    for _ in range(runs):
        below = np.exp(-lattice.step * np.arange(1, lattice.cells + 1))
        known = [_padded(each[1 : lattice.cells + 1], lattice.cells) for each in (values, falls)]
        steep = np.concatenate([(below * (1 - known[0] - known[1]))[::-1], falls, np.zeros(2 * lattice.cells)])
        at, start = _at(lattice, _wide(lattice, values, 2 * lattice.cells))
        best = at.argmax(axis=1)
        row = np.arange(best.size)
        likely, other = lattice.likely()
        steep = steep[::-1]
        falls = steep[start + row + best] * likely[best] + steep[start - lattice.cells + row + best] * other[best]
        values, falls = at[row, best][::-1] / _SLACK, falls[::-1]
    return values, falls


def _padded(values: Array, size: int) -> Array:
    return np.concatenate([values, np.zeros(size - values.size)])


def _wide(lattice: _Lattice, values: Array, beyond: int) -> Array:
    """delta at -cells step, ... : below 0 by delta(-e) = 1 - e^-e (1 - delta(e)); `beyond` zeros after the last."""
    below = lattice.step * np.arange(1, lattice.cells + 1)
    mirror = np.zeros(lattice.cells)
    known = values[1 : lattice.cells + 1]
    mirror[: known.size] = known
    return np.concatenate([(-np.expm1(-below) + np.exp(-below) * mirror)[::-1], values, np.zeros(beyond)])


def _at(lattice: _Lattice, wide: Array) -> tuple[Array, int]:
    """delta before one more run with the larger loss at t, for each t on the lattice (columns), epsilon falling from
    row to row; and where in the values, falling as well, the first row is."""
    m = lattice.cells
    likely, other = lattice.likely()
    windows = sliding_window_view(wide[::-1].copy(), m + 1)
    rows = wide.size - 2 * m
    at = windows[m : m + rows] * likely
    at += windows[:rows] * other
    return at, m


def _after(lattice: _Lattice, values: Array) -> Array:
    """At least delta before one more run: the supremum over its two losses, t and t - eta, of what is linear in
    e^epsilon between the points, on each cell of t from both ends and from its curvature."""
    wide = _wide(lattice, values, 2 * lattice.cells)
    at, start = _at(lattice, wide)
    upper: Array = _between(lattice, wide[::-1], slice(start, start + at.shape[0]), at)[::-1] * _SLACK
    return upper


def _between(lattice: _Lattice, wide: Array, here: slice, at: Array) -> Array:
    """For each row of `at`, values at all t on the lattice: a bound of the supremum between them. Blocks of cells and
    cells that cannot reach the largest value of their row are not looked at."""
    m, h, rows = lattice.cells, lattice.step, at.shape[0]
    width = m // _BLOCKS
    slopes = (wide[1:] - wide[:-1]) / -math.expm1(-h)  # times e^epsilon
    heights = wide[1:] + slopes * math.exp(-h)
    scale = h * h * _SLACK / -math.expm1(-lattice.eta)
    by_height, lower = scale * np.exp(h * np.arange(1, m + 1) - lattice.eta), math.exp(-lattice.eta)

    def of_blocks(each: Array, less: float) -> Array:
        """At least the fall of these from any cell of a block to the one eta higher, row by row."""
        most, least = each[: 1 - width or None].copy(), each[: 1 - width or None].copy()
        for k in range(1, width):
            np.maximum(most, each[k : k + most.size], out=most)
            np.minimum(least, each[k : k + least.size], out=least)
        above, below = (sliding_window_view(ends, m - width + 1) for ends in (most * _CANCELLED, least * less))
        return np.maximum(above[here, ::width] - below[here.start - m : here.stop - m, ::width], 0)

    gains = of_blocks(heights, 1.0) * by_height[width - 1 :: width] + of_blocks(slopes, lower) * scale
    tops = at[:, :m:width].copy()
    for k in range(1, width + 1):
        np.maximum(tops, at[:, k : m - width + k + 1 : width], out=tops)
    best = tops.max(axis=1)
    slight = gains.max(axis=1) / 8
    slight[slight > _SLIGHT * best] = 0
    reach = best[:, None] - np.where(slight[:, None] > 0, 0, gains / 8)
    row, block = np.nonzero(tops >= reach)
    cell = (block * width)[:, None] + np.arange(width)
    left, right = at[row[:, None], cell], at[row[:, None], cell + 1]
    chosen = np.maximum(left, right) >= reach[row, block][:, None]
    row = np.broadcast_to(row[:, None], cell.shape)[chosen]
    left, right, cell = left[chosen], right[chosen], cell[chosen]
    near, far = here.start + row + cell, here.start - m + row + cell
    bend = np.maximum(heights[near] * _CANCELLED - heights[far], 0) * by_height[cell]
    bend += np.maximum(slopes[near] * _CANCELLED - slopes[far] * lower, 0) * scale
    apart = np.abs(right - left)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = (left + right) / 2 + bend / 8 + apart * (apart / (2 * bend))
    found = np.where(apart < bend / 2, inside, np.maximum(left, right))
    largest = np.maximum.reduceat(found, np.searchsorted(row, np.arange(rows)))
    bounds: Array = np.maximum(best + slight, largest)
    return bounds


def _shifted(lattice: _Lattice, values: Array, far: int) -> Array:
    """delta after a run with the losses +-far steps, at as many points as `_after`."""
    wide = _wide(lattice, values, 2 * lattice.cells)
    start, count = lattice.cells, values.size + lattice.cells
    likely = 1 / (1 + math.exp(-far * lattice.step))
    found: Array = likely * wide[start - far : start - far + count]
    found += (1 - likely) * wide[start + far : start + far + count]
    return found


def _smoothed(lattice: _Lattice, values: Array) -> tuple[_Lattice, Array, Loss]:
    """These values before a loss of 0 or +-half a step, on the lattice that is twice as fine, and that loss: it has
    chords half as long, where those in between would keep the corners of the long ones."""
    finer = _Lattice(lattice.eta, 2 * lattice.cells)
    h = finer.step
    share = 1 / (1 + math.exp(h))
    between = np.empty(2 * values.size - 1)
    between[::2], between[1::2] = values, (1 - share) * values[:-1] + share * values[1:]
    blurred = _shifted(finer, between, 1)[: between.size + 1] / 2
    blurred[:-1] += between / 2
    masses = np.array([(1 - share) / 2, 0.5, share / 2])
    loss = FiniteLoss(np.array([h, 0.0, -h]), masses, np.array([4 * UNIT * h, 0.0, 4 * UNIT * h]), 16 * UNIT, 0.0)
    return finer, blurred * _SLACK, loss


# ---- a run before the others ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Weights:
    """Of a loss with the values 0, +-5/8 eta and +-eta."""

    none: float
    most: float
    whole: float


def _part(lattice: _Lattice) -> int:
    return lattice.cells * 5 // 8


def _dominating(lattice: _Lattice, values: Array) -> _Weights | None:
    """A loss of few values after which delta is at least what any run makes of it, that adds least where delta is small; None
    where there is none. Source: docs/proofs/bounded_ranges.md, section 4."""
    worst = _after(lattice, values)
    still = np.concatenate([values, np.zeros(lattice.cells)])
    more = worst / _GROWN - still
    most, whole = (_shifted(lattice, values, far) - still for far in (_part(lattice), lattice.cells))
    asked = more > 0
    near = asked & (most > 0)
    far = asked & ~near & (whole > 0)
    if (asked & ~near & ~far).any():
        return None
    least = float(np.max(more[far] / whole[far], initial=0.0)) * (1 + 1e-9)
    ratios = more[near] / most[near], whole[near] / most[near]
    rare = int(np.argmax(values < _RARE * values[0]))
    costs = whole[rare], most[rare]
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


def _composed(lattice: _Lattice, values: Array, weights: _Weights) -> Array:
    found: Array = weights.most * _shifted(lattice, values, _part(lattice))
    found += weights.whole * _shifted(lattice, values, lattice.cells)
    found[: values.size] += weights.none * values
    return found * _SLACK


def _few_values(lattice: _Lattice, weights: _Weights) -> FiniteLoss:
    losses = lattice.eta * np.array([1, 5 / 8, 0, -5 / 8, -1])
    each = np.array([weights.whole, weights.most, weights.none, weights.most, weights.whole])
    masses = each / (1 + np.exp(-losses))
    masses[2] = weights.none
    there = masses > 0
    errors = 4 * UNIT * np.abs(losses)
    return FiniteLoss(losses[there], masses[there], errors[there], 2 * (_GROWN - 1), 0.0)


# ---- losses of a profile --------------------------------------------------------------------------------------------


def _of_values(lattice: _Lattice, values: Array) -> FiniteLoss | None:
    """The loss whose delta has these values and is linear in e^epsilon in between; None where rounding hides it."""
    h = lattice.step
    ends = np.concatenate([values, np.zeros(1)])
    falls = _falls(ends, h)
    lost = _lost(ends, h)
    masses: Array = math.exp(h) * np.concatenate([[0.0], falls[:-1]]) - falls  # under P, at 0, h, 2h, ...
    masses[0] = 1 - values[0] - 2 * falls[0]  # by symmetry
    raised: Array = masses + 2 * (lost + math.exp(h) * np.concatenate([[lost[0]], lost[:-1]]))
    return _mirrored(h * np.arange(values.size, dtype=np.float64), raised, h)


def _falls(ends: Array, h: float) -> Array:
    """Of the chords, by how much they fall: their slopes in e^epsilon, times e^epsilon at the left end."""
    falls: Array = (ends[:-1] - ends[1:]) / math.expm1(h)
    return falls


def _lost(ends: Array, h: float) -> Array:
    """At least the rounding errors of these."""
    found: Array = 8 * UNIT * (ends[1:] + ends[:-1]) / math.expm1(h)
    return found


def _of_lines(lattice: _Lattice, values: Array, falls: Array) -> FiniteLoss | None:
    """The loss whose delta is the largest of the lines through these values, so steep that a convex function that has
    the values lies above them."""
    h = lattice.step
    first = min(falls[0], 1 - values[0] - falls[0])  # of two lines at 0, mirror images, the flatter
    falls = np.concatenate([[first], falls[1:]])
    steeper = falls[:-1] - falls[1:] * math.exp(-h)
    gap = math.expm1(h)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (values[:-1] - values[1:] - falls[1:] * (math.exp(-h) * gap)) / (steeper * gap)
    meeting = np.clip(np.nan_to_num(share), 0.0, 1.0) * gap
    places = h * np.arange(steeper.size) + np.log1p(meeting)
    masses = (1 + meeting) * (steeper - 8 * UNIT * falls[:-1])
    still = 1 - values[0] - 2 * first - 8 * UNIT
    return _mirrored(np.concatenate([[0.0], places]), np.concatenate([[still], masses]), h)


def _mirrored(places: Array, masses: Array, h: float) -> FiniteLoss | None:
    """The loss with these masses under P at losses of at least 0, the first of them 0, and the same with P and Q
    exchanged below."""
    if not h > _FINEST:
        return None
    there = masses > 0
    middle = np.flatnonzero(there[:1])  # of the mass at 0, if any
    there[0] = False
    losses, left = places[there], masses[there]
    right = left * np.exp(-losses)
    seen = right > 0
    every = np.concatenate([losses[::-1], places[middle], -losses[seen]])
    both = np.concatenate([left[::-1], masses[middle], right[seen]])
    if abs(math.fsum(both.tolist()) - 1) > _MASS_ERROR:
        return None
    errors = 8 * UNIT * np.abs(every) + _MASS_ERROR * h * (every != 0)
    return FiniteLoss(every, both, errors, _MASS_ERROR, 0.0)
