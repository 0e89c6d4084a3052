"""How commands read a signed record: with which key, against which checkpoint, from a ledger file or a bundle."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dpledger.attach.intoto import FileStatement
    from dpledger.ledger.entries.entry import Entry
    from dpledger.ledger.rules.scope_state import State
    from dpledger.ledger.signed.keys import VerifyingKey
    from dpledger.ledger.verifying.proof import Proven
    from dpledger.ledger.verifying.sources import Source
    from dpledger.ledger.verifying.verification import Verified

__all__ = [
    "WHICH_KEY",
    "Key",
    "Looked",
    "Record",
    "Witness",
    "is_proof",
    "is_statement",
    "looked",
    "proven",
    "stated",
    "verified",
]

WHICH_KEY = "--key with the public key that you trust: its text, or the file that its owner gave you (.pub)"
REPORTS = (".html", ".json", ".md", ".yaml", ".pdf")
BEGINNING = 16  # bytes of a file, by which an envelope and a proof are told from a ledger

Record = Annotated[Path, typer.Argument(help="A ledger file, or the folder of a bundle.")]
Key = Annotated[
    str | None,
    typer.Option(help="The public key you trust: its text, or a file that holds it. A bundle is verified with it."),
]
Witness = Annotated[
    str | None,
    typer.Option(
        help="The witnesses you trust: a policy file, or the key of one. They must have cosigned the checkpoint that "
        "you give, or without one the newest here."
    ),
]


@dataclasses.dataclass(frozen=True, slots=True)
class Looked:
    """What a ledger or a bundle says. `first`: the first entry after the checkpoint that was given."""

    entries: tuple[Entry, ...]
    state: State
    first: int = 0


def looked(source: Path, key: str | None, since: Path | None = None) -> Looked:
    """What `source` says. A ledger file is read as it is; a bundle is verified first, and so is a file for which a key
    or a checkpoint is given."""
    from dpledger.ledger.ledger import Ledger
    from dpledger.ledger.signed import checkpoint

    if source.is_dir() or key is not None or since is not None:
        found = verified(source, key, since)
        return Looked(
            found.entries, found.state, 0 if since is None else checkpoint.parse_unverified(_kept(since))[0].size
        )
    with Ledger.look(source) as book:
        return Looked(tuple(book.entries()), book.state)


def _trusted(source: Path, key: str | None) -> VerifyingKey:
    """The key that was given, or the one beside a ledger file. ParameterError where there is neither."""
    from dpledger.errors import ParameterError
    from dpledger.ledger.signed.keyfiles import KeyFiles, read_public_key

    if key is not None:
        return read_public_key(key)
    beside = KeyFiles.beside(source).public
    if source.is_dir() or not beside.exists():
        there = "" if source.is_dir() else f", and there is no {beside}"
        raise ParameterError("key", f"none{there}", WHICH_KEY)
    return read_public_key(beside)


def verified(
    source: Path, key: str | None, since: Path | None, *, quick: bool = False, witness: str | None = None
) -> Verified:
    """`source`, verified with a key (of a ledger file, without one, with that beside it), against a checkpoint that was
    kept if one is given. `witness`: who has to have cosigned that checkpoint, or without one the record's own."""
    from dpledger.ledger.signed import checkpoint
    from dpledger.ledger.verifying import seen, verification
    from dpledger.ledger.witnessing.policy import read_policy
    from dpledger.progress import bar

    with _opened(source) as signed:
        trusted = _trusted(source, key)
        kept = [] if since is None else [_kept(since)]
        cosigned = []
        if witness is not None:
            cosigned.append(seen.read_cosigned(kept[0] if kept else signed.head, read_policy(witness)))
        with bar("verifying", checkpoint.parse_unverified(signed.head)[0].size) as advance:
            if quick:
                found = verification.verify_quick(signed.leaves, signed.head, trusted, since=kept)
            else:
                found = verification.verify(signed.leaves, signed.head, trusted, since=kept, advance=advance)
    return seen.with_seen(_remembered(found, since, source), cosigned)


