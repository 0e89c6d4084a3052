"""The bank: which scores past runs suggest, one maker a kind of fault.

Nothing rests on the choice: a score is fixed before the runs that it bets on. Scores that gave one value in all past
runs are left out, so a bank of few runs is small, and it may be asked again as runs grow.

>>> from dpledger.audit.outcomes.encoding import encode
>>> scores = bank(encode([(0.0, 1.0), (2.0, 0.5)]), encode([(1.0, 3.0), (1.5, 0.0)]))
>>> [score.words for score in scores if score.primary]
['output[0]', 'output[1]', 'sum(output)', '|output|', 'output[0..1] along (-0.4706, -0.6486)']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.audit.features import telling
from dpledger.audit.features.bits import (
    VALUE_CELLS,
    Grain,
    GrainByValue,
    Kind,
    LowBits,
    Payload,
    Residue,
)
from dpledger.audit.features.cells import EqualPairs, Extreme, Label, Matches, Order, RepeatedValues, Rows
from dpledger.audit.features.coordinates import (
    Along,
    Difference,
    Distance,
    Distinct,
    Extent,
    First,
    Length,
    Total,
    Value,
)
from dpledger.audit.features.inputs import Inputs
from dpledger.audit.features.parities import parities
from dpledger.audit.features.score import MOST_CATEGORIES, Number, Place, Score, table
from dpledger.audit.outcomes.structure import ROOT, Floats, Outcomes

__all__ = ["WINDOW", "bank", "count_of_places", "telling_labels", "telling_places", "window"]

WINDOW = 4096  # runs of each side that are looked at
RANKED = 2048  # of them, for the rank of a score
MOST_RANKED, FEWEST_RANKED = 2**21, 256  # labels of a side that are ranked; runs, where paths are very many
MOST_SCORES = 200
MOST_PLACES = 64
MOST_PATHS = 8192
FEW = 4  # numbers of an output that are primary, each of them
NEAR = 6  # places all of whose pairs are compared
FEWEST_RUNS = 32  # of each side, from which bits are looked at
MOST_LABELS = MOST_CATEGORIES - 2


def bank(
    left: Outcomes, right: Outcomes, data: tuple[object, object] | Inputs | None = None, *, bits: bool = True
) -> tuple[Score, ...]:
    """The scores that two windows of past runs suggest: at most 200, primary ones first, then by how well they tell
    the windows apart. `data`: the two datasets, or what was found in them. `bits`: also scores of how doubles are
    written (`of_bits`); without them noise that is added in floating point counts as what it is in real numbers.
    Deterministic; at least one score."""
    ours, theirs = window(left), window(right)
    inputs = data if isinstance(data, Inputs) else Inputs.of(*data) if data is not None else Inputs()
    places = telling_places(ours, theirs)
    with np.errstate(all="ignore"):
        every = dict.fromkeys(_proposed(ours, theirs, places, inputs))
        proposed: list[Score] = [score for score in every if bits or not score.of_bits]
        ranked = _ranked(sorted(proposed, key=_preference), ours, theirs)
    if not any(score.primary for score, _ in ranked):
        ranked = _with_chiefs(ranked)
    ranked.sort(key=lambda pair: (not pair[0].primary, 0.0 if pair[0].primary else -pair[1]))
    return tuple(score for score, _ in ranked[:MOST_SCORES]) or (Value(Place(ROOT)),)


def window(outcomes: Outcomes) -> Outcomes:
    """The latest of the past runs."""
    return _latest(outcomes, WINDOW)


def _latest(outcomes: Outcomes, runs: int) -> Outcomes:
    return outcomes if len(outcomes) <= runs else outcomes.where(slice(len(outcomes) - runs, None))


def _with_chiefs(ranked: list[tuple[Score, float]]) -> list[tuple[Score, float]]:
    """The most telling values and labels are primary, where nothing else is."""
    best = sorted(range(len(ranked)), key=lambda index: -ranked[index][1])
    simple = [index for index in best if isinstance(ranked[index][0], (Value, Label))][:FEW]
    return [
        (replace(score, chief=True), rank) if index in simple and isinstance(score, (Value, Label)) else (score, rank)
        for index, (score, rank) in enumerate(ranked)
    ]


def _preference(score: Score) -> tuple[bool, bool]:
    """Of scores that say the same, the first is kept."""
    return not score.primary, not isinstance(score, Label)


def _ranked(scores: Sequence[Score], left: Outcomes, right: Outcomes) -> list[tuple[Score, float]]:
    """The scores that vary, each with how telling it is; one of those that split the runs into the same few cells."""
    found: list[tuple[Score, float]] = []
    seen: set[bytes] = set()
    for score in scores:
        ours, theirs = score.of(left), score.of(right)
        pooled = np.concatenate([ours, theirs])
        values, first, cells = np.unique(pooled, return_index=True, return_inverse=True)
        if values.size < 2:
            continue
        if values.size <= min(MOST_CATEGORIES, pooled.size // 4):
            split = np.argsort(np.argsort(first))[cells].tobytes()  # cells by first sight
            if split in seen:
                continue
            seen.add(split)
        ours, theirs = ours[-RANKED:], theirs[-RANKED:]
        count = score.categories
        found.append((score, telling.of_cells(ours, theirs, count) if count else telling.of_numbers(ours, theirs)))
    return found


# ---- places ---------------------------------------------------------------------------------------------------------


def telling_places(left: Outcomes, right: Outcomes) -> tuple[Place, ...]:
    """The numbers of outcomes that vary: all up to 64, else those that differ most, in their order."""
    columns = _varying(left, right)
    kept = np.arange(sum(len(found) for _, _, found in columns))
    if len(kept) > MOST_PLACES:
        kept = np.sort(np.argsort(-_ranks(columns, left, right), kind="stable")[:MOST_PLACES])
    ends = np.cumsum([len(found) for _, _, found in columns])
    places = []
    for at, column in zip(kept.tolist(), np.searchsorted(ends, kept, side="right").tolist(), strict=True):
        path, width, found = columns[column]
        places.append(Place(path, int(found[at - ends[column]]), width == 1))
    return tuple(places)


def count_of_places(left: Outcomes, right: Outcomes) -> int:
    """How many numbers of outcomes vary."""
    return sum(len(found) for _, _, found in _varying(left, right))


_Columns: TypeAlias = list[tuple[str, int, npt.NDArray[np.intp]]]
"""Paths, how many numbers stand at each, and which of them."""


def _varying(left: Outcomes, right: Outcomes) -> _Columns:
    """The numbers that vary, those of the output itself first."""
    columns = []
    for path in sorted(_usual(left, right), key=lambda path: (not is_value(path), path)):
        blocks = _blocks(path, left, right)
        columns.append((path, blocks[0].shape[1], np.flatnonzero(_varies(blocks))))
    return columns


def _ranks(columns: _Columns, left: Outcomes, right: Outcomes) -> Floats:
    """How telling each of these numbers is. Where few stand at a path, many paths are looked at together."""
    wide = [
        telling.of_columns(*_blocks(path, left, right))[found] for path, width, found in columns if width > MOST_PLACES
    ]
    places = [Place(path, index) for path, width, found in columns if width <= MOST_PLACES for index in found.tolist()]
    starts = range(0, len(places), telling.COLUMNS)
    groups = [tuple(places[start : start + telling.COLUMNS]) for start in starts]
    narrow = [telling.of_columns(table(left, some), table(right, some)) for some in groups]
    is_wide = np.repeat([width > MOST_PLACES for _, width, _ in columns], [len(found) for _, _, found in columns])
    ranks = np.empty(len(is_wide))
    ranks[is_wide], ranks[~is_wide] = np.concatenate([[], *wide]), np.concatenate([[], *narrow])
    return ranks


def telling_labels(left: Outcomes, right: Outcomes) -> list[str]:
    """The paths whose labels vary, those of the output itself first: all up to 64, else those that differ most, in
    their order."""
    paths = sorted({*left.labels, *right.labels}, key=lambda path: (path != ROOT, not path.startswith(ROOT), path))
    if len(paths) <= MOST_PLACES:
        return paths
    runs = min(RANKED, max(FEWEST_RANKED, MOST_RANKED // len(paths)))
    rank_of = {path: _rank_of_labels(path, _latest(left, runs), _latest(right, runs)) for path in paths}
    chosen = set(sorted(paths, key=lambda path: -rank_of[path])[:MOST_PLACES])
    return [path for path in paths if path in chosen]


def _rank_of_labels(path: str, left: Outcomes, right: Outcomes) -> float:
    """How telling the labels at a path are; -1 where there is but one."""
    counts = Counter([*left.labels_at(path).tolist(), *right.labels_at(path).tolist()])
    if len(counts) < 2:
        return -1.0
    label = Label(path, tuple(known for known, _ in counts.most_common(MOST_LABELS)))
    return telling.of_cells(label.of(left), label.of(right), label.categories)


def _usual(left: Outcomes, right: Outcomes) -> list[str]:
    """The paths of numbers that are looked at: all, or of very many those that most runs have."""
    paths = sorted({*left.numbers, *right.numbers})
    return sorted(paths, key=lambda path: -left.runs_at(path) - right.runs_at(path))[:MOST_PATHS]


def is_value(path: str) -> bool:
    """It is a number of the output itself (or of its text), not one that is told beside it."""
    return path.startswith((ROOT, "numbers in "))


def _blocks(path: str, left: Outcomes, right: Outcomes) -> list[Floats]:
    """The numbers at a path of both sides, equally many."""
    found = [side.numbers.get(path, np.empty((len(side), 0))) for side in (left, right)]
    width = max(block.shape[1] for block in found)
    return [
        block
        if block.shape[1] == width
        else np.pad(block, ((0, 0), (0, width - block.shape[1])), constant_values=np.nan)
        for block in found
    ]


def _varies(blocks: Sequence[Floats]) -> npt.NDArray[np.bool_]:
    """Which columns have more than one value, bit for bit."""
    words = [np.ascontiguousarray(block).view(np.uint64) for block in blocks if len(block)]
    found = np.zeros(blocks[0].shape[1], dtype=np.bool_)
    for runs in (slice(0, 8), slice(None)):  # most numbers that vary do so at once
        same = np.flatnonzero(~found)
        if not len(same):
            break
        for block in words:
            found[same] |= (block[runs][:, same] != words[0][0, same]).any(axis=0)
    return found


# ---- what is proposed -----------------------------------------------------------------------------------------------


def _proposed(left: Outcomes, right: Outcomes, places: tuple[Place, ...], inputs: Inputs) -> Iterator[Number]:
    values = tuple(place for place in places if is_value(place.path))
    chief = set(values if 0 < len(values) <= FEW else places if not values and len(places) <= FEW else ())
    best = {*_nearest(values, left, right)[:1]} if len(values) > FEW else set()
    yield from (Value(place, place in chief | best, "place" if place in best else "") for place in places)
    yield from _sums(values)
    yield from _directions(values, left, right, inputs)
    yield from _labels(left, right, inputs, chief=not values)
    yield from _compared(values, left, right)
    yield from _matches(values, inputs)
    yield from _transcripts(left, right)
    if min(len(left), len(right)) >= FEWEST_RUNS:
        nearest = _nearest(places, left, right)
        for place in nearest[:FEW]:
            yield from _bits(place, place.of(left), place.of(right))
        if len(values) > 1:
            yield from parities(values, table(left, values), table(right, values))


def _sums(values: tuple[Place, ...]) -> Iterator[Number]:
    """Sum and length of the widest block, and of all numbers together where they stand at few paths."""
    widths = Counter(place.path for place in values)
    if len(values) > 1:
        widest = max(widths, key=lambda path: widths[path])
        if widths[widest] > 1:
            yield from (Total((widest,)), Length((widest,)))
        if 1 < len(widths) <= 16:
            yield from (Total(tuple(widths)), Length(tuple(widths)))


def _labels(left: Outcomes, right: Outcomes, inputs: Inputs, *, chief: bool) -> Iterator[Number]:
    """The kind of thing at each path; the text itself, where it is seen again or is one of the data's."""
    given = 0
    for path in telling_labels(left, right):
        counts = Counter([*left.labels_at(path).tolist(), *right.labels_at(path).tolist()])
        seen = [label for label, count in counts.most_common(MOST_LABELS) if count > 1 or len(counts) <= MOST_LABELS]
        held = [text for text in inputs.texts if path.startswith(("text of", "word ")) and text not in seen]
        if len(counts) > 1 and (seen or held):
            yield Label(path, tuple([*held, *seen][:MOST_LABELS]), chief and given < FEW)
            given += 1


