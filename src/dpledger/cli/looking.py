"""`dpledger scopes, show, spent`: look at what a ledger file or a bundle says.

A ledger file is read as it is, without a key. A bundle is the word of whoever handed it over: it is verified first,
with the reader's own key, and so is a file where a key or a checkpoint is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpledger.cli import records
from dpledger.cli.entries_in_words import elsewhere, guarantee_in_words, names_of, rows_of
from dpledger.cli.speaking import AsJson, Voice, bounds_in_words, number, speaking

if TYPE_CHECKING:
    from decimal import Decimal

    from dpledger.ledger.accounts.overlap import Together
    from dpledger.ledger.accounts.recomposition import ScopeAccount
    from dpledger.ledger.rules.scope_state import ScopeState, State

__all__ = ["scopes", "show", "spent"]

IN_NO_NUMBER = "what the missing entries charged is not in it"


def scopes(source: records.Record, key: records.Key = None, as_json: AsJson = False) -> None:
    """List the scopes of a ledger or a bundle: whom each protects, its budget, what was spent."""
    with speaking(as_json) as voice:
        from dpledger.ledger.accounts.overlap import same_people
        from dpledger.ledger.accounts.recomposition import accounts
        from dpledger.reports.sections.spending import in_native

        record = records.looked(source, key)
        people = same_people(record.state)
        found = accounts(record.entries, record.state)
        rows = [_account_row(account) for account in found]
        heads = ["scope", "unit", "relation", "budget", "spent (reading)", "admitted", "refused"]
        voice.table("", heads, rows)
        for why in dict.fromkeys(told[1] for account in found if (told := in_native(account)) is not None):
            voice.say(f"used: {why}")
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
    source: records.Record,
    scope: Annotated[str | None, typer.Option(help="The scope to read (default: each).")] = None,
    delta: Annotated[str | None, typer.Option(help="Read at this delta (default: the budget's).")] = None,
    key: records.Key = None,
    as_json: AsJson = False,
) -> None:
    """Read what scopes have spent: an ex-post reading with both bounds. The guarantee is the budget."""
    with speaking(as_json) as voice:
        from dpledger.ledger.accounts.recomposition import accounts

        record = records.looked(source, key)
        found = accounts(record.entries, record.state)
        if scope is None and len(found) > 1:
            voice.give({"scopes": [_said_of(voice, record.state, account, delta) for account in found]})
            return
        name = _only(record.state.scopes) if scope is None else _scope(record.state, scope).scope
        voice.give(_said_of(voice, record.state, next(one for one in found if one.scope == name), delta))


def _said_of(voice: Voice, state: State, account: ScopeAccount, delta: str | None) -> dict[str, Any]:
    """What one scope has spent, said; the same for programs."""
    from dpledger import decimals
    from dpledger.ledger.accounts import readings
    from dpledger.reports.sections.spending import in_native

    name, opened = account.scope, state.scopes[account.scope]
    at = decimals.read(delta, field="delta") if delta is not None else account.delta
    lower, upper = readings.spent(opened, at).lower, account.reading(at)
    left = _left(state, opened)
    words = [one.attested.by for one in account.attested if one.attested is not None]
    native = in_native(account)
    voice.say(f"{name}: spent epsilon at delta {decimals.text(at)}: {bounds_in_words(lower, upper)}")
    if lower < decimals.float_up(upper):
        second = "the second: what all runs were charged" if native is None else "the second: read as below"
        voice.say(f"  the first: at least what the costliest run costs by itself; {second}")
    if lower == 0 and len(words) == sum(one.status != "aborted" for one in account.admissions) > 0:
        voice.say("  the first is 0 because every charge is for a run elsewhere: nothing here shows what it costs")
    if native is not None and lower < decimals.float_up(upper):
        share, why = native
        voice.say(f"  how much is used: {share}; look at this, not at the second bound")
        voice.say(f"  {why}")
    if account.rollback is not None:
        voice.say(f"  the scope was ended by the rollback of entry {account.rollback}: {IN_NO_NUMBER}")
    voice.say(f"  left: {decimals.text(left)}, the most epsilon that one more release may promise by itself")
    if words:
        voice.say(f"  included: {elsewhere(len(words))}, on the word of {names_of(words)}")
    answer: dict[str, Any] = {
        "scope": name,
        "delta": decimals.text(at),
        "epsilon": {"lower": number(lower), "upper": number(upper)},
        "accounts": {
            account_name: {"spent": of, "left": account.left_by_account[account_name]}
            for account_name, of in account.spent_by_account.items()
        },
        "left": {"epsilon": float(decimals.text(left))},
        "attested": {"charges": len(words), "by": sorted(set(words))},
        **({} if account.rollback is None else {"rollback": account.rollback}),
    }
    shown = account.odometer()
    if shown is not None:
        at_most = bounds_in_words(0, shown.epsilon_upper)
        voice.say(f"  odometer, at every moment and at delta {decimals.text(shown.delta)}: {at_most}; no DP guarantee")
        answer["odometer"] = {
            "delta": decimals.text(shown.delta),
            "epsilon": {"upper": number(shown.epsilon_upper)},
        }
    return answer


def show(
    source: records.Record,
    index: Annotated[int | None, typer.Option(help="Show this entry in full.")] = None,
    since: Annotated[
        Path | None, typer.Option(help="A checkpoint, or a bundle, that you kept: list only the entries after it.")
    ] = None,
    key: records.Key = None,
    as_json: AsJson = False,
) -> None:
    """List the entries of a ledger or a bundle, or show one whole."""
    with speaking(as_json) as voice:
        import json

        from dpledger.errors import ParameterError
        from dpledger.ledger.entries.entry import format_entry

        record = records.looked(source, key, since)
        entries = record.entries
        if index is None:
            rows = rows_of(entries)[record.first :]
            voice.table("", ["index", "time", "kind", "scope", "what"], rows)
            if not rows:
                voice.say("no entry follows the checkpoint that you gave")
            voice.give({"entries": [format_entry(entry) for entry in entries[record.first :]]})
            return
        if not 0 <= index < len(entries):
            raise ParameterError("index", index, f"an index below {len(entries)}")
        payload = format_entry(entries[index])
        voice.say(json.dumps(payload, indent=2, sort_keys=True))
        voice.give(payload)


def _scope(state: State, name: str) -> ScopeState:
    from dpledger.errors import ScopeError
    from dpledger.ledger.rules.scope_state import those

    found = state.scopes.get(name)
    if found is None:
        raise ScopeError(f"no scope {name!r} in this ledger, {those(state.scopes)}")
    return found


def _left(state: State, scope: ScopeState) -> Decimal:
    from dpledger import decimals, errors
    from dpledger.ledger.rules import quotes

    try:
        return decimals.RoundsDown(quotes.left(state, scope))
    except errors.ScopeError:  # closed: nothing is admitted
        return decimals.ZERO


def _only(scopes: Iterable[str]) -> str:
    """The scope of a ledger that has no other."""
    from dpledger.errors import ScopeError

    for name in scopes:
        return name
    raise ScopeError("the ledger has no scope yet: somebody opens one in Python (docs/start.md, 2)")


def _spent(account: ScopeAccount) -> str:
    from dpledger.decimals import text
    from dpledger.reports.sections.spending import in_native

    if account.contradiction is not None:
        return account.contradiction
    words = bounds_in_words(account.spent.lower, account.reading(account.delta))
    native = in_native(account)
    used = "" if native is None else f"; used: {native[0]}"
    lost = "" if account.rollback is None else f"; ended by the rollback of entry {account.rollback}, {IN_NO_NUMBER}"
    return f"{words} at delta {text(account.delta)}{used}{lost}"


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
        return f"together there is no bound {whom}: scopes {named}{covered}"
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

    said: dict[str, Any] = {} if account.contradiction is None else {"contradiction": account.contradiction}
    upper = account.spent.upper if account.contradiction is not None else account.reading(account.delta)
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
        **({} if account.rollback is None else {"rollback": account.rollback}),
        "admitted": len(account.admissions),
        "attested": len(account.attested),
        "refused": len(account.refusals),
    }
