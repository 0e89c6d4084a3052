"""What holds of every report's model: every item says where it comes from, nothing is left out, nothing is judged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

import dpledger as dpl
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.errors import ParameterError
from dpledger.ledger.entries import declared_files
from dpledger.ledger.verifying.verification import Verified
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.mechanisms.threshold.sparse_vector import SparseVector
from dpledger.reports import Report
from dpledger.reports.build import build
from dpledger.reports.model import BarChart, Item, Items, Picture, Prose, ReportModel, Section, Table, blocks
from dpledger.reports.sections.declared import ITEMS
from dpledger.reports.words import at_most
from report_records import Record, audit, crowded, hostile, long, report_on_sample, sample

pytestmark = pytest.mark.sliced

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarations.yaml"


def items_of(model: ReportModel) -> list[Item]:
    return [item for block in blocks(model.sections) if isinstance(block, Items) for item in block.items]


def item(model: ReportModel, id_: str) -> Item:
    (found,) = (one for one in items_of(model) if one.id == id_)
    return found


def tables_of(model: ReportModel) -> dict[str, Table]:
    return {block.id: block for block in blocks(model.sections) if isinstance(block, Table)}


def quick(verified: Verified) -> Verified:
    empty = Record().verified()
    return Verified(
        mode="quick",
        head=verified.head,
        key=verified.key,
        witnessed=0,
        entries=(),
        state=type(empty.state)(),
    )


@pytest.fixture(scope="module")
def model() -> ReportModel:
    return report_on_sample().model


# ---- every report ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [Record, sample, hostile])
def test_every_id_is_there_once(record: type[Record]) -> None:
    made = build(record().verified())

    def section_ids(sections: tuple[Section, ...]) -> list[str]:
        return [id_ for one in sections for id_ in (one.id, *section_ids(one.sections))]

    ids = section_ids(made.sections) + [one.id for one in items_of(made)]
    ids += [answer.id for page in made.pages for answer in page.answers] + [page.id for page in made.pages]
    ids += [block.id for block in blocks(made.sections) if isinstance(block, Table | Picture | Prose)]
    assert [id_ for id_, times in Counter(ids).items() if times > 1] == []
    assert not any(" " in id_ for id_ in ids)


@pytest.mark.parametrize("record", [Record, sample])
def test_every_item_that_people_must_state_is_declared_or_unknown(record: type[Record]) -> None:
    found = Counter(
        one.id.split("declared/")[-1] for one in items_of(build(record().verified())) if "declared/" in one.id
    )
    assert set(ITEMS) <= set(found)


def test_an_empty_ledger_declares_nothing_and_the_report_says_so() -> None:
    made = build(Record().verified())
    assert all(item(made, f"declared/{name}").origin.status == "unknown" for name in ITEMS)
    (gaps,) = (answer for answer in made.pages[0].answers if answer.id == "first_page/gaps")
    assert gaps.text == "10 of the 10 required items"
    assert gaps.lines[1] == f"Not declared: {len(ITEMS) - 10} of {len(ITEMS) - 10} optional items."
    assert tables_of(made)["scopes/table"].rows == ()


@pytest.mark.parametrize("record", [Record, sample, hostile, crowded])
def test_no_heading_stands_without_its_words(record: type[Record]) -> None:
    """Every annex says in a sentence what it answers, every part of one holds something, and every answer is given."""
    made, empty = build(record().verified()), build(quick(sample().verified()))
    new = build(sample().verified(witnessed=sample().verified().head.size - 1))
    for model in (made, empty, new):
        assert [section.id for section in model.sections if not section.about] == []
        parts = [below for section in model.sections for below in section.sections]
        assert all(section.blocks for section in (*parts, *model.sections))
        assert all(answer.text and answer.lines for page in model.pages for answer in page.answers)


def test_of_more_promises_than_pages_the_report_says_so() -> None:
    made = build(crowded().verified())
    assert len(made.pages) == len(made.registry) == 20
    (told,) = (one for one in blocks(made.sections) if isinstance(one, Prose) and one.id == "scopes/more")
    assert (
        told.lines[-1]
        == "7 stronger promises without a first page here: --scope NAME writes the first page of a scope."
    )
    one = build(crowded().verified(), "unnamed-two")
    assert [page.scopes for page in one.pages] == [("unnamed-two",)]


def test_every_table_is_a_rectangle(model: ReportModel) -> None:
    for table in tables_of(model).values():
        assert all(len(row) == len(table.columns) for row in table.rows), table.id


@pytest.mark.parametrize("form", ["html", "json", "markdown"])
def test_nothing_is_ever_called_compliant(form: str) -> None:
    text: str = getattr(report_on_sample(), form)()
    assert "complian" not in text.lower()


def test_the_same_record_gives_the_same_bytes_anywhere(tmp_path: Path) -> None:
    """Another process, another seed of hashes, another clock, another language."""
    script = (
        "from report_records import report_on_sample; import sys; "
        "made = report_on_sample(); page = made.summary(); "
        "forms = (made.html(), made.markdown(), made.json(), made.registry(), page.html(), page.markdown()); "
        "sys.stdout.buffer.write(''.join(forms).encode())"
    )
    made = report_on_sample()
    support = os.pathsep.join([str(Path(__file__).parents[1] / "support"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONHASHSEED": "77", "TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONPATH": support}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=environment, cwd=tmp_path)
    page = made.summary()
    forms = (made.html(), made.markdown(), made.json(), made.registry(), page.html(), page.markdown())
    assert ran.stdout.decode() == "".join(forms)


# ---- what the sample must show --------------------------------------------------------------------------------------


def test_the_head_says_what_was_verified_and_how_to_repeat_it(model: ReportModel) -> None:
    verified = sample().verified()
    assert item(model, "verified/command").value == f"dpledger verify BUNDLE --key '{verified.key.text}'"
    assert item(model, "verified/range").value == verified.head.size
    assert item(model, "record/root").value == verified.head.root.hex()


def test_what_no_witness_has_seen_is_counted(model: ReportModel) -> None:
    size = sample().verified().head.size
    assert item(model, "record/witnessed").origin.status == "unknown"
    assert item(model, "record/after_witness").value == size
    watched = build(sample().verified(witnessed=5))
    assert (item(watched, "record/witnessed").value, item(watched, "record/after_witness").value) == (4, size - 5)


def test_the_guarantee_is_the_budget_and_the_reading_is_no_guarantee(model: ReportModel) -> None:
    assert item(model, "scope:patients-2026/guarantee").text.startswith("ε ≤ 3, δ = 1e-6")
    (spent,) = (section for section in model.sections if section.id == "spent")
    assert "no guarantee of differential privacy" in spent.heading
    row = tables_of(model)["spent/readings"].rows[0]
    assert row[0].text == "patients-2026"
    upper, lower = (cell.value for cell in row[1:3])
    assert 0 < lower < upper < 3  # type: ignore[operator]


def test_equal_releases_are_one_row_with_their_number(model: ReportModel) -> None:
    rows = tables_of(model)["ran/admissions"].rows
    assert rows[0][0].text == "laplace × 5"
    assert rows[0][1].value == 5


def test_refunds_name_their_rule(model: ReportModel) -> None:
    rows = {row[0].text: row for row in tables_of(model)["ran/admissions"].rows}
    assert rows["sparse_vector"][5].note == "fell to its realised loss"
    assert rows["dp_sgd"][5].note == "steps never granted came back"
    for name in ("sparse_vector", "dp_sgd"):
        assert rows[name][5].value < rows[name][4].value  # type: ignore[operator]


def test_prices_are_of_one_run_in_a_named_account_and_alike_ones_are_added_up(model: ReportModel) -> None:
    found = tables_of(model)["ran/admissions"]
    assert [column.heading for column in found.columns[4:6]] == ["Reserved, each", "Charged, each"]
    rows = {row[0].text: row for row in found.rows}
    five, one = rows["laplace × 5"], rows["gaussian"]
    assert (five[4].text, five[4].note) == ("0.05", "all 5: 0.25; in the sum of epsilons")
    assert (five[5].text, five[5].note) == ("0.05", "all 5: 0.25; stands at its cap")
    assert one[4].note == "in the mixed account, as Rényi, boundary 1"
    (basis,) = (one for one in blocks(model.sections) if isinstance(one, Prose) and one.id == "ran/basis")
    assert "Do not add up prices of different accounts" in str(basis.lines)


def test_the_picture_of_contributions_tells_what_they_come_to(model: ReportModel) -> None:
    found = next(one for one in blocks(model.sections) if isinstance(one, Picture) and "contributions" in one.id)
    assert isinstance(found.chart, BarChart)
    together = found.chart.together
    assert together is not None
    for name in ("charged", "returned"):
        assert getattr(together, name) == sum(getattr(bar, name) for bar in found.chart.bars)
    assert f"; together: {at_most(together.charged)} charged, " in found.description


def test_what_a_claim_assumes_of_the_callers_code_is_told_and_not_called_measured(model: ReportModel) -> None:
    assumed = item(model, "scope:patients-2026/assumed")
    assert "dp_sgd: gradients are batch-invariant" in assumed.text
    assert assumed.origin.status == "declared"
    assert "names an assumption" in item(model, "scope:staff-survey/assumed").text


def test_refusals_and_open_charges_are_told(model: ReportModel) -> None:
    found = tables_of(model)
    assert [row[0].text for row in found["stopped/refusals"].rows] == ["laplace × 2", "laplace"]
    assert [row[2].text for row in found["stopped/open_charges"].rows] == ["started"]
    assert item(model, "record/crashes").value == 1
    assert item(model, "record/refused").value == 3


def test_both_verdicts_stand_beside_their_claims(model: ReportModel) -> None:
    found = tables_of(model)
    assert [row[3].text for row in found["audits/results"].rows] == ["not refuted"]
    assert [row[3].text for row in found["audits/nowhere"].rows] == ["violation"]
    assert item(model, "audits/never_audited").origin.status == "unknown"
    assert "dp_sgd" in item(model, "audits/never_audited").text


def test_a_declaration_says_whose_word_and_whose_signature(model: ReportModel) -> None:
    by_operator, by_person = item(model, "declared/intended_use"), item(model, "declared/decision_owner")
    assert by_operator.origin.by == "A. Lindqvist"
    assert "the operator's word" in by_operator.origin.signature
    assert "their own envelope" in by_person.origin.signature
    replaced = item(model, "declared/output_recipients")
    assert replaced.text == "The regional registry and the public [replaces the words of entry 6]"


def test_words_that_were_replaced_stand_with_the_entry_that_replaced_them(model: ReportModel) -> None:
    (row,) = tables_of(model)["declared/replaced"].rows
    assert [cell.text for cell in row] == [
        "Who receives the output",
        "The public, once a year",
        "A. Lindqvist",
        "6",
        "7",
    ]
    record = Record()
    for number in range(200):
        record.declare("region", f"Region {number}", "A. Lindqvist")
    table = tables_of(build(record.verified()))["declared/replaced"]
    assert len(table.rows) == 150
    assert table.caption.endswith("49 earlier ones stand there")
    assert [cell.text for cell in table.rows[-1]] == ["Region", "Region 198", "A. Lindqvist", "199", "200"]


def test_words_of_the_sample_that_were_replaced_are_counted_and_not_repeated() -> None:
    record = Record()
    record.declare("dpia_reference", "DPIA-2026-014", "A. Lindqvist")
    record.declare("dpia_reference", "DPIA-7", "A. Lindqvist")
    found = {one.id: one for one in blocks(build(record.verified()).sections) if isinstance(one, Table | Prose)}
    assert "declared/replaced" not in found
    told = found["declared/sample_replaced"]
    assert isinstance(told, Prose)
    assert told.lines == ("1 item had the sample's words before; the entries have them.",)
    record.declare("dpia_reference", "DPIA-8", "A. Lindqvist")
    assert [row[1].text for row in tables_of(build(record.verified()))["declared/replaced"].rows] == ["DPIA-7"]


def test_the_samples_word_of_accuracy_is_nobodys() -> None:
    """Where no interval is known, only somebody's own words say how exact a release is."""
    record = Record()
    record.scope("s", ApproxDP(3, "1e-6"))
    record.watch("s", SparseVector(epsilon="0.4", cutoff=4, threshold=20, sensitivity=1), (12,))
    told = []
    (sample_of_accuracy,) = (one.text for one in declared_files.read(EXAMPLE) if one.item == "accuracy")
    for text in (sample_of_accuracy, "Within 30 of the threshold"):
        record.declare("accuracy", text, "A. Lindqvist")
        (row,) = tables_of(build(record.verified()))["ran/accuracy"].rows
        told.append(row[2].status)
    assert told == ["unknown", "declared"]


