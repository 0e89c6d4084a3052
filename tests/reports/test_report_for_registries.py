"""What others ask for: an entry of the public registry of deployments, and the questions of NIST SP 800-226."""

from __future__ import annotations

import functools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

import dpledger as dpl
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.errors import ParameterError
from dpledger.ledger.entries import declared_files
from dpledger.ledger.entries.declarations import ITEMS
from dpledger.reports import Report
from dpledger.reports.build import build
from dpledger.reports.model import Cell, Section, Table, blocks
from dpledger.reports.sections.questions import QUESTIONS
from report_records import HOSTILE, Record, report_on_hostile, report_on_sample

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarations.yaml"
OWN = {"first_published": "2026-10-01", "population_size": "398"}  # the others are filled in with more than a number

# The registry's schema of July 2026, as far as an entry of ours uses it: every field with the words that it takes, or
# with its type; those of REQUIRED must be there.
TEXT: tuple[str, ...] = ()
SCHEMA: dict[str, Any] = {
    "url_slug": TEXT,
    "status": ("Draft",),
    "tier": int,
    "deployment.basic.name": TEXT,
    "deployment.basic.data_curators": list,
    "deployment.basic.description": TEXT,
    "deployment.basic.intended_use": TEXT,
    "deployment.basic.data_product_type": (
        *("Summary statistics", "Machine learning model", "Dataset", "Synthetic data"),
        *("Interactive API", "SQL queries"),
    ),
    "deployment.basic.data_product_region": TEXT,
    "deployment.basic.publication_date": TEXT,
    "deployment.dp_variant.variant_name": (
        *("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
    ),
    "deployment.dp_variant.data_domain": TEXT,
    "deployment.dp_variant.unprotected_quantities": TEXT,
    "deployment.privacy_loss.privacy_unit": TEXT,
    "deployment.privacy_loss.privacy_unit_details": TEXT,
    "deployment.privacy_loss.privacy_parameters.epsilon": float,
    "deployment.privacy_loss.privacy_parameters.delta": float,
    "deployment.privacy_loss.privacy_parameters.rho": float,
    "deployment.privacy_loss.privacy_parameters_details": TEXT,
    "deployment.deployment_model.model_name": ("Local", "Central", "Shuffle", "Federated"),
    "deployment.deployment_model.model_name_details": TEXT,
    "deployment.deployment_model.actors": TEXT,
    "deployment.deployment_model.release_type": ("One release", "Many releases"),
    "deployment.deployment_model.release_type_details": TEXT,
    "deployment.deployment_model.data_source_type": ("Static", "Dynamic"),
    "deployment.deployment_model.access_type": ("Interactive", "Non-interactive"),
    "deployment.deployment_model.access_type_details": TEXT,
    "deployment.accounting.post_processing": TEXT,
    "deployment.accounting.composition": TEXT,
    "deployment.implementation.preprocessing_and_hyperparameter_tuning": TEXT,
    "deployment.implementation.mechanisms": TEXT,
    "deployment.implementation.justification": TEXT,
    "deployment.administrative.notes": TEXT,
    "deployment.administrative.registry_authors": list,
}
REQUIRED = {
    *("url_slug", "status", "tier", "deployment.administrative.registry_authors"),
    *(f"deployment.basic.{name}" for name in ("name", "data_curators", "description", "intended_use")),
    *(f"deployment.basic.{name}" for name in ("data_product_type", "data_product_region", "publication_date")),
}


def flat(entry: dict[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in entry.items():
        found |= flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
    return found


def read(made: Report) -> dict[str, Any]:
    """The only entry."""
    (entry,) = every(made)
    return entry


def every(made: Report) -> list[dict[str, Any]]:
    """The entry of each promise."""
    return [flat(entry) for entry in yaml.safe_load_all(made.registry())]


def assert_fits(entry: dict[str, Any]) -> None:
    for field, value in entry.items():
        match SCHEMA[field]:
            case tuple() as taken:
                assert isinstance(value, str), field
                assert not taken or value in taken, field
            case kind if kind is float:
                assert isinstance(value, int | float), field
            case kind:
                assert isinstance(value, kind), field


@functools.cache
def declared(budget: Guarantee) -> Report:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients-2026", unit="patient", relation="add_remove", budget=budget, dataset="visits")
        scope.release(dpl.Count(epsilon="0.01", of="rows"), [1, 2])
        for one in declared_files.read(EXAMPLE):
            text = OWN.get(one.item, f"Ours: {one.text}" if declared_files.is_sample(one.item, one.text) else one.text)
            (scope if one.scope else book).declare(one.item, text, by="R. Meier")
        return dpl.report(book)


# ---- the registry ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "variant", "parameters"),
    [
        (PureDP(1), "Pure DP", {"epsilon": 1}),
        (ApproxDP("0.7", "1e-9"), "Approximate DP", {"epsilon": 0.7, "delta": 1e-9}),
        (ZCDP("0.5"), "Zero-concentrated DP", {"rho": 0.5, "delta": 1e-6, "epsilon": None}),
        (RDP((2, 8), (2, 4)), "Renyi DP", {"delta": 1e-6, "epsilon": None}),
        (GDP(1), "Custom", {"delta": 1e-6, "epsilon": None}),
    ],
    ids=["pure", "approximate", "zcdp", "renyi", "gdp"],
)
def test_an_entry_of_a_declared_ledger_is_whole(
    budget: Guarantee, variant: str, parameters: dict[str, float | None]
) -> None:
    made = declared(budget)
    entry = read(made)
    assert_fits(entry)
    assert entry.keys() >= REQUIRED
    assert (entry["status"], entry["tier"], entry["deployment.dp_variant.variant_name"]) == ("Draft", 3, variant)
    place = "deployment.privacy_loss.privacy_parameters."
    found = {field.removeprefix(place): value for field, value in entry.items() if field.startswith(place)}
    assert found.keys() == parameters.keys()
    assert all(found[name] == value for name, value in parameters.items() if value is not None)
    assert "# Missing" not in made.registry()


def test_what_is_missing_is_listed_and_not_invented() -> None:
    made = report_on_sample()
    entry, other = every(made)
    assert_fits(other)
    assert_fits(entry)
    missing = REQUIRED - entry.keys()
    assert missing == {
        *(f"deployment.basic.{name}" for name in ("data_curators", "description", "data_product_type")),
        *("deployment.basic.data_product_region", "deployment.basic.publication_date"),
        "deployment.administrative.registry_authors",
    }
    comments = [line for line in made.registry().splitlines() if line.startswith("#   ")]
    assert all(any(f"  {field}: required; " in line for line in comments) for field in missing)
    assert entry["tier"] == 1


def test_the_words_of_the_sample_file_are_missing() -> None:
    with dpl.Ledger.in_memory() as book:
        book.scope("patients-2026", unit="patient", relation="add_remove", budget=PureDP(1), dataset="visits")
        book.declare_file(EXAMPLE)
        made = dpl.report(book)
    entry = read(made)
    kinds = {"data_product_type", "release_type", "data_source_type"}  # which one chooses from a list
    places = ("deployment.basic", "deployment.deployment_model")
    assert {field.split(".")[-1] for field in entry if field.startswith(places)} == kinds
    missing = {"dp_variant.data_domain": "data_categories", "deployment_model.release_type_details": "epoch_policy"}
    for field, item in missing.items():
        assert f"#   deployment.{field}: item {item} has the sample's words, not filled in" in made.registry()


@pytest.mark.parametrize(
    ("exactly", "without_noise", "taken"),
    [
        ("None", None, None),
        (None, "Number of invitations", None),
        ("The number of clinics", "None", None),  # the sample's words
        ("None", "none.", "None"),
        ("None", "Number of invitations", "Without noise: Number of invitations"),
        ("The hospitals", "None", "Exactly: The hospitals"),
        ("The hospitals", "Invitations", "Exactly: The hospitals; without noise: Invitations"),
    ],
)
def test_what_is_not_protected_is_known_where_both_kinds_of_it_are(
    exactly: str | None, without_noise: str | None, taken: str | None
) -> None:
    record = Record()
    record.scope("patients", PureDP(1))
    for item, text in (("invariants", exactly), ("non_dp_releases", without_noise)):
        if text is not None:
            record.declare(item, text, "R. Meier")
    made = Report(build(record.verified()))
    assert read(made).get("deployment.dp_variant.unprotected_quantities") == taken
    assert ("#   deployment.dp_variant.unprotected_quantities: " in made.registry()) == (taken is None)


@pytest.mark.parametrize(
    ("item", "text", "field", "taken"),
    [
        ("first_published", "2026-02-30", "basic.publication_date", None),
        ("first_published", " 2026-02-28 ", "basic.publication_date", "2026-02-28"),
        ("first_published", "last spring", "basic.publication_date", None),
        ("kind_of_product", "machine learning MODEL", "basic.data_product_type", "Machine learning model"),
        ("kind_of_product", "A model and some counts", "basic.data_product_type", None),
        ("data_growth", "Growing every day", "deployment_model.data_source_type", "Dynamic"),
        ("data_growth", "static, then growing", "deployment_model.data_source_type", None),
        ("query_model", "non-interactive", "deployment_model.access_type", "Non-interactive"),
        ("query_model", "Interactive, by analysts", "deployment_model.access_type", "Interactive"),
        ("trust_model", "shuffled", "deployment_model.model_name", "Shuffle"),
        ("region", "no", "basic.data_product_region", "no"),
    ],
)
def test_a_field_takes_its_own_words_and_no_others(item: str, text: str, field: str, taken: str | None) -> None:
    record = Record()
    record.scope("patients", PureDP(1))
    record.declare(item, text, "A. Lindqvist")
    assert read(Report(build(record.verified()))).get(f"deployment.{field}") == taken


def hospital() -> dpl.Ledger:
    """Three scopes, two promises: of the patients, whose two budgets add up, and of the staff, in another currency."""
    book = dpl.Ledger.in_memory()
    patient = dpl.Unit("patient", 12)
    for name, epsilon in (("counts", 1), ("training", 3)):
        budget = ApproxDP(epsilon, "1e-6")
        book.scope(name, unit=patient, relation="add_remove", budget=budget, dataset="visits")
    book.scope("staff", unit="employee", relation="add_remove", budget=ZCDP("0.5"), dataset="survey")
    book.scope("training").declare("intended_use", "Predicting the length of a stay", by="A. Lindqvist")
    book.scope("staff").declare("intended_use", "Planning of shifts", by="S. Boss")
    book.scope("staff").release(dpl.Gaussian(sensitivity=1, noise_multiplier=9), 3)
    return book


def test_each_promise_has_an_entry_of_its_own() -> None:
    """The parameters of one promise never stand beside the purpose of another."""
    entries = {entry["url_slug"].split("_", 2)[2]: entry for entry in every(dpl.report(hospital()))}
    assert entries.keys() == {"staff", "counts_training"}
    place = "deployment.privacy_loss.privacy_"
    staff, patients = entries["staff"], entries["counts_training"]
    for entry in entries.values():
        assert_fits(entry)
    assert staff["deployment.basic.intended_use"] == "Planning of shifts"
    assert (staff[f"{place}unit"], staff[f"{place}parameters.rho"]) == ("employee", 0.5)
    assert staff["deployment.implementation.mechanisms"].startswith("gaussian ")
    assert "ε is read at δ = 1e-6, which the report chose" in staff[f"{place}parameters_details"]
    assert "deployment.basic.intended_use" not in patients  # declared for one of its two scopes
    assert (patients[f"{place}unit"], patients[f"{place}parameters.epsilon"]) == ("patient", 4)
    assert f"{place}parameters.rho" not in patients
    assert "deployment.implementation.mechanisms" not in patients
    assert "at most 12 rows of one patient, as declared when" in patients[f"{place}unit_details"]


def test_a_field_tells_what_each_scope_says_and_is_missing_where_one_says_nothing() -> None:
    book, place = hospital(), "deployment.basic.intended_use"
    kind, model = "deployment.basic.data_product_type", "deployment.deployment_model.model_name"

    def said() -> dict[str, Cell]:
        found = next(one for one in dpl.report(book).model.registry if "counts" in one.caption)
        return {field.text: cell for field, cell in found.rows}

    assert said()[place].note == "required; declare intended_use for counts"
    counts, training = book.scope("counts"), book.scope("training")
    counts.declare("intended_use", "Yearly figures", by="S. Boss")
    for scope, product, trust in ((counts, "Dataset", "central"), (training, "Synthetic data", "local")):
        scope.declare("kind_of_product", product, by="A. Lindqvist")
        scope.declare("trust_model", trust, by="A. Lindqvist")
    found = said()
    assert found[place].text == "counts: Yearly figures; training: Predicting the length of a stay"
    assert found[place].note == "declared by S. Boss; A. Lindqvist"
    assert (found[kind].status, found[model].status) == ("unknown", "unknown")
    assert found[model].note == "item trust_model is not the same for all scopes: Central, Local"
    training.declare("intended_use", "Yearly figures", by="A. Lindqvist")
    training.declare("trust_model", "central", by="S. Boss")
    assert (said()[place].text, said()[model].text) == ("Yearly figures", "Central")


def test_a_report_of_one_scope_has_the_entry_of_the_promise_that_covers_it() -> None:
    (found,) = every(dpl.report(hospital(), scope="training"))
    assert found["url_slug"].endswith("_counts_training")
    assert found["deployment.privacy_loss.privacy_parameters.epsilon"] == 4


def test_what_was_typed_when_a_scope_was_opened_is_declared_and_not_measured() -> None:
    for table in dpl.report(hospital()).model.registry:
        said = {field.text: cell for field, cell in table.rows}
        for name in ("privacy_unit", "privacy_unit_details"):
            assert said[f"deployment.privacy_loss.{name}"].status == "declared"


def test_without_a_scope_there_is_still_a_draft() -> None:
    entry = read(Report(build(Record().verified())))
    assert_fits(entry)
    assert "deployment.dp_variant.variant_name" not in entry


def test_a_hostile_record_gives_text_and_nothing_else() -> None:
    made = report_on_hostile()
    assert_fits(read(made))
    assert read(made)["deployment.basic.name"].startswith(HOSTILE[:60])
    assert all(line.startswith("#") or "\t" not in line for line in made.registry().splitlines())


def test_a_first_page_alone_has_no_entry(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="without its annexes"):
        report_on_sample().summary().save(tmp_path / "entry.yaml")
    assert report_on_sample().save(tmp_path / "entry.yaml").read_text("utf-8") == report_on_sample().registry()


def test_an_exact_number_stays_exact() -> None:
    record = Record()
    record.scope("patients", ApproxDP("0.123456789012345678901234567890", "0.000000000000000001"))
    source = Report(build(record.verified())).registry()
    assert "epsilon: 0.12345678901234567890123456789\n" in source
    entry = yaml.load(source, Loader=yaml.BaseLoader)
    loss = entry["deployment"]["privacy_loss"]["privacy_parameters"]
    assert Decimal(loss["delta"]) == Decimal("1e-18")


# ---- the questions --------------------------------------------------------------------------------------------------


def questions(made: Report) -> Table:
    (found,) = (one for one in blocks(made.model.sections) if isinstance(one, Table) and one.id == "questions/table")
    return found


def test_every_question_is_answered_left_open_or_beyond_a_record() -> None:
    open_, whole = questions(report_on_sample()), questions(declared(PureDP(1)))
    assert [row[0].text for row in open_.rows] == [question.asked for question in QUESTIONS]
    assert any(row[3].status == "unknown" for row in open_.rows)
    assert not any(row[3].status == "unknown" for row in whole.rows)
    assert {item for question in QUESTIONS for item in question.declared} <= ITEMS


def test_of_an_open_question_what_is_declared_is_told_as_well() -> None:
    record = Record()
    record.declare("query_model", "Non-interactive, once a year", "R. Meier")
    rows = {row[0].text: row[3] for row in questions(Report(build(record.verified()))).rows}
    found = rows["Who may ask what, and can they join forces?"]
    assert (found.text, found.status) == ("Who may query, Collusion of those who query", "unknown")
    assert found.note == "declared: Query model"


def test_links_from_questions_lead_to_what_answers_them() -> None:
    for made in (report_on_sample(), Report(build(Record().verified()))):

        def ids(sections: tuple[Section, ...]) -> set[str]:
            return {one.id for one in sections}.union(*(ids(one.sections) for one in sections))

        places = ids(made.model.sections) | {one.id for one in blocks(made.model.sections) if isinstance(one, Table)}
        assert {row[2].link for row in questions(made).rows if row[2].link} <= places
