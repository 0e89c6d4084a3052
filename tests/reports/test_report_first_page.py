"""The first page: ten questions, each answered in words by what the record shows, what people said, and what is not
known."""

from __future__ import annotations

import math
import re
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import mpmath
import pytest
from hypothesis import given, strategies as st

import dpledger as dpl
from dpledger.accounting.composition import Composition, GaussianLaw
from dpledger.accounting.filters import BasicFilter
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.decimals import round_up
from dpledger.errors import BudgetRefused
from dpledger.ledger.accounts.overlap import same_people
from dpledger.ledger.accounts.recomposition import accounts
from dpledger.ledger.entries.bodies import Audited
from dpledger.ledger.signed import wire
from dpledger.ledger.signed.keys import SigningKey
from dpledger.mechanisms.numeric.gaussian import Gaussian
from dpledger.mechanisms.numeric.integers import Geometric, IntegerGaussian
from dpledger.mechanisms.numeric.laplace import Laplace
from dpledger.mechanisms.numeric.statistics import Count, Histogram
from dpledger.mechanisms.threshold.sparse_vector import SparseVector
from dpledger.relations import Relation, Unit
from dpledger.reports import Report
from dpledger.reports.build import build
from dpledger.reports.first_page.plain import WORDS
from dpledger.reports.first_page.protection import meaning
from dpledger.reports.model import Answer, Cell, Item, Items, OddsChart, Section, Table, blocks
from dpledger.reports.promises import promises
from dpledger.reports.sections.declared import ITEMS, REQUIRED
from public_names import public
from report_records import Record, audit, hostile, long, report_on_hostile, report_on_sample, sample

pytestmark = pytest.mark.sliced

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarations.yaml"
QUESTIONS = [
    *("who", "promise", "used", "meaning", "decision", "unprotected"),
    *("record", "audits", "refusal", "gaps"),
]
UNTIED = "{} of what nothing ties to this ledger: {}. If it ran here under another name, its promise is refuted."
HALF = Laplace(sensitivity=1, epsilon="0.5")
TABLES_OF_AUDITS = ("results", "elsewhere", "nowhere")


def page(record: Record) -> dict[str, Answer]:
    return pages(record)[0]


def pages(record: Record, scope: str | None = None) -> list[dict[str, Answer]]:
    """The first page of each promise, by the last word of its ids."""
    made = build(record.verified(), scope)
    return [{answer.id.rpartition("/")[2]: answer for answer in page.answers} for page in made.pages]


def said(answer: Answer) -> str:
    return " ".join((answer.text, *answer.lines))


def table_of(sections: tuple[Section, ...], id_: str) -> Table:
    (found,) = (block for block in blocks(sections) if isinstance(block, Table) and block.id == id_)
    return found


def one_scope(*epsilons: str, budget: Guarantee | None = None) -> Record:
    record = Record()
    record.scope("patients", budget or PureDP(1), dataset="visits")
    for epsilon in epsilons:
        record.release("patients", Laplace(sensitivity=1, epsilon=epsilon))
    return record


# ---- every first page -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [Record, sample, hostile])
def test_the_same_questions_are_asked_in_the_same_order(record: type[Record]) -> None:
    assert list(page(record())) == QUESTIONS


def test_links_lead_into_the_annexes() -> None:
    for made in (report_on_sample().model, report_on_hostile().model):

        def ids(sections: tuple[Section, ...]) -> set[str]:
            return {one.id for one in sections}.union(*(ids(one.sections) for one in sections))

        found = ids(made.sections) | {block.id for block in blocks(made.sections) if isinstance(block, Table)}
        found |= {item.id for block in blocks(made.sections) if isinstance(block, Items) for item in block.items}
        assert {link.to for answer in made.pages[0].answers for link in answer.links} <= found


def test_what_people_typed_is_never_called_measured() -> None:
    model = report_on_sample().model
    items = {item.id: item for block in blocks(model.sections) if isinstance(block, Items) for item in block.items}
    for name in ("unit", "relation", "contribution_bound", "dataset"):
        origin = items[f"scope:patients-2026/{name}"].origin
        assert (origin.status, origin.by, origin.entry) == ("declared", "whoever opened the scope", 4)
    assert model.pages[0].answers[0].status == "declared"


# ---- who, and what is promised --------------------------------------------------------------------------------------


def test_who_is_protected_is_told_in_the_words_of_the_scope() -> None:
    patients, staff = (one["who"] for one in pages(sample()))
    assert (patients.text, staff.text) == ("One patient", "One household")
    assert "in: screening visits of 2026, one row a patient" in patients.lines
    assert "one patient has at most 1 row: declared, not measured" in patients.lines
    assert "one household has at most 4 rows: declared, not measured" in staff.lines
    assert {patients.status, staff.status} == {"declared"}


def test_scopes_that_share_people_are_one_promise_and_the_weakest_comes_first() -> None:
    record = Record()
    record.scope("survey", PureDP("0.5"), dataset="staff", unit=Unit("employee", 1))
    for name in ("a", "b"):
        record.scope(name, ApproxDP(1, "1e-6"), dataset="visits")
    found, other = (one["promise"] for one in pages(record))
    assert found.text == "ε ≤ 2, δ = 2e-6"
    everything = "for everything that is ever released under budgets “a”, “b” about one patient"
    assert found.lines[0] == f"{everything}; the δ is the budgets' own"
    assert "Budgets that name the same dataset are added up." in found.lines
    nothing = (
        "This page is not about the other promise of the ledger, {}, which has a page here or in a report of its own."
    )
    assert nothing.format("budget “survey”") in found.lines
    assert other.text == "ε ≤ 0.5, δ = 0"
    assert other.lines[0] == "for everything that is ever released under budget “survey” about one employee"
    assert nothing.format("budgets “a”, “b”") in other.lines


def test_the_weakest_promise_is_the_one_that_leaves_the_best_guess() -> None:
    """Not the one of the largest epsilon: with (0.5, 0.4)-DP more guesses may be right than with (1, 0)-DP."""
    record = Record()
    record.scope("loose", ApproxDP("0.5", "0.4"), dataset="staff")
    record.scope("tight", PureDP(1), dataset="visits")
    found = page(record)
    assert found["promise"].text == "ε ≤ 0.5, δ = 0.4"
    guess = (1 + (mpmath.exp("0.5") - 1 + 2 * mpmath.mpf("0.4")) / (mpmath.exp("0.5") + 1)) / 2
    (told,) = re.findall(r"[0-9.]+", found["meaning"].text)
    assert guess <= mpmath.mpf(told) / 100 <= guess + mpmath.mpf("0.001")


