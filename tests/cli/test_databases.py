"""The command line on a ledger in PostgreSQL: every command that takes a ledger, as on a file; and no password in its
words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

import dpledger as dpl
from dpledger.cli import app
from dpledger.errors import ApprovalNeeded
from ledger_mechanisms import laplace
from postgres_server import Server

pytestmark = pytest.mark.sliced

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*words: object, status: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return result


def answer(*words: object) -> Any:
    return json.loads(run(*words, "--json").stdout)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPLEDGER_KEY", raising=False)
    return tmp_path


@pytest.fixture
def address(server: Server, folder: Path) -> str:
    """Of a ledger with one release, made by `init`, whose keys lie beside `clinic`."""
    made = server.address()
    told = run("init", made, "--keys", "clinic", "--name", "north")
    assert "clinic.recovery.key" in told.stdout
    with dpl.Ledger.open_or_create(made, keys="clinic") as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
        scope.release(laplace("0.25"), 10, key="model-2026")
    return made


def test_it_is_read_and_verified_as_a_file_is(address: str, folder: Path) -> None:
    (scope,) = answer("scopes", address)["scopes"]
    assert scope["scope"] == "patients"
    assert answer("scopes", address, "--key", "clinic.pub")["scopes"] == [scope]
    assert answer("spent", address, "--delta", "0")["epsilon"]["upper"] == pytest.approx(0.25)
    assert len(answer("show", address)["entries"]) == 4
    assert answer("verify", address, "--key", "clinic.pub")["size"] == 4
    assert "key" in run("verify", address, status=2).stderr
    assert "--key" in run("report", address, "-o", "r.html", status=2).stderr
    run("report", address, "--key", "clinic.pub", "-o", "r.html")
    assert "patients" in Path("r.html").read_text()


def test_what_is_made_of_it_is_verified_without_it(address: str, folder: Path) -> None:
    assert answer("prove", address, 3, "-o", "3.tlog-proof")["index"] == 3
    assert "--key KEY.pub" in run("export", address, "-o", "bundle").stdout
    Path("model.bin").write_bytes(b"weights")
    run("attest", "model.bin", "--ledger", address, "--scope", "patients", "--by", "me", "--key", "clinic.key")
    for source in ("bundle", "3.tlog-proof", "model.bin.intoto.json"):
        run("verify", source, "--key", "clinic.pub")
    run("verify", "model.bin.intoto.json", "--key", "clinic.pub", "--file", "model.bin", "--ledger", address)
    run("verify", address, "--key", "clinic.pub", "--since", "bundle")


def test_who_writes_names_the_key_or_has_it_in_the_environment(
    address: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(EXAMPLES / "declarations.yaml", "said.yaml")
    declared = Path("said.yaml").read_text().replace("patients-2026", "patients")
    Path("said.yaml").write_text(declared)
    assert "DPLEDGER_KEY" in run("declare", address, "said.yaml", status=2).stderr
    assert answer("declare", address, "said.yaml", "--key", "clinic.key")["declared"]
    monkeypatch.setenv("DPLEDGER_KEY", Path("clinic.key").read_text().strip())
    size = answer("verify", address, "--key", "clinic.pub")["size"]
    recorded = answer("report", address, "--key", "clinic.pub", "-o", "r.json", "--record")["recorded"]
    assert recorded == size
    audited = ("audit", "zoo:laplace", "--trials", 2000, "--seed", 1, "--ledger", address, "--scope", "patients")
    assert answer(*audited)["entry"] == size + 1


def test_what_an_owner_approves(server: Server, folder: Path) -> None:
    run("owner-key", "officer.key")
    address = server.address()
    run("init", address, "--keys", "clinic", "--owner", "officer.key.pub")
    rules: dict[str, Any] = {"unit": "patient", "relation": "add_remove", "budget": dpl.PureDP(1)}
    with dpl.Ledger.open_or_create(address, keys="clinic") as book:
        with pytest.raises(ApprovalNeeded) as needed:
            book.scope("patients", **rules)
        Path("request.json").write_bytes(needed.value.request)
        approval = answer("approve", "request.json", "--key", "officer.key", "--yes")["approval"]
        book.scope("patients", **rules, approval=approval)
    assert len(answer("scopes", address)["scopes"]) == 1


def test_a_copy_is_the_databases_own(address: str) -> None:
    assert "pg_dump" in run("backup", address, "-o", "copy.ledger", status=2).stderr
    assert not Path("copy.ledger").exists()


def test_a_ledger_is_made_once_and_with_keys(server: Server, address: str, folder: Path) -> None:
    assert "where no ledger is yet" in run("init", address, "--keys", "other", status=2).stderr
    assert not Path("other.key").exists()
    empty = server.address()
    assert "keys" in run("init", empty, status=2).stderr
    assert "keys" in run("init", "a.ledger", "--keys", "a", status=2).stderr
    assert "the address of a ledger" in run("scopes", server.address(), status=2).stderr


TRAINING = "audit-training m:t --score m:s --data r.csv --canaries 4 --epsilon 1"


def commands(address: str) -> list[list[str]]:
    """A call of every command that takes a ledger."""
    return [
        ["init", address, "--keys", "k"],
        ["scopes", address],
        ["spent", address],
        ["show", address],
        ["verify", address, "--key", "clinic.pub"],
        ["verify", "a.json", "--key", "clinic.pub", "--ledger", address],
        ["export", address, "-o", "b"],
        ["prove", address, "1", "-o", "p"],
        ["attest", "model.bin", "--ledger", address, "--scope", "s", "--by", "me"],
        ["backup", address, "-o", "b"],
        ["accept-rollback", address, "--by", "me", "--reason", "lost"],
        ["declare", address, "d.yaml"],
        ["report", address, "-o", "r.html"],
        ["audit", "zoo:laplace", "--ledger", address],
        [*TRAINING.split(), "--ledger", address],
        ["audit-account", "r.json", "--epsilon", "1", "--ledger", address],
        ["rotate-key", address, "--to", "n.key"],
        ["rotate-owner", address],
        ["revoke-key", address, "--recovery", "r", "--last-trusted", "3", "--reason", "stolen"],
        ["witness", "ask", address, "-o", "c"],
    ]


@pytest.mark.parametrize("address", ["postgresql://ann:s3cret@h/clinic", "postgres://h/clinic?password=s3cret&user=a"])
@pytest.mark.parametrize("number", range(len(commands(""))))
@pytest.mark.usefixtures("folder")
def test_a_password_is_refused_and_not_shown(number: int, address: str) -> None:
    said = run(*commands(address)[number], status=2)
    assert "~/.pgpass" in said.output
    assert "s3cret" not in said.output
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("address", ["postgresql://[::1/x", "postgresql://a\u2100b/x"])
def test_an_address_that_cannot_be_read_is_told_in_a_line(address: str) -> None:
    assert "address that can be read" in run("scopes", address, status=2).stderr


def test_a_service_keeps_the_password_out_of_the_address(
    server: Server, address: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of libpq names what an address would."""
    said = psycopg.conninfo.conninfo_to_dict(address)
    lines = [f"{name}={value}" for name, value in said.items()]
    Path("services").write_text("\n".join(["[clinic]", *lines, ""]))
    monkeypatch.setenv("PGSERVICEFILE", str(folder / "services"))
    assert answer("verify", "postgresql://?service=clinic", "--key", "clinic.pub")["size"] == 4
    told = run("scopes", "postgresql://?service=nobody", status=2).stderr
    assert "?service=nobody cannot be reached" in told


@pytest.mark.parametrize("command", ["scopes", "init"])
@pytest.mark.parametrize("name", ["postgresql:clinic", "postgres:/h/clinic", "PostgreSQL:clinic"])
@pytest.mark.usefixtures("folder")
def test_what_was_meant_as_an_address_makes_no_file(command: str, name: str) -> None:
    assert "postgresql://host/database" in run(command, name, status=2).stderr
    assert list(Path().iterdir()) == []
