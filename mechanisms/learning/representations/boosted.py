"""Majorities of hashed points: nearer to every point than their parts, and far more of them.

>>> boosted = BoostedRepresentation(dimension=20, a="0.6", b="0.5", seed=7)
>>> boosted.rounds, boosted.copies, boosted.size
(4, 2, 1048576)
>>> BoostedRepresentation(dimension=20, a="0.1", b="0.05", seed=7).log_size
Decimal('74.4944527896')
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.decimals import Number
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.representations.representations import (
    HashedPointRepresentation,
    Seed,
    check_coarser,
    fresh_seed,
)
from dpledger.mechanisms.learning.representations.sizes import BoostedSize, boosted_size
from dpledger.mechanisms.learning.samples import points_of
from dpledger.mechanisms.learning.theory.needed_units import natural_log
from dpledger.mechanisms.numeric.rows import check_rows
from dpledger.number_fields import OpenProbability, Whole
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["BoostedRepresentation", "Majority", "ones_of"]

_LABEL = 4  # of the stream that the seeds of rounds are drawn from
_QUARTER = Decimal("0.25")

Words: TypeAlias = npt.NDArray[np.uint64]


@record
class BoostedRepresentation:
    """Majorities of `rounds` hypotheses, one of each of so many unions of `copies` hashes with 2^bits cells, all drawn
    independently from `seed`.

    Claim: an (a, b)-representation of the points of `dimension` bits. Source: docs/proofs/learning_representations.md,
    section 5; Li-Wang-Ye 2024, lemma 2.4. It has (copies 2^bits)^rounds hypotheses: a learner lists them, and refuses
    more than 2^24.

    >>> boosted = dpl.learning.BoostedRepresentation(dimension=20, a="0.6", b="0.5", seed=7)
    >>> boosted.rounds, boosted.copies, boosted.size
    (4, 2, 1048576)
    """

    dimension: Annotated[Whole, Field(strict=True, ge=5, le=64)]
    a: OpenProbability
    b: OpenProbability
    seed: Seed
    bits: Annotated[Whole, Field(strict=True, ge=4, le=24)] = given(default=4)
    kind: Literal["boosted_points"] = tag(default="boosted_points")

    def __post_init__(self) -> None:
        check_coarser(self.bits, self.dimension)

    @classmethod
    def drawn(cls, *, dimension: int, a: Number, b: Number, bits: int = 4) -> BoostedRepresentation:
        """One whose seed is drawn now, from the operating system."""
        return cls(dimension=dimension, a=a, b=b, seed=fresh_seed(), bits=bits)

    @property
    def rounds(self) -> int:
        """How many hypotheses vote."""
        return self._shape.rounds

    @property
    def copies(self) -> int:
        """How many hashes each of them is of."""
        return self._shape.copies

    @property
    def size(self) -> int:
        """How many majorities there are, equal ones counted."""
        return int((self.copies << self.bits) ** self.rounds)

    @property
    def log_size(self) -> Decimal:
        """ln of the size, from above."""
        return self._shape.log_size

    @property
    def unions(self) -> tuple[HashedPointRepresentation, ...]:
        """The hypotheses of each round."""
        return _unions(self.dimension, self.bits, self.copies, self.rounds, self.seed)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with what follows."""
        result: dict[str, Plain] = plain(
            {
                "kind": self.kind,
                "dimension": self.dimension,
                "bits": self.bits,
                "a": self.a,
                "b": self.b,
                "rounds": self.rounds,
                "copies": self.copies,
                "log_size": self.log_size,
                "seed": self.seed,
            }
        )
        return result

    @property
    def _shape(self) -> BoostedSize:
        return _shape(self.bits, self.a, self.b)


def ones_of(boosted: BoostedRepresentation, points: Words) -> Iterator[npt.NDArray[np.bool_]]:
    """Of each point, which of all majorities are 1 there."""
    each = boosted.copies << boosted.bits
    cells = [[union.cells(points, copy=copy) for copy in range(boosted.copies)] for union in boosted.unions]
    for at in range(len(points)):
        votes = np.zeros(boosted.size, dtype=np.int8)
        for place, hashes in enumerate(cells):
            by_round = votes.reshape(each**place, each, -1)
            for copy, found in enumerate(hashes):
                by_round[:, (copy << boosted.bits) + int(found[at]), :] += 1
        yield 2 * votes > boosted.rounds


@functools.lru_cache(maxsize=64)
def _shape(bits: int, a: Decimal, b: Decimal) -> BoostedSize:
    return boosted_size(natural_log(1 << bits), a, b)


@functools.lru_cache(maxsize=64)
def _unions(dimension: int, bits: int, copies: int, rounds: int, seed: int) -> tuple[HashedPointRepresentation, ...]:
    seeds = (seeded(seed, _LABEL).words(rounds) >> np.uint64(11)).tolist()
    return tuple(
        HashedPointRepresentation(dimension=dimension, bits=bits, a=_QUARTER, seed=one, copies=copies) for one in seeds
    )


@dataclass(frozen=True, slots=True)
class Majority:
    """1 where more than half of its hypotheses are; `place`: their cells, a digit a round, the first the highest."""

    representation: BoostedRepresentation
    place: int

    def predict(self, x: object) -> npt.NDArray[np.uint8]:
        """Its label of each row of `x`; 0 of the null record."""
        check_rows(x)
        boosted = self.representation
        found = points_of(x, 1 << boosted.dimension)
        votes, left = np.zeros(len(found.points), dtype=np.int64), self.place
        for union in reversed(boosted.unions):
            left, digit = divmod(left, union.size)
            copy, cell = divmod(digit, union.cells_each)
            votes += union.cells(found.points, copy=copy) == cell
        labels: npt.NDArray[np.uint8] = ((2 * votes > boosted.rounds) & found.known).astype(np.uint8)
        return labels

    @property
    def params(self) -> Mapping[str, Plain]:
        """Its place, in text, and the seed that says what is there."""
        return {"place": str(self.place), "seed": self.representation.seed}

    @property
    def output_in_class(self) -> bool:
        """It is no point."""
        return False
