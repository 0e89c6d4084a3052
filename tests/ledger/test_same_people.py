"""Scopes over the same people: what they come to for one unit, what is not known, and who is asked."""

import warnings
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.errors import UnrelatedScopes
from dpledger.ledger.accounts import recomposition
from dpledger.ledger.accounts.overlap import SamePeople
from dpledger.ledger.ledger import Ledger
from dpledger.relations import Unit
from dpledger.reports.promises import promises

MILLIONTH, ONE = "0.000001", PureDP(1)


def people(*scopes: Mapping[str, object]) -> SamePeople:
    book = Ledger.in_memory()
    for said in scopes:
        book.scope(**{"unit": "patient", "relation": "add_remove", "budget": PureDP(1), **said})  # type: ignore[arg-type]
    return book.people()


def named(name: str, dataset: str | None = "hospital", budget: Guarantee = ONE, **more: object) -> dict[str, object]:
    return {"name": name, "dataset": dataset, "budget": budget, **more}


def only(found: SamePeople) -> tuple[Sequence[str], Guarantee | None]:
    (group,) = found.together
    return group.counted, group.guarantee


# ---- what is added --------------------------------------------------------------------------------------------------


def test_two_scopes_of_one_dataset_add_up() -> None:
    found = people(named("a", budget=ApproxDP(1, MILLIONTH)), named("b", budget=ApproxDP(1, MILLIONTH)))
    assert only(found) == (("a", "b"), ApproxDP(2, "0.000002"))
    assert found.apart == ()


def test_kinds_are_added_where_a_theorem_adds_them() -> None:
    assert only(people(named("a"), named("b", budget=ApproxDP(1, MILLIONTH))))[1] == ApproxDP(2, MILLIONTH)
    assert only(people(named("a", budget=ZCDP(1)), named("b", budget=ZCDP(2))))[1] == ZCDP(3)
    assert only(people(named("a", budget=GDP(3)), named("b", budget=GDP(4))))[1] == GDP(5)


def test_one_scope_is_with_nobody() -> None:
    assert people(named("a")) == SamePeople(together=(), apart=())
    assert people(named("a", None)) == SamePeople(together=(), apart=())


def test_other_datasets_and_other_units_are_other_people() -> None:
    found = people(named("a"), named("b", "school"), named("c", None, unit="visit"))
    assert found == SamePeople(together=(), apart=())


def test_a_promise_to_twelve_rows_is_one_to_a_single_row() -> None:
    """Budgets of 3 for patients of at most twelve rows and of 1 for those of one row are 4 for a patient of one row;
    of a patient of twelve rows the second says nothing."""
    twelve = named("a", budget=PureDP(3), unit=Unit("patient", 12))
    (group,) = people(twelve, named("b")).together
    assert (group.unit, group.scopes, group.guarantee) == (Unit("patient", 1), ("a", "b"), PureDP(4))
    five = named("c", budget=PureDP("0.5"), unit=Unit("patient", 5))
    found = {group.unit.max_contributions: group for group in people(twelve, named("b"), five).together}
    assert {rows: group.guarantee for rows, group in found.items()} == {1: PureDP("4.5"), 5: PureDP("3.5")}
    assert found[5].scopes == ("a", "c")


def test_each_size_of_a_unit_keeps_its_promise_in_the_report() -> None:
    book = Ledger.in_memory()
    for name, rows, epsilon in (("a", 12, 3), ("b", 1, 1)):
        unit = Unit("patient", rows)
        book.scope(name, unit=unit, relation="add_remove", budget=PureDP(epsilon), dataset="hospital")
    accounts = recomposition.accounts(book.entries(), book.state)
    found = {promise.scopes: promise.epsilon for promise in promises(accounts, book.people(), book.state.scopes)}
    assert found == {("a", "b"): 4, ("a",): 3}


def test_a_closed_scope_still_counts() -> None:
    book = Ledger.in_memory()
    for name in "ab":
        book.scope(name, unit="patient", relation="add_remove", budget=PureDP(1), dataset="hospital")
    book.scope("a").end("over")
    assert only(book.people())[1] == PureDP(2)


# ---- parents --------------------------------------------------------------------------------------------------------


def test_a_parents_budget_covers_what_is_under_it() -> None:
    found = people(named("top", budget=PureDP(2)), named("ward", parents=("top",)), named("yard", parents=("top",)))
    assert only(found) == (("top",), PureDP(2))
    assert found.together[0].scopes == ("top", "ward", "yard")


def test_a_scope_beside_the_parent_is_added_to_it() -> None:
    found = people(named("top", budget=PureDP(2)), named("ward", parents=("top",)), named("study"))
    assert only(found) == (("study", "top"), PureDP(3))


def test_siblings_are_within_a_parent_that_names_nothing_if_that_is_less() -> None:
    wards = [named(name, parents=("top",)) for name in ("east", "north", "west")]
    assert only(people(named("top", None, PureDP(2)), *wards)) == (("top",), PureDP(2))
    assert only(people(named("top", None, PureDP(9)), *wards)) == (("east", "north", "west"), PureDP(3))


