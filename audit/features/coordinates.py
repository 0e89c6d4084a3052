"""Scores that are numbers computed from the numbers of an outcome: a value, a sum, a length, a difference, a direction.

>>> from dpledger.audit.outcomes.encoding import encode
>>> Total(("output",)).of(encode([(3.0, 4.0)])).item(), Length(("output",)).of(encode([(3.0, 4.0)])).item()
(7.0, 5.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpledger.audit.features.score import Number, Place, listed, of_block, public_path, table
from dpledger.audit.outcomes.structure import Floats, Outcomes

__all__ = ["Along", "Difference", "Distance", "Distinct", "Extent", "First", "Length", "Total", "Value"]


@dataclass(frozen=True, slots=True)
class Value(Number):
    """A number of the outcome as it is. `chief`: it is one of a few."""

    place: Place
    chief: bool = True

    @property
    def primary(self) -> bool:
        return self.chief

    def of(self, outcomes: Outcomes) -> Floats:
        return self.place.of(outcomes)

    @property
    def words(self) -> str:
        return self.place.words


@dataclass(frozen=True, slots=True)
class Total(Number):
    """The sum of all numbers at some paths."""

    paths: tuple[str, ...]

    @property
    def primary(self) -> bool:
        return True

    def of(self, outcomes: Outcomes) -> Floats:
        with np.errstate(all="ignore"):
            return np.asarray(np.sum([_sum(of_block(outcomes, path)) for path in self.paths], axis=0))

    @property
    def words(self) -> str:
        return f"sum({', '.join(self.paths)})"


@dataclass(frozen=True, slots=True)
class Length(Number):
    """The euclidean length of all numbers at some paths."""

    paths: tuple[str, ...]

    @property
    def primary(self) -> bool:
        return True

    def of(self, outcomes: Outcomes) -> Floats:
        with np.errstate(all="ignore"):
            squares = [_sum(np.square(of_block(outcomes, path))) for path in self.paths]
            return np.sqrt(np.sum(squares, axis=0, dtype=np.float64))

    @property
    def words(self) -> str:
        return f"|{', '.join(self.paths)}|"


@dataclass(frozen=True, slots=True)
class Distance(Number):
    """The euclidean distance of some numbers from a centre that past runs suggest."""

    places: tuple[Place, ...]
    centre: tuple[float, ...]

    def of(self, outcomes: Outcomes) -> Floats:
        with np.errstate(all="ignore"):
            distance: Floats = np.sqrt(np.square(table(outcomes, self.places) - np.array(self.centre)).sum(axis=1))
            return distance

    @property
    def words(self) -> str:
        return f"distance of {listed(self.places)} from {_numbers(self.centre)}"

    @property
    def public_words(self) -> str:
        return public_path(f"distance of {listed(self.places)} from a centre")


@dataclass(frozen=True, slots=True)
class Along(Number):
    """A weighted sum of some numbers."""

    places: tuple[Place, ...]
    weights: tuple[float, ...]

    def of(self, outcomes: Outcomes) -> Floats:
        with np.errstate(all="ignore"):
            return np.asarray(np.einsum("ij,j->i", table(outcomes, self.places), np.array(self.weights)))

    @property
    def words(self) -> str:
        return f"{listed(self.places)} along {_numbers(self.weights)}"

    @property
    def public_words(self) -> str:
        return public_path(f"{listed(self.places)} along a direction")


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


@dataclass(frozen=True, slots=True)
class Extent(Number):
    """The largest of some numbers minus the smallest."""

    places: tuple[Place, ...]

    def of(self, outcomes: Outcomes) -> Floats:
        numbers = table(outcomes, self.places)
        with np.errstate(all="ignore"):
            extent: Floats = numbers.max(axis=1) - numbers.min(axis=1)
            return extent

    @property
    def words(self) -> str:
        return f"extent of {listed(self.places)}"


@dataclass(frozen=True, slots=True)
class Distinct(Number):
    """How many different values some numbers take; NaN is one of them."""

    places: tuple[Place, ...]

    def of(self, outcomes: Outcomes) -> Floats:
        numbers = np.sort(table(outcomes, self.places), axis=1)
        with np.errstate(all="ignore"):
            new = (numbers[:, 1:] != numbers[:, :-1]) & ~np.isnan(numbers[:, :-1])
        return np.asarray(1.0 + new.sum(axis=1))

    @property
    def words(self) -> str:
        return f"number of different values in {listed(self.places)}"


@dataclass(frozen=True, slots=True)
class First(Number):
    """Where a transcript first holds a number that is not 0, or NaN; infinity where it never does."""

    path: str
    what: Literal["not 0", "NaN"]

    def of(self, outcomes: Outcomes) -> Floats:
        block = of_block(outcomes, self.path)
        if self.what == "NaN":
            length = outcomes.column(f"len({self.path})")  # a row ends in NaN where others are longer
            hits = np.isnan(block) & (np.arange(block.shape[1]) < length[:, None])
        else:
            hits = (block != 0) & ~np.isnan(block)
        return np.where(hits.any(axis=1), hits.argmax(axis=1), np.inf)

    @property
    def words(self) -> str:
        return f"place of the first number in {self.path} that is {self.what}"


def _sum(block: Floats) -> Floats:
    """The sum of each row without its NaN: it ends in NaN where others are longer; NaN of nothing else."""
    total: Floats = block.sum(axis=1)
    partly = np.flatnonzero(np.isnan(total))
    if partly.size:
        rows = block[partly]
        total[partly] = np.where(np.isnan(rows).all(axis=1), np.nan, np.nansum(rows, axis=1))
    return total


def _numbers(numbers: tuple[float, ...]) -> str:
    shown = ", ".join(f"{number:.4g}" for number in numbers[:8])
    return f"({shown}, ...)" if len(numbers) > 8 else f"({shown})"
