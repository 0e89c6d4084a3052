"""The store in PostgreSQL, on a server of the tests' own: the conformance classes, processes and servers that are
killed, what the server may not be."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from dpledger.accounting.guarantees import PureDP
from dpledger.cli import app
from dpledger.errors import (
    ForeignLedger,
    ParameterError,
    RollbackSeen,
    ScopeError,
    StoreBehind,
    StoreFailure,
    VerificationError,
)
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.signed.keyfiles import KeyFiles
from dpledger.ledger.signed.keys import SigningKey, new_ledger_id
from dpledger.ledger.signers.delegating import Delegating
from dpledger.ledger.stores.postgres import PostgresStore
from dpledger.ledger.stores.protocol import Addition, Store
from dpledger.ledger.witnessing.watch import HeadWatch
from fault_conformance import FaultConformance, Lying, counts, forked, opened_scope, read_all, with_budget
from forking import ignores_fork_warnings
from ledger_conformance import (
    SHORT_STEP,
    LedgerConformance,
    Work,
    asked,
    held_and_released,
    released,
    reopened,
    reserved,
)
from ledger_mechanisms import laplace
from postgres_server import Server
from store_conformance import StoreConformance, held
from threads import together
from witnesses import running

pytestmark = pytest.mark.sliced


class TestPostgresStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, server: Server) -> None:
        self.address = server.address()

    def make(self) -> Store:
        return PostgresStore.create(self.address)

    def code(self) -> str:
        return f"import dpledger.ledger.stores.postgres as home; store = home.PostgresStore.create({self.address!r})"

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
    @pytest.mark.parametrize("step", [SHORT_STEP])
    @pytest.mark.parametrize("work", [released, held_and_released, reserved, asked, reopened])
    def test_an_interrupt_anywhere_loses_nothing_that_was_acknowledged(self, work: Work, step: int) -> None:
        super().test_an_interrupt_anywhere_loses_nothing_that_was_acknowledged(work, step)


class TestFaultsOfPostgres(FaultConformance):
    @pytest.fixture(autouse=True)
    def _server(self, server: Server, tmp_path: Path) -> None:
        self.server, self.folder, self.count = server, tmp_path, 0

    def lying(self) -> Lying:
        self.count += 1
        return Lying(self.server.address(), self.folder / f"clinic{self.count}")

    @contextmanager
    def full(self, book: Ledger, room: int) -> Iterator[None]:
        """The server says so, where a leaf is to be written: after `room` more."""
        store: Any = book._store
        with psycopg.connect(store.place, autocommit=True) as connection:
            connection.execute(FULL.replace("$room", str(len(book) + room)))
            yield
            connection.execute("DROP FUNCTION full_disk CASCADE")


FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.i >= $room THEN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END IF; RETURN NEW;
END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON dpledger_leaves FOR EACH ROW EXECUTE FUNCTION full_disk();
"""


# ---- connections and servers that end --------------------------------------------------------------------------------


def ending(at: int, moment: str, other: str, told: list[int]) -> Callable[..., Any]:
    """`Connection.execute`, whose connection the server ends before its statement number `at`, or after it, so that the
    reply is lost. `told`: the statements it heard."""
    genuine = psycopg.Connection.execute

    def execute(self: Any, statement: Any, *operands: Any, **options: Any) -> Any:
        told.append(len(told))
        if len(told) != at + 1:
            return genuine(self, statement, *operands, **options)
        if moment == "after":
            genuine(self, statement, *operands, **options)
        with psycopg.connect(other) as connection:
            genuine(connection, "SELECT pg_terminate_backend(%s, 5000)", (self.info.backend_pid,))
        return genuine(self, statement, *operands, **options)  # finds the connection ended

    return execute


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_that_ends_at_any_statement_loses_nothing(
    server: Server, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open_or_create(server.address(), keys=tmp_path / "clinic") as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(100))
        at, told = 0, [0]
        while at < len(told):
            told = []
            with monkeypatch.context() as patched:
                patched.setattr(psycopg.Connection, "execute", ending(at, moment, server.address("public"), told))
                scope.release(laplace("0.1"), 7, key=f"k{at}")
            at += 1
        assert at > 3  # whether the key was used, and two appends
        assert [charge.key for charge in scope.releases()] == [f"k{number}" for number in range(at)]
        assert book.verify().state.open == {}
        assert scope.spent().upper == pytest.approx(at * 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["the first process alone", "every process"])
