"""A process that dies while it makes a ledger, or a backup, leaves all of it or nothing that is in the way: what is
there opens, or is made anew; nothing is ever written over.

The process is killed at every line of the modules that touch files, and at every call that changes the disk.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dpledger.accounting.guarantees import PureDP
from dpledger.errors import DpledgerError, ForeignLedger, ForkedProcess, ParameterError
from dpledger.ledger.handle import create
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.signed import keyfiles
from dpledger.ledger.signed.keyfiles import KeyFiles
from dpledger.ledger.stores import files, sqlite, staging

pytestmark = pytest.mark.sliced

FORKS = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
TOUCHING = frozenset(module.__file__ for module in (create, keyfiles, files, sqlite, staging))
CHANGING = ("mkdir", "link", "unlink", "rmdir", "fsync", "open", "close")
NAMES = {"clinic.ledger", "clinic.ledger.key", "clinic.ledger.pub", "clinic.ledger.recovery.key"}


def in_a_child(work: Callable[[], object], prepare: Callable[[], None]) -> int:
    """How a forked child ended that did `work`: 0, or the signal that killed it."""
    pid = os.fork()
    if pid == 0:
        try:
            prepare()
            work()
            sys.settrace(None)
        except BaseException:
            os._exit(3)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status


def killed_at_line(number: int) -> Callable[[], None]:
    """Let the process be killed before the line of that number, of all that it executes in TOUCHING."""
    left = iter(range(number, -1, -1))

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in TOUCHING:
            return None
        if event == "line" and not next(left):
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return lambda: sys.settrace(trace)


def killed_at_call(number: int) -> Callable[[], None]:
    """Let the process be killed right after that many calls that change the disk."""
    left = iter(range(number, -1, -1))

    def then(genuine: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            result = genuine(*args, **options)
            if not next(left):
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    def prepare() -> None:
        for name in CHANGING:
            setattr(os, name, then(getattr(os, name)))

    return prepare


def deaths(path: Path, work: Callable[[], object], killed: Callable[[int], Callable[[], None]], step: int) -> int:
    """Do `work` with a death at every `step`-th point, and look at what is left; how many deaths there were."""
    for number in range(0, 10**6, step):
        place = path / str(number)
        place.mkdir()
        os.chdir(place)
        if in_a_child(work, killed(number)) == 0:
            assert whole(place)
            return number // step
        made_whole(place)
    raise AssertionError("the work never ends")


def whole(place: Path) -> bool:
    return {path.name for path in place.iterdir()} == NAMES


def made_whole(place: Path) -> None:
    """What is left opens, or else is no ledger yet and can be created; it has one key, and nothing lies about."""
    path = place / "clinic.ledger"
    try:
        book = Ledger.open(path)
    except ParameterError:
        assert not os.path.lexists(path)
        book = Ledger.create(path)
    with book:
        assert len(book) == 1
        assert book.public_key.text == KeyFiles.beside(path).public.read_text().strip()
        book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
        book.verify()
    with Ledger.open(path) as again:
        assert len(again) == 2
    assert whole(place)
    assert path.stat().st_nlink == 1
    for secret in (path, path.with_name("clinic.ledger.key"), path.with_name("clinic.ledger.recovery.key")):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def create_in_folder() -> None:
    Ledger.create("clinic.ledger").close()


@FORKS
@pytest.mark.parametrize(
    ("killed", "step", "fewest"),
    [
        (killed_at_call, 1, 20),
        (killed_at_line, 11, 18),
        pytest.param(killed_at_line, 1, 200, marks=pytest.mark.slow),
    ],
)
def test_a_ledger_is_there_whole_or_can_be_created(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed: Callable[[int], Callable[[], None]],
    step: int,
    fewest: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert deaths(tmp_path, create_in_folder, killed, step) >= fewest


@pytest.mark.slow
@FORKS
def test_a_second_death_is_no_worse_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed, made anew, and killed again while it clears away what the first left."""
    for first in range(0, 40, 9):
        for second in range(0, 60, 11):
            place = tmp_path / f"{first} {second}"
            place.mkdir()
            monkeypatch.chdir(place)
            in_a_child(create_in_folder, killed_at_call(first))
            if not (place / "clinic.ledger").exists():
                in_a_child(create_in_folder, killed_at_call(second))
            made_whole(place)
            assert whole(place)


@FORKS
def test_a_backup_is_there_whole_or_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with Ledger.create(source / "clinic.ledger") as book:
        book.declare("limits", "none", by="me")

    def back_up() -> None:
        with Ledger.look(source / "clinic.ledger") as book:
            book.backup("copy.ledger")

    for number in range(10**6):
        place = tmp_path / str(number)
        place.mkdir()
        monkeypatch.chdir(place)
        status = in_a_child(back_up, killed_at_call(number))
        copy = place / "copy.ledger"
        if not copy.exists():
            back_up()
        with Ledger.look(copy) as book:
            assert len(book) == 2
            book.verify()
        assert [path.name for path in place.iterdir()] == ["copy.ledger"]
        if status == 0:
            break
    assert number > 8


