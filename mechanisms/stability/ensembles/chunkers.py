"""Which chunk each unit is in, so that one neighbouring change alters what exactly one chunk holds.

    slots       unit i is in chunk i mod k, where the number of units is public (all relations but add_remove)
    random      each unit draws its chunk from a secret source, whoever else there is (add_remove)
    Hashed      the chunk is a hash of a public salt and the unit's id (all relations; two chunks under replace_one)

A list that is cut into runs, one behind the other, is none of them: one unit more shifts every chunk behind it.

>>> seats("slots", Units.of([7] * 5), chunks=3, entropy=None).tolist()
[0, 1, 2, 0, 1]
>>> from dpledger.mechanisms.units import ByUnit
>>> people = Units.of(ByUnit([1, 2, 3], units=["ann", "bob", "ann"]))
>>> seats(Hashed("trial 7"), people, chunks=100, entropy=None).tolist()
[68, 93]
>>> moved(Hashed("trial 7"), Relation.ADD_REMOVE), moved(Hashed("trial 7"), Relation.REPLACE_ONE)
(1, 2)
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
from pydantic import StringConstraints

from dpledger.errors import ParameterError, RelationError
from dpledger.mechanisms.entropy import Entropy, system
from dpledger.mechanisms.noise import uniform
from dpledger.mechanisms.units import Units
from dpledger.relations import Relation
from dpledger.schema import Plain, record, tag

__all__ = ["Chunker", "Hashed", "by_relation", "described", "moved", "seats"]


@record
class Hashed:
    """Each unit's chunk by a hash of its id and of `salt`, a public text that is chosen without a look at the data.

    >>> def majority(rows, labels):
    ...     return lambda asked: np.full(len(asked), labels.mean() > 0.5, dtype=int)
    >>> rows = dpl.ByUnit((np.zeros((90, 2)), [1] * 90), units=[f"person {i}" for i in range(90)])
    >>> dpl.stability.Ensemble.fit(majority, rows, 3, dpl.stability.Hashed("trial 7"))
    Ensemble(...)
    """

    salt: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    kind: Literal["hashed"] = tag(default="hashed")


Chunker: TypeAlias = Literal["slots", "random"] | Hashed
"""A way to deal units to chunks."""


def by_relation(relation: Relation) -> Chunker:
    """What "auto" is: random where units come and go, slots where their number is public."""
    return "random" if relation is Relation.ADD_REMOVE else "slots"


def moved(chunker: Chunker, relation: Relation) -> int:
    """How many chunks hold something else after one neighbouring change: 1 or 2. RelationError where there is no bound.

    Claim: at most as many, for every pair of neighbours. Source: docs/proofs/stability.md, "Chunks".
    """
    match chunker:
        case "slots":
            if relation is Relation.ADD_REMOVE:
                raise RelationError(
                    "chunks by position have no guarantee under add_remove: one unit more shifts those behind it, and "
                    'how many there are is private; use chunker="random" or Hashed(salt)'
                )
            return 1
        case "random":
            if relation is not Relation.ADD_REMOVE:
                raise RelationError(
                    f'random chunks are for add_remove, the scope is {relation.value}: use chunker="slots" or "auto"'
                )
            return 1
        case Hashed():
            return 2 if relation is Relation.REPLACE_ONE else 1
        case _:
            assert_never(chunker)


def described(chunker: Chunker) -> dict[str, Plain]:
    """A chunker as parameters of the record."""
    match chunker:
        case "slots" | "random":
            return {"chunker": chunker}
        case Hashed():
            return {"chunker": chunker.kind, "salt": chunker.salt}
        case _:
            assert_never(chunker)


def seats(chunker: Chunker, units: Units, *, chunks: int, entropy: Entropy | None) -> npt.NDArray[np.int64]:
    """The chunk of each unit. `entropy`: where random chunks are drawn from; None: the operating system.

    ParameterError where the units do not suit the chunker: slots need as many units as chunks at least, and items that
    are units; hashes need ids.
    """
    match chunker:
        case "slots":
            return _slots(units, chunks)
        case "random":
            source = system() if entropy is None else entropy
            return uniform(chunks, len(units), entropy=source, given=True).astype(np.int64)
        case Hashed():
            return _hashes(units, chunks, chunker.salt)
        case _:
            assert_never(chunker)


def _slots(units: Units, chunks: int) -> npt.NDArray[np.int64]:
    if units.groups is not None:
        expected = "items that are whole units (an id's place among the ids is no public slot), or Hashed(salt)"
        raise ParameterError("chunker", "slots, and ids", expected)
    if len(units) < chunks:
        raise ParameterError("chunks", chunks, f"at most one for each of the {len(units)} units")
    return np.arange(len(units), dtype=np.int64) % chunks


def _hashes(units: Units, chunks: int, salt: str) -> npt.NDArray[np.int64]:
    if units.words is None:
        raise ParameterError(
            "ids", "nothing, and hashed chunks", "an id for each row: ids=, or ByUnit(rows, units=ids)"
        )
    public = salt.encode()
    before = hashlib.sha256(b"dpledger chunk\0" + len(public).to_bytes(8, "big") + public)

    def number(word: str) -> int:
        own = before.copy()
        own.update(word.encode("utf-8", "surrogatepass"))
        return int.from_bytes(own.digest()) % chunks

    return np.array([number(word) for word in units.words], dtype=np.int64)
