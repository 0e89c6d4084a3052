"""A place among whole numbers by the ranks that data give it: the exponential mechanism of quantiles.

How far a place o is from the q-quantile, in rows: 0 where at most a share q of the rows lies below o and at least a
share q at or below it, else what is missing, up to a public cap. Between two neighbouring values all places are as far,
and beyond the cap all are: they are segments of the choice, which costs what the rows near the quantile cost, whatever
the number of places.

>>> column = Ranked.of(np.array([2, 5, 5]))
>>> column.upto(4), column.upto(5)
(1, 3)
>>> scores, counts = scores_of(column, Stretch(-1, 9), 0, Fraction(1, 2), cap=100)
>>> scores.tolist(), counts.tolist()
([-3, -1, -1, 0, -3], [2, 1, 2, 1, 4])
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import scalars
from dpledger.decimals import Number, read, round_down, round_up, text
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import ExponentialWeights, Sensitivity, choose
from dpledger.mechanisms.numeric.grid import default_grid, nearest_whole
from dpledger.mechanisms.numeric.one_shot import derived
from dpledger.mechanisms.numeric.rows import blocks, rows_of
from dpledger.relations import Relation, Unit

__all__ = [
    "SPLIT",
    "Places",
    "RankChoice",
    "Ranked",
    "Stretch",
    "check_share",
    "missed_by",
    "scores_of",
    "worst_share",
]

Wholes: TypeAlias = npt.NDArray[np.int64]

_MOST = 2**46  # steps from 0 to an end, so that each may be split in 1024
_DIGITS = 6  # of a share: 10^6 times the rows stay below 2^63
_SLACK = 1 + 2.0**-30  # for rounding, that of the exponent too
_LEAST_MISS = 1e-15
_CAP = 50.0  # logarithm: the places at the cap are chosen with a probability below e^-50
_MOST_ROWS = 2**40
_FEW_PLACES = 2**22  # so many are counted, more are sorted

_SPLIT_BITS = 10
SPLIT: int = 2**_SPLIT_BITS
"""The places of each step, among which rows of one value may be spread."""
_REVERSED = np.array([int(f"{rank:0{_SPLIT_BITS}b}"[::-1], 2) for rank in range(SPLIT)])


def check_share(field: str, q: Decimal) -> None:
    """Raise ParameterError unless 0 < q < 1, with at most six digits after the point."""
    if not 0 < q < 1 or Fraction(q) * 10**_DIGITS % 1:
        raise ParameterError(field, text(q), "a number in (0, 1) with at most six digits after the point")


def worst_share(q: Fraction) -> Fraction:
    """How far a row that is added moves the distance from the q-quantile, in rows."""
    return max(q, 1 - q)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rows as places: the values that occur, rising, and how many rows lie below each (and, last, below none).

    `split`: where it is above 1, rows of one value v count as spread over the places split v, ..., split v + split - 1,
    evenly: the r-th of them stands at the bits of r from the last to the first. So a row more is one place more, and no
    other moves."""

    values: Wholes
    ranks: Wholes
    split: int = 1

    @classmethod
    def of(cls, rows: Wholes, split: int = 1) -> Self:
        """Of the places of rows, rising."""
        starts = np.flatnonzero(np.diff(rows, prepend=rows[:1] - 1))
        return cls(rows[starts], np.append(starts, len(rows)), split)

    @classmethod
    def counted(cls, counts: Wholes, first: int, split: int = 1) -> Self:
        """Of how many rows have each place from `first` on."""
        values = np.flatnonzero(counts)
        return cls(values + first, np.concatenate(([0], np.cumsum(counts[values]))), split)

    def upto(self, place: int) -> int:
        """How many rows stand at a place or below it."""
        value, at = divmod(place, self.split)
        group = int(np.searchsorted(self.values, value))
        found = int(self.ranks[group])
        if group == len(self.values) or self.values[group] != value:
            return found
        rounds, rest = divmod(int(self.ranks[group + 1]) - found, self.split)
        return found + rounds * (at + 1) + int(np.count_nonzero(self._places_within(rest) <= at))

    def near(self, least: int, most: int) -> tuple[Wholes, Wholes]:
        """The places that occur, rising, from that of the row of rank `least` or before to that of rank `most` - 1 or
        after, and how many rows lie below each, and below what follows."""
        start = max(int(np.searchsorted(self.ranks, least, side="right")) - 1, 0)
        stop = max(min(int(np.searchsorted(self.ranks, most)), len(self.values)), start)
        sizes = np.diff(self.ranks[start : stop + 1])
        each = np.minimum(sizes, self.split)
        ranks = np.arange(int(each.sum())) - np.repeat(np.cumsum(each) - each, each)
        places = np.repeat(self.values[start:stop], each) * self.split + self._places_within(ranks)
        rows = np.repeat(sizes // self.split, each) + (ranks < np.repeat(sizes % self.split, each))
        order = np.argsort(places, kind="stable")
        return places[order], int(self.ranks[start]) + np.concatenate(([0], np.cumsum(rows[order])))

    def _places_within(self, ranks: Wholes | int) -> Wholes:
        """Where the rows of these ranks stand, or the first so many."""
        wanted = np.arange(ranks) if isinstance(ranks, int) else ranks
        return _REVERSED[wanted] if self.split > 1 else wanted


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rows above the place `low`, up to and with the place `high`."""

    low: int
    high: int


def scores_of(column: Ranked, part: Stretch, first: int, q: Fraction, *, cap: int) -> tuple[Wholes, Wholes]:
    """The scores of the places first, ..., part.high by the rows of a part (none of them below `first`), and how many
    places in a row have each: minus the distance from the q-quantile, at most `cap` rows, times the denominator of q.

    Claim: with s the denominator, a row that is added to the part moves each score by at most s max(q, 1 - q), and one
    that is changed by at most s. Source: docs/proofs/statistics.md, section 2."""
    start, stop = column.upto(part.low), column.upto(part.high)
    target = q.numerator * (stop - start)
    middle = start + target // q.denominator
    places, ranks = column.near(max(middle - cap - 1, start), min(middle + cap + 2, stop))
    inside = slice(*np.searchsorted(places, (part.low, part.high), side="right"))
    at, ranks = places[inside], ranks[inside.start : inside.stop + 1] - start
    counts, below, upto = (np.ones(2 * len(at) + 1, dtype=np.int64) for _ in range(3))
    counts[::2] = np.diff(np.concatenate(([first - 1], at, [part.high + 1]))) - 1
    below[::2] = upto[::2] = ranks
    below[1::2], upto[1::2] = ranks[:-1], ranks[1:]
    far = np.maximum(below * q.denominator - target, target - upto * q.denominator)
    return -np.clip(far, 0, cap * q.denominator), counts


@dataclass(frozen=True, slots=True)
class RankChoice:
    """A choice by ranks. `epsilon`: the range of its losses; `rows`: how far one unit moves a distance from a quantile
    at most, in rows, all choices of the same epsilon together; `why`: the reason."""

    epsilon: Decimal
    rows: Fraction
    why: str

    @classmethod
    def of_column(cls, epsilon: Decimal, q: Fraction, relation: Relation | None, unit: Unit | None) -> Self:
        """Of one quantile of all rows."""
        rows = Fraction(rows_of(unit))
        if relation in (None, Relation.ADD_REMOVE):
            return cls(epsilon, rows * worst_share(q), "a row that is added moves one rank")
        return cls(epsilon, rows, "a row that is changed moves from one side to the other")

    def exponent(self, denominator: int) -> Decimal:
        """Of one step of score. Claim: 2 rows denominator exponent <= epsilon, so that the loss has that range."""
        ideal = Fraction(self.epsilon) / (2 * self.rows * denominator)
        return derived(round_down(ideal), epsilon=self.epsilon)

    def cap(self, places: int) -> int:
        """The rows from which on a distance counts as this one. Public.

        Claim: of so many places, those so far away are chosen with a probability below e^-50."""
        return math.ceil(min((scalars.log(places) + _CAP) / float(self.exponent(1)), _MOST_ROWS))

    def place(self, column: Ranked, part: Stretch, first: int, q: Fraction, *, cap: int, entropy: Entropy) -> int:
        """One of first, ..., part.high, exactly, with weight e^(exponent score)."""
        scores, counts = scores_of(column, part, first, q, cap=cap)
        moved = Sensitivity(round_up(self.rows * q.denominator), "linf", self.why)
        law = ExponentialWeights(self.exponent(q.denominator))
        return first + choose(law, scores, counts=counts, sensitivity=moved, entropy=entropy)

    def within(self, places: int, miss: float) -> float:
        """The rows that the chosen place is at most away from the quantile, with a probability of at least 1 - miss.

        Claim: some place is no row away, and each place further away than t is e^(-exponent t) less likely."""
        per_row = float(self.exponent(1))
        return scalars.log(places / miss) / per_row * _SLACK


def missed_by(confidence: Number) -> float:
    """1 - confidence; ParameterError unless that is in (0, 1), and not within 10^-15 of 1."""
    level = read(confidence, field="confidence")
    if not 0 < level <= 1 - Fraction(_LEAST_MISS):
        raise ParameterError("confidence", confidence, "a number in (0, 1), at most 1 - 10^-15")
    return float(1 - Fraction(level))


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The multiples of `grid` in [lower, upper], and how rows become one of them: clipped, then rounded to the nearest;
    what is no number counts as `missing`. Public."""

    lower: Decimal
    upper: Decimal
    missing: Decimal
    grid: Decimal

    @staticmethod
    def default_grid(lower: Decimal, upper: Decimal) -> Decimal:
        """The power of two of which the range has from 65,536 to 131,073 multiples."""
        return default_grid(upper=(Fraction(upper) - Fraction(lower)) / 2**6)

    def check(self) -> None:
        """Raise ParameterError unless there is a place, and none beyond 2^46 steps."""
        if not self.first <= self.last or max(-self.first, self.last) >= _MOST:
            expected = "a step with a multiple in the range, and fewer than 2^46 from 0 to its ends"
            raise ParameterError("grid", text(self.grid), expected)

    @property
    def first(self) -> int:
        """The least of the places, in steps."""
        return math.ceil(Fraction(self.lower) / Fraction(self.grid))

    @property
    def last(self) -> int:
        """The largest of the places, in steps."""
        return math.floor(Fraction(self.upper) / Fraction(self.grid))

    @property
    def many(self) -> int:
        """How many there are."""
        return self.last - self.first + 1

    def column(self, data: object, split: int = 1) -> Ranked:
        """The rows, each read by itself. Total: never raises."""
        if self.many > _FEW_PLACES:
            found = np.concatenate([*self._blocks(data), np.zeros(0, dtype=np.int64)])
            found.sort()
            return Ranked.of(found, split)
        counts = np.zeros(self.many, dtype=np.int64)
        for block in self._blocks(data):
            counts += np.bincount(block - self.first, minlength=self.many)
        return Ranked.counted(counts, self.first, split)

    def value(self, place: int) -> float:
        """The float64 nearest to a place."""
        return float(place * Fraction(self.grid))

    def _blocks(self, data: object) -> Iterator[Wholes]:
        for values in blocks(data, missing=float(self.missing)):
            yield self._whole(values)

    @np.errstate(all="ignore")  # the caller's would raise of a denormal number
    def _whole(self, values: npt.NDArray[np.float64]) -> Wholes:
        lower, upper, grid = float(self.lower), float(self.upper), float(self.grid)
        steps = nearest_whole(np.clip(values, lower, upper) / grid)
        return np.clip(steps, self.first, self.last).astype(np.int64)
