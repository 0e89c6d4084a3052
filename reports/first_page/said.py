"""What people said of an item, for all budgets of a promise or for some, in a line of the first page."""

from __future__ import annotations

from collections.abc import Sequence

from dpledger.reports.first_page.plain import budget_named
from dpledger.reports.sections.declared import Declaration, Declarations

__all__ = ["UNSAID", "budgets", "is_said", "names", "said"]

UNSAID = "unknown. Nobody has said."
MOST = 2  # budgets in one line
NAME = 40  # characters of whose words they are


def said(item: str, declarations: Declarations, limit: int) -> str:
    """The first words on `item`, of at most `limit` characters; for which budgets they are, where they are not for all;
    how many more there are for others, and for which budgets there are none."""
    found, unsaid = declarations.of(item), declarations.unsaid(item)
    if not found:
        return UNSAID
    text, more = found[0].words(limit), len(found) - 1
    if not more and not unsaid:
        return text
    parts = [f"{text} (for {budgets(declarations.counts_for(found[0]))})"]
    if more:
        parts.append(f"{more:,} more for other budgets")
    if unsaid:
        parts.append(f"nobody has said for {budgets(unsaid)}")
    return "; ".join(parts)


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
