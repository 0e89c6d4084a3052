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
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import BoundedRange
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.domains import NumberedPoints
from dpledger.mechanisms.learning.error_counts import error_counts
from dpledger.mechanisms.learning.hypotheses import Hypothesis
from dpledger.mechanisms.learning.represented.representations import HashedPoint, HashedPointRepresentation, Represented
from dpledger.mechanisms.learning.represented.scores import hashed_scores, surrogate_scores
from dpledger.mechanisms.learning.represented.sizes import realizable_size, surrogate_size
from dpledger.mechanisms.learning.row_learner import RowLearner
from dpledger.mechanisms.learning.samples import LabeledSample, labels_of
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, PointClass, described
from dpledger.mechanisms.learning.theory.planning import SampleSize
from dpledger.mechanisms.noise import ExponentialWeights, Sensitivity, choose, exponent_for
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.number_fields import Positive
from dpledger.relations import Relation, Unit, one_way
from dpledger.schema import Plain, given, plain, record, tag

__all__ = [
    "RealizableRepresentationLearner",
    "Representation",
    "SurrogateAgnosticLearner",
    "hypothesis_at",
    "require_fit",
    "told",
]

Representation: TypeAlias = HashedPointRepresentation | FiniteClass
"""Hypotheses that are there before the data: drawn for a class, or any at all, as the rows of a matrix."""

Scores: TypeAlias = npt.NDArray[np.int64]


