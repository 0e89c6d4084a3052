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

from dpledger.mechanisms.entropy import Entropy
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
        dealt = crowded[np.lexsort((words, owners[crowded]))]
        chosen = self._first(groups, owners, dealt)
        return np.sort(np.concatenate([inside[fits[owners[inside]]], chosen]))

    def _first(self, groups: Positions, owners: Positions, dealt: Positions) -> Positions:
        """What counts of rows that are dealt: one unit's after another's, each unit's in the order drawn."""
        dealt = dealt[_rank(owners[dealt]) < self.rows]
        if self.groups < self.rows:
            pairs = _by_appearance(owners[dealt], groups[dealt])
            dealt = dealt[pairs - _first_of_run(owners[dealt], pairs) < self.groups]
        if self.rows_a_group < self.rows:
            pairs = _by_appearance(owners[dealt], groups[dealt])
            order = np.argsort(pairs, kind="stable")
            dealt = dealt[order][_rank(pairs[order]) < self.rows_a_group]
        return dealt


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
