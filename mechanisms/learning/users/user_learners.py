"""Learners of users with many examples: a concept by how many users it fails often.

First the least error of the class is estimated; then a hypothesis is drawn by how many users it fails more often than
that error lets expect.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
>>> learner = UserLevelProperLearner.planned(ThresholdClass(1023), 100, "0.1", "0.1", epsilon=1)
>>> learner.resolution, learner.margin
(Decimal('0.035'), Decimal('0.03'))
>>> placed = learner.under(Relation.REPLACE_ONE, Unit("user", max_contributions=100))
>>> placed.plan("0.1").needed
1099
>>> x = np.random.default_rng(1).integers(0, 1023, (1099, 100))
>>> found = placed.release(UserSample(x, x < 300), entropy=seeded(1)).value
>>> found.predict([200, 400]).tolist(), found.estimate.low
([1, 0], Decimal('0'))
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.composition import Composition, Sequence
from dpledger.accounting.guarantees import BoundedRange, PureDP
from dpledger.decimals import Number, add, round_down
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.choosing import Costs, cheap
from dpledger.mechanisms.learning.domains import NumberedPoints
from dpledger.mechanisms.learning.hypotheses import Concept, Placed
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.concepts import OneClass, class_from
from dpledger.mechanisms.learning.theory.needed_units import SampleSize
from dpledger.mechanisms.learning.theory.users.gap import BinomialGap
from dpledger.mechanisms.learning.theory.users.user_sizes import proper_users, proper_users_for
from dpledger.mechanisms.learning.users.guesses import Told
from dpledger.mechanisms.learning.users.least_error import LeastError, MinimumErrorEstimator
from dpledger.mechanisms.learning.users.mistakes import Mistakes, for_users, mistakes_in
from dpledger.mechanisms.learning.users.reading import ReadsUsers
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.selection.choice import Choice
from dpledger.number_fields import OpenProbability, Positive
from dpledger.relations import Relation, Unit, one_way
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["ByUsers", "LearnedFromUsers", "UserLevelProperLearner"]

HALF = Decimal("0.5")


@dataclass(frozen=True, slots=True)
class LearnedFromUsers:
    """A hypothesis, and the estimate of the least error that led to it. `level`: it was drawn by how many users it
    fails more than so often; None where nothing can be more than alpha above the least error, and it is the first."""

    hypothesis: Placed
    estimate: LeastError
    level: int | None

    def __str__(self) -> str:
        return str(self.hypothesis)

    def predict(self, x: object) -> npt.NDArray[np.uint8]:
        """Its label of each row of `x`."""
        return self.hypothesis.predict(x)

    @property
    def params(self) -> Mapping[str, Plain]:
        """The numbers that tell the hypothesis."""
        return self.hypothesis.params

    @property
    def output_in_class(self) -> bool:
        """Whether it is a concept of the class that was learned."""
        return self.hypothesis.output_in_class


class ByUsers(ReadsUsers):
    """Base of records with the fields below: estimates the least error, then chooses. `_why` says how far one user
    moves a score."""

    __slots__ = ()

    _why: ClassVar[str]
    concept_class: OneClass
    epsilon: Positive
    resolution: OpenProbability
    margin: OpenProbability
    share: OpenProbability

    @property
    def user_domain(self) -> NumberedPoints:
        """The points that examples are."""
        return NumberedPoints(for_users(self.concept_class).points)

    @property
    def estimator(self) -> MinimumErrorEstimator:
        """What estimates the least error, with its share of epsilon."""
        return MinimumErrorEstimator(
            concept_class=self.concept_class,
            resolution=self.resolution,
            epsilon=round_down(Fraction(self.epsilon) * Fraction(self.share)),
            relation=self.relation,
            unit=self.unit,
        )

    @property
    def choosing(self) -> Decimal:
        """What is left of epsilon for the choice."""
        return round_down(Fraction(self.epsilon) * (1 - Fraction(self.share)))

    @property
    def choice(self) -> Choice:
        """By the scores. Where they move in one direction only (add_remove, zero_out) the exponent is twice as much."""
        return Choice.weighing(self.choosing, moved=self._moved, why=self._why, monotone=one_way(self.relation))

    @property
    def exponent(self) -> Decimal:
        """How much less likely, as a logarithm, one more step of score makes a hypothesis."""
        return self.choice.exponent

    def claim(self) -> PureDP:
        """What the tests of the estimate and the choice cost together: epsilon, but for rounding."""
        return PureDP(add(self.estimator.claim().epsilon, self.choosing))

    def parts(self) -> Composition:
        """The tests of the estimate, then the choice."""
        return Sequence((self.estimator.parts(), BoundedRange(self.choosing)))

    def plain_of(self, value: LearnedFromUsers) -> tuple[int, Told, int | None]:
        """The place of the hypothesis, the estimate and the level."""
        return value.hypothesis.place, value.estimate.told(), value.level

    def value_of(self, plain: tuple[int, Told, int | None]) -> LearnedFromUsers:
        """What was learned, as `plain_of` says it."""
        place, told, level = plain
        return LearnedFromUsers(self._hypothesis(place), LeastError.retold(told), level)

    def _released(
        self, mistakes: Mistakes, costs: Callable[[int], Costs], entropy: Entropy
    ) -> Release[LearnedFromUsers]:
        """`costs`: of each hypothesis, by the users with more than so many mistakes."""
        estimate = self.estimator.searched(mistakes, entropy)
        gap = self._gap(estimate)
        if gap is None:
            place, level = 0, None
        else:
            (place,), level = cheap(self.choice, costs(gap.level), 1, entropy), gap.level
        return Release(value=LearnedFromUsers(self._hypothesis(place), estimate, level), parts=self.parts())

    @abstractmethod
    def _hypothesis(self, place: int) -> Placed:
        """The one at that place."""

    @property
    def _points(self) -> int:
        return self.user_domain.points

    def _gap(self, estimate: LeastError) -> BinomialGap | None:
        """The laws of mistakes that the choice tells apart; None where every hypothesis is good enough."""
        upper = add(estimate.high, self.margin)
        return None if upper >= 1 else BinomialGap(rows_of(self.unit), estimate.high, upper)

    @property
    @abstractmethod
    def _moved(self) -> int:
        """How far one unit moves a score."""

    def _check(self) -> None:
        for_users(self.concept_class)
        if not add(self.resolution, self.resolution, self.margin) < 1:
            raise ParameterError("margin", self.margin, "a number with which 2 resolution + margin is below 1")
        _ = self.estimator, self.choice

    def _parameters(self, **more: object) -> Mapping[str, Plain]:
        values = {
            "concept_class": self.concept_class.described(),
            "examples": rows_of(self.unit),
            "epsilon": self.epsilon,
            "share": self.share,
            "strict": self.strict,
            "resolution": self.resolution,
            "margin": self.margin,
            "tests": self.estimator.rounds,
            "epsilon_of_each": self.estimator.each,
            **self.choice.said(),
            **more,
        }
        result: dict[str, Plain] = plain(values)
        return result


@record
class UserLevelProperLearner(ByUsers):
    """Learn a concept of a class from users with many examples, whatever the truth is. Li-Wang-Ye 2024, section 4.

    The least error is estimated within `resolution`, by `share` of epsilon; then a concept is drawn by how many users
    have more than `level` mistakes by it, where `level` tells the upper end of the estimate best from an error `margin`
    above it. What is promised is an error of 2 resolution + margin above the least; `planned` finds the best of these.
    Data are a UserSample with as many examples a user as the unit may contribute; `strict`: see `RowLearner`.

    One user changes each count by one, and not by the number of mistakes: what many examples tell grows with their
    square root, and what privacy takes away does not grow. That is worth its while where sqrt(m) alpha comes near one;
    below, an `ExponentialPPACLearner` in the same scope, which divides epsilon by m, may need fewer users.

    Of the published proof: `level` depends on the data through the estimate, so that its union bound must range over
    all levels that may come; the plans here do.

    Claim: epsilon-DP, whatever a user holds. Source: docs/proofs/learning_users.md, section 4.
    The value is a hypothesis: its `predict(rows)` gives uint8[rows], 0 or 1.

    >>> learner = dpl.learning.UserLevelProperLearner(
    ...     dpl.learning.ThresholdClass(8), epsilon=1, resolution="0.1", margin="0.1", share="0.5"
    ... )
    >>> learner = learner.under(dpl.Relation.REPLACE_ONE, dpl.Unit("user", max_contributions=100))
    >>> learner.plan("0.1").needed
    252
    """

    _why: ClassVar[str] = "one user changes the number of users whom a concept fails often by at most one"
    concept_class: OneClass
    epsilon: Positive
    resolution: OpenProbability
    margin: OpenProbability
    share: OpenProbability = given(default=HALF)
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["user_level_proper_learner"] = tag(default="user_level_proper_learner")

    def __post_init__(self) -> None:
        self._check()

    @classmethod
    def planned(
        cls,
        concept_class: Any,
        examples: int,
        alpha: Number,
        beta: Number,
        *,
        epsilon: Number,
        share: Number = HALF,
    ) -> Self:
        """The learner whose resolution and margin ask for the fewest users with so many examples each, for an error of
        at most alpha above the least but with probability beta, whatever the relation."""
        plan = proper_users(for_users(class_from(concept_class)), examples, alpha, beta, epsilon=epsilon, share=share)
        inside = dict(plan.inside)
        return cls(
            concept_class=concept_class,
            epsilon=epsilon,
            resolution=inside["resolution"],
            margin=inside["margin"],
            share=share,
        )

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the tests of the estimate and the exponent of the choice."""
        return self._parameters()

    def release(self, data: UserSample, *, entropy: Entropy) -> Release[LearnedFromUsers]:
        """A concept, and the estimate that led to it."""
        mistakes = mistakes_in(self.concept_class, self._taken(data))
        return self._released(mistakes, mistakes.beyond, entropy)

    def _hypothesis(self, place: int) -> Concept:
        return Concept(self.concept_class, place)

    def plan(self, beta: Number) -> SampleSize:
        """How many users are enough for an error of at most 2 resolution + margin above the least, but with probability
        beta."""
        return proper_users_for(
            for_users(self.concept_class),
            rows_of(self.unit),
            beta,
            epsilon=self.epsilon,
            share=self.share,
            monotone=one_way(self.relation),
            resolution=self.resolution,
            margin=self.margin,
        )

    @property
    def _moved(self) -> int:
        return 1
