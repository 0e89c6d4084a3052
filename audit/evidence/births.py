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

WINDOW = 16_384  # outcomes of either side that are kept whole for new scores; one half trains the learned one
LEADER, PRIMARY = Fraction(1, 4), Fraction(1, 2)  # of the error budget
GROWING, GROWN = 1.5, 8.0  # times the runs of the last birth, while the window grows and after that
BATCHES = {True: Fraction(7, 8), False: Fraction(1, 2)}  # of what is left for scores born later, to each batch

Runs = tuple[Outcomes, Outcomes]
Propose = Callable[[Outcomes, Outcomes], tuple[Score, ...]]
Learn = Callable[[Outcomes, Outcomes], Score | None]


@dataclass(slots=True, eq=False)
class Births:
    """`propose`: the scores that a window of past runs of both sides suggests; `learn`: one more, trained on the older
    half of a window. `window`: outcomes of either side that are kept whole. `left_for`: of the error
    budget, what is reserved for scores born later, primary or not."""

    claim: Claim
    propose: Propose
    learn: Learn | None
    window: int
    left_for: dict[bool, Fraction] = field(default_factory=lambda: {True: PRIMARY, False: 1 - PRIMARY - LEADER})
    _pieces: tuple[list[Outcomes], list[Outcomes]] = field(default_factory=lambda: ([], []))
    _born_at: int = 0
    _fitted_to: int = 0  # runs a side, at most

    @property
    def reserved(self) -> Fraction:
        """What is left of the error budget."""
        return sum(self.left_for.values(), Fraction(0))

    @property
    def kept(self) -> Runs | None:
        """The window, joined where it is asked for; None while nothing was kept."""
        if not self._pieces[0]:
            return None
        for pieces in self._pieces:
            pieces[:] = [joined(pieces)]
        return self._pieces[0][0], self._pieces[1][0]

    def are_due(self, pairs: int) -> bool:
        """Whether scores are proposed when there are so many pairs."""
        soon = GROWING * self._born_at
        return pairs >= (soon if soon <= self.window else GROWN * self._born_at) and pairs > 0

    def room(self, pairs: int, size: int) -> int:
        """How many pairs of a block of `size` are kept whole, after so many."""
        return min(size, max(self.window - pairs, self.window if self.are_due(pairs + size) else 0))

    def keep(self, left: Reading, right: Reading, pairs: int) -> None:
        """Add to the window what a block kept, before which there were so many pairs."""
        if not left.kept:
            return
        for pieces, new in zip(self._pieces, (left.kept, right.kept), strict=True):
            if pairs >= self.window:
                pieces.clear()
            pieces.extend(new)

    def bear(self, tracks: list[Track], pairs: int, followed: float) -> None:
        """Add new scores to the tracks, where they are due. `followed`: what a unit of what was reserved for them came
        to, as a logarithm. A score that is fitted to more past runs than ever takes the place of the one before it,
        with its wealth: an arm may change its mind before each block."""
        if not self.are_due(pairs) or (kept := self.kept) is None:
            return
        grows = len(kept[0]) > self._fitted_to
        self._born_at, self._fitted_to = pairs, max(self._fitted_to, len(kept[0]))
        proposed = [(score, kept) for score in dict.fromkeys(self.propose(*kept))]
        if self.learn is not None:
            halves = [(side.where(slice(0, len(side) // 2)), side.where(slice(len(side) // 2, None))) for side in kept]
            learned = self.learn(halves[0][0], halves[1][0])
            proposed += [] if learned is None else [(learned, (halves[0][1], halves[1][1]))]
        known = {track.score for track in tracks}
        fitted = {track.score.fitted: place for place, track in enumerate(tracks) if grows and track.score.fitted}
        new: dict[bool, list[tuple[Score, Runs]]] = {True: [], False: []}
        for score, runs in proposed:
            if score in known:
                continue
            if score.fitted in fitted:
                place = fitted[score.fitted]
                tracks[place] = self._track(score, runs, Fraction(0)).with_wealth_of(tracks[place])
            else:
                new[score.primary].append((score, runs))
        for primary, entering in new.items():
            if entering:
                share = self.left_for[primary] * BATCHES[primary]
                self.left_for[primary] -= share
                born = [self._track(score, runs, share / len(entering)) for score, runs in entering]
                for track in born:
                    track.followed += followed
                tracks += born

    def _track(self, score: Score, runs: Runs, share: Fraction) -> Track:
        left, right = runs
        where, strata = None, 1
        if isinstance(self.claim, StrataClaim):
            assert left.losses is not None and right.losses is not None, "outcomes of an ex-post claim"  # noqa: PT018
            tops = self.claim.epsilons
            where, strata = (strata_places(tops, left.losses), strata_places(tops, right.losses)), len(tops)
        numbers = (np.array(score.of(left), dtype=np.float64), np.array(score.of(right), dtype=np.float64))
        return Track.born(score, numbers, where, strata, share)
