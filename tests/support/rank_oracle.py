"""Quantiles by their ranks once more, from the definition: every place by itself, every row counted.

Shares no code with the mechanism."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

__all__ = ["distances", "jointly_missed", "jointly_of_two", "law", "of_several", "spread_out"]

Floats = npt.NDArray[np.float64]


def distances(rows: Sequence[int], places: Sequence[int], q: Fraction) -> list[Fraction]:
    """How many rows each place is away from the q-quantile."""
    found = []
    for place in places:
        below, upto = sum(row < place for row in rows), sum(row <= place for row in rows)
        found.append(max(below - q * len(rows), q * len(rows) - upto, Fraction(0)))
    return found


def law(rows: Sequence[int], first: int, last: int, q: Fraction, exponent: float) -> Floats:
    """The probability of each place, by exponential weights."""
    at, ordered = np.arange(first, last + 1), np.sort(np.array(rows, dtype=np.int64))
    below, upto = (np.searchsorted(ordered, at, side=side) for side in ("left", "right"))
    far = np.maximum(0.0, np.maximum(below - float(q) * len(rows), float(q) * len(rows) - upto))
    weights = np.exp(-exponent * (far - far.min()))
    found: Floats = weights / weights.sum()
    return found


def spread_out(rows: Sequence[int], split: int) -> list[int]:
    """Each row of a value v at one of split v, ..., split v + split - 1: one after another, bits reversed."""
    seen: dict[int, int] = {}
    found = []
    for row in rows:
        rank = seen.get(row, 0) % split
        seen[row] = seen.get(row, 0) + 1
        at, weight = 0, split // 2
        while rank:
            at, rank, weight = at + weight * (rank % 2), rank // 2, weight // 2
        found.append(split * row + at)
    return found


def of_several(
    rows: Sequence[int], values: int, qs: Sequence[Fraction], exponents: Sequence[float], split: int
) -> Floats:
    """The joint law of one, two or three quantiles among the values 0, ..., values - 1, by halving: probabilities, an
    axis for each."""
    fine, most = spread_out(rows, split), values * split - 1
    middle = (len(qs) - 1) // 2
    first = law(fine, 0, most, qs[middle], exponents[0])
    found = np.zeros((values,) * len(qs))
    for place, chance in enumerate(first.tolist()):
        laws = []
        if middle > 0:
            left = law([x for x in fine if x <= place], 0, place, qs[0] / qs[1], exponents[1])
            laws.append(_by_value(left, 0, values, split))
        laws.append(np.eye(values)[place // split])
        if middle < len(qs) - 1:
            share = (qs[middle + 1] - qs[middle]) / (1 - qs[middle])
            right = law([x for x in fine if x > place], place, most, share, exponents[1])
            laws.append(_by_value(right, place, values, split))
        joint = laws[0]
        for one in laws[1:]:
            joint = np.multiply.outer(joint, one)
        found += chance * joint
    return found


def jointly_missed(rows: Sequence[int], places: int, qs: Sequence[Fraction]) -> list[Fraction]:
    """How many rows each tuple of places has too many or too few of between its places, in the order of `product`."""
    found, ends = [], (Fraction(0), *qs, Fraction(1))
    for chosen in itertools.product(range(places), repeat=len(qs)):
        upto = (0, *(sum(row <= place for row in rows) for place in sorted(chosen)), len(rows))
        parts = zip(itertools.pairwise(upto), itertools.pairwise(ends), strict=True)
        found.append(sum((abs(b - a - len(rows) * (q - p)) for (a, b), (p, q) in parts), Fraction(0)))
    return found


def jointly_of_two(
    rows: Sequence[int], values: int, qs: Sequence[Fraction], exponent: float, split: int
) -> dict[tuple[int, int], float]:
    """The law of two quantiles that are chosen as one, among the values 0, ..., values - 1: every pair of places."""
    fine, low, high = np.sort(spread_out(rows, split)), float(qs[0]), float(qs[1])
    places = np.arange(values * split)
    upto, many = np.searchsorted(fine, places, side="right"), len(rows)
    chances = np.zeros((values, values))
    for first, rank in zip(places.tolist(), upto.tolist(), strict=True):
        below, above = np.minimum(rank, upto), np.maximum(rank, upto)
        missed = np.abs(below - many * low) + np.abs(above - below - many * (high - low))
        weights = np.exp(-exponent * (missed + np.abs(many - above - many * (1 - high))))
        for at, weight in enumerate(weights.reshape(values, split).sum(axis=1).tolist()):
            chances[min(first // split, at), max(first // split, at)] += weight
    chances /= chances.sum()
    return {(i, j): float(chances[i, j]) for i in range(values) for j in range(i, values)}


def _by_value(fine: Floats, first: int, values: int, split: int) -> Floats:
    found: Floats = np.zeros(values)
    np.add.at(found, (np.arange(len(fine)) + first) // split, fine)
    return found
