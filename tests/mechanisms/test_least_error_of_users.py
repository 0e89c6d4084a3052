"""The least error of a class as users show it: published chances, whole laws by enumeration, exact losses, entries."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pytest

from dpledger.accounting.composition import Repeated
from dpledger.accounting.guarantees import PureDP
from dpledger.errors import BudgetRefused, InfeasiblePlan, ParameterError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, ParityClass, PointClass, ThresholdClass, matrix_of
from dpledger.mechanisms.learning.theory.users.estimator_sizes import rounds_for
from dpledger.mechanisms.learning.theory.users.user_sizes import proper_users
from dpledger.mechanisms.learning.users.least_error import MinErrorTest, MinimumErrorEstimator
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, binomial_p_value, events_p_value
from user_conformance import PAIR, ForPairs, sample_of
from users_oracle import estimate_law, level_between, passes, worst_of_users

pytestmark = pytest.mark.sliced

STEPS = 2**20


class TestBit(ForPairs):
    bad_parameters = (
        {"guess": "1.5"},
        {"resolution": 0},
        {"epsilon": 0},
        {"concept_class": ParityClass(3)},
        {"concept_class": 3},
    )

    def make(self, **changes: Any) -> Any:
        given = {"concept_class": ThresholdClass(4), "guess": "0.25", "resolution": "0.25", "epsilon": "0.5"}
        return MinErrorTest(**{**given, **changes})


class TestEstimator(ForPairs):
    bad_parameters: ClassVar = (
        {"resolution": 1},
        {"resolution": "1e-20"},
        {"epsilon": "nan"},
        {"epsilon": "1e-60"},
        {"concept_class": ParityClass(3)},
        {"concept_class": PointClass(8), "below_half": True},
        {"below_half": 1},
        {"below_half": True, "resolution": "0.6"},
    )

    def make(self, **changes: Any) -> Any:
        given = {"concept_class": ThresholdClass(4), "resolution": "0.1", "epsilon": "0.5"}
        return MinimumErrorEstimator(**{**given, **changes})


# ---- the law --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fewest", "chance"), [(12, 0.183939720586), (7, 0.888434919926)])
def test_published_chances(fewest: int, chance: float) -> None:
    """Of continuous noise, epsilon 1/2, fifty users and a threshold of 0.2; on the grid they are as good as these."""
    threshold = round(0.2 * STEPS) / STEPS
    assert passes(fewest - 50 * threshold, 2.0) == pytest.approx(chance, abs=2e-5)
    assert passes(fewest - 10, 2.0) == pytest.approx(chance, abs=1e-6)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_its_bits_follow_the_law(relation: str) -> None:
    test = MinErrorTest(ThresholdClass(4), guess="0.25", resolution="0.25", epsilon="0.5")
    placed = test.under(Relation(relation), PAIR)
    users = (((0, 0), (3, 1)),) * 8
    told: Any = placed.parameters()
    assert told["level"] == level_between(2, 0.25, 0.5)
    threshold = float(told["threshold"])
    sensitivity = max(threshold, 1 - threshold) if relation == "add_remove" else 1
    assert float(told["sensitivity"]) == pytest.approx(sensitivity)
    failed = [sum(sum((x < v) != y for x, y in user) > told["level"] for user in users) for v in range(5)]
    chance = passes(min(failed) - 8 * threshold, sensitivity / 0.5)
    bits = placed.sample(sample_of(users, 2), 6000, seeded(1))
    assert binomial_p_value(int(bits.sum()), 6000, chance) > SIGNIFICANCE
    wrong = passes(min(failed) - 8 * threshold, 1.6 * sensitivity / 0.5)
    assert binomial_p_value(int(bits.sum()), 6000, wrong) < SIGNIFICANCE


def test_a_guess_that_no_error_exceeds_passes_without_a_look() -> None:
    test = MinErrorTest(ThresholdClass(4), guess="0.75", resolution="0.25", epsilon="0.5").under(
        Relation.REPLACE_ONE, PAIR
    )
    worst = UserSample(np.array([[0, 0]] * 50), np.array([[0, 1]] * 50))
    assert test.sample(worst, 20, seeded(1)).all()
    assert "level" not in test.parameters()


@pytest.mark.parametrize("below_half", [False, True], ids=["whole", "half"])
def test_a_search_follows_the_law_of_its_paths(below_half: bool) -> None:
    estimator = MinimumErrorEstimator(ThresholdClass(3), resolution="0.125", epsilon=3, below_half=below_half)
    placed = estimator.under(Relation.REPLACE_ONE, PAIR)
    assert placed.rounds == (2 if below_half else 3)
    users = (((0, 0), (1, 0)), ((2, 1), (2, 1)), ((0, 0), (0, 1)), ((1, 1), (1, 1)))
    each = float(placed.each)
    start = 0.5 if below_half else 1.0
    law = estimate_law(matrix_of(ThresholdClass(3)), 2, 0.125, lambda _: 1 / each, start)(users)
    assert sum(law.values()) == pytest.approx(1)
    found = [placed.release(sample_of(users, 2), entropy=seeded(2, i)).value for i in range(2000)]
    steps = {round(low * 16): chance for low, chance in law.items()}
    counts = {at: sum(int(one.low * 16) == at for one in found) for at in steps}
    assert sum(counts.values()) == 2000
    assert events_p_value(counts, 2000, steps) > SIGNIFICANCE
    for one in found[:50]:
        assert one.high == min(Decimal(1), one.low + Decimal(1) / 8 + Decimal("0.125"))
        assert [test.passed for test in one.tests] == [one.low < test.guess for test in one.tests]
        assert one.low <= one.middle <= one.high


# ---- privacy --------------------------------------------------------------------------------------------------------

TWO = matrix_of(ThresholdClass(2))


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_pair_of_neighbours_tells_more_than_is_claimed(relation: str, size: int) -> None:
    estimator = MinimumErrorEstimator(ThresholdClass(2), resolution="0.0625", epsilon=1)
    placed = estimator.under(Relation(relation), PAIR)
    each = float(placed.each)

    def scale(threshold: float) -> float:
        return (max(threshold, 1 - threshold) if relation == "add_remove" else 1.0) / each

    exact = worst_of_users(estimate_law(TWO, 2, 0.0625, scale), 2, 2, size, relation)
    assert 0.3 < exact <= float(placed.claim().epsilon) + 1e-9


def test_the_smaller_noise_of_added_users_is_too_little_for_replaced_ones() -> None:
    law = estimate_law(TWO, 2, 0.0625, lambda threshold: max(threshold, 1 - threshold) * 4)
    assert worst_of_users(law, 2, 2, 3, "replace_one") == pytest.approx(1.442241, abs=1e-6)
    assert worst_of_users(law, 2, 2, 3, "add_remove") <= 1 + 1e-9


def test_all_of_epsilon_is_told_of_a_user_who_decides_every_test() -> None:
    """One concept, many users; one of them changes from no mistakes to nothing but mistakes."""
    law = estimate_law(np.zeros((1, 1), dtype=bool), 2, 0.0625, lambda _: 4.0)
    others = (((0, 1), (0, 1)),) * 40
    left, right = (law((*others, ((0, y), (0, y)))) for y in (0, 1))
    assert math.log(left[0.0] / right[0.0]) == pytest.approx(1, abs=1e-3)


def test_parts_are_the_tests() -> None:
    placed = MinimumErrorEstimator(ThresholdClass(9), resolution="0.1", epsilon=1).under(Relation.ZERO_OUT, PAIR)
    assert placed.parts() == Repeated(PureDP("0.25"), times=4)
    assert placed.claim() == PureDP(1)
    third = MinimumErrorEstimator(ThresholdClass(9), resolution="0.15", epsilon=1)
    assert third.claim() == PureDP("0.999999999999")


# ---- how many users -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "needed"), [(1, 28_866), (4, 14_413), (25, 3266), (100, 1099), (400, 465), (1600, 263)])
def test_published_numbers_of_users(m: int, needed: int) -> None:
    for concepts in (ThresholdClass(1024), FiniteClass(matrix_of(ThresholdClass(1024)))):
        assert proper_users(concepts, m, "0.1", "0.1", epsilon=1).needed == needed


@pytest.mark.parametrize(("m", "needed"), [(25, 4446), (100, 1492), (400, 581)])
def test_published_numbers_of_users_for_points(m: int, needed: int) -> None:
    assert proper_users(PointClass(2**20), m, "0.1", "0.1", epsilon=1).needed == needed


def test_levels_that_the_search_may_come_to_are_paid_for() -> None:
    plan = proper_users(ThresholdClass(1024), 100, "0.1", "0.1", epsilon=10)
    assert plan.needed == 690  # without them 489, which promises too much
    assert plan.status == "certified"
    assert "users with 100 examples each" in plan.words()


def test_errors_that_the_grid_cannot_tell_apart_have_no_plan() -> None:
    estimator = MinimumErrorEstimator(PointClass(4), resolution="1e-7", epsilon=1)
    with pytest.raises(InfeasiblePlan, match="tell errors apart"):
        estimator.plan("0.1")
    with pytest.raises(InfeasiblePlan):
        proper_users(PointClass(4), 1, "1e-6", "0.1", epsilon=1)


def test_as_many_users_as_planned_are_enough() -> None:
    estimator = MinimumErrorEstimator(ThresholdClass(1023), resolution="0.1", epsilon=1)
    placed = estimator.under(Relation.REPLACE_ONE, Unit("user", max_contributions=100))
    needed, rng, missed = placed.plan("0.05").needed, np.random.default_rng(5), 0
    for seed in range(60):
        noise = 0.2 * (seed % 2)
        x = rng.integers(0, 1023, (needed, 100))
        y = (x < 400) ^ (rng.random(x.shape) < noise)
        found = placed.release(UserSample(x, y), entropy=seeded(9, seed)).value
        missed += not float(found.low) <= noise <= float(found.high)
    assert missed <= 11  # of Bin(60, 0.05) more come with probability 0.0001


@pytest.mark.parametrize(
    ("resolution", "rounds"), [("0.5", 1), ("0.9", 1), ("0.25", 2), ("0.2", 3), ("0.125", 3), ("0.1", 4)]
)
def test_how_often_the_unit_interval_is_halved(resolution: str, rounds: int) -> None:
    assert rounds_for(Decimal(resolution)) == rounds == max(1, math.ceil(math.log2(1 / float(resolution))))


# ---- in a ledger ----------------------------------------------------------------------------------------------------


def test_an_entry_says_what_was_fixed_and_nothing_that_was_found() -> None:
    book = Ledger.in_memory()
    unit = Unit("user", max_contributions=2)
    scope = book.scope("users", unit=unit, relation="add_remove", budget=PureDP("1.5"))
    estimator = MinimumErrorEstimator(ThresholdClass(2**40), resolution="0.1", epsilon=1)
    rng = np.random.default_rng(1)
    data = UserSample(rng.integers(0, 2**40, (50, 2)), rng.integers(0, 2, (50, 2)))
    receipt = scope.release(estimator, data)
    assert len(receipt.value.tests) == 4
    *_, last = (entry.body for entry in book.entries() if isinstance(entry.body, Reserved))
    assert set(last.mechanism.parameters) == set(estimator.parameters())
    assert scope.spent(0).upper == pytest.approx(1)
    with pytest.raises(BudgetRefused):
        scope.release(estimator, data)
    with pytest.raises(ParameterError, match="data"):
        scope.release(estimator, UserSample(np.zeros((3, 5)), np.zeros((3, 5))))
    book.verify()
