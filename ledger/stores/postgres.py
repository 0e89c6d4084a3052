"""The store in PostgreSQL, for several machines: compare-and-swap on one head row, each call one statement.

An append is one statement, so it is one transaction and one round trip: whoever changes the head row from the size that
the entries follow adds them; where others were first nothing is changed. What a role or a server sets to be fast and
not durable is overridden or refused: `synchronous_commit` is on, and a server without `fsync` or `full_page_writes` is
no store. A pooler that shares the server's connections is no danger, but slower: nothing is prepared there. The tables
lie in the first schema of the connection's search path.

A connection that is lost while an append is under way leaves its outcome unknown; a read is made again. Timeouts are
the caller's: `connect_timeout`, and `options=-c statement_timeout=...` or `lock_timeout`, in the address.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Self

from dpledger.errors import ForeignLedger, ParameterError, StoreBehind, StoreFailure
from dpledger.ledger.stores.postgres_layout import CREATE, LAYOUT, require_ours
from dpledger.ledger.stores.protocol import NOTHING, Addition, AppendOutcome, ChargeRow, Ending, Question, Tail
from dpledger.process import Home

try:
    import psycopg
    from psycopg import errors
except ImportError:
    raise ParameterError("ledger", "no psycopg", "the extra 'postgres': pip install 'dpledger[postgres]'") from None

__all__ = ["PostgresStore"]

RECONNECTING_SECONDS = 20.0  # how long a server that was there is waited for
PAUSE_SECONDS = 0.1  # between two tries
READS = 3  # tries at a read whose connection is lost
_PORTS = re.compile(r"[0-9,]*")  # one for each host
ANOTHER_SCHEMA = "for another schema of the database, end the address with ?options=-csearch_path%3DNAME"

_SETTINGS = {
    "standard_conforming_strings": "on",  # else bytes in a list are escaped twice, and stored as other bytes
    "array_nulls": "on",
    "client_encoding": "UTF8",
    "synchronous_commit": "on",
}

_TO_DO = {
    errors.ReadOnlySqlTransaction: "This server takes no writes: it is a replica, or default_transaction_read_only is "
    "on. Give the address of the primary; of several hosts, target_session_attrs=read-write in the address finds it",
    errors.InsufficientPrivilege: "Who made the tables grants the rights to them: docs/team.md lists them",
}

# Dividing by zero undoes all of it where a charge that is to end is not open, or a trigger keeps a leaf out. Behind a
# pooler each statement may meet another connection of the server's, so that this one says itself that it is durable.
# A function that takes any type is named with its schema: else one of the same name for text or bytea, which somebody
# made in a schema of the search path, would run in its place. (An unnest of several lists is always PostgreSQL's own.)
_APPEND = """
WITH moved AS (
    UPDATE dpledger_head SET size = %(stop)s, checkpoint = %(head)s
    WHERE set_config('synchronous_commit', 'on', true) = 'on' AND size = %(size)s
        AND (%(after)s::bytea IS NULL OR checkpoint = %(after)s::bytea) RETURNING one
), added AS (
    INSERT INTO dpledger_leaves (i, leaf)
    SELECT %(size)s + place - 1, leaf
    FROM moved, pg_catalog.unnest(%(leaves)s::bytea[]) WITH ORDINALITY AS new (leaf, place)
    RETURNING 1
), opened AS (
    INSERT INTO dpledger_charges (charge, scope, key, request, status, ended)
    SELECT new.* FROM moved,
        unnest(%(charges)s::text[], %(scopes)s::text[], %(keys)s::text[], %(requests)s::text[], %(status)s::text[],
            %(ended)s::bigint[]) AS new
), ended AS (
    UPDATE dpledger_charges AS held SET status = new.status, ended = new.ended
    FROM moved, unnest(%(ending)s::text[], %(ending_status)s::text[], %(ending_at)s::bigint[])
        AS new (charge, status, ended)
    WHERE held.charge = new.charge AND held.status = 'open' RETURNING 1
), refused AS (
    INSERT INTO dpledger_refusals
    SELECT new.* FROM moved, unnest(%(refused_scopes)s::text[], %(refused)s::text[]) AS new
    ON CONFLICT DO NOTHING
), kept AS (
    INSERT INTO dpledger_kept
    SELECT new.* FROM moved, unnest(%(kept)s::text[], %(values)s::bytea[]) AS new
    ON CONFLICT (charge) DO UPDATE SET value = EXCLUDED.value
), saved AS (
    INSERT INTO dpledger_saved SELECT one, %(saved)s::bytea FROM moved WHERE %(saved)s::bytea IS NOT NULL
    ON CONFLICT (one) DO UPDATE SET bytes = EXCLUDED.bytes
)
SELECT count(*), 1 / (count(*) = 0 OR (
    (SELECT count(*) FROM ended) = pg_catalog.cardinality(%(ending)s::text[])
    AND (SELECT count(*) FROM added) = pg_catalog.cardinality(%(leaves)s::bytea[])
))::int FROM moved
"""

_TAIL = """
SELECT size, checkpoint, ARRAY(SELECT leaf FROM dpledger_leaves WHERE i >= %(start)s::bigint AND i < size ORDER BY i),
    (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(charge, scope, key, request, status, ended) ORDER BY charge)
        FROM dpledger_charges WHERE {charges}),
    (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(scope, request) ORDER BY scope, request)
        FROM dpledger_refusals WHERE {refusals}),
    (SELECT value FROM dpledger_kept WHERE charge = %(charge)s::text),
    (SELECT bytes FROM dpledger_saved WHERE %(saved)s::bool)
