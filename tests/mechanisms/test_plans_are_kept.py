"""What plans promise, end to end: chunks, models, votes, and the tests of a real run on seeded noise."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.stability.answers import UNSTABLE, SideBySide
from dpledger.mechanisms.stability.on_average import mean_learner
from dpledger.mechanisms.stability.plans.classifier import ClassifierPlan, binclas_plan
from dpledger.mechanisms.stability.plans.soft import SoftPlan, soft_plan
from dpledger.mechanisms.stability.stable_queries import StableQueries
from dpledger.mechanisms.stability.stable_tests import StableMode
from dpledger.relations import Relation, Unit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
BOUNDARY = 0.37
RUNS = 40


def opened(plan: ClassifierPlan | SoftPlan, queries: int, seed: int) -> Any:
    """The run that the plan counts on."""
    mechanism = StableQueries(
        plan.budget.epsilon, plan.budget.delta, plan.cutoff, max_queries=queries, mode=plan.mode
    ).under(Relation.REPLACE_ONE, Unit("record", 1))
    assert mechanism.parts() == plan.tests.parts()
    return mechanism.open(None, entropy=seeded(seed))


# ---- thresholds on [0, 1] -------------------------------------------------------------------------------------------


def models(rng: np.random.Generator, chunks: int, size: int) -> Floats:
    """A consistent threshold for each chunk, the one that errs most: at its largest record of label 0, or its smallest
    of label 1, whichever is further off."""
    x = rng.random((chunks, size), dtype=np.float32)
    below = np.where(x <= BOUNDARY, x, 0).max(axis=1)
    above = np.where(x > BOUNDARY, x, 1).min(axis=1)
    worse: Floats = np.where(BOUNDARY - below > above - BOUNDARY, below, above).astype(np.float64)
    return worse


def classified(plan: ClassifierPlan, seed: int) -> int:
    """How many of the queries are unanswered or wrong in one run."""
    rng = np.random.default_rng(seed)
    thresholds = models(rng, plan.chunks, plan.chosen // plan.chunks)
    queries = rng.random(plan.max_queries)
    ones = (queries[:, None] > thresholds).sum(axis=1)
    gap = np.abs(2 * ones - plan.chunks)
    values, distances = (2 * ones > plan.chunks).astype(int), np.maximum(0, (gap - 1) // 2)
    answers = opened(plan, plan.max_queries, seed).ask_many(SideBySide(values.tolist(), distances.tolist()))
    truth = (queries > BOUNDARY).astype(int)
    right = sum(one is not UNSTABLE and one == own for one, own in zip(answers, truth, strict=False))
    return plan.max_queries - int(right)


def planned(mode: StableMode) -> ClassifierPlan:
    return binclas_plan(400_000, 1, max_queries=100, epsilon=20, delta="1e-4", beta="0.2", mode=mode)


@pytest.mark.parametrize("mode", ["single_threshold", "gaussian"])
def test_a_classifier_keeps_its_plan(mode: StableMode) -> None:
    """If each run broke the plan with probability 0.2, which is all that is promised, more than 20 of 40 would have a
    chance of 3e-6; the plan is worst case, and hardly any does."""
    plan = planned(mode)
    assert plan.spoilt < 10
    broken = sum(classified(plan, seed) > plan.spoilt for seed in range(RUNS))
    assert stats.binom.sf(20, RUNS, 0.2) < 1e-5
    assert broken <= 20


def test_a_classifier_with_a_fifth_of_its_chunks_does_not() -> None:
    plan = planned("single_threshold")
    few = replace(plan, chunks=plan.chunks // 5)
    assert all(classified(few, seed) > plan.spoilt for seed in range(5))


# ---- soft labels ----------------------------------------------------------------------------------------------------


def histogram(scores: Ints, size: int, bins: int, shifted: bool) -> tuple[Ints, Ints]:
    """The winning bin and the distance, by query, of scores that are whole numbers over `size`."""
    places = (2 * scores * bins - size * shifted) // (2 * size)
    last = bins - 1 - shifted
    places = np.where((2 * scores * bins - size * shifted) == 2 * size * (last + 1), last, places)
    counts = np.stack([(places == place).sum(axis=1) for place in range(last + 1)], axis=1)
    ranked = np.sort(counts, axis=1)
    second = ranked[:, -2] if last else np.zeros(len(counts), dtype=np.int64)
    return counts.argmax(axis=1), np.maximum(0, (ranked[:, -1] - second - 1) // 2)


def soften(plan: SoftPlan, truth: Floats, seed: int) -> tuple[list[float | None], int]:
    """The answers of one run whose models give the mean of 0/1 records, and how many tests failed."""
    rng = np.random.default_rng(seed)
    size = plan.chosen // plan.chunks
    scores = rng.binomial(size, truth[:, None], size=(len(truth), plan.chunks))
    plain, shifted = (histogram(scores, size, plan.bins, on) for on in (False, True))
    run, answers, failed = opened(plan, 2 * len(truth), seed), [], 0
    for query in range(len(truth)):
        answer: float | None = None
        for offset, (winner, distance) in ((0.5, plain), (1.0, shifted)):
            if failed == plan.failed_tests:
                break
            if run.ask(lambda _, pair=(int(winner[query]), int(distance[query])): pair) is not UNSTABLE:
                answer = (int(winner[query]) + offset) / plan.bins
                break
            failed += 1
        answers.append(answer)
    return answers, failed


def soft_queries(plan: SoftPlan, zeta: float, queries: int, seed: int) -> Floats:
    """True scores: `uncertain` of them anywhere, boundaries of bins among them; the others within zeta of 0 or 1."""
    rng = np.random.default_rng([seed, 1])
    end = zeta * rng.random(queries)
    truth = np.where(rng.random(queries) < 0.5, end, 1 - end)
    unsure = rng.choice(queries, size=plan.uncertain, replace=False)
    truth[unsure] = rng.random(plan.uncertain)
    truth[unsure[::2]] = rng.integers(1, plan.bins, size=len(unsure[::2])) / plan.bins
    return truth


def planned_softly() -> SoftPlan:
    return soft_plan(
        600_000,
        lambda size: mean_learner(size, variance="0.25").mu,
        "0.05",
        max_queries=150,
        uncertain=10,
        epsilon=20,
        delta="1e-4",
        beta="0.2",
    )


def test_soft_labels_keep_their_plan() -> None:
    plan = planned_softly()
    assert plan.bins >= 4
    broken = 0
    for seed in range(RUNS):
        truth = soft_queries(plan, 0.05, 150, seed)
        answers, failed = soften(plan, truth, seed)
        errors = [math.inf if one is None else abs(one - own) for one, own in zip(answers, truth, strict=True)]
        sure = (truth <= 0.05) | (truth >= 0.95)
        weak = max(error for error, one in zip(errors, sure, strict=True) if one)
        broken += max(errors) > float(plan.accuracy) or weak > 0.5 / plan.bins or failed > plan.uncertain
    assert broken <= 20


def test_soft_labels_with_a_finer_grid_than_planned_do_not() -> None:
    """Bins of a quarter of the width scatter the votes: uncertain queries are left unanswered."""
    plan = planned_softly()
    fine = replace(plan, bins=16 * plan.bins)
    assert all(None in soften(fine, soft_queries(plan, 0.05, 150, seed), seed)[0] for seed in range(5))


# ---- the mass that is uncertain -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("centre", "spread", "zeta"), [(1.0, 0.5, 0.05), (2.0, 1.0, 0.01)])
def test_two_normal_classes_are_uncertain_as_often_as_the_formula_says(
    centre: float, spread: float, zeta: float
) -> None:
    """Labels +-1, x normal around the label's centre: the true score is 1/(1 + e^(-2cx/s^2))."""
    rng = np.random.default_rng(9)
    x = rng.choice([-centre, centre], size=200_000) + spread * rng.standard_normal(200_000)
    score = 1 / (1 + np.exp(-2 * centre * x / spread**2))
    seen = ((score > zeta) & (score < 1 - zeta)).mean()
    t, normal = spread**2 * math.log(1 / zeta - 1) / (2 * centre), NormalDist().cdf
    said = normal((t - centre) / spread) - normal((-t - centre) / spread)
    assert seen == pytest.approx(said, abs=6 * math.sqrt(said / 200_000))
