"""A report adds up scopes over the same people, says which it could not add, and shows odometers as what they are."""

import pytest

import dpledger as dpl
from dpledger.mechanisms.entropy import seeded
from dpledger.reports.model import Item, Items, blocks


@pytest.fixture(scope="module")
def book() -> dpl.Ledger:
    book = dpl.Ledger.in_memory(clock=lambda: "2026-11-21T10:00:00Z", entropy=seeded(1))
    who = {"unit": "patient", "relation": "add_remove"}
    odometer = dpl.ex_post.Odometer("mixture", tuning="0.5", delta_boundary="1e-6")
    for name in ("counts", "models"):
        book.scope(name, budget=dpl.ApproxDP(1, "1e-6"), dataset="ward 7", odometer=odometer, **who)  # type: ignore[arg-type]
    book.scope("survey", budget=dpl.PureDP(1), **who)  # type: ignore[arg-type]
    book.scope("counts").release(dpl.Laplace(sensitivity=1, epsilon="0.4"), 1234)
    book.scope("models").release(dpl.Gaussian(sensitivity=1, noise_multiplier=10), 3)
    return book


@pytest.fixture(scope="module")
def items(book: dpl.Ledger) -> dict[str, Item]:
    model = dpl.report(book).model
    return {item.id: item for block in blocks(model.sections) if isinstance(block, Items) for item in block.items}


def test_scopes_of_one_dataset_are_added_in_words(items: dict[str, Item]) -> None:
    found = items["scopes/together/0"]
    assert found.label == "Together, for one patient of dataset ward 7"
    assert found.text.startswith("at most ε = 2, δ = 2e-6")
    assert "scopes counts, models, add/remove" in found.text
    assert found.origin.status == "measured"


def test_what_could_not_be_added_is_unknown(items: dict[str, Item]) -> None:
    found = items["scopes/not_added/0"]
    assert found.label == "Not added up: scope survey"
    assert "they name no dataset" in found.text
    assert found.origin.status == "unknown"


def test_an_odometer_stands_under_a_heading_that_says_what_it_is_not(book: dpl.Ledger, items: dict[str, Item]) -> None:
    page = dpl.report(book).markdown()
    assert "Odometer: a reading valid at every moment, no guarantee of differential privacy" in page
    assert items["scope:counts/odometer_upper"].text == "ε ≤ 0.4, δ = 1e-6"
    assert "scope:survey/odometer_upper" not in items
    shown = book.scope("models").account().odometer()
    assert shown is not None
    assert items["scope:models/odometer_upper"].value == shown.epsilon_upper


def test_one_scope_has_nothing_to_add() -> None:
    book = dpl.Ledger.in_memory()
    book.scope("one", unit="patient", relation="add_remove", budget=dpl.PureDP(1))
    ids = {
        item.id for block in blocks(dpl.report(book).model.sections) if isinstance(block, Items) for item in block.items
    }
    assert not any(name.startswith(("scopes/together", "scopes/not_added")) for name in ids)