def _compared(values: tuple[Place, ...], left: Outcomes, right: Outcomes) -> Iterator[Number]:
    """Order, differences and equality of numbers."""
    if len(values) < 2:
        return
    nearest = _nearest(values, left, right)
    pairs = dict.fromkeys([*combinations(sorted(nearest[:NEAR], key=values.index), 2), *pairwise(values)])
    yield from (Difference(one, other) for one, other in pairs)
    few = tuple(sorted(nearest[:FEW], key=values.index))
    yield from (Order(few), EqualPairs(few))
    rows = Counter([tuple(row) for side in (left, right) for row in table(side, values).tolist()])
    again = [row for row, count in rows.most_common(MOST_LABELS) if count > 1]
    if again:
        yield Rows(values, tuple(again))
    if len(values) > 2:
        yield from (Distinct(values), Extent(values), Extreme(values), Extreme(values, largest=False))


def _nearest(places: tuple[Place, ...], left: Outcomes, right: Outcomes) -> list[Place]:
    """The most telling places first."""
    if len(places) <= FEW:
        return list(places)
    ranks = [telling.of_numbers(place.of(_latest(left, 512)), place.of(_latest(right, 512))) for place in places]
    return [places[index] for index in np.argsort(-np.array(ranks), kind="stable")]


def _matches(values: tuple[Place, ...], inputs: Inputs) -> Iterator[Number]:
    """Equality with what is in the data."""
    if inputs.left or inputs.right:
        yield from (Matches((place,), inputs.left, inputs.right, inputs.both) for place in values[:FEW])
        if len(values) > 1:
            yield Matches(values, inputs.left, inputs.right, inputs.both)


