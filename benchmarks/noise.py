"""Throughput of the exact samplers beside numpy's floating-point ones, in the same run.

    python benchmarks/noise.py [--draws 1000000] [--rounds 7]

Prints nanoseconds a draw (the best of the rounds, taken in turns) and the ratio to numpy: 1 is as fast.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from dpledger.mechanisms.entropy import system
from dpledger.mechanisms.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    RoundedGaussian,
    RoundedLaplace,
    Sensitivity,
    draw,
)

SENSITIVITY = Sensitivity(1, "l2", "a benchmark")


def contestants(draws: int) -> dict[str, tuple[Callable[[], object], str]]:
    """Name -> (a run of `draws` draws, the name of the baseline that it is compared with)."""
    entropy, generator = system(), np.random.default_rng(1)
    zeros = np.zeros(draws, dtype=np.int64)

    def exact(law: Law) -> Callable[[], object]:
        return lambda: draw(law, zeros, sensitivity=SENSITIVITY, entropy=entropy)

    return {
        "numpy normal": (lambda: generator.normal(size=draws), "numpy normal"),
        "numpy laplace": (lambda: generator.laplace(size=draws), "numpy laplace"),
        "keystream word": (lambda: entropy.words(draws), "numpy normal"),
        "rounded Gaussian": (exact(RoundedGaussian(1, grid=2**-10)), "numpy normal"),
        "rounded Laplace": (exact(RoundedLaplace(1, grid=2**-10)), "numpy laplace"),
        "discrete Gaussian": (exact(DiscreteGaussian(100)), "numpy normal"),
        "discrete Laplace": (exact(DiscreteLaplace(100)), "numpy laplace"),
    }


def measured(runs: dict[str, tuple[Callable[[], object], str]], draws: int, rounds: int) -> dict[str, float]:
    """Nanoseconds a draw of each, the best of `rounds`."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, (run, _baseline) in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], (time.perf_counter() - start) * 1e9 / draws)
    return best


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    runs = contestants(options.draws)
    best = measured(runs, options.draws, options.rounds)
    print(f"{'':20} {'ns/draw':>8} {'ratio':>6}  of")
    for name, (_, baseline) in runs.items():
        print(f"{name:20} {best[name]:8.1f} {best[baseline] / best[name]:6.2f}  {baseline}")


if __name__ == "__main__":
    main()
