"""A score in an audit: the grid on which its runs are counted, the cells that are bet on, and what its arms came to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dpledger.audit.evidence.estimates import (
    Arm,
    CellCut,
    Counts,
    Grid,
    Places,
    arms_of,
    binned,
    categories,
    cut_of,
    fitted,
    lattice_of,
    merged,
)
from dpledger.audit.features.score import Score
from dpledger.audit.outcomes.structure import Floats

__all__ = ["Estimate", "Track", "estimates"]

Estimate = tuple[int, int, Floats, Floats]
"""A track, an arm of it, and its estimate p, q of the masses of the cells."""

RECUT = 1.5  # cells are cut anew when the runs have grown by this factor
SETTLED = 4_096  # runs a side from which a track counts on a lattice


@dataclass(slots=True, eq=False)
class Track:
    """`share`: of the error budget, that of each arm; `wealth`: what a unit of each came to by its own bets, as
    logarithms; `followed`: by those of the leader, while it made none; `gains`: by its own with past blocks discounted,
    float64[2, arms], at the claim and at the frontier of the chain.

    `past`: numbers of both sides while they are few; then runs are counted on `grid`, in `counts` (left, right), and
    `cell` says which merged cell each of its cells belongs to. `strata`: how many, each with cells of its own."""

    score: Score
    arms: tuple[Arm, ...]
    share: Fraction
    strata: int = 1
    past: tuple[Floats, Floats] | None = None
    where: tuple[Places, Places] | None = None  # strata of the past runs
    grid: Grid = field(default_factory=lambda: CellCut(np.empty(0)))
    counts: Counts = field(default_factory=lambda: np.zeros((2, 2), dtype=np.int64))
    cell: Places = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    cells: int = 2
    cut_at: int = 0
    fine: bool = False
    live: bool = True
    wealth: Floats = field(init=False)
    followed: Floats = field(init=False)
    gains: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.wealth, self.followed = np.zeros((2, len(self.arms)))
        self.gains = np.zeros((2, len(self.arms)))

    @classmethod
    def born(
        cls,
        score: Score,
        numbers: tuple[Floats, Floats],
        where: tuple[Places, Places] | None,
        strata: int,
        share: Fraction,
    ) -> Track:
        """A track of a score with the numbers of past runs of both sides and, with several strata, where they lie; its
        arms divide `share` among them."""
        arms = arms_of(numeric=score.categories == 0 and strata == 1, primary=score.primary)
        track = cls(score, arms, share / len(arms), strata, numbers, where, fine=score.primary)
        if score.categories:
            track.grid = categories(score.categories)
        track.recut()
        return track

    def with_wealth_of(self, other: Track) -> Track:
        """This track with the share of another one, and what that came to: it bets in its place from now on."""
        assert self.arms == other.arms, "scores that are fitted to the same have the same arms"
        self.share, self.gains = other.share, other.gains
        self.wealth, self.followed = other.wealth, other.followed
        return self

    @property
    def held(self) -> Floats:
        """The logarithm of the wealth of each arm, with its share."""
        return math.log(self.share) + self.wealth + self.followed

    @property
    def runs(self) -> int:
        """Of one side, those that it has counted."""
        return int(self.counts[0].sum())

    def recut(self, *, counted: bool = False) -> None:
        """Cut cells anew, where the runs have grown enough; count on a lattice from then on, where they are many, or
        where the next block will be `counted`."""
        now = len(self.past[0]) if self.past else self.runs
        if now < RECUT * self.cut_at and not (counted and self.past):
            return
        settles = now >= SETTLED or counted
        self.cut_at = now
        if self.past:
            both = np.concatenate(self.past)
            if not self.score.categories:
                self.grid = lattice_of(both) if settles else cut_of(both, fine=self.fine)
            self.counts = np.stack([self._counted(*side) for side in zip(self.past, self._strata(), strict=True)])
            if settles or self.score.categories:
                self.past = self.where = None
        one = merged(self.grid, self.counts.reshape(2, self.strata, -1).sum((0, 1)), fine=self.fine)
        self.cells = int(one.max()) + 1
        self.cell = (one + self.cells * np.arange(self.strata)[:, None]).ravel()

    def _strata(self) -> tuple[Places | None, Places | None]:
        return self.where if self.where else (None, None)

    def _counted(self, numbers: Floats, where: Places | None) -> Counts:
        places = self.grid.of(numbers)
        if where is not None:
            places = places + self.grid.size * where
        return np.bincount(places, minlength=self.grid.size * self.strata)

    def places(self, read: np.ndarray, where: Places | None) -> Places:
        """Merged cells of runs that were read."""
        places = read if self.past is None else self.grid.of(read)
        where = None if self.past is None else where  # else it is in the cell already
        cells: Places = self.cell[places if where is None else places + self.grid.size * where]
        return cells

    def merged(self, counts: Counts) -> Counts:
        """Counts in the merged cells."""
        return np.bincount(self.cell, counts, minlength=self.cells * self.strata).astype(np.int64)

    def add(self, read: tuple[np.ndarray, np.ndarray], where: tuple[Places, Places] | None, *, counted: bool) -> None:
        """Count a block."""
        if self.past is not None:
            self.past = (np.concatenate([self.past[0], read[0]]), np.concatenate([self.past[1], read[1]]))
            if where is not None:
                old = self.where or (np.empty(0, int), np.empty(0, int))
                self.where = (np.concatenate([old[0], where[0]]), np.concatenate([old[1], where[1]]))
            self.counts = self.counts + np.stack(
                [self._counted(*side) for side in zip(read, where or (None, None), strict=True)]
            )
        elif counted:
            self.counts = self.counts + np.stack(read)
        else:
            self.counts = self.counts + np.stack([np.bincount(side, minlength=self.counts.shape[1]) for side in read])


def estimates(tracks: list[Track], promising: set[int]) -> list[Estimate]:
    """What the past suggests: (track, arm, p, q) for each arm that speaks. Tracks that are not primary speak with their
    cheap arms unless `promising`."""
    found: list[Estimate] = []
    groups: dict[tuple[int, bool], list[tuple[int, int, Counts, Counts]]] = {}
    for place, track in enumerate(tracks):
        if not track.live:
            continue
        left, right = (track.merged(side) for side in track.counts)
        for number, arm in enumerate(track.arms):
            if not arm.basis or track.score.primary or place in promising:
                groups.setdefault((left.size, bool(arm.basis)), []).append((place, number, left, right))
    for (_, by_regression), group in groups.items():
        arms = [tracks[place].arms[number] for place, number, _, _ in group]
        lefts, rights = (np.stack([one[side] for one in group]) for side in (2, 3))
        p, q = fitted(arms, lefts, rights) if by_regression else binned(arms, lefts, rights)
        found.extend((place, number, p[i], q[i]) for i, (place, number, _, _) in enumerate(group))
    return sorted(found, key=lambda one: one[:2])
