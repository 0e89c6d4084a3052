"""Founding a ledger: a file and its three keys, all of them or none, also if the process dies meanwhile; or the keys of
one in a database, which are there before it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dpledger.errors import ParameterError, StoreBehind
from dpledger.files import path_of
from dpledger.ledger.remembered import Heads
from dpledger.ledger.signed.keyfiles import KeyFiles
from dpledger.ledger.signed.keys import Signer, SigningKey, VerifyingKey, new_ledger_id
from dpledger.ledger.stores import sqlite, staging
from dpledger.ledger.stores.protocol import Store

__all__ = ["Founded", "founded", "founded_in_database"]

PAUSE_SECONDS = 0.05  # between two looks at keys that another process makes


@dataclass(frozen=True, slots=True)
class Founded:
    """An empty store, the key that will sign in it, and the public half of the recovery key."""

    store: Store
    signer: Signer
    recovery: VerifyingKey


@contextmanager
def founded(
    path: str | os.PathLike[str], name: str | None, passphrase: str | None, *, wait: float = 0.0
) -> Iterator[Founded]:
    """Make the file and the keys beside it; all of them have their names once the body of the context has ended, and
    none if it fails, or if the process dies before. `wait`: how many seconds to wait for another process that is at it.

    The keys are on the disk before anything is signed. Raises ParameterError if one of the files is there already."""
    files, file = KeyFiles.beside(path), path_of(path, "ledger")
    ledger_id = new_ledger_id(name if name is not None else _label(file.stem))
    signer, recovery = SigningKey.generate(ledger_id), SigningKey.generate(ledger_id)
    with staging.staged(file, "ledger", sqlite.NOTHING_YET, wait=wait) as folder:
        files.require_absent(file)
        keys = KeyFiles.beside(folder / file.name)
        keys.save_private(signer, recovery, passphrase)
        keys.save_public(signer.public)
        store = sqlite.SQLiteStore.create(folder / file.name)
        try:
            yield Founded(store, signer, recovery.public)
        finally:
            store.close()


@contextmanager
def founded_in_database(
    address: str,
    keys: str | os.PathLike[str] | None,
    name: str | None,
    passphrase: str | None,
    *,
    wait: float = 0.0,
) -> Iterator[Founded | None]:
    """The empty ledger at `address`, whose tables are made if they are not there, with the private keys beside `keys`;
    None where a ledger is there already, or another process was first in the body of the context.

    The keys are on the disk before anything is signed. `wait`: as of `founded`. StoreBehind for the keys of a ledger
    that was begun elsewhere: their public key lies beside them, or it was used here."""
    from dpledger.ledger.stores.postgres import PostgresStore

    store = PostgresStore.open_or_create(address)
    try:
        made: Founded | None = None
        if not store.tail(None).size:
            if keys is None:
                raise ParameterError("keys", "none", "a path beside which the keys of a new ledger are to lie")
            unused = _keys_beside(keys, name, passphrase, wait)
            if not store.tail(None).size:  # after it was seen whether they are used
                if unused is None:
                    raise StoreBehind(
                        f"the keys beside {keys} belong to a ledger that was begun, but {store.name} holds none. Look "
                        "for its address, or restore the database. Another ledger needs its own keys: give another path"
                    )
                made = Founded(store, *unused)
        yield made
    finally:
        store.close()


def _keys_beside(
    keys: str | os.PathLike[str], name: str | None, passphrase: str | None, wait: float
) -> tuple[Signer, VerifyingKey] | None:
    """What will sign in an empty database, and the public half of the recovery key: of the files beside `keys`, as a
    process left them that died before it began the ledger, or new ones; None where their ledger was begun. Another
    process may be at it."""
    files, stem = KeyFiles.beside(keys), path_of(keys, "keys").stem
    deadline = time.monotonic() + wait
    while True:
        try:
            files.require_absent()
            ledger_id = new_ledger_id(name if name is not None else _label(stem))
            signer, recovery = SigningKey.generate(ledger_id), SigningKey.generate(ledger_id)
            files.save_private(signer, recovery, passphrase)
            return signer, recovery.public
        except ParameterError:
            if os.path.exists(files.public):
                return None
            is_late = time.monotonic() >= deadline
            if is_late and os.path.exists(files.signing) and os.path.exists(files.recovery):
                signing = SigningKey.load(files.signing, passphrase=passphrase)
                is_used = Heads(signing.public.name, warns=False).newest() is not None
                return None if is_used else (signing, SigningKey.load(files.recovery, passphrase=passphrase).public)
            if is_late or not os.path.exists(files.signing):
                raise
            time.sleep(PAUSE_SECONDS)


def _label(stem: str) -> str:
    """A file's name as the readable part of a ledger id."""
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:90].rstrip("-") or "ledger"
