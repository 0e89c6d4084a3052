"""An entry in one line of words: the scopes that it is about, what it says, and which entry reserved its charge."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from dpledger.notebooks import inert

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpledger.accounting.guarantees import Guarantee
    from dpledger.ledger.entries.entry import Entry
    from dpledger.ledger.entries.members import Attestation, Fixed, MechanismNote

__all__ = ["elsewhere", "guarantee_in_words", "names_of", "rows_of"]

MOST_NAMED = 5  # people, in a line


def rows_of(entries: Sequence[Entry]) -> list[list[str]]:
    """Each entry of a ledger: its index, time and kind, the scopes that it is about, and what it says."""
    reserved = _reservations(entries)
    return [[str(one.index), one.time or "", one.body.kind, _scopes(one), _summary(one, reserved)] for one in entries]


def names_of(words: list[str]) -> str:
    """Whose words they are, a few of them by name."""
    names = [" ".join(inert(name).split())[:80] for name in sorted(set(words))]
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def elsewhere(count: int) -> str:
    return f"{count:,} charge{'s' if count > 1 else ''} for what ran elsewhere"


def guarantee_in_words(guarantee: Guarantee) -> str:
    from dpledger.accounting.guarantees import words_of

    return words_of(guarantee)


def _fixing(fixed: tuple[Fixed, ...]) -> str:
    """Which scopes have another filter from here on."""
    return "".join(f", first of {one.scope}, which has a {one.filter.kind} filter now" for one in fixed)


def _on_the_word(said: Attestation | None) -> str:
    return "" if said is None else f"; ran elsewhere, attested by {names_of([said.by])}"


def _scopes(entry: Entry) -> str:
    """The scopes that it is charged to, or about."""
    return ", ".join(level.scope for level in getattr(entry.body, "path", ()))


def _reservations(entries: Sequence[Entry]) -> dict[str, str]:
    """By charge: the entry that reserved it, and what for."""
    from dpledger.ledger.entries.bodies import Reserved

    return {
        entry.body.charge: f"entry {entry.index}, {_mechanism(entry.body.mechanism)}"
        for entry in entries
        if isinstance(entry.body, Reserved)
    }


def _id_of(key: str) -> str:
    """The id of a key in its text form."""
    return key.split("+")[1]


def _mechanism(note: MechanismNote) -> str:
    """Its kind; of what nobody named, the library in which it ran."""
    from dpledger.ledger.charging.requests import DECLARED, ELSEWHERE

    named = note.kind != DECLARED or note.library == ELSEWHERE
    return note.kind if named else f"{note.kind} in {note.library}"


def _summary(entry: Entry, reserved: Mapping[str, str]) -> str:
    """`reserved`: what each charge of the ledger is for."""
    from dpledger.ledger.entries.bodies import (
        Aborted,
        Audited,
        Closed,
        Committed,
        Declared,
        Heartbeat,
        Intended,
        KeyDelegated,
        KeyRevoked,
        KeyRotated,
        LedgerOpened,
        Lost,
        OwnerRotated,
        PlanRegistered,
        PolicyChanged,
        Progress,
        Refused,
        Reported,
        Reserved,
        RollbackAccepted,
        ScopeOpened,
        Snapshot,
        Started,
    )

    match entry.body:
        case ScopeOpened(budget=budget):
            return guarantee_in_words(budget)
        case Reserved(mechanism=mechanism, claim=claim, attested=said, fixed=fixed):
            return f"{_mechanism(mechanism)}: {guarantee_in_words(claim)}{_on_the_word(said)}{_fixing(fixed)}"
        case Refused(mechanism=mechanism, claim=claim, attested=said):
            return f"{_mechanism(mechanism)}: {guarantee_in_words(claim)}{_on_the_word(said)}"
        case Progress(upto=upto, charge=charge, replaces=replaces):
            taken = "" if replaces is None else "taken over, "
            return f"{reserved[charge]}: {taken}steps up to {upto} granted"
        case Committed(rule=rule, charge=charge):
            return f"{reserved[charge]}: settled by {rule}"
        case Started(charge=charge) | Aborted(charge=charge) | Lost(charge=charge):
            return reserved[charge]
        case Intended(mechanism=mechanism, trials=trials):
            return f"{mechanism.kind}: {trials:,} runs a side"
        case Audited(mechanism=mechanism, blind=str()):
            return f"{mechanism.kind}: blind"
        case Audited(mechanism=mechanism, verdict=verdict):
            return f"{mechanism.kind}: {verdict}"
        case Declared(item=item, by=by):
            return f"{item}, by {by}"
        case LedgerOpened() | Reported() | Snapshot() | Heartbeat() | Closed():
            return ""
        case RollbackAccepted(size=size, by=by):
            return f"an older copy in place of {size} entries, by {by}; every scope ends"
        case KeyRotated(public_key=key):
            return f"from here on the ledger's key is {_id_of(key)}"
        case KeyDelegated(public_key=key, last=last):
            if key is None:
                return "the ledger's key signs by itself again"
            return f"entries up to {last} are delegated to the key {_id_of(key)}"
        case OwnerRotated(owner_key=key):
            return f"from here on the owner's key is {_id_of(key)}"
        case KeyRevoked(last_trusted=last, reason=reason):
            return f"the key is REVOKED, entries up to {last} are trusted: {inert(reason)}"
        case PlanRegistered() | PolicyChanged():
            return ""
        case _:
            assert_never(entry.body)
