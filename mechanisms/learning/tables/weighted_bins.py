"""Bins that have weights, what they say of a row, and sums over the rows of each.

A row is in the bin of all rows, in one bin of each column, and in one of each pair of columns. All of it follows from
that row and from weights, to the last bit: nothing here is added in an order that other rows decide.

>>> bins = WeightedBins(Binning({0: [1], 1: [1]}, source="made up"), ((0, 1),))
>>> bins.each, bins.bins
(4, 16)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary
from dpledger.mechanisms.learning.tables.binning import Binned, Binning, Column

__all__ = ["STEPS", "BinSums", "Pairs", "WeightedBins", "chances_of", "missed_steps", "scores_of"]

Floats = npt.NDArray[np.float64]
Wholes = npt.NDArray[np.int64]
Pairs: TypeAlias = tuple[tuple[Column, Column], ...]
"""Columns by twos."""

STEPS = 2**20  # of a probability and of a weight in [0, 1]: sums of whole numbers are exact


@dataclass(frozen=True, slots=True)
class WeightedBins:
    """The bins that have weights: first that of all rows, then those of each column, then of each pair of columns."""

    binning: Binning
    pairs: Pairs

    @property
    def each(self) -> int:
        """In how many of them a row is."""
        return 1 + len(self.binning.features) + len(self.pairs)

    @property
    def bins(self) -> int:
        """How many there are."""
        return 1 + sum(self._sizes)

    def of(self, rows: Binned) -> list[npt.NDArray[np.intp]]:
        """Those that each row is in, a list of `each` columns."""
        starts = list(accumulate(self._sizes, initial=1))
        wide = len(self.binning.features)
        every = np.zeros(len(rows.known), dtype=np.intp)
        alone = [start + rows.places[:, at] for at, start in enumerate(starts[:wide])]
        both = [
            start + rows.places[:, first] * self._widths[second] + rows.places[:, second]
            for start, (first, second) in zip(starts[wide:], self._positions, strict=False)
        ]
        return [every, *alone, *both]

    @property
    def _widths(self) -> list[int]:
        return [one.cells for one in self.binning.features]

    @property
    def _positions(self) -> list[tuple[int, int]]:
        at = {name: place for place, name in enumerate(self.binning.columns)}
        return [(at[first], at[second]) for first, second in self.pairs]

    @property
    def _sizes(self) -> list[int]:
        widths = self._widths
        return [*widths, *(widths[first] * widths[second] for first, second in self._positions)]


@dataclass(frozen=True, slots=True)
class BinSums:
    """BinSums over the rows of each bin; what is no row counts nowhere."""

    cells: list[npt.NDArray[np.intp]]
    known: npt.NDArray[np.bool_]
    bins: int

    @property
    def rows(self) -> int:
        return len(self.known)

    def of(self, steps: Wholes) -> Wholes:
        """The sums of whole numbers below 2^21, one a row: exact for 2^31 rows, in whatever order."""
        counted = np.where(self.known, steps, 0).astype(np.float64)
        total = np.zeros(self.bins, dtype=np.int64)
        for cells in self.cells:
            total += np.bincount(cells, weights=counted, minlength=self.bins).astype(np.int64)
        return total


def scores_of(weights: Floats, cells: list[npt.NDArray[np.intp]]) -> Floats:
    """float64[scores, rows]: added column by column, so that a row's are its own to the last bit."""
    found = np.zeros((len(weights), len(cells[0])))
    for bins in cells:
        found += weights[:, bins]
    return found


def chances_of(scores: Floats) -> Floats:
    """The chance of the second class for each row, float64[1, rows]; of several, that of each class."""
    if len(scores) == 1:
        small = elementary.exp(-np.abs(scores))
        return np.where(scores < 0, small, 1.0) / (1.0 + small)
    shown = elementary.exp(scores - scores.max(axis=0))
    total = np.zeros(scores.shape[1])
    for one in shown:  # in this order, however many rows there are
        total += one
    chances: Floats = shown / total
    return chances


def missed_steps(chances: Floats, y: npt.NDArray[np.intp]) -> Wholes:
    """What the chances miss, in steps towards zero: int64 of their shape.

    Claim: of one row the squares add up to at most STEPS^2, and of several classes to 2 STEPS^2; another label moves
    them by no more. Source: docs/proofs/learning_tables.md, "Logistic regression"."""
    is_it = y == 1 if len(chances) == 1 else y == np.arange(len(chances))[:, None]
    missed: Wholes = np.trunc((np.minimum(chances, 1.0) - is_it) * STEPS).astype(np.int64)
    return missed
