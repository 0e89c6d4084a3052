"""`dpledger attest`, and what `dpledger verify` says of a statement: what was compared, and what was not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import dpledger as dpl
from dpledger.cli import app


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "clinic.ledger"
    with dpl.Ledger.create(path) as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.ApproxDP(1, "1e-6"))
        scope.release(dpl.Count("0.25", of="rows"), [1, 1], key="model")
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"weights")
    return file


def attested(ledger: Path, model: Path, *more: object) -> Result:
    return run("attest", model, "--ledger", ledger, "--scope", "patients", "--by", "A. Smith", *more)


def test_a_file_is_attested_and_verified_as_the_first_lines_say(ledger: Path, model: Path) -> None:
    made = attested(ledger, model)
    assert made.exit_code == 0, made.output
    check = made.stdout.strip().splitlines()[-1].partition("check it with: dpledger ")[2].split()
    found = run(*check)
    assert found.exit_code == 0, found.output
    words = found.stdout
    assert "verified (statement): model.safetensors, of scope patients in clinic" in words
    assert "approx_dp(epsilon=1, delta=0.000001) for one patient, add_remove; spent at most 0.2" in words
    assert "file: its SHA-256 is the one that was signed" in words
    assert "ledger: 4 entries verified; range and guarantee are what they come to" in words
    assert "is the word of A. Smith, and cannot be verified here" in words


def test_without_file_and_ledger_it_says_what_was_not_looked_at(ledger: Path, model: Path) -> None:
    attested(ledger, model)
    statement = f"{model}.intoto.json"
    words = run("verify", statement, "--key", f"{ledger}.pub").stdout
    assert "file: not looked at" in words
    assert "ledger: not looked at" in words
    told = json.loads(run("verify", statement, "--key", f"{ledger}.pub", "--json").stdout)
    assert (told["verified"], told["file"], told["record"]) == ("statement", False, False)
    assert told["predicate"]["entries"] == {"first": 1, "last": 3}


def test_of_one_run_and_against_a_bundle(ledger: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    told = json.loads(attested(ledger, model, "--run", "model", "-o", out, "--json").stdout)
    assert told["predicate"]["run"]["claim"] == {"kind": "pure_dp", "epsilon": "0.25"}
    run("export", ledger, "-o", tmp_path / "bundle")
    found = run("verify", out, "--key", f"{ledger}.pub", "--file", model, "--ledger", tmp_path / "bundle")
    assert found.exit_code == 0, found.output
    assert "the run model (count): entries 2 to 3" in found.stdout


def test_another_file_or_ledger_does_not_verify(ledger: Path, model: Path, tmp_path: Path) -> None:
    attested(ledger, model)
    model.write_bytes(b"Weights")
    statement = ("verify", f"{model}.intoto.json", "--key", f"{ledger}.pub")
    found = run(*statement, "--file", model)
    assert found.exit_code == 1
    assert "DOES NOT VERIFY: the file is another one" in found.stderr
    with dpl.Ledger.create(tmp_path / "other.ledger"):
        pass
    found = run(*statement, "--ledger", tmp_path / "other.ledger")
    assert found.exit_code == 1
    assert run("verify", f"{model}.intoto.json", "--key", f"{tmp_path / 'other.ledger'}.pub").exit_code == 1


def test_what_cannot_be_done_says_what_to_do(ledger: Path, model: Path, tmp_path: Path) -> None:
    attested(ledger, model)
    key = ("--key", f"{ledger}.pub")
    for words, said in (
        (("attest", model, "--ledger", ledger, "--scope", "patients", "--by", "me"), "nothing exists yet"),
        (("attest", model, "--ledger", ledger, "--scope", "p", "--by", "me"), "there is: patients"),
        (("attest", tmp_path / "no", "--ledger", ledger, "--scope", "patients", "--by", "me"), "regular file"),
        (("attest", model, "--ledger", ledger, "--scope", "patients", "--by", "me", "-o", "/no/x"), "can be written"),
        (("verify", ledger, *key, "--file", model), "dpledger attest makes one"),
        (
            ("verify", f"{model}.intoto.json", *key, "--quick"),
            "nothing for a statement; to check it against the record, give --ledger",
        ),
        (("verify", f"{model}.intoto.json"), "--key with the public key that you trust"),
        (("verify", tmp_path / "nowhere", *key), "nowhere"),
    ):
        found = run(*words)
        assert found.exit_code == 2, (words, found.output)
        assert said in found.stderr, (words, found.stderr)
    Path(f"{ledger}.key").rename(tmp_path / "away.key")
    found = attested(ledger, model, "-o", tmp_path / "second.json")
    assert found.exit_code == 2
    assert "the signing key of the ledger" in found.stderr


def test_the_file_itself_is_told_from_its_statement_beside_it(ledger: Path, model: Path) -> None:
    words = ("verify", model, "--key", f"{ledger}.pub")
    assert "intoto" not in run(*words).stderr
    attested(ledger, model)
    found = run(*words)
    assert found.exit_code == 2
    told = found.stderr.partition("the statement beside it: dpledger ")[2].strip().replace("KEY", f"{ledger}.pub")
    assert run(*told.split()).exit_code == 0


@pytest.mark.parametrize("text", ['{"a": 1}', "[1, 2]", '"hello"', '{\n "payload": 1}'])
def test_json_that_is_no_statement_is_said_to_be_none_in_one_line(ledger: Path, tmp_path: Path, text: str) -> None:
    other = tmp_path / "other.json"
    other.write_text(text)
    done = run("verify", other, "--key", f"{ledger}.pub")
    assert done.exit_code == 2
    assert f"{other} is no ledger, no bundle and no statement of dpledger attest" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
