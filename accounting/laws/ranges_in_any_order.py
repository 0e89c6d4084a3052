"""Bounded ranges whose next one may be chosen by what came out: several lists of losses, each of which dominates.

The runs are dealt to groups. Of one group the profile is found by value iteration over what is left of it; the groups,
and ranges by themselves, compose. One group of all is nearly the truth and takes as many steps as there are states;
`effort` says how many steps are taken. Source: docs/proofs/bounded_ranges.md, Theorems 1 and 4.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.range_lattice import Table, after, moved
from dpledger.accounting.laws.repeated_ranges import (
    IN_ANY_ORDER,
    LEAST,
    LONGEST,
    Lattices,
    Runs,
    all_of,
    is_iterated,
    loss_of,
    worst_of_runs,
)

__all__ = ["MOST_EFFORT", "Losses", "worst_in_any_order"]

Losses: TypeAlias = tuple[tuple[Loss, int], ...]

_Dealings: TypeAlias = dict[float, tuple[float, tuple[Runs, ...]]]
"""By how many steps they take: what groups add to the truth, and these groups."""

MOST_EFFORT = 64
_STEPS = 450  # of the recursion, at effort 1
_GROUPED = 24  # different ranges that are dealt to groups, the widest


def worst_in_any_order(ranges: Iterable[tuple[float, int]], effort: int = 1) -> tuple[Losses, ...]:
    """Lists of losses, each with how often it is run: in groups, and each range by itself. `effort`: 1 to MOST_EFFORT.

    Claim: each list dominates adaptive runs of these bounded ranges in any order, chosen by what came out too, also
    where runs of what has fixed dominating pairs come in between. Source: docs/proofs/bounded_ranges.md, Theorems 1
    and 4."""
    counts: dict[float, int] = {}
    for eta, count in ranges:
        counts[eta] = counts.get(eta, 0) + count
    by_itself = functools.partial(worst_of_runs, is_alone=len(counts) == 1)
    apart = tuple(itertools.chain.from_iterable(by_itself((one,)) for one in counts.items()))
    groups = _dealt(tuple(sorted(one for one in counts.items() if is_iterated(one[0]))), _STEPS * effort)
    known = {group: _of_group(group) for group in groups if len(group) > 1}
    if not known:
        return (apart,)
    joined = {run for group in known for run in group}
    others = itertools.chain.from_iterable(by_itself((one,)) for one in counts.items() if one not in joined)
    grouped = (*((loss, 1) for loss in known.values() if loss is not None), *others)
    return (apart,) if None in known.values() else (grouped, apart)


def _dealt(runs: Runs, most: int) -> tuple[Runs, ...]:
    """Neighbouring ranges, narrow ones first, in groups of at most so many steps together: what a group adds to the
    truth is about the square of its widest range, and the least of that is looked for. Any choice is sound."""
    runs = runs[-_GROUPED:]
    best: list[_Dealings] = [{0: (0.0, ())}]
    for end in range(1, len(runs) + 1):
        found: _Dealings = {}
        for start in range(end - 1, -1, -1):
            group = runs[start:end]
            taken = _steps_of(group)
            if taken > most:
                break
            for so_far, (excess, groups) in best[start].items():
                whole = excess + scalars.square(group[-1][0])
                if so_far + taken <= most and whole < found.get(so_far + taken, (math.inf, ()))[0]:
                    found[so_far + taken] = whole, (*groups, group)
        best.append(_undominated(found))
    return min(best[-1].values(), key=lambda each: each[0])[1]


def _undominated(found: _Dealings) -> _Dealings:
    """Those than which none takes fewer steps and adds less."""
    kept: _Dealings = {}
    least = math.inf
    for steps in sorted(found):
        if found[steps][0] < least:
            kept[steps], least = found[steps], found[steps][0]
    return kept


def _steps_of(group: Runs) -> float:
    """Of the recursion; infinite where its functions would have too many points."""
    if len(group) == 1:
        return 0
    lattices = Lattices(group, IN_ANY_ORDER)
    if all_of(group) > LONGEST // 8 * min(lattices.of(eta).step for eta, _ in group):
        return math.inf
    states = math.prod(count + 1 for _, count in group)
    return sum(states // (count + 1) * count for _, count in group)


@functools.lru_cache(maxsize=256)
def _of_group(runs: Runs) -> FiniteLoss | None:
    """The loss of all these, whichever is next; None where rounding hides it."""
    lattices, table = Lattices(runs, IN_ANY_ORDER), Table()
    each = [lattices.of(eta) for eta, _ in runs]
    step = lattices.of(lattices.widest).step
    left: dict[tuple[int, ...], Array] = {}
    for counts in itertools.product(*(range(count + 1) for _, count in runs)):
        values = np.zeros(1)
        for first, lattice in enumerate(each):
            if counts[first]:
                others = left[(*counts[:first], counts[first] - 1, *counts[first + 1 :])]
                run = after(lattice, _at_step(step, others, lattice.step), table)
                run[:-1] = np.maximum(run[:-1], LEAST)
                values = _larger(values, _at_step(lattice.step, run, step))
        left[counts] = values
    return loss_of(runs, step, values, all_of(runs))


def _at_step(step: float, values: Array, other: float) -> Array:
    return values if step == other else moved(step, values, other)


def _larger(some: Array, others: Array) -> Array:
    """The larger of both at each point; beyond its last one each is 0."""
    short, long = sorted((some, others), key=len)
    found = long.copy()
    np.maximum(found[: short.size], short, out=found[: short.size])
    return found
