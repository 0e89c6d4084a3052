"""A witness, from a shell: made, told what to allow, started, asked, and read by whoever verifies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dpledger as dpl
from dpledger.cli import app
from dpledger.errors import NotWitnessed
from dpledger.ledger.ledger import Ledger
from ledger_mechanisms import laplace
from witnesses import scope_of

pytestmark = pytest.mark.sliced


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def told(*words: str) -> Any:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@contextmanager
def serving(witness: str, stopped_by: signal.Signals = signal.SIGINT) -> Iterator[str]:
    """`dpledger witness serve`, in a process of its own; where it listens."""
    command = [sys.executable, "-m", "dpledger", "witness", "serve", witness, "--port", "0", "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.send_signal(stopped_by)
            rest, errors = process.communicate(timeout=60)
        assert (process.returncode, rest, errors) == (0, "", "")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_team_has_a_witness_in_a_minute() -> None:
    made = told("witness", "init", "north.witness", "--name", "north.example/w")
    assert stat.S_IMODE(Path("north.witness.key").stat().st_mode) == 0o600
    assert made["policy"] == Path("north.witness.policy").read_text()
    assert "PRIVATE" not in json.dumps(made)
    ledger = told("init", "clinic.ledger", "--witnesses", "north.witness.policy")
    assert told("witness", "allow", "north.witness", "clinic.ledger.pub") == {"ledger": ledger["id"], "new": True}
    assert not told("witness", "allow", "north.witness", ledger["public_key"])["new"]
    with serving("north.witness") as url:
        Path("moved.policy").write_text(made["policy"].replace("http://127.0.0.1:8642/", url))
        with Ledger.open_or_create("clinic.ledger", witnesses="moved.policy") as book:
            scope_of(book).release(laplace(), 7)
            book.export("bundle")
        asked = told("witness", "ask", "clinic.ledger", "-o", "cosigned", "--witnesses", "moved.policy")
        assert (asked["size"], asked["cosigned"]) == (4, 1)
    with Ledger.open("clinic.ledger") as book, pytest.raises(NotWitnessed):  # it listens no more
        scope_of(book).release(laplace(), 7)
    key = ("--key", "clinic.ledger.pub")
    for witness in ("north.witness.policy", made["public_key"]):
        found = told("verify", "bundle", *key, "--since", "cosigned", "--witness", witness)
        assert (found["unwitnessed"], [one["witness"] for one in found["seen"]]) == (0, [made["public_key"]])
    said = run("verify", "bundle", *key, "--since", "cosigned", "--witness", "north.witness.policy").stdout
    assert "witnesses cosigned the newest entry" in said
    assert "cosigned by north.example/w, 20" in said
    Path("bundle/checkpoint").write_bytes(Path("cosigned").read_bytes())  # a bundle may carry it
    assert told("verify", "bundle", *key, "--witness", "north.witness.policy")["unwitnessed"] == 0


def test_what_a_rotation_says_to_do_is_enough(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old key, which a thief may have, gets no cosignature any more."""
    made = told("witness", "init", "north.witness", "--name", "north.example/w")
    old = told("init", "clinic.ledger", "--witnesses", "north.witness.policy")["public_key"]
    told("witness", "allow", "north.witness", "clinic.ledger.pub")
    with serving("north.witness") as url:
        Path("moved.policy").write_text(made["policy"].replace("http://127.0.0.1:8642/", url))
        shutil.copy("clinic.ledger", "stolen.ledger")
        shutil.copy("clinic.ledger.key", "stolen.ledger.key")
        said = [line.split() for line in run("rotate-key", "clinic.ledger").stdout.splitlines()]
        commands = [line[1:] for line in said if line[:2] == ["dpledger", "witness"]]
        assert commands[1] == ["witness", "forget", "WITNESS", old]
        for *first, key in commands:
            assert run(*("north.witness" if word == "WITNESS" else word for word in first), key).exit_code == 0
        assert run("witness", "forget", "north.witness", old).exit_code == 2
        with monkeypatch.context() as there:
            there.setenv("XDG_STATE_HOME", str(folder / "there"))  # on the thief's machine
            with Ledger.open_or_create("stolen.ledger", witnesses="moved.policy") as book, pytest.raises(NotWitnessed):
                scope_of(book).release(laplace(), 7)
        with Ledger.open_or_create("clinic.ledger", witnesses="moved.policy") as book:
            scope_of(book).release(laplace(), 7)


