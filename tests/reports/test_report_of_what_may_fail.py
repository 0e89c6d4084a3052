"""The shares of error of a report, in one table: each where it is told, and what any of several comes to."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from hypothesis import given, strategies as st

from dpledger.accounting.guarantees import AccuracyFailure, ApproxDP, PureDP
from dpledger.ledger.entries.members import Power
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.reports.build import build
from dpledger.reports.model import ReportModel, Table, blocks
from report_records import Record, audit, crowded, sample


def rows(model: ReportModel) -> dict[str, tuple[str, str, str]]:
    """By what fails: of what, each, any of them."""
    (found,) = (block for block in blocks(model.sections) if isinstance(block, Table) and block.id == "failures/table")
    return {row[0].text: (row[1].text, row[2].text, row[3].text) for row in found.rows}


def test_each_share_that_the_report_tells_has_its_row() -> None:
    assert rows(build(sample().verified())) == {
        "ε does not cover all that may be learnt about one patient": ("scope patients-2026", "1e-6", "1e-6"),
        "ε does not cover all that may be learnt": ("1 promise", "0", "0"),
        "a suspicion becomes more than is stated": ("what a suspicion of 1 % becomes", "0.001", "each by itself"),
        "a number is further off than its interval": ("6 releases with an interval", "0.05", "each by itself"),
        "a lower bound is above the truth": ("2 audits", "0.05", "0.1"),
        "a fault as large as it would have refuted was missed": ("1 audit that refuted nothing", "0.2", "0.2"),
    }


def test_a_record_in_which_nothing_may_fail_says_so() -> None:
    (found,) = (
        one for one in blocks(build(Record().verified()).sections) if isinstance(one, Table) and "failures" in one.id
    )
    assert found.rows == ()
    assert found.empty.startswith("Nothing here may fail")


def test_promises_over_the_same_people_are_told_by_their_sum_and_many_in_one_row() -> None:
    record = Record()
    for name in ("a", "b"):
        record.scope(name, ApproxDP(1, "1e-6"), dataset="visits")
    assert rows(build(record.verified()))["ε does not cover all that may be learnt about one patient"] == (
        "scopes a, b",
        "2e-6",
        "2e-6",
    )
    many = rows(build(crowded().verified()))
    assert many["ε does not cover all that may be learnt"][0] == "2 promises"
    assert len(many) < 12


def test_what_mechanisms_say_of_their_answers_fails_for_any_of_them_with_the_sum() -> None:
    class Stated(Laplace):
        def failures(self) -> tuple[AccuracyFailure, ...]:
            return (AccuracyFailure(Decimal("0.125"), "the number is within 3"),)

    record = Record()
    record.scope("patients", PureDP(3), dataset="visits")
    for _ in range(3):
        record.release("patients", Stated(sensitivity=1, epsilon="0.5"))
    told = rows(build(record.verified()))["an answer is worse than its mechanism says"]
    assert told == ("3 statements of mechanisms on their answers", "0.125", "0.375")


@given(st.lists(st.decimals("0.5", "0.999", places=3), min_size=1, max_size=30))
def test_that_any_audit_errs_has_at_most_the_sum_of_their_shares(confidences: list[Decimal]) -> None:
    record = Record()
    for number, confidence in enumerate(confidences):
        body = audit(f"job.{number}", PureDP(1), "0.5", "not_refuted")
        record.add(replace(body, confidence=confidence, power=Power("0.9", confidence)))
    found = rows(build(record.verified()))
    every = sum((1 - Fraction(confidence) for confidence in confidences), Fraction(0))
    most = 1 - Fraction(min(confidences))
    for what in ("a lower bound is above the truth", "a fault as large as it would have refuted was missed"):
        _, each, any_ = found[what]
        assert most <= Fraction(each) <= most * Fraction("1.001")
        if every >= 1:
            assert any_ == "nothing can be said"
        else:
            assert every <= Fraction(any_) <= every * Fraction("1.001")


def test_a_charge_that_came_back_tells_nothing() -> None:
    record = Record()
    record.scope("patients", PureDP(1), dataset="visits")
    record.abort("patients", Laplace(sensitivity=1, epsilon="0.5"))
    assert list(rows(build(record.verified()))) == ["ε does not cover all that may be learnt"]
