"""`dpledger prove`: one entry of a ledger for somebody who sees no other; and what `dpledger verify` says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpledger.cli import records
from dpledger.cli.speaking import AsJson, Voice, speaking

if TYPE_CHECKING:
    from dpledger.ledger.verifying.proof import Proven

__all__ = ["prove", "say"]


def prove(
    ledger: records.LedgerPlace,
    index: Annotated[int, typer.Argument(help="Which entry, as `dpledger show` numbers them.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file of the proof; nothing may be there yet.")],
    as_json: AsJson = False,
) -> None:
    """Write one entry with its inclusion proof and the signed head into one file: whoever has the public key can verify
    it, and sees no other entry."""
    with speaking(as_json) as voice:
        from dpledger import files
        from dpledger.ledger.ledger import Ledger

        with Ledger.look(ledger) as book:
            data = book.prove(index)
        files.write_new(output, data, field="output")
        voice.say(f"wrote entry {index} of {ledger}, with its proof, to {output}")
        voice.say(f"  check it with: dpledger verify {output} --key {records.public_key_of(ledger)}")
        voice.give({"proof": str(output), "index": index})


def say(voice: Voice, found: Proven) -> None:
    """What was verified of a proof, and what was not."""
    from dpledger.ledger.entries.entry import format_entry

    entry, head = found.entry, found.head
    payload = format_entry(entry)
    voice.say(f"verified (proof): entry {entry.index} of {head.origin}, as the ledger stood at {head.size} entries")
    voice.say(json.dumps(payload, indent=2, sort_keys=True))
    if not found.is_trusted:
        voice.say("  the signing key was REVOKED: whoever stole it may have signed this entry")
    voice.say("  a proof shows this entry alone: neither that it followed the rules, nor what came before or after it;")
    voice.say("  for that, verify the whole ledger, or a bundle of it")
    voice.give(
        {
            "verified": "proof",
            "ledger": head.origin,
            "index": entry.index,
            "size": head.size,
            "root": head.root.hex(),
            "entry": payload,
            "trusted": found.is_trusted,
        }
    )
    if not found.is_trusted:
        raise typer.Exit(records.NOT_ALL)
