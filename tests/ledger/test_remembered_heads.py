"""A ledger file that goes back is refused where a newer one was seen: on this machine, for this user."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

import dpledger as dpl
from dpledger.cli import app
from dpledger.errors import (
    ForeignLedger,
    RollbackSeen,
    ScopeError,
    StoreBehind,
    StoreFailure,
    UnrememberedHead,
    VerificationError,
)
from dpledger.ledger import remembered
from dpledger.ledger.entries.bodies import RollbackAccepted
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.remembered import SIZE, Heads, SeenHead
from dpledger.ledger.scope import Scope
from dpledger.ledger.stores import files
from dpledger.ledger.verifying import sources
from ledger_mechanisms import laplace

ORIGIN = "clinic/" + "0" * 32


def scope_of(book: Ledger) -> Scope:
    return book.scope("s", unit="patient", relation="add_remove", budget=dpl.PureDP(3))


def made(path: Path) -> Path:
    """A ledger file with a scope, closed."""
    with Ledger.create(path) as book:
        scope_of(book)
    return path


def released(path: Path, times: int = 1) -> None:
    with Ledger.open(path) as book:
        for _ in range(times):
            scope_of(book).release(dpl.Laplace(sensitivity=1, epsilon=1), 1)


def elsewhere(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """From here on this is another machine, or another user."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))


# ---- what goes back -------------------------------------------------------------------------------------------------


def test_a_file_that_is_put_back_releases_nothing_more(tmp_path: Path) -> None:
    """Restored three times it released 9 of a budget of 3, and verified."""
    path = made(tmp_path / "clinic.ledger")
    kept = path.read_bytes()
    released(path, 3)
    path.write_bytes(kept)
    with pytest.raises(
        StoreBehind, match=r"had 8 entries .* now holds 2\. What the missing entries charged would be spent again"
    ):
        Ledger.open(path)
    with pytest.raises(StoreBehind, match="accept-rollback"):
        Ledger.open_or_create(path)


