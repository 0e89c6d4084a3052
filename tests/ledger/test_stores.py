"""The stores: one conformance class for all, and what is special about the file."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import ledger_golden
from dpledger.accounting.guarantees import PureDP
from dpledger.errors import (
    BudgetRefused,
    DpledgerError,
    EvidenceError,
    ForeignLedger,
    ParameterError,
    StoreBehind,
    StoreFailure,
)
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.stores.protocol import Question, Store
from dpledger.ledger.stores.sqlite import SQLiteStore
from ledger_mechanisms import laplace
from store_conformance import ROW, StoreConformance, held, put

pytestmark = pytest.mark.sliced


class TestMemoryStore(StoreConformance):
    def make(self) -> Store:
        return MemoryStore()

    def code(self) -> str:
        return "import dpledger.ledger.stores.memory as home; store = home.MemoryStore()"


class TestSQLiteStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make(self) -> Store:
        return SQLiteStore.create(self.folder / "store.ledger")

    def code(self) -> str:
        path = str(self.folder / "store.ledger")
        return f"import dpledger.ledger.stores.sqlite as home; store = home.SQLiteStore.create({path!r})"

    def require_kept(self, leaves: list[bytes]) -> None:
        again = SQLiteStore.open(self.folder / "store.ledger")
        assert held(again) == leaves
        again.close()

    def test_what_is_appended_is_there_after_reopening(self) -> None:
        store = self.make()
        put(store, b"leaf", head=b"head", charges=[ROW], refusals=[("s", "r")], values=[("c1", b"value")])
        before = store.tail(0, Question(charge="c1", everything=True))
        store.close()
        again = SQLiteStore.open(self.folder / "store.ledger")
        assert again.tail(0, Question(charge="c1", everything=True)) == before
        assert before.value == b"value"
        again.close()

    def test_a_transaction_that_nobody_owns_is_undone(self) -> None:
        store = self.make()
        assert isinstance(store, SQLiteStore)
        store._connection.execute("BEGIN IMMEDIATE")  # as an interruption left it, before nesting had a depth
        store._connection.execute("INSERT INTO leaves (i, leaf) VALUES (0, ?)", (b"lost",))
        put(store, b"kept")
        other = SQLiteStore.look(self.folder / "store.ledger")
        assert held(other) == [b"kept"]
        other.close()
        store.close()

    def test_a_reader_sees_one_moment(self) -> None:
        store = self.make()
        assert isinstance(store, SQLiteStore)
        other = SQLiteStore.open(self.folder / "store.ledger")
        with store._reading():
            assert held(store) == []
            put(other)
            assert held(store) == []
        assert held(store) == [b"leaf"]
        store.close()
        other.close()

    def test_it_syncs_at_every_commit(self) -> None:
        store = self.make()
        assert isinstance(store, SQLiteStore)
        assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        store.close()

    def test_after_closing_it_says_so(self) -> None:
        store = self.make()
        store.close()
        for use in (lambda: store.tail(0), lambda: store.leaves(0, 1), lambda: put(store)):
            with pytest.raises(StoreFailure, match="closed"):
                use()

    def test_nothing_is_done_in_the_middle_of_a_write_of_the_same_thread(self) -> None:
        store = self.make()
        assert isinstance(store, SQLiteStore)
        uses: list[Callable[[], object]] = [lambda: store.tail(0), lambda: store.leaves(0, 1)]
        with store._begun("BEGIN IMMEDIATE"):
            for use in uses:
                with pytest.raises(StoreFailure, match="this thread"):
                    use()
        with store._reading(), pytest.raises(StoreFailure, match="this thread"):
            put(store)
        put(store, b"later")
        assert held(store) == [b"later"]
        store.close()


def small(path: Path, *, refused: bool = False) -> Path:
    """A ledger file with a few entries, closed."""
    with Ledger.create(path) as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
        for number in range(3):
            scope.release(laplace(), number, key=f"k{number}")
        if refused:
            with pytest.raises(BudgetRefused):
                scope.release(laplace("2"), 0, key="refused")
    return path


# ---- files that are not what they should be -------------------------------------------------------------------------


def test_all_files_belong_to_their_owner_alone(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "clinic.ledger") as book:
        book.declare("limits", "none", by="me")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    for name in ("clinic.ledger", "clinic.ledger-wal", "clinic.ledger.key", "clinic.ledger.recovery.key"):
        assert modes[name] == 0o600, name
    assert set(modes) >= {"clinic.ledger.pub"}


@pytest.mark.parametrize("name", ["with space.ledger", "größe.ledger", "a..b", "100%?.db#x", "_x", "臨床 1.ledger"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    path = small(tmp_path / name)
    with Ledger.open(path) as book:
        assert len(book) == 8
        assert book.verify().head.origin == book.id


@pytest.mark.parametrize("suffix", ["", ".key", ".pub", ".recovery.key"])
def test_nothing_is_written_over(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "clinic.ledger"
    taken = path.with_name(path.name + suffix)
    taken.write_text("mine")
    with pytest.raises(ParameterError, match=r"nothing exists yet|never overwritten"):
        Ledger.create(path)
    assert taken.read_text() == "mine"
    assert [other.name for other in tmp_path.iterdir()] == [taken.name]


def test_a_ledger_that_cannot_be_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dpledger.ledger.handle.writing.Writing.sign_head", fail)
    with pytest.raises(OSError, match="No space"):
        Ledger.create(tmp_path / "clinic.ledger")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="folder that exists"):
        Ledger.create(tmp_path / "nowhere" / "clinic.ledger")
    for path in ("", "\0"):
        with pytest.raises(ParameterError):
            Ledger.create(path)


def contents() -> dict[str, bytes]:
    with closing(sqlite3.connect(":memory:")) as other:
        other.execute("CREATE TABLE t (x)")
        database = other.serialize()
    return {
        "empty": b"",
        "text": b"patients-2026\n" * 400,
        "zeros": bytes(8192),
        "noise": os.urandom(8192),
        "another database": database,
        "a bundle's entries": (ledger_golden.DATA / "entries.jsonl").read_bytes(),
    }


@pytest.mark.parametrize("name", contents())
def test_a_file_that_is_no_ledger_is_refused_and_not_touched(tmp_path: Path, name: str) -> None:
    path, content = tmp_path / "clinic.ledger", contents()[name]
    path.write_bytes(content)
    with pytest.raises(ForeignLedger):
        Ledger.open(path)
    assert path.read_bytes() == content
    assert [other.name for other in tmp_path.iterdir()] == [path.name]


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    for path in (tmp_path / "clinic.ledger", tmp_path):
        with pytest.raises(ParameterError, match="a ledger file"):
            Ledger.open(path)
    with pytest.raises(ParameterError, match="ledger: expected a path"):
        Ledger.open("\0")
    assert list(tmp_path.iterdir()) == []


def rewritten(path: Path, *statements: str) -> Path:
    """The file after somebody wrote into its tables."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("PRAGMA user_version = 3", "layout 3"),
        ("PRAGMA application_id = 1", "not a dpledger ledger"),
        ("PRAGMA journal_mode = DELETE", "WAL"),
        ("DELETE FROM head", "no signed head"),
        ("DELETE FROM leaves", "no signed head"),
        ("DELETE FROM leaves WHERE i = 7", "not those of the signed head"),
        ("DELETE FROM leaves WHERE i = 3", "numbered 0 to 7"),
        ("UPDATE leaves SET leaf = x'7b7d' WHERE i = 3", "entry 3"),
        ("UPDATE leaves SET leaf = (SELECT leaf FROM leaves WHERE i = 4) WHERE i = 2", "."),
        ("INSERT INTO leaves SELECT 8, leaf FROM leaves WHERE i = 7", "."),
        ("UPDATE head SET checkpoint = x'00'", "checkpoint"),
        ("DELETE FROM charges", "charges"),
        ("UPDATE charges SET status = 'open', ended = NULL", "charges"),
        ("UPDATE charges SET key = 'other' WHERE key = 'k1'", "charges"),
        ("DROP TABLE leaves", "another schema"),
    ],
)
def test_a_file_that_somebody_changed_is_refused(tmp_path: Path, statement: str, error: str) -> None:
    path = rewritten(small(tmp_path / "clinic.ledger"), statement)
    with pytest.raises(EvidenceError, match=error):
        Ledger.open(path)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM refusals",
        "UPDATE refusals SET scope = 'other'",
        "UPDATE refusals SET request = 'other'",
        "INSERT INTO refusals SELECT scope, 'r9' FROM refusals",
    ],
)
def test_a_refusal_is_remembered_exactly_if_it_is_recorded(tmp_path: Path, statement: str) -> None:
    """A row too many would keep a refusal that is to come out of the record; one too few would record one twice."""
    path = small(tmp_path / "clinic.ledger", refused=True)
    with Ledger.open(path) as book:
        assert book.entry(8).body.kind == "refused"
    rewritten(path, statement)
    with pytest.raises(StoreBehind, match="refusals"):
        Ledger.open(path)


