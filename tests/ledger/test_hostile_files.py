"""Files that somebody made to hang, fill the memory or lie: each is refused in words, at once and in little memory.

What could take the machine along runs in a process of its own, with a limit on its time and on its address space.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ledger_golden
import warm_process
from dpledger import bounded
from dpledger.accounting.guarantees import PureDP
from dpledger.cli import app
from dpledger.errors import EvidenceError, ForeignLedger, ParameterError, VerificationError
from dpledger.ledger.entries.bodies import Heartbeat
from dpledger.ledger.entries.entry import Entry, format_entry
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.signed import checkpoint, envelope, wire
from dpledger.ledger.signed.keyfiles import read_public_key
from dpledger.ledger.signed.keys import SigningKey
from dpledger.ledger.stores import layout
from dpledger.ledger.stores.sqlite import SQLiteStore
from dpledger.ledger.verifying import bundle, sources, verification
from ledger_forger import signed_head
from ledger_mechanisms import laplace

pytestmark = pytest.mark.sliced

KEY = ledger_golden.KEY.public
SECONDS = 30

CONFINED = """
import json, resource, sys
from typer.testing import CliRunner
from dpledger.cli import app
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = used + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for words in json.loads(sys.argv[2]):
    done = CliRunner().invoke(app, words)
    print(json.dumps([done.exit_code, done.stderr, repr(done.exception)]), flush=True)
"""


def confined(*commands: Sequence[object], mebibytes: int = 64) -> list[tuple[int, str]]:
    """The status of each command and what it says of errors, one after another in one process that may take so much
    memory more than it has when it starts; a command that waits fails the test."""
    told = json.dumps([[str(word) for word in words] for words in commands])
    done = warm_process.run(CONFINED, ["-c", str(mebibytes), told], seconds=SECONDS)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(commands), done.stderr
    for words, (_, _, exception) in zip(commands, answers, strict=True):
        assert exception == "None" or exception.startswith("SystemExit"), (words, exception)
    return [(status, error) for status, error, _ in answers]


def refusals(*commands: Sequence[object], mebibytes: int = 64) -> list[str]:
    """What commands say that all refuse a file: one line, and status 1 or 2."""
    answers = confined(*commands, mebibytes=mebibytes)
    for words, (status, error) in zip(commands, answers, strict=True):
        assert status in (1, 2), words
        assert error.startswith("dpledger: "), (words, error)
        assert error.count("\n") == 1, (words, error)
    return [error for _, error in answers]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "clinic.ledger"
    with Ledger.create(path) as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
        for number in range(3):
            scope.release(laplace(), number, key=f"k{number}")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return ledger_golden.build().export(tmp_path / "bundle")


def rewritten(path: Path, *statements: str) -> Path:
    """The file after somebody ran these statements on it."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    return path


# ---- the inside of a ledger file ------------------------------------------------------------------------------------

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) SELECT i, x'00' AS leaf FROM n"
SCHEMAS: dict[str, tuple[str, ...]] = {
    "an endless view for the leaves": ("DROP TABLE leaves", f"CREATE VIEW leaves AS {ENDLESS}"),
    "an endless view for the charges": (
        "DROP TABLE charges",
        "CREATE VIEW charges AS WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS charge, 's' AS scope, i AS key, '' AS request, 'open' AS status, NULL AS ended FROM n",
    ),
    "a view beside the tables": ("CREATE VIEW more AS SELECT 1",),
    "a trigger": ("CREATE TRIGGER t AFTER INSERT ON leaves BEGIN DELETE FROM leaves; END",),
    "a trigger on the head": ("CREATE TRIGGER t BEFORE UPDATE ON head BEGIN SELECT raise(ABORT, 'no'); END",),
    "a table more": ("CREATE TABLE more (x)",),
    "an index more": ("CREATE INDEX more ON charges (status)",),
    "statistics": ("ANALYZE",),
    "a virtual table": ("CREATE VIRTUAL TABLE more USING fts5(x)",),
    "a table less": ("DROP TABLE kept",),
    "a column more": ("ALTER TABLE leaves ADD COLUMN more TEXT",),
    "a generated column": (
        "DROP TABLE kept",
        "CREATE TABLE kept (charge TEXT PRIMARY KEY, value BLOB AS (zeroblob(1000000000))) STRICT, WITHOUT ROWID",
    ),
    "another type": ("DROP TABLE kept", "CREATE TABLE kept (charge PRIMARY KEY, value) WITHOUT ROWID"),
    "a default that runs": (
        "DROP TABLE head",
        "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), "
        "checkpoint BLOB NOT NULL DEFAULT (randomblob(1000000000))) STRICT",
    ),
    "another spelling": (
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'PRIMARY KEY', 'PRIMARY  KEY') WHERE name = 'leaves'",
    ),
    "a schema that is none": (
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = 'CREATE TABLE leaves' WHERE name = 'leaves'",
    ),
    "two names for one table": (
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'head') "
        "WHERE name = 'leaves'",
    ),
    "a page that is not there": (
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET rootpage = 4000000 WHERE name = 'leaves'",
    ),
    "another application": ("PRAGMA application_id = 7",),
    "another layout": ("PRAGMA user_version = 3",),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_another_schema_is_refused_before_anything_in_it_is_asked(ledger: Path, name: str) -> None:
    rewritten(ledger, *SCHEMAS[name])
    for opening in (Ledger.open, Ledger.look, SQLiteStore.open, SQLiteStore.look):
        with pytest.raises(ForeignLedger):
            opening(ledger)


