"""A default scope fixes its filter at its first charge: what fits then, what stands in the entry, what every later one
finds, and what a verifier refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import dpledger as dpl
import ledger_golden
from dpledger.accounting import filters
from dpledger.accounting.filters import BasicFilter, EitherFilter
from dpledger.accounting.guarantees import ApproxDP, PrivacyFailure, PureDP
from dpledger.errors import BudgetRefused, ScopeError, VerificationError
from dpledger.ledger.entries.bodies import Body, Reserved, ScopeOpened
from dpledger.ledger.entries.members import Fixed, LevelCharge
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules import gate
from dpledger.ledger.rules.requested import Request
from dpledger.ledger.rules.scope_state import State, state_payload
from dpledger.ledger.rules.transitions import fold
from dpledger.ledger.scope import Scope
from dpledger.ledger.verifying import verification
from ledger_forger import forged
from ledger_mechanisms import Once, laplace

BUDGET = ApproxDP(3, "0.000001")
BASIC = BasicFilter(3, "0.000001")
SAID: dict[str, Any] = {"unit": "patient", "relation": "add_remove"}
WORD: dict[str, Any] = {"by": "A. Smith", "reason": "a count", "relation": "add_remove"}


def claim(epsilon: str, delta: str) -> Once:
    """A release of this guarantee, which states it as a whole."""
    promise = ApproxDP(epsilon, delta)
    return Once(claimed=promise, made_of=promise, causes=(PrivacyFailure(delta, "approximation"),))


WHOLE = claim("3", "0.000001")


def scope_of(budget: Any = BUDGET, **said: Any) -> Scope:
    return ledger_golden.begin().scope("people", budget=budget, **SAID, **said)


def reserved(scope: Scope) -> list[Reserved]:
    return [entry.body for entry in scope._ledger.entries() if isinstance(entry.body, Reserved)]


# ---- what fits ------------------------------------------------------------------------------------------------------


def test_a_first_release_equal_to_the_budget_fits() -> None:
    scope = scope_of()
    scope.release(WHOLE, 1, key="all-of-it")
    (body,) = reserved(scope)
    assert body.fixed == (Fixed("people", BASIC),)
    assert body.levels == (LevelCharge("people", {"pure": Decimal(3), "delta": Decimal("0.000001")}),)
    assert scope.account().filter == BASIC
    assert scope.spent().upper == 3
    assert scope.release(WHOLE, 2, key="all-of-it").replayed
    with pytest.raises(BudgetRefused):
        scope.release(laplace("0.001"), 1)
    scope._ledger.verify()


def test_a_first_plan_that_meets_the_budget_fits_and_is_the_same_request_when_it_is_repeated() -> None:
    step = dpl.PoissonSampled(dpl.GaussianLaw(1), rate="0.01")
    causes = (PrivacyFailure("0.000001", "composition"),)
    plan = Once(claimed=BUDGET, made_of=dpl.Repeated(step, times=2061), causes=causes)
    scope = scope_of()
    assert not scope.quote(plan, tail_delta="0.0000005").admitted
    scope.release(plan, 1, key="train")
    (body,) = reserved(scope)
    assert (body.tail_delta, body.fixed) == (Decimal("0.000001"), (Fixed("people", BASIC),))
    assert scope.release(plan, 1, key="train").replayed
    scope._ledger.verify()


@pytest.mark.parametrize("first", [laplace("0.5"), claim("0.5", "0.0000005"), claim("3", "0.0000001")])
def test_what_the_mixture_admits_leaves_it(first: Once) -> None:
    """Then a second one equal to the budget does not fit, whatever little ran."""
    scope = scope_of()
    scope.release(first, 1)
    (body,) = reserved(scope)
    assert body.fixed == ()
    assert isinstance(scope.account().filter, EitherFilter)
    with pytest.raises(BudgetRefused):
        scope.release(WHOLE, 1)
    scope._ledger.verify()


def test_a_refusal_fixes_nothing_and_a_charge_that_came_back_does() -> None:
    scope = scope_of()
    with pytest.raises(BudgetRefused):
        scope.release(claim("3", "0.000002"), 1)
    with scope.reserve(laplace("0.1")):
        pass
    with pytest.raises(BudgetRefused):
        scope.release(WHOLE, 1)
    scope._ledger.verify()
    other = scope_of()
    with pytest.raises(BudgetRefused):
        other.release(claim("4", "0.0000001"), 1)
    other.release(WHOLE, 1)
    other._ledger.verify()


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (ApproxDP(3, 0), {}),
        (BUDGET, {"orders": [9, 7]}),
        (BUDGET, {"allowance": dpl.filters.Allowance(dpl.GaussianLaw(40), steps=10)}),
        (EitherFilter(3, "0.0000005", filters.opened_by(BUDGET).boundaries[:1]), {}),  # type: ignore[union-attr]
        (BasicFilter(3, "0.000001"), {}),
    ],
    ids=["pure", "orders", "allowance", "named", "basic"],
)
def test_whoever_names_constants_has_them(budget: Any, said: Any) -> None:
    assert scope_of(budget, **said)._scope.instead is None


def test_a_quote_says_that_it_would_fix_the_filter_and_records_nothing() -> None:
    scope = scope_of()
    told = scope.quote(WHOLE)
    assert told.admitted
    assert told.way.fixes == {"people": BASIC}
    assert "would be the first charge of 'people'" in str(told)
    assert told.accounts["delta"].after == "0.000001"
    small = scope.quote(laplace("0.5"))
    assert small.cheaper is None
    assert not small.way.fixes
    assert scope._scope.instead == BASIC
    assert scope.left() == 3


def test_a_script_that_runs_twice_finds_its_scope() -> None:
    """Both the budget and the filter that it opens say what the scope was opened with."""
    book = ledger_golden.begin()
    book.scope("people", budget=BUDGET, **SAID).release(WHOLE, 1)
    for budget in (BUDGET, filters.opened_by(BUDGET)):
        assert book.scope("people", budget=budget, **SAID).account().filter == BASIC
    with pytest.raises(ScopeError, match=r"another budget: ε = .* not a basic filter of your own"):
        book.scope("people", budget=BASIC, **SAID)


# ---- paths ----------------------------------------------------------------------------------------------------------


def test_each_level_decides_at_its_own_first_charge() -> None:
    book = ledger_golden.begin()
    above = book.scope("above", budget=ApproxDP(4, "0.000002"), **SAID)
    below = book.scope("below", budget=BUDGET, parents=["above"], **SAID)
    beside = book.scope("beside", budget=BUDGET, parents=["above"], **SAID)
    below.release(WHOLE, 1)
    assert isinstance(above.account().filter, EitherFilter), "half of its delta is enough for this one"
    assert below.account().filter == BASIC
    with pytest.raises(BudgetRefused) as raised:
        beside.release(WHOLE, 1)
    assert raised.value.scope == "above"
    assert beside._scope.instead == BASIC, "nothing was charged to it"
    beside.release(laplace("0.1"), 1)
    assert isinstance(beside.account().filter, EitherFilter)
    book.verify()


def test_a_level_above_may_be_the_one_that_fixes_another() -> None:
    book = ledger_golden.begin()
    book.scope("above", budget=BUDGET, **SAID)
    below = book.scope("below", budget=BasicFilter(3, "0.000001"), parents=["above"], **SAID)
    below.release(WHOLE, 1)
    (body,) = reserved(below)
    assert body.fixed == (Fixed("above", BASIC),)
    book.verify()


# ---- runs elsewhere -------------------------------------------------------------------------------------------------


def test_a_run_that_may_be_over_fixes_no_other_filter_and_counts_under_none() -> None:
    """Its output may have chosen what is asked now; under the published default it counts."""
    scope = scope_of()
    with pytest.raises(BudgetRefused):
        scope.charge(BUDGET, **WORD)
    assert not scope.quote(BUDGET, relation="add_remove").admitted
    scope.release(claim("1", "0.0000006"), 1)
    with pytest.raises(ScopeError, match="may have begun earlier"):
        scope.charge(PureDP("0.1"), **WORD)
    with pytest.raises(ScopeError, match="may have begun earlier"):
        scope.quote(PureDP("0.1"), relation="add_remove")
    with scope.charging(PureDP("0.1"), **WORD) as run:
        run.start()
    scope._ledger.verify()
    default = scope_of()
    default.charge(PureDP("0.1"), **WORD)
    default._ledger.verify()


def test_one_that_is_held_before_it_runs_may_be_the_first_charge() -> None:
    scope = scope_of()
    with scope.charging(BUDGET, **WORD) as run:
        run.start()
    assert scope.account().filter == BASIC
    scope._ledger.verify()


# ---- two at once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [WHOLE, laplace("0.1")], ids=["the other filter", "the mixture"])
def test_two_processes_race_for_the_first_charge(first: Once, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is second was priced as the first: it is priced anew, by the filter that it finds."""
    with Ledger.create(tmp_path / "book.db") as book, Ledger.open(tmp_path / "book.db") as others:
        scope = book.scope("people", budget=BUDGET, **SAID)
        second, priced, asked = claim("1", "0.0000006"), gate.priced, list[gate.Prices]()

        def overtaken(state: State, request: Request) -> gate.Prices:
            found = priced(state, request)
            if request.parts == second.parts():
                asked.append(found)
                if len(asked) == 1:
                    others.scope("people").release(first, 1)
            return found

        monkeypatch.setattr(gate, "priced", overtaken)
        with pytest.raises(BudgetRefused):
            scope.release(second, 2)
        assert [found.fixed for found in asked] == [(Fixed("people", BASIC),), ()]
        assert [body.fixed for body in reserved(scope)] == [(Fixed("people", BASIC),) if first is WHOLE else ()]
        book.verify()


