"""How well a score tells two windows of past runs apart: what ranks the bank. No claim rests on it.

All in standard errors: the largest weighted gap between two empirical distributions (Anderson and Darling's weights),
of the score and of its distance from the median; or the largest gap in one cell, or of the likelier half of all cells.
"""

from __future__ import annotations

import numpy as np

from dpledger.audit.outcomes.structure import Floats

__all__ = ["COLUMNS", "of_cells", "of_columns", "of_numbers"]

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
QUANTILE_RUNS = 64  # of each side, of which they are quantiles
COLUMNS = 1024  # that are looked at together, so that they stay in the cache


def of_numbers(left: Floats, right: Floats) -> float:
    """Of a score that is a number: float64[runs] of each side, NaN where it is not defined."""
    undefined = _gap(int(np.isnan(left).sum()), left.size, int(np.isnan(right).sum()), right.size)
    ours, theirs = left[~np.isnan(left)], right[~np.isnan(right)]
    if not ours.size or not theirs.size:
        return undefined
    with np.errstate(all="ignore"):
        middle = np.median(np.concatenate([ours, theirs]))
        spread = _by_rank(np.abs(ours - middle), np.abs(theirs - middle)) if np.isfinite(middle) else 0.0
    return max(undefined, _by_rank(ours, theirs), spread)


def _by_rank(left: Floats, right: Floats) -> float:
    pooled = np.concatenate([left, right])
    order = np.argsort(pooled, kind="stable")
    ascending = pooled[order]
    ends = np.append(ascending[1:] != ascending[:-1], False)
    below = np.cumsum(order < left.size)[ends]
    total = (np.flatnonzero(ends) + 1).astype(np.float64)
    if not total.size:
        return 0.0
    size = float(pooled.size)
    gap = below / left.size - (total - below) / right.size
    share = total / size
    error = np.sqrt(share * (1 - share) * size / (left.size * right.size))
    return float(np.max(np.abs(gap) / error))


def of_cells(left: Floats, right: Floats, cells: int) -> float:
    """Of a score that is one of `cells` cells; NaN is one more."""
    counts = [
        np.bincount(np.where(np.isnan(side), cells, side).astype(np.int64), minlength=cells + 1)
        for side in (left, right)
    ]
    n, m = float(max(left.size, 1)), float(max(right.size, 1))
    pooled = counts[0] + counts[1]
    seen = pooled > 0
    gap = np.abs(counts[0] / n - counts[1] / m)[seen]
    share = pooled[seen] / (n + m)
    error = np.sqrt(np.maximum(share * (1 - share), 1 / (n + m) ** 2) * (1 / n + 1 / m))
    luck = np.sqrt(2 / np.pi) * error.sum()  # what the sum comes to where nothing differs
    together = (gap.sum() - luck) / np.sqrt(1 / n + 1 / m)
    return float(max(np.max(gap / error), together)) if seen.sum() > 1 else 0.0


def of_columns(left: Floats, right: Floats) -> Floats:
    """Of many numbers at once: float64[columns], the largest gap above five quantiles of a few of the runs. `left`,
    `right`: float64[runs, columns]."""
    found = np.zeros(left.shape[1])
    few = [side[:: max(1, len(side) // QUANTILE_RUNS)] for side in (left, right)]
    error = np.sqrt(1 / len(left) + 1 / len(right))
    for start in range(0, left.shape[1], COLUMNS):
        part = slice(start, start + COLUMNS)
        pooled = np.sort(np.concatenate([side[:, part] for side in few]), axis=0)
        for share in QUANTILES:
            edge = pooled[int(share * (len(pooled) - 1))]
            gap = (left[:, part] > edge).mean(axis=0) - (right[:, part] > edge).mean(axis=0)
            found[part] = np.maximum(found[part], np.abs(gap) / error / np.sqrt(share * (1 - share)))
    return found


def _gap(ours: int, of_ours: int, theirs: int, of_theirs: int) -> float:
    n, m = max(of_ours, 1), max(of_theirs, 1)
    share = (ours + theirs) / (n + m)
    error = np.sqrt(share * (1 - share) * (1 / n + 1 / m))
    return float(abs(ours / n - theirs / m) / error) if error else 0.0
