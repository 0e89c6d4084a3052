"""What a report says of a record that its reader has seen before: the entries since, and what they changed."""

from __future__ import annotations

import dpledger as dpl
from dpledger.accounting import filters
from dpledger.accounting.guarantees import PureDP
from dpledger.ledger.accounts.recomposition import accounts
from dpledger.ledger.entries.bodies import Reported
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.reports import Report
from dpledger.reports.build import build
from dpledger.reports.model import Prose, ReportModel, Section, Table, blocks
from dpledger.reports.sections.spending import reading_before
from report_records import Record, audit, hostile, sample


def since(record: Record, seen: int) -> ReportModel:
    return build(record.verified(witnessed=seen))


def annex(model: ReportModel) -> Section:
    (found,) = (one for one in model.sections if one.id == "since")
    return found


def rows(model: ReportModel, name: str) -> list[tuple[str, ...]]:
    (found,) = (block for block in annex(model).blocks if isinstance(block, Table) and block.id == f"since/{name}")
    return [tuple(cell.text for cell in row) for row in found.rows]


def laplace(epsilon: str) -> Laplace:
    return Laplace(sensitivity=1, epsilon=epsilon)


def two_months() -> tuple[Record, int]:
    """Two scopes and a few words, and what came to them in the second month, from the entry that is told."""
    record = Record()
    record.scope("patients", PureDP(1), dataset="visits")
    record.scope("staff", PureDP(2), dataset="shifts")
    record.scope("still", PureDP(3), dataset="beds")
    record.release("patients", laplace("0.25"))
    waiting = record.ask("staff", laplace("0.5"))
    record.declare("region", "North", "A. Lindqvist")
    record.declare("people", "Patients", "A. Lindqvist")
    seen = len(record.entries)
    for _ in range(3):
        record.release("patients", laplace("0.125"))
    record.release("patients", laplace("7"))
    record.abort("patients", laplace("0.0625"))
    record.settle(waiting)
    record.scope("new", PureDP("0.5"), dataset="visits")
    record.ask("new", laplace("0.5"))
    record.declare("region", "North and South", "M. Ndiaye")
    record.declare("people", "Patients", "A. Lindqvist")
    record.declare("timing", "None", "M. Ndiaye")
    record.declare("errors", "None", "M. Ndiaye")
    record.add(audit("laplace", PureDP("0.5"), "0.9", "violation"))
    return record, seen


def test_each_scope_says_what_it_had_spent_then_and_has_now() -> None:
    record, seen = two_months()
    assert rows(since(record, seen), "spent") == [
        ("new", "not open yet", "ε ≤ 0.5", "1", "0"),
        ("patients", "ε ≤ 0.25", "ε ≤ 0.625", "4", "1"),
        ("staff", "ε ≤ 0.5", "ε ≤ 0.5", "0", "0"),
    ]
    (table,) = (one for one in annex(since(record, seen)).blocks if isinstance(one, Table) and one.id == "since/spent")
    assert table.caption.endswith("in 1 other scope nothing changed")


def test_each_charge_refusal_budget_and_audit_has_its_row() -> None:
    record, seen = two_months()
    here, nobody = "asked for here", "the entry names nobody"
    first = seen
    assert rows(since(record, seen), "events") == [
        ("charged × 3", "laplace", "patients", f"{first}, {first + 2}, {first + 4}", "0.125", here),
        ("refused", "laplace", "patients", f"{first + 6}", "nothing", here),
        ("given back", "laplace", "patients", f"{first + 7}", "0", here),
        ("settled", "laplace", "staff", f"{first + 9}", "0.5", here),
        ("budget opened", "ε = 0.5, δ = 0", "new", f"{first + 10}", "", nobody),
        ("charged, not settled", "laplace", "new", f"{first + 11}", "0.5", here),
        ("violation", "laplace", "none is named", f"{first + 16}", "ε ≥ 0.9 at δ = 0", nobody),
    ]


def test_items_that_say_something_else_are_named_and_those_that_say_the_same_are_not() -> None:
    record, seen = two_months()
    region, first = rows(since(record, seen), "words")
    assert region[:3] == ("changed", "Region", "M. Ndiaye")
    assert first[:3] == ("said for the first time × 2", "Timing side channels, Error side channels", "M. Ndiaye")


def test_words_in_place_of_the_samples_are_filled_in() -> None:
    record, copied = Record(), "DPIA-2026-014"
    record.declare("dpia_reference", copied, "A. Lindqvist")
    seen = len(record.entries)
    record.declare("dpia_reference", "DPIA-7", "M. Ndiaye")
    assert rows(since(record, seen), "words")[0][:2] == (
        "filled in, in place of the sample's words",
        "Reference of the data protection impact assessment",
    )
    assert rows(since(record, 1), "words")[0][0] == "said for the first time"
    record.declare("dpia_reference", copied, "M. Ndiaye")
    assert rows(since(record, seen), "words") == []
    assert rows(since(record, seen + 1), "words")[0][0] == "in the sample's words, not filled in"


def test_what_had_been_spent_then_is_what_the_ledger_had_added_up_then() -> None:
    """Wherever the record is cut: by the sums that the rules keep, which fold one entry after another."""
    record, then = sample(), Record()
    found = accounts(record.entries, record.state)
    for entry in record.entries[1:]:
        then.add(entry.body)
        for account in found:
            scope = then.state.scopes.get(account.scope)
            if scope is not None:
                told = reading_before(account, len(then.entries))
                assert told == filters.reading(scope.filter, scope.sums, account.delta)


def test_without_a_checkpoint_the_previous_report_is_what_it_is_held_against() -> None:
    record, seen = two_months()
    assert [one.id for one in build(record.verified()).sections].count("since") == 0
    record.add(Reported(digest="0" * 64, schema="dpledger.report.v2"))
    made = build(record.verified())
    assert annex(made).heading == "What is new since the previous report"
    (nothing,) = annex(made).blocks
    assert isinstance(nothing, Prose)
    assert nothing.lines == ("No entry follows the previous report: the record is as it was.",)
    record.release("patients", laplace("0.0625"))
    assert [row[0] for row in rows(build(record.verified()), "events")] == ["charged"]
    assert annex(since(record, seen)).heading == "What is new since the checkpoint that was given"


def test_the_first_page_leads_to_what_is_new() -> None:
    record, seen = two_months()
    answers = {answer.id: answer for answer in since(record, seen).pages[0].answers}
    assert [link.to for link in answers["first_page/record"].links] == ["verified", "since"]


def test_runs_elsewhere_say_whose_word_they_are() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1), dataset="visits")
        book.record(dpl.report(book).body())
        scope.charge(PureDP("0.25"), relation="add_remove", by="A. Smith", reason="a survey", key="spring")
        made = build(book.verify())
    assert rows(made, "events")[0][5] == "A. Smith, of a run elsewhere"


def test_every_kind_of_entry_can_be_new_and_no_text_of_it_is_more_than_text() -> None:
    for record in (sample(), hostile()):
        made = Report(since(record, 1))
        assert "<script>alert" not in made.html()
        assert "since/events" in {block.id for block in blocks(made.model.sections) if isinstance(block, Table)}
