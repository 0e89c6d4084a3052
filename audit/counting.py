"""From runs to evidence: the selection part fixes a plan, the estimation part is counted against it, chunk by chunk.

Nothing of the estimation part is kept but counts, which add up in any order; so memory does not grow with the runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

import numpy as np

from dpledger.audit.claims import Target
from dpledger.audit.evidence.bands import CellCounts, Cells, plan_cells
from dpledger.audit.evidence.by_stratum import PlannedBet, plan_strata
from dpledger.audit.evidence.joint import Joint, settle
from dpledger.audit.evidence.thresholds import Direction, Look, PlannedLook, Tally, look_at, plan_looks
from dpledger.audit.features.value import Counts
from dpledger.audit.outcomes import Outcomes, joined
from dpledger.audit.sampling import Chunk, Part, Runs, Side, chunks, over_chunks
from dpledger.audit.strata import Stated, Stratum
from dpledger.progress import Advance

__all__ = ["Evidence", "Hits", "Plan", "Strata", "measured"]

SELECTION_EVERY = 4  # one run in four chooses events
MOST_SELECTION_NUMBERS = 2**24  # numbers kept of each side while events are chosen: 128 MiB
FEWEST_SELECTION = 1_000  # runs, where outputs are so wide that the limit above binds


@dataclass(frozen=True, slots=True)
class Hits:
    """Counts of one side: runs, hits of each look, runs in each cell of the curve and of a bet. They add up over
    chunks. `sole`: what all of them gave, if all gave the same."""

    runs: int
    looks: Counts
    cells: Counts
    bets: Counts
    sole: bytes | str | None

    def __add__(self, other: Hits) -> Hits:
        return Hits(
            self.runs + other.runs,
            self.looks + other.looks,
            self.cells + other.cells,
            self.bets + other.bets,
            self.sole if self.sole == other.sole else None,
        )


@dataclass(frozen=True, slots=True)
class Strata:
    """What was seen of an ex-post claim: its strata, how many runs of the estimation part fell into each on either
    side, and what the bet on all of them came to."""

    strata: tuple[Stratum, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    joint: Joint


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the estimation part says. `trials`: all runs, left and right, those of the selection part among them.
    `constant`: every one of them gave the same output. `strata`: of an ex-post claim."""

    looks: tuple[Look, ...]
    cells: CellCounts
    selected_on: tuple[int, int]
    trials: tuple[int, int]
    constant: bool
    strata: Strata | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is fixed before the estimation part. `shown`: where the event of the drawn curve is likelier.
    `sole`: what every run of the selection part gave, if all gave the same. `bet`: on strata of an ex-post claim."""

    looks: tuple[PlannedLook, ...]
    cells: Cells
    shown: Direction
    selected_on: tuple[int, int]
    sole: bytes | str | None
    bet: PlannedBet | None = None

    @classmethod
    def on(cls, left: Outcomes, right: Outcomes, aim: Target | Stated, alpha: Fraction) -> Plan:
        """The plan that a selection part suggests, with the error budget `alpha`."""
        match aim:
            case Target(point=point):
                looks, bet = plan_looks(left, right, aim, alpha), None
                best = max((look for look in looks if look.point == point), key=lambda look: look.rank)
            case Stated():
                looks, bet = plan_strata(left, right, aim, alpha)
                best = max(looks, key=lambda look: look.share)
            case _:
                assert_never(aim)
        cells = plan_cells(best.event, best.direction, left, right)
        sole = left.sole if left.sole == right.sole else None
        return cls(looks, cells, best.direction, (len(left), len(right)), sole, bet)

    @classmethod
    def split(
        cls, left: Outcomes, right: Outcomes, aim: Target | Stated, alpha: Fraction
    ) -> tuple[Plan, Outcomes, Outcomes]:
        """The plan that every fourth run suggests, and the other runs."""
        chosen = [np.arange(len(side)) % SELECTION_EVERY == 0 for side in (left, right)]
        plan = cls.on(left.where(chosen[0]), right.where(chosen[1]), aim, alpha)
        return plan, left.where(~chosen[0]), right.where(~chosen[1])

    def hits(self, outcomes: Outcomes) -> Hits:
        """What some runs of one side count for."""
        counts = np.array([look.event.count(outcomes) for look in self.looks], dtype=np.int64)
        bets = np.zeros(0, dtype=np.int64) if self.bet is None else self.bet.counts(outcomes)
        return Hits(len(outcomes), counts, self.cells.counts(outcomes), bets, outcomes.sole)

    def evidence(self, left: Hits, right: Hits) -> Evidence:
        """The looks, taken on the counts of an estimation part."""
        tallies = [
            Tally(left=int(ours), right=int(theirs), runs_left=left.runs, runs_right=right.runs)
            for ours, theirs in zip(left.looks, right.looks, strict=True)
        ]
        likelier, rarer = (left, right) if self.shown is Direction.LEFT else (right, left)
        return Evidence(
            looks=tuple(look_at(planned, tally) for planned, tally in zip(self.looks, tallies, strict=True)),
            cells=CellCounts(self.cells.ordered(likelier.cells), self.cells.ordered(rarer.cells), self.shown),
            selected_on=self.selected_on,
            trials=(self.selected_on[0] + left.runs, self.selected_on[1] + right.runs),
            constant=self.sole is not None and self.sole == left.sole == right.sole,
            strata=self._strata(left.bets, right.bets),
        )

    def _strata(self, left: Counts, right: Counts) -> Strata | None:
        if self.bet is None:
            return None
        joint = settle(self.bet.bet, left, right, self.bet.share)
        return Strata(self.bet.strata, self.bet.seen(left), self.bet.seen(right), joint)


@dataclass(frozen=True, slots=True)
class _Counting:
    """The work of one chunk of the estimation part (a class, so that it travels to other processes)."""

    runs: Runs
    plan: Plan

    def __call__(self, chunk: Chunk) -> Hits:
        return self.plan.hits(self.runs.outcomes(chunk))


def measured(
    runs: Runs, aim: Target | Stated, alpha: Fraction, *, trials: int, jobs: int, advance: Advance
) -> Evidence:
    """Choose events on the selection part of `trials` runs a side, then count them on the estimation part."""
    room = max(FEWEST_SELECTION, MOST_SELECTION_NUMBERS // runs.width)
    first, size = min(trials // SELECTION_EVERY, room), runs.chunk_size
    plan = _planned(runs, aim, alpha, chunks(Part.SELECTION, first, size), jobs=jobs, advance=advance)
    later = chunks(Part.ESTIMATION, trials - first, size)
    hits: dict[Side, Hits] = {}
    for chunk, found in over_chunks(_Counting(runs, plan), later, jobs=jobs, advance=advance):
        hits[chunk.side] = hits[chunk.side] + found if chunk.side in hits else found
    return plan.evidence(hits[Side.LEFT], hits[Side.RIGHT])


def _planned(
    runs: Runs, aim: Target | Stated, alpha: Fraction, plan: list[Chunk], *, jobs: int, advance: Advance
) -> Plan:
    sides: dict[Side, list[Outcomes]] = {side: [] for side in Side}
    for chunk, outcomes in over_chunks(runs.outcomes, plan, jobs=jobs, advance=advance):
        sides[chunk.side].append(outcomes)
    return Plan.on(joined(sides[Side.LEFT]), joined(sides[Side.RIGHT]), aim, alpha)
