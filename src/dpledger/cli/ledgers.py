"""`dpledger init, scopes, show, spent, verify, export, backup`: make a ledger, look at it, hand it to others, keep it.

Only `init` signs. All others look: they need the right to read the file, no key, and write nothing beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpledger.cli.entries_in_words import guarantee_in_words, names_of, rows_of
from dpledger.cli.speaking import WHICH_KEY, AsJson, bounds_in_words, number, read_checkpoint, remembered, speaking

if TYPE_CHECKING:
    from dpledger.decimals import RoundsDown
    from dpledger.ledger.accounts.people import Together
    from dpledger.ledger.accounts.recomposition import ScopeAccount
    from dpledger.ledger.scope import Scope
    from dpledger.ledger.verifying.verification import Verified

__all__ = ["backup", "export", "init", "scopes", "show", "spent", "verify"]

MOST_LISTED = 20  # scopes, in an error

LedgerFile = Annotated[Path, typer.Argument(help="A ledger file.")]


def init(
    ledger: Annotated[Path, typer.Argument(help="Where the ledger file is to be.")],
    name: Annotated[
        str | None, typer.Option(help="The readable part of the ledger's id (default: the file's name).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a ledger and its keys."""
    with speaking(as_json) as voice:
        from dpledger.ledger.ledger import Ledger
        from dpledger.ledger.signed.keyfiles import KeyFiles

        with Ledger.create(ledger, name=name) as book:
            files = KeyFiles.beside(ledger)
            voice.say(f"created {ledger}: {book.id}")
            voice.say(f"  {files.signing}            signs entries; only you can read it")
            voice.say(f"  {files.public}            verifies them; give it to those who check")
            voice.say(
                f"  {files.recovery}   is for later versions, to revoke a stolen signing key; move it offline now"
            )
            voice.give({"ledger": str(ledger), "id": book.id, "public_key": book.public_key.text})


def scopes(ledger: LedgerFile, as_json: AsJson = False) -> None:
    """List the scopes of a ledger: whom each protects, its budget, what was spent."""
    with speaking(as_json) as voice:
        from dpledger.ledger.accounts.recomposition import accounts
        from dpledger.ledger.ledger import Ledger

        with Ledger.look(ledger) as book:
            people = book.people()
            found = accounts(book.entries(), book.state)
        rows = [_account_row(account) for account in found]
        heads = ["scope", "unit", "relation", "budget", "spent (reading)", "admitted", "refused"]
        voice.table("", heads, rows)
        for group in people.together:
            voice.say(_together(group))
        for apart in people.apart:
            voice.say(f"not added up ({', '.join(apart.scopes)}): {apart.reason}")
        voice.give(
            {
                "scopes": [_account_json(account) for account in found],
                "together": [_together_json(group) for group in people.together],
                "not_added": [{"scopes": list(apart.scopes), "reason": apart.reason} for apart in people.apart],
            }
        )


def spent(
    ledger: LedgerFile,
    scope: Annotated[str | None, typer.Option(help="The scope to read (default: the only one).")] = None,
    delta: Annotated[str | None, typer.Option(help="Read at this delta (default: the budget's).")] = None,
    as_json: AsJson = False,
) -> None:
    """Read what a scope has spent: an ex-post reading with both bounds. The guarantee is the budget."""
    with speaking(as_json) as voice:
        from dpledger import decimals
        from dpledger.ledger.ledger import Ledger

        with Ledger.look(ledger) as book:
            opened = book.scope(_only(book.scopes()) if scope is None else scope)
            account = opened.account()
            at = decimals.read(delta, field="delta") if delta is not None else account.delta
            lower, upper = opened.spent(at).lower, account.reading(at)
            left = _left(opened)
        voice.say(f"{opened.name}: spent epsilon at delta {decimals.text(at)}: {bounds_in_words(lower, upper)}")
        if lower < decimals.float_up(upper):
            voice.say(
                "  the first is what the costliest run costs by itself at least, the second what all were charged"
            )
        voice.say(f"  left: {decimals.text(left)}, the most epsilon that one more release may promise by itself")
        words = [one.attested.by for one in account.attested if one.attested is not None]
        if words:
            voice.say(f"  in it, {_elsewhere(len(words))}, on the word of {names_of(words)}")
        answer: dict[str, Any] = {
            "scope": opened.name,
            "delta": decimals.text(at),
            "epsilon": {"lower": number(lower), "upper": number(upper)},
            "left": {"epsilon": float(decimals.text(left))},
            "attested": {"charges": len(words), "by": sorted(set(words))},
        }
        shown = account.odometer()
        if shown is not None:
            at_most = bounds_in_words(0, shown.epsilon_upper)
            voice.say(
                f"  odometer, at every moment and at delta {decimals.text(shown.delta)}: {at_most}; no DP guarantee"
            )
            answer["odometer"] = {
                "delta": decimals.text(shown.delta),
                "epsilon": {"upper": number(shown.epsilon_upper)},
            }
        voice.give(answer)


