"""Which learner needs the fewest: the published comparison, what is asked of each, and the table of orders."""

from __future__ import annotations

import math
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.learning.booster import PrivateStumpBooster
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.parities.parity_learners import PrivateParityLearner
from dpledger.mechanisms.learning.queries.conjunctions import PrivateConjunctionLearner
from dpledger.mechanisms.learning.queries.oracle import StatisticalQueryOracle
from dpledger.mechanisms.learning.recommended import Recommendation, Recommended, plan, recommend
from dpledger.mechanisms.learning.representations.representation_learners import RealizableRepresentationLearner
from dpledger.mechanisms.learning.representations.representations import HashedPointRepresentation
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.mechanisms.learning.theory.concepts import (
    AnyClass,
    FiniteClass,
    ParityClass,
    PointClass,
    ThresholdClass,
)
from dpledger.mechanisms.learning.theory.orders import order_bounds
from dpledger.mechanisms.learning.theory.parity_sizes import parity_plan
from dpledger.mechanisms.learning.theory.sizes import occam, one_sided
from dpledger.mechanisms.learning.users.thresholds import UserLevelThresholdLearner
from dpledger.relations import Relation, Unit

pytestmark = pytest.mark.sliced

GROUP = "ExponentialPPACLearner of records, by group privacy"
STUMPS = StumpClass(Binning({"age": [18, 40, 65]}, {"colour": ["red", "blue"]}, source="the form"))
CLASSES: list[AnyClass] = [PointClass(16), ThresholdClass(15), ParityClass(4), FiniteClass([[0, 1], [1, 1]]), STUMPS]


def needs(alpha: str, examples: int, **more: Any) -> dict[str, int | None]:
    found = recommend(alpha, "0.1", 1, examples, ThresholdClass(1024), **more)
    return {row.learner: row.needed for row in found.rows}


@pytest.mark.parametrize(
    ("alpha", "examples", "known", "best"),
    [
        ("0.1", 100, {GROUP: 190, "ClippedPairwiseEM": 250, "UserLevelProperLearner": 1099}, GROUP),
        ("0.01", 100, {GROUP: 2463, "ClippedPairwiseEM": 12934}, GROUP),
        ("0.01", 10**4, {GROUP: 1852, "ClippedPairwiseEM": 250}, "ClippedPairwiseEM"),
        ("0.001", 10**6, {GROUP: 18475, "ClippedPairwiseEM": 250}, "ClippedPairwiseEM"),
    ],
    ids=["few", "exact", "many", "very-many"],
)
def test_published_comparisons(alpha: str, examples: int, known: dict[str, int], best: str) -> None:
    """Thresholds on 1,024 points, beta = 0.1, epsilon = 1: amplification pays where alpha is small and m is large."""
    found = needs(alpha, examples)
    assert {name: found[name] for name in known} == known
    assert next(iter(found)) == best
    assert list(found.values()) == sorted(found.values(), key=lambda needed: needed or 0)


def test_records_are_recommended_the_learners_of_records() -> None:
    points = recommend("0.1", "0.05", 1, 1, PointClass(2**20))
    assert points.rows[0].plan == ExponentialPPACLearner(PointClass(2**20), epsilon=1).plan(
        "0.1", "0.05", agnostic=True
    )
    assert points.rows[1].learner == "SurrogateAgnosticLearner, hashed points"
    assert points.rows[1].needed == pytest.approx(11544, rel=0.01)
    fitting = recommend("0.1", "0.05", 1, 1, PointClass(2**20), realizable=True)
    assert (fitting.learner, fitting.plan.needed) == ("RealizableRepresentationLearner, hashed points", 359)
    hashed = HashedPointRepresentation(dimension=20, bits=14, a="0.003125", seed=1)
    drawn = RealizableRepresentationLearner(representation=hashed, epsilon=1).under(Relation.REPLACE_ONE, Unit())
    assert drawn.plan("0.1", "0.05").needed == 359
    parities = recommend("0.1", "0.05", 1, 1, ParityClass(20), realizable=True)
    assert {row.learner: row.plan for row in parities.rows}["RepeatedParity"] == parity_plan(
        20, "0.1", "0.05", epsilon=1, relation=Relation.REPLACE_ONE
    )