def test_the_norm_to_which_a_training_elsewhere_clipped_is_its_sensitivity() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=ApproxDP(3, "1e-6"))
        run = dpl.PureDP("0.25")
        scope.charge(
            run,
            relation="add_remove",
            by="A. Smith",
            reason="a training",
            parameters={"max_grad_norm": "1.5", "clipping": "flat"},
        )
        (row,) = tables_of(build(book.verify()))["ran/admissions"].rows
    assert (row[2].text, row[2].status, row[2].note) == ("1.5", "declared", "each gradient is clipped to it")


def test_words_of_the_sample_file_are_marked() -> None:
    record = Record()
    record.declare("intended_use", "Planning of screening capacity", "A. Lindqvist")
    record.declare("limits", "Patients who never came are not in the data, and nobody asked them", "A. Lindqvist")
    made = build(record.verified())
    assert item(made, "declared/intended_use").text.endswith("[the sample's words, not filled in]")
    assert "sample" not in item(made, "declared/limits").text


def test_many_scopes_that_declare_the_same_are_told_in_a_line() -> None:
    record = Record()
    for number in range(25):
        record.scope(f"scope-{number:02d}", PureDP(1))
        record.declare("region", "Europe", "A. Lindqvist", scope=f"scope-{number:02d}")
    more = item(build(record.verified()), "declared/region/more")
    assert more.text == "declared for 5 further scopes, in entries 42 to 50"


