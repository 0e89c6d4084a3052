"""Reading a ledger without the right to write it, and copies that are whole."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpledger.accounting.guarantees import PureDP
from dpledger.errors import ParameterError, RollbackSeen, ScopeError, StoreFailure
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from ledger_mechanisms import laplace

NOBODY = 65534
RULES: dict[str, Any] = {"unit": "patient", "relation": "add_remove", "budget": PureDP(1)}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may read, also if it is made read-only."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


@contextmanager
def reader_only(folder: Path) -> Iterator[None]:
    """Nobody who runs inside may write in `folder`; the superuser, who always may, is somebody else meanwhile."""
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)
        folder.chmod(0o755)


def small(path: Path) -> Path:
    """A ledger file with one release, closed."""
    with Ledger.create(path) as book:
        book.scope("s", **RULES).release(laplace(), 1)
    return path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---- looking --------------------------------------------------------------------------------------------------------


def test_the_right_to_read_is_enough(folder: Path, tmp_path: Path) -> None:
    path = small(folder / "clinic.ledger")
    path.with_name("clinic.ledger.key").unlink()
    before = names(folder)
    with reader_only(folder):
        with Ledger.look(path) as book:
            assert book.verify().head.size == len(book) == 4
            assert book.scope("s").account().admissions
            with pytest.raises(ParameterError, match="open for reading only"):
                book.declare("limits", "none", by="me")
        with Ledger.open(path) as book:  # no key is there: the same
            assert len(book) == 4
    assert names(folder) == before


def test_a_reader_beside_a_writer_sees_the_last_entries(folder: Path) -> None:
    path = folder / "clinic.ledger"
    book = Ledger.create(path)
    book.declare("limits", "none", by="me")
    with reader_only(folder), Ledger.look(path) as other:
        assert len(other) == 2
        other.verify()
    path.chmod(0o600)
    book.close()


def test_a_file_at_rest_that_is_written_again_is_not_read_on(folder: Path) -> None:
    path = small(folder / "clinic.ledger")
    with reader_only(folder):
        looked = Ledger.look(path)
        assert len(looked) == 4
    path.chmod(0o600)
    path.with_name("clinic.ledger.key").chmod(0o600)
    with Ledger.open(path) as book:
        book.declare("limits", "none", by="me")
        with pytest.raises(StoreFailure, match="written"):
            looked.verify()
    with pytest.raises(StoreFailure, match="written"):
        len(looked)
    looked.close()


def test_looking_needs_no_key_and_no_care_for_its_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small(tmp_path / "clinic.ledger")
    path.with_name("clinic.ledger.key").chmod(0o640)
    monkeypatch.setenv("DPLEDGER_KEY", "nonsense")
    before = names(tmp_path)
    with Ledger.look(path) as book:
        assert len(book) == 4
    assert names(tmp_path) == before
    with pytest.raises(ParameterError, match="0640"):
        Ledger.open(path)


@pytest.mark.parametrize("path", [5, None, b"clinic.ledger"])
def test_what_is_no_path_is_named(path: Any) -> None:
    for way in (Ledger.open, Ledger.look, Ledger.create):
        with pytest.raises(ParameterError, match="ledger: expected the path of a file"):
            way(path)


def test_a_key_that_is_none_is_named(tmp_path: Path) -> None:
    path, wrong = small(tmp_path / "clinic.ledger"), 5
    with pytest.raises(ParameterError, match="key: expected"):
        Ledger.open(path, key=wrong)  # type: ignore[arg-type]  # the point of the test


# ---- copies ---------------------------------------------------------------------------------------------------------


def test_a_backup_of_a_ledger_in_use_is_whole_and_a_plain_copy_is_not(tmp_path: Path) -> None:
    path, copied = small(tmp_path / "clinic.ledger"), list[int]()
    with Ledger.open(path) as book:
        book.scope("s").release(laplace(), 2)
        shutil.copy(path, tmp_path / "plain.ledger")
        assert book.backup(tmp_path / "backup.ledger", advance=copied.append) == tmp_path / "backup.ledger"
        key = book.public_key
    assert sum(copied) == 100
    with Ledger.look(tmp_path / "backup.ledger") as backup:
        assert len(backup) == 6
        backup.verify(key=key)
    assert stat.S_IMODE((tmp_path / "backup.ledger").stat().st_mode) == 0o600
    with pytest.warns(RollbackSeen, match="had 6 entries when it was last used here, and now holds 4"):
        plain_copy = Ledger.look(tmp_path / "plain.ledger")
    with plain_copy as plain:
        assert len(plain) == 4, "the reason for backups: this verifies, and lacks entries"
        plain.verify(key=key)
    assert {"backup.ledger-wal", "backup.ledger-shm", "backup.ledger.key"} & names(tmp_path) == set()


def test_a_plain_copy_of_a_closed_ledger_is_whole(tmp_path: Path) -> None:
    """Also while somebody else looks at it, so that closing does not remove the log."""
    path = tmp_path / "clinic.ledger"
    book = Ledger.create(path)
    book.scope("s", **RULES).release(laplace(), 1)
    with Ledger.look(path):
        book.close()
        shutil.copy(path, tmp_path / "plain.ledger")
    with Ledger.look(tmp_path / "plain.ledger") as plain:
        assert len(plain) == 4


@pytest.mark.parametrize("taken", ["copy.ledger", "copy.ledger-wal"])
def test_a_backup_writes_over_nothing(tmp_path: Path, taken: str) -> None:
    path = small(tmp_path / "clinic.ledger")
    (tmp_path / taken).write_text("mine")
    with Ledger.look(path) as book, pytest.raises(ParameterError, match="nothing exists yet"):
        book.backup(tmp_path / "copy.ledger")
    assert (tmp_path / taken).read_text() == "mine"


def test_a_backup_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    path = small(tmp_path / "clinic.ledger")
    before = names(tmp_path)

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with Ledger.look(path) as book:
        with pytest.raises(KeyboardInterrupt):
            book.backup(tmp_path / "copy.ledger", advance=stop)
        for place in (tmp_path / "nowhere" / "copy.ledger", tmp_path):
            with pytest.raises(ParameterError, match="backup"):
                book.backup(place)
    assert names(tmp_path) == before
    with pytest.raises(ParameterError, match="without a file"):
        Ledger.in_memory().backup(tmp_path / "copy.ledger")


# ---- opening a scope twice ------------------------------------------------------------------------------------------


def late(path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A handle that looked just before another process opened the scope."""
    book = Ledger.open(path)
    state = book.state
    monkeypatch.setattr(book, "refresh", lambda: state)
    return book


def test_two_processes_open_the_same_scope_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "clinic.ledger"
    with Ledger.create(path) as first, late(path, monkeypatch) as second:
        first.scope("s", **RULES)
        again = second.scope("s", **RULES)
        assert isinstance(again, Scope)
        assert again.budget == PureDP(1)
        assert len(first) == 2


def test_with_other_rules_the_second_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "clinic.ledger"
    with Ledger.create(path) as first, late(path, monkeypatch) as second:
        first.scope("s", **RULES)
        with pytest.raises(ScopeError, match="another budget: ε = 1, δ = 0, not ε = 2, δ = 0; leave it out"):
            second.scope("s", **{**RULES, "budget": PureDP(2)})


# ---- declarations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["item", "text", "by"])
@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_a_declaration_without_words_is_refused(field: str, blank: str) -> None:
    book = Ledger.in_memory()
    words = {"item": "limits", "text": "none", "by": "me", field: blank}
    for declare in (book.declare, book.scope("s", **RULES).declare):
        with pytest.raises(ParameterError, match=field):
            declare(words["item"], words["text"], by=words["by"])
    assert len(book) == 2
