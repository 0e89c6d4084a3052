"""What a report says of audits that saw nothing, of those that were intended and never finished, and of pairs that are
no pairs."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import dpledger as dpl
from dpledger.accounting.guarantees import PureDP
from dpledger.ledger.entries.bodies import Audited, Intended
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.reports.build import build
from dpledger.reports.model import Answer, Item, Items, ReportModel, Table, blocks
from report_records import Record, audit

BLIND = "every run gave the same output, on both datasets"


def answer_of(model: ReportModel) -> Answer:
    return {answer.id: answer for answer in model.pages[0].answers}["first_page/audits"]


def items_of(model: ReportModel) -> dict[str, Item]:
    items = (item for block in blocks(model.sections) if isinstance(block, Items) for item in block.items)
    return {item.id: item for item in items}


def table_of(model: ReportModel, id_: str) -> Table:
    (found,) = (block for block in blocks(model.sections) if isinstance(block, Table) and block.id == id_)
    return found


def one_scope(epsilon: str) -> Record:
    record = Record()
    record.scope("patients", PureDP(1), dataset="visits")
    record.release("patients", Laplace(sensitivity=1, epsilon=epsilon))
    return record


def blind(kind: str, **changes: Any) -> Audited:
    """An audit of a function that releases nothing."""
    found = audit(kind, PureDP("0.5"), "0", "not_refuted")
    return replace(found, power=None, blind=BLIND, event="any output", **changes)


def test_an_audit_that_saw_nothing_leaves_what_ran_as_never_audited_and_says_why() -> None:
    record = one_scope("0.5")
    record.add(blind("laplace"))
    found = answer_of(build(record.verified()))
    assert (found.text, found.status) == ("no audit", "unknown")
    assert found.lines == (
        "Never audited: noisy numbers.",
        f"An audit of noisy numbers could see nothing: {BLIND}.",
    )
    record.add(audit(Laplace(sensitivity=1, epsilon="0.5"), PureDP("0.5"), "0.4", "not_refuted"))
    assert not any(
        "Never audited" in line or "saw nothing" in line for line in answer_of(build(record.verified())).lines
    )


def test_an_audit_that_saw_nothing_is_no_audit_of_a_run_elsewhere() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1), dataset="visits")
        scope.charge(PureDP("0.5"), relation="add_remove", by="A. Smith", reason="a survey", mechanism="myjob.mean_los")
        book.record(blind("myjob.mean_los"))
        model = build(book.verify())
    found, annex = answer_of(model), items_of(model)
    assert (found.text, found.status) == ("nothing ran here", "unknown")
    assert found.lines == ("1 run elsewhere never audited.",)
    assert annex["audits/never_audited"].text == "1 run elsewhere: no audit is of that name"


def test_the_annex_lists_audits_that_saw_nothing_apart_with_the_reason() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1), dataset="visits")
        scope.release(dpl.Laplace(sensitivity=1, epsilon="0.5"), 3)
        scope.record(blind("laplace"))
        model = build(book.verify())
    (row,) = table_of(model, "audits/blind").rows
    assert [cell.text for cell in row] == ["laplace", "4", BLIND, "500,000 + 500,000", "patients"]
    assert not table_of(model, "audits/results").rows
    never = items_of(model)["audits/never_audited"]
    assert never.origin.status == "unknown"
    assert never.text.endswith(f"laplace: an audit was tried and saw nothing: {BLIND}")


def test_what_was_intended_and_never_finished_is_told_until_it_is_finished() -> None:
    result = audit("laplace", PureDP("0.5"), "0.4", "not_refuted")
    said = Intended(
        mechanism=result.mechanism,
        claim=result.claim,
        relation=result.relation,
        trials=result.trials_left,
        confidence=result.confidence,
        seed=result.seed,
    )
    line = "Intended but never finished: 1 audit (noisy numbers)."
    with dpl.Ledger.in_memory() as book:
        first, second = book.intend(said), book.intend(said)
        book.record(result, intended=second.index)
        model = build(book.verify())
        assert line in answer_of(model).lines
        (row,) = table_of(model, "audits/unfinished").rows
        assert [cell.text for cell in row] == [
            "laplace",
            str(first.index),
            "ε = 0.5, δ = 0",
            "at most 500,000 a side",
            "none is named",
        ]
        book.record(blind("laplace"), intended=first.index)  # tried, and told
        model = build(book.verify())
        assert line not in answer_of(model).lines
        assert "audits/unfinished" not in {block.id for block in blocks(model.sections) if isinstance(block, Table)}


def test_an_audit_that_ended_early_without_a_violation_is_not_finished() -> None:
    found = audit("laplace", PureDP("0.5"), "0.4", "not_refuted")
    said = Intended(
        mechanism=found.mechanism,
        claim=found.claim,
        relation=found.relation,
        trials=1_000_000,
        confidence=found.confidence,
        seed=found.seed,
    )
    few: dict[str, Any] = {"trials_left": 1_000, "trials_right": 1_000, "power": None}
    refuted = replace(audit("laplace", PureDP("0.5"), "0.9", "violation"), **few)
    ended = "intended for 1,000,000 runs a side, ended after 1,000 without a violation"
    with dpl.Ledger.in_memory() as book:
        for result in (refuted, replace(found, trials_left=1_000_000, trials_right=1_000_000)):
            book.record(result, intended=book.intend(said).index)
        assert "audits/unfinished" not in {
            block.id for block in blocks(build(book.verify()).sections) if isinstance(block, Table)
        }
        early = book.intend(said)
        book.record(replace(found, **few), intended=early.index)
        model = build(book.verify())
    assert f"Ended early, so not finished: noisy numbers, {ended}." in answer_of(model).lines
    assert not any("never finished" in line for line in answer_of(model).lines)
    (row,) = table_of(model, "audits/unfinished").rows
    assert (row[1].text, row[3].note) == (str(early.index), f"seed 7; {ended}")


def test_rows_that_are_no_pair_and_strata_that_fell_together_are_told_beside_the_verdict() -> None:
    distant = "no neighbours under add_remove: 0 rows in left alone, 3 in right alone, 1 a unit"
    record = one_scope("0.5")
    record.add(replace(audit("laplace", PureDP("0.5"), "0.9", "violation"), apart=distant))
    together = replace(audit("laplace", PureDP("0.5"), "0.4", "violation"), together=True, e_value=Decimal("25.5"))
    record.add(replace(together, schedule="blocks_1", arms=12, code="ab" * 32))
    model = build(record.verified())
    lines = answer_of(model).lines
    assert "On data that differ by more than one unit, if they are rows: 1 audit, a violation (noisy numbers)." in lines
    notes = [row[3].note for row in table_of(model, "audits/results").rows]
    assert notes == [
        f"if the data are rows, they are {distant}",
        "by all strata of outcomes together; no single stratum was refuted",
    ]
    (_, evidence) = [row[7].note for row in table_of(model, "audits/results").rows]
    assert evidence == (
        "method threshold, seed 7, order of runs blocks_1, 12 bets, e-value at least 25.5, "
        "code SHA-256 abababababababab…"
    )
