"""What `dpledger verify`, `scopes`, `spent` and `report` say of a record that is not whole, or not all verified."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import dpledger as dpl
import ledger_golden
from dpledger.cli import app, records
from dpledger.ledger.verifying import bundle

pytestmark = pytest.mark.sliced


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def released(path: Path, times: int = 1) -> None:
    with dpl.Ledger.open(path) as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
        for _ in range(times):
            scope.release(dpl.Laplace(sensitivity=1, epsilon="0.1"), 1)


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """A ledger that went on from an older copy: of two charges one is missing."""
    path = tmp_path / "clinic.ledger"
    dpl.Ledger.create(path).close()
    released(path)
    kept = path.read_bytes()
    released(path)
    path.write_bytes(kept)
    dpl.Ledger.accept_rollback(path, by="me", reason="lost")
    return path


def test_scopes_that_a_rollback_ended_are_named(lost: Path) -> None:
    told = run("verify", lost, "--key", f"{lost}.pub")
    assert told.exit_code == 3, told.output
    assert "it ended scope s; what the missing entries charged there is not known" in told.stdout
    told = run("verify", lost, "--key", f"{lost}.pub", "--json")
    assert json.loads(told.stdout)["ended_by_rollback"] == ["s"]
    assert "ended by the rollback of entry 4" in " ".join(run("scopes", lost).stdout.split())
    assert "was ended by the rollback of entry 4" in run("spent", lost).stdout
    (scope,) = json.loads(run("scopes", lost, "--json").stdout)["scopes"]
    assert scope["rollback"] == json.loads(run("spent", lost, "--json").stdout)["rollback"] == 4


def test_a_scope_that_was_opened_later_or_closed_before_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    rules = {"unit": "patient", "relation": "add_remove", "budget": dpl.PureDP(1)}
    with dpl.Ledger.create(path) as book:
        book.scope("before", **rules, dataset="a").end("done")  # type: ignore[arg-type]
        kept_size = len(book)
    kept = path.read_bytes()
    released(path)
    path.write_bytes(kept)
    dpl.Ledger.accept_rollback(path, by="me", reason="lost")
    with dpl.Ledger.open(path) as book:
        book.scope("after", **rules, dataset="b").release(dpl.Laplace(sensitivity=1, epsilon="0.1"), 1)  # type: ignore[arg-type]
        assert len(book) > kept_size
    told = json.loads(run("verify", path, "--key", f"{path}.pub", "--json").stdout)
    assert len(told["rollbacks"]) == 1
    assert told["ended_by_rollback"] == []
    assert all("rollback" not in one for one in json.loads(run("scopes", path, "--json").stdout)["scopes"])


def test_the_first_page_says_that_what_is_used_is_not_known(lost: Path) -> None:
    with dpl.Ledger.look(lost) as book:
        (page,) = dpl.report(book).model.pages
    answers = {answer.id: answer for answer in page.answers}
    used, record = answers["first_page/used"], answers["first_page/record"]
    assert (used.status, used.tone, used.share) == ("unknown", "warning", None)
    assert used.text.startswith("unknown; ")
    assert record.status == "unknown"


def test_what_was_left_out_has_an_exit_status_of_its_own(tmp_path: Path) -> None:
    golden, key = ledger_golden.KINDS_DATA, ledger_golden.KINDS_KEY.public.text
    full = run("verify", golden, "--key", key, "--most-seconds", 1000, "--json")
    assert (full.exit_code, json.loads(full.stdout)["not_verified"]) == (0, [])
    some = run("verify", golden, "--key", key, "--most-seconds", "1e-9", "--json")
    assert some.exit_code == records.NOT_ALL == 3
    told = json.loads(some.stdout)
    assert (told["verified"], bool(told["not_verified"])) == ("partial", True)
    said = run("verify", golden, "--key", key, "--most-seconds", "1e-9")
    assert said.exit_code == 3
    assert "verified (partial)" in said.stdout
    assert "NOT VERIFIED: the prices of entries 0, 1" in said.stdout
    target = tmp_path / "report.md"
    made = run("report", golden, "--key", key, "--most-seconds", "1e-9", "-o", target)
    assert made.exit_code == 3, made.output
    assert "verified in part" in target.read_text(encoding="utf-8")
    assert run("verify", golden, "--key", key, "--most-seconds", "0").exit_code == 2
    assert run("verify", golden, "--key", key, "--jobs", "2").exit_code == 0


def test_a_command_that_reads_numbers_gives_none_that_were_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    found = bundle.verify(ledger_golden.DATA, ledger_golden.KEY.public)
    assert found.mode == "full"
    partial = replace(found, mode="partial", unpriced=(3,))
    monkeypatch.setattr(records, "verified", lambda *_, **__: partial)
    told = run("scopes", ledger_golden.DATA, "--key", ledger_golden.KEY.public.text)
    assert told.exit_code == 2
    assert "--most-seconds" in told.output


def test_a_warning_is_one_line_without_a_place_in_the_code(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    dpl.Ledger.create(path).close()
    kept = path.read_bytes()
    released(path)
    path.write_bytes(kept)
    ran = subprocess.run(
        [sys.executable, "-m", "dpledger", "scopes", str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    (line,) = ran.stderr.splitlines()
    assert line.startswith("dpledger: warning: ")
    assert ".py" not in line


def test_keys_and_a_revocation_are_told_to_programs_and_have_the_exit_status_of_what_is_not_whole() -> None:
    key = ledger_golden.TURNS_KEY.public.text
    revoked = run("verify", ledger_golden.KEYS_DATA, "--key", key, "--json")
    told = json.loads(revoked.stdout)
    assert revoked.exit_code == 3
    assert told["revoked"] == {"index": told["size"] - 1, "last_trusted": told["revoked"]["last_trusted"]}
    assert (told["keys"]["given"], told["keys"]["in_force"]) == (key, None)
    whole = run("verify", ledger_golden.DATA, "--key", ledger_golden.KEY.public.text, "--json")
    told = json.loads(whole.stdout)
    assert (whole.exit_code, told["revoked"]) == (3, None)  # its entry 31 accepts a rollback
    own = ledger_golden.KEY.public.text
    assert told["keys"] == {"given": own, "in_force": own, "owner": None}
    quick = json.loads(run("verify", ledger_golden.DATA, "--key", own, "--quick", "--json").stdout)
    assert not quick.keys() & {"keys", "revoked"}


def test_the_key_of_another_ledger_is_told_as_perhaps_the_wrong_one() -> None:
    other = ledger_golden.TURNS_KEY.public
    told = run("verify", ledger_golden.DATA, "--key", other.text)
    assert told.exit_code == 1
    said = f"of another ledger, {ledger_golden.KEY.public.name}, but the key is of {other.name}: perhaps the wrong key"
    assert said in told.stderr
