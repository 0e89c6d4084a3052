"""Mutants of DP-SGD and DP-FTRL: each breaks one rule, and the docstring says what that does to the privacy loss.

All claim and price what the correct one does, so a check that looks at claims alone finds nothing. `MUTANTS` names
those of DP-SGD: `MeanClipped` to `TwiceTheRate` are faults of one step; `MutantWorkers` of how steps are run.
`ForgottenNorm` and `EveryGroup` are of DP-FTRL.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from dpledger.accounting.composition import Repeated
from dpledger.decimals import float_down
from dpledger.mechanisms.entropy import Entropy, seeded
from dpledger.mechanisms.noise import RoundedGaussian, draw
from dpledger.mechanisms.training.batches import Positions, poisson_batch
from dpledger.mechanisms.training.clipping import clipped_sum
from dpledger.mechanisms.training.dp_ftrl import DPFTRL
from dpledger.mechanisms.training.dp_sgd import DPSGD
from dpledger.mechanisms.training.ftrl_run import FTRLNumbers, FTRLRun
from dpledger.mechanisms.training.training_run import StepNumbers, TrainingRun
from dpledger.mechanisms.units import Units

__all__ = [
    "MUTANTS",
    "EveryGroup",
    "ForgottenEpoch",
    "ForgottenNorm",
    "MutantWorkers",
    "RowsNotUsers",
    "layout_clipped_sum",
    "layout_steps",
]

Floats = npt.NDArray[np.float64]


class FaultyStep(DPSGD):
    """A DPSGD whose steps are those of `faulty`."""

    faulty: type[StepNumbers]

    def open(self, data: object, *, entropy: Entropy) -> TrainingRun:
        right = self.one_step
        values = {field.name: getattr(right, field.name) for field in dataclasses.fields(right)}
        return TrainingRun(self.faulty(**values), self.parts(), Units.of(data), entropy)


class MeanClippedStep(StepNumbers):
    """TRN-B1: the batch's mean is clipped instead of each row. A unit moves the sum by up to 2 clip_norm."""

    def noisy_mean(self, rows: npt.NDArray[Any], entropy: Entropy) -> Floats:
        size = max(1, len(rows))
        mean = rows.mean(axis=0) if len(rows) else np.zeros(self.dimension)
        total = size * clipped_sum(mean[np.newaxis], clip_norm=float(self.clip_norm), grid=float(self.noise.grid))
        return self._released(draw(self.noise, total, sensitivity=self.sensitivity, entropy=entropy))

    def _released(self, noisy: npt.NDArray[Any]) -> Floats:
        released: Floats = noisy.astype(np.float64) * float(self.noise.grid) / float(self.expected_batch_size)
        return released


class DividedByTheBatchStep(StepNumbers):
    """TRN-B2: the sum, with its noise, is divided by the actual batch size: the scale of the noise tells the size."""

    def noisy_mean(self, rows: npt.NDArray[Any], entropy: Entropy) -> Floats:
        return super().noisy_mean(rows, entropy) * float(self.expected_batch_size) / max(1, len(rows))


class PartitionStep(StepNumbers):
    """TRN-B3: batches are a shuffled partition of the units, claimed as Poisson. No amplification within an epoch."""

    def batch(self, units: int, entropy: Entropy) -> Positions:
        size = max(1, round(units * float(self.rate)))
        queue = _QUEUES.setdefault(entropy, [])
        if len(queue) < size:
            order = np.argsort(entropy.words(units))
            queue[:] = order.tolist()
        taken = [queue.pop() for _ in range(size)]
        return np.sort(np.array(taken, dtype=np.int64))


_QUEUES: WeakKeyDictionary[Entropy, list[int]] = WeakKeyDictionary()


class NoiseOnceStep(StepNumbers):
    """TRN-B4: the noise is drawn in the first step and used in all. The difference of two steps is exact: infinite."""

    def noisy_mean(self, rows: npt.NDArray[Any], entropy: Entropy) -> Floats:
        nothing = np.zeros(self.dimension, dtype=np.int64)
        if entropy not in _NOISES:
            _NOISES[entropy] = draw(self.noise, nothing, sensitivity=self.sensitivity, entropy=entropy)
        total = clipped_sum(rows, clip_norm=float(self.clip_norm), grid=float(self.noise.grid))
        released: Floats = (total + _NOISES[entropy]) * (float(self.noise.grid) / float(self.expected_batch_size))
        return released


_NOISES: WeakKeyDictionary[Entropy, npt.NDArray[Any]] = WeakKeyDictionary()


class ShortNormStep(StepNumbers):
    """TRN-B7: norms in float32, where the squares of a row of 1e20 overflow and the factor is patched to 1: the row is
    not clipped at all. Unbounded."""

    def noisy_mean(self, rows: npt.NDArray[Any], entropy: Entropy) -> Floats:
        with np.errstate(all="ignore"):
            norms = np.sqrt((rows.astype(np.float32) ** 2).sum(axis=1))
            factors = np.minimum(1.0, float(self.clip_norm) / norms)
            factors[~np.isfinite(norms)] = 1.0
            clipped = rows * factors[:, np.newaxis] / float(self.noise.grid)
        total = np.array([int(entry) for entry in np.rint(clipped).sum(axis=0)], dtype=object)
        noisy = draw(self.noise, total, sensitivity=self.sensitivity, entropy=entropy)
        released: Floats = noisy.astype(np.float64) * (float(self.noise.grid) / float(self.expected_batch_size))
        return released