@given(
    st.lists(
        st.tuples(st.decimals("0.001", "60", places=3), st.sampled_from(["0", "1e-9", "1e-6", "0.01", "0.3", "0.99"])),
        min_size=1,
        max_size=5,
    )
)
def test_no_scope_leaves_better_odds_than_the_page_says(budgets: list[tuple[Decimal, str]]) -> None:
    record = Record()
    for number, (epsilon, delta) in enumerate(budgets):
        budget = ApproxDP(epsilon, delta) if Decimal(delta) else PureDP(epsilon)
        record.scope(f"s{number}", budget, dataset=f"people {number}")
    found = promises(accounts(record.entries, record.state), same_people(record.state), record.state.scopes)
    odds = meaning(found[0]).picture
    assert odds is not None
    assert isinstance(odds.chart, OddsChart)
    for epsilon, delta in budgets:
        raised = mpmath.exp(mpmath.mpf(str(epsilon)))
        advantage = (raised - 1 + 2 * mpmath.mpf(delta)) / (raised + 1)
        assert mpmath.mpf(str(odds.chart.after)) >= (1 + advantage) / 2 * (1 - mpmath.mpf("1e-14"))


def test_a_budget_in_mu_is_told_by_its_own_curve_and_is_no_weaker_than_it_is() -> None:
    record = Record()
    record.scope("mu", GDP(1), dataset="these")
    record.scope("pure", PureDP(3), dataset="those")
    weakest, other = promises(accounts(record.entries, record.state), same_people(record.state), record.state.scopes)
    assert (weakest.scopes, other.scopes) == (("pure",), ("mu",))  # by epsilon it would be the other way round
    assert weakest.epsilon < other.epsilon
    assert meaning(other).text == "At most 69.2 % of guesses are right"


def test_scopes_of_which_it_is_not_known_whether_they_share_people_say_so() -> None:
    record = Record()
    for name in ("a", "b"):
        record.scope(name, PureDP(1))
    assert "Not added up: 2 budgets that may, or may not, share people with others." in page(record)["promise"].lines


@pytest.mark.parametrize("other", ["Visits", " visits", "VISITS  ", "visits\u00a0", "vists"])
def test_datasets_that_are_spelt_nearly_alike_are_warned_of_and_not_added(other: str) -> None:
    record = Record()
    record.scope("a", PureDP(1), dataset="visits")
    record.scope("b", PureDP(1), dataset=other)
    record.scope("c", PureDP(1), dataset="staff")
    told = "Warning: budgets “a”, “b” name datasets that are spelt nearly alike. Each is added up by itself."
    answers = {page.scopes: page.answers[1] for page in build(record.verified()).pages}
    assert {scopes: told in answer.lines for scopes, answer in answers.items()} == {
        ("a",): True,
        ("b",): True,
        ("c",): False,
    }
    assert (answers[("a",)].text, answers[("a",)].tone, answers[("c",)].tone) == ("ε ≤ 1, δ = 0", "warning", "plain")
    items = (
        item for block in blocks(build(record.verified()).sections) if isinstance(block, Items) for item in block.items
    )
    (found,) = (item for item in items if item.id.startswith("scopes/not_added/"))
    assert found.text.startswith("the datasets that they name are spelt nearly alike: ")


def test_a_scope_that_is_charged_to_another_is_not_warned_of_beside_it() -> None:
    with dpl.Ledger.in_memory() as book:
        book.scope("all", unit="patient", relation="add_remove", budget=PureDP(2), dataset="visits")
        book.scope("part", unit="patient", relation="add_remove", budget=PureDP(1), parents=["all"], dataset="Visits")
        found = first_page(book)["promise"]
    assert not any("nearly alike" in line for line in found.lines)


@pytest.mark.parametrize(
    ("budget", "size", "told"),
    [
        (
            ApproxDP(1, "1e-3"),
            "1,000",
            "δ is not below 1/n, with n = 1,000 as declared: somebody's whole record may be",
        ),
        (ApproxDP(1, "1e-3"), "999", None),
        (ApproxDP(1, "1e-3"), "many", None),
        (PureDP(1), "1,000", None),
        (
            ZCDP("0.01", "1e-3"),
            "1,000",
            "δ is not below 1/n, with n = 1,000 as declared: somebody's whole record may be",
        ),
        (ZCDP("0.01"), "1,000,000", "ε is read at a δ that is not below 1/n, with n = 1,000,000 as declared."),
    ],
)
def test_a_delta_that_is_not_below_one_in_n_is_warned_of(budget: Guarantee, size: str, told: str | None) -> None:
    record = one_scope(budget=budget)
    record.declare("population_size", size, "A. Lindqvist", scope="patients")
    found = page(record)["promise"]
    lines = [line for line in found.lines if "1/n" in line]
    assert found.tone == ("plain" if told is None else "warning")
    assert [line.startswith(f"Warning: {told}") for line in lines] == ([] if told is None else [True])


def test_a_scope_within_another_one_is_covered_by_its_promise() -> None:
    with dpl.Ledger.in_memory() as book:
        book.scope("all", unit="patient", relation="add_remove", budget=PureDP(2), dataset="visits")
        book.scope("part", unit="patient", relation="add_remove", budget=PureDP(1), parents=["all"])
        verified = book.verify()
    found = accounts(verified.entries, verified.state)
    (only,) = promises(found, same_people(verified.state), verified.state.scopes)
    assert only.scopes == ("all",)
    assert only.epsilon == 2


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Central: the clinic holds the data", "central"),
        ("Local, on each phone", "local"),
        ("A shuffler in between", "shuffled"),
        ("local or central, we shall see", "unknown"),
        ("everybody trusts us", "unknown"),
    ],
)
def test_the_trust_model_is_one_word_of_a_declaration_that_names_one(text: str, word: str) -> None:
    record = one_scope()
    told = "Trust model: unknown. Nobody has said whether it is central, local or shuffled."
    assert told in page(record)["promise"].lines
    record.declare("trust_model", text, "A. Lindqvist")
    (line,) = (line for line in page(record)["promise"].lines if line.startswith("Trust model"))
    assert line.startswith(f"Trust model: {word}")


# ---- how much, and what it means ------------------------------------------------------------------------------------


