"""Connections to ledger files: each knows the process that made it, and the files that it opened.

SQLite's locks are POSIX locks, which are a process's: a forked child has none of them, while the memory that it copied
says that it has. So no connection is used, or closed, in a fork of the process that made it, and that fork never opens
the file anew: SQLite would find its old self there, and believe it. Which files those are shows in the connections that
were inherited; they are kept alive for ever, since their end would be a close.

The files are known by device and inode, looked up by path.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import weakref
from pathlib import Path
from typing import Any

from dpledger.errors import ForkedProcess, StoreBehind
from dpledger.ledger.stores.files import Identity, beside, identity
from dpledger.ledger.stores.locks import BUSY_SECONDS, Presence
from dpledger.process import Home

__all__ = ["Connection"]


class Connection(sqlite3.Connection):
    """A connection to the ledger file at `file`, durable at every commit. Every use is under its store's own lock.

    Raises ForkedProcess where a connection to the file was inherited."""

    def __init__(self, file: Path, mode: str) -> None:
        self.home = Home("a ledger file that is open")
        real = file.resolve()
        self._file, self._log_file = str(real), str(beside(file, "-wal"))
        self._opened = identity(self._file)
        self._log: Identity | None = None
        self.presence = Presence(real)
        _require_not_inherited(self._file, self._opened)
        _OPEN.add(self)  # before it is opened: another thread may fork at any moment
        try:
            super().__init__(
                f"{real.as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        except BaseException:
            _OPEN.discard(self)
            raise

    def execute(self, statement: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """As sqlite3 does; ForkedProcess in a forked child."""
        self.home.require()
        return super().execute(statement, parameters)

    def executemany(self, statement: str, parameters: Any, /) -> sqlite3.Cursor:
        """As sqlite3 does; ForkedProcess in a forked child."""
        self.home.require()
        return super().executemany(statement, parameters)

    def close(self) -> None:
        """Close it, unless this is a forked child: a close there would end what its parent holds."""
        if self.home.is_here:
            super().close()
            self.presence.end()  # until then SQLite leaves the log alone
            _OPEN.discard(self)

    def __del__(self) -> None:
        """Nothing: the store closes it. Python 3.13 would, in a garbage collection that meets it before the store."""

    @property
    def has_same_files(self) -> bool:
        """Whether the file and its log are those that this connection has open."""
        try:
            self.require_same_files()
        except StoreBehind:
            return False
        return True

    def require_same_files(self) -> None:
        """Raises StoreBehind unless the file, and the log beside it, are those that this connection has open.

        What goes into a file that was removed or replaced is acknowledged and lost; and whoever removes a log that is
        in use takes the last entries with it."""
        self._require(self._file, self._opened)
        if self._log is None:
            self._log = identity(self._log_file)  # the first look into the file makes it
        else:
            self._require(self._log_file, self._log)

    def _require(self, file: str, known: Identity | None) -> None:
        if identity(file) != known:
            raise StoreBehind(
                f"{file} is not the file that this handle opened: it was removed, moved or replaced while in use. What "
                "this handle did last may be lost: find out who did it, put the file back, then open the ledger again"
            )


_OPEN: weakref.WeakSet[Connection] = weakref.WeakSet()


def _require_not_inherited(file: str, opened: Identity | None) -> None:
    if any(other._opened == opened and not other.home.is_here for other in _OPEN):
        raise ForkedProcess(
            f"{file} was open when this process was forked, and a fork does not inherit SQLite's locks, so it cannot "
            "use the file. Start workers without fork (spawn, forkserver, a fresh process like those of joblib's "
            "loky), or close the ledger before the fork"
        )


def _keep_inherited() -> None:
    """In a forked child: no connection of its parent is ever closed, not at the end of the child either."""
    for connection in _OPEN:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_inherited)
