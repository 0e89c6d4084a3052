"""A run over values and distances: each query is tested by its distance, and answered by its value or by UNSTABLE.

The tests are those of a sparse vector (`mechanisms/threshold/epochs.py`), or any with their protocol; what a query
comes to is the word of a `QuerySource`: the caller's own code, or votes of an ensemble.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition
from dpledger.errors import ParameterError
from dpledger.mechanisms.stability.answers import UNSTABLE, SideBySide, StableAnswer, StableCounts, pair_of, unstable
from dpledger.mechanisms.threshold.conversation import OneTestAQuery, ThresholdTests

__all__ = ["Pairs", "QueriesOn", "QuerySource", "StableQuery", "StableRun"]

Query = TypeVar("Query")
Queries = TypeVar("Queries")
Query_contra = TypeVar("Query_contra", contravariant=True)
Queries_contra = TypeVar("Queries_contra", contravariant=True)

Pairs: TypeAlias = "tuple[npt.NDArray[Any], npt.NDArray[np.int64]]"
"""Values, and distances in whole steps from 0 to FAR, side by side."""

StableQuery: TypeAlias = "tuple[Hashable, Any] | Callable[[Any], tuple[Hashable, Any]]"
"""A function of the data that comes to (value, distance), or what it comes to."""


class QuerySource(Protocol[Query_contra, Queries_contra]):
    """What queries come to on the data. `count` alone may refuse what is asked, with an InputError, by what is public;
    whatever the others raise breaks the contract of the caller's code."""

    def count(self, queries: Queries_contra, /) -> int:
        """How many queries these are."""
        ...

    def pair(self, query: Query_contra, /) -> tuple[Hashable, int]:
        """A query's value, and its distance in whole steps from 0 to FAR."""
        ...

    def pairs(self, queries: Queries_contra, most: int, /) -> Pairs:
        """The same of the first `most` queries."""
        ...


class QueriesOn:
    """Queries that are the caller's functions of the data, or what they come to."""

    def __init__(self, data: object) -> None:
        self._data = data

    def count(self, queries: list[Any] | tuple[Any, ...] | SideBySide) -> int:
        """ParameterError for anything but a list, a tuple, or `SideBySide`."""
        if not isinstance(queries, (list, tuple, SideBySide)):
            raise ParameterError("queries", type(queries).__name__, "a list or a tuple of queries, or SideBySide")
        return len(queries)

    def pair(self, query: StableQuery) -> tuple[Hashable, int]:
        """What a query comes to."""
        return pair_of(query(self._data) if callable(query) else query)

    def pairs(self, queries: list[Any] | tuple[Any, ...] | SideBySide, most: int) -> Pairs:
        """What each of many queries comes to."""
        if isinstance(queries, SideBySide):
            return queries.first(most)
        found = [self.pair(query) for query in queries[:most]]
        values = np.fromiter((value for value, _ in found), dtype=object, count=len(found))
        return values, np.array([distance for _, distance in found], dtype=np.int64)


class StableRun(OneTestAQuery[Query, Queries, StableAnswer, StableCounts], Generic[Query, Queries]):
    """The conversation of a mechanism that releases values. A query that breaks its contract (it raises; its distance
    is no whole number of at least 0 and not infinite; its value cannot be hashed) ends it at its full charge.

    `parts`: what the tests are part of, where the mechanism's parts are more than they.
    """

    what = "a run over stable values"
    contract = "a query raised, or came to no pair of a hashable value and a whole distance of 0 or more"

    def __init__(
        self,
        tests: ThresholdTests,
        source: QuerySource[Query, Queries],
        parts: Callable[[Composition], Composition] | None = None,
    ) -> None:
        super().__init__(tests)
        self._source = source
        self._around = parts

    def _require_many(self, queries: Queries) -> int:
        return self._source.count(queries)

    def _read(self, query: Query) -> tuple[int, Hashable]:
        value, distance = self._source.pair(query)
        return distance, value

    def _read_many(self, queries: Queries) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        values, distances = self._source.pairs(queries, self._left(self._source.count(queries)))
        return distances, values

    def _answer(self, passed: bool, read: Hashable, /) -> StableAnswer:
        return read if passed else UNSTABLE

    def _answers(self, passed: npt.NDArray[np.bool_], read: npt.NDArray[Any], /) -> tuple[StableAnswer, ...]:
        answers = unstable(len(passed))
        answers[passed] = read[: len(passed)][passed]
        return tuple(answers.tolist())

    def _told(self) -> StableCounts:
        charged = self._tests.charged
        return StableCounts(asked=self.asked, answered=self.asked - charged, unstable=charged, halted=self.halted)

    def _parts(self, tested: Composition) -> Composition:
        return tested if self._around is None else self._around(tested)
