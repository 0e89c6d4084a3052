"""The rows that a learner takes: numbered points, rows of bits, or the columns of a table that have bins.

Every learner of rows and labels says which by its property `domain`, every learner of users by `user_domain`; so a
table can be made into what it takes.

>>> from dpledger.mechanisms.learning.tables.binning import Binning
>>> bins = Binning({0: [10, 20]}, {1: ["a"]}, source="made up")
>>> rows_for(NumberedPoints(8), bins, [[15, "a"], [None, None]])
[6, None]
>>> rows_for(RowsOfBits(3), bins, [[15, "a"], [5, "b"]]).tolist()
[[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, assert_never, runtime_checkable

import numpy as np

from dpledger.errors import ParameterError
from dpledger.mechanisms.learning.samples import (
    LabeledSample,
    are_bits,
    are_points,
    check_labels,
    check_sample,
    labeled_sample,
    points_read_as,
)
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.mechanisms.numeric.rows import numbers

__all__ = [
    "Domain",
    "LearnsClasses",
    "LearnsRows",
    "LearnsUsers",
    "NumberedPoints",
    "RowsOfBits",
    "are_all_inside",
    "check_rows_of",
    "rows_for",
    "rows_read_as",
]


@dataclass(frozen=True, slots=True)
class NumberedPoints:
    """{0..points-1}."""

    points: int


@dataclass(frozen=True, slots=True)
class RowsOfBits:
    """`width` bits a row, or a number with so many binary digits."""

    width: int


Domain: TypeAlias = NumberedPoints | RowsOfBits | Binning


@runtime_checkable
class LearnsRows(Protocol):
    """A learner whose data are a LabeledSample."""

    def inspect(self, data: object) -> None:
        """ParameterError for data that are none of its."""
        ...

    @property
    def domain(self) -> Domain:
        """The rows that it learns from."""
        ...


@runtime_checkable
class LearnsClasses(LearnsRows, Protocol):
    """One that says how many labels there may be, and what its hypothesis says beside them; else two, and nothing."""

    @property
    def labels(self) -> int:
        """How many, from 0 on."""
        ...

    @property
    def says(self) -> tuple[str, ...]:
        """`scores`, `probabilities`: the methods that its hypothesis has beside `predict`."""
        ...


@runtime_checkable
class LearnsUsers(Protocol):
    """A learner whose data are a UserSample."""

    def inspect(self, data: object) -> None:
        """ParameterError for data that are none of its."""
        ...

    @property
    def user_domain(self) -> NumberedPoints:
        """The points that examples are."""
        ...


def check_rows_of(domain: Domain, data: object) -> None:
    """ParameterError unless `data` are a LabeledSample with rows of this kind and a label for each. What an entry is
    never matters."""
    match domain:
        case NumberedPoints():
            check_sample(data)
        case RowsOfBits(width=width):
            check_sample(data, bits=width)
        case Binning():
            sample = labeled_sample(data)
            check_labels(sample, domain.rows(sample.x))
        case _:
            assert_never(domain)


def rows_read_as(domain: Domain) -> tuple[str, ...]:
    """What rows count as that are none of the domain, a sentence each: for receipts."""
    match domain:
        case NumberedPoints(points=points):
            return points_read_as(points), "a row that is NaN or any other non-number counts nowhere"
        case RowsOfBits(width=width):
            return (
                f"an entry is the bit 1 from 0.5 on, else 0; a number in place of a row is so many bits, {width}",
                "a row with an entry that is NaN or any other non-number, or of another length, counts nowhere",
            )
        case Binning():
            return domain.read_as()
        case _:
            assert_never(domain)


def are_all_inside(domain: Domain, sample: LabeledSample, labels: int = 2) -> bool:
    """Whether every row is one of the domain as it stands (of a table: each entry in a bin) and every label one of so
    many, from 0 on."""
    if not np.isin(numbers(sample.y, missing=np.nan), np.arange(labels)).all():
        return False
    match domain:
        case NumberedPoints(points=points):
            return are_points(sample.x, points)
        case RowsOfBits(width=width):
            return are_bits(sample.x, width)
        case Binning():
            return bool((domain.read(sample.x).places > 0).all())
        case _:
            assert_never(domain)


def rows_for(domain: Domain, binning: Binning, x: object) -> Any:
    """The rows of a table as a learner takes them that has this domain: the row itself; or the number that its bins
    are; or what each test of a column says of it (NaN of the null record). Of each row alone. ParameterError where the
    bins are not as many as the domain wants."""
    match domain:
        case Binning():
            if domain != binning:
                raise ParameterError(
                    "binning", "another one than the learner's", "the binning that the learner was made with"
                )
            return x
        case NumberedPoints(points=points):
            if points != binning.points:
                raise ParameterError(
                    "binning", f"{binning.points} combinations of bins", f"{points}, the learner's points"
                )
            return binning.numbered(x)
        case RowsOfBits(width=width):
            if width != binning.width:
                raise ParameterError("binning", f"{binning.width} tests of a column", f"{width}, the learner's bits")
            known = binning.read(x).known
            return np.where(known[:, None], binning.tests(x).astype(np.float64), np.nan)
        case _:
            assert_never(domain)