def test_how_much_is_used_is_one_number() -> None:
    found = page(one_scope("0.25", "0.375"))["used"]
    assert (found.text, found.share) == ("62.5 %", Decimal("0.625"))
    assert found.lines[0] == "ε ≤ 0.625 of 1, at δ = 0, in budget “patients”"


def test_of_many_scopes_the_fullest_counts() -> None:
    record = one_scope("0.25")
    record.scope("other", PureDP(1), dataset="visits")
    record.release("other", Laplace(sensitivity=1, epsilon="0.5"))
    assert page(record)["used"].lines[0].endswith("in budget “other”, the fullest of 2")


def test_of_a_budget_in_mu_its_share_is_told_and_why_the_epsilon_is_none() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=dpl.GDP(1), dataset="d")
        scope.release(Gaussian(sensitivity=1, noise_multiplier=50), 5)
        found = {answer.id: answer for answer in build(book.verify()).pages[0].answers}["first_page/used"]
        scope.end("the study has ended")
        closed = {answer.id: answer for answer in build(book.verify()).pages[0].answers}["first_page/used"]
    assert found.text == "0.04 %"
    assert found.lines[:2] == ("μ² ≤ 4e-4 of 1, in budget “s”", "Left: 0.9996 of μ².")
    assert found.lines[2].startswith("Read as ε ≤ 4.887 of 4.887, at δ = 1e-6")
    assert "the first charge, however small, brings much or all of the budget's ε" in found.lines[3]
    assert closed.lines[1] == "Left: nothing, because the budget is closed."


@pytest.mark.parametrize(
    ("budget", "left"),
    [
        (dpl.PureDP(1), "Left: 0.75 of ε."),
        (dpl.ApproxDP(1, "1e-6"), "Left: 0.75 of ε, 5e-7 of δ."),
        (ZCDP(1), "Left: 0.9711 of ρ."),  # 1 - (epsilon - 1 + exp(-epsilon)); there is no δ to be left
        (RDP((2, 8), (2, 4)), "Left: 3.836 of the divergence that is allowed."),
    ],
)
def test_what_is_left_in_the_accounts_that_decide_is_rounded_down(budget: Guarantee, left: str) -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("s", unit="patient", relation="add_remove", budget=budget, dataset="d")
        scope.release(Laplace(sensitivity=1, epsilon="0.25"), 5)
        found = {answer.id: answer for answer in build(book.verify()).pages[0].answers}["first_page/used"]
    assert [line for line in found.lines if line.startswith(left)], found.lines


def test_where_delta_runs_out_first_that_is_how_much_is_used() -> None:
    """A thirtieth of epsilon, and all of delta: nothing that needs any is admitted any more."""
    with dpl.Ledger.in_memory() as book:
        scope = book.scope(
            "patients", unit="patient", relation="add_remove", budget=BasicFilter(epsilon=3, delta_sum="1e-6")
        )
        scope.charge(ApproxDP("0.1", "1e-6"), relation="add_remove", by="A. Smith", reason="a survey")
        found = {answer.id: answer for answer in build(book.verify()).pages[0].answers}["first_page/used"]
    assert found.text == "100 %"
    assert found.share == Decimal(1)
    assert "Charges have used 100 % of their δ, a larger share than of ε." in found.lines


def test_a_run_that_is_not_settled_counts_at_its_cap_and_is_told() -> None:
    record = one_scope()
    record.ask("patients", Laplace(sensitivity=1, epsilon="0.5"))
    found = page(record)["used"]
    assert found.text == "50 %"
    assert "1 run not settled yet: counted at the cap." in found.lines


def test_a_run_on_somebodys_word_is_told() -> None:
    class Trusted(Laplace):  # its parts are a promise, as those of a run elsewhere
        def parts(self) -> PureDP:
            return PureDP(1)

    record = one_scope("0.25", budget=PureDP(2))
    record.release("patients", Trusted(sensitivity=1, epsilon=1), library="survey-tools 2.3")
    told = "1 of 2 runs attested: somebody stated what was promised or lost; it was not recomputed."
    assert told in page(record)["used"].lines


def test_a_mechanism_of_ours_that_ran_here_is_nobodys_word() -> None:
    """Its entry states a guarantee, which follows from its public parameters by the proof of the mechanism."""
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(2), dataset="visits")
        scope.release(
            dpl.learning.ExponentialPPACLearner(dpl.learning.ThresholdClass(7), epsilon=1),
            dpl.learning.LabeledSample([1, 2, 3], [0, 1, 1]),
        )
        made = build(book.verify())
    found = {answer.id: answer for answer in made.pages[0].answers}["first_page/used"]
    assert not any("attested" in line for line in found.lines)
    (row,) = table_of(made.sections, "ran/admissions").rows
    assert (row[7].text, row[7].status) == ("proved", None)


def test_runs_elsewhere_are_told_with_whose_word_they_are() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(2), dataset="visits")
        scope.release(dpl.Count(epsilon="0.5", of="rows"), [1, 2])
        for by in ("B. Mbeki", "A. Lindqvist"):
            scope.charge(PureDP("0.25"), relation="add_remove", by=by, reason="a survey of 2024")
        answers = {answer.id: answer for answer in build(book.verify()).pages[0].answers}
    assert (
        "2 of 3 runs attested: ran elsewhere, on the word of A. Lindqvist, B. Mbeki."
        in answers["first_page/used"].lines
    )


@given(st.decimals("0.01", "9", places=2), st.sampled_from(["0", "0.000001", "0.001"]))
def test_the_odds_are_those_of_the_promise_and_the_picture_shows_no_less(epsilon: Decimal, delta: str) -> None:
    budget = PureDP(epsilon) if delta == "0" else ApproxDP(epsilon, delta)
    chart = page(one_scope(budget=budget))["meaning"].picture
    assert chart is not None
    assert isinstance(chart.chart, OddsChart)
    with mpmath.workdps(50):
        raised = mpmath.exp(mpmath.mpf(str(epsilon)))
        truth = (1 + (raised - 1 + 2 * mpmath.mpf(delta)) / (raised + 1)) / 2
        assert 0 <= mpmath.mpf(str(chart.chart.after)) - truth < mpmath.mpf("1e-9")
    assert chart.chart.before == Decimal("0.5")


