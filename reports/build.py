"""A verified ledger as a report's model. Pure: no clock, host or locale; the same record gives the same report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dpledger.errors import ParameterError
from dpledger.ledger.accounts.overlap import NotAdded, SamePeople, same_people
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.verifying.verification import Verified
from dpledger.reports.first_page.page import first_page, first_page_of_unread
from dpledger.reports.first_page.plain import budget_named
from dpledger.reports.model import Answer, Page, ReportModel, Section, Table
from dpledger.reports.promises import Promise, concerning, covering, look_alikes, members, promises
from dpledger.reports.sections.audits import audits_section
from dpledger.reports.sections.declared import Declarations, declared_section
from dpledger.reports.sections.failures import failures_section
from dpledger.reports.sections.questions import questions_section
from dpledger.reports.sections.record import limits_section, record_section, unread_section, verified_section
from dpledger.reports.sections.registry import entry_fields, registry_section
from dpledger.reports.sections.scopes import Scopes
from dpledger.reports.sections.since import since_section

__all__ = ["build"]

TITLE = "Privacy report"
LONGEST_TITLE = 110  # characters
MOST_PAGES = (
    20  # promises with a first page and an entry for a registry; the others have theirs where one asks for them
)
MOST_NAMED = 5  # scopes in an error or a heading


def build(verified: Verified, scope: str | None = None) -> ReportModel:
    """The report on what was verified: every item that the ledger measures or people declared, and every gap. `scope`:
    of whose promise alone; None: of every promise.

    It shows bounds that the ledger and the engine returned, and computes none. The previous report is the last one that
    the ledger itself records. ParameterError for a scope that is not there.
    """
    if verified.mode != "full":
        return _unread(verified, scope)
    return _Building(verified, scope).model()


def _unread(verified: Verified, scope: str | None) -> ReportModel:
    if scope is not None:
        raise ParameterError("scope", scope, "None: of a record that was not verified in full, no scope is reported")
    sections = _annexes(verified, (unread_section(),))
    title = f"Ledger {verified.head.origin}"
    page = Page(id="first_page", title=title, about="", scopes=(), answers=first_page_of_unread(verified))
    return _model(verified, title, (page,), sections)


class _Building:
    """A report while it is made: what it is about, read once."""

    def __init__(self, verified: Verified, scope: str | None) -> None:
        state = verified.state
        if scope is not None and scope not in state.scopes:
            known = ", ".join(sorted(state.scopes)[:MOST_NAMED]) or "none was opened"
            raise ParameterError("scope", scope, f"a scope of the ledger ({known})")
        self.verified = verified
        self.people, self.alike = same_people(state), look_alikes(state.scopes)
        self.whole = Scopes.read(verified)
        self.promises = promises(self.whole.accounts, self.people, state.scopes)
        self.chosen = self.promises if scope is None else covering(self.promises, state.scopes[scope])
        self.named = frozenset(state.scopes) if scope is None else members(self.chosen, state.scopes)
        self.entries = verified.entries if scope is None else concerning(verified.entries, self.named)
        self.declarations = Declarations(self.entries)
        self.shown = self.whole.of(self.named)

    def model(self) -> ReportModel:
        """The whole of it."""
        verified, shown, said = self.verified, self.shown, self.declarations
        told = self.chosen[:MOST_PAGES]
        left_out = len(self.chosen) - len(told)
        annexes = shown.sections(self._people(), said, left_out)
        evidence = (
            *since_section(verified, self.entries, shown, said),
            *annexes,
            audits_section(self.entries, shown.engine),
            failures_section(self.chosen, shown.accounts, self.entries, annexes),
            declared_section(said, tuple(sorted(self.named))),
        )
        registry = tuple(self._fields(number, one) for number, one in enumerate(told, start=1)) or (self._fields(1),)
        elsewhere = (
            questions_section(self._said(self.named), bool(shown.accounts)),
            registry_section(registry, left_out),
        )
        pages = tuple(self._pages(told, _annexes(verified, evidence)))
        titles = {page.title for page in pages}
        title = pages[0].title if len(titles) == 1 else f"Ledger {verified.head.origin}"
        return replace(_model(verified, title, pages, _annexes(verified, (*evidence, *elsewhere))), registry=registry)

    def _people(self) -> SamePeople:
        """The sums over the scopes that are shown, and what could not be added to them."""
        together = tuple(one for one in self.people.together if self.named.issuperset(one.scopes))
        apart = (*_about(self.people.apart, self.named), *_about(self.alike, self.named))
        return SamePeople(together=together, apart=apart)

    # ---- a promise --------------------------------------------------------------------------------------------------

    def _pages(self, told: Sequence[Promise], sections: tuple[Section, ...]) -> Iterator[Page]:
        for number, one in enumerate(told, start=1):
            yield self._page("first_page" if number == 1 else f"first_page:{number}", one, sections)
        if not told:
            yield self._page("first_page", None, sections)

    def _page(self, id_: str, one: Promise | None, sections: tuple[Section, ...]) -> Page:
        scopes = self._members(one)
        said = self._said(scopes)
        answers = first_page(
            self.verified,
            one,
            others=tuple(other for other in self.promises if other is not one),
            entries=self._entries(scopes),
            accounts=self.whole.of(scopes).accounts,
            apart=_about(self.people.apart, scopes),
            alike=_about(self.alike, scopes),
            declarations=said,
            sections=sections,
        )
        product = said.of_all("product_name")
        return Page(
            id=id_,
            title=product.words(LONGEST_TITLE) if product else f"Ledger {self.verified.head.origin}",
            about=self._which(one),
            scopes=() if one is None else one.scopes,
            answers=tuple(_on_page(answer, id_) for answer in answers),
        )

    def _which(self, one: Promise | None) -> str:
        """Which of how many promises it is; nothing where there is no other."""
        if one is None or len(self.promises) == 1:
            return ""
        more = len(one.scopes) - MOST_NAMED
        named = budget_named(*one.scopes[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        return f"Promise {self.promises.index(one) + 1} of {len(self.promises)}: {named}"

    def _fields(self, number: int, one: Promise | None = None) -> Table:
        scopes = self._members(one)
        return entry_fields(
            number,
            self.verified.head,
            one,
            len(self.promises),
            self.whole.of(scopes).accounts,
            self._said(scopes),
        )

    def _said(self, scopes: frozenset[str]) -> Declarations:
        """What was declared for these scopes: of what is charged to others of them, these say enough."""
        states = self.verified.state.scopes
        return self.declarations.about(scopes, (name for name in scopes if scopes.isdisjoint(states[name].parents)))

    def _members(self, one: Promise | None) -> frozenset[str]:
        return frozenset() if one is None else members((one,), self.verified.state.scopes)

    def _entries(self, scopes: frozenset[str]) -> tuple[Entry, ...]:
        return concerning(self.entries, scopes)


def _about(apart: Sequence[NotAdded], scopes: frozenset[str]) -> tuple[NotAdded, ...]:
    return tuple(one for one in apart if scopes.intersection(one.scopes))


def _on_page(answer: Answer, page: str) -> Answer:
    """`answer` with the ids of its page."""
    picture = answer.picture
    if picture is not None:
        picture = replace(picture, id=picture.id.replace("first_page", page, 1))
    return replace(answer, id=answer.id.replace("first_page", page, 1), picture=picture)


def _annexes(verified: Verified, sections: tuple[Section, ...]) -> tuple[Section, ...]:
    return (verified_section(verified), *sections, record_section(verified), limits_section())


def _model(verified: Verified, subtitle: str, pages: tuple[Page, ...], sections: tuple[Section, ...]) -> ReportModel:
    return ReportModel(
        title=TITLE,
        subtitle=subtitle,
        ledger=verified.head.origin,
        size=verified.head.size,
        root=verified.head.root.hex(),
        pages=pages,
        sections=sections,
    )