@pytest.mark.parametrize("concepts", CLASSES, ids=str)
@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT], ids=lambda relation: relation.value)
@pytest.mark.parametrize("examples", [1, 9])
def test_each_class_is_recommended_someone_under_each_relation(
    concepts: AnyClass, relation: Relation, examples: int
) -> None:
    for realizable in (False, True):
        found = recommend("0.2", "0.1", 1, examples, concepts, relation=relation, realizable=realizable)
        assert found.plan.needed == min(row.needed for row in found.rows if row.needed is not None)
        assert all(row.learner in found.words() for row in found.rows)
        assert all(row.status in ("proved", "certified", "conservative") for row in found.rows if row.plan)


def test_users_are_recommended_a_hash_where_the_class_is_large() -> None:
    """The numbers of the specification: the class itself stays cheaper."""
    found = {row.learner: row.needed for row in recommend("0.1", "0.1", 1, 100, PointClass(2**20)).rows}
    assert found["UserLevelSurrogateLearner, hashed points"] == pytest.approx(2508, rel=0.01)
    assert found["UserLevelProperLearner"] == pytest.approx(1492, rel=0.01)


def test_group_privacy_is_the_learner_at_a_unit_of_many_rows() -> None:
    """Its records, a user at a time."""
    for relation in Relation:
        monotone = relation in (Relation.ADD_REMOVE, Relation.ZERO_OUT)
        learner = ExponentialPPACLearner(ThresholdClass(1024), epsilon=1, monotone=monotone)
        records = learner.under(relation, Unit("user", 100)).plan("0.1", "0.1", agnostic=True).needed
        name = GROUP.replace("Learner", "Learner with monotone", 1) if monotone else GROUP  # whose exponent that is
        assert needs("0.1", 100, relation=relation)[name] == math.ceil(records / 100)


@pytest.mark.parametrize("relation", Relation, ids=lambda relation: relation.value)
def test_stumps_are_learned_as_records(relation: Relation) -> None:
    """By the one learner that takes them and promises an accuracy; users pay for each of their records."""
    monotone = relation in (Relation.ADD_REMOVE, Relation.ZERO_OUT)
    learner = ExponentialPPACLearner(STUMPS, epsilon=1, monotone=monotone)
    for agnostic in (False, True):
        (alone,) = recommend("0.1", "0.1", 1, 1, STUMPS, relation=relation, realizable=not agnostic).rows
        assert alone.plan == learner.under(relation, Unit()).plan("0.1", "0.1", agnostic=agnostic)
        (users,) = recommend("0.1", "0.1", 1, 20, STUMPS, relation=relation, realizable=not agnostic).rows
        records = learner.under(relation, Unit("user", 20)).plan("0.1", "0.1", agnostic=agnostic).needed
        assert users.needed == math.ceil(records / 20)


def test_rows_that_stand_twice_are_a_prior_that_plans_pay_for() -> None:
    once, twice = FiniteClass([[0, 0, 1], [0, 1, 1]]), FiniteClass([[0, 0, 1], [0, 1, 1]] * 2)
    assert (once.distinct, once.size, twice.distinct, twice.size) == (2, 2, 2, 4)
    few, more = (plan(concepts, "0.1", "0.1", epsilon=1).needed for concepts in (once, twice))
    assert few < more


