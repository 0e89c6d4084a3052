"""An open run of `DPFTRL`: each step adds noise of which the steps after it take off a part.

    one step   S = c_0 G + c_1 (G of the step before) + ..., in whole numbers: G is the clipped sum of the batch
               Y = S + noise
               the answer a = Y - c_1 (a of the step before) - ..., divided by the expected batch size

So what leaves is computed from the Y alone, and each Y is S with fresh noise on the grid: the answers are a
post-processing of C G + z (docs/proofs/matrix_factorisation.md), and equal G + C^-1 z. Kept are the sums and answers of
as many steps as the factor has bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Repeated
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import draw, uniform
from dpledger.mechanisms.noise.sampling import LIMIT, Cells
from dpledger.mechanisms.training.batches import Positions
from dpledger.mechanisms.training.gradients import Gradients
from dpledger.mechanisms.training.training_run import StepNumbers, TrainingRun
from dpledger.mechanisms.turns import Turn
from dpledger.mechanisms.units import Units

__all__ = ["FTRLNumbers", "FTRLRun", "mixed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FTRLNumbers:
    """What a run does beside `row`, what one step of DP-SGD does: `steps` of them, for one of `groups` after another;
    `whole`: the coefficients of the factor in units of 1 / `whole[0]`, whole numbers."""

    row: StepNumbers
    steps: int
    groups: int
    whole: tuple[int, ...]

    def dealt(self, units: int, entropy: Entropy) -> Positions:
        """The group of each unit: a coin of each unit alone, so that no unit's group follows from the others."""
        if self.groups == 1:
            return np.zeros(units, dtype=np.int64)
        return uniform(self.groups, units, entropy=entropy, given=True).astype(np.int64)


class FTRLRun(TrainingRun):
    """The conversation of a `DPFTRL`, as that of a `DPSGD` is (`TrainingRun`), but that steps run one after another:
    threads wait for a step to end, and a gradient function that asks for a step breaks its contract."""

    def __init__(self, numbers: FTRLNumbers, plan: Repeated, units: Units, entropy: Entropy) -> None:
        super().__init__(numbers.row, plan, units, entropy)
        self._numbers = numbers
        self._steps = numbers.steps
        self._groups = numbers.dealt(len(units), entropy)
        self._sums: dict[int, Cells] = {}
        self._answers: dict[int, npt.NDArray[np.float64]] = {}
        self._in_order = Turn("a training run")

    @property
    def halted(self) -> bool:
        """Whether all steps were started, or the run is closed."""
        return self._release is not None or self._done == self._steps

    def ask(self, gradients: Gradients, /) -> npt.NDArray[np.float64]:
        """One step: the noisy sum of clipped gradients over a fresh secret batch of the next group, divided by
        `expected_batch_size`. Returns and raises as `TrainingRun.ask`."""
        self._home.require()  # before the lock, which a thread that a child does not have may hold
        with self._in_order:
            return super().ask(gradients)

    def _started(self) -> Repeated:
        """The whole plan: nothing of it comes back, for its rows are not granted one by one."""
        return self._plan

    def _batch(self, step: int) -> Positions:
        drawn = super()._batch(step)
        batch: Positions = drawn[self._groups[drawn] == step % self._numbers.groups]
        return batch

    def _noisy_mean(self, rows: npt.NDArray[Any], step: int) -> npt.NDArray[np.float64]:
        row, whole = self._step, self._numbers.whole
        earlier = [step - lag for lag in range(len(whole))]  # what an interrupted step did not leave counts as 0
        self._sums[step] = row.clipped(rows)
        there = [(coefficient, at) for coefficient, at in zip(whole, earlier, strict=True) if at in self._sums]
        total = mixed([coefficient for coefficient, _ in there], [self._sums[at] for _, at in there])
        noisy = draw(row.noise, total, sensitivity=row.sensitivity, entropy=self._entropy)
        answer = noisy.astype(np.float64) * float(row.noise.grid)
        for coefficient, at in zip(whole[1:], earlier[1:], strict=True):
            if at in self._answers:
                answer -= self._answers[at] * (coefficient / whole[0])
        self._answers[step] = answer
        for kept in (self._sums, self._answers):
            kept.pop(earlier[-1], None)
        mean: npt.NDArray[np.float64] = answer / float(row.expected_batch_size)
        return mean


def mixed(coefficients: Sequence[int], sums: Sequence[Cells]) -> Cells:
    """sum_j coefficients[j] sums[j], exactly: int64, or Python integers where a partial sum could pass 2^62."""
    largest = max(max(abs(int(one.min())), abs(int(one.max()))) for one in sums)
    wide = largest * sum(coefficients) >= LIMIT or any(one.dtype == object for one in sums)
    kept = [one.astype(object) for one in sums] if wide else sums
    total: Cells = kept[0] * coefficients[0]
    for coefficient, one in zip(coefficients[1:], kept[1:], strict=True):
        total = total + one * coefficient
    return total
