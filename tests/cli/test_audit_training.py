"""`dpledger audit-training`: exits 1 where a training tells its canaries, and names files that it cannot read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dpledger as dpl
from dpledger.cli import app

pytestmark = pytest.mark.sliced

CODE = """
def loud(rows, rng):
    assert len(rows) < 5 + 40
    return rows.sum(axis=0) + rng.normal(0, 0.1, 40)

def quiet(rows, rng):
    return rows.sum(axis=0) + rng.normal(0, 20, 40)

def along(model, canary):
    return model @ canary

def broken(rows, rng):
    raise RuntimeError("out of luck")

def against(model, canary):
    return -(model @ canary)

def same(model, canary):
    return 0.0

def states(rows):
    return ((step, rows) for step in range(500))

def gradient(state, batch, rng):
    return batch.sum(axis=0) + rng.normal(0, 0.5, 40)

def honest(state, batch, rng):
    return batch.sum(axis=0) + rng.normal(0, 1, 40)

def direction(state):
    return [1.0] + [0.0] * 39

def no_states(rows):
    raise RuntimeError("none today")
"""
STEPS = ["--gradient", "trained_here:gradient", "--states", "trained_here:states", "--noise-multiplier", "1"]
WORDS = ["--data", "rows.npy", "--canaries", "40", "--epsilon", "1", "--delta", "1e-5", "--seed", "1"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trained_here.py").write_text(CODE)
    np.save("rows.npy", np.vstack([np.zeros((5, 40)), np.eye(40)]))


def said(train: str, *words: str, score: str = "along") -> tuple[int, str, str]:
    asked = ["audit-training", f"trained_here:{train}", "--score", f"trained_here:{score}", *WORDS, *words]
    done = CliRunner().invoke(app, asked)
    assert "Traceback" not in done.output
    return done.exit_code, done.stdout, done.stderr


def test_a_training_that_tells_its_canaries_is_refuted() -> None:
    status, told, _ = said("loud", "--json", "--plot", "found.png")
    assert status == 1
    found = json.loads(told)
    assert found["is_refuted"]
    assert found["trainings"] is None
    assert found["one_run"]["verdict"] == "violation"
    assert float(found["one_run"]["epsilon_lower"]) >= 1
    assert Path("found.png").stat().st_size > 10_000


def test_a_quiet_one_is_not_and_the_limits_are_told_first() -> None:
    status, told, heard = said("quiet")
    assert status == 0
    assert "one run" in told
    assert "one training with 40 canaries" in heard


def test_steps_are_audited_beside_it() -> None:
    status, told, _ = said("quiet", *STEPS, "--json")
    assert status == 1
    steps = json.loads(told)["steps"]
    assert steps["verdict"] == "violation"
    status, told, _ = said(
        "quiet", *STEPS, "--gradient", "trained_here:honest", "--direction", "trained_here:direction", "--steps", "50"
    )
    assert status == 0
    assert "not_refuted after 50 steps" in told


def test_scores_that_are_all_alike_are_blind() -> None:
    assert said("loud", score="same")[0] == 2


def test_a_score_of_the_wrong_sign_is_told() -> None:
    status, told, _ = said("loud", score="against")
    assert status == 2
    assert "must be larger" in told


def test_a_training_that_fails_is_not_refuted() -> None:
    status, _, heard = said("broken")
    assert status == 2
    assert "cause: RuntimeError: out of luck (line" in heard


def test_canaries_of_a_file_and_rows_of_a_table_come_to_the_same() -> None:
    rows = np.load("rows.npy")
    np.savetxt("rows.csv", rows[:5], delimiter=",")
    np.save("canaries.npy", rows[5:])
    found = [
        json.loads(said("loud", "--json", *words)[1])["one_run"]
        for words in ([], ["--data", "rows.csv", "--canaries", "canaries.npy"])
    ]
    assert len({(one["epsilon_lower"], str(one["trials"]), str(one["mechanism"])) for one in found}) == 1


def test_the_results_go_on_record() -> None:
    with dpl.Ledger.create("some.ledger") as book:
        book.scope("rows", unit="row", relation="add_remove", budget=dpl.PureDP(1))
        book.scope("pairs", unit="row", relation="replace_one", budget=dpl.PureDP(1))
    status, told, _ = said("loud", "--ledger", "some.ledger", "--scope", "rows", "--json")
    assert status == 1
    (index,) = json.loads(told)["entries"]
    with dpl.Ledger.look("some.ledger") as book:
        assert book.entry(index).body.kind == "audited"
    status, _, heard = said("loud", "--ledger", "some.ledger", "--scope", "pairs")
    assert status == 2
    assert "add_remove" in heard


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--data", "nothing.npy"), "data"),
        (("--data", "trained_here.py"), "data"),
        (("--data", "words.csv"), "data"),
        (("--canaries", "9"), "canaries"),
        (("--canaries", "46"), "canaries"),
        (("--canaries", "none.npy"), "canaries"),
        (("--score", "trained_here:alon"), "trained_here:along"),
        (("--plot", "a.bmp"), "plot"),
        (("--epsilon", "nan"), "epsilon"),
        (("--steps", "5"), "--gradient"),
        (("--gradient", "trained_here:gradient"), "--noise-multiplier"),
        ((*STEPS, "--noise-multiplier", "-1"), "noise_multiplier"),
        ((*STEPS, "--states", "trained_here:WORDS"), "states"),
        ((*STEPS, "--states", "trained_here:no_states"), "none today"),
        ((*STEPS, "--direction", "trained_here:nowhere"), "direction"),
    ],
)
def test_what_cannot_be_used_is_named(words: tuple[str, ...], named: str) -> None:
    Path("words.csv").write_text("age\n1\n")
    status, _, heard = said("loud", *words)
    assert status == 2
    assert named in heard
