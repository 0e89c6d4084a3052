"""Profiles of bounded ranges on a lattice of losses: one run more before them, from above and from below.

A profile is kept as delta at epsilon = 0, step, 2 step, ...; below 0 it is its mirror image, and between the points it
is a chord (from above) or the larger of two lines (from below). docs/proofs/bounded_ranges.md, sections 3 to 5.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.finite import FiniteLoss

__all__ = [
    "BLOCKS",
    "FINEST",
    "SLACK",
    "Chords",
    "RangeLattice",
    "RangeTable",
    "after",
    "after_below",
    "after_each",
    "moved",
    "moved_below",
    "of_lines",
    "of_values",
    "shifted",
    "smoothed",
]

BLOCKS = 8  # of positions, each with its own bound of what a cell gains
FINEST = 1e-9  # of a lattice: on a finer one differences are rounding
SLACK = 1 + 96 * UNIT  # of one step, for rounding
_CANCELLED = 1 + 2.0**-40  # what is lost of a chord by its difference
_MASS_ERROR = 1e-8  # relative, of second differences; what is not within it is refused
_LEAST_MASS = sys.float_info.min  # below it digits are lost: what is left out is less than what was added
_SLIGHT = 2.0**-44  # of a value: what a row can gain is added without looking


@dataclass(frozen=True, slots=True)
class RangeLattice:
    """Losses at multiples of eta / cells."""

    eta: float
    cells: int

    @property
    def step(self) -> float:
        return self.eta / self.cells

    def likely(self) -> tuple[Array, Array]:
        """The masses, under P, of the larger and the smaller of two losses, for each position of the larger."""
        return _likely(self.eta, self.cells)

    def below(self) -> tuple[Array, Array]:
        """1 - e^epsilon and e^epsilon, at -step, -2 step, ..., -eta."""
        return _below(self.eta, self.cells)


@functools.lru_cache(maxsize=64)
def _likely(eta: float, cells: int) -> tuple[Array, Array]:
    at, left = (eta / cells * np.arange(0, cells + 1)[::way] for way in (1, -1))  # both have an exact 0
    whole = -scalars.expm1(-eta)
    return _kept(-elementary.expm1(-left) / whole), _kept(elementary.exp(-left) * -elementary.expm1(-at) / whole)


@functools.lru_cache(maxsize=64)
def _below(eta: float, cells: int) -> tuple[Array, Array]:
    epsilons = -(eta / cells) * np.arange(1, cells + 1)
    return _kept(-elementary.expm1(epsilons)), _kept(elementary.exp(epsilons))


def _kept(values: Array) -> Array:
    values.flags.writeable = False
    return values


class RangeTable:
    """Memory for one number at each position and epsilon, used again from run to run."""

    def __init__(self) -> None:
        self._kept = np.empty(0)

    def of(self, rows: int, columns: int) -> Array:
        """So many rows and columns, of whatever they hold; what was given before is lost."""
        if self._kept.size < rows * columns:
            self._kept = np.empty(2 * rows * columns)
        return self._kept[: rows * columns].reshape(rows, columns)


class Chords:
    """Where the points of a lattice lie on the chords of functions on another one."""

    def __init__(self, step: float, finer: float, largest: float) -> None:
        """For functions that are 0 beyond `largest`."""
        self._ratio = step / finer
        places: Array = finer * np.arange(math.ceil(largest / finer) + 2, dtype=np.float64)
        cell, along = _placed(
            step, places.size + math.ceil(largest / step), places * (1 - 8 * UNIT) - 8 * UNIT * step
        )  # a little to the left, where more is
        gap = scalars.expm1(step)
        self._cell, self._left = cell, elementary.exp(along) * elementary.expm1(step - along) / gap
        self._right: Array = elementary.expm1(along) / gap

    def moved(self, values: Array) -> Array:
        """At least the same function at epsilon = 0, finer, 2 finer, ..."""
        count = math.ceil((values.size - 1) * self._ratio) + 1
        cell = self._cell[:count]
        ends = np.concatenate([values, np.zeros(max(0, int(cell[-1]) + 2 - values.size))])
        found: Array = ends[cell] * self._left[:count] + ends[cell + 1] * self._right[:count]
        return found * SLACK


def moved(step: float, values: Array, finer: float) -> Array:
    """At least the same function at epsilon = 0, finer, 2 finer, ...: on its chords."""
    return Chords(step, finer, (values.size - 1) * step).moved(values)


def moved_below(step: float, values: Array, falls: Array, finer: float) -> tuple[Array, Array]:
    """At most the same function at epsilon = 0, finer, 2 finer, ...: the larger of the lines through both points next
    to each, and how steep that is."""
    places: Array = finer * np.arange(math.ceil((values.size - 1) * step / finer) + 1, dtype=np.float64)
    cell, along = _placed(step, values.size, places)
    values, falls = (np.concatenate([each, np.zeros(1)]) for each in (values, falls))
    near, far = elementary.expm1(along + 8 * UNIT * (places + step)), -elementary.expm1(along - step)
    left = values[cell] - falls[cell] * near - 8 * UNIT * values[cell]
    right = values[cell + 1] + falls[cell + 1] * (far * (1 - 8 * UNIT) - 8 * UNIT * (places + step))
    steep = np.where(left > right, falls[cell] * elementary.exp(along), falls[cell + 1] * elementary.exp(along - step))
    found = np.maximum(left, right)
    seen = found > 0
    return np.where(seen, found, 0.0) / SLACK, np.where(seen, steep, 0.0)


def _placed(step: float, size: int, places: Array) -> tuple[npt.NDArray[np.int64], Array]:
    """The cells in which these are, and how far from their left ends."""
    cell = np.clip(np.floor(places / step).astype(np.int64), 0, size - 1)
    return cell, np.clip(places - step * cell, 0.0, step)


def after_below(
    lattice: RangeLattice, values: Array, falls: Array, table: RangeTable, places: tuple[int, ...] | None = None
) -> tuple[Array, Array]:
    """Of a run whose losses are on the lattice, before what has at least these values: at most the worst delta, and how
    steep lines through it are that it lies above: by how much they fall in e^epsilon, times e^epsilon. `places`: the
    only ones at which its larger loss may be."""
    _, below = lattice.below()
    known = [_padded(each[1 : lattice.cells + 1], lattice.cells) for each in (values, falls)]
    steep = np.concatenate([(below * (1 - known[0] - known[1]))[::-1], falls, np.zeros(2 * lattice.cells)])[::-1]
    wide = _wide(lattice, values, 2 * lattice.cells)
    likely, other = lattice.likely()
    if places is None:
        at = _at(lattice, wide[::-1].copy(), table)
        best = at.argmax(axis=0)
        column = np.arange(best.size)
        falls = steep[lattice.cells + column + best] * likely[best] + steep[column + best] * other[best]
        return at[best, column][::-1] / SLACK, falls[::-1]
    found, falls = (_at_place(lattice, each, places[0]) for each in (wide[::-1], steep))
    for place in places[1:]:
        more, fall = (_at_place(lattice, each, place) for each in (wide[::-1], steep))
        is_more = more > found
        found, falls = np.where(is_more, more, found), np.where(is_more, fall, falls)
    return found[::-1] / SLACK, falls[::-1]


def _at_place(lattice: RangeLattice, each: Array, place: int) -> Array:
    likely, other = lattice.likely()
    rows, far = each.size - 2 * lattice.cells, lattice.cells + place
    found: Array = each[far : far + rows] * likely[place] + each[place : place + rows] * other[place]
    return found


def _padded(values: Array, size: int) -> Array:
    return np.concatenate([values, np.zeros(size - values.size)])


def _wide(lattice: RangeLattice, values: Array, beyond: int) -> Array:
    """delta at -cells step, ... : below 0 by delta(-e) = 1 - e^-e (1 - delta(e)); `beyond` zeros after the last."""
    none, share = lattice.below()
    mirror = np.zeros(lattice.cells)
    known = values[1 : lattice.cells + 1]
    mirror[: known.size] = known
    return np.concatenate([(none + share * mirror)[::-1], values, np.zeros(beyond)])


def _at(lattice: RangeLattice, falling: Array, table: RangeTable) -> Array:
    """delta before one more run with the larger loss at t, for each t on the lattice (rows), epsilon falling from
    column to column."""
    m = lattice.cells
    likely, other = lattice.likely()
    places = falling.size - 2 * m
    at, low = table.of(m + 1, places), np.empty(places)
    for t in range(m + 1):
        np.multiply(falling[m + t : m + t + places], likely[t], out=at[t])
        np.multiply(falling[t : t + places], other[t], out=low)
        at[t] += low
    return at


def after(lattice: RangeLattice, values: Array, table: RangeTable) -> Array:
    """At least delta before one more run: the supremum over its two losses, t and t - eta, of what is linear in
    e^epsilon between the points, on each cell of t from both ends and from its curvature."""
    return after_each(lattice, (values,), table)[0]


def after_each(lattice: RangeLattice, functions: Sequence[Array], table: RangeTable) -> list[Array]:
    """`after` of each of these: one behind the other, in one sweep. What stands where two meet is of neither."""
    falling = np.concatenate([_wide(lattice, values, 2 * lattice.cells)[::-1] for values in functions])
    upper: Array = _between(lattice, falling, _at(lattice, falling, table)) * SLACK
    sizes = [values.size + lattice.cells for values in functions]
    starts = itertools.accumulate((size + 2 * lattice.cells for size in sizes), initial=0)
    return [upper[start : start + size][::-1] for start, size in zip(starts, sizes, strict=False)]


def _between(lattice: RangeLattice, falling: Array, at: Array) -> Array:
    """For each column of `at`, values at all t on the lattice: a bound of the supremum between them. Blocks of cells
    and cells that cannot reach the largest value of their column are not looked at."""
    m, h, places = lattice.cells, lattice.step, at.shape[1]
    width = m // BLOCKS
    slopes = (falling[1:] - falling[:-1]) / -scalars.expm1(-h)  # times e^epsilon
    heights = falling[1:] + slopes * scalars.exp(-h)
    scale = h * h * SLACK / -scalars.expm1(-lattice.eta)
    by_height, lower = scale * lattice.below()[1][::-1] * scalars.exp(h), scalars.exp(-lattice.eta)

    def of_blocks(each: Array, less: float) -> Array:
        """At least the fall of these from any cell of a block to the one eta higher, column by column."""
        most, least = each[: 1 - width or None].copy(), each[: 1 - width or None].copy()
        for k in range(1, width):
            np.maximum(most, each[k : k + most.size], out=most)
            np.minimum(least, each[k : k + least.size], out=least)
        above, below = (most * _CANCELLED)[m:], least * less
        shape, strides = (BLOCKS, places), (width * above.itemsize, above.itemsize)
        return np.maximum(as_strided(above, shape, strides) - as_strided(below, shape, strides), 0)

    gains = of_blocks(heights, 1.0) * by_height[width - 1 :: width, None] + of_blocks(slopes, lower) * scale
    tops = at[:m:width].copy()
    for k in range(1, width + 1):
        np.maximum(tops, at[k : m - width + k + 1 : width], out=tops)
    best = tops.max(axis=0)
    slight = gains.max(axis=0) / 8
    slight[slight > _SLIGHT * best] = 0
    reach = best - np.where(slight > 0, 0, gains / 8)
    block, place = np.nonzero(tops >= reach)
    ends = at[(block * width)[:, None] + np.arange(width + 1), place[:, None]]
    chosen, along = np.nonzero(np.maximum(ends[:, :-1], ends[:, 1:]) >= reach[block, place][:, None])
    left, right = ends[chosen, along], ends[chosen, along + 1]
    cell, place = block[chosen] * width + along, place[chosen]
    near, far = m + place + cell, place + cell
    bend = np.maximum(heights[near] * _CANCELLED - heights[far], 0) * by_height[cell]
    bend += np.maximum(slopes[near] * _CANCELLED - slopes[far] * lower, 0) * scale
    apart = np.abs(right - left)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = (left + right) / 2 + bend / 8 + apart * (apart / (2 * bend))
    bounds: Array = best + slight
    np.maximum.at(bounds, place, np.where(apart < bend / 2, inside, np.maximum(left, right)))
    return bounds


def shifted(lattice: RangeLattice, values: Array, far: int) -> Array:
    """delta after a run with the losses +-far steps, at as many points as `_after`."""
    wide = _wide(lattice, values, 2 * lattice.cells)
    start, count = lattice.cells, values.size + lattice.cells
    likely = 1 / (1 + scalars.exp(-far * lattice.step))
    found: Array = likely * wide[start - far : start - far + count]
    found += (1 - likely) * wide[start + far : start + far + count]
    return found


def smoothed(lattice: RangeLattice, values: Array) -> tuple[RangeLattice, Array]:
    """These values before a loss of 0 or +-half a step, on the lattice that is twice as fine: it has chords half as
    long, where those in between would keep the corners of the long ones."""
    finer = RangeLattice(lattice.eta, 2 * lattice.cells)
    h = finer.step
    share = 1 / (1 + scalars.exp(h))
    between = np.empty(2 * values.size - 1)
    between[::2], between[1::2] = values, (1 - share) * values[:-1] + share * values[1:]
    blurred = shifted(finer, between, 1)[: between.size + 1] / 2
    blurred[:-1] += between / 2
    return finer, blurred * SLACK


# ---- losses of a profile --------------------------------------------------------------------------------------------


def of_values(h: float, values: Array, largest: float) -> FiniteLoss | None:
    """The loss whose delta has these values at 0, h, 2h, ... below `largest`, where it is 0, and is linear in e^epsilon
    in between; None where rounding hides it. The last of these points is left out where it is close to `largest`."""
    inside = max(1, min(values.size, math.ceil(largest / h - 0.5)))
    places = np.append(h * np.arange(inside, dtype=np.float64), largest)
    ends, gaps = np.append(values[:inside], 0.0), np.diff(places)
    falls = np.append((ends[:-1] - ends[1:]) / elementary.expm1(gaps), 0.0)  # slopes, times e^epsilon at the left end
    lost = np.append(8 * UNIT * (ends[1:] + ends[:-1]) / elementary.expm1(gaps), 0.0)  # at least their rounding errors
    before = elementary.exp(gaps)
    masses: Array = np.append(0.0, before * falls[:-1]) - falls  # under P
    masses[0] = 1 - values[0] - 2 * falls[0]  # by symmetry
    raised: Array = masses + 2 * (lost + np.append(scalars.exp(h) * lost[0], before * lost[:-1]))
    return _mirrored(places, raised, h)


def of_lines(h: float, values: Array, falls: Array) -> FiniteLoss | None:
    """The loss whose delta is the largest of the lines through these values, so steep that a convex function that has
    the values lies above them."""
    first = min(falls[0], 1 - values[0] - falls[0])  # of two lines at 0, mirror images, the flatter
    falls = np.concatenate([[first], falls[1:]])
    steeper = falls[:-1] - falls[1:] * scalars.exp(-h)
    gap = scalars.expm1(h)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (values[:-1] - values[1:] - falls[1:] * (scalars.exp(-h) * gap)) / (steeper * gap)
    meeting = np.clip(np.nan_to_num(share), 0.0, 1.0) * gap
    places = h * np.arange(steeper.size) + elementary.log1p(meeting)
    masses = (1 + meeting) * (steeper - 8 * UNIT * falls[:-1])
    still = 1 - values[0] - 2 * first - 8 * UNIT
    return _mirrored(np.concatenate([[0.0], places]), np.concatenate([[still], masses]), h)


def _mirrored(places: Array, masses: Array, h: float) -> FiniteLoss | None:
    """The loss with these masses under P at losses of at least 0, the first of them 0, and the same with P and Q
    exchanged below."""
    if not h > FINEST:
        return None
    there = masses > 0
    middle = np.flatnonzero(there[:1])  # of the mass at 0, if any
    there[0] = False
    losses, left = places[there], masses[there]
    right = left * elementary.exp(-losses)
    seen = right >= _LEAST_MASS
    every = np.concatenate([losses[::-1], places[middle], -losses[seen]])
    both = np.concatenate([left[::-1], masses[middle], right[seen]])
    if abs(float(both.sum()) - 1) > _MASS_ERROR:
        return None
    errors = 8 * UNIT * np.abs(every) + _MASS_ERROR * h * (every != 0)
    return FiniteLoss(every, both, errors, _MASS_ERROR, 0.0)
