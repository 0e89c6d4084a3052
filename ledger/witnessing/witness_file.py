"""What a witness keeps, in one SQLite file: whose heads it takes, and the newest head of each that it cosigned.

The file is all that stops a ledger from going back. It is never put back from a copy: a witness whose file is lost
begins anew with another key, and ledgers name that one.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from dpledger.errors import ParameterError, StoreFailure, VerificationError
from dpledger.ledger.signed import checkpoint, merkle
from dpledger.ledger.signed.checkpoint import Checkpoint, SignatureLine
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.ledger.witnessing.cosigning import CosigningKey, line_of
from dpledger.ledger.witnessing.submission import Submission

__all__ = ["Said", "WitnessFile"]

_APPLICATION = 0x64707769  # "dpwi", which tells the file from a ledger
_TABLES = """
CREATE TABLE allowed (origin TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (origin, key)) WITHOUT ROWID;
CREATE TABLE heads (
    origin TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, root BLOB NOT NULL, note BLOB NOT NULL
) WITHOUT ROWID;
"""
_BUSY_SECONDS = 10.0
_SIGNATURE_BYTES = 64  # of Ed25519


@dataclass(frozen=True, slots=True)
class Said:
    """What a witness answers: the status code of c2sp.org/tlog-witness, and the body of 200 and 409."""

    status: Literal[200, 400, 403, 404, 409, 422]
    body: bytes = b""


class WitnessFile:
    """The file of a witness, open. For many threads; two processes may have it open."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        """ParameterError for what is no file of a witness."""
        self._clock = clock
        self._lock = threading.Lock()
        if not os.path.isfile(path):
            raise ParameterError("witness", str(path), "the file of a witness (dpledger witness init makes one)")
        try:
            self._database = _connected(path)
            weakref.finalize(self, self._database.close)
            found = self._database.execute("PRAGMA application_id").fetchone()[0]
        except sqlite3.Error:
            found = None
        if found != _APPLICATION:
            raise ParameterError("witness", str(path), "the file of a witness (dpledger witness init makes one)")

    @staticmethod
    def create(path: Path) -> None:
        """A new file, for its owner alone, in which no ledger is allowed yet. ParameterError where something is."""
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            raise ParameterError("witness", str(path), "a path where nothing exists yet") from None
        except OSError as error:
            raise ParameterError("witness", str(path), f"a path that can be written ({error.strerror})") from None
        database = _connected(path)
        try:
            database.executescript(f"BEGIN; {_TABLES} PRAGMA application_id = {_APPLICATION}; COMMIT;")
        finally:
            database.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def allow(self, key: VerifyingKey) -> bool:
        """Take heads of the ledger that `key` is named after, if `key` signed them. Whether that is new. A ledger may
        have several keys, one after the other."""
        with self._transaction() as database:
            added = database.execute(
                "INSERT OR IGNORE INTO allowed (origin, key) VALUES (?, ?)", (key.name, key.text)
            ).rowcount
        return added == 1

    def forget(self, key: VerifyingKey) -> bool:
        """Take no more heads that `key` signed; whether it was allowed. The newest head stays: with another key the
        ledger goes on from there."""
        with self._transaction() as database:
            removed = database.execute(
                "DELETE FROM allowed WHERE origin = ? AND key = ?", (key.name, key.text)
            ).rowcount
        return removed == 1

    def newest(self, origin_hash: str) -> bytes | None:
        """The newest head, cosigned, of the origin with this SHA-256, in hex; None where none was."""
        with self._transaction() as database:
            row = database.execute("SELECT note FROM heads WHERE hash = ?", (origin_hash,)).fetchone()
        return None if row is None else bytes(row[0])

    def add(self, submission: Submission, signer: CosigningKey) -> Said:
        """Look at a head, keep it if it continues the one before, and cosign it then: c2sp.org/tlog-witness, in its
        order. What is answered with 200 is on the disk."""
        origin = submission.origin
        with self._transaction() as database:
            rows = database.execute("SELECT key FROM allowed WHERE origin = ?", (origin,)).fetchall()
            if not rows:
                return Said(404)
            try:
                parsed, _ = checkpoint.parse_unverified(submission.note)
            except VerificationError:
                return Said(400)
            own = _own_lines(submission.note, [VerifyingKey.parse(text) for (text,) in rows])
            if own is None:
                return Said(403)
            if submission.old > parsed.size:
                return Said(400)
            row = database.execute("SELECT size, root, note FROM heads WHERE origin = ?", (origin,)).fetchone()
            seen = Checkpoint(origin=origin, size=0, root=merkle.EMPTY_ROOT)
            if row is not None:
                seen = Checkpoint(origin=origin, size=row[0], root=bytes(row[1]))
            if submission.old != seen.size:
                return Said(409, f"{seen.size}\n".encode())
            try:
                merkle.check_consistency(
                    submission.proof,
                    old_size=seen.size,
                    old_root=seen.root,
                    new_size=parsed.size,
                    new_root=parsed.root,
                )
            except VerificationError:
                return Said(422)
            line = line_of(signer.cosign(parsed, int(self._clock())))
            if row is not None and seen.size == parsed.size:  # nobody puts lines in place of those that came first
                own = [one for one in checkpoint.parse_unverified(bytes(row[2]))[1] if one.name == origin]
            note = f"{parsed.text}\n{''.join(map(line_of, own))}{line}".encode()
            database.execute(
                "INSERT OR REPLACE INTO heads (origin, hash, size, root, note) VALUES (?, ?, ?, ?, ?)",
                (origin, _hash(origin), parsed.size, parsed.root, note),
            )
        return Said(200, line.encode())

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One thread, and one process, at a time; all of it is on the disk afterwards, or nothing. StoreFailure where
        the file cannot be read or written."""
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                try:
                    yield self._database
                except BaseException:
                    self._database.execute("ROLLBACK")
                    raise
                self._database.execute("COMMIT")
            except sqlite3.Error as error:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise StoreFailure(f"the file of the witness: {error}") from None


def _connected(path: Path) -> sqlite3.Connection:
    """Durable when COMMIT returns, in the one file: a rollback journal, and a sync of its folder."""
    database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA synchronous = EXTRA")
    except BaseException:
        database.close()
        raise
    return database


def _own_lines(note: bytes, known: list[VerifyingKey]) -> list[SignatureLine] | None:
    """The signature lines of the ledger's name that are kept: of `known` keys, which hold, and one other, of a key to
    which they delegate, for nobody here can tell whether that holds; of several others none. None without a known one,
    or where one does not hold."""
    origin = known[0].name
    lines = [line for line in checkpoint.parse_unverified(note)[1] if line.name == origin]
    signers = [key for key in known if any(line.key_id == key.key_id for line in lines)]
    try:
        for key in signers:
            checkpoint.verify(note, key)
    except VerificationError:
        return None
    verified = {key.key_id for key in signers}
    others = [line for line in lines if line.key_id not in verified]
    is_kept = len(others) == 1 and len(others[0].signature) == _SIGNATURE_BYTES
    return [line for line in lines if line.key_id in verified or is_kept] if signers else None


def _hash(origin: str) -> str:
    return hashlib.sha256(origin.encode()).hexdigest()
