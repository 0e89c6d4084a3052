"""A ledger file under the feet of its handles: open in a fork's parent, removed, replaced, its log gone.

SQLite's locks are a process's, and are not inherited; the memory that says so is. So a fork opens no file that its
parent had open. And a handle acknowledges nothing that went into a file which is no longer at its path.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpledger.errors import ForeignLedger, StoreBehind, StoreFailure
from dpledger.ledger.entries.bodies import Body, Declared
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.stores import sqlite
from dpledger.ledger.stores.sqlite import SQLiteStore
from dpledger.mechanisms.protocol import Release
from forking import DONE, Fork, heard, ignores_fork_warnings, in_child, open_files, quiet_fork, same_id_fork, started
from ledger_mechanisms import Once, laplace, stream
from ledger_workers import fresh_process, ledger_file, releases_elsewhere, releases_from_the_file

pytestmark = ignores_fork_warnings

REFUSED = "ForkedProcess: "


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A closed ledger file with a scope `s` of epsilon 10."""
    return ledger_file(tmp_path / "clinic.ledger")


# ---- the file of a parent -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [Ledger.open, Ledger.look], ids=["open", "look"])
@pytest.mark.parametrize("fork", [os.fork, quiet_fork], ids=["fork", "foreign fork"])
def test_a_file_that_the_parent_has_open_is_not_opened_in_a_child(
    file: Path, way: Callable[[Path], Ledger], fork: Fork
) -> None:
    linked = file.with_name("linked.ledger")
    linked.symlink_to(file)
    with Ledger.open(file):
        assert in_child(lambda: way(file), fork).startswith(f"{REFUSED}{file}")
        assert in_child(lambda: way(linked), fork).startswith(f"{REFUSED}{file}")


def test_nor_is_it_in_a_grandchild(file: Path) -> None:
    def child() -> None:
        assert in_child(lambda: Ledger.open(file)).startswith(REFUSED)

    with Ledger.open(file):
        assert in_child(child) == DONE


def test_closing_in_the_parent_does_not_free_the_file_for_a_child_that_was_there_before(file: Path) -> None:
    reading, writing = os.pipe()

    def wait_and_open() -> None:
        os.read(reading, 1)
        Ledger.open(file)

    with Ledger.open(file):
        child = started(wait_and_open)
    os.write(writing, b".")
    assert heard(*child).startswith(REFUSED)
    os.close(reading)
    os.close(writing)


def test_a_child_opens_what_its_parent_never_had_open_or_had_closed(file: Path, tmp_path: Path) -> None:
    assert in_child(lambda: releases_from_the_file(file, "5")) == DONE  # the fixture made it and closed it
    with Ledger.open(file) as book:
        assert len(book.scope("s").account().admissions) == 2
    with Ledger.create(tmp_path / "other.ledger"):
        assert in_child(lambda: Ledger.open(file).verify()) == DONE


