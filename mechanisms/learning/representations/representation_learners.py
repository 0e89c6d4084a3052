"""Learners that choose among the few hypotheses of a representation, and not in the class itself.

>>> from dpledger.mechanisms.entropy import seeded
>>> hashed = HashedPointRepresentation(dimension=20, bits=12, a="0.0125", seed=7)
>>> learner = RealizableRepresentationLearner(representation=hashed, epsilon=1).under(Relation.REPLACE_ONE, Unit())
>>> learner.plan("0.1", "0.05").needed
385
>>> found = learner.release(LabeledSample([5] * 200 + [6] * 200, [1] * 200 + [0] * 200), entropy=seeded(1)).value
>>> found.predict([5, 6]).tolist(), found.output_in_class
([1, 0], False)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, assert_never

from pydantic import Field

from dpledger.accounting.guarantees import BoundedRange
from dpledger.decimals import Number
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.learning.choosing import ChoosesByRows, Costs
from dpledger.mechanisms.learning.domains import Domain
from dpledger.mechanisms.learning.hypotheses import Placed
from dpledger.mechanisms.learning.representations.boosted import BoostedRepresentation
from dpledger.mechanisms.learning.representations.kinds import (
    OneRepresentation,
    Representation,
    check_listed,
    held,
    hypothesis_at,
    rows_of_representation,
    told,
)
from dpledger.mechanisms.learning.representations.representations import (
    HashedPointRepresentation,
    TrivialRepresentation,
)
from dpledger.mechanisms.learning.representations.scores import (
    boosted_errors,
    boosted_scores,
    hashed_errors,
    hashed_scores,
    surrogate_scores,
)
from dpledger.mechanisms.learning.representations.sizes import realizable_size, surrogate_size
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, NumberedClass, PointClass
from dpledger.mechanisms.learning.theory.needed_units import SampleSize
from dpledger.mechanisms.learning.theory.sizes import agnostic_plan, private_occam
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.selection.choice import Choice
from dpledger.number_fields import Positive
from dpledger.relations import Relation, Unit, one_way
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["RealizableRepresentationLearner", "SurrogateAgnosticLearner"]


class _ByScores(ChoosesByRows[Placed]):
    """Base of records with the fields `representation` and `epsilon`: draws a hypothesis by its score, the lower the
    likelier. `_why` says how far one row moves a score."""

    __slots__ = ()

    _why: ClassVar[str]
    representation: Representation
    epsilon: Positive

    @property
    def choice(self) -> Choice:
        """By the scores. Where they move in one direction only (add_remove, zero_out) the exponent is twice as much."""
        return Choice.weighing(self.epsilon, moved=self._moved, why=self._why, monotone=one_way(self.relation))

    def claim(self) -> BoundedRange:
        """A range of epsilon.

        Claim: the losses of any two neighbours lie within it. Source: docs/proofs/learning_pac.md, "Privacy"."""
        return BoundedRange(self.epsilon)

    @property
    def domain(self) -> Domain:
        """The rows that it learns from."""
        return rows_of_representation(self.representation)

    def value_of(self, plain: int) -> Placed:
        """The hypothesis at a place, as `plain_of` says it."""
        return hypothesis_at(self.representation, plain, self._concepts)

    @property
    def _many(self) -> int:
        return self.representation.size

    @property
    def _concepts(self) -> FiniteClass | None:
        """The class to be learned, where it is known and a matrix."""
        return None

    @property
    @abstractmethod
    def _moved(self) -> int:
        """How far one unit moves a score."""

    def _parameters(self, **more: object) -> Mapping[str, Plain]:
        values = {
            "representation": told(self.representation),
            "epsilon": self.epsilon,
            **self.choice.said(),
            "strict": self.strict,
            **more,
        }
        result: dict[str, Plain] = plain(values)
        return result


@record
class RealizableRepresentationLearner(_ByScores):
    """Learn from examples that some concept fits: a hypothesis by its errors. Beimel-Nissim-Stemmer 2019.

    `representation`: of the class, fixed before the data. `epsilon`: of any relation; the weights follow. `strict`:
    see `RowLearner`.
    The value is a hypothesis: its `predict(rows)` gives uint8[rows], 0 or 1.

    >>> hashed = dpl.learning.HashedPointRepresentation(dimension=20, bits=12, a="0.0125", seed=7)
    >>> learner = dpl.learning.RealizableRepresentationLearner(representation=hashed, epsilon=1)
    >>> learner.under(dpl.Relation.REPLACE_ONE, dpl.Unit("record")).plan("0.1", "0.05").needed
    385
    """

    _why: ClassVar[str] = "one record changes the errors of each hypothesis by at most one"
    representation: OneRepresentation
    epsilon: Positive
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["realizable_representation_learner"] = tag(default="realizable_representation_learner")

    def __post_init__(self) -> None:
        check_listed(self.representation)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the exponent as it is used."""
        return self._parameters()

    def plan(self, alpha: Number, beta: Number) -> SampleSize:
        """How many records are enough for an error of at most alpha, but with probability beta, if the representation
        has been drawn by chance.
        InfeasiblePlan where it is too coarse."""
        match self.representation:
            case TrivialRepresentation(concept_class=concepts):
                return private_occam(concepts.size, self.exponent, alpha, beta)
            case HashedPointRepresentation() | BoostedRepresentation():
                return realizable_size(self.representation, self.exponent, alpha, beta)
            case FiniteClass():
                raise ParameterError("representation", "a matrix", "one with a and b, which say how near it is")
            case _:
                assert_never(self.representation)

    def _costs(self, taken: LabeledSample) -> Costs:
        match self.representation:
            case HashedPointRepresentation():
                return hashed_errors(self.representation, taken)
            case BoostedRepresentation():
                return boosted_errors(self.representation, taken)
            case TrivialRepresentation(concept_class=concepts):
                return concepts.errors(taken)
            case FiniteClass():
                return self.representation.errors(taken).errors
            case _:
                assert_never(self.representation)

    @property
    def _moved(self) -> int:
        return rows_of(self.unit)


