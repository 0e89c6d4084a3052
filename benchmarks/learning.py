"""Private learners where classes are large, beside numpy on all of a class, OpenDP's and diffprivlib's choices.

    python benchmarks/learning.py [--quick] [--rounds 3]

Seconds of the processor for one release (the best of the rounds, taken in turns), and how many times longer each peer
takes; then each target with PASS or FAIL. Peers draw among all concepts from the same errors: numpy by Gumbel noise in
floats, OpenDP by `make_noisy_max` with Gumbel noise, diffprivlib by its `Exponential`; what is not installed is named
and left out, and `--quick` asks no peer for more than 10^5 concepts. A class of 2^64 points has no peer.

Lines: the exponential mechanism over thresholds and points on 10^7 and 2^64 points; systems over GF(2), one of 1,024 x
4,096 and 10^5 random small ones at once; concepts of 250 users with 100 examples by clipped pairs; thresholds of
100,000 users with 100 examples; 200 statistical queries of a million records; a thousand runs of one bounded range,
and mixes of ten, in their order and in any, composed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is loaded: others' spinning is no time of the processor for us

import numpy as np
import numpy.typing as npt

import dpledger as dpl
from dpledger.mechanisms.entropy import system
from dpledger.mechanisms.learning.equations import Echelon, Systems
from dpledger.mechanisms.learning.users.thresholds import UserLevelThresholdLearner
from dpledger.relations import Relation, Unit

try:
    import opendp.prelude as opendp

    opendp.enable_features("contrib", "honest-but-curious")
except ImportError:
    opendp = None
try:
    from diffprivlib.mechanisms import Exponential
except ImportError:
    Exponential = None

ROWS = 10**5
CONCEPTS = 10**7
QUICK = 10**5
FAST = 0.1  # seconds of a composition
NARROW = 1e-3  # between its ends, relative
Run = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One line: ours, its peers by their names, and within how many seconds ours should be."""

    name: str
    ours: Run
    within: float
    peers: dict[str, Run] = field(default_factory=dict)


def best(runs: list[Run], rounds: int) -> list[float]:
    """Seconds of each run, the best of `rounds` taken in turns."""
    found = [float("inf")] * len(runs)
    for _ in range(rounds):
        for place, run in enumerate(runs):
            start = time.process_time()
            run()
            found[place] = min(found[place], time.process_time() - start)
    return found