@pytest.mark.parametrize("concepts", [PointClass(2**20), ThresholdClass(16), FiniteClass([[0, 1], [1, 1]])], ids=str)
@pytest.mark.parametrize("realizable", [False, True])
@pytest.mark.parametrize("epsilon", ["1e-60", "2e-60", "1e-57"])
def test_an_epsilon_whose_shares_cannot_be_written_is_enough_for_nobody_who_shares_it(
    concepts: AnyClass, realizable: bool, epsilon: str
) -> None:
    for relation in Relation:
        with suppress(ParameterError):  # an exponent of 0 is none, of the exponential mechanism itself
            for row in recommend("0.1", "0.1", epsilon, 1, concepts, relation=relation, realizable=realizable).rows:
                assert row.needed is not None or "10^" in row.why or "hash" in row.why or "alpha" in row.why


def test_what_no_number_is_enough_for_is_said() -> None:
    coarse = recommend("0.1", "0.1", 1, 1, PointClass(4))
    hashed = [row for row in coarse.rows if "hashed" in row.learner]
    assert {(row.plan, row.needed, row.status) for row in hashed} == {(None, None, None)}
    assert "as many cells as points" in coarse.words()
    assert coarse.rows[-2:] == tuple(hashed)
    with pytest.raises(InfeasiblePlan, match="nobody"):
        _ = Recommendation((Recommended(learner="none", plan=None, why="nobody"),)).plan


@pytest.mark.parametrize("alpha", [1 / 3, np.float32(0.1), "0.999999999999999999999"], ids=str)
@pytest.mark.parametrize("examples", [1, 7])
def test_a_target_with_many_digits_is_planned_like_the_short_one_beside_it(alpha: Any, examples: int) -> None:
    """Parts of alpha are rounded down, so that 2 x 3/10 + 2/5 of it leave a speck for the last interval, whose halves
    are not told apart: that way to share it is no plan, and the others are."""
    short = Decimal(f"{float(alpha):.6f}") - Decimal("1e-6")
    found = recommend(alpha, "0.05", 1, examples, ThresholdClass(1024))
    beside = recommend(short, "0.05", 1, examples, ThresholdClass(1024))
    for row in found.rows:
        (same,) = (one for one in beside.rows if one.learner == row.learner)
        assert row.needed is not None
        assert same.needed is not None
        assert 0.99 * same.needed - 1 <= row.needed <= same.needed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("alpha", 0),
        ("beta", 1),
        ("epsilon", 0),
        ("examples", 0),
        ("concepts", 3),
        ("realizable", 1),
    ],
)
def test_bad_parameters_are_named(field: str, value: object) -> None:
    given: dict[str, Any] = {"alpha": "0.1", "beta": "0.1", "epsilon": 1, "examples": 4, "concepts": PointClass(4)}
    with pytest.raises(ParameterError, match=field):
        recommend(**{**given, field: value})


# ---- plan -----------------------------------------------------------------------------------------------------------


def test_a_learner_is_asked_for_its_own_plan() -> None:
    learner = PrivateParityLearner(dimension=12, epsilon=1, fail_probability="0.01")
    assert plan(learner, "0.1", "0.05") == learner.plan("0.1", "0.05")
    for more in ({"epsilon": 1}, {"agnostic": True}, {"relation": Relation.ADD_REMOVE}):
        with pytest.raises(ParameterError, match=next(iter(more))):
            plan(learner, "0.1", "0.05", **more)


@pytest.mark.parametrize("given", [ExponentialPPACLearner, ThresholdClass, RealizableRepresentationLearner])
def test_a_class_of_python_is_no_learner(given: Any) -> None:
    with pytest.raises(ParameterError, match="what"):
        plan(given, "0.1", "0.1")


def test_a_learner_that_promises_no_accuracy_says_so() -> None:
    booster = PrivateStumpBooster(binning=STUMPS.binning, epsilon=1)
    with pytest.raises(ParameterError, match="PrivateStumpBooster promises none"):
        plan(booster, "0.1", "0.05")  # type: ignore[arg-type]


