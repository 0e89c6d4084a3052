"""What run i of a side is seeded with, and which side comes first: functions of the seed and the run's number alone.

A run has eight words of a Philox stream of its side, at a counter that is its number: four are the state of a PCG64
(what `numpy.random.default_rng` hands out), two the entropy of its seed sequence, two seed everything else. The two
sides and the coins have spawn keys of their own, so no two runs share randomness.

>>> words_of(7, Side.LEFT, first=5, count=1) == words_of(7, Side.LEFT, first=0, count=6)[5:]
True
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Side", "Streams", "rest_of", "right_first", "right_first_at", "words_at", "words_of"]

WORDS = 8  # of a run: two steps of the counter
COINS = 2  # the spawn key beside those of the two sides


class Side(IntEnum):
    """Which dataset."""

    LEFT = 0
    RIGHT = 1


@functools.lru_cache(maxsize=16)
def _key(seed: int, key: int) -> npt.NDArray[np.uint64]:
    """That of the Philox stream of one spawn key."""
    return np.random.SeedSequence(seed, spawn_key=(key,)).generate_state(2, np.uint64).astype(np.uint64)


def _raw(seed: int, key: int, pieces: Iterable[tuple[int, int]]) -> Iterator[npt.NDArray[np.uint64]]:
    """Words of the Philox stream of one spawn key: from each counter on so many."""
    bits, at = np.random.Philox(key=_key(seed, key)), 0
    for counter, count in pieces:
        bits.advance(counter - at)
        yield bits.random_raw(count)
        at = counter + -(-count // 4)


def words_of(seed: int, side: Side, *, first: int, count: int) -> list[list[int]]:
    """The eight words of each of `count` runs of a side, from run `first` on."""
    (raw,) = _raw(seed, side, [(WORDS // 4 * first, WORDS * count)])
    found: list[list[int]] = raw.reshape(count, WORDS).tolist()
    return found


def words_at(seed: int, side: Side, runs: Iterable[int]) -> Iterator[list[int]]:
    """The eight words of each of some runs of a side."""
    return (raw.tolist() for raw in _raw(seed, side, ((WORDS // 4 * run, WORDS) for run in runs)))


def rest_of(words: Sequence[int]) -> int:
    """128 bits for all that a run may draw from beside the generator that it is given."""
    return words[6] << 64 | words[7]


def right_first(seed: int, first: int, count: int) -> npt.NDArray[np.bool_]:
    """The public schedule: whether the right side of a pair (or of a batch, by its first run) is drawn first."""
    (raw,) = _raw(seed, COINS, [(first // 4, first % 4 + count)])
    return (raw[first % 4 :] & np.uint64(1)).astype(np.bool_)


def right_first_at(seed: int, runs: Sequence[int]) -> list[bool]:
    """The schedule at some pairs, or batches."""
    pieces = _raw(seed, COINS, ((run // 4, run % 4 + 1) for run in runs))
    return [bool(raw[-1] & np.uint64(1)) for raw in pieces]


class _RunSeed(np.random.SeedSequence):
    """The seed sequence of a run, made when it is asked for anything: most runs never ask, and making one takes as long
    as a run. `spawn`, `generate_state` and `entropy` are those of a SeedSequence of the run's own entropy."""

    def __init__(self) -> None:
        super().__init__(0)
        self.begin(0, 0)

    def begin(self, high: int, low: int) -> None:
        self._high, self._low = high, low
        self._made: np.random.SeedSequence | None = None

    def _sequence(self) -> np.random.SeedSequence:
        if self._made is None:
            self._made = np.random.SeedSequence(self._high << 64 | self._low)
        return self._made

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> npt.NDArray[Any]:
        return self._sequence().generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        return self._sequence().spawn(n_children)

    entropy = property(lambda self: self._sequence().entropy)
    n_children_spawned = property(lambda self: self._sequence().n_children_spawned)
    pool = property(lambda self: self._sequence().pool)
    state = property(lambda self: self._sequence().state)

    def __repr__(self) -> str:
        return repr(self._sequence())

    def __reduce__(self) -> Any:
        return self._sequence().__reduce__()


class Streams:
    """The generators of runs. One object serves all runs (a new one takes ten times as long), until somebody keeps it,
    its bit generator or its seed sequence: the next run gets others, and what was kept goes on as it was.

    A generator is numpy's own, in a state that only its run has: nothing in it tells that this is an audit."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._seed = _RunSeed()
        self._bits = np.random.PCG64(self._seed)
        self._generator = np.random.Generator(self._bits)
        self._alone = self._references()

    def _references(self) -> tuple[int, int, int]:
        return (sys.getrefcount(self._seed), sys.getrefcount(self._bits), sys.getrefcount(self._generator))

    def begin(self, words: Sequence[int]) -> np.random.Generator:
        """The generator of the run with these eight words."""
        if self._references() != self._alone:
            self._renew()
        self._seed.begin(words[4], words[5])
        self._bits.state = {
            "bit_generator": "PCG64",
            "state": {"state": words[0] << 64 | words[1], "inc": words[2] << 64 | words[3] | 1},
            "has_uint32": 0,
            "uinteger": 0,
        }
        return self._generator