def test_on_another_machine_nobody_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Undetectable without a witness; with one it is refused (`test_witnessed_ledgers`)."""
    path, kept = made(tmp_path / "clinic.ledger"), tmp_path / "kept"
    shutil.copy(path, kept)
    for restored in range(3):
        elsewhere(monkeypatch, tmp_path / f"machine{restored}")
        shutil.copy(kept, path)
        released(path, 3)  # of a budget of 3, three times
        with Ledger.open(path) as book:
            assert book.verify().head.size == 8


def test_a_copy_that_went_on_by_itself_is_refused(tmp_path: Path) -> None:
    """Two copies of one length: the one that was used last is the one that may go on."""
    path = made(tmp_path / "clinic.ledger")
    clone = tmp_path / "clone.ledger"
    for suffix in ("", ".key"):
        shutil.copy(f"{path}{suffix}", f"{clone}{suffix}")
    with Ledger.open(path) as one, Ledger.open(clone) as other:
        scope_of(one).release(laplace(), 1)
        with pytest.raises(StoreBehind, match="had 4 entries"):
            scope_of(other).release(laplace(), 1)
    with pytest.raises(StoreBehind):
        Ledger.open(clone)
    released(path)


def test_a_fork_of_the_same_length_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "clinic.ledger")
    clone = tmp_path / "clone.ledger"
    for suffix in ("", ".key"):
        shutil.copy(f"{path}{suffix}", f"{clone}{suffix}")
    with monkeypatch.context() as there:
        elsewhere(there, tmp_path / "there")
        released(clone, 2)
    released(path)
    with pytest.raises(StoreBehind, match="entry 3 is not the one that was seen here"):
        Ledger.open(clone)


def test_a_file_that_is_put_back_under_an_open_handle_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "clinic.ledger")
    kept = path.read_bytes()
    released(path, 2)
    path.unlink()
    path.write_bytes(kept)
    with pytest.raises(StoreBehind):
        released(path)


def test_who_only_reads_is_warned(tmp_path: Path) -> None:
    path = made(tmp_path / "clinic.ledger")
    kept = path.read_bytes()
    released(path)
    path.write_bytes(kept)
    with pytest.warns(RollbackSeen, match="had 4 entries"):
        book = Ledger.look(path)
    assert len(book) == 2
    book.close()


# ---- accepting it ---------------------------------------------------------------------------------------------------


def test_a_rollback_that_is_accepted_is_an_entry_and_ends_the_scopes(tmp_path: Path) -> None:
    path = made(tmp_path / "clinic.ledger")
    kept = path.read_bytes()
    released(path, 2)
    with Ledger.look(path) as book:
        last = book.entry(5)
    path.write_bytes(kept)
    entry = Ledger.accept_rollback(path, by="A. Lindqvist", reason="the disk failed")
    body = entry.body
    assert isinstance(body, RollbackAccepted)
    assert (entry.index, body.size, body.by, last.index) == (2, 6, "A. Lindqvist", 5)
    with Ledger.open(path) as book:
        with pytest.raises(ScopeError, match="closed"):
            book.scope("s").release(laplace(), 1)
        again = book.scope("t", unit="patient", relation="add_remove", budget=dpl.PureDP(1), dataset="new people")
        again.release(laplace(), 1)
        book.verify()
        told = dpl.report(book).markdown()
    assert "A copy with 6 entries had been seen. No number here includes what the missing entries charged." in " ".join(
        told.split()
    )


def test_reading_an_abandoned_copy_changes_nothing_that_is_remembered(tmp_path: Path) -> None:
    """It is longer than the one that was accepted, and would lock that one out."""
    path = made(tmp_path / "clinic.ledger")
    older = path.read_bytes()
    released(path, 3)
    newest = path.read_bytes()
    path.write_bytes(older)
    Ledger.accept_rollback(path, by="me", reason="lost")
    accepted = path.read_bytes()
    path.write_bytes(newest)
    with pytest.warns(RollbackSeen, match="a copy that went on by itself"):
        Ledger.look(path).close()
    with pytest.raises(StoreBehind):
        Ledger.open(path)
    path.write_bytes(accepted)
    with Ledger.open(path) as book:
        assert len(book) == 3


def test_who_verifies_a_file_that_went_back_is_warned(tmp_path: Path) -> None:
    path = made(tmp_path / "clinic.ledger")
    kept = path.read_bytes()
    released(path)
    path.write_bytes(kept)
    with pytest.warns(RollbackSeen, match="had 4 entries"), sources.opened(path) as source:
        assert len(list(source.leaves)) == 2
    Ledger.accept_rollback(path, by="me", reason="lost")
    done = CliRunner().invoke(app, ["verify", str(path), "--key", f"{path}.pub"])
    assert "entry 2: entries are MISSING: a copy with 4 entries had been seen" in done.output


def test_there_must_be_one_to_accept(tmp_path: Path) -> None:
    path = made(tmp_path / "clinic.ledger")
    with pytest.raises(dpl.ParameterError, match=r"older copy .*got the newest that was seen here"):
        Ledger.accept_rollback(path, by="me", reason="why not")
    path.with_name("clinic.ledger.key").unlink()
    with pytest.raises(dpl.ParameterError, match="signing key"):
        Ledger.accept_rollback(path, by="me", reason="why not")


# ---- what is remembered ---------------------------------------------------------------------------------------------


def heads() -> Heads:
    return Heads(ORIGIN)


def test_it_is_what_was_kept_and_the_newest_stays(tmp_path: Path) -> None:
    assert heads().newest() is None
    older, newer = SeenHead(7, "11" * 32), SeenHead(9, "22" * 32)
    heads().keep(newer)
    heads().keep(older)
    assert heads().newest() == newer
    heads().keep(older, also_older=True)
    assert heads().newest() == older


def test_its_file_and_folders_are_for_their_owner_alone() -> None:
    heads().keep(SeenHead(1, "11" * 32))
    file = heads().file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in list(file.parents)[:2]} == {0o700}
    assert file.stat().st_size == SIZE


@given(st.binary(max_size=300))
def test_what_is_something_else_is_refused_and_named(text: bytes) -> None:
    """It is looked at for a second, here for none: somebody may be writing it."""
    heads().keep(SeenHead(1, "11" * 32))
    heads().file.write_bytes(b"x" + text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remembered, "PAUSE", 0)
        with pytest.raises(StoreFailure, match="does not hold what was remembered"):
            heads().newest()


def test_a_torn_file_is_refused_and_an_empty_one_was_never_written() -> None:
    heads().keep(SeenHead(10, "11" * 32))
    whole = heads().file.read_bytes()
    heads().file.write_bytes(whole.replace(b"10\n", b"12\n"))
    with pytest.raises(StoreFailure):
        heads().newest()
    for nothing in (b"", bytes(SIZE)):
        heads().file.write_bytes(nothing)
        assert heads().newest() is None


def test_writers_at_once_leave_the_newest() -> None:
    def write(first: int) -> None:
        for size in range(first, 200, 4):
            heads().keep(SeenHead(size, f"{size:064x}"))

    threads = [threading.Thread(target=write, args=(first,)) for first in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heads().newest() == SeenHead(199, f"{199:064x}")


@pytest.mark.sliced
def test_processes_on_one_ledger_remember_what_all_saw(tmp_path: Path) -> None:
    path = made(tmp_path / "clinic.ledger")
    program = (
        "import sys, dpledger as dpl\n"
        "with dpl.Ledger.open(sys.argv[1]) as book:\n"
        "    for _ in range(10): book.scope('s').release(dpl.Laplace(sensitivity=1, epsilon='0.05'), 1)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(path)]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    with Ledger.open(path) as book:
        seen = Heads(book.id).newest()
        assert seen == SeenHead.of(book._head)
        assert seen is not None
        assert seen.size == 62


# ---- where it cannot be remembered ----------------------------------------------------------------------------------


def test_a_release_goes_on_and_a_warning_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch, tmp_path / "state")
    (tmp_path / "state").write_text("not a folder")
    with pytest.warns(UnrememberedHead, match="set XDG_STATE_HOME"):
        book = Ledger.create(tmp_path / "a.ledger")
    scope_of(book).release(laplace(), 1)
    book.close()


def test_a_home_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert heads().file == tmp_path / "home" / ".local" / "state" / "dpledger" / "heads" / ORIGIN.replace("/", "+")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert heads().file.is_relative_to(tmp_path / "home")


def test_a_home_that_is_no_whole_path_would_follow_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "home")
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UnrememberedHead, match="HOME is a relative path"):
        made(tmp_path / "a.ledger")
    assert not (tmp_path / "home").exists()


def test_each_folder_that_is_made_is_for_its_owner_alone_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    before = os.umask(0)
    try:
        made(tmp_path / "a.ledger")
    finally:
        os.umask(before)
    for folder in ("home", "home/.local", "home/.local/state", "home/.local/state/dpledger/heads"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    heads().keep(SeenHead(1, "11" * 32))
    other = tmp_path / "other"
    other.write_bytes(b"precious")
    heads().file.unlink()
    heads().file.symlink_to(other)
    with pytest.warns(UnrememberedHead):
        heads().keep(SeenHead(2, "11" * 32))
    assert other.read_bytes() == b"precious"


def test_what_is_remembered_costs_no_file_beside_the_ledger(tmp_path: Path) -> None:
    released(made(tmp_path / "clinic.ledger"))
    assert {file.suffix for file in tmp_path.iterdir()} <= {".ledger", ".key", ".pub", ".ledger-lock"}


# ---- where a ledger may lie -----------------------------------------------------------------------------------------


def test_the_system_says_which_file_system_it_is(tmp_path: Path) -> None:
    told = subprocess.run(["stat", "-f", "-c", "%t", str(tmp_path)], capture_output=True, text=True, check=True)
    assert files._file_system(tmp_path) == int(told.stdout, 16)
    assert files._file_system(tmp_path / "nowhere") is None


@pytest.mark.parametrize(("number", "name"), files.NETWORKS.items())
def test_a_network_file_system_is_refused_with_two_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    path = made(tmp_path / "clinic.ledger")
    monkeypatch.setattr(files, "_file_system", lambda _: number)
    told = rf"network file system \({name}\).* a disk of this machine, or in PostgreSQL"
    for act in (Ledger.open, Ledger.look):
        with pytest.raises(ForeignLedger, match=told):
            act(path)
    with pytest.raises(ForeignLedger, match=told):
        Ledger.create(tmp_path / "other.ledger")
    assert not (tmp_path / "other.ledger").exists()


def test_a_head_that_was_kept_shows_a_rollback_where_nobody_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path / "clinic.ledger")
    older = path.read_bytes()
    released(path)
    with Ledger.look(path) as book:
        kept = book.head
        assert book.verify(since=[kept]).head.size == 4
    elsewhere(monkeypatch, tmp_path / "another machine")
    path.write_bytes(older)
    with Ledger.look(path) as book:
        with pytest.raises(VerificationError):
            book.verify(since=[kept])
        with pytest.raises(VerificationError):
            book.verify(since=[kept[:-9]])
