"""Locks on a ledger file that no thread of the process can drop by mistake.

SQLite's locks are POSIX locks. They belong to the process: when any thread closes any descriptor of the file (a copy, a
checksum, an artifact logger), all of them are gone, and SQLite does not know. Another process then writes into the
same place of the log, cuts the index of the log under a reader, or removes the log. So what matters is locked a second
time, by descriptors of our own, which only their own close lets go:

* `WriteLock`: flock on a file of its own beside the ledger (`-lock`). Who writes, opens or closes the ledger has it
  alone. Who opens or closes removes the file before letting go: only who has the lock does, and who gets a lock looks
  whether its file is still there.
* `Presence`: SQLite's shared locks once more, on the same bytes, as locks of open file descriptions. They keep every
  process from removing the log or cutting its index while a connection is open, and from copying the log into the file
  while one reads. Systems without such locks (macOS) have SQLite's own alone: there a log that was removed is noticed
  (`Connection.require_same_files`), and a reader whose process dropped its locks may fail.

Both close themselves when they are collected, which in a cycle may be before the store that uses them: so they say
then that they have no descriptor any more.
"""

from __future__ import annotations

import functools
import os
import struct
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpledger.errors import StoreFailure
from dpledger.ledger.stores.files import beside
from dpledger.posix import fcntl

__all__ = ["BUSY_SECONDS", "Presence", "WriteLock", "held_by_another"]

BUSY_SECONDS = 30.0  # how long a writer waits for another one
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02  # seconds between two tries

# SQLite's own places, the same in every version: os_unix.c and https://www.sqlite.org/walformat.html
SHARED = (0x40000002, 510)  # of the file: start and length in bytes; the last connection to close locks them alone
CONNECTED = (128, 1)  # of the index `-shm`: who opens it and finds nobody here cuts it to nothing
READING = (123, 1)  # of the index: who copies the log into the file locks it alone

_FLOCK = "hhqqi"  # struct flock: type, whence, start, length, process (0 for locks of open file descriptions)


def held_by_another(file: Path | str) -> StoreFailure:
    """What a writer is told that waited in vain."""
    return StoreFailure(f"{file} was held by another writer for {BUSY_SECONDS:.0f} s: try again")


def _tried_until(deadline: float, attempt: Callable[[], bool]) -> bool:
    """Whether `attempt` succeeded in time; it is made once at least."""
    pause = SHORTEST_PAUSE
    while not attempt():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
    return True


class WriteLock:
    """The lock of the writers of the ledger at `file`, for one handle, which uses it in one thread at a time."""

    _descriptor: int | None = None  # while it is held, or being tried

    def __init__(self, file: Path) -> None:
        self._file = file
        self._path = beside(file, "-lock")
        _LOCKS.add(self)

    @property
    def is_held(self) -> bool:
        return self._descriptor is not None

    @contextmanager
    def held(self, seconds: float | None = None) -> Iterator[None]:
        """Opening and closing: no other handle writes, opens or closes. StoreFailure if that takes longer."""
        try:
            try:
                self.take(seconds)
                yield
            finally:
                self.give(remove=True)
        finally:
            self.give()  # an interrupt may have fallen into the first

    def take(self, seconds: float | None = None) -> None:
        """Wait for it, at most so long (None: as long as writers do). StoreFailure if that is not enough."""
        if not _tried_until(time.monotonic() + (BUSY_SECONDS if seconds is None else seconds), self._is_taken):
            raise held_by_another(self._file)

    def give(self, *, remove: bool = False) -> None:
        """Let others have it, if it is held; `remove`: and take its file away."""
        if self._descriptor is not None:
            if remove and self._is_at_its_path(self._descriptor):
                with suppress(OSError):  # in a folder where each may remove only what is his
                    self._path.unlink()
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # first: a fork may have a copy of the descriptor
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def __del__(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if os is not None and descriptor is not None:  # as a process ends, names may go before objects
            os.close(descriptor)

    def _is_taken(self) -> bool:
        if self._descriptor is not None:  # it could not be given back
            return True
        try:
            descriptor = self._descriptor = self._opened()
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, FileExistsError):
            self.give()
            return False
        except OSError as error:
            self.give()
            folder = f"; whoever writes to a ledger makes files beside it, in {self._path.parent}"
            advice = folder if isinstance(error, PermissionError) else ""
            raise StoreFailure(f"{self._path} cannot be locked: {error.strerror}{advice}") from None
        if self._is_at_its_path(descriptor):
            return True
        self.give()
        return False

    def _opened(self) -> int:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with suppress(FileNotFoundError):
            return os.open(self._path, flags)
        found = os.stat(self._file)
        descriptor = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        with suppress(OSError):  # where files have no rights, or the owner is nobody here: it locks all the same
            os.fchmod(descriptor, found.st_mode & 0o666)  # who may use the ledger may lock it: as SQLite's log
            if os.geteuid() == 0:
                os.fchown(descriptor, found.st_uid, found.st_gid)
        return descriptor

    def _is_at_its_path(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self._path))
        except FileNotFoundError:
            return False


