"""Probe a training loop: six questions about its set-up, as it should be and with a fault for each, on made-up rows.

    python examples/probe_training.py

A probe says yes, no, or that it cannot tell, with its evidence. It takes seconds, and private rows never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import dpledger as dpl

Rows = Any  # an array
CHARGED: dict[str, Any] = {"rate": "0.1", "noise_multiplier": 2, "clip_norm": 1, "expected_batch_size": 20}
STEP = 2.0 / 20  # the noise of a mean gradient


def clipped_mean(batch: Rows) -> Rows:
    return (batch / np.maximum(1, np.linalg.norm(batch, axis=1, keepdims=True))).sum(axis=0) / 20


def mean_gradient(_rows: int, batch: Rows, rng: np.random.Generator) -> Rows:
    """Each row clipped to 1, noise of 2 clip norms, over a public number."""
    return clipped_mean(batch) + rng.normal(0, STEP, 5)


def clips_the_batch(_rows: int, batch: Rows, rng: np.random.Generator) -> Rows:
    total = batch.sum(axis=0)
    return total / max(1, np.linalg.norm(total)) / 20 + rng.normal(0, STEP, 5)


def half_the_noise(_rows: int, batch: Rows, rng: np.random.Generator) -> Rows:
    return clipped_mean(batch) + rng.normal(0, STEP / 2, 5)


def divides_by_the_batch(_rows: int, batch: Rows, rng: np.random.Generator) -> Rows:
    return mean_gradient(_rows, batch, rng) * 20 / max(1, len(batch))


def poisson(rows: int, rng: np.random.Generator) -> Iterator[Rows]:
    yield np.flatnonzero(rng.random(rows) < 0.1)


def shuffled(rows: int, rng: np.random.Generator) -> Iterator[Rows]:
    yield from np.array_split(rng.permutation(rows), 10)


def each_step(steps: int) -> int:
    """What the accountant counted after so many steps."""
    return steps


def once_an_epoch(steps: int) -> int:
    return steps // 10


def of_its_rank(rank: int) -> np.random.Generator:
    return np.random.default_rng([7, rank])


def of_one_seed(_rank: int) -> np.random.Generator:
    return np.random.default_rng(7)


@dataclass(frozen=True)
class SetUp:
    gradient: Callable[[int, Rows, np.random.Generator], Rows] = mean_gradient
    sampler: Callable[[int, np.random.Generator], Iterator[Rows]] = poisson
    counted_after: Callable[[int], int] = each_step
    generators: Callable[[int], np.random.Generator] = of_its_rank


SET_UPS = {
    "as it should be": SetUp(),
    "the batch is clipped, and no row": SetUp(gradient=clips_the_batch),
    "half the noise": SetUp(gradient=half_the_noise),
    "divided by the size of the batch": SetUp(gradient=divides_by_the_batch),
    "shuffled": SetUp(sampler=shuffled),
    "counted once an epoch": SetUp(counted_after=once_an_epoch),
    "one seed for all ranks": SetUp(generators=of_one_seed),
}


def main() -> None:
    made_up = np.random.default_rng(0).normal(size=(200, 5))
    for name, setup in SET_UPS.items():
        report = dpl.learning.probe_loop(
            setup.gradient, made_up, state=len, sampler=setup.sampler, counted_after=setup.counted_after,
            generators=setup.generators, **CHARGED,
        )  # fmt: skip
        print(f"{name:<34}{', '.join(report.faults) or 'no fault'}; cannot tell: {', '.join(report.unknown) or 'none'}")


if __name__ == "__main__":
    main()
