"""Audits of whole trainings: one with many canaries, many with one, and the table beside an audit of the steps."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.stats import binom

import dpledger as dpl
from dpledger.audit.results.verdict import CANARIES
from dpledger.audit.training.guesses import chance_of_guesses
from dpledger.audit.training.one_run import OneRun
from dpledger.audit.training.step_claims import step_claim

Rows = npt.NDArray[np.float64]
ALPHA = Fraction(1, 20)
POINT = dpl.ApproxDP(1, "0.00001")


def plan_of(canaries: int, claim: Any = POINT) -> OneRun:
    return OneRun.planned(canaries, step_claim(claim), alpha=ALPHA)


def test_the_chance_of_guesses_is_that_of_the_theorem() -> None:
    """Against the sums of the paper, term by term; ours is no smaller, and hardly larger."""
    for canaries, guesses, right, epsilon, delta in ((100, 40, 35, 1.0, 0.0), (600, 480, 470, 3.0, 1e-5)):
        chance = 1 / (1 + math.exp(-epsilon))
        tail = binom.sf(right - 1, guesses, chance)
        between = np.cumsum([binom.pmf(right - i, guesses, chance) for i in range(1, right + 1)])
        stated = tail + 2 * canaries * delta * float((between / np.arange(1, right + 1)).max())
        ours = chance_of_guesses(canaries, guesses, right, epsilon, delta)
        assert stated <= ours <= 1.2 * stated  # a tail below the mean counts as 1


def test_a_claim_that_is_kept_falls_as_rarely_as_it_may() -> None:
    """Randomised response tells of each canary as much as epsilon 1 allows; every count of right guesses, exactly."""
    plan = plan_of(200)
    assert plan.needed is not None
    chance = math.e / (1 + math.e)
    assert binom.sf(plan.needed - 1, plan.guesses, chance) <= float(ALPHA)
    more = 1 / (1 + math.exp(-3))  # the twin: what claims 1 and tells 3 falls
    assert binom.sf(plan.needed - 1, plan.guesses, more) > 0.9


def test_what_one_run_can_show_is_told_before_it() -> None:
    hopeless = plan_of(600, dpl.ApproxDP("24.7", "0.00001"))
    assert not hopeless.can_refute
    assert "cannot refute this claim" in hopeless.words
    assert hopeless.ceiling < 6
    able = plan_of(600)
    assert able.can_refute
    all_right = able.evidence(np.repeat([0.0, 1.0], 300), np.repeat([False, True], 300))
    assert math.isclose(float(all_right.epsilon_lower), able.ceiling, rel_tol=1e-9)
    with pytest.raises(dpl.ParameterError, match="canaries"):
        plan_of(9)


def test_scores_that_say_nothing_are_blind() -> None:
    found = plan_of(20).evidence(np.full(20, math.nan), np.repeat([False, True], 10))
    assert found.blind is not None
    assert not found.is_refuted


def test_a_score_of_the_wrong_sign_is_told() -> None:
    plan = plan_of(200)
    inside = np.repeat([False, True], 100)
    backwards = plan.evidence(np.repeat([1.0, 0.0], 100), inside)
    assert backwards.blind is not None
    assert "must be larger" in backwards.blind
    assert not backwards.is_refuted
    forwards = plan.evidence(np.repeat([0.0, 1.0], 100), inside)
    assert forwards.blind is None
    assert forwards.is_refuted
    coins = [plan.evidence(np.random.default_rng(seed).random(200), inside).blind for seed in range(40)]
    assert not any(coins)


def summed(rows: Rows, rng: np.random.Generator) -> Rows:
    total: Rows = np.sum(rows, axis=0) + rng.normal(0, 0.1, 40)
    return total


def well_noised(rows: Rows, rng: np.random.Generator) -> Rows:
    total: Rows = np.sum(rows, axis=0) + rng.normal(0, 20, 40)
    return total


def along(model: Rows, canary: Rows) -> float:
    return float(model @ canary)


ASKED: dict[str, Any] = {"score": along, "canaries": list(np.eye(40)), "seed": 1, "progress": False}


def test_one_training_is_audited() -> None:
    data = np.zeros((10, 40))
    found = dpl.audit_training(summed, data, POINT, **ASKED)
    assert found.is_refuted
    assert found.one_run is not None
    assert found.one_run.epsilon_lower >= 1
    assert data.shape == (10, 40)
    assert not dpl.audit_training(well_noised, data, POINT, **ASKED).is_refuted


def test_many_trainings_are_audited_in_processes() -> None:
    asked = {**ASKED, "canaries": [np.eye(40)[0]], "trainings": 400, "jobs": 2}
    found = dpl.audit_training(summed, np.zeros((3, 40)), POINT, **asked)
    assert found.one_run is None
    assert found.trainings is not None
    assert found.trainings.verdict == "violation"
    assert not dpl.audit_training(well_noised, np.zeros((3, 40)), POINT, **asked).is_refuted


def test_all_stand_in_one_table_and_one_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def gradient(state: float, rows: Rows, rng: np.random.Generator) -> float:
        return float(np.clip(rows - state, -1, 1).sum() + rng.normal(0, 0.5))

    steps = dpl.audit_steps(gradient, [(0.0, np.zeros(5))] * 60, 9.0, dpl.GaussianLaw(1), seed=1)
    claim = dpl.Repeated(dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.1"), times=60)
    found = dpl.audit_training(summed, np.zeros((3, 40)), claim, **{**ASKED, "progress": True}, steps=steps)
    assert found.announced is not None
    assert found.announced in capsys.readouterr().err
    told = str(found)
    for words in ("claim", "certified", "step level", "noise multiplier at most", "one run", found.announced):
        assert words in told
    assert len(found.results) == 2
    assert "step level violation" in repr(found)
    assert "certified" in found._repr_html_()
    figure = found.plot(tmp_path / "found.png")
    assert (tmp_path / "found.png").stat().st_size > 10_000
    assert len(figure.axes[0].get_yticks()) == 3
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(found)


def test_a_result_of_one_run_goes_on_record() -> None:
    found = dpl.audit_training(summed, np.zeros((10, 40)), POINT, **ASKED)
    assert found.one_run is not None
    with pytest.raises(dpl.ParameterError, match=r"each of its \.results.*TrainingAudit"):
        dpl.Ledger.in_memory().record(found)  # type: ignore[arg-type]  # its results are
    body = dpl.Ledger.in_memory().record(found.one_run).body
    assert body == found.one_run.body()
    assert found.one_run.body().schedule == CANARIES
    assert "audit_training" in found.one_run.again


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"score": 1}, "score"),
        ({"train": None}, "train"),
        ({"train": lambda rows: rows}, "train"),
        ({"score": lambda model, canary: model}, "score"),
        ({"canaries": 3}, "canaries"),
        ({"canaries": [np.eye(40)[0]] * 3}, "canaries"),
        ({"canaries": [], "trainings": 200}, "canaries"),
        ({"trainings": 5}, "trainings"),
        ({"steps": "none"}, "steps"),
        ({"claim": None}, "claim.*the training claims"),
        ({"claim": 1}, "claim.*the training claims"),
        ({"canaries": []}, "canaries, trainings.*one canary, and trainings="),
        ({"canaries": [np.eye(40)[0]]}, "trainings.*with the one canary"),
        ({"score": lambda model, canary: None}, "score"),
        ({"score": lambda model, canary: None, "trainings": 200, "canaries": [np.eye(40)[0]]}, "score"),
        ({"score": lambda model, canary: model, "trainings": 200, "canaries": [np.eye(40)[0]]}, "score"),
        ({"data": None}, "data.*an array"),
        ({"data": pd.DataFrame(np.zeros((3, 40)))}, "data.*an array"),
    ],
)
def test_bad_parameters_are_named(changed: dict[str, Any], named: str) -> None:
    asked = {"train": summed, "data": np.zeros((3, 40)), "claim": POINT, **ASKED, **changed}
    with pytest.raises(dpl.ParameterError, match=named):
        dpl.audit_training(**asked)
