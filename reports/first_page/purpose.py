"""What the releases are for, who decided it and why, and what is published beside them without protection: the words of
people, or that nobody has said."""

from __future__ import annotations

from collections.abc import Sequence

from dpledger.reports.model import Answer, Link
from dpledger.reports.sections.declared import COPIED, Declaration, Declarations, label

__all__ = ["decided", "unprotected"]

LONG = 110  # characters of a text that somebody typed
SHORT = 60  # characters of one that is an answer by itself
NAME = 40  # characters of whose words they are


def decided(declarations: Declarations) -> Answer:
    """Purpose, justification of the budget, and who decided: each as declared, or unknown."""
    asked = (("For", "intended_use"), ("Not for", "not_intended_for"), ("Why this budget", "justification"))
    owner = declarations.of("decision_owner")[:1]
    lines = tuple(_line(word, item, declarations) for word, item in asked)
    needed = [declarations.of(item)[:1] for item in ("intended_use", "justification", "decision_owner")]
    return Answer(
        id="first_page/decision",
        question="What is it for, and who decided?",
        text=owner[0].words(SHORT) if owner else "nobody has said who decided",
        lines=(*lines, *_by([one for found in needed for one in found])),
        status="declared" if all(found and not found[0].is_copied for found in needed) else "unknown",
        links=_links(("intended_use", "justification", "decision_owner"), declarations),
    )


def unprotected(declarations: Declarations) -> Answer:
    """What is published from the same data without noise: outside of every promise."""
    asked = (("Without noise", "non_dp_releases"), ("Exactly", "invariants"))
    found = [one for _, item in asked for one in declarations.of(item)[:1]]
    said = [one for one in found if not one.is_copied]
    return Answer(
        id="first_page/unprotected",
        question="What is published without this protection?",
        text=f"In the words of {_names(said)}" if said else COPIED if found else "nobody has said",
        lines=(
            *(_line(word, item, declarations) for word, item in asked),
            "No promise on this page covers it, or anything else that went around the record.",
        ),
        status="declared" if len(said) == len(asked) else "unknown",
        links=_links(tuple(item for _, item in asked), declarations),
    )


def _line(word: str, item: str, declarations: Declarations) -> str:
    found = declarations.of(item)
    if not found:
        return f"{word}: unknown. Nobody has said."
    more = f" (and {len(found) - 1:,} more, for other budgets)" if len(found) > 1 else ""
    return f"{word}: {found[0].words(LONG)}{more}"


def _by(found: Sequence[Declaration]) -> tuple[str, ...]:
    return (f"Declared by {_names(found)}.",) if found else ()


def _names(found: Sequence[Declaration]) -> str:
    return "; ".join(dict.fromkeys(one.speaker(NAME) for one in found))


def _links(items: Sequence[str], declarations: Declarations) -> tuple[Link, ...]:
    return tuple(
        Link(label(item).lower(), found[0].item(label(item)).id if found else f"declared/{item}")
        for item in items
        for found in (declarations.of(item),)
    )
