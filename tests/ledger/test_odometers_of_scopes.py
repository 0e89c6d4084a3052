"""An odometer is opened with a scope, reads beside any filter, and is recomputed from the entries."""

from dataclasses import replace
from decimal import Decimal

import pytest

from dpledger.accounting.composition import GaussianLaw, SparseVectorLaw
from dpledger.accounting.ex_post.boundaries import MixtureBoundary, height
from dpledger.accounting.ex_post.odometer import Odometer, OdometerReading
from dpledger.accounting.filters import PureFilter, ZCDPFilter, opened_by
from dpledger.accounting.guarantees import GDP, ZCDP, ApproxDP, PrivacyFailure, PureDP
from dpledger.accounting.rules import cost
from dpledger.errors import ContractViolation, NewerThanVerifier, ParameterError, ScopeError, VerificationError
from dpledger.ledger.entries.entry import format_entry, parse_entry
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.protocol import Release
from dpledger.relations import Relation
from ledger_mechanisms import Once, laplace, stream, training

ODOMETER = Odometer("mixture", tuning="0.5", delta_boundary="0.000001", delta_sum="0.000001")


def opened(budget: object = opened_by(ApproxDP(100, "0.001")), odometer: Odometer | None = ODOMETER) -> Scope:
    book = Ledger.in_memory()
    return book.scope("s", unit="patient", relation="add_remove", budget=budget, odometer=odometer)  # type: ignore[arg-type]


def shown(scope: Scope) -> OdometerReading:
    found = scope.account().odometer()
    assert found is not None
    return found


def gaussian(noise_multiplier: str) -> Once:
    rho = 1 / (2 * Decimal(noise_multiplier) ** 2)
    return Once(claimed=ZCDP(rho), made_of=GaussianLaw(noise_multiplier), kind="gaussian")


def test_a_scope_opened_without_one_shows_none() -> None:
    assert opened(odometer=None).account().odometer() is None


def test_it_adds_what_is_pure_and_what_is_gaussian_with_the_boundary_at_twice_rho() -> None:
    scope = opened()
    assert shown(scope).epsilon_upper == 0
    scope.release(laplace("0.3"), 1)
    assert shown(scope).epsilon_upper == Decimal("0.3")
    scope.release(gaussian("2"), 1)
    boundary = MixtureBoundary("0.5", "0.000001")
    expected = Decimal("0.3") + Decimal("0.125") + height(boundary, Decimal("0.25"))
    assert shown(scope).epsilon_upper == pytest.approx(expected, rel=Decimal("1e-11"))
    assert shown(scope).epsilon_upper >= expected
    assert shown(scope).delta == Decimal("0.000002")


@pytest.mark.parametrize("budget", [ZCDP(5, "0.000001"), ZCDPFilter(5), GDP(3), ApproxDP(100, "0.001"), PureFilter(9)])
def test_it_reads_the_same_beside_any_filter(budget: object) -> None:
    scope = opened(budget)
    scope.release(laplace("0.3"), 1)
    assert shown(scope).epsilon_upper == Decimal("0.3")


def test_an_open_charge_counts_at_its_cap_and_an_aborted_one_not_at_all() -> None:
    scope = opened()
    held = scope.reserve(laplace("0.3"))
    assert shown(scope).epsilon_upper == Decimal("0.3")
    held.abort()
    assert shown(scope).epsilon_upper == 0


def test_an_outcome_comes_back_in_pure() -> None:
    scope = opened()
    with scope.open(stream("0.5", 4), None) as answers:
        assert shown(scope).pure == Decimal("0.5")
        answers.ask(False)
    (admission,) = scope.account().admissions
    assert isinstance(admission.parts, SparseVectorLaw)
    realised = cost(admission.parts, Relation.ADD_REMOVE).pure
    assert realised is not None
    assert realised < Decimal("0.5")
    assert shown(scope).pure == realised


def test_steps_that_were_never_granted_come_back_in_rho() -> None:
    scope = opened()
    run = scope.open(training(40, "4"), None)
    assert shown(scope).rho == Decimal("1.25")
    for _ in range(3):
        run.ask(None)
    run.close()
    granted = scope.account().admissions[0].granted
    assert shown(scope).rho == granted * Decimal("0.03125")


def test_a_run_outside_its_guarantee_counts_at_its_cap() -> None:
    scope = opened()

    def broken(data: object, parts: object) -> Release[int]:
        raise RuntimeError

    with pytest.raises(ContractViolation):
        scope.release(replace(laplace("0.3"), run=broken), 1)
    assert shown(scope).epsilon_upper == Decimal("0.3")


def test_deltas_beyond_what_it_lets_fail_leave_nothing_known() -> None:
    scope = opened()
    approximate = ApproxDP("0.5", "0.0000006")
    failing = Once(approximate, approximate, causes=(PrivacyFailure("0.0000006", "approximation"),))
    scope.release(failing, 1)
    assert shown(scope).epsilon_upper == Decimal("0.5")
    assert shown(scope).delta_charged == Decimal("0.0000006")
    scope.release(failing, 1)
    assert shown(scope).epsilon_upper.is_infinite()


def test_it_is_fixed_when_the_scope_opens() -> None:
    book = opened()._ledger
    assert isinstance(book, Ledger)
    assert book.scope("s").name == book.scope("s", odometer=ODOMETER).name
    with pytest.raises(ScopeError, match="another odometer"):
        book.scope("s", odometer=Odometer("linear", tuning=1, delta_boundary="0.1"))
    with pytest.raises(ParameterError, match="odometer"):
        book.scope("t", unit="patient", relation="add_remove", budget=PureDP(1), odometer="linear")  # type: ignore[arg-type]


def test_it_is_signed_and_verified_with_the_scope() -> None:
    scope = opened()
    scope.release(gaussian("2"), 1)
    book = scope._ledger
    book.verify()
    body = book.entry(1).body
    assert getattr(body, "odometer", None) == ODOMETER


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"delta_sum": "0.999999"}, VerificationError, "below 1 - delta_boundary"),
        ({"tuning": "0"}, VerificationError, "tuning"),
        ({"delta_boundary": "0"}, VerificationError, "delta_boundary"),
        ({"boundary": "curved"}, NewerThanVerifier, "curved"),
    ],
)
def test_constants_that_no_theorem_has_are_no_entry(
    change: dict[str, str], error: type[VerificationError], said: str
) -> None:
    payload = format_entry(opened()._ledger.entry(1))
    constants = payload["odometer"]
    assert isinstance(constants, dict)
    with pytest.raises(error, match=said):
        parse_entry({**payload, "odometer": {**constants, **change}})
