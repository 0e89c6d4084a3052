"""Users and their examples, each user read alone.

A user counts if all the examples are known; one of whom an example is no number is the null user, who counts
nowhere, and neither among the users. Users with more or with fewer examples than the others come from rows with an id
by `cap_users`.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.mechanisms.units import ByUnit
>>> rows = ByUnit(([5, 6, 7, 8], [1, 1, 0, 0]), units=["ann", "bob", "ann", "ann"])
>>> found = cap_users(rows, examples=2, entropy=seeded(1))
>>> found.x.shape
(1, 2)
>>> users_of(UserSample(np.array([[1.0, 2.0], [3.0, np.nan]]), np.ones((2, 2))), points=8).points.tolist()
[[1, 2]]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.decimals import whole
from dpledger.errors import ContractViolation, ParameterError
from dpledger.mechanisms.callers import came_to
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.domains import NumberedPoints, are_all_inside
from dpledger.mechanisms.learning.row_learner import STRICT
from dpledger.mechanisms.learning.samples import (
    LABELS_READ_AS,
    LabeledSample,
    UserSample,
    Words,
    check_users,
    labels_of,
    points_of,
    points_read_as,
)
from dpledger.mechanisms.numeric.containers import array_of
from dpledger.mechanisms.numeric.one_shot import OneShot
from dpledger.mechanisms.numeric.rows import check_column, rows_of
from dpledger.mechanisms.units import ByUnit, in_random_order

__all__ = ["ReadsUsers", "Users", "cap_users", "flat", "users_of"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Users:
    """The users that are not null: `points`, uint64[users, examples], and `labels`, uint8 of that shape."""

    points: Words
    labels: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.points)

    @property
    def examples(self) -> int:
        """How many each has."""
        return int(self.points.shape[1])


class ReadsUsers(OneShot, ABC):
    """Base of records whose data are a UserSample with as many examples a user as the unit may contribute. Their field
    `strict`: as of a `RowLearner`."""

    __slots__ = ()

    strict: bool

    @property
    @abstractmethod
    def _points(self) -> int:
        """How many points there are."""

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are a UserSample with the unit's number of examples a user."""
        check_users(data, examples=rows_of(self.unit))

    def values_read_as(self) -> tuple[str, ...]:
        """What examples and labels count as that are no ordinary ones: of the parameters, never of the data."""
        labels = (LABELS_READ_AS,) if self._reads_labels else ()
        nobody = "a user with an example that is NaN or any other non-number counts nowhere"
        return (points_read_as(self._points, "an example"), nobody, *labels, *((STRICT,) if self.strict else ()))

    @property
    def _reads_labels(self) -> bool:
        return True

    def _taken(self, data: UserSample) -> UserSample:
        """The sample, inspected; ContractViolation, which names no user, where it is strict and some are outside."""
        self.inspect(data)
        if self.strict and came_to(lambda: self._are_inside(data)) != (True,):
            raise ContractViolation(f"{type(self).__name__} is strict, and some example is not as was declared")
        return data

    def _are_inside(self, data: UserSample) -> bool:
        """Whether every example is a point as it stands, and every label 0 or 1."""
        every = LabeledSample(flat(data.x), flat(data.y))
        return are_all_inside(NumberedPoints(self._points), every)


def users_of(sample: UserSample, points: int) -> Users:
    """Each user's examples on {0..points-1}, by a total map that is fixed by `points` alone."""
    found = points_of(flat(sample.x), points)
    kept = found.known.reshape(sample.x.shape).all(axis=1)
    labels = labels_of(flat(sample.y)).reshape(sample.y.shape)
    return Users(found.points.reshape(sample.x.shape)[kept], labels[kept])


def cap_users(data: ByUnit, *, examples: int, entropy: Entropy) -> UserSample:
    """`examples` of each user's rows at random; users with fewer are left out, as the null user.

    `data`: rows that are a pair (x, y) of columns, and the id of a user beside each. What is kept of a user depends on
    that user's rows alone. ParameterError for anything else. A user who is left out counts nowhere; the number
    of rows of the result may differ between neighbours, under replace_one too, and is not to be shown.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> rows = dpl.ByUnit(([5, 6, 7, 8], [1, 1, 0, 0]), units=["ann", "bob", "ann", "ann"])
    >>> dpl.learning.cap_users(rows, examples=2, entropy=seeded(1)).x.shape  # bob has too few
    (1, 2)
    """
    many = whole(examples, field="examples", least=1, most=2**53 - 1)
    if not (isinstance(data, ByUnit) and isinstance(data.rows, tuple) and len(data.rows) == 2):
        raise ParameterError("data", type(data).__name__, "ByUnit((x, y), units=ids)")
    for column in data.rows:
        check_column(column)
    rows, owners, ranks = in_random_order(data, entropy=entropy)
    sizes = np.array([len(group) for group in data.groups], dtype=np.int64)
    kept = rows[(ranks < many) & (sizes >= many)[owners]].reshape(-1, many)
    x, y = (_column(column)[kept] for column in data.rows)
    return UserSample(x, y)


def flat(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """All entries in a row, whatever kind of array holds them."""
    found = array_of(values)
    assert found is not None, "an array"
    return found.reshape(-1)


def _column(column: object) -> npt.NDArray[Any]:
    """A column as an array in which no row changes how another is read: of a list, each entry as it is."""
    found = array_of(column)
    if found is not None:
        return found
    listed = list(column) if isinstance(column, list | tuple) else []
    held = np.empty(len(listed), dtype=object)
    for place, entry in enumerate(listed):  # one by one, as it is: numpy would ask each for its array
        held[place] = entry
    return held
