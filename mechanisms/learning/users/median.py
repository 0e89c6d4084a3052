"""A place in an interval that has few examples on either side, as a whole user's privacy allows.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> middle = UserLevelMedian(points=2**60, epsilon=1).under(Relation.REPLACE_ONE, Unit("user", max_contributions=9))
>>> middle.plan("0.1").needed
6831
>>> x = np.random.default_rng(1).integers(0, 2**60, (2000, 9))
>>> found = middle.release(UserSample(x, np.zeros_like(x)), entropy=seeded(1)).value
>>> 0.25 < found / 2**60 < 0.75
True
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import BoundedRange
from dpledger.decimals import Number
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.choosing import in_places
from dpledger.mechanisms.learning.samples import UserSample, are_points
from dpledger.mechanisms.learning.theory.concepts import MOST_POINTS
from dpledger.mechanisms.learning.theory.needed_units import SampleSize
from dpledger.mechanisms.learning.theory.users.median_sizes import mass_gap, median_size
from dpledger.mechanisms.learning.users.middles import MOVED, PointsByUser, Sides
from dpledger.mechanisms.learning.users.reading import ReadsUsers, flat, users_of
from dpledger.mechanisms.numeric.rows import rows_of
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.selection.choice import Choice
from dpledger.number_fields import Positive, Whole
from dpledger.relations import Relation, Unit, one_way
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["UserLevelMedian"]

Place = Annotated[Whole, Field(strict=True, ge=0, le=MOST_POINTS)]


@record
class UserLevelMedian(ReadsUsers):
    """Choose a place w in [low, high] by how many users have more than a few examples in [low, w - 1], or in
    [w + 1, high]: the larger of the two, e^-exponent a user. Li-Wang-Ye 2024, lemma 5.1.

    Data are a UserSample with as many examples a user as the unit may contribute, points of {0..points-1}; labels are
    not looked at, so that under label_flip it costs nothing. `high`: `points` by default. `mass`: a bound, known
    without the data, of the probability that an example lies in the interval; how many are more than a few follows from
    it, so that one read off the data voids the guarantee. `strict`: see `RowLearner`, of points alone. Under add_remove
    and zero_out both counts move in one direction, and the exponent is epsilon a user, elsewhere half of it.

    Of the published statement: what it says of the mass of the interval itself needs that mass to be known.
    Claim: epsilon-bounded range, so epsilon-DP, whatever a user holds. Source: docs/proofs/learning_median.md;
    McSherry-Talwar 2007. Raises ParameterError where low > high.
    The value is a whole number in [low, high].

    >>> middle = dpl.learning.UserLevelMedian(points=2**60, epsilon=1)
    >>> middle = middle.under(dpl.Relation.REPLACE_ONE, dpl.Unit("user", max_contributions=9))
    >>> middle.plan("0.1").needed
    6831
    """

    points: Annotated[Whole, Field(strict=True, ge=1, le=MOST_POINTS)]
    epsilon: Positive
    low: Place = given(default=0)
    high: Place | None = given(default=None)
    mass: Positive = given(default=1)
    strict: Annotated[bool, Field(strict=True)] = given(default=False)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["user_level_median"] = tag(default="user_level_median")

    def __post_init__(self) -> None:
        _ = self.more_than
        if self.last > self.points:
            raise ParameterError("high", self.last, f"at most {self.points}, the number of points")
        if self.low > self.last:
            raise ParameterError("low", self.low, f"at most {self.last}, the end of the interval")
        _ = self.choice

    @property
    def last(self) -> int:
        """The end of the interval."""
        return self.points if self.high is None else self.high

    @property
    def choice(self) -> Choice:
        """By the users on the heavier side of a place."""
        return Choice.weighing(self.epsilon, moved=1, why=MOVED, monotone=one_way(self.relation))

    @property
    def exponent(self) -> Decimal:
        """How much less likely, as a logarithm, one more user on the heavier side makes a place."""
        return self.choice.exponent

    @property
    def more_than(self) -> int:
        """A user is counted on a side where more than so many of the user's examples lie."""
        return mass_gap(rows_of(self.unit), self.mass).level

    def claim(self) -> BoundedRange:
        """A range of epsilon; of 0 under label_flip, and where there is one place alone."""
        free = self.relation is Relation.LABEL_FLIP or self.low == self.last
        return BoundedRange(0 if free else self.epsilon)

    def parts(self) -> Composition:
        """The one choice."""
        return self.claim()

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the exponent and the level as they are used. Places are text: they may be beyond 2^53."""
        result: dict[str, Plain] = plain(
            {
                "points": str(self.points),
                "low": str(self.low),
                "high": str(self.last),
                "mass": self.mass,
                "examples": rows_of(self.unit),
                "strict": self.strict,
                "more_than": self.more_than,
                "epsilon": self.epsilon,
                **self.choice.said(),
            }
        )
        return result

    @property
    def _points(self) -> int:
        return self.points

    @property
    def _reads_labels(self) -> bool:
        return False

    def _are_inside(self, data: UserSample) -> bool:
        return are_points(flat(data.x), self.points)

    def release(self, data: UserSample, *, entropy: Entropy) -> Release[int]:
        """One place."""
        return Release(value=self._sides(data).drawn(self.choice, entropy), parts=self.parts())

    def sample(self, data: UserSample, size: int, entropy: Entropy) -> npt.NDArray[Any]:
        """The places of `size` independent releases."""
        sides = self._sides(data)
        return in_places([sides.drawn(self.choice, entropy) for _ in range(size)], self.points + 1)

    def plan(self, beta: Number) -> SampleSize:
        """How many users are enough for at most three quarters of `mass` on either side, but with probability beta."""
        return median_size(self.points, self.exponent, self.mass, beta, m=rows_of(self.unit))

    def _sides(self, data: UserSample) -> Sides:
        points = users_of(self._taken(data), self.points).points
        return PointsByUser.of(points).sides(self.low, self.last, more_than=self.more_than)
