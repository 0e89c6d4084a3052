"""What the command line says of itself: whole sentences, examples that work, and completion in the shell."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import dpledger as dpl
from dpledger.attach import intoto
from dpledger.cli import app
from dpledger.ledger.entries.bodies import Closed
from dpledger.ledger.rules import approvals
from dpledger.ledger.signed.keyfiles import save_owner_key
from dpledger.ledger.signed.keys import SigningKey, new_ledger_id
from dpledger.ledger.witnessing.founding import founded
from dpledger.ledger.witnessing.witness_file import WitnessFile
from witnesses import running

pytestmark = pytest.mark.sliced

EXAMPLES = Path(__file__).parents[2] / "examples"
TOP = typer.main.get_command(app).commands  # type: ignore[attr-defined]
COMMANDS = {name: one for name, one in TOP.items() if name != "witness"}
COMMANDS |= {f"witness {name}": one for name, one in TOP["witness"].commands.items()}
LINES = [
    (name, line.strip())
    for name, command in COMMANDS.items()
    for line in (command.epilog or "").splitlines()
    if line.startswith("  ")
]
OF_THEIR_OWN = ("demo", "witness serve")


def test_the_list_of_commands_says_whole_sentences() -> None:
    told = CliRunner().invoke(app, ["--help"], terminal_width=80).stdout
    listed = told[told.index("Commands:") :].splitlines()[1:]
    assert len(listed) == len(TOP)
    for line in listed:
        assert line.endswith(".")
        assert not line.endswith("..")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_shows_examples(name: str) -> None:
    told = CliRunner().invoke(app, [*name.split(), "--help"]).stdout
    assert f"\n    dpledger {name}" in told[told.index("Examples:") :]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the examples find what they name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPLEDGER_KEY", raising=False)
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # of another folder
    step = {"kind": "gaussian", "noise_multiplier": "2"}
    Path("run.json").write_text(json.dumps({"relation": "add_remove", "entries": [{"mechanism": step}]}))
    step = {"kind": "gaussian", "noise_multiplier": "free"}
    Path("plan.json").write_text(json.dumps({"relation": "add_remove", "entries": [{"mechanism": step}]}))
    Path("mine.py").write_text(
        "def release(data, rng):\n    return data + rng.laplace(scale=1.5)\n\n\n"
        "def total(rows, rng):\n    return sum(rows) + rng.laplace(scale=1.5)\n\n\n"
        "def train(rows, rng):\n    return rows.sum(axis=0) + rng.normal(0, 20, rows.shape[1])\n\n\n"
        "def score(model, canary):\n    return model @ canary\n"
    )
    np.savetxt("rows.csv", np.vstack([np.zeros((5, 40)), np.eye(40)]), delimiter=",")
    Path("schema.json").write_text('{"rows": {"type": "number", "low": 0, "high": 1}, "most_rows": 2}')
    declared = (EXAMPLES / "declarations.yaml").read_text()
    Path("declarations.yaml").write_text(declared.replace("patients-2026", "patients"))
    with dpl.Ledger.create("clinic.ledger") as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
        scope.release(dpl.Laplace(sensitivity=1, epsilon="0.25"), 10, key="model-2026")
        Path("remembered.checkpoint").write_bytes(book.head)
        book.export("bundle")
        Path("entry-3.tlog-proof").write_bytes(book.prove(3))
        for name in ("model.safetensors", "model.bin"):
            Path(name).write_bytes(b"weights")
        dpl.Ledger.create("owned.ledger", owner=save_owner_key("clerk.key")[1]).close()
        save_owner_key("deputy.key")
        request = approvals.request_of(book.id, Closed(reason="the study is over"))
        Path("request.json").write_bytes(request)
        statement = intoto.attest(book, "patients", "model.safetensors", by="me")
        Path("model.safetensors.intoto.json").write_bytes(statement)
    save_owner_key("officer.key")
    founded("north.witness", "north.example/w", "http://127.0.0.1:9/")
    former = SigningKey.generate(new_ledger_id("clinic")).public
    Path("former.pub").write_text(former.text)
    with WitnessFile(Path("north.witness")) as kept:
        kept.allow(former)
    return tmp_path


@pytest.fixture
def witnessed_folder(folder: Path) -> Iterator[Path]:
    """Also a ledger whose witness listens."""
    with running(folder) as witness:
        with dpl.Ledger.create("witnessed.ledger", witnesses=witness.policy) as book:
            witness.allow(book.public_key)
        yield folder


@pytest.mark.parametrize(("name", "line"), [pair for pair in LINES if pair[0] not in OF_THEIR_OWN])
@pytest.mark.usefixtures("witnessed_folder")
def test_the_examples_work(name: str, line: str) -> None:
    """All but those that have tests of their own. The audit of a faulty twin refutes its claim."""
    if name == "init":
        Path("clinic.ledger").unlink()
        for kept in Path.cwd().glob("clinic.ledger.*"):
            kept.unlink()
    if name == "attest":
        Path("model.safetensors.intoto.json").unlink()
    if name == "export":
        shutil.rmtree("bundle")
    if name == "owner-key":
        Path("officer.key").unlink()
        Path("officer.key.pub").unlink()
    if name == "accept-rollback":
        with dpl.Ledger.open("clinic.ledger") as book:
            older = book.backup("older.ledger")
            book.scope("patients").release(dpl.Laplace(sensitivity=1, epsilon="0.25"), 10)
        older.replace("clinic.ledger")
    command = line.rpartition(" | ")[2]
    given = Path("run.json").read_text() if command != line else None
    done = CliRunner().invoke(app, shlex.split(command)[1:], input=given)
    assert done.exit_code == (1 if "half_noise" in line else 0), done.output


def test_a_shell_is_told_how_to_complete_commands() -> None:
    """What bash asks of the program when somebody types `dpledger ver` and the tab key."""
    asked = {"COMP_WORDS": "dpledger ver", "COMP_CWORD": "1", "_DPLEDGER_COMPLETE": "complete_bash"}
    program = [sys.executable, "-c", "from dpledger.cli import app; app(prog_name='dpledger')"]
    told = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **asked})
    assert told.stdout.split() == ["verify"]
