"""Whether the record is whole, what audits found of what ran here, why a request was refused last, what is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dpledger.ledger.entries.bodies import KeyRevoked, Refused, RollbackAccepted
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.verifying.verification import Verified
from dpledger.reports import words
from dpledger.reports.first_page.plain import budget_named, plain, plainly, unit_of
from dpledger.reports.grouping import in_entries
from dpledger.reports.model import Answer, Cell, Item, Items, Link, Section, Table, blocks, visible
from dpledger.reports.sections.declared import COPIED, ITEMS, REQUIRED, Declarations, label
from dpledger.reports.sections.several import SCOPE
from dpledger.reports.sections.since import first_new
from dpledger.reports.tested import (
    AuditEntry,
    Audits,
    IntendedEntry,
    RunsAndAudits,
    TestedKinds,
    blind_reasons,
)

__all__ = ["audited", "gaps", "last_refusal", "record"]

MOST = 4  # gaps that are named; the others are counted
ANNEX_OF_RECORD = (Link("what was verified, and how to repeat it", "verified"),)


# ---- the record -----------------------------------------------------------------------------------------------------


def record(verified: Verified) -> Answer:
    """What was verified: by which key, since when, and what a witness has seen of it."""
    size = verified.head.size
    missing = tuple(_missing(verified.entries))
    how, checked = _checked(verified)
    found = f"{words.count(size, 'entry', 'entries')}, {how}"
    return Answer(
        id="first_page/record",
        question="Is the record whole?",
        text=f"no: {found}; others are missing, or cannot be trusted" if missing else found,
        lines=(*missing, checked, *_approved(verified), *_since(verified.entries), _seen(verified)),
        status="measured" if verified.mode == "full" and not missing else "unknown",
        tone="warning" if missing or verified.mode == "partial" else "plain",
        links=(*ANNEX_OF_RECORD, *(() if first_new(verified) is None else (Link("what is new", "since"),))),
    )


def _checked(verified: Verified) -> tuple[str, str]:
    """How far the record was verified, in two words and in a sentence."""
    key = f"key {verified.key.key_id_hex}"
    match verified.mode:
        case "full":
            return "verified in full", f"Every signature, transition and price was checked against {key}."
        case "partial":
            checked = f"Every signature and transition was checked against {key}, and every price but those of"
            return "verified in part", f"{checked} {in_entries(verified.unpriced)}: those take longer than was allowed."
        case "quick":
            return "their bytes only", f"A quick check: {key} signed these bytes. What they say was not checked."
        case _:
            assert_never(verified.mode)


def _approved(verified: Verified) -> tuple[str, ...]:
    """Whose second key opened the scopes."""
    authority = verified.state.authority
    if authority is None or authority.owner is None:
        return ()
    owner, former = authority.owner, len(authority.owners) - 1
    before = f", or one of the {former} owner's keys before it," if former else ""
    return (
        f"The owner's key {owner.key_id_hex} ({visible(owner.name)}){before} approved each budget. Whoever spends "
        "cannot open a budget alone.",
    )


def _missing(entries: Sequence[Entry]) -> Iterator[str]:
    """What was lost where the ledger went on from an older copy, and what may be anybody's."""
    for entry in entries:
        if isinstance(entry.body, KeyRevoked):
            yield (
                f"Entry {entry.index:,}, signed with the recovery key, REVOKES the signing key. Somebody else may have "
                f"written the entries after {entry.body.last_trusted:,}. This report counts their charges and ignores "
                "their refunds."
            )
        if isinstance(entry.body, RollbackAccepted):
            yield (
                f"The ledger was continued from an older copy (entry {entry.index:,}, by {visible(entry.body.by)}). "
                f"A copy with {entry.body.size:,} entries had been seen. No number here includes what the missing "
                "entries charged."
            )


def _since(entries: Sequence[Entry]) -> tuple[str, ...]:
    times = [entry.time for entry in entries if entry.time]
    return (f"From {times[0]} to {times[-1]}, by the operator's clock.",) if times else ()