def layout_clipped_sum(rows: npt.NDArray[Any], *, clip_norm: float, grid: float) -> npt.NDArray[np.int64]:
    """`clipped_sum` with the steps of `layout_steps`, block by block."""
    height = max(1, 2**16 // rows.shape[1])
    total = np.zeros(rows.shape[1], dtype=np.int64)
    for start in range(0, len(rows), height):
        block = np.asarray(rows[start : start + height], dtype=np.float64)
        total += layout_steps(block, clip_norm, grid).sum(axis=0)
    return total


def layout_steps(block: Floats, clip_norm: float, grid: float) -> npt.NDArray[np.int64]:
    """The steps of each row, squares added by `einsum`: in an order that follows the memory layout. One row with a
    value that is not finite has the whole block copied, and all its norms taken again in the order of the copy."""
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", block, block)
        wild = ~np.isfinite(squares)
        if wild.any():
            block = block.copy()
            block[wild] = 0.0
            squares = np.einsum("ij,ij->i", block, block)
        norms = np.sqrt(squares) * (1 + (block.shape[1] + 3) * 2.0**-52)
        factors = np.where(norms > clip_norm, clip_norm / norms, 1.0)
        return np.rint(block * (factors / grid)[:, np.newaxis]).astype(np.int64)


class OrderOfTheLayoutStep(StepNumbers):
    """TRN-B10: what a row adds depends, by its last bits, on the layout of its block and on whether another row there
    is finite. Where those bits decide the rounding, a unit moves every row of the block by a step in every entry."""

    def noisy_mean(self, rows: npt.NDArray[Any], entropy: Entropy) -> Floats:
        grid = float(self.noise.grid)
        total = layout_clipped_sum(rows, clip_norm=float_down(self.clip_norm), grid=grid)
        noisy = draw(self.noise, total, sensitivity=self.sensitivity, entropy=entropy)
        released: Floats = noisy.astype(np.float64) * (grid / float(self.expected_batch_size))
        return released


class TwiceTheRateStep(StepNumbers):
    """TRN-B9: batches at twice the declared rate: the loss is that of rate 2q."""

    def batch(self, units: int, entropy: Entropy) -> Positions:
        return poisson_batch(min(self.rate * 2, type(self.rate)(1)), units, entropy=entropy)


class MeanClipped(FaultyStep):
    faulty = MeanClippedStep


class DividedByTheBatch(FaultyStep):
    faulty = DividedByTheBatchStep


class Partition(FaultyStep):
    faulty = PartitionStep


class NoiseOnce(FaultyStep):
    faulty = NoiseOnceStep


class ShortNorm(FaultyStep):
    faulty = ShortNormStep


class OrderOfTheLayout(FaultyStep):
    faulty = OrderOfTheLayoutStep


class TwiceTheRate(FaultyStep):
    faulty = TwiceTheRateStep


class ForgottenEpoch(DPSGD):
    """TRN-B5: the accountant is told of one step less than runs."""

    def parts(self) -> Repeated:
        right = super().parts()
        return Repeated(right.of, times=right.times - 1)

    def open(self, data: object, *, entropy: Entropy) -> TrainingRun:
        return TrainingRun(self.one_step, super().parts(), Units.of(data), entropy)


class RowsNotUsers(DPSGD):
    """TRN-B6: users with k rows (items of shape (k, dimension)), each row clipped on its own: a user moves the sum by
    up to k clip_norm."""

    def open(self, data: object, *, entropy: Entropy) -> TrainingRun:
        rows = np.concatenate([np.asarray(item) for item in Units.of(data).columns[0]])
        return TrainingRun(self.one_step, self.parts(), Units.of(rows), entropy)


class MutantWorkers:
    """TRN-B8: two workers train on halves of the data, their generators forked alike. Their noise is the same, so the
    difference of their steps is exact: infinite."""

    def __init__(self, mechanism: DPSGD, data: npt.NDArray[Any], seed: int) -> None:
        half = len(data) // 2
        self.workers = tuple(mechanism.open(part, entropy=seeded(seed)) for part in (data[:half], data[half:]))


MUTANTS: Mapping[str, type[DPSGD]] = {
    "TRN-B1": MeanClipped,
    "TRN-B2": DividedByTheBatch,
    "TRN-B3": Partition,
    "TRN-B4": NoiseOnce,
    "TRN-B5": ForgottenEpoch,
    "TRN-B6": RowsNotUsers,
    "TRN-B7": ShortNorm,
    "TRN-B9": TwiceTheRate,
    "TRN-B10": OrderOfTheLayout,
}
"""The mutants that are mechanisms; TRN-B8 is `MutantWorkers`."""


class ForgottenNorm(DPFTRL):
    """The noise is that of DP-SGD, although a unit moves C times the sums by ||c|| as much: as multiplier z / ||c||."""

    @property
    def noise(self) -> RoundedGaussian:
        right = super().noise
        return RoundedGaussian(sigma=self.sensitivity.value * self.noise_multiplier, grid=right.grid)


class EveryGroup(DPFTRL):
    """Every unit takes part in every step: as one Gaussian of multiplier z ||c|| / ||C 1||, not `turns` of z."""

    def open(self, data: object, *, entropy: Entropy) -> FTRLRun:
        right = super().open(data, entropy=entropy)
        numbers: dict[str, Any] = {
            field.name: getattr(right._numbers, field.name) for field in dataclasses.fields(FTRLNumbers)
        }
        return FTRLRun(FTRLNumbers(**{**numbers, "groups": 1}), self.parts(), Units.of(data), entropy)
