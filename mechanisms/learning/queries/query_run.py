"""The conversation of a statistical query oracle: a query is asked of every record by itself, and its values are added.

A query is the caller's code. What it comes to is data; if it breaks its contract, the run is closed at its full charge,
before any noise is drawn, and nothing of what went wrong is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeAlias, overload

import numpy as np

from dpledger.accounting.composition import Composition
from dpledger.decimals import Number, read
from dpledger.errors import ContractViolation, Halted, ParameterError
from dpledger.mechanisms.callers import came_to
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.queries.domain_queries import Records
from dpledger.mechanisms.learning.queries.ranges import QueryRange
from dpledger.mechanisms.noise import Law, Sensitivity, draw
from dpledger.mechanisms.numeric.grid import to_floats
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.turns import Turn
from dpledger.process import Home
from dpledger.schema import listed, one_text

__all__ = ["JointQuery", "QueriesAsked", "QueryAnswer", "QueryRun", "RowQuery", "StatisticalQuery"]

RowQuery: TypeAlias = Callable[[Any, Any], Any]
"""A function of rows and labels that comes to one number a row, each by its own row and label alone."""

QueryAnswer: TypeAlias = "int | float | tuple[int | float, ...]"
"""A sum or a mean; of a joint query, one for each of those that it asks."""

_MOST_JOINT = 10**6
_MOST_TEXT = 500


def _row_queries(value: object) -> tuple[RowQuery, ...]:
    asked = listed(value, field="of", most=_MOST_JOINT)
    if not asked or not all(map(_is_query, asked)):
        raise ParameterError("of", f"{len(asked)} items", "at least one function of rows and labels, and nothing else")
    return tuple(asked)


def _is_query(value: object) -> bool:
    return callable(value) and not isinstance(value, type)


@dataclass(frozen=True, slots=True)
class JointQuery:
    """Several queries at once, that count as one: their noise is set by how far one record moves all their sums
    together, `l1`, in the l1 norm and after each value is clipped; where one unit may have many records, one that comes
    or goes too, under every relation. The caller vouches for it; `justification` says in
    one line why it holds.

    >>> bins = [lambda x, y, at=at: x == at for at in range(8)]
    >>> JointQuery(bins, l1=2, justification="a record that is replaced leaves one bin for another").l1
    Decimal('2')
    """

    of: Sequence[RowQuery]
    l1: Number
    justification: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", _row_queries(self.of))
        moved = read(self.l1, field="l1")
        if not moved > 0:
            raise ParameterError("l1", moved, "a number above 0")
        object.__setattr__(self, "l1", moved)
        if not 0 < len(one_text(self.justification, field="justification")) <= _MOST_TEXT:
            raise ParameterError("justification", "another text", f"one line of at most {_MOST_TEXT} characters")


StatisticalQuery: TypeAlias = RowQuery | JointQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriesAsked:
    """What a run comes to: how many queries were asked, of how many planned."""

    asked: int
    planned: int


class QueryPlan(Protocol):
    """What a run needs to know of its oracle."""

    @property
    def queries(self) -> int: ...
    @property
    def range(self) -> QueryRange: ...
    def _law(self, joint: JointQuery | None) -> tuple[Law, Sensitivity]: ...
    def _ended(self, asked: int | None) -> Composition: ...
    def _divisor(self, records: int) -> int | None: ...


class QueryRun:
    """The conversation. Shows nothing of the data, does not pickle, and refuses in a forked child. Threads may share
    it: each query has a number of its own, and answers are drawn one after another.

    `records`: those that query number i is asked of."""

    def __init__(self, plan: QueryPlan, records: Callable[[int], Records], entropy: Entropy) -> None:
        self._plan = plan
        self._range, self._alone = plan.range, plan._law(None)
        self._records = records
        self._entropy = entropy
        self._asked = 0
        self._release: Release[QueriesAsked] | None = None
        self._home = Home("a run of statistical queries")
        self._turn = Turn("a run of statistical queries")  # while something is counted or drawn, never in a query

    def __repr__(self) -> str:
        ended = "" if self._release is None else ", closed"
        return f"<{type(self).__name__}: {self._asked} of {self._plan.queries} asked{ended}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run of statistical queries does not pickle: a copy would repeat its noise")

    @property
    def asked(self) -> int:
        """How many queries were asked."""
        return self._asked

    @overload
    def ask(self, query: RowQuery, /) -> int | float: ...
    @overload
    def ask(self, query: JointQuery, /) -> tuple[int | float, ...]: ...
    def ask(self, query: StatisticalQuery, /) -> QueryAnswer:
        """The noisy sum of the query's values, or their mean where the number of records is public.

        Raises Halted once all queries were asked or the run is closed (nothing is drawn), ParameterError for what is no
        query, ContractViolation if one raises or comes to anything but a number a row (closed, charged in full)."""
        self._home.require()
        asked = _queries(query)
        law, sensitivity = self._plan._law(query) if isinstance(query, JointQuery) else self._alone
        with self._turn:
            self._check_open()
            number, self._asked = self._asked, self._asked + 1
        records = self._records(number)
        sums = came_to(lambda: records.sums(asked, self._range))
        self._home.require()  # the query may have forked
        with self._turn:
            if sums is None:
                self._close(self._plan._ended(None), outside_guarantee=True)
            elif self._release is None:
                noisy = draw(law, _whole(sums[0]), sensitivity=sensitivity, entropy=self._entropy)
                answers = tuple(self._told(value, records.rows) for value in noisy.tolist())
                return answers if isinstance(query, JointQuery) else answers[0]
            else:
                raise Halted("the run of statistical queries was closed while the query ran")
        raise ContractViolation(
            "a query raised, or came to no column of one number a row; the run is closed and charged in full. "
            "Try the query on public or made-up data to see why"
        )

    def close(self) -> Release[QueriesAsked]:
        """End the run. Queries that were never asked are not charged, as far as the ledger saw that they were not."""
        self._home.require()
        with self._turn:
            return self._close(self._plan._ended(self._asked), outside_guarantee=False)

    def _told(self, steps: int, rows: int) -> int | float:
        """An answer, of its noisy sum in steps."""
        grid = self._range.grid
        total: int | float = steps if grid == 1 else float(to_floats(np.array([steps]), grid)[0])
        by = self._plan._divisor(rows)
        return total if by is None else total / by

    def _check_open(self) -> None:
        if self._release is not None:
            raise Halted("the run of statistical queries is closed")
        if self._asked >= self._plan.queries:
            raise Halted(f"all {self._plan.queries} statistical queries were asked")

    def _close(self, parts: Composition, *, outside_guarantee: bool) -> Release[QueriesAsked]:
        """Inside a turn."""
        if self._release is None:
            told = QueriesAsked(asked=self._asked, planned=self._plan.queries)
            self._release = Release(value=told, parts=parts, outside_guarantee=outside_guarantee)
        return self._release


def _queries(query: object) -> tuple[RowQuery, ...]:
    """The queries that one asks. ParameterError for what is none."""
    if isinstance(query, JointQuery):
        return tuple(query.of)
    if not _is_query(query):
        raise ParameterError("query", type(query).__name__, "a function of rows and labels, or a JointQuery")
    asked: Any = query
    return (asked,)


def _whole(sums: list[int]) -> Any:
    small = all(abs(one) < 2**62 for one in sums)
    return np.array(sums, dtype=np.int64 if small else object)
