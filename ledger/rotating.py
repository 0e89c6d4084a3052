"""Rotating the key of a ledger from a shell: the new key is on the disk before the ledger names it, and in place after.

Of a key that lies beside its ledger, in this order; what is interrupted, the next call ends:

    <ledger>.next.key          the new key is made
    (the ledger)               the entry that names it is appended
    <ledger>.<id>.old.key      the old key is moved here; <id> is its key id
    <ledger>.key, .pub         the new key, and its public half, come to lie here
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dpledger.errors import ParameterError
from dpledger.files import path_of
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.signed.keyfiles import KeyFiles
from dpledger.ledger.signed.keys import Passphrase, Signer, SigningKey, VerifyingKey
from dpledger.ledger.signers.named import is_elsewhere, signer_named
from dpledger.ledger.stores.places import is_address

__all__ = ["Rotated", "rotate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """What was done: the ledger's id, its key now, the one before it (None where that was rotated away earlier), and
    the files of the public half and of the old key, if they are. `is_witnessed`: whether witnesses have to be told."""

    ledger: str
    key: VerifyingKey
    before: VerifyingKey | None
    public: Path | None
    former: Path | None
    is_witnessed: bool


def rotate(
    ledger: str, to: str | None, key: str | None, passphrase: Passphrase | None, new: Callable[[], str | None]
) -> Rotated:
    """Rotate the key of `ledger`, a file or an address. `to`: what takes over; None for a key in place of the one
    beside the ledger file. `key`: as of `Ledger.open`. `new` gives the passphrase of a file that is made."""
    if to is None:
        if key is not None or is_address(ledger):
            expected = "the key that takes over; only a key file beside the ledger can be replaced without it"
            raise ParameterError("to", "none", expected)
        return _in_place(ledger, passphrase, new)
    with Ledger.open(ledger, key=key, passphrase=passphrase) as book:
        public: Path | None = None
        successor: Signer
        if is_elsewhere(to):
            successor = signer_named(to, book.id)
        else:
            file = path_of(to, "to")
            if os.path.exists(file):
                successor = SigningKey.load(file, passphrase=passphrase)
            else:
                made = SigningKey.generate(book.id)
                made.save(file, passphrase=new())
                successor, public = made, file.with_name(file.name + ".pub")
        before = book.public_key
        book.rotate_key(successor)
        if public is not None:
            _write_public(public, successor.public)
        return Rotated(
            ledger=book.id,
            key=book.public_key,
            before=before,
            public=public,
            former=None,
            is_witnessed=book.witnesses is not None,
        )


def _in_place(ledger: str, passphrase: Passphrase | None, new: Callable[[], str | None]) -> Rotated:
    files, path = KeyFiles.beside(ledger), path_of(ledger, "ledger")
    following = path.with_name(path.name + ".next.key")
    with Ledger.look(ledger) as seen:
        ledger_id, before, is_witnessed = seen.id, seen.public_key, seen.witnesses is not None
    if following.exists():
        successor = SigningKey.load(following, passphrase=passphrase)
    elif files.signing.exists():
        successor = SigningKey.generate(ledger_id)
        successor.save(following, passphrase=new())
    else:
        raise ParameterError("key", f"none beside {path}", "--key with the one that signs, and --to with the next one")
    if before != successor.public:
        with Ledger.open(ledger, passphrase=passphrase) as book:
            book.rotate_key(successor)
    former: Path | None = None
    if files.signing.exists():
        old = _public_half(files.signing)
        former = path.with_name(f"{path.name}.{old}.old.key")
        if former.exists():
            raise ParameterError("key", str(former), "a path where nothing exists yet: keys are never overwritten")
        files.signing.rename(former)
    _write_public(files.public, successor.public)
    following.rename(files.signing)  # the last, so that what is interrupted is seen
    return Rotated(
        ledger=ledger_id,
        key=successor.public,
        before=before if before != successor.public else None,
        public=files.public,
        former=former,
        is_witnessed=is_witnessed,
    )


def _public_half(signing: Path) -> str:
    """The id of the key in a file, which stands in its text, locked or not."""
    return signing.read_text("ascii").split("+")[3]


def _write_public(path: Path, key: VerifyingKey) -> None:
    """In place of what is there, whole or not at all."""
    beside = path.with_name(path.name + ".next")
    beside.unlink(missing_ok=True)  # what was interrupted left it; or it is somebody's link, which is not followed
    with beside.open("x", encoding="ascii") as file:
        file.write(key.text + "\n")
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
