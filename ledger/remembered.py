"""The newest head of each ledger that this user's programs have seen, remembered outside of the ledger and its folder.

A file that was put back to an older state is genuine and verifies: what was charged since would be spent again. So
each handle of a ledger file remembers how many entries it saw and the hash of the last, and a handle that writes
refuses a file that holds fewer, or another entry there. What is remembered stands in one small file a ledger, in
`$XDG_STATE_HOME/dpledger/heads` (without it `~/.local/state`), for its owner alone.

What is remembered is written once the entries are durable, never before, and it may be a transaction older than the
file: a process that dies in between loses nothing, and the next one writes it. It is read before the store is, since
other processes append meanwhile. Nobody sees a rollback on another machine, or of another user, or whose folder was
emptied; a witness does (`ledger.witnessing`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dpledger.errors import RollbackSeen, StoreBehind, StoreFailure, UnrememberedHead
from dpledger.ledger.signed.merkle import leaf_hash
from dpledger.ledger.stores.protocol import GO_ON, Store
from dpledger.ledger.tip import Head
from dpledger.posix import fcntl

__all__ = ["Heads", "SeenHead", "is_behind", "require_seen", "rolled_back"]

SIZE = 256  # bytes of a file, all written at once: less than a sector
CHECK = 16  # hex digits by which a torn write is told
TRIES = 50
PAUSE = 0.02  # seconds between two tries: a second in all
NEVER = b"\0"  # of what a file system that lost power leaves of a file that was just made


@dataclass(frozen=True, slots=True)
class SeenHead:
    """How many entries a ledger had, and the leaf hash of the last of them, in hex."""

    size: int
    leaf: str

    @classmethod
    def of(cls, head: Head) -> SeenHead:
        """Of what a handle knows."""
        return cls(head.tree.size, head.previous)


class Heads:
    """What is remembered of one ledger. `origin`: the ledger's id. `warns`: whether UnrememberedHead says, once, that
    nothing can be; who only reads spends nothing."""

    def __init__(self, origin: str, *, warns: bool = True) -> None:
        self._origin = origin
        self._kept: SeenHead | None = None  # by this handle, last
        self._read_last: tuple[bytes, SeenHead] | None = None  # the file, as this handle read or wrote it last
        self._warns = warns

    @cached_property
    def file(self) -> Path:
        """Where it is remembered. RuntimeError for a user without a home, or whose home is no whole path."""
        given = os.environ.get("XDG_STATE_HOME", "")
        state = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
        if not state.is_absolute():
            raise RuntimeError("HOME is a relative path")
        return state / "dpledger" / "heads" / self._origin.replace("/", "+")  # an id has no +

    def newest(self) -> SeenHead | None:
        """The newest head that was seen; None where none was, or nothing can be remembered.
        StoreFailure for a file that is something else."""
        try:
            for _ in range(TRIES):
                text = self._read()
                if not text.strip(NEVER):
                    return None
                if (seen := self._parsed(text)) is not None:
                    return seen
                time.sleep(PAUSE)  # somebody is writing
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError) as error:
            self._warn(error)
            return None
        raise StoreFailure(
            f"{self.file} does not hold what was remembered of this ledger: verify the ledger against a checkpoint "
            "that you kept (`dpledger verify --since`), then remove that file"
        )

    def keep(self, seen: SeenHead, *, also_older: bool = False) -> None:
        """Remember `seen`, unless a newer one is remembered, or nothing can be."""
        if seen == self._kept:
            return
        try:
            try:
                descriptor = self._opened(os.O_RDWR | os.O_CREAT)
            except FileNotFoundError:
                for folder in reversed(self.file.parents):
                    folder.mkdir(mode=0o700, exist_ok=True)  # each: `parents=True` leaves the mode to the umask
                descriptor = self._opened(os.O_RDWR | os.O_CREAT)
            try:
                _lock(descriptor)
                before = self._parsed(os.pread(descriptor, SIZE, 0))
                if also_older or before is None or before.size < seen.size:
                    text = self._text(seen)
                    os.pwrite(descriptor, text, 0)
                    self._read_last = text, seen
            finally:
                os.close(descriptor)
            self._kept = seen
        except (OSError, RuntimeError) as error:
            self._warn(error)

    def _read(self) -> bytes:
        descriptor = self._opened(os.O_RDONLY)
        try:
            return os.pread(descriptor, SIZE + 1, 0)
        finally:
            os.close(descriptor)

    def _opened(self, how: int) -> int:
        return os.open(self.file, how | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def _text(self, seen: SeenHead) -> bytes:
        told = f"{self._origin}\n{seen.size}\n{seen.leaf}\n"
        return f"{told}{_check(told)}\n".encode().ljust(SIZE, b"\n")

    def _parsed(self, text: bytes) -> SeenHead | None:
        """None for what `_text` did not write of this ledger."""
        if self._read_last is not None and self._read_last[0] == text:
            return self._read_last[1]
        with suppress(ValueError):
            _, size, leaf, *_ = text.decode("ascii").split("\n")
            seen = SeenHead(int(size), leaf)
            if self._text(seen) == text:
                self._read_last = text, seen
                return seen
        return None

    def _warn(self, error: OSError | RuntimeError) -> None:
        if self._warns:
            self._warns = False
            reason = getattr(error, "strerror", None) or str(error)
            warnings.warn(
                f"the newest entry of this ledger cannot be remembered ({reason}), so nobody notices if its file is "
                "put back to an older state: set XDG_STATE_HOME to a folder that you can write to",
                UnrememberedHead,
                stacklevel=2,
            )


def rolled_back(known: SeenHead | None, size: int, store: Store) -> str | None:
    """How a store of `size` entries lacks what was remembered before it was read: it holds fewer, or another entry
    there; None where it holds what was seen."""
    if known is None:
        return None
    if known.size > size:
        return f"this ledger had {known.size} entries when it was last used here, and now holds {size}"
    leaf = store.leaves(known.size - 1, known.size)
    if len(leaf) != 1 or leaf_hash(leaf[0]).hex() != known.leaf:
        return f"entry {known.size - 1} is not the one that was seen here: this is a copy that went on by itself"
    return None


def require_seen(known: SeenHead | None, head: Head, store: Store) -> None:
    """StoreBehind where the store, which `head` is of, was `rolled_back`."""
    if known == SeenHead.of(head):
        return
    if (problem := rolled_back(known, head.tree.size, store)) is not None:
        raise StoreBehind(f"{problem}. {GO_ON}")


def is_behind(known: SeenHead | None, size: int, store: Store) -> bool:
    """Whether the store was `rolled_back`; then RollbackSeen, a warning, says so: who only reads may look at a copy."""
    if (problem := rolled_back(known, size, store)) is None:
        return False
    warnings.warn(f"{problem}; its budgets are as they were then", RollbackSeen, stacklevel=2)
    return True


def _lock(descriptor: int) -> None:
    """Exclude other writers; an OSError where one does not end."""
    assert fcntl is not None, "ledgers in files need it"
    for tries in range(TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if tries + 1 < TRIES:
                time.sleep(PAUSE)
        else:
            return
    raise OSError(errno.EBUSY, "another program holds the file")


def _check(told: str) -> str:
    return hashlib.sha256(told.encode()).hexdigest()[:CHECK]
