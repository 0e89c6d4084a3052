"""What scopes over the same people come to, as the ledger adds them up, and of which it is not known."""

from __future__ import annotations

from dpledger.ledger.accounts.overlap import NotAdded, SamePeople, Together
from dpledger.reports import words
from dpledger.reports.model import Block, Item, Items, unknown, visible

__all__ = ["people"]

MOST_NAMED = 10  # scopes in one line; all stand in the table


def people(found: SamePeople) -> tuple[Block, ...]:
    """The sums over scopes that name the same dataset, and what could not be added; nothing where there is nothing to
    add."""
    items = (
        *(_together(group, number) for number, group in enumerate(found.together)),
        *(_apart(apart, number) for number, apart in enumerate(found.apart)),
    )
    return (Items(items=items),) if items else ()


def _together(group: Together, number: int) -> Item:
    id_ = f"scopes/together/{number}"
    label = f"Together, for one {group.unit.name} of dataset {visible(group.dataset)}"
    which = f"{_listed(group.scopes)}, {words.relation_name(group.relation)}"
    covered = "" if group.counted == group.scopes else f"; counted: {_listed(group.counted)}, which cover the others"
    if group.guarantee is None:
        return unknown(id_, label, f"there is no bound for these budgets together ({which}{covered})")
    return Item(
        id=id_,
        label=label,
        text=f"at most {words.guarantee(group.guarantee)}, {words.variant(group.guarantee)}, for everything that these "
        f"scopes ever release: {which}{covered}. The scopes themselves say that their data are of the same dataset",
    )


def _apart(apart: NotAdded, number: int) -> Item:
    return unknown(f"scopes/not_added/{number}", f"Not added up: {_listed(apart.scopes)}", visible(apart.reason))


def _listed(scopes: tuple[str, ...]) -> str:
    shown, more = ", ".join(scopes[:MOST_NAMED]), len(scopes) - MOST_NAMED
    return f"scope{'s' if len(scopes) > 1 else ''} {shown}" + (f" and {more:,} more" if more > 0 else "")