@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "zero_out", "label_flip"])
def test_picture_and_sentence_are_of_one_guess(relation: str) -> None:
    with dpl.Ledger.in_memory() as book:
        book.scope("s", unit="patient", relation=relation, budget=PureDP(1), dataset="d")
        found = {answer.id: answer for answer in build(book.verify()).pages[0].answers}["first_page/meaning"]
    assert found.picture is not None
    guess = found.picture.description.removeprefix("Guesses ").partition(":")[0]
    assert f"by coin flip {guess}, they are right" in found.lines[0]
    assert ("in the data" in guess) == (relation == "add_remove")


@pytest.mark.parametrize(("epsilon", "marks"), [("1", 74), ("4", 99), ("0.01", 51)])
def test_the_picture_rounds_its_guesses_up(epsilon: str, marks: int) -> None:
    source = Report(build(one_scope(budget=PureDP(epsilon)).verified())).html()
    assert source.count('class="luck"') == 50 + 1  # and one in the legend
    assert source.count('class="learnt"') == marks - 50 + 1
    assert source.count('class="wrong"') == 100 - marks + 1


# ---- the record, audits, refusals, gaps -----------------------------------------------------------------------------


def test_the_record_says_key_time_and_witness() -> None:
    found = page(sample())["record"]
    assert "verified in full" in found.text
    assert "From 2026-11-21T10:00:00Z to 2026-11-21T10:00:00Z, by the operator's clock." in found.lines
    assert found.lines[-1].startswith("No checkpoint kept elsewhere was given")
    watched = {answer.id: answer for answer in build(sample().verified(witnessed=5)).pages[0].answers}[
        "first_page/record"
    ]
    told = "A checkpoint kept elsewhere shows that nothing up to entry 4 was changed. "
    assert watched.lines[-1].startswith(told)


@pytest.mark.parametrize(
    ("refuted", "text", "tone"),
    [
        ((), "1 of 1 kind tested, none refuted", "plain"),
        (("laplace",), "refuted: noisy numbers", "warning"),
        (("twin",), "1 of 1 kind tested, none refuted", "plain"),
        (("laplace", "twin"), "refuted: noisy numbers", "warning"),
    ],
)
def test_only_audits_of_what_ran_here_make_the_answer(refuted: tuple[str, ...], text: str, tone: str) -> None:
    record = one_scope("0.5")
    record.add(audit(HALF, PureDP("0.5"), "0.4", "not_refuted"))
    for kind in refuted:
        record.add(audit(kind, PureDP("0.5"), "0.9", "violation"))
    found = page(record)["audits"]
    assert (found.text, found.tone) == (text, tone)
    apart = f"{UNTIED.format('1 violation', 'twin')}"
    assert (apart in found.lines) == ("twin" in refuted)


def test_a_violation_about_a_budget_warns_though_nothing_ran_under_that_name() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1), dataset="visits")
        for lower in ("0.7", "0.8"):
            book.record(audit("myjob.mean_los", PureDP("0.5"), lower, "violation"), about=["patients"])
        book.record(audit("myjob.count", PureDP("0.5"), "0.4", "not_refuted"), about=["patients"])
        alone = {answer.id: answer for answer in build(book.verify()).pages[0].answers}["first_page/audits"]
        scope.release(Laplace(sensitivity=1, epsilon="0.5"), 3)
        book.record(audit("laplace", PureDP("0.5"), "0.9", "violation"))
        both = {answer.id: answer for answer in build(book.verify()).pages[0].answers}["first_page/audits"]
    told = "about budget “patients”, of something that did not run here"
    wrong = f"2 violations, {told}: myjob.mean_los"
    assert (alone.text, alone.status, alone.tone) == (wrong, "measured", "warning")
    assert f"A{told[1:]}: 3 audits, 2 of them violations (myjob.count, myjob.mean_los)." in alone.lines
    assert both.text == f"refuted: noisy numbers; {wrong}"


def test_no_audit_that_found_nothing_is_a_test_of_what_ran_here_under_another_name() -> None:
    record = one_scope("0.5")
    record.add(audit("myjob.count", PureDP("0.5"), "0.4", "not_refuted"))
    assert (page(record)["audits"].text, page(record)["audits"].status) == ("no audit", "unknown")


def test_a_violation_under_the_name_of_what_ran_elsewhere_warns() -> None:
    found, annex = charged_elsewhere("myjob.mean_los", audit("myjob.mean_los", PureDP("0.5"), "0.9", "violation"))
    assert found.text == "1 violation, under the name of a run elsewhere: myjob.mean_los"
    assert found.tone == "warning"
    assert found.lines == ("1 run elsewhere audited by name alone: refuted.", "Not refuted does not mean proved.")
    assert annex["audits/never_audited"].text == "1 run elsewhere audited by name alone: refuted"


def test_violations_of_what_ran_elsewhere_and_of_what_ran_nowhere_are_counted_apart() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1), dataset="visits")
        for name in ("mine.release", "mine.other"):
            scope.charge(PureDP("0.25"), relation="add_remove", by="A. Smith", reason="a survey", mechanism=name)
        for name in ("mine.release", "mine.gone"):
            book.record(audit(name, PureDP("0.5"), "0.9", "violation"), about=["patients"])
        book.record(audit("mine.other", PureDP("0.5"), "0.4", "not_refuted"), about=["patients"])
        book.record(audit("twin", PureDP("0.5"), "0.9", "violation"))
        model = build(book.verify())
    found = {answer.id: answer for answer in model.pages[0].answers}["first_page/audits"]
    assert found.text == (
        "1 violation, under the name of a run elsewhere: mine.release; "
        "1 violation, about budget “patients”, of something that did not run here: mine.gone"
    )
    assert found.lines == (
        "Under the name of a run elsewhere: 2 audits, 1 of them a violation (mine.other, mine.release).",
        UNTIED.format("1 violation", "twin"),
        "2 runs elsewhere audited by name alone: 1 refuted.",
        "Not refuted does not mean proved.",
    )
    names = {id_: [row[0].text for row in table_of(model.sections, f"audits/{id_}").rows] for id_ in TABLES_OF_AUDITS}
    assert names == {"results": [], "elsewhere": ["mine.release", "mine.other"], "nowhere": ["mine.gone", "twin"]}


def test_a_run_elsewhere_that_no_audit_is_of_is_told_as_never_audited() -> None:
    """Also where an audit has the name that the entry of a run without a name has."""
    for kind in ("myjob.mean_los", "declared_run"):
        found, annex = charged_elsewhere("declared_run", audit(kind, PureDP("0.5"), "0.4", "not_refuted"))
        assert (found.text, found.status) == ("nothing ran here", "unknown")
        assert "1 run elsewhere never audited." in found.lines
        assert annex["audits/never_audited"].text == "1 run elsewhere: no audit is of that name"
        assert annex["audits/never_audited"].origin.status == "unknown"


