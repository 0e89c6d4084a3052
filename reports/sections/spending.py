"""What a scope has spent: the ledger's reading, both bounds, by account and over the entries. It is no guarantee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TypeVar, assert_never

from dpledger import decimals
from dpledger.accounting import composition as trees, filters
from dpledger.accounting.composition import Composition
from dpledger.accounting.filters import (
    AllowanceFilter,
    BasicFilter,
    EitherFilter,
    GDPFilter,
    PureFilter,
    RDPFilter,
    Sums,
    ZCDPFilter,
)
from dpledger.accounting.pricing.outcomes import planned
from dpledger.decimals import ZERO
from dpledger.ledger.accounts import readings
from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.reports import words
from dpledger.reports.certified import MOST, CertifiedProfiles
from dpledger.reports.model import (
    Cell,
    Column,
    Picture,
    Prose,
    Section,
    Spent,
    SpentChart,
    Table,
)
from dpledger.reports.sections.several import SCOPE, table_of

__all__ = ["contradicted", "has_changed", "in_native", "native_sum", "reading_before", "spending", "upper"]

T = TypeVar("T")

MOST_POINTS = 240  # steps of the line over the entries
MOST_PLANNED = 12  # distinct runs that are composed as one plan
MOST_PARTS = 32  # distinct parts of which the line's lower bound asks the engine

NO_GUARANTEE = (
    "This is a reading after the fact: how much of the budget the record so far accounts for. It is no guarantee of "
    "differential privacy, and nothing may be promised from it. What is promised is the budget.",
)


# ---- over the entries -----------------------------------------------------------------------------------------------


def has_changed(account: ScopeAccount, first: int) -> bool:
    """Whether the scope was charged, or refused, from entry `first` on."""
    last = (*(change.index for change in account.changes[-1:]), *(one.index for one in account.refusals[-1:]))
    return any(index >= first for index in last)


def reading_before(account: ScopeAccount, size: int) -> Decimal:
    """The upper bound of the reading once `size` entries were in; infinite where nothing can be said."""
    sums = [change.sums for change in account.changes if change.index < size]
    return filters.reading(account.filter, sums[-1] if sums else filters.opening(account.filter), account.delta)


def _chart(account: ScopeAccount, size: int) -> SpentChart:
    """The reading of the scope, with both bounds, at up to MOST_POINTS of `size` entries."""
    lower = _LowerBounds(account)
    changes = [(change, lower.after(change.settled)) for change in account.changes]
    points = [Spent(change.index, at_least, _reading(account, change.sums)) for change, at_least in _thinned(changes)]
    return SpentChart(
        points=tuple(points),
        budget=account.guarantee.epsilon_at(account.delta),
        refused=tuple(_thinned([refusal.index for refusal in account.refusals])),
        last=max(size - 1, 1),
    )


def _thinned(items: list[T]) -> Iterator[T]:
    """At most MOST_POINTS of the items, evenly, the last one always."""
    step = -(-len(items) // MOST_POINTS) or 1
    yield from items[(len(items) - 1) % step :: step]


def _reading(account: ScopeAccount, sums: Sums) -> Decimal | None:
    upper = filters.reading(account.filter, sums, account.delta)
    return None if upper.is_infinite() else decimals.round_up(upper, digits=6)


class _LowerBounds:
    """The lower bound of the reading, kept up to date: the greatest over the parts that have settled."""

    def __init__(self, account: ScopeAccount) -> None:
        self._account = account
        self._seen: set[Composition] = set()
        self._greatest = ZERO

    def after(self, parts: Composition | None) -> Decimal:
        """The bound once `parts` have settled too."""
        if parts is None or parts in self._seen or len(self._seen) >= MOST_PARTS:
            return self._greatest
        self._seen.add(parts)
        lower = readings.least(parts, self._account.relation, self._account.delta)
        self._greatest = max(self._greatest, decimals.round_down(lower, digits=6))
        return self._greatest


# ---- the section ----------------------------------------------------------------------------------------------------


def spending(accounts: Sequence[ScopeAccount], size: int, engine: CertifiedProfiles) -> Section:
    """The section on what was spent, of a record of `size` entries."""
    return Section(
        id="spent",
        heading="Spent so far: a reading after the fact, no guarantee of differential privacy",
        about="How much of each budget the record accounts for, read in several ways.",
        blocks=(
            *contradicted(accounts, "spent"),
            Prose(id="spent/is_no_guarantee", lines=NO_GUARANTEE, tone="note"),
            _readings(accounts, engine),
            Prose(id="spent/readings_mean", lines=(*READINGS_MEAN, *_read_as_whole(accounts))),
            *(_picture(account, size) for account in accounts),
            _accounts(accounts),
        ),
    )


def contradicted(accounts: Sequence[ScopeAccount], section: str) -> tuple[Prose, ...]:
    """What is to be said first of scopes in which not every statement can be true."""
    lines = tuple(
        f"{account.contradiction}. A claim in scope {account.scope} is false, so none of its numbers can be relied on."
        for account in accounts
        if account.contradiction is not None
    )
    return (Prose(id=f"{section}/contradiction", lines=lines, tone="warning"),) if lines else ()


def upper(account: ScopeAccount) -> Decimal:
    """The reading's upper bound, exactly as the filter gives it; infinite where nothing can be said."""
    if account.contradiction is not None:
        return decimals.INFINITY
    return filters.reading(account.filter, account.sums, account.delta)


