"""What a report reads out of declared words: the number, the day or the kind that some items are to say.

>>> number("48,210"), number("2,000 patients"), day("1.12.2026"), kind_of_product("dataset")
(48210, 0, '', 'Dataset')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from types import MappingProxyType
from typing import Final

__all__ = ["TRUST_MODELS", "access", "day", "form", "kind_of_product", "number", "releases", "sources", "trust"]

PRODUCTS: Final = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
TRUST_MODELS: Final[Mapping[str, str]] = {"central": r"\bcentral", "local": r"\blocal", "shuffled": r"\bshuffl"}
"""The models that a declaration may name, and how each is recognised."""


def number(text: str) -> int:
    """How many a text says, as digits alone; 0 where it says something else."""
    stated = re.fullmatch(r"\s*([0-9][0-9 ,_]{0,20})\s*", text)
    return int(re.sub(r"[ ,_]", "", stated.group(1))) if stated else 0


def kind_of_product(text: str) -> str:
    """The kind of product of a registry that a text is; empty where it is none."""
    return next((word for word in PRODUCTS if word.lower() == text.strip().lower()), "")


def day(text: str) -> str:
    """The day that a text is, as year-month-day; empty where it is none."""
    try:
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError:
        return ""


def _one_of(patterns: Mapping[str, str]) -> Callable[[str], str]:
    """The one word of which the pattern is found in a text; empty where none is, or several are."""

    def taken(text: str) -> str:
        found = [word for word, pattern in patterns.items() if re.search(pattern, text.lower())]
        return found[0] if len(found) == 1 else ""

    return taken


releases = _one_of({"One release": r"\bone release", "Many releases": r"\bmany releases"})
sources = _one_of({"Static": r"\bstatic", "Dynamic": r"\b(dynamic|growing)"})
access = _one_of({"Non-interactive": r"\bnon-interactive", "Interactive": r"(?<!non-)\binteractive"})
trust = _one_of(TRUST_MODELS)

_FORMS: Final[Mapping[str, tuple[Callable[[str], object], str]]] = MappingProxyType(
    {
        "population_size": (number, "a number above 0, in digits alone, as 48210"),
        "first_published": (day, "a day, as 2026-11-02"),
        "kind_of_product": (kind_of_product, f"one of {', '.join(PRODUCTS)}"),
        "release_frequency": (releases, "One release or Many releases"),
        "data_growth": (sources, "Static or Growing"),
        "query_model": (access, "Non-interactive or Interactive, in it"),
        "trust_model": (trust, f"one of {', '.join(TRUST_MODELS)}, in it"),
    }
)


def form(item: str, text: str) -> str:
    """The form in which a report would read `item`, where it cannot read it in `text`; empty where all is well.

    >>> form("population_size", "2,000 patients"), form("region", "2,000 patients")
    ('a number above 0, in digits alone, as 48210', '')
    """
    read, expected = _FORMS.get(item, (None, ""))
    return "" if read is None or read(text) else expected
