"""Processes that write to a ledger whose files a thread copies meanwhile. They say what was acknowledged, one a line.

In a module of its own, so that fresh processes can run it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dpledger.ledger.ledger import Ledger
from dpledger.ledger.stores import locks
from dpledger.ledger.stores.protocol import Addition
from dpledger.ledger.stores.sqlite import SQLiteStore

SECONDS = 2.5  # that a process writes
OF_ONE_HANDLE = 5  # entries, of a process that opens the ledger again and again


def copy(file: Path) -> None:
    """What `shutil.copytree` does with a ledger and what lies beside it: each file is opened, and closed."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            file.with_name(file.name + suffix).read_bytes()


def started(work: str, file: Path, how: str = "locked") -> subprocess.Popen[str]:
    """A fresh process that runs one of the functions of WORKS. `how`: "unlocked" with SQLite's own locks alone."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, work, str(file), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def without_locks() -> None:
    locks.WriteLock.take = lambda self, seconds=0.0: None  # type: ignore[method-assign]
    locks._are_known = lambda: False  # type: ignore[assignment]


def appends_once(file: Path) -> None:
    store = SQLiteStore.open(file)
    assert store.append(Addition(size=store.tail(None).size, leaves=(b"elsewhere",), head=b"elsewhere")) == "done"
    store.close()
    print("elsewhere")


def stays(file: Path) -> None:
    """One handle."""
    with Ledger.open(file) as book:
        for number in _numbers():
            _declare(book, number)


def comes_and_goes(file: Path) -> None:
    """A handle for a few entries, and then the next."""
    for number in _numbers():
        with Ledger.open(file) as book:
            for part in range(OF_ONE_HANDLE):
                _declare(book, OF_ONE_HANDLE * number + part)


def stays_and_copies(file: Path) -> None:
    threading.Thread(target=_copy_for_ever, args=(file,), daemon=True).start()
    stays(file)


def comes_and_goes_and_copies(file: Path) -> None:
    threading.Thread(target=_copy_for_ever, args=(file,), daemon=True).start()
    comes_and_goes(file)


WORKS = (appends_once, stays, comes_and_goes, stays_and_copies, comes_and_goes_and_copies)


def _declare(book: Ledger, number: int) -> None:
    text = f"{os.getpid()} {number}"
    book.declare("own_note", text, by="me")
    print(text, flush=True)
    book.refresh()


def _copy_for_ever(file: Path) -> None:
    while True:
        copy(file)


def _numbers() -> Iterator[int]:
    end, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        yield number
        number += 1


if __name__ == "__main__":
    _, asked, place, how = sys.argv
    if how == "unlocked":
        without_locks()
    {work.__name__: work for work in WORKS}[asked](Path(place))
