"""Value features: thresholds, intervals, tails and atoms of numbers, and the kinds of outputs that are not numbers.

From the selection part alone this module proposes events and counts them. Features are each coordinate, the sum and the
length of an output. A ladder of quantiles (finer in both tails, with the extremes of each side) gives one-sided
thresholds, intervals and pairs of tails; single values, whole rows, NaN, exceptions and labels are events of their own.
Proposing more events costs nothing: bounds are computed on other runs (docs/proofs/audit.md 3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.audit.events import (
    Above,
    AtMost,
    Coordinate,
    Equals,
    Event,
    Feature,
    Headed,
    Labelled,
    NotANumber,
    Outside,
    Row,
    Spread,
    Total,
    Within,
)
from dpledger.audit.outcomes import Floats, Outcomes, head_of

__all__ = ["Candidates", "candidates", "features", "ladder"]

Counts: TypeAlias = npt.NDArray[np.int64]

QUANTILES = 64  # even steps of the ladder
WIDEST_FINE = 4  # outputs of more numbers get a coarser ladder for intervals: there are width times as many
COARSE_EDGES = 24
ATOM_WINDOW = 4096  # runs of each side in which single values are looked for
ATOM_SIGHTINGS = 8  # sightings in both windows together that make a value a candidate: 0.1 % of their runs
MOST_ATOMS = 64
HANDICAP = 0.005  # of events with two thresholds, in epsilon


@dataclass(frozen=True, slots=True)
class Candidates:
    """A family of events: how often each happened on either side of the selection part, and how to name one.

    `handicap`: by how much it must do better than a simpler family, so that luck does not choose odd intervals."""

    left: Counts
    right: Counts
    event: Callable[[int], Event]
    handicap: float = 0.0


def features(width: int) -> list[Feature]:
    """The numbers that are computed from an output of `width` numbers."""
    places: list[Feature] = [Coordinate(place, width) for place in range(width)]
    return places if width == 1 else [*places, Total(), Spread()]


def candidates(left: Outcomes, right: Outcomes) -> Iterator[Candidates]:
    """Every family of events that the two selection parts suggest. At least one event for any runs."""
    width = left.values.shape[1]
    for feature in features(width):
        yield from _of_feature(feature, feature.of(left.values), feature.of(right.values), fine=width <= WIDEST_FINE)
    if width > 1:
        yield from _listed([Row(row) for row in _common_rows(left, right)], left, right)
    yield from _listed([NotANumber(feature) for feature in features(width)], left, right)
    if left.labels is not None or right.labels is not None:
        yield from _listed(_label_events(left, right), left, right)


def _of_feature(feature: Feature, left: Floats, right: Floats, *, fine: bool) -> Iterator[Candidates]:
    edges = ladder(left, right)
    if edges.size:
        below = _at_most(left, edges), _at_most(right, edges)
        numbers = _numbers_in(left), _numbers_in(right)
        yield Candidates(below[0], below[1], lambda i: AtMost(feature, float(edges[i])))
        yield Candidates(numbers[0] - below[0], numbers[1] - below[1], lambda i: Above(feature, float(edges[i])))
        kept = np.arange(edges.size) if fine else np.unique(np.linspace(0, edges.size - 1, COARSE_EDGES).astype(int))
        rungs = edges[kept]
        low, high = np.triu_indices(kept.size, 1)
        inside = [counts[kept][high] - counts[kept][low] for counts in below]
        yield Candidates(
            inside[0], inside[1], lambda i: Within(feature, float(rungs[low[i]]), float(rungs[high[i]])), HANDICAP
        )
        yield Candidates(
            numbers[0] - inside[0],
            numbers[1] - inside[1],
            lambda i: Outside(feature, float(rungs[low[i]]), float(rungs[high[i]])),
            HANDICAP,
        )
    atoms = _atoms(left, right)
    if atoms.size:
        yield Candidates(_equal(left, atoms), _equal(right, atoms), lambda i: Equals(feature, float(atoms[i])))


def ladder(left: Floats, right: Floats, *, quantiles: int = QUANTILES) -> Floats:
    """Rising thresholds: even quantiles of both sides together, half octaves into both tails down to about four runs,
    and the extremes of each side."""
    pooled = np.sort(np.concatenate([left[np.isfinite(left)], right[np.isfinite(right)]]))
    if not pooled.size:
        return pooled
    steps = np.arange(1, quantiles) / quantiles
    octaves = np.arange(0, 2 * np.log2(max(1.0, pooled.size / (4 * quantiles))) + 1)
    tail = 2.0 ** (-octaves / 2) / quantiles
    places = np.concatenate([steps, tail, 1 - tail]) * (pooled.size - 1)
    finite = [side[np.isfinite(side)] for side in (left, right)]
    extremes = [edge for side in finite if side.size for edge in (np.nextafter(side.min(), -np.inf), side.max())]
    edges: Floats = np.unique(np.concatenate([pooled[places.astype(int)], extremes]))
    return edges


def _at_most(numbers: Floats, edges: Floats) -> Counts:
    """How many numbers are at or below each edge; NaN is below none."""
    cells = np.searchsorted(edges, numbers[~np.isnan(numbers)], side="left")
    return np.cumsum(np.bincount(cells, minlength=edges.size + 1))[:-1]


def _numbers_in(numbers: Floats) -> int:
    return int(np.count_nonzero(~np.isnan(numbers)))


def _atoms(left: Floats, right: Floats) -> Floats:
    window = np.concatenate([left[:ATOM_WINDOW], right[:ATOM_WINDOW]])
    values, counts = np.unique(window[~np.isnan(window)], return_counts=True)
    common = np.argsort(-counts, kind="stable")[:MOST_ATOMS]
    kept: Floats = np.sort(values[common[counts[common] >= _sightings(window.size)]])
    return kept


def _sightings(window: int) -> int:
    """How often a value must be seen in a window to be a candidate: 2 % of a small one, eight times in a large one."""
    return max(2, min(ATOM_SIGHTINGS, window // 50))


def _equal(numbers: Floats, atoms: Floats) -> Counts:
    places = np.minimum(np.searchsorted(atoms, numbers), atoms.size - 1)
    return np.bincount(places[atoms[places] == numbers], minlength=atoms.size)


def _common_rows(left: Outcomes, right: Outcomes) -> list[tuple[float, ...]]:
    window = np.concatenate([left.values[:ATOM_WINDOW], right.values[:ATOM_WINDOW]])
    seen = Counter(tuple(row) for row in window.tolist())
    return [row for row, count in seen.most_common(MOST_ATOMS) if count >= _sightings(len(window))]


def _label_events(left: Outcomes, right: Outcomes) -> list[Event]:
    seen = Counter(label for side in (left, right) if side.labels is not None for label in side.labels if label)
    heads = sorted({head_of(label) for label in seen})[:MOST_ATOMS]
    whole = [label for label, _ in seen.most_common(MOST_ATOMS) if label not in heads]
    return [*(Headed(head) for head in heads), *(Labelled(label) for label in whole)]


def _listed(events: list[Event], left: Outcomes, right: Outcomes) -> Iterator[Candidates]:
    if events:
        counts = [np.array([event.count(side) for event in events], dtype=np.int64) for side in (left, right)]
        yield Candidates(counts[0], counts[1], events.__getitem__)
