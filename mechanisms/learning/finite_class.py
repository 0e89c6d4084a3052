"""The exponential mechanism over a class of concepts: the private learner of every finite class.

A concept is drawn with probability proportional to e^(-exponent k), k its errors on the sample. Thresholds and points
over 2^64 points cost what the sample costs; parities a Walsh-Hadamard transform.

>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.mechanisms.learning.samples import LabeledSample
>>> from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
>>> learner = ExponentialPPACLearner(ThresholdClass(1023), epsilon=1)
>>> learner.plan("0.1", "0.05").needed
248
>>> found = learner.release(LabeledSample([300] * 200 + [301] * 200, [1] * 200 + [0] * 200), entropy=seeded(1))
>>> found.value.params
{'place': '301'}
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.guarantees import BoundedRange
from dpledger.decimals import Number, round_up
from dpledger.errors import ParameterError, RelationError
from dpledger.mechanisms.learning.choosing import ChoosesByRows
from dpledger.mechanisms.learning.domains import Domain
from dpledger.mechanisms.learning.error_counts import MOST_PARITY_BITS, ErrorCounts
from dpledger.mechanisms.learning.hypotheses import Concept
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.theory.concepts import OneClass, ParityClass
from dpledger.mechanisms.learning.theory.needed_units import SampleSize, natural_log
from dpledger.mechanisms.learning.theory.sizes import agnostic_plan, private_occam
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.selection.choice import Choice
from dpledger.number_fields import Positive
from dpledger.relations import Relation, Unit, one_way
from dpledger.schema import Plain, flag, given, plain, record, tag

__all__ = ["ExponentialPPACLearner"]

_MOVED = "one record changes the errors of each concept by at most one, and a unit has at most so many"


@record
class ExponentialPPACLearner(ChoosesByRows[Concept]):
    """Learn a concept of a class, realizable or agnostic. McSherry-Talwar 2007; Kasiviswanathan et al. 2011.

    `concept_class` exists before the data: candidates that come from the sample have no finite epsilon. The exponent is
    epsilon/2 an error. Under add_remove and zero_out errors move in one direction, so that this is epsilon/2-DP; with
    `monotone` the exponent is epsilon there, and the other relations are refused. Under label_flip the points are
    public, and the guarantee is that of replace_one. `strict`: see `RowLearner`.

    Of the published sample sizes: max(1/eps^2, 1/(alpha eps)) needs no 1/eps^2 where the sample is realizable, and has
    1/alpha^2 in its place where it is not (Nissim 2017, "Private Learning", slide on generic learners).
    The value is a hypothesis: its `predict(rows)` gives uint8[rows], 0 or 1.

    >>> learner = dpl.learning.ExponentialPPACLearner(dpl.learning.ThresholdClass(1023), epsilon=1)
    >>> learner.plan("0.1", "0.05").needed
    248
    """

    concept_class: OneClass
    epsilon: Positive
    monotone: Annotated[bool, Field(strict=True)] = given(default=False)
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["exponential_ppac_learner"] = tag(default="exponential_ppac_learner")

    def __post_init__(self) -> None:
        if isinstance(self.concept_class, ParityClass) and self.concept_class.dimension > MOST_PARITY_BITS:
            expected = f"parities of at most {MOST_PARITY_BITS} bits: every one of them is weighed"
            raise ParameterError("concept_class", f"{self.concept_class.dimension} bits", expected)
        if self.monotone and self.relation is not None and not one_way(self.relation):
            raise RelationError(
                f"monotone: under {self.relation.value} the errors of two concepts move in opposite directions, and "
                "epsilon would be twice the claim"
            )
        _ = self.choice

    @property
    def domain(self) -> Domain:
        """The rows that it learns from."""
        return self.concept_class.domain

    @property
    def choice(self) -> Choice:
        """By the errors on the sample."""
        return Choice.weighing(self.epsilon, moved=rows_of(self.unit), why=_MOVED, monotone=self.monotone)

    def claim(self) -> BoundedRange:
        """A range of epsilon; of epsilon/2 under add_remove or zero_out without `monotone`; of 0 for a single concept.

        Claim: the losses of any two neighbours lie within it. Source: docs/proofs/learning_pac.md, "Privacy"."""
        if self.concept_class.size == 1:
            return BoundedRange(0)
        if one_way(self.relation) and not self.monotone:
            return BoundedRange(round_up(Fraction(self.epsilon) / 2))
        return BoundedRange(self.epsilon)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the exponent as it is used; a matrix by its SHA-256."""
        size = outward.above(natural_log(self.concept_class.size))
        result: dict[str, Plain] = plain(
            {
                "concept_class": {**self.concept_class.described(), "ln_size": size},
                "epsilon": self.epsilon,
                "monotone": self.monotone,
                "strict": self.strict,
                **self.choice.said(),
            }
        )
        return result

    def value_of(self, plain: int) -> Concept:
        """The concept at a place, as `plain_of` says it."""
        return Concept(self.concept_class, plain)

    def plan(self, alpha: Number, beta: Number, *, agnostic: bool = False) -> SampleSize:
        """How many records are enough for an error of at most alpha (`agnostic`: above the best of the class), but with
        probability beta. The least of the bounds that hold, by its name."""
        if flag(agnostic, field="agnostic"):
            return agnostic_plan(self.concept_class, self.exponent, alpha, beta)
        return private_occam(self.concept_class.size, self.exponent, alpha, beta)

    @property
    def _many(self) -> int:
        return self.concept_class.size

    def _costs(self, taken: LabeledSample) -> ErrorCounts:
        return self.concept_class.errors(taken)