# ---- what a verifier refuses ----------------------------------------------------------------------------------------


def history(*mechanisms: Once) -> list[Body]:
    scope = scope_of()
    for mechanism in mechanisms:
        scope.release(mechanism, 1)
    return [entry.body for entry in scope._ledger.entries()]


def verified(bodies: Sequence[Body]) -> None:
    leaves, head = forged(bodies, ledger_golden.KEY)
    verification.verify(leaves, head, ledger_golden.KEY.public)


def with_reserved(bodies: list[Body], change: Callable[[Reserved], Reserved], at: int = 0) -> list[Body]:
    place = [number for number, body in enumerate(bodies) if isinstance(body, Reserved)][at]
    body = bodies[place]
    assert isinstance(body, Reserved)
    return [*bodies[:place], change(body), *bodies[place + 1 :]]


def naming(*fixed: Fixed) -> Callable[[Reserved], Reserved]:
    return lambda body: replace(body, fixed=fixed)


@pytest.mark.parametrize(
    "fixed",
    [
        (Fixed("people", BasicFilter(4, "0.000001")),),
        (Fixed("people", BasicFilter(3, "0.000002")),),
        (Fixed("people", BasicFilter(3, "0.0000009")),),
        (Fixed("people", EitherFilter(3, "0.0000009", filters.opened_by(BUDGET).boundaries)),),  # type: ignore[union-attr]
        (Fixed("people", filters.PureFilter(3)),),
        (Fixed("others", BASIC),),
        (Fixed("people", BASIC), Fixed("people", BASIC)),
        (),
    ],
    ids=["epsilon", "delta", "less", "mixture", "pure", "another scope", "twice", "none"],
)
def test_another_filter_than_its_budget_opens_is_refused(fixed: tuple[Fixed, ...]) -> None:
    bodies = history(WHOLE)
    verified(bodies)
    with pytest.raises(VerificationError) as refusal:
        verified(with_reserved(bodies, naming(*fixed)))
    assert refusal.value.index == 2