def test_processes_spend_a_budget_exactly_while_the_server_is_killed_twice(tmp_path: Path, signal: str) -> None:
    own = Server()
    try:
        where = with_budget(Lying(own.address(), tmp_path / "clinic"), "200")
        children = [forked(where) for _ in range(4)]
        for _, pipe in children:
            os.read(pipe, 1)  # it is open
        for _ in range(2):
            time.sleep(0.5)
            own.kill(every=signal == "every process")
            own.start()
        released = [read_all(pipe) for _, pipe in children]
        assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid, _ in children] == [0] * 4
        assert (sum(released), counts(where)) == (200, (200, 200))
    finally:
        own.close()


# ---- a server that is restored ---------------------------------------------------------------------------------------


def test_a_restored_dump_is_an_older_ledger_that_verifies(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, keys = server.address(), tmp_path / "clinic"
    schema = address.rpartition("%3D")[2]
    with Ledger.open_or_create(address, keys=keys) as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(3))
        scope.release(laplace("1"), 1)
        dump = server.dumped(schema)
    server.restored(schema, dump)
    with Ledger.open_or_create(address, keys=keys) as book:  # nothing is missing
        book.scope("s").release(laplace("1"), 1)
        kept = book.head
        server.restored(schema, dump)
        with pytest.raises(StoreBehind, match=r"handle has seen 6\. .* Put the newest state back\. .*accept-rollback"):
            book.refresh()
    with pytest.raises(StoreBehind, match="accept-rollback"):
        Ledger.open_or_create(address, keys=keys)
    with pytest.warns(RollbackSeen):
        Ledger.look(address).close()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
        with Ledger.open_or_create(address, keys=keys) as book, pytest.raises(VerificationError):
            book.verify(since=[kept])
    Ledger.accept_rollback(address, by="me", reason="the server was lost", key=tmp_path / "clinic.key")
    with Ledger.open_or_create(address, keys=keys) as book:
        assert book.verify().state.rollbacks == 1
        with pytest.raises(ScopeError, match="is closed"):
            book.scope("s").release(laplace("1"), 1)


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_database_that_is_put_back_under_an_open_handle_releases_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """As a witness is asked about one charge of A, B goes on. What its answer covers of B's entries says nothing of
    those that A appends once the database was put back; nor does it of an append of A's own that was lost."""
    cover, address = HeadWatch.cover, server.address()
    schema, dumps = address.rpartition("%3D")[2], [b""]

    def machine(name: str) -> Ledger:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name))
        return Ledger.open_or_create(address, keys=tmp_path / "clinic")

    def beside(watch: HeadWatch, size: int) -> None:
        if dumps == [b""] and watch is here._watch and size > 2:
            monkeypatch.setattr(HeadWatch, "cover", cover)
            dumps.append(server.dumped(schema))
            if at == "before":
                server.restored(schema, before)
            with machine("there") as there:
                for _ in range(8):
                    there.scope("s").release(laplace("0.1"), 1)
        cover(watch, size)

    with running(tmp_path) as witness:
        with Ledger.create(address, keys=tmp_path / "clinic", witnesses=witness.policy) as first:
            witness.allow(first.public_key)
            first.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
        with machine("here") as here:
            here.cosigned()
            before = server.dumped(schema)
            monkeypatch.setattr(HeadWatch, "cover", beside)
            has_begun = False
            with (
                suppress(StoreBehind),
                here.scope("s").charging(PureDP("0.1"), by="me", reason="a run", relation="add_remove") as run,
            ):
                run.start()
                has_begun = True
                server.restored(schema, dumps[-1])
                with pytest.raises(StoreBehind, match="put back"):
                    here.scope("s").release(laplace("0.1"), 1)
            assert has_begun is (at == "after")