def copied(ledger: Path, name: str) -> Path:
    """A copy of the ledger file, without its keys."""
    return Path(shutil.copy(ledger, ledger.with_name(f"{name.replace(' ', '-')}.ledger")))


def test_no_command_hangs_on_another_schema(ledger: Path) -> None:
    names = ["an endless view for the leaves", "an endless view for the charges", "a trigger"]
    files = [rewritten(copied(ledger, name), *SCHEMAS[name]) for name in names]
    commands = [[*words] for file in files for words in (("verify", file, "--key", f"{ledger}.pub"), ("show", file))]
    assert all("another schema" in error for error in refusals(*commands))


def test_the_schema_is_the_one_that_create_makes(ledger: Path) -> None:
    """Indices that SQLite makes for itself included; so a ledger of this layout opens, whoever made it."""
    connection = sqlite3.connect(ledger)
    found = frozenset(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))
    connection.close()
    assert found == layout._schema()
    assert {name for _, name, *_ in found} >= {"leaves", "head", "charges", "refusals", "kept"}


def test_a_ledger_of_an_earlier_release_opens(tmp_path: Path) -> None:
    """A file of layout 2, made table by table as the first release wrote them down."""
    path = tmp_path / "old.ledger"
    connection = sqlite3.connect(path)
    connection.executescript((ledger_golden.DATA.parent / "layout_2.sql").read_text("utf-8"))
    connection.close()
    store = SQLiteStore.open(path)
    assert store.tail(None).size == 0
    store.close()


ROWS = {
    "numbered from one": ("DELETE FROM leaves WHERE i = 0",),
    "a gap": ("UPDATE leaves SET i = 4611686018427387904 WHERE i = (SELECT max(i) FROM leaves)",),
    "below zero": ("INSERT INTO leaves VALUES (-1, x'00')",),
    "the greatest number there is": ("INSERT INTO leaves VALUES (9223372036854775807, x'00')",),
    "a leaf of 50 MB": ("INSERT INTO leaves SELECT max(i) + 1, zeroblob(50000000) FROM leaves",),
    "a head of 50 MB": ("UPDATE head SET checkpoint = zeroblob(50000000)",),
    "a charge of 50 MB": ("INSERT INTO charges VALUES (hex(zeroblob(25000000)), 's', 'k', 'r', 'open', NULL)",),
    "a leaf of another type": (
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, ' STRICT', '') WHERE name = 'leaves'",
        "PRAGMA writable_schema = RESET",
        "UPDATE leaves SET leaf = 1000000000 WHERE i = 2",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = sql || ' STRICT' WHERE name = 'leaves'",
    ),
}


def test_rows_that_no_ledger_has_are_refused_in_little_memory(ledger: Path) -> None:
    files = [rewritten(copied(ledger, name), *statements) for name, statements in ROWS.items()]
    assert len(refusals(*([command, file] for file in files for command in ("show", "scopes")))) == 2 * len(ROWS)
    for file in files:
        with pytest.raises(EvidenceError):
            Ledger.look(file)


def test_a_row_of_another_type_is_refused_where_it_is_read(ledger: Path) -> None:
    """Somebody writes it while the handle is open: what was checked at opening holds no more."""
    with Ledger.open(ledger) as book:
        rewritten(ledger, *ROWS["a leaf of another type"])
        with pytest.raises(EvidenceError):
            list(book.leaves())


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9])
def test_a_damaged_tree_of_pages_is_an_error_of_ours(ledger: Path, share: float) -> None:
    data = bytearray(ledger.read_bytes())
    page = int(len(data) * share) // 4096 * 4096
    data[page : page + 4096] = os.urandom(4096)
    ledger.write_bytes(data)
    with pytest.raises(EvidenceError):
        Ledger.open(ledger)


def test_a_sparse_file_of_a_million_pages_is_refused_in_little_memory(ledger: Path) -> None:
    with ledger.open("r+b") as file:
        file.truncate(4 * 2**30)
        file.seek(28)
        file.write((2**20).to_bytes(4, "big"))  # the header agrees with the size
    assert "damaged" in refusals(["verify", ledger, "--key", f"{ledger}.pub"])[0]


