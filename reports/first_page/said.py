"""What people said of an item, for all budgets of a promise or for some, in a line of the first page."""

from __future__ import annotations

from collections.abc import Sequence

from dpledger.reports.first_page.plain import budget_named
from dpledger.reports.sections.declared import Declaration, Declarations

__all__ = ["UNSAID", "budgets", "is_said", "names", "said"]

UNSAID = "unknown. Nobody has said."
MOST = 2  # budgets in one line
FEWEST = 40  # characters of the words themselves
NAME = 40  # characters of whose words they are


def said(item: str, declarations: Declarations, limit: int) -> str:
    """The first words on `item`; for which budgets they are, where they are not for all, how many more there are for
    others, and for which budgets there are none. The words are cut so that it has about `limit` characters in all."""
    found, unsaid = declarations.of(item), declarations.unsaid(item)
    if not found:
        return UNSAID
    rest, more = "", len(found) - 1
    if more or unsaid:
        rest = f" (for {budgets(declarations.counts_for(found[0]))})"
    if more:
        rest += f"; {more:,} more for other budgets"
    if unsaid:
        rest += f"; nobody has said for {budgets(unsaid)}"
    return found[0].words(max(limit - len(rest), FEWEST)) + rest


def is_said(item: str, declarations: Declarations) -> bool:
    """Whether somebody said it for every budget, in words of their own."""
    found = declarations.of(item)
    return bool(found) and not declarations.unsaid(item) and not any(one.is_copied for one in found)


def names(found: Sequence[Declaration]) -> str:
    """Whose words these are, each once."""
    return "; ".join(dict.fromkeys(one.speaker(NAME) for one in found))


def budgets(scopes: Sequence[str]) -> str:
    """A few budgets by name, the others counted."""
    more = len(scopes) - MOST
    return budget_named(*scopes[:MOST]) + (f" and {more:,} more" if more > 0 else "")