def show(
    ledger: LedgerFile,
    index: Annotated[int | None, typer.Option(help="One entry, whole.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the entries of a ledger, or show one whole."""
    with speaking(as_json) as voice:
        import json

        from dpledger.errors import ParameterError
        from dpledger.ledger.entries.entry import format_entry
        from dpledger.ledger.ledger import Ledger

        with Ledger.look(ledger) as book:
            entries = list(book.entries())
        if index is None:
            rows = rows_of(entries)
            voice.table("", ["index", "time", "kind", "scope", "what"], rows)
            voice.give({"entries": [format_entry(entry) for entry in entries]})
            return
        if not 0 <= index < len(entries):
            raise ParameterError("index", index, f"an index below {len(entries)}")
        payload = format_entry(entries[index])
        voice.say(json.dumps(payload, indent=2, sort_keys=True))
        voice.give(payload)


def verify(
    source: Annotated[Path, typer.Argument(help="A ledger file, or the folder of a bundle.")],
    key: Annotated[
        str | None, typer.Option(help="The public key you trust: its text, or a file that holds it. Required.")
    ] = None,
    since: Annotated[Path | None, typer.Option(help="A checkpoint that you kept from before.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only check that these are the signed bytes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a ledger or a bundle offline, against your own copy of the public key."""
    with speaking(as_json) as voice:
        from dpledger.errors import ParameterError
        from dpledger.ledger.signed import checkpoint
        from dpledger.ledger.signed.keyfiles import read_public_key
        from dpledger.ledger.verifying import sources, verification
        from dpledger.progress import bar

        if key is None:
            raise ParameterError("key", "none", WHICH_KEY)
        trusted = read_public_key(key)
        kept = [] if since is None else [read_checkpoint(since, trusted)]
        with sources.opened(source) as record:
            size = checkpoint.verify(record.head, trusted).size
            with bar("verifying", size) as advance:
                if quick:
                    found = verification.verify_quick(record.leaves, record.head, trusted, since=kept)
                else:
                    found = verification.verify(record.leaves, record.head, trusted, since=kept, advance=advance)
        found = remembered(found, since, source)
        voice.say(f"verified ({found.mode}): {_entries(found.head.size)} of {found.head.origin}")
        voice.say(f"  root {found.head.root.hex()}")
        voice.say(f"  {_seen(found)}")
        if found.attested:
            words = [said.by for said in found.attested.values()]
            voice.say(f"  {_elsewhere(len(words))}: priced and settled by the rules; that they ran so is attested, by")
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
    follow = "1 entry follows" if found.unwitnessed == 1 else f"{found.unwitnessed} entries follow"
    return f"{follow} the checkpoint that you gave; that none was cut off after it cannot be seen from the record alone"


def _elsewhere(count: int) -> str:
    return f"{count:,} charge{'s' if count > 1 else ''} for what ran elsewhere"


def _left(scope: Scope) -> RoundsDown:
    from dpledger import decimals, errors

    try:
        return scope.left()
    except errors.ScopeError:  # closed: nothing is admitted
        return decimals.RoundsDown(0)


def _only(scopes: tuple[str, ...]) -> str:
    """The scope that is meant where none is named."""
    from dpledger.errors import ScopeError

    if not scopes:
        raise ScopeError("the ledger has no scope")
    if len(scopes) > 1:
        more = f" and {len(scopes) - MOST_LISTED} more (`dpledger scopes`)" if len(scopes) > MOST_LISTED else ""
        raise ScopeError(f"name one of its scopes with --scope: {', '.join(scopes[:MOST_LISTED])}{more}")
    return scopes[0]


def _spent(account: ScopeAccount) -> str:
    from dpledger.decimals import text

    if account.contradiction is not None:
        return account.contradiction
    words = bounds_in_words(account.spent.lower, account.reading(account.delta))
    return f"{words} at delta {text(account.delta)}"


def _account_row(account: ScopeAccount) -> list[str]:
    return [
        account.scope,
        account.unit.name,
        account.relation.value,
        guarantee_in_words(account.budget),
        _spent(account),
        str(len(account.admissions)) + (f" ({len(account.attested)} attested)" if account.attested else ""),
        str(len(account.refusals)),
    ]


def _together(group: Together) -> str:
    whom = f"for one {group.unit.name} of dataset {group.dataset!r} ({group.relation.value})"
    named, counted = ", ".join(group.scopes), ", ".join(group.counted)
    covered = "" if group.counted == group.scopes else f"; counted: {counted}, which the others are charged to"
    if group.guarantee is None:
        return f"together nothing that holds {whom}: scopes {named}{covered}"
    return f"together at most {guarantee_in_words(group.guarantee)} {whom}: scopes {named}{covered}"


def _together_json(group: Together) -> dict[str, Any]:
    from dpledger.schema import plain

    return {
        "dataset": group.dataset,
        "unit": plain(group.unit),
        "relation": group.relation.value,
        "scopes": list(group.scopes),
        "counted": list(group.counted),
        "guarantee": None if group.guarantee is None else plain(group.guarantee),
    }


def _account_json(account: ScopeAccount) -> dict[str, Any]:
    from dpledger.decimals import text
    from dpledger.schema import plain

    said = {} if account.contradiction is None else {"contradiction": account.contradiction}
    upper = account.spent.upper if said else account.reading(account.delta)
    return {
        **said,
        "scope": account.scope,
        "unit": plain(account.unit),
        "relation": account.relation.value,
        "budget": plain(account.budget),
        "spent": {
            "delta": text(account.delta),
            "epsilon": {"lower": number(account.spent.lower), "upper": number(upper)},
        },
        "left": dict(account.left_by_account),
        "admitted": len(account.admissions),
        "attested": len(account.attested),
        "refused": len(account.refusals),
    }
