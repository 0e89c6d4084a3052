"""Bounds of a column that nobody guesses: powers of two between which nearly all values lie.

>>> from dpledger.mechanisms.entropy import seeded
>>> bounds = ColumnBounds(epsilon=1, tail="0.01")
>>> bounds.release([3.5, 70, -1.25] * 5000, entropy=seeded(1)).value
(-2.0, 128.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition, ExponentialLaw, Repeated
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import Number, text
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.integers import share_of
from dpledger.mechanisms.numeric.one_shot import OneShot, least_epsilon, one_by_one
from dpledger.mechanisms.numeric.rows import (
    OfUnits,
    blocks,
    capped_where_known,
    check_column,
    counted,
    with_or_without_ids,
)
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.statistics.ranks import RankChoice, Ranked, Stretch, check_share, missed_by
from dpledger.number_fields import OpenProbability, Positive, Signed
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["ColumnBounds"]

_LEAST, _MOST = -20, 59  # powers of two; the largest is below 10^18, which a parameter may be
_POWERS = 2.0 ** np.arange(_LEAST, _MOST + 1)
_ENDS = np.concatenate((-_POWERS[::-1], [0.0], _POWERS))


@record
class ColumnBounds(OneShot):
    """Two bounds of a column, each 0 or a power of two with a sign, 2^-20 to 2^59: all but about a share `tail` of the
    rows lie above the first, and all but as many below the second.

    They are quantiles of the values, rounded outward, each at half of epsilon. Take them as `lower` and `upper` of what
    you ask next. It takes some 30 / (epsilon tail) rows: with fewer, nothing is known of the tail, and a bound may be
    far outside. What is no number counts as `missing`.
    Claim: epsilon-DP; a bounded range of epsilon / 2, twice. Source: Smith 2011; docs/proofs/statistics.md, section 2.
    The value is a pair of floats, the first below the second.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> bounds = dpl.ColumnBounds(epsilon=1, tail="0.01")
    >>> bounds.release([18.5, 42, 77] * 5000, entropy=seeded(1)).value
    (16.0, 128.0)
    """

    epsilon: Positive
    tail: OpenProbability = given(default="0.001")
    missing: Signed = given(default=0)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["column_bounds"] = tag(default="column_bounds")

    def __post_init__(self) -> None:
        check_share("tail", self.tail)
        if not Fraction(self.tail) < Fraction(1, 2):
            raise ParameterError("tail", text(self.tail), "a number below one half")
        self._choice.exponent(Fraction(self.tail).denominator)

    @classmethod
    def for_error(cls, error: Number, confidence: Number, **fields: Any) -> Self:
        """The mechanism of least epsilon whose `interval` at this confidence is at most `error` rows; `fields`: all but
        epsilon, `relation` and `unit` among them where they are not add_remove and one row."""
        return cls(epsilon=least_epsilon(lambda one: cls(epsilon=one, **fields), error, confidence), **fields)

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """A leaf of the exponential mechanism for each bound."""
        return Repeated(ExponentialLaw(self._share), times=2)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the share of epsilon, the exponent of one row and the cap of distances in rows."""
        choice = self._choice
        values = {
            "epsilon": self.epsilon,
            "tail": self.tail,
            "missing": self.missing,
            "share": self._share,
            "exponent": choice.exponent(1),
            "cap": choice.cap(len(_ENDS)),
        }
        result: dict[str, Plain] = plain(values)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        return (
            f"NaN or any other non-number counts as {text(self.missing)}; text counts as the number that it says",
            "a number beyond 2^59, also infinity, counts as 2^59 with its sign",
            *capped_where_known(self.unit),
        )

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are rows of one entry each."""
        check_column(with_or_without_ids(data))

    def release(self, data: object, *, entropy: Entropy) -> Release[tuple[float, float]]:
        """Bounds of the rows of `data`."""
        self.inspect(data)
        columns = self._columns(counted(data, self.unit, entropy=entropy))
        return Release(value=self._drawn(columns, entropy), parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[np.float64]:
        """`size` independent releases of the same data: float64[size, 2]."""
        self.inspect(data)
        if isinstance(data, OfUnits):
            return one_by_one(self, data, size, entropy)
        columns = self._columns(data)
        return np.array([self._drawn(columns, entropy) for _ in range(size)]).reshape(size, 2)

    def interval(self, confidence: Number) -> float:
        """The most rows, above a share `tail`, that lie beyond one bound or the other, with at least this
        probability."""
        return self._choice.within(len(_ENDS), missed_by(confidence) / 2)

    def _drawn(self, columns: tuple[Ranked, Ranked], entropy: Entropy) -> tuple[float, float]:
        choice, whole = self._choice, Stretch(-1, len(_ENDS) - 1)
        cap, tail = choice.cap(len(_ENDS)), Fraction(self.tail)
        first, second = (
            choice.place(column, whole, 0, q, cap=cap, entropy=entropy)
            for column, q in zip(columns, (tail, 1 - tail), strict=True)
        )
        low = min(first, second, len(_ENDS) - 2)
        return float(_ENDS[low]), float(_ENDS[max(first, second, low + 1)])

    def _columns(self, data: object) -> tuple[Ranked, Ranked]:
        """The ends next below each row, and those next above; the last ones for what is beyond."""
        below, above = (np.zeros(len(_ENDS), dtype=np.int64) for _ in range(2))
        for rows in blocks(data, missing=float(self.missing)):
            places = np.searchsorted(_ENDS, rows, side="right") - 1, np.searchsorted(_ENDS, rows)
            for counts, found in zip((below, above), places, strict=True):
                counts += np.bincount(np.clip(found, 0, len(_ENDS) - 1), minlength=len(_ENDS))
        return Ranked.counted(below, 0), Ranked.counted(above, 0)

    @property
    def _share(self) -> Decimal:
        return share_of(self.epsilon, 2)

    @property
    def _choice(self) -> RankChoice:
        return RankChoice.of_column(self._share, Fraction(self.tail), self.relation, self.unit)
