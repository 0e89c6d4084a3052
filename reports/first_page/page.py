"""The first page, question by question."""

from __future__ import annotations

from dpledger.ledger.accounts.people import SamePeople
from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.ledger.verifying.verification import Verified
from dpledger.reports.first_page import evidence, protection, purpose
from dpledger.reports.model import Answer, Section
from dpledger.reports.promises import Promise
from dpledger.reports.sections.declared import Declarations

__all__ = ["first_page", "first_page_of_unread"]


def first_page(
    verified: Verified,
    accounts: tuple[ScopeAccount, ...],
    found: tuple[Promise, ...],
    people: SamePeople,
    declarations: Declarations,
    sections: tuple[Section, ...],
) -> tuple[Answer, ...]:
    """The answers, in the order in which they are asked. `sections`: the annexes, whose gaps are counted."""
    return (
        protection.protected(tuple(verified.state.scopes.values()), declarations),
        protection.promised(found, people, accounts, declarations),
        protection.used(accounts),
        protection.meaning(found),
        purpose.decided(declarations),
        purpose.unprotected(declarations),
        evidence.record(verified),
        evidence.audited(verified.entries),
        evidence.last_refusal(verified.entries),
        evidence.gaps(declarations, sections),
    )


def first_page_of_unread(verified: Verified) -> tuple[Answer, ...]:
    """Of a quick verification: whose bytes they are, and that nothing was read."""
    unread = Answer(
        id="first_page/unread",
        question="What do they say?",
        text="unknown",
        lines=("Quick verification reads no entry: nothing is reported of scopes, releases, audits and declarations.",),
        status="unknown",
    )
    return (evidence.record(verified), unread)