def _seen(verified: Verified) -> str:
    size, seen = verified.head.size, verified.witnessed
    if verified.is_own:
        return (
            "The checkpoint given came with this record, or is as new as it, so it shows nothing about earlier copies. "
            "Nothing shows that the end was not cut off, or the ledger begun again."
        )
    if not seen:
        return (
            "No checkpoint kept elsewhere was given, so nothing shows that the end was not cut off, or the ledger "
            "begun again. (A checkpoint is a ledger's size and fingerprint, signed.)"
        )
    rest = size - seen
    if verified.seen:
        by = ", ".join(visible(one.key.name) for one in verified.seen)
        after = f". None of them saw the {words.count(rest, 'entry', 'entries')} after it" if rest else ""
        return f"Witnesses saw it up to entry {seen - 1:,}, {verified.seen[0].moment}: {by}{after}."
    after = f". The {words.count(rest, 'entry', 'entries')} after it could still be cut or rewritten" if rest else ""
    return f"A checkpoint kept elsewhere shows that nothing up to entry {seen - 1:,} was changed{after}."


# ---- audits ---------------------------------------------------------------------------------------------------------


def audited(entries: Sequence[Entry]) -> Answer:
    """The verdicts on kinds of mechanisms that ran in this ledger, and those on others that are about what is charged
    in it, where a violation warns as well; those that nothing ties to it are counted apart."""
    known = RunsAndAudits(entries)
    ran, audits, there, tests = known.kinds, known.told_apart, known.elsewhere, known.tests
    violations = tuple(_found_wrong(audits))
    lines = [f"{_capital(how)}: {_of(some)}." for some, how in _concerning(audits) if not _all_violations(some)]
    lines += _not_all(known)
    if tests.never:
        lines.append(f"Never audited: {_listed(plainly(tests.never, ran))}.")
    for kind, why in blind_reasons(audits, tests.never).items():
        lines.append(f"An audit of {plain(kind)} could see nothing: {visible(why, 200)}.")
    if distant := [one for one in (*audits.here, *audits.concerning) if one.body.apart is not None]:
        lines.append(f"On data that differ by more than one unit, if they are rows: {_of(distant)}.")
    if left := known.unfinished:
        lines += _unfinished(left)
    untied = tuple(one for one in audits.apart if one.body.verdict == "violation")
    if untied:
        found = f"{words.count(len(untied), 'violation')} of what nothing ties to this ledger: {_kinds(untied)}"
        lines.append(f"{found}. If it ran here under another name, its promise is refuted.")
    if harmless := len(audits.apart) - len(untied):
        told = words.count(harmless, "audit")
        lines.append(f"An annex lists audits of mechanisms whose names did not run here: {told}, nothing refuted.")
    if there.never:
        lines.append(f"{words.count(len(there.never), 'run')} elsewhere never audited.")
    if there.named:
        told = there.outcome(there.named)
        lines.append(f"{words.count(len(there.named), 'run')} elsewhere audited by name alone{told}.")
    if audits.here or audits.concerning:
        lines.append("Not refuted does not mean proved.")
    if not lines:
        lines.append("No run and no audit is recorded.")
    untested = ran or there.never or there.named
    return Answer(
        id="first_page/audits",
        question="What did audits find of what ran here?",
        text=_verdict(ran, tests, violations),
        lines=tuple(lines),
        status="unknown" if untested and not tests.is_any and not violations else "measured",
        tone="warning" if tests.refuted or violations else "plain",
        links=(Link("each audit", "audits"),),
    )


def _not_all(known: RunsAndAudits) -> Iterator[str]:
    """What audits of kinds that ran here say of a part of it alone, or of nothing of it."""
    ran, tests = known.kinds, known.tests
    for kind, (some, of) in sorted(tests.partly.items()):
        yield f"Tested in part: {plainly([kind], ran)[0]}, {some:,} of the {of:,} ways in which it ran here."
    why_not = [
        f"{words.count(len(audits), 'audit')} {why} ({_kinds(audits, ran)})"
        for why, audits in sorted(tests.uncounted.items())
    ]
    if why_not:
        yield f"No test of what ran here: {'; '.join(why_not)}."


def _unfinished(left: Sequence[IntendedEntry]) -> Iterator[str]:
    """Audits without a result, and those that ended early."""
    never = [one for one in left if one.found is None]
    if never:
        names = _listed(plainly(one.body.mechanism.kind for one in never))
        yield f"Intended but never finished: {words.count(len(never), 'audit')} ({names})."
    told = [f"{plain(one.body.mechanism.kind)}, {one.early}" for one in left if one.early]
    if told:
        more = f"; {len(told) - MOST:,} more" if len(told) > MOST else ""
        yield f"Ended early, so not finished: {'; '.join(told[:MOST])}{more}."


