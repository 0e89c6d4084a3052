"""From estimates to bets: every arm's estimate is projected onto a claim, all of them at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpledger.audit.evidence.edges import Claim, Regions, StrataClaim
from dpledger.audit.evidence.projection import project
from dpledger.audit.evidence.reading import Bet
from dpledger.audit.evidence.tracks import Estimate, Track
from dpledger.audit.outcomes.structure import Floats

__all__ = ["bets_on", "plausible"]

WIDE = 24  # cells: problems with more are solved apart


def bets_on(
    found: Sequence[Estimate], claims: Sequence[Claim], tracks: Sequence[Track], *, sizes: tuple[int, int], pairs: int
) -> list[list[Bet]]:
    """For each claim a bet of each estimate. `sizes`: runs left and right of a unit; `pairs`: units so far."""
    bets: list[dict[int, Bet]] = [{} for _ in claims]
    seen = {place: _seen(tracks[place]) for place in {one[0] for one in found}}
    shares = (2 * sizes[0] / sum(sizes), 2 * sizes[1] / sum(sizes))
    for group in ([i for i, one in enumerate(found) if (one[2].size > WIDE) is wide] for wide in (False, True)):
        if not group:
            continue
        p, q, strata = _padded([found[i] for i in group], tracks, claims[0])
        many = len(claims)
        made = project(
            Regions.of(claims)[np.repeat(np.arange(many), len(group))],
            np.tile(p, (many, 1)),
            np.tile(q, (many, 1)),
            runs=max(pairs, 1),
            shares=shares,
            strata=None if strata is None else np.tile(strata, (many, 1)),
        )
        for row, (claim, i) in enumerate((claim, i) for claim in range(many) for i in group):
            cells = found[i][2].size
            bets[claim][i] = _bet(found[i], made.left[row, :cells], made.right[row, :cells], seen[found[i][0]], shares)
    return [[of_claim[i] for i in range(len(found))] for of_claim in bets]


def _padded(
    found: Sequence[Estimate], tracks: Sequence[Track], claim: Claim
) -> tuple[Floats, Floats, np.ndarray | None]:
    """Estimates of equally many cells, those that are missing all but empty, and the strata of the cells."""
    size = max(one[2].size for one in found)
    p, q = np.full((2, len(found), size), 1e-300)
    strata = np.zeros((len(found), size), dtype=np.int64) if isinstance(claim, StrataClaim) else None
    for row, (place, _, left, right) in enumerate(found):
        p[row, : left.size], q[row, : left.size] = left, right
        if strata is not None:
            strata[row, : left.size] = np.repeat(np.arange(tracks[place].strata), tracks[place].cells)
    return p, q, strata


def _seen(track: Track) -> tuple[Floats, Floats]:
    """Counts of past runs of each side in the merged cells."""
    left, right = (track.merged(side).astype(np.float64) for side in track.counts)
    return left, right


def _bet(
    estimate: Estimate, left: Floats, right: Floats, seen: tuple[Floats, Floats], shares: tuple[float, float]
) -> Bet:
    """A bet with what it would have gained on the past that it was made from; of none if that is nothing."""
    place, arm, p, q = estimate
    (x, y), (n, m) = seen, shares
    past = float(n * (x @ left) / max(x.sum(), 1) + m * (y @ right) / max(y.sum(), 1))
    return Bet(place, arm, left, right, min(past, float(n * (p @ left) + m * (q @ right))))


def plausible(p: Floats, q: Floats, delta: float) -> float:
    """The epsilon at which an estimate keeps (epsilon, delta)."""
    low, high = 0.0, 25.0
    for _ in range(24):
        middle = (low + high) / 2
        ratio = math.exp(middle)
        if max(np.maximum(p - ratio * q, 0).sum(), np.maximum(q - ratio * p, 0).sum()) > delta:
            low = middle
        else:
            high = middle
    return high
