"""How commands find a ledger, and read a signed record: with which key, against which checkpoint, from a ledger or a
bundle."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
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
    "MOST_SECONDS",
    "NOT_ALL",
    "WHICH_KEY",
    "Key",
    "LedgerPlace",
    "Looked",
    "MostSeconds",
    "Record",
    "RecordIn",
    "SigningKeyFile",
    "Witness",
    "is_bundle",
    "is_proof",
    "is_statement",
    "looked",
    "no_password",
    "proven",
    "public_key_of",
    "stated",
    "unpriced",
    "verified",
]

WHICH_KEY = "--key with the public key that you trust: its text, or the file that its owner gave you (.pub)"
STATEMENT = ".intoto.json"  # after a file's name, where `dpledger attest` puts what it says of it
REPORTS = (".html", ".json", ".md", ".yaml", ".pdf")
NOT_ALL = 3  # the exit status where what was verified holds, and not all was, or entries are missing or untrusted
MOST_SECONDS = 3600.0  # that the prices of a record may take, unless a command is told otherwise
COSIGNED = "a cosigned checkpoint, from a witness or from the team (dpledger witness ask)"
OWN = "none, and too few of the witnesses that you trust cosigned the record's own"
BEGINNING = 16  # bytes of a file, by which an envelope and a proof are told from a ledger


def no_password(place: str | None) -> str | None:
    """A place of a ledger on a command line, where everybody on the machine may read it."""
    from urllib.parse import parse_qs, urlsplit

    if place is not None and place.startswith(("postgresql://", "postgres://")):
        try:
            address = urlsplit(place)
            asked = parse_qs(address.query, keep_blank_values=True)
        except ValueError:  # whose text is a part of the address
            raise typer.BadParameter("a postgresql:// address that can be read") from None
        if ":" in address.netloc.rpartition("@")[0] or "password" in asked or "sslpassword" in asked:
            raise typer.BadParameter(
                "an address without a password, which others could read here: keep it in ~/.pgpass, or name a service, "
                "postgresql://?service=NAME"
            )
    return place


RecordIn = Annotated[
    str | None,
    typer.Option(
        help="Record the result in this ledger, for its reports; the signing key lies beside the file, or is in "
        "DPLEDGER_KEY.",
        callback=no_password,
    ),
]
LedgerPlace = Annotated[str, typer.Argument(help="A ledger file, or a postgresql:// address.", callback=no_password)]
Record = Annotated[
    str,
    typer.Argument(
        help="A ledger file, a postgresql:// address, or the folder of a bundle.",
        callback=no_password,
    ),
]
SigningKeyFile = Annotated[
    str | None,
    typer.Option("--key", help="The file of the signing key (default: that beside a ledger file, else DPLEDGER_KEY)."),
]
Key = Annotated[
    str | None,
    typer.Option(help="The public key you trust: its text, or a file that holds it. A bundle is verified with it."),
]
Witness = Annotated[
    str | None,
    typer.Option(
        help=(
            "The witnesses you trust: a policy file, or the key of one. They must have cosigned the checkpoint that "
            "you give; if you give none, the newest one here."
        )
    ),
]
MostSeconds = Annotated[
    float,
    typer.Option(
        help=(
            "Processor seconds for recomputing all prices together. Prices that take longer are listed as not "
            "verified, and the exit status is 3."
        )
    ),
]


@dataclasses.dataclass(frozen=True, slots=True)
class Looked:
    """What a ledger or a bundle says. `first`: the first entry after the checkpoint that was given."""

    entries: tuple[Entry, ...]
    state: State
    first: int = 0


def is_bundle(source: str) -> bool:
    """Whether `source` is a folder, and so no ledger."""
    from dpledger.ledger.stores.places import is_address

    return not is_address(source) and os.path.isdir(source)


def public_key_of(ledger: str) -> str:
    """The file of the public key of a ledger, for what is said of it."""
    from dpledger.ledger.stores.places import is_address

    return "KEY.pub" if is_address(ledger) else f"{ledger}.pub"


def looked(source: str, key: str | None, since: Path | None = None) -> Looked:
    """What `source` says. A ledger is read as it is; a bundle is verified first, and so is a ledger for which a key or
    a checkpoint is given."""
    from dpledger.errors import EngineError
    from dpledger.ledger.ledger import Ledger
    from dpledger.ledger.signed import checkpoint

    if is_bundle(source) or key is not None or since is not None:
        found = verified(source, key, since)
        if found.unpriced:
            told = f"the prices of {unpriced(found)} take longer than {MOST_SECONDS:g} processor seconds"
            raise EngineError(f"{told}: allow more with dpledger verify --most-seconds, which also verifies the rest")
        return Looked(
            found.entries,
            found.state,
            0 if since is None else checkpoint.parse_unverified(_kept(since, found.key))[0].size,
        )
    with Ledger.look(source) as book:
        return Looked(tuple(book.entries()), book.state)


def _trusted(source: str, key: str | None) -> VerifyingKey:
    """The key that was given, or the one beside a ledger file. ParameterError where there is neither."""
    from dpledger.errors import ParameterError
    from dpledger.ledger.signed.keyfiles import KeyFiles, read_public_key
    from dpledger.ledger.stores.places import is_address

    if key is not None:
        return read_public_key(key)
    if is_address(source) or is_bundle(source):
        raise ParameterError("key", "none", WHICH_KEY)
    beside = KeyFiles.beside(source).public
    if not os.path.exists(beside):
        raise ParameterError("key", f"none, and there is no {beside}", WHICH_KEY)
    return read_public_key(beside)


def verified(
    source: str,
    key: str | None,
    since: Path | None,
    *,
    quick: bool = False,
    each: Callable[[Entry], None] | None = None,
    jobs: int | None = None,
    most_seconds: float | None = MOST_SECONDS,
    witness: str | None = None,
) -> Verified:
    """`source`, verified with a key (of a ledger file, without one, with that beside it), against a checkpoint that was
    kept if one is given. `witness`: who has to have cosigned that checkpoint, or without one the record's own, or else
    `since` is asked for. The rest is as in `verification.verify`."""
    from dpledger.errors import ParameterError
    from dpledger.ledger.signed import checkpoint
    from dpledger.ledger.verifying import seen, verification
    from dpledger.ledger.witnessing.policy import read_policy
    from dpledger.progress import bar

    with _opened(source) as signed:
        trusted = _trusted(source, key)
        kept = [] if since is None else [_kept(since, trusted)]
        cosigned = []
        if witness is not None:
            policy = read_policy(witness)
            if not kept and not seen.is_cosigned(signed.head, policy):
                raise ParameterError("since", OWN, COSIGNED)
            cosigned.append(seen.read_cosigned(kept[0] if kept else signed.head, policy))
        with bar("verifying", checkpoint.parse_unverified(signed.head)[0].size) as advance:
            if quick:
                found = verification.verify_quick(signed.leaves, signed.head, trusted, since=kept)
            else:
                found = verification.verify(
                    signed.leaves,
                    signed.head,
                    trusted,
                    since=kept,
                    advance=advance,
                    each=each,
                    jobs=jobs,
                    most_seconds=most_seconds,
                )
    return seen.with_seen(_remembered(found, since, source), cosigned)


def is_statement(source: str) -> bool:
    """Whether `source` is a file that begins as an envelope does, and no ledger."""
    from dpledger.attach import intoto

    return intoto.looks_like_one(_beginning(source))


def is_proof(source: str) -> bool:
    """Whether `source` is a file that begins as a proof of one entry does."""
    from dpledger.ledger.verifying import proof

    return proof.looks_like_one(_beginning(source))


def _beginning(source: str) -> bytes:
    from dpledger import bounded

    try:
        with bounded.opened(source) as stream:
            return stream.read(BEGINNING)
    except OSError:
        return b""


def proven(source: str, key: str) -> Proven:
    """The entry that the proof in `source` shows, verified with a key."""
    from dpledger import files
    from dpledger.ledger.signed.keyfiles import read_public_key
    from dpledger.ledger.verifying import proof

    return proof.verify(files.read_whole(source, limit=proof.MAX_BYTES, field="source"), read_public_key(key))


def stated(source: str, key: str, file: Path | None, ledger: str | None) -> tuple[FileStatement, Verified | None]:
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


MOST_NAMED = 20  # entries, in a line


def unpriced(found: Verified) -> str:
    """At which entries prices were not computed again, for people."""
    named = ", ".join(map(str, found.unpriced[:MOST_NAMED]))
    more = len(found.unpriced) - MOST_NAMED
    return f"{'entry' if len(found.unpriced) == 1 else 'entries'} {named}" + (f" and {more} more" if more > 0 else "")


@contextmanager
def _opened(source: str) -> Iterator[Source]:
    """The record at `source`; of a report and of a file with a statement, which are none, what to do with them."""
    from dpledger.errors import ForeignLedger
    from dpledger.ledger.verifying import sources

    try:
        with sources.opened(source) as signed:
            yield signed
    except ForeignLedger as error:
        suffix, statement = Path(source).suffix.lower(), source + STATEMENT
        if os.path.exists(statement):
            raise ForeignLedger(
                f"{error}. To verify an attested file, verify the statement beside it: dpledger verify {statement} "
                f"--key KEY --file {source}"
            ) from None
        if suffix not in REPORTS:
            raise
        is_json = suffix == ".json"
        what = f"{source} is no ledger, no bundle and no statement of dpledger attest" if is_json else str(error)
        raise ForeignLedger(
            f"{what}. To check a report, make it again: dpledger report BUNDLE --key KEY -o r.json, with the same "
            "--since or none; the two are the same if the report bears the SHA-256 of your r.json"
        ) from None


def _kept(path: Path, trusted: VerifyingKey) -> bytes:
    """A checkpoint that somebody kept, or the one in a bundle that they kept, as it was read: its signature is verified
    with the record. ParameterError for a file that holds none of the ledger of that key."""
    from dpledger import bounded
    from dpledger.errors import ParameterError, VerificationError
    from dpledger.ledger.signed import checkpoint
    from dpledger.ledger.verifying import bundle

    file = path / bundle.CHECKPOINT if path.is_dir() else path
    try:
        note = bounded.read(file, checkpoint.MAX_BYTES)
        checkpoint.require_origin(checkpoint.parse_unverified(note)[0], trusted)
    except OSError as error:
        raise ParameterError("since", str(file), f"a readable checkpoint ({error.strerror})") from None
    except VerificationError as error:
        raise ParameterError("since", str(file), f"a checkpoint that the given key signed ({error.reason})") from None
    return note


def _remembered(found: Verified, since: Path | None, source: str) -> Verified:
    """What was verified, for a checkpoint that the verifier kept: one that lies within the bundle that it is held
    against shows nothing."""
    if since is None or not is_bundle(source) or not since.resolve().is_relative_to(Path(source).resolve()):
        return found
    return dataclasses.replace(found, witnessed=0, is_own=True)