@pytest.mark.usefixtures("folder")
def test_a_checkpoint_that_no_trusted_witness_cosigned_is_refused_and_one_is_asked_for() -> None:
    for name in ("north", "south"):
        told("witness", "init", f"{name}.witness", "--name", f"{name}.example/w")
    with Ledger.create("clinic.ledger", witnesses="north.witness.policy") as book:
        scope_of(book)
        book.export("bundle")
    key = ("--key", "clinic.ledger.pub")
    done = run("verify", "bundle", *key, "--witness", "south.witness.policy")
    assert (done.exit_code, "since: expected a cosigned checkpoint, from a witness" in done.stderr) == (2, True)
    done = run("verify", "bundle", *key, "--since", "bundle", "--witness", "south.witness.policy")
    assert (done.exit_code, "0 of the witnesses that you trust cosigned it" in done.stderr) == (1, True)
    assert run("witness", "ask", "clinic.ledger", "-o", "cosigned").exit_code == 2
    assert run("witness", "ask", "clinic.ledger", "-o", "x", "--witnesses", "south.witness.policy").exit_code == 2
    assert not Path("cosigned").exists()


@pytest.mark.usefixtures("folder")
def test_a_report_names_who_saw_the_ledger() -> None:
    made = told("witness", "init", "north.witness", "--name", "north.example/w")
    with Ledger.create("clinic.ledger", witnesses="north.witness.policy") as book:
        key = book.public_key
    told("witness", "allow", "north.witness", key.text)
    with serving("north.witness") as url:
        Path("moved.policy").write_text(made["policy"].replace("http://127.0.0.1:8642/", url))
        with Ledger.open_or_create("clinic.ledger", witnesses="moved.policy") as book:
            scope_of(book).release(dpl.Laplace(sensitivity=1, epsilon="0.5"), 7)
            Path("cosigned").write_bytes(book.cosigned())
            scope_of(book)
            book.declare("accuracy", "words", by="me")
    kept = ("--since", "cosigned", "--witness", "north.witness.policy")
    told("report", "clinic.ledger", *kept, "-o", "r.md", "-o", "r.json")
    text = Path("r.md").read_text()
    assert "Witnesses saw it up to entry 3, 20" in text
    assert "north.example/w. None of them saw the 1 entry after it." in text
    assert "before: no data is read until a witness has cosigned" in text


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "words",
    [
        ("witness", "init", "w", "--name", "two words"),
        ("witness", "init", "w", "--name", "w", "--url", "ftp://w.example/"),
        ("witness", "serve", "nothing"),
        ("witness", "allow", "nothing", "nobody.pub"),
        ("witness", "forget", "nothing", "nobody.pub"),
        ("init", "clinic.ledger", "--witnesses", "nothing"),
        ("witness", "ask", "nothing", "-o", "x"),
    ],
)
def test_what_cannot_be_used_is_told(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.exit_code == 2, done.output
    assert done.output.startswith("dpledger: ")
    assert not list(Path.cwd().iterdir())


@pytest.mark.parametrize("stopped_by", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN], ids=["as it is", "ignored by who starts it"])
@pytest.mark.usefixtures("folder")
def test_a_witness_ends_in_order_whoever_stops_it(stopped_by: signal.Signals, handler: signal.Handlers) -> None:
    told("witness", "init", "north.witness", "--name", "north.example/w")
    before = signal.signal(stopped_by, handler)  # what is ignored here is ignored in what is started
    try:
        with serving("north.witness", stopped_by) as url:
            assert url.startswith("http://127.0.0.1:")
    finally:
        signal.signal(stopped_by, before)
