"""An open training run: each `ask` is one step, and what it returns is all that leaves.

The caller's `gradients` is called with the rows of a secret batch. If it raises, or returns another shape than it
promised, the run is closed at its full charge: an exception that depends on one unit is an output without noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Repeated
from dpledger.decimals import float_down
from dpledger.errors import ContractViolation, Halted
from dpledger.mechanisms.callers import came_to
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import RoundedGaussian, Sensitivity, draw
from dpledger.mechanisms.noise.sampling import Cells
from dpledger.mechanisms.protocol import Release
from dpledger.mechanisms.training.batches import Positions, poisson_batch
from dpledger.mechanisms.training.clipping import clipped_sum
from dpledger.mechanisms.training.gradients import Gradients, probe, unit_rows
from dpledger.mechanisms.turns import Turn
from dpledger.mechanisms.units import Units
from dpledger.process import Home
from dpledger.progress import track

__all__ = ["StepNumbers", "StepsTaken", "TrainingRun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsTaken:
    """How many steps count as run, of how many planned: those that were started, and, of a run that was resumed, all
    that were granted before."""

    done: int
    planned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNumbers:
    """What one step does: public numbers, from the mechanism's parameters alone."""

    rate: Decimal
    dimension: int
    clip_norm: Decimal
    grid: Decimal
    expected_batch_size: Decimal
    noise: RoundedGaussian
    sensitivity: Sensitivity
    microbatch: int | None

    def batch(self, units: int, entropy: Entropy) -> Positions:
        """The positions of a fresh secret batch."""
        return poisson_batch(self.rate, units, entropy=entropy)

    def rows(self, gradients: Gradients, units: Units, batch: Positions) -> npt.NDArray[Any]:
        """The gradient of each unit of the batch: (len(batch), dimension). Raises where `gradients` does, or breaks its
        contract."""
        return unit_rows(gradients, units, batch, dimension=self.dimension, microbatch=self.microbatch)

    def clipped(self, rows: npt.NDArray[Any]) -> Cells:
        """The clipped sum of the rows, in whole steps of the grid."""
        grid = float(self.grid)  # a power of two: exact
        return clipped_sum(rows, clip_norm=float_down(self.clip_norm), grid=grid)

    def noisy_mean(self, rows: npt.NDArray[Any], entropy: Entropy) -> npt.NDArray[np.float64]:
        """The clipped, rounded sum of the rows, with noise, divided by the expected batch size. float64[dimension]."""
        noisy = draw(self.noise, self.clipped(rows), sensitivity=self.sensitivity, entropy=entropy)
        mean: npt.NDArray[np.float64] = noisy.astype(np.float64) * (float(self.grid) / float(self.expected_batch_size))
        return mean


class TrainingRun:
    """The conversation of a `DPSGD`. Shows nothing of the data, does not pickle, and refuses in a forked child. Threads
    may share it: no step runs twice, and none beyond the plan. `done`: how many steps of the plan count as run
    already."""

    def __init__(self, step: StepNumbers, plan: Repeated, units: Units, entropy: Entropy, *, done: int = 0) -> None:
        self._step = step
        self._plan = plan
        self._steps = plan.times
        self._units = units
        self._entropy = entropy
        self._first = self._done = done
        self._release: Release[StepsTaken] | None = None
        self._home = Home("a training run")
        self._turn = Turn("a training run")  # while steps are counted, never while the caller's function runs

    def __repr__(self) -> str:
        ended = "" if self._release is None else ", closed"
        return f"<{type(self).__name__}: {self._done} of {self._steps} steps{ended}>"

    def __reduce__(self) -> str:
        raise TypeError("a training run does not pickle: a copy would repeat its noise")

    def steps(self) -> Iterator[int]:
        """The numbers of the steps that are left, with a progress bar: `for _ in run.steps(): ... run.ask(...)`. None
        once the run is closed."""
        left = 0 if self._release is not None else self._steps - self._done
        for step in track(range(self._done, self._done + left), "private training"):
            self._home.require()
            yield step

    def ask(self, gradients: Gradients, /) -> npt.NDArray[np.float64]:
        """One step: the noisy sum of clipped gradients over a fresh secret batch, divided by `expected_batch_size`.

        Returns float64[dimension]. Raises ParameterError, before the first step and with nothing drawn, if `gradients`
        fails on an empty batch; ContractViolation if it fails on a batch (closed, charged in full); Halted after the
        last step or once closed.
        """
        self._home.require()
        if self._done == self._first:
            self._require_open()
            probe(gradients, self._units, self._step.dimension)
        with self._turn:
            self._require_open()
            step = self._done
            self._done += 1
        rows = self._gradients(gradients, step)
        if self._release is not None:
            raise Halted("the training run was closed during a step; the step returns nothing")
        return self._noisy_mean(rows, step)

    def close(self) -> Release[StepsTaken]:
        """End the run. The release names how many steps were started; what was learnt is with the caller."""
        self._home.require()
        return self._closed(outside_guarantee=False)

    def _require_open(self) -> None:
        if self._release is not None or self._done == self._steps:
            raise Halted(f"the training run is over: {self._done} of {self._steps} steps were started")

    def _closed(self, *, outside_guarantee: bool) -> Release[StepsTaken]:
        with self._turn:
            if self._release is None:
                self._release = Release(
                    value=StepsTaken(done=self._done, planned=self._steps),
                    parts=self._plan if outside_guarantee else self._started(),
                    outside_guarantee=outside_guarantee,
                )
            return self._release

    def _started(self) -> Repeated:
        """The parts, with what is known of how far they ran."""
        return Repeated(self._plan.of, times=self._plan.times, done=self._done)

    def _batch(self, step: int) -> Positions:  # noqa: ARG002  # steps are alike
        """The positions of the batch of a step."""
        return self._step.batch(len(self._units), self._entropy)

    def _noisy_mean(self, rows: npt.NDArray[Any], step: int) -> npt.NDArray[np.float64]:  # noqa: ARG002
        """What a step returns, of the rows of its batch."""
        return self._step.noisy_mean(rows, self._entropy)

    def _gradients(self, gradients: Gradients, step: int) -> npt.NDArray[Any]:
        """One row for each unit of the batch of a step. What went wrong is not told: it may depend on a unit."""
        batch = self._batch(step)
        found = came_to(lambda: self._step.rows(gradients, self._units, batch))
        self._home.require()  # the function may have forked
        if found is None:
            self._closed(outside_guarantee=True)
            raise ContractViolation(
                "gradients raised, or did not return one row of dimension numbers for each unit; the run is closed and "
                "charged in full. Try the function on public or made-up rows to see why (check_batch_invariance does)"
            )
        return found[0]
