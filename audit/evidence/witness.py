"""The event that shows best what a score saw, for words and pictures: chosen on the runs it counts, so no claim."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.audit.evidence.estimates import Counts
from dpledger.audit.evidence.tracks import Track
from dpledger.audit.features.score import Score

__all__ = ["Witness", "witness_of"]


@dataclass(frozen=True, slots=True)
class Witness:
    """Runs whose `score` is in (low, high], or is NaN (`undefined`), or is the `category`; with claimed losses, those
    in `stratum` alone. `left`, `right`: how many of how many runs."""

    score: Score
    low: float
    high: float
    category: int | None
    undefined: bool
    stratum: int | None
    left: tuple[int, int]
    right: tuple[int, int]


def witness_of(track: Track, epsilon: float, delta: float) -> Witness:
    """Of one cell, all up to one and all above one, the event that breaks (epsilon, delta) by most standard errors."""
    left, right = (track.merged(side) for side in track.counts)
    runs = int(left.sum()), int(right.sum())
    sums = (np.cumsum(left), np.cumsum(right))
    options = [(left, right)]
    if not track.score.categories and track.strata == 1:
        total = left[:-1].sum(), right[:-1].sum()  # those that are numbers
        options += [sums, (total[0] - sums[0], total[1] - sums[1])]
    scores = [_margins(x, y, runs, epsilon, delta) for x, y in options]
    kind = int(np.argmax([score.max() for score in scores]))
    cell = int(np.argmax(scores[kind]))
    stratum, inside = divmod(cell, track.cells)
    fine = np.flatnonzero(track.cell == cell)
    categorical, undefined = track.score.categories > 0, inside == track.cells - 1 and kind == 0
    uppers = [track.grid.upper(int(one) % track.grid.size) for one in fine] if not undefined else [math.nan]
    high, low = max(uppers), -math.inf
    if inside and not undefined:
        low = max(track.grid.upper(int(one) % track.grid.size) for one in np.flatnonzero(track.cell == cell - 1))
    low, high = ((low, high), (-math.inf, high), (high, math.inf))[kind]
    return Witness(
        score=track.score, low=low, high=high, category=inside if categorical and not undefined else None,
        undefined=undefined, stratum=stratum if track.strata > 1 else None,
        left=(int(options[kind][0][cell]), runs[0]), right=(int(options[kind][1][cell]), runs[1]),
    )  # fmt: skip


def _margins(x: Counts, y: Counts, runs: tuple[int, int], epsilon: float, delta: float) -> np.ndarray:
    """By how many standard errors each event breaks the claim, in the direction in which it does so more."""
    ratio = math.exp(min(epsilon, 300.0))
    p, q = (x + 0.0) / runs[0], (y + 0.0) / runs[1]
    found = []
    for one, other, n, m in ((p, q, *runs), (q, p, runs[1], runs[0])):
        spread = np.sqrt((one + 1 / n) / n + ratio**2 * (other + 1 / m) / m)
        found.append((one - ratio * other - delta) / spread)
    return np.maximum(*found)
