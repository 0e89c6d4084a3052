"""The embedded store: one SQLite file in WAL mode, made durable at every commit (synchronous=FULL).

`create` never opens and `open` never creates. `look` writes nothing, and does with the right to read. What is not a
dpledger ledger is refused before anything is written to it. Whatever closes a descriptor of the file in this process
drops SQLite's locks, so handles have locks of their own (`stores.locks`): one for who writes, opens or closes, and
others that say who is there and who reads. Each call looks, before it begins and before it is acknowledged,
whether the files are still those that were opened. A forked child uses, closes and opens nothing of what its parent had
open (`stores.connections`).

While a writer has it open, the last entries lie in the log beside the file (`-wal`), and a copy of the file alone is an
older, genuine ledger that verifies. So a ledger in use is copied by `backup`; the last close empties the log.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Literal

from dpledger.errors import ForeignLedger, StoreBehind, StoreFailure
from dpledger.files import path_of
from dpledger.ledger.stores import layout, staging
from dpledger.ledger.stores.connections import Connection
from dpledger.ledger.stores.files import Rest, existing, made, may_write, remove, require_local, sync_folder
from dpledger.ledger.stores.locks import WriteLock, held_by_another
from dpledger.ledger.stores.protocol import (
    NOTHING,
    Addition,
    AppendOutcome,
    ChargeRow,
    Question,
    Refusal,
    Status,
    TableRows,
    Tail,
)
from dpledger.posix import require_posix
from dpledger.progress import Advance

__all__ = ["SQLiteStore"]

NOTHING_YET = (
    "a path where nothing exists yet (Ledger.open opens an existing ledger, Ledger.open_or_create opens it or makes "
    "one, `dpledger scopes` shows it)"
)
BACKUP_PAGES = 1024  # copied between two reports of progress
CLOSING_SECONDS = 1.0  # how long a close waits for a writer; without the lock it leaves the log as it is
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

_ROW = "SELECT charge, scope, key, request, status, ended FROM charges"
_REFUSAL = "SELECT scope, request FROM refusals"
_PART = layout.LARGEST_ROW // 2  # bytes of a saved fold in one row


class SQLiteStore:
    """A ledger file. Use `create`, `open` or `look`."""

    _closed = True  # until it is made

    def __init__(
        self, connection: Connection, path: Path, writers: WriteLock | None, at_rest: Rest | None = None
    ) -> None:
        self._connection = connection
        self._writers = writers  # None: without the right to write
        self._at_rest = at_rest
        self._lock = threading.RLock()
        self._inside: Literal["BEGIN", "BEGIN IMMEDIATE"] | None = None
        self.path = path
        self.name = str(path)
        self._closed = False

    @property
    def place(self) -> str:
        """The whole path of the file."""
        return str(self.path.resolve())

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> SQLiteStore:
        """A new, empty ledger file, readable by its owner alone. ParameterError if something is there already, or
        the folder is not. Removes what it made if it cannot finish."""
        require_posix(path_of(path, "ledger"), "ledger")
        require_local(path_of(path, "ledger"))
        file = made(path, "ledger", NOTHING_YET)
        writers = WriteLock(file)
        try:
            with writers.held(), _as_ours(file):
                connection = _connect(file, "rw")
                try:
                    connection.executescript(layout.CREATE)
                    _enter(connection, file)
                except BaseException:
                    connection.close()
                    raise
            sync_folder(file)
        except BaseException:
            remove(file)
            raise
        return cls(connection, file, writers)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> SQLiteStore:
        """An existing ledger file. ParameterError if there is none; ForeignLedger if it is something else, or
        damaged."""
        file = _settled(path)
        return cls._opened(file, "rw", WriteLock(file))

    @classmethod
    def look(cls, path: str | os.PathLike[str]) -> SQLiteStore:
        """An existing ledger file, for reading only; the right to read it is enough. Raises as `open` does.

        Who may write there shares SQLite's files with the writers, and leaves none behind. Who may not reads beside a
        writer that is there now, or else a file at rest: then a read raises StoreFailure once somebody writes again."""
        file = _settled(path)
        if may_write(file):
            return cls._opened(file, "rw", WriteLock(file), setting="PRAGMA query_only = ON")
        at_rest = Rest.of(file)
        if at_rest.is_written:
            return cls._opened(file, "ro", None)
        return cls._opened(file, "ro&immutable=1", None, at_rest)

    @classmethod
    def _opened(
        cls, file: Path, mode: str, writers: WriteLock | None, at_rest: Rest | None = None, *, setting: str = ""
    ) -> SQLiteStore:
        """What is a ledger for certain."""
        if writers is not None:
            require_local(file)
        with nullcontext() if writers is None else writers.held(), _as_ours(file):
            connection = _connect(file, mode)
            try:
                layout.require_ours(connection, file)
                connection.execute(setting)
                if at_rest is None:  # else the log is not looked for, and the mode not known
                    _enter(connection, file)
            except BaseException:
                connection.presence.end()
                connection.close()
                raise
        store = cls(connection, file, writers, at_rest)
        try:
            with store._reading() as connection:
                layout.require_schema(connection, file)
        except BaseException:
            store.close()
            raise
        return store

    def backup(self, path: str | os.PathLike[str], *, advance: Advance | None = None) -> Path:
        """Copy the store as it is now into a new file, for its owner alone; whole when this returns. `advance` is
        called with the percent that were copied. ParameterError if something is at `path`, or it cannot be written."""
        target, expected = path_of(path, "backup"), "a path where nothing exists yet"
        done = 0

        def report(_: int, remaining: int, total: int) -> None:
            nonlocal done
            share = 100 * (total - remaining) // max(total, 1)
            if advance is not None:
                advance(share - done)
            self._connection.home.require()  # who is told may have forked
            done = share

        with staging.staged(target, "backup", expected) as folder:
            file = made(folder / target.name, "backup", expected)
            with self._reading() as connection, _as_ours(target):
                _size(connection)  # the first read fixes the moment that is copied
                copy = _connect(file, "rw")
                try:
                    self._connection.backup(copy, pages=BACKUP_PAGES, progress=report)
                finally:
                    copy.close()
        return target

    def tail(self, start: int | None, asked: Question = NOTHING) -> Tail:
        with self._reading() as connection:
            if asked.checked:
                layout.require_whole(connection, self.path)
            size = _size(connection)
            return Tail(
                size=size,
                leaves=() if start is None else _leaves(connection, start, size),
                head=_head(connection),
                charges=_charges(connection, asked),
                refusals=_refusals(connection, asked),
                value=None if asked.charge is None else _value(connection, asked.charge),
                saved=_saved(connection) if asked.saved else None,
            )

    def leaves(self, start: int, stop: int) -> tuple[bytes, ...]:
        with self._reading() as connection:
            return _leaves(connection, start, stop)

    def append(self, addition: Addition) -> AppendOutcome:
        with self._begun("BEGIN IMMEDIATE") as connection:
            if _size(connection) != addition.size or addition.after not in (None, _head(connection)):
                return "failed"
            connection.executemany(
                "INSERT INTO leaves (i, leaf) VALUES (?, ?)", enumerate(addition.leaves, addition.size)
            )
            connection.execute("INSERT OR REPLACE INTO head (one, checkpoint) VALUES (1, ?)", (addition.head,))
            _put(connection, addition.rows)
            if addition.saved is not None:
                _save(connection, addition.saved)
        self._require_same_files()  # before anything is acknowledged
        return "done"

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """The file at one moment."""
        with self._begun("BEGIN") as connection:
            try:
                yield connection
            finally:
                self._require_at_rest()

    def _require_at_rest(self) -> None:
        if self._at_rest is not None and Rest.of(self.path) != self._at_rest:
            raise StoreFailure(f"{self.path} was written to while it was read: open it again")

    def _require_same_files(self) -> None:
        if self._at_rest is None:  # of a file at rest more than its name is watched, and its log is not opened
            self._connection.require_same_files()

    @contextmanager
    def _begun(self, begin: Literal["BEGIN", "BEGIN IMMEDIATE"]) -> Iterator[Connection]:
        connection = self._connection
        connection.home.require()  # before the lock: a fork holds it for ever if another thread did
        with self._lock, _as_ours(self.path):
            if self._inside is not None:  # of the same thread: the lock is held
                if "BEGIN IMMEDIATE" in (begin, self._inside) or not connection.in_transaction:
                    raise StoreFailure(
                        f"this thread already has a transaction open on {self.path}: nothing was read or written. Do "
                        "not use a ledger in a signal handler; after an interruption, try again, or open the ledger "
                        "again"
                    )
                yield connection
                return
            self._end()  # what an interruption left that fell into another end
            try:
                try:
                    self._inside = begin
                    self._begin(begin)
                    yield connection
                    connection.execute("COMMIT")
                    if connection.in_transaction:
                        raise StoreFailure(f"{self.path} did not end its transaction: open the ledger again")
                finally:
                    self._end()
            finally:
                self._end()  # an interrupt may have fallen into the first

    def _begin(self, begin: Literal["BEGIN", "BEGIN IMMEDIATE"]) -> None:
        self._require_same_files()  # also before another file is locked
        if begin == "BEGIN IMMEDIATE":
            if self._writers is None:
                raise StoreFailure(f"{self.path} was opened for reading only and cannot be written to")
            self._writers.take()
        self._connection.execute(begin)
        if begin == "BEGIN" and self._at_rest is None:
            self._connection.presence.begin_reading()  # before the first look, which fixes the moment
        self._require_same_files()

    def _end(self) -> None:
        """End a transaction that nobody will commit, if there is one; only then may others write. A signal handler that
        falls in here is still refused."""
        connection = self._connection
        if not connection.home.is_here:
            return
        if connection.in_transaction:
            with suppress(sqlite3.Error):  # SQLite rolled back itself; the first error is the one to see
                connection.execute("ROLLBACK")
        connection.presence.end_reading()
        if self._writers is not None and not connection.in_transaction:
            self._writers.give()
        self._inside = None

    def close(self) -> None:
        self._close(CLOSING_SECONDS)

    def __del__(self, _is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        try:
            self._close(0.0)
        except BaseException:  # as a process ends, what this needs may go before it does, of any module
            if not _is_ending():
                raise

    def _close(self, seconds: float) -> None:
        """Close the file. Where no writer is at work, its log is emptied; where nobody else is there, SQLite removes
        it. A log that is not the file's any more goes nowhere: SQLite leaves it alone while we are present."""
        if self._closed or not self._connection.home.is_here:
            return
        with self._lock:
            if self._closed:
                return
            with ExitStack() as held:
                if self._writers is not None:
                    with suppress(sqlite3.ProgrammingError):  # closed, and interrupted right after that
                        self._end()
                    with suppress(StoreFailure):
                        self._connection.presence.begin()  # a garbage collection may have ended it before us
                    with suppress(StoreFailure):
                        held.enter_context(self._writers.held(seconds))
                if self._writers is not None and self._writers.is_held and self._connection.has_same_files:
                    self._connection.presence.end()
                    with suppress(sqlite3.Error):  # another handle reads: the last one to close empties the log
                        self._connection.execute("PRAGMA busy_timeout = 0")
                        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._connection.close()
                self._closed = True  # now: an interrupted close is done again


