"""An open interaction over an ensemble: each query is voted on by all models, and answered if the winner is far ahead.

What a model does with a query raises nothing (it abstains), so no query breaks a contract. A query is public: one of
another shape than the rows that were fitted is refused before anything is drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence, Sized
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition
from dpledger.errors import Halted, ParameterError
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.stability.answers import StableAnswer, StableCounts
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble, queries_of, query_of, votes_of
from dpledger.mechanisms.stability.ensembles.votes import Distance, winners
from dpledger.mechanisms.stability.stable_run import Pairs, StableRun
from dpledger.mechanisms.threshold.conversation import ThresholdConversation, ThresholdTests

__all__ = ["AboutRows", "AsRows", "AsTheyAre", "EnsembleRun", "QueryReading", "VotesOf", "taken"]

Answer = TypeVar("Answer")
Value = TypeVar("Value")

_BLOCK = 2**14  # queries at a time: what is voted on after a halt is wasted

PUBLIC_COINS = (
    "the chunks of this ensemble were drawn from a source that was not secret: the guarantee holds against those who "
    "do not know its seed"
)


class QueryReading(Protocol):
    """How queries are read before they are voted on. ParameterError for what cannot be read, by what is public."""

    def one(self, query: Any, /) -> Any:
        """A query alone."""
        ...

    def many(self, queries: Any, /) -> Any:
        """Many of them: something with a length, of which `taken` takes some."""
        ...


class AsRows:
    """Queries that are rows like those that were fitted."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble = ensemble

    def one(self, row: Any) -> Any:
        """A row alone."""
        return query_of(self._ensemble, row)

    def many(self, rows: Any) -> Any:
        """Many of them."""
        return queries_of(self._ensemble, rows)


class AsTheyAre:
    """Queries that are handed to the models as they are, in a list, or in the array or table that they came in."""

    def one(self, query: Any) -> Any:
        """A query alone."""
        return [query]

    def many(self, queries: Any) -> Any:
        """Many of them. ParameterError for what has no items by position."""
        is_list = isinstance(queries, Sequence) and not isinstance(queries, (str, bytes, bytearray, memoryview))
        is_array = isinstance(queries, np.ndarray) and queries.ndim > 0
        if not (is_list or is_array or (hasattr(queries, "iloc") and isinstance(queries, Sized))):
            raise ParameterError("queries", type(queries).__name__, "a list, an array or a table, a query an item")
        return list(queries) if is_list else queries


class VotesOf:
    """What queries come to on an ensemble: the winner of the votes, and half the gap to the next."""

    def __init__(self, ensemble: Ensemble, distance: Distance) -> None:
        self._ensemble, self._distance = ensemble, distance

    def count(self, queries: Any) -> int:
        """How many these are."""
        return len(queries)

    def pair(self, query: Any) -> tuple[Hashable, int]:
        """One query, in a container of it alone."""
        values, distances = self.pairs(query, 1)
        return int(values[0]), int(distances[0])

    def pairs(self, queries: Any, most: int) -> Pairs:
        """The winner and the distance of the first `most` queries."""
        assert self._ensemble.classes is not None, "inspected: models name classes"
        votes = votes_of(self._ensemble, taken(queries, 0, most))
        found = winners(votes, self._ensemble.classes, self._distance)
        return found.values, found.distances


class AboutRows(ThresholdConversation[Any, Any, Answer, Value], Generic[Answer, Value]):
    """What conversations over an ensemble share: queries are read first, and voted on in blocks."""

    what = "an interaction over an ensemble"
    _ensemble: Ensemble
    _reading: QueryReading

    def ask(self, query: Any, /) -> Answer:
        """What the models agree on, or UNSTABLE. ParameterError for a query of another shape than the rows that were
        fitted; Halted once the run is over. In both cases nothing is drawn or charged."""
        self._check_open()
        return super().ask(self._reading.one(query))

    def ask_many(self, queries: Any, /) -> tuple[Answer, ...]:
        """The answers to many queries, as if asked one by one (but that a model which fails on one of them abstains on
        those beside it); they end where the run halts. Raises as `ask`."""
        self._check_open()
        prepared = self._reading.many(queries)
        answers: list[Answer] = []
        for start in range(0, len(prepared), _BLOCK):
            try:
                answers += super().ask_many(taken(prepared, start, start + _BLOCK))
            except Halted:  # in the block before, or by another thread: what was answered counts
                if not answers:
                    raise
                break
        return tuple(answers)

    def _close(self, tested: Composition, *, outside_guarantee: bool) -> Release[Value]:
        if self._release is None:
            release = super()._close(tested, outside_guarantee=outside_guarantee)
            warnings = (PUBLIC_COINS,) if self._ensemble.drawn_in_public else ()
            self._release = dataclasses.replace(release, warnings=warnings)
        return self._release


class EnsembleRun(AboutRows[StableAnswer, StableCounts], StableRun[Any, Any]):
    """The conversation of a mechanism over an ensemble. An answer is a class, or UNSTABLE."""

    def __init__(
        self,
        tests: ThresholdTests,
        ensemble: Ensemble,
        distance: Distance,
        reading: QueryReading,
        parts: Callable[[Composition], Composition],
    ) -> None:
        super().__init__(tests, VotesOf(ensemble, distance), parts)
        self._ensemble, self._reading = ensemble, reading


def taken(queries: Any, start: int, stop: int) -> Any:
    """Some of many queries, by position."""
    found: npt.NDArray[Any] = queries.iloc[start:stop] if hasattr(queries, "iloc") else queries[start:stop]
    return found
