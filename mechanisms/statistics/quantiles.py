"""Several quantiles of a column at once, by halving: the middle one of all rows, then those of the rows on each side.

A level of choices reads each row once, so that many quantiles cost the logarithm of how many they are.

>>> from dpledger.mechanisms.entropy import seeded
>>> quartiles = Quantiles(epsilon=1, qs=("0.25", "0.5", "0.75"), lower=0, upper=100, grid=1)
>>> quartiles.release(list(range(100)) * 20, entropy=seeded(1)).value
(24.0, 49.0, 74.0)
"""

from __future__ import annotations

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
    ranks. Kaplan-Schnapp-Stemmer 2022.

    The middle one is chosen first, then in the rows on each side the middle one of those that are left. Each of the
    ceil(log2(len(qs) + 1)) levels has an equal share of epsilon. `qs`: rising, each in (0, 1) with at most six digits.
    `grid`, `missing` as of `Quantile`; rows of one value count as spread over its step, so that they are divided in the
    right proportion. A single one, or two of few rows, are better asked by `Quantile`.
    Claim: epsilon-DP; a bounded range of a share of epsilon, once a level. Source: docs/proofs/statistics.md, section
    3. The value is a tuple of floats, one for each of `qs`.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> quartiles = dpl.Quantiles(epsilon=1, qs=("0.25", "0.5", "0.75"), lower=0, upper=120, grid=1)
    >>> quartiles.release([34, 51, 29, 40] * 500, entropy=seeded(1)).value
    (31.0, 35.0, 48.0)
    """

    epsilon: Positive
    qs: Exacts
    lower: Signed
    upper: Signed
    missing: OptionalSigned = given(default=None)
    grid: OptionalPositive = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
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

    @classmethod
    def for_error(cls, error: Number, confidence: Number, **fields: Any) -> Self:
        """The one with the least epsilon whose `interval` at this confidence is at most `error` rows; `fields`: all but
        epsilon, `relation` and `unit` among them where they are not add_remove and one row."""
        return cls(epsilon=least_epsilon(lambda one: cls(epsilon=one, **fields), error, confidence), **fields)

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """A leaf of the exponential mechanism, once a level."""
        leaf, levels = ExponentialLaw(self._share), len(self._levels)
        return leaf if levels == 1 else Repeated(leaf, times=levels)

    def _used(self) -> Mapping[str, object]:
        """The share of epsilon, and of each level the exponent of one row and the cap of distances in rows."""
        exponents = tuple(self._choice(level).exponent(1) for level in self._levels)
        return {"qs": self.qs, "share": self._share, "exponents": exponents, "caps": self._caps}

    def release(self, data: object, *, entropy: Entropy) -> Release[tuple[float, ...]]:
        """Values near the quantiles of the rows of `data`, rising."""
        self.inspect(data)
        column = self.values.column(counted(data, self.unit, entropy=entropy), SPLIT)
        return Release(value=self._drawn(column, entropy), parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[np.float64]:
        """`size` independent releases of the same data: float64[size, len(qs)]."""
        self.inspect(data)
        if isinstance(data, OfUnits):
            return one_by_one(self, data, size, entropy)
        column = self.values.column(data, SPLIT)
        return np.array([self._drawn(column, entropy) for _ in range(size)])

    def interval(self, confidence: Number) -> float:
        """By how many rows the rank of any of the values is wrong at most, with at least this probability, all of them
        at once; but for the 1024th part of the rows that have one value."""
        miss = missed_by(confidence) / len(self.qs)
        return sum(self._choice(level).within(self._many, miss) for level in self._levels)

    def _drawn(self, column: Ranked, entropy: Entropy) -> tuple[float, ...]:
        places, found, caps = self.values, dict(self._ends), self._caps
        for level, cap in zip(self._levels, caps, strict=True):
            choice = self._choice(level)
            for turn in level:
                part = Stretch(found[turn.low], found[turn.high])
                first = max(part.low, self._first)
                found[turn.place] = choice.place(column, part, first, turn.share, cap=cap, entropy=entropy)
        return tuple(places.value(found[place] // SPLIT) for place in range(len(self.qs)))

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
