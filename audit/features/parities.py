"""Parities of bits of several numbers: no one number tells, all of them together do.

The Walsh-Hadamard transform of how often each pattern of bits was seen gives every parity of at most ten numbers at
once; of more numbers, those of two and of three are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import get_args

import numpy as np

from dpledger.audit.features.bits import Bit, Parity, Pattern, bits_of
from dpledger.audit.features.score import Number, Place
from dpledger.audit.outcomes.structure import Floats

__all__ = ["parities"]

MOST_WHOLE = 10  # numbers, all of whose parities are tried
MOST_IN_THREES = 24
MOST_IN_TWOS = 64
MOST_PATTERN = 6
PROPOSED = 2  # of each kind of bit


def parities(places: tuple[Place, ...], left: Floats, right: Floats) -> Iterator[Number]:
    """The parities that differ most, and the patterns of few numbers. `left`, `right`: float64[runs, places]."""
    for bit in get_args(Bit):
        thresholds: tuple[float, ...] = ()
        if bit == "high":
            pooled = np.sort(np.concatenate([left, right]), axis=0)  # NaN last
            thresholds = tuple(np.nan_to_num(pooled[len(pooled) // 2 - 1]).tolist())
        ours, theirs = (bits_of(side, bit, thresholds) for side in (left, right))
        if not (ours.any() or theirs.any()):
            continue
        for chosen in _most_telling(ours, theirs):
            limits = tuple(thresholds[index] for index in chosen) if thresholds else ()
            yield Parity(tuple(places[index] for index in chosen), bit, limits)
        if len(places) <= MOST_PATTERN:
            yield Pattern(places, bit, thresholds)


def _most_telling(left: np.ndarray, right: np.ndarray) -> list[tuple[int, ...]]:
    """Sets of at least two numbers: bool[runs, numbers] of each side."""
    count = left.shape[1]
    if count > MOST_WHOLE:
        return _of_few(left[:, :MOST_IN_TWOS], right[:, :MOST_IN_TWOS])
    sums = np.abs(_transform(left) - _transform(right))
    sizes = np.array([index.bit_count() for index in range(2**count)])
    sums[sizes < 2] = -1.0
    best = np.argsort(-sums, kind="stable")[:PROPOSED]
    return [tuple(index for index in range(count) if mask >> index & 1) for mask in best.tolist() if sums[mask] > 0]


def _transform(bits: np.ndarray) -> Floats:
    """The mean of (-1)^parity for each set of numbers, numbered by its bits."""
    count = bits.shape[1]
    patterns = np.einsum("ij,j->i", bits.astype(np.int64), 2 ** np.arange(count))
    sums = np.bincount(patterns, minlength=2**count).astype(np.float64) / max(1, len(bits))
    for level in range(count):
        pairs = sums.reshape(-1, 2, 2**level)
        sums = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
    return sums


def _of_few(left: np.ndarray, right: np.ndarray) -> list[tuple[int, ...]]:
    """Pairs, and triples where there are not too many numbers."""
    ours, theirs = 1.0 - 2.0 * left, 1.0 - 2.0 * right
    gaps = np.abs(ours.T.dot(ours) / len(ours) - theirs.T.dot(theirs) / len(theirs))
    found: list[tuple[float, tuple[int, ...]]] = [(gaps[pair], pair) for pair in combinations(range(left.shape[1]), 2)]
    if left.shape[1] <= MOST_IN_THREES:
        for first in range(left.shape[1] - 2):
            rest = slice(first + 1, None)
            mine, other = ours[:, [first]] * ours[:, rest], theirs[:, [first]] * theirs[:, rest]
            gaps = np.abs(mine.T.dot(ours[:, rest]) / len(ours) - other.T.dot(theirs[:, rest]) / len(theirs))
            size = gaps.shape[0]
            found += [
                (gaps[pair], (first, *(first + 1 + index for index in pair))) for pair in combinations(range(size), 2)
            ]
    found.sort(key=lambda pair: -pair[0])
    return [chosen for gap, chosen in found[:PROPOSED] if gap > 0]
