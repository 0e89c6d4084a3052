"""Bounded ranges in any order, each chosen by what came out before: several lists of losses, each of which dominates.

The runs are dealt to groups. Of one group the profile is found by value iteration over what is left of it; the groups,
and ranges by themselves, compose. One group of all is nearly the truth and takes as many steps as there are states:
fewer where ranges that are nearly equal count as the widest of them. `effort` says how many steps are taken.
Source: docs/proofs/bounded_ranges.md, Theorems 1 and 4.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.families.bounded_range.lattice import Chords, RangeLattice, RangeTable, after_each
from dpledger.accounting.families.bounded_range.repeated import (
    IN_ANY_ORDER,
    IN_GROUPS,
    LEAST,
    LONGEST,
    Effort,
    Lattices,
    all_of,
    is_iterated,
    loss_of,
    worst_of_runs,
)
from dpledger.accounting.laws.draws import Runs
from dpledger.accounting.laws.finite import FiniteLoss
from dpledger.accounting.laws.law import Loss

__all__ = ["Losses", "worst_in_any_order"]

Losses: TypeAlias = tuple[tuple[Loss, int], ...]

_Dealt: TypeAlias = tuple[float, tuple[Runs, ...]]
"""What groups add to the truth, about, and these groups."""
_Dealings: TypeAlias = dict[float, _Dealt]
"""By how many steps they take."""

_STEPS = 450  # of the recursion, at effort 1
_GROUPED = 24  # different ranges that are dealt to groups, the widest
_LAST_RUNS = 0.4  # of the square of its widest range: what a group adds to the sum of all squares, about


def worst_in_any_order(ranges: Iterable[tuple[float, int]], effort: int = 1) -> tuple[Losses, ...]:
    """Lists of losses, each with how often it is run: in groups, and each range by itself. `effort`: 1 to 64.

    Claim: each list dominates adaptive runs of these bounded ranges in any order, chosen by what came out too, also
    where runs of what has fixed dominating pairs come in between. Source: docs/proofs/bounded_ranges.md, Theorems 1
    and 4."""
    counts: dict[float, int] = {}
    for eta, count in ranges:
        counts[eta] = counts.get(eta, 0) + count
    by_itself = functools.partial(worst_of_runs, is_alone=len(counts) == 1)
    apart = _composed(by_itself((one,)) for one in counts.items())
    iterated = tuple(sorted(one for one in counts.items() if is_iterated(one[0])))
    groups = _best_dealt(iterated, _STEPS * effort)
    if len(groups) == len(iterated):
        return (apart,)
    fine = IN_GROUPS if len(groups) > 1 and effort == 1 else IN_ANY_ORDER
    known = [_of_group(group, fine) for group in groups if len(group) > 1]
    if None in known:
        return (apart,)
    grouped = _composed(
        (
            *(((loss, 1),) for loss in known if loss is not None),
            *(by_itself(group) for group in groups if len(group) == 1),
            *(by_itself((one,)) for one in counts.items() if not is_iterated(one[0])),
        )
    )
    return grouped, apart


def _composed(lists: Iterable[Losses]) -> Losses:
    return tuple(itertools.chain.from_iterable(lists))


def _best_dealt(runs: Runs, most: int) -> tuple[Runs, ...]:
    """Groups of at most so many steps together, of these ranges or of as many wider ones: what they add to the truth is
    about what the squares of the ranges rise by and, for each group, a part of that of its widest one; the least of
    that is looked for. Any choice is sound."""
    best: _Dealt = (math.inf, ())
    for risen, classes in _rounded_up(runs):
        if risen >= best[0]:
            break
        best = min(best, _dealt(classes, most, risen), key=lambda each: each[0])
    return best[1]


def _rounded_up(runs: Runs) -> Iterator[tuple[float, Runs]]:
    """These runs, narrow ones first, then as many of fewer and fewer different ranges, each the next wider one where
    that adds least; and by how much the sum of all squares has risen."""
    classes, risen = list(runs), 0.0
    yield risen, runs
    while len(classes) > 1:
        rises = [
            count * (scalars.square(wider) - scalars.square(eta)) for (eta, count), (wider, _) in pairwise(classes)
        ]
        least = min(range(len(rises)), key=rises.__getitem__)
        risen += rises[least]
        (_, count), (wider, others) = classes[least : least + 2]
        classes[least : least + 2] = [(wider, count + others)]
        if len(classes) <= _GROUPED:
            yield risen, tuple(classes)


def _dealt(runs: Runs, most: int, risen: float) -> _Dealt:
    """Neighbouring ranges, narrow ones first, in groups of at most so many steps together."""
    apart, runs = runs[:-_GROUPED], runs[-_GROUPED:]
    best: list[_Dealings] = [{0: (risen + sum(map(_adds, apart)), tuple((one,) for one in apart))}]
    for end in range(1, len(runs) + 1):
        found: _Dealings = {}
        for start in range(end - 1, -1, -1):
            group = runs[start:end]
            taken = _steps_of(group)
            if taken > most:
                break
            for so_far, (excess, groups) in best[start].items():
                whole = excess + _adds(group[-1])
                if so_far + taken <= most and whole < found.get(so_far + taken, (math.inf, ()))[0]:
                    found[so_far + taken] = whole, (*groups, group)
        best.append(_undominated(found))
    return min(best[-1].values(), key=lambda each: each[0])


def _adds(widest: tuple[float, int]) -> float:
    return _LAST_RUNS * scalars.square(widest[0])


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
def _of_group(runs: Runs, effort: Effort) -> FiniteLoss | None:
    """The loss of all these, whichever is next; None where rounding hides it."""
    lattices, table, largest = Lattices(runs, effort), RangeTable(), all_of(runs)
    step = lattices.of(lattices.widest).step
    reach = largest + 2 * step * sum(count for _, count in runs)
    moves = [_Moves(lattices.of(eta), step, reach) for eta, _ in runs]
    every = sorted(itertools.product(*(range(count + 1) for _, count in runs)), key=sum)
    left = {every[0]: np.zeros(1)}  # of as many runs in all
    for _, states in itertools.groupby(every[1:], key=sum):
        fewer, left = left, {counts: np.zeros(1) for counts in states}
        for first, move in enumerate(moves):
            asked = [counts for counts in left if counts[first]]
            then = [fewer[(*counts[:first], counts[first] - 1, *counts[first + 1 :])] for counts in asked]
            found = after_each(move.lattice, list(map(move.there, then)), table)
            for counts, run in zip(asked, found, strict=True):
                run[:-1] = np.maximum(run[:-1], LEAST)
                left[counts] = _larger(left[counts], move.back(run))
    return loss_of(runs, step, left[every[-1]], largest)


class _Moves:
    """From the lattice that functions are kept on to that of a run, and back."""

    def __init__(self, lattice: RangeLattice, step: float, reach: float) -> None:
        self.lattice, self._is_same = lattice, lattice.step == step
        self._there, self._back = Chords(step, lattice.step, reach), Chords(lattice.step, step, reach)

    def there(self, values: Array) -> Array:
        return values if self._is_same else self._there.moved(values)

    def back(self, values: Array) -> Array:
        return values if self._is_same else self._back.moved(values)


def _larger(some: Array, others: Array) -> Array:
    """The larger of both at each point; beyond its last one each is 0."""
    short, long = sorted((some, others), key=len)
    found = long.copy()
    np.maximum(found[: short.size], short, out=found[: short.size])
    return found
