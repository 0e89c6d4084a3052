"""`dpledger prove`, and what `dpledger verify` and the verifier in JavaScript say of a proof: which entry, and what it
does not show."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import dpledger as dpl
from dpledger.cli import app
from javascript_verifier import CLI, node


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "clinic.ledger"
    with dpl.Ledger.create(path) as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
        scope.release(dpl.Count("0.25", of="rows"), [1, 1], key="model")
    return path


@pytest.fixture
def shown(ledger: Path) -> Path:
    """The proof of entry 2."""
    target = ledger.with_name("entry.tlog-proof")
    assert run("prove", ledger, 2, "-o", target).exit_code == 0
    return target


def test_a_proof_says_which_entry_it_shows_and_what_it_does_not(ledger: Path, shown: Path) -> None:
    found = run("verify", shown, "--key", f"{ledger}.pub")
    assert found.exit_code == 0, found.output
    with dpl.Ledger.look(ledger) as book:
        assert f"verified (proof): entry 2 of {book.id}, as the ledger stood at 4 entries" in found.stdout
    assert run("show", ledger, "--index", 2).stdout in found.stdout
    assert "this entry alone: neither that it followed the rules" in found.stdout
    told = json.loads(run("verify", shown, "--key", f"{ledger}.pub", "--json").stdout)
    assert told["entry"] == json.loads(run("show", ledger, "--index", 2, "--json").stdout)
    assert (told["verified"], told["index"], told["size"]) == ("proof", 2, 4)


def test_another_key_refutes_it_and_options_of_other_records_are_refused(ledger: Path, shown: Path) -> None:
    other = ledger.with_name("other.ledger")
    dpl.Ledger.create(other).close()
    assert run("verify", shown, "--key", f"{other}.pub").exit_code == 1
    assert run("verify", shown).exit_code == 2
    for option in (("--quick",), ("--since", shown), ("--file", shown), ("--ledger", ledger)):
        refused = run("verify", shown, "--key", f"{ledger}.pub", *option)
        assert refused.exit_code == 2
        assert "is a proof of one entry" in refused.output


def test_what_is_there_is_not_written_over_and_there_is_no_entry_beyond_the_last(ledger: Path, shown: Path) -> None:
    before = shown.read_bytes()
    assert run("prove", ledger, 3, "-o", shown).exit_code == 2
    assert shown.read_bytes() == before
    assert run("prove", ledger, 4, "-o", shown.with_name("none")).exit_code == 2
    assert not shown.with_name("none").exists()


def test_the_verifier_in_javascript_reads_it_too(ledger: Path, shown: Path) -> None:
    command = [node(), "--no-warnings", str(CLI), str(shown), "--key", f"{ledger}.pub"]
    ran = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["entry"] == json.loads(run("show", ledger, "--index", 2, "--json").stdout)
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert "verified: entry 2 of clinic" in said
    assert "shows this entry alone" in said
    shown.write_bytes(shown.read_bytes().replace(b"index 2", b"index 1"))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    shown.write_bytes(b"neither")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