def test_what_a_parent_releases_besides_is_not_in_the_sum_and_this_is_said() -> None:
    wards = [named(name, parents=("top",)) for name in ("east", "west")]
    (apart,) = people(named("top", "the whole hospital", PureDP(9)), *wards).apart
    assert apart.scopes == ("top",)
    assert "the sum leaves out what else they release" in apart.reason
    assert people(named("top", "the whole hospital", PureDP(2)), *wards).apart == ()


def test_two_parents_both_count() -> None:
    found = people(named("one"), named("other"), named("ward", parents=("one", "other")))
    assert only(found) == (("one", "other"), PureDP(2))


# ---- what is not known ----------------------------------------------------------------------------------------------


def test_scopes_without_a_dataset_are_listed_and_not_added() -> None:
    found = people(named("a"), named("b"), named("c", None), named("d", None))
    assert only(found)[0] == ("a", "b")
    (apart,) = found.apart
    assert apart.scopes == ("c", "d")
    assert "they name no dataset" in apart.reason
    assert "scopes a, b" in apart.reason


def test_another_relation_or_unit_over_the_same_dataset_is_not_added() -> None:
    others: list[dict[str, Any]] = [{"relation": "replace_one"}, {"unit": "visit"}]
    for other in others:
        found = people(named("a"), named("b", **other))
        assert found.together == ()
        assert [one.scopes for one in found.apart] == [("a", "b")]


def test_a_scope_under_a_parent_is_related_to_it() -> None:
    assert people(named("top", None), named("ward", None, parents=("top",))).apart == ()


def test_a_sum_that_says_nothing_is_none() -> None:
    halves = [named(name, budget=ApproxDP(1, "0.5")) for name in "ab"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert only(people(*halves)) == (("a", "b"), None)


epsilons = st.lists(st.integers(1, 100).map(lambda n: Decimal(n) / 10), min_size=2, max_size=5)


@given(epsilons, st.integers(1, 50).map(Decimal), st.randoms())
@settings(max_examples=20, deadline=None)
def test_order_changes_nothing_and_another_scope_is_never_less(
    budgets: list[Decimal], more: Decimal, random: object
) -> None:
    scopes = [named(f"s{number}", budget=PureDP(budget)) for number, budget in enumerate(budgets)]
    mixed = sorted(scopes, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert people(*mixed) == people(*scopes)
    whole, larger = only(people(*scopes))[1], only(people(*scopes, named("z", budget=PureDP(more))))[1]
    assert isinstance(whole, PureDP)
    assert isinstance(larger, PureDP)
    assert whole == PureDP(sum(budgets))
    assert larger.epsilon == whole.epsilon + more


# ---- who is asked ---------------------------------------------------------------------------------------------------


def opened(*scopes: Mapping[str, object]) -> list[str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        people(*scopes)
    assert all(warning.category is UnrelatedScopes for warning in told)
    assert all(warning.filename == __file__ for warning in told)
    return [str(warning.message) for warning in told]


def test_whoever_opens_a_second_scope_is_asked_for_a_dataset_or_parents() -> None:
    (words,) = opened(named("a"), named("b", None))
    assert "scope b and scope a may be about the same patient" in words
    assert "Give it a dataset" in words
    (words,) = opened(named("a", None), named("b"))
    assert "item people" in words


def test_a_dataset_that_is_spelt_otherwise_is_asked_about() -> None:
    for spelt in ("Visits", "visit", "vis-its", "vists", "vistis", "vissits", "visids"):
        (words,) = opened(named("a", "visits"), named("b", spelt))
        assert f"is of dataset {spelt!r}, and another scope is of 'visits': did you mean that?" in words
        assert opened(named("a", "visits"), named("b", spelt), named("c", spelt), named("d", "visits")) == [words]
    for one, other in (("visits 2025", "visits 2026"), ("cohort a", "cohort b"), ("cohortA", "cohortB")):
        assert opened(named("a", one), named("b", other)) == []
    for one, other in (("men visits", "women visits"), ("cases", "bases"), ("wave i", "wave ii"), ("cat", "cab")):
        assert opened(named("a", one), named("b", other)) == []


def test_nobody_is_asked_what_is_known() -> None:
    assert opened(named("a"), named("b"), named("c", "school")) == []
    assert opened(named("a", None), named("b", None, unit="visit")) == []
    assert opened(named("a", None), named("b", None, parents=("a",))) == []


def test_a_scope_that_is_there_asks_nothing() -> None:
    book = Ledger.in_memory()
    book.scope("a", unit="patient", relation="add_remove", budget=PureDP(1), dataset="hospital")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert book.scope("a").name == "a"
    assert len(book) == 2


def test_whoever_makes_it_an_error_has_opened_nothing() -> None:
    book = Ledger.in_memory()
    rules = {"unit": "patient", "relation": "add_remove", "budget": PureDP(1)}
    book.scope("a", **rules)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnrelatedScopes)
        with pytest.raises(UnrelatedScopes):
            book.scope("b", **rules)  # type: ignore[arg-type]
    assert list(book.refresh().scopes) == ["a"]
