"""The conversation of soft labels: a query is tested in one partition, and where that fails in its shift.

    plain distance + noise > W:    the middle of the plain bin                                    free
    else, unless the run is over:  shifted distance + noise > W', a fresh one: the middle of the shifted bin
                                                                                                  one failed test
    else UNSTABLE                                                                                 two, or the last one
The run is over with its `failed_tests`-th failed test: where that was a plain one, the shifted one is not run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Composition
from dpledger.decimals import whole
from dpledger.mechanisms.stability.answers import UNSTABLE, Unstable, unstable
from dpledger.mechanisms.stability.ensembles.asking import AboutRows, AsRows, taken
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble, alone_of, votes_of
from dpledger.mechanisms.stability.ensembles.votes import Distance
from dpledger.mechanisms.stability.labels.partitions import FEWEST_BINS, MOST_BINS, Histograms, histograms
from dpledger.mechanisms.threshold.epochs import Epochs

__all__ = ["SoftAnswer", "SoftCounts", "SoftQuery", "SoftRun"]

SoftAnswer: TypeAlias = "float | Literal[Unstable.UNSTABLE]"
"""The middle of a bin, or UNSTABLE."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SoftQuery:
    """A row with a number of bins of its own, chosen from public information or from earlier answers.

    >>> query = dpl.stability.SoftQuery(row=[0.5, 2.0], bins=4)
    >>> query.bins
    4
    """

    row: Any
    bins: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "bins", whole(self.bins, field="bins", least=FEWEST_BINS, most=MOST_BINS))

    def __repr__(self) -> str:
        return f"SoftQuery(..., bins={self.bins})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftCounts:
    """What a run answered, in numbers: all of it is known to whoever got the answers."""

    asked: int
    passed_plain: int
    passed_shifted: int
    unstable: int
    failed_tests: int
    halted: bool


@dataclass(frozen=True, slots=True)
class _Asked:
    """Rows as models get them, each with its number of bins."""

    rows: Any
    bins: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.bins)

    def __getitem__(self, part: slice) -> _Asked:
        return _Asked(taken(self.rows, part.start, part.stop), self.bins[part])


class _AsSoft:
    """Queries that are rows, or `SoftQuery`s."""

    def __init__(self, ensemble: Ensemble, bins: int) -> None:
        self._ensemble, self._rows, self._bins = ensemble, AsRows(ensemble), bins

    def one(self, query: Any) -> _Asked:
        """A query alone."""
        row, bins = (query.row, query.bins) if isinstance(query, SoftQuery) else (query, self._bins)
        return _Asked(self._rows.one(row), np.array([bins]))

    def many(self, queries: Any) -> _Asked:
        """Many of them; a `SoftQuery` may stand among rows in a list."""
        if not isinstance(queries, (list, tuple)) or not any(isinstance(one, SoftQuery) for one in queries):
            rows = self._rows.many(queries)
            return _Asked(rows, np.full(len(rows), self._bins))
        each = [one if isinstance(one, SoftQuery) else SoftQuery(one, self._bins) for one in queries]
        rows = self._rows.many([alone_of(self._ensemble, one.row) for one in each])
        return _Asked(rows, np.array([one.bins for one in each]))


class SoftRun(AboutRows[SoftAnswer, SoftCounts]):
    """The conversation. An answer is the middle of a bin, or UNSTABLE; `max_queries` of them halt it, if given."""

    what = "a run of soft labels"
    contract = "a query came to no scores"

    def __init__(
        self,
        tests: Epochs,
        ensemble: Ensemble,
        distance: Distance,
        bins: int,
        parts: Callable[[Composition], Composition],
        max_queries: int | None,
    ) -> None:
        super().__init__(tests)
        self._epochs = tests
        self._ensemble, self._distance, self._around, self._most = ensemble, distance, parts, max_queries
        self._reading = _AsSoft(ensemble, bins)
        self._plain = self._shifted = self._unstable = 0

    @property
    def asked(self) -> int:
        """How many queries were answered."""
        return self._plain + self._shifted + self._unstable

    @property
    def halted(self) -> bool:
        """Whether the last failed test was run, or `max_queries` were asked."""
        return self._epochs.halted or self.asked == self._most

    def _left(self, count: int) -> int:
        return count if self._most is None else min(count, self._most - self.asked)

    def _read(self, query: _Asked) -> tuple[int, Histograms]:
        found = self._counted(query)
        return int(found.plain_distances[0]), found

    def _read_many(self, queries: _Asked) -> tuple[npt.NDArray[np.int64], Histograms]:
        found = self._counted(queries[: self._left(len(queries))])
        return found.plain_distances, found

    def _counted(self, queries: _Asked) -> Histograms:
        return histograms(votes_of(self._ensemble, queries.rows), queries.bins, self._distance)

    def _tested(self, steps: int, read: Histograms, /) -> SoftAnswer:
        if self._epochs.test(steps):
            self._plain += 1
            return float(read.plain[0])
        return self._second(read, 0)

    def _tested_many(self, steps: npt.NDArray[Any], read: Histograms, /) -> tuple[SoftAnswer, ...]:
        count = self._left(len(steps))
        answers = unstable(count)
        at = 0
        while at < count and not self._epochs.halted:
            passed = self._epochs.test_until_failed(steps[at:count])
            answers[at : at + passed] = read.plain[at : at + passed]
            self._plain += passed
            at += passed
            if at < count:
                answers[at] = self._second(read, at)
                at += 1
        return tuple(answers[:at].tolist())

    def _second(self, read: Histograms, at: int) -> SoftAnswer:
        """The answer to a query whose plain test failed. No test is run after the last one that may fail."""
        if not self._epochs.halted and self._epochs.test(int(read.shifted_distances[at])):
            self._shifted += 1
            return float(read.shifted[at])
        self._unstable += 1
        return UNSTABLE

    def _told(self) -> SoftCounts:
        return SoftCounts(
            asked=self.asked,
            passed_plain=self._plain,
            passed_shifted=self._shifted,
            unstable=self._unstable,
            failed_tests=self._epochs.charged,
            halted=self.halted,
        )

    def _parts(self, tested: Composition) -> Composition:
        return self._around(tested)
