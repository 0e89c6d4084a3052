"""Runs that happened elsewhere are marked in every rendering of a report: whose word, why, and on what evidence."""

from __future__ import annotations

from typing import Any

import pytest

import dpledger as dpl
from dpledger.errors import BudgetRefused
from dpledger.reports import Report
from dpledger.reports.build import build
from dpledger.reports.model import Table, blocks

WORD: dict[str, Any] = {
    "by": "Dr. Ada Smith",
    "reason": "the study of 2025",
    "relation": "add_remove",
    "evidence": "sha256:" + "cd" * 32,
}
TRYING = "<script>alert(1)</script>[x](javascript:alert(1))|`'\""


def reported(**said: Any) -> Report:
    book = dpl.Ledger.in_memory()
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    scope.release(dpl.Count("0.125", of="rows", counted="patients"), [1, 1], key="here")
    scope.charge(dpl.LaplaceLaw("0.25"), key="there", **said)
    with scope.charging(dpl.LaplaceLaw("0.25"), key="never", **said) as run:
        run.nothing_ran()
    with pytest.raises(BudgetRefused):
        scope.charge(dpl.LaplaceLaw("7"), key="refused", **said)
    return dpl.report(book)


@pytest.mark.parametrize("rendering", ["html", "markdown", "json"])
def test_every_rendering_says_whose_word_it_is(rendering: str) -> None:
    text = getattr(reported(**WORD), rendering)().replace("\\", "").replace("<wbr>", "")  # escapes, places to break
    told = ("attested", "ran elsewhere", "on the word of who declared it", "nothing here covers it")
    for shown in (*WORD.values(), *told):
        assert shown in text


def test_what_ran_here_is_recomputed_and_what_ran_elsewhere_is_not() -> None:
    """The same law both times: what is attested is that it was this law."""
    lines = [line for line in reported(**WORD).markdown().splitlines() if "0.125" in line or "ran elsewhere" in line]
    here = [line for line in lines if "recomputed" in line]
    there = [line for line in lines if "ran elsewhere" in line]
    assert here
    assert there
    assert not set(here) & set(there)


def test_words_that_try_to_be_more_than_words_stay_words() -> None:
    report = reported(by=TRYING, reason=TRYING, evidence=TRYING, relation="add_remove")
    assert "<script>alert" not in report.html()
    assert "&lt;script&gt;" in report.html()
    assert "<script>alert" not in report.markdown()


def test_the_annex_says_which_budget_an_audit_is_about_and_nothing_untrue_of_what_ran_elsewhere() -> None:
    def outright(data: list[int], rng: object) -> int:
        return sum(data)

    book = dpl.Ledger.in_memory()
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    result = dpl.audit_mechanism(outright, [1], [1, 1], claim=dpl.PureDP("0.5"), trials=2000, seed=1)
    book.record(result, about=["patients"])
    book.record(result)
    scope.charge(dpl.PureDP("0.25"), **WORD)
    text = dpl.report(book).markdown().replace("\\", "")
    tables = {block.id: block for block in blocks(build(book.verify()).sections) if isinstance(block, Table)}
    found = tables["audits/nowhere"]
    assert found.columns[-1].heading == "Budget"
    assert [(row[3].text, row[-1].text) for row in found.rows] == [
        ("violation", "patients"),
        ("violation", "none is named"),
    ]
    assert "1 run elsewhere never audited: no entry ties an audit to such a run" in text
    assert "each kind was audited" not in text


def test_a_run_that_was_given_back_charges_nothing() -> None:
    book = dpl.Ledger.in_memory()
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    with scope.charging(dpl.PureDP("0.5"), **WORD) as run:
        run.nothing_ran()
    account = scope.account()
    assert account.attested == ()
    assert account.spent.upper == 0
