"""A scope in which not everything can be true is shown as such; the other scopes have their accounts as always.

Here the holder of the key has written down a charge of 0.1 for noise that costs 0.5. The fold takes it (the verifier,
which prices every entry, does not): whoever looks at the record sees which scope it is.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dpledger.accounting.guarantees import PureDP
from dpledger.cli import app
from dpledger.errors import Contradiction
from dpledger.ledger.accounts import readings, recomposition
from dpledger.ledger.accounts.recomposition import ScopeAccount, accounts
from dpledger.ledger.entries.bodies import Body, Committed, Reserved
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.entries.members import LevelCharge
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules.transitions import State, fold
from dpledger.reports.build import build
from dpledger.reports.document import Report
from ledger_mechanisms import laplace


def lowered(body: Body) -> Body:
    """A charge of scope b, as if it had been 0.1."""
    if isinstance(body, Reserved | Committed) and body.path[0].scope == "b":
        return replace(body, levels=(LevelCharge("b", {"pure": "0.1"}),))  # type: ignore[dict-item]
    return body


def record(book: Ledger) -> tuple[tuple[Entry, ...], State]:
    """What folds in scopes a, b and c, of which b contradicts itself."""
    for name in "abc":
        book.scope(name, unit="patient", relation="add_remove", budget=PureDP(2)).release(laplace("0.5"), 1)
    entries = tuple(replace(entry, body=lowered(entry.body)) for entry in book.entries())
    return entries, fold(entry.body for entry in entries)


@pytest.fixture
def found() -> tuple[ScopeAccount, ...]:
    return accounts(*record(Ledger.in_memory()))


def test_the_others_have_their_accounts_and_this_one_says_why_it_has_none(found: tuple[ScopeAccount, ...]) -> None:
    a, b, c = found
    assert b.contradiction is not None
    assert b.contradiction.startswith("scope b contradicts itself")
    assert (b.spent.lower, b.spent.upper) == (0, math.inf)
    assert len(b.admissions) == 1
    assert (a.contradiction, c.contradiction) == (None, None)
    assert (a.spent.upper, c.spent.upper) == (0.5, 0.5)


def test_asked_for_itself_it_is_an_error_that_names_the_scope() -> None:
    _, state = record(Ledger.in_memory())
    with pytest.raises(
        Contradiction, match=r"scope b .* 0\.5 or more, but everything that was charged comes to at most 0\.1"
    ):
        readings.spent(state.scope("b"), 0)


def test_the_command_line_shows_all_scopes(
    found: tuple[ScopeAccount, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "book.db"
    Ledger.create(path).close()
    monkeypatch.setattr(recomposition, "accounts", lambda *_: found)
    shown = CliRunner().invoke(app, ["scopes", str(path), "--json"])
    assert shown.exit_code == 0, shown.output
    a, b, c = json.loads(shown.output)["scopes"]
    assert "contradicts itself" in b["contradiction"]
    assert b["spent"]["epsilon"] == {"lower": 0.0, "upper": "inf"}
    assert "contradiction" not in a
    assert c["spent"]["epsilon"]["upper"] == 0.5
    words = CliRunner().invoke(app, ["scopes", str(path)]).output
    assert "contradicts" in words


def test_a_report_shows_all_scopes_and_warns_of_this_one() -> None:
    book = Ledger.in_memory()
    entries, state = record(book)
    forged: Any = replace(book.verify(), entries=entries, state=state)
    model = build(forged)
    assert [page.scopes for page in model.pages] == [("a",), ("b",), ("c",)]
    promise, used = model.pages[1].answers[1:3]
    assert promise.tone == "warning"
    assert "A claim in budget “b” is false, so none of its numbers can be relied on." in promise.lines
    assert (used.text, used.status, used.tone) == ("unknown", "unknown", "warning")
    assert used.lines == ("in budget “b”: statements in it contradict each other",)
    text = Report(model).markdown()
    assert all(f"\n| {scope} | one " in text for scope in "abc")
    assert "A claim in scope b is false, so none of its numbers can be relied on" in text
