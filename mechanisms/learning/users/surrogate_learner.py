"""A learner of users that chooses among the hypotheses of a representation, and not in the class itself.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> learner = UserLevelSurrogateLearner.planned(PointClass(2**20), 100, "0.1", "0.1", epsilon=1, seed=3)
>>> learner.representation.bits, learner.resolution, learner.margin
(19, Decimal('0.025'), Decimal('0.04'))
>>> placed = learner.under(Relation.REPLACE_ONE, Unit("user", max_contributions=100))
>>> placed.plan("0.1", "0.1").needed
2508
>>> x = np.random.default_rng(1).integers(0, 2**20, (2508, 100))
>>> x[:, ::2] = 77
>>> found = placed.release(UserSample(x, x == 77), entropy=seeded(1)).value
>>> found.predict([77, 78]).tolist(), found.output_in_class
([1, 0], False)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.hypotheses import Placed
from dpledger.mechanisms.learning.representations.kinds import OneRepresentation, hypothesis_at, require_fit, told
from dpledger.mechanisms.learning.representations.representations import HashedPointRepresentation
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, OneClass, PointClass, class_from
from dpledger.mechanisms.learning.theory.needed_units import SampleSize
from dpledger.mechanisms.learning.theory.users.user_sizes import surrogate_users, surrogate_users_for
from dpledger.mechanisms.learning.users.mistakes import mistakes_of, point_mistakes
from dpledger.mechanisms.learning.users.reading import users_of
from dpledger.mechanisms.learning.users.surrogates import hashed_user_scores, matrix_scores
from dpledger.mechanisms.learning.users.user_learners import ByUsers, LearnedFromUsers
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.number_fields import OpenProbability, Positive
from dpledger.relations import Relation, Unit, one_way
from dpledger.schema import Plain, given, record, tag

__all__ = ["UserLevelSurrogateLearner"]

HALF = Decimal("0.5")
NEARLY_ONE = Decimal("0.9")
MOST_HASH_BITS = 24  # that a representation may have


@record
class UserLevelSurrogateLearner(ByUsers):
    """Learn a hypothesis of a representation from users with many examples, whatever the truth is: by how few users
    some concept near it fails. Li-Wang-Ye 2024, theorem 4.6.

    As a `UserLevelProperLearner`, but that a hypothesis is weighed by its surrogate score: the fewest users who make
    more than `level` mistakes by a concept or hold an example on which it and the hypothesis differ. `representation`:
    of the class, fixed before the data: hashed points for points, a matrix for a matrix. Where a class has fewer
    concepts than the representation would have hypotheses, learn it properly: that needs fewer users.

    Of the published proof: `level` depends on the data through the estimate, so that its union bound must range over
    all levels that may come; the plans here do. Examples beyond 1/alpha^2 a user are not thrown away: gaps do not fall.

    Claim: epsilon-DP, whatever a user holds. Source: docs/proofs/learning_users.md, section 5.
    The value is a hypothesis: its `predict(rows)` gives uint8[rows], 0 or 1.

    >>> learner = dpl.learning.UserLevelSurrogateLearner(
    ...     dpl.learning.PointClass(2**20), epsilon=1, resolution="0.1", margin="0.1", share="0.5",
    ...     representation=dpl.learning.HashedPointRepresentation(dimension=20, bits=9, a="0.1", seed=1),
    ... )
    >>> learner.claim()
    PureDP(epsilon=Decimal('1'), kind='pure_dp')
    """

    _why: ClassVar[str] = "one user changes each sum of users failed and users in between by at most two; labels by one"
    concept_class: OneClass
    representation: OneRepresentation
    epsilon: Positive
    resolution: OpenProbability
    margin: OpenProbability
    share: OpenProbability = given(default=HALF)
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["user_level_surrogate_learner"] = tag(default="user_level_surrogate_learner")

    def __post_init__(self) -> None:
        require_fit(self.concept_class, self.representation)
        self._check()

    @classmethod
    def planned(
        cls,
        concept_class: PointClass,
        examples: int,
        alpha: Number,
        beta: Number,
        *,
        epsilon: Number,
        seed: int | None = None,
        share: Number = HALF,
    ) -> Self:
        """The learner whose hash, resolution and margin ask for the fewest users with so many examples each. The hash
        is drawn now, without `seed` from the operating system. InfeasiblePlan where every hash that is fine enough has
        as many cells as there are points: learn properly."""
        known = class_from(concept_class)
        bits = (known.points - 1).bit_length() if isinstance(known, PointClass) else 0
        if not isinstance(known, PointClass) or known.points != 1 << bits:
            raise ParameterError("concept_class", type(concept_class).__name__, "PointClass of a power of two points")
        most = min(bits - 1, MOST_HASH_BITS)
        drawn = HashedPointRepresentation.drawn(dimension=max(2, bits), bits=1, a=NEARLY_ONE)
        drawn = drawn if seed is None else dataclasses.replace(drawn, seed=seed)
        plan = surrogate_users(known, examples, alpha, beta, epsilon=epsilon, share=share, most_bits=most)
        inside = dict(plan.inside)
        hashed = dataclasses.replace(drawn, bits=int(inside["bits"]), a=inside["distance"])
        return cls(
            concept_class=concept_class,
            representation=hashed,
            epsilon=epsilon,
            resolution=inside["resolution"],
            margin=inside["margin"],
            share=share,
        )

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the tests of the estimate and the exponent of the choice."""
        return self._parameters(representation=told(self.representation))

    def release(self, data: UserSample, *, entropy: Entropy) -> Release[LearnedFromUsers]:
        """A hypothesis, and the estimate that led to it."""
        self._taken(data)
        match self.concept_class, self.representation:
            case PointClass(), HashedPointRepresentation():
                found = point_mistakes(self.concept_class, users_of(data, self.concept_class.points))
                hashed = self.representation
                return self._released(found, lambda level: hashed_user_scores(hashed, found, level), entropy)
            case FiniteClass(), FiniteClass():
                concepts, hypotheses = self.concept_class, self.representation
                users = users_of(data, concepts.points)
                counted = mistakes_of(concepts, users)
                return self._released(
                    counted, lambda level: matrix_scores(concepts, hypotheses, users, counted.beyond(level)), entropy
                )
            case _:
                raise AssertionError("refused when it was made")

    def plan(self, alpha: Number, beta: Number) -> SampleSize:
        """How many users are enough for an error of at most alpha above the least, but with probability beta, if the
        representation has been drawn by chance. InfeasiblePlan where it is too coarse."""
        match self.concept_class, self.representation:
            case PointClass(), HashedPointRepresentation(size=size, a=distance, b=missed):
                return surrogate_users_for(
                    self.concept_class,
                    rows_of(self.unit),
                    alpha,
                    beta,
                    epsilon=self.epsilon,
                    share=self.share,
                    monotone=one_way(self.relation),
                    moved=self._moved,
                    resolution=self.resolution,
                    margin=self.margin,
                    hypotheses=size,
                    distance=distance,
                    missed=missed,
                )
            case _:
                raise ParameterError("representation", "a matrix", "one with a and b, which say how near it is")

    def _hypothesis(self, place: int) -> Placed:
        concepts = self.concept_class if isinstance(self.concept_class, FiniteClass) else None
        return hypothesis_at(self.representation, place, concepts)

    @property
    def _moved(self) -> int:
        return 1 if self.relation is Relation.LABEL_FLIP else 2
