"""The first page of one promise, question by question."""

from __future__ import annotations

from dpledger.ledger.accounts.overlap import NotAdded
from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.verifying.verification import Verified
from dpledger.reports.first_page import evidence, protection, purpose
from dpledger.reports.model import Answer, Section
from dpledger.reports.promises import Promise
from dpledger.reports.sections.declared import Declarations

__all__ = ["first_page", "first_page_of_unread"]

UNREAD = "Quick verification reads no entry."
UNPRICED = "Checking some prices takes longer than was allowed. So no number here can be relied on."


def first_page(
    verified: Verified,
    promise: Promise | None,
    *,
    others: tuple[Promise, ...],
    entries: tuple[Entry, ...],
    accounts: tuple[ScopeAccount, ...],
    apart: tuple[NotAdded, ...],
    alike: tuple[NotAdded, ...],
    declarations: Declarations,
    sections: tuple[Section, ...],
) -> tuple[Answer, ...]:
    """The answers, in the order in which they are asked. `entries`, `accounts`, `apart`, `alike`, `declarations`: what
    concerns the scopes of the promise; `sections`: the annexes, whose gaps are counted."""
    names = frozenset(account.scope for account in accounts)
    return (
        protection.protected(promise, accounts, verified.state.scopes, declarations),
        protection.promised(promise, others, apart, alike, accounts, declarations),
        protection.used(accounts, verified.state.scopes),
        protection.meaning(promise),
        purpose.decided(declarations),
        purpose.unprotected(declarations),
        evidence.record(verified),
        evidence.audited(entries),
        evidence.last_refusal(entries),
        evidence.gaps(declarations, sections, names),
    )


def first_page_of_unread(verified: Verified) -> tuple[Answer, ...]:
    """Of a verification that was not in full: whose bytes they are, and that nothing that they say is reported."""
    unread = Answer(
        id="first_page/unread",
        question="What do they say?",
        text="unknown",
        lines=(
            UNREAD if verified.mode == "quick" else UNPRICED,
            "This report says nothing about scopes, releases, audits and declarations.",
        ),
        status="unknown",
    )
    return (evidence.record(verified), unread)
