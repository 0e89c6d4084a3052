"""Planning of DP-FTRL: it meets its target, takes the number of groups with the least error, and a scope admits it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.accounting.guarantees import ApproxDP
from dpledger.accounting.planning.calibration import meets
from dpledger.errors import CannotCertify, InfeasiblePlan, ParameterError

pytestmark = pytest.mark.sliced

TARGET = ApproxDP(4, "1e-6")
SIZES: dict[str, Any] = {"n_public": 3000, "epochs": 8, "batch": 150, "dimension": 3}
ftrl_plan = dpl.planning.ftrl_plan


def mechanism(plan: dpl.planning.FTRLPlan) -> dpl.learning.DPFTRL:
    return dpl.learning.DPFTRL(
        steps=plan.steps,
        groups=plan.groups,
        coefficients=plan.coefficients,
        rate=plan.rate,
        noise_multiplier=plan.noise_multiplier,
        clip_norm=1,
        dimension=3,
        expected_batch_size=plan.expected_batch_size,
    )


def dense_error(plan: dpl.planning.FTRLPlan, momentum: float) -> float:
    """||A C^-1||_F / sqrt(n), times the deviation of the noise in clip norms."""
    n, factor = plan.steps, [float(one) for one in plan.coefficients]
    c = sum(value * np.eye(n, k=-lag) for lag, value in enumerate(factor))
    kept = np.array([[momentum ** (i - j) if i >= j else 0.0 for j in range(n)] for i in range(n)])
    left = np.tril(np.ones((n, n))) @ kept @ np.linalg.inv(c)
    return float(np.linalg.norm(left)) / math.sqrt(n) * float(np.linalg.norm(factor)) * float(plan.noise_multiplier)


@pytest.mark.parametrize("momentum", [0, "0.9"])
def test_a_plan_meets_its_target_and_no_other_number_of_groups_does_better(momentum: Any) -> None:
    plan = ftrl_plan(**SIZES, target=TARGET, momentum=momentum)
    assert (plan.steps, plan.turns.steps) == (160, -(-160 // plan.groups))
    assert plan.rate == Decimal(plan.groups * 150) / 3000
    assert meets(mechanism(plan).parts(), TARGET)
    assert plan.error == pytest.approx(dense_error(plan, float(momentum)))
    others = [ftrl_plan(**SIZES, target=TARGET, momentum=momentum, groups=groups) for groups in (1, 4, 20)]
    assert all(plan.error <= other.error for other in others)
    assert others[0].error == plan.error_of_dp_sgd == others[2].error_of_dp_sgd
    assert f"{plan.groups} groups" in plan.words()


def test_one_group_has_the_noise_of_dp_sgd() -> None:
    plan = ftrl_plan(**SIZES, target=TARGET, groups=1)
    plain = dpl.planning.dpsgd_plan(**SIZES, target=TARGET)
    assert plan.turns == plain
    assert plan.coefficients == (Decimal(1),)


def test_more_budget_makes_for_more_groups() -> None:
    groups = [ftrl_plan(400, 4, 50, ApproxDP(epsilon, "1e-6"), dimension=3).groups for epsilon in ("0.5", 30)]
    assert groups == sorted(groups)
    assert groups[0] < groups[-1]


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_scope_admits_the_plan_it_made(relation: str) -> None:
    book = dpl.Ledger.in_memory()
    scope = book.scope("rows", unit="record", relation=relation, budget=dpl.ApproxDP(8, "1e-6"))
    plan = ftrl_plan(300, 8, 30, dimension=3, groups=10, scope=scope)
    assert plan.rate == 1
    assert plan.error_of_dp_sgd is not None
    assert "DP-SGD" in plan.words()
    with scope.open(mechanism(plan), np.zeros((300, 3)), tail_delta=plan.tail_delta) as session:
        assert session.ask(lambda batch: np.zeros((len(batch), 3))).shape == (3,)
    book.verify()


def test_a_spent_scope_says_what_was_asked_of_it() -> None:
    scope = dpl.Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=dpl.ZCDP(1))
    scope.charge(dpl.ZCDP(1), by="A. Smith", reason="all of it", relation="add_remove")
    asked = r"admit 160 steps \(epochs=8, batch=150, n_public=3000\) .* left in it \(see `scope.account\(\)`\)"
    with pytest.raises(InfeasiblePlan, match=asked):
        ftrl_plan(**SIZES, scope=scope)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("groups", {"groups": 0}),
        ("groups", {"groups": 21}),
        ("momentum", {"momentum": 1}),
        ("batch", {"batch": 0}),
        ("epochs", {"epochs": 3000}),
        ("target", {"target": None}),
        ("scope", {"scope": 1, "target": None}),
    ],
)
def test_sizes_that_make_no_plan_are_refused(field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError) as refusal:
        ftrl_plan(**{**SIZES, "target": TARGET, **changes})
    assert refusal.value.field == field


def test_a_target_without_delta_is_out_of_reach() -> None:
    with pytest.raises(CannotCertify):
        ftrl_plan(**SIZES, target=dpl.PureDP(1))