def is_statement(source: Path) -> bool:
    """Whether `source` is a file that begins as an envelope does, and no ledger."""
    from dpledger.attach import intoto

    return intoto.looks_like_one(_beginning(source))


def is_proof(source: Path) -> bool:
    """Whether `source` is a file that begins as a proof of one entry does."""
    from dpledger.ledger.verifying import proof

    return proof.looks_like_one(_beginning(source))


def _beginning(source: Path) -> bytes:
    from dpledger import bounded

    try:
        with bounded.opened(source) as stream:
            return stream.read(BEGINNING)
    except OSError:
        return b""


def proven(source: Path, key: str) -> Proven:
    """The entry that the proof in `source` shows, verified with a key."""
    from dpledger import files
    from dpledger.ledger.signed.keyfiles import read_public_key
    from dpledger.ledger.verifying import proof

    return proof.verify(files.read_whole(source, limit=proof.MAX_BYTES, field="source"), read_public_key(key))


def stated(source: Path, key: str, file: Path | None, ledger: Path | None) -> tuple[FileStatement, Verified | None]:
    """The statement in `source`, verified with a key, and against the file and the ledger that are given."""
    from dpledger import files
    from dpledger.attach import intoto
    from dpledger.ledger.signed import envelope
    from dpledger.ledger.signed.keyfiles import read_public_key
    from dpledger.progress import bar

    data = files.read_whole(source, limit=envelope.MAX_BYTES + 1, field="source")
    statement = intoto.read(data, read_public_key(key))
    if file is not None:
        intoto.require_file(statement, file)
    if ledger is None:
        return statement, None
    with _opened(ledger) as signed, bar("verifying", statement.head.size) as advance:
        return statement, intoto.require_record(statement, signed.leaves, signed.head, advance=advance)


@contextmanager
def _opened(source: Path) -> Iterator[Source]:
    """The record at `source`; of a report, which is none, what to do with it."""
    from dpledger.errors import ForeignLedger
    from dpledger.ledger.verifying import sources

    try:
        with sources.opened(source) as signed:
            yield signed
    except ForeignLedger as error:
        if source.suffix.lower() not in REPORTS:
            raise
        is_json = source.suffix.lower() == ".json"
        what = f"{source} is no ledger, no bundle and no statement of dpledger attest" if is_json else str(error)
        raise ForeignLedger(
            f"{what}. A report is checked by making it again: dpledger report BUNDLE --key KEY -o r.json, with the "
            "same --since or none; it is the same if it bears the SHA-256 of your r.json"
        ) from None


def _kept(path: Path) -> bytes:
    """A checkpoint that somebody kept, or the one in a bundle that they kept, as it was read: its signature is verified
    with the record. ParameterError for a file that holds none."""
    from dpledger import bounded
    from dpledger.errors import ParameterError, VerificationError
    from dpledger.ledger.signed import checkpoint
    from dpledger.ledger.verifying import bundle

    file = path / bundle.CHECKPOINT if path.is_dir() else path
    try:
        note = bounded.read(file, checkpoint.MAX_BYTES)
        checkpoint.parse_unverified(note)
    except OSError as error:
        raise ParameterError("since", str(file), f"a readable checkpoint ({error.strerror})") from None
    except VerificationError as error:
        raise ParameterError("since", str(file), f"a checkpoint that the given key signed ({error.reason})") from None
    return note


def _remembered(found: Verified, since: Path | None, source: Path) -> Verified:
    """What was verified, for a checkpoint that the verifier kept: one that lies within the bundle that it is held
    against shows nothing."""
    if since is None or not source.is_dir() or not since.resolve().is_relative_to(source.resolve()):
        return found
    return dataclasses.replace(found, witnessed=0, is_own=True)