def _transcripts(left: Outcomes, right: Outcomes) -> Iterator[Number]:
    """Where a list of numbers first holds one that is not 0, or NaN."""
    for path in sorted(_usual(left, right)):
        if any(side.numbers[path].shape[1] > 1 for side in (left, right) if path in side.numbers):
            yield from (First(path, "not 0"), First(path, "NaN"))


def _directions(values: tuple[Place, ...], left: Outcomes, right: Outcomes, inputs: Inputs) -> Iterator[Number]:
    """Many small differences together: along the data's own, along that of the means so far, or along its signs."""
    if len(values) < 2:
        return
    ours, theirs = table(left, values), table(right, values)
    whole = np.asarray(np.isfinite(ours).all(axis=0) & np.isfinite(theirs).all(axis=0))
    kept = tuple(place for place, is_whole in zip(values, whole.tolist(), strict=True) if is_whole)
    if len(kept) > 1:
        ours, theirs = ours[:, whole], theirs[:, whole]
        gap = ours.mean(axis=0) - theirs.mean(axis=0)
        spread = (len(ours) * ours.var(axis=0) + len(theirs) * theirs.var(axis=0)) / (len(ours) + len(theirs))
        weights = np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0)
        centre = np.median(np.concatenate([ours, theirs]), axis=0)
        if np.isfinite(weights).all():
            yield Along(kept, tuple(weights.tolist()), "direction")
            if len(kept) > 2:
                yield Along(kept, tuple(_even(weights, spread).tolist()), "signs")
        yield Distance(kept, tuple(centre.tolist()))
    for mine, other in inputs.vectors:
        same = tuple(place for place in values if place.path == values[0].path and place.index < len(mine))
        if len(same) > 1:
            yield Along(same, tuple(mine[place.index] - other[place.index] for place in same))


