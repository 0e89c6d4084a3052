"""The embedded store: one SQLite file in WAL mode, made durable at every commit (synchronous=FULL).

`create` never opens and `open` never creates. What is not a dpledger ledger is refused before anything is written to
it. While a handle is open the process must open the file by no other means: closing a plain descriptor would drop
SQLite's locks. A forked child never closes the connection that it inherited, for the same reason.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpledger.errors import ForeignLedger, ParameterError, StoreBehind, StoreFailure
from dpledger.ledger.stores.protocol import ChargeRow, Reader, Status, Transaction

__all__ = ["SQLiteStore"]

APPLICATION_ID = 0x64706C67  # "dplg": in the file's header, so that `file` and we know it
LAYOUT = 1  # PRAGMA user_version
BUSY_SECONDS = 30.0  # how long a writer waits for another process
_NOT_THE_FILE = frozenset(  # what goes wrong with a file that may well be a ledger
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)

_TABLES = """
CREATE TABLE leaves (i INTEGER PRIMARY KEY, leaf BLOB NOT NULL) STRICT;
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), checkpoint BLOB NOT NULL) STRICT;
CREATE TABLE charges (
    charge TEXT PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'committed', 'aborted')), ended INTEGER,
    UNIQUE (scope, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE refusals (
    scope TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL, PRIMARY KEY (scope, key, request)
) STRICT, WITHOUT ROWID;
CREATE TABLE kept (charge TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
"""
_ROW = "SELECT charge, scope, key, request, status, ended FROM charges"


class SQLiteStore:
    """A ledger file. Use `create` or `open`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._lock = threading.RLock()
        self._closed = False
        self.path = path
        _OPEN.add(self)

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> SQLiteStore:
        """A new, empty ledger file, readable by its owner alone. ParameterError if something is there already, or
        the folder is not. Removes what it made if it cannot finish."""
        file = Path(path)
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            raise ParameterError("ledger", str(file), "a path where nothing is yet (use Ledger.open)") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ParameterError("ledger", str(file), f"a path that can be written ({reason})") from None
        try:
            with _as_ours(file):
                connection = _connect(file)
                try:
                    connection.executescript(
                        f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {LAYOUT};"
                        f"PRAGMA journal_mode = WAL; {_TABLES}"
                    )
                    _require_write_ahead(connection, file)
                except BaseException:
                    connection.close()
                    raise
            _sync_folder(file)
        except BaseException:
            remove(file)
            raise
        return cls(connection, file)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> SQLiteStore:
        """An existing ledger file. ParameterError if there is none; ForeignLedger if it is something else, or
        damaged."""
        file = Path(path)
        try:
            links = file.stat().st_nlink if file.is_file() else 0
        except (OSError, ValueError):
            links = 0
        if not links:
            raise ParameterError("ledger", str(file), "a ledger file (create one with `dpledger init`)")
        if links > 1:
            raise ForeignLedger(f"{file} has more than one hard link: SQLite would not see the other name's journal")
        with _as_ours(file):
            connection = _connect(file)
            try:
                _require_ledger(connection, file)
            except BaseException:
                connection.close()
                raise
        return cls(connection, file)

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with self._begun("BEGIN") as work:
            yield work

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._begun("BEGIN IMMEDIATE") as work:
            yield work

    @contextmanager
    def _begun(self, begin: str) -> Iterator[_Work]:
        with self._lock, _as_ours(self.path):
            if self._connection.in_transaction:  # a read inside a transaction of the same thread
                yield _Work(self._connection)
                return
            self._connection.execute(begin)
            try:
                yield _Work(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):  # SQLite rolled back itself; the first error is the one to see
                        self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                _OPEN.discard(self)
                self._connection.close()

    def _leak(self) -> None:
        """In a forked child: keep the connection from ever being closed. Closing it would drop the parent's locks."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))


_OPEN: weakref.WeakSet[SQLiteStore] = weakref.WeakSet()


def _leak_inherited() -> None:
    for store in list(_OPEN):
        store._leak()


os.register_at_fork(after_in_child=_leak_inherited)


class _Work:
    """What one transaction reads and writes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def size(self) -> int:
        (last,) = self._connection.execute("SELECT max(i) FROM leaves").fetchone()
        return 0 if last is None else int(last) + 1

    def leaf(self, index: int) -> bytes:
        row = self._connection.execute("SELECT leaf FROM leaves WHERE i = ?", (index,)).fetchone()
        if row is None:
            raise IndexError(index)
        return bytes(row[0])

    def leaves(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        end = self.size if stop is None else stop
        rows = self._connection.execute("SELECT leaf FROM leaves WHERE i >= ? AND i < ? ORDER BY i", (start, end))
        return (bytes(leaf) for (leaf,) in rows)

    def checkpoint(self) -> bytes | None:
        row = self._connection.execute("SELECT checkpoint FROM head").fetchone()
        return None if row is None else bytes(row[0])

    def charges(self) -> Iterator[ChargeRow]:
        return (_charge_row(row) for row in self._connection.execute(f"{_ROW} ORDER BY charge"))

    def charge_of(self, scope: str, key: str) -> ChargeRow | None:
        row = self._connection.execute(f"{_ROW} WHERE scope = ? AND key = ?", (scope, key)).fetchone()
        return None if row is None else _charge_row(row)

    def value(self, charge: str) -> bytes | None:
        row = self._connection.execute("SELECT value FROM kept WHERE charge = ?", (charge,)).fetchone()
        return None if row is None else bytes(row[0])

    def append(self, leaf: bytes) -> int:
        index = self.size
        self._connection.execute("INSERT INTO leaves (i, leaf) VALUES (?, ?)", (index, leaf))
        return index

    def put_checkpoint(self, checkpoint: bytes) -> None:
        self._connection.execute("INSERT OR REPLACE INTO head (one, checkpoint) VALUES (1, ?)", (checkpoint,))

    def add_charge(self, row: ChargeRow) -> None:
        try:
            self._connection.execute(
                "INSERT INTO charges (charge, scope, key, request, status, ended) VALUES (?, ?, ?, ?, ?, ?)",
                (row.charge, row.scope, row.key, row.request, row.status, row.ended),
            )
        except sqlite3.IntegrityError:
            raise StoreBehind(f"charge or key {row.key!r} is in the store already") from None

    def end_charge(self, charge: str, status: Status, index: int) -> None:
        changed = self._connection.execute(
            "UPDATE charges SET status = ?, ended = ? WHERE charge = ? AND status = 'open'", (status, index, charge)
        )
        if changed.rowcount != 1:
            raise StoreBehind("a charge that the ledger holds open is not open in the store")

    def put_value(self, charge: str, value: bytes) -> None:
        self._connection.execute("INSERT OR REPLACE INTO kept (charge, value) VALUES (?, ?)", (charge, value))

    def note_refusal(self, scope: str, key: str, request: str) -> bool:
        noted = self._connection.execute(
            "INSERT OR IGNORE INTO refusals (scope, key, request) VALUES (?, ?, ?)", (scope, key, request)
        )
        return noted.rowcount == 1


def remove(file: Path) -> None:
    """Remove a ledger file that was just made, and what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def _charge_row(row: tuple[str, str, str, str, Status, int | None]) -> ChargeRow:
    charge, scope, key, request, status, ended = row
    return ChargeRow(charge=charge, scope=scope, key=key, request=request, status=status, ended=ended)


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


def _require_ledger(connection: sqlite3.Connection, file: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise ForeignLedger(f"{file} is not a dpledger ledger")
    if layout != LAYOUT:
        raise ForeignLedger(f"{file} has layout {layout}; this program reads layout {LAYOUT}")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise ForeignLedger(f"{file} is damaged: {verdict}")
    _require_write_ahead(connection, file)


def _require_write_ahead(connection: sqlite3.Connection, file: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        raise ForeignLedger(
            f"{file} is not in WAL mode, but {mode}: its file system does not support it, or it was changed"
        )


def _sync_folder(file: Path) -> None:
    """Make the new name durable."""
    folder = os.open(file.absolute().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _as_ours(file: Path) -> Iterator[None]:
    """SQLite's own errors as ours: whose fault it is, and what to do."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise StoreFailure(f"{file} is closed in this process: open the ledger again") from None
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreFailure(f"{file} was held by another writer for {BUSY_SECONDS:.0f} s: try again") from None
        if code in _NOT_THE_FILE:
            raise StoreFailure(f"{file} cannot be read or written: {error}") from None
        raise ForeignLedger(f"{file} cannot be read as a ledger: {error}") from None
