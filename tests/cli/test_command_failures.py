"""The command line where something is in the way: files, rights, full disks. One line, an exit status, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import dpledger as dpl
import ledger_golden
from dpledger.cli import app
from dpledger.cli.speaking import bounds_in_words, number
from dpledger.decimals import float_up, read
from dpledger.ledger.entries.bodies import Closed
from dpledger.ledger.rules import approvals
from dpledger.ledger.signed.keyfiles import save_owner_key

pytestmark = pytest.mark.sliced


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger file whose scope has spent all of its budget, three tenths."""
    path = tmp_path / "clinic.ledger"
    with dpl.Ledger.create(path) as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP("0.3"))
        scope.release(dpl.Laplace(sensitivity=1, epsilon="0.3"), 10)
    return path


def run(*words: object) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refused(*words: object) -> str:
    """What a command says that ends as bad input: one line."""
    done = run(*words)
    assert done.exit_code == 2, done.output
    assert done.stderr.count("\n") == 1
    return done.stderr


# ---- copies ---------------------------------------------------------------------------------------------------------


def test_backup_copies_a_ledger_and_says_what_not_to_do(ledger: Path, tmp_path: Path) -> None:
    done = run("backup", ledger, "-o", tmp_path / "copy.ledger")
    assert done.exit_code == 0
    assert "never to both" in done.stdout
    assert run("verify", tmp_path / "copy.ledger", "--key", f"{ledger}.pub").exit_code == 0
    assert "copy.ledger" in refused("backup", ledger, "-o", tmp_path / "copy.ledger")
    answer = run("backup", ledger, "-o", tmp_path / "second.ledger", "--json")
    assert json.loads(answer.stdout) == {"backup": str(tmp_path / "second.ledger"), "size": 4}


# ---- where the words go ---------------------------------------------------------------------------------------------