# ---- whose files they are -------------------------------------------------------------------------------------------


@FORKS
@pytest.mark.parametrize("name", sorted(NAMES))
def test_what_somebody_else_put_there_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It appears between the look at the place and the giving of names: no name is taken from it, and none stays."""
    genuine = staging._publish

    def late(*args: Any) -> None:
        (tmp_path / name).write_text("mine")
        genuine(*args)

    monkeypatch.setattr(staging, "_publish", late)
    with pytest.raises(ParameterError, match="nothing exists yet"):
        Ledger.create(tmp_path / "clinic.ledger")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


@FORKS
def test_keys_of_others_are_not_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that lies there, and a folder that a dead process left: only names that lead into the folder are ours."""
    monkeypatch.chdir(tmp_path)
    in_a_child(create_in_folder, killed_at_call(6))
    assert (tmp_path / ".clinic.ledger.unfinished").exists()
    (tmp_path / "clinic.ledger.key").write_text("mine")
    with pytest.raises(
        ParameterError, match=r"clinic\.ledger does not exist\. If it was moved, put it back.* never overwritten"
    ):
        Ledger.open_or_create("clinic.ledger")
    assert [path.name for path in tmp_path.iterdir()] == ["clinic.ledger.key"]
    assert (tmp_path / "clinic.ledger.key").read_text() == "mine"


def test_what_is_being_made_by_another_process_is_left_alone(tmp_path: Path) -> None:
    main = tmp_path / "clinic.ledger"
    with staging.staged(main, "ledger", "nothing") as folder:
        (folder / main.name).write_text("half")
        with pytest.raises(ParameterError, match="no other process"):
            Ledger.create(main)
        assert (folder / main.name).read_text() == "half"
    assert main.read_text() == "half"
    assert [path.name for path in tmp_path.iterdir()] == [main.name]


def test_something_else_in_the_folder_is_not_removed(tmp_path: Path) -> None:
    folder = tmp_path / ".clinic.ledger.unfinished"
    folder.mkdir(mode=0o700)
    (folder / "notes.txt").write_text("mine")
    Ledger.create(tmp_path / "clinic.ledger").close()
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_folder_that_is_none_is_refused(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / ".clinic.ledger.unfinished"
    (tmp_path / "elsewhere").mkdir()
    folder.write_text("mine") if kind == "file" else folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ParameterError, match="unfinished"):
        Ledger.create(tmp_path / "clinic.ledger")
    assert not (tmp_path / "clinic.ledger").exists()


def test_a_second_link_of_another_name_is_still_refused(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "clinic.ledger").close()
    (tmp_path / ".clinic.ledger.unfinished").mkdir(mode=0o700)
    os.link(tmp_path / "clinic.ledger", tmp_path / "other.ledger")
    for name in ("clinic.ledger", "other.ledger"):
        with pytest.raises(ForeignLedger, match="hard link"):
            Ledger.look(tmp_path / name)


@pytest.mark.parametrize("failing", ["link", "fsync"])
def test_a_file_system_that_cannot_is_an_error_of_ours_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    genuine, calls = getattr(os, failing), iter(range(100))

    def fail(*args: Any, **options: Any) -> Any:
        if next(calls) >= 1:
            raise OSError(95, "Operation not supported")
        return genuine(*args, **options)

    with monkeypatch.context() as broken:
        broken.setattr(os, failing, fail)
        with pytest.raises((DpledgerError, OSError)):
            Ledger.create(tmp_path / "clinic.ledger")
    assert list(tmp_path.iterdir()) == []
    Ledger.create(tmp_path / "clinic.ledger").close()


@FORKS
def test_a_forked_child_takes_nothing_of_what_its_parent_is_making(tmp_path: Path) -> None:
    """Leaving the body there neither names the files, nor clears them away."""
    main = tmp_path / "clinic.ledger"

    def leave(how: Callable[[], None]) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                with body:
                    how()
            except (ForkedProcess, KeyError):
                os._exit(0)
            os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def fail() -> None:
        raise KeyError

    with staging.staged(main, "ledger", "nothing") as folder, ExitStack() as stack:
        (folder / main.name).write_text("half")
        for number, how in enumerate((fail, lambda: None)):
            other = tmp_path / f"other{number}"
            body = ExitStack()
            inner = body.enter_context(staging.staged(other, "ledger", "nothing"))
            stack.push(body)
            (inner / other.name).write_text("half")
            assert leave(how) == 0
            assert (inner / other.name).read_text() == "half"
            assert not other.exists()
        assert (folder / main.name).read_text() == "half"
    assert {path.name for path in tmp_path.iterdir()} == {main.name, "other0", "other1"}
