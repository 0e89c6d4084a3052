"""`dpledger attest`: a signed statement that binds a file to a ledger; and what `dpledger verify` says of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpledger.cli import passphrases, records
from dpledger.cli.entries_in_words import guarantee_in_words
from dpledger.cli.speaking import AsJson, Voice, in_line, speaking

if TYPE_CHECKING:
    from dpledger.attach.intoto import FileStatement
    from dpledger.ledger.verifying.verification import Verified

__all__ = ["attest", "say"]


def attest(
    file: Annotated[Path, typer.Argument(help="The file that the scope made, of any size, as model.safetensors.")],
    ledger: Annotated[
        str,
        typer.Option(
            help="The ledger file, or a postgresql:// address; its signing key is needed.",
            callback=records.no_password,
        ),
    ],
    scope: Annotated[str, typer.Option(help="The scope that the file came out of.")],
    by: Annotated[str, typer.Option(help="Who states that it did.")],
    run: Annotated[
        str | None, typer.Option(help="The key of the charge that made it (default: all of the scope).")
    ] = None,
    key: records.SigningKeyFile = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help=f"Where the statement goes (default: FILE{records.STATEMENT})."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Bind a file to a scope of a ledger: a signed in-toto statement of its SHA-256, the entries and the guarantee."""
    with speaking(as_json) as voice:
        from dpledger import files
        from dpledger.attach import intoto
        from dpledger.ledger.ledger import Ledger

        with Ledger.open(ledger, key=key, passphrase=passphrases.asked) as book:
            data, public = intoto.attest(book, scope, file, by=by, run=run), book.public_key
        target = file.with_name(file.name + records.STATEMENT) if output is None else output
        files.write_new(target, data + b"\n", field="output")
        statement = intoto.read(data, public)
        voice.say(f"wrote {target}")
        voice.say(f"  sha256 {statement.sha256}  {in_line(statement.name)}")
        voice.say(f"  {_guarantee(statement)}")
        pub = records.public_key_of(ledger)
        voice.say(f"  check it with: dpledger verify {target} --key {pub} --file {file} --ledger {ledger}")
        voice.give({"statement": str(target), "sha256": statement.sha256, "predicate": dict(statement.predicate)})


def say(voice: Voice, statement: FileStatement, record: Verified | None, *, has_file: bool) -> None:
    """What was verified of a statement, and what was not."""
    told, said = statement.predicate, statement.head
    voice.say(
        f"verified (statement): {in_line(statement.name)}, of scope {in_line(told['scope']['name'])} in {said.origin}"
    )
    voice.say(f"  {_guarantee(statement)}")
    first, last = told["entries"]["first"], told["entries"]["last"]
    run = f"the run {told['run']['key']} ({told['run']['mechanism']}): " if "run" in told else ""
    voice.say(f"  {in_line(run)}entries {first} to {last}, as the ledger stood at {said.size} entries")
    if has_file:
        voice.say(f"  file: its SHA-256 is the one that was signed, {statement.sha256}")
    else:
        voice.say(f"  file: not looked at; its SHA-256 must be {statement.sha256} (--file compares it)")
    if record is None:
        voice.say("  ledger: not looked at; range and guarantee are what the key signed (--ledger recomputes them)")
    else:
        voice.say(f"  ledger: {record.head.size} entries verified; range and guarantee are what they come to")
    voice.say(f"  that these entries made the file is the word of {in_line(told['by'])}, and cannot be verified here")
    voice.give(
        {
            "verified": "statement",
            "file": has_file,
            "record": record is not None,
            "name": statement.name,
            "sha256": statement.sha256,
            "predicate": dict(told),
        }
    )


def _guarantee(statement: FileStatement) -> str:
    """What the scope promises, what of it is spent, and what of its charges is on somebody's word."""
    told = statement.predicate
    scope, charges = told["scope"], told["charges"]
    rows = f" (at most {scope['max_contributions']} rows)" if scope["max_contributions"] > 1 else ""
    spent = told.get("spent")
    words = f"{guarantee_in_words(statement.guarantee)} for one {scope['unit']}{rows}, {scope['relation']}"
    words += "" if spent is None else f"; spent at most {spent['epsilon']} at delta {spent['delta']}"
    words += f"; {charges['elsewhere']} of {charges['all']} charges attested"
    broken = charges["outside_guarantee"]
    return in_line(words + (f"; {broken} OUTSIDE the guarantee" if broken else ""))
