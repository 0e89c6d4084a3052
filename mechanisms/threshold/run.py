"""An open sparse vector: it answers, counts, halts, and says at the end what was asked.

A query is the caller's code. A number that it returns is data and always has an answer (NaN by a public rule); if it
raises, or returns what is no number, the run is closed at its full charge, before any noise is drawn: an exception that
depends on one unit is an output without noise.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.decimals import negative
from dpledger.errors import ContractViolation, Halted
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace, Sensitivity, draw
from dpledger.mechanisms.numeric.grid import TotalMap, to_steps
from dpledger.mechanisms.protocol import Release
from dpledger.process import Home

__all__ = ["Counts", "Number", "Outcome", "Query", "SparseVectorRun", "ThresholdSide", "Thresholding"]

ThresholdSide: TypeAlias = Literal["below", "above"]
Number: TypeAlias = "int | float | Fraction | Decimal | np.integer[Any] | np.floating[Any] | np.bool_"
Query: TypeAlias = "Number | Callable[[Any], Number]"
"""A function of the data, or its value on them."""

_NUMBERS = (int, float, Fraction, Decimal, np.integer, np.floating, np.bool_)
_BEYOND_FLOATS = Decimal("1e400")  # beyond every float: what an infinite query counts as


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
    """The tests of a run, in whole steps of `grid`. With `charged` = "above", of -query against -threshold.

    `threshold_noise`: None where the threshold has none. `sensitivity`: of a query, in steps.
    """

    law: SparseVectorLaw
    grid: Decimal
    threshold: int
    threshold_noise: DiscreteLaplace | None
    query_noise: DiscreteLaplace
    sensitivity: Sensitivity
    max_queries: int | None
    charged: ThresholdSide
    missing: ThresholdSide

    def steps(self, value: object) -> int:
        """A query's value in steps, its sign turned where "above" is charged. Total for every number."""
        missing = negative(_BEYOND_FLOATS) if self.missing == "below" else _BEYOND_FLOATS
        steps = to_steps(value, TotalMap(grid=self.grid, bound=_BEYOND_FLOATS, missing=missing))
        return steps if self.charged == "below" else -steps

    def answer(self, passed: bool) -> Outcome:
        """The answer to a query that passed its test (free) or did not (charged)."""
        return Outcome.ABOVE if passed == (self.charged == "below") else Outcome.BELOW


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
        self._lock = threading.RLock()  # held while a test is drawn and counted, never while the caller's query runs

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
        with self._lock:
            self._check_open()  # the query, or another thread, may have asked or closed
            return self._test(steps)

    def close(self) -> Release[Counts]:
        """End the run. The release holds the counts, and the leaf with the outcome that its loss is computed from."""
        self._home.require()
        with self._lock:
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
            self._close(self._tests.law, outside_guarantee=True)
            raise ContractViolation(
                "a query raised or did not return a number; the run is closed and charged in full. "
                "Try the query on public or made-up data to see why"
            )
        return steps

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
            if self._tests.law.mode != "single_threshold":
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
        with self._lock:
            if self._release is None:
                free, charged = self.asked - len(self._closed_epochs), len(self._closed_epochs)
                above, below = (free, charged) if self._tests.charged == "below" else (charged, free)
                counts = Counts(asked=self.asked, above=above, below=below, halted=self.halted)
                self._release = Release(value=counts, parts=parts, outside_guarantee=outside_guarantee)
            return self._release
