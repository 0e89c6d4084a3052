"""`dpledger rotate-key, rotate-owner, revoke-key`: another key of a ledger, or its owner; the end of a stolen one."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from dpledger.cli import passphrases
from dpledger.cli.passphrases import Locked
from dpledger.cli.records import LedgerPlace
from dpledger.cli.speaking import AsJson, inert, speaking

__all__ = ["revoke_key", "rotate_key", "rotate_owner"]

SigningKey = Annotated[
    str | None,
    typer.Option(help="The signing key: its file (default: beside the ledger), ssh-agent:COMMENT, or hv:NAME (Vault)."),
]


def rotate_key(
    ledger: LedgerPlace,
    to: Annotated[
        str | None,
        typer.Option(
            help="The key that takes over: a file, made if it is not there, ssh-agent:COMMENT, or hv:NAME (Vault). "
            "Default: one that is made in place of the key file beside the ledger."
        ),
    ] = None,
    key: SigningKey = None,
    passphrase: Locked = False,
    as_json: AsJson = False,
) -> None:
    """Let another key sign a ledger from here on. The old key can add nothing more."""
    with speaking(as_json) as voice:
        from dpledger.ledger import rotating

        done = rotating.rotate(ledger, to, key, passphrases.asked, lambda: passphrases.new(passphrase))
        voice.say(f"{done.ledger} is signed by the key {done.key.key_id_hex} from here on")
        if done.public is not None:
            voice.say(f"  {done.public}   verifies it: give it to those who check, in place of the old one")
        if done.former is not None:
            voice.say(
                f"  {done.former}   is the old key: destroy it once you will continue no older copy of the ledger"
            )
        if done.is_witnessed:
            voice.say("  nothing is charged until each witness allows the new key:")
            voice.say(f"  dpledger witness allow WITNESS {done.public or done.key.text}")
            voice.say("  then each witness forgets the old key, and cosigns nothing for anyone who still has it:")
            voice.say(f"  dpledger witness forget WITNESS {done.before.text if done.before is not None else 'OLD_KEY'}")
        voice.say("  hand out a head as well (dpledger export): whoever has the old key can show another history to")
        voice.say("  those who hold nothing newer")
        voice.give({"ledger": done.ledger, "public_key": done.key.text})


def rotate_owner(
    ledger: LedgerPlace,
    owner: Annotated[str, typer.Argument(help="The public key of the new owner, or its file (dpledger owner-key).")],
    approval: Annotated[
        str | None, typer.Option(help="What `dpledger approve` printed, with the owner's key or the recovery key.")
    ] = None,
    request: Annotated[Path | None, typer.Option(help="Where to write the request for approval.")] = None,
    key: SigningKey = None,
    as_json: AsJson = False,
) -> None:
    """Let another key approve what opens or ends a scope. Without --approval, writes the request for it."""
    with speaking(as_json) as voice:
        from dpledger import files
        from dpledger.errors import ApprovalNeeded, ParameterError
        from dpledger.ledger.ledger import Ledger

        with Ledger.open(ledger, key=key, passphrase=passphrases.asked) as book:
            try:
                entry = book.rotate_owner(owner, approval=approval)
            except ApprovalNeeded as needed:
                if request is None:
                    expected = "a file for the request that the owner approves, or --approval with her line"
                    raise ParameterError("request", "not given", expected) from None
                files.write_new(request, needed.request, field="request")
                voice.say(f"wrote {request}: whoever has the owner's key, or the recovery key, runs")
                voice.say(f"  dpledger approve {shlex.quote(str(request))} --key KEY")
                voice.say("then run this again, with --approval and the line that it prints in place of --request")
                voice.give({"ledger": book.id, "request": str(request)})
                return
            voice.say(
                f"{entry.ledger} has another owner from entry {entry.index} on; old requests and approvals are void"
            )
            voice.give({"ledger": entry.ledger, "index": entry.index})


def revoke_key(
    ledger: LedgerPlace,
    recovery: Annotated[str, typer.Option(help="The file of the recovery key.")],
    last_trusted: Annotated[int, typer.Option(help="The index of the last entry that you know to be yours.")],
    reason: Annotated[str, typer.Option(help="What happened.")],
    as_json: AsJson = False,
) -> None:
    """End a ledger whose signing key was stolen. Charges stand; refunds after the last trusted entry do not."""
    with speaking(as_json) as voice:
        from dpledger.ledger.ledger import Ledger

        entry = Ledger.revoke_key(
            ledger, recovery=recovery, last_trusted=last_trusted, reason=reason, passphrase=passphrases.asked
        )
        voice.say(f"{inert(entry.ledger)} has ended: entry {entry.index} revokes its key, and nothing may follow")
        voice.say(f"  entries up to {last_trusted} are trusted; what was charged after them counts as spent")
        voice.say("  hand out the new head (dpledger export), and open a new ledger")
        voice.give({"ledger": entry.ledger, "index": entry.index})
