"""One section for each scope, and a table of all of them."""

from __future__ import annotations

from dpledger.ledger.accounts.people import SamePeople
from dpledger.ledger.accounts.recomposition import ScopeAccount, accounts
from dpledger.ledger.verifying.verification import Verified
from dpledger.reports import words
from dpledger.reports.certified import Engine
from dpledger.reports.model import Block, Cell, Column, Item, Items, Prose, Section, Table, unknown
from dpledger.reports.sections.accuracy import accuracy
from dpledger.reports.sections.contributions import contributions
from dpledger.reports.sections.declared import Declarations
from dpledger.reports.sections.odds import meaning
from dpledger.reports.sections.odometer import odometer
from dpledger.reports.sections.people import people
from dpledger.reports.sections.promise import bounds_of, promised
from dpledger.reports.sections.runs import admissions, epsilons_of_one_run, open_charges, refusals
from dpledger.reports.sections.spending import Histories, contradicted, spending, upper

__all__ = ["Scopes"]

BASIS = (
    "Recomputed: the claim was derived again from the laws that the run is made of. Proved: a mechanism of dpledger "
    "ran here, as its entry says, and its claim follows from its public parameters by a proof that the entry does not "
    "repeat. Attested: it rests on a promise that the entry only declares, or the run happened elsewhere, and its "
    "parts are somebody's word. Reserved is the price at which the run was admitted, at its worst; charged is what "
    "stands. Both are of one run; prices in different accounts do not add up to anything: what all runs come to stands "
    "under “Spent so far”.",
)
MOST_DETAILED = 20  # scopes with a section of their own; all stand in the table


class Scopes:
    """The scopes of a verified ledger, as sections."""

    def __init__(self, verified: Verified, declarations: Declarations, engine: Engine) -> None:
        self._verified = verified
        self._declarations = declarations
        self._engine = engine
        self.accounts = accounts(verified.entries, verified.state)
        self.histories = Histories(verified.entries, verified.state)

    def sections(self, shared: SamePeople) -> tuple[Section, ...]:
        """The table of all scopes, then a section for each of the first MOST_DETAILED."""
        return (self._glance(shared), *(self._scope(account) for account in self.accounts[:MOST_DETAILED]))

    # ---- all of them ------------------------------------------------------------------------------------------------

    def _glance(self, shared: SamePeople) -> Section:
        blocks: list[Block] = [self._table(), *people(shared)]
        more = len(self.accounts) - MOST_DETAILED
        if more > 0:
            line = f"The first {MOST_DETAILED} scopes have a section below; {more:,} more stand in this table alone."
            blocks.append(Prose(id="scopes/more", lines=(line,), tone="note"))
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
                Column("Scope"),
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

    # ---- one of them ------------------------------------------------------------------------------------------------

    def _scope(self, account: ScopeAccount) -> Section:
        prefix = f"scope:{account.scope}"
        scope = self._verified.state.scopes[account.scope]
        population = self._declarations.for_scope("population_size", account.scope)
        return Section(
            id=prefix,
            heading=f"Scope {account.scope}",
            about="Its promise, the odds, what it ran at which price, what it refused.",
            blocks=(*contradicted(account, prefix), Items(items=(self._dataset(account.scope, prefix),))),
            sections=(
                promised(account, scope, population, self.histories.opening(account.scope), self._engine, prefix),
                meaning(account, self._engine, prefix),
                self._ran(account, prefix),
                spending(account, self.histories, self._engine, prefix),
                *odometer(account, prefix),
                Section(
                    id=f"{prefix}/stopped",
                    heading="Refused, and still open",
                    blocks=(refusals(account, prefix), open_charges(account, prefix)),
                ),
            ),
        )

    def _dataset(self, scope: str, prefix: str) -> Item:
        noted = self.histories.dataset(scope)
        if noted is None:
            return unknown(f"{prefix}/dataset", "Dataset", "the scope names no dataset and commits to none")
        return Item(
            id=f"{prefix}/dataset",
            label="Dataset, as the scope names it",
            text=noted,
            origin=self.histories.opening(scope),
        )

    def _ran(self, account: ScopeAccount, prefix: str) -> Section:
        picture = contributions(account, prefix)
        declared = self._declarations.for_scope("accuracy", account.scope)
        is_told = declared is not None and not declared.is_copied
        table = admissions(account, self._engine, prefix)
        blocks: list[Block] = [table]
        if picture is not None:
            lines = (*BASIS, *epsilons_of_one_run(account, self._engine))
            blocks += [Prose(id=f"{prefix}/basis", lines=lines, tone="note"), picture]
        return Section(id=f"{prefix}/ran", heading="What was run", blocks=(*blocks, accuracy(account, is_told, prefix)))


def _glance_row(account: ScopeAccount) -> tuple[Cell, ...]:
    epsilon, delta = bounds_of(account)
    waiting = sum(one.status in ("reserved", "started") for one in account.admissions)
    spent = words.at_most(upper(account))
    return (
        Cell(account.scope, account.scope),
        Cell(f"one {account.unit.name}", status="declared", note=words.relation_name(account.relation)),
        Cell(f"ε ≤ {words.at_most(epsilon)}, δ = {words.at_most(delta)}", epsilon),
        Cell(
            spent if spent == "no bound" else f"ε ≤ {spent}",
            upper(account),
            note="contradicts itself"
            if account.contradiction is not None
            else f"at δ = {words.at_most(account.delta)}",
        ),
        Cell(f"{len(account.admissions):,}", len(account.admissions)),
        Cell(f"{len(account.refusals):,}", len(account.refusals)),
        Cell(f"{waiting:,}", waiting),
    )
