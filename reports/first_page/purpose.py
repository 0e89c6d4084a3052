"""What the releases are for, who decided it and why, and what is published beside them without protection: the words of
people, or that nobody has said."""

from __future__ import annotations

from collections.abc import Sequence

from dpledger.reports.first_page.said import is_said, names, said
from dpledger.reports.model import Answer, Link
from dpledger.reports.sections.declared import COPIED, Declaration, Declarations, label

__all__ = ["decided", "unprotected"]

LONG = 110  # characters of a text that somebody typed
SHORT = 60  # characters of one that is an answer by itself


def decided(declarations: Declarations) -> Answer:
    """Purpose, justification of the budget, and who decided: each as declared, or unknown."""
    asked = (("For", "intended_use"), ("Not for", "not_intended_for"), ("Why this budget", "justification"))
    needed = ("intended_use", "justification", "decision_owner")
    owner = declarations.of("decision_owner")
    return Answer(
        id="first_page/decision",
        question="What is it for, and who decided?",
        text=said("decision_owner", declarations, SHORT) if owner else "nobody has said who decided",
        lines=(*_lines(asked, declarations), *_by(_first(needed, declarations))),
        status="declared" if all(is_said(item, declarations) for item in needed) else "unknown",
        links=_links(needed, declarations),
    )


def unprotected(declarations: Declarations) -> Answer:
    """What is published from the same data without noise: outside of every promise."""
    asked = (("Without noise", "non_dp_releases"), ("Exactly", "invariants"))
    items = tuple(item for _, item in asked)
    found = _first(items, declarations)
    own = [one for one in found if not one.is_copied]
    return Answer(
        id="first_page/unprotected",
        question="What is published without this protection?",
        text=f"In the words of {names(own)}" if own else COPIED if found else "nobody has said",
        lines=(
            *_lines(asked, declarations),
            "No promise on this page covers it, or anything else that went around the record.",
        ),
        status="declared" if all(is_said(item, declarations) for item in items) else "unknown",
        links=_links(items, declarations),
    )


def _lines(asked: Sequence[tuple[str, str]], declarations: Declarations) -> tuple[str, ...]:
    return tuple(f"{word}: {said(item, declarations, LONG)}" for word, item in asked)


def _first(items: Sequence[str], declarations: Declarations) -> list[Declaration]:
    """The declarations whose words stand on the page."""
    return [one for item in items for one in declarations.of(item)[:1]]


def _by(found: Sequence[Declaration]) -> tuple[str, ...]:
    return (f"Declared by {names(found)}.",) if found else ()


def _links(items: Sequence[str], declarations: Declarations) -> tuple[Link, ...]:
    return tuple(
        Link(label(item).lower(), found[0].item(label(item)).id if found else f"declared/{item}")
        for item in items
        for found in (declarations.of(item),)
    )
