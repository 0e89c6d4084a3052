"""What a charge costs before and after it ran, in the verifier's eyes too; and what a scope says it has spent."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from dpledger.accounting import filters
from dpledger.accounting.composition import Composition, GaussianLaw, LaplaceLaw, PoissonSampled, Repeated, Sequence
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, Guarantee, PrivacyFailure, PureDP
from dpledger.accounting.planning import ways as planning
from dpledger.decimals import multiply
from dpledger.errors import ContractViolation, ParameterError, VerificationError
from dpledger.ledger.entries.members import LevelCharge
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules import settling
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.protocol import Release
from dpledger.relations import Relation
from ledger_mechanisms import Once, laplace, stream, training


@dataclasses.dataclass(frozen=True)
class Level:
    """A level of a path, as pricing sees it."""

    filter: filters.Filter
    relation: Relation = Relation.ADD_REMOVE


PURE = Level(filters.opened_by(PureDP(5)))
EITHER = Level(filters.opened_by(ApproxDP(5, "0.000001")))


# ---- prices ---------------------------------------------------------------------------------------------------------


def test_the_gate_charges_what_the_verifier_asks_for() -> None:
    for parts in (LaplaceLaw("0.5"), GaussianLaw(3), ZCDP("0.1"), Sequence((LaplaceLaw(1), GaussianLaw(9)))):
        settling.check_price("s", EITHER, parts, planning.charge(EITHER, parts))
    settling.check_price("s", PURE, LaplaceLaw("0.5"), {"pure": Decimal("0.5")})
    settling.check_price("s", PURE, LaplaceLaw("0.5"), {"pure": Decimal("0.6")})  # more may be charged
    settling.check_price("s", PURE, LaplaceLaw("0.5"), {})  # absent is infinite: more than any price


@given(st.decimals("0.000000000001", "1", places=12))
def test_exact_coordinates_are_compared_exactly(less: Decimal) -> None:
    with pytest.raises(VerificationError, match="charged less"):
        settling.check_price("s", PURE, LaplaceLaw(1), {"pure": 1 - less})


DRAWN = PoissonSampled(GaussianLaw(3), rate="0.1")


@pytest.mark.parametrize(
    ("tree", "factor", "accepted"),
    [
        (GaussianLaw(3), "0.999999999995", False),  # exact: every machine finds the same
        (DRAWN, "0.999999991", True),
        (DRAWN, "0.9999997", False),  # below the margin and the eight digits that it is rounded up to
    ],
)
def test_a_price_in_floating_point_may_differ_by_its_margin_and_no_other(
    tree: Composition, factor: str, accepted: bool
) -> None:
    price = planning.charge(EITHER, tree)
    amounts = {**price, "mixed_rdp_0": multiply(price["mixed_rdp_0"], Decimal(factor))}
    if accepted:
        settling.check_price("s", EITHER, tree, amounts)
    else:
        with pytest.raises(VerificationError, match="charged less than its parts cost"):
            settling.check_price("s", EITHER, tree, amounts)


def test_the_mixed_account_may_be_charged_in_either_currency_but_not_between_them() -> None:
    """Which of the two is cheaper may change as prices get better: an old ledger stays valid."""
    price = planning.charge(EITHER, LaplaceLaw("0.5"))
    assert price["mixed_pure_0"] == 0
    pure = {**price, "mixed_pure_0": Decimal("0.5"), "mixed_rdp_0": Decimal(0)}
    settling.check_price("s", EITHER, LaplaceLaw("0.5"), pure)
    for between in (
        {**price, "mixed_pure_0": Decimal("0.49"), "mixed_rdp_0": Decimal(0)},
        {**price, "mixed_pure_0": price["mixed_rdp_0"], "mixed_rdp_0": Decimal(0)},
        {**price, "mixed_pure_1": Decimal("0.49"), "mixed_rdp_1": Decimal(0)},
        {**price, "mixed_rdp_2": Decimal(0)},
        {**price, "mixed_rdp": Decimal(9)},
    ):
        with pytest.raises(VerificationError):
            settling.check_price("s", EITHER, LaplaceLaw("0.5"), between)
    with pytest.raises(VerificationError):  # no pure price: it cannot be charged as one
        settling.check_price("s", EITHER, GaussianLaw(3), {**pure, "pure": Decimal(1)})


def test_a_claim_of_renyi_divergences_may_differ_in_its_last_digit_and_no_more() -> None:
    book = Ledger.in_memory()
    scope = book.scope("s", unit="patient", relation="add_remove", budget=ApproxDP(5, "0.000001"))
    genuine = Decimal(2) / 18  # order times rho, of noise multiplier 3
    scope.release(Once(claimed=RDP((2,), (Decimal("0.111111111112"),)), made_of=GaussianLaw(3)), 1)
    book.verify()
    assert Decimal("0.111111111112") > genuine


# ---- settling -------------------------------------------------------------------------------------------------------


def reserved(level: Level, parts: Composition) -> tuple[LevelCharge, ...]:
    return (LevelCharge("s", planning.charge(level, parts)),)


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_plan_gives_back_the_steps_that_were_never_granted(done: int, granted: int) -> None:
    plan = Repeated(GaussianLaw(40), times=40)
    ran = settling.recorded(Repeated(GaussianLaw(40), times=40, done=done), "training", granted)
    assert isinstance(ran, Repeated)
    assert ran.done == max(done, granted)
    rule, (level,) = settling.settled(reserved(EITHER, plan), ran, False, {"s": EITHER})
    (held,) = reserved(EITHER, plan)
    whole, part = held.amounts["mixed_rdp_0"] * max(done, granted), level.amounts["mixed_rdp_0"] * 40
    assert abs(part - whole) <= whole * Decimal("1e-11")
    assert rule == ("cap" if max(done, granted) == 40 else "steps")


def test_an_outcome_is_refunded_in_the_currency_that_was_taken() -> None:
    cap = reserved(EITHER, stream("0.5").made_of)
    rule, (level,) = settling.settled(cap, one_question(), False, {"s": EITHER})
    assert rule == "ex_post"
    assert level.amounts["pure"] < Decimal("0.5")
    assert level.amounts["delta"] == 0
    assert settling.settled(cap, one_question(), True, {"s": EITHER}) == ("cap", cap)


def one_question() -> Composition:
    """The parts of a stream that was asked one question."""
    book = Ledger.in_memory()
    scope = book.scope("s", unit="patient", relation="add_remove", budget=PureDP(1))
    with scope.open(stream("0.5"), None) as answers:
        answers.ask(True)
    return scope.account().admissions[0].parts


# ---- readings -------------------------------------------------------------------------------------------------------


@pytest.fixture
def scope() -> Scope:
    book = Ledger.in_memory()
    return book.scope("s", unit="patient", relation="add_remove", budget=ApproxDP(3, "0.000001"))


def test_nothing_is_spent_at_first(scope: Scope) -> None:
    assert (scope.spent("0.000001").lower, scope.spent("0.000001").upper) == (0.0, 0.0)


def test_the_upper_bound_counts_all_and_the_lower_the_costliest_part(scope: Scope) -> None:
    for _ in range(2):
        scope.release(laplace("0.5"), 1)
    spent = scope.spent("0.000001")
    assert scope.spent("0.0000005").upper == 1.0  # the sum of epsilons
    assert 0.99999 < spent.upper < 1.0  # a little less: what of delta no charge can take lowers it
    assert 0.49 < spent.lower <= 0.5


def test_what_is_open_counts_above_and_not_below(scope: Scope) -> None:
    scope.reserve(laplace("0.5"))
    spent = scope.spent("0.0000005")
    assert (spent.lower, spent.upper) == (0.0, 0.5)
    assert scope.account().held_by_account["pure"] == "0.5"


def test_what_left_its_guarantee_counts_above_and_not_below(scope: Scope) -> None:
    def fail(data: object, parts: object) -> Release[object]:
        raise ValueError

    with pytest.raises(ContractViolation):
        scope.release(Once(run=fail), 1)
    spent = scope.spent("0.0000005")
    assert (spent.lower, spent.upper) == (0.0, 0.1)


def test_a_plan_counts_with_the_steps_it_took(scope: Scope) -> None:
    with scope.open(training(40), None):
        pass
    assert scope.spent("0.000001").lower == 0.0
    with scope.open(training(40), None) as run:
        run.ask(None)
    one = scope.spent("0.000001")
    with scope.open(training(40), None) as run:
        for _ in run.steps():
            run.ask(None)
    assert 0 < one.lower < scope.spent("0.000001").lower <= scope.spent("0.000001").upper < 3


def test_below_the_delta_of_its_filter_a_scope_says_what_smaller_caps_allow(scope: Scope) -> None:
    scope.release(laplace("0.5"), 1)
    assert scope.spent("0.0000001").upper == 0.5
    assert scope.spent("0").upper == 0.5
    failing = Once(
        claimed=ApproxDP("0.25", "1e-8"),
        made_of=ApproxDP("0.25", "1e-8"),
        causes=(PrivacyFailure("1e-8", "approximation"),),
    )
    scope.release(failing, 1)
    assert scope.spent("0.0000001").upper == 0.75
    assert scope.spent("0.00000001").upper == 0.75
    assert scope.spent("0.000000009").upper == math.inf
    assert scope.spent("0.001").upper <= 0.75
    with pytest.raises(ValueError, match="delta"):
        scope.spent("-1")


def test_a_leaf_with_an_outcome_has_no_lower_bound_of_its_own(scope: Scope) -> None:
    with scope.open(stream("0.5"), None) as answers:
        answers.ask(False)
    spent = scope.spent("0.000001")
    assert spent.lower == 0.0
    assert 0 < spent.upper <= 0.5


# ---- at which delta -------------------------------------------------------------------------------------------------


def spending(budget: Guarantee | filters.Filter) -> Scope:
    scope = Ledger.in_memory().scope("s", unit="patient", relation="add_remove", budget=budget)
    scope.release(laplace("0.1"), 1)
    return scope


@pytest.mark.parametrize(
    ("budget", "delta"),
    [
        (PureDP(1), "0"),
        (ApproxDP(1, "0.000001"), "0.000001"),
        (filters.BasicFilter(1, "0.00001"), "0.00001"),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_what_is_spent_is_read_at_the_delta_of_the_budget_unless_another_is_said(
    budget: Guarantee | filters.Filter, delta: str
) -> None:
    scope = spending(budget)
    assert scope.spent() == scope.spent(delta)
    assert 0 < scope.spent().upper < 1


@pytest.mark.parametrize("budget", [ZCDP(1), GDP(1), RDP((2, 8), (1, 1))], ids=lambda budget: budget.kind)
def test_a_budget_without_a_delta_asks_for_one(budget: Guarantee) -> None:
    with pytest.raises(ParameterError, match=r"^delta: expected a delta, like 1e-6") as raised:
        spending(budget).spent()
    assert raised.value.field == "delta"
