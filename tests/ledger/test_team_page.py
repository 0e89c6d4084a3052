"""docs/team.md, done literally: its SQL, its commands and its Python, by each of its people."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from dpledger.cli import app
from dpledger.errors import StoreFailure
from dpledger.ledger.ledger import Ledger
from postgres_server import Server

PAGE = (Path(__file__).parents[2] / "docs" / "team.md").read_text(encoding="utf-8")
SERVICE = "postgresql://?service=clinic"

pytestmark = pytest.mark.sliced


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [text for of, text in fenced if of == language]


COMMANDS = [line for block in blocks("") for line in block.splitlines() if line.startswith("dpledger ")]


def command(beginning: str) -> str:
    """The command of the page that begins so."""
    (found,) = [line for line in COMMANDS if line.startswith(f"dpledger {beginning}")]
    return found


@pytest.fixture
def being(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Be one of the people, in a folder of theirs, whose service file is as the page has it."""
    said = psycopg.conninfo.conninfo_to_dict(server.address("public"))
    monkeypatch.delenv("DPLEDGER_KEY", raising=False)

    def be(person: str) -> Path:
        folder = tmp_path / person
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        file = next(block for block in blocks("") if block.startswith("[clinic]"))
        file = file.replace("db.example.org", f"{said['host']}\nport={said['port']}")
        Path("service").write_text(file.replace("user=keeper", f"user={person}"))
        monkeypatch.setenv("PGSERVICEFILE", str(folder / "service"))
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        return folder

    return be


def done(line: str, answer: str | None = None) -> str:
    result = CliRunner().invoke(app, shlex.split(line)[1:], input=answer)
    assert result.exit_code == 0, result.output
    return result.stdout


def by_sql(address: str, statements: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements.split(";"):
            connection.execute(statement)


def test_what_the_page_says_is_done(server: Server, being: Callable[[str], Path]) -> None:
    administrator, keeper = blocks("sql")
    asks, releases = blocks("python")
    by_sql(server.address("public"), administrator)
    officer = being("officer")
    done(command("owner-key"))
    at_keeper = being("keeper")
    shutil.copy(officer / "officer.key.pub", at_keeper)
    done(command("init 'postgresql"))
    by_sql("service=clinic", keeper)
    for person in ("ann", "ben"):
        shutil.copy(at_keeper / "clinic.key", being(person))
    shutil.copy(at_keeper / "clinic.pub", officer)

    at_ann = being("ann")
    names: dict[str, object] = {}
    exec(asks, names)
    being("officer")
    shutil.copy(at_ann / "request.json", ".")
    approval = done(command("approve"), "y\n").splitlines()[-1]
    being("ann")
    passes_on = next(block for block in blocks("text") if "approval" in block)
    exec(passes_on.replace("...", approval), names)
    for person in ("ann", "ben"):
        being(person)
        exec(releases, {})

    being("officer")
    done(command("export"))
    assert "verified (full): 6 entries" in done(command("verify bundle"))
    shutil.copy("bundle/checkpoint", "kept.checkpoint")
    done(command("report"))
    assert "patients" in Path("report.html").read_text()
    done(f"dpledger verify {SERVICE} --key clinic.pub --since kept.checkpoint")
    with Ledger.open(SERVICE, key=at_keeper / "clinic.key") as book, pytest.raises(StoreFailure, match="permission"):
        book.declare("limits", "none", by="the officer")  # who may only read
