"""A script that runs twice, or two of them at once: the ledger and the scope that are there, and words that say so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpledger.accounting.guarantees import ApproxDP, Guarantee, PureDP
from dpledger.decimals import text
from dpledger.errors import ForeignLedger, ParameterError, ScopeError
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules.scope_state import MOST_LISTED
from dpledger.ledger.stores import staging
from dpledger.mechanisms.numeric import Laplace
from dpledger.relations import Unit

pytestmark = pytest.mark.sliced

SCRIPT = """
import sys
import dpledger as dpl
book = dpl.Ledger.open_or_create(sys.argv[1], name="clinic")
scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
receipt = scope.release(dpl.Laplace(epsilon="0.25", sensitivity=1), 7, key="count", wait=30)
print(book.id, receipt.value, len(book.scopes()))
"""
AT_ONCE = 4
RULES: dict[str, Any] = {"unit": "patient", "relation": "add_remove", "budget": PureDP(1)}


def test_scripts_at_once_get_one_ledger_one_scope_and_one_value(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "clinic.ledger")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(AT_ONCE)]
    said = {process.communicate(timeout=120)[0] for process in running}
    assert [process.returncode for process in running] == [0] * AT_ONCE
    assert len(said) == 1
    assert said.pop().startswith("clinic/")
    again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    with Ledger.open(tmp_path / "clinic.ledger") as book:
        assert [entry.body.kind for entry in book.entries()] == [
            "ledger_opened",
            "scope_opened",
            "reserved",
            "committed",
        ]
        assert book.id in again.stdout


def test_a_ledger_that_is_there_is_opened_with_all_that_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    with Ledger.open_or_create(path) as first:
        first.scope("patients", **RULES).release(Laplace(epsilon="0.5", sensitivity=1), 7)
        size = len(first)
    with Ledger.open_or_create(path, name="clinic") as second:
        assert len(second) == size
        assert second.scope("patients", **RULES).spent("1e-6").upper == 0.5


def test_a_path_where_a_ledger_stands_says_how_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    Ledger.create(path).close()
    with pytest.raises(ParameterError) as refused:
        Ledger.create(path)
    for word in (str(path), "Ledger.open ", "Ledger.open_or_create ", "`dpledger scopes`"):
        assert word in str(refused.value)


def test_a_ledger_of_another_name_is_not_the_one_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    Ledger.create(path, name="ward").close()
    with pytest.raises(ParameterError, match="'ward'"):
        Ledger.open_or_create(path, name="clinic")


def test_what_is_there_and_is_no_ledger_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    path.write_bytes(b"notes")
    with pytest.raises(ForeignLedger):
        Ledger.open_or_create(path)
    assert [file.name for file in tmp_path.iterdir()] == ["clinic.ledger"]
    assert path.read_bytes() == b"notes"


def test_a_key_without_its_ledger_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "clinic.ledger.key").write_text("somebody's key")
    with pytest.raises(ParameterError, match=r"clinic\.ledger\.key"):
        Ledger.open_or_create(tmp_path / "clinic.ledger")
    assert [file.name for file in tmp_path.iterdir()] == ["clinic.ledger.key"]


def test_who_waits_for_another_process_waits_no_longer_than_was_said(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    with (
        staging.staged(path, "ledger", "nothing"),
        pytest.raises(ParameterError, match="no other process"),
        staging.staged(path, "ledger", "nothing", wait=0.05),
    ):
        raise AssertionError("two at once")


@pytest.mark.parametrize(
    "name", ["my clinic", "Clinic", "", ".clinic", "clinic.", "a//b", "x" * 96, "klinik-zürich", "clinic/", 7]
)
def test_a_name_that_cannot_be_used_says_what_a_name_may_be(tmp_path: Path, name: Any) -> None:
    for make in (Ledger.create, Ledger.open_or_create):
        with pytest.raises(ParameterError) as refused:
            make(tmp_path / "clinic.ledger", name=name)
        assert refused.value.field == "name"
        assert "like my-clinic" in str(refused.value)
        assert "hexadecimal" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"unit": "record"}, "another unit: patient (at most 1 row), not record (at most 1 row)"),
        ({"unit": Unit("patient", 3)}, "another unit: patient (at most 1 row), not patient (at most 3 rows)"),
        ({"relation": "replace_one"}, "another relation: add_remove, not replace_one"),
        ({"keep": "none"}, "another keep: value, not none"),
        ({"parents": ["region"]}, "another parents: none, not region"),
        ({"dataset": "2026"}, "another dataset: none, not 2026"),
    ],
)
def test_a_scope_with_another_rule_is_refused_and_both_are_named(other: dict[str, Any], difference: str) -> None:
    book = Ledger.in_memory()
    book.scope("patients", **RULES)
    before = len(book)
    with pytest.raises(ScopeError) as refused:
        book.scope("patients", **{**RULES, **other})
    assert difference in str(refused.value)
    assert len(book) == before


@pytest.mark.parametrize("budget", [PureDP(2), ApproxDP(1, "1e-6")], ids=["larger", "of another kind"])
def test_a_scope_with_another_budget_is_refused_and_both_are_named(budget: Guarantee) -> None:
    book = Ledger.in_memory()
    book.scope("patients", **RULES)
    with pytest.raises(ScopeError) as refused:
        book.scope("patients", **{**RULES, "budget": budget})
    assert PureDP(1).in_words(text) in str(refused.value)
    assert budget.in_words(text) in str(refused.value)


def test_a_scope_that_is_not_there_names_those_that_are() -> None:
    book = Ledger.in_memory()
    with pytest.raises(ScopeError, match="which has none yet"):
        book.scope("patiens")
    book.scope("ward-7", **RULES)
    book.scope("patients", **RULES)
    with pytest.raises(ScopeError, match="which has 'patients', 'ward-7'; to open it"):
        book.scope("patiens")


def test_of_many_scopes_the_first_are_named_and_the_others_counted() -> None:
    book = Ledger.in_memory()
    for number in range(MOST_LISTED + 3):
        book.scope(f"s{number:02}", **RULES)
    with pytest.raises(ScopeError, match=r"'s19' and 3 more;"):
        book.scope("patients")
