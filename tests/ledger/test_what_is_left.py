"""What a scope has left, in one number; and what a refusal says where only delta was short."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.accounting.filters import advanced
from dpledger.decimals import ZERO, add
from dpledger.errors import BudgetRefused, ScopeError

WORD: dict[str, Any] = {"by": "A. Smith", "reason": "the study of 2025", "relation": "add_remove"}
BUDGETS: dict[str, Any] = {
    "pure": dpl.PureDP(3),
    "approximate": dpl.ApproxDP(3, "1e-6"),
    "zcdp": dpl.ZCDP("0.5"),
    "gdp": dpl.GDP(1),
    "rdp": dpl.RDP((2, 8), ("0.5", 1)),
    "basic": dpl.filters.BasicFilter(3, "1e-6"),
    "advanced": advanced(3, "1e-6"),
    "one order": dpl.filters.EitherFilter(3, "1e-7", (dpl.filters.Boundary(30, "9e-7"),)),
    "allowance": dpl.filters.Allowance(dpl.GaussianLaw(20), share="0.5"),
}
RUNS = [dpl.LaplaceLaw("0.3"), dpl.GaussianLaw(9), dpl.PureDP("0.0123"), dpl.ApproxDP("0.2", "1e-8")]
PLACE = Decimal("0.000001")


def opened(name: str, **said: Any) -> dpl.Scope:
    kept: Any = BUDGETS.get(name)
    if isinstance(kept, dpl.filters.Allowance):
        kept, said = dpl.ApproxDP(3, "1e-6"), {"allowance": kept, **said}
    said = {"unit": "record", "relation": "add_remove", "budget": kept, **said}
    return dpl.Ledger.in_memory().scope("work", **said)


@given(budget=st.sampled_from(sorted(BUDGETS)), runs=st.lists(st.sampled_from(RUNS), max_size=4))
@settings(max_examples=25, deadline=None)
def test_what_is_left_is_admitted_and_no_more_than_spent_leaves(budget: str, runs: list[Any]) -> None:
    scope = opened(budget)
    for run in runs:
        if scope.quote(run, relation="add_remove").admitted:
            scope.charge(run, **WORD)
    left = scope.left()
    assert left.exact % PLACE == 0
    if left:
        assert scope.quote(dpl.PureDP(left.exact), relation="add_remove").admitted
    kept = scope.budget
    if isinstance(kept, (dpl.PureDP, dpl.ApproxDP)):
        delta = kept.delta if isinstance(kept, dpl.ApproxDP) else ZERO
        assert not left or add(left.exact, scope.account().reading(delta)) <= kept.epsilon
    else:
        assert not scope.quote(dpl.PureDP(left.exact + PLACE), relation="add_remove").admitted


@pytest.mark.parametrize("budget", ["pure", "approximate", "basic"])
def test_of_a_budget_in_epsilon_it_is_what_spent_leaves(budget: str) -> None:
    scope = opened(budget)
    assert scope.left() == 3
    scope.release(dpl.Laplace(sensitivity=1, epsilon="0.3"), 1)
    scope.release(dpl.Geometric(sensitivity=1, epsilon="1.2"), 1)
    assert Decimal("1.5") <= scope.left() <= Decimal("1.500002")  # delta pays for a little
    assert scope.left() * 2.0 == float(scope.left()) * 2
    scope.charge(dpl.PureDP(scope.left()), **WORD)
    assert scope.left() <= PLACE


def test_the_scopes_above_have_a_say() -> None:
    book = dpl.Ledger.in_memory()
    said: Any = {"unit": "record", "relation": "add_remove"}
    book.scope("register", budget=dpl.PureDP(1), **said)
    scope = book.scope("work", parents=["register"], budget=dpl.ApproxDP(3, "1e-6"), **said)
    assert scope.left() == 1
    scope.end("done")
    with pytest.raises(ScopeError, match="closed"):
        scope.left()


def refusal(scope: dpl.Scope, parts: Any) -> str:
    with pytest.raises(BudgetRefused) as refused:
        scope.charge(parts, **WORD)
    return str(refused.value)


def test_a_claim_of_exactly_the_budget_is_told_which_scopes_have_room_for_it() -> None:
    claim = dpl.ApproxDP(3, "1e-6")
    told = refusal(opened("approximate"), claim)
    assert "claims may use only 0.0000005 of the scope's delta 0.000001, the rest is for composing" in told
    assert "a new scope with delta 0.000002 has room" in told
    assert "BasicFilter(epsilon=3, delta_sum=0.000001)" in told
    assert "if you charge it before it runs, with `charging`, it fits here as the first charge" in told
    for enough in (dpl.ApproxDP(3, "0.000002"), dpl.filters.BasicFilter(epsilon=3, delta_sum="0.000001")):
        assert opened("", budget=enough).quote(claim, relation="add_remove").admitted


def test_what_was_claimed_before_is_counted() -> None:
    scope = opened("approximate")
    scope.charge(dpl.ApproxDP("0.5", "4e-7"), **WORD)
    told = refusal(scope, dpl.ApproxDP("0.5", "8e-7"))
    assert "a new scope with delta 0.0000024" in told
    assert "BasicFilter" not in told  # which would promise more than this scope does


@pytest.mark.parametrize("parts", [dpl.PureDP(4), dpl.ApproxDP(4, "9e-7"), dpl.ApproxDP("0.5", "0.6")])
def test_nothing_is_said_of_delta_where_it_would_not_help(parts: Any) -> None:
    """Epsilon is short as well, or nearly all delta would be needed."""
    assert "has room" not in refusal(opened("approximate"), parts)


def test_where_delta_is_not_shared_nothing_is_said_of_shares() -> None:
    assert "has room" not in refusal(opened("basic"), dpl.ApproxDP("0.5", "2e-6"))
