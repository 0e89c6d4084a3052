"""Learners that are strict: what was not declared is a breach of contract that costs all and tells nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.guarantees import ZCDP, PureDP
from dpledger.errors import BudgetRefused, ContractViolation
from dpledger.ledger.entries.bodies import Committed
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.booster import PrivateStumpBooster
from dpledger.mechanisms.learning.domains import NumberedPoints, RowsOfBits, are_all_inside
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.logistic import PrivateLogisticLearner
from dpledger.mechanisms.learning.parities.parity_learners import PrivateParityLearner, RepeatedParity
from dpledger.mechanisms.learning.queries.conjunctions import PrivateConjunctionLearner
from dpledger.mechanisms.learning.queries.thresholds import PrivateSQThresholdLearner
from dpledger.mechanisms.learning.representations.representation_learners import (
    RealizableRepresentationLearner,
    SurrogateAgnosticLearner,
)
from dpledger.mechanisms.learning.representations.representations import HashedPointRepresentation
from dpledger.mechanisms.learning.samples import LabeledSample, UserSample
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.mechanisms.learning.tables.stumps import StumpClass
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, ParityClass, PointClass, ThresholdClass
from dpledger.mechanisms.learning.users.clipped_pairwise import ClippedPairwiseEM
from dpledger.mechanisms.learning.users.least_error import MinErrorTest, MinimumErrorEstimator
from dpledger.mechanisms.learning.users.median import UserLevelMedian
from dpledger.mechanisms.learning.users.surrogate_learner import UserLevelSurrogateLearner
from dpledger.mechanisms.learning.users.thresholds import UserLevelThresholdLearner
from dpledger.mechanisms.learning.users.user_learners import UserLevelProperLearner
from dpledger.relations import Relation, Unit

NAN = float("nan")
BINS = Binning({0: [18, 65]}, {1: ["red", "blue"]}, source="a form")
HASHED = HashedPointRepresentation(dimension=4, bits=3, a="0.3", seed=7)


class Incomparable(int):
    """A number whose own code raises."""

    def __eq__(self, other: object) -> bool:
        raise ValueError(str(other))

    __hash__ = int.__hash__


class Endless(list[Any]):
    """A row whose own code raises."""

    def __len__(self) -> int:
        raise ValueError(str(list(self)))


POINTS: tuple[list[Any], list[Any]] = ([3, 0, np.array(1)], [NAN, -1, 16, 2.5, "3", None, 10**30, Incomparable(3)])
BITS: tuple[list[Any], list[Any]] = (
    [[0, 1, 1], [1, 1, 0], np.array(5)],
    [[0, 1], [0, 2, 1], [0, NAN, 1], 8, "x", np.zeros((3, 1)), Endless([0, 1, 1])],
)
ROWS: tuple[list[Any], list[Any]] = (
    [[20, "red"], [70.5, "blue"]],
    [[NAN, "red"], [20, "green"], [20], 3, ["x", "red"]],
)
LEARNERS: dict[str, tuple[Any, tuple[list[Any], list[Any]]]] = {
    "points": (ExponentialPPACLearner(PointClass(16), 1, strict=True), POINTS),
    "thresholds": (ExponentialPPACLearner(ThresholdClass(16), 1, strict=True), POINTS),
    "matrix": (ExponentialPPACLearner(FiniteClass(np.eye(16, dtype=int)), 1, strict=True), POINTS),
    "parities": (ExponentialPPACLearner(ParityClass(3), 1, strict=True), BITS),
    "stumps": (ExponentialPPACLearner(StumpClass(BINS), 1, strict=True), ROWS),
    "booster": (PrivateStumpBooster(binning=BINS, epsilon=1, strict=True), ROWS),
    "logistic": (PrivateLogisticLearner(BINS, rho=1, strict=True), ROWS),
    "parity": (PrivateParityLearner(dimension=3, epsilon=1, strict=True), BITS),
    "repeated": (RepeatedParity(dimension=3, epsilon=1, mode="basic", runs=2, strict=True), BITS),
    "representation": (RealizableRepresentationLearner(representation=HASHED, epsilon=1, strict=True), POINTS),
    "conjunction": (PrivateConjunctionLearner(3, 1, strict=True), BITS),
    "statistical threshold": (PrivateSQThresholdLearner(16, 1, strict=True), POINTS),
    "surrogates": (
        SurrogateAgnosticLearner(concept_class=PointClass(16), representation=HASHED, epsilon=1, strict=True),
        POINTS,
    ),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_what_was_declared_is_learned_from_as_ever(name: str) -> None:
    learner, (good, bad) = LEARNERS[name]
    assert learner.parameters()["strict"] is True
    lax = dataclasses.replace(learner, strict=False)
    assert lax.parameters()["strict"] is False
    sample = LabeledSample(good * 4, [1, 0, True, 0.0, 1, 1, 0, 0, 1, 0, 1, 1][: 4 * len(good)])
    found, again = (one.release(sample, entropy=seeded(3)).value for one in (learner, lax))
    assert found == again
    lax.release(LabeledSample(bad, [1] * len(bad)), entropy=seeded(3))


@pytest.mark.parametrize("name", LEARNERS)
def test_what_was_not_declared_costs_all_and_is_not_told(name: str) -> None:
    learner, (good, bad) = LEARNERS[name]
    samples = [LabeledSample([*good, one], [1] * (len(good) + 1)) for one in bad]
    samples += [LabeledSample(good, [*[1] * (len(good) - 1), label]) for label in (2, -1, NAN, None, "yes", 0.5)]
    told = set()
    for sample in samples:
        book = Ledger.in_memory()
        claim = learner.under(Relation.REPLACE_ONE, Unit()).claim()
        budget = claim if isinstance(claim, ZCDP) else PureDP(2)
        scope = book.scope("rows", unit="record", relation="replace_one", budget=budget)
        with pytest.raises(ContractViolation) as refusal:
            scope.release(learner, sample)
        told.add(str(refusal.value))
        if isinstance(claim, ZCDP):
            with pytest.raises(BudgetRefused, match="left 0"):
                scope.release(learner, sample)
        else:
            assert scope.spent(0).upper == pytest.approx(float(getattr(claim, "epsilon", getattr(claim, "eta", 0))))
        (ended,) = (entry.body for entry in book.entries() if isinstance(entry.body, Committed))
        assert ended.outside_guarantee
        with pytest.raises(ContractViolation):
            learner.sample(sample, 2, seeded(1))
    assert told == {f"{type(learner).__name__} is strict, and some row or label is not as was declared"}


# ---- users ----------------------------------------------------------------------------------------------------------

EIGHT, TWO = ThresholdClass(8), Unit("user", max_contributions=2)
OF_USERS: dict[str, Any] = {
    "test": MinErrorTest(EIGHT, guess="0.2", resolution="0.2", epsilon=1, strict=True),
    "estimator": MinimumErrorEstimator(EIGHT, resolution="0.2", epsilon=1, strict=True),
    "proper": UserLevelProperLearner(EIGHT, epsilon=1, resolution="0.1", margin="0.2", strict=True),
    "surrogate": UserLevelSurrogateLearner(
        concept_class=FiniteClass(np.eye(8, dtype=int)),
        representation=FiniteClass(np.eye(8, dtype=int)),
        epsilon=1,
        resolution="0.1",
        margin="0.2",
        strict=True,
    ),
    "median": UserLevelMedian(8, epsilon=1, strict=True),
    "thresholds": UserLevelThresholdLearner(EIGHT, epsilon=1, alpha="0.5", strict=True),
    "clipped": ClippedPairwiseEM(EIGHT, epsilon=1, clip=1, strict=True),
}


@pytest.mark.parametrize("name", OF_USERS)
def test_a_user_who_was_not_declared_so_costs_all_and_is_not_told_of(name: str) -> None:
    learner, told = OF_USERS[name], set()
    lax = dataclasses.replace(learner, strict=False)
    x, y = np.array([[1, 2], [3, 7], [0, 5]], dtype=object), np.array([[1, 0], [0, 1], [1, 1]], dtype=object)
    placed = [one.under(Relation.REPLACE_ONE, TWO) for one in (learner, lax)]
    assert [one.parameters()["strict"] for one in placed] == [True, False]
    found, again = (one.release(UserSample(x, y), entropy=seeded(3)).value for one in placed)
    assert found == again
    for point, label in ((8, 1), (-1, 1), (NAN, 1), ("2", 1), (2.5, 1), (2, 2), (2, None), (2, "yes")):
        if name == "median" and label != 1:
            continue
        outside = UserSample(x.copy(), y.copy())
        outside.x[0, 1], outside.y[0, 1] = point, label
        placed[1].release(outside, entropy=seeded(3))
        book = Ledger.in_memory()
        scope = book.scope("users", unit=TWO, relation="replace_one", budget=PureDP(2))
        with pytest.raises(ContractViolation) as refusal:
            scope.release(learner, outside)
        told.add(str(refusal.value))
        assert scope.spent(0).upper == pytest.approx(1)
        (ended,) = (entry.body for entry in book.entries() if isinstance(entry.body, Committed))
        assert ended.outside_guarantee
    assert told == {f"{type(learner).__name__} is strict, and some example is not as was declared"}


# ---- what is inside -------------------------------------------------------------------------------------------------


@given(rows=st.lists(st.one_of(st.integers(-3, 9), st.floats(-3, 9), st.none()), max_size=6))
def test_points_are_inside_one_by_one_whatever_holds_them(rows: list[Any]) -> None:
    wanted = all(row is not None and row == round(row) and 0 <= row < 8 for row in rows)
    kinds: list[Any] = [rows, np.array(rows, dtype=object)]
    if None not in rows:
        kinds += [np.array(rows, dtype=np.float64), pd.Series(rows, dtype=float)]
    for x in kinds:
        assert are_all_inside(NumberedPoints(8), LabeledSample(x, [1] * len(rows))) is wanted


def test_points_and_bits_of_the_widest_domains() -> None:
    ends = np.array([0, 2**64 - 1], dtype=np.uint64)
    for x in (ends, ends.tolist()):
        assert are_all_inside(NumberedPoints(2**64), LabeledSample(x, [1, 0]))
        assert not are_all_inside(NumberedPoints(2**64 - 1), LabeledSample(x, [1, 0]))
    assert not are_all_inside(NumberedPoints(2**64), LabeledSample(np.array([-1]), [1]))
    for bits in (np.array([[0, 1], [1, 1]]), [[0, 1], (1, 1)], np.array([2, 3]), np.array([[0, True]], dtype=object)):
        assert are_all_inside(RowsOfBits(2), LabeledSample(bits, [1] * len(bits)))
    for bits in (np.array([[0, 2]]), [[0, 1], (1,)], np.array([4]), np.array([[0.5, 0]])):
        assert not are_all_inside(RowsOfBits(2), LabeledSample(bits, [1] * len(bits)))
