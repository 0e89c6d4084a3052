"""The witness of an audit: the event that tells the two datasets apart best, by the counts of the score that won.

It says where to look, and bounds nothing by itself: it was chosen on the runs in which it is counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpledger.audit.evidence.estimates import LATTICE, CellCut, Counts
from dpledger.audit.features.events import (
    Above,
    AtMost,
    Equals,
    Event,
    InCategory,
    InStratum,
    Outside,
    Undefined,
    Within,
)
from dpledger.audit.outcomes import Floats
from dpledger.audit.strata import Stated, Stratum

if TYPE_CHECKING:
    from dpledger.audit.evidence.tracks import Track
    from dpledger.audit.evidence.wealth import Engine

__all__ = ["Direction", "Witness", "witness_of"]

Z = 3.0  # standard deviations taken off when events are ranked: guards against lucky ones
EDGES = 24  # of intervals and pairs of tails: there are pairs of them
HANDICAP = 0.01  # in epsilon, by which an event with two thresholds must do better than one with one


class Direction(Enum):
    """Which side the event is likelier on."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """An event, how often it happened on either side, and the cells of its score, those first whose outcomes are
    likeliest on the side on which the event is: (runs there, runs on the other side)."""

    event: Event
    direction: Direction
    left: int
    right: int
    trials: tuple[int, int]
    cells: tuple[tuple[int, int], ...]

    @property
    def words(self) -> str:
        """The event in full, with its counts."""
        return f"{self.event.words}, {self._counts}"

    @property
    def public_words(self) -> str:
        """The event without any value that was an output, with its counts."""
        return f"{self.event.public_words}, {self._counts}"

    @property
    def _counts(self) -> str:
        n, m = self.trials
        return f"in {self.left:,} of {n:,} runs on the left data and {self.right:,} of {m:,} on the right"

    @property
    def detections(self) -> float:
        """The share of runs with the event where it is likelier."""
        return self._shares[0] if self.direction is Direction.LEFT else self._shares[1]

    @property
    def false_alarms(self) -> float:
        """The share of runs with the event on the other side."""
        return self._shares[1] if self.direction is Direction.LEFT else self._shares[0]

    @property
    def _shares(self) -> tuple[float, float]:
        return self.left / max(self.trials[0], 1), self.right / max(self.trials[1], 1)

    @property
    def curve(self) -> tuple[list[float], list[float]]:
        """Shares of runs in the first cells, in the first two, and so on: on the other side, and where likelier."""
        likelier, rarer = (np.cumsum([cell[side] for cell in self.cells]) for side in (0, 1))
        return (rarer / max(int(rarer[-1]), 1)).tolist(), (likelier / max(int(likelier[-1]), 1)).tolist()


class _Found(NamedTuple):
    rank: float
    event: Event
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class _Ranking:
    """How well an event with some counts tells the sides apart, at a delta. `claimed`: of a stratum, what it claims."""

    trials: tuple[int, ...]
    direction: Direction
    delta: float
    claimed: float | None

    def of(self, left: float, right: float) -> float:
        """About the epsilon that the event shows, less luck; below every one of those, or where a loss is claimed, by
        how many standard deviations it breaks what is claimed."""
        (hits, n), (rare, m) = (left, self.trials[0]), (right, self.trials[1])
        if self.direction is Direction.RIGHT:
            (hits, n), (rare, m) = (rare, m), (hits, n)
        low, high = _wilson(hits, n, -Z) - self.delta, _wilson(rare, m, Z)
        if self.claimed is None and low > high:
            return math.log(low / high)
        growth = math.exp(min(self.claimed or 0.0, 300.0))
        p, q = (hits + 0.5) / (n + 1), (rare + 0.5) / (m + 1)
        spread = math.sqrt(p * (1 - p) / n + growth * q * (growth * (1 - q) / m))
        return -1e3 + (p - growth * q - self.delta) / spread


def witness_of(engine: Engine, stated: Stated | None = None, strata: tuple[Stratum, ...] = ()) -> Witness | None:
    """The witness of what an engine has seen so far; None before it has scores."""
    track = engine.leading
    if track is None:
        return None
    trials = tuple(int(side) for side in track.counts.sum(1))
    found: list[tuple[_Found, Direction]] = []
    by_stratum = track.counts.reshape(2, track.strata, -1)
    for place in range(track.strata):
        x, y = by_stratum[:, place]
        for direction in Direction:
            if stated is not None and place >= len(strata):
                continue
            claimed = None if stated is None else float(strata[place].epsilon)
            ranking = _Ranking(trials, direction, engine.point_delta, claimed)
            best = max(_events(track, x, y, ranking), key=lambda one: one.rank)
            if stated is not None:
                best = best._replace(event=InStratum(stated, strata[place], best.event))
            found.append((best, direction))
    if not found:
        return None
    best, direction = max(found, key=lambda one: one[0].rank)
    x, y = (track.merged(side) for side in track.counts)
    likelier, rarer = (x, y) if direction is Direction.LEFT else (y, x)
    ratio = (likelier + 0.5) / (rarer + 0.5)
    order = [cell for cell in np.argsort(-ratio, kind="stable").tolist() if likelier[cell] or rarer[cell]]
    return Witness(
        event=best.event,
        direction=direction,
        left=best.left,
        right=best.right,
        trials=(trials[0], trials[1]),
        cells=tuple((int(likelier[cell]), int(rarer[cell])) for cell in order),
    )


def _events(track: Track, x: Counts, y: Counts, ranking: _Ranking) -> Iterator[_Found]:
    """Events of a score, with their counts and how well they tell the sides apart."""
    direction = ranking.direction

    def ranked(event: Event, left: float, right: float, handicap: float = 0.0) -> _Found:
        return _Found(ranking.of(left, right) - handicap, event, int(left), int(right))

    score, nan = track.score, (int(x[-1]), int(y[-1]))
    yield ranked(Undefined(score), *nan)
    if score.categories:
        ratio = (x[:-1] + 0.5) / (y[:-1] + 0.5)
        order = np.argsort(-ratio if direction is Direction.LEFT else ratio, kind="stable")
        for count in range(1, order.size):
            codes = tuple(sorted(order[:count].tolist()))
            yield ranked(InCategory(score, codes), int(x[list(codes)].sum()), int(y[list(codes)].sum()))
        return
    edges, left, right, atoms = _numeric(track, x, y)
    for value, a, b in atoms:
        yield ranked(Equals(score, value), a, b)
    totals = int(left[-1]) if left.size else 0, int(right[-1]) if right.size else 0
    for edge, a, b in zip(edges[:-1].tolist(), left.tolist(), right.tolist(), strict=False):
        yield ranked(AtMost(score, edge), a, b)
        yield ranked(Above(score, edge), totals[0] - a, totals[1] - b)
    chosen = np.unique(np.linspace(0, edges.size - 2, EDGES).astype(int)) if edges.size > 2 else np.empty(0, int)
    for i in chosen.tolist():
        for j in chosen[chosen > i].tolist():
            a, b = int(left[j] - left[i]), int(right[j] - right[i])
            low, high = float(edges[i]), float(edges[j])
            yield ranked(Within(score, low, high), a, b, HANDICAP)
            yield ranked(Outside(score, low, high), totals[0] - a, totals[1] - b, HANDICAP)


def _numeric(track: Track, x: Counts, y: Counts) -> tuple[Floats, Counts, Counts, list[tuple[float, int, int]]]:
    """Edges in rising order with the counts of runs at or below each, and single values with theirs."""
    grid = track.grid
    upper = np.array([grid.upper(cell) for cell in range(grid.size - 1)])
    single = np.zeros(upper.size, dtype=bool)
    if isinstance(grid, CellCut):
        single[1:] = upper[1:] == np.nextafter(upper[:-1], np.inf)
    else:
        single[LATTICE + 2 :] = True
    order = np.argsort(upper, kind="stable")
    left, right = np.cumsum(x[:-1][order]), np.cumsum(y[:-1][order])
    is_edge = np.ones(upper.size, dtype=bool) if isinstance(grid, CellCut) else ~single[order]
    kept = is_edge & (np.diff(left + right, prepend=-1) > 0)
    if kept.size:
        kept[-1] = True
    atoms = [(float(upper[cell]), int(x[cell]), int(y[cell])) for cell in np.flatnonzero(single).tolist()]
    return upper[order][kept], left[kept], right[kept], atoms


def _wilson(hits: float, runs: int, z: float) -> float:
    """The score limit of Wilson 1927, an approximation used for ranking alone."""
    middle, square = hits / runs, z * z / runs
    spread = z * math.sqrt(max(middle * (1 - middle), 0.0) / runs + square / (4 * runs))
    return max((middle + square / 2 + spread) / (1 + square), 1e-300)