def _verdict(ran: frozenset[str], tests: TestedKinds, violations: Sequence[str]) -> str:
    refuted = plainly(tests.refuted, ran)
    found = [*([f"refuted: {_listed(refuted)}"] if refuted else []), *violations]
    if found:
        return "; ".join(found)
    if not ran:
        return "nothing ran here"
    if not tests.is_any:
        return "no audit that counts" if tests.uncounted else "no audit"
    part = f", {len(tests.partly):,} in part" if tests.partly else ""
    return f"{len(tests.tested):,} of {words.count(len(ran), 'kind')} tested{part}, none refuted"


def _concerning(audits: Audits) -> tuple[tuple[tuple[AuditEntry, ...], str], ...]:
    """Audits of no kind that ran here, which are about what is charged here all the same, and how they are."""
    told = (
        (audits.charged, "of a run elsewhere that is charged here"),
        (audits.named, "under the name of a run elsewhere"),
        (audits.about, f"about {_budgets(audits.about)}, of something that did not run here"),
    )
    return tuple((some, how) for some, how in told if some)


def _found_wrong(audits: Audits) -> Iterator[str]:
    """The violations among them, each group by how it concerns this ledger and what was audited."""
    for some, how in _concerning(audits):
        wrong = [one for one in some if one.body.verdict == "violation"]
        if wrong:
            yield f"{words.count(len(wrong), 'violation')}, {how}: {_kinds(wrong)}"


def _all_violations(audits: Sequence[AuditEntry]) -> bool:
    """Then the answer has told all of them."""
    return _violations(audits) == len(audits)


def _violations(audits: Sequence[AuditEntry]) -> int:
    return sum(one.body.verdict == "violation" for one in audits)


def _counted(audits: Sequence[AuditEntry]) -> str:
    refuted = _violations(audits)
    if not refuted:
        return words.count(len(audits), "audit")
    if len(audits) == 1:
        return "1 audit, a violation"
    return f"{len(audits):,} audits, {refuted:,} of them {'a violation' if refuted == 1 else 'violations'}"


def _of(audits: Sequence[AuditEntry]) -> str:
    return f"{_counted(audits)} ({_kinds(audits)})"


def _kinds(audits: Sequence[AuditEntry], among: Iterable[str] = ()) -> str:
    return _listed(plainly((one.body.mechanism.kind for one in audits), among))


def _budgets(audits: Sequence[AuditEntry]) -> str:
    """The budgets that they are about; one that is about a charge alone is about this ledger."""
    found = sorted({scope for one in audits for scope in one.scopes})
    more = f" and {len(found) - MOST:,} more" if len(found) > MOST else ""
    return budget_named(*found[:MOST]) + more if found else "a charge of this ledger"


def _listed(found: Sequence[str]) -> str:
    more = len(found) - MOST
    return ", ".join(found[:MOST]) + (f" and {more:,} more" if more > 0 else "")


# ---- refusals -------------------------------------------------------------------------------------------------------


