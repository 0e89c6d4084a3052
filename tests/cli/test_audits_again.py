"""`dpledger audit --intend`, `--made-up` and `--again`: said before it is run, run again from its entry."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import dpledger as dpl
from dpledger.cli import app

pytestmark = pytest.mark.sliced

Run = Callable[..., Result]
CODE = "def noisy(data, rng):\n    return len(data) + rng.laplace(0, 1)\n"
PAIR = ("--left", "[1]", "--right", "[1, 2]")
SURE = ("--confidence", "0.999999")  # the seeds here are fresh
ASKED = ("audit", "job_told:noisy", *PAIR, "--epsilon", "1", "--trials", "2000", *SURE, "--ledger", "clinic.ledger")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """The command line in this process, in a folder with a ledger of one scope and a function to audit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPLEDGER_KEY", raising=False)
    (tmp_path / "job_told.py").write_text(CODE)
    with dpl.Ledger.create("clinic.ledger") as book:
        book.scope("patients", unit="patient", relation="replace_one", budget=dpl.PureDP(1))
    yield lambda *words: CliRunner().invoke(app, list(words))
    sys.modules.pop("job_told", None)


def bodies() -> list[Any]:
    with dpl.Ledger.look("clinic.ledger") as book:
        book.verify()
        return [entry.body for entry in book.entries()]


def test_an_audit_is_said_before_it_is_run_and_its_entry_names_that(run: Run) -> None:
    assert run(*ASKED, "--scope", "patients", "--intend").exit_code == 0
    *_, said, found = bodies()
    assert (said.kind, said.trials, said.seed) == ("intended", 2000, found.seed)
    assert (found.intended, found.relation) == (2, dpl.Relation.REPLACE_ONE)
    assert found.code == said.code == sha256(CODE.encode()).hexdigest()
    assert found.pair is None


def test_an_audit_that_dies_was_intended(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job_told.py").write_text("def noisy(data, rng):\n    raise ValueError('no')\n")
    assert run(*ASKED, "--intend").exit_code == 2
    assert bodies()[-1].kind == "intended"


def test_data_that_are_made_up_are_named_by_their_digest(run: Run) -> None:
    assert run(*ASKED, "--made-up").exit_code == 0
    assert bodies()[-1].pair == sha256(b"[[1],[1,2]]").hexdigest()
    assert run(*ASKED, "--made-up", "--intend").exit_code == 0
    *_, said, found = bodies()
    assert found.pair == said.pair == sha256(b"[[1],[1,2]]").hexdigest()


@pytest.mark.parametrize("scope", [(), ("--scope", "patients")])
def test_again_comes_to_the_same_and_says_so(run: Run, scope: tuple[str, ...]) -> None:
    assert run(*ASKED, *scope).exit_code == 0
    done = run("audit", "job_told:noisy", *PAIR, "--ledger", "clinic.ledger", "--again", "2")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "the same result as in entry 2")
    assert len(bodies()) == 3


def test_again_exits_1_where_it_refutes_again(run: Run) -> None:
    asked = ("audit", "zoo:published_coin_billed_too_low", "--ledger", "clinic.ledger")
    assert run(*asked, "--trials", "50000", "--seed", "1").exit_code == 1
    done = run(*asked, "--again", "2")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "the same result as in entry 2")


def test_again_says_what_is_another_and_exits_2(run: Run, tmp_path: Path) -> None:
    assert run(*ASKED, "--made-up").exit_code == 0
    (tmp_path / "job_told.py").write_text(CODE.replace("laplace(0, 1)", "laplace(0, 0.25)"))
    sys.modules.pop("job_told")
    again = (
        "audit",
        "job_told:noisy",
        "--left",
        "[1]",
        "--right",
        "[2, 3]",
        "--ledger",
        "clinic.ledger",
        "--again",
        "2",
    )
    done = run(*again)
    assert done.exit_code == 2
    lines = done.stdout.splitlines()
    start = lines.index("the code is another than was recorded")
    assert lines[start + 1 : start + 4] == [
        "the pair is another than was recorded",
        "not the result of entry 2:",
        "  verdict was not_refuted, is violation",
    ]
    told = json.loads(run(*again, "--json").stdout)
    assert (told["again"], told["verdict"], len(told["changes"])) == (2, "violation", 2)
    assert told["differences"][0] == "verdict was not_refuted, is violation"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--trials", "2000"), "trials: "),
        (("--confidence", "0.9"), "confidence: "),
        (("--seed", "1"), "seed: "),
        (("--epsilon", "1"), "epsilon: "),
        (("--delta", "0.1"), "delta: "),
        (("--relation", "add_remove"), "relation: "),
        (("--scope", "patients"), "scope: "),
        (("--intend",), "intend: "),
        (("--made-up",), "made-up: "),
    ],
)
def test_what_the_entry_says_is_not_said_again(run: Run, words: tuple[str, ...], told: str) -> None:
    done = run("audit", "job_told:noisy", *PAIR, "--ledger", "clinic.ledger", "--again", "2", *words)
    assert (done.exit_code, told in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--again", "2"), "--ledger as well"),
        (("--intend",), "--ledger as well"),
        (("--ledger", "clinic.ledger", "--again", "1"), "scope_opened"),
        (("--ledger", "clinic.ledger", "--again", "7"), "from 0 to 1"),
    ],
)
def test_an_audit_that_is_not_there_is_not_run_again(run: Run, words: tuple[str, ...], told: str) -> None:
    done = run("audit", "job_told:noisy", *PAIR, *(("--epsilon", "1") if "--intend" in words else ()), *words)
    assert (done.exit_code, told in done.stderr) == (2, True)


NOISY = """
import dpledger as dpl

count = dpl.Count(epsilon="0.5", of="rows")


def raw(data):
    return len(data)
"""


def test_a_replay_is_told_and_exits_as_an_audit_does(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job_told.py").write_text(NOISY)
    done = run("audit", "job_told:count", *PAIR, "--replay")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "not refuted by replay (this is no proof of privacy)")
    found = run("audit", "job_told:raw", *PAIR, "--replay", "--json")
    assert (found.exit_code, json.loads(found.stdout)["verdict"]) == (2, "blind")
    for words in (["--epsilon", "1"], ["--ledger", "clinic.ledger"], ["--trials", "100"], ["--all-runs"]):
        refused = run("audit", "job_told:count", *PAIR, "--replay", *words)
        assert refused.exit_code == 2
        assert "nothing together with --replay" in refused.stderr


def test_a_killed_audit_goes_on_from_the_shell_with_its_seed(run: Run, tmp_path: Path) -> None:
    asked = (
        "audit",
        "job_told:noisy",
        *PAIR,
        "--epsilon",
        "1",
        "--trials",
        "2000",
        *SURE,
        "--resume",
        "runs",
        "--json",
    )
    whole = json.loads(run(*asked).stdout)
    lines = (tmp_path / "runs").read_bytes().splitlines(keepends=True)
    (tmp_path / "runs").write_bytes(b"".join(lines[: len(lines) // 2]))
    again = json.loads(run(*asked).stdout)
    assert {**again, "seconds": None} == {**whole, "seconds": None}
    refused = run(*asked, "--seed", "1")
    assert refused.exit_code == 2
    assert "seed" in refused.stdout
