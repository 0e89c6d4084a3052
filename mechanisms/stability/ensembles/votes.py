"""Votes of the models of chunks: which class wins each query, and how many votes must change before another one does.

One unit alters the votes of one model, on each query from one class (or an abstention) to another. Ties go to the
smallest class. A vote for a class that does not exist is an abstention.

>>> votes = np.array([[0, 0, 1], [0, 1, 1], [0, 1, -1], [0, 0, 7], [1, 1, 1]])  # five models, three queries
>>> counts(votes, 2).tolist()
[[4, 1], [2, 3], [0, 3]]
>>> found = winners(votes, 2)
>>> found.values.tolist(), found.distances.tolist()
([0, 1, 1], [1, 0, 1])
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.errors import ParameterError

__all__ = ["ABSTAINS", "MOST_CLASSES", "Distance", "Winners", "counts", "winners"]

Distance: TypeAlias = Literal["halved", "exact"]
Wholes: TypeAlias = npt.NDArray[np.int64]

ABSTAINS = -1
MOST_CLASSES = 2**20
_BLOCK = 2**20  # votes or counts held at a time
_FEW_CLASSES = 16  # so many passes over a block take about as long as one that counts all classes


@dataclass(frozen=True, slots=True, kw_only=True)
class Winners:
    """Of each query the class with the most votes, and its distance to a table of votes where that is not sure."""

    values: Wholes
    distances: Wholes


def counts(votes: npt.NDArray[Any], classes: int) -> Wholes:
    """How many models vote for each class: int64[queries, classes]. `votes`: integers, a row a model, a column a
    query."""
    _check(votes, classes)
    found = np.empty((votes.shape[1], classes), dtype=np.int64)
    for block in _blocks(votes, classes):
        found[block] = _counted(votes[:, block], classes)
    return found


def winners(votes: npt.NDArray[Any], classes: int, distance: Distance = "halved") -> Winners:
    """The winner of each query, and its distance: "halved", ceil(gap / 2) - 1 of the gap between the two largest
    counts, at least 0; or "exact", which is larger by one in some ties, and costs some more time.

    Claim: where one model changes its votes, each distance moves by at most 1; where the winner changes, it is 0 before
    and after. "exact" is the greatest such distance, but for a single class, of which nothing changes.
    Source: docs/proofs/stability.md, "Votes".
    """
    _check(votes, classes)
    values = np.empty(votes.shape[1], dtype=np.int64)
    distances = np.empty(votes.shape[1], dtype=np.int64)
    for block in _blocks(votes, classes):
        tallied = _counted(votes[:, block], classes)
        values[block] = won = tallied.argmax(axis=1)
        distances[block] = _halved(tallied) if distance == "halved" else _exact(tallied, won)
    return Winners(values=values, distances=distances)


def _check(votes: npt.NDArray[Any], classes: int) -> None:
    if not isinstance(votes, np.ndarray) or votes.ndim != 2 or votes.dtype.kind not in "iu":
        raise ParameterError("votes", type(votes).__name__, "an array of integers: a row a model, a column a query")
    if not 1 <= classes <= MOST_CLASSES:
        raise ParameterError("classes", classes, f"a whole number from 1 to {MOST_CLASSES}")


def _blocks(votes: npt.NDArray[Any], classes: int) -> Iterator[slice]:
    """Queries, as many at a time as memory is meant for."""
    models, queries = votes.shape
    width = max(1, _BLOCK // max(models, classes + 1))
    for start in range(0, queries, width):
        yield slice(start, min(start + width, queries))


def _counted(votes: npt.NDArray[Any], classes: int) -> Wholes:
    """The votes of a block for each class: a pass for each of few, one pass for many, in which cell 0 of each query
    holds the abstentions and cell j + 1 the votes for class j."""
    if classes <= _FEW_CLASSES:
        narrow = np.min_scalar_type(len(votes))
        return np.stack([(votes == one).sum(axis=0, dtype=narrow) for one in range(classes)], axis=1).astype(np.int64)
    queries, cells = votes.shape[1], classes + 1
    known = (votes >= 0) & (votes < classes)
    places = votes.astype(np.int64) + 1
    places[~known] = 0
    places += np.arange(queries, dtype=np.int64) * cells
    found = np.bincount(places.ravel(), minlength=queries * cells).reshape(queries, cells)
    return found[:, 1:].astype(np.int64, copy=False)


def _halved(tallied: Wholes) -> Wholes:
    """max(0, ceil(gap / 2) - 1); a class that stands alone leads by all its votes."""
    if tallied.shape[1] == 1:
        gaps = tallied[:, 0]
    else:
        largest = np.partition(tallied, -2, axis=1)[:, -2:]
        gaps = largest[:, 1] - largest[:, 0]
    return np.asarray(np.maximum(0, (gaps - 1) // 2))


def _exact(tallied: Wholes, won: Wholes) -> Wholes:
    """The votes that must move before some other class may win. One that comes after the winner must get ahead of it,
    one that comes before needs no more than a tie."""
    queries, classes = tallied.shape
    if classes == 1:
        return np.asarray(tallied[:, 0] // 2)
    leads = tallied[np.arange(queries), won][:, None] - tallied
    before = np.arange(classes) < won[:, None]
    needed = np.where(before, (leads - 1) // 2, leads // 2)
    needed[np.arange(queries), won] = np.iinfo(np.int64).max
    return np.asarray(np.maximum(0, needed.min(axis=1)))