def test_what_a_user_sets_changes_nothing_that_is_written(server: Server, tmp_path: Path) -> None:
    """Without conforming strings psycopg escapes lists of bytes twice."""
    address = server.address()
    odd = "".join(f"%20-c{name}%3Doff" for name in ("standard_conforming_strings", "array_nulls"))
    for place in (address, f"{address}{odd}&client_encoding=SQL_ASCII"):
        with Ledger.open_or_create(place, keys=tmp_path / "clinic") as book:
            scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(3))
            scope.release(laplace("1"), 1, key=f"run-{len(book)}")
    with Ledger.look(address) as book:
        assert book.verify().state.size == 6


def test_each_append_is_durable_on_whatever_connection_a_pooler_gives_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two statements another user has the connection, and resets it. The twin is taken for a direct one."""
    address = server.address()
    direct = PostgresStore.create(address)
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("CREATE TABLE seen (setting text)")
        note = "INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL;"
        other.execute(f"CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {note} END $$")
        other.execute(
            "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON dpledger_leaves DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION note()"
        )
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", property(lambda info: 1))
    pooled = PostgresStore.open(f"{address}%20-csynchronous_commit%3Doff")

    def appended(store: PostgresStore, number: int) -> str:
        assert store._connection is not None
        reset = "DO $$ BEGIN EXECUTE 'RESET ALL'; EXECUTE 'DEALLOCATE ALL'; END $$"
        store._connection.execute(reset, prepare=False)
        leaf = b"leaf %d" % number
        return store.append(Addition(size=store.tail(None).size, leaves=(leaf,), head=leaf))

    assert {appended(pooled, number) for number in range(12)} == {"done"}
    with pytest.raises(StoreFailure, match="prepared statement"):
        [appended(direct, number) for number in range(12, 24)]
    with psycopg.connect(address) as other:
        found = {setting for (setting,) in other.execute("SELECT setting FROM seen").fetchall()}
    assert found == {"on"}
    for store in (pooled, direct):
        store.close()


def test_what_a_trigger_leaves_out_is_not_acknowledged(server: Server) -> None:
    address = server.address()
    store = PostgresStore.create(address)
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("CREATE FUNCTION omit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$")
        other.execute("CREATE TRIGGER omits BEFORE INSERT ON dpledger_leaves FOR EACH ROW EXECUTE FUNCTION omit()")
    with pytest.raises(StoreBehind, match="leaves out"):
        store.append(Addition(size=0, leaves=(b"leaf",), head=b"head"))
    assert store.tail(0).size == 0
    store.close()


# ---- keys that take turns --------------------------------------------------------------------------------------------


def test_a_key_takes_over_in_a_database_and_nobody_goes_on_with_the_one_before(server: Server, tmp_path: Path) -> None:
    address, keys = server.address(), tmp_path / "clinic"
    first, following = str(tmp_path / "clinic.key"), str(tmp_path / "next.key")
    with Ledger.open_or_create(address, keys=keys) as book, Ledger.open(address, key=first) as other:
        opened_scope(book, "s", "4").release(laplace("1"), 7)
        other.scope("s").release(laplace("1"), 7)
        told = CliRunner().invoke(app, ["rotate-key", address, "--key", first, "--to", following])
        assert told.exit_code == 0, told.output
        for stale in (book, other):
            with pytest.raises(ForeignLedger, match="rotated"):
                stale.scope("s").release(laplace("1"), 7)
        kept = book.head
    with pytest.raises(ForeignLedger, match="rotated"):
        Ledger.open_or_create(address, keys=keys)
    with Ledger.open(address, key=following) as book:
        book.scope("s").release(laplace("1"), 7)
        found = book.verify(key=SigningKey.load(tmp_path / "clinic.key").public, since=[kept])
        assert found.unwitnessed == 2
        assert book.scope("s").left() == 1
    where = Lying(address, tmp_path / "clinic")
    assert counts(where) == (3, 3)


def test_handles_that_delegate_write_in_turn_and_a_rotation_ends_both(server: Server) -> None:
    address, name = server.address(), new_ledger_id("clinic")
    slow, recovery, following = (SigningKey.generate(name) for _ in range(3))
    Ledger.begin(PostgresStore.create(address), slow, recovery.public).close()
    opened = [Ledger.resume(PostgresStore.open(address), Delegating(slow, entries=20)) for _ in range(2)]
    scopes = [opened_scope(opened[0], "s", "100"), opened[1].scope("s")]
    for turn in range(8):
        scopes[turn % 2].release(laplace("1"), 7)
    found = together(*(lambda scope=scope: [scope.release(laplace("1"), 7) for _ in range(6)] for scope in scopes))
    assert [len(told) if isinstance(told, list) else told for told in found] == [6, 6]
    opened[0].rotate_key(following)
    opened[0].scope("s").release(laplace("1"), 7)
    with pytest.raises(ForeignLedger, match="rotated"):
        scopes[1].release(laplace("1"), 7)
    verified = opened[0].verify(key=slow.public)
    assert sum(entry.body.kind == "committed" for entry in verified.entries) == 21
    assert opened[0].scope("s").left() == 79
    for book in opened:
        book.close()


@ignores_fork_warnings
def test_a_process_whose_key_is_rotated_away_released_no_more_than_was_charged(server: Server, tmp_path: Path) -> None:
    where = with_budget(Lying(server.address(), tmp_path / "clinic"), "1000")
    released = 0
    for number in range(3):
        pid, pipe = forked(where)
        released += len(os.read(pipe, 1)) - 1 + len(os.read(pipe, 1))
        following = tmp_path / f"next{number}.key"
        command = ["rotate-key", where.place, "--key", str(tmp_path / "clinic.key"), "--to", str(following)]
        assert CliRunner().invoke(app, command).exit_code == 0
        os.waitpid(pid, 0)  # it is refused where the key has changed
        released += read_all(pipe)
        (tmp_path / "clinic.key").unlink()
        following.rename(tmp_path / "clinic.key")
        charged, committed = counts(where)
        assert released <= committed <= charged <= committed + number + 1
    assert released >= 3


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
    with pytest.raises(ParameterError, match=r"clinik\.key"):  # nobody means to read who names a key
        Ledger.open_or_create(address, keys=tmp_path / "clinik")
    with pytest.raises(ParameterError, match="where no ledger is yet"):
        Ledger.create(address, keys=tmp_path / "other")
    assert not (tmp_path / "other.key").exists()


def save_keys(keys: Path) -> SigningKey:
    """The private keys of a ledger that nobody has begun, and the one that signs."""
    name = new_ledger_id("clinic")
    signer = SigningKey.generate(name)
    KeyFiles.beside(keys).save_private(signer, SigningKey.generate(name))
    return signer


@pytest.mark.parametrize("left", [("key", "recovery.key", "pub"), ("key", "recovery.key"), ("key", "pub")])
def test_the_keys_of_a_ledger_that_was_begun_begin_no_second_one(
    server: Server, tmp_path: Path, left: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At an address that was mistyped, or where the tables are gone, its budgets would be there once more. So it is on
    a machine that never saw the ledger, by the public key beside them, and by what is remembered where that is gone."""
    monkeypatch.setattr("dpledger.ledger.handle.handles.WAIT_SECONDS", 0.1)
    Ledger.open_or_create(server.address(), keys=tmp_path / "clinic").close()
    for suffix in {"key", "recovery.key", "pub"} - {*left}:
        (tmp_path / f"clinic.{suffix}").unlink()
    if "pub" in left:
        monkeypatch.setattr("dpledger.ledger.handle.create.Heads.newest", lambda _: None)
    empty = server.address()
    for opened in (Ledger.open_or_create, Ledger.create):
        with pytest.raises(StoreBehind, match="Another ledger needs its own keys: give another path"):
            opened(empty, keys=tmp_path / "clinic")
    store = PostgresStore.open(empty)
    assert store.tail(None).size == 0
    store.close()


