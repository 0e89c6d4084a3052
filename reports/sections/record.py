"""The record itself: what was verified, how to repeat it, what a witness has seen, what is new, what it cannot show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dpledger.ledger.entries.bodies import (
    Aborted,
    Audited,
    Committed,
    Declared,
    KeyDelegated,
    KeyRevoked,
    KeyRotated,
    Lost,
    OwnerRotated,
    PolicyChanged,
    Refused,
    Reported,
    Reserved,
    ScopeOpened,
)
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.verifying.verification import Verified
from dpledger.reports import words
from dpledger.reports.grouping import in_entries
from dpledger.reports.model import Item, Items, Prose, Section, unknown, visible

__all__ = ["limits_section", "record_section", "unread_section", "verified_section"]

LAST_SEEN = "Last entry under a checkpoint kept elsewhere"
NONE_GIVEN = "no checkpoint that somebody else keeps was given (--since)"
NOT_READ = "quick verification reads no entry"
MODES = {
    "partial": "in part: every signature and every transition, and every price and claim but those of the entries "
    "named below. Those may be charged too little, so the report gives no number",
    "full": "in full: every signature, every transition, every charge priced again, every claim recomputed from "
    "its parts",
    "quick": "quick: the signature covers these bytes. What they say was not checked, and is not reported",
}
TRUST = (
    "Take the key from its owner, not from the bundle and not from this page: the check is worth no more than the key. "
    "Give the command the bundle, and the key or its file.",
    "A checkpoint is the signed state of a ledger at one moment: how many entries it had, and one fingerprint of them "
    "all (the root). Each bundle has one, in the file “checkpoint”. Keep it, and give it with --since the next time: "
    "the report then shows that nothing before it was cut off or changed.",
)
CHANGED = {
    KeyRotated: "the signing key was replaced by a new one",
    OwnerRotated: "the owner's key was replaced by a new one",
    KeyRevoked: "the recovery key revoked the signing key",
}
POLICIES = {
    "off": "off: no witness is asked",
    "after": "after: witnesses cosign checkpoints after the fact",
    "before": "before: no data is read until a witness has cosigned a checkpoint",
}


# ---- head -----------------------------------------------------------------------------------------------------------


def verified_section(verified: Verified) -> Section:
    """What was verified, with which key, and the command that repeats it."""
    head, key = verified.head, verified.key
    command = f"dpledger verify BUNDLE --key '{key.text}'" + (" --quick" if verified.mode == "quick" else "")
    last = f"entries 0 to {head.size - 1:,}" if head.size else "no entry"
    return Section(
        id="verified",
        heading="What was verified, and how to repeat it",
        about="By which key, up to which entry, with which command; what is new since the previous report.",
        blocks=(
            Items(
                items=(
                    Item(id="verified/mode", label="Verified", text=MODES[verified.mode], value=verified.mode),
                    *_unpriced(verified),
                    Item(id="verified/range", label="Range", text=f"{last} ({head.size:,} in all)", value=head.size),
                    Item(id="verified/key", label="Key", text=f"{key.text} (key id {key.key_id_hex})", value=key.text),
                    Item(
                        id="verified/command",
                        label="Command to repeat it",
                        text=command,
                        value=command,
                    ),
                )
            ),
            Prose(id="verified/trust", lines=TRUST, tone="note"),
            Items(items=_since(verified)),
        ),
    )


def _unpriced(verified: Verified) -> tuple[Item, ...]:
    """The entries whose prices would have taken longer than the verifier was given."""
    if not verified.unpriced:
        return ()
    why = f"prices in {in_entries(verified.unpriced)}: they take longer than the verifier was given (--most-seconds)"
    return (unknown("verified/unpriced", "Not verified", why),)


def _since(verified: Verified) -> tuple[Item, ...]:
    """What is new since the previous report, and since a checkpoint that was given."""
    entries, seen = verified.entries, verified.witnessed
    previous = next((entry for entry in reversed(entries) if isinstance(entry.body, Reported)), None)
    id_, label = "verified/since_previous", "Since the previous report"
    if verified.mode == "quick":
        return (unknown(id_, label, NOT_READ),)
    given: tuple[Item, ...] = ()
    if seen:
        text = f"{words.count(seen, 'entry', 'entries')} then, as they are now; since: {_changes(entries[seen:])}"
        given = (Item(id="verified/since", label="Since the checkpoint that was given", text=text, value=seen),)
    if previous is None or not isinstance(previous.body, Reported):
        return (*given, Item(id=id_, label=label, text="no earlier report is recorded in this ledger"))
    return (
        *given,
        Item(
            id="verified/previous",
            label="Previous report",
            text=f"SHA-256 {previous.body.digest}, recorded in entry {previous.index}",
            value=previous.body.digest,
        ),
        Item(id=id_, label=label, text=_changes(entries[previous.index + 1 :])),
    )


def _changes(entries: Sequence[Entry]) -> str:
    """How much of each kind `entries` hold; of some nothing, and that is said as well."""
    counted = Counter(type(entry.body) for entry in entries)
    return ", ".join(
        (
            words.count(counted[Reserved], "charge"),
            words.count(counted[Committed], "settled charge"),
            words.count(counted[Aborted], "aborted charge"),
            words.count(counted[Refused], "refusal"),
            words.count(counted[ScopeOpened], "new scope"),
            words.count(counted[Declared], "declaration"),
            words.count(counted[Audited], "audit"),
            words.count(counted[PolicyChanged], "change of a budget or policy", "changes of budgets or policies"),
            words.count(
                sum(counted[kind] for kind in (KeyRotated, KeyDelegated, OwnerRotated, KeyRevoked)),
                "change of a key",
                "changes of keys",
            ),
        )
    )


# ---- ours -----------------------------------------------------------------------------------------------------------


def record_section(verified: Verified) -> Section:
    """The ledger's own items."""
    items = [
        Item(id="record/ledger", label="Ledger", text=verified.head.origin, value=verified.head.origin),
        Item(id="record/root", label="Root", text=verified.head.root.hex(), value=verified.head.root.hex()),
        *_witness(verified),
        _predecessor(verified),
        _keys(verified),
        *_open(verified),
    ]
    return Section(
        id="record",
        heading="The record",
        about="Ledger, root, witness, predecessor, changes of keys; what was never settled.",
        blocks=(Items(items=(*items, *_kinds(verified.entries))),),
    )


