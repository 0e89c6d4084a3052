"""Every mechanism of the project beside two neighbours: what a replay must not refute, and whose planted faults it must
find. A case is one run: interactions are opened, asked and closed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import dpledger as dpl
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.representations.representations import (
    HashedPointRepresentation,
    TrivialRepresentation,
)
from learning_tables import SMALL

__all__ = ["CASES", "Case"]

ADD, REPLACE = "add_remove", "replace_one"
ROWS = np.linspace(0, 9, 24)
RECORD = dpl.Unit()
PAIR = dpl.Unit("user", max_contributions=2)


@dataclass(frozen=True, slots=True)
class Case:
    """`ask`: how an interaction goes; None: it answers once. `ready`: of the data, what the mechanism is given."""

    mechanism: Any
    left: Any
    right: Any
    relation: str = ADD
    unit: dpl.Unit = RECORD
    ask: Callable[[Any], object] | None = None
    ready: Callable[[Any, Entropy], Any] | None = None

    @property
    def name(self) -> str:
        return type(self.mechanism).__name__

    def placed(self) -> Any:
        return self.mechanism.under(dpl.Relation(self.relation), self.unit)

    def job(self) -> Any:
        """What is replayed."""
        if self.ask is None and self.ready is None:
            return self.mechanism
        mine, ask, ready = self.placed(), self.ask, self.ready

        def run(data: Any, entropy: Entropy) -> object:
            given = data if ready is None else ready(data, entropy)
            if ask is None:
                return mine.release(given, entropy=entropy).value
            conversation = mine.open(given, entropy=entropy)
            answers = ask(conversation)
            return answers, conversation.close()

        return run

    def replay(self, job: Any = None, **given: Any) -> dpl.results.ReplayResult:
        claim = self.placed().claim()
        mine = self.job() if job is None else job
        return dpl.audit_replay(
            mine, self.left, self.right, claim=claim, relation=self.relation, unit=self.unit, **given
        )


def labelled(x: Any, y: Any) -> dpl.learning.LabeledSample:
    return dpl.learning.LabeledSample(np.array(x), np.array(y))


POINTS = labelled([0, 1, 5, 6, 7], [1, 1, 0, 0, 0]), labelled([0, 1, 5, 6], [1, 1, 0, 0])
FLIPPED = labelled([0, 1, 5, 6], [1, 0, 0, 0])
BITS = labelled([[1, 0, 1], [0, 1, 1], [1, 1, 1]], [1, 0, 1]), labelled([[1, 0, 1], [0, 1, 1]], [1, 0])
TABLE = (
    dpl.learning.LabeledSample([[20, 1, "red"], [70, 0, "blue"]], [1, 0]),
    dpl.learning.LabeledSample([[20, 1, "red"]], [1]),
)
USERS = (
    dpl.learning.UserSample(np.array([[0, 1], [2, 3], [6, 7]]), np.array([[1, 1], [0, 0], [0, 1]])),
    dpl.learning.UserSample(np.array([[0, 1], [2, 3]]), np.array([[1, 1], [0, 0]])),
)
TRAINED = np.linspace(-1, 1, 24).reshape(12, 2)
TAUGHT = (np.arange(120) / 7, (np.arange(120) > 60).astype(int))
SWAPPED = (TAUGHT[0], np.where(np.arange(120) == 30, 1, TAUGHT[1]))
FEWER = (TAUGHT[0][:-1], TAUGHT[1][:-1])
SCORED = (TAUGHT[0], TAUGHT[1] * 0.9)
RESCORED = (TAUGHT[0], np.where(np.arange(120) == 30, 0.5, SCORED[1]))
FITTED = (np.linspace(-0.4, 0.3, 120).reshape(40, 3), np.linspace(-1, 1, 40))
REFITTED = (np.where(np.arange(40)[:, None] == 3, 0.3, FITTED[0]), FITTED[1])


def first_label(rows: Any, labels: Any) -> Any:
    """Below the mean of the chunk the class of its first row, else the other one."""
    middle, first = rows.mean(), int(labels[0])
    return lambda asked: np.where(asked < middle, first, 1 - first)


def mean_label(rows: Any, labels: Any) -> Any:
    return lambda asked: labels.mean() * np.ones(len(asked))


def ensemble(chunker: str, learner: Any = first_label, classes: int | None = 2) -> Any:
    def ready(data: Any, entropy: Entropy) -> Any:
        dealt: dict[str, Any] = {"unsafe_entropy": entropy} if chunker == "random" else {}
        return dpl.stability.Ensemble.fit(learner, data, 41, chunker, classes=classes, progress=False, **dealt)

    return ready


def lesson(data: Any, entropy: Entropy) -> Any:
    return dpl.stability.Lesson(ensemble("slots")(data, entropy), [0.5, 10.25, 15.5])


def each(*queries: Any) -> Callable[[Any], object]:
    return lambda run: [run.ask(query) for query in queries]


def many(*queries: Any) -> Callable[[Any], object]:
    return lambda run: run.ask_many(list(queries))


def until_halted(*queries: Any) -> Callable[[Any], object]:
    return lambda run: [run.ask(query) for query in itertools.takewhile(lambda _: not run.halted, queries)]


def trained(run: Any) -> object:
    return [run.ask(lambda batch: np.asarray(batch) * 3) for _ in run.steps()]


def trained_by_users(run: Any) -> object:
    def sums(users: Any) -> Any:
        return np.array([3 * user.sum(axis=0) for user in users]).reshape(len(users), 2)

    return [run.ask(sums) for _ in run.steps()]


def above(count: float) -> Any:
    return lambda rows: float(np.sum(np.asarray(rows) > count))


def judged(value: float) -> dpl.ex_post.Judged:
    return dpl.ex_post.Judged(value, lambda published: abs(published - value))


def numbers() -> Iterator[Case]:
    yield Case(dpl.Count(1, of="rows"), [1] * 9, [1] * 10)
    yield Case(dpl.Count(1, of="true"), [True] * 9, [*[True] * 8, None], REPLACE)
    yield Case(dpl.Histogram(1, categories=("a", "b")), ["a", "b", "a"], ["a", "b", "b"], REPLACE)
    yield Case(dpl.Histogram(1, edges=(0, 3, 9)), ROWS.tolist(), ROWS[:-1].tolist())
    yield Case(dpl.ClippedMean(1, lower=0, upper=10), ROWS.tolist(), ROWS[:-1].tolist())
    yield Case(dpl.ClippedMean(1, lower=0, upper=10), ROWS.tolist(), [*ROWS[:-1].tolist(), float("nan")], REPLACE)
    for column in (
        dpl.ClippedSum(1, lower=-2, upper=10),
        dpl.Variance(1, lower=0, upper=10),
        dpl.ColumnBounds(1, tail="0.1"),
        dpl.Quantile(1, q="0.3", lower=0, upper=10),
        dpl.Quantiles(1, qs=("0.25", "0.5", "0.75", "0.9"), lower=0, upper=10),
    ):
        yield Case(column, ROWS.tolist(), ROWS[:-1].tolist())
        yield Case(column, ROWS.tolist(), [*ROWS[:-1].tolist(), float("nan")], REPLACE)
        yield Case(column, ROWS.tolist(), [0, 0.5, *ROWS[2:].tolist()], REPLACE, PAIR)
    frequent = dpl.TopK(1, k=2, categories=("a", "b", "c"))
    yield Case(frequent, ["a", "b", "a"], ["a", "b"])
    yield Case(frequent, ["a", "b", "a"], ["a", "b", "b"], REPLACE)
    yield Case(dpl.RandomizedResponse(answers=("a", "b"), epsilon=1), ["a", "b", "a"], ["a", "a", "a"], REPLACE)
    yield Case(dpl.Laplace(sensitivity=1, epsilon=1), 12.25, 13.25)
    yield Case(dpl.Gaussian(sensitivity=1, noise_multiplier=1), 12.25, 13.25)
    yield Case(dpl.Geometric(sensitivity=2, epsilon=1), 12, 14)
    yield Case(dpl.IntegerGaussian(sensitivity=1, sigma=1), 12, 13)
    yield Case(dpl.ExponentialMechanism(candidates=3, epsilon=1, sensitivity="0.5"), [1, 2.5, 0], [1.5, 2, 0])
    best = dpl.planning.NegativeBinomialTrials(eta=0, gamma="0.2")
    yield Case(dpl.PrivateSelection(of=dpl.Geometric(sensitivity=2, epsilon=1), repeats=best), 12, 14)
    yield Case(dpl.PermuteAndFlip(candidates=("a", "b"), epsilon=1, sensitivity=1), [3, 4], [4, 3])
    segments = dpl.learning.Segments([3, 1, 4], [10, 2**40, 3]), dpl.learning.Segments([3, 2, 3], [10, 2**40, 3])
    yield Case(dpl.ExponentialMechanism(candidates=2**40 + 13, epsilon=1, sensitivity=1), *segments)


def groups() -> Iterator[Case]:
    statistics = (
        dpl.Count(1, of="rows"),
        ("value", dpl.ClippedMean(1, lower=0, upper=10)),
        ("value", dpl.Histogram(1, edges=(0, 3, 10))),
    )
    table = pd.DataFrame({"key": list("abcabcab"), "value": ROWS[:8], "unit": list("uuvvwwxx")})
    for left, right, relation in ((table, table[:-1], ADD), (table, table.assign(key=list("abcabcac")), REPLACE)):
        yield Case(dpl.GroupBy("key", statistics, keys=list("abz")), left, right, relation)
    many = table.assign(key="a")
    shared: dict[str, Any] = {"key_epsilon": 2, "key_delta": "0.01", "units": "unit"}
    yield Case(dpl.GroupBy("key", statistics, **shared), many, many[:-2], ADD, PAIR)
    yield Case(dpl.GroupBy("key", (), **shared), many, many[:-2], ADD, PAIR)


def streams() -> Iterator[Case]:
    asked = tuple(above(k) for k in (1, 3, 5, 7, 8))
    for mechanism in (
        dpl.AboveThreshold(epsilon=2, threshold=10, sensitivity=1, max_queries=5),
        dpl.SparseVector(epsilon=2, cutoff=3, threshold=10, sensitivity=1),
    ):
        yield Case(mechanism, ROWS, ROWS[:-1], ask=until_halted(*asked))
        yield Case(mechanism, ROWS, ROWS[:-1], ask=many(*asked))
    queries = dpl.learning.StatisticalQueryOracle(epsilon=1, queries=3)
    counted = each(lambda x, y: np.asarray(y) * 1.0, lambda x, y: np.asarray(x) > 3)
    yield Case(queries, *POINTS, ask=counted)
    yield Case(
        dpl.learning.StatisticalQueryOracle(epsilon=1, queries=3, mode="uniform", n=4),
        POINTS[1],
        FLIPPED,
        REPLACE,
        ask=counted,
    )


def refinements() -> Iterator[Case]:
    levels = each("0.1", "0.3", 1)
    yield Case(dpl.ex_post.GradualRelease(epsilon=2, sensitivity=1), 33.5, 34.5, ask=levels)
    yield Case(dpl.ex_post.GradualRelease(epsilon=2, sensitivity=1, whole=True), 33, 34, ask=levels)
    yield Case(dpl.ex_post.GradualMean(epsilon=2, lower=0, upper=10), ROWS.tolist(), ROWS[:-1].tolist(), ask=levels)
    boundary = dpl.ex_post.MixtureBoundary(1, "1e-6")
    yield Case(dpl.ex_post.GradualGaussian(mu=2, sensitivity=1, boundary=boundary), 33.5, 34.5, ask=levels)
    search: dict[str, Any] = {"accepts": 5, "check_epsilon": 1, "sensitivity": 1, "error_sensitivity": 1}
    yield Case(dpl.ex_post.Doubling(first="0.1", rounds=3, **search), judged(33.5), judged(34.5))
    yield Case(dpl.ex_post.NoiseReduction(least="0.1", most=2, levels=4, **search), judged(33.5), judged(34.5))
    for family in ("ridge", "logistic"):
        fitting = dpl.ex_post.AccuracyFirst(family, 40, 3, "0.3", "0.4", levels=20)
        yield Case(fitting, FITTED, REFITTED, REPLACE)


def stable() -> Iterator[Case]:
    for mode in ("optimal", "tight"):
        for distances in ((0, 1), (30, 31), (10**6, 10**6 + 1)):
            near = distances[0] == 0
            left, right = (("a", distances[0]), ("a" if not near else "b", distances[1] if not near else 0))
            yield Case(dpl.stability.StableRelease(epsilon=1, delta="1e-6", mode=mode), left, right)
    proposed = dpl.stability.ProposeTestRelease(epsilon=1, delta="1e-6", local_sensitivity=2)
    yield Case(proposed, (33.5, 10**6), (35.5, 10**6 + 1))
    yield Case(proposed, (33.5, 0), (99.5, 1))
    values = tuple((lambda rows, k=k: (len(rows) > 12, 30 * k)) for k in range(5))
    yield Case(
        dpl.stability.StableQueries(epsilon=1, delta="1e-6", cutoff=2, max_queries=9),
        ROWS,
        ROWS[:-1],
        ask=many(*values),
    )
    votes: dict[str, Any] = {"epsilon": 8, "delta": "1e-4", "chunks": 41, "cutoff": 2, "max_queries": 9}
    for kind in (dpl.stability.PrivateClassifier, dpl.stability.SampleAndAggregate):
        mechanism = kind(**votes)
        asked = many(0.5, 10.25, 15.5, 8.5)
        yield Case(mechanism, TAUGHT, SWAPPED, REPLACE, ask=asked, ready=ensemble("slots"))
        yield Case(mechanism, TAUGHT, FEWER, ADD, ask=asked, ready=ensemble("random"))
    asked = many(0.5, 10.25, 15.5, 8.5)
    confident: dict[str, Any] = {"threshold": 20, "threshold_sigma": 4, "max_answers": 3}
    for given in ({}, confident):
        noisy = dpl.stability.NoisyVotes(sigma=4, chunks=41, max_queries=9, **given)
        yield Case(noisy, TAUGHT, SWAPPED, REPLACE, ask=asked, ready=ensemble("slots"))
        yield Case(noisy, TAUGHT, FEWER, ADD, ask=asked, ready=ensemble("random"))
    hybrid = dpl.stability.HybridVotes(dpl.stability.PrivateClassifier(**votes), sigma=4)
    yield Case(hybrid, TAUGHT, SWAPPED, REPLACE, ask=many(0.5, 10.25, 15.5, 8.5), ready=ensemble("slots"))
    yield Case(hybrid, TAUGHT, FEWER, ADD, ask=many(0.5, 10.25, 15.5, 8.5), ready=ensemble("random"))
    for labels in (
        dpl.stability.PrivateClassifier(**votes),
        dpl.stability.NoisyVotes(sigma=4, chunks=41, max_queries=9),
    ):
        yield Case(dpl.stability.LabelPrivateLearner(labels), TAUGHT, SWAPPED, REPLACE, ready=lesson)
    soft = dpl.stability.SoftLabels(epsilon=8, delta="1e-4", chunks=41, failed_tests=2, bins=7, max_queries=9)
    ready = ensemble("slots", mean_label, None)
    yield Case(soft, SCORED, RESCORED, REPLACE, ask=many(0.5, 1.25, 1.5), ready=ready)


def training() -> Iterator[Case]:
    plan = dpl.DPSGD(rate="0.5", steps=3, noise_multiplier=4, clip_norm=1, dimension=2, expected_batch_size=6)
    yield Case(plan, TRAINED, np.delete(TRAINED, 4, axis=0), ask=trained)
    yield Case(plan, TRAINED, np.where(np.arange(12)[:, None] == 5, 0, TRAINED), "zero_out", ask=trained)
    for given in ({}, {"rate": "0.5"}, {"coefficients": (1, "0.5")}):
        ftrl = dpl.learning.DPFTRL(4, 2, noise_multiplier=4, clip_norm=1, dimension=2, expected_batch_size=6, **given)
        yield Case(ftrl, TRAINED, np.delete(TRAINED, 4, axis=0), ask=trained)
        if not given:
            yield Case(ftrl, TRAINED, np.where(np.arange(12)[:, None] == 5, -TRAINED, TRAINED), REPLACE, ask=trained)
    users = np.repeat(np.arange(6), 2)
    whole = dpl.ByUnit(TRAINED, units=users), dpl.ByUnit(TRAINED[users != 2], units=users[users != 2])
    yield Case(plan, *whole, ADD, PAIR, ask=trained_by_users)


def learners() -> Iterator[Case]:
    thresholds = dpl.learning.ThresholdClass(8)
    for sample in (POINTS, (POINTS[1], FLIPPED)):
        relation = ADD if sample is POINTS else REPLACE
        yield Case(dpl.learning.ExponentialPPACLearner(thresholds, epsilon=1), *sample, relation)
        yield Case(dpl.learning.PrivateSQThresholdLearner(points=9, epsilon=1), *sample, relation)
    yield Case(dpl.learning.ExponentialPPACLearner(dpl.learning.PointClass(2**64), epsilon=1), *POINTS)
    yield Case(dpl.learning.PrivateConjunctionLearner(variables=3, epsilon=1, beta="0.9"), *BITS)
    yield Case(dpl.learning.PrivateStumpBooster(SMALL, epsilon=1, rounds=3), *TABLE)
    yield Case(dpl.learning.PrivateLogisticLearner(SMALL, rho=1, steps=3), *TABLE)
    yield Case(dpl.learning.PrivateParityLearner(dimension=3, epsilon=2), *BITS)
    one_row = labelled([[1]], [0]), labelled(np.zeros((0, 1)), [])
    yield Case(dpl.learning.RepeatedParity(dimension=1, epsilon=2, mode="basic", runs=3), *one_row)
    yield Case(dpl.learning.RepeatedParity(dimension=3, epsilon=2, stop_probability="0.05"), *BITS)
    hashed = HashedPointRepresentation(dimension=8, bits=3, a="0.2", seed=1)
    yield Case(dpl.learning.RealizableRepresentationLearner(hashed, epsilon=1), *POINTS)
    itself = TrivialRepresentation(dpl.learning.ThresholdClass(2**64))
    yield Case(dpl.learning.SurrogateAgnosticLearner(itself.concept_class, itself, epsilon=1), *POINTS)
    yield Case(dpl.learning.ClippedPairwiseEM(thresholds, epsilon=1, clip=1), *USERS, ADD, PAIR)
    yield Case(dpl.learning.MinErrorTest(thresholds, guess="0.2", resolution="0.1", epsilon=1), *USERS, ADD, PAIR)
    yield Case(dpl.learning.MinimumErrorEstimator(thresholds, resolution="0.1", epsilon=1), *USERS, ADD, PAIR)
    yield Case(
        dpl.learning.MinimumErrorEstimator(thresholds, resolution="0.1", epsilon=1, search="scan"), *USERS, ADD, PAIR
    )
    inside: dict[str, Any] = {"epsilon": 1, "resolution": "0.1", "margin": "0.1"}
    yield Case(dpl.learning.UserLevelProperLearner(thresholds, **inside), *USERS, ADD, PAIR)
    points = HashedPointRepresentation(dimension=40, bits=9, a="0.1", seed=1)
    yield Case(
        dpl.learning.UserLevelSurrogateLearner(dpl.learning.PointClass(2**40), representation=points, **inside),
        *USERS,
        ADD,
        PAIR,
    )
    yield Case(dpl.learning.UserLevelMedian(points=8, epsilon=1, mass=1), *USERS, ADD, PAIR)
    for comparison in ("sharp", "paper", "noisy_max"):
        halving = dpl.learning.UserLevelThresholdLearner(
            thresholds, epsilon=1, alpha="0.5", comparison=comparison, resolution="0.05", margin="0.1"
        )
        yield Case(halving, *USERS, ADD, PAIR)


CASES: tuple[Case, ...] = (*numbers(), *groups(), *streams(), *refinements(), *stable(), *training(), *learners())
"""All of them."""
