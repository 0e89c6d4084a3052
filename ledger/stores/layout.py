"""What a ledger file must look like inside before anything in it is believed: its tables exactly; and, where all of it
is looked through, whole and counted.

A file from somebody else is a program as much as data: a view without end in the place of a table, a trigger that runs
at every append, a row of a gigabyte. So the schema is compared text for text with the one that `create` makes, before
any table is read, and SQLite is told the largest thing that a ledger holds.
"""

from __future__ import annotations

import functools
import sqlite3
from pathlib import Path

from dpledger.errors import ForeignLedger

__all__ = ["CREATE", "LARGEST_ROW", "confine", "require_ours", "require_schema", "require_whole"]

APPLICATION_ID = 0x64706C67  # "dplg": in the file's header, so that `file` and we know it
LAYOUT = 2  # PRAGMA user_version
LARGEST_ROW = 2**20  # bytes of a row: a head may have half of it, a leaf and a kept value a sixteenth

_TABLES = """
CREATE TABLE leaves (i INTEGER PRIMARY KEY, leaf BLOB NOT NULL) STRICT;
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), checkpoint BLOB NOT NULL) STRICT;
CREATE TABLE charges (
    charge TEXT PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'committed', 'aborted')), ended INTEGER,
    UNIQUE (scope, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE refusals (
    scope TEXT NOT NULL, request TEXT NOT NULL, PRIMARY KEY (scope, request)
) STRICT, WITHOUT ROWID;
CREATE TABLE kept (charge TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE saved (part INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
"""
CREATE = (
    f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {LAYOUT}; PRAGMA journal_mode = WAL; {_TABLES}"
)
"""What makes an empty file a ledger file without entries."""

_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema"
Schema = frozenset[tuple[str, str, str, str | None]]


def confine(connection: sqlite3.Connection) -> None:
    """Before anything is read: durable commits, nothing run for the schema's sake, no row larger than ours."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_ROW)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def require_ours(connection: sqlite3.Connection, file: Path) -> None:
    """Raises ForeignLedger unless the file says that it is a ledger file of this layout."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise ForeignLedger(f"{file} is not a dpledger ledger")
    if layout != LAYOUT:
        raise ForeignLedger(f"{file} has layout {layout}; this program reads layout {LAYOUT}")


def require_whole(connection: sqlite3.Connection, file: Path) -> None:
    """Raises ForeignLedger unless a ledger file is undamaged, with leaves from 0 on without a gap: reads all of it."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise ForeignLedger(f"{file} is damaged: {verdict.splitlines()[-1]}")
    count, first, last = connection.execute("SELECT count(*), min(i), max(i) FROM leaves").fetchone()
    if count and (first, last) != (0, count - 1):
        raise ForeignLedger(f"{file} is damaged: its {count} entries are numbered {first} to {last}")


def require_schema(connection: sqlite3.Connection, file: Path) -> None:
    """Raises ForeignLedger unless a ledger file holds the tables of a ledger and nothing else."""
    expected = _schema()
    rows = connection.execute(_SCHEMA).fetchmany(len(expected) + 1)
    found = frozenset(rows)
    if len(rows) == len(expected) and found == expected:
        return
    strange = sorted({f"{kind} {name}" for kind, name, *_ in found ^ expected})
    raise ForeignLedger(
        f"{file} is not a dpledger ledger: another schema ({', '.join(strange)[:200]!a}). A ledger holds the tables "
        "that dpledger makes, no other table, index, view or trigger"
    )


@functools.cache
def _schema() -> Schema:
    """The schema that `CREATE` makes, as SQLite itself writes it down, its own indices included."""
    made = sqlite3.connect(":memory:")
    try:
        made.executescript(_TABLES)
        return frozenset(made.execute(_SCHEMA))
    finally:
        made.close()