def _even(weights: Floats, spread: Floats) -> Floats:
    """The signs of weights, over deviations that are rounded to a power of two: what needs few runs where all numbers
    tell alike, and keeps sums of whole numbers whole."""
    with np.errstate(divide="ignore"):
        even: Floats = np.where(spread > 0, np.sign(weights) * np.exp2(-np.round(np.log2(spread) / 2)), 0.0)
    return even


def _bits(place: Place, left: Floats, right: Floats) -> Iterator[Number]:
    """What a value as a number hides."""
    pooled = np.concatenate([left, right])
    finite = pooled[np.isfinite(pooled)]
    yield from (Kind(place), Payload(place), Grain(place), LowBits(place))
    if not finite.size:
        return
    values, counts = np.unique(finite, return_counts=True)
    again = counts >= 2
    if again.any() and values.size > 1:
        common = np.argsort(-counts, kind="stable")[: min(MOST_LABELS, int(again.sum()))]
        yield RepeatedValues(place, tuple(np.sort(values[common]).tolist()))
    if values.size > MOST_CATEGORIES:
        edges = np.unique(np.sort(finite)[np.arange(1, VALUE_CELLS) * finite.size // VALUE_CELLS])
        yield GrainByValue(place, tuple(edges.tolist()))
        yield GrainByValue(place, _powers(finite))
    for exponent in dict.fromkeys(_lattice(side) for side in (left, right)):
        if exponent is not None:
            yield Residue(place, exponent)


def _powers(numbers: Floats) -> tuple[float, ...]:
    """The largest powers of two among some numbers, and their negatives: between them the unit in the last place is
    the same."""
    top = int(np.frexp(np.abs(numbers).max())[1])
    powers = np.ldexp(1.0, np.arange(top - 7, top))
    return tuple(np.concatenate([-powers[::-1], powers]).tolist())


def _lattice(numbers: Floats) -> int | None:
    """The exponent of the grid 2^k on which nearly all of the numbers lie; None where there is none."""
    grains = Grain(Place(ROOT)).of(Outcomes(len(numbers), {ROOT: numbers.reshape(-1, 1)}, {}))
    grains = grains[np.isfinite(grains)]
    return int(np.quantile(grains, 0.02, method="lower")) if grains.size else None
