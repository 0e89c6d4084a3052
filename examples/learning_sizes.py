"""How many records it takes to learn a point, a threshold or a parity, with privacy and without: planned and measured.

Concepts live on the points 0 ... 2^bits - 1. A plan holds for every law of the points; what is measured is one law
that is as hard as they come: every concept but the target errs a little more than ALPHA. That much of the mass is on
the point that is to be learned; on each of the two points beside a threshold; and rows of a parity are 0, which tells
nothing, but for twice as much, where they are uniform. Measured is, by halving, the least number of records at which
all but BETA of the runs err at most ALPHA.

    python learning_sizes.py           # small; `private_learning.py` draws it and has the options
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

import dpledger as dpl
from dpledger.errors import InfeasiblePlan
from dpledger.mechanisms.entropy import system
from dpledger.mechanisms.learning.baselines import parity_learner, point_learner, threshold_learner
from dpledger.relations import Relation, Unit

SEED = 20261123
ALPHA, BETA = Decimal("0.1"), Decimal("0.05")
HARD = float(ALPHA) * 1.001  # what a wrong concept errs
STOP = Decimal("0.01")  # the chance that elimination gives up after FAIL
MOST_WEIGHED = 16  # bits of a parity, of all of which the errors are counted
RELATION, RECORD = Relation.REPLACE_ONE, Unit("record")
EPSILON = Decimal(1)
EPSILONS = tuple(Decimal(text) for text in ("0.1", "0.2", "0.5", "1", "2", "5", "10"))
CLASSES = {
    "points": dpl.learning.PointClass,
    "thresholds": dpl.learning.ThresholdClass,
    "parities": dpl.learning.ParityClass,
}


@dataclass(frozen=True)
class Learner:
    """A name, what it needs by its plan, and a run: from rows and labels to a hypothesis, or one that predicts none."""

    name: str
    planned: int
    run: Callable[[Any, Any], Any]


# ---- laws -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hard:
    """A target, and rows by the law that is hard for it."""

    kind: str
    bits: int
    target: int
    far: int

    @classmethod
    def drawn(cls, kind, bits, rng):
        points = 2**bits
        if kind == "thresholds":
            return cls(kind, bits, _below(points - 1, rng) + 1, 0)
        target = _below(points, rng)
        return cls(kind, bits, target, (target + 1 + _below(points - 1, rng)) % points)

    def sample(self, rows, rng):
        """Rows and their labels."""
        if self.kind == "parities":
            told = rng.random(rows) < 2 * HARD
            x = rng.integers(0, 2, (rows, self.bits), dtype=np.uint8) * told[:, None]
            mask = np.array([self.target >> place & 1 for place in range(self.bits)], dtype=bool)
            return x, np.count_nonzero(x[:, mask], axis=1) & 1
        points, chances = self._law()
        drawn = rng.choice(len(points), rows, p=chances)
        return np.array(points, dtype=np.uint64)[drawn], np.array([int(self._label(x)) for x in points])[drawn]

    def error(self, hypothesis):
        """How often it is wrong; 1 where there is none."""
        if hypothesis is None or hypothesis == dpl.learning.FAIL:
            return 1.0
        if self.kind == "parities":
            return HARD * (hypothesis.place != self.target)
        points, chances = self._law()
        said = hypothesis.predict(np.array(points, dtype=np.uint64))
        return sum(chance for x, one, chance in zip(points, said, chances, strict=True) if one != self._label(x))

    def _label(self, x):
        return x == self.target if self.kind == "points" else x < self.target

    def _law(self):
        if self.kind == "points":
            return (self.target, self.far), (HARD, 1 - HARD)
        beside, ends = (self.target - 1, self.target), (0, 2**self.bits - 1)
        return (*beside, *ends), (HARD, HARD, 0.5 - HARD, 0.5 - HARD)


def _below(number, rng):
    """A whole number below this one, which may be 2^64."""
    return int(rng.integers(0, number - 1, dtype=np.uint64, endpoint=True))


# ---- learners -------------------------------------------------------------------------------------------------------


def learners(kind, bits, epsilon=EPSILON):
    """All that learn this class, those whose plan is feasible."""
    concepts = CLASSES[kind](bits if kind == "parities" else 2**bits)
    bare = {"points": point_learner, "thresholds": threshold_learner, "parities": parity_learner}[kind]
    free = dpl.plan(concepts, ALPHA, BETA).needed
    yield Learner("no_privacy", free, lambda x, y: bare(concepts, dpl.learning.LabeledSample(x, y)))
    if kind != "parities" or bits <= MOST_WEIGHED:
        yield _private("exponential_mechanism", dpl.learning.ExponentialPPACLearner(concepts, epsilon=epsilon))
    else:  # a plan without a learner: no one weighs so many
        needed = dpl.plan(concepts, ALPHA, BETA, epsilon=epsilon).needed
        yield Learner("exponential_mechanism", needed, None)
    if kind == "parities":
        shape = {"dimension": bits, "epsilon": epsilon, "mode": "until_success", "stop_probability": STOP}
        yield _private("elimination", dpl.learning.RepeatedParity(**shape))
    if kind == "points":
        yield from hashed(bits, epsilon)


def _private(name, mechanism):
    placed = mechanism.under(RELATION, RECORD)

    def run(x, y):
        return placed.release(dpl.learning.LabeledSample(x, y), entropy=system()).value

    return Learner(name, placed.plan(ALPHA, BETA).needed, run)


def hashed(bits, epsilon):
    """The learner of hashed points with the cells that need fewest records; none where there are as many as points.
    Each run has a hash of its own."""
    found = []
    for part in (32, 16, 8, 4):
        near = ALPHA / part
        cells = math.ceil(2 / (near * BETA) - 1).bit_length()
        if cells < bits:
            shape = {"dimension": bits, "bits": cells, "a": near}
            drawn = dpl.learning.HashedPointRepresentation.drawn(**shape)
            learner = dpl.learning.RealizableRepresentationLearner(representation=drawn, epsilon=epsilon)
            try:
                found.append((learner.under(RELATION, RECORD).plan(ALPHA, BETA).needed, shape))
            except InfeasiblePlan:
                continue
    if found:
        needed, shape = min(found, key=lambda one: one[0])

        def run(x, y):
            fresh = dpl.learning.HashedPointRepresentation.drawn(**shape)
            learner = dpl.learning.RealizableRepresentationLearner(representation=fresh, epsilon=epsilon)
            return learner.under(RELATION, RECORD).release(dpl.learning.LabeledSample(x, y), entropy=system()).value

        yield Learner("hashed_points", needed, run)


# ---- measuring ------------------------------------------------------------------------------------------------------


def kept(learner, kind, bits, records, runs, rng):
    """The share of runs, each with a target of its own, that err at most ALPHA."""
    fine = 0
    for _ in range(runs):
        hard = Hard.drawn(kind, bits, rng)
        fine += hard.error(learner.run(*hard.sample(records, rng))) <= float(ALPHA)
    return fine / runs


def measured(learner, kind, bits, runs):
    """About the least number of records at which so many runs as are promised keep the promise."""
    rng = np.random.default_rng([SEED, bits, len(kind), len(learner.name)])
    low, high = 1, 2 * learner.planned
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if kept(learner, kind, bits, middle, runs, rng) >= 1 - BETA else (middle, high)
    return high


@dataclass(frozen=True)
class Extent:
    """How much is planned, and how much is measured."""

    bits: tuple[int, ...]
    measured: tuple[int, ...]
    runs: int


EXTENT = {
    False: Extent((4, 16, 64), (4, 16), 20),
    True: Extent((2, 4, 8, 12, 16, 24, 32, 48, 64), (4, 16, 64), 200),
}
AT = 16  # bits, where epsilon varies


def row(kind, bits, epsilon, learner, found):
    return {
        "class": kind,
        "bits": bits,
        "epsilon": float(epsilon),
        "learner": learner.name,
        "planned": learner.planned,
        "measured": found,
    }


def by_bits(kind, bits, full):
    """The rows of one domain."""
    extent = EXTENT[full]
    for learner in learners(kind, bits):
        found = None
        if learner.run is not None and bits in extent.measured:
            found = measured(learner, kind, bits, extent.runs)
        yield row(kind, bits, EPSILON, learner, found)


def by_epsilon(kind):
    """Plans alone, on one domain."""
    for epsilon in EPSILONS:
        for learner in learners(kind, AT, epsilon):
            yield row(kind, AT, epsilon, learner, None)


def cells(full):
    """The parts of the experiment, each of which may run in a process of its own."""
    for kind in CLASSES:
        for bits in EXTENT[full].bits:
            yield kind, bits, full


def rows_of(cell):
    return list(by_bits(*cell))


def table(rows):
    """The result as text."""
    print(f"{'class':12} {'bits':>4} {'epsilon':>8}  {'learner':22} {'planned':>8} {'measured':>9}")
    for one in rows:
        found = "-" if one["measured"] is None else f"{one['measured']:,}"
        numbers = f"{one['planned']:8,} {found:>9}"
        print(f"{one['class']:12} {one['bits']:4d} {one['epsilon']:8g}  {one['learner']:22} {numbers}")


def main():
    table([one for cell in cells(False) for one in rows_of(cell)])


if __name__ == "__main__":
    main()