def _size(connection: sqlite3.Connection) -> int:
    (last,) = connection.execute("SELECT max(i) FROM leaves").fetchone()
    size = 0 if last is None else int(last) + 1
    if not 0 <= size < layout.SIZE_LIMIT:
        raise ForeignLedger("the file is damaged: its entries have numbers that no entry has")
    return size


def _leaves(connection: sqlite3.Connection, start: int, stop: int) -> tuple[bytes, ...]:
    rows = connection.execute("SELECT leaf FROM leaves WHERE i >= ? AND i < ? ORDER BY i", (start, stop))
    return tuple(_blob(leaf) for (leaf,) in rows)


def _head(connection: sqlite3.Connection) -> bytes | None:
    row = connection.execute("SELECT checkpoint FROM head").fetchone()
    return None if row is None else _blob(row[0])


def _charges(connection: sqlite3.Connection, asked: Question) -> tuple[ChargeRow, ...]:
    found: list[tuple[str, str, str, str, Status, int | None]] = []
    if asked.everything:
        found += connection.execute(f"{_ROW} ORDER BY charge")
    if asked.key is not None:
        found += connection.execute(f"{_ROW} WHERE scope = ? AND key = ?", asked.key)
    if asked.charge is not None:
        found += connection.execute(f"{_ROW} WHERE charge = ?", (asked.charge,))
    return tuple(_charge_row(row) for row in dict.fromkeys(found))


