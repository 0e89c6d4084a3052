"""The trade-off curve of two datasets with an exact simultaneous band: how well the best test tells them apart.

The selection part cuts the outcomes into cells and orders them by likelihood ratio; the estimation part counts them.
Each union of first cells is an event fixed beforehand, so its two error rates have exact limits, and the shares of all
limits add up: the whole band holds at once. It is a second statement beside the verdict, with its own error budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np

from dpledger.audit.events import (
    Above,
    AtMost,
    Equals,
    Event,
    Feature,
    Headed,
    InStratum,
    Labelled,
    NotANumber,
    Outside,
    Row,
    Within,
)
from dpledger.audit.evidence.binomial import lower_limit, upper_limit
from dpledger.audit.evidence.thresholds import Direction
from dpledger.audit.features.value import Counts, ladder
from dpledger.audit.outcomes import Floats, Outcomes

__all__ = ["BandPoint", "CellCounts", "Cells", "band", "plan_cells"]

CELL_QUANTILES = 16
MOST_DRAWN = 60


@dataclass(frozen=True, slots=True)
class BandPoint:
    """Limits of the two error rates of one test: `false_alarm` where the event is rarer, `missed` where likelier."""

    false_alarm_lower: float
    false_alarm_upper: float
    missed_lower: float
    missed_upper: float


@dataclass(frozen=True, slots=True)
class CellCounts:
    """Runs of the estimation part in each cell, the cell with the largest likelihood ratio first. `side`: the one where
    the first cells are likelier."""

    likelier: tuple[int, ...]
    rarer: tuple[int, ...]
    side: Direction


@dataclass(frozen=True, slots=True)
class Cells:
    """A partition of outcomes, fixed before the estimation part: by a feature and rising edges, or by one event (then
    there is no feature). `order` lists the cells that the selection part saw, by falling likelihood ratio; all others
    belong to the last of them."""

    event: Event
    feature: Feature | None
    edges: tuple[float, ...]
    order: tuple[int, ...]

    def counts(self, outcomes: Outcomes) -> Counts:
        """Runs in each cell, in the cells' own order: int64[cells]."""
        return _counts(self.event, self.feature, np.array(self.edges), outcomes)

    def ordered(self, counts: Counts) -> tuple[int, ...]:
        """Counts of the listed cells, in their order."""
        listed = [int(counts[cell]) for cell in self.order]
        return (*listed[:-1], int(counts.sum()) - sum(listed[:-1]))


def _counts(event: Event, feature: Feature | None, edges: Floats, outcomes: Outcomes) -> Counts:
    if feature is None:
        hits = event.count(outcomes)
        return np.array([hits, len(outcomes) - hits], dtype=np.int64)
    numbers = feature.of(outcomes.values)
    cells = np.searchsorted(edges, numbers, side="left")
    cells[np.isnan(numbers)] = edges.size + 1
    return np.bincount(cells, minlength=edges.size + 2)


def plan_cells(event: Event, direction: Direction, left: Outcomes, right: Outcomes) -> Cells:
    """Cells along the feature of `event`, ordered on the selection part."""
    feature: Feature | None
    match event:
        case Above(feature=feature) | AtMost(feature=feature):
            edges = _edges(feature, left, right, ())
        case Within(feature=feature, low=low, high=high) | Outside(feature=feature, low=low, high=high):
            edges = _edges(feature, left, right, (low, high))
        case Equals(feature=feature, value=value):
            edges = _edges(feature, left, right, (float(np.nextafter(value, -np.inf)), value))
        case Row() | NotANumber() | Labelled() | Headed() | InStratum():
            feature, edges = None, np.empty(0)
        case _:
            assert_never(event)
    likelier, rarer = (left, right) if direction is Direction.LEFT else (right, left)
    first, second = _counts(event, feature, edges, likelier), _counts(event, feature, edges, rarer)
    ratios = (first + 0.5) / len(likelier) / ((second + 0.5) / len(rarer))
    order = tuple(int(cell) for cell in np.argsort(-ratios, kind="stable") if first[cell] or second[cell])
    return Cells(event, feature, tuple(edges.tolist()), order)


def _edges(feature: Feature, left: Outcomes, right: Outcomes, own: tuple[float, ...]) -> Floats:
    edges = ladder(feature.of(left.values), feature.of(right.values), quantiles=CELL_QUANTILES)
    return np.unique(np.concatenate([edges, np.array(own)]))


def band(counts: CellCounts, alpha: float) -> tuple[BandPoint, ...]:
    """The band of the trade-off curve, at up to 60 of the planned events.

    Claim: with probability at least 1 - alpha, each point's two error rates lie within its limits, for all points at
        once. So the best test has, at each point, no more than both upper limits.
    Source: Clopper-Pearson 1934 and a union bound; docs/proofs/audit.md 3.
    Assumes: cells and their order were fixed before the counted runs were drawn.
    """
    hits, alarms = np.cumsum(counts.likelier), np.cumsum(counts.rarer)
    runs, others = int(hits[-1]), int(alarms[-1])
    last = len(hits) - 1  # the union of all cells is no test
    kept = np.unique(np.linspace(0, max(last - 1, 0), min(MOST_DRAWN, max(last, 1))).astype(int))
    share = alpha / (4 * len(kept)) * (1 - 1e-12)
    return tuple(
        BandPoint(
            false_alarm_lower=lower_limit(int(alarms[place]), others, share),
            false_alarm_upper=upper_limit(int(alarms[place]), others, share),
            missed_lower=lower_limit(int(runs - hits[place]), runs, share),
            missed_upper=upper_limit(int(runs - hits[place]), runs, share),
        )
        for place in kept.tolist()
    )
