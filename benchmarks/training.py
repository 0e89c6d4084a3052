"""Throughput of a private training step beside the same loop in plain numpy, in the same run.

    python benchmarks/training.py [--batch 256] [--dimension 10000] [--rate 0.01] [--rounds 15]

Both clip the rows of the same made-up gradients, add them and add Gaussian noise; the private step also draws its
secret batch, rounds to the grid and adds whole numbers, and its noise is exact and cryptographic. Prints milliseconds a
step (the best of the rounds, taken in turns) and the ratio of the speeds: 1 is as fast, the target is 0.5.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.entropy import system
from dpledger.mechanisms.training import DPSGD

Floats = npt.NDArray[np.float64]


def plain_step(gradients: Floats, generator: np.random.Generator, batch: int) -> Floats:
    """The textbook loop: clip to norm 1, add, add noise, divide."""
    factors = np.minimum(1.0, 1.0 / np.linalg.norm(gradients, axis=1))
    total: Floats = (gradients * factors[:, np.newaxis]).sum(axis=0)
    return (total + generator.normal(0.0, 1.0, total.shape)) / batch


def contestants(batch: int, dimension: int, rate: float, rounds: int) -> dict[str, Callable[[], object]]:
    """Name -> one step over about `batch` rows."""
    units = round(batch / rate)
    generator = np.random.default_rng(1)
    pool = generator.standard_normal((2 * batch, dimension))
    plan = DPSGD(
        rate=rate,
        steps=rounds + 1,
        noise_multiplier=1,
        clip_norm=1,
        dimension=dimension,
        expected_batch_size=batch,
    )
    run = plan.open(np.arange(units), entropy=system())
    return {
        "private": lambda: run.ask(lambda rows: pool[: len(rows)]),
        "plain numpy": lambda: plain_step(pool[: generator.binomial(units, rate)], generator, batch),
    }


def measured(steps: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Milliseconds a step of each, the best of `rounds`."""
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            best[name] = min(best[name], (time.perf_counter() - start) * 1e3)
    return best


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--dimension", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    steps = contestants(options.batch, options.dimension, options.rate, options.rounds)
    best = measured(steps, options.rounds)
    for name, milliseconds in best.items():
        print(f"{name:12} {milliseconds:8.2f} ms a step")
    print(f"{'ratio':12} {best['plain numpy'] / best['private']:8.2f}")


if __name__ == "__main__":
    main()