def _refusals(connection: sqlite3.Connection, asked: Question) -> tuple[Refusal, ...]:
    if asked.everything:
        return tuple(connection.execute(f"{_REFUSAL} ORDER BY scope, request"))
    if asked.refusal is None:
        return ()
    return tuple(connection.execute(f"{_REFUSAL} WHERE scope = ? AND request = ?", asked.refusal))


def _value(connection: sqlite3.Connection, charge: str) -> bytes | None:
    row = connection.execute("SELECT value FROM kept WHERE charge = ?", (charge,)).fetchone()
    return None if row is None else _blob(row[0])


def _saved(connection: sqlite3.Connection) -> bytes | None:
    parts = [_blob(part) for (part,) in connection.execute("SELECT bytes FROM saved ORDER BY part")]
    return b"".join(parts) if parts else None


def _save(connection: sqlite3.Connection, saved: bytes) -> None:
    connection.execute("DELETE FROM saved")
    parts = (saved[start : start + _PART] for start in range(0, max(1, len(saved)), _PART))
    connection.executemany("INSERT INTO saved (part, bytes) VALUES (?, ?)", enumerate(parts))


def _put(connection: sqlite3.Connection, rows: TableRows) -> None:
    for row in rows.charges:
        try:
            connection.execute(
                "INSERT INTO charges (charge, scope, key, request, status, ended) VALUES (?, ?, ?, ?, ?, ?)",
                (row.charge, row.scope, row.key, row.request, row.status, row.ended),
            )
        except sqlite3.IntegrityError:
            raise StoreBehind(f"charge or key {row.key!r} is in the store already") from None
    for ending in rows.endings:
        changed = connection.execute(
            "UPDATE charges SET status = ?, ended = ? WHERE charge = ? AND status = 'open'",
            (ending.status, ending.ended, ending.charge),
        )
        if changed.rowcount != 1:
            raise StoreBehind("a charge that the ledger holds open is not open in the store")
    for refusal in rows.refusals:
        connection.execute("INSERT OR IGNORE INTO refusals (scope, request) VALUES (?, ?)", refusal)
    for kept in rows.values:
        connection.execute("INSERT OR REPLACE INTO kept (charge, value) VALUES (?, ?)", kept)