def _witness(verified: Verified) -> tuple[Item, ...]:
    opened, size, seen = verified.state.opened, verified.head.size, verified.witnessed
    policy = (
        unknown("record/witness_policy", "Witness policy", "the first entry was not read")
        if opened is None
        else Item(
            id="record/witness_policy", label="Witness policy", text=POLICIES[opened.witness], value=opened.witness
        )
    )
    why = "the one given came with this record, or is as new as it" if verified.is_own else NONE_GIVEN
    last = (
        unknown("record/witnessed", LAST_SEEN, f"none: {why}")
        if seen == 0
        else Item(id="record/witnessed", label=LAST_SEEN, text=f"{seen - 1:,}", value=seen - 1)
    )
    after = Item(
        id="record/after_witness",
        label="Entries after it",
        text=f"{size - seen:,}; whoever holds the key could still cut or rewrite them unseen",
        value=size - seen,
    )
    by = tuple(
        Item(
            id=f"record/seen/{one.key.key_id.hex()}",
            label="Cosigned by",
            text=f"{visible(one.key.name)}, {one.moment} by its clock (key {one.key.key_id.hex()})",
            value=one.key.text,
        )
        for one in verified.seen
    )
    return policy, last, *by, after


def _predecessor(verified: Verified) -> Item:
    id_, label = "record/predecessor", "Predecessor"
    opened = verified.state.opened
    if opened is None:
        return unknown(id_, label, "the first entry was not read")
    if opened.continues is None:
        return Item(id=id_, label=label, text="none: this ledger continues no other")
    before = opened.continues
    return Item(
        id=id_,
        label=label,
        text=f"{before.ledger}, last known checkpoint of {before.size:,} entries, root {before.root}; what it held "
        "after that is lost",
    )