def test_an_audit_of_the_charge_of_a_run_elsewhere_is_of_that_run() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1), dataset="visits")
        scope.charge(PureDP("0.5"), relation="add_remove", by="A. Smith", reason="a survey")
        (one,) = scope.releases()
        book.record(replace(audit("twin", PureDP("0.5"), "0.9", "violation"), charge=one.charge))
        found = {answer.id: answer for answer in build(book.verify()).pages[0].answers}["first_page/audits"]
    assert (found.text, found.tone) == ("1 violation, of a run elsewhere that is charged here: twin", "warning")
    assert not any("never audited" in line or "by name" in line for line in found.lines)


def charged_elsewhere(name: str, result: Audited) -> tuple[Answer, dict[str, Item]]:
    """What a report says of audits where one run elsewhere, called `name`, was charged, and one audit recorded."""
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1), dataset="visits")
        scope.charge(PureDP("0.5"), relation="add_remove", by="A. Smith", reason="a survey", mechanism=name)
        book.record(result)
        model = build(book.verify())
    found = {answer.id: answer for answer in model.pages[0].answers}["first_page/audits"]
    items = (item for block in blocks(model.sections) if isinstance(block, Items) for item in block.items)
    return found, {item.id: item for item in items}


def test_no_audit_is_of_what_ran_elsewhere_under_the_name_of_what_was_audited() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1), dataset="visits")
        scope.charge(PureDP("0.5"), relation="add_remove", by="A. Smith", reason="a survey", mechanism="laplace")
        book.record(audit("laplace", PureDP("0.5"), "0.4", "not_refuted"))
        found = {answer.id: answer for answer in build(book.verify()).pages[0].answers}["first_page/audits"]
    assert (found.text, found.status) == ("nothing ran here", "unknown")
    assert found.tone == "plain"
    assert "1 run elsewhere audited by name alone." in found.lines


def test_no_audit_is_of_what_was_given_back() -> None:
    record = one_scope()
    record.abort("patients", Laplace(sensitivity=1, epsilon="0.5"))
    record.add(audit("laplace", PureDP("0.5"), "0.4", "not_refuted"))
    assert page(record)["audits"].text == "nothing ran here"


def test_an_audit_of_what_ran_with_its_parameters_is_a_test_of_it() -> None:
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=PureDP(1), dataset="visits")
        scope.release(dpl.Count(epsilon="0.5", of="rows"), [1, 2])
        book.record(dpl.audit_mechanism(dpl.Count(epsilon="0.5", of="rows"), [1], [1, 2], trials=2000, seed=1).body())
        answers = {answer.id: answer for answer in build(book.verify()).pages[0].answers}
    assert answers["first_page/audits"].lines == ("Not refuted does not mean proved.",)


@pytest.mark.parametrize(
    ("of", "claim", "changes", "why"),
    [
        (Laplace(sensitivity=1, epsilon="0.4"), PureDP("0.4"), {}, "whose parameters no run here had"),
        (HALF, PureDP("0.5"), {"relation": Relation.REPLACE_ONE}, "whose relation is not that of the run"),
        (HALF, PureDP("0.51"), {}, "whose claim is weaker than that of the run"),
        (HALF, ApproxDP("0.5", "1e-9"), {}, "whose claim is weaker than that of the run"),
        (HALF, ZCDP("0.125"), {}, "whose claim is weaker than that of the run"),
        (HALF, PureDP("0.5"), {"confidence": Decimal("0.89")}, "whose confidence is below 90 %"),
    ],
)
def test_an_audit_of_less_than_what_ran_is_no_test_of_it(
    of: Laplace, claim: Guarantee, changes: dict[str, Any], why: str
) -> None:
    record = one_scope("0.5")
    record.add(replace(audit(of, claim, "0", "not_refuted"), **changes))
    model = build(record.verified())
    found = {answer.id: answer for answer in model.pages[0].answers}["first_page/audits"]
    assert (found.text, found.status) == ("no audit that counts", "unknown")
    assert found.lines[:2] == (
        f"No test of what ran here: 1 audit {why} (noisy numbers).",
        "Never audited: noisy numbers.",
    )
    (row,) = table_of(model.sections, "audits/results").rows
    assert row[0].note.endswith(f"; no test of what ran here, as an audit {why}")
    record.add(audit(HALF, PureDP("0.5"), "0.4", "not_refuted"))
    found = page(record)["audits"]
    assert found.text == "1 of 1 kind tested, none refuted"
    assert found.lines[0].startswith("No test of what ran here: 1 audit")


@pytest.mark.parametrize("claim", [PureDP("0.5"), PureDP("0.3")])
def test_an_audit_of_as_much_as_ran_is_a_test_of_it(claim: Guarantee) -> None:
    record = one_scope("0.5")
    record.add(replace(audit(HALF, claim, "0.2", "not_refuted"), confidence=Decimal("0.9")))
    assert page(record)["audits"].text == "1 of 1 kind tested, none refuted"


def test_a_kind_is_tested_where_it_is_in_every_way_in_which_it_ran() -> None:
    record = one_scope("0.5", "0.25", "0.25")
    record.add(audit(HALF, PureDP("0.5"), "0.4", "not_refuted"))
    found = page(record)["audits"]
    assert (found.text, found.status) == ("0 of 1 kind tested, 1 in part, none refuted", "measured")
    assert found.lines[0] == "Tested in part: noisy numbers, 1 of the 2 ways in which it ran here."
    assert not any("Never audited" in line for line in found.lines)
    record.add(audit(Laplace(sensitivity=1, epsilon="0.25"), PureDP("0.25"), "0.2", "not_refuted"))
    assert page(record)["audits"].text == "1 of 1 kind tested, none refuted"


def test_a_violation_counts_whatever_its_parameters_and_its_confidence() -> None:
    record = one_scope("0.5")
    of = Laplace(sensitivity=1, epsilon="0.4")
    record.add(replace(audit(of, PureDP("0.4"), "0.9", "violation"), confidence=Decimal("0.5")))
    found = page(record)["audits"]
    assert (found.text, found.tone) == ("refuted: noisy numbers", "warning")