_LOCKS: weakref.WeakSet[WriteLock] = weakref.WeakSet()


class Presence:
    """A connection to `file` that is there, and may be reading: for who copies, cuts or removes what it reads."""

    _descriptor: int | None = None
    _index: int | None = None  # descriptors, while it is there

    def __init__(self, file: Path) -> None:
        self._file, self._index_file = file, beside(file, "-shm")

    def begin(self) -> None:
        """Be there, until `end`. Only once SQLite has opened the log. StoreFailure if it cannot."""
        if not _are_known():
            return
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
            if self._index is None:
                self._index = os.open(self._index_file, os.O_RDONLY | os.O_CLOEXEC)
            _lock(self._descriptor, SHARED, fcntl.F_RDLCK)
            _lock(self._index, CONNECTED, fcntl.F_RDLCK)
        except OSError as error:
            raise StoreFailure(f"{self._file} cannot be locked: {error.strerror}") from None

    def end(self) -> None:
        """Be gone. This drops what SQLite has locked of the file in this process; its other handles have their own
        presence."""
        for descriptor in (self._descriptor, self._index):
            if descriptor is not None:
                _lock(descriptor, (0, 0), fcntl.F_UNLCK)  # first: a fork may have a copy of the descriptor
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
        index, self._index = self._index, None
        if index is not None:
            os.close(index)

    def __del__(self) -> None:
        descriptors = (self._descriptor, self._index)
        self._descriptor = self._index = None
        for descriptor in descriptors:
            if os is not None and descriptor is not None:
                os.close(descriptor)

    def begin_reading(self) -> None:
        """Be reading, until `end_reading`. Waits while another connection copies the log into the file."""
        if self._index is None:
            self.begin()
        if not _tried_until(time.monotonic() + BUSY_SECONDS, self._is_reading):
            raise held_by_another(self._file)

    def _is_reading(self) -> bool:
        with suppress(BlockingIOError):
            if self._index is not None:
                _lock(self._index, READING, fcntl.F_RDLCK)
            return True
        return False

    def end_reading(self) -> None:
        if self._index is not None:
            _lock(self._index, READING, fcntl.F_UNLCK)


def _lock(descriptor: int, place: tuple[int, int], kind: int) -> None:
    """Lock a place of a file, or unlock it, for the open file description."""
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, *place, 0))


@functools.cache
def _are_known() -> bool:
    """Whether the system has locks of open file descriptions."""
    try:
        with open(os.devnull) as device:
            _lock(device.fileno(), (0, 1), fcntl.F_UNLCK)
    except (AttributeError, OSError):
        return False
    return True


def _close_inherited() -> None:
    """In a forked child: what its parent had locked as it forked is the parent's alone, also if it dies. The number may
    be that of another file in the child."""
    for lock in _LOCKS:
        descriptor, lock._descriptor = lock._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