def test_an_opening_that_failed_leaves_nothing_open(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    assert fresh_process(f"import sqlite3; sqlite3.connect({str(other)!r}).execute('create table t (x)')").stderr == ""
    for _ in range(2):
        with pytest.raises(ForeignLedger):
            SQLiteStore.open(other)
    assert in_child(lambda: SQLiteStore.open(other)).startswith("ForeignLedger: ")


# ---- the process id is not enough -----------------------------------------------------------------------------------


def test_a_child_with_the_process_id_of_its_parent_is_refused(file: Path) -> None:
    """The first process of each pid namespace has the id 1: here one of them makes a namespace, and forks into it."""
    reading, writing = os.pipe()

    def first_of_a_namespace() -> None:
        own = os.getpid()
        book = Ledger.open(file)
        session = book.scope("s").open(stream(), None)

        def first_of_another() -> None:
            uses = (lambda: session.ask(True), lambda: book.entropy.words(1), book.refresh, lambda: Ledger.open(file))
            os.write(writing, repr([os.getpid() == own, *map(raised_by, uses)]).encode())

        assert in_child(first_of_another, same_id_fork) == DONE

    assert in_child(lambda: in_child(first_of_a_namespace, same_id_fork)) == DONE
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == repr([True, *["ForkedProcess"] * 4])


def raised_by(use: Callable[[], object]) -> str:
    try:
        use()
    except Exception as error:
        return type(error).__name__
    return DONE


# ---- the file is watched --------------------------------------------------------------------------------------------


def test_a_log_that_was_removed_in_use_is_noticed_before_anything_is_acknowledged(file: Path) -> None:
    with Ledger.open(file) as book:
        scope = book.scope("s")
        scope.release(laplace("1"), 1)
        file.with_name(f"{file.name}-wal").unlink()
        for _ in range(2):
            with pytest.raises(StoreBehind, match="-wal is not the file that this handle opened"):
                scope.release(laplace("0.1"), 1)


def test_a_handle_whose_log_was_removed_takes_nothing_from_others_when_it_closes(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own log would go into the file, over what others wrote since, and theirs would be removed."""
    with Ledger.open(file) as book:
        book.scope("s").release(laplace("1"), 1)
        for suffix in ("-wal", "-shm"):
            file.with_name(file.name + suffix).unlink()
        with pytest.raises(AssertionError, match="had 4 entries when it was last used here"):
            releases_elsewhere(file, "2")
        monkeypatch.setenv("XDG_STATE_HOME", str(file.with_name("another user")))
        assert releases_elsewhere(file, "2") == 5
    with Ledger.open(file) as book:
        assert [admission.status for admission in book.scope("s").account().admissions] == ["committed"] * 5
        book.verify()


def removed(file: Path) -> None:
    file.unlink()


def replaced(file: Path) -> None:
    shutil.copy(file, file.with_name("copy"))
    os.replace(file.with_name("copy"), file)


def moved(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))


@pytest.mark.parametrize("change", [removed, replaced, moved])
def test_nothing_goes_into_a_file_that_is_no_longer_at_its_path(file: Path, change: Callable[[Path], None]) -> None:
    with Ledger.open(file) as book:
        size = len(book)
        scope = book.scope("s")
        change(file)
        for use in (lambda: scope.release(laplace(), 1), book.refresh, lambda: book.head):
            with pytest.raises(StoreBehind, match="was removed, moved or replaced while in use"):
                use()
    assert size == 2


def test_a_file_that_goes_while_a_release_runs_withholds_the_value(file: Path) -> None:
    ran: list[int] = []

    def run(data: Any, parts: Any) -> Release[Any]:
        moved(file)
        ran.append(data)
        return Release(value=data, parts=parts)

    with Ledger.open(file) as book:
        with pytest.raises(StoreBehind):
            book.scope("s").release(Once(run=run), 1)
        file.with_name("elsewhere").rename(file)
        (admission,) = book.scope("s").account().admissions
    assert (ran, admission.status) == ([1], "started")


def test_a_file_that_goes_while_it_is_written_to_is_not_acknowledged(file: Path) -> None:
    with Ledger.open(file) as book:

        def make(*_: object) -> list[Body]:
            moved(file)
            return [Declared(item="limits", text="none", by="me")]

        with pytest.raises(StoreBehind):
            book.transact(make)
        file.with_name("elsewhere").rename(file)
        assert len(book.refresh().scopes) == 1


def test_a_backup_under_which_the_process_forks_fails_and_leaves_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is told of the progress forks at the first page. SQLite ends the copy in the child, and the parent's with it:
    it says so, and the ledger is as it was."""
    monkeypatch.setattr(sqlite, "BACKUP_PAGES", 1)
    reading, writing = os.pipe()
    parent, told, target = os.getpid(), list[int](), file.with_name("copy.ledger")
    made = file.with_name(".copy.ledger.unfinished") / target.name

    def advance(percent: int) -> None:
        told.append(percent)
        if len(told) == 1 and os.fork():
            os.wait()

    with Ledger.open(file) as book:
        try:
            with pytest.raises(StoreFailure, match=r"copy\.ledger cannot be read or written"):
                book.backup(target, advance=advance)
            assert os.getpid() == parent
        except BaseException as error:
            if os.getpid() == parent:
                raise
            said = (type(error).__name__, len(told), made.exists(), len(open_files(made)) > 0)
            os.write(writing, repr(said).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            assert pipe.read() == repr(("ForkedProcess", 1, True, True))
        assert not target.exists()
        assert not made.parent.exists()
        book.scope("s").release(laplace(), 1)
        book.verify()


def test_a_file_that_was_put_back_is_continued(file: Path) -> None:
    with Ledger.open(file) as book:
        moved(file)
        with pytest.raises(StoreBehind):
            book.scope("s").release(laplace(), 1)
        file.with_name("elsewhere").rename(file)
        book.scope("s").release(laplace(), 1)
        assert len(book.verify().entries) == 4
