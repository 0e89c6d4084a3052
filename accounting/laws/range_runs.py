"""Bounded ranges of one eta run several times, each interval of losses placed as the answers so far suggest.

A run is some pair with two losses t and t - eta, 0 <= t <= eta; P meets the larger one with (e^eta - e^t)/(e^eta - 1).
What an adversary who chooses t run by run can reach is a dynamic programme, V_0(eps) = (1 - e^eps)_+ and

    V_k(eps) = max_t  P_t V_{k-1}(eps - t) + (1 - P_t) V_{k-1}(eps - t + eta),

and V_k is the profile of a symmetric pair, which dominates any k runs. On a lattice of eps with eta = n h:

    below   t on the lattice only: what these adversaries reach, exactly
    above   every t: between two lattice points V is below its chord in e^eps, and of chords the maximum is bounded

docs/proofs/bounded_range.md; Dong-Durfee-Rogers 2020, Lemma 4.1 (the pairs).
"""

from __future__ import annotations

import functools
import math
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.laws.bounded_range import BoundedRangeLoss
from dpledger.accounting.laws.cells import Bracket
from dpledger.accounting.laws.curve import LARGEST_EPSILON, bracket_of_points
from dpledger.accounting.laws.law import Loss

__all__ = ["MOST_RUNS", "dominated_runs", "dominating_runs", "range_runs"]

MOST_RUNS = 64
"""Runs of one programme: more are composed from blocks."""
WORK = 1 << 21  # values of t and eps of all steps together
FINEST = 256  # lattice steps to an eta
TINY = 1e-290  # below this a lower bound is 0; an upper one is this much too large
_STEP_ERROR = 32 * UNIT  # relative, of one step of the programme


def dominating_runs(eta: float, runs: int) -> list[tuple[Loss, int]]:
    """Losses with counts that dominate `runs` bounded ranges of `eta`, chosen adaptively, also between other releases:
    blocks of up to MOST_RUNS, and the envelope of each run where they cannot be laid out.

    Claim: the composition dominates. Source: docs/proofs/bounded_range.md, sections 2 and 4.
    """
    whole, rest = divmod(runs, MOST_RUNS)
    found: list[tuple[Loss, int]] = []
    for size, count in ((MOST_RUNS, whole), (rest, 1)):
        if not size or not count:
            continue
        block = range_runs(eta, size) if size > 1 else None
        found.append((BoundedRangeLoss(eta), size * count) if block is None else (block.above.loss(), count))
    return found


def dominated_runs(eta: float, runs: int) -> Loss | None:
    """A loss that the worst of `runs` bounded ranges of `eta` and nothing else dominates; None where they are more than
    MOST_RUNS or cannot be laid out.

    Claim: dominated. Source: docs/proofs/bounded_range.md, section 3.
    """
    bracket = range_runs(eta, runs) if 1 < runs <= MOST_RUNS else None
    return None if bracket is None else bracket.below.loss()


@functools.lru_cache(maxsize=64)
def range_runs(eta: float, runs: int) -> Bracket | None:
    """Symmetric pairs above and below the worst of `runs` bounded ranges of `eta` whose intervals are chosen
    adaptively; None where `runs` times `eta` is too large to be laid out.

    Claim: above dominates every such run of runs; below is dominated by the worst of them. `runs`: 2 to MOST_RUNS.
    `eta` is within UNIT, relative, of what is meant. Source: docs/proofs/bounded_range.md.
    """
    if not 2 <= runs <= MOST_RUNS or runs * eta > LARGEST_EPSILON * 0.99:
        return None
    steps = min(FINEST, math.isqrt(2 * WORK) // runs)
    larger, smaller = (eta * (1 + side * 4 * UNIT) / steps for side in (1, -1))  # times steps: not below, not above eta
    most, least = _first(larger, steps, 1), _first(smaller, steps, -1)
    for done in range(1, runs):
        most = _step(larger, steps, done, most, "above")
        least = _step(smaller, steps, done, least, "below")
    places = np.arange(most.size, dtype=np.float64)
    ratios = np.exp(places * larger * (1 + 4 * UNIT)), np.exp(places * smaller * (1 - 4 * UNIT))
    return bracket_of_points(ratios[0] * (1 + 4 * UNIT), most, ratios[1] * (1 - 4 * UNIT), np.minimum(least, most))


def _first(h: float, steps: int, side: int) -> Array:
    """V_1 at 0, h, ..., eta, in closed form, rounded up (side 1) or down (-1)."""
    below_eta = h * np.arange(steps, -1.0, -1.0)
    deltas: Array = np.expm1(-below_eta / 2) ** 2 / -math.expm1(-h * steps) * (1 + side * _STEP_ERROR)
    return deltas


def _step(h: float, steps: int, done: int, values: Array, side: Literal["above", "below"]) -> Array:
    """V of one run more, at 0, h, ..., (done + 1) eta, from V at 0, h, ..., done eta.

    Claim: above, at least it, and below, at most it, if `values` are so. Source: docs/proofs/bounded_range.md.
    """
    behind = h * np.arange(-steps, 0.0)
    mirrored = -np.expm1(behind) + np.exp(behind) * values[steps:0:-1]  # V(-eps) = 1 - e^-eps + e^-eps V(eps)
    around = np.concatenate([mirrored, values, np.zeros(2 * steps)])  # no loss is larger
    windows = sliding_window_view(around, steps + 1)
    size = (done + 1) * steps
    higher, lower = windows[:size], windows[steps : size + steps]  # V(eps - t), V(eps - t + eta), t falling in a row
    t, whole = h * np.arange(steps, -1.0, -1.0), math.expm1(h * steps)
    gained = higher - lower
    reached = (np.exp(t) * np.expm1(h * steps - t) / whole) * gained
    reached += lower
    if side == "below":
        best = reached.max(axis=1) * (1 - _STEP_ERROR)
        return np.append(np.where(best > TINY, best, 0.0), 0.0)
    slopes = np.exp(t) * (math.tanh(h / 4) / whole)
    bend = (slopes[:-1] * (1 + _STEP_ERROR)) * gained[:, :-1] - (slopes[1:] * (1 - _STEP_ERROR)) * gained[:, 1:]
    np.maximum(bend, 0.0, out=bend)
    bend += np.maximum(reached[:, :-1], reached[:, 1:])
    return np.append(bend.max(axis=1) * (1 + _STEP_ERROR) + TINY, 0.0)
