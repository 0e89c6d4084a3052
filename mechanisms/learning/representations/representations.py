"""Probabilistic representations: few hypotheses, drawn without any data, one of which is near the target all the same.

A representation is public: it is drawn before the data are read and costs no privacy; drawn again after a look at them
it voids every guarantee. Its seed is a parameter, and never of the entropy that noise comes from.

>>> hashed = HashedPointRepresentation(dimension=20, bits=12, a="0.0125", seed=7)
>>> hashed.size, float(hashed.b)
(4096, 0.01953125)
>>> cell = int(hashed.cells([123456])[0])
>>> HashedPoint(hashed, cell).predict([123456, 123457]).tolist()
[1, 0]
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, round_up, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded, system
from dpledger.mechanisms.learning.equations import Words, odd
from dpledger.mechanisms.learning.samples import points_of
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, NumberedClass
from dpledger.mechanisms.learning.theory.needed_units import natural_log
from dpledger.mechanisms.numeric.rows import check_rows
from dpledger.number_fields import OpenProbability, Whole
from dpledger.schema import Plain, given, plain, record, tag

__all__ = [
    "MOST_LISTED",
    "HashedPoint",
    "HashedPointRepresentation",
    "Represented",
    "Seed",
    "TrivialRepresentation",
    "check_coarser",
    "fresh_seed",
]

_LABEL = 3  # of the stream that hashes are drawn from
MOST_LISTED = 2**24  # hypotheses that are weighed one by one


Seed = Annotated[Whole, Field(strict=True, ge=0, le=2**53 - 1)]


def fresh_seed() -> int:
    """A seed that is drawn now, from the operating system."""
    return int(system().words(1)[0]) >> 11


@record
class TrivialRepresentation:
    """The class itself: no concept is far from it, and none was drawn.

    Claim: a (0, 0)-representation. Source: Beimel-Nissim-Stemmer 2019.

    >>> dpl.learning.TrivialRepresentation(dpl.learning.ThresholdClass(8)).size
    9
    """

    concept_class: NumberedClass
    kind: Literal["class_itself"] = tag(default="class_itself")

    @property
    def size(self) -> int:
        """How many hypotheses there are."""
        return self.concept_class.size

    @property
    def a(self) -> Decimal:
        """How far the nearest hypothesis is."""
        return Decimal(0)

    @property
    def b(self) -> Decimal:
        """How likely no hypothesis is near."""
        return Decimal(0)

    @property
    def log_size(self) -> Decimal:
        """ln of the size, from above."""
        return outward.above(natural_log(self.size))

    def parameters(self) -> Mapping[str, Plain]:
        """The class, with what follows."""
        about = self.concept_class.described()
        result: dict[str, Plain] = plain(
            {"kind": self.kind, "concept_class": about, "a": self.a, "b": self.b, "log_size": self.log_size}
        )
        return result


def check_coarser(bits: int, dimension: int) -> None:
    """ParameterError unless a hash has fewer cells than there are points."""
    if bits >= dimension:
        raise ParameterError("bits", bits, f"fewer than the {dimension} bits of a point")


@record
class HashedPointRepresentation:
    """h_c(x) = 1[g(x) = c] for each of 2^bits cells c, with g(x) = M x over GF(2), M uniform from `seed`; with `copies`
    for each of so many M, drawn independently.

    Claim: for every point j and every law of points some h_c disagrees with 1[x = j] on more than `a` of it with
    probability at most b = 1/(2^bits a)^copies, over M. Source: docs/proofs/learning_representations.md, section 1;
    Li-Wang-Ye 2024, section 2. `dimension`: bits of a point. Where there would be as many cells as points the class
    itself is the better representation.

    >>> hashed = dpl.learning.HashedPointRepresentation(dimension=20, bits=12, a="0.0125", seed=7)
    >>> hashed.size, float(hashed.b)
    (4096, 0.01953125)
    """

    dimension: Annotated[Whole, Field(strict=True, ge=2, le=64)]
    bits: Annotated[Whole, Field(strict=True, ge=1, le=24)]
    a: OpenProbability
    seed: Seed
    copies: Annotated[Whole, Field(strict=True, ge=1, le=64)] = given(default=1)
    kind: Literal["hashed_points"] = tag(default="hashed_points")

    def __post_init__(self) -> None:
        check_coarser(self.bits, self.dimension)
        if Fraction(self.a) * self.cells_each <= 1:
            raise ParameterError("a", self.a, f"more than one of {self.cells_each} cells")
        if self.size > MOST_LISTED:
            raise ParameterError("copies", self.copies, f"at most {MOST_LISTED} hypotheses in all")

    @classmethod
    def drawn(cls, *, dimension: int, bits: int, a: Number, copies: int = 1) -> HashedPointRepresentation:
        """One whose seed is drawn now, from the operating system."""
        return cls(dimension=dimension, bits=bits, a=a, seed=fresh_seed(), copies=copies)

    @property
    def cells_each(self) -> int:
        """How many cells a hash has."""
        return 1 << self.bits

    @property
    def size(self) -> int:
        """How many hypotheses there are."""
        return self.copies << self.bits

    @property
    def b(self) -> Decimal:
        """How likely no hypothesis is near, from above."""
        return round_up((1 / (self.cells_each * Fraction(self.a))) ** self.copies)

    @property
    def log_size(self) -> Decimal:
        """ln of the size, from above."""
        return outward.above(natural_log(self.size))

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with what follows."""
        result: dict[str, Plain] = plain(
            {
                "kind": self.kind,
                "dimension": self.dimension,
                "bits": self.bits,
                "a": self.a,
                "b": self.b,
                "log_size": self.log_size,
                "seed": self.seed,
                "copies": self.copies,
            }
        )
        return result

    def cells(self, x: object, *, copy: int = 0) -> npt.NDArray[np.int64]:
        """The cell of each row by hash number `copy`; -1 of the null record."""
        found = points_of(x, 1 << self.dimension)
        cells = np.zeros(len(found.points), dtype=np.int64)
        first = whole(copy, field="copy", most=self.copies - 1) * self.bits
        hashes = _masks(self.dimension, self.bits * self.copies, self.seed)
        for place, mask in enumerate(hashes[first : first + self.bits]):
            cells |= odd(found.points & mask).astype(np.int64) << place
        return np.where(found.known, cells, -1)

    def occupied(self, *, copy: int = 0) -> npt.NDArray[np.bool_]:
        """Which cells of a hash hold a point of the domain."""
        columns = self.cells([1 << place for place in range(self.dimension)], copy=copy)
        held = np.zeros(self.cells_each, dtype=np.bool_)
        held[0] = True
        for column in columns.tolist():
            if not held[column]:
                held[np.flatnonzero(held) ^ column] = True
        return held


