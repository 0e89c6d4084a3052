"""A concept that loses against none by much, as users see it: each user's preference between two concepts is clipped.

    score(h) = min over h' of the sum over users of clip(a_i(h') - a_i(h)),  a_i(h) the mistakes of user i by h

A user moves a sum by the clip and not by all of his examples, and the clip may be far below their number; no estimate
of the least error is needed.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
>>> learner = ClippedPairwiseEM(ThresholdClass(8), epsilon=2, clip=2)
>>> placed = learner.under(Relation.REPLACE_ONE, Unit("user", max_contributions=4))
>>> placed.exponent  # epsilon / (2 x 4): a user who changes moves a score by twice the clip
Decimal('0.25')
>>> x = np.tile(np.array([1, 2, 3, 6]), (40, 1))
>>> placed.release(UserSample(x, x < 3), entropy=seeded(1)).value.params
{'place': '3'}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.guarantees import BoundedRange
from dpledger.decimals import Number
from dpledger.errors import WorkLimit
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.choosing import Chooses
from dpledger.mechanisms.learning.domains import NumberedPoints
from dpledger.mechanisms.learning.hypotheses import Concept
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.concepts import ConceptClass, NumberedClass, matrix_of
from dpledger.mechanisms.learning.theory.needed_units import SampleSize
from dpledger.mechanisms.learning.theory.users.clipped_sizes import clipped_size, moved_by_a_user
from dpledger.mechanisms.learning.users.reading import ReadsUsers, users_of
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.selection.choice import Choice
from dpledger.number_fields import Positive, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["MOST_CONCEPTS", "ClippedPairwiseEM", "clipped_pairwise_scores"]

Ints: TypeAlias = npt.NDArray[np.int64]

MOST_CONCEPTS = 2**13  # all pairs are compared
CELLS_AT_ONCE = 2**17  # of users and concepts: what a core keeps near
NARROW = 2**14  # differences of fewer examples fit 16 bits

_WHY = "a user moves each sum of clipped differences by at most the clip, twice if replaced; so also the least of them"


@record
class ClippedPairwiseEM(Chooses[Concept], ReadsUsers):
    """Learn a concept from users with many examples each, on any data. After the user-level mechanism of Ghazi et al.
    2023, with constants of our own.

    `concept_class`: at most 2^13 concepts, there before the data. `clip`: by how many mistakes one user may prefer one
    concept to another; `clipped_pairwise_plan` says which is best. The unit says how many examples a user has
    (`max_contributions`); the data are a UserSample of so many each, and a user of whom an example is no number counts
    nowhere; `strict`: see `RowLearner`. Its cost grows as users times |C|^2.

    Claim: epsilon-bounded range, so epsilon-DP, under every relation. Source: docs/proofs/learning_clipped.md.
    The value is a hypothesis: its `predict(rows)` gives uint8[rows], 0 or 1.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> learner = dpl.learning.ClippedPairwiseEM(dpl.learning.ThresholdClass(8), epsilon=2, clip=2)
    >>> learner = learner.under(dpl.Relation.REPLACE_ONE, dpl.Unit("user", max_contributions=4))
    >>> x = np.tile(np.array([1, 2, 3, 6]), (40, 1))
    >>> learner.release(dpl.learning.UserSample(x, x < 3), entropy=seeded(1)).value.params
    {'place': '3'}
    """

    concept_class: NumberedClass
    epsilon: Positive
    clip: Annotated[Whole, Field(strict=True, ge=1, le=2**40)]
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["clipped_pairwise_em"] = tag(default="clipped_pairwise_em")

    def __post_init__(self) -> None:
        if self.concept_class.size > MOST_CONCEPTS:
            raise WorkLimit(f"{self.concept_class.size} concepts: all pairs are compared, at most of {MOST_CONCEPTS}")
        _ = self.choice

    @property
    def user_domain(self) -> NumberedPoints:
        """The points that examples are; of parities, numbers whose digits are the bits."""
        return NumberedPoints(self.concept_class.points)

    @property
    def choice(self) -> Choice:
        """By the sums of clipped differences, the higher the likelier."""
        moved = moved_by_a_user(self.clip, rows_of(self.unit), self.relation)
        return Choice.weighing(self.epsilon, moved=moved, why=_WHY)

    def claim(self) -> BoundedRange:
        """A range of epsilon; of 0 for a single concept.

        Claim: the losses of any two neighbours lie within it. Source: docs/proofs/learning_clipped.md, section 1."""
        return BoundedRange(0 if self.concept_class.size == 1 else self.epsilon)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the exponent as it is used."""
        result: dict[str, Plain] = plain(
            {
                "concept_class": self.concept_class.described(),
                "epsilon": self.epsilon,
                "clip": self.clip,
                "strict": self.strict,
                **self.choice.said(),
            }
        )
        return result

    @property
    def _points(self) -> int:
        return self.user_domain.points

    def release(self, data: UserSample, *, entropy: Entropy) -> Release[Concept]:
        """One concept of the class."""
        return self._released(self._costs(data), entropy)

    def value_of(self, plain: int) -> Concept:
        """The concept at a place, as `plain_of` says it."""
        return Concept(self.concept_class, plain)

    def sample(self, data: UserSample, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """The places of `size` independent releases."""
        return self._drawn(self._costs(data), size, entropy)

    def plan(self, alpha: Number, beta: Number) -> SampleSize:
        """How many users are enough for an error of at most alpha above the best of the class, but with probability
        beta. InfeasiblePlan where the clip leaves nothing of such a difference."""
        return clipped_size(self.concept_class.size, rows_of(self.unit), self.clip, self.exponent, alpha, beta)

    @property
    def _many(self) -> int:
        return self.concept_class.size

    def _costs(self, data: UserSample) -> Ints:
        return -clipped_pairwise_scores(self.concept_class, self._taken(data), self.clip)


def clipped_pairwise_scores(concepts: ConceptClass, sample: UserSample, clip: int) -> Ints:
    """The score of each concept: 0 or below.

    Claim: exact; sums of whole numbers, whatever the order of the users. Source: docs/proofs/learning_clipped.md."""
    users = users_of(sample, concepts.points)
    matrix, m = matrix_of(concepts), users.examples
    most = min(clip, m)
    totals = np.zeros((concepts.size, concepts.size), dtype=np.int64)  # the lower half is minus the upper
    step = max(1, CELLS_AT_ONCE // concepts.size)
    for at in range(0, len(users), step):
        points, labels = users.points[at : at + step].astype(np.int64), users.labels[at : at + step].astype(bool)
        wide = np.array([(matrix[:, x] != y).sum(axis=1) for x, y in zip(points, labels, strict=True)])
        mistakes: npt.NDArray[Any] = wide.astype(np.int16 if m < NARROW else np.int64)
        for h in range(concepts.size - 1):
            preferred = mistakes[:, h + 1 :] - mistakes[:, h : h + 1]
            totals[h, h + 1 :] += np.clip(preferred, -most, most, out=preferred).sum(axis=0, dtype=np.int64)
    totals -= totals.T
    scores: Ints = totals.min(axis=1)
    return scores