def last_refusal(entries: Sequence[Entry]) -> Answer:
    """The last request that a budget did not admit, and in one line why."""
    id_, question = "first_page/refusal", "What was refused last, and why?"
    refused = [(entry.index, entry.body) for entry in entries if isinstance(entry.body, Refused)]
    if not refused:
        return Answer(id=id_, question=question, text="nothing", lines=("no request was refused",))
    index, last = refused[-1]
    elsewhere = sum(body.attested is not None for _, body in refused)
    of_here = "none read data or spent anything" if not elsewhere else "nothing was charged for them"
    others = f"{words.count(len(refused), 'refusal')} in all; {of_here}."
    if elsewhere:
        others += f" Of runs elsewhere: {elsewhere:,}. What of them ran all the same, no number on this page covers."
    return Answer(
        id=id_,
        question=question,
        text=_capital(plain(last.mechanism.kind)),
        lines=(f"Entry {index}, {budget_named(last.level)}: {_reason(last)}.", others),
        links=(Link("all refusals", "stopped"),),
        tone="warning" if elsewhere else "plain",
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _reason(body: Refused) -> str:
    """The account that was furthest from admitting it: what was asked of it, and what was left. Each must admit it, but
    for pure epsilons where a mixed account counts them too."""
    counted = [name for name in body.asked if name != "pure" or "mixed" not in body.asked]
    _, name = max((_excess(body.asked[name], body.left[name]), name) for name in counted)
    if body.asked[name].is_infinite():
        return f"no theorem gives it a price in {unit_of(name)}"
    asked, left = words.at_most(body.asked[name]), words.at_least(body.left[name])
    return f"it asked for {asked} of {unit_of(name)}, and {left} was left"


def _excess(asked: Decimal, left: Decimal) -> Fraction:
    """How much more was asked than was left, as a share of what was asked; above all shares where there is no price."""
    if asked.is_infinite():
        return Fraction(2)
    return (Fraction(asked) - Fraction(left)) / Fraction(asked) if asked > left else Fraction(0)


# ---- what nobody has said -------------------------------------------------------------------------------------------


def gaps(declarations: Declarations, sections: tuple[Section, ...], scopes: frozenset[str]) -> Answer:
    """What is not known: items that nobody declared, the required ones first, and what the record cannot show of
    `scopes`, counted and linked."""
    missing, copied = declarations.missing, declarations.copied
    unsaid = [item for item in ITEMS if item in missing or item in copied]
    needed = [item for item in unsaid if item in REQUIRED]
    places = tuple(_unknown(sections, scopes))
    lines = [
        *_undeclared("required", REQUIRED, missing, copied),
        *_undeclared("optional", tuple(item for item in ITEMS if item not in REQUIRED), missing, copied),
        f"{words.count(len(places), 'further answer')} unknown: neither the record nor anybody says."
        if places
        else "Nothing else is marked unknown.",
    ]
    found = len(unsaid) + len(places)
    shown = {place.label: place for place in reversed(places)}
    named = [*needed, *(item for item in unsaid if item not in needed)][:MOST]
    links = [*(_declared(item, declarations) for item in named), *list(shown.values())[::-1][:MOST]]
    required = (
        f"{len(needed)} of the {len(REQUIRED)} required items"
        if needed
        else f"{words.count(found, 'gap')}, nothing required"
    )
    return Answer(
        id="first_page/gaps",
        question="What is not known?",
        text=required if found else "no gap was found",
        lines=(*lines, "The full report also lists what a ledger can never show."),
        status="unknown" if found else "measured",
        links=tuple(links),
    )


def _undeclared(kind: str, items: Sequence[str], missing: Sequence[str], copied: Sequence[str]) -> Iterator[str]:
    """How many of the items that people declare nobody has said."""
    unsaid, as_sample = len(set(items) & set(missing)), len(set(items) & set(copied))
    if unsaid:
        yield f"Not declared: {unsaid} of {len(items)} {kind} items."
    if as_sample:
        yield f"In {COPIED}: {as_sample} of {len(items)} {kind} items."
    if not unsaid and not as_sample:
        yield f"All {len(items)} {kind} items are declared."


def _declared(item: str, declarations: Declarations) -> Link:
    """The place of an item of the list: of the first declaration of it in the sample's words, where there is one."""
    found = next((one for one in declarations.of(item) if one.is_copied), None)
    return Link(label(item), f"declared/{item}" if found is None else found.item(label(item)).id)


def _is_unknown(item: Item) -> bool:
    """Whether the record does not say it. What people must declare, said or copied, is counted apart."""
    return item.origin.status == "unknown" and not item.id.startswith("declared/") and not item.origin.by


def _unknown(sections: tuple[Section, ...], scopes: frozenset[str]) -> Iterator[Link]:
    """Every place of the annexes that says unknown of `scopes`, or of none, but for the items that people declare."""
    for block in blocks(sections):
        if isinstance(block, Items):
            for item in block.items:
                if _is_unknown(item) and (not item.scopes or scopes.intersection(item.scopes)):
                    yield Link(item.label, item.id)
        elif isinstance(block, Table):
            for row in block.rows:
                if not _is_of(row, block, scopes):
                    continue
                for column, cell in zip(block.columns, row, strict=True):
                    if cell.status == "unknown":
                        yield Link(f"{column.heading}: {row[0].text}", block.id)


def _is_of(row: tuple[Cell, ...], table: Table, scopes: frozenset[str]) -> bool:
    """Whether a row is of one of `scopes`, or of no scope that its table names."""
    named = [cell.text for column, cell in zip(table.columns, row, strict=True) if column.heading == SCOPE]
    return not named or bool(scopes.intersection(named))
