"""A thread that opens and closes the files of a ledger in use: a copy, a checksum, an artifact logger. SQLite's locks
of the whole process are gone then, and nothing that was acknowledged may be. The twins have SQLite's locks alone, and
go wrong."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import sqlite3
import stat
import subprocess
import time
import weakref
from contextlib import suppress
from pathlib import Path

import pytest

from copied_ledgers import copy, started
from dpledger.errors import DpledgerError, StoreFailure
from dpledger.ledger.entries.bodies import Declared
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.stores import connections, locks
from dpledger.ledger.stores.locks import WriteLock
from dpledger.ledger.stores.protocol import Addition
from dpledger.ledger.stores.sqlite import SQLiteStore
from forking import DONE, ignores_fork_warnings, in_child
from interrupting import Lines
from ledger_workers import fresh_process
from seed_batches import SLICES

pytestmark = pytest.mark.sliced

PATIENCE = 60.0  # seconds
TWO = ("comes_and_goes_and_copies", "comes_and_goes_and_copies")
OTHERS = [
    ("stays_and_copies", "stays"),
    ("comes_and_goes_and_copies", "stays_and_copies", "comes_and_goes", "stays"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A closed store of fifty leaves."""
    path = tmp_path / "clinic.ledger"
    store = SQLiteStore.create(path)
    for number in range(50):
        append(store, b"leaf %d" % number)
    store.close()
    return path


def append(store: SQLiteStore, leaf: bytes) -> None:
    assert store.append(Addition(size=store.tail(None).size, leaves=(leaf,), head=leaf)) == "done"


def leaves(store: SQLiteStore) -> list[bytes]:
    return list(store.tail(0).leaves)


# ---- nothing acknowledged is lost -----------------------------------------------------------------------------------


def what_went_wrong(path: Path, writers: tuple[str, ...], how: str) -> str:
    """Processes that write, and one that verifies what is there afterwards; "" if nothing is wrong."""
    Ledger.create(path).close()
    processes = [started(work, path, how) for work in writers]
    acknowledged = [line for process in processes for line in process.communicate(timeout=PATIENCE)[0].splitlines()]
    ended = [process.returncode for process in processes]
    if any(ended):
        return f"ended with {ended}"
    assert len(acknowledged) > len(writers)
    try:
        with Ledger.open(path) as book:
            kept = {entry.body.text for entry in book.verify().entries if isinstance(entry.body, Declared)}
    except DpledgerError as error:
        return str(error)
    return f"lost {set(acknowledged) - kept}" if set(acknowledged) - kept else ""


@pytest.mark.parametrize("writers", [TWO, *(pytest.param(writers, marks=pytest.mark.slow) for writers in OTHERS)])
def test_writers_lose_nothing_while_a_thread_copies(tmp_path: Path, writers: tuple[str, ...]) -> None:
    assert what_went_wrong(tmp_path / "clinic.ledger", writers, "locked") == ""
    assert "clinic.ledger-lock" not in os.listdir(tmp_path)


def test_with_sqlites_locks_alone_they_do(tmp_path: Path) -> None:
    end, number, wrong = time.monotonic() + PATIENCE, 0, ""
    while not wrong and time.monotonic() < end:
        number += 1
        wrong = what_went_wrong(tmp_path / f"{number}.ledger", TWO, "unlocked")
    assert wrong


@pytest.fixture(params=["locked", "unlocked"])
def locked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "unlocked":
        monkeypatch.setattr(WriteLock, "take", lambda self, seconds=0.0: None)
        monkeypatch.setattr(locks, "_are_known", lambda: False)
    return str(request.param)


def ends_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


@pytest.mark.slow
def test_nobody_writes_in_the_middle_of_a_write(file: Path, locked: str) -> None:
    store = SQLiteStore.open(file)
    with suppress(DpledgerError), store._begun("BEGIN IMMEDIATE") as connection:
        copy(file)
        process = started("appends_once", file, locked)
        assert ends_within(process, 5.0 if locked == "locked" else PATIENCE) == (locked == "unlocked")
        connection.execute("INSERT INTO leaves (i, leaf) VALUES (50, ?)", (b"here",))
    if locked == "locked":
        assert ends_within(process, PATIENCE)
        assert leaves(store)[50:] == [b"here", b"elsewhere"]
    store.close()


def test_a_reader_sees_its_moment(file: Path, locked: str) -> None:
    """Others write and close, and would copy their log into the file that is being read."""
    store = SQLiteStore.open(file)
    append(store, b"here")
    with store._reading():
        assert len(leaves(store)) == 51
        copy(file)
        before = file.read_bytes()
        assert ends_within(started("appends_once", file, locked), PATIENCE)
        assert (file.read_bytes() == before) == (locked == "locked")
    if locked == "locked":
        assert leaves(store)[50:] == [b"here", b"elsewhere"]
    store.close()


def test_a_handle_at_rest_goes_on_after_others_came_and_went(file: Path) -> None:
    store = SQLiteStore.open(file)
    copy(file)
    assert ends_within(started("appends_once", file), PATIENCE)
    append(store, b"here")
    assert leaves(store)[50:] == [b"elsewhere", b"here"]
    store.close()
    assert os.listdir(file.parent) == [file.name]


# ---- the lock -------------------------------------------------------------------------------------------------------


def test_its_file_has_the_rights_of_the_ledger_and_goes_with_the_last_close(file: Path) -> None:
    lock = file.with_name(file.name + "-lock")
    for mode in (0o600, 0o660):
        file.chmod(mode)
        store, other = SQLiteStore.open(file), SQLiteStore.look(file)
        append(store, b"leaf")
        assert stat.S_IMODE(lock.stat().st_mode) == mode
        other.close()
        append(store, b"leaf")
        assert lock.exists()
        store.close()
        assert os.listdir(file.parent) == [file.name]