# ---- what lies where a file is expected -----------------------------------------------------------------------------


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def an_endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_terminal(path: Path) -> None:
    path.symlink_to("/dev/tty")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_ring_of_links(path: Path) -> None:
    path.symlink_to(path.name)


def a_great_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 * 2**30)


PLACED = (a_pipe, an_endless_device, a_terminal, a_folder, a_ring_of_links, a_great_file)
placed = pytest.mark.parametrize("place", PLACED, ids=lambda place: place.__name__)


def test_no_command_waits_for_or_drowns_in_what_it_is_given(ledger: Path, tmp_path: Path) -> None:
    commands: list[list[object]] = []
    for place in PLACED:
        trap, key = tmp_path / place.__name__, f"{ledger}.pub"
        place(trap)
        commands += [
            ["verify", trap, "--key", key],
            ["verify", ledger, "--key", trap],
            ["verify", ledger, "--key", key, "--since", trap],
            ["compose", trap, "--delta", "1e-6"],
            ["profile", trap],
            ["show", trap],
            ["report", ledger, "--key", trap, "-o", tmp_path / "report.md"],
        ]
    assert len(refusals(*commands)) == len(commands)


def test_a_bundle_is_made_of_regular_files_of_bounded_size(folder: Path, tmp_path: Path) -> None:
    commands, names = [], []
    for place in PLACED:
        for name in ("entries.jsonl", "checkpoint"):
            spoilt = Path(shutil.copytree(folder, tmp_path / f"{place.__name__} {name}"))
            (spoilt / name).unlink()
            place(spoilt / name)
            commands.append(["verify", spoilt, "--key", KEY.text])
            names.append(name)
    for name, said in zip(names, refusals(*commands), strict=True):
        assert name in said or "entry 0" in said


@placed
def test_what_else_lies_in_a_bundle_is_not_even_opened(folder: Path, place: Callable[[Path], None]) -> None:
    place(folder / "keys.json")
    assert bundle.verify(folder, KEY).head.size > 0


@pytest.mark.parametrize("place", [a_pipe, an_endless_device, a_folder], ids=lambda place: place.__name__)
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal", "-lock"])
def test_what_lies_beside_a_ledger_is_a_regular_file(ledger: Path, suffix: str, place: Callable[[Path], None]) -> None:
    place(ledger.with_name(ledger.name + suffix))
    for opening in (Ledger.open, Ledger.look):
        with pytest.raises(ForeignLedger, match=f"{suffix} is not a regular file"):
            opening(ledger)


@placed
def test_a_signing_key_is_a_small_regular_file(ledger: Path, tmp_path: Path, place: Callable[[Path], None]) -> None:
    trap = tmp_path / "trap"
    place(trap)
    if place is a_great_file:
        trap.chmod(0o600)
    with pytest.raises(ParameterError, match="key file"):
        SigningKey.load(trap)
    with pytest.raises(ParameterError, match="public key"):
        read_public_key(trap)


def test_links_to_regular_files_are_followed(ledger: Path, folder: Path, tmp_path: Path) -> None:
    for name, target in (("l.ledger", ledger), ("l.pub", Path(f"{ledger}.pub")), ("bundle2", folder)):
        (tmp_path / name).symlink_to(target)
    moved = folder / "elsewhere"
    (folder / "entries.jsonl").rename(moved)
    (folder / "entries.jsonl").symlink_to(moved)
    with sources.opened(tmp_path / "l.ledger") as record:
        verification.verify(record.leaves, record.head, read_public_key(tmp_path / "l.pub"))
    assert bundle.verify(tmp_path / "bundle2", KEY).head.size > 0


