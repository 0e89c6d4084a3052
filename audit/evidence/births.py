"""Scores that enter an audit: proposed by a window of past runs, each with a share of the error budget of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dpledger.audit.evidence.edges import Claim, StrataClaim
from dpledger.audit.evidence.reading import Reading, strata_places
from dpledger.audit.evidence.tracks import Track
from dpledger.audit.features.score import Score
from dpledger.audit.outcomes.structure import Outcomes, joined

__all__ = ["LEADER", "WINDOW", "Births", "Learn", "Propose"]

WINDOW = 4_096  # outcomes of either side that are kept whole for new scores
LEADER, PRIMARY = Fraction(1, 4), Fraction(1, 2)  # of the error budget
BATCHES = {True: Fraction(7, 8), False: Fraction(1, 2)}  # of what is left for scores born later, to each batch

Propose = Callable[[Outcomes, Outcomes], tuple[Score, ...]]
Learn = Callable[[Outcomes, Outcomes], Score | None]


@dataclass(slots=True, eq=False)
class Births:
    """`propose`: the scores that a window of past runs of both sides suggests; `learn`: one more, trained on the older
    half of a window. `window`: outcomes of either side that are kept whole. `left_for`: of the error budget, what is
    reserved for scores born later, primary or not."""

    claim: Claim
    propose: Propose
    learn: Learn | None
    window: int
    left_for: dict[bool, Fraction] = field(default_factory=lambda: {True: PRIMARY, False: 1 - PRIMARY - LEADER})
    _kept: tuple[Outcomes, Outcomes] | None = None
    _born_at: int = 0

    @property
    def reserved(self) -> Fraction:
        """What is left of the error budget."""
        return sum(self.left_for.values(), Fraction(0))

    def are_due(self, pairs: int) -> bool:
        """Whether scores are proposed when there are so many pairs."""
        return pairs >= (2 if self._born_at < self.window else 8) * self._born_at and pairs > 0

    def room(self, pairs: int, size: int) -> int:
        """How many pairs of a block of `size` are kept whole, after so many."""
        return min(size, max(self.window - pairs, self.window if self.are_due(pairs + size) else 0))

    def keep(self, left: Reading, right: Reading, pairs: int) -> None:
        """Add to the window what a block kept, before which there were so many pairs."""
        if not left.kept:
            return
        new = (joined(left.kept), joined(right.kept))
        if self._kept is not None and pairs < self.window:
            new = (joined((self._kept[0], new[0])), joined((self._kept[1], new[1])))
        self._kept = new

    def born(self, known: set[Score], pairs: int) -> list[Track]:
        """New tracks, where they are due: of scores that are not `known`."""
        if self._kept is None or not self.are_due(pairs):
            return []
        self._born_at = pairs
        found = [score for score in dict.fromkeys(self.propose(*self._kept)) if score not in known]
        tracks = self._entered([score for score in found if score.primary], self._kept)
        tracks += self._entered([score for score in found if not score.primary], self._kept)
        if self.learn is not None:
            halves = [
                (side.where(slice(0, len(side) // 2)), side.where(slice(len(side) // 2, None))) for side in self._kept
            ]
            learned = self.learn(halves[0][0], halves[1][0])
            if learned is not None and learned not in known:
                tracks += self._entered([learned], (halves[0][1], halves[1][1]))
        return tracks

    def _entered(self, scores: list[Score], runs: tuple[Outcomes, Outcomes]) -> list[Track]:
        """Tracks of new scores of one kind, which share a part of what is reserved for it."""
        if not scores:
            return []
        primary = scores[0].primary
        share = self.left_for[primary] * BATCHES[primary]
        self.left_for[primary] -= share
        left, right = runs
        where, strata = None, 1
        if isinstance(self.claim, StrataClaim):
            assert left.losses is not None and right.losses is not None, "outcomes of an ex-post claim"  # noqa: PT018
            tops = self.claim.epsilons
            where, strata = (strata_places(tops, left.losses), strata_places(tops, right.losses)), len(tops)
        found = []
        for score in scores:
            numbers = (np.array(score.of(left), dtype=np.float64), np.array(score.of(right), dtype=np.float64))
            found.append(Track.born(score, numbers, where, strata, share / len(scores)))
        return found