def test_a_link_in_its_place_is_not_followed(file: Path, tmp_path: Path) -> None:
    store = SQLiteStore.open(file)
    (tmp_path / "elsewhere").write_text("mine")
    file.with_name(file.name + "-lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreFailure, match="-lock cannot be locked"):
        append(store, b"leaf")
    store.close()
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_who_waits_in_vain_is_told_so(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other = SQLiteStore.open(file), WriteLock(file)
    monkeypatch.setattr(locks, "BUSY_SECONDS", 0.1)
    with other.held():
        began = time.monotonic()
        with pytest.raises(StoreFailure, match="held by another writer for 0 s: try again"):
            append(store, b"leaf")
        assert 0.1 <= time.monotonic() - began < PATIENCE / 2
        assert len(leaves(store)) == 50
    append(store, b"leaf")
    store.close()


def test_a_lock_whose_file_was_taken_away_is_none(file: Path) -> None:
    """Whoever waited for it gets it, and sees that others wait for another file now."""
    first, second = WriteLock(file), WriteLock(file)
    first.take()
    waiting = os.open(file.with_name(file.name + "-lock"), os.O_RDONLY)
    first.give(remove=True)
    fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)
    second.take(0.0)
    with pytest.raises(StoreFailure):
        first.take(0.0)
    os.close(waiting)
    second.give(remove=True)


def test_an_interrupt_before_any_line_leaves_neither_lock_nor_transaction(file: Path) -> None:
    store, other = SQLiteStore.open(file), WriteLock(file)

    def read() -> None:
        leaves(store)

    def wait() -> None:
        with other.held():
            append(store, b"never")

    for work in (lambda: append(store, b"leaf"), read, wait):
        target, told = 0, True
        while told and target < 150:
            lines = Lines(target)
            lines.run(work)
            told, target = lines.has_raised, target + 1
            assert not store._connection.in_transaction
            with other.held(0.0):
                assert store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, "a reader left"
        assert target > 20
    assert b"never" not in leaves(store)
    store.close()


@pytest.mark.parametrize("first", range(SLICES))  # of the lines, of which each slice takes its part
def test_an_interrupt_before_any_line_of_opening_and_closing_leaves_no_lock(
    file: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(connections, "_OPEN", weakref.WeakSet())  # else what other tests left open makes more lines
    target, told = first, True
    while told:
        lines = Lines(target)
        lines.run(lambda: SQLiteStore._opened(file, "rw", WriteLock(file)).close())
        told, target = lines.has_raised, target + SLICES
        WriteLock(file).take(0.0)
    assert target > 20
    assert len(leaves(SQLiteStore.open(file))) == 50


@ignores_fork_warnings
def test_a_child_does_not_keep_what_its_parent_had_locked(file: Path) -> None:
    """Forked in the middle of a write, by a process that is killed then."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with SQLiteStore.open(file)._begun("BEGIN IMMEDIATE"):
            child = os.fork()
            if child == 0:
                time.sleep(PATIENCE)
                os._exit(0)
            os.write(writing, b"%d" % child)
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    child, lock = int(os.read(reading, 20)), WriteLock(file)
    try:
        lock.take(PATIENCE / 6)  # it forgets the lock when it first runs, and lives six times as long
        assert lock.is_held
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(reading)
        os.close(writing)


@ignores_fork_warnings
def test_a_lock_of_the_parent_closes_no_file_of_its_child(file: Path, tmp_path: Path) -> None:
    """A file that the child opens gets the number that its parent's lock has, and the child forgets the lock."""
    locks_of_the_parent = [WriteLock(file)]
    locks_of_the_parent[0].take()

    def work() -> None:
        with open(tmp_path / "of the child", "w") as its_own:
            locks_of_the_parent.clear()
            gc.collect()
            its_own.write("kept")

    assert in_child(work) == DONE
    assert (tmp_path / "of the child").read_text() == "kept"
    with pytest.raises(StoreFailure):
        WriteLock(file).take(0.0)
    locks_of_the_parent[0].give(remove=True)


def test_a_lock_that_gets_no_rights_locks_all_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have none; in a container that runs without root the owner may be nobody."""

    def refuses(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    for name in ("fchmod", "fchown"):
        monkeypatch.setattr(os, name, refuses)
    first, second = WriteLock(file), WriteLock(file)
    with first.held(), pytest.raises(StoreFailure):
        second.take(0.0)
    with second.held(0.0):
        pass


def test_a_program_that_never_closes_its_ledger_leaves_the_file_alone(tmp_path: Path) -> None:
    code = "from dpledger.ledger.ledger import Ledger; book = Ledger.{}; book.declare('limits', 'none', by='me')"
    path = tmp_path / "clinic.ledger"
    for opening in (f"create({str(path)!r})", f"open({str(path)!r})"):
        run = fresh_process(code.format(opening))
        assert (run.returncode, run.stderr) == (0, "")
        assert not [name for name in os.listdir(tmp_path) if name.startswith("clinic.ledger-")]
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM leaves").fetchone() == (3,)
    connection.close()


def test_a_ledger_that_ends_in_a_garbage_collection_leaves_the_file_alone(tmp_path: Path) -> None:
    """In a cycle Python ends its parts in any order; since 3.13 the end of a connection is a close, with a warning."""
    for name in ("a.ledger", "b.ledger"):
        book = Ledger.create(tmp_path / name)
        book.declare("limits", "none", by="me")
        store = book._store
        assert isinstance(store, SQLiteStore)
        vars(store._connection)["cycle"] = [store._connection, book]
        del book, store
        gc.collect()
        assert not [other for other in os.listdir(tmp_path) if other.startswith(f"{name}-")]
