"""`dpledger init, verify, export, backup, accept-rollback`: make a ledger, check it, hand it to others, keep it.

Only `init` and `accept-rollback` sign. All others look: they need the right to read the file, no key, and write nothing
beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpledger.cli import passphrases, proving, records, statements
from dpledger.cli.entries_in_words import elsewhere, names_of
from dpledger.cli.passphrases import Locked
from dpledger.cli.speaking import AsJson, speaking

if TYPE_CHECKING:
    from dpledger.ledger.verifying.verification import Verified

__all__ = ["accept_rollback", "backup", "export", "init", "verify"]

MOST_NAMED = 20  # scopes, in a line


def init(
    ledger: Annotated[
        str,
        typer.Argument(
            help="Path of the new ledger file, or the postgresql:// address of a database.",
            callback=records.no_password,
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="The readable part of the ledger's id (default: the file's name).")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(help="The public key, or its file, of the owner, who must approve each scope (see owner-key)."),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="For a ledger in a database: the path beside which its keys are written.")
    ] = None,
    passphrase: Locked = False,
    witnesses: Annotated[
        Path | None,
        typer.Option(
            help="The policy file of the witnesses, which cosign before data are read (witness init writes one)."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a ledger and its keys."""
    with speaking(as_json) as voice:
        from dpledger.ledger.ledger import Ledger
        from dpledger.ledger.signed.keyfiles import KeyFiles

        with Ledger.create(
            ledger, name=name, keys=keys, owner=owner, witnesses=witnesses, passphrase=passphrases.new(passphrase)
        ) as book:
            files = KeyFiles.beside(ledger if keys is None else keys)
            voice.say(f"created {ledger}: {book.id}")
            voice.say(f"  {files.signing}            signs entries; only you can read it")
            voice.say(f"  {files.public}            verifies them; give it to those who check")
            voice.say(f"  {files.recovery}   revokes a stolen signing key; move it offline now")
            if witnesses is not None:
                voice.say(f"  each witness has to allow it: dpledger witness allow WITNESS {files.public}")
            voice.say("  next: open a budget in Python (docs/start.md, 2)")
            voice.give({"ledger": ledger, "id": book.id, "public_key": book.public_key.text})