def test_reading_is_bounded_and_regular(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert bounded.read(file, 5) == b"12345"
    for most in (0, 4):
        with pytest.raises(OSError, match=f"more than {most} bytes"):
            bounded.read(file, most)
    for wrong in (tmp_path, tmp_path / "nowhere", "/dev/null", "\0"):
        with pytest.raises(OSError, match=r".") as refusal:
            bounded.read(wrong, 5)
        assert refusal.value.strerror


# ---- the entries of a bundle ----------------------------------------------------------------------------------------


def filled(folder: Path, part: bytes, times: int) -> Path:
    """The bundle with other entries: the same part, many times."""
    with (folder / "entries.jsonl").open("wb") as file:
        for _ in range(times):
            file.write(part)
    return folder


def test_a_hundred_megabytes_of_anything_are_refused_in_little_memory(folder: Path, tmp_path: Path) -> None:
    parts = [b"\n" * 2**20, b"x" * 2**20, b"x\n" * 2**19, b'{"payload":"' + b"A" * 2**20]
    spoilt = [shutil.copytree(folder, tmp_path / str(number)) for number in range(len(parts))]
    files = [filled(Path(place), part, 100) for place, part in zip(spoilt, parts, strict=True)]
    for said in refusals(*(["verify", file, "--key", KEY.text] for file in files)):
        assert "entry 0" in said


def test_genuine_entries_and_then_rubbish_without_end(folder: Path) -> None:
    """The signed head says how many there are: one more is read, and no other."""
    size = checkpoint.verify((folder / "checkpoint").read_bytes(), KEY).size
    with (folder / "entries.jsonl").open("ab") as file:
        for _ in range(100):
            file.write(b"\n" * 2**20)
    assert f"entry {size}" in refusals(["verify", folder, "--key", KEY.text])[0]


def test_no_more_leaves_are_taken_than_the_head_covers_and_one() -> None:
    leaves, head = bundle.read(ledger_golden.DATA)
    stored, taken = list(leaves), 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        for leaf in [*stored, *[b""] * 1000]:
            taken += 1
            yield leaf

    for verify in (verification.verify, verification.verify_quick):
        taken = 0
        with pytest.raises(VerificationError) as refusal:
            verify(endless(), head, KEY)
        assert refusal.value.index == len(stored)
        assert taken == len(stored) + 1


def test_the_head_comes_first(folder: Path) -> None:
    """Without a head that the verifier's key signed, not one entry is read."""
    (folder / "checkpoint").write_bytes(b"x")
    (folder / "entries.jsonl").write_bytes(b"y" * 200_000)
    with pytest.raises(VerificationError, match="checkpoint"):
        bundle.verify(folder, KEY)


def test_entries_that_change_while_they_are_read_are_refused() -> None:
    """They hash to the head the first time, and say something else the second."""
    leaves, head = bundle.read(ledger_golden.DATA)
    genuine = list(leaves)

    class Changing:
        def __init__(self, later: list[bytes]) -> None:
            self.readings = iter([genuine, later])

        def __iter__(self) -> Iterator[bytes]:
            return iter(next(self.readings))

    for later in (genuine[:-1], genuine[:1], []):
        with pytest.raises(VerificationError, match="changed while it was read"):
            verification.verify(Changing(later), head, KEY)


@pytest.mark.parametrize("length", [envelope.MAX_BYTES, envelope.MAX_BYTES + 1, envelope.MAX_BYTES + 2, 10**6])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_longer_than_an_entry_may_be_is_named(folder: Path, length: int, end: bytes) -> None:
    first, *_ = list(bundle.read(folder)[0])
    (folder / "entries.jsonl").write_bytes(first + b"\n" + b"x" * length + end)
    with pytest.raises(VerificationError) as refusal:
        bundle.verify(folder, KEY)
    assert refusal.value.index == 1


def test_quick_verification_takes_flat_memory(tmp_path: Path) -> None:
    """A genuine bundle of 40 MB in 20 MiB: what is hashed is not kept."""
    key = SigningKey.from_seed(ledger_golden.LEDGER_ID, bytes(range(32)))
    leaf = envelope.seal(b'{"a":"' + b"x" * 40_000 + b'"}', key)
    end = Entry(
        ledger=ledger_golden.LEDGER_ID, index=751, previous="00" * 32, body=Heartbeat(), time="2026-01-01T00:00:00Z"
    )
    leaves = [
        next(iter(bundle.read(ledger_golden.DATA)[0])),
        *[leaf] * 750,
        envelope.seal(wire.dump(format_entry(end)), key),
    ]
    written = bundle.write(tmp_path / "big", leaves, signed_head(leaves, key))
    assert confined(["verify", written, "--key", KEY.text, "--quick"], mebibytes=20) == [(0, "")]


def test_a_source_is_a_ledger_file_or_a_bundle(ledger: Path, folder: Path, tmp_path: Path) -> None:
    with sources.opened(ledger) as record:
        assert list(record.leaves) == list(record.leaves)
        assert len(list(record.leaves)) == 8
    with sources.opened(folder) as record:
        assert list(record.leaves) == list(bundle.read(ledger_golden.DATA)[0])
    for nothing in (tmp_path / "nowhere", tmp_path):
        with pytest.raises((ForeignLedger, ParameterError)), sources.opened(nothing):
            pass


def test_a_bundle_whose_entries_go_away_is_an_error_of_ours(folder: Path) -> None:
    leaves, head = bundle.read(folder)
    shutil.rmtree(folder)
    with pytest.raises(ForeignLedger, match=r"entries\.jsonl"):
        verification.verify(leaves, head, KEY)
    assert CliRunner().invoke(app, ["verify", str(folder), "--key", KEY.text]).exit_code == 2