@functools.lru_cache(maxsize=64)
def _masks(dimension: int, rows: int, seed: int) -> Words:
    """The rows of M, a word each; of one M after the other."""
    return seeded(seed, _LABEL).words(rows) >> np.uint64(64 - dimension)


@dataclass(frozen=True, slots=True)
class HashedPoint:
    """1 on the points of one cell; `cell`: its number among those of all hashes in a row."""

    representation: HashedPointRepresentation
    cell: int

    @property
    def place(self) -> int:
        """Its cell."""
        return self.cell

    def predict(self, x: object) -> npt.NDArray[np.uint8]:
        """Its label of each row of `x`."""
        check_rows(x)
        copy, cell = divmod(self.cell, self.representation.cells_each)
        labels: npt.NDArray[np.uint8] = np.equal(self.representation.cells(x, copy=copy), cell).astype(np.uint8)
        return labels

    @property
    def params(self) -> Mapping[str, Plain]:
        """Its cell, and the seed that says what is in it."""
        return {"cell": self.cell, "seed": self.representation.seed}

    @property
    def output_in_class(self) -> bool:
        """It is no point."""
        return False


@dataclass(frozen=True, slots=True)
class Represented:
    """The hypothesis at `place` of a matrix. `output_in_class`: whether it is known to be a concept of the class."""

    hypotheses: FiniteClass
    place: int
    output_in_class: bool

    def predict(self, x: object) -> npt.NDArray[np.uint8]:
        """Its label of each row of `x`."""
        return self.hypotheses.predict(self.place, x)

    @property
    def params(self) -> Mapping[str, Plain]:
        """Its place."""
        return {"place": str(self.place)}