def verify(
    source: Annotated[
        str,
        typer.Argument(
            help="A ledger file, a postgresql:// address, the folder of a bundle, a statement of `dpledger attest`, a "
            "proof.",
            callback=records.no_password,
        ),
    ],
    key: Annotated[
        str | None, typer.Option(help="The public key you trust: its text, or a file that holds it. Required.")
    ] = None,
    since: Annotated[Path | None, typer.Option(help="A checkpoint, or a bundle, that you kept from before.")] = None,
    witness: records.Witness = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only check that these are the signed bytes.")] = False,
    most_seconds: records.MostSeconds = records.MOST_SECONDS,
    jobs: Annotated[
        int | None, typer.Option(help="How many processes share the work (default: as many as there are processors).")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="For a statement: the file that it is about.")] = None,
    ledger: Annotated[
        str | None,
        typer.Option(help="For a statement: the ledger, or a bundle of it.", callback=records.no_password),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a ledger, a bundle, a statement about a file (`dpledger attest`) or a proof of one entry (`dpledger
    prove`) offline, against your own copy of the public key."""
    with speaking(as_json) as voice:
        from dpledger.errors import ParameterError
        from dpledger.ledger.accounts.rollbacks import Rollbacks

        if key is None:
            raise ParameterError("key", "none", records.WHICH_KEY)
        if records.is_statement(source):
            for name, given in (("since", since), ("quick", quick or None), ("witness", witness)):
                if given is not None:
                    raise ParameterError(
                        name, "one", "nothing for a statement; to check it against the record, give --ledger"
                    )
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
                    raise ParameterError(name, str(given), f"nothing: {source} is a proof of one entry")
            proving.say(voice, records.proven(source, key))
            return
        if file is not None or ledger is not None:
            expected = f"nothing: {source} is not a statement about a file (dpledger attest makes one)"
            raise ParameterError("file" if file else "ledger", str(file or ledger), expected)
        rollbacks = Rollbacks()
        found = records.verified(
            source, key, since, quick=quick, each=rollbacks.see, jobs=jobs, most_seconds=most_seconds, witness=witness
        )
        voice.say(f"verified ({found.mode}): {_entries(found.head.size)} of {found.head.origin}")
        voice.say(f"  root {found.head.root.hex()}")
        voice.say(f"  {_seen(found)}")
        for one in found.seen:
            voice.say(f"  cosigned by {one.key.name}, {one.moment} by its clock")
        if found.mode != "quick" and (in_force := found.state.keys.own(found.head.size)) != found.key:
            voice.say(f"  its key was rotated; the key in force now is {in_force.text}")
        if found.mode != "quick" and found.state.keys.revoked:
            last = found.state.last_trusted
            voice.say(f"  entry {found.head.size - 1}: the key was REVOKED, only entries up to {last} are trusted")
        for index, accepted in rollbacks.accepted.items():
            ended = [name for name, by in rollbacks.ended.items() if by == index]
            voice.say(f"  entry {index}: entries are MISSING: a copy with {accepted.size} entries had been seen")
            if ended:
                voice.say(f"    it ended {_named(ended)}; what the missing entries charged there is not known")
        if found.attested:
            words = [said.by for said in found.attested.values()]
            voice.say(
                f"  {elsewhere(len(words))}: priced and settled by the rules; that they ran like this is the word of"
            )
            voice.say(f"  {names_of(words)}, and cannot be verified here")
        if found.mode == "quick":
            voice.say("  quick: the bytes are those that were signed; the rules were not checked")
        if found.unpriced:
            voice.say(f"  NOT VERIFIED: the prices of {records.unpriced(found)}: they take longer than --most-seconds")
            voice.say(f"  {most_seconds:g} allows; that each is charged for what it ran is the record's own word")
        voice.give(
            {
                "verified": found.mode,
                "ledger": found.head.origin,
                "size": found.head.size,
                "root": found.head.root.hex(),
                "unwitnessed": found.unwitnessed,
                "seen": [{"witness": one.key.text, "time": one.time} for one in found.seen],
                "attested": sorted(found.attested),
                **_keys(found),
                "rollbacks": list(rollbacks.accepted),
                "ended_by_rollback": sorted(rollbacks.ended),
                "not_verified": list(found.unpriced),
            }
        )
        if found.unpriced or rollbacks.accepted or (found.mode != "quick" and found.state.keys.revoked):
            raise typer.Exit(records.NOT_ALL)


def _keys(found: Verified) -> dict[str, Any]:
    """For programs: which keys the record names, and its revocation or None. A quick check reads neither."""
    if found.mode == "quick":
        return {}
    keys, size = found.state.keys, found.head.size
    revoked = {"index": size - 1, "last_trusted": found.state.last_trusted} if keys.revoked else None
    return {
        "keys": {
            "given": found.key.text,
            "in_force": None if keys.revoked else keys.own(size).text,
            "owner": None if keys.owner is None else keys.owner.text,
        },
        "revoked": revoked,
    }


def export(
    ledger: records.LedgerPlace,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the bundle; it is made.")],
    as_json: AsJson = False,
) -> None:
    """Write a bundle that anyone can verify offline with the public key."""
    with speaking(as_json) as voice:
        from dpledger.ledger.ledger import Ledger

        with Ledger.look(ledger) as book:
            folder, size = book.export(output), len(book)
        voice.say(f"wrote {_entries(size)} to {folder}")
        voice.say(f"  check it with: dpledger verify {folder} --key {records.public_key_of(ledger)}")
        voice.give({"bundle": str(folder), "size": size})


def backup(
    ledger: records.LedgerPlace,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file of the copy; nothing may be there yet.")],
    as_json: AsJson = False,
) -> None:
    """Copy a whole ledger file, even while it is in use; a plain copy could lack the last entries. Copy a database with
    its own tools, like pg_dump; `dpledger export` writes a bundle of any ledger."""
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
    ledger: records.LedgerPlace,
    by: Annotated[str, typer.Option(help="Who says so.")],
    reason: Annotated[str, typer.Option(help="What happened to the newest file.")],
    key: records.SigningKeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Continue from an older copy of a ledger because the newest file is lost. An entry records it, and every scope
    ends."""
    with speaking(as_json) as voice:
        from dpledger.ledger.ledger import Ledger

        entry = Ledger.accept_rollback(ledger, by=by, reason=reason, key=key, passphrase=passphrases.asked)
        voice.say(f"{entry.ledger} continues with entry {entry.index}, which records that newer entries are missing")
        voice.say("  its scopes have ended, because nobody knows what the missing entries charged; open new ones")
        voice.give({"ledger": entry.ledger, "index": entry.index})


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _named(scopes: list[str]) -> str:
    """Scopes, for people; of many the first."""
    more = f" and {len(scopes) - MOST_NAMED} more" if len(scopes) > MOST_NAMED else ""
    return f"{'scope' if len(scopes) == 1 else 'the scopes'} {', '.join(sorted(scopes)[:MOST_NAMED])}{more}"


def _seen(found: Verified) -> str:
    """What a checkpoint from before shows, and what it does not."""
    if found.is_own:
        return (
            "the checkpoint given came with this record, or is as new as it, so it shows nothing about earlier copies. "
            "Keep it, and give it the next time"
        )
    if not found.witnessed:
        return (
            "you gave no checkpoint from before (--since), and the record alone cannot show that none of the last "
            "entries was cut off"
        )
    if found.seen and not found.unwitnessed:
        return (
            "witnesses cosigned the newest entry: no entry was cut off, and before it no copy of the ledger was "
            "continued separately"
        )
    follow = "1 entry follows" if found.unwitnessed == 1 else f"{found.unwitnessed} entries follow"
    return f"{follow} the checkpoint that you gave; the record alone cannot show that none was cut off after it"
