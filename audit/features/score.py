"""Scores: numbers and cells that are computed from an outcome, each a frozen value that travels to other processes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from dpledger.audit.outcomes.structure import Floats, Outcomes

__all__ = ["MOST_CATEGORIES", "Category", "Number", "Place", "Score", "public_path"]

MOST_CATEGORIES = 64
_KEY = re.compile(r"\[(?![0-9]+\])[^\]]*\]")


@runtime_checkable
class Score(Protocol):
    """A function of the outcome alone. Frozen, hashable, and can be pickled.

    `primary`: the value, the sum, the length. `categories`: 0 for a number; else `of` gives whole numbers below it.
    `public_words`: without any value that was an output or an input."""

    @property
    def primary(self) -> bool: ...
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
        """One category in words."""
        ...


def public_path(path: str) -> str:
    """A path without the keys in it: they are part of outputs."""
    return _KEY.sub("[...]", path)


@dataclass(frozen=True, slots=True)
class Place:
    """One number of an outcome. `width`: how many stand at its path; it only makes the words read well. `known`: it is
    in every run, so its keys are no secret."""

    path: str
    index: int = 0
    width: int = 1
    known: bool = True

    def of(self, outcomes: Outcomes) -> Floats:
        return outcomes.column(self.path, self.index)

    @property
    def words(self) -> str:
        return self.path if self.width == 1 else f"{self.path}[{self.index}]"

    @property
    def public_words(self) -> str:
        words = self.words
        return words if self.known else public_path(words)


class Number:
    """What scores share that are numbers."""

    __slots__ = ()

    @property
    def primary(self) -> bool:
        return False

    @property
    def categories(self) -> int:
        return 0

    @property
    def words(self) -> str:
        raise NotImplementedError

    @property
    def public_words(self) -> str:
        return self.words

    def category(self, code: int) -> str:
        raise ValueError(f"{self.words} is a number, not one of categories: {code}")


class Category(Number):
    """What scores share that are cells."""

    __slots__ = ()

    def category(self, code: int) -> str:
        return f"{self.words} is {code}"


def as_codes(codes: np.ndarray, defined: np.ndarray) -> Floats:
    """Codes as numbers, NaN where they are not defined."""
    return np.where(defined, codes, np.nan).astype(np.float64)