def choices(points: int, quick: bool) -> list[Case]:
    """One concept of a class by its errors on a hundred thousand rows."""
    generator = np.random.default_rng(1)
    x = generator.integers(0, points - 1, ROWS, dtype=np.uint64, endpoint=True)
    sample = dpl.learning.LabeledSample(x, x < points // 3)
    found = []
    for concepts in (dpl.learning.ThresholdClass(points), dpl.learning.PointClass(points)):
        learner = dpl.learning.ExponentialPPACLearner(concepts, epsilon=1).under(Relation.REPLACE_ONE, Unit())
        name = f"{type(concepts).__name__} of {points:.0e} points"
        run = lambda learner=learner: learner.release(sample, entropy=system())  # noqa: E731
        within, peers = (1.0, {}) if points > CONCEPTS else (1.0, rivals(concepts, sample, quick))
        found.append(Case(name, run, within, peers))
    return found


def rivals(
    concepts: dpl.learning.ThresholdClass | dpl.learning.PointClass, sample: dpl.learning.LabeledSample, quick: bool
) -> dict[str, Run]:
    """The same choice among all concepts in a row, from the same errors."""
    generator = np.random.default_rng(2)

    def errors() -> npt.NDArray[np.int64]:
        counted = concepts.errors(sample)
        return np.repeat(counted.errors, counted.counts)

    def noisy_max() -> int:
        weights = -errors() / 2
        return int(np.argmax(weights + generator.gumbel(size=len(weights))))

    found: dict[str, Run] = {"numpy": noisy_max}
    if quick and concepts.size > QUICK:
        return found
    if opendp is not None:
        whole = opendp.vector_domain(opendp.atom_domain(T=int))
        measure = opendp.zero_concentrated_divergence()
        noisy = opendp.m.make_noisy_max(whole, opendp.linf_distance(T=int), measure, scale=2.0)
        found["OpenDP"] = lambda: noisy((-errors()).tolist())
    if Exponential is not None:

        def exponential() -> object:
            utility = (-errors()).astype(float).tolist()
            return Exponential(epsilon=1.0, sensitivity=1.0, utility=utility).randomise()

        found["diffprivlib"] = exponential
    return found


def equations() -> list[Case]:
    """Systems over GF(2), one by elimination and many at once; beside one by rows of bytes."""
    generator = np.random.default_rng(3)
    left = generator.integers(0, 2, (1024, 4096), dtype=np.uint8)
    right = left @ generator.integers(0, 2, 4096, dtype=np.uint8) & 1

    def by_bytes() -> object:
        rows = np.hstack([left, right[:, None]])
        rank = 0
        for column in range(left.shape[1]):
            below = np.flatnonzero(rows[rank:, column])
            if not len(below):
                continue
            rows[[rank, rank + below[0]]] = rows[[rank + below[0], rank]]
            others = np.flatnonzero(rows[:, column])
            rows[others[others != rank]] ^= rows[rank]
            rank += 1
            if rank == len(rows):
                break
        return rank

    def many() -> object:
        systems = Systems(10**5, 3)
        for equation in generator.integers(0, 16, 8).tolist():
            systems.add(equation, generator.random(10**5) < 0.5)
        return systems.solutions(generator.integers(0, 8, 10**5, dtype=np.uint64))

    return [
        Case("one system, 1,024 x 4,096", lambda: Echelon.of(left, right), 1.0, {"numpy": by_bytes}),
        Case("10^5 systems, 8 x 3", many, 1.0),
    ]


@dataclass(frozen=True)
class Composed:
    """Epsilon of many selections, and by how much its two ends differ."""

    name: str
    tree: Callable[[int], dpl.Composition]
    order: Literal["any", "given"] = "any"

    def asked(self, rounds: int) -> tuple[float, float]:
        """The seconds of the fastest round, each on other numbers, and the relative width."""
        seconds, width = float("inf"), 0.0
        for number in range(rounds):
            start = time.process_time()
            found = dpl.compose(self.tree(number), order=self.order).epsilon("1e-6")
            seconds = min(seconds, time.process_time() - start)
            width = max(width, (found.upper - found.lower) / found.upper)
        return seconds, width


def compositions() -> list[Composed]:
    """Many selections at delta = 10^-6, from the certified engine."""

    def eta(thousandths: int, number: int) -> dpl.BoundedRange:
        return dpl.BoundedRange(f"{(1000 * thousandths + number) / 10**6:.6f}")

    def once(number: int) -> dpl.Composition:
        return dpl.Sequence(tuple(eta(100 + 10 * k, number) for k in range(10)))

    def ten_times(number: int) -> dpl.Composition:
        return dpl.Sequence(tuple(dpl.Repeated(eta(10 + 5 * k, number), 10) for k in range(10)))

    return [
        Composed("a thousand runs of one range", lambda i: dpl.Repeated(eta(10, i), 1000)),
        Composed("ten ranges, once each, in order", once, "given"),
        Composed("ten ranges, once each, in any order", once),
        Composed("ten ranges, ten runs of each, in order", ten_times, "given"),
        Composed("ten ranges, ten runs each, in any order", ten_times),
    ]


def users(quick: bool) -> list[Case]:
    """Concepts learned from users with a hundred examples."""
    generator = np.random.default_rng(4)
    unit = Unit("user", max_contributions=100)
    few = generator.integers(0, 1024, (250, 100))
    clipped = dpl.learning.ClippedPairwiseEM(dpl.learning.ThresholdClass(1024), epsilon=1, clip=29).under(
        Relation.REPLACE_ONE, unit
    )
    small = dpl.learning.UserSample(few, few < 400)
    many = generator.integers(0, 2**40, (10**4 if quick else 10**5, 100))
    halving = UserLevelThresholdLearner(concept_class=dpl.learning.ThresholdClass(2**40), epsilon=1, alpha="0.1")
    placed, large = halving.under(Relation.REPLACE_ONE, unit), dpl.learning.UserSample(many, many < 2**39)

    def dense() -> object:
        wrong = np.arange(1024)[None, :] < np.arange(1025)[:, None]
        mistakes = np.array([(wrong[:, x] != y).sum(axis=1) for x, y in zip(small.x, small.y, strict=True)])
        preferred = np.zeros((1025, 1025))
        for row in mistakes:
            preferred += np.clip(row[None, :] - row[:, None], -29, 29)
        return int(np.argmax(preferred.min(axis=1) / 116 + generator.gumbel(size=1025)))

    return [
        Case(
            "1,025 thresholds by clipped pairs", lambda: clipped.release(small, entropy=system()), 5.0, {"numpy": dense}
        ),
        Case(f"a threshold of {len(many):,} users", lambda: placed.release(large, entropy=system()), 60.0),
    ]


def queries(quick: bool) -> list[Case]:
    """Two hundred indicators of a thousand points, asked of a million records."""
    generator = np.random.default_rng(5)
    rows, points, many = 10**5 if quick else 10**6, 1000, 200
    sample = dpl.learning.LabeledSample(generator.integers(0, points, rows), generator.integers(0, 2, rows))
    tables = generator.integers(0, 2, (many, 2, points))
    oracle = dpl.learning.StatisticalQueryOracle(epsilon=1, queries=many, values="whole", n=rows)
    placed = oracle.under(Relation.REPLACE_ONE, Unit())

    def on_cells() -> object:
        run = placed.open(sample, entropy=system())
        return [run.ask(dpl.learning.DomainQuery(table)) for table in tables]

    def by_row() -> object:
        run = placed.open(sample, entropy=system())
        return [run.ask(lambda x, y, table=table: table[y, x]) for table in tables]

    return [Case(f"{many} queries of {rows:,} records", on_cells, 1.0, {"record by record": by_row})]


def main() -> None:
    """Measure and print the table and the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for name, library in (("OpenDP", opendp), ("diffprivlib", Exponential)):
        if library is None:
            print(f"{name} is not installed (the extra `bench` holds it): it stands beside nothing here.")
    cases = [
        *choices(CONCEPTS, options.quick),
        *choices(2**64, options.quick),
        *equations(),
        *users(options.quick),
        *queries(options.quick),
    ]
    print(f"{'what':40} {'seconds':>9}  peers: seconds, how many times ours")
    verdicts = []
    for case in cases:
        ours, *theirs = best([case.ours, *case.peers.values()], options.rounds)
        peers = (f"{name} {spent:.3f} s, {spent / ours:.1f}x" for name, spent in zip(case.peers, theirs, strict=True))
        print(f"{case.name:40} {ours:9.4f}  {'; '.join(peers)}", flush=True)
        verdicts.append((ours <= case.within, f"{case.name}: {ours:.3f} of {case.within} s"))
    for composed in compositions():
        seconds, width = composed.asked(options.rounds)
        print(f"{composed.name:40} {seconds:9.4f}  ends {width:.1e} apart", flush=True)
        verdicts.append((seconds <= FAST, f"{composed.name}: {seconds:.3f} of {FAST} s"))
        verdicts.append((width <= NARROW, f"{composed.name}: ends {width:.1e} of {NARROW} apart"))
    print("\n".join(f"{'PASS' if good else 'FAIL'}  {words}" for good, words in verdicts))
    sys.exit(not all(good for good, _ in verdicts))


if __name__ == "__main__":
    main()
