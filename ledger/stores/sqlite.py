"""The embedded store: one SQLite file in WAL mode, made durable at every commit (synchronous=FULL).

`create` never opens and `open` never creates. What is not a dpledger ledger is refused before anything is written to
it. While a handle is open the process must open the file by no other means: closing a plain descriptor would drop SQLite's
locks.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpledger.errors import ForeignLedger, ParameterError, StoreBehind, WorkLimit
from dpledger.ledger.stores.protocol import ChargeRow, Status, Transaction

__all__ = ["SQLiteStore"]

APPLICATION_ID = 0x64706C67  # "dplg": in the file's header, so that `file` and we know it
LAYOUT = 1  # PRAGMA user_version
BUSY_SECONDS = 30.0  # how long a writer waits for another process
BATCH = 500  # leaves fetched at a time

_TABLES = """
CREATE TABLE leaves (i INTEGER PRIMARY KEY, leaf BLOB NOT NULL) STRICT;
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), checkpoint BLOB NOT NULL) STRICT;
CREATE TABLE charges (
    charge TEXT PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'committed', 'aborted')), ended INTEGER,
    UNIQUE (scope, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE kept (charge TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
"""


class SQLiteStore:
    """A ledger file. Use `create` or `open`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._lock = threading.RLock()
        self.path = path

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> SQLiteStore:
        """A new, empty ledger file, readable by its owner alone. ParameterError if something is there already, or
        the folder is not."""
        file = Path(path)
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise ParameterError("ledger", str(file), "a path where nothing is yet (use Ledger.open)") from None
        except OSError as error:
            raise ParameterError("ledger", str(file), f"a path that can be written ({error.strerror})") from None
        connection = _connect(file)
        with _as_foreign(file):
            connection.executescript(
                f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {LAYOUT};"
                f"PRAGMA journal_mode = WAL; {_TABLES}"
            )
        return cls(connection, file)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> SQLiteStore:
        """An existing ledger file. ParameterError if there is none; ForeignLedger if it is something else, or damaged."""
        file = Path(path)
        if not file.is_file():
            raise ParameterError("ledger", str(file), "a ledger file (create one with `dpledger init`)")
        if file.stat().st_nlink > 1:
            raise ForeignLedger(f"{file} has more than one hard link: SQLite would not see the other name's journal")
        with _as_foreign(file):
            connection = _connect(file)
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (layout,) = connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION_ID:
                raise ForeignLedger(f"{file} is not a dpledger ledger")
            if layout != LAYOUT:
                raise ForeignLedger(f"{file} has layout {layout}; this program reads layout {LAYOUT}")
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise ForeignLedger(f"{file} is damaged: {verdict}")
        return cls(connection, file)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._lock, _as_foreign(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield _Work(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def size(self) -> int:
        with self._lock, _as_foreign(self.path):
            return _size(self._connection)

    def leaf(self, index: int) -> bytes:
        with self._lock, _as_foreign(self.path):
            row = self._connection.execute("SELECT leaf FROM leaves WHERE i = ?", (index,)).fetchone()
        if row is None:
            raise IndexError(index)
        return bytes(row[0])

    def leaves(self, start: int = 0) -> Iterator[bytes]:
        stop = self.size()
        while start < stop:
            with self._lock, _as_foreign(self.path):
                rows = list(_range(self._connection, start, min(stop, start + BATCH)))
            if not rows:
                raise StoreBehind(f"entry {start} is gone from {self.path}")
            yield from rows
            start += len(rows)

    def checkpoint(self) -> bytes | None:
        with self._lock, _as_foreign(self.path):
            row = self._connection.execute("SELECT checkpoint FROM head").fetchone()
        return None if row is None else bytes(row[0])

    def value(self, charge: str) -> bytes | None:
        with self._lock, _as_foreign(self.path):
            row = self._connection.execute("SELECT value FROM kept WHERE charge = ?", (charge,)).fetchone()
        return None if row is None else bytes(row[0])

    def close(self) -> None:
        with self._lock:
            self._connection.close()


class _Work:
    """What one transaction reads and writes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def size(self) -> int:
        return _size(self._connection)

    def leaves(self, start: int) -> Iterator[bytes]:
        return _range(self._connection, start, self.size)

    def append(self, leaf: bytes) -> int:
        index = self.size
        self._connection.execute("INSERT INTO leaves (i, leaf) VALUES (?, ?)", (index, leaf))
        return index

    def put_checkpoint(self, checkpoint: bytes) -> None:
        self._connection.execute("INSERT OR REPLACE INTO head (one, checkpoint) VALUES (1, ?)", (checkpoint,))

    def add_charge(self, row: ChargeRow) -> None:
        try:
            self._connection.execute(
                "INSERT INTO charges (charge, scope, key, request, status) VALUES (?, ?, ?, ?, ?)",
                (row.charge, row.scope, row.key, row.request, row.status),
            )
        except sqlite3.IntegrityError:
            raise StoreBehind(f"charge or key {row.key!r} is in the store already") from None

    def end_charge(self, charge: str, status: Status, index: int) -> None:
        changed = self._connection.execute(
            "UPDATE charges SET status = ?, ended = ? WHERE charge = ?", (status, index, charge)
        )
        if changed.rowcount != 1:
            raise StoreBehind("a charge that the ledger holds is not in the store")

    def put_value(self, charge: str, value: bytes) -> None:
        self._connection.execute("INSERT INTO kept (charge, value) VALUES (?, ?)", (charge, value))

    def charge_of(self, scope: str, key: str) -> ChargeRow | None:
        row = self._connection.execute(
            "SELECT charge, scope, key, request, status, ended FROM charges WHERE scope = ? AND key = ?", (scope, key)
        ).fetchone()
        names = ("charge", "scope", "key", "request", "status", "ended")
        return None if row is None else ChargeRow(**dict(zip(names, row, strict=True)))


def _connect(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,  # every use is under the store's own lock
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _size(connection: sqlite3.Connection) -> int:
    (last,) = connection.execute("SELECT max(i) FROM leaves").fetchone()
    return 0 if last is None else int(last) + 1


def _range(connection: sqlite3.Connection, start: int, stop: int) -> Iterator[bytes]:
    rows = connection.execute("SELECT leaf FROM leaves WHERE i >= ? AND i < ? ORDER BY i", (start, stop))
    return (bytes(leaf) for (leaf,) in rows)


@contextmanager
def _as_foreign(file: Path) -> Iterator[None]:
    """SQLite's own errors as ours: whose fault it is, and what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise WorkLimit(f"{file} was locked by another writer for {BUSY_SECONDS:.0f} s: try again") from None
        raise ForeignLedger(f"{file} cannot be read as a ledger: {error}") from None
    except sqlite3.DatabaseError as error:
        raise ForeignLedger(f"{file} cannot be read as a ledger: {error}") from None
