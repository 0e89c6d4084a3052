"""One table, or one list, of what every scope of a report has: what repeats from scope to scope is said once.

Where a report is about one scope, nothing names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from dpledger.ledger.accounts.recomposition import ScopeAccount
from dpledger.reports.model import Cell, Column, Item, Table

__all__ = ["SCOPE", "items_of", "named", "table_of"]

SCOPE = "Scope"
"""The heading of the column that says which scope a row is of."""
MOST_NAMED = 3  # scopes in one label


def table_of(
    accounts: Sequence[ScopeAccount],
    rows: Callable[[ScopeAccount], Iterable[tuple[Cell, ...]]],
    *,
    id_: str,
    caption: str,
    columns: tuple[Column, ...],
    empty: str,
) -> Table:
    """One table of the rows of every scope, in order. The last column names the scope, where there are several."""
    several = len(accounts) > 1
    return Table(
        id=id_,
        caption=caption,
        columns=(*columns, Column(SCOPE)) if several else columns,
        rows=tuple(
            (*row, Cell(account.scope, account.scope)) if several else row
            for account in accounts
            for row in rows(account)
        ),
        empty=empty,
    )


def items_of(accounts: Sequence[ScopeAccount], items: Callable[[ScopeAccount], Iterable[Item]]) -> tuple[Item, ...]:
    """The items of every scope, label by label. Those that say the same of several scopes are one item, under the id of
    the first; where scopes differ, the label names them."""
    found: dict[str, dict[tuple[object, ...], list[tuple[str, Item]]]] = {}
    for account in accounts:
        for item in items(account):
            key = (item.text, item.value, item.origin.status, item.origin.by, item.origin.signature)
            found.setdefault(item.label, {}).setdefault(key, []).append((account.scope, item))
    return tuple(
        _one(alike, is_of_all=len(alike) == len(accounts)) for groups in found.values() for alike in groups.values()
    )


def _one(alike: Sequence[tuple[str, Item]], *, is_of_all: bool) -> Item:
    item, scopes = alike[0][1], tuple(scope for scope, _ in alike)
    origin = item.origin
    if any(other.origin != origin for _, other in alike):
        origin = replace(origin, when="", entry=None)
    label = item.label if is_of_all else f"{item.label}: {named(scopes)}"
    return replace(item, label=label, origin=origin, scopes=scopes)


def named(scopes: Sequence[str]) -> str:
    """A few scopes by name, the others counted."""
    more = len(scopes) - MOST_NAMED
    return ", ".join(scopes[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
