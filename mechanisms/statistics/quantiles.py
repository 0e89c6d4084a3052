"""Several quantiles of a column at once: all of them as one choice, or by halving, the middle one of all rows, then
those of the rows on each side.

A level of choices reads each row once, so that by halving many quantiles cost the logarithm of how many they are.

>>> from dpledger.mechanisms.entropy import seeded
>>> quartiles = Quantiles(epsilon=1, qs=("0.25", "0.5", "0.75"), lower=0, upper=100, grid=1)
>>> quartiles.release(list(range(100)) * 20, entropy=seeded(1)).value
(24.0, 49.0, 75.0)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, ExponentialLaw, Repeated
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.distances import check_range
from dpledger.mechanisms.numeric.in_range import InRange
from dpledger.mechanisms.numeric.integers import share_of
from dpledger.mechanisms.numeric.one_shot import least_epsilon, one_by_one
from dpledger.mechanisms.numeric.rows import OfUnits, counted, rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.statistics.joint_ranks import JointChoice
from dpledger.mechanisms.statistics.ranks import (
    SPLIT,
    Places,
    RankChoice,
    Ranked,
    Stretch,
    check_share,
    missed_by,
    worst_share,
)
from dpledger.number_fields import Exacts, OptionalPositive, OptionalSigned, Positive, Signed
from dpledger.relations import Relation, Unit
from dpledger.schema import given, record, tag

__all__ = ["InnerQuantile", "Quantiles", "turns_of"]

_MOST_QUANTILES = 1000
COMPARED_AT = 0.05
"""What the intervals may miss by which one of two ways is chosen."""


@dataclass(frozen=True, slots=True)
class InnerQuantile:
    """A choice of the recursion: quantile number `place`, which is the `share`-quantile of the rows between the answers
    `low` and `high` (-1 and the number of quantiles for the ends)."""

    place: int
    share: Fraction
    low: int
    high: int


def turns_of(qs: tuple[Fraction, ...]) -> tuple[tuple[InnerQuantile, ...], ...]:
    """The choices of each level: ceil(log2(len(qs) + 1)) levels.

    >>> [[(turn.place, str(turn.share)) for turn in level] for level in turns_of((Fraction(1, 4), Fraction(1, 2)))]
    [[(0, '1/4')], [(1, '1/3')]]
    """
    levels: list[tuple[InnerQuantile, ...]] = []
    ends = (Fraction(0), *qs, Fraction(1))
    open_ranges = [(-1, len(qs))]
    while open_ranges:
        level = [(low, (low + high) // 2, high) for low, high in open_ranges]
        levels.append(tuple(InnerQuantile(mid, _between(ends, low, mid, high), low, high) for low, mid, high in level))
        halves = [half for low, mid, high in level for half in ((low, mid), (mid, high))]
        open_ranges = [(low, high) for low, high in halves if high - low > 1]
    return tuple(levels)


def _between(ends: tuple[Fraction, ...], low: int, mid: int, high: int) -> Fraction:
    """The share of the rows between two quantiles that lies below a third. `ends[i + 1]` is that of number i."""
    return (ends[mid + 1] - ends[low + 1]) / (ends[high + 1] - ends[low + 1])


@record
class Quantiles(InRange):
    """Several quantiles of values clipped to [lower, upper], rising: multiples of `grid`, the likelier the nearer their
    ranks.

    `qs`: rising, each in (0, 1) with at most six digits. `grid`, `missing` as of `Quantile`; rows of one value count as
    spread over its step, so that they are divided in the right proportion. `way`: "joint", all of them as one choice,
    by how many rows lie between them (at most 16, and no tiny epsilon); "halving", the middle one first, then in the
    rows on each side the middle one of those that are left, an equal share of epsilon for each of the
    ceil(log2(len(qs) + 1)) levels. Default: the one whose `interval` at 95 % is smaller under the relation. A single
    one is better asked by `Quantile`.
    Claim: epsilon-DP; jointly a bounded range of epsilon, by halving one of a share of epsilon, once a level. Source:
    Gillenwater-Joseph-Kulesza 2021; Kaplan-Schnapp-Stemmer 2022; docs/proofs/statistics.md, section 3. The value is a
    tuple of floats, one for each of `qs`.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> quartiles = dpl.Quantiles(epsilon=1, qs=("0.25", "0.5", "0.75"), lower=0, upper=120, grid=1)
    >>> quartiles.release([34, 51, 29, 40] * 500, entropy=seeded(1)).value
    (31.0, 38.0, 43.0)
    """

    epsilon: Positive
    qs: Exacts
    lower: Signed
    upper: Signed
    missing: OptionalSigned = given(default=None)
    grid: OptionalPositive = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    way: Literal["halving", "joint"] | None = given(default=None)
    kind: Literal["quantiles"] = tag(default="quantiles")

    def __post_init__(self) -> None:
        if not 0 < len(self.qs) <= _MOST_QUANTILES or any(b <= a for a, b in pairwise(self.qs)):
            raise ParameterError("qs", str(list(map(str, self.qs))), f"1 to {_MOST_QUANTILES} numbers, rising")
        for q in self.qs:
            check_share("qs", q)
        check_range(self.lower, self.upper, self._missing)
        self.values.check()
        for level in self._levels:
            for turn in level:
                self._choice(level).exponent(turn.share.denominator)
        if self.way == "joint" and not self._joint.is_small(self._many):
            expected = "halving, or None: that many quantiles, or so small an epsilon, are too much work as one choice"
            raise ParameterError("way", self.way, expected)

    @classmethod
    def for_error(cls, error: Number, confidence: Number, **fields: Any) -> Self:
        """The mechanism of least epsilon whose `interval` at this confidence is at most `error` rows; `fields`: all but
        epsilon, `relation` and `unit` among them where they are not add_remove and one row."""
        return cls(epsilon=least_epsilon(lambda one: cls(epsilon=one, **fields), error, confidence), **fields)

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """A leaf of the exponential mechanism: one, or one a level."""
        if self._jointly:
            return ExponentialLaw(self.epsilon)
        leaf, levels = ExponentialLaw(self._share), len(self._levels)
        return leaf if levels == 1 else Repeated(leaf, times=levels)

    def _used(self) -> Mapping[str, object]:
        """The exponent of one row; by halving the share of epsilon, and of each level that exponent and the cap of
        distances in rows."""
        if self._jointly:
            return {"qs": self.qs, "way": "joint", "exponent": self._joint.exponent(1)}
        exponents = tuple(self._choice(level).exponent(1) for level in self._levels)
        return {"qs": self.qs, "way": "halving", "share": self._share, "exponents": exponents, "caps": self._caps}

    def release(self, data: object, *, entropy: Entropy) -> Release[tuple[float, ...]]:
        """Values near the quantiles of the rows of `data`, rising."""
        self.inspect(data)
        column = self.values.column(counted(data, self.unit, entropy=entropy), SPLIT)
        return Release(value=next(self._drawn(column, entropy)), parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[np.float64]:
        """`size` independent releases of the same data: float64[size, len(qs)]."""
        self.inspect(data)
        if isinstance(data, OfUnits):
            return one_by_one(self, data, size, entropy)
        column = self.values.column(data, SPLIT)
        return np.array(list(itertools.islice(self._drawn(column, entropy), size))).reshape(size, len(self.qs))

    def interval(self, confidence: Number) -> float:
        """By how many rows the rank of any of the values is wrong at most, with at least this probability, all of them
        at once; but for the 1024th part of the rows that have one value, jointly half of that for each of `qs`."""
        missed = missed_by(confidence)
        return self._within_jointly(missed) if self._jointly else self._within_by_halving(missed)

    def _within_jointly(self, missed: float) -> float:
        return self._joint.within(self._many, missed)

    def _within_by_halving(self, missed: float) -> float:
        return sum(self._choice(level).within(self._many, missed / len(self.qs)) for level in self._levels)

    def _drawn(self, column: Ranked, entropy: Entropy) -> Iterator[tuple[float, ...]]:
        """One release after the other of the same rows."""
        places = self.values
        if self._jointly:
            joint = self._joint.prepared(column, self._first, self._first + self._many - 1)
            while True:
                yield tuple(places.value(place // SPLIT) for place in joint.drawn(entropy))
        while True:
            yield self._halved(column, entropy)

    def _halved(self, column: Ranked, entropy: Entropy) -> tuple[float, ...]:
        places, found, caps = self.values, dict(self._ends), self._caps
        for level, cap in zip(self._levels, caps, strict=True):
            choice = self._choice(level)
            for turn in level:
                part = Stretch(found[turn.low], found[turn.high])
                first = max(part.low, self._first)
                found[turn.place] = choice.place(column, part, first, turn.share, cap=cap, entropy=entropy)
        return tuple(places.value(found[place] // SPLIT) for place in range(len(self.qs)))

    @property
    def _jointly(self) -> bool:
        """Whether all are one choice. Public."""
        if self.way is not None or len(self.qs) == 1:
            return self.way == "joint"
        if not self._joint.is_small(self._many):
            return False
        return self._within_jointly(COMPARED_AT) < self._within_by_halving(COMPARED_AT)

    @property
    def _joint(self) -> JointChoice:
        exchanged = self.relation not in (None, Relation.ADD_REMOVE)
        return JointChoice(self.epsilon, rows_of(self.unit), tuple(map(Fraction, self.qs)), exchanged)

    @property
    def _first(self) -> int:
        return self.values.first * SPLIT

    @property
    def _many(self) -> int:
        return self.values.many * SPLIT

    @property
    def _caps(self) -> tuple[int, ...]:
        return tuple(self._choice(level).cap(self._many) for level in self._levels)

    @property
    def _ends(self) -> Iterator[tuple[int, int]]:
        """What stands for the answers before the first and after the last: a row is in the part above `low`, up to and
        with `high`."""
        yield -1, self._first - 1
        yield len(self.qs), self.values.last * SPLIT + SPLIT - 1

    @property
    def _levels(self) -> tuple[tuple[InnerQuantile, ...], ...]:
        return turns_of(tuple(map(Fraction, self.qs)))

    @property
    def _share(self) -> Decimal:
        return share_of(self.epsilon, len(self._levels))

    @property
    def _default_grid(self) -> Decimal:
        return Places.default_grid(self.lower, self.upper)

    @property
    def values(self) -> Places:
        """How rows become places."""
        return Places(lower=self.lower, upper=self.upper, missing=self._missing, grid=self._grid)

    def _choice(self, level: tuple[InnerQuantile, ...]) -> RankChoice:
        """Of each part of a level. Claim: the rows of a unit move the distances of all parts by at most `rows` in
        total. Source: docs/proofs/statistics.md, section 3."""
        rows = rows_of(self.unit) * max(worst_share(turn.share) for turn in level)
        if self.relation in (None, Relation.ADD_REMOVE):
            return RankChoice(self._share, rows, "a row that is added is in one part")
        if len(level) == 1 and level[0].low == -1 and level[0].high == len(self.qs):
            return RankChoice(self._share, Fraction(rows_of(self.unit)), "a row that is changed stays among all rows")
        return RankChoice(self._share, 2 * rows, "a row that is changed leaves one part and enters another")
