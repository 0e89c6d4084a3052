"""A machine that has no file descriptor left, no memory, or no rights for the user: each call does what it says or
raises an error of ours, nothing that was handed out is lost, and the handle goes on."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import ledger_golden
from dpledger.errors import DpledgerError, ParameterError, StoreFailure, UnrememberedHead
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.ledger.stores.sqlite import SQLiteStore
from dpledger.ledger.verifying import bundle, sources, verification
from fault_conformance import opened_scope
from forking import ignores_fork_warnings
from interrupting import Lines
from ledger_mechanisms import laplace
from witnesses import running, scope_of, witnessed

# ---- descriptors -----------------------------------------------------------------------------------------------------

ENOUGH = 20  # descriptors more than any call holds at once


def in_use() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def descriptors(spare: int) -> Iterator[None]:
    """While it lasts, this process may open so many files more, and none before it closes one."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + ENOUGH + 1, limits[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(spare):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)


def refused_with_few(call: Callable[[int], object]) -> int:
    """How many descriptors `call` needs: with fewer it raises an error of ours, and with more it does not."""
    call(-1)  # what it needs of modules and files of the system is there from here on
    before, refused = in_use(), []
    for spare in range(ENOUGH - 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnrememberedHead)
            try:
                with descriptors(spare):
                    call(spare)
            except DpledgerError:
                refused.append(spare)
        assert in_use() == before
    assert refused == list(range(len(refused)))
    return len(refused)


def test_a_handle_without_a_descriptor_goes_on_once_there_is_one(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "a.ledger") as book:
        scope, handed_out = opened_scope(book, "s", "100"), []
        assert refused_with_few(lambda number: handed_out.append(scope.release(laplace("1"), 0))) == 1
        assert refused_with_few(lambda number: book.backup(tmp_path / f"copy{number}.ledger")) > 1
        assert refused_with_few(lambda number: book.verify()) == 0
        assert len(handed_out) == len(scope.releases()) == ENOUGH - 1
        assert book.verify().state.open == {}


def test_opening_and_making_a_ledger_leave_nothing_where_a_descriptor_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with Ledger.create(path) as book:
        opened_scope(book, "s", "100")
    assert refused_with_few(lambda number: Ledger.open(path).close()) > 1
    assert refused_with_few(lambda number: Ledger.look(path).close()) > 1
    missing = refused_with_few(lambda number: Ledger.create(tmp_path / f"b{number}.ledger").close())
    assert missing > 1
    made = sorted(file.name for file in tmp_path.glob("b*"))
    whole = [f"b{number}.ledger{end}" for number in range(missing, ENOUGH - 1) for end in ("", ".key", ".pub")]
    assert {*made} >= {*whole}
    assert not list(tmp_path.glob("b0.*"))
    for number in range(missing):  # what is left is an empty folder, at most, and no hindrance
        Ledger.create(tmp_path / f"b{number}.ledger").close()
    assert not list(tmp_path.glob(".*"))


def test_a_verifier_without_descriptors_for_processes_does_the_work_itself() -> None:
    leaves, head = bundle.read(ledger_golden.DATA)
    record, key = tuple(leaves), ledger_golden.KEY.public
    assert refused_with_few(lambda _: verification.verify(record, head, key, jobs=3)) == 0


def test_a_witness_that_cannot_be_asked_for_want_of_a_descriptor_is_asked_the_next_time(tmp_path: Path) -> None:
    with running(tmp_path) as witness, Ledger.open(witnessed(tmp_path / "a.ledger", witness)) as book:
        scope = scope_of(book)
        with (
            pytest.warns(UnrememberedHead),
            descriptors(0),
            pytest.raises(DpledgerError, match="Too many open files"),
        ):
            scope.release(laplace("1"), 0)
        scope.release(laplace("1"), 0)
        assert book.verify().state.open == {}


# ---- memory ----------------------------------------------------------------------------------------------------------


def no_memory() -> None:
    raise MemoryError


def released(scope: Scope) -> Callable[[], object]:
    return lambda: scope.release(laplace("0.01"), 0)


@pytest.mark.parametrize("first", [0, 7])
def test_a_release_without_memory_is_charged_or_not_and_the_next_one_is_made(tmp_path: Path, first: int) -> None:
    """Of every line of the stores, and every seventh of the rest, some. Unlike an interrupt, it is an error that code
    may take for one of its own."""
    with Ledger.create(tmp_path / "a.ledger") as book:
        scope, handed_out, target = opened_scope(book, "s", "100"), 0, first
        while True:
            lines = Lines(target, then=no_memory)
            try:
                lines.run(released(scope))
                handed_out += 1
            except MemoryError:
                pass
            scope.release(laplace("0.01"), 0)
            handed_out += 1
            if not lines.has_raised:
                break
            target += 14
        verified = book.verify()
        assert target > 400
        assert verified.state.open == {}
        assert handed_out <= len(scope.releases()) <= handed_out + target // 14 + 1


# ---- rights and names ------------------------------------------------------------------------------------------------


def as_nobody(work: Callable[[], object]) -> str:
    """What `work` raises where this process has no rights but those of everyone; "" where it raises nothing."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            try:
                work()
            except DpledgerError as error:
                os.write(writing, f"{type(error).__name__}: {error}".encode())
            except BaseException as error:
                os.write(writing, f"not one of ours: {error!r}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said


@pytest.fixture
def seen_by_all() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="dpl-rights-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@ignores_fork_warnings
def test_a_folder_that_may_not_be_entered_is_told(seen_by_all: Path) -> None:
    path = seen_by_all / "a.ledger"
    with Ledger.create(path) as book:
        opened_scope(book, "s", "1")
    seen_by_all.chmod(0o000)
    calls: dict[Callable[[], Any], str] = {
        lambda: Ledger.open(path): "that you may read (Permission denied)",
        lambda: Ledger.look(path): "that you may read (Permission denied)",
        lambda: Ledger.open_or_create(path): "Permission denied",
        lambda: Ledger.create(path): "Permission denied",
        lambda: bundle.write(seen_by_all / "bundle", [], b""): "Permission denied",
        lambda: sources.opened(str(path)).__enter__(): "that is there",
    }
    for call, said in calls.items():
        assert said in as_nobody(call)


@ignores_fork_warnings
def test_who_may_not_read_or_write_a_ledger_is_told_what_is_missing(seen_by_all: Path) -> None:
    path = seen_by_all / "a.ledger"
    Ledger.create(path).close()
    path.chmod(0o600)
    if os.geteuid() == 0:
        assert "that you may read (Permission denied)" in as_nobody(lambda: Ledger.look(path))
    path.chmod(0o666)
    (seen_by_all / "a.ledger.key").chmod(0o000)
    seen_by_all.chmod(0o555)
    assert as_nobody(lambda: Ledger.look(path).close()) == ""
    said = as_nobody(lambda: SQLiteStore.open(path))
    assert f"makes files beside it, in {seen_by_all}" in said


@pytest.mark.parametrize("length", [243, 244, 255])
def test_a_name_to_which_nothing_can_be_added_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / ("x" * length)
    for call in (Ledger.open, Ledger.look, Ledger.open_or_create, Ledger.create):
        with pytest.raises((ParameterError, StoreFailure)):
            call(path)
    path.touch()
    with pytest.raises(DpledgerError):
        Ledger.open(path)
    path.unlink()
    assert list(tmp_path.iterdir()) == []
