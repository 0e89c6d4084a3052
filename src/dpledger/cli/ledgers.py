"""`dpledger init, verify, export, backup, accept-rollback`: make a ledger, check it, hand it to others, keep it.

Only `init` and `accept-rollback` sign. All others look: they need the right to read the file, no key, and write nothing
beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpledger.cli import proving, records, statements
from dpledger.cli.entries_in_words import elsewhere, names_of
from dpledger.cli.speaking import AsJson, speaking

if TYPE_CHECKING:
    from dpledger.ledger.verifying.verification import Verified

__all__ = ["accept_rollback", "backup", "export", "init", "verify"]

LedgerFile = Annotated[Path, typer.Argument(help="A ledger file.")]


def init(
    ledger: Annotated[Path, typer.Argument(help="Where the ledger file is to be.")],
    name: Annotated[
        str | None, typer.Option(help="The readable part of the ledger's id (default: the file's name).")
    ] = None,
    owner: Annotated[
        str | None, typer.Option(help="The public key, or its file, of who has to approve each scope (owner-key).")
    ] = None,
    witnesses: Annotated[
        Path | None,
        typer.Option(help="The policy of the witnesses that cosign before data are read (witness init writes one)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a ledger and its keys."""
    with speaking(as_json) as voice:
        from dpledger.ledger.ledger import Ledger
        from dpledger.ledger.signed.keyfiles import KeyFiles

        with Ledger.create(ledger, name=name, owner=owner, witnesses=witnesses) as book:
            files = KeyFiles.beside(ledger)
            voice.say(f"created {ledger}: {book.id}")
            voice.say(f"  {files.signing}            signs entries; only you can read it")
            voice.say(f"  {files.public}            verifies them; give it to those who check")
            voice.say(
                f"  {files.recovery}   is for later versions, to revoke a stolen signing key; move it offline now"
            )
            if witnesses is not None:
                voice.say(f"  each witness has to allow it: dpledger witness allow WITNESS {files.public}")
            voice.give({"ledger": str(ledger), "id": book.id, "public_key": book.public_key.text})


