"""A conversation by threshold tests: what the caller's queries come to is read, tested in turn, answered.

A query is the caller's code. What it returns is data; if it breaks its contract, the run is closed at its full charge,
before any noise is drawn, and nothing of what went wrong is told: an exception that depends on one unit is an output
without noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, NoReturn, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition
from dpledger.errors import ContractViolation, Halted
from dpledger.mechanisms.callers import came_to
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.turns import Turn
from dpledger.process import Home

__all__ = ["OneTestAQuery", "ThresholdConversation", "ThresholdTests"]

Query = TypeVar("Query")
Queries = TypeVar("Queries")
Answer = TypeVar("Answer")
Value = TypeVar("Value")
Read = TypeVar("Read")


class ThresholdTests(Protocol):
    """The tests of a run and their count, in whole steps."""

    @property
    def asked(self) -> int: ...
    @property
    def charged(self) -> int: ...
    @property
    def left(self) -> int | None: ...
    @property
    def halted(self) -> bool: ...
    @property
    def planned(self) -> Composition: ...
    def ended(self) -> Composition: ...
    def test(self, steps: int, /) -> bool: ...
    def test_many(self, steps: npt.NDArray[Any], /) -> npt.NDArray[np.bool_]: ...


class ThresholdConversation(ABC, Generic[Query, Queries, Answer, Value]):
    """What is asked comes to whole steps, which are tested, and to what is answered if they pass. Shows nothing of the
    data, does not pickle, and refuses in a forked child. Threads may share it: they are answered one after another."""

    what: ClassVar[str]
    """It, in a message."""
    contract: ClassVar[str]
    """What a query did that broke its contract."""

    def __init__(self, tests: ThresholdTests) -> None:
        self._tests = tests
        self._release: Release[Value] | None = None
        self._home = Home(self.what)
        self._turn = Turn(self.what)  # while a test is drawn and counted, never while the caller's code runs

    def __repr__(self) -> str:
        ended = "" if self._release is None else ", closed"
        return f"<{type(self).__name__}: {self.asked} asked{ended}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self.what} does not pickle: a copy would repeat its noise")

    @abstractmethod
    def _read(self, query: Query) -> tuple[int, Any]:
        """A query's steps, and what is answered by them. Whatever it raises breaks the contract."""

    @abstractmethod
    def _read_many(self, queries: Queries) -> tuple[npt.NDArray[Any], Any]:
        """The same of all queries that the run may still answer."""

    @abstractmethod
    def _tested(self, steps: int, read: Any, /) -> Answer:
        """Test a query, and answer it. Inside a turn."""

    @abstractmethod
    def _tested_many(self, steps: npt.NDArray[Any], read: Any, /) -> tuple[Answer, ...]:
        """The same of many, up to the one that halts the run."""

    @abstractmethod
    def _told(self) -> Value:
        """What the caller is told at the end."""

    def _require_many(self, queries: Queries) -> int:
        """How many queries these are. ParameterError for a container that is none, by what is public."""
        return len(queries)  # type: ignore[arg-type]

    def _parts(self, tested: Composition) -> Composition:
        """The parts of the run, of what its tests are."""
        return tested

    @property
    def asked(self) -> int:
        """How many queries were answered."""
        return self._tests.asked

    @property
    def halted(self) -> bool:
        """Whether it halted by its own rule: the last charged answer was given, or `max_queries` were asked."""
        return self._tests.halted

    def ask(self, query: Query, /) -> Answer:
        """The answer to `query` on the data. Raises Halted once the run is over (nothing is drawn or charged);
        ContractViolation if the query breaks its contract (closed, charged in full)."""
        self._check_open()
        steps, read = self._kept(lambda: self._read(query))
        with self._turn:
            self._check_open()  # the query, or another thread, may have asked or closed
            return self._tested(steps, read)

    def ask_many(self, queries: Queries, /) -> tuple[Answer, ...]:
        """The answers to many queries, which do not depend on one another's answers; distributed as if asked one by
        one. Where the run halts the answers end, with the one that halted it: the rest is not answered, costs nothing,
        and its noise is dropped unseen.

        All of them are evaluated before the first is answered (no more than `max_queries` leave). Raises as `ask`;
        ParameterError for a container that holds no queries.
        """
        self._check_open()
        if not self._require_many(queries):
            return ()
        steps, read = self._kept(lambda: self._read_many(queries))
        with self._turn:
            self._check_open()
            return self._tested_many(steps, read)

    def close(self) -> Release[Value]:
        """End the run. The release holds the counts, and the parts with the outcome that its loss is computed from."""
        self._home.require()
        with self._turn:
            return self._close(self._tests.ended(), outside_guarantee=False)

    def _left(self, count: int) -> int:
        """How many of so many queries the run may still answer."""
        left = self._tests.left
        return count if left is None else min(count, left)

    def _check_open(self) -> None:
        self._home.require()
        if self._release is not None:
            raise Halted(f"{self.what} is closed")
        if self.halted:
            raise Halted(f"{self.what} is over: {self._tests.charged} charged answers, {self.asked} queries")

    def _kept(self, read: Callable[[], Read]) -> Read:
        """What the caller's code comes to, if it keeps its contract. What went wrong is not told."""
        found = came_to(read)
        self._home.require()  # the query may have forked
        if found is None:
            with self._turn:
                self._close(self._tests.planned, outside_guarantee=True)
            raise ContractViolation(
                f"{self.contract}; the run is closed and charged in full. "
                "Try the query on public or made-up data to see why"
            )
        return found[0]

    def _close(self, tested: Composition, *, outside_guarantee: bool) -> Release[Value]:
        """Inside a turn."""
        if self._release is None:
            parts = self._parts(tested)
            self._release = Release(value=self._told(), parts=parts, outside_guarantee=outside_guarantee)
        return self._release


class OneTestAQuery(ThresholdConversation[Query, Queries, Answer, Value], Generic[Query, Queries, Answer, Value]):
    """Each query is tested once, and that decides its answer."""

    @abstractmethod
    def _answer(self, passed: bool, read: Any, /) -> Answer:
        """The answer to a query that passed its test, or did not."""

    @abstractmethod
    def _answers(self, passed: npt.NDArray[np.bool_], read: Any, /) -> tuple[Answer, ...]:
        """The same of all that were tested."""

    def _tested(self, steps: int, read: Any, /) -> Answer:
        return self._answer(self._tests.test(steps), read)

    def _tested_many(self, steps: npt.NDArray[Any], read: Any, /) -> tuple[Answer, ...]:
        return self._answers(self._tests.test_many(steps), read)