def _keys(verified: Verified) -> Item:
    """Where keys were replaced, lent to others, or revoked."""
    id_, label = "record/keys", "Changes of keys"
    if verified.mode == "quick":
        return unknown(id_, label, NOT_READ)
    found: dict[str, list[int]] = {}
    for entry in verified.entries:
        if isinstance(entry.body, KeyDelegated):
            what = (
                "another key signs for it until an entry that is named"
                if entry.body.public_key
                else "it signs itself again"
            )
            found.setdefault(what, []).append(entry.index)
        elif isinstance(entry.body, KeyRotated | OwnerRotated | KeyRevoked):
            found.setdefault(CHANGED[type(entry.body)], []).append(entry.index)
    told = "; ".join(f"{what} ({in_entries(places)})" for what, places in found.items())
    return Item(id=id_, label=label, text=told or "none: the keys are those of the first entry")


def _open(verified: Verified) -> tuple[Item, ...]:
    if verified.mode == "quick":
        return (unknown("record/open", "Charges not settled", NOT_READ),)
    waiting = len(verified.state.open)
    lost = [entry.index for entry in verified.entries if isinstance(entry.body, Lost)]
    refused = [entry.index for entry in verified.entries if isinstance(entry.body, Refused)]
    noted = f", noted in {in_entries(lost)}" if lost else ""
    return (
        Item(
            id="record/open",
            label="Charges not settled",
            text=f"{waiting:,}; each is counted at its cap" if waiting else "none",
            value=waiting,
        ),
        Item(
            id="record/crashes",
            label="Charges noted as lost (crashes)",
            text=f"{len(lost):,}{noted}" if lost else "none was noted",
            value=len(lost),
        ),
        Item(
            id="record/refused",
            label="Refusals",
            text=f"{len(refused):,}, in {in_entries(refused)}" if refused else "none",
            value=len(refused),
        ),
    )


def _kinds(entries: tuple[Entry, ...]) -> tuple[Item, ...]:
    counted = Counter(entry.body.kind for entry in entries)
    told = ", ".join(f"{number:,} {words.name(kind)}" for kind, number in sorted(counted.items()))
    return (Item(id="record/kinds", label="Entries by kind", text=told),) if told else ()


def unread_section() -> Section:
    """What a report on a quick verification cannot say."""
    missing = (("scopes", "Scopes, releases, refusals"), ("audits", "Audits"), ("declared", "Declarations"))
    items = tuple(unknown(f"unread/{what}", label, NOT_READ) for what, label in missing)
    return Section(
        id="unread",
        heading="What was not read",
        about="Quick verification checks bytes, not what they say.",
        blocks=(Items(items=items),),
    )


# ---- what is not shown ----------------------------------------------------------------------------------------------

NOT_SHOWN = (
    "That every release from the data went through this ledger. It proves what was recorded, not what was left out.",
    "That a declared sensitivity, unit or contribution bound is right. Whoever declared it answers for it.",
    "That declared items are true. They are the word of the person named beside them.",
    "That no second copy of the ledger exists, or that its end was not cut off, after the last checkpoint that "
    "somebody else keeps.",
    "That the code which ran is the code which was reviewed, or that the machine it ran on was sound.",
    "That a mechanism is private because no audit refuted it.",
    "What was released: no value and no data is in a signed entry, in a bundle or in this report. The operator's file "
    "may keep released values beside the entries.",
    "Whether the processing is lawful, fair or wise. Those are decisions of people; this report supplies evidence "
    "and gaps.",
)


def limits_section() -> Section:
    """What no report from a ledger can show. The same text in every report."""
    return Section(
        id="limits",
        heading="What this report does not show",
        about="The same in every report: what no ledger can prove.",
        blocks=(Prose(id="limits/not_shown", lines=NOT_SHOWN),),
    )
