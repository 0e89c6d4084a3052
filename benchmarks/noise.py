"""The exact samplers beside OpenDP's and beside numpy's floating-point ones, in the same run.

    python benchmarks/noise.py [--quick] [--rounds 3]

For each law, number of steps in a scale and size of the vector: nanoseconds of the processor for a draw (the best of
the rounds, taken in turns), how many times OpenDP's rate that is, and how many times numpy's; then each target with
PASS or FAIL. OpenDP's samplers are exact as well: `make_laplace` and `make_gaussian`, on integers beside the discrete
laws, and on floats with the same grid beside the rounded ones; a draw of size 1 is one call of ours and of theirs.
numpy's draws are floats: they are no peer, for their last bits tell of what they were added to, but the speed to look
up to. `--quick`: fewer scales. OpenDP is in the extra `bench`; without it, its columns are empty, and that is said.

Then the other noise functions. A choice among `size` candidates whose scores are about one best: nanoseconds for a
candidate; beside it OpenDP's `make_noisy_max` (Gumbel noise is exponential weights, exponential noise is
permute-and-flip) and numpy's choice by softmax weights, or its greatest score plus exponential noise. Coins: beside
OpenDP's randomized response to a bit, one call a coin, and numpy's comparison of floats. A chain, read at three scales:
beside three releases that share nothing, which is what the others have and costs the privacy of all three; ours costs
the last one.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from dpledger.mechanisms.entropy import system
from dpledger.mechanisms.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialWeights,
    Law,
    PermuteAndFlipChoice,
    RoundedGaussian,
    RoundedLaplace,
    Sensitivity,
    Weighted,
    chain,
    choose,
    draw,
    happens,
)
from dpledger.mechanisms.threshold import SparseVector

try:
    import opendp.prelude as opendp

    opendp.enable_features("contrib", "honest-but-curious")
except ImportError:
    opendp = None

SENSITIVITY = Sensitivity(1, "l2", "a benchmark")
STEPS = (-20, 0, 10, 20, 30, 38, 40)  # powers of two
SIZES = (1, 10**3, 10**5)
CALLS = 200  # of size 1 in one measurement
WALK_SECONDS = 0.5
TARGET = 100  # times OpenDP's rate, for vectors
CANDIDATES = (10, 10**3, 10**5)
LEVELS = (50, 10, 1)  # scales of a chain
CHANCE = "0.75"
SCALAR_MICROSECONDS = 20
ASKED = 300

Run = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    law: Law
    steps: int
    size: int


def cases(quick: bool) -> list[Case]:
    """Every law at every number of steps and every size."""
    found = []
    for steps in STEPS[1::3] if quick else STEPS:
        scale, grid = 2.0**steps, 2.0**-steps
        laws = (DiscreteLaplace(scale), RoundedLaplace(1, grid), DiscreteGaussian(scale), RoundedGaussian(1, grid))
        found += [Case(law, steps, size) for law in laws for size in SIZES]
    return found


def ours(case: Case) -> Run:
    """Noise on zeros, through `draw`."""
    entropy = system()
    if case.size == 1:
        return lambda: [draw(case.law, 0, sensitivity=SENSITIVITY, entropy=entropy) for _ in range(CALLS)]
    zeros = np.zeros(case.size, dtype=np.int64)
    return lambda: draw(case.law, zeros, sensitivity=SENSITIVITY, entropy=entropy)


def theirs(case: Case) -> Run | None:
    """The same noise on zeros by OpenDP."""
    if opendp is None:
        return None
    gaussian = isinstance(case.law, DiscreteGaussian | RoundedGaussian)
    whole = isinstance(case.law, DiscreteLaplace | DiscreteGaussian)
    kind: Any = int if whole else float
    atom = opendp.atom_domain(T=int) if whole else opendp.atom_domain(T=float, nan=False)
    make = opendp.m.make_gaussian if gaussian else opendp.m.make_laplace
    noise = {"scale": 2.0**case.steps} if whole else {"scale": 1.0, "k": -case.steps}
    if case.size == 1:
        one = make(atom, opendp.absolute_distance(T=kind), **noise)
        return lambda: [one(kind(0)) for _ in range(CALLS)]
    metric = opendp.l2_distance(T=kind) if gaussian else opendp.l1_distance(T=kind)
    many = make(opendp.vector_domain(atom, size=case.size), metric, **noise)
    zeros = [kind(0)] * case.size
    return lambda: many(zeros)


def unsafe(case: Case) -> Run:
    """Floats of numpy."""
    generator = np.random.default_rng(1)
    gaussian = isinstance(case.law, DiscreteGaussian | RoundedGaussian)
    sampler: Callable[..., object] = generator.normal if gaussian else generator.laplace
    if case.size == 1:
        return lambda: [sampler() for _ in range(CALLS)]
    return lambda: sampler(size=case.size)


@dataclass(frozen=True)
class Function:
    """One line of the table of the other functions: ours, OpenDP's, numpy's."""

    name: str
    size: int
    runs: list[Run | None]


def others() -> list[Function]:
    """Choices, coins, chains."""
    laws: tuple[Weighted, ...] = (ExponentialWeights("0.5"), PermuteAndFlipChoice("0.5"))
    found = [choice(law, size) for law in laws for size in CANDIDATES]
    return [*found, *(coins(size) for size in SIZES), *(levels(size) for size in SIZES)]


def choice(law: Weighted, size: int) -> Function:
    """One choice among `size` candidates."""
    entropy, generator = system(), np.random.default_rng(1)
    scores = np.arange(size) % 100
    listed, exponent = scores.tolist(), float(law.exponent)

    def softmax() -> object:
        weights = np.exp(exponent * (scores - scores.max()))
        return generator.choice(size, p=weights / weights.sum())

    def noisy_max() -> object:
        return int(np.argmax(exponent * scores + generator.exponential(size=size)))

    weighted = isinstance(law, ExponentialWeights)
    peer = None
    if opendp is not None:
        measure = opendp.zero_concentrated_divergence() if weighted else opendp.max_divergence()
        whole = opendp.vector_domain(opendp.atom_domain(T=int))
        peer = opendp.m.make_noisy_max(whole, opendp.linf_distance(T=int), measure, scale=1 / exponent)
    return Function(
        law.kind,
        size,
        [
            lambda: choose(law, scores, sensitivity=SENSITIVITY, entropy=entropy),
            peer and (lambda: peer(listed)),
            softmax if weighted else noisy_max,
        ],
    )


def coins(size: int) -> Function:
    """`size` coins at once, or one after another."""
    entropy, generator = system(), np.random.default_rng(1)
    peer = opendp and opendp.m.make_randomized_response_bool(prob=float(CHANCE))
    calls = CALLS if size == 1 else size
    return Function(
        "coins",
        size,
        [
            (lambda: [happens(CHANCE, entropy=entropy) for _ in range(CALLS)])
            if size == 1
            else (lambda: happens(CHANCE, size=size, entropy=entropy)),
            peer and (lambda: [peer(True) for _ in range(calls)]),
            (lambda: [generator.random() < float(CHANCE) for _ in range(CALLS)])
            if size == 1
            else (lambda: generator.random(size) < float(CHANCE)),
        ],
    )


def levels(size: int) -> Function:
    """Chains on `size` zeros, or as many chains of one."""
    entropy = system()
    value: Any = 0 if size == 1 else np.zeros(size, dtype=np.int64)

    def one() -> object:
        levels = chain(DiscreteLaplace(LEVELS[-1]), value, sensitivity=SENSITIVITY, entropy=entropy)
        return [levels.refine(scale) for scale in LEVELS]

    others = [Case(DiscreteLaplace(scale), round(math.log2(scale)), size) for scale in LEVELS]
    alone = [[by(case) for case in others] for by in (theirs, unsafe)]
    peer, floats = (
        None if None in runs else (lambda runs=runs: [run() for run in runs if run is not None]) for runs in alone
    )
    return Function("chain", size, [(lambda: [one() for _ in range(CALLS)]) if size == 1 else one, peer, floats])


def nanoseconds(runs: list[Run | None], size: int, rounds: int) -> list[float]:
    """A draw of each run, the best of `rounds` taken in turns; NaN where there is none."""
    best = [math.nan] * len(runs)
    for _ in range(rounds):
        for place, run in enumerate(runs):
            if run is None:
                continue
            repeats = max(1, 100_000 // size) if place != 1 and size > 1 else 1
            start = time.process_time()
            for _ in range(repeats):
                run()
            spent = (time.process_time() - start) * 1e9 / repeats / (size if size > 1 else CALLS)
            best[place] = spent if math.isnan(best[place]) else min(best[place], spent)
    return best


def asking(rounds: int) -> float:
    """Microseconds for one question to a sparse vector that is answered "below"."""
    best = math.inf
    for _ in range(rounds):
        run = SparseVector(epsilon=1, cutoff=1, threshold=10**6, charged="above", sensitivity=1).open(
            None, entropy=system()
        )
        start = time.process_time()
        for _ in range(ASKED):
            run.ask(0)
        best = min(best, (time.process_time() - start) * 1e6 / ASKED)
    return best


def walking() -> float:
    """Seconds for the 48 levels of a ridge release with 77 features: 3,080 entries on a grid that floats do not reach,
    over a thousandfold of scales."""
    finest = RoundedLaplace("0.1", grid=2.0**-40)
    scales = [round(Decimal(100) / Decimal(1000) ** (Decimal(k) / 47), 12) for k in range(47)] + [finest.scale]
    levels = chain(finest, np.zeros(77 * 80 // 2, dtype=np.int64), sensitivity=SENSITIVITY, entropy=system())
    start = time.process_time()
    for scale in scales:
        levels.refine(scale)
    return time.process_time() - start


def said(name: str, value: float, unit: str, good: bool) -> str:
    """One verdict."""
    return f"{'PASS' if good else 'FAIL'}  {name}: {value:.1f} {unit}"


def main() -> None:
    """Measure and print the table and the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if opendp is None:
        print("OpenDP is not installed (the extra `bench` holds it): nothing stands beside our samplers but numpy.")
    print(f"{'law':18} {'steps':>6} {'size':>7} {'ns/draw':>9} {'OpenDP':>9} {'times':>6} {'numpy':>7} {'times':>6}")
    slowest, ratios = 0.0, dict.fromkeys(SIZES, math.inf)
    for case in cases(options.quick):
        exact, peer, floats = nanoseconds([ours(case), theirs(case), unsafe(case)], case.size, options.rounds)
        line = f"{case.law.kind:18} {'2^' + str(case.steps):>6} {case.size:7} {exact:9.1f} {peer:9.0f}"
        print(f"{line} {peer / exact:6.0f} {floats:7.1f} {floats / exact:6.2f}", flush=True)
        ratios[case.size] = min(ratios[case.size], peer / exact)
        if case.size == 1:
            slowest = max(slowest, exact / 1000)
    print(f"\n{'function':26} {'size':>7} {'ns/one':>9} {'OpenDP':>9} {'times':>6} {'numpy':>7} {'times':>6}")
    for one in others():
        exact, peer, floats = nanoseconds(one.runs, one.size, options.rounds)
        line = f"{one.name:26} {one.size:7} {exact:9.1f} {peer:9.0f} {peer / exact:6.1f}"
        print(f"{line} {floats:7.1f} {floats / exact:6.2f}", flush=True)
    verdicts = [said("a single draw, the slowest law", slowest, "microseconds", slowest <= SCALAR_MICROSECONDS)]
    question = asking(options.rounds)
    verdicts.append(said("a question to a sparse vector", question, "microseconds", question <= SCALAR_MICROSECONDS))
    walk = min(walking() for _ in range(options.rounds))
    verdicts.append(said("48 levels of 3,080 entries", 1000 * walk, "milliseconds", walk <= WALK_SECONDS))
    if opendp is not None:
        verdicts += [
            said(f"vectors of {size}, the least ratio", ratios[size], "times OpenDP", ratios[size] >= TARGET)
            for size in SIZES
            if size > 1
        ]
    print("\n".join(verdicts))
    sys.exit(any(verdict.startswith("FAIL") for verdict in verdicts))


if __name__ == "__main__":
    main()
