"""What is planned for an ex-post claim: in each stratum one event a direction, and one bet on all of them together.

The error budget has three parts: one for the bet, one for the look that the selection part finds most telling, one that
all looks share alike. Every look tests its own stratum's claim, so the one that falls is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpledger import decimals
from dpledger.audit.claims import Point
from dpledger.audit.events import Event, InStratum
from dpledger.audit.evidence.joint import Bet, bet_on
from dpledger.audit.evidence.thresholds import Direction, PlannedLook, best_event, margin_of
from dpledger.audit.features.value import Candidates, Counts, candidates
from dpledger.audit.outcomes import Outcomes
from dpledger.audit.strata import Stated, Stratum, strata_of

__all__ = ["CELLS", "PlannedBet", "plan_strata"]

CELLS = 4  # of a stratum: in neither of its two events, in the first, in the second, in both
PARTS = 3  # of the error budget


@dataclass(frozen=True, slots=True)
class PlannedBet:
    """A bet and the cells it is on: those of each stratum by its two events, and one of all other outcomes."""

    strata: tuple[Stratum, ...]
    events: tuple[tuple[Event, Event], ...]
    bet: Bet
    share: Fraction

    def counts(self, outcomes: Outcomes) -> Counts:
        """Runs in each cell: int64[4 strata + 1]."""
        return _counts(self.strata, self.events, outcomes)

    def seen(self, counts: Counts) -> tuple[int, ...]:
        """Runs in each stratum, of the counts of its cells."""
        return tuple(int(runs) for runs in counts[:-1].reshape(-1, CELLS).sum(axis=1))


def _counts(strata: Sequence[Stratum], events: Sequence[tuple[Event, Event]], outcomes: Outcomes) -> Counts:
    assert outcomes.losses is not None, "outcomes of an ex-post claim"
    cells = np.full(len(outcomes), CELLS * len(strata))
    for place, (stratum, (first, second)) in enumerate(zip(strata, events, strict=True)):
        inside = stratum.holds(outcomes.losses)
        among = outcomes.where(inside)
        cells[inside] = CELLS * place + first.holds(among) + 2 * second.holds(among)
    return np.bincount(cells, minlength=CELLS * len(strata) + 1)


def plan_strata(
    left: Outcomes, right: Outcomes, stated: Stated, alpha: Fraction
) -> tuple[tuple[PlannedLook, ...], PlannedBet]:
    """The looks and the bet that the selection part suggests, with shares that add up to `alpha`. CannotCertify where
    no finite loss is claimed."""
    assert left.losses is not None, "outcomes of an ex-post claim"
    assert right.losses is not None, "outcomes of an ex-post claim"
    sizes, share = (len(left), len(right)), alpha / PARTS
    looks: list[PlannedLook] = []
    margins: list[float] = []
    strata = strata_of((left.losses, right.losses))
    for stratum in strata:
        point = Point(stratum.epsilon, stated.delta)
        pool = list(_pool(left, right, stated, stratum))
        for direction in Direction:
            rank, event = best_event(pool, direction, point, sizes)
            margins.append(margin_of(event.count(left), event.count(right), direction, point, sizes))
            looks.append(PlannedLook(event=event, direction=direction, point=point, share=share, rank=rank))
    most = int(np.argmax(margins))
    even = share / len(looks)
    planned = tuple(replace(look, share=even + share if place == most else even) for place, look in enumerate(looks))
    events = tuple((planned[place].event, planned[place + 1].event) for place in range(0, len(planned), 2))
    epsilons = np.array([*np.repeat([float(stratum.epsilon) for stratum in strata], CELLS), math.inf])
    counts = [_counts(strata, events, side) for side in (left, right)]
    bet = bet_on(counts[0], counts[1], epsilons, decimals.float_up(stated.delta))
    return planned, PlannedBet(strata=strata, events=events, bet=bet, share=share)


def _pool(left: Outcomes, right: Outcomes, stated: Stated, stratum: Stratum) -> Iterator[Candidates]:
    """The stratum itself, and every family of events inside it."""
    assert left.losses is not None, "outcomes of an ex-post claim"
    assert right.losses is not None, "outcomes of an ex-post claim"
    ours, theirs = left.where(stratum.holds(left.losses)), right.where(stratum.holds(right.losses))
    yield Candidates(np.array([len(ours)]), np.array([len(theirs)]), lambda _: InStratum(stated, stratum))
    for family in candidates(ours, theirs):

        def named(place: int, family: Candidates = family) -> Event:
            return InStratum(stated, stratum, family.event(place))

        yield Candidates(family.left, family.right, named, family.handicap)