def test_what_an_audit_found_stands_on_every_page_under_which_the_same_ran() -> None:
    """Whatever budget it was recorded about: of a mechanism that ran in both, and of a run elsewhere by its name."""
    with dpl.Ledger.in_memory() as book:
        for name in ("a", "b", "c"):
            scope = book.scope(name, unit=f"person-{name}", relation="add_remove", budget=PureDP(1), dataset=name)
            if name != "c":
                scope.release(HALF, 3)
                scope.charge(PureDP("0.1"), relation="add_remove", by="A. Smith", reason="x", mechanism="myjob.mean")
        for of in (HALF, "myjob.mean"):
            book.record(audit(of, PureDP("0.5"), "0.9", "violation"), about=["a"])
        model = build(book.verify())
        alone = build(book.verify(), "b")
    answers = {page.scopes: page.answers[QUESTIONS.index("audits")] for page in model.pages}
    told = "refuted: noisy numbers; 1 violation, under the name of a run elsewhere: myjob.mean"
    for name in ("a", "b"):
        assert (answers[(name,)].text, answers[(name,)].tone) == (told, "warning")
    assert alone.pages[0].answers[QUESTIONS.index("audits")].text == told
    assert answers[("c",)].text == "nothing ran here"


def test_what_was_never_audited_is_named() -> None:
    found = page(one_scope("0.5"))["audits"]
    assert (found.text, found.status) == ("no audit", "unknown")
    assert found.lines == ("Never audited: noisy numbers.",)


def test_changes_of_keys_are_told_and_a_revocation_says_which_key_did_it(tmp_path: Path) -> None:
    path = tmp_path / "clinic.ledger"
    with dpl.Ledger.create(path) as book:
        model = build(book.verify())
        assert item_of(model.sections, "record/keys").text == "none: the keys are those of the first entry"
        book.rotate_key(SigningKey.generate(book.id))
        model = build(book.verify())
        assert item_of(model.sections, "record/keys").text == "the signing key was replaced by a new one (entry 1)"
    recovery = path.with_name("clinic.ledger.recovery.key")
    dpl.Ledger.revoke_key(path, recovery=recovery, last_trusted=1, reason="stolen")
    with dpl.Ledger.look(path) as book:
        model = build(book.verify())
    told = item_of(model.sections, "record/keys").text
    assert told.endswith("the recovery key revoked the signing key (entry 2)")
    (answer,) = (one for one in model.pages[0].answers if one.id == "first_page/record")
    assert answer.lines[0].startswith(
        "Entry 2, signed with the recovery key, REVOKES the signing key. Somebody else may"
    )


def item_of(sections: tuple[Section, ...], id_: str) -> Item:
    items = (item for block in blocks(sections) if isinstance(block, Items) for item in block.items)
    return next(item for item in items if item.id == id_)


def test_the_last_refusal_is_one_line_with_what_was_asked_and_left() -> None:
    record = one_scope("0.75")
    assert page(record)["refusal"].text == "nothing"
    record.release("patients", Laplace(sensitivity=1, epsilon="0.9"))
    record.release("patients", Laplace(sensitivity=1, epsilon="0.5"))
    found = page(record)["refusal"]
    assert found.text == "Noisy numbers"
    assert found.lines == (
        "Entry 5, budget “patients”: it asked for 0.5 of ε, and 0.25 was left.",
        "2 refusals in all; none read data or spent anything.",
    )


def first_page(book: dpl.Ledger) -> dict[str, Answer]:
    return {answer.id.removeprefix("first_page/"): answer for answer in build(book.verify()).pages[0].answers}


def test_a_refusal_of_a_run_elsewhere_is_not_said_to_be_harmless() -> None:
    """It may have run: then nothing here covers it."""
    book = dpl.Ledger.in_memory()
    scope = book.scope("visits", unit="patient", relation="add_remove", budget=PureDP(1))
    with pytest.raises(BudgetRefused):
        scope.charge(PureDP(5), by="A. Smith", reason="published in March", relation="add_remove")
    found = first_page(book)["refusal"]
    assert found.tone == "warning"
    assert "Of runs elsewhere: 1. What of them ran all the same, no number on this page covers." in found.lines[1]


def test_a_run_that_left_its_guarantee_stands_beside_the_promise() -> None:
    book = dpl.Ledger.in_memory()
    scope = book.scope("visits", unit="patient", relation="add_remove", budget=PureDP(1))
    with scope.charging(PureDP("0.1"), by="A. Smith", reason="a run", relation="add_remove") as run:
        run.start()
        run.broke_off("the noise was seeded")
    found = first_page(book)["promise"]
    assert found.tone == "warning"
    assert any("1 run left the guarantee (entry 2)" in line for line in found.lines)


def test_a_report_is_written_whatever_the_length_of_what_people_say() -> None:
    book = dpl.Ledger.in_memory()
    for number in range(40):
        name = f"{number}-{'x' * 100}"
        scope = book.scope(name, unit="patient", relation="add_remove", budget=PureDP(1), dataset="visits")
        scope.declare("invariants", "i" * 4096, by="me")
        scope.declare("non_dp_releases", "n" * 2100, by="me")
        scope.declare("people", "\ufe0f" * 4096, by="me")
    assert len(build(book.verify()).pages) == 1
    assert dpl.report(book).digest


@pytest.mark.parametrize(
    ("budget", "spent", "asked", "reason"),
    [
        (ApproxDP(1, "1e-6"), "0.9", ApproxDP("0.2", "0.5"), "it asked for 0.5 of δ, and 5e-7 was left"),
        (ApproxDP(1, "1e-6"), "0.9", PureDP("0.2"), "it asked for 0.2 of ε, and 0.1 was left"),
        (ZCDP(1), "0.1", ApproxDP("0.1", "1e-9"), "it asked for 1e-9 of δ, and 0 was left"),
        (PureDP(1), "0.1", GaussianLaw(3), "no theorem gives it a price in ε"),
    ],
)
def test_the_reason_of_a_refusal_is_the_account_that_is_furthest_from_admitting_it(
    budget: Guarantee, spent: str, asked: Composition, reason: str
) -> None:
    """All accounts must admit it: of the nearest one may ask for what is left, and is refused again."""
    with dpl.Ledger.in_memory() as book:
        scope = book.scope("patients", unit="patient", relation="add_remove", budget=budget)
        scope.charge(PureDP(spent), relation="add_remove", by="A. Smith", reason="a survey")
        with pytest.raises(BudgetRefused):
            scope.charge(asked, relation="add_remove", by="A. Smith", reason="another")
        found = {answer.id: answer for answer in build(book.verify()).pages[0].answers}["first_page/refusal"]
    assert found.lines[0] == f"Entry 4, budget “patients”: {reason}."