def test_a_filter_that_is_fixed_later_is_refused() -> None:
    """Neither at the second charge, nor again, nor after a first one that was given back."""
    twice = history(claim("1", "0.0000006"), claim("1", "0.0000001"))
    with pytest.raises(VerificationError, match="fixed before"):
        verified(with_reserved(twice, naming(Fixed("people", BASIC)), at=1))
    bodies = history(laplace("0.1"), laplace("0.2"))
    as_basic = LevelCharge("people", {"pure": Decimal("0.2"), "delta": Decimal(0)})
    named = (Fixed("people", BASIC),)
    with pytest.raises(VerificationError, match="fixed before"):
        verified(with_reserved(bodies, lambda body: replace(body, fixed=named, levels=(as_basic,)), at=1))


def test_a_scope_of_named_constants_fixes_no_others() -> None:
    bodies = history(WHOLE)
    opened = bodies[1]
    assert isinstance(opened, ScopeOpened)
    with pytest.raises(VerificationError, match="fixed before"):
        verified([bodies[0], replace(opened, instead=None), *bodies[2:]])


@pytest.mark.parametrize(
    "instead",
    [BasicFilter(3, "0.000002"), BasicFilter(4, "0.000001"), filters.opened_by(BUDGET), filters.ZCDPFilter(3)],
    ids=["delta", "epsilon", "the same", "rho"],
)
def test_an_opening_names_no_filter_that_promises_less(instead: filters.Filter) -> None:
    bodies = history(laplace("0.1"))
    opened = bodies[1]
    assert isinstance(opened, ScopeOpened)
    with pytest.raises(VerificationError) as refusal:
        verified([bodies[0], replace(opened, instead=instead), *bodies[2:]])
    assert refusal.value.index == 1


def test_a_run_that_may_have_begun_before_is_refused_by_a_verifier_too() -> None:
    scope = scope_of(BASIC)
    scope.release(claim("1", "0.0000006"), 1)
    scope.charge(PureDP("0.1"), **WORD)
    bodies = [entry.body for entry in scope._ledger.entries()]
    opened = bodies[1]
    assert isinstance(opened, ScopeOpened)
    late = [bodies[0], replace(opened, filter=filters.opened_by(BUDGET), instead=BASIC), *bodies[2:]]
    with pytest.raises(VerificationError, match="may have begun before"):
        verified(with_reserved(late, naming(Fixed("people", BASIC))))


def test_a_snapshot_says_whether_the_first_charge_is_still_to_come() -> None:
    def told(bodies: Sequence[Body]) -> Any:
        return state_payload(fold(bodies))["scopes"][0]  # type: ignore[index]

    bodies = history(laplace("0.1"))
    assert told(bodies[:2])["unfixed"] is True
    assert "unfixed" not in told(bodies[:3])
