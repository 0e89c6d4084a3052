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
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, round_up
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded, system
from dpledger.mechanisms.learning.parities.equations import Words, odd
from dpledger.mechanisms.learning.samples import points_of
from dpledger.mechanisms.learning.theory.concepts import FiniteClass
from dpledger.number_fields import OpenProbability, Whole
from dpledger.schema import Plain, plain, record, tag

__all__ = ["HashedPoint", "HashedPointRepresentation", "Represented"]

_LABEL = 3  # of the stream that hashes are drawn from


@record
class HashedPointRepresentation:
    """h_b(x) = 1[g(x) = b] for each of 2^bits cells b, with g(x) = M x over GF(2), M uniform from `seed`.

    Claim: for every point j and every law of points some h_b disagrees with 1[x = j] on more than `a` of it with
    probability at most b = 1/(2^bits a), over M. Source: docs/proofs/learning_representations.md, section 1;
    Li-Wang-Ye 2024, section 2. `dimension`: bits of a point. Where there would be as many cells as points the class
    itself is the better representation.
    """

    dimension: Annotated[Whole, Field(strict=True, ge=2, le=64)]
    bits: Annotated[Whole, Field(strict=True, ge=1, le=24)]
    a: OpenProbability
    seed: Annotated[Whole, Field(strict=True, ge=0, le=2**53 - 1)]
    kind: Literal["hashed_points"] = tag(default="hashed_points")

    def __post_init__(self) -> None:
        if self.bits >= self.dimension:
            raise ParameterError("bits", self.bits, f"fewer than the {self.dimension} bits of a point")
        if self.b >= 1:
            raise ParameterError("a", self.a, f"more than one of {self.size} cells")

    @classmethod
    def drawn(cls, *, dimension: int, bits: int, a: Number) -> HashedPointRepresentation:
        """One whose seed is drawn now, from the operating system."""
        return cls(dimension=dimension, bits=bits, a=a, seed=int(system().words(1)[0]) >> 11)

    @property
    def size(self) -> int:
        """How many hypotheses there are."""
        return 1 << self.bits

    @property
    def b(self) -> Decimal:
        """How likely no hypothesis is near, from above."""
        return round_up(1 / (self.size * Fraction(self.a)))

    @property
    def log_size(self) -> Decimal:
        """ln of the size, from above."""
        with localcontext(outward.context()):
            return outward.above(outward.ln(Decimal(self.size)))

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
            }
        )
        return result

    def cells(self, x: object) -> npt.NDArray[np.int64]:
        """The cell of each row; -1 of the null record."""
        found = points_of(x, 1 << self.dimension)
        cells = np.zeros(len(found.points), dtype=np.int64)
        for place, mask in enumerate(_masks(self.dimension, self.bits, self.seed)):
            cells |= odd(found.points & mask).astype(np.int64) << place
        return np.where(found.known, cells, -1)

    def occupied(self) -> npt.NDArray[np.bool_]:
        """Which cells hold a point of the domain."""
        columns = self.cells([1 << place for place in range(self.dimension)])
        held = np.zeros(self.size, dtype=np.bool_)
        held[0] = True
        for column in columns.tolist():
            if not held[column]:
                held[np.flatnonzero(held) ^ column] = True
        return held


@functools.lru_cache(maxsize=64)
def _masks(dimension: int, bits: int, seed: int) -> Words:
    """The rows of M, a word each."""
    return seeded(seed, _LABEL).words(bits) >> np.uint64(64 - dimension)


@dataclass(frozen=True, slots=True)
class HashedPoint:
    """1 on the points of one cell."""

    representation: HashedPointRepresentation
    cell: int

    def predict(self, x: object) -> npt.NDArray[np.uint8]:
        """Its label of each row of `x`."""
        labels: npt.NDArray[np.uint8] = np.equal(self.representation.cells(x), self.cell).astype(np.uint8)
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