# ---- purpose, plain words -------------------------------------------------------------------------------------------


def test_purpose_reason_and_who_decided_stand_on_the_page_as_declared_or_unknown() -> None:
    record = one_scope()
    found = page(record)["decision"]
    assert (found.text, found.status) == ("nobody has said who decided", "unknown")
    assert found.lines == tuple(f"{word}: unknown. Nobody has said." for word in ("For", "Not for", "Why this budget"))
    assert [link.to for link in found.links] == [
        f"declared/{item}" for item in ("intended_use", "justification", "decision_owner")
    ]
    record.declare("intended_use", "Planning", "A. Lindqvist")
    record.declare("justification", "It is enough", "M. Ndiaye", scope="patients")
    assert page(record)["decision"].status == "unknown"
    record.declare("decision_owner", "The board", "A. Lindqvist")
    found = page(record)["decision"]
    assert (found.text, found.status) == ("The board", "declared")
    assert found.lines == (
        "For: Planning",
        "Not for: unknown. Nobody has said.",
        "Why this budget: It is enough",
        "Declared by A. Lindqvist; M. Ndiaye.",
    )
    assert found.links[1].to == "scope:patients/declared/justification"


def test_what_is_published_without_noise_stands_on_the_page() -> None:
    record = one_scope()
    assert page(record)["unprotected"].status == "unknown"
    record.declare("non_dp_releases", "The number of invitations", "A. Lindqvist")
    assert page(record)["unprotected"].status == "unknown"
    record.declare("invariants", "The number of hospitals", "A. Lindqvist")
    found = page(record)["unprotected"]
    assert (found.text, found.status) == ("In the words of A. Lindqvist", "declared")
    assert found.lines[:2] == ("Without noise: The number of invitations", "Exactly: The number of hospitals")
    record.declare("invariants", "The number of beds", "M. Ndiaye")
    assert page(record)["unprotected"].text == "In the words of A. Lindqvist; M. Ndiaye"


def test_the_words_of_the_sample_file_are_nobodys_and_a_gap() -> None:
    """Whatever their length: a name, a number, an address. Kinds that one chooses from a list are one's own."""
    with dpl.Ledger.in_memory() as book:
        book.scope("patients-2026", unit="patient", relation="add_remove", budget=ApproxDP(1, "1e-6"), dataset="visits")
        book.declare_file(EXAMPLE)
        made = dpl.report(book)
    found = {answer.id.removeprefix("first_page/"): answer for answer in made.model.pages[0].answers}
    for name in ("decision", "unprotected", "gaps"):
        assert found[name].status == "unknown"
    copied = "(the sample's words, not filled in)"
    assert made.model.subtitle.endswith(copied)
    assert found["decision"].text.endswith(copied)
    assert all(line.endswith(copied) for line in found["decision"].lines[:3])
    assert (
        found["decision"].lines[3].startswith("Declared by A. Lindqvist, data protection officer (the sample's name)")
    )
    assert f"Trust model: unknown; what stands there is {copied[1:-1]}." in found["promise"].lines
    assert any(copied in line for line in found["who"].lines)
    assert found["unprotected"].text == copied[1:-1]
    assert found["gaps"].text == "9 of the 10 required items"
    assert "In the sample's words, not filled in: 9 of 10 required items." in found["gaps"].lines
    assert "In the sample's words, not filled in: 35 of 39 optional items." in found["gaps"].lines
    assert not any("are declared" in line for line in found["gaps"].lines)
    items = {one.id: one for block in blocks(made.model.sections) if isinstance(block, Items) for one in block.items}
    assert items["scope:patients-2026/delta_against_population"].origin.status == "unknown"
    assert items["declared/dpia_reference"].text == f"DPIA-2026-014 [{copied[1:-1]}]"
    assert items["declared/dpia_reference"].origin.status == "unknown"
    assert items["declared/dpia_reference"].origin.by.startswith("A. Lindqvist")
    assert items["declared/data_growth"].text == "Growing"
    assert items["declared/data_growth"].origin.status == "declared"
    for form in (made.html(), made.markdown()):
        assert "A. Lindqvist, data protection officer (the sample's name), 2" in form.replace("\\", "").replace(
            "&#39;", "'"
        ).replace("</bdi>", "")
    rows = table_of(made.model.sections, "questions/table").rows
    asked = {row[0].text: row[3] for row in rows if row[3].text != "nothing is needed"}
    kinds = "Are models or synthetic data released, and how were they made?"
    assert {question for question, cell in asked.items() if cell.status == "declared"} == {kinds}


def test_long_words_are_cut_between_two_of_them_and_names_are_kept_apart() -> None:
    record = one_scope()
    record.declare("intended_use", "planning of screening capacity " * 9, "R. Meier, privacy officer")
    record.declare("justification", "It is enough", "Dr. A. Huber")
    lines = page(record)["decision"].lines
    assert lines[0].endswith(" screening… (in full in the annex)")
    assert len(lines[0]) <= len("For: ") + 110
    assert lines[-1] == "Declared by R. Meier, privacy officer; Dr. A. Huber."


@pytest.mark.parametrize(("epsilon", "warned"), [("1", False), ("1.01", True), ("11", True)])
def test_the_page_warns_of_a_large_epsilon(epsilon: str, warned: bool) -> None:
    found = page(one_scope(budget=PureDP(epsilon)))["promise"]
    assert any(line.startswith("Warning: ε is above") for line in found.lines) == warned
    assert found.tone == ("warning" if warned else "plain")


def test_every_mechanism_of_ours_has_a_plain_name_on_the_page() -> None:
    ours = {
        kind
        for value in public().values()
        if isinstance(value, type) and (hasattr(value, "parts") and hasattr(value, "claim"))
        for kind in [next((field.default for field in fields(value) if field.name == "kind"), None)]
        if isinstance(kind, str)
    }
    assert len(ours) > 30
    assert WORDS.keys() == ours | {"declared_run", "private_search"}, "WORDS in reports/first_page/plain.py"


def test_two_mechanisms_with_one_plain_name_are_told_apart() -> None:
    record = one_scope("0.25", budget=ApproxDP(3, "1e-6"))
    record.release("patients", Gaussian(sensitivity=1, noise_multiplier=20))
    record.add(audit(Laplace(sensitivity=1, epsilon="0.25"), PureDP("0.25"), "0.2", "not_refuted"))
    found = page(record)["audits"]
    assert found.text == "1 of 2 kinds tested, none refuted"
    assert "Never audited: noisy numbers (gaussian)." in found.lines


