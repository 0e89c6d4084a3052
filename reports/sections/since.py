"""What is new since a checkpoint that somebody kept, or since the previous report.

Charges with their price and on whose word, budgets, refusals, audits, changed declarations; and what each scope had
spent then and has now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

from dpledger.decimals import INFINITY, ZERO
from dpledger.ledger.accounts.recomposition import Admission, ScopeAccount
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
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.verifying.verification import Verified
from dpledger.reports import words
from dpledger.reports.certified import CertifiedProfiles
from dpledger.reports.grouping import Alike, grouped, in_entries, indices, keys
from dpledger.reports.model import Cell, Column, Prose, Section, Table, Tone, visible
from dpledger.reports.sections.declared import COPIED, Declaration, Declarations, label
from dpledger.reports.sections.openings import Openings
from dpledger.reports.sections.runs import price_of_each
from dpledger.reports.sections.scopes import Scopes
from dpledger.reports.sections.spending import has_changed, reading_before, upper

__all__ = ["first_new", "since_section"]

HERE, NOT_NAMED = "asked for here", "the entry names nobody"
FIRST, FILLED = "said for the first time", "filled in, in place of the sample's words"
CHANGED, AGAIN = "changed", "said again"
AS_SAMPLE = f"in {COPIED}"
LONGEST = 300  # characters of a reason, or of words that were replaced


@dataclass(frozen=True, slots=True)
class _News:
    """An entry that says something new. `amount`: its price in `account`; `told`: what stands in its place where there
    is none."""

    index: int
    what: str
    of: str
    scope: str = ""
    note: str = ""
    key: str = ""
    amount: Decimal | None = None
    account: str = ""
    told: str = ""
    by: str = NOT_NAMED
    tone: Tone = "plain"


def first_new(verified: Verified) -> int | None:
    """The first entry that is new: after the checkpoint that was given, else after the previous report; None where
    there is neither, or nothing was read."""
    if verified.mode == "quick":
        return None
    if verified.witnessed:
        return verified.witnessed
    reports = [entry.index for entry in verified.entries if isinstance(entry.body, Reported)]
    return reports[-1] + 1 if reports else None


def since_section(
    verified: Verified,
    entries: Sequence[Entry],
    scopes: Scopes,
    declarations: Declarations,
) -> tuple[Section, ...]:
    """The annex on what is new in `entries`, those that the report is about; none where there is nothing to hold the
    record against."""
    first = first_new(verified)
    if first is None:
        return ()
    then = "the checkpoint that was given" if verified.witnessed else "the previous report"
    new = [entry for entry in entries if entry.index >= first]
    if not new:
        line = f"No entry follows {then}: the record is as it was."
        nothing = (Prose(id="since/nothing", lines=(line,), tone="note"),)
        about = "Whether any entry came after it."
        return (Section(id="since", heading=f"What is new since {then}", about=about, blocks=nothing),)
    return (
        Section(
            id="since",
            heading=f"What is new since {then}",
            about="What each scope had spent then and has now; charges, budgets, refusals, audits and words since.",
            blocks=(
                _spent(scopes.accounts, scopes.openings, first),
                _events(new, scopes.accounts, first, scopes.engine),
                _words(new, declarations, Declarations(entry for entry in entries if entry.index < first)),
            ),
        ),
    )


# ---- what was spent -------------------------------------------------------------------------------------------------


def _spent(accounts: Sequence[ScopeAccount], openings: Openings, first: int) -> Table:
    changed = [one for one in accounts if openings.index(one.scope) >= first or has_changed(one, first)]
    still = len(accounts) - len(changed)
    return Table(
        id="since/spent",
        caption="What each scope had spent then, and has now"
        + (f"; in {words.count(still, 'other scope')} nothing changed" if still and changed else ""),
        columns=(
            Column("Scope"),
            Column("Spent then (reading)", numeric=True),
            Column("Spent now (reading)", numeric=True),
            Column("Admitted since", numeric=True),
            Column("Refused since", numeric=True),
        ),
        rows=tuple(_spent_row(account, openings, first) for account in changed),
        empty="Nothing changed in any scope.",
    )


def _spent_row(account: ScopeAccount, openings: Openings, first: int) -> tuple[Cell, ...]:
    admitted = sum(one.index >= first for one in account.admissions)
    refused = sum(one.index >= first for one in account.refusals)
    is_new = openings.index(account.scope) >= first
    return (
        Cell(account.scope, account.scope),
        Cell("not open yet") if is_new else _reading(account, reading_before(account, first)),
        _reading(account, upper(account)),
        Cell(f"{admitted:,}", admitted),
        Cell(f"{refused:,}", refused),
    )


def _reading(account: ScopeAccount, found: Decimal) -> Cell:
    at = f"at δ = {words.at_most(account.delta)}"
    return Cell("no bound" if found == INFINITY else f"ε ≤ {words.at_most(found)}", found, note=at)


# ---- what happened --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Charge:
    """A charge at the scope where it was asked for."""

    admission: Admission
    account: ScopeAccount
    engine: CertifiedProfiles

    def begun(self) -> _News:
        """Its reservation, with what became of it."""
        one = self.admission
        what = {"reserved": "charged, not settled", "started": "charged, not settled", "committed": "charged"}
        return self._news(one.index, what.get(one.status, "given back"), f"claims {self._claim()}")

    def ended(self, place: int) -> _News:
        """Its end in entry `place`, where it was reserved before."""
        one = self.admission
        before = one.reserved.get(one.account)
        note = f"charged in entry {one.index}" + ("" if before is None else f" at {words.at_most(before)}")
        return self._news(place, "given back" if one.status == "aborted" else "settled", note)

    def _news(self, place: int, what: str, note: str) -> _News:
        one = self.admission
        amount = ZERO if one.status == "aborted" else one.charged.get(one.account)
        by = HERE if one.attested is None else f"{visible(one.attested.by, 200)}, of a run elsewhere"
        return _News(place, what, words.tag(one.mechanism.kind), one.scope, note, one.key, amount, one.account, by=by)

    def _claim(self) -> str:
        """The claim, and the epsilon that it is by itself, where it is told in another currency."""
        claim, account = self.admission.claim, self.account
        native = words.guarantee(claim)
        if claim.is_point:
            return native
        epsilon = self.engine.claimed_epsilon(claim, account.relation, account.delta)
        if epsilon is None:
            return native
        return f"{native}, alone ε ≤ {words.at_most(epsilon)} at δ = {words.at_most(account.delta)}"


def _events(new: Sequence[Entry], accounts: Sequence[ScopeAccount], first: int, engine: CertifiedProfiles) -> Table:
    charges = {
        one.charge: _Charge(one, account, engine)
        for account in accounts
        for one in account.admissions
        if one.scope == account.scope
    }
    found = grouped(
        (news for entry in new for news in _news(entry, charges, first)),
        exact=lambda one: (one.what, one.of, one.scope, one.note, one.amount, one.account, one.told, one.by),
        coarse=lambda one: (one.what, one.of, one.scope, one.account, one.by),
    )
    return Table(
        id="since/events",
        caption="What was charged, opened, refused and audited since",
        columns=(
            Column("What"),
            Column("Of what"),
            Column("Scope"),
            Column("Entries"),
            Column("Price, each", numeric=True),
            Column("By whom"),
        ),
        rows=tuple(_event(group) for group in found),
        empty="Nothing was charged, opened, refused or audited.",
    )


def _event(group: Alike[_News]) -> tuple[Cell, ...]:
    first = group.first
    named = keys(one.key for one in group.members if one.key)
    note = first.note if group.alike else "differs: see the entries"
    account = f"in the {words.account(first.account)}" if first.account else ""
    return (
        Cell(group.times(first.what), first.what, tone=first.tone),
        Cell(first.of, note="; ".join(part for part in (named, note) if part)),
        Cell(first.scope or "the ledger"),
        Cell(indices([one.index for one in group.members]), len(group.members)),
        price_of_each([one.amount for one in group.members], account) if first.account else Cell(first.told),
        Cell(first.by),
    )


def _news(entry: Entry, charges: Mapping[str, _Charge], first: int) -> Iterator[_News]:
    place = entry.index
    match entry.body:
        case Reserved(charge=charge):
            yield charges[charge].begun()
        case Committed(charge=charge) | Aborted(charge=charge):
            if charges[charge].admission.index < first and charges[charge].admission.ended == place:
                yield charges[charge].ended(place)
        case Lost(charge=charge, note=note):
            one = charges[charge].admission
            yield _News(place, "noted as lost", words.tag(one.mechanism.kind), one.scope, visible(note, LONGEST))
        case Refused(mechanism=mechanism, claim=claim, level=level, key=key, attested=said):
            by = HERE if said is None else visible(said.by, 200)
            asked = f"asked for {words.guarantee(claim)}"
            yield _News(place, "refused", words.tag(mechanism.kind), level, asked, key, told="nothing", by=by)
        case ScopeOpened(path=path, budget=budget, unit=unit, relation=relation, dataset=dataset):
            data = "" if dataset is None else f"; {visible(dataset, LONGEST)}"
            whom = f"for one {unit.name}, {words.relation_name(relation)}{data}"
            yield _News(place, "budget opened", words.guarantee(budget), path[0].scope, whom)
        case Intended(mechanism=mechanism, trials=trials, path=path):
            scopes = ", ".join(level.scope for level in path) or "none is named"
            told = f"at most {trials:,} runs a side"
            yield _News(place, "audit intended", words.tag(mechanism.kind), scopes, told=told)
        case Audited() as body:
            yield _audit(place, body)
        case PolicyChanged(reason=reason, path=path):
            yield _News(place, "budget or policy changed", visible(reason, LONGEST), path[0].scope if path else "")
        case Closed(reason=reason, path=path):
            yield _News(place, "closed", visible(reason, LONGEST), ", ".join(level.scope for level in path))
        case RollbackAccepted(size=size, reason=reason):
            what = f"{size} entries had been seen: {visible(reason, LONGEST)}"
            yield _News(place, "continued from an older copy", what, tone="warning")
        case KeyRotated():
            yield _News(place, "key replaced", "the ledger's signing key")
        case OwnerRotated():
            yield _News(place, "key replaced", "the owner's key")
        case KeyRevoked(reason=reason, last_trusted=last):
            what = f"entries after {last} may be anybody's: {visible(reason, LONGEST)}"
            yield _News(place, "key revoked", what, tone="warning")
        case Reported(digest=digest):
            yield _News(place, "report recorded", f"SHA-256 {digest}")
        case LedgerOpened() | Started() | Progress() | Declared() | Snapshot() | Heartbeat():
            pass
        case PlanRegistered() | KeyDelegated():
            pass
        case _:
            assert_never(entry.body)


def _audit(place: int, body: Audited) -> _News:
    is_wrong = body.verdict == "violation"
    return _News(
        place,
        "violation" if is_wrong else "audited, not refuted" if body.blind is None else "an audit that saw nothing",
        words.tag(body.mechanism.kind),
        ", ".join(level.scope for level in body.path) or "none is named",
        f"claims {words.guarantee(body.claim)}" if body.blind is None else visible(body.blind, LONGEST),
        told=f"ε ≥ {words.at_least(body.epsilon_lower)} at δ = {words.at_most(body.delta)}",
        tone="warning" if is_wrong else "plain",
    )


# ---- what people said -----------------------------------------------------------------------------------------------


def _words(new: Sequence[Entry], now: Declarations, then: Declarations) -> Table:
    """Items that say something else than they did: those that changed in a row each, the others by who said them."""
    said = {entry.index for entry in new if isinstance(entry.body, Declared)}
    found = [(one, _how(one, then.at(one))) for one in now.last() if one.index in said]
    groups = grouped(
        (pair for pair in found if pair[1] != AGAIN),
        exact=lambda pair: (pair[1], pair[0].speaker(80), pair[0].index if pair[1] == CHANGED else None),
        coarse=lambda pair: pair[1],
    )
    return Table(
        id="since/words",
        caption="Items whose words are new",
        columns=(Column("What"), Column("Items"), Column("By"), Column("Entries")),
        rows=tuple(_said(group, then) for group in sorted(groups, key=lambda group: group.first[1] != CHANGED)),
        empty="No item changed.",
    )


def _how(one: Declaration, before: Declaration | None) -> str:
    if one.is_copied:
        return AS_SAMPLE if before is None or not before.is_copied else AGAIN
    if before is None:
        return FIRST
    if before.is_copied:
        return FILLED
    return AGAIN if (before.body.text, before.body.by) == (one.body.text, one.body.by) else CHANGED


def _said(group: Alike[tuple[Declaration, str]], then: Declarations) -> tuple[Cell, ...]:
    (one, how), members = group.first, [member for member, _ in group.members]
    items = ", ".join(label(member.body.item) + (f" ({member.scope})" if member.scope else "") for member in members)
    before = then.at(one) if how == CHANGED and group.alike else None
    note = "" if before is None else f"in {in_entries([before.index])}: {visible(before.body.text, LONGEST)}"
    link = one.item("").id if len(members) == 1 else ""
    return (
        Cell(group.times(how), how),
        Cell(items, note=note, link=link),
        Cell(one.speaker(80) if group.alike else "differs: see the entries", status="declared"),
        Cell(indices([member.index for member in members]), len(members)),
    )
