"""A verified ledger as a report's model. Pure: no clock, host or locale; the same record gives the same report."""

from __future__ import annotations

from dpledger.ledger.entries.bodies import Audited, Refused
from dpledger.ledger.verifying.verification import Verified
from dpledger.reports import words
from dpledger.reports.certified import Engine
from dpledger.reports.model import Fact, ReportModel, Section, visible
from dpledger.reports.sections.audits import audits_section, kinds_that_ran
from dpledger.reports.sections.declared import ITEMS, Declarations, declared_section
from dpledger.reports.sections.record import limits_section, record_section, unread_section, verified_section
from dpledger.reports.sections.scopes import Scopes

__all__ = ["build"]

TITLE = "Privacy report"


def build(verified: Verified) -> ReportModel:
    """The report on what was verified: every item that the ledger measures or people declared, and every gap.

    It shows bounds that the ledger and the engine returned, and computes none. The previous report is the last one that
    the ledger itself records.
    """
    if verified.mode == "quick":
        return _unread(verified)
    engine = Engine()
    declarations = Declarations(verified.entries)
    scopes = Scopes(verified, declarations, engine)
    product = declarations.of("product_name")
    return _model(
        verified,
        subtitle=visible(product[0].body.text) if product else f"Ledger {verified.head.origin}",
        facts=(*scopes.facts(), _evidence_fact(verified), _gaps_fact(declarations)),
        sections=(*scopes.sections(), audits_section(verified.entries, engine), declared_section(declarations)),
    )


def _unread(verified: Verified) -> ReportModel:
    """The report on a quick verification: whose bytes they are, and that nothing was read."""
    unread = Fact(id="facts/unread", label="Content", text="unknown", note="no entry was read", status="unknown")
    return _model(verified, subtitle=f"Ledger {verified.head.origin}", facts=(unread,), sections=(unread_section(),))


def _model(verified: Verified, *, subtitle: str, facts: tuple[Fact, ...], sections: tuple[Section, ...]) -> ReportModel:
    return ReportModel(
        title=TITLE,
        subtitle=subtitle,
        ledger=verified.head.origin,
        size=verified.head.size,
        root=verified.head.root.hex(),
        facts=(_record_fact(verified), *facts),
        sections=(verified_section(verified), *sections, record_section(verified), limits_section()),
    )


def _record_fact(verified: Verified) -> Fact:
    how = "in full" if verified.mode == "full" else "their bytes only"
    refused = sum(isinstance(entry.body, Refused) for entry in verified.entries)
    refusals = f"{words.count(refused, 'request')} refused; " if verified.mode == "full" else ""
    seen = f"{verified.head.size - verified.witnessed:,} seen by no witness"
    return Fact(
        id="facts/record",
        label="Verified",
        text=words.count(verified.head.size, "entry", "entries"),
        note=f"{how}, key {verified.key.key_id_hex}; {refusals}{seen}",
    )


def _evidence_fact(verified: Verified) -> Fact:
    audits = [entry.body for entry in verified.entries if isinstance(entry.body, Audited)]
    refuted = [audit.mechanism.kind for audit in audits if audit.verdict == "violation"]
    ran = kinds_that_ran(verified.entries)
    here = sum(kind in ran for kind in refuted)
    if not audits:
        return Fact(
            id="facts/audits", label="Audits", text="none", note="no claim was tested empirically", status="unknown"
        )
    return Fact(
        id="facts/audits",
        label="Audits",
        text=words.count(len(refuted), "violation"),
        note=f"in {words.count(len(audits), 'audit')}{_where_it_ran(here, len(refuted))}; not refuted is not proved",
        tone="warning" if refuted else "plain",
    )


def _where_it_ran(here: int, refuted: int) -> str:
    """Whether the mechanisms that were refuted are of kinds that this ledger ran."""
    match here:
        case _ if not refuted:
            return ""
        case 0:
            return ", of a kind that never ran in this ledger"
        case _ if here == refuted:
            return ", of a kind that ran in this ledger"
        case _:
            return f", {here:,} of a kind that ran in this ledger"


def _gaps_fact(declarations: Declarations) -> Fact:
    missing = len(declarations.missing)
    return Fact(
        id="facts/gaps",
        label="Not declared",
        text=words.count(missing, "item"),
        note=f"of {len(ITEMS)} that people must state, because no ledger can measure them",
        status="unknown" if missing else "declared",
    )
