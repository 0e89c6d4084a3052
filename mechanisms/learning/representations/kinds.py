"""What a representation may be, and what follows from which of them it is.

>>> told(FiniteClass([[0, 1], [1, 1]]))["concepts"], rows_of_representation(FiniteClass([[0, 1]]))
(2, NumberedPoints(points=2))
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Annotated, TypeAlias, assert_never

from pydantic import PlainValidator

from dpledger.errors import ParameterError, WorkLimit
from dpledger.mechanisms.learning.domains import Domain, NumberedPoints
from dpledger.mechanisms.learning.error_counts import MOST_PARITY_BITS
from dpledger.mechanisms.learning.hypotheses import Concept, Placed
from dpledger.mechanisms.learning.representations.boosted import BoostedRepresentation, Majority
from dpledger.mechanisms.learning.representations.representations import (
    MOST_LISTED,
    HashedPoint,
    HashedPointRepresentation,
    Represented,
    TrivialRepresentation,
)
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, ParityClass, PointClass
from dpledger.schema import Plain

__all__ = [
    "OneRepresentation",
    "Representation",
    "check_listed",
    "held",
    "hypothesis_at",
    "require_fit",
    "rows_of_representation",
    "told",
]

Representation: TypeAlias = HashedPointRepresentation | BoostedRepresentation | TrivialRepresentation | FiniteClass
"""Hypotheses that are there before the data: drawn for a class, the class itself, or any at all, as the rows of a
matrix."""


def representation_from(given: object) -> Representation:
    """What was given, if it is a representation; ParameterError for anything else."""
    if not isinstance(given, HashedPointRepresentation | BoostedRepresentation | TrivialRepresentation | FiniteClass):
        raise ParameterError("representation", type(given).__name__, "a representation, or a FiniteClass")
    return given


OneRepresentation = Annotated[Representation, PlainValidator(representation_from)]
"""A field that holds a representation; it is given as one."""


def check_listed(representation: Representation) -> None:
    """Raise WorkLimit where a learner would have to list too many hypotheses: 2^24 majorities, 2^26 parities."""
    match representation:
        case BoostedRepresentation(size=size, rounds=rounds, copies=copies, bits=bits) if size > MOST_LISTED:
            raise WorkLimit(f"{rounds} rounds of {copies << bits} hypotheses: more than {MOST_LISTED} in all")
        case TrivialRepresentation(concept_class=ParityClass(dimension=dimension)) if dimension > MOST_PARITY_BITS:
            raise WorkLimit(f"parities of {dimension} bits: each is weighed, and more than {MOST_PARITY_BITS} are many")
        case HashedPointRepresentation() | BoostedRepresentation() | TrivialRepresentation() | FiniteClass():
            return
        case _:
            assert_never(representation)


@functools.lru_cache(maxsize=64)
def held(some: FiniteClass, others: FiniteClass) -> bool:
    """Whether each row of a matrix is a row of another."""
    return {row.tobytes() for row in some.matrix} <= {row.tobytes() for row in others.matrix}


def require_fit(concepts: object, representation: Representation) -> None:
    """ParameterError unless the representation is one of hypotheses on the points of the class, in the same form."""
    match concepts, representation:
        case PointClass(points=points), HashedPointRepresentation(dimension=bits) if points == 1 << bits:
            return
        case FiniteClass(points=points), FiniteClass(points=others) if points == others:
            return
        case _:
            raise ParameterError(
                "representation",
                type(representation).__name__,
                "hashed points for a class of as many points, or a matrix on the points of a matrix",
            )


def hypothesis_at(representation: Representation, place: int, concepts: FiniteClass | None) -> Placed:
    """The hypothesis at that place. `concepts`: the class to be learned, where it is known and a matrix."""
    match representation:
        case HashedPointRepresentation():
            return HashedPoint(representation, place)
        case BoostedRepresentation():
            return Majority(representation, place)
        case TrivialRepresentation(concept_class=itself):
            return Concept(itself, place)
        case FiniteClass():
            row = representation.matrix[place]
            known = concepts is not None and bool((concepts.matrix == row).all(axis=1).any())
            return Represented(representation, place, known)
        case _:
            assert_never(representation)


def told(representation: Representation) -> Mapping[str, Plain]:
    """The representation as the record keeps it."""
    match representation:
        case HashedPointRepresentation() | BoostedRepresentation() | TrivialRepresentation():
            return representation.parameters()
        case FiniteClass():
            return representation.described()
        case _:
            assert_never(representation)


def rows_of_representation(representation: Representation) -> Domain:
    """The rows that its hypotheses are functions of."""
    match representation:
        case HashedPointRepresentation(dimension=dimension) | BoostedRepresentation(dimension=dimension):
            return NumberedPoints(1 << dimension)
        case TrivialRepresentation(concept_class=concepts):
            return concepts.domain
        case FiniteClass(points=points):
            return NumberedPoints(points)
        case _:
            assert_never(representation)
