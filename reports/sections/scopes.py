"""The scopes of a report: a table of all of them, then what they promise, ran, spent and refused, told together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from dpledger.ledger.accounts.overlap import SamePeople
from dpledger.ledger.accounts.recomposition import ScopeAccount, accounts
from dpledger.ledger.rules.scope_state import ScopeState
from dpledger.ledger.verifying.verification import Verified
from dpledger.reports import words
from dpledger.reports.certified import CertifiedProfiles
from dpledger.reports.model import Block, Cell, Column, Prose, Section, Table
from dpledger.reports.sections.accuracy import accuracy
from dpledger.reports.sections.contributions import contributions
from dpledger.reports.sections.declared import Declarations
from dpledger.reports.sections.odds import meaning
from dpledger.reports.sections.odometer import odometers
from dpledger.reports.sections.openings import Openings
from dpledger.reports.sections.people import people
from dpledger.reports.sections.promise import promised, reading_of
from dpledger.reports.sections.runs import admissions, epsilons_of_one_run, open_charges, refusals
from dpledger.reports.sections.several import SCOPE
from dpledger.reports.sections.spending import native_sum, spending, upper

__all__ = ["Scopes"]

BASIS = (
    "Recomputed: the claim was derived again from the laws that the run is made of. Proved: a mechanism of dpledger "
    "ran here, as its entry says, and a proof derives its claim from its public parameters. Attested: the claim rests "
    "on a promise that the entry only declares, or the run happened elsewhere, and somebody says what it did.",
    "Reserved is the price at which the run was admitted, at its worst; charged is what it cost in the end. Both are "
    "of one run. Do not add up prices of different accounts: “Spent so far” has what all runs cost together.",
)
MOST_DETAILED = 20  # scopes that are told of in detail; all stand in the table


@dataclass(frozen=True, slots=True)
class Scopes:
    """Scopes of a verified ledger, as sections."""

    states: Mapping[str, ScopeState]
    accounts: tuple[ScopeAccount, ...]
    openings: Openings
    size: int  # of the record, in entries
    engine: CertifiedProfiles

    @staticmethod
    def read(verified: Verified) -> Scopes:
        """All scopes of a ledger."""
        entries, state = verified.entries, verified.state
        return Scopes(state.scopes, accounts(entries, state), Openings(entries), len(entries), CertifiedProfiles())

    def of(self, names: frozenset[str]) -> Scopes:
        """Some of them alone."""
        return replace(self, accounts=tuple(account for account in self.accounts if account.scope in names))

    def sections(self, shared: SamePeople, declarations: Declarations, without_page: int) -> tuple[Section, ...]:
        """The table of all scopes, then a section a question, about the first MOST_DETAILED. `shared`: what is known of
        who is in several of them; `without_page`: how many promises have no first page here."""
        told, engine = self.accounts[:MOST_DETAILED], self.engine
        if not told:
            return (self._glance(shared, without_page),)
        return (
            self._glance(shared, without_page),
            promised(told, self.states, declarations, self.openings, engine),
            meaning(told, engine),
            _ran(told, engine, declarations),
            spending(told, self.size, engine),
            *odometers(told),
            Section(
                id="stopped",
                heading="Refused, and still open",
                about="Requests that a budget did not admit, and charges that hold their cap.",
                blocks=(refusals(told), open_charges(told)),
            ),
        )

    def _glance(self, shared: SamePeople, without_page: int) -> Section:
        blocks: list[Block] = [self._table(), *people(shared)]
        more, lines = len(self.accounts) - MOST_DETAILED, []
        if more > 0:
            told = f"The sections below tell of the first {MOST_DETAILED} scopes"
            lines.append(f"{told}; {more:,} more stand in this table alone.")
        if without_page:
            promises = words.count(without_page, "stronger promise")
            lines.append(f"{promises} without a first page here: --scope NAME writes the first page of a scope.")
        if lines:
            blocks.append(Prose(id="scopes/more", lines=tuple(lines), tone="note"))
        return Section(
            id="scopes",
            heading="Scopes at a glance",
            about="A scope is one budget for one group of people: what each promises, how much of it is used, and what "
            "they come to together.",
            blocks=tuple(blocks),
        )

    def _table(self) -> Table:
        return Table(
            id="scopes/table",
            caption="Every scope: what it promises, and what the record accounts for",
            columns=(
                Column(SCOPE),
                Column("Protects"),
                Column("Guarantee"),
                Column("Spent (reading)", numeric=True),
                Column("Admitted", numeric=True),
                Column("Refused", numeric=True),
                Column("Open", numeric=True),
            ),
            rows=tuple(_glance_row(account) for account in self.accounts),
            empty="No scope was opened.",
        )


def _ran(told: tuple[ScopeAccount, ...], engine: CertifiedProfiles, declarations: Declarations) -> Section:
    blocks: list[Block] = [admissions(told, engine)]
    pictures = [picture for account in told if (picture := contributions(account)) is not None]
    if pictures:
        lines = (*BASIS, *epsilons_of_one_run(told, engine))
        blocks += [Prose(id="ran/basis", lines=lines, tone="note"), *pictures]
    return Section(
        id="ran",
        heading="What was run",
        about="Each release and training, its price, on what its claim rests, and how exact it is.",
        blocks=(*blocks, accuracy(told, _is_told(declarations))),
    )


def _is_told(declarations: Declarations) -> Callable[[str], bool]:
    """Whether somebody said of a scope, in words of their own, how exact its releases are."""

    def is_told(scope: str) -> bool:
        declared = declarations.for_scope("accuracy", scope)
        return declared is not None and not declared.is_copied

    return is_told


def _glance_row(account: ScopeAccount) -> tuple[Cell, ...]:
    waiting = sum(one.status in ("reserved", "started") for one in account.admissions)
    rows = words.count(account.unit.max_contributions, "row")
    return (
        Cell(account.scope, account.scope),
        Cell(
            f"one {account.unit.name}",
            status="declared",
            note=f"{words.relation_name(account.relation)}; at most {rows}",
        ),
        Cell(words.guarantee(account.budget), note=reading_of(account)),
        _spent(account),
        Cell(f"{len(account.admissions):,}", len(account.admissions)),
        Cell(f"{len(account.refusals):,}", len(account.refusals)),
        Cell(f"{waiting:,}", waiting),
    )


def _spent(account: ScopeAccount) -> Cell:
    """What is spent, in the currency in which the budget counts, and what that is read as."""
    if account.contradiction is not None:
        return Cell("no bound", upper(account), note="contradicts itself")
    most = words.at_most(upper(account))
    reading, at = most if most == "no bound" else f"ε ≤ {most}", f"at δ = {words.at_most(account.delta)}"
    native = native_sum(account)
    if native is None:
        return Cell(reading, upper(account), note=at)
    symbol, spent, _ = native
    return Cell(f"{symbol} ≤ {words.at_most(spent)}", spent, note=f"read as {reading} {at}")
