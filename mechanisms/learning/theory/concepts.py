"""Classes of concepts: what a learner may answer, as parameters that exist before the data.

A concept is a function from {0..N-1} to {0, 1}, or from the rows of a table, and is told by its place in the class.
Whatever is no point of the domain is read as the nearest that is (`samples`).

>>> ThresholdClass(3).predict(2, [0, 1, 2]).tolist()  # 1[x < 2]
[1, 1, 0]
>>> PointClass(8).size, ThresholdClass(8).size, ParityClass(3).size
(8, 9, 8)
>>> FiniteClass([[0, 0], [0, 1]]).shape
(2, 2)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import PlainValidator

from dpledger.decimals import whole
from dpledger.errors import ParameterError, WorkLimit
from dpledger.mechanisms.learning.domains import NumberedPoints, RowsOfBits
from dpledger.mechanisms.learning.error_counts import ErrorCounts, of_matrix, of_parities, of_points, of_thresholds
from dpledger.mechanisms.learning.samples import LabeledSample, Words, bits_of, points_of
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.mechanisms.numeric.rows import check_rows
from dpledger.schema import Plain, flag

__all__ = [
    "AnyClass",
    "ConceptClass",
    "FiniteClass",
    "NumberedClass",
    "OneClass",
    "ParityClass",
    "PointClass",
    "ThresholdClass",
    "any_class_from",
    "class_from",
    "matrix_from",
    "matrix_of",
]

Labels: TypeAlias = npt.NDArray[np.uint8]

MOST_POINTS = 2**64  # of a structured domain: a point is one word
MOST_CELLS = 2**31  # of a matrix
MOST_BITS = 2**20  # of a parity


@dataclass(frozen=True, slots=True, init=False, repr=False)
class FiniteClass:
    """The concepts that are the rows of a matrix of zeros and ones, one column a point. Two classes are the same where
    their matrices are. Equal rows are no error, but a prior: what is drawn at random is drawn among rows. Plans go by
    the logarithm of all rows; where there are more of them than `distinct` ones, a class without the others needs fewer
    records.

    >>> dpl.learning.FiniteClass([[0, 0, 1], [0, 1, 1]]).predict(1, [0, 1, 2]).tolist()
    [0, 1, 1]
    """

    shape: tuple[int, int] = field(init=False)
    bits: bytes = field(init=False)

    def __init__(self, matrix: object) -> None:
        rows = matrix_from(matrix)
        if rows.size > MOST_CELLS:
            raise ParameterError("matrix", f"{rows.size} cells", f"at most {MOST_CELLS} cells")
        object.__setattr__(self, "shape", (int(rows.shape[0]), int(rows.shape[1])))
        object.__setattr__(self, "bits", np.packbits(rows).tobytes())

    def __repr__(self) -> str:
        return f"FiniteClass(shape={self.shape}, sha256={self.digest[:12]})"

    @property
    def size(self) -> int:
        """How many concepts there are."""
        return self.shape[0]

    @property
    def distinct(self) -> int:
        """How many of them differ on some point."""
        return len({row.tobytes() for row in np.packbits(self.matrix, axis=1)})

    @property
    def points(self) -> int:
        """How many points the domain has."""
        return self.shape[1]

    @property
    def digest(self) -> str:
        """The SHA-256 of the matrix: its bits row by row, eight a byte, the first the highest."""
        return hashlib.sha256(self.bits).hexdigest()

    @property
    def matrix(self) -> npt.NDArray[np.bool_]:
        """The concepts, one a row."""
        flat = np.unpackbits(np.frombuffer(self.bits, dtype=np.uint8), count=self.size * self.points)
        return flat.reshape(self.shape).astype(bool)

    @property
    def domain(self) -> NumberedPoints:
        """What they are functions of."""
        return NumberedPoints(self.points)

    @property
    def vc(self) -> None:
        """The VC dimension: None, for to find it may take longer than to learn."""
        return None

    def errors(self, sample: LabeledSample) -> ErrorCounts:
        """The errors of every concept on the sample."""
        return of_matrix(self.matrix, sample)

    def described(self) -> Mapping[str, Plain]:
        """The class as the record keeps it: of the matrix its shape and SHA-256."""
        return {"class": "finite", "concepts": self.size, "points": self.points, "sha256": self.digest}

    def predict(self, place: int, x: object) -> Labels:
        """The concept at that place, of each row of `x`."""
        row: Labels = self.matrix[_placed(place, self.size)].astype(np.uint8)
        return _of_points(x, self.points, lambda points: row[points])

    def words(self, place: int) -> str:
        """What the concept at that place says, in words."""
        return f"row {_placed(place, self.size)} of the matrix"


@dataclass(frozen=True, slots=True)
class PointClass:
    """c_j(x) = 1[x = j] on {0..points-1}. It does not hold the constant 0.

    >>> dpl.learning.PointClass(8).predict(3, [2, 3]).tolist()
    [0, 1]
    """

    points: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", whole(self.points, field="points", least=1, most=MOST_POINTS))

    @property
    def size(self) -> int:
        """How many concepts there are."""
        return self.points

    @property
    def domain(self) -> NumberedPoints:
        """What they are functions of."""
        return NumberedPoints(self.points)

    @property
    def vc(self) -> int:
        """The VC dimension. Source: docs/proofs/learning_pac.md, "VC dimension"."""
        return min(1, self.points - 1)

    @property
    def matrix(self) -> npt.NDArray[np.bool_]:
        """As `matrix_of`."""
        check_cells(self.size, self.points)
        return np.eye(self.points, dtype=bool)

    def errors(self, sample: LabeledSample) -> ErrorCounts:
        """The errors of every concept on the sample."""
        return of_points(self.points, sample)

    def described(self) -> Mapping[str, Plain]:
        """The class as the record keeps it."""
        return {"class": "points", "points": str(self.points)}

    def predict(self, place: int, x: object) -> Labels:
        """The concept at that place, of each row of `x`."""
        at = _placed(place, self.size)
        return _of_points(x, self.points, lambda points: (points == np.uint64(at)).astype(np.uint8))

    def words(self, place: int) -> str:
        """What the concept at that place says, in words."""
        return f"x = {_placed(place, self.size)}"


@dataclass(frozen=True, slots=True)
class ThresholdClass:
    """c_u(x) = 1[x < u] on {0..points-1}, for u in {0..points}: c_0 is the constant 0. `both_ways`: and after them
    1[x >= u], for the same u, where it is not known which label the low points have.

    >>> dpl.learning.ThresholdClass(8).predict(3, [2, 3]).tolist()
    [1, 0]
    >>> dpl.learning.ThresholdClass(8, both_ways=True).predict(9 + 3, [2, 3]).tolist()
    [0, 1]
    """

    points: int
    both_ways: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", whole(self.points, field="points", least=1, most=MOST_POINTS))
        flag(self.both_ways, field="both_ways")

    @property
    def size(self) -> int:
        """How many concepts there are."""
        return (self.points + 1) * (2 if self.both_ways else 1)

    @property
    def domain(self) -> NumberedPoints:
        """What they are functions of."""
        return NumberedPoints(self.points)

    @property
    def vc(self) -> int:
        """The VC dimension. Source: docs/proofs/learning_pac.md, "VC dimension"."""
        return min(2, self.points) if self.both_ways else 1

    @property
    def matrix(self) -> npt.NDArray[np.bool_]:
        """As `matrix_of`."""
        check_cells(self.size, self.points)
        below = np.asarray(np.arange(self.points)[None, :] < np.arange(self.points + 1)[:, None])
        return np.concatenate([below, ~below]) if self.both_ways else below

    def errors(self, sample: LabeledSample) -> ErrorCounts:
        """The errors of every concept on the sample."""
        return of_thresholds(self.points, sample, both_ways=self.both_ways)

    def described(self) -> Mapping[str, Plain]:
        """The class as the record keeps it."""
        ways = {"both_ways": True} if self.both_ways else {}
        return {"class": "thresholds", "points": str(self.points), **ways}

    def predict(self, place: int, x: object) -> Labels:
        """The concept at that place, of each row of `x`."""
        upwards, u = self._told(place)

        def labels(points: Words) -> Labels:
            below = np.zeros(len(points), dtype=np.bool_) if u == 0 else points <= np.uint64(u - 1)
            return np.asarray(below != bool(upwards), dtype=np.uint8)

        return _of_points(x, self.points, labels)

    def words(self, place: int) -> str:
        """What the concept at that place says, in words."""
        upwards, u = self._told(place)
        return f"x >= {u}" if upwards else f"x < {u}"

    def _told(self, place: int) -> tuple[int, int]:
        """Whether it is 1 from u on, and u."""
        return divmod(_placed(place, self.size), self.points + 1)


@dataclass(frozen=True, slots=True)
class ParityClass:
    """c_r(x) = <r, x> mod 2, for r and x of `dimension` bits; bit j of a number is column j of a row of bits.

    >>> dpl.learning.ParityClass(3).predict(5, [[1, 1, 0], [1, 0, 1]]).tolist()  # bits 0 and 2
    [1, 0]
    """

    dimension: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", whole(self.dimension, field="dimension", least=1, most=MOST_BITS))

    @property
    def points(self) -> int:
        """How many points the domain has."""
        return 1 << self.dimension

    @property
    def size(self) -> int:
        """How many concepts there are."""
        return 1 << self.dimension

    @property
    def domain(self) -> RowsOfBits:
        """What they are functions of."""
        return RowsOfBits(self.dimension)

    @property
    def vc(self) -> int:
        """The VC dimension. Source: docs/proofs/learning_pac.md, "VC dimension"."""
        return self.dimension

    @property
    def matrix(self) -> npt.NDArray[np.bool_]:
        """As `matrix_of`."""
        check_cells(self.size, self.points)
        bits = (np.arange(self.points)[:, None] >> np.arange(self.dimension)) & 1
        return np.asarray(bits @ bits.T & 1, dtype=bool)

    def errors(self, sample: LabeledSample) -> ErrorCounts:
        """The errors of every concept on the sample."""
        return of_parities(self.dimension, sample)

    def described(self) -> Mapping[str, Plain]:
        """The class as the record keeps it."""
        return {"class": "parities", "dimension": self.dimension}

    def predict(self, place: int, x: object) -> Labels:
        """The concept at that place, of each row of `x`: rows of bits, or numbers."""
        r = _placed(place, self.size)
        check_rows(x)
        bits = bits_of(x, self.dimension)
        mask = np.array([r >> j & 1 for j in range(self.dimension)], dtype=bool)
        found: Labels = (np.count_nonzero(bits.bits[:, mask], axis=1) & 1).astype(np.uint8)
        return np.where(bits.known, found, np.uint8(0))

    def words(self, place: int) -> str:
        """What the concept at that place says, in words."""
        r = _placed(place, self.size)
        named = [f"x{bit}" for bit in range(self.dimension) if r >> bit & 1]
        return " xor ".join(named) or "always 0"


ConceptClass: TypeAlias = FiniteClass | PointClass | ThresholdClass | ParityClass
"""The closed union of classes on numbered points."""
AnyClass: TypeAlias = ConceptClass | StumpClass
"""The closed union of classes: those on numbered points, and on tables."""


def class_from(given: object, field: str = "concept_class") -> ConceptClass:
    """What was given, if it is a class on numbered points; ParameterError for anything else."""
    if not isinstance(given, FiniteClass | PointClass | ThresholdClass | ParityClass):
        raise ParameterError(field, type(given).__name__, "FiniteClass, PointClass, ThresholdClass or ParityClass")
    return given


def any_class_from(given: object, field: str = "concept_class") -> AnyClass:
    """What was given, if it is a class; ParameterError for anything else."""
    if not isinstance(given, FiniteClass | PointClass | ThresholdClass | ParityClass | StumpClass):
        expected = "FiniteClass, PointClass, ThresholdClass, ParityClass or StumpClass"
        raise ParameterError(field, type(given).__name__, expected)
    return given


OneClass = Annotated[AnyClass, PlainValidator(lambda given: any_class_from(given))]
"""A field that holds a class; it is given as one."""
NumberedClass = Annotated[ConceptClass, PlainValidator(lambda given: class_from(given))]
"""A field that holds a class on numbered points."""


def matrix_from(given: object) -> npt.NDArray[np.bool_]:
    """A matrix of zeros and ones, as it was given. ParameterError for anything else."""
    rows = np.zeros(0)
    if isinstance(given, np.ndarray | list | tuple):
        with suppress(ValueError, TypeError, OverflowError):  # ragged, or numbers beyond every type
            rows = np.asarray(given)
    if rows.ndim != 2 or rows.dtype.kind not in "biu" or not rows.size or rows.min() < 0 or rows.max() > 1:
        raise ParameterError("matrix", type(given).__name__, "a matrix of zeros and ones: a concept a row")
    return rows.astype(bool)


def matrix_of(concepts: ConceptClass) -> npt.NDArray[np.bool_]:
    """All concepts on all points, one concept a row. WorkLimit above 2^31 cells."""
    return concepts.matrix


def check_cells(size: int, points: int) -> None:
    """WorkLimit where a matrix of so many concepts and points is too large."""
    if size * points > MOST_CELLS:
        raise WorkLimit(f"a matrix of {size} x {points} is beyond the limit of {MOST_CELLS} cells")


def _placed(place: int, size: int) -> int:
    return whole(place, field="place", most=size - 1)


def _of_points(x: object, points: int, labels: Callable[[Words], Labels]) -> Labels:
    """The labels of points; 0 of what is no number. ParameterError for what holds no rows."""
    check_rows(x)
    found = points_of(x, points)
    return np.where(found.known, labels(found.points), np.uint8(0))
