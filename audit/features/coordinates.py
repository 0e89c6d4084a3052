"""Scores that are numbers computed from the numbers of an outcome: a value, a sum, a length, a difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpledger.audit.features.score import Number, Place, public_path
from dpledger.audit.outcomes.structure import Floats, Outcomes

__all__ = ["Difference", "Length", "Total", "Value"]


@dataclass(frozen=True, slots=True)
class Value(Number):
    """A number of the outcome as it is."""

    place: Place
    first: bool = True

    @property
    def primary(self) -> bool:
        return self.first

    def of(self, outcomes: Outcomes) -> Floats:
        return self.place.of(outcomes)

    @property
    def words(self) -> str:
        return self.place.words

    @property
    def public_words(self) -> str:
        return self.place.public_words


@dataclass(frozen=True, slots=True)
class Total(Number):
    """The sum of all numbers at some paths."""

    paths: tuple[str, ...]

    @property
    def primary(self) -> bool:
        return True

    def of(self, outcomes: Outcomes) -> Floats:
        with np.errstate(all="ignore"):
            total: Floats = sum(_block(outcomes, path).sum(axis=1) for path in self.paths)  # type: ignore[assignment]
        return total

    @property
    def words(self) -> str:
        return f"sum({', '.join(self.paths)})"

    @property
    def public_words(self) -> str:
        return public_path(self.words)


@dataclass(frozen=True, slots=True)
class Length(Number):
    """The euclidean length of all numbers at some paths."""

    paths: tuple[str, ...]

    @property
    def primary(self) -> bool:
        return True

    def of(self, outcomes: Outcomes) -> Floats:
        with np.errstate(all="ignore"):
            squares: Floats = sum(np.square(_block(outcomes, path)).sum(axis=1) for path in self.paths)  # type: ignore[assignment]
            return np.sqrt(squares)

    @property
    def words(self) -> str:
        return f"|{', '.join(self.paths)}|"

    @property
    def public_words(self) -> str:
        return public_path(self.words)


@dataclass(frozen=True, slots=True)
class Difference(Number):
    """One number minus another."""

    first: Place
    second: Place

    def of(self, outcomes: Outcomes) -> Floats:
        with np.errstate(all="ignore"):
            return self.first.of(outcomes) - self.second.of(outcomes)

    @property
    def words(self) -> str:
        return f"{self.first.words} - {self.second.words}"

    @property
    def public_words(self) -> str:
        return f"{self.first.public_words} - {self.second.public_words}"


def _block(outcomes: Outcomes, path: str) -> Floats:
    table = outcomes.numbers.get(path)
    return np.full((len(outcomes), 1), np.nan) if table is None else table
