"""Randomised response: everyone's answer is kept, or another is put in its place, by a coin of their own.

>>> from dpledger.mechanisms.entropy import seeded
>>> asked = RandomizedResponse(answers=("no", "yes"), epsilon=20)
>>> asked.release(["yes", "no", "perhaps"], entropy=seeded(1)).value
('yes', 'no', 'no')
>>> heard = ["yes"] * 60 + ["no"] * 40
>>> [round(count, 2) for count in RandomizedResponse(answers=("no", "yes"), epsilon=1).estimate(heard)]
[28.36, 71.64]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.composition import Composition, RandomizedResponseLaw, Repeated
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import multiply
from dpledger.errors import ParameterError, RelationError
from dpledger.mechanisms import noise
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import respond
from dpledger.mechanisms.numeric.one_shot import OneShot, ShortText
from dpledger.mechanisms.numeric.rows import check_column, rows_of, word, word_positions
from dpledger.mechanisms.protocol import Release
from dpledger.number_fields import Positive
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, listed, plain, record, tag

__all__ = ["RandomizedResponse"]


@record
class RandomizedResponse(OneShot):
    """Publish everyone's answer, each with odds of e^epsilon to 1 against each of the others, independently.

    Data are rows of one entry, compared with `answers` as words, where 1, 1.0 and True are "1" (`rows.word`); what is
    none of them counts as `missing` (default: the first). It publishes as many answers as there are rows, so their
    number is public: it has no guarantee under add_remove, nor where a unit of many rows is exchanged for one that may
    have fewer. A unit of many rows whose labels are flipped is charged for each of them.
    Claim: (rows of a unit times epsilon)-DP, attained. Source: Warner 1965; Kairouz-Bonawitz-Ramage 2016.
    The value is a tuple with one of `answers` for each row; an `estimate` of a count may be negative.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> asked = dpl.RandomizedResponse(answers=("no", "yes"), epsilon=2)
    >>> asked.release(["yes", "yes", "no", "yes"], entropy=seeded(1)).value
    ('no', 'yes', 'no', 'yes')
    """

    answers: tuple[ShortText, ...]
    epsilon: Positive
    missing: ShortText | None = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["randomized_response"] = tag(default="randomized_response")

    def __post_init__(self) -> None:
        words = list(map(word, self.answers))
        if len(words) < 2 or len(set(words)) < len(words):
            expected = "at least two words, each once (1, 1.0 and True are the same word)"
            raise ParameterError("answers", str(list(self.answers)), expected)
        if self.missing is not None and word(self.missing) not in words:
            raise ParameterError("missing", self.missing, "one of the answers")
        _require_public_rows(self.relation, self.unit)
        self.claim()

    def under(self, relation: Relation, unit: Unit) -> Self:
        """As `OneShot.under`; RelationError where neighbours may differ in how many rows they have."""
        _require_public_rows(relation, unit)
        return OneShot.under(self, relation, unit)

    @property
    def law(self) -> noise.RandomizedAnswer:
        """How each answer is drawn, by its place among `answers`."""
        return noise.RandomizedAnswer(self.epsilon, k=len(self.answers))

    def claim(self) -> PureDP:
        """epsilon, for each row that a unit may have."""
        return PureDP(multiply(self.epsilon, rows_of(self.unit)))

    def parts(self) -> Composition:
        """A leaf of randomised response, as often as a unit may have rows."""
        leaf, rows = RandomizedResponseLaw(self.epsilon, k=len(self.answers)), rows_of(self.unit)
        return leaf if rows == 1 else Repeated(leaf, times=rows)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with what counts as missing."""
        values = {"answers": self.answers, "epsilon": self.epsilon, "missing": self.answers[self._absent]}
        result: dict[str, Plain] = plain(values)
        return result

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        return (f"a row that is none of the answers, also a missing one, counts as {self.answers[self._absent]}",)

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are rows of one entry each."""
        check_column(data)

    def release(self, data: object, *, entropy: Entropy) -> Release[tuple[str, ...]]:
        """An answer for each row."""
        self.inspect(data)
        found = respond(self.law, self._places(data), entropy=entropy)
        return Release(value=tuple(self.answers[place] for place in found.tolist()), parts=self.parts())

    def sample(self, data: object, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """`size` independent releases of the same data: the places of the answers, int64[size, rows]."""
        self.inspect(data)
        return respond(self.law, np.tile(self._places(data), (size, 1)), entropy=entropy)

    def sampled_of(self, value: Sequence[str]) -> npt.NDArray[np.int64]:
        """The places of the answers, as `sample` gives them."""
        return np.array([self.answers.index(answer) for answer in value], dtype=np.int64)

    def estimate(self, published: Sequence[str]) -> tuple[float, ...]:
        """How many rows had each answer, without bias, from what was published: no more is spent. May be negative.

        Source: Kairouz-Bonawitz-Ramage 2016, section 4."""
        places = {answer: place for place, answer in enumerate(self.answers)}
        heard = listed(published, field="published")
        if not all(type(answer) is str and answer in places for answer in heard):
            raise ParameterError("published", "another word", "a list of answers that it published")
        counted = np.bincount([places[answer] for answer in heard], minlength=len(places))
        rarer = scalars.exp(-float(self.epsilon))
        kept = 1 / (1 + (len(places) - 1) * rarer)
        each = len(heard) * kept * rarer
        return tuple(float(count - each) / (kept * -scalars.expm1(-float(self.epsilon))) for count in counted)

    @property
    def _absent(self) -> int:
        return 0 if self.missing is None else list(map(word, self.answers)).index(word(self.missing))

    def _places(self, data: object) -> npt.NDArray[np.int64]:
        places = word_positions(data, self.answers).astype(np.int64)
        places[places == len(self.answers)] = self._absent
        return places


def _require_public_rows(relation: Relation | None, unit: Unit | None) -> None:
    exchanged = relation in (Relation.REPLACE_ONE, Relation.ZERO_OUT) and rows_of(unit) > 1
    if relation is Relation.ADD_REMOVE or exchanged:
        whom = f", of units that may have {rows_of(unit)} rows," if exchanged else ""
        raise RelationError(
            f"randomised response publishes one answer a row, and under {relation}{whom} neighbours differ in their "
            "number: there is no bound"
        )