FROM dpledger_head
"""
_KEY = "(scope = %(scope)s::text AND key = %(key)s::text)"
_ASKED = _TAIL.format(
    charges=f"{_KEY} OR charge = %(charge)s::text",
    refusals="scope = %(refused_scope)s::text AND request = %(refused)s::text",
)
_EVERYTHING = _TAIL.format(charges="true", refusals="true")
_LEAVES = "SELECT leaf FROM dpledger_leaves WHERE i >= %s AND i < %s ORDER BY i"


class PostgresStore:
    """A ledger in the database at `address`, a libpq URI. Use `create`, `open` or `open_or_create`.

    One connection, used by one thread at a time."""

    def __init__(self, address: str) -> None:
        self._connection: psycopg.Connection[Any] | None = None
        self.place = address
        self._home = Home("a ledger in PostgreSQL")
        self._lock = threading.RLock()
        self._is_busy = False
        self._is_closed = False
        self._was_reached = False
        self.name = _named(address)

    @classmethod
    def create(cls, address: str) -> Self:
        """A new, empty ledger. ParameterError if one is there, or no psycopg; StoreFailure if there is no server."""
        store = cls(address)
        try:
            with store._connected() as connection:
                connection.execute(CREATE)
                require_ours(connection, store.name)
        except (errors.DuplicateTable, errors.UniqueViolation):  # the latter: made at the same moment
            store.close()
            raise ParameterError("ledger", store.name, f"an address where no ledger is yet; {ANOTHER_SCHEMA}") from None
        except (errors.InvalidSchemaName, errors.InsufficientPrivilege) as error:
            store.close()
            expected = f"an existing schema in which you may create tables ({error.diag.message_primary})"
            raise ParameterError("ledger", store.name, f"{expected}; {ANOTHER_SCHEMA}") from None
        except psycopg.Error as error:
            store.close()
            raise _failure(f"{store.name}: no ledger could be made", error) from None
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def open_or_create(cls, address: str) -> Self:
        """The ledger that is there, else a new, empty one."""
        with suppress(ParameterError):
            return cls.open(address)
        with suppress(ParameterError):  # another process made it at the same moment
            return cls.create(address)
        return cls.open(address)

    @classmethod
    def open(cls, address: str) -> Self:
        """The ledger that is there. ParameterError if there is none; ForeignLedger for one of another layout."""
        store = cls(address)
        try:
            with store._connected() as connection:
                found = connection.execute("SELECT layout FROM dpledger_head").fetchone()
                if found in (None, (LAYOUT,)):
                    require_ours(connection, store.name)
        except errors.UndefinedTable:
            store.close()
            expected = f"the address of a ledger (Ledger.open_or_create makes one) that you may use; {ANOTHER_SCHEMA}"
            raise ParameterError("ledger", store.name, expected) from None
        except psycopg.Error as error:
            store.close()
            raise _failure(f"{store.name} cannot be read", error) from None
        except BaseException:
            store.close()
            raise
        if found != (LAYOUT,):
            store.close()
            raise ForeignLedger(f"{store.name} has layout {found}; this program reads layout {LAYOUT}")
        return store

    def tail(self, start: int | None, asked: Question = NOTHING) -> Tail:
        scope, key = asked.key if asked.key is not None else (None, None)
        refused_scope, refused = asked.refusal if asked.refusal is not None else (None, None)
        said = {
            "start": start,
            "scope": scope,
            "key": key,
            "charge": asked.charge,
            "refused_scope": refused_scope,
            "refused": refused,
            "saved": asked.saved,
        }
        rows = self._read(_EVERYTHING if asked.everything else _ASKED, said)
        if len(rows) != 1:
            raise StoreBehind(f"{self.name} holds {len(rows)} heads")
        size, head, leaves, charges, refusals, value, saved = rows[0]
        if asked.checked:
            self._require_whole(size)
        return Tail(
            size=size,
            leaves=tuple(leaves),
            head=head,
            charges=tuple(
                ChargeRow(charge=charge, scope=scope, key=key, request=request, status=status, ended=ended)
                for charge, scope, key, request, status, ended in charges or ()
            ),
            refusals=tuple((scope, request) for scope, request in refusals or ()),
            value=value,
            saved=saved,
        )

    def _require_whole(self, size: int) -> None:
        """ForeignLedger unless leaves up to `size` are there, without a gap. That the pages of the database are whole
        is its administrator's to check (amcheck, checksums)."""
        (found,) = self._read("SELECT count(*), min(i), max(i) FROM dpledger_leaves WHERE i < %s", (size,))
        if size and found != (size, 0, size - 1):
            raise ForeignLedger(f"{self.name} is damaged: of its {size} entries it holds {found[0]}")

    def leaves(self, start: int, stop: int) -> tuple[bytes, ...]:
        return tuple(leaf for (leaf,) in self._read(_LEAVES, (start, stop)))

    def append(self, addition: Addition) -> AppendOutcome:
        said = _said(addition)
        try:
            try:
                row = self._put(said)
            except errors.ReadOnlySqlTransaction:  # it became a replica: the address may lead to another server
                row = self._put(said)
        except _Lost:
            return "unknown"
        except (errors.SerializationFailure, errors.DeadlockDetected):
            return "unknown"  # nothing of it is there: it may be said again
        except (errors.UniqueViolation, errors.DivisionByZero):
            raise StoreBehind(
                "a charge or key is in the store already, a charge that is to end is not open there, or the database "
                "leaves out what it is given"
            ) from None
        except psycopg.Error as error:
            raise _failure(f"{self.name} did not append", error) from None
        return "done" if row is not None and row[0] == 1 else "failed"

    def _put(self, said: dict[str, Any]) -> Any:
        with self._connected() as connection:
            return connection.execute(_APPEND, said, binary=True).fetchone()

    def close(self) -> None:
        if self._home.is_here:
            self._is_closed = True
            with self._lock:
                self._drop()

    def __del__(self) -> None:
        if suppress is None:  # as a process ends, the names of this module may go before its objects
            return
        with suppress(AttributeError):  # who was interrupted before it had a home has no connection
            if self._home.is_here:
                self._drop()

    def _read(self, statement: str, said: Any) -> list[Any]:
        for _ in range(READS):
            try:
                with self._connected() as connection:
                    return connection.execute(statement, said, binary=True).fetchall()
            except _Lost:
                continue
            except psycopg.Error as error:
                raise _failure(f"{self.name} cannot be read", error) from None
        raise StoreFailure(f"{self.name} lost the connection at each of {READS} tries: try again")

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection, for one statement. _Lost where it breaks; whatever interrupts it, it is not used again."""
        self._home.require()
        with self._lock:
            if self._is_busy:
                raise StoreFailure(
                    f"this thread is inside another call of {self.name}: nothing was read or written. Do not use a "
                    "ledger in a signal handler"
                )
            try:
                try:
                    self._is_busy = True
                    yield self._reached()
                except psycopg.OperationalError as error:
                    if self._connection is None or self._connection.closed:
                        self._drop()
                        raise _Lost(f"{self.name} lost the connection: {error}") from None
                    raise
                except errors.ReadOnlySqlTransaction:
                    self._drop()
                    raise
                except psycopg.Error:
                    raise
                except BaseException:
                    self._drop()
                    raise
                finally:
                    self._is_busy = False
            finally:
                self._is_busy = False  # an interrupt may have fallen into the first

    def _reached(self) -> psycopg.Connection[Any]:
        """An open connection. A server that was there before is waited for, once: then each call tries it again."""
        if self._is_closed:
            raise StoreFailure(f"{self.name} is closed in this process: open the ledger again")
        deadline = time.monotonic() + RECONNECTING_SECONDS
        while self._connection is None or self._connection.closed:
            try:
                self._connection = _durable(self.place, self.name)
            except psycopg.OperationalError as error:
                self._drop()
                if not self._was_reached or time.monotonic() >= deadline:
                    self._was_reached = False
                    raise StoreFailure(f"{self.name} cannot be reached: {error}") from None
                time.sleep(PAUSE_SECONDS)
        self._was_reached = True
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


class _Lost(StoreFailure):
    """The connection broke: what was under way may have been done."""


class _Connection(psycopg.Connection[Any]):
    """A connection that its store closes."""

    def __del__(self, *_: Any) -> None:
        """Nothing: a garbage collection may meet it before the store, and psycopg would warn of it."""


def _failure(what: str, error: psycopg.Error) -> StoreFailure:
    """What the server said, and what to do about it."""
    advice = next((f". {todo}" for kind, todo in _TO_DO.items() if isinstance(error, kind)), "")
    return StoreFailure(f"{what}: {error}{advice}")


def _named(address: str) -> str:
    """The host and the database, without what is secret. ParameterError for an address that cannot be read, or not as
    it was meant: the end of a password that holds a / or an @ would be taken for a host, a port or a database."""
    try:
        said = psycopg.conninfo.conninfo_to_dict(address)
    except (psycopg.Error, UnicodeError):  # which tells a part of the address, the password among it
        raise ParameterError("ledger", "an address", "a postgresql:// address that can be read") from None
    authority, _, path = address.partition("://")[2].partition("?")[0].partition("/")
    if "@" in path or authority.count("@") > 1 or not _PORTS.fullmatch(str(said.get("port", ""))):
        expected = "a postgresql:// address whose port is a number, and / and @ in a password are written %2F and %40"
        raise ParameterError("ledger", "an address", expected)
    service = f"?service={said['service']}" if "service" in said else ""
    return f"postgresql://{said.get('host', '')}/{said.get('dbname', '')}{service}"


def _durable(address: str, name: str) -> psycopg.Connection[Any]:
    """A connection whose commits are durable, and which writes what it is given, whatever the user, the database or the
    address set. StoreFailure for a server that acknowledges what it may lose."""
    try:
        connection = _Connection.connect(address, autocommit=True)
    except UnicodeError:  # of the look-up: an empty label, or one that is too long
        raise ParameterError("ledger", name, "an address with the name of a host") from None
    try:
        for setting, value in _SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
        for setting in ("fsync", "full_page_writes"):
            row = connection.execute("SELECT current_setting(%s)", (setting,)).fetchone()
            if row != ("on",):
                raise StoreFailure(
                    f"{name} runs with {setting} off: what it acknowledges may be lost; nothing was written"
                )
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        if row != (connection.info.backend_pid,):  # a pooler: the server may prepare a statement on another connection
            connection.prepare_threshold = None
    except BaseException:
        connection.close()
        raise
    return connection


def _said(addition: Addition) -> dict[str, Any]:
    """The parameters of an append. A charge that begins and ends in it is put there ended."""
    opened = {row.charge: row for row in addition.rows.charges}
    endings: list[Ending] = []
    for ending in addition.rows.endings:
        row = opened.get(ending.charge)
        if row is not None and row.status == "open":
            opened[ending.charge] = replace(row, status=ending.status, ended=ending.ended)
        else:
            endings.append(ending)
    charges = [opened[row.charge] for row in addition.rows.charges]
    refusals, values = sorted(set(addition.rows.refusals)), dict(addition.rows.values)
    return {
        "size": addition.size,
        "stop": addition.size + len(addition.leaves),
        "head": addition.head,
        "after": addition.after,
        "leaves": list(addition.leaves),
        "charges": [row.charge for row in charges],
        "scopes": [row.scope for row in charges],
        "keys": [row.key for row in charges],
        "requests": [row.request for row in charges],
        "status": [row.status for row in charges],
        "ended": [row.ended for row in charges],
        "ending": [ending.charge for ending in endings],
        "ending_status": [ending.status for ending in endings],
        "ending_at": [ending.ended for ending in endings],
        "refused_scopes": [scope for scope, _ in refusals],
        "refused": [request for _, request in refusals],
        "saved": addition.saved,
        "kept": list(values),
        "values": list(values.values()),
    }