@record
class SurrogateAgnosticLearner(_ByScores):
    """Learn from any examples: a hypothesis by how well some concept near it does. Li-Wang-Ye 2024, theorem 3.4.

    `concept_class`: what the hypothesis shall come near to; `representation`: hypotheses for it, fixed before the data.
    `strict`: see `RowLearner`.
    Of published statements: the score there is divided by the number of records and the neighbours add or remove one;
    as counts, here, that is sound. A concept that must fit the sample would move scores without bound.
    The value is a hypothesis: its `predict(rows)` gives uint8[rows], 0 or 1.

    >>> concepts = dpl.learning.ThresholdClass(8)
    >>> itself = dpl.learning.TrivialRepresentation(concepts)
    >>> learner = dpl.learning.SurrogateAgnosticLearner(concept_class=concepts, representation=itself, epsilon=1)
    >>> learner.under(dpl.Relation.REPLACE_ONE, dpl.Unit("record")).plan("0.1", "0.05").needed
    1039
    """

    _why: ClassVar[str] = (
        "one record changes each sum of errors and differences by at most two; by one where its label alone changes, "
        "or where every hypothesis is a concept, so that the sum is of errors"
    )
    concept_class: NumberedClass
    representation: OneRepresentation
    epsilon: Positive
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["surrogate_agnostic_learner"] = tag(default="surrogate_agnostic_learner")

    def __post_init__(self) -> None:
        check_listed(self.representation)
        match self.concept_class, self.representation:
            case (
                PointClass(points=points),
                HashedPointRepresentation(dimension=dimension) | BoostedRepresentation(dimension=dimension),
            ) if points == 1 << dimension:
                return
            case FiniteClass(points=points), FiniteClass(points=others) if points == others:
                return
            case concepts, TrivialRepresentation(concept_class=itself) if concepts == itself:
                return
            case _:
                raise ParameterError(
                    "representation",
                    type(self.representation).__name__,
                    "hashed points for a class of as many points, a matrix on the points of a matrix, or the class",
                )

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the exponent as it is used."""
        return self._parameters(concept_class=self.concept_class.described())

    def plan(self, alpha: Number, beta: Number) -> SampleSize:
        """How many records are enough for an error of at most alpha above the best of the class, but with probability
        beta, if the representation has been drawn by chance. InfeasiblePlan where it is too coarse."""
        match self.representation:
            case HashedPointRepresentation() | BoostedRepresentation():
                return surrogate_size(self.concept_class, self.representation, self.exponent, alpha, beta)
            case TrivialRepresentation():
                return agnostic_plan(self.concept_class, self.exponent, alpha, beta)
            case FiniteClass():
                assert isinstance(self.concept_class, FiniteClass), "refused when it was made"
                if not held(self.concept_class, self.representation):
                    raise InfeasiblePlan("some concept is not among the hypotheses, and on some points none is near it")
                if self._proper:
                    return agnostic_plan(self.concept_class, self.exponent, alpha, beta)
                itself = TrivialRepresentation(self.representation)
                return surrogate_size(self.concept_class, itself, self.exponent, alpha, beta)
            case _:
                assert_never(self.representation)

    def _costs(self, taken: LabeledSample) -> Costs:
        match self.representation:
            case HashedPointRepresentation():
                return hashed_scores(self.representation, taken)
            case BoostedRepresentation():
                return boosted_scores(self.representation, taken)
            case TrivialRepresentation():
                return self.concept_class.errors(taken)
            case FiniteClass():
                assert isinstance(self.concept_class, FiniteClass), "refused when it was made"
                return surrogate_scores(self.concept_class, self.representation, taken)
            case _:
                assert_never(self.representation)

    @property
    def _proper(self) -> bool:
        """Whether every hypothesis is a concept: then the score is the number of its errors."""
        match self.representation, self.concept_class:
            case TrivialRepresentation(), _:
                return True
            case FiniteClass(), FiniteClass():
                return held(self.representation, self.concept_class)
            case _:
                return False

    @property
    def _concepts(self) -> FiniteClass | None:
        return self.concept_class if isinstance(self.concept_class, FiniteClass) else None

    @property
    def _moved(self) -> int:
        once = self._proper or self.relation is Relation.LABEL_FLIP
        return (1 if once else 2) * rows_of(self.unit)
