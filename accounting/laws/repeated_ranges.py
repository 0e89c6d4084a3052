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
_LAST, _LAST_WIDE, _WIDE = 64, 24, 1.5  # runs that are iterated one by one, and those of an eta above _WIDE
_CELLS, _FEWEST, _MOST = 960, 32, 320  # of the lattice: all told, and for one eta
_SLACK = 1 + 96 * UNIT  # of one step, for rounding
_CANCELLED = 1 + 2.0**-40  # what is lost of a chord by its difference
_MASS_ERROR = 1e-9  # relative, of second differences; what is not within it is refused
_GROWTH = 1.5  # a run's loss is made anew when there are so many times as many after it
_ENOUGH = 160  # runs, from which on it is kept
_FINEST = 1e-9  # of a lattice: on a finer one differences are rounding
_FAR = 400.0  # losses beyond are not looked at: their exponentials end
_TRIED = 257  # weights of the widest losses


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
    last = min(runs, _last(eta))
    kept = _kept(eta, last)
    if kept is None:
        return ((range_pair(eta, position).loss(), runs),)
    return ((kept, 1),) if last == runs else ((kept, 1), (range_pair(eta, position).loss(), runs - last))


@functools.lru_cache(maxsize=256)
def _worst(eta: float, runs: int) -> tuple[tuple[Loss, int], ...]:
    envelope = ((BoundedRangeLoss(eta), runs),)
    last = min(runs, _last(eta))
    lattice = _lattice(eta, last)
    values = _iterated(lattice, last, "above")
    found = _of_values(lattice, values) if last == runs else _of_values(_Lattice(eta, lattice.cells // 4), values[::4])
    if found is None:
        return envelope
    losses: list[tuple[Loss, int]] = [(found, 1)]
    weights = None
    while last < runs:
        if last * eta < _FAR:
            weights = _dominating(lattice, values) or weights  # what does once, does for ever
        if weights is None:
            return (*losses, (BoundedRangeLoss(eta), runs - last))
        until = runs if last >= _ENOUGH or last * eta >= _FAR else min(runs, math.ceil(last * _GROWTH))
        losses.append((_few_values(lattice, weights), until - last))
        if until < runs:
            for _ in range(until - last):
                values = _composed(lattice, values, weights)
        last = until
    return tuple(losses)


@functools.lru_cache(maxsize=256)
def _kept(eta: float, last: int) -> FiniteLoss | None:
    lattice = _lattice(eta, last)
    return _of_chords(lattice, _iterated(lattice, last, "below"))


def _last(eta: float) -> int:
    return _LAST if eta <= _WIDE else _LAST_WIDE


def _lattice(eta: float, last: int) -> _Lattice:
    cells = _CELLS // last * (1 if eta <= _WIDE else 2)
    return _Lattice(eta, 4 * (min(_MOST, max(_FEWEST, cells)) // 4))


# ---- profiles -------------------------------------------------------------------------------------------------------


def _iterated(lattice: _Lattice, runs: int, side: str) -> Array:
    """Bounds of the worst delta of `runs` runs, at epsilon = 0, step, 2 step, ... as far as it is above 0."""
    values = np.zeros(1)
    for _ in range(runs):
        values = _after(lattice, values, side)
    return values


def _wide(lattice: _Lattice, values: Array, beyond: int) -> Array:
    """delta at -cells step, ... : below 0 by delta(-e) = 1 - e^-e (1 - delta(e)); `beyond` zeros after the last."""
    below = lattice.step * np.arange(1, lattice.cells + 1)
    mirror = np.zeros(lattice.cells)
    known = values[1 : lattice.cells + 1]
    mirror[: known.size] = known
    return np.concatenate([(-np.expm1(-below) + np.exp(-below) * mirror)[::-1], values, np.zeros(beyond)])


def _after(lattice: _Lattice, values: Array, side: str) -> Array:
    """Bounds after one more run: the supremum over its two losses, t and t - eta. Below: over t on the lattice. Above:
    of what is linear in e^epsilon between the points, on each cell of t from both ends and from its curvature."""
    m, h = lattice.cells, lattice.step
    count = values.size + m
    wide = _wide(lattice, values, 2 * m)[::-1].copy()  # falling epsilon, so that a window is rising t
    likely, other = lattice.likely()
    windows = sliding_window_view(wide, m + 1)
    first = wide.size - m - 1 - np.arange(count)  # where the window of t = 0 begins
    at = windows[first[-1] : first[0] + 1] * likely
    at += windows[first[-1] - m : first[0] - m + 1] * other
    if side == "below":
        lower: Array = at.max(axis=1)[::-1] / _SLACK
        return lower
    x = np.exp(h * (wide.size - m - 1 - np.arange(wide.size)))
    slopes = (wide[1:] - wide[:-1]) / (-math.expm1(-h) * x[:-1])
    heights = wide[1:] + slopes * x[1:]
    fall, rise = sliding_window_view(heights, m), sliding_window_view(slopes, m)
    most, steepest = sliding_window_view(heights * _CANCELLED, m), sliding_window_view(slopes * _CANCELLED, m)
    here, there = slice(first[-1], first[0] + 1), slice(first[-1] - m, first[0] - m + 1)
    whole = -math.expm1(-lattice.eta)
    t = h * np.arange(m)
    bend = np.maximum(most[here] - fall[there], 0) * (h * h * _SLACK * np.exp(t + h - lattice.eta) / whole)
    turn = np.maximum(steepest[here] - rise[there], 0) * (h * h * _SLACK * np.exp(-t) / whole)
    turn *= x[first[::-1], None]
    bend += turn
    left, right = at[:, :-1], at[:, 1:]
    apart = np.abs(right - left)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = (left + right) / 2 + bend / 8 + apart * (apart / (2 * bend))
    upper: Array = np.where(apart < bend / 2, inside, np.maximum(left, right)).max(axis=1)[::-1] * _SLACK
    return upper


def _shifted(lattice: _Lattice, values: Array, far: int) -> Array:
    """delta after a run with the losses +-far steps, at as many points as `_after`."""
    wide = _wide(lattice, values, 2 * lattice.cells)
    start, count = lattice.cells, values.size + lattice.cells
    likely = 1 / (1 + math.exp(-far * lattice.step))
    found: Array = likely * wide[start - far : start - far + count]
    found += (1 - likely) * wide[start + far : start + far + count]
    return found


# ---- a run before the others ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Weights:
    """Of a loss with the values 0, +-eta/2 and +-eta."""

    none: float
    half: float
    whole: float


def _dominating(lattice: _Lattice, values: Array) -> _Weights | None:
    """A loss of few values after which delta is at least what any run makes of it, of the least variance found; None
    where there is none. Source: docs/proofs/bounded_ranges.md, section 4."""
    worst = _after(lattice, values, "above")
    still = np.concatenate([values, np.zeros(lattice.cells)])
    more = worst * _SLACK - still
    half, whole = (_shifted(lattice, values, far) - still for far in (lattice.cells // 2, lattice.cells))
    tried = np.linspace(0, 1, _TRIED)
    asked = more > 0
    near = asked & (half > 0)
    far = asked & ~near
    least = float(np.max(more[far] / whole[far], initial=0.0)) * (1 + 1e-9)
    ratios = more[near] / half[near], whole[near] / half[near]
    needed = np.array([float(np.max(ratios[0] - weight * ratios[1])) for weight in tried]).clip(0.0) * (1 + 1e-9)
    possible = (tried >= least) & (needed + tried <= 1)
    cost = np.where(possible, tried * math.tanh(lattice.eta / 2) + needed * math.tanh(lattice.eta / 4) / 2, np.inf)
    best = int(np.argmin(cost))
    if not math.isfinite(cost[best]):
        return None
    return _Weights(max(0.0, 1 - float(tried[best] + needed[best])), float(needed[best]), float(tried[best]))


def _composed(lattice: _Lattice, values: Array, weights: _Weights) -> Array:
    found: Array = weights.half * _shifted(lattice, values, lattice.cells // 2)
    found += weights.whole * _shifted(lattice, values, lattice.cells)
    found[: values.size] += weights.none * values
    return found * _SLACK


def _few_values(lattice: _Lattice, weights: _Weights) -> FiniteLoss:
    losses = np.array([lattice.eta, lattice.eta / 2, 0.0, -lattice.eta / 2, -lattice.eta])
    each = np.array([weights.whole, weights.half, weights.none, weights.half, weights.whole])
    masses = each / (1 + np.exp(-losses))
    masses[2] = weights.none
    there = masses > 0
    errors = 4 * UNIT * np.abs(losses)
    return FiniteLoss(losses[there], masses[there], errors[there], 32 * UNIT * (1 + lattice.eta), 0.0)


# ---- losses of a profile --------------------------------------------------------------------------------------------


def _of_values(lattice: _Lattice, values: Array) -> FiniteLoss | None:
    """The loss whose delta has these values and is linear in e^epsilon in between; None where rounding hides it."""
    h = lattice.step
    ends = np.concatenate([values, np.zeros(1)])
    at: Array = h * np.arange(ends.size, dtype=np.float64)
    slopes = (ends[1:] - ends[:-1]) / (math.expm1(h) * np.exp(at[:-1]))  # falling steps, less and less
    first = (values[0] - math.exp(-h) * ends[1]) / -math.expm1(-h) - 1  # of the cell below 0, by symmetry
    lost = _lost(ends, h)
    masses: Array = slopes - np.concatenate([[first], slopes[:-1]])  # under Q, at 0, h, 2h, ...
    raised: Array = masses + lost + np.concatenate([[lost[0]], lost[:-1]])
    return _mirrored(at[:-1], raised, h)


def _lost(ends: Array, h: float) -> Array:
    """At least the rounding errors of the slopes of the chords."""
    found: Array = 8 * UNIT * (ends[1:] + ends[:-1]) / (math.expm1(h) * np.exp(h * np.arange(ends.size - 1)))
    return found


def _of_chords(lattice: _Lattice, values: Array) -> FiniteLoss | None:
    """The loss whose delta is the largest of every second chord of these values: no more than a convex function that
    has them."""
    h = lattice.step
    ends = np.concatenate([values, np.zeros(3)])
    ends = ends[: ends.size // 2 * 2]
    at: Array = h * np.arange(ends.size, dtype=np.float64)
    x = np.exp(at)
    slopes = (ends[1::2] - ends[::2]) / (math.expm1(h) * x[::2])
    steeper = slopes[1:] - slopes[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = math.expm1(h) * x[1:-1:2]
        share = (ends[2::2] - ends[1:-1:2] - slopes[1:] * gap) / (-steeper * gap)
    places = at[1:-1:2] + np.log1p(np.clip(np.nan_to_num(share), 0.0, 1.0) * math.expm1(h))
    first = (values[0] - math.exp(-h) * ends[1]) / -math.expm1(-h) - 1
    lost = _lost(ends, h)[::2]
    masses: Array = np.concatenate([[slopes[0] - first - 2 * lost[0]], steeper - lost[1:] - lost[:-1]])
    return _mirrored(np.concatenate([[0.0], places]), masses, h)


def _mirrored(places: Array, masses: Array, h: float) -> FiniteLoss | None:
    """The loss with these masses under Q at losses of at least 0, the first of them 0, and the same with P and Q
    exchanged below."""
    if not h > _FINEST:
        return None
    there = masses > 0
    middle = np.flatnonzero(there[:1])  # of the mass at 0, if any
    there[0] = False
    losses, right = places[there], masses[there]
    every = np.concatenate([losses[::-1], places[middle], -losses])
    left = np.concatenate([(right * np.exp(losses))[::-1], masses[middle], right])
    if abs(math.fsum(left.tolist()) - 1) > _MASS_ERROR:
        return None
    errors = 8 * UNIT * np.abs(every) + _MASS_ERROR * h * (every != 0)
    return FiniteLoss(every, left, errors, _MASS_ERROR, 0.0)