def test_who_died_before_the_first_entry_is_followed_under_the_same_keys(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpledger.ledger.handle.handles.WAIT_SECONDS", 0.1)  # for who makes the rest of the keys
    address, keys = server.address(), tmp_path / "clinic"
    signer = save_keys(keys)
    PostgresStore.create(address).close()
    with Ledger.open_or_create(address, keys=keys) as book:
        assert book.public_key == signer.public


def test_who_died_after_the_first_entry_is_followed_by_the_public_key(server: Server, tmp_path: Path) -> None:
    address, public = server.address(), tmp_path / "clinic.pub"
    Ledger.open_or_create(address, keys=tmp_path / "clinic").close()
    told = public.read_text()
    public.unlink()
    Ledger.open_or_create(address, keys=tmp_path / "clinic").close()
    assert public.read_text() == told
    public.unlink()
    (tmp_path / "clinic.recovery.key").unlink()  # as with an analyst, who has the signing key alone
    Ledger.open_or_create(address, keys=tmp_path / "clinic").close()
    assert not public.exists()


def test_of_processes_that_come_at_once_one_begins_the_ledger(server: Server, tmp_path: Path) -> None:
    address, keys = server.address(), tmp_path / "clinic"
    found = together(*[lambda: Ledger.open_or_create(address, keys=keys)] * 4)
    books = [book for book in found if isinstance(book, Ledger)]
    assert (len(books), len({book.id for book in books})) == (4, 1), found
    for book in books:
        book.close()


def test_an_owner_that_cannot_be_is_refused(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key that signs would approve what it writes: told as it is, not as a ledger that is not there."""
    monkeypatch.setattr("dpledger.ledger.handle.handles.WAIT_SECONDS", 0.1)
    address, keys = server.address(), tmp_path / "clinic"
    signer = save_keys(keys)
    with pytest.raises(VerificationError, match="two keys are two secrets"):
        Ledger.open_or_create(address, keys=keys, owner=signer.public)


def test_what_is_no_ledger_is_told(server: Server) -> None:
    empty = server.address()
    for opened in (Ledger.open, Ledger.look):
        with pytest.raises(ParameterError, match="the address of a ledger"):
            opened(empty)
    with pytest.raises(ParameterError, match="can be read"):
        Ledger.look("postgresql://a b:c:d")
    with pytest.raises(StoreFailure, match="cannot be reached"):
        Ledger.look("postgresql://secret:word@127.0.0.1:1/none?connect_timeout=1")
    made = PostgresStore.create(empty)
    with pytest.raises(ParameterError, match="no ledger is yet; for another schema"):
        PostgresStore.create(empty)
    made._read("UPDATE dpledger_head SET layout = 3 RETURNING layout", ())
    with pytest.raises(ForeignLedger, match="layout"):
        PostgresStore.open(empty)
    made.close()
    with pytest.raises(StoreFailure, match="closed"):
        made.tail(None)


@pytest.mark.parametrize("witnessed", [0, 1])
def test_a_release_takes_two_round_trips_and_one_more_to_ask_witnesses(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, witnessed: int
) -> None:
    with running(tmp_path) as witness:
        policy = witness.policy if witnessed else None
        with Ledger.open_or_create(server.address(), keys=tmp_path / "clinic", witnesses=policy) as book:
            witness.allow(book.public_key)
            scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
            scope.release(laplace("0.1"), 1)  # the first time a witness is asked, all entries are read
            said: list[str] = []
            genuine = psycopg.Connection.execute

            def execute(self: Any, statement: Any, *operands: Any, **options: Any) -> Any:
                said.append(statement)
                return genuine(self, statement, *operands, **options)

            monkeypatch.setattr(psycopg.Connection, "execute", execute)
            scope.release(laplace("0.1"), 1, key="k")  # whether the key was used is asked
            assert len(said) == 3 + witnessed
            said.clear()
            scope.release(laplace("0.1"), 1)
            assert len(said) == 2 + witnessed
            assert witness.files[0].asked >= 3 * witnessed


def test_a_server_that_may_lose_what_it_acknowledged_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    class Refused:
        def execute(self, statement: str, said: tuple[str, ...] = ()) -> Any:
            return self

        def fetchone(self) -> tuple[str]:
            return ("off",)

        def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr(psycopg.Connection, "connect", lambda *_, **__: Refused())
    with pytest.raises(StoreFailure, match="with fsync off"):
        PostgresStore.open("postgresql://here")
    assert closed == [True]


def test_who_may_not_make_tables_is_told_so(server: Server) -> None:
    address = server.address()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE ROLE somebody LOGIN")
    theirs = address.replace("postgres@", "somebody@")
    with pytest.raises(ParameterError, match="in which you may create tables"):
        PostgresStore.create(theirs)
    with pytest.raises(ParameterError, match="an existing schema"):
        PostgresStore.create(address.replace("search_path%3D", "search_path%3Dno_"))