def test_delta_is_compared_with_the_declared_number_of_units(model: ReportModel) -> None:
    compared = item(model, "scope:patients-2026/delta_against_population")
    assert compared.text == "n = 569 as declared; δ·n = 5.69e-4, δ is below 1/n"
    pure = item(model, "scope:staff-survey/delta_against_population")
    assert (pure.text, pure.origin.status) == ("nothing to compare: δ is 0", "measured")
    record = Record()
    record.scope("s", ApproxDP(1, "1e-6"))
    assert item(build(record.verified()), "scope:s/delta_against_population").origin.status == "unknown"


def test_words_that_replace_others_are_read_as_well() -> None:
    """The number of units, the trust model, and what a registry takes: kinds, words and a date."""
    said = {
        "population_size": ("2000", "2 001", "scope:s/delta_against_population", "n = 2,001 as declared"),
        "trust_model": ("Local", "Central", "deployment.deployment_model.model_name", "Central"),
        "kind_of_product": ("Dataset", "SQL queries", "deployment.basic.data_product_type", "SQL queries"),
        "first_published": ("2026-01-01", "2026-02-03", "deployment.basic.publication_date", "2026-02-03"),
        "release_frequency": ("One release", "Many releases", "deployment.deployment_model.release_type", "Many"),
        "data_growth": ("Static", "Growing", "deployment.deployment_model.data_source_type", "Dynamic"),
        "query_model": ("Interactive", "Non-interactive", "deployment.deployment_model.access_type", "Non-inter"),
    }
    record = Record()
    record.scope("s", ApproxDP(1, "1e-6"))
    for turn in (0, 1):
        for name, words in said.items():
            record.declare(name, words[turn], "A. Lindqvist")
    made = build(record.verified())
    fields = {row[0].text: row[1].text for table in made.registry for row in table.rows}
    assert "[replaces the words of entry" in item(made, "declared/population_size").text
    for _, after, place, read in said.values():
        found = fields[place] if place in fields else item(made, place).text
        assert found.startswith(read), (after, found)


