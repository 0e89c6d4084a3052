"""Planning of DP-SGD: the plan meets its target, says what it is charged, and whether there is anything to learn."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

import dpledger as dpl
from dpledger.accounting.filters import EitherFilter, opened_by
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, Guarantee, PureDP
from dpledger.accounting.planning.calibration import meets
from dpledger.errors import CannotCertify, InfeasiblePlan, ParameterError

TARGET = ApproxDP(3, "1e-6")


def test_a_plan_meets_its_target_with_the_least_noise() -> None:
    plan = dpl.planning.dpsgd_plan(60_000, 10, 256, TARGET, dimension=10_000)
    assert plan.rate == Decimal("0.00426666666667")
    assert plan.steps == 2344  # 10 * 60000 / 256, rounded up
    assert meets(plan.parts(), TARGET)
    louder = replace(plan, noise_multiplier=plan.noise_multiplier * Decimal("0.99"))
    assert not meets(louder.parts(), TARGET)
    assert plan.signal_to_noise == pytest.approx(256 / (float(plan.noise_multiplier) * 100))
    assert plan.words().startswith("2344 steps at rate 0.00426666666667 with noise multiplier ")
    assert plan.fits, "as the first charge of a scope with this budget"
    assert set(plan.prices) == {"pure", "delta"}
    assert Decimal(plan.prices["pure"]) <= TARGET.epsilon


def test_the_prices_are_those_of_the_scope() -> None:
    roomy = opened_by(ApproxDP(9, "1e-6"))
    assert isinstance(roomy, EitherFilter)
    tight, wide = (
        dpl.planning.dpsgd_plan(60_000, 10, 256, TARGET, dimension=100, scope_filter=f)
        for f in (opened_by(TARGET), roomy)
    )
    assert wide.fits
    assert not tight.fits  # a filter promises more than one plan needs
    scope = dpl.Ledger.in_memory().scope("s", unit="record", relation="add_remove", budget=roomy)
    training = dpl.DPSGD(
        rate=wide.rate,
        steps=wide.steps,
        noise_multiplier=wide.noise_multiplier,
        clip_norm=1,
        dimension=100,
        expected_batch_size=256,
    )
    quote = scope.quote(training, tail_delta=wide.tail_delta)
    assert quote.admitted
    assert wide.prices["mixed"] == quote.accounts["mixed"].after


def test_a_renyi_target_has_its_own_accounts() -> None:
    plan = dpl.planning.dpsgd_plan(1000, 1, 100, RDP((2, 8), ("0.5", 2)), dimension=10)
    assert plan.fits
    assert set(plan.prices) == {"rdp_0", "rdp_1"}


@pytest.mark.parametrize(("dimension", "said"), [(1, "direction"), (10**6, "many"), (10**9, "larger batches")])
def test_the_words_say_what_is_left_to_learn(dimension: int, said: str) -> None:
    assert said in dpl.planning.dpsgd_plan(60_000, 1, 256, TARGET, dimension=dimension).words()


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"n_public": 0}, "n_public"),
        ({"n_public": 10.5}, "n_public"),
        ({"dimension": 0}, "dimension"),
        ({"batch": 0}, "batch"),
        ({"batch": 1001}, "batch"),
        ({"batch": "nan"}, "batch"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": -1}, "epochs"),
        ({"epochs": 10**17}, "epochs"),
    ],
)
def test_bad_plans_name_their_field(words: dict[str, object], field: str) -> None:
    whole: dict[str, object] = {"n_public": 1000, "epochs": 1, "batch": 100, "target": TARGET, "dimension": 10, **words}
    with pytest.raises(ParameterError, match=field):
        dpl.planning.dpsgd_plan(**whole)  # type: ignore[arg-type]


def test_a_pure_target_has_no_gaussian_plan() -> None:
    with pytest.raises(CannotCertify):
        dpl.planning.dpsgd_plan(1000, 1, 100, PureDP(1), dimension=10)


@pytest.mark.sliced
@pytest.mark.parametrize(
    ("budget", "rate", "is_said"),
    [
        (ZCDP("0.1"), "0.01", True),
        (GDP("0.5"), "0.01", True),
        (ZCDP("0.1"), 1, False),
        (ZCDP("0.1", "1e-6"), "0.01", False),
        (ApproxDP(1, "1e-6"), "0.01", False),
    ],
)
def test_a_budget_without_a_delta_says_that_the_sampling_counts_for_nothing(
    budget: Guarantee, rate: str | int, is_said: bool
) -> None:
    scope = dpl.Ledger.in_memory().scope("s", unit="record", relation="add_remove", budget=budget)
    asked: dict[str, Any] = {"expected_batch_size": 100, "dimension": 10}
    plan = scope.plan_training(rate=rate, steps=1000, **asked)
    assert ("with a delta" in plan.words()) == is_said
    every = scope.plan_training(rate=1, steps=1000, **asked)
    assert (plan.noise_multiplier == every.noise_multiplier) == (is_said or rate == 1)


def test_so_does_the_refusal_of_a_plan() -> None:
    scope = dpl.Ledger.in_memory().scope("s", unit="record", relation="add_remove", budget=ZCDP("1e-6"))
    for rate, is_said in (("0.01", True), (1, False)):
        with pytest.raises(InfeasiblePlan) as refused:
            scope.plan_training(rate=rate, steps=10**12, expected_batch_size=100, dimension=10)
        assert ("with a delta" in str(refused.value)) == is_said
