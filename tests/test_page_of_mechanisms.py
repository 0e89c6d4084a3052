"""The page that lists the mechanisms lists all of them, and each as it is; and each has its conformance class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import dpledger as dpl
from dpledger.mechanisms.protocol import Interactive, Mechanism
from public_names import public
from public_surface import DOORS

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "mechanisms.md").read_text()
WHAT_MECHANISMS_SAY = ("under", "claim", "parts", "failures", "parameters")
SEVERAL = dpl.Unit("patient", max_contributions=3)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table of the page."""

    by: str
    several: str
    claim: tuple[str, ...]


def rows() -> Mapping[str, Row]:
    form = r"^\|[^|]*\| `([\w.]+)(\([^`]*\))?`[^|]*\| (\w+) \| (\w+) \| ([^|]+) \|$"
    found = re.findall(form, PAGE, re.MULTILINE)
    assert len({(name, how) for name, how, *_ in found}) == len(found), "each once"
    told: dict[str, Row] = {}
    for name, _, by, several, claim in found:
        row = Row(by, several, tuple(re.findall(r"`(\w+)`", claim)))
        assert told.setdefault(name, row) == row, f"all rows of {name} say the same of it"
    return told


ROWS = rows()


def is_mechanism(value: object) -> bool:
    return isinstance(value, type) and all(hasattr(value, name) for name in WHAT_MECHANISMS_SAY)


def fixed(mechanism: Any, unit: dpl.Unit) -> Any:
    """It under the first relation that it has a guarantee for."""
    for relation in ("add_remove", "replace_one", "label_flip"):
        try:
            return mechanism.under(dpl.Relation(relation), unit)
        except dpl.DpledgerError as error:
            if type(error).__name__ != "RelationError":
                raise
    raise AssertionError("no relation")


def test_no_mechanism_is_missing_and_all_names_are_public() -> None:
    mechanisms = {name for name, value in public().items() if is_mechanism(value)}
    assert set(ROWS) == mechanisms, "a row in docs/mechanisms.md each"


def test_every_mechanism_is_made_by_some_conformance_class() -> None:
    """A file of tests with a `make` names it (CONTRIBUTING.md, "Adding a mechanism")."""
    texts = [file.read_text() for file in Path(__file__).parent.rglob("test_*.py")]
    held = [text for text in texts if "def make(self, **changes: Any)" in text]
    words = set(re.findall(r"\w+", " ".join(held)))
    assert [name for name in ROWS if name.rpartition(".")[2] not in words] == []


@pytest.mark.parametrize("name", ROWS)
def test_a_mechanism_is_what_its_row_says(name: str) -> None:
    given = {**DOORS[name].good}
    if "sensitivity" in given:
        given["sensitivity"] = 1  # of one row, most likely: any other is believed to be of all of them
    mechanism: Any = DOORS[name].call(**given)
    row = ROWS[name]
    assert isinstance(mechanism, {"release": Mechanism, "open": Interactive}[row.by])
    assert type(fixed(mechanism, dpl.Unit()).claim()).__name__ in row.claim
    if row.several == "yes":
        fixed(mechanism, SEVERAL).claim()
    elif "justification" in given:
        assert row.several == "declared"
    else:
        named = {"declared": "justification", "no": "one row"}[row.several]
        with pytest.raises(dpl.ParameterError, match=named):
            fixed(mechanism, SEVERAL)