@pytest.mark.parametrize(("epsilon", "warned"), [("1", []), ("1.01", ["above 1:"]), ("11", ["above 10:"])])
def test_a_large_epsilon_is_warned_of(epsilon: str, warned: list[str]) -> None:
    record = Record()
    record.scope("s", PureDP(epsilon))
    said = [
        line
        for block in blocks(build(record.verified()).sections)
        if isinstance(block, Prose) and block.tone == "warning"
        for line in block.lines
    ]
    assert len(said) == len(warned)
    assert all(words in line for words, line in zip(warned, said, strict=True))


def test_since_the_previous_report_only_what_came_after_it_counts(model: ReportModel) -> None:
    assert item(model, "verified/since_previous").text == (
        "2 charges, 1 settled charge, 0 aborted charges, 3 refusals, 1 new scope, 0 declarations, "
        "0 audits, 0 changes of budgets or policies, 0 changes of keys"
    )


def test_since_a_checkpoint_only_what_came_after_it_counts() -> None:
    record = sample()
    before = len(record.entries)
    record.declare("limits", "None", "A. Lindqvist")
    record.add(audit("laplace", PureDP("0.5"), "0.4", "not_refuted"))
    since = item(build(record.verified(witnessed=before)), "verified/since")
    assert since.value == before
    assert since.text.startswith(f"{before} entries then, as they are now; since: 0 charges, ")
    assert ", 1 declaration, 1 audit, " in since.text
    assert not any(one.id == "verified/since" for one in items_of(build(record.verified())))


