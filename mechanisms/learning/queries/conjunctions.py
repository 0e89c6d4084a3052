"""Conjunctions, learned privately by the counts of the positive examples on which each literal is false.

    keep the literals whose count + noise is at most the threshold

A literal of the truth is false on no positive example; how many any other one may be false on unseen, the threshold
says. One release of all counts. Sources: Kearns 1998; Haghtalab 2020, CS6781, lecture 25, section 3. Proofs:
docs/proofs/learning_queries.md, section 4.

>>> from dpledger.mechanisms.entropy import seeded
>>> learner = PrivateConjunctionLearner(2, epsilon=4, alpha="0.1", beta="0.1").under(Relation.ADD_REMOVE, Unit())
>>> rows = LabeledSample([[1, 0], [1, 1], [0, 1], [0, 0]] * 100, [1, 0, 0, 0] * 100)
>>> found = learner.release(rows, entropy=seeded(1)).value
>>> str(found), found.predict([[1, 0], [1, 1]]).tolist()
('x0 and not x1', [1, 0])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal, assert_never

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.composition import Composition, DiscreteLaplaceLaw
from dpledger.accounting.guarantees import Failure, PureDP
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.domains import RowsOfBits
from dpledger.mechanisms.learning.row_learner import RowLearner, fits_within
from dpledger.mechanisms.learning.samples import LabeledSample, bits_of, labels_of
from dpledger.mechanisms.learning.theory.needed_units import SampleSize
from dpledger.mechanisms.learning.theory.query_sizes import MOST_LITERALS, conjunction_size, literal_threshold
from dpledger.mechanisms.noise import DiscreteLaplace, Sensitivity, draw
from dpledger.mechanisms.numeric.integers import geometric_scale
from dpledger.mechanisms.numeric.rows import check_rows, rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.number_fields import OpenProbability, Positive, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["Conjunction", "PrivateConjunctionLearner"]

_CELLS_AT_ONCE = 2**24
_MOVED = "a positive record is counted by one literal of each variable, and a unit has at most so many records"


@dataclass(frozen=True, slots=True)
class Conjunction:
    """1 where all of these variables are 1 and all of those are 0; of a variable that is both, the constant 0."""

    variables: int
    positive: tuple[int, ...]
    negative: tuple[int, ...]

    def __str__(self) -> str:
        said = [(at, f"x{at}") for at in self.positive] + [(at, f"not x{at}") for at in self.negative]
        return " and ".join(word for _, word in sorted(said)) or "1"

    def predict(self, x: object) -> npt.NDArray[np.uint8]:
        """Its label of each row of `x`; a row that is no row of bits counts as zeros."""
        check_rows(x)
        bits = bits_of(x, self.variables).bits
        ones, zeros = bits[:, list(self.positive)].all(axis=1), bits[:, list(self.negative)].any(axis=1)
        return np.asarray(ones & ~zeros, dtype=np.uint8)

    @property
    def params(self) -> Mapping[str, Plain]:
        """The variables that are 1 and those that are 0."""
        return {"positive": list(self.positive), "negative": list(self.negative)}

    @property
    def output_in_class(self) -> bool:
        """It is one of the class."""
        return True


@record
class PrivateConjunctionLearner(RowLearner):
    """Learn which of `variables` bits, or their negations, are all 1 on a positive example: epsilon-DP.

    `alpha`, `beta`: where some conjunction fits all examples, and there are as many as `plan` says, one is found that
    errs on at most alpha of them, but with probability beta; the threshold follows from beta. Without a positive
    example all literals are kept, which is the constant 0. The data are a LabeledSample whose rows are bits (or
    numbers, bit j of a number being bit j of a row); a row that is neither counts nowhere. `strict`: see `RowLearner`.

    The counts of all literals move together by `variables`, by twice that where a record is replaced: adding noise of
    1/epsilon to each, as if one moved alone, would be 2d epsilon-DP.
    The value is a hypothesis: its `predict(rows)` gives uint8[rows], 0 or 1.

    >>> learner = dpl.learning.PrivateConjunctionLearner(5, epsilon=1, alpha="0.1", beta="0.1")
    >>> learner = learner.under(dpl.Relation.REPLACE_ONE, dpl.Unit("record"))
    >>> learner.plan().needed
    13538
    """

    variables: Annotated[Whole, Field(strict=True, ge=1, le=MOST_LITERALS)]
    epsilon: Positive
    alpha: OpenProbability = given(default=Decimal("0.1"))
    beta: OpenProbability = given(default=Decimal("0.05"))
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["private_conjunction"] = tag(default="private_conjunction")

    def __post_init__(self) -> None:
        self.parts()
        _ = self.threshold

    @property
    def domain(self) -> RowsOfBits:
        """The rows that it learns from."""
        return RowsOfBits(self.variables)

    @property
    def sensitivity(self) -> int:
        """How far one unit moves the counts, in the l1 norm; where no relation is fixed yet, under the dearest."""
        match self.relation:
            case Relation.REPLACE_ONE | None:
                moved = 2 * self.variables
            case Relation.ADD_REMOVE | Relation.ZERO_OUT | Relation.LABEL_FLIP:
                moved = self.variables
            case _:
                assert_never(self.relation)
        return moved * rows_of(self.unit)

    @property
    def noise(self) -> DiscreteLaplace:
        """The law of the noise of each count."""
        return DiscreteLaplace(geometric_scale(self.sensitivity, self.epsilon))

    @property
    def threshold(self) -> int:
        """The largest noisy count of a literal that is kept."""
        return literal_threshold(self.variables, self.beta, scale=self.noise.scale)

    def claim(self) -> PureDP:
        """epsilon. Claim: the noisy counts are epsilon-DP, and what is kept is computed from them. Source:
        docs/proofs/learning_queries.md, section 4."""
        return PureDP(self.epsilon)

    def parts(self) -> Composition:
        """One discrete Laplace leaf, of all counts together."""
        return DiscreteLaplaceLaw(scale=self.noise.scale, sensitivity=self.sensitivity)

    def failures(self) -> tuple[Failure, ...]:
        """What is promised of the answer; the claim itself has no delta."""
        return (fits_within("the conjunction", self.alpha, self.beta, self.plan()),)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the scale and the threshold that are used, and the records that the promise needs."""
        values = {
            "variables": self.variables,
            "epsilon": self.epsilon,
            "alpha": self.alpha,
            "beta": self.beta,
            "strict": self.strict,
            "scale": self.noise.scale,
            "threshold": self.threshold,
            "needed": str(self.plan().needed),
            "sensitivity": self.sensitivity,
            "justification": _MOVED,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def plan(self) -> SampleSize:
        """How many records are enough for alpha and beta where a conjunction fits; before a relation is known, under
        the dearest."""
        return conjunction_size(self.variables, self.alpha, self.beta, scale=self.noise.scale)

    def release(self, data: LabeledSample, *, entropy: Entropy) -> Release[Conjunction]:
        """The conjunction of the literals that are kept."""
        kept = self._kept(self._counts(self._taken(data, entropy))[None], entropy)[0]
        positive, negative = (tuple(np.flatnonzero(half).tolist()) for half in np.split(kept, 2))
        return Release(value=self.value_of((positive, negative)), parts=self.parts())

    def plain_of(self, value: Conjunction) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The variables that are 1 and those that are 0."""
        return value.positive, value.negative

    def value_of(self, plain: tuple[tuple[int, ...], tuple[int, ...]]) -> Conjunction:
        """The conjunction of these literals, as `plain_of` says them."""
        return Conjunction(self.variables, *plain)

    def sampled_of(self, value: Conjunction) -> npt.NDArray[np.bool_]:
        """Which literals it keeps, as `sample` gives them."""
        literals = [*value.positive, *(self.variables + variable for variable in value.negative)]
        return np.isin(np.arange(2 * self.variables), literals)

    def _sampled(self, taken: LabeledSample, size: int, entropy: Entropy) -> npt.NDArray[np.bool_]:
        """Which literals they keep: the variables, then their negations."""
        return self._kept(np.tile(self._counts(taken), (size, 1)), entropy)

    def _counts(self, taken: LabeledSample) -> npt.NDArray[np.int64]:
        """On how many positive examples each literal is false: the variables, then their negations."""
        rows = bits_of(taken.x, self.variables)
        bits = rows.bits[rows.known & (labels_of(taken.y) == 1)]
        ones = np.zeros(self.variables, dtype=np.int64)
        step = max(1, _CELLS_AT_ONCE // self.variables)
        for start in range(0, len(bits), step):
            ones += bits[start : start + step].sum(axis=0, dtype=np.int64)
        return np.concatenate([len(bits) - ones, ones])

    def _kept(self, counts: npt.NDArray[np.int64], entropy: Entropy) -> npt.NDArray[np.bool_]:
        moved = Sensitivity(self.sensitivity, "l1", _MOVED)
        noisy = draw(self.noise, counts, sensitivity=moved, entropy=entropy)
        return np.asarray(noisy <= self.threshold, dtype=np.bool_)
