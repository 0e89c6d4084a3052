"""One first page a promise: that of a scope, or of scopes that share people; and a report about one of them alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dpledger as dpl
from dpledger.accounting.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.cli import app
from dpledger.errors import BudgetRefused, ParameterError
from dpledger.reports.document import Report
from dpledger.reports.model import Answer, Items, Picture, Table, blocks


def opened(book: dpl.Ledger) -> dpl.Ledger:
    """Three scopes, two promises: of the patients, whose two budgets add up, and of the staff, in another currency."""
    patient = dpl.Unit("patient", 12)
    for name, epsilon in (("counts", 1), ("training", 3)):
        budget = ApproxDP(epsilon, "1e-6")
        book.scope(name, unit=patient, relation="add_remove", budget=budget, dataset="visits")
    staff = book.scope("staff", unit="employee", relation="add_remove", budget=ZCDP("0.5"), dataset="survey")
    staff.release(dpl.Gaussian(sensitivity=1, noise_multiplier=4), 3)
    book.scope("counts").release(dpl.Count(epsilon="0.5", of="rows"), [1, 2])
    with pytest.raises(BudgetRefused):
        book.scope("counts").release(dpl.Count(epsilon=2, of="rows"), [1, 2])
    book.declare("region", "Europe", by="A. Lindqvist")
    staff.declare("justification", "A survey of one evening", by="S. Boss")
    book.scope("training").declare("justification", "The board agreed", by="A. Lindqvist")
    return book


@pytest.fixture(scope="module")
def book() -> dpl.Ledger:
    return opened(dpl.Ledger.in_memory())


def pages(made: Report) -> list[dict[str, Answer]]:
    return [{answer.id.rpartition("/")[2]: answer for answer in page.answers} for page in made.model.pages]


def said(answers: dict[str, Answer]) -> str:
    return " ".join(text for answer in answers.values() for text in (answer.text, *answer.lines))


def test_each_promise_has_a_page_that_says_nothing_of_the_others(book: dpl.Ledger) -> None:
    made = dpl.report(book)
    assert [page.scopes for page in made.model.pages] == [("counts", "training"), ("staff",)]
    assert [page.about for page in made.model.pages] == [
        "Promise 1 of 2: budgets “counts”, “training”",
        "Promise 2 of 2: budget “staff”",
    ]
    patients, staff = pages(made)
    assert staff["who"].text == "One employee"
    assert patients["who"].text == "One patient"
    assert "Why this budget: A survey of one evening" in staff["decision"].lines
    agreed = "Why this budget: The board agreed (for budget “training”); nobody has said for budget “counts”"
    assert agreed in patients["decision"].lines
    assert (staff["refusal"].text, patients["refusal"].text) == ("nothing", "Counts")
    assert staff["audits"].lines == ("Never audited: noisy numbers.",)
    assert patients["audits"].lines == ("Never audited: counts.",)
    others = re.compile("patient|visits|training|The board|counts")
    promise = staff["promise"]
    quiet = {**staff, "promise": Answer(id="", question="", text=promise.text, lines=promise.lines[:3])}
    assert not others.search(said(quiet))


def test_a_promise_in_another_currency_is_told_in_it_first(book: dpl.Ledger) -> None:
    patients, staff = pages(dpl.report(book))
    assert staff["promise"].text == "ρ ≤ 0.5"
    assert staff["promise"].lines[:2] == (
        "read as ε ≤ 5.222 at δ = 1e-6",
        "This δ is the report's choice, not the budget's: ε is read at this δ, and is larger at a smaller δ.",
    )
    assert staff["used"].text == "6.25 %"
    assert staff["used"].lines[0].startswith("ρ ≤ 0.03125 of 0.5, ")
    assert any(line.startswith("Read as ε ≤ ") for line in staff["used"].lines)
    (table,) = (
        one for one in blocks(dpl.report(book).model.sections) if isinstance(one, Table) and one.id == "scopes/table"
    )
    told = {row[0].text: [(cell.text, cell.note) for cell in row[2:4]] for row in table.rows}
    assert told["staff"][0] == ("ρ = 0.5", "read as ε ≤ 5.222 at δ = 1e-6")
    assert told["staff"][1][0] == "ρ ≤ 0.03125"
    assert told["counts"] == [("ε = 1, δ = 1e-6", ""), ("ε ≤ 0.5", "at δ = 1e-6")]
    assert patients["promise"].text == "ε ≤ 4, δ = 2e-6"
    assert patients["promise"].lines[0].endswith("about one patient; the δ is the budgets' own")


@pytest.mark.parametrize(
    ("budgets", "text", "whose"),
    [
        ((GDP(1),), "μ ≤ 1", "This δ is the report's choice"),
        ((ZCDP("0.1", "1e-3"),), "ρ ≤ 0.1, δ = 0.001", "the report's choice, 1e-6 above the budget's own δ of 0.001"),
        ((ZCDP("0.25"), ZCDP("0.25")), "ρ ≤ 0.5", "This δ is the report's choice"),
        ((ZCDP("0.5"), PureDP(1)), None, "The report chose part of δ"),
        ((ApproxDP(1, "1e-6"),), "ε ≤ 1, δ = 1e-6", "; the δ is the budget's own"),
        ((PureDP(1),), "ε ≤ 1, δ = 0", None),
    ],
)
def test_whose_delta_it_is_is_said(budgets: tuple[Guarantee, ...], text: str | None, whose: str | None) -> None:
    with dpl.Ledger.in_memory() as book:
        for number, budget in enumerate(budgets):
            book.scope(f"s{number}", unit="patient", relation="add_remove", budget=budget, dataset="visits")
        (page,) = pages(dpl.report(book))
    found = page["promise"]
    assert text is None or found.text == text
    lines = " ".join(found.lines)
    assert whose in lines if whose else "δ" not in lines


def test_a_report_about_one_scope_is_about_the_promise_that_covers_it(book: dpl.Ledger) -> None:
    made = dpl.report(book, scope="training")
    (page,) = made.model.pages
    assert page.scopes == ("counts", "training")
    assert page.about == "Promise 1 of 2: budgets “counts”, “training”"
    assert pages(made)[0]["promise"].lines == pages(dpl.report(book))[0]["promise"].lines
    annexes = {one.id: one for one in blocks(made.model.sections) if isinstance(one, Table)}
    assert [row[0].text for row in annexes["scopes/table"].rows] == ["counts", "training"]
    assert [row[0].text for row in annexes["ran/admissions"].rows] == ["count"]
    items = [item for one in blocks(made.model.sections) if isinstance(one, Items) for item in one.items]
    assert not any("employee" in item.text or "staff" in item.label for item in items)
    assert "A survey of one evening" not in made.html()


OF_THE_RECORD = {"verified", "record", "first_page/record"}
"""What a report about one scope says of the whole record."""


def test_what_happens_in_another_scope_changes_only_what_is_said_of_the_record() -> None:
    """A section that counted all entries, and not those that it is given, would say something else."""

    def told(book: dpl.Ledger) -> dict[str, object]:
        made = dpl.report(book, scope="counts").model
        sections = {one.id: [block for block in one.blocks if not isinstance(block, Picture)] for one in made.sections}
        answers = {answer.id: answer for page in made.pages for answer in page.answers}
        return {**sections, **answers}

    with dpl.Ledger.in_memory() as book:
        for name, unit in (("counts", "patient"), ("staff", "employee")):
            book.scope(name, unit=unit, relation="add_remove", budget=PureDP(2), dataset=unit)
        book.scope("counts").release(dpl.Count(epsilon="0.5", of="rows"), [1, 2])
        before, staff = told(book), book.scope("staff")
        staff.release(dpl.Laplace(sensitivity=1, epsilon=1), 3)
        with pytest.raises(BudgetRefused):
            staff.release(dpl.Laplace(sensitivity=1, epsilon=2), 3)
        staff.reserve(dpl.Laplace(sensitivity=1, epsilon="0.1"))
        staff.declare("justification", "A survey of one evening", by="S. Boss")
        after = told(book)
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == OF_THE_RECORD


def test_a_scope_under_a_parent_is_under_the_promise_of_the_parent() -> None:
    with dpl.Ledger.in_memory() as book:
        book.scope("all", unit="patient", relation="add_remove", budget=PureDP(2), dataset="visits")
        part = book.scope("part", unit="patient", relation="add_remove", budget=PureDP(1), parents=["all"])
        part.release(dpl.Count(epsilon="0.5", of="rows"), [1, 2])
        made = [dpl.report(book, scope=name) for name in ("all", "part")]
    assert made[0].model == made[1].model
    assert [page.scopes for page in made[0].model.pages] == [("all",)]
    assert [page.about for page in made[0].model.pages] == [""]


def test_of_units_of_many_rows_each_promise_is_one(book: dpl.Ledger) -> None:
    """One for a patient of twelve rows, and one for a patient of one, whom both budgets protect."""
    with dpl.Ledger.in_memory() as book:
        for name, unit in (("a", dpl.Unit("patient", 12)), ("b", dpl.Unit("patient", 1))):
            book.scope(name, unit=unit, relation="add_remove", budget=PureDP(1), dataset="visits")
        made = dpl.report(book, scope="a")
    assert [page.scopes for page in made.model.pages] == [("a", "b"), ("a",)]
    rows = [line for page in pages(made) for line in page["who"].lines if "at most" in line]
    assert rows == [f"one patient has at most {many}: declared, not measured" for many in ("1 row", "12 rows")]


@pytest.mark.parametrize("scope", ["stuff", 7, ""])
def test_a_scope_that_is_not_there_is_named(book: dpl.Ledger, scope: object) -> None:
    with pytest.raises(ParameterError, match="scope: expected"):
        dpl.report(book, scope=scope)  # type: ignore[arg-type]


def test_what_several_scopes_say_alike_is_said_once(book: dpl.Ledger) -> None:
    items = [item for one in blocks(dpl.report(book).model.sections) if isinstance(one, Items) for item in one.items]
    told = {item.label: item for item in items if "Contribution bound" in item.label or item.label == "State"}
    assert {label: item.scopes for label, item in told.items()} == {
        "Contribution bound: counts, training": ("counts", "training"),
        "Contribution bound: staff": ("staff",),
        "State": ("counts", "staff", "training"),
    }
    assert all(item.text.endswith("declared, not measured") for label, item in told.items() if label != "State")


def test_a_gap_of_one_promise_is_no_gap_of_another() -> None:
    with dpl.Ledger.in_memory() as book:
        for name in ("a", "b"):
            book.scope(name, unit=f"person-{name}", relation="add_remove", budget=ApproxDP(1, "1e-6"), dataset=name)
        for item in ("decision_owner", "population_size"):
            book.scope("a").declare(item, "4821", by="A. Lindqvist")
        made = dpl.report(book)
    gaps = {page.scopes: answers["gaps"] for page, answers in zip(made.model.pages, pages(made), strict=True)}
    assert [gaps[(name,)].text for name in "ab"] == ["9 of the 10 required items", "10 of the 10 required items"]
    compared = "δ compared with 1/n: b"
    assert [any(link.label == compared for link in gaps[(name,)].links) for name in "ab"] == [False, True]


def shared() -> tuple[dpl.Ledger, dpl.Scope, dpl.Scope]:
    """One promise of two budgets, and a third that is charged to the first."""
    book = dpl.Ledger.in_memory()
    for name, parents in (("a", []), ("b", []), ("part", ["a"])):
        dataset = None if parents else "visits"
        book.scope(name, unit="patient", relation="add_remove", budget=PureDP(1), dataset=dataset, parents=parents)
    return book, book.scope("a"), book.scope("b")


def test_words_about_one_budget_are_not_told_as_those_of_its_promise() -> None:
    book, a, b = shared()
    for item in ("intended_use", "justification", "decision_owner", "non_dp_releases", "invariants", "people"):
        a.declare(item, "Said of a", by="A. Lindqvist")
    (page,) = pages(dpl.report(book))
    some = "Said of a (for budget “a”); nobody has said for budget “b”"
    assert (page["decision"].text, page["decision"].status) == (some, "unknown")
    assert f"For: {some}" in page["decision"].lines
    assert (page["unprotected"].lines[0], page["unprotected"].status) == (f"Without noise: {some}", "unknown")
    assert f"{some} (declared by A. Lindqvist)" in page["who"].lines
    assert page["gaps"].text == "10 of the 10 required items"
    for item in ("intended_use", "justification", "decision_owner", "non_dp_releases", "invariants"):
        b.declare(item, "Said of b", by="S. Boss")
    (page,) = pages(dpl.report(book))
    both = "Said of a (for budget “a”); 1 more for other budgets"
    assert (page["decision"].text, page["decision"].status) == (both, "declared")
    assert page["unprotected"].status == "declared"
    assert page["gaps"].text == "7 of the 10 required items"


def test_words_about_the_ledger_are_of_every_budget_that_has_none_of_its_own() -> None:
    book, a, _ = shared()
    book.declare("intended_use", "Planning", by="A. Lindqvist")
    (page,) = pages(dpl.report(book))
    assert "For: Planning" in page["decision"].lines
    a.declare("intended_use", "Research", by="A. Lindqvist")
    (page,) = pages(dpl.report(book))
    assert "For: Planning (for budget “b”); 1 more for other budgets" in page["decision"].lines


def test_each_budget_has_its_own_trust_model() -> None:
    book, a, b = shared()
    a.declare("trust_model", "local, on each phone", by="A. Lindqvist")
    told = "Trust model: local for budget “a” (declared by A. Lindqvist); unknown for budget “b”."
    assert told in pages(dpl.report(book))[0]["promise"].lines
    b.declare("trust_model", "central", by="S. Boss")
    told = "Trust model: local for budget “a”, central for budget “b” (declared by A. Lindqvist; S. Boss)."
    assert told in pages(dpl.report(book))[0]["promise"].lines
    a.declare("trust_model", "central: the clinic", by="A. Lindqvist")
    told = "Trust model: central (declared by A. Lindqvist; S. Boss)."
    assert told in pages(dpl.report(book))[0]["promise"].lines


def test_a_question_is_open_while_one_budget_has_no_answer() -> None:
    book, a, b = shared()

    def asked() -> set[str | None]:
        tables = (one for one in blocks(dpl.report(book).model.sections) if isinstance(one, Table))
        (table,) = (one for one in tables if one.id == "questions/table")
        return {row[3].status for row in table.rows if row[0].text.startswith("Whom must one trust")}

    a.declare("trust_model", "central", by="A. Lindqvist")
    assert asked() == {"unknown"}
    b.declare("trust_model", "central", by="A. Lindqvist")
    assert asked() == {"declared"}


def test_the_command_takes_a_scope(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    opened(dpl.Ledger.create(path)).close()
    out = tmp_path / "report.json"
    ran = CliRunner().invoke(app, ["report", str(path), "--scope", "staff", "-o", str(out), "--json"])
    assert ran.exit_code == 0, ran.output
    assert [page["scopes"] for page in json.loads(out.read_bytes())["pages"]] == [["staff"]]
    assert '"promises": [["staff"]]' in re.sub(r"\s+", " ", ran.stdout).replace("[ [", "[[").replace("] ]", "]]")
    wrong = CliRunner().invoke(app, ["report", str(path), "--scope", "stuff", "-o", str(out)])
    assert wrong.exit_code != 0
    assert "counts, staff, training" in wrong.output