class _ByScores(RowLearner):
    """Base of records with the fields `representation` and `epsilon`: draws a hypothesis with probability proportional
    to e^(-exponent score). `_why` says how far one row moves a score."""

    __slots__ = ()

    _why: ClassVar[str]
    representation: Representation
    epsilon: Positive

    @property
    def exponent(self) -> Decimal:
        """How much less likely, as a logarithm, one more step of score makes a hypothesis. Where the scores move in one
        direction only (add_remove, zero_out) twice as much."""
        return exponent_for(self.epsilon, sensitivity=self._moved, monotone=one_way(self.relation))

    def claim(self) -> BoundedRange:
        """A range of epsilon.

        Claim: the losses of any two neighbours lie within it. Source: docs/proofs/learning_pac.md, "Privacy"."""
        return BoundedRange(self.epsilon)

    def parts(self) -> Composition:
        """The one choice. The representation is drawn without the data, and is no part."""
        return self.claim()

    @property
    def domain(self) -> NumberedPoints:
        """The rows that it learns from."""
        match self.representation:
            case HashedPointRepresentation(dimension=dimension):
                return NumberedPoints(1 << dimension)
            case FiniteClass(points=points):
                return NumberedPoints(points)
            case _:
                assert_never(self.representation)

    def release(self, data: LabeledSample, *, entropy: Entropy) -> Release[Hypothesis]:
        """One hypothesis of the representation."""
        place = self._drawn(self._scores(self._taken(data)), entropy)
        return Release(value=self._hypothesis(place), parts=self.parts())

    def sample(self, data: LabeledSample, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """The places of the hypotheses of so many independent releases."""
        scores = self._scores(self._taken(data))
        return np.array([self._drawn(scores, entropy) for _ in range(size)], dtype=np.int64)

    def _drawn(self, scores: Scores, entropy: Entropy) -> int:
        moved = Sensitivity(self._moved, "linf", self._why)
        return choose(ExponentialWeights(self.exponent), -scores, sensitivity=moved, entropy=entropy)

    def _hypothesis(self, place: int) -> Hypothesis:
        return hypothesis_at(self.representation, place, self._concepts)

    @property
    def _concepts(self) -> FiniteClass | None:
        """The class to be learned, where it is known and a matrix."""
        return None

    @abstractmethod
    def _scores(self, data: LabeledSample) -> Scores:
        """How bad each hypothesis is on the data."""

    @property
    @abstractmethod
    def _moved(self) -> int:
        """How far one unit moves a score."""

    def _parameters(self, **more: object) -> Mapping[str, Plain]:
        values = {
            "representation": told(self.representation),
            "epsilon": self.epsilon,
            "exponent": self.exponent,
            "sensitivity": self._moved,
            "justification": self._why,
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
    """

    _why: ClassVar[str] = "one record changes the errors of each hypothesis by at most one"
    representation: Representation
    epsilon: Positive
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["realizable_representation_learner"] = tag(default="realizable_representation_learner")

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the exponent as it is used."""
        return self._parameters()

    def plan(self, alpha: Number, beta: Number) -> SampleSize:
        """How many records are enough for an error of at most alpha, but with probability beta, if the representation
        has been drawn by chance.
        InfeasiblePlan where it is too coarse."""
        if not isinstance(self.representation, HashedPointRepresentation):
            raise ParameterError("representation", "a matrix", "one with a and b, which say how near it is")
        return realizable_size(self.representation, self.exponent, alpha, beta)

    def _scores(self, data: LabeledSample) -> Scores:
        match self.representation:
            case HashedPointRepresentation():
                cells = self.representation.cells(data.x)
                known = cells >= 0
                ones = labels_of(data.y)[known] == 1
                right = np.bincount(cells[known][ones], minlength=self.representation.size)
                wrong = np.bincount(cells[known][~ones], minlength=self.representation.size)
                return (int(ones.sum()) - right + wrong).astype(np.int64)
            case FiniteClass():
                return error_counts(self.representation, data).errors
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
    """

    _why: ClassVar[str] = "one record changes each sum of errors and differences by at most two; its label by one"
    concept_class: PointClass | FiniteClass
    representation: Representation
    epsilon: Positive
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["surrogate_agnostic_learner"] = tag(default="surrogate_agnostic_learner")

    def __post_init__(self) -> None:
        require_fit(self.concept_class, self.representation)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the exponent as it is used."""
        return self._parameters(concept_class=described(self.concept_class))

    def plan(self, alpha: Number, beta: Number) -> SampleSize:
        """How many records are enough for an error of at most alpha above the best of the class, but with probability
        beta, if the representation has been drawn by chance. InfeasiblePlan where it is too coarse."""
        match self.concept_class, self.representation:
            case PointClass(), HashedPointRepresentation():
                return surrogate_size(self.concept_class, self.representation, self.exponent, alpha, beta)
            case _:
                raise ParameterError("representation", "a matrix", "one with a and b, which say how near it is")

    def _scores(self, data: LabeledSample) -> Scores:
        match self.concept_class, self.representation:
            case PointClass(), HashedPointRepresentation():
                return hashed_scores(self.representation, data)
            case FiniteClass(), FiniteClass():
                return surrogate_scores(self.concept_class, self.representation, data)
            case _:
                raise AssertionError("refused when it was made")

    @property
    def _concepts(self) -> FiniteClass | None:
        return self.concept_class if isinstance(self.concept_class, FiniteClass) else None

    @property
    def _moved(self) -> int:
        return (1 if self.relation is Relation.LABEL_FLIP else 2) * rows_of(self.unit)


def require_fit(concepts: object, representation: Representation) -> None:
    """ParameterError unless the representation is one of hypotheses on the points of the class, in the same form."""
    match concepts, representation:
        case PointClass(points=points), HashedPointRepresentation(dimension=dimension) if points == 1 << dimension:
            return
        case FiniteClass(points=points), FiniteClass(points=others) if points == others:
            return
        case _:
            raise ParameterError(
                "representation",
                type(representation).__name__,
                "hashed points for a class of as many points, or a matrix on the points of a matrix",
            )


def hypothesis_at(representation: Representation, place: int, concepts: FiniteClass | None) -> Hypothesis:
    """The hypothesis at that place. `concepts`: the class to be learned, where it is known and a matrix."""
    match representation:
        case HashedPointRepresentation():
            return HashedPoint(representation, place)
        case FiniteClass():
            row = representation.matrix[place]
            known = concepts is not None and bool((concepts.matrix == row).all(axis=1).any())
            return Represented(representation, place, known)
        case _:
            assert_never(representation)


def told(representation: Representation) -> Mapping[str, Plain]:
    """The representation as the record keeps it."""
    match representation:
        case HashedPointRepresentation():
            return representation.parameters()
        case FiniteClass():
            return described(representation)
        case _:
            assert_never(representation)
