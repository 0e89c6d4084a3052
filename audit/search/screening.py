"""The screen: how much a few runs on a pair speak against a claim. It decides where to look, and nothing rests on it.

>>> from dpledger.audit.evidence.edges import pure_or_approx
>>> from dpledger.audit.outcomes import encode
>>> claim, same, other = pure_or_approx(1.0, 0.0), encode([0] * 64), encode([1] * 64)
>>> against(claim, same, same) == 0, against(claim, same, other) > 10
(True, True)
"""

from __future__ import annotations

import numpy as np

from dpledger.audit.evidence.edges import Edges
from dpledger.audit.features.bank import bank
from dpledger.audit.features.inputs import Inputs
from dpledger.audit.features.score import Score
from dpledger.audit.outcomes import Floats, Outcomes

__all__ = ["against"]

THRESHOLDS = 64  # of a score that is a number
ATOMS = 8  # values that a number has most often


def against(claim: Edges, left: Outcomes, right: Outcomes, data: Inputs | None = None) -> float:
    """The largest log-likelihood ratio, over many events, of what was seen against what the claim allows; 0 where no
    event is more frequent on one side than it may be. Not corrected for the many events."""
    events = [_events(score, left, right) for score in bank(left, right, data, bits=False)]
    ours, theirs = (np.concatenate([pair[side] for pair in events]) for side in (0, 1))
    both = np.concatenate([ours, theirs]), np.concatenate([theirs, ours])
    runs = len(left)
    found = 0.0
    for slope, cost in zip(claim.slopes, claim.costs, strict=True):
        if slope >= 1:
            found = max(found, _most(both[0] - runs * (cost - slope), both[1], slope))
    return found


def _most(ours: Floats, theirs: Floats, slope: float) -> float:
    """Of counts of events on one side and the other, of which the first has at most `slope` times the probability of
    the second: the largest divergence of the share that was seen from the largest that is allowed."""
    kept = ours > 0
    ours, theirs, allowed = ours[kept], theirs[kept], slope / (1 + slope)
    total = ours + theirs
    share = ours / total
    beyond = share > allowed
    if not beyond.any():
        return 0.0
    total, share = total[beyond], share[beyond]
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - allowed)), 0.0)
    return float((total * (share * np.log(share / allowed) + rest)).max())


def _events(score: Score, left: Outcomes, right: Outcomes) -> tuple[Floats, Floats]:
    """How often each of some events of a score came, left and right: each value that is frequent, up to a threshold,
    far from the middle, and the opposites."""
    ours, theirs = score.of(left), score.of(right)
    pooled = np.concatenate([ours, theirs])
    values, counts = np.unique(pooled[~np.isnan(pooled)], return_counts=True)
    if score.categories:
        cells = values
    else:
        often = np.argsort(-counts, kind="stable")[:ATOMS]
        cells = values[often[counts[often] > 1]]
    found = [
        np.array([np.isnan(side).sum(), *((side == value).sum() for value in cells)], np.float64)
        for side in (ours, theirs)
    ]
    if not score.categories and values.size > 1:
        middle = float(np.median(values[np.isfinite(values)])) if np.isfinite(values).any() else 0.0
        for way in (ours, theirs), (np.abs(ours - middle), np.abs(theirs - middle)):
            found = [np.concatenate(pair) for pair in zip(found, _up_to(*way), strict=True)]
    runs = len(left)
    return np.concatenate([found[0], runs - found[0]]), np.concatenate([found[1], runs - found[1]])


def _up_to(ours: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    values = np.unique(np.concatenate([ours, theirs]))
    values = values[~np.isnan(values)]
    if values.size > THRESHOLDS:
        values = values[np.linspace(0, values.size - 1, THRESHOLDS).astype(int)]
    left, right = (
        np.searchsorted(np.sort(side[~np.isnan(side)]), values, side="right").astype(np.float64)
        for side in (ours, theirs)
    )
    return left, right
