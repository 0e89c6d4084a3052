"""A quantile of a column, chosen by its rank.

>>> from dpledger.mechanisms.entropy import seeded
>>> median = Quantile(epsilon=1, q="0.5", lower=0, upper=100, grid=1)
>>> median.release([20, 30, 31, 40] * 50, entropy=seeded(1)).value
30.0
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, ExponentialLaw
from dpledger.accounting.guarantees import BoundedRange
from dpledger.decimals import Number
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.distances import check_range
from dpledger.mechanisms.numeric.in_range import InRange
from dpledger.mechanisms.numeric.one_shot import least_epsilon, one_by_one
from dpledger.mechanisms.numeric.rows import OfUnits, counted
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.statistics.ranks import Places, RankChoice, Ranked, Stretch, check_share, missed_by
from dpledger.number_fields import OpenProbability, OptionalPositive, OptionalSigned, Positive, Signed
from dpledger.relations import Relation, Unit
from dpledger.schema import given, record, tag

__all__ = ["Quantile"]


@record
class Quantile(InRange):
    """The q-quantile of values clipped to [lower, upper]: a multiple of `grid`, the likelier the nearer its rank.

    `q`: in (0, 1), at most six digits. `grid`: the step of the answers, to which values are rounded; any number: 1 for
    ages in years, "0.01" for amounts of money; default: some 100,000 steps in the range. A coarser grid is better if
    many rows have one value. What is not a number counts as `missing`, which lies in the range (default: its centre). A
    wide range costs little: the error grows with the logarithm of the number of steps.
    Claim: epsilon-bounded range, so epsilon-DP. Source: Smith 2011; docs/proofs/statistics.md, section 2.
    The value is a float.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> median = dpl.Quantile(epsilon=1, q="0.5", lower=0, upper=120, grid=1)
    >>> median.release([34, 51, 29, 34] * 100, entropy=seeded(1)).value
    34.0
    >>> round(median.interval("0.95"))
    8
    """

    epsilon: Positive
    q: OpenProbability
    lower: Signed
    upper: Signed
    missing: OptionalSigned = given(default=None)
    grid: OptionalPositive = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["quantile"] = tag(default="quantile")

    def __post_init__(self) -> None:
        check_share("q", self.q)
        check_range(self.lower, self.upper, self._missing)
        self.values.check()
        self._choice.exponent(self._share.denominator)

    @classmethod
    def for_error(cls, error: Number, confidence: Number, **fields: Any) -> Self:
        """The mechanism of least epsilon whose `interval` at this confidence is at most `error` rows; `fields`: all but
        epsilon, `relation` and `unit` among them where they are not add_remove and one row.

        >>> dpl.Quantile.for_error(10, "0.95", q="0.5", lower=0, upper=120, grid=1).epsilon
        Decimal('0.779153')
        """
        return cls(epsilon=least_epsilon(lambda one: cls(epsilon=one, **fields), error, confidence), **fields)

    def claim(self) -> BoundedRange:
        """eta = epsilon: all losses of two neighbours lie in an interval of this length."""
        return BoundedRange(self.epsilon)

    def parts(self) -> Composition:
        """One leaf of the exponential mechanism."""
        return ExponentialLaw(self.epsilon)

    def _used(self) -> Mapping[str, object]:
        return {"q": self.q, "exponent": self._choice.exponent(1), "cap": self._cap}

    def release(self, data: object, *, entropy: Entropy) -> Release[float]:
        """A value near the quantile of the rows of `data`."""
        self.inspect(data)
        column = self.values.column(counted(data, self.unit, entropy=entropy))
        return Release(value=self._drawn(column, entropy), parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[np.float64]:
        """`size` independent releases of the same data: float64[size]."""
        self.inspect(data)
        if isinstance(data, OfUnits):
            return one_by_one(self, data, size, entropy)
        column = self.values.column(data)
        return np.array([self._drawn(column, entropy) for _ in range(size)])

    def interval(self, confidence: Number) -> float:
        """The most rows by which the rank of the value is wrong, with at least this probability: of n rows, at most q n
        plus that many are below it, and at least q n less that many are below or equal."""
        return self._choice.within(self.values.many, missed_by(confidence))

    def _drawn(self, column: Ranked, entropy: Entropy) -> float:
        places = self.values
        part, cap = Stretch(places.first - 1, places.last), self._cap
        return places.value(self._choice.place(column, part, places.first, self._share, cap=cap, entropy=entropy))

    @property
    def _share(self) -> Fraction:
        return Fraction(self.q)

    @property
    def _cap(self) -> int:
        return self._choice.cap(self.values.many)

    @property
    def _default_grid(self) -> Decimal:
        return Places.default_grid(self.lower, self.upper)

    @property
    def values(self) -> Places:
        """How rows become places."""
        return Places(lower=self.lower, upper=self.upper, missing=self._missing, grid=self._grid)

    @property
    def _choice(self) -> RankChoice:
        return RankChoice.of_column(self.epsilon, self._share, self.relation, self.unit)
