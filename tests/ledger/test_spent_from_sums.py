"""What a scope has spent is read from what the fold keeps; it is what its entries say, looked at one by one."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import readings_oracle
from dpledger.accounting.composition import Composition, GaussianLaw, LaplaceLaw
from dpledger.accounting.filters import PureFilter, opened_by
from dpledger.accounting.guarantees import ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.accounting.pricing.outcomes import certain
from dpledger.errors import BudgetRefused, CannotCertify, ContractViolation
from dpledger.ledger.accounts import readings
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules import executed
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.protocol import Release
from dpledger.relations import Relation
from ledger_mechanisms import Once, laplace, stream, training

pytestmark = pytest.mark.sliced

RULES: dict[str, Any] = {"unit": "patient", "relation": "add_remove"}
BUDGETS: dict[str, Guarantee] = {
    "either": ApproxDP(4, "0.000001"),
    "pure": PureDP(3),
    "zcdp": ZCDP(2),
}
PARENTS = {"both": ("either", "pure"), "all": ("both", "zcdp")}
SCOPES = (*BUDGETS, *PARENTS)
DELTAS = tuple(map(Decimal, ("0", "0.000000001", "0.000001", "0.01")))
EPSILONS = st.sampled_from(["0.01", "0.1", "0.4"])


def book_of_scopes() -> Ledger:
    book = Ledger.in_memory()
    for name, budget in BUDGETS.items():
        book.scope(name, budget=budget, **RULES)
    for name, parents in PARENTS.items():
        book.scope(name, budget=PureDP(2), parents=parents, **RULES)
    return book


def fails(data: object, parts: object) -> Release[object]:
    raise ValueError


def released(scope: Scope, epsilon: str) -> None:
    scope.release(laplace(epsilon), 1)


def gaussian(scope: Scope, epsilon: str) -> None:
    noise = {"0.01": "40", "0.1": "20", "0.4": "9"}[epsilon]
    rho = Decimal(1) / (2 * Decimal(noise) ** 2)
    scope.release(Once(claimed=ZCDP(rho.quantize(Decimal("1e-12"), "ROUND_CEILING")), made_of=GaussianLaw(noise)), 1)


def left_its_guarantee(scope: Scope, epsilon: str) -> None:
    with pytest.raises(ContractViolation):
        scope.release(Once(claimed=PureDP(epsilon), made_of=LaplaceLaw(epsilon), run=fails), 1)


def left_open(scope: Scope, epsilon: str) -> None:
    scope.reserve(laplace(epsilon))


def aborted(scope: Scope, epsilon: str) -> None:
    scope.reserve(laplace(epsilon)).abort()


def streamed(scope: Scope, epsilon: str) -> None:
    with scope.open(stream(epsilon), None) as answers:
        for answer in (True, False, True):
            answers.ask(answer)


def trained(scope: Scope, epsilon: str) -> None:
    steps = {"0.01": 0, "0.1": 3, "0.4": 40}[epsilon]
    with scope.open(training(40), None) as run:
        for _ in range(steps):
            run.ask(None)


EVENTS = st.sampled_from([released, gaussian, left_its_guarantee, left_open, aborted, streamed, trained])


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(SCOPES), EVENTS, EPSILONS), max_size=12))
def test_it_is_what_the_entries_say_one_by_one(events: list[tuple[str, Any, str]]) -> None:
    """Refunds, aborted and open charges, runs that left their guarantee, refusals, scopes above scopes."""
    book = book_of_scopes()
    for name, happens, epsilon in events:
        with suppress(BudgetRefused, CannotCertify):
            happens(book.scope(name), epsilon)
    entries = list(book.entries())
    for name in SCOPES:
        for delta in DELTAS:
            assert book.scope(name).spent(delta) == readings_oracle.spent(entries, name, delta), (name, delta)
        account = book.scope(name).account()
        assert account.spent == readings_oracle.spent(entries, name, account.delta)


def test_the_histories_reach_what_they_are_for() -> None:
    """Every kind of event is admitted somewhere, and both ends of a reading move."""
    for happens in (released, gaussian, left_its_guarantee, left_open, aborted, streamed, trained):
        book = book_of_scopes()
        happens(book.scope("either"), "0.4")
        spent = book.scope("either").spent("0.000001")
        assert (spent.lower > 0) == (happens in (released, gaussian, trained))
        assert (spent.upper > 0) == (happens is not aborted)
    book = book_of_scopes()
    released(book.scope("all"), "0.4")
    assert all(book.scope(name).spent("0.000001").lower > 0 for name in SCOPES)


# ---- what is kept of what ran ---------------------------------------------------------------------------------------

PURE = PureFilter(1_000)
PARTS = st.sampled_from([LaplaceLaw(epsilon) for epsilon in ("0.1", "0.2", "0.3")] + [GaussianLaw(3)])


@given(st.lists(st.tuples(PARTS, st.sampled_from(["0.1", "0.2", None]))))
def test_distinct_parts_are_kept_once_in_the_order_of_their_price(
    settled: list[tuple[Composition, str | None]],
) -> None:
    kept = executed.NOTHING
    for parts, price in settled:
        kept = executed.also(kept, parts, PURE, {} if price is None else {"pure": Decimal(price)})
    prices = [Decimal("Infinity") if price is None else Decimal(price) for _, price in settled]
    assert {(one.cost, one.parts) for one in kept} == {
        ((price,), parts) for price, (parts, _) in zip(prices, settled, strict=True)
    }
    assert [one.cost for one in kept] == sorted(one.cost for one in kept)
    assert len(kept) == len({(one.cost, one.parts) for one in kept})


def test_of_too_many_the_costliest_are_kept() -> None:
    """And so the lower end is still that of the costliest, in whatever order they came."""
    book = Ledger.in_memory()
    scope = book.scope("s", budget=PureDP(1_000), **RULES)
    numbers = range(1, executed.MOST + 100)
    for number in sorted(numbers, key=lambda number: 37 * number % 101):
        scope.release(laplace(f"0.{number:04d}".rstrip("0")), 1)
    kept = book.state.scope("s").ran
    assert [one.cost[0] for one in kept] == [Decimal(number) / 10_000 for number in numbers[-executed.MOST :]]
    lower = scope.spent(0).lower
    assert lower == readings_oracle.spent(book.entries(), "s", Decimal(0)).lower > 0


def test_what_has_no_bound_of_its_own_is_not_kept() -> None:
    scope = Ledger.in_memory().scope("s", budget=opened_by(ApproxDP(3, "0.000001")), **RULES)
    streamed(scope, "0.4")
    trained(scope, "0.01")  # no step
    assert scope._ledger.state.scope("s").ran == executed.NOTHING
    trained(scope, "0.1")
    (kept,) = scope._ledger.state.scope("s").ran
    assert kept.parts == certain(scope.account().admissions[-1].parts)
    assert readings.least(kept.parts, Relation.ADD_REMOVE, Decimal("0.000001")) > 0
