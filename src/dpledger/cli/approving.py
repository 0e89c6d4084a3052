"""`dpledger owner-key, approve`: what the owner of a ledger does, on another machine: make a key, sign a request."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from dpledger.cli import passphrases
from dpledger.cli.passphrases import Locked
from dpledger.cli.speaking import BAD_INPUT, AsJson, in_line, speaking

if TYPE_CHECKING:
    from dpledger.ledger.rules.approvals import Approved

__all__ = ["approve", "owner_key"]

LONGEST = 65_535  # bytes of a request: those of an entry


def owner_key(
    key: Annotated[Path, typer.Argument(help="The file of the key; FILE.pub is made beside it. Nothing may be there.")],
    passphrase: Locked = False,
    as_json: AsJson = False,
) -> None:
    """Make the key of an owner, who approves each scope that opens or ends. Keep it away from those who spend."""
    with speaking(as_json) as voice:
        from dpledger.ledger.signed.keyfiles import save_owner_key

        public, owner = save_owner_key(key, passphrase=passphrases.new(passphrase))
        voice.say(f"made {key}, which approves; only you can read it")
        voice.say(f"  {public}   is for `dpledger init LEDGER --owner {public}`, and for those who verify")
        voice.give({"key": str(key), "public_key": owner.text})


def approve(
    request: Annotated[
        Path, typer.Argument(help="The file with the request that you are asked to approve (from `ApprovalNeeded`).")
    ],
    key: Annotated[Path, typer.Option(help="Your key (dpledger owner-key makes one).")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: I have read the request.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read a request, and approve it with the owner's key. Nothing is sent: pass on the printed line yourself."""
    with speaking(as_json) as voice:
        from dpledger import files
        from dpledger.errors import ParameterError
        from dpledger.ledger.entries.bodies import OwnerRotated
        from dpledger.ledger.rules import approvals
        from dpledger.ledger.signed.keys import SigningKey

        asked = files.read_whole(request, limit=LONGEST, field="request").removesuffix(b"\n")
        what = approvals.asked(asked)
        owner = SigningKey.load(key, passphrase=passphrases.asked)
        if owner.public.name == what.ledger and not isinstance(what.body, OwnerRotated):
            expected = "the owner's key, which has a name of its own (dpledger owner-key makes one)"
            raise ParameterError("key", f"{key}, a key of the ledger {what.ledger} itself", expected)
        voice.say(f"in {what.ledger}:")
        for line in _in_words(what.body):
            voice.say(f"  {line}")
        if what.rollbacks:
            voice.say(
                f"  entries of this ledger are missing: it was continued from an older copy {what.rollbacks} times"
            )
        if what.owner_changes:
            voice.say(f"  another owner took over {what.owner_changes} times before")
        if not yes:
            if as_json:
                raise ParameterError(
                    "yes", "not given", "--yes together with --json, which cannot ask for confirmation"
                )
            _require_yes()
        approval = approvals.approval_of(asked, owner)
        voice.say("approved; pass this on, as `approval`:")
        voice.say(approval)
        voice.give({"ledger": what.ledger, "kind": what.body.kind, "approval": approval})


def _require_yes() -> None:
    """Ends the command, as input that cannot be used, unless somebody says yes."""
    try:
        is_approved = typer.confirm("approve this?")
    except typer.Abort:
        is_approved = False
    if not is_approved:
        print("dpledger: not approved; nothing was signed", file=sys.stderr)
        raise typer.Exit(BAD_INPUT)


def _in_words(body: Approved) -> list[str]:
    """What is approved, all of it."""
    from dpledger.cli.entries_in_words import guarantee_in_words
    from dpledger.ledger.entries.bodies import Closed, OwnerRotated, ScopeOpened
    from dpledger.reports.words import filter_rule
    from dpledger.schema import plain

    match body:
        case Closed(path=path, reason=reason):
            ends = ", ".join(level.scope for level in path)
            what = f"close scope {ends}" if ends else "end the ledger: nothing may follow"
            return [what, f"reason: {in_line(reason)}"]
        case OwnerRotated(owner_key=key):
            return [f"from here on another key approves: {in_line(key)}"]
        case ScopeOpened():
            most = body.unit.max_contributions
            unit = f"{body.unit.name} with at most {most} row{'s' if most > 1 else ''}"
            rules = [
                f"open scope {body.path[0].scope}",
                f"budget: {guarantee_in_words(body.budget)}",
                f"for one {unit}; relation {body.relation.value}",
                f"released values kept in the ledger: {body.keep}",
                f"dataset: {'none is named' if body.dataset is None else in_line(body.dataset)}",
                f"charged to other scopes as well: {', '.join(body.parents) or 'no'}",
                f"rule for each request: {filter_rule(body.filter)}",
            ]
            if body.instead is not None:
                rules.append(f"or this rule, if the first charge chooses it: {filter_rule(body.instead)}")
            if body.odometer is not None:
                rules.append(f"odometer: {plain(body.odometer)}")
            return rules
        case _:
            assert_never(body)