def _blob(value: object) -> bytes:
    """What a column of bytes holds. A damaged file may hold a number there, and `bytes(10**9)` would be a gigabyte."""
    if not isinstance(value, bytes):
        raise ForeignLedger("the file is damaged: it holds a value of another type where bytes belong")
    return value


def _charge_row(row: tuple[str, str, str, str, Status, int | None]) -> ChargeRow:
    charge, scope, key, request, status, ended = row
    return ChargeRow(charge=charge, scope=scope, key=key, request=request, status=status, ended=ended)


def _settled(path: str | os.PathLike[str]) -> Path:
    """The file at `path`; what a process left that died as it had just made it, is finished first."""
    file = path_of(path, "ledger")
    require_posix(file, "ledger")
    staging.settle(file)
    return existing(file)


def _connect(file: Path, mode: str) -> Connection:
    connection = Connection(file, mode)
    try:
        layout.confine(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _enter(connection: Connection, file: Path) -> None:
    """After the first look, while no other handle opens, closes or writes: be there for all that come."""
    _require_write_ahead(connection, file)
    connection.require_same_files()
    connection.presence.begin()


def _require_write_ahead(connection: sqlite3.Connection, file: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        raise ForeignLedger(
            f"{file} is not in WAL mode, but {mode}: its file system does not support it, or it was changed"
        )


@contextmanager
def _as_ours(file: Path) -> Iterator[None]:
    """SQLite's own errors as ours: whose fault it is, and what to do."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise StoreFailure(f"{file} is closed in this process: open the ledger again") from None
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise held_by_another(file) from None
        if code in _NOT_THE_FILE:
            raise StoreFailure(f"{file} cannot be read or written: {error}") from None
        raise ForeignLedger(f"{file} cannot be read as a ledger: {error}") from None
