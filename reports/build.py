"""A verified ledger as a report's model. Pure: no clock, host or locale; the same record gives the same report."""

from __future__ import annotations

from dpledger.ledger.accounts.people import same_people
from dpledger.ledger.verifying.verification import Verified
from dpledger.reports.certified import Engine
from dpledger.reports.first_page.page import first_page, first_page_of_unread
from dpledger.reports.model import Answer, ReportModel, Section
from dpledger.reports.promises import promises
from dpledger.reports.sections.audits import audits_section
from dpledger.reports.sections.declared import Declarations, declared_section
from dpledger.reports.sections.failures import failures_section
from dpledger.reports.sections.questions import questions_section
from dpledger.reports.sections.record import limits_section, record_section, unread_section, verified_section
from dpledger.reports.sections.registry import registry_section
from dpledger.reports.sections.scopes import Scopes
from dpledger.reports.sections.since import since_section

__all__ = ["build"]

TITLE = "Privacy report"
LONGEST_TITLE = 110  # characters


def build(verified: Verified) -> ReportModel:
    """The report on what was verified: every item that the ledger measures or people declared, and every gap.

    It shows bounds that the ledger and the engine returned, and computes none. The previous report is the last one that
    the ledger itself records.
    """
    if verified.mode == "quick":
        sections = _annexes(verified, (unread_section(),))
        return _model(verified, f"Ledger {verified.head.origin}", first_page_of_unread(verified), sections)
    engine = Engine()
    declarations = Declarations(verified.entries)
    scopes = Scopes(verified, declarations, engine)
    product = declarations.of("product_name")
    people = same_people(verified.state)
    found = promises(scopes.accounts, people, verified.state.scopes)
    shown = scopes.sections(people)
    evidence = (
        *since_section(verified, scopes.accounts, scopes.histories, declarations, engine),
        *shown,
        audits_section(verified.entries, engine),
        failures_section(found, scopes.accounts, verified.entries, shown),
        declared_section(declarations),
    )
    elsewhere = (
        questions_section(declarations, tuple(account.scope for account in scopes.accounts)),
        registry_section(verified.head, found, scopes.accounts, declarations),
    )
    sections = _annexes(verified, (*evidence, *elsewhere))
    return _model(
        verified,
        product[0].words(LONGEST_TITLE) if product else f"Ledger {verified.head.origin}",
        first_page(verified, scopes.accounts, found, people, declarations, _annexes(verified, evidence)),
        sections,
    )


def _annexes(verified: Verified, sections: tuple[Section, ...]) -> tuple[Section, ...]:
    return (verified_section(verified), *sections, record_section(verified), limits_section())


def _model(
    verified: Verified, subtitle: str, answers: tuple[Answer, ...], sections: tuple[Section, ...]
) -> ReportModel:
    return ReportModel(
        title=TITLE,
        subtitle=subtitle,
        ledger=verified.head.origin,
        size=verified.head.size,
        root=verified.head.root.hex(),
        answers=answers,
        sections=sections,
    )
