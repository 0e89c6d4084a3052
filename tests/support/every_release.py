"""What mechanisms publish of made-up data, by name: the part of `every_number` that draws noise.

Every public mechanism is among them, once: the first of its cases in `replayed`. Beside them stand choices and searches
at numbers that no binary float is.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dpledger import decimals
from dpledger.accounting.ex_post.boundaries import MixtureBoundary
from dpledger.mechanisms import noise
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.groups.group_by import GroupBy
from dpledger.mechanisms.numeric import ClippedMean, Gaussian, Laplace
from dpledger.mechanisms.refinement import (
    AccuracyFirst,
    Doubling,
    GradualGaussian,
    GradualMean,
    GradualRelease,
    Judged,
    NoiseReduction,
)
from dpledger.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, RandomizedResponse, Segments
from dpledger.mechanisms.stability.ensembles.chunkers import Hashed
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble
from dpledger.mechanisms.stability.labels.learner import LabelPrivateLearner, Lesson
from dpledger.mechanisms.stability.labels.partitions import bins_of_width
from dpledger.mechanisms.stability.labels.soft import SoftLabels
from dpledger.mechanisms.stability.propose_test_release import ProposeTestRelease
from dpledger.mechanisms.stability.stable_release import StableRelease
from dpledger.mechanisms.stability.voting import PrivateClassifier
from dpledger.mechanisms.statistics import ClippedSum, ColumnBounds, Quantile, Quantiles, TopK, Variance
from dpledger.mechanisms.threshold.sparse_vector import SparseVector
from dpledger.relations import Relation, Unit
from replayed import CASES, Case, first_label, mean_label

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
THIRD = Decimal("0.333333333333333333333333333333")
SMALL = Decimal("1e-6")
ROW = Unit("row", 1)
ROWS = [0.1 * index for index in range(50)]
Answer = Callable[[], object]


def releases() -> dict[str, Answer]:
    """All of them."""
    return {**_every_mechanism(), **_noise(), **_numbers(), **_answers(), **_refinements()}


def _every_mechanism() -> dict[str, Answer]:
    first = {case.name: case for case in reversed(CASES)}
    return {f"{name}, released": partial(played, case) for name, case in first.items()}


def played(case: Case) -> object:
    """What the mechanism of a case says of itself, and publishes of the left data."""
    placed, job = case.placed(), case.job()
    ran = job(case.left, seeded(3)) if callable(job) else placed.release(case.left, entropy=seeded(3)).value
    return dict(placed.parameters()), placed.claim(), placed.parts(), placed.failures(), ran


# ---- noise and choices ----------------------------------------------------------------------------------------------


def _noise() -> dict[str, Answer]:
    return {"noise functions": noises, "choices": chosen}


def noises() -> object:
    """What the noise functions answer where decimals decide: irrational coins, ties of a race, levels of a chain."""
    one = noise.Sensitivity(1, "l1", "a number")
    fine = noise.chain(noise.RoundedLaplace(1, "1e-15"), 0, sensitivity=one, entropy=seeded(7))
    whole = noise.chain(noise.DiscreteLaplace("0.1"), 0, sensitivity=one, entropy=seeded(8))
    class_of = [2**70, 2**1000, 3]
    return [
        noise.exponent_for(THIRD, sensitivity=3),
        noise.sampled(noise.ExpMinus(THIRD), 50, entropy=seeded(6)).tolist(),
        noise.respond(noise.RandomizedAnswer(THIRD, k=7), 3, entropy=seeded(6)),
        *(
            noise.choose(law(THIRD), [3, 0, 3], sensitivity=one, entropy=seeded(9), counts=class_of)
            for law in (noise.ExponentialWeights, noise.PermuteAndFlipChoice)
        ),
        *(fine.refine(scale) for scale in (30, 3, 1)),
        *(whole.refine(scale) for scale in ("0.3", "0.1")),
    ]


def chosen() -> object:
    makes = (ExponentialMechanism, PermuteAndFlip)
    ready = [make(candidates=9, epsilon=THIRD, sensitivity="0.3").under(REPLACE, ROW) for make in makes]
    asked = RandomizedResponse(answers=("a", "b", "c"), epsilon=THIRD)
    data = Segments([33.3, "0.1", 34], [3, 2, 3])
    answers = asked.release(["a", "c", None], entropy=seeded(3)).value
    return [
        *((dict(one.parameters()), one.release(data, entropy=seeded(3)).value, one.loss(THIRD)) for one in ready),
        answers,
    ]


# ---- numbers --------------------------------------------------------------------------------------------------------


def _numbers() -> dict[str, Answer]:
    return {
        "laplace": lambda: released(Laplace(epsilon=THIRD, sensitivity=1), 3.3),
        "gaussian": lambda: released(Gaussian(sigma="3.7", sensitivity=1), 3.3),
        "clipped sum": lambda: released(ClippedSum(epsilon=THIRD, lower="-0.1", upper="3.7"), ROWS),
        "variance": lambda: released(Variance(epsilon=THIRD, lower="-0.1", upper="3.7"), ROWS),
        "quantiles": quantiles,
        "clipped mean": lambda: released(ClippedMean(epsilon=THIRD, lower="-0.1", upper="3.7"), ROWS),
        "groups": grouped,
    }


def grouped() -> object:
    """Two groups of unknown keys, as a frame."""
    mean = ("value", ClippedMean(epsilon=THIRD, lower="-0.1", upper="3.7"))
    mechanism = GroupBy("key", (mean,), key_epsilon=THIRD, key_delta="0.01").under(REPLACE, ROW)
    frame = pd.DataFrame({"key": [1, "b"] * 200, "value": [0.1, 3.3] * 200})
    table = mechanism.release(frame, entropy=seeded(3)).value
    return dict(mechanism.parameters()), table.columns("0.9"), mechanism.published_from(THIRD)


def quantiles() -> object:
    """Quantiles, bounds and frequent categories, and how far off they are."""
    at: dict[str, Any] = {"epsilon": THIRD, "lower": "-0.1", "upper": "3.7"}
    ready: list[Any] = [
        Quantile(q="0.3", **at),
        Quantiles(qs=("0.1", "0.3", "0.7"), **at),
        ColumnBounds(epsilon=THIRD, tail="0.1"),
        TopK(epsilon=THIRD, k=2, categories=("0", "1", "2")),
    ]
    placed = [one.under(REPLACE, ROW) for one in ready]
    return [(dict(one.parameters()), one.release(ROWS, entropy=seeded(3)).value, one.interval("0.9")) for one in placed]


def released(mechanism: Any, data: object) -> object:
    ready = mechanism.under(REPLACE, ROW)
    found = ready.release(data, entropy=seeded(3)).value
    return found if isinstance(found, float | int) else float(found)


# ---- answers above a threshold --------------------------------------------------------------------------------------


def _answers() -> dict[str, Answer]:
    return {
        "sparse vector run": asked,
        "propose, test, release": lambda: (
            ProposeTestRelease(epsilon=THIRD, delta=SMALL, local_sensitivity=THIRD)
            .under(REPLACE, ROW)
            .release((33.3, 10**9), entropy=seeded(3))
        ),
        "stable release drawn": lambda: str(
            StableRelease(epsilon=THIRD, delta=SMALL).under(REPLACE, ROW).release(("a", 30), entropy=seeded(3)).value
        ),
        "private classes": voted,
        "private labels and scores": labelled,
    }


def asked() -> object:
    run = (
        SparseVector(epsilon="0.7", cutoff=3, threshold="3.3", sensitivity=1)
        .under(ADD, ROW)
        .open(ROWS, entropy=seeded(5))
    )
    answers = [run.ask(float(k)).value for k in range(3)]
    return [*answers, run.close().parts]


def voted() -> object:
    """Classes by the votes of an ensemble, and the claim where a unit may change two chunks."""
    ids = np.arange(400)
    ensemble = Ensemble.fit(first_label, (ids / 7, ids > 200), 41, Hashed("salt"), ids=ids, progress=False)
    mechanism = PrivateClassifier(
        epsilon="6.6", delta="0.0001", chunks=41, cutoff=2, max_queries=3, chunker=Hashed("salt")
    ).under(Relation.REPLACE_ONE, Unit("record"))
    answers = mechanism.open(ensemble, entropy=seeded(5)).ask_many([0.5, 30.25, 55.5])
    return str(answers), mechanism.claim(), mechanism.failures(), str(mechanism.parameters())


def labelled() -> object:
    """Labels of public rows by votes, and scores of an ensemble in bins."""
    ids, under = np.arange(400), (Relation.REPLACE_ONE, Unit("record"))
    ensemble = Ensemble.fit(first_label, (ids / 7, ids > 200), 41, "slots", progress=False)
    votes = PrivateClassifier(epsilon="6.6", delta="0.0001", chunks=41, cutoff=2)
    teacher = LabelPrivateLearner(votes).under(*under)
    labels = teacher.release(Lesson(ensemble, [0.5, 30.25, 55.5]), entropy=seeded(5)).value.labels.tolist()
    scoring = Ensemble.fit(mean_label, (ids / 7, ids / 400), 41, "slots", classes=None, progress=False)
    soft = SoftLabels(epsilon="6.6", delta="0.0001", chunks=41, failed_tests=2, bins=7).under(*under)
    answers = soft.open(scoring, entropy=seeded(5)).ask_many([0.5, 1.25, 1.5])
    return str(labels), str(answers), str(soft.parameters()), str(teacher.parameters()), bins_of_width("0.07")


# ---- answers that grow finer ----------------------------------------------------------------------------------------


def _refinements() -> dict[str, Answer]:
    return {
        "gradual release": lambda: refined(GradualRelease(epsilon="3.3", sensitivity=1)),
        "gradual mean": lambda: refined(GradualMean(epsilon="3.3", lower="-0.1", upper="3.7"), ROWS),
        "gradual release of whole numbers": lambda: refined(GradualRelease(epsilon="3.3", whole=True, sensitivity=1)),
        "doubling": lambda: searched(
            Doubling(first=THIRD, rounds=5, accepts=1, check_epsilon=THIRD, sensitivity=1, error_sensitivity=1)
        ),
        "noise reduction": lambda: searched(
            NoiseReduction(
                least=THIRD, most=9, levels=5, accepts=1, check_epsilon=THIRD, sensitivity=1, error_sensitivity=1
            )
        ),
        "gradual gaussian": lambda: refined(
            GradualGaussian(mu="3.3", boundary=MixtureBoundary(1, SMALL), sensitivity=1)
        ),
        "accuracy first": accurate,
    }


def refined(mechanism: Any, data: object = 33.3) -> object:
    run = mechanism.under(REPLACE, ROW).open(data, entropy=seeded(4))
    return [*(run.ask(level) for level in ("0.1", THIRD, 1)), run.close().parts]


def searched(mechanism: Any) -> object:
    data = Judged(33.3, lambda published: abs(published - 33.3))
    return mechanism.under(ADD, ROW).release(data, entropy=seeded(4))


def accurate() -> object:
    """Levels in equal ratios, sensitivities, the check, and what a run publishes of them."""
    mechanism = AccuracyFirst("ridge", 50, 1, "0.3", "0.4", levels=20).under(REPLACE, ROW)
    found = mechanism.release(([[one] for one in ROWS], ROWS), entropy=seeded(3))
    cut = mechanism.within(decimals.add(found.value.epsilon, mechanism.plan().check_epsilon))
    curve = MixtureBoundary(1, SMALL)
    same: dict[str, Any] = {"rows": 50, "dimension": 1, "regularisation": "0.3", "levels": 20, "noise": "gaussian"}
    others = [
        AccuracyFirst("ridge", **same, target_excess_risk="0.4").under(ADD, ROW),
        AccuracyFirst("logistic", **same, target_excess_risk="0.4", boundary=curve).under(ADD, ROW),
    ]
    ran = [other.release(([[one] for one in ROWS], ROWS), entropy=seeded(3)).parts for other in others]
    return [dict(mechanism.parameters()), found.parts, cut.claim(), *ran, *(other.claim() for other in others)]
