"""What may fail, how often, and what of it holds together: the shares of error of a report in one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

from dpledger.accounting.guarantees import AccuracyFailure
from dpledger.decimals import ZERO, round_up, subtract
from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.ledger.entries.entry import Entry
from dpledger.reports import words
from dpledger.reports.model import Cell, Column, Prose, Section, Table, blocks
from dpledger.reports.promises import Promise
from dpledger.reports.sections.accuracy import CONFIDENCE
from dpledger.reports.sections.several import named
from dpledger.reports.tested import RunsAndAudits

__all__ = ["failures_section"]

MOST_PROMISES = 6  # with a row of their own
NOT_ADDED = "each by itself"

TOGETHER = (
    "The δ of a promise covers everything under it at once, for one unit. It includes the δ of each run, of each order "
    "of a mixed account, and of each price from a profile: add nothing to it. If one person may be under several "
    "promises, add up their δ, and their ε.",
    "The share of an audit is the probability, over its own runs on made-up data, that its lower bound is above the "
    "truth. The probability that any of several is too high is at most the sum of their shares, even if they depend on "
    "each other. The sum is over the audits listed here. If somebody left out others because of their results, the sum "
    "says nothing.",
    "The rows are about different things. Do not add one row to another.",
)


def failures_section(
    found: Sequence[Promise],
    accounts: Sequence[ScopeAccount],
    entries: Iterable[Entry],
    sections: tuple[Section, ...],
) -> Section:
    """The annex on shares of error. `sections`: the annexes on scopes, which tell the intervals."""
    rows = (
        *_promises(found),
        *_suspicions(found),
        *_odometers(accounts),
        *_accuracy(accounts),
        *_intervals(sections),
        *_audits(entries),
    )
    return Section(
        id="failures",
        heading="What may fail, and how often",
        about="Every probability of error in this report, in one table, and which of them hold together.",
        blocks=(
            Table(
                id="failures/table",
                caption="Probabilities that something in this report does not hold",
                columns=(
                    Column("What"),
                    Column("Of what"),
                    Column("Each, at most", numeric=True),
                    Column("Any of them, at most", numeric=True),
                ),
                rows=rows,
                empty="Nothing here may fail: no promise has a δ, and nothing was tested or told in intervals.",
            ),
            Prose(id="failures/together", lines=TOGETHER, tone="note"),
        ),
    )


def _promises(found: Sequence[Promise]) -> Iterator[tuple[Cell, ...]]:
    exact = sum(not one.delta for one in found)
    some = [one for one in found if one.delta]
    for one in some[:MOST_PROMISES]:
        scopes = ("scope " if len(one.scopes) == 1 else "scopes ") + named(one.scopes)
        yield (
            Cell(f"ε does not cover all that may be learnt about one {one.unit.name}"),
            Cell(scopes, note="the δ of the promise"),
            _share(one.delta),
            Cell(words.at_most(one.delta), one.delta, note="all its runs are in it"),
        )
    if some[MOST_PROMISES:]:
        most = max(one.delta for one in some[MOST_PROMISES:])
        rest = words.count(len(some) - MOST_PROMISES, "further promise")
        yield Cell("ε does not cover all that may be learnt"), Cell(rest), _share(most), Cell(NOT_ADDED)
    if exact:
        what = Cell(words.count(exact, "promise"), note="δ is 0: there is no exception")
        yield Cell("ε does not cover all that may be learnt"), what, _share(ZERO), _share(ZERO)


def _suspicions(found: Sequence[Promise]) -> Iterator[tuple[Cell, ...]]:
    """The exception of what becomes of a suspicion, which is told of each scope."""
    shares = [one.odds.exception for one in found if not one.epsilon.is_infinite()]
    if any(shares):
        told = Cell("what a suspicion of 1 % becomes", note="that sentence alone; the promise holds all the same")
        yield Cell("a suspicion becomes more than is stated"), told, _share(max(shares)), Cell(NOT_ADDED)


def _odometers(accounts: Sequence[ScopeAccount]) -> Iterator[tuple[Cell, ...]]:
    for account in accounts:
        shown = account.odometer()
        if shown is not None:
            of = Cell(f"the odometer of scope {account.scope}", note="at every moment at once")
            yield Cell("more was lost than is stated"), of, _share(shown.delta), _share(shown.delta)


def _accuracy(accounts: Sequence[ScopeAccount]) -> Iterator[tuple[Cell, ...]]:
    """What mechanisms say of their utility; a charge to several scopes is one."""
    stated = {
        one.charge: [failure.beta for failure in one.failures if isinstance(failure, AccuracyFailure)]
        for account in accounts
        for one in account.admissions
        if one.status != "aborted"
    }
    shares = [beta for found in stated.values() for beta in found]
    if shares:
        of = Cell(words.count(len(shares), "statement") + " of mechanisms on their answers")
        yield Cell("an answer is worse than its mechanism says"), of, *_shares(shares)


def _intervals(sections: tuple[Section, ...]) -> Iterator[tuple[Cell, ...]]:
    """The releases for which an interval is told, counted in the tables that tell them."""
    tables = (one for one in blocks(sections) if isinstance(one, Table) and one.id.endswith("/accuracy"))
    number = sum(
        row[1].value
        for table in tables
        for row in table.rows
        if row[2].text.startswith("±") and isinstance(row[1].value, int)
    )
    if number:
        of = Cell(words.count(number, "release") + " with an interval", note="of each number by itself")
        yield Cell("a number is further off than its interval"), of, _share(_rest(CONFIDENCE)), Cell(NOT_ADDED)


def _audits(entries: Iterable[Entry]) -> Iterator[tuple[Cell, ...]]:
    bodies = [one.body for one in RunsAndAudits(entries).audits]
    if bodies:
        of = Cell(
            words.count(len(bodies), "audit"),
            note="lower bounds of ε, on which the verdicts rest",
            link="audits",
        )
        yield Cell("a lower bound is above the truth"), of, *_shares([_rest(one.confidence) for one in bodies])
    missed = [_rest(one.power.probability) for one in bodies if one.power is not None and one.verdict == "not_refuted"]
    if missed:
        of = Cell(words.count(len(missed), "audit") + " that refuted nothing", link="audits")
        yield Cell("a fault as large as it would have refuted was missed"), of, *_shares(missed)


def _rest(confidence: Decimal) -> Decimal:
    return subtract(Decimal(1), confidence)


def _share(share: Decimal) -> Cell:
    return Cell(words.at_most(share), share)


def _shares(shares: Sequence[Decimal]) -> tuple[Cell, Cell]:
    """The largest share, and that of any of them: no more than their sum."""
    most, every = max(shares), round_up(sum((Fraction(share) for share in shares), Fraction(0)))
    if every >= 1:
        return _share(most), Cell("nothing can be said", note="the shares add up to 1 or more")
    return _share(most), _share(every)
