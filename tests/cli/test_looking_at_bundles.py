"""`dpledger scopes, show, spent` of a bundle: verified first, with the reader's own key; and what is told of a folder,
a report or a bundle where something else was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import dpledger as dpl
from dpledger.cli import app

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command, in a folder with `clinic.ledger`, its bundle of October and its bundle of now, two entries later."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPLEDGER_KEY", raising=False)
    with dpl.Ledger.create("clinic.ledger") as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1), dataset="visits")
        scope.release(dpl.Count(epsilon="0.25", of="rows"), [1, 2])
        book.export("october")
        scope.release(dpl.Count(epsilon="0.125", of="rows"), [1, 2], key="november")
        book.export("bundle")

    def call(*words: str) -> Result:
        return CliRunner().invoke(app, list(words), catch_exceptions=True)

    return call


KEY = ("--key", "clinic.ledger.pub")


@pytest.mark.parametrize("command", ["scopes", "show", "spent"])
def test_a_bundle_says_what_the_ledger_says(run: Run, command: str) -> None:
    file, bundle = run(command, "clinic.ledger"), run(command, "bundle", *KEY)
    assert bundle.exit_code == 0, bundle.stderr
    assert bundle.stdout == file.stdout
    assert json.loads(run(command, "bundle", *KEY, "--json").stdout) == json.loads(
        run(command, "clinic.ledger", "--json").stdout
    )


@pytest.mark.parametrize("command", ["scopes", "show", "spent"])
def test_a_bundle_is_shown_to_nobody_without_a_key_or_if_it_was_changed(run: Run, command: str) -> None:
    done = run(command, "bundle")
    assert done.exit_code == 2
    assert "expected --key with the public key that you trust" in done.stderr
    assert done.stdout == ""
    file = Path("bundle") / "entries.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], lines[2].replace(b"a", b"b", 1), *lines[3:]]))
    done = run(command, "bundle", *KEY)
    assert done.exit_code == 1
    assert done.stderr.startswith("dpledger: DOES NOT VERIFY: ")
    assert done.stdout == ""


@pytest.mark.parametrize("source", ["clinic.ledger", "bundle"])
@pytest.mark.parametrize("since", ["october", "october/checkpoint"])
def test_the_entries_since_a_checkpoint_or_a_kept_bundle_are_listed(run: Run, source: str, since: str) -> None:
    done = run("show", source, *KEY, "--since", since, "--json")
    found = json.loads(done.stdout)["entries"]
    assert [(entry["kind"], entry.get("key")) for entry in found] == [("reserved", "november"), ("committed", None)]
    words = run("show", source, *KEY, "--since", since).stdout
    assert "entry 4, count: settled by cap" in words
    assert "ledger_opened" not in words


def test_where_nothing_follows_that_is_said(run: Run) -> None:
    assert "no entry follows the checkpoint that you gave" in run("show", "bundle", *KEY, "--since", "bundle").stdout


def test_a_checkpoint_of_another_record_is_no_beginning(run: Run) -> None:
    with dpl.Ledger.create("other.ledger") as book:
        book.export("other")
    done = run("show", "bundle", *KEY, "--since", "other")
    assert done.exit_code == 2
    assert "other/checkpoint" in done.stderr


def test_a_kept_bundle_stands_for_its_checkpoint(run: Run) -> None:
    for command in (("verify",), ("report", "-o", "report.md")):
        assert run(*command, "bundle", *KEY, "--since", "october").exit_code == 0
    assert "nothing up to entry 3 was changed. The 2 entries after it" in Path("report.md").read_text(encoding="utf-8")
    assert "came with this record" in run("verify", "bundle", *KEY, "--since", "bundle").stdout


@pytest.mark.parametrize("command", [("export", "-o", "new"), ("declare", "said.yaml"), ("backup", "-o", "new")])
def test_a_command_that_takes_no_bundle_says_which_do(run: Run, command: tuple[str, ...]) -> None:
    Path("said.yaml").write_text("by: A\nledger: {region: x}\n", encoding="utf-8")
    done = run(command[0], "bundle", *command[1:])
    assert done.exit_code == 2
    assert "a ledger file, not a folder (read a bundle with `dpledger verify`, `report`, " in done.stderr


def test_of_a_report_it_is_said_how_one_is_checked(run: Run) -> None:
    assert run("report", "bundle", *KEY, "-o", "report.html").exit_code == 0
    done = run("verify", "report.html", *KEY)
    assert done.exit_code == 2
    assert "report.html cannot be read as a ledger" in done.stderr
    assert "To check a report, make it again: dpledger report BUNDLE --key KEY -o r.json" in done.stderr
