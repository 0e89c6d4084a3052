"""What the administrator of a server, a role or a network may have set, by mistake or not: whatever it is, a release is
recorded as it was, or is refused with what to do."""

from __future__ import annotations

import gc
import os
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from dpledger.errors import DpledgerError, ForeignLedger, ParameterError, StoreFailure
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.stores import postgres
from dpledger.ledger.stores.postgres import PostgresStore
from dpledger.ledger.stores.protocol import Addition
from fault_conformance import Lying, counts, forked, opened_scope, read_all, with_budget
from forking import ignores_fork_warnings
from ledger_mechanisms import laplace
from postgres_server import Server


def told(address: str, *statements: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def begun(address: str, tmp_path: Path) -> Path:
    """The keys of a ledger at `address`, in which one release was made."""
    with Ledger.open_or_create(address, keys=tmp_path / "clinic") as book:
        opened_scope(book, "s", "100").release(laplace("1"), 7, key="first")
    return tmp_path / "clinic"


# ---- functions and tables of somebody else ---------------------------------------------------------------------------

FUNCTIONS = {
    "unnest of bytes": "CREATE FUNCTION unnest(bytea[]) RETURNS SETOF bytea LANGUAGE sql AS $$ SELECT 'x'::bytea $$",
    "cardinality": "CREATE FUNCTION cardinality(text[]) RETURNS int LANGUAGE sql AS $$ SELECT 7 $$",
    "json_build_array": "CREATE FUNCTION json_build_array(text, text, text, text, text, bigint) RETURNS json "
    "LANGUAGE sql AS $$ SELECT '[]'::json $$",
    "json_agg": "CREATE FUNCTION nothing(json, json) RETURNS json LANGUAGE sql AS $$ SELECT NULL::json $$; "
    "CREATE AGGREGATE json_agg(json) (SFUNC = nothing, STYPE = json)",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_somebody_else_is_not_taken_for_one_of_the_servers(
    server: Server, tmp_path: Path, name: str
) -> None:
    """One whose types fit better runs, with the rights of whoever calls it, if its schema is not said."""
    address = server.address()
    keys = begun(address, tmp_path)
    told(address, FUNCTIONS[name])
    with Ledger.open_or_create(address, keys=keys) as book:
        scope = book.scope("s")
        assert scope.release(laplace("1"), 7, key="first").replayed
        scope.release(laplace("1"), 7, key="second")
    with Ledger.open_or_create(address, keys=keys) as book:
        assert book.scope("s").release(laplace("1"), 7, key="second").replayed
        assert book.verify().state.size == 6


TABLES = {
    "unlogged": (StoreFailure, "SET LOGGED", "ALTER TABLE dpledger_kept SET UNLOGGED"),
    "a view": (
        ForeignLedger,
        "dpledger_leaves is not a table",
        "ALTER TABLE dpledger_leaves RENAME TO moved; CREATE VIEW dpledger_leaves AS SELECT * FROM moved",
    ),
    "gone": (ForeignLedger, "no table dpledger_charges", "DROP TABLE dpledger_charges"),
    "without a column": (ForeignLedger, "checkpoint bytea", "ALTER TABLE dpledger_head DROP COLUMN checkpoint"),
    "of another type": (
        ForeignLedger,
        "leaf bytea",
        "ALTER TABLE dpledger_leaves ALTER leaf TYPE text USING encode(leaf, 'hex')",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_not_ours_is_refused(server: Server, tmp_path: Path, name: str) -> None:
    address = server.address()
    keys = begun(address, tmp_path)
    kind, said, change = TABLES[name]
    told(address, change)
    with pytest.raises(kind, match=said):
        Ledger.open_or_create(address, keys=keys)
    with pytest.raises(kind, match=said):
        Ledger.look(address)


def test_no_ledger_is_made_up_of_the_tables_of_two_schemas(server: Server, tmp_path: Path) -> None:
    """Whoever names one schema alone would see other charges, or other kept values."""
    first, second = server.address(), server.address()
    keys = begun(second, tmp_path)
    told(first, "CREATE TABLE dpledger_kept (charge text PRIMARY KEY, value bytea NOT NULL)")
    both = first + "," + second.rpartition("%3D")[2]
    with pytest.raises(ForeignLedger, match="dpledger_leaves and dpledger_kept lie in two schemas"):
        Ledger.open_or_create(both, keys=keys)
    told(first, "DROP TABLE dpledger_kept")
    with Ledger.open_or_create(both, keys=keys) as book:
        assert book.scope("s").release(laplace("1"), 7, key="first").replayed


def test_no_ledger_is_made_of_tables_that_end_with_the_connection(server: Server, tmp_path: Path) -> None:
    address = server.address("pg_temp")
    with pytest.raises(StoreFailure, match="temporary"):
        Ledger.open_or_create(address, keys=tmp_path / "clinic")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("table", ["head", "leaves", "charges", "kept", "refusals", "saved"])
def test_a_role_from_which_rows_are_hidden_is_refused(server: Server, tmp_path: Path, table: str) -> None:
    """One that does not see what is kept of a fold, or a refusal, would go on; one that may read the head and not write
    it waits for others without end."""
    address, role = server.address(), f"hidden_{table}"
    schema = address.rpartition("%3D")[2]
    keys = begun(address, tmp_path)
    told(
        address,
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        f"ALTER TABLE dpledger_{table} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY all_are_seen ON dpledger_{table} FOR SELECT USING (true)",
    )
    theirs = address.replace("postgres@", f"{role}@")
    with pytest.raises(StoreFailure, match=f"dpledger_{table} DISABLE ROW LEVEL SECURITY"):
        Ledger.open_or_create(theirs, keys=keys)
    told(address, f"ALTER TABLE dpledger_{table} DISABLE ROW LEVEL SECURITY")
    with Ledger.open_or_create(theirs, keys=keys) as book:
        book.scope("s").release(laplace("1"), 7)


# ---- servers and roles that take no writes ---------------------------------------------------------------------------


def test_a_server_that_takes_no_writes_says_where_to_write(server: Server, tmp_path: Path) -> None:
    """It is read from; once the address leads to one that takes them, the same handle goes on there."""
    address = server.address()
    keys = begun(address, tmp_path)
    told(address, "CREATE ROLE turned LOGIN SUPERUSER", "ALTER ROLE turned SET default_transaction_read_only = on")
    replica = address.replace("postgres@", "turned@")
    with Ledger.look(replica) as book:
        assert book.verify().state.size == 4
    with Ledger.open_or_create(replica, keys=keys) as book:
        with pytest.raises(StoreFailure, match=r"takes no writes: .* the address of the primary"):
            book.scope("s").release(laplace("1"), 7)
        told(address, "ALTER ROLE turned RESET default_transaction_read_only")
        book.scope("s").release(laplace("1"), 7)
        assert book.verify().state.size == 6
    told(address, "ALTER ROLE turned SET default_transaction_read_only = on")
    empty = server.address().replace("postgres@", "turned@")
    with pytest.raises(StoreFailure, match="takes no writes"):
        Ledger.open_or_create(empty, keys=tmp_path / "other")


def test_who_lacks_a_right_is_told_who_gives_it(server: Server, tmp_path: Path) -> None:
    address = server.address()
    schema = address.rpartition("%3D")[2]
    keys = begun(address, tmp_path)
    told(address, "CREATE ROLE looker LOGIN", f"GRANT USAGE ON SCHEMA {schema} TO looker")
    theirs = address.replace("postgres@", "looker@")
    with pytest.raises(StoreFailure, match=r"grants the rights to them: docs/team\.md"):
        Ledger.look(theirs)
    told(address, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO looker")
    Ledger.look(theirs).close()
    with (
        Ledger.open_or_create(theirs, keys=keys) as book,
        pytest.raises(StoreFailure, match=r"did not append: .* rights"),
    ):
        book.scope("s").release(laplace("1"), 7)


@ignores_fork_warnings
@pytest.mark.parametrize("isolation", ["serializable", "repeatable read"])
def test_processes_spend_a_budget_exactly_at_every_isolation(server: Server, tmp_path: Path, isolation: str) -> None:
    """The server ends a statement there that met another one; it is said again."""
    role = isolation.replace(" ", "_")
    address = server.address()
    told(address, f"CREATE ROLE {role} SUPERUSER LOGIN")
    told(address, f"ALTER ROLE {role} SET default_transaction_isolation = '{isolation}'")
    where = with_budget(Lying(address.replace("postgres@", f"{role}@"), tmp_path / "clinic"), "12")
    children = [forked(where) for _ in range(3)]
    released = [read_all(pipe) - 1 for _, pipe in children]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid, _ in children] == [0] * 3
    assert (sum(released), counts(where)) == (12, (12, 12))


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "EUC_JP"])
def test_a_ledger_lies_in_a_database_of_any_encoding(server: Server, tmp_path: Path, encoding: str) -> None:
    name = f"d_{encoding.lower()}"
    told(server.address("public"), f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    address = server.address("public").replace("/postgres?", f"/{name}?")
    settings = ("bytea_output=escape", "DateStyle=German", "backslash_quote=on", "quote_all_identifiers=on")
    address += "".join(f"%20-c{setting.replace('=', '%3D')}" for setting in settings) + f"&client_encoding={encoding}"
    keys = begun(address, tmp_path)
    with Ledger.open_or_create(address, keys=keys) as book:
        assert book.scope("s").release(laplace("1"), 7, key="first").replayed
        assert book.verify().state.size == 4


# ---- connections -----------------------------------------------------------------------------------------------------


def test_a_handle_that_is_forgotten_in_a_ring_closes_its_connection_in_silence(server: Server) -> None:
    """A garbage collection may meet the connection before the store: psycopg would warn of it."""
    address = server.address()
    made = PostgresStore.create(address)
    later = PostgresStore(address)  # which the collection meets after the connection
    later._connection, made._connection = made._connection, None
    assert later._connection is not None
    backend = later._connection.info.backend_pid
    later.__dict__["ring"] = later
    with warnings.catch_warnings(record=True) as told_of:
        warnings.simplefilter("always")
        del later
        gc.collect()
    assert not [str(one.message) for one in told_of if one.category is ResourceWarning]
    with psycopg.connect(address) as other:
        for _ in range(50):
            found = other.execute("SELECT pg_sleep(0.1) FROM pg_stat_activity WHERE pid = %s", (backend,)).fetchall()
            if not found:
                break
    assert not found
    made.close()


def test_a_server_that_went_away_is_waited_for_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an append that fails waits again as it looks whether it is there, and so does each call after it."""
    address, tries = server.address(), [0]
    store = PostgresStore.create(address)
    genuine = psycopg.Connection.connect

    def away(*operands: object, **options: object) -> None:
        tries[0] += 1
        raise psycopg.OperationalError("away")

    monkeypatch.setattr(postgres, "RECONNECTING_SECONDS", 0.5)
    monkeypatch.setattr(psycopg.Connection, "connect", away)
    assert store._connection is not None
    store._connection.close()
    with pytest.raises(StoreFailure, match="away"):
        store.tail(None)
    assert tries[0] > 1
    for _ in range(2):
        tries[0] = 0
        with pytest.raises(StoreFailure, match="away"):
            store.append(Addition(size=0, leaves=(b"leaf",), head=b"head"))
        assert tries[0] == 1
    monkeypatch.setattr(psycopg.Connection, "connect", genuine)
    assert store.append(Addition(size=0, leaves=(b"leaf",), head=b"head")) == "done"
    store.close()


class Proxy:
    """Hands bytes on between clients and the server at `port`. What comes as piece number `at` is cut: before it, after
    half of it, or once it is through."""

    def __init__(self, port: int, at: int, where: str) -> None:
        self._server, self._at, self._where, self.pieces = port, at, where, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                behind = socket.create_connection(("127.0.0.1", self._server))
                for source, target in ((client, behind), (behind, client)):
                    threading.Thread(target=self._hand_on, args=(source, target), daemon=True).start()

    def _hand_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                number, self.pieces = self.pieces, self.pieces + 1
                if number != self._at:
                    target.sendall(piece)
                    continue
                target.sendall({"before": b"", "half": piece[: len(piece) // 2], "after": piece}[self._where])
                break
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        target.close()


@contextmanager
def cut(address: str, at: int, where: str) -> Iterator[tuple[Proxy, str]]:
    said = psycopg.conninfo.conninfo_to_dict(address)
    proxy = Proxy(int(str(said["port"])), at, where)
    try:
        yield proxy, f"{address.replace(str(said['port']), str(proxy.port))}&sslmode=disable&gssencmode=disable"
    finally:
        proxy.close()


@pytest.mark.parametrize("where", ["before", "half", "after"])
def test_a_connection_that_is_cut_at_any_piece_loses_nothing(server: Server, tmp_path: Path, where: str) -> None:
    """On the way there or back, also in the middle of a message, and while the ledger is opened."""
    address = server.address()
    keys = begun(address, tmp_path)
    released, refused, at, pieces = 1, 0, -1, 3
    while at < pieces:
        with cut(address, at, where) as (proxy, cut_address):
            try:
                with Ledger.open_or_create(cut_address, keys=keys) as book:
                    book.scope("s").release(laplace("0.1"), 7, key=f"k{at}")
                released += 1
            except StoreFailure:  # the first connection of a handle is not tried again
                refused += 1
        pieces, at = max(pieces, proxy.pieces), at + 3
    assert pieces > 40
    assert released > refused > 0
    with Ledger.open_or_create(address, keys=keys) as book:
        assert len(book.scope("s").releases()) == released
        assert book.verify().state.open == {}


@pytest.mark.parametrize("call", [Ledger.look, Ledger.open])
def test_a_server_with_no_connection_to_spare_says_so(
    server: Server, tmp_path: Path, call: Callable[..., Ledger]
) -> None:
    address = server.address()
    begun(address, tmp_path)
    told(address, "CREATE ROLE crowded SUPERUSER LOGIN", "ALTER ROLE crowded NOSUPERUSER CONNECTION LIMIT 0")
    try:
        with pytest.raises(DpledgerError, match=r"cannot be reached: .*too many connections"):
            call(address.replace("postgres@", "crowded@"))
    finally:
        told(address, "DROP ROLE crowded")


ADDRESSES = {
    "a slash": "postgresql://ann:12/secret@127.0.0.1:1/db",
    "a slash before the end": "postgresql://ann:secret/12@127.0.0.1:1/db",
    "an at sign": "postgresql://ann:12@secret@127.0.0.1:1/db",
    "an at sign and a slash": "postgresql://ann:12@secret/12@127.0.0.1:1/db",
    "no host": "postgresql://127.0.0.1:secret/db",
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_a_password_that_is_not_encoded_is_told_to_nobody(name: str) -> None:
    """Its end would be looked up as a host, and stand in the error."""
    with pytest.raises(ParameterError, match="%2F and %40") as refusal:
        PostgresStore.open(ADDRESSES[name])
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("host", ["a..b", "a" * 64, "\udcff"])
def test_a_host_that_nothing_can_be_called_is_refused(host: str) -> None:
    with pytest.raises(ParameterError, match="address"):
        PostgresStore.open(f"postgresql://{host}/db")


def test_an_encoded_password_is_read_and_is_in_no_error(server: Server, tmp_path: Path) -> None:
    address = server.address()
    begun(address, tmp_path)
    Ledger.look(address.replace("postgres@", "postgres:a%2Fsecret%40b@")).close()
    for end in ("/a%40b", ",127.0.0.1:2/db", "/db?application_name=a@b"):
        with pytest.raises(StoreFailure, match="cannot be reached") as refusal:
            PostgresStore.open(f"postgresql://ann:a%2Fsecret%40b@127.0.0.1:1{end}")
        assert "secret" not in str(refusal.value)
