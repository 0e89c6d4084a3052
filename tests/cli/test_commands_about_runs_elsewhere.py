"""What the command line says of runs that happened elsewhere, and of scopes and names that are not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import dpledger as dpl
from dpledger.cli import app

WORD: dict[str, Any] = {"by": "Dr. Ada Smith", "reason": "the study of 2025", "relation": "add_remove"}


def run(*words: str) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "clinic.ledger"
    with dpl.Ledger.create(path) as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
        scope.release(dpl.Count("0.25", of="rows", counted="patients"), [1, 1])
        scope.charge(dpl.PureDP("0.25"), key="2025", **WORD)
        scope.charge(dpl.PureDP("0.125"), relation="add_remove", by="A second\nword", reason="another study")
        with scope.charging(dpl.PureDP("0.125"), relation="add_remove", by="Nobody", reason="it never ran") as run:
            run.nothing_ran()
        book.scope("others", unit="visit", relation="add_remove", budget=dpl.PureDP(1))
    return path


def test_show_says_whose_word_an_entry_is(ledger: Path) -> None:
    words = " ".join(run("show", str(ledger)).stdout.split())
    assert words.count("ran elsewhere") == 3
    assert "attested by Dr. Ada Smith" in words
    shown = json.loads(run("show", str(ledger), "--json").stdout)["entries"]
    assert [entry["attested"]["by"] for entry in shown if "attested" in entry] == [
        "Dr. Ada Smith",
        "A second\nword",
        "Nobody",
    ]


def test_show_says_in_which_scope_and_of_which_reservation_an_entry_is(ledger: Path) -> None:
    """Of what nobody named, it names the library."""
    with dpl.Ledger.open(ledger) as book:
        book.scope("ward", unit="patient", relation="add_remove", budget=dpl.PureDP(1), parents=["patients"])
        book.scope("ward").charge(dpl.PureDP("0.125"), mechanism="survey", library="tumult 2.1", **WORD)
        book.scope("others").charge(dpl.PureDP("0.125"), library="tumult 2.1", **WORD)
        book.declare("intended_use", "planning", by="A. Lindqvist")
    lines = [" ".join(line.split()) for line in run("show", str(ledger)).stdout.splitlines()]
    rows = {int(line.split()[0]): line for line in lines if line[:1].isdecimal()}
    assert rows[1].endswith("scope_opened patients pure_dp(epsilon=1)")
    assert "reserved patients count: pure_dp(epsilon=0.25)" in rows[2]
    assert rows[3].endswith("committed patients entry 2, count: settled by cap")
    assert rows[9].endswith("aborted patients entry 8, declared_run")
    assert rows[11].endswith("scope_opened ward pure_dp(epsilon=1)")
    assert rows[13].endswith("committed patients, ward entry 12, survey: settled by cap")
    assert rows[15].endswith("committed others entry 14, declared_run in tumult 2.1: settled by cap")
    assert rows[16].endswith("intended_use, by A. Lindqvist")


def test_spent_says_what_in_it_is_on_whose_word(ledger: Path) -> None:
    words = run("spent", str(ledger), "--scope", "patients").stdout
    assert "included: 2 charges for what ran elsewhere, on the word of A second word, Dr. Ada Smith\n" in words
    told = json.loads(run("spent", str(ledger), "--scope", "patients", "--json").stdout)
    assert told["attested"] == {"charges": 2, "by": ["A second\nword", "Dr. Ada Smith"]}
    assert "elsewhere" not in run("spent", str(ledger), "--scope", "others").stdout


def test_scopes_counts_what_is_attested(ledger: Path) -> None:
    assert "4 (2 attested)" in run("scopes", str(ledger)).stdout
    told = json.loads(run("scopes", str(ledger), "--json").stdout)["scopes"]
    assert [(one["scope"], one["attested"]) for one in told] == [("others", 0), ("patients", 2)]


def test_verify_says_what_it_cannot_verify(ledger: Path) -> None:
    done = run("verify", str(ledger), "--key", f"{ledger}.pub")
    assert done.exit_code == 0
    assert (
        "3 charges for what ran elsewhere: priced and settled by the rules; that they ran like this is" in done.stdout
    )
    told = json.loads(run("verify", str(ledger), "--key", f"{ledger}.pub", "--json").stdout)
    assert told["attested"] == [4, 6, 8]
    assert "attested" not in run("verify", str(ledger), "--key", f"{ledger}.pub", "--quick").stdout


def test_a_ledger_without_runs_elsewhere_says_nothing_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    dpl.Ledger.create(path).close()
    assert "elsewhere" not in run("verify", str(path), "--key", f"{path}.pub").stdout


def test_spent_of_a_scope_that_is_not_there_lists_those_that_are(ledger: Path) -> None:
    done = run("spent", str(ledger), "--scope", "patiens")
    assert done.exit_code == 2
    assert "no scope 'patiens' in this ledger, which has 'others', 'patients'" in done.stderr


def test_init_says_what_a_name_may_be_and_what_to_do_with_a_ledger_that_is_there(ledger: Path) -> None:
    named = run("init", str(ledger.with_name("b.ledger")), "--name", "my clinic")
    assert (named.exit_code, "like my-clinic, got my clinic" in named.stderr) == (2, True)
    again = run("init", str(ledger))
    assert again.exit_code == 2
    for word in (str(ledger), "Ledger.open_or_create", "`dpledger scopes`"):
        assert word in again.stderr