def test_no_page_speaks_of_scopes_accounts_or_tags() -> None:
    for record in (sample(), one_scope("0.5", "0.6")):
        for answer in page(record).values():
            text = said(answer)
            assert not re.search(r"\b(scopes?|account|mixed|dp_sgd|sparse_vector)\b", text), text


def test_gaps_are_counted_and_linked() -> None:
    found = page(sample())["gaps"]
    assert found.text == "7 of the 10 required items"
    assert found.lines[:2] == ("Not declared: 7 of 10 required items.", "Not declared: 37 of 39 optional items.")
    assert [link.to for link in found.links][:2] == ["declared/product_description", "declared/controller_and_contact"]
    assert found.status == "unknown"


def test_where_nothing_required_is_missing_the_optional_gaps_are_no_more_than_that() -> None:
    record = one_scope()
    for item in REQUIRED:
        record.declare(item, "Said", "A. Lindqvist")
    found = page(record)["gaps"]
    assert found.text.endswith(" gaps, nothing required")
    assert found.lines[:2] == ("All 10 required items are declared.", "Not declared: 39 of 39 optional items.")
    assert set(REQUIRED) <= set(ITEMS)


# ---- alone ----------------------------------------------------------------------------------------------------------


def test_the_first_page_alone_says_what_the_report_says_first_and_names_it() -> None:
    whole = report_on_sample()
    alone = whole.summary()
    assert alone.model.pages == whole.model.pages
    assert alone.model.sections == ()
    assert alone.summary() is alone
    assert wire.parse(alone.json().encode())["of"] == whole.digest
    for form in (alone.html(), alone.markdown()):
        assert whole.digest in form
        assert alone.digest in form
    assert "<details" not in alone.html()


def test_a_long_record_has_a_first_page_of_the_same_length() -> None:
    lines = sum(len(answer.lines) for answer in build(long(700, distinct=True).verified()).pages[0].answers)
    assert lines <= 34


# ---- readings and accuracy in the annexes ---------------------------------------------------------------------------


def readings(record: Record) -> tuple[Cell, ...]:
    """The row of the only scope: the scope, at most, at least, at the caps, as one plan."""
    (row,) = table_of(build(record.verified()).sections, "spent/readings").rows
    return row


def test_the_readings_stand_in_their_order() -> None:
    """At the caps at least as much as realised; as one plan at most as much as adaptive, for these pure runs."""
    record = one_scope("0.25", budget=ApproxDP(3, "1e-6"))
    record.watch("patients", SparseVector(epsilon="0.4", cutoff=4, threshold=20, sensitivity=1), (12,))
    upper, lower, cap, plan = (cell.value for cell in readings(record)[1:] if isinstance(cell.value, Decimal))
    assert lower <= plan <= cap
    assert lower < upper < cap
    assert 0 <= Decimal("0.65") - cap < Decimal("1e-5")


def test_what_no_theorem_composes_as_a_plan_is_unknown() -> None:
    record = one_scope(*(f"0.00{number}" for number in range(10, 24)))
    assert readings(record)[4].status == "unknown"


def intervals(record: Record) -> dict[str, Cell]:
    (table,) = (
        block
        for block in blocks(build(record.verified()).sections)
        if isinstance(block, Table) and block.id == "ran/accuracy"
    )
    return {row[0].text: row[2] for row in table.rows}


def test_an_interval_is_that_of_the_mechanism_itself() -> None:
    record = one_scope("0.25", budget=ApproxDP(30, "1e-6"))
    unit = Unit("patient", 1)
    for mechanism in (
        Count(epsilon="0.1", of="rows"),
        Histogram(epsilon="0.2", edges=(0, 1, 2)),
        Gaussian(sensitivity=1, noise_multiplier=4),
        Geometric(sensitivity=1, epsilon="0.5"),
        IntegerGaussian(sensitivity=1, sigma=3),
    ):
        record.release("patients", mechanism)
        (found,) = (cell for name, cell in intervals(record).items() if name == mechanism.kind)
        ready = mechanism.under(Relation.ADD_REMOVE, unit)
        assert found.value == round_up(ready.interval("0.95"))
        assert found.text.startswith("± ")


def test_half_of_the_laplace_mass_is_where_the_closed_form_says() -> None:
    """The 95 % interval of Laplace noise of scale b is b log 20, and a rounding to the grid."""
    found = intervals(one_scope("0.25"))["laplace"].value
    assert isinstance(found, Decimal)
    assert 0 < float(found) - 4 * math.log(20) < 0.01


def test_where_none_is_known_a_declaration_may_say_how_exact_it_is() -> None:
    record = one_scope(budget=ApproxDP(3, "1e-6"))
    record.watch("patients", SparseVector(epsilon="0.4", cutoff=4, threshold=20, sensitivity=1), (12,))
    assert intervals(record)["sparse_vector"].status == "unknown"
    record.declare("accuracy", "Within 30 of the threshold, in nine of ten runs", "A. Lindqvist")
    assert intervals(record)["sparse_vector"].status == "declared"


@pytest.mark.parametrize("library", ["survey-tools 2.3", "notdpledger 1"])
def test_of_other_peoples_code_no_interval_is_made_up(library: str) -> None:
    record = one_scope()
    record.release("patients", Laplace(sensitivity=1, epsilon="0.25"), library=library)
    assert intervals(record)["laplace"].status == "unknown"


def test_parameters_that_do_not_come_out_again_have_no_interval() -> None:
    class Finer(Laplace):
        def parameters(self) -> dict[str, Any]:
            return {**super().parameters(), "scale": "0.001"}

    record = one_scope()
    record.release("patients", Finer(sensitivity=1, epsilon="0.25"))
    assert intervals(record)["laplace"].status == "unknown"


def test_words_of_the_sample_about_a_scope_are_one_gap() -> None:
    """Counted among what was not filled in, and not again among what the record does not say."""
    record = one_scope("0.5")
    before = page(record)["gaps"].lines
    record.declare("dpia_reference", "DPIA-2026-014", "A. Lindqvist", scope="patients")
    after = page(record)["gaps"].lines
    assert "In the sample's words, not filled in: 1 of 39 optional items." in after
    assert [line for line in before if "the record" in line] == [line for line in after if "the record" in line]
