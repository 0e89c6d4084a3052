"""The next block: what is computed of each run, fixed on past runs alone, and what a side's runs came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpledger.audit.evidence.estimates import Counts, Grid, Places
from dpledger.audit.features.score import Score
from dpledger.audit.outcomes.structure import Floats, Outcomes

__all__ = ["Plan", "Reading", "strata_places"]


def strata_places(tops: Sequence[float], losses: Floats) -> Places:
    """The stratum of each claimed loss: the first whose epsilon, of a rising sequence, is at least the loss."""
    return np.searchsorted(np.array(tops[:-1]), losses)


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """Consecutive runs of one side, for each score of a plan: its numbers where it has no cells yet, the cells of runs
    where every pair is looked at, counts else. `strata`: of the runs, where losses are claimed and runs not counted.
    `kept`: the first `room` outcomes, in pieces."""

    runs: int
    read: tuple[npt.NDArray[np.generic], ...]
    counted: bool
    strata: Places | None = None
    room: int = 0
    kept: tuple[Outcomes, ...] = ()

    def __add__(self, other: Reading) -> Reading:
        """What both chunks came to, the runs of `other` after these."""
        pairs = zip(self.read, other.read, strict=True)
        read = tuple(a + b if self.counted else np.concatenate([a, b]) for a, b in pairs)  # type: ignore[operator]
        kept, room = list(self.kept), self.room - sum(len(piece) for piece in self.kept)
        for piece in other.kept:
            if room > 0:
                kept.append(piece.where(slice(0, room)))
                room -= len(kept[-1])
        strata = None
        if self.strata is not None and other.strata is not None:
            strata = np.concatenate([self.strata, other.strata])
        return Reading(self.runs + other.runs, read, self.counted, strata, self.room, tuple(kept))


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What the next block reads: of each score the cell in its grid (its number where that is None), one of each
    stratum where losses are claimed. `runs`: of the two sides. `counted`: no run by itself matters. `keep`: how many outcomes
    of either side are kept whole."""

    runs: tuple[int, int]
    scores: tuple[Score, ...]
    grids: tuple[Grid | None, ...]
    strata: tuple[float, ...] | None
    counted: bool
    keep: int

    def read(self, outcomes: Outcomes) -> Reading:
        """What consecutive runs of one side come to. A function of them alone."""
        read: list[npt.NDArray[np.generic]] = []
        strata = None
        if self.strata is not None:
            assert outcomes.losses is not None, "outcomes of an ex-post claim"
            strata = strata_places(self.strata, outcomes.losses)
        for score, grid in zip(self.scores, self.grids, strict=True):
            numbers = score.of(outcomes)
            if grid is None:
                read.append(np.array(numbers, dtype=np.float64))
                continue
            places, size = grid.of(numbers), grid.size
            if self.strata is not None:
                places, size = places + size * strata, size * len(self.strata)
            read.append(_counts(places, size) if self.counted else places.astype(np.int32))
        kept = (outcomes.where(slice(0, self.keep)),) if self.keep else ()
        return Reading(len(outcomes), tuple(read), self.counted, None if self.counted else strata, self.keep, kept)


def _counts(places: Places, size: int) -> Counts:
    return np.bincount(places, minlength=size)
