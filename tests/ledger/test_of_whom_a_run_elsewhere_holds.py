"""Of whom the guarantee of a run elsewhere holds: asked, charged for whom the scope protects, recorded, and recomputed
by whoever verifies."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

import dpledger as dpl
from dpledger.accounting.arithmetic import prices
from dpledger.accounting.documents import DocumentLine
from dpledger.errors import BudgetRefused, ParameterError, RelationError, VerificationError
from dpledger.ledger.entries.bodies import Body, Committed, Reserved
from dpledger.ledger.entries.members import Attestation, LevelCharge
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules import requested
from dpledger.ledger.signed.keys import SigningKey, new_ledger_id
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.ledger.verifying import verification
from dpledger.relations import Relation
from dpledger.reports.build import build
from dpledger.reports.markdown import render
from ledger_forger import forged

NAME = new_ledger_id("clinic")
KEY, RECOVERY = SigningKey.generate(NAME), SigningKey.generate(NAME)
WHO: dict[str, Any] = {"by": "A. Smith", "reason": "the study of 2025"}
MANY = dpl.Unit("patient", max_contributions=5)
ADD = Relation.ADD_REMOVE


def opened(unit: Any = MANY, relation: str = "add_remove", budget: Any = None) -> dpl.Scope:
    budget = dpl.ApproxDP(50, "1e-4") if budget is None else budget
    return Ledger.begin(MemoryStore(), KEY, RECOVERY.public).scope("s", unit=unit, relation=relation, budget=budget)


def document_of(relation: Relation, epsilon: str) -> dpl.Document:
    return dpl.Document(relation=relation, entries=(DocumentLine(dpl.PureDP(epsilon)),))


def bodies(scope: dpl.Scope) -> list[Body]:
    return [entry.body for entry in scope._ledger.entries(stop=scope._ledger.state.size)]


def reserved(scope: dpl.Scope) -> Reserved:
    return next(body for body in reversed(bodies(scope)) if isinstance(body, Reserved))


def verified(found: list[Body]) -> verification.Verified:
    return verification.verify(*forged(found, KEY), KEY.public)


# ---- asked ----------------------------------------------------------------------------------------------------------


def test_a_guarantee_without_its_relation_is_refused_and_told_what_to_write() -> None:
    scope = opened("patient")
    asked: tuple[Any, ...] = (dpl.PureDP("0.1"), [dpl.LaplaceLaw("0.1"), dpl.Count(epsilon="0.1", of="rows")])
    for parts in asked:
        for ask in (scope.quote, lambda what: scope.charge(what, **WHO), lambda what: scope.charging(what, **WHO)):
            with pytest.raises(ParameterError, match=r"relation: .*relation='add_remove'.*'replace_one'"):
                ask(parts)
    with pytest.raises(ParameterError, match="relation"):
        scope.charges(dpl.PureDP("0.1"), **WHO)
    assert len(bodies(scope)) == 2


def test_a_guarantee_that_does_not_say_of_what_is_refused_where_a_unit_may_have_many_rows() -> None:
    scope = opened()
    with pytest.raises(ParameterError, match=r"'row'.*charged for 5 of one patient.*'unit'"):
        scope.charge(dpl.PureDP("0.1"), relation="add_remove", **WHO)
    with pytest.raises(ParameterError, match=r"of: .*'row', 'unit'.*person"):
        scope.charge(dpl.PureDP("0.1"), relation="add_remove", of="person", **WHO)  # type: ignore[arg-type]
    document = document_of(ADD, "0.1")
    with pytest.raises(ParameterError, match="of: "):
        scope.charge(document, **WHO)
    scope.charge(document, of="row", **WHO)
    assert scope.account().sums["pure"][0] == Decimal("0.5")


def test_what_says_it_itself_is_not_asked() -> None:
    scope = opened()
    count = dpl.Count(epsilon="0.1", of="rows")
    asked: tuple[Any, ...] = (count, [(count, 2)], {count: 2})
    for parts in asked:
        scope.charge(parts, **WHO)
        assert reserved(scope).attested == Attestation(**WHO, relation=ADD, of="unit")
    assert scope.account().sums["pure"][0] == Decimal("0.5")
    one = opened("patient")
    one.charge(document_of(ADD, "0.1"), **WHO)
    assert reserved(one).attested == Attestation(**WHO, relation=ADD)


def test_a_generator_of_parts_is_read_once() -> None:
    scope = opened()
    parts = (dpl.PureDP(epsilon) for epsilon in ("0.1", "0.2"))
    scope.charge(parts, relation="add_remove", of="row", **WHO)
    assert scope.account().sums["pure"][0] == Decimal("1.5")


def test_a_mechanism_is_for_one_unit_whatever_else_is_said() -> None:
    scope, count = opened(), dpl.Count(epsilon="0.1", of="rows")
    asked: tuple[Any, ...] = (count, [count, dpl.PureDP(1)])
    for parts in asked:
        with pytest.raises(ParameterError, match="a mechanism is for one patient"):
            scope.charge(parts, relation="add_remove", of="row", **WHO)
        with pytest.raises(RelationError, match="mechanisms run under the relation of the scope"):
            scope.charge(parts, relation="zero_out", of="unit", **WHO)
    scope.charge([count, dpl.PureDP(1)], relation="add_remove", of="unit", **WHO)
    assert scope.account().sums["pure"][0] == Decimal("1.1")


def test_documents_of_two_relations_are_no_run_of_one() -> None:
    one, other = (document_of(relation, "1") for relation in (ADD, Relation.ZERO_OUT))
    with pytest.raises(RelationError, match="add_remove and zero_out"):
        opened("patient").charge([one, other], **WHO)
    with pytest.raises(RelationError, match="the document is zero_out, not add_remove"):
        opened("patient").charge(other, relation="add_remove", **WHO)


# ---- charged --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "scope", "of", "times"),
    [
        ("add_remove", "add_remove", "row", 5),
        ("add_remove", "add_remove", "unit", 1),
        ("add_remove", "replace_one", "row", 10),
        ("add_remove", "replace_one", "unit", 2),
        ("zero_out", "zero_out", "row", 5),
        ("zero_out", "replace_one", "unit", 2),
        ("replace_one", "replace_one", "unit", 1),
        ("replace_one", "label_flip", "row", 5),
        ("replace_one", "label_flip", "unit", 1),
        ("label_flip", "label_flip", "row", 5),
    ],
)
def test_it_is_charged_for_whom_the_scope_protects(said: str, scope: str, of: Any, times: int) -> None:
    there = opened(relation=scope)
    part = dpl.ApproxDP("0.25", "1e-9")
    assert there.quote(part, relation=said, of=of).admitted
    there.charge(part, relation=said, of=of, **WHO)
    sums = there.account().sums
    delta = prices.group_delta(Decimal("0.25"), Decimal("1e-9"), times)
    assert delta is not None
    assert sums["pure"][0] == times * Decimal("0.25")
    assert float(sums["delta"][0]) == pytest.approx(float(delta), rel=1e-12)
    assert reserved(there).attested == Attestation(**WHO, relation=Relation(said), of=of)
    verified(bodies(there))


def test_replacements_say_nothing_of_what_comes_or_goes() -> None:
    """The library that means replacement is not add_remove, and its rows are no units of others with more."""
    of: Any
    for said, scope in (("replace_one", "add_remove"), ("replace_one", "zero_out"), ("label_flip", "replace_one")):
        for of in ("row", "unit"):
            with pytest.raises(RelationError, match=f"{said} does not cover one patient under {scope}"):
                opened(relation=scope).charge(dpl.PureDP("0.1"), relation=said, of=of, **WHO)
    for said in ("replace_one", "zero_out"):
        with pytest.raises(RelationError, match="more or fewer"):
            opened(relation="replace_one").charge(dpl.PureDP("0.1"), relation=said, of="row", **WHO)


def test_rows_that_pass_alone_may_not_pass_for_a_unit() -> None:
    scope = opened(budget=dpl.PureDP(2))
    with pytest.raises(BudgetRefused):
        scope.charge(dpl.PureDP("0.5"), relation="add_remove", of="row", **WHO)
    scope.charge(dpl.PureDP("0.5"), relation="add_remove", of="unit", **WHO)


def test_a_claim_is_of_one_unit_of_the_scope() -> None:
    scope = opened()
    scope.charge(dpl.PureDP("0.1"), relation="add_remove", of="row", **WHO)
    assert reserved(scope).claim == dpl.PureDP("0.5")
    with pytest.raises(dpl.errors.ClaimTooSmall):
        scope.charge(dpl.PureDP("0.1"), claim=dpl.PureDP("0.1"), relation="add_remove", of="row", **WHO)


def test_steps_that_were_never_granted_come_back_in_groups_too() -> None:
    scope = opened(budget=dpl.ZCDP(9))
    plan, said = dpl.Repeated(dpl.GaussianLaw(20), times=20), {"relation": "add_remove", "of": "row", **WHO}
    with scope.charging(plan, steps=20, tail_delta=0, **said) as run:
        run.grant(4)
    assert scope.account().sums["rho"][0] == 4 * 25 * Decimal("0.00125")
    with scope.charging([(dpl.PureDP("0.1"), 1), dpl.PureDP("0.2")], steps=2, tail_delta=0, **said) as run:
        run.grant()
    verified(bodies(scope))
    with pytest.raises(ParameterError, match="granted one by one"):
        scope.charging(dpl.GaussianLaw(20), steps=1, **said)


# ---- recorded, and recomputed ---------------------------------------------------------------------------------------


def changed(scope: dpl.Scope, **members: Any) -> list[Body]:
    """The record of the charge with other words, that somebody with the key signed, and whose digest fits."""
    *before, held, committed = bodies(scope)
    assert isinstance(held, Reserved)
    assert isinstance(committed, Committed)
    held = replace(held, **members)
    held = replace(held, request=requested.request_digest(scope.name, held, Decimal(0)))
    return [*before, held, replace(committed, parts=held.parts, levels=held.levels)]


def test_a_charge_without_the_group_that_its_words_ask_for_is_refused_even_with_the_key() -> None:
    scope = opened(budget=dpl.PureDP(9))
    scope.charge(dpl.PureDP("0.1"), relation="add_remove", of="unit", **WHO)
    held = reserved(scope)
    assert held.attested is not None
    rows = replace(held.attested, of="row")
    for words, why in (
        (rows, "less than its guarantee is said to hold of"),
        (replace(rows, of=None), "of: "),
        (replace(rows, relation=Relation.REPLACE_ONE), "replace_one does not cover"),
        (replace(rows, relation=None), "without the relation"),
    ):
        with pytest.raises(VerificationError, match=why) as error:
            verified(changed(scope, attested=words))
        assert error.value.index == 2
    group = dpl.Group(dpl.PureDP("0.1"), k=5, relation=ADD)
    levels = (LevelCharge("s", {"pure": Decimal("0.5")}),)
    verified(changed(scope, attested=rows, parts=group, claim=dpl.PureDP("0.5"), levels=levels))
    fewer = dpl.Group(dpl.PureDP("0.1"), k=4, relation=ADD)
    with pytest.raises(VerificationError, match="less than its guarantee"):
        verified(changed(scope, attested=rows, parts=fewer, claim=dpl.PureDP("0.5"), levels=levels))


def test_an_entry_of_before_it_was_asked_still_verifies_and_says_so() -> None:
    scope = opened()
    scope.charge(dpl.PureDP("0.1"), relation="add_remove", of="unit", **WHO)
    model = build(verified(changed(scope, attested=Attestation(**WHO))))
    assert "nobody said for which unit it holds, or under which relation" in render(model, "")


def test_the_words_are_shown() -> None:
    scope = opened()
    scope.charge(dpl.PureDP("0.1"), relation="add_remove", of="row", **WHO)
    frame = scope.releases().to_frame()
    assert frame[["relation", "of"]].to_numpy().tolist() == [["add_remove", "row"]]
    book = scope._ledger
    assert isinstance(book, Ledger)
    assert "said to hold of one row under add_remove" in dpl.report(book).markdown().replace("\\", "")
