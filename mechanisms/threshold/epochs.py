"""The tests of a sparse vector, in whole steps: drawn, counted, halted. The one home of its law, whatever is asked.

An *epoch* is the tests on one threshold, up to and including its charged one (`accounting/families/sparse_vector`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import SparseVectorLaw, SparseVectorOutcome
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace, Sensitivity, draw

__all__ = ["SMALL", "EpochPlan", "Epochs"]

SMALL = 2**62  # int64 arrays hold numbers below this
_BLOCK = 2**14  # tests on one vector of noise: what is drawn after a halt is wasted
_AHEAD = 2**8  # thresholds drawn at once, at most
_WINDOW = 2**6


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPlan:
    """The tests of a run, in whole steps: a value passes whose noise lifts it above the threshold.

    `threshold_noise`: None where the threshold has none. `sensitivity`: of what is tested, in steps. `max_queries`: the
    run halts after as many tests, if given.
    """

    law: SparseVectorLaw
    threshold: int
    threshold_noise: DiscreteLaplace | None
    query_noise: DiscreteLaplace
    sensitivity: Sensitivity
    max_queries: int | None

    @property
    def renews(self) -> bool:
        """Whether each epoch has a threshold of its own."""
        return self.law.mode not in ("single_threshold", "target_charging")

    def thresholds(self, count: int, entropy: Entropy) -> list[int]:
        """So many fresh thresholds, drawn at once."""
        assert self.threshold_noise is not None, "asked only where thresholds are renewed"
        values = np.full(count, self.threshold, dtype=np.int64 if abs(self.threshold) < SMALL else object)
        drawn = draw(self.threshold_noise, values, sensitivity=self.sensitivity, entropy=entropy)
        found: list[int] = drawn.tolist()
        return found


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


class Epochs:
    """The tests of a run and their count. One caller at a time: the conversation sees to that."""

    def __init__(self, plan: EpochPlan, entropy: Entropy) -> None:
        self._plan = plan
        self._entropy = entropy
        self._noisy_threshold: int | None = None
        self._closed_epochs: list[int] = []
        self._open_epoch = 0
        self._asked = 0

    @property
    def asked(self) -> int:
        """How many tests were run."""
        return self._asked

    @property
    def charged(self) -> int:
        """How many of them failed."""
        return len(self._closed_epochs)

    @property
    def left(self) -> int | None:
        """How many may still be run, if their number is limited."""
        return None if self._plan.max_queries is None else max(0, self._plan.max_queries - self._asked)

    @property
    def halted(self) -> bool:
        """Whether the last charged answer was given, or `max_queries` tests were run."""
        return self.charged == self._plan.law.cutoff or self._asked == self._plan.max_queries

    @property
    def planned(self) -> SparseVectorLaw:
        """The leaf, without an outcome."""
        return self._plan.law

    def ended(self) -> SparseVectorLaw:
        """The leaf, with the outcome that its loss is computed from."""
        outcome = SparseVectorOutcome(
            closed_epochs=tuple(self._closed_epochs),
            open_epoch=self._open_epoch,
            halted=self.charged == self._plan.law.cutoff,
        )
        return dataclasses.replace(self._plan.law, outcome=outcome)

    def test(self, steps: int) -> bool:
        """Whether a value passes: drawn and counted. A failed test ends its epoch."""
        threshold = self._threshold()
        noisy = draw(self._plan.query_noise, steps, sensitivity=self._plan.sensitivity, entropy=self._entropy)
        return self._counted(noisy > threshold)

    def test_many(self, steps: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which values pass, up to the one that halts the run; in blocks, each on one vector of query noise."""
        passed = [np.ones(0, dtype=np.bool_)]
        for start in range(0, len(steps), _BLOCK):
            if self.halted:
                break
            passed.append(self._block(steps[start : start + _BLOCK]))
        return np.concatenate(passed)

    def test_until_failed(self, steps: npt.NDArray[Any]) -> int:
        """How many values pass before the first that does not; that one is tested and counted too, all others are not.
        In windows that grow, so that what is drawn after it is little."""
        start, width = 0, _WINDOW
        while start < len(steps) and not self.halted:
            threshold = self._threshold()
            window = steps[start : start + width]
            window = window if self.left is None else window[: self.left]
            noisy = draw(self._plan.query_noise, window, sensitivity=self._plan.sensitivity, entropy=self._entropy)
            failed = _at_most(noisy, threshold)
            first = int(failed.argmax())
            if failed[first]:
                self._count([first + 1], 0)
                if self._plan.renews:
                    self._noisy_threshold = None
                return start + first
            self._count([], len(window))
            start, width = start + len(window), min(2 * width, _BLOCK)
        return start

    def _block(self, steps: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which tests of a block pass; no more than the run answers. At least one is answered."""
        plan = self._plan
        left = len(steps) if self.left is None else min(len(steps), self.left)
        charges = plan.law.cutoff - self.charged
        noisy = draw(plan.query_noise, steps[:left], sensitivity=plan.sensitivity, entropy=self._entropy)
        failed = self._failed(noisy, charges)
        after = int(failed[-1]) + 1 if len(failed) else 0  # where the last epoch ends
        answered = after if len(failed) == charges else left
        self._count(np.diff(failed, prepend=-1).tolist(), answered - after)
        passed = np.ones(answered, dtype=np.bool_)
        passed[failed] = False
        return passed

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
        if not self._plan.renews:
            return np.flatnonzero(_at_most(noisy, self._threshold()))[:charges]
        failed: list[int] = []
        fresh: list[int] = []
        start = 0
        while len(failed) < charges and start < len(noisy):
            if self._noisy_threshold is None:
                fresh = fresh or self._plan.thresholds(min(charges - len(failed), _AHEAD), self._entropy)
                self._noisy_threshold = fresh.pop()
            found = _first_at_most(noisy, start, self._noisy_threshold)
            if found is None:
                break
            failed.append(found)
            self._noisy_threshold = None
            start = found + 1
        return np.array(failed, dtype=np.intp)

    def _counted(self, passed: bool) -> bool:
        """Count a test, and end its epoch if it is charged."""
        self._asked += 1
        self._open_epoch += 1
        if not passed:
            self._closed_epochs.append(self._open_epoch)
            self._open_epoch = 0
            if self._plan.renews:
                self._noisy_threshold = None
        return passed

    def _threshold(self) -> int:
        """The threshold of this epoch, drawn at its first test."""
        plan = self._plan
        if plan.threshold_noise is None:
            return plan.threshold
        if self._noisy_threshold is None:
            self._noisy_threshold = draw(
                plan.threshold_noise, plan.threshold, sensitivity=plan.sensitivity, entropy=self._entropy
            )
        return self._noisy_threshold
