"""Scores: numbers and cells that are computed from an outcome, each a frozen value that travels to other processes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpledger.audit.outcomes.structure import Floats, Outcomes

__all__ = [
    "MOST_CATEGORIES",
    "Cells",
    "Number",
    "Place",
    "Score",
    "codes",
    "edges_below",
    "listed",
    "of_block",
    "public_path",
    "row_sums",
    "table",
]

MOST_CATEGORIES = 64
MOST_COUNTED, FEWEST_COUNTED = 128, 8_192  # edges, and numbers, for which counting beats a search
SHOWN = 8  # places that are listed in words
_COLUMNS = 256  # summed at a time, which changes no bit of a sum
_KEY = re.compile(r"\[(?![0-9]+\])(?:\"(?:[^\"\\]|\\[\s\S])*\"|\\[\s\S]|[^\]\"\\])*\]")


@runtime_checkable
class Score(Protocol):
    """A function of the outcome alone. Frozen, hashable, and can be pickled.

    `primary`: the value, the sum, the length. `categories`: 0 for a number; else `of` gives whole numbers below it.
    `of_bits`: it reads how doubles are written, which no real number shows. `fitted`: what past runs were asked for, as
    "direction", where they say what the score is; "" where they do not. `public_words`, `public_category`: without
    any value that was an output or an input."""

    @property
    def primary(self) -> bool: ...
    @property
    def of_bits(self) -> bool: ...
    @property
    def fitted(self) -> str: ...
    @property
    def categories(self) -> int: ...
    def of(self, outcomes: Outcomes) -> Floats:
        """float64[runs]; NaN where it is not defined."""
        ...

    @property
    def words(self) -> str: ...
    @property
    def public_words(self) -> str: ...
    def category(self, code: int) -> str:
        """One category in words, as what the score is."""
        ...

    def public_category(self, code: int) -> str: ...


class Number(ABC):
    """What scores share that are numbers, unless they say otherwise."""

    __slots__ = ()

    @abstractmethod
    def of(self, outcomes: Outcomes) -> Floats: ...

    @property
    def primary(self) -> bool:
        return False

    @property
    def categories(self) -> int:
        return 0

    @property
    def of_bits(self) -> bool:
        """It reads how a number is written as a double, which real numbers do not have: what a mechanism that adds
        noise in floating point gives away though its mathematics is right."""
        return False

    @property
    def fitted(self) -> str:
        return ""

    @property
    @abstractmethod
    def words(self) -> str: ...

    @property
    def public_words(self) -> str:
        return public_path(self.words)

    def category(self, code: int) -> str:
        return str(code)

    def public_category(self, code: int) -> str:
        return self.category(code)


class Cells(Number):
    """What scores share that are one of a few cells."""

    __slots__ = ()

    @property
    @abstractmethod
    def categories(self) -> int: ...

    def public_category(self, code: int) -> str:  # noqa: ARG002
        return "one certain value"


@dataclass(frozen=True, slots=True)
class Place:
    """One number of an outcome. `alone`: nothing else stands at its path (which only makes the words read well)."""

    path: str
    index: int = 0
    alone: bool = True

    def of(self, outcomes: Outcomes) -> Floats:
        return outcomes.column(self.path, self.index)

    @property
    def words(self) -> str:
        return self.path if self.alone else f"{self.path}[{self.index}]"


def public_path(words: str) -> str:
    """Words without the keys in them: they are part of outputs."""
    return _KEY.sub("[...]", words)


def table(outcomes: Outcomes, places: tuple[Place, ...]) -> Floats:
    """float64[runs, places]."""
    path = places[0].path
    if path in outcomes.numbers and all(place.path == path for place in places):
        indexes = [place.index for place in places]
        block = outcomes.numbers[path]
        if max(indexes) < block.shape[1]:
            return block[:, indexes]
    return np.stack([place.of(outcomes) for place in places], axis=1)


def of_block(outcomes: Outcomes, path: str) -> Floats:
    """All numbers at a path: float64[runs, width]."""
    found = outcomes.numbers.get(path)
    return np.full((len(outcomes), 1), np.nan) if found is None else found


def row_sums(block: Floats) -> Floats:
    """The sum of each row, number by number from the left: float64[runs]. So it depends on that row alone, and not on
    how many others stand beside it or how they lie, and any number of workers gives the same."""
    sums: Floats = np.zeros(len(block))
    for begin in range(0, block.shape[1], _COLUMNS):
        some = np.column_stack([sums, block[:, begin : begin + _COLUMNS]])
        sums = np.add.accumulate(some, axis=1)[:, -1]
    return sums


def listed(places: tuple[Place, ...]) -> str:
    """Places in words: `output[0..3]`, or one after another."""
    first, count = places[0], len(places)
    if count > 1 and list(places) == [Place(first.path, first.index + step, False) for step in range(count)]:
        return f"{first.path}[{first.index}..{first.index + count - 1}]"
    shown = ", ".join(place.words for place in places[:SHOWN])
    return f"{shown} and {count - SHOWN} more" if count > SHOWN else shown


def edges_below(edges: Floats, numbers: Floats) -> npt.NDArray[np.intp]:
    """How many of the edges, which rise, are less than each number; of NaN anything. Counting them one after another
    is some times faster than a search where they are few and the numbers many."""
    if edges.size > MOST_COUNTED or numbers.size < FEWEST_COUNTED:
        return np.searchsorted(edges, numbers)
    below = np.zeros(numbers.shape, dtype=np.uint8)
    for edge in edges:
        below += numbers > edge
    return below.astype(np.intp)


def codes(cells: npt.NDArray[np.integer[Any]], defined: npt.NDArray[np.bool_]) -> Floats:
    """Cells as numbers, NaN where they are not defined."""
    return np.where(defined, cells, np.nan).astype(np.float64)
