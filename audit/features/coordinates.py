"""Scores that are numbers computed from the numbers of an outcome: a value, a sum, a length, a difference, a direction.

>>> from dpledger.audit.outcomes.encoding import encode
>>> Total(("output",)).of(encode([(3.0, 4.0)])).item(), Length(("output",)).of(encode([(3.0, 4.0)])).item()
(7.0, 5.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpledger.audit.features.score import Number, Place, listed, of_block, public_path, row_sums, table
from dpledger.audit.outcomes.structure import Floats, Outcomes

__all__ = ["Along", "Difference", "Distance", "Distinct", "Extent", "First", "Length", "Total", "Value"]


@dataclass(frozen=True, slots=True)
class Value(Number):
    """A number of the outcome as it is. `chief`: it is one of a few. `fitted`: "place" where past runs say which."""

    place: Place
    chief: bool = True
    fitted: str = ""

    @property
    def primary(self) -> bool:
        return self.chief

    def of(self, outcomes: Outcomes) -> Floats:
        return self.place.of(outcomes)

    @property
    def words(self) -> str:
        return self.place.words


class _OfPaths(Number):
    """What is computed from all numbers at some paths."""

    __slots__ = ()

    @property
    def primary(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Total(_OfPaths):
    """The sum of all numbers at some paths."""

    paths: tuple[str, ...]

    def of(self, outcomes: Outcomes) -> Floats:
        return _sum_of(outcomes, self.paths)

    @property
    def words(self) -> str:
        return f"sum({', '.join(self.paths)})"


@dataclass(frozen=True, slots=True)
class Length(_OfPaths):
    """The euclidean length of all numbers at some paths."""

    paths: tuple[str, ...]

    def of(self, outcomes: Outcomes) -> Floats:
        return np.sqrt(_sum_of(outcomes, self.paths, squared=True))

    @property
    def words(self) -> str:
        return f"|{', '.join(self.paths)}|"


@dataclass(frozen=True, slots=True)
class Distance(Number):
    """The euclidean distance of some numbers from a centre that past runs suggest."""

    places: tuple[Place, ...]
    centre: tuple[float, ...]

    @property
    def fitted(self) -> str:
        return "centre"

    def of(self, outcomes: Outcomes) -> Floats:
        with np.errstate(all="ignore"):
            return np.sqrt(row_sums(np.square(table(outcomes, self.places) - np.array(self.centre))))

    @property
    def words(self) -> str:
        return f"distance of {listed(self.places)} from {_numbers(self.centre)}"

    @property
    def public_words(self) -> str:
        return public_path(f"distance of {listed(self.places)} from a centre")


@dataclass(frozen=True, slots=True)
class Along(Number):
    """A weighted sum of some numbers. `fitted`: "direction" where past runs suggest the weights, "signs" where they
    suggest no more than their signs."""

    places: tuple[Place, ...]
    weights: tuple[float, ...]
    fitted: str = ""

    @property
    def primary(self) -> bool:
        return self.fitted != ""

    def of(self, outcomes: Outcomes) -> Floats:
        with np.errstate(all="ignore"):
            return row_sums(table(outcomes, self.places) * np.array(self.weights))

    @property
    def words(self) -> str:
        return f"{listed(self.places)} along {_numbers(self.weights)}"

    @property
    def public_words(self) -> str:
        return public_path(f"{listed(self.places)} along {'signs' if self.fitted == 'signs' else 'a direction'}")


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


def _sum_of(outcomes: Outcomes, paths: tuple[str, ...], *, squared: bool = False) -> Floats:
    """The sum of all numbers at some paths (or of their squares) of each run, without NaN: a row ends in it where
    others are longer. NaN where there is nothing at one of the paths."""
    with np.errstate(all="ignore"):
        blocks = [of_block(outcomes, path) for path in paths]
        whole = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        total = row_sums(np.square(whole) if squared else whole)
        partly = np.flatnonzero(np.isnan(total))
        if partly.size:
            rows = np.nan_to_num(whole[partly], nan=0.0, posinf=np.inf, neginf=-np.inf)
            is_empty = np.any([np.isnan(block[partly]).all(axis=1) for block in blocks], axis=0)
            total[partly] = np.where(is_empty, np.nan, row_sums(np.square(rows) if squared else rows))
        return total


def _numbers(numbers: tuple[float, ...]) -> str:
    shown = ", ".join(f"{number:.4g}" for number in numbers[:8])
    return f"({shown}, ...)" if len(numbers) > 8 else f"({shown})"