def native_sum(account: ScopeAccount) -> tuple[str, Decimal, Decimal] | None:
    """The symbol, the sum and the limit of a budget that adds up in a currency other than epsilon; None for others."""
    match account.filter:
        case ZCDPFilter(rho=limit):
            symbol, name = "ρ", "rho"
        case GDPFilter(mu=mu):
            symbol, name, limit = "μ²", "mu_squared", decimals.multiply(mu, mu)
        case PureFilter() | BasicFilter() | RDPFilter() | EitherFilter():
            return None
        case AllowanceFilter():
            return None
        case other:
            assert_never(other)
    return symbol, decimals.parse(account.spent_by_account[name], field=name, infinite=True), limit


def in_native(account: ScopeAccount) -> tuple[str, str] | None:
    """What is used of a budget in rho or mu, as `ρ ≤ 0.01 of 0.1`, and why its reading in epsilon does not say it."""
    native = native_sum(account)
    if native is None:
        return None
    symbol, spent, limit = native
    return f"{symbol} ≤ {words.at_most(spent)} of {words.at_most(limit)}", READ_AS_WHOLE.format(symbol)


READ_AS_WHOLE = (
    "later runs may be chosen by earlier results, so how ε is read from {} is fixed for the whole budget when it "
    "opens: the first charge, however small, brings much or all of the budget's ε"
)

READINGS_MEAN = (
    "At most: the answer on the first page. It leaves out what came back, and holds even if parameters were chosen as "
    "the runs went along.",
    "At least: a lower bound of the cost of the costliest single release.",
    "At the caps: the cost of the same runs if nothing had come back.",
    "As one plan: the cost if every parameter had been fixed before the first run. The difference is the price of "
    "adaptive choices.",
)


def _readings(accounts: Sequence[ScopeAccount], engine: CertifiedProfiles) -> Table:
    return Table(
        id="spent/readings",
        caption="What was spent, in four readings",
        columns=(
            Column(SCOPE),
            Column("At most", numeric=True),
            Column("At least", numeric=True),
            Column("At the caps", numeric=True),
            Column("As one plan", numeric=True),
        ),
        rows=tuple(_reading_row(account, engine) for account in accounts),
        empty="",
    )