def test_releases_of_one_kind_are_told_apart_by_the_keys_that_people_gave() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(3), dataset="visits")
        for key in ("age", "region", None):
            scope.release(dpl.Histogram(epsilon="0.1", edges=(0, 1, 2)), [0.5], key=key)
        for reason in ("the survey of March", "the survey of May"):
            scope.charge(PureDP("0.2"), relation="add_remove", by="A. Smith", reason=reason)
        found = tables_of(build(book.verify()))
    notes = [row[0].note for row in found["ran/admissions"].rows]
    assert notes[0].startswith("keys age, region; edges")
    assert notes[1:] == ["the survey of March", "the survey of May"]


def test_the_epsilons_of_one_run_are_told_apart(model: ReportModel) -> None:
    (prose,) = (block for block in blocks(model.sections) if isinstance(block, Prose) and block.id == "ran/basis")
    found = tables_of(model)["ran/admissions"]
    (row,) = (row for row in found.rows if row[0].text == "dp_sgd")
    line = prose.lines[-1]
    claimed, alone = re.findall(r"ε ≤ ([0-9.]+)", line)
    assert Decimal(alone) <= Decimal(claimed)
    assert f"alone: ε ≤ {alone} " in row[3].note
    assert f" it is charged {row[5].text} " in line
    assert line.endswith("Only the charge counts against the budget.")


def test_the_odds_say_which_runs_they_leave_out() -> None:
    record = Record()
    record.scope("s", ApproxDP(9, "1e-6"))
    for number in range(1, 12):
        record.release("s", Laplace(sensitivity=1, epsilon=f"0.0{number:02d}"))
    made = build(record.verified())
    rows = tables_of(made)["meaning/odds"].rows
    assert [row[0].text for row in rows] == [
        "the whole budget",
        *(f"laplace (key-{number}), alone" for number in range(11, 3, -1)),
    ]
    (note,) = (one for one in blocks(made.sections) if isinstance(one, Prose) and one.id == "meaning/odds_left_out")
    told = "The table has the 8 costliest of the 11 kinds of runs whose curves were computed."
    assert note.lines == (f"{told} “What was run” lists 3 more.",)


@pytest.mark.parametrize("last", ["0.9", "0.0001"])
def test_the_odds_tell_of_the_costliest_runs_wherever_in_the_record_they_stand(last: str) -> None:
    """Also beyond the trees that a report composes; and what was not computed is not said to be without a theorem."""
    record = Record()
    record.scope("s", ApproxDP(9, "1e-6"))
    for number in range(1, 60):
        record.release("s", Laplace(sensitivity=1, epsilon=f"0.0{number:02d}"))
    record.release("s", Laplace(sensitivity=1, epsilon=last))
    made = build(record.verified())
    rows = tables_of(made)["meaning/odds"].rows
    first = ["laplace (key-60), alone"] if last == "0.9" else []
    wanted = [*first, *(f"laplace (key-{number}), alone" for number in range(59, 50, -1))][:8]
    assert [row[0].text for row in rows] == ["the whole budget", *wanted]
    (note,) = (one for one in blocks(made.sections) if isinstance(one, Prose) and one.id == "meaning/odds_left_out")
    assert note.lines == (
        "The table has the 8 costliest of the 48 kinds of runs whose curves were computed. “What was run” lists 52 "
        "more.",
        "No curve was computed for 12 kinds of runs: a report computes 48 at most, beginning with the highest prices "
        "in each account.",
    )


