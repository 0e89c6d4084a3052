"""The report of a real ledger: signed, verified, reported, and the report recorded in the ledger that it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpledger as dpl
from dpledger.errors import BudgetRefused, ParameterError, VerificationError
from dpledger.ledger.signed import wire
from dpledger.ledger.verifying import verification
from dpledger.mechanisms.entropy import seeded
from dpledger.reports.model import Items, Table, blocks


@pytest.fixture
def book() -> dpl.Ledger:
    book = dpl.Ledger.in_memory(clock=lambda: "2026-11-21T10:00:00Z", entropy=seeded(1))
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=dpl.ApproxDP(1, "1e-6"))
    scope.release(dpl.Laplace(sensitivity=1, epsilon="0.1"), 1234)
    with scope.open(dpl.SparseVector(epsilon="0.5", cutoff=2, threshold=3, sensitivity=1), [1] * 30) as tests:
        tests.ask(len)
    with pytest.raises(BudgetRefused):
        scope.release(dpl.Laplace(sensitivity=1, epsilon=2), 1234)
    book.declare("region", "Europe", by="A. Lindqvist")
    return book


def test_a_path_is_no_ledger_and_the_way_to_open_one_is_told() -> None:
    with pytest.raises(ParameterError, match=r"dpl\.Ledger\.look\(path\) opens a file for reading"):
        dpl.report("clinic.ledger")  # type: ignore[arg-type]


def test_a_ledger_is_verified_and_reported(book: dpl.Ledger) -> None:
    made = dpl.report(book)
    tables = {block.id: block for block in blocks(made.model.sections) if isinstance(block, Table)}
    names = [row[0].text for row in tables["ran/admissions"].rows]
    assert names == ["laplace", "sparse_vector"]
    assert [row[0].text for row in tables["stopped/refusals"].rows] == ["laplace"]
    assert made.model.root == book.verify().head.root.hex()


def test_what_was_released_is_in_no_report(book: dpl.Ledger) -> None:
    value = book.scope("patients").release(dpl.Laplace(sensitivity=1, epsilon="0.01", bound=9), 8.125).value
    made = dpl.report(book)
    assert all(repr(value) not in form for form in (made.html(), made.json(), made.markdown()))


def test_a_report_enters_the_ledger_by_its_digest_and_the_next_one_names_it(book: dpl.Ledger) -> None:
    first = dpl.report(book)
    entry = book.record(first.body())
    following = dpl.report(book)
    items = {
        item.id: item for block in blocks(following.model.sections) if isinstance(block, Items) for item in block.items
    }
    assert items["verified/previous"].value == first.digest
    assert items["verified/since_previous"].text.startswith("0 charges")
    assert entry.body.kind == "reported"
    assert following.digest != first.digest


def test_a_file_that_was_changed_has_no_report(book: dpl.Ledger, tmp_path: Path) -> None:
    leaves = list(book.leaves())
    leaves[2] = leaves[2].replace(b"a", b"b", 1)
    with pytest.raises(VerificationError):
        dpl.report(verification.verify(leaves, book.head, book.public_key))


def test_the_json_form_is_one_that_the_ledger_reads(book: dpl.Ledger) -> None:
    text = dpl.report(book).json().encode()
    assert wire.dump(wire.parse(text)) == text