def _read_as_whole(accounts: Sequence[ScopeAccount]) -> Iterator[str]:
    told = {native[0].split()[0]: native[1] for account in accounts if (native := in_native(account)) is not None}
    for symbol, why in told.items():
        yield f"A budget in {symbol}: {why}. The share of {symbol} says how much is used."


def _reading_row(account: ScopeAccount, engine: CertifiedProfiles) -> tuple[Cell, ...]:
    most, lower = upper(account), decimals.round_down(account.spent.lower)
    at_least = Cell(f"ε ≥ {words.at_least(lower)}", lower)
    row = (Cell(account.scope, account.scope, note=f"at δ = {words.at_most(account.delta)}"), _told(most), at_least)
    if account.contradiction is not None:
        return *row, Cell("no bound"), Cell("no bound")
    return *row, *_other_readings(account, engine)


def _other_readings(account: ScopeAccount, engine: CertifiedProfiles) -> tuple[Cell, Cell]:
    """What the same runs come to if nothing had come back, and if all had been fixed beforehand."""
    ran = [one for one in account.admissions if one.status != "aborted"]
    sums = filters.opening(account.filter)
    for one in ran:
        sums = filters.with_charge(account.filter, sums, one.reserved)
    cap = filters.reading(account.filter, sums, account.delta)
    counted = Counter(planned(one.parts) for one in ran)
    if not ran:
        return _told(cap), Cell("nothing ran")
    if len(counted) > MOST_PLANNED:
        why = f"not computed for more than {MOST_PLANNED} kinds of runs"
        return _told(cap), Cell("unknown", status="unknown", note=why)
    tree = trees.Sequence(tuple(trees.Repeated(part, times=times) for part, times in counted.items()))
    found = engine.epsilon(tree, account.relation, account.delta)
    if found is None:
        asked = engine.was_asked(tree, account.relation)
        why = "no theorem gives one for these runs together" if asked else f"a report composes {MOST} trees at most"
        return _told(cap), Cell("unknown", status="unknown", note=why)
    return _told(cap), _told(min(decimals.round_up(found.upper), cap))  # what holds of adaptive choices holds of a plan


def _told(most: Decimal) -> Cell:
    return Cell("no bound" if most.is_infinite() else f"ε ≤ {words.at_most(most)}", most)


def _picture(account: ScopeAccount, size: int) -> Picture:
    chart = _chart(account, size)
    delta = words.at_most(account.delta)
    refusals = len(account.refusals)
    mark = "A cross marks" if refusals == 1 else "Crosses mark"
    refused = f" {mark} {words.count(refusals, 'refusal')}." if refusals else ""
    return Picture(
        id=f"scope:{account.scope}/spent_picture",
        title=f"Spent in scope {account.scope}, over the entries of the ledger",
        description=f"The reading of epsilon at δ = {delta} after each entry: at most "
        f"{words.at_most(upper(account))} now, of a budget of {words.at_most(chart.budget)}. The solid line is the "
        f"upper bound, the dotted one the lower bound, the dashed one the budget.{refused}",
        chart=chart,
    )


def _accounts(accounts: Sequence[ScopeAccount]) -> Table:
    return table_of(
        accounts,
        _account_rows,
        id_="spent/accounts",
        caption="The accounts that the budgets keep",
        columns=(
            Column("Account"),
            Column("Spent", numeric=True),
            Column("of which held by open charges", numeric=True),
            Column("Left", numeric=True),
        ),
        empty="The filter keeps no account.",
    )


def _account_rows(account: ScopeAccount) -> Iterator[tuple[Cell, ...]]:
    for name, spent in account.spent_by_account.items():
        held, left = account.held_by_account[name], account.left_by_account[name]
        yield (
            Cell(words.account(name), name, note=words.account_means(name)),
            Cell(_up(spent), spent),
            Cell(_up(held), held),
            Cell(words.at_least(decimals.parse(left)), left),
        )


def _up(number: str) -> str:
    found = decimals.parse(number, infinite=True)
    return "no price" if found.is_infinite() else words.at_most(found)
