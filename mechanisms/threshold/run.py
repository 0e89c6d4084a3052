"""An open sparse vector: it answers, counts, halts, and says at the end what was asked.

A query is the caller's code. A number that it returns is data and always has an answer (NaN by a public rule); if it
raises, or returns what is no number, the run is closed at its full charge, before any noise is drawn: an exception that
depends on one unit is an output without noise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.decimals import negative
from dpledger.errors import ContractViolation, Halted, ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace, Sensitivity, draw
from dpledger.mechanisms.numeric.containers import array_of
from dpledger.mechanisms.numeric.grid import TotalMap, to_steps, vector_to_steps
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.turns import Turn
from dpledger.process import Home

__all__ = [
    "Counts",
    "Number",
    "Outcome",
    "Queries",
    "Query",
    "SparseVectorRun",
    "ThresholdSide",
    "Thresholding",
    "steps_of",
]

ThresholdSide: TypeAlias = Literal["below", "above"]
Number: TypeAlias = "int | float | Fraction | Decimal | np.integer[Any] | np.floating[Any] | np.bool_"
Query: TypeAlias = "Number | Callable[[Any], Number]"
"""A function of the data, or its value on them."""
Queries: TypeAlias = "list[Any] | tuple[Any, ...] | npt.NDArray[Any]"
"""Many queries: each a `Query`; or an array or a column of values."""

_NUMBERS = (int, float, Fraction, Decimal, np.integer, np.floating, np.bool_)
_BEYOND_FLOATS = Decimal("1e400")  # beyond every float: what an infinite query counts as
_SMALL = 2**62  # int64 arrays hold numbers below this
_BLOCK = 2**14  # tests on one vector of noise: what is drawn after a halt is wasted
_AHEAD = 2**8  # thresholds drawn at once, at most
_WINDOW = 2**6


class Outcome(Enum):
    """The answer to one query."""

    ABOVE = "above"
    BELOW = "below"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a run answered, in numbers: all of it is known to whoever got the answers."""

    asked: int
    above: int
    below: int
    halted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholding:
    """The tests of a run, in whole steps of a grid. With `charged` = "above", of -query against -threshold.

    `scale`: how any number becomes steps (`steps_of`). `threshold_noise`: None where the threshold has none.
    `sensitivity`: of a query, in steps.
    """

    law: SparseVectorLaw
    scale: TotalMap
    threshold: int
    threshold_noise: DiscreteLaplace | None
    query_noise: DiscreteLaplace
    sensitivity: Sensitivity
    max_queries: int | None
    charged: ThresholdSide

    def steps(self, value: object) -> int:
        """A query's value in steps, its sign turned where "above" is charged. Total for every number."""
        steps = to_steps(value, self.scale)
        return steps if self.charged == "below" else -steps

    def steps_of_all(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """`steps` of every entry of an array of numbers: int64, or Python integers where one does not fit."""
        steps = vector_to_steps(values, self.scale, len(values))
        return steps if self.charged == "below" else -steps

    @property
    def renews(self) -> bool:
        """Whether each epoch has a threshold of its own."""
        return self.law.mode not in ("single_threshold", "target_charging")

    def thresholds(self, count: int, entropy: Entropy) -> list[int]:
        """So many fresh thresholds, drawn at once."""
        assert self.threshold_noise is not None, "asked only where thresholds are renewed"
        values = np.full(count, self.threshold, dtype=np.int64 if abs(self.threshold) < _SMALL else object)
        drawn = draw(self.threshold_noise, values, sensitivity=self.sensitivity, entropy=entropy)
        found: list[int] = drawn.tolist()
        return found

    def answer(self, passed: bool) -> Outcome:
        """The answer to a query that passed its test (free) or did not (charged)."""
        return Outcome.ABOVE if passed == (self.charged == "below") else Outcome.BELOW


def _require_queries(queries: object) -> None:
    array = None if isinstance(queries, (list, tuple)) else array_of(queries)
    if not isinstance(queries, (list, tuple)) and (array is None or array.ndim != 1):
        raise ParameterError("queries", type(queries).__name__, "a list, a tuple, or an array of numbers with one axis")


def _at_most(noisy: npt.NDArray[Any], threshold: int) -> npt.NDArray[np.bool_]:
    """Which tests fail: equality does."""
    return np.asarray(noisy <= threshold, dtype=np.bool_)


def _first_at_most(noisy: npt.NDArray[Any], start: int, threshold: int) -> int | None:
    """The first place from `start` on whose test fails; sought in windows that grow, so that an epoch costs what it is
    long."""
    width = _WINDOW
    while start < len(noisy):
        failed = _at_most(noisy[start : start + width], threshold)
        first = int(failed.argmax())
        if failed[first]:
            return start + first
        start, width = start + width, 2 * width
    return None


def steps_of(grid: Decimal, missing: ThresholdSide) -> TotalMap:
    """How a query's value becomes whole steps of `grid`: infinite is beyond every float, NaN on the side `missing`."""
    absent = negative(_BEYOND_FLOATS) if missing == "below" else _BEYOND_FLOATS
    return TotalMap(grid=grid, bound=_BEYOND_FLOATS, missing=absent)


class SparseVectorRun:
    """The conversation of a `SparseVector`. Shows nothing of the data, does not pickle, and refuses in a forked child.
    Threads may share it: they are answered one after another."""

    def __init__(self, tests: Thresholding, data: object, entropy: Entropy) -> None:
        self._tests = tests
        self._data = data
        self._entropy = entropy
        self._noisy_threshold: int | None = None
        self._closed_epochs: list[int] = []
        self._open_epoch = 0
        self._asked = 0
        self._release: Release[Counts] | None = None
        self._home = Home("a sparse vector run")
        self._turn = Turn("a sparse vector run")  # while a test is drawn and counted, never while the query runs

    def __reduce__(self) -> str:
        raise TypeError("a sparse vector run does not pickle: a copy would repeat its noise")

    @property
    def asked(self) -> int:
        """How many queries were answered."""
        return self._asked

    @property
    def halted(self) -> bool:
        """Whether it halted by its own rule: the last charged answer was given, or `max_queries` were asked."""
        return len(self._closed_epochs) == self._tests.law.cutoff or self.asked == self._tests.max_queries

    def ask(self, query: Query, /) -> Outcome:
        """Whether `query` on the data is above the threshold, up to noise.

        A query that is infinite or NaN has an answer like any other. Raises Halted once the run is over (nothing is
        drawn or charged); ContractViolation if the query raises or returns no number (closed, charged in full).
        """
        self._check_open()
        steps = self._value(query)
        with self._turn:
            self._check_open()  # the query, or another thread, may have asked or closed
            return self._test(steps)

    def ask_many(self, queries: Queries, /) -> tuple[Outcome, ...]:
        """The answers to many queries, which do not depend on one another's answers; distributed as if asked one by
        one. Where the run halts the answers end, with the one that halted it: the rest is not answered, costs nothing,
        and its noise is dropped unseen.

        `queries`: a list, a tuple, or an array or column of numbers. All of them are evaluated before the first is
        answered (no more than `max_queries` leave). Raises as `ask`; ParameterError for another container.
        """
        self._check_open()
        _require_queries(queries)
        if not len(queries):
            return ()
        steps = self._values(queries)
        with self._turn:
            self._check_open()
            return self._test_many(steps)

    def close(self) -> Release[Counts]:
        """End the run. The release holds the counts, and the leaf with the outcome that its loss is computed from."""
        self._home.require()
        with self._turn:
            outcome = SparseVectorOutcome(
                closed_epochs=tuple(self._closed_epochs),
                open_epoch=self._open_epoch,
                halted=len(self._closed_epochs) == self._tests.law.cutoff,
            )
            return self._close(dataclasses.replace(self._tests.law, outcome=outcome), outside_guarantee=False)

    def _check_open(self) -> None:
        self._home.require()
        if self._release is not None:
            raise Halted("the sparse vector run is closed")
        if self.halted:
            charged = len(self._closed_epochs)
            raise Halted(f"the sparse vector run is over: {charged} charged answers, {self.asked} queries")

    def _value(self, query: Query) -> int:
        """The query's value in steps. What went wrong is not told: it may depend on a unit."""
        steps: int | None = None
        try:
            value = query(self._data) if callable(query) else query
            if isinstance(value, _NUMBERS):
                steps = self._tests.steps(value)
        except Exception:
            steps = None
        self._home.require()  # the query may have forked
        if steps is None:
            with self._turn:
                self._close(self._tests.law, outside_guarantee=True)
            raise ContractViolation(
                "a query raised or did not return a number; the run is closed and charged in full. "
                "Try the query on public or made-up data to see why"
            )
        return steps

    def _values(self, queries: Queries) -> npt.NDArray[Any]:
        """The values of all queries that the run may still answer, in steps."""
        limit = self._tests.max_queries
        left = len(queries) if limit is None else max(0, min(len(queries), limit - self._asked))
        array = None if isinstance(queries, (list, tuple)) else array_of(queries)
        if array is not None and array.dtype.kind in "iufb":
            return self._tests.steps_of_all(array[:left])
        asked = queries if array is None else array
        steps = [self._value(query) for query in asked[:left]]
        return np.array(steps, dtype=np.int64 if all(abs(step) < _SMALL for step in steps) else object)

    def _test_many(self, steps: npt.NDArray[Any]) -> tuple[Outcome, ...]:
        """Test in blocks, each on one vector of query noise, until all are answered or the run halts."""
        passed: list[bool] = []
        for start in range(0, len(steps), _BLOCK):
            if self.halted:
                break
            passed += self._block(steps[start : start + _BLOCK])
        answers = {one: self._tests.answer(one) for one in (True, False)}
        return tuple(map(answers.__getitem__, passed))

    def _block(self, steps: npt.NDArray[Any]) -> list[bool]:
        """Which tests of a block pass; no more than the run answers. At least one is answered."""
        tests = self._tests
        left = len(steps) if tests.max_queries is None else min(len(steps), tests.max_queries - self._asked)
        charges = tests.law.cutoff - len(self._closed_epochs)
        noisy = draw(tests.query_noise, steps[:left], sensitivity=tests.sensitivity, entropy=self._entropy)
        failed = self._failed(noisy, charges)
        after = int(failed[-1]) + 1 if len(failed) else 0  # where the last epoch ends
        answered = after if len(failed) == charges else left
        self._count(np.diff(failed, prepend=-1).tolist(), answered - after)
        passed = np.ones(answered, dtype=np.bool_)
        passed[failed] = False
        result: list[bool] = passed.tolist()
        return result

    def _count(self, epochs: list[int], more: int) -> None:
        """Count the tests that end epochs, and those after them. The first epoch may have been open already."""
        self._asked += sum(epochs) + more
        if epochs:
            epochs[0] += self._open_epoch
            self._closed_epochs += epochs
            self._open_epoch = 0
        self._open_epoch += more

    def _failed(self, noisy: npt.NDArray[Any], charges: int) -> npt.NDArray[np.intp]:
        """The places of the failed tests, at most `charges`; after each the threshold is renewed where its mode says
        so."""
        if not self._tests.renews:
            return np.flatnonzero(_at_most(noisy, self._threshold()))[:charges]
        failed: list[int] = []
        fresh: list[int] = []
        start = 0
        while len(failed) < charges and start < len(noisy):
            if self._noisy_threshold is None:
                fresh = fresh or self._tests.thresholds(min(charges - len(failed), _AHEAD), self._entropy)
                self._noisy_threshold = fresh.pop()
            found = _first_at_most(noisy, start, self._noisy_threshold)
            if found is None:
                break
            failed.append(found)
            self._noisy_threshold = None
            start = found + 1
        return np.array(failed, dtype=np.intp)

    def _test(self, steps: int) -> Outcome:
        tests = self._tests
        threshold = self._threshold()
        noisy = draw(tests.query_noise, steps, sensitivity=tests.sensitivity, entropy=self._entropy)
        return self._answered(noisy > threshold)

    def _answered(self, passed: bool) -> Outcome:
        """Count a test, and end its epoch if it is charged."""
        self._asked += 1
        self._open_epoch += 1
        if not passed:
            self._closed_epochs.append(self._open_epoch)
            self._open_epoch = 0
            if self._tests.renews:
                self._noisy_threshold = None
        return self._tests.answer(passed)

    def _threshold(self) -> int:
        """The threshold of this epoch, drawn at its first test."""
        tests = self._tests
        if tests.threshold_noise is None:
            return tests.threshold
        if self._noisy_threshold is None:
            self._noisy_threshold = draw(
                tests.threshold_noise, tests.threshold, sensitivity=tests.sensitivity, entropy=self._entropy
            )
        return self._noisy_threshold

    def _close(self, parts: SparseVectorLaw, *, outside_guarantee: bool) -> Release[Counts]:
        """Inside a turn."""
        if self._release is None:
            free, charged = self.asked - len(self._closed_epochs), len(self._closed_epochs)
            above, below = (free, charged) if self._tests.charged == "below" else (charged, free)
            counts = Counts(asked=self.asked, above=above, below=below, halted=self.halted)
            self._release = Release(value=counts, parts=parts, outside_guarantee=outside_guarantee)
        return self._release
