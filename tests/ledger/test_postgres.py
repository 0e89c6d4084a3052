"""The store in PostgreSQL, on a server of the tests' own: the conformance classes, processes and servers that are
killed, what the server may not be."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpledger.accounting.guarantees import PureDP
from dpledger.errors import ForeignLedger, ParameterError, StoreFailure
from dpledger.ledger.create import database_keys
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.stores import postgres
from dpledger.ledger.stores.postgres import PostgresStore
from dpledger.ledger.stores.protocol import Store
from ledger_conformance import LedgerConformance, Work, asked, held_and_released, released, reopened, reserved
from ledger_mechanisms import laplace
from postgres_server import Server
from store_conformance import StoreConformance, held

WORKER = Path(__file__).parents[1] / "support" / "postgres_worker.py"

pytestmark = pytest.mark.sliced


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


class TestPostgresStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, server: Server) -> None:
        self.address = server.address()

    def make(self) -> Store:
        return PostgresStore.create(self.address)

    def require_kept(self, leaves: list[bytes]) -> None:
        again = PostgresStore.open(self.address)
        assert held(again) == leaves
        again.close()


class TestInPostgres(LedgerConformance):
    @pytest.fixture(autouse=True)
    def _server(self, server: Server) -> None:
        self.server, self.address = server, server.address()

    def make(self) -> Store:
        return PostgresStore.create(self.address)

    def again(self) -> Store:
        return PostgresStore.open(self.address)

    def fresh(self) -> Store:
        return PostgresStore.create(self.server.address())

    @pytest.mark.slow
    @pytest.mark.parametrize("work", [released, held_and_released, reserved, asked, reopened])
    def test_an_interrupt_anywhere_loses_nothing_that_was_acknowledged(self, work: Work) -> None:
        super().test_an_interrupt_anywhere_loses_nothing_that_was_acknowledged(work)


# ---- many processes, and a server that is killed ---------------------------------------------------------------------


def shared(server: Server, folder: Path, epsilon: str) -> tuple[str, Path]:
    """An address with a scope of that budget in it, and where its keys lie."""
    address, keys = server.address(), folder / "clinic"
    with Ledger.open_or_create(address, keys=keys) as book:
        book.scope("s", unit="patient", relation="add_remove", budget=PureDP(epsilon))
    return address, keys


def workers(count: int, address: str, keys: Path) -> list[subprocess.Popen[str]]:
    """Processes that begin together, release until they are refused, and write a line for each value handed out."""
    started = [
        subprocess.Popen(
            [sys.executable, str(WORKER), address, str(keys)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(count)
    ]
    for one in started:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in started:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    return started


def counts(address: str) -> tuple[int, int]:
    """How many charges the verified ledger holds, and how many of them are committed."""
    with Ledger.look(address) as book:
        kinds = [entry.body.kind for entry in book.verify().entries]
        return kinds.count("reserved"), kinds.count("committed")


def test_processes_grant_a_budget_exactly(server: Server, tmp_path: Path) -> None:
    address, keys = shared(server, tmp_path, "40")
    started = workers(3, address, keys)
    released = [len(one.communicate(timeout=120)[0].splitlines()) for one in started]
    assert [one.returncode for one in started] == [0, 0, 0]
    assert (sum(released), counts(address)) == (40, (40, 40))
    assert all(released)


@pytest.mark.slow
def test_a_killed_process_released_no_more_than_was_charged(server: Server, tmp_path: Path) -> None:
    address, keys = shared(server, tmp_path, "100000")
    moments = random.Random(1)
    released = 0
    for kills in range(1, 4):
        (process,) = workers(1, address, keys)
        assert process.stdout is not None
        released += len(process.stdout.readline().splitlines())
        time.sleep(moments.uniform(0.0, 0.1))
        process.kill()
        released += len(process.communicate()[0].splitlines())
        charged, committed = counts(address)
        assert 0 < released <= committed <= charged <= committed + kills


@pytest.mark.slow
def test_a_killed_server_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    own = Server()
    try:
        address, keys = shared(own, tmp_path, "200")
        started = workers(2, address, keys)
        for _ in range(2):
            time.sleep(0.3)
            own.kill()
            own.start()
        released = [len(one.communicate(timeout=120)[0].splitlines()) for one in started]
        assert [one.returncode for one in started] == [0, 0]
        assert (sum(released), counts(address)) == (200, (200, 200))
    finally:
        own.close()


# ---- the way in ------------------------------------------------------------------------------------------------------


def test_a_script_runs_twice_on_an_address(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPLEDGER_KEY", raising=False)
    address, keys = server.address(), tmp_path / "clinic"
    with pytest.raises(ParameterError, match="keys"):
        Ledger.open_or_create(address)
    assert list(tmp_path.iterdir()) == []
    with Ledger.open_or_create(address, name="ward", keys=keys) as book:
        first = book.id
    assert sorted(file.name for file in tmp_path.iterdir()) == ["clinic.key", "clinic.pub", "clinic.recovery.key"]
    with Ledger.open_or_create(address, keys=keys) as book:
        assert (book.id, first.partition("/")[0]) == (first, "ward")
        book.declare("limits", "none", by="me")
    with pytest.raises(ParameterError, match="name"):
        Ledger.open_or_create(address, name="other", keys=keys)
    for opened in (Ledger.open(address), Ledger.open_or_create(address), Ledger.look(address)):
        with opened as book, pytest.raises(ParameterError, match="open for reading only"):
            book.declare("limits", "none", by="me")
    monkeypatch.setenv("DPLEDGER_KEY", keys.with_name("clinic.key").read_text().strip())
    with Ledger.open_or_create(address) as book:
        book.declare("limits", "none", by="you")
    with pytest.raises(ParameterError, match="keys"):
        Ledger.open_or_create(tmp_path / "a.ledger", keys=keys)


def test_who_died_before_the_first_entry_is_followed_under_the_same_keys(server: Server, tmp_path: Path) -> None:
    address, keys = server.address(), tmp_path / "clinic"
    PostgresStore.create(address).close()
    signer, _ = database_keys(keys, None)
    with Ledger.open_or_create(address, keys=keys) as book:
        assert book.public_key == signer.public


def test_what_is_no_ledger_is_told(server: Server) -> None:
    empty = server.address()
    for opened in (Ledger.open, Ledger.look):
        with pytest.raises(ParameterError, match="with a ledger in it"):
            opened(empty)
    with pytest.raises(ParameterError, match="can be read"):
        Ledger.look("postgresql://a b:c:d")
    with pytest.raises(StoreFailure, match="cannot be reached"):
        Ledger.look("postgresql://secret:word@127.0.0.1:1/none?connect_timeout=1")
    made = PostgresStore.create(empty)
    with pytest.raises(ParameterError, match="no ledger is yet"):
        PostgresStore.create(empty)
    made._read("UPDATE dpledger_head SET layout = 3 RETURNING layout", ())
    with pytest.raises(ForeignLedger, match="layout"):
        PostgresStore.open(empty)
    made.close()
    with pytest.raises(StoreFailure, match="closed"):
        made.tail(None)


def test_a_release_takes_two_round_trips(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Ledger.open_or_create(server.address(), keys=tmp_path / "clinic") as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
        said: list[str] = []
        genuine = psycopg.Connection.execute

        def execute(self: Any, statement: Any, *operands: Any, **options: Any) -> Any:
            said.append(statement)
            return genuine(self, statement, *operands, **options)

        monkeypatch.setattr(psycopg.Connection, "execute", execute)
        scope.release(laplace("0.1"), 1, key="k")  # whether the key was used is asked
        assert len(said) == 3
        said.clear()
        scope.release(laplace("0.1"), 1)
        assert len(said) == 2


def test_a_server_that_may_lose_what_it_acknowledged_is_refused(tmp_path: Path) -> None:
    class Refused:
        def execute(self, statement: str, said: tuple[str, ...] = ()) -> Any:
            self.said = said
            return self

        def fetchone(self) -> tuple[str]:
            return ("off",)

        def close(self) -> None:
            pass

    refused: Any = Refused()
    with pytest.raises(StoreFailure, match="with fsync off"):
        postgres._require_durable(refused, "postgresql://here")
