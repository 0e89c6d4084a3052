"""A block: what is computed of each run, fixed on past runs alone, what a side's runs were, and what bets came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpledger.audit.evidence.estimates import Grid, Places
from dpledger.audit.evidence.tracks import Track
from dpledger.audit.features.score import Score
from dpledger.audit.outcomes.structure import Floats, Outcomes

__all__ = ["Bet", "Block", "NextBlock", "Reading", "hedged", "strata_places"]

ROUNDING = 2e-12  # a pair, taken off the logarithm of a wealth


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
class NextBlock:
    """What the next block reads: of each score the cell in its grid (its number where that is None), one of each
    stratum where losses are claimed. `runs`: of the two sides. `counted`: no run by itself matters. `keep`: how
    many outcomes of either side are kept whole."""

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
            if self.counted and strata is None:
                read.append(grid.counts(numbers))
                continue
            places, size = grid.of(numbers), grid.size
            if self.strata is not None and strata is not None:
                places, size = places + size * strata, size * len(self.strata)
            read.append(np.bincount(places, minlength=size) if self.counted else places.astype(np.int32))
        kept = (outcomes.where(slice(0, self.keep)),) if self.keep else ()
        return Reading(len(outcomes), tuple(read), self.counted, None if self.counted else strata, self.keep, kept)


@dataclass(frozen=True, slots=True, eq=False)
class Bet:
    """A bet of one arm on merged cells: logarithms of weights, and the growth that its estimate expects."""

    track: int
    arm: int
    left: Floats
    right: Floats
    growth: float


class Block:
    """Runs of a block in merged cells of each track, and what bets on them come to."""

    def __init__(
        self,
        tracks: list[Track],
        paired: bool,
        read: dict[int, tuple[np.ndarray, np.ndarray]],
        pairs: int,
        left: Reading,
        right: Reading,
    ) -> None:
        self.read, self.pairs, self.paired = read, pairs, paired
        self._tracks, self._counted = tracks, left.counted
        self._where = (left.strata, right.strata)
        self._places: dict[int, tuple[Places, Places]] = {}
        self._counts: dict[tuple[int, int | None], tuple[np.ndarray, np.ndarray]] = {}

    def places(self, track: int) -> tuple[Places, Places]:
        if track not in self._places:
            one = self._tracks[track]
            sides = zip(self.read[track], self._where, strict=True)
            self._places[track] = tuple(one.places(side, where) for side, where in sides)  # type: ignore[assignment]
        return self._places[track]

    def counts(self, track: int, until: int | None) -> tuple[np.ndarray, np.ndarray]:
        key = (track, until)
        if key not in self._counts:
            one = self._tracks[track]
            if self._counted:
                self._counts[key] = tuple(one.merged(side) for side in self.read[track])  # type: ignore[assignment]
            else:
                size = one.cells * one.strata
                self._counts[key] = tuple(np.bincount(side[:until], minlength=size) for side in self.places(track))  # type: ignore[assignment]
        return self._counts[key]

    def gain(self, bet: Bet, until: int | None = None) -> float:
        """The logarithm of what a bet came to, over the first `until` pairs."""
        if not bet.growth > 0:
            return 0.0
        if self.paired:
            x, y = (side[:until] for side in self.places(bet.track))
            size = bet.left.size
            joint = np.bincount(x * size + y, minlength=size * size).reshape(size, size)
            seen = np.nonzero(joint)
            return float(joint[seen] @ hedged(bet.left, bet.right)[seen]) - ROUNDING * self.pairs
        left, right = self.counts(bet.track, until)
        return float(left @ bet.left + right @ bet.right) - ROUNDING * self.pairs

    def path(self, bet: Bet) -> Floats:
        """The logarithm of what a bet has come to after each pair."""
        x, y = self.places(bet.track)
        each = hedged(bet.left, bet.right)[x, y] if self.paired else bet.left[x] + bet.right[y]
        total: Floats = np.cumsum(each - ROUNDING)
        return total


def hedged(left: Floats, right: Floats) -> Floats:
    """log(1 + lambda (S - 1)) of every pair of cells, where S is half the sum of two weights: of mean at most 1 however
    the two runs of a pair depend on each other. `left`, `right`: logarithms of the weights."""
    a, b = np.exp(left), np.exp(right)
    least = float(a.min() + b.min()) / 2
    part = min(2.0, 0.95 / (1 - least)) if least < 1 else 2.0
    return np.log1p(part * ((a[:, None] + b) / 2 - 1))
