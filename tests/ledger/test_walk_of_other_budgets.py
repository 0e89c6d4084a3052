"""Scopes whose budget is zCDP, Renyi, Gaussian or advanced, from the first release to the report."""

from decimal import Decimal

import pytest

import dpledger as dpl
from dpledger.accounting.filters import Filter, advanced
from dpledger.accounting.guarantees import Guarantee
from dpledger.errors import ScopeError
from ledger_mechanisms import laplace, stream, training

BUDGETS: dict[str, Guarantee | Filter] = {
    "zcdp": dpl.ZCDP("0.3"),
    "rdp": dpl.RDP((2, 8, 32), ("1.2", "2.5", 10)),
    "gdp": dpl.GDP(1),
    "advanced": advanced(5, "1e-6"),
}
CARRIERS = {"zcdp": {"rho"}, "rdp": {"rdp_0", "rdp_1", "rdp_2"}, "gdp": {"mu_squared"}, "advanced": {"rho"}}


@pytest.mark.parametrize("kind", BUDGETS)
def test_a_scope_walks_from_its_budget_to_its_report(kind: str) -> None:
    book = dpl.Ledger.in_memory()
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=BUDGETS[kind])
    assert scope.spent("1e-5") == dpl.planning.Bounds(0.0, 0.0)

    # Something pure, something Gaussian that stops early, and a stream whose outcome may be cheap.
    scope.release(laplace("0.1"), 0.0, key="laplace")
    with scope.open(training(steps=40, noise_multiplier="40"), None, key="train") as run:
        run.ask("one step")
    with scope.open(stream("0.7", cutoff=2), None, key="stream") as answers:
        answers.ask(True)

    # One release too many: refused before data are read, in the accounts of this budget.
    before = book.state.scopes[scope.name].sums
    with pytest.raises(dpl.BudgetRefused) as refused:
        scope.release(laplace("3"), 0.0)
    assert book.state.scopes[scope.name].sums == before
    assert set(refused.value.asked) == set(refused.value.left)

    # The account: what carried each admission, which steps came back, what the record so far accounts for.
    account = scope.account()
    released, trained, streamed = account.admissions
    assert {released.account, trained.account} <= CARRIERS[kind]
    assert trained.rule == "steps"
    assert trained.charged[trained.account] * 20 == trained.reserved[trained.account] > 0
    assert streamed.rule == ("ex_post" if kind == "rdp" else "cap")
    assert account.guarantee == scope.account().budget
    spent = scope.spent("1e-5")
    assert 0 < spent.lower <= spent.upper < 20
    assert 0 < account.spent.upper < 20
    assert account.delta == Decimal("1e-6")

    # Somebody else prices everything again; the report says the rule in words.
    book.verify()
    text = dpl.report(book).markdown()
    assert "parameters may be chosen adaptively" in text
    assert scope.account().left_by_account == account.left_by_account


@pytest.mark.parametrize("kind", ["zcdp", "gdp", "rdp"])
def test_a_release_that_fits_exactly_is_admitted_and_one_more_is_not(kind: str) -> None:
    budgets: dict[str, Guarantee] = {
        "zcdp": dpl.ZCDP("0.005"),
        "gdp": dpl.GDP("0.1"),
        "rdp": dpl.RDP((2, 8), ("0.01", "0.04")),
    }
    book = dpl.Ledger.in_memory()
    scope = book.scope("patients", unit="patient", relation="add_remove", budget=budgets[kind])
    whole = training(steps=1, noise_multiplier="10")
    with scope.open(whole, None) as run:
        run.ask("the step")
    with pytest.raises(dpl.BudgetRefused):
        scope.open(training(steps=1, noise_multiplier="1000"), None)
    book.verify()


def test_a_delta_has_no_place_in_a_renyi_or_gaussian_budget() -> None:
    book = dpl.Ledger.in_memory()
    mechanism = dpl.SparseVector(threshold=0, sensitivity=1, cutoff=1, epsilon="0.1", delta="1e-9", mode="kov")
    for kind in ("rdp", "gdp"):
        scope = book.scope(kind, unit="patient", relation="add_remove", budget=BUDGETS[kind])
        with pytest.raises(dpl.BudgetRefused) as refused:
            scope.open(mechanism, None)
        assert set(refused.value.asked.values()) == {"inf"}


def test_the_orders_of_a_scope_are_what_people_choose_and_stand_in_its_entry() -> None:
    book = dpl.Ledger.in_memory()
    budget, orders = dpl.ApproxDP(3, "0.000001"), [("9", "0.75"), ("3", "0.25")]
    scope = book.scope("s", unit="patient", relation="add_remove", budget=budget, orders=orders)
    chosen = (dpl.filters.Boundary(8, "0.000000375"), dpl.filters.Boundary(2, "0.000000125"))
    assert scope.account().filter == dpl.filters.EitherFilter(3, "0.0000005", chosen)
    book.scope("s", orders=orders)  # the same again is the same scope
    book.scope("s", budget=budget)
    with pytest.raises(ScopeError, match="other orders"):
        book.scope("s", orders=[9, 3])


def test_an_order_that_holds_nothing_refuses_as_any_other_does() -> None:
    """So near 1 the constant of its boundary alone is above every number that is written down."""
    book, order = dpl.Ledger.in_memory(), "1.0000000000000000000000000001"
    scope = book.scope("s", unit="patient", relation="add_remove", budget=dpl.ApproxDP(3, "1e-6"), orders=[order])
    scope.release(dpl.Laplace(sensitivity=1, epsilon=1), 0)
    with pytest.raises(dpl.BudgetRefused) as refused:
        scope.release(dpl.Gaussian(sensitivity=1, sigma=20), 0)
    assert refused.value.asked["mixed"] == "inf"
    assert len(scope.account().refusals) == 1


@pytest.mark.parametrize("budget", [dpl.PureDP(1), dpl.ZCDP(1), dpl.filters.BasicFilter(1, "1e-6")])
def test_a_budget_without_orders_takes_none(budget: dpl.PureDP | dpl.ZCDP | dpl.filters.BasicFilter) -> None:
    with pytest.raises(dpl.ParameterError, match="orders"):
        dpl.Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=budget, orders=[9])