ENCODINGS = [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=["ascii", "C"])
def test_what_an_encoding_cannot_say_is_written_out(ledger: Path, encoding: dict[str, str]) -> None:
    """A word of another language, and a name of a file that is no text."""
    with dpl.Ledger.open(ledger) as book:
        book.declare("accuracy", "\u00e9tude \u2192 \u6f22", by="me")
    folder = os.fsencode(ledger.parent)
    os.rename(ledger, os.path.join(folder, b"\xff.ledger"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}

    def said(*words: bytes) -> str:
        program = [os.fsencode(sys.executable), b"-m", b"dpledger", *words]
        done = subprocess.run(
            program, cwd=folder, env={**environment, **encoding}, capture_output=True, timeout=120, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode("ascii")

    assert "declared" in said(b"show", b"\xff.ledger")
    (ledger.parent / "ask.json").write_bytes(approvals.request_of(book.id, Closed(reason="\u00e9tude")))
    save_owner_key(ledger.parent / "clerk.key")
    assert "reason: \\xe9tude" in said(b"approve", b"ask.json", b"--key", b"clerk.key", b"--yes")
    assert "\u00e9tude" in str(json.loads(said(b"show", b"\xff.ledger", b"--index", b"4", b"--json")))
    assert "\\udcff" in said(b"backup", b"\xff.ledger", b"-o", b"\xff.copy")


def test_a_file_that_is_in_the_way_is_told_to_programs_as_well(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "there")

    with monkeypatch.context() as patched:
        patched.setattr(dpl.Ledger, "look", fails)
        done = run("scopes", ledger, "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout) == {"error": {"kind": "PermissionError", "message": "there: Permission denied"}}
    owned = tmp_path / "owned.ledger"
    assert run("owner-key", tmp_path / "clerk.key").exit_code == 0
    assert run("owner-key", tmp_path / "deputy.key").exit_code == 0
    assert run("init", owned, "--owner", tmp_path / "clerk.key.pub").exit_code == 0
    words = ("rotate-owner", owned, tmp_path / "deputy.key.pub")
    assert "--approval" in refused(*words)
    asked = tmp_path / "ask.json"
    done = run(*words, "--request", asked)
    assert (done.exit_code, f"dpledger approve {asked} --key KEY" in done.stdout) == (0, True)
    assert str(asked) in refused(*words, "--request", asked)
    done = run(*words, "--request", asked, "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["kind"]) == (2, "ParameterError")
    approval = run("approve", asked, "--key", tmp_path / "clerk.key", "--yes").stdout.splitlines()[-1]
    assert run(*words, "--approval", approval).exit_code == 0
    other = tmp_path / "other.json"
    assert "an owner's key that was one before" in refused(*words, "--request", other)
    assert not other.exists()


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    public = ledger_golden.KEY.public.text
    assert "the folder of a bundle, that is there" in refused("verify", tmp_path / "missing", "--key", public)
    assert f"there is no {tmp_path / 'missing'}" in refused("init", tmp_path / "missing" / "clinic.ledger")


def test_a_record_that_no_witness_cosigned_says_where_a_cosigned_checkpoint_is(tmp_path: Path) -> None:
    assert run("witness", "init", tmp_path / "wit", "--name", "north.example/w").exit_code == 0
    words = ("verify", ledger_golden.DATA, "--key", ledger_golden.KEY.public.text)
    done = run(*words, "--witness", tmp_path / "wit.policy")
    assert (done.exit_code, "since: expected a cosigned checkpoint" in done.stderr) == (2, True)


def test_a_report_is_not_written_where_it_cannot_be_recorded(ledger: Path, tmp_path: Path) -> None:
    Path(f"{ledger}.key").write_text("no key", encoding="ascii")
    target = tmp_path / "report.json"
    assert "signing key" in refused("report", ledger, "-o", target, "--record")
    assert not target.exists()


def test_a_scope_that_is_not_there_is_named_with_its_line(ledger: Path, tmp_path: Path) -> None:
    file = tmp_path / "said.yaml"
    file.write_text("by: A\nscopes:\n  nobody:\n    region: Europe\n", encoding="utf-8")
    said = refused("declare", ledger, file)
    assert "said.yaml" in said
    assert "nobody in line 3: no scope 'nobody'" in said


def test_a_claim_on_the_command_line_is_told_by_its_option(tmp_path: Path) -> None:
    said = refused("audit", "math:sqrt", "--left", "1", "--right", "2", "--epsilon", "-1")
    assert said.startswith("dpledger: --epsilon: expected")
    template = tmp_path / "free.json"
    one = '{"mechanism": {"kind": "gaussian", "noise_multiplier": "free"}}'
    template.write_text(f'{{"relation": "add_remove", "entries": [{one}]}}', encoding="ascii")
    assert "give --delta" in run("calibrate", template, "--epsilon", "1").stderr
    assert refused("calibrate", template, "--epsilon", "-1").startswith("dpledger: --epsilon: expected")
    other = tmp_path / "other.json"
    other.write_text('{"steps": 3}', encoding="ascii")
    assert "has the fields relation, entries" in run("compose", other, "--delta", "1e-6").stderr
    assert len(refused("audit", "zoo:nope")) < 200


def test_a_link_in_the_place_of_a_new_public_key_is_not_followed(ledger: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    public = ledger.with_name(f"{ledger.name}.pub")
    ledger.with_name(f"{public.name}.next").symlink_to(victim)
    assert run("rotate-key", ledger).exit_code == 0
    assert victim.read_text() == "mine"
    assert not public.is_symlink()
    assert run("verify", ledger, "--key", public).exit_code == 0


# ---- keys and checkpoints -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["scopes", "show", "spent", "verify", "export", "report", "backup"])
def test_no_command_that_reads_looks_at_the_signing_key(ledger: Path, tmp_path: Path, command: str) -> None:
    ledger.with_name("clinic.ledger.key").chmod(0o640)
    words: dict[str, list[object]] = {
        "spent": ["--scope", "patients"],
        "verify": ["--key", f"{ledger}.pub"],
        "export": ["-o", tmp_path / "bundle"],
        "report": ["-o", tmp_path / "report.md"],
        "backup": ["-o", tmp_path / "copy.ledger"],
    }
    assert run(command, ledger, *words.get(command, [])).exit_code == 0


def test_a_key_that_is_not_there_is_named(ledger: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.pub"
    assert str(nowhere) in refused("verify", ledger, "--key", nowhere)
    wrong = tmp_path / "wrong.pub"
    wrong.write_text("not a key\n")
    assert str(wrong) in refused("verify", ledger, "--key", wrong)
    ledger.with_name("clinic.ledger.pub").unlink()
    assert "clinic.ledger.pub" in refused("report", ledger, "-o", tmp_path / "report.md")


def test_a_report_on_no_ledger_blames_the_ledger(tmp_path: Path) -> None:
    empty = tmp_path / "empty.ledger"
    empty.write_bytes(b"")
    assert "empty.ledger is not a dpledger ledger" in refused("report", empty, "-o", tmp_path / "report.md")


def test_a_checkpoint_that_is_none_is_named(ledger: Path, tmp_path: Path) -> None:
    with dpl.Ledger.create(tmp_path / "other.ledger") as other:
        (tmp_path / "foreign").write_bytes(other.head)
    (tmp_path / "text").write_text("hello\n")
    for name in ("foreign", "text", "nowhere"):
        said = refused("verify", ledger, "--key", f"{ledger}.pub", "--since", tmp_path / name)
        assert str(tmp_path / name) in said


def test_verify_tells_what_no_checkpoint_leaves_open(ledger: Path, tmp_path: Path) -> None:
    with dpl.Ledger.open(ledger) as book:
        (tmp_path / "head").write_bytes(book.head)
    key = f"{ledger}.pub"
    assert "you gave no checkpoint from before" in run("verify", ledger, "--key", key).stdout
    since = ("verify", ledger, "--key", key, "--since", tmp_path / "head")
    assert "it shows nothing about earlier copies" in run(*since).stdout
    for follow in ("1 entry follows", "2 entries follow"):
        with dpl.Ledger.open(ledger) as book:
            book.declare("limits", "none", by="me")
        assert follow in run(*since).stdout


# ---- places that cannot be written ----------------------------------------------------------------------------------


def test_a_report_that_cannot_be_written(ledger: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    for place in (tmp_path / "nowhere" / "report.md", tmp_path / "folder.html"):
        assert str(place) in refused("report", ledger, "-o", place)
        with dpl.Ledger.look(ledger) as book, pytest.raises(dpl.ParameterError, match="can be written"):
            dpl.report(book).save(place)
    for wrong in (None, 5):
        with dpl.Ledger.look(ledger) as book, pytest.raises(dpl.ParameterError, match="path"):
            dpl.report(book).save(wrong)  # type: ignore[arg-type]  # the point of the test


def test_a_demo_that_cannot_be_written(ledger: Path) -> None:
    for place in (ledger, ledger / "demo"):
        assert str(place) in refused("demo", "--out", place)


@pytest.mark.parametrize("book", [None, "clinic.ledger", 5])
def test_a_report_on_what_is_no_ledger(book: object) -> None:
    with pytest.raises(dpl.ParameterError, match="book: expected a Ledger"):
        dpl.report(book)  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize("words", [["show"], ["show", "--json"], ["scopes"], ["spent", "--scope", "nobody", "--json"]])
def test_a_full_disk_is_one_line(ledger: Path, words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        call = [sys.executable, "-m", "dpledger", words[0], str(ledger), *words[1:]]
        done = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, "dpledger: standard output: No space left on device\n")


def test_a_closed_output_is_one_line(ledger: Path) -> None:
    call = 'exec "$0" -m dpledger show "$1" >&-'
    words = ["sh", "-c", call, sys.executable, str(ledger)]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, "dpledger: standard output is closed\n")


def test_a_reader_who_has_seen_enough_is_told_nothing(ledger: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    call = [sys.executable, "-m", "dpledger", "show", str(ledger), "--json"]
    done = subprocess.run(call, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (2, "")


# ---- numbers --------------------------------------------------------------------------------------------------------


def test_a_budget_that_is_used_up_is_not_shown_as_passed(ledger: Path) -> None:
    assert "[0.2999999999, 0.3]" in run("spent", ledger, "--scope", "patients").stdout
    assert "[0.2999999999, 0.3]" in run("scopes", ledger).stdout
    answer = json.loads(run("spent", ledger, "--scope", "patients", "--json").stdout)
    assert answer["epsilon"]["upper"] == 0.3


def test_a_decimal_is_never_shown_below_itself() -> None:
    for decimal in map(read, ("0.3", "0.1", "0.300000000000000000001", "2.6215471185", "123456789.123456789123456789")):
        shown = number(decimal)
        assert isinstance(shown, float)
        assert decimal <= read(shown)
        assert shown <= float_up(decimal)
    assert bounds_in_words(0.0, read("0.30000000001")) == "[0, 0.3000000001]"
    assert number(read("inf", infinite=True)) == "inf"
