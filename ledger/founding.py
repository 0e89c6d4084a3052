"""Founding a ledger file: the file and its three keys, all of them or none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpledger.ledger.keyfiles import KeyFiles
from dpledger.ledger.keys import SigningKey, VerifyingKey, new_ledger_id
from dpledger.ledger.stores import files as store_files, sqlite

__all__ = ["Founded", "founded"]


@dataclass(frozen=True, slots=True)
class Founded:
    """An empty store, the key that will sign in it, and the public half of the recovery key."""

    store: sqlite.SQLiteStore
    signer: SigningKey
    recovery: VerifyingKey


@contextmanager
def founded(path: str | os.PathLike[str], name: str | None) -> Iterator[Founded]:
    """Make the file and the keys beside it; if the body of the context fails, remove what was made, and only that.

    The keys are on the disk before anything is signed. Raises ParameterError if one of the files is there already."""
    files = KeyFiles.beside(path)
    files.require_absent()
    ledger_id = new_ledger_id(name if name is not None else _label(Path(path).stem))
    signer, recovery = SigningKey.generate(ledger_id), SigningKey.generate(ledger_id)
    store = sqlite.SQLiteStore.create(path)
    try:
        files.save(signer, recovery)
        try:
            yield Founded(store, signer, recovery.public)
        except BaseException:
            files.remove()
            raise
    except BaseException:
        store.close()
        store_files.remove(store.path)
        raise


def _label(stem: str) -> str:
    """A file's name as the readable part of a ledger id."""
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:90].rstrip("-") or "ledger"
