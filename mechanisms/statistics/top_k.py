"""The most frequent of public categories, in order.

>>> from dpledger.mechanisms.entropy import seeded
>>> common = TopK(epsilon=2, k=2, categories=("flu", "cold", "measles"))
>>> common.release(["cold"] * 90 + ["flu"] * 40 + ["measles"], entropy=seeded(1)).value
('cold', 'flu')
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.composition import Composition, ExponentialLaw, Repeated
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.integers import share_of
from dpledger.mechanisms.numeric.one_shot import OneShot, ShortText, least_epsilon, one_by_one
from dpledger.mechanisms.numeric.rows import (
    OfUnits,
    capped_where_known,
    check_column,
    counted,
    rows_of,
    with_or_without_ids,
    word,
    word_positions,
)
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.selection.choice import Choice
from dpledger.mechanisms.statistics.ranks import missed_by
from dpledger.number_fields import Positive, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["TopK"]

_SLACK = 1 + 2.0**-30  # for rounding, that of the exponent too


@record
class TopK(OneShot):
    """The `k` most frequent of `categories`, the most frequent first, without their counts.

    Each is chosen by exponential weights among those that are left, at an equal share of epsilon: the order of the
    counts with Gumbel noise. Rows are compared with the categories as words, where 1, 1.0 and True are "1"
    (`rows.word`); rows that are none of them are ignored. A tie is broken by chance.
    Claim: epsilon-DP; a bounded range of epsilon / k, k times. Source: Durfee-Rogers 2019; docs/proofs/statistics.md,
    section 4. The value is a tuple of k categories.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> common = dpl.TopK(epsilon=1, k=2, categories=("north", "south", "west"))
    >>> common.release(["south"] * 90 + ["west"] * 40, entropy=seeded(1)).value
    ('south', 'west')
    """

    epsilon: Positive
    k: Annotated[Whole, Field(strict=True, ge=1, le=2**20)]
    categories: tuple[ShortText, ...]
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["top_k"] = tag(default="top_k")

    def __post_init__(self) -> None:
        words = list(map(word, self.categories))
        if not words or len(set(words)) < len(words):
            expected = "at least one word, each once (1, 1.0 and True are the same word)"
            raise ParameterError("categories", str(list(self.categories)), expected)
        if self.k > len(self.categories):
            raise ParameterError("k", self.k, f"at most as many as there are categories, {len(self.categories)}")
        self._choice  # noqa: B018  # ParameterError where nothing is left of epsilon

    @classmethod
    def for_error(cls, error: Number, confidence: Number, **fields: Any) -> Self:
        """The mechanism of least epsilon whose `interval` at this confidence is at most `error` rows; `fields`: all but
        epsilon, `relation` and `unit` among them where they are not add_remove and one row."""
        return cls(epsilon=least_epsilon(lambda one: cls(epsilon=one, **fields), error, confidence), **fields)

    def claim(self) -> PureDP:
        """epsilon."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """A leaf of the exponential mechanism for each that is chosen."""
        leaf = ExponentialLaw(self._share)
        return leaf if self.k == 1 else Repeated(leaf, times=self.k)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the share of epsilon and the exponent of one choice."""
        values = {
            "epsilon": self.epsilon,
            "k": self.k,
            "categories": self.categories,
            "share": self._share,
            "exponent": self._choice.exponent,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        ignored = 'a row in none of the categories is ignored; NaN and a missing one are the word "nan"'
        return (ignored, *capped_where_known(self.unit))

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are rows of one entry each."""
        check_column(with_or_without_ids(data))

    def release(self, data: object, *, entropy: Entropy) -> Release[tuple[str, ...]]:
        """The categories that most rows have."""
        self.inspect(data)
        places = self._drawn(self._counts(counted(data, self.unit, entropy=entropy)), entropy)
        return Release(value=tuple(self.categories[place] for place in places), parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[np.int64]:
        """`size` independent releases of the same data: the places of the categories, int64[size, k]."""
        self.inspect(data)
        if isinstance(data, OfUnits):
            return one_by_one(self, data, size, entropy)
        counts = self._counts(data)
        return np.array([self._drawn(counts, entropy) for _ in range(size)], dtype=np.int64)

    def sampled_of(self, value: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """The places of the categories, as `sample` gives them."""
        return np.array([self.categories.index(name) for name in value], dtype=np.int64)

    def interval(self, confidence: Number) -> float:
        """The most rows by which a category outside of the value may exceed one in it, and a later one an earlier one,
        with at least this probability."""
        each = scalars.log(len(self.categories) * self.k / missed_by(confidence))
        return each / float(self._choice.exponent) * _SLACK

    def _drawn(self, counts: npt.NDArray[np.int64], entropy: Entropy) -> list[int]:
        left, choice, found = np.arange(len(counts)), self._choice, []
        for _ in range(self.k):
            place = choice.one(counts[left], entropy=entropy)
            found.append(int(left[place]))
            left = np.delete(left, place)
        return found

    def _counts(self, data: object) -> npt.NDArray[np.int64]:
        many = len(self.categories)
        return np.bincount(word_positions(data, self.categories), minlength=many + 1)[:many].astype(np.int64)

    @property
    def _share(self) -> Decimal:
        return share_of(self.epsilon, self.k)

    @property
    def _choice(self) -> Choice:
        """Claim: a bounded range of the share. Source: docs/proofs/statistics.md, section 4."""
        rows = rows_of(self.unit)
        if self.relation in (None, Relation.ADD_REMOVE):
            why = "a unit adds at most its rows to each count, and takes none away"
            return Choice.weighing(self._share, moved=rows, why=why, monotone=True)
        return Choice.weighing(self._share, moved=rows, why="a unit moves its rows from some counts to others")
