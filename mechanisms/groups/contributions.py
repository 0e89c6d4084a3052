"""How much of one unit counts: so many rows, in so many groups, so many of them in each. Enforced, from an id a row.

Which rows stay is a secret coin of the unit, fresh at each release, which depends on the unit's own rows alone: a word
for each of its rows puts them in a random order; the first rows count, of those the ones in the groups that come up
first, and of each group's the first again. So one unit's rows never decide what of another counts.

>>> from dpledger.mechanisms.entropy import seeded
>>> groups, owners = np.array([0, 0, 1, 2, 0]), np.array([7, 7, 7, 7, 8])
>>> kept = Contributions(rows=3, groups=2, rows_a_group=1).kept(groups, owners, entropy=seeded(0))
>>> len(kept), 4 in kept
(3, True)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.entropy import Entropy, Words
from dpledger.mechanisms.noise import uniform

__all__ = ["Contributions"]

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contributions:
    """At most `rows` of a unit, in at most `groups` groups, and at most `rows_a_group` of them in each."""

    rows: int
    groups: int
    rows_a_group: int

    @property
    def most(self) -> int:
        """How many rows of one unit count at most, in all groups together."""
        return min(self.rows, self.groups * self.rows_a_group)

    def kept(self, groups: Positions, owners: Positions, *, entropy: Entropy) -> Positions:
        """The positions, rising, of the rows that count. `groups`, `owners`: of each row its group and its unit, from
        0; a row with -1 for either counts nowhere, before anything is drawn.

        Claim: data that differ in one unit keep rows that differ in at most `most`, all of that unit, in at most
        `groups` groups, whatever the coins of the others say. Source: docs/proofs/groups.md, section 2."""
        inside = np.flatnonzero((groups >= 0) & (owners >= 0)).astype(np.int64, copy=False)
        sizes = np.bincount(owners[inside]) if len(inside) else np.zeros(0, dtype=np.int64)
        fits = sizes <= min(self.rows, self.groups, self.rows_a_group)
        crowded = inside[~fits[owners[inside]]]
        if not len(crowded):
            return inside
        words = uniform(2**64, len(crowded), entropy=entropy, given=True)
        order = _by_owner(owners[crowded], words)
        chosen = self._first(crowded[order], groups, owners)
        found = np.zeros(len(groups), dtype=np.bool_)
        found[inside] = fits[owners[inside]]
        found[chosen] = True
        return np.flatnonzero(found).astype(np.int64, copy=False)

    def _first(self, dealt: Positions, groups: Positions, owners: Positions) -> Positions:
        """What counts of rows that are dealt: one unit's after another's, each unit's in the order drawn."""
        runs = owners[dealt]
        dealt = dealt[_rank(runs) < self.rows]
        if self.groups == self.rows_a_group == self.rows:
            return dealt
        runs = owners[dealt]
        pairs = _by_appearance(runs, groups[dealt])
        first = pairs - _first_of_run(runs, pairs) < self.groups
        dealt, pairs = dealt[first], pairs[first]
        order = np.argsort(pairs, kind="stable")
        return dealt[order[_rank(pairs[order]) < self.rows_a_group]]


def _by_owner(owners: Positions, words: Words) -> Positions:
    """The order of the rows: by owner, of each by the words, of equal words as they stand. One number for both, where
    no two are equal, is sorted faster."""
    bits = np.uint64(max(int(owners.max()).bit_length(), 1))
    both = owners.astype(np.uint64) << (np.uint64(64) - bits) | words >> bits
    order = np.argsort(both, kind="stable")
    ordered = both[order]
    return order if (ordered[1:] != ordered[:-1]).all() else np.lexsort((words, owners))


def _rank(runs: Positions) -> Positions:
    """The rank of each entry in its run of equal ones, from 0."""
    places = np.arange(len(runs))
    return places - _first_of_run(runs, places)


def _first_of_run(runs: Positions, values: Positions) -> Positions:
    """Of each entry the value that stands at the first of its run."""
    if not len(runs):
        return values
    starts = np.flatnonzero(np.r_[True, runs[1:] != runs[:-1]])
    return np.repeat(values[starts], np.diff(np.r_[starts, len(runs)]))


def _by_appearance(owners: Positions, groups: Positions) -> Positions:
    """A number for each pair of unit and group, from 0 in the order in which they come up."""
    import pandas as pd

    if not len(owners):
        return owners
    codes, _ = pd.factorize(owners * (int(groups.max()) + 1) + groups)
    return codes.astype(np.int64, copy=False)
