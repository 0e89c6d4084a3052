"""The inverse of a plan: the error that is told needs no more than there are, and one in its last digit less does."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import dpledger as dpl
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.learning.reachable import reachable_error
from dpledger.mechanisms.learning.recommended import plan

pytestmark = pytest.mark.sliced

LEARNERS: dict[str, Any] = {
    "exponential": dpl.learning.ExponentialPPACLearner(dpl.learning.ThresholdClass(1023), 1),
    "queries": dpl.learning.StatisticalQueryOracle(1, 3),
    "parity": dpl.learning.RepeatedParity(dimension=3, epsilon=1, mode="basic", runs=9),
    "clipped": dpl.learning.ClippedPairwiseEM(dpl.learning.ThresholdClass(8), epsilon=1, clip=3),
    "represented": dpl.learning.SurrogateAgnosticLearner(
        concept_class=dpl.learning.ThresholdClass(8),
        representation=dpl.learning.TrivialRepresentation(dpl.learning.ThresholdClass(8)),
        epsilon=1,
    ),
}


def before(alpha: Decimal) -> Decimal:
    """The number of three digits below."""
    return alpha - Decimal((0, (1,), alpha.adjusted() - 2))


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("available", [300, 4_000, 100_000])
def test_so_many_are_enough_for_it_and_not_for_one_digit_less(name: str, available: int) -> None:
    learner = LEARNERS[name]
    found = reachable_error(learner, available, "0.05")
    assert found.plan.needed <= available
    assert plan(learner, found.alpha, "0.05") == found.plan
    try:
        assert plan(learner, before(found.alpha.exact), "0.05").needed > available
    except (ParameterError, InfeasiblePlan):
        assert name == "queries", "finer than the grid of the answers"


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    available=st.integers(400, 10**9),  # fewer reach no error where epsilon is 0.1
    points=st.sampled_from([1, 100, 2**16]),
    epsilon=st.sampled_from([None, "0.1", "1"]),
    agnostic=st.booleans(),
    beta=st.sampled_from(["0.2", "0.01"]),
)
def test_of_a_class_too(available: int, points: int, epsilon: str | None, agnostic: bool, beta: str) -> None:
    concepts, asked = dpl.learning.ThresholdClass(points), {"epsilon": epsilon, "agnostic": agnostic}
    found = dpl.planning.reachable_error(concepts, available, beta, **asked)  # type: ignore[arg-type]
    assert found.available == available
    assert dpl.plan(concepts, found.alpha, beta, **asked).needed == found.plan.needed <= available  # type: ignore[arg-type]


def test_more_rows_reach_a_smaller_error() -> None:
    errors = [
        dpl.planning.reachable_error(dpl.learning.ThresholdClass(99), n, "0.05", epsilon=1).alpha
        for n in (200, 400, 4000, 40_000)
    ]
    assert errors == sorted(errors, reverse=True)
    assert len(set(errors)) == len(errors)


def test_so_few_that_no_error_can_be_promised_are_told_the_fewest() -> None:
    with pytest.raises(InfeasiblePlan, match="10 available examples are too few for any error"):
        dpl.planning.reachable_error(dpl.learning.ThresholdClass(2**16), 10, "0.05", epsilon="0.1")


def test_words_say_the_error_and_its_plan() -> None:
    found = dpl.planning.reachable_error(dpl.learning.ThresholdClass(2**16), 4000, "0.05", epsilon=1, agnostic=True)
    assert found.words() == f"4,000 examples reach an error of 0.076. {found.plan.words()}"


@pytest.mark.parametrize(
    ("what", "changes", "field"),
    [
        (dpl.learning.ThresholdClass(8), {"available": 0}, "available"),
        (dpl.learning.ThresholdClass(8), {"available": "many"}, "available"),
        (dpl.learning.ThresholdClass(8), {"beta": None}, "beta"),
        (dpl.learning.ThresholdClass(8), {"beta": 2}, "beta"),
        (dpl.learning.ThresholdClass(8), {"epsilon": -1}, "epsilon"),
        (LEARNERS["exponential"], {"epsilon": 1}, "epsilon"),
        (dpl.learning.UserLevelThresholdLearner(dpl.learning.ThresholdClass(8), 1, "0.5"), {}, "alpha"),
        ("a class", {}, "what"),
    ],
    ids=["none", "a word", "no beta", "beta above 1", "epsilon below 0", "two epsilons", "its own alpha", "no class"],
)
def test_a_wrong_argument_is_named(what: Any, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ParameterError) as raised:
        reachable_error(what, **{"available": 400, "beta": "0.1", **changes})
    assert raised.value.field == field