def test_a_quick_verification_reports_no_content() -> None:
    made = build(quick(sample().verified()))
    unread = ("unread/scopes", "unread/audits", "unread/declared", "verified/since_previous")
    for id_ in (*unread, "record/open", "record/witness_policy", "record/predecessor"):
        assert item(made, id_).origin.status == "unknown", id_
    assert tables_of(made) == {}
    assert all(Report(made).html() and form for form in (Report(made).json(), Report(made).markdown()))


def test_a_run_outside_its_guarantee_is_said() -> None:
    record = Record()
    record.scope("s", PureDP(1))
    charge = record.ask("s", Laplace(sensitivity=1, epsilon="0.1"))
    record.settle(charge, outside_guarantee=True, warnings=("the query raised",))
    (row,) = tables_of(build(record.verified()))["ran/admissions"].rows
    assert row[6].note == "outside its guarantee: the run broke its contract, and nothing came back; the query raised"


def test_many_scopes_all_stand_in_the_table() -> None:
    record = Record()
    for number in range(25):
        record.scope(f"scope-{number:02d}", ApproxDP(1, "1e-6"))
    made = build(record.verified())
    assert len(tables_of(made)["scopes/table"].rows) == 25
    assert len(tables_of(made)["spent/readings"].rows) == len(made.pages) == len(made.registry) == 20


# ---- size and speed -------------------------------------------------------------------------------------------------


def test_ten_thousand_entries_are_a_small_report() -> None:
    made = Report(build(long(10_000).verified()))
    assert max(len(text.encode()) for text in (made.html(), made.json(), made.markdown())) <= 1_000_000


def test_releases_that_all_differ_are_grouped_by_mechanism() -> None:
    verified = long(700, distinct=True).verified()
    made = build(verified)
    (row,) = tables_of(made)["ran/admissions"].rows
    assert row[0].text == "laplace × 349"
    assert row[0].note == "parameters differ: each stands in its entry"


# ---- saving ---------------------------------------------------------------------------------------------------------


def test_the_suffix_names_the_form(tmp_path: Path) -> None:
    made = report_on_sample()
    for suffix, text in ((".html", made.html()), (".json", made.json()), (".md", made.markdown())):
        assert made.save(tmp_path / f"report{suffix}").read_bytes() == text.encode()
    with pytest.raises(ParameterError, match=r"report\.pdf"):
        made.save(tmp_path / "report.pdf")
    assert not (tmp_path / "report.pdf").exists()


# ---- documentation --------------------------------------------------------------------------------------------------


def test_the_manual_lists_the_items_that_people_must_state() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "reports.md").read_text("utf-8")
    assert [name for name in ITEMS if f"`{name}`" not in manual] == []


def test_one_release_is_never_told_as_worse_than_the_lifetime_that_covers_it() -> None:
    with dpl.Ledger.in_memory() as book:
        budget = dpl.ApproxDP(2, "1e-6")
        scope = book.scope("s", unit="patient", relation="add_remove", budget=budget, dataset="d")
        plan = dpl.DPSGD(
            rate="0.02", steps=200, noise_multiplier="1.1", clip_norm=1, dimension=3, expected_batch_size=20
        )
        with scope.open(plan, [[0.0] * 3] * 20):
            pass
        made = build(book.verify())
    worst, lifetime = (item(made, f"scope:s/worst_{span}") for span in ("release", "lifetime"))
    assert worst.value == lifetime.value == 2
    assert "by the budget, which covers every release; its claim alone, read at this δ, gives only ε ≤ 2." in worst.text


def test_what_a_mechanism_of_ours_bounds_by_itself_is_no_gap() -> None:
    ours, others = Record(), Record()
    costs = ("cost", dpl.ClippedMean(epsilon="0.1", lower=0, upper=9))
    by_kind = dpl.GroupBy("ward", [dpl.Count(epsilon="0.1", of="rows"), costs], keys=["N", "S"])
    for record, library in ((ours, "dpledger 0.1.0"), (others, "somebody 1.0")):
        record.scope("s", PureDP(1), dataset="d")
        record.settle(record.ask("s", by_kind, library=library))
    for record, is_gap in ((ours, False), (others, True)):
        found = tables_of(build(record.verified()))
        cells = [found["ran/admissions"].rows[0][2], found["ran/accuracy"].rows[0][2]]
        assert [cell.status == "unknown" for cell in cells] == [is_gap, is_gap], cells