def test_what_a_learner_knows_itself_is_left_out_and_the_rest_is_asked_for() -> None:
    """alpha and beta of a conjunction, alpha of a threshold, neither of a class."""
    conjunction, whole = PrivateConjunctionLearner(5, epsilon=1), ExponentialPPACLearner(ThresholdClass(8), epsilon=1)
    threshold = UserLevelThresholdLearner(ThresholdClass(8), epsilon=1, alpha="0.2")
    oracle = StatisticalQueryOracle(epsilon=1, queries=3, values="whole")
    assert plan(conjunction) == conjunction.plan()
    assert plan(threshold) == threshold.plan()
    assert plan(threshold, beta="0.02") == threshold.plan("0.02")
    assert plan(oracle, "0.1", "0.05") == oracle.plan("0.1", "0.05")
    assert plan(whole, "0.1", "0.05", agnostic=True) == whole.plan("0.1", "0.05", agnostic=True)
    for learner, given, told in (
        (conjunction, {"alpha": "0.1"}, "alpha.*has its own alpha"),
        (threshold, {"alpha": "0.1"}, "alpha.*has its own alpha"),
        (threshold, {"agnostic": True}, "agnostic.*one thing"),
        (whole, {"alpha": "0.1"}, "beta.*no beta of its own"),
        (oracle, {"beta": "0.1"}, "alpha.*no alpha of its own"),
        (ThresholdClass(8), {"alpha": "0.1"}, "beta"),
    ):
        with pytest.raises(ParameterError, match=told):
            plan(learner, **given)


@pytest.mark.parametrize("concepts", CLASSES, ids=str)
def test_a_class_is_planned_with_and_without_privacy(concepts: AnyClass) -> None:
    learner = ExponentialPPACLearner(concepts, epsilon=1)
    sharp = ExponentialPPACLearner(concepts, epsilon=1, monotone=True)
    for agnostic in (False, True):
        free = plan(concepts, "0.1", "0.05", agnostic=agnostic)
        private = plan(concepts, "0.1", "0.05", epsilon=1, agnostic=agnostic)
        added = plan(concepts, "0.1", "0.05", epsilon=1, relation=Relation.ADD_REMOVE, agnostic=agnostic)
        assert private == learner.plan("0.1", "0.05", agnostic=agnostic)
        assert added == sharp.plan("0.1", "0.05", agnostic=agnostic)
        assert free.needed <= added.needed <= private.needed
    one_way = isinstance(concepts, PointClass | ThresholdClass)
    assert plan(concepts, "0.1", "0.05") == (
        one_sided("0.1", "0.05") if one_way else occam(concepts.size, "0.1", "0.05")
    )
    for bad in ({"what": "thresholds"}, {"epsilon": 0}, {"agnostic": 1}):
        with pytest.raises(ParameterError):
            plan(**{"what": concepts, "alpha": "0.1", "beta": "0.05", **bad})  # type: ignore[arg-type]


# ---- orders ---------------------------------------------------------------------------------------------------------


def test_the_published_example_of_orders() -> None:
    """Thresholds on 2^20 points, alpha = 0.01, epsilon = 1 and 0.1, users of 100 examples."""
    r = repr(math.log(2**20))
    asked: dict[str, Any] = {"vc": 1, "rep_dim": r, "alpha": "0.01", "examples": 100, "thresholds": True}
    one, tenth = ([row.order for row in order_bounds(epsilon=epsilon, **asked)] for epsilon in ("1", "0.1"))
    assert one[:4] == pytest.approx([11386, 140016, 11386, 11386], rel=1e-4)
    assert tenth[1:4] == pytest.approx([152492, 113863, 23863], rel=1e-4)
    assert one[5:] == pytest.approx([1538.8, 252.5, 137.7], rel=1e-3)
    assert one[4] == pytest.approx(one[7])
    assert {row.status for row in order_bounds(epsilon=1, **asked)} == {"order"}
    for bad in ({"vc": -1}, {"rep_dim": 0}, {"alpha": 1}, {"epsilon": 0}, {"examples": 0}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            order_bounds(**{"epsilon": 1, **asked, **bad})