def test_a_file_cut_off_anywhere_never_opens_with_another_state(tmp_path: Path) -> None:
    whole = small(tmp_path / "clinic.ledger").read_bytes()
    cut = tmp_path / "cut.ledger"
    (tmp_path / "cut.ledger.key").write_bytes((tmp_path / "clinic.ledger.key").read_bytes())
    (tmp_path / "cut.ledger.key").chmod(0o600)
    for size in [*range(0, len(whole), 1499), len(whole) - 1, len(whole) - 100]:
        cut.write_bytes(whole[:size])
        with pytest.raises(EvidenceError):
            Ledger.open(cut)


def test_a_damaged_byte_never_opens_with_another_state(tmp_path: Path) -> None:
    """A flipped bit in the file either changes nothing that is read, or is refused with an error of ours."""
    path = small(tmp_path / "clinic.ledger")
    whole = path.read_bytes()
    with Ledger.open(path) as book:
        state = book.state
    for place in range(0, len(whole), 211):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        try:
            with Ledger.open(path) as book:
                assert book.state == state
        except DpledgerError:
            continue


def test_a_torn_log_loses_no_acknowledged_entry_before_the_tear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write-ahead log is cut in the last transaction: the file opens with a whole number of transactions."""
    path = tmp_path / "clinic.ledger"
    book = Ledger.create(path)
    sizes = {len(book)}
    scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
    sizes.add(len(book))
    len(book)
    before = (tmp_path / "clinic.ledger-wal").stat().st_size
    scope.release(laplace(), 1)
    main, log = path.read_bytes(), (tmp_path / "clinic.ledger-wal").read_bytes()
    key = (tmp_path / "clinic.ledger.key").read_bytes()
    book.close()
    assert len(log) > before
    for number, size in enumerate(range(before, len(log), 311)):
        torn = tmp_path / f"torn{number}"
        torn.mkdir()
        monkeypatch.setenv("XDG_STATE_HOME", str(torn))  # nobody saw the last transaction acknowledged
        (torn / "clinic.ledger").write_bytes(main)
        (torn / "clinic.ledger-wal").write_bytes(log[:size])
        (torn / "clinic.ledger.key").write_bytes(key)
        (torn / "clinic.ledger.key").chmod(0o600)
        with Ledger.open(torn / "clinic.ledger") as again:
            assert len(again) in (
                2,
                3,
            )  # the scope is there; each later transaction whole or not at all
            again.verify()


def test_a_second_hard_link_is_refused(tmp_path: Path) -> None:
    path = small(tmp_path / "clinic.ledger")
    os.link(path, tmp_path / "other.ledger")
    with pytest.raises(ForeignLedger, match="hard link"):
        Ledger.open(path)


# ---- keys -----------------------------------------------------------------------------------------------------------


def test_without_a_key_it_is_open_for_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPLEDGER_KEY", raising=False)
    path = small(tmp_path / "clinic.ledger")
    (tmp_path / "clinic.ledger.key").unlink()
    with Ledger.open(path) as book:
        assert len(book) == 8
        book.verify()
        scope = book.scope("s")
        assert scope.account().admissions
        assert scope.quote(laplace())
        with pytest.raises(ParameterError, match="open for reading only"):
            scope.release(laplace(), 1)
        with pytest.raises(ParameterError, match="open for reading only"):
            book.declare("limits", "none", by="me")
        assert len(book) == 8


def test_the_key_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small(tmp_path / "clinic.ledger")
    key = tmp_path / "clinic.ledger.key"
    monkeypatch.setenv("DPLEDGER_KEY", key.read_text().strip())
    key.unlink()
    with Ledger.open(path) as book:
        before = len(book)
        book.declare("limits", "none", by="me")
        assert len(book) == before + 1


def test_another_key_cannot_continue_the_ledger(tmp_path: Path) -> None:
    path, other = small(tmp_path / "clinic.ledger"), small(tmp_path / "other.ledger")
    with pytest.raises(ForeignLedger, match="not the key of this ledger"):
        Ledger.open(path, key=other.with_name("other.ledger.key"))


def test_a_store_that_went_back_is_not_continued(tmp_path: Path) -> None:
    """A backup is put back under an open handle: what it saw is gone."""
    path = small(tmp_path / "clinic.ledger")
    with Ledger.open(path) as book, Ledger.open(path) as other:
        book.declare("limits", "none", by="me")
        rewritten(path, "DELETE FROM leaves WHERE i = 8")
        with pytest.raises(StoreBehind):
            book.refresh()
        with pytest.raises(StoreBehind):
            book.declare("limits", "none", by="me")
        with pytest.raises(StoreBehind, match="signed head"):
            other.declare("limits", "none", by="me")


NAME_THAT_WENT = (
    "import dpledger.ledger.stores.sqlite as home; store = home.SQLiteStore.create('s'); home.ExitStack = None"
)


@pytest.mark.parametrize(("end", "is_told"), [("", False), ("; del store; home.ExitStack = object", True)])
def test_a_file_that_is_open_as_a_process_ends_is_no_error_to_be_told(tmp_path: Path, end: str, is_told: bool) -> None:
    """Names of modules may be gone before it is; while the process lives, they are there, and an error is one."""
    words = [sys.executable, "-c", NAME_THAT_WENT + end]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert ("Exception ignored" in done.stderr) == is_told, done.stderr