def verify(
    source: Annotated[
        Path,
        typer.Argument(help="A ledger file, the folder of a bundle, a statement of `dpledger attest`, a proof."),
    ],
    key: Annotated[
        str | None, typer.Option(help="The public key you trust: its text, or a file that holds it. Required.")
    ] = None,
    since: Annotated[Path | None, typer.Option(help="A checkpoint, or a bundle, that you kept from before.")] = None,
    witness: records.Witness = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only check that these are the signed bytes.")] = False,
    file: Annotated[Path | None, typer.Option(help="Of a statement: the file that it is about.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="Of a statement: the ledger, or a bundle of it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a ledger, a bundle, a statement about a file (`dpledger attest`) or a proof of one entry (`dpledger
    prove`) offline, against your own copy of the public key."""
    with speaking(as_json) as voice:
        from dpledger.errors import ParameterError

        if key is None:
            raise ParameterError("key", "none", records.WHICH_KEY)
        if records.is_statement(source):
            for name, given in (("since", since), ("quick", quick or None), ("witness", witness)):
                if given is not None:
                    raise ParameterError(name, "one", "none, for a statement: give --ledger")
            statements.say(voice, *records.stated(source, key, file, ledger), has_file=file is not None)
            return
        if records.is_proof(source):
            for name, given in (
                ("since", since),
                ("witness", witness),
                ("quick", quick or None),
                ("file", file),
                ("ledger", ledger),
            ):
                if given is not None:
                    raise ParameterError(name, str(given), f"none: {source} is a proof of one entry")
            proving.say(voice, records.proven(source, key))
            return
        if file is not None or ledger is not None:
            expected = f"none: {source} is no statement about a file (dpledger attest makes one)"
            raise ParameterError("file" if file else "ledger", str(file or ledger), expected)
        found = records.verified(source, key, since, quick=quick, witness=witness)
        voice.say(f"verified ({found.mode}): {_entries(found.head.size)} of {found.head.origin}")
        voice.say(f"  root {found.head.root.hex()}")
        voice.say(f"  {_seen(found)}")
        for one in found.seen:
            voice.say(f"  cosigned by {one.key.name}, {one.moment} by its clock")
        for entry in found.entries:
            if entry.body.kind == "rollback_accepted":
                voice.say(f"  entry {entry.index}: entries are MISSING, a copy with {entry.body.size} had been seen")
        if found.attested:
            words = [said.by for said in found.attested.values()]
            voice.say(f"  {elsewhere(len(words))}: priced and settled by the rules; that they ran so is attested, by")
            voice.say(f"  {names_of(words)}, and nothing here can verify it")
        if found.mode == "quick":
            voice.say("  quick: the bytes are those that were signed; the rules were not checked")
        voice.give(
            {
                "verified": found.mode,
                "ledger": found.head.origin,
                "size": found.head.size,
                "root": found.head.root.hex(),
                "unwitnessed": found.unwitnessed,
                "seen": [{"witness": one.key.text, "time": one.time} for one in found.seen],
                "attested": sorted(found.attested),
            }
        )


def export(
    ledger: LedgerFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the bundle; it is made.")],
    as_json: AsJson = False,
) -> None:
    """Write a bundle that anyone can verify offline with the public key."""
    with speaking(as_json) as voice:
        from dpledger.ledger.ledger import Ledger

        with Ledger.look(ledger) as book:
            folder, size = book.export(output), len(book)
        voice.say(f"wrote {_entries(size)} to {folder}")
        voice.say(f"  check it with: dpledger verify {folder} --key {ledger}.pub")
        voice.give({"bundle": str(folder), "size": size})


def backup(
    ledger: LedgerFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file of the copy; nothing may be there yet.")],
    as_json: AsJson = False,
) -> None:
    """Copy a ledger file, whole, also while it is in use; a plain copy could lack the last entries."""
    with speaking(as_json) as voice:
        from dpledger.ledger.ledger import Ledger
        from dpledger.progress import bar

        with Ledger.look(ledger) as book, bar("copying", 100) as advance:
            book.backup(output, advance=advance)
        with Ledger.look(output) as copy:
            size = len(copy)
        voice.say(f"copied {_entries(size)} to {output}; its keys are not in it")
        voice.say("  append to the ledger or to its copy, never to both")
        voice.give({"backup": str(output), "size": size})


def accept_rollback(
    ledger: Annotated[str, typer.Argument(help="A ledger file, or a postgresql:// address.")],
    by: Annotated[str, typer.Option(help="Who says so.")],
    reason: Annotated[str, typer.Option(help="What became of the newest file.")],
    key: Annotated[str | None, typer.Option(help="The signing key's file (default: beside the ledger file).")] = None,
    as_json: AsJson = False,
) -> None:
    """Go on with an older copy of a ledger, as the newest file is lost. An entry says so, and every scope ends."""
    with speaking(as_json) as voice:
        from dpledger.ledger.ledger import Ledger

        entry = Ledger.accept_rollback(ledger, by=by, reason=reason, key=key)
        voice.say(f"{entry.ledger} goes on with entry {entry.index}, which says that newer ones are missing")
        voice.say("  its scopes have ended: what the missing entries charged is not known; open new ones")
        voice.give({"ledger": entry.ledger, "index": entry.index})


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _seen(found: Verified) -> str:
    """What a checkpoint from before shows, and what it does not."""
    if found.is_own:
        return (
            "the checkpoint given is this record's own, or as new as it: it shows nothing about earlier copies. Keep "
            "it, and give it the next time"
        )
    if not found.witnessed:
        return (
            "you gave no checkpoint from before (--since): that none of the last entries was cut off cannot be seen "
            "from the record alone"
        )
    if found.seen and not found.unwitnessed:
        return "witnesses cosigned the newest entry: none was cut off, and no copy went on by itself before it"
    follow = "1 entry follows" if found.unwitnessed == 1 else f"{found.unwitnessed} entries follow"
    return f"{follow} the checkpoint that you gave; that none was cut off after it cannot be seen from the record alone"
