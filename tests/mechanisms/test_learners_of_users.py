"""Learners of users: their laws by walking every path, exact losses on all neighbours, what a unit of many rows costs,
and what stays in a ledger."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pytest

from dpledger.accounting.composition import Repeated, Sequence
from dpledger.accounting.guarantees import BoundedRange, PureDP
from dpledger.audit import audit_mechanism
from dpledger.errors import ContractViolation, ParameterError
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import Words, seeded
from dpledger.mechanisms.learning.baselines import threshold_learner
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.hypotheses import Hypothesis
from dpledger.mechanisms.learning.samples import LabeledSample, UserSample
from dpledger.mechanisms.learning.theory.concepts import (
    FiniteClass,
    ParityClass,
    PointClass,
    ThresholdClass,
    matrix_of,
)
from dpledger.mechanisms.learning.theory.vc import vc_dim
from dpledger.mechanisms.learning.users.mistakes import mistakes_in
from dpledger.mechanisms.learning.users.user_learners import UserLevelProperLearner
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from user_conformance import PAIR, ForPairs, sample_of
from users_oracle import Users, errors_by_user, proper_law, worst_of_users

pytestmark = pytest.mark.sliced

TRIPLE = Unit("user", max_contributions=3)


class TestProper(ForPairs):
    bad_parameters: ClassVar = (
        {"epsilon": 0},
        {"resolution": 0},
        {"margin": "0.9"},
        {"share": 1},
        {"concept_class": ParityClass(3)},
    )

    def make(self, **changes: Any) -> Any:
        given = {"concept_class": ThresholdClass(4), "epsilon": "0.5", "resolution": "0.1", "margin": "0.2"}
        return UserLevelProperLearner(**{**given, **changes})


class TestProperOfPoints(TestProper):
    def make(self, **changes: Any) -> Any:
        return super().make(**{"concept_class": PointClass(2**64), **changes})


class TestProperBothWays(TestProper):
    def make(self, **changes: Any) -> Any:
        return super().make(**{"concept_class": ThresholdClass(2**64, both_ways=True), **changes})


class TestProperOfAMatrix(TestProper):
    def make(self, **changes: Any) -> Any:
        return super().make(**{"concept_class": FiniteClass(np.eye(5, dtype=int)), **changes})


# ---- the law --------------------------------------------------------------------------------------------------------

USERS: Users = (((0, 1), (1, 1)), ((0, 1), (2, 0)), ((1, 1), (2, 0)), ((0, 0), (2, 1)), ((0, 1), (0, 1)))


POINTED: Users = (((0, 0), (1, 1)), ((1, 1), (2, 0)), ((1, 1), (1, 1)), ((0, 0), (2, 0)), ((1, 1), (1, 0)))


@pytest.mark.parametrize(
    ("concepts", "users"),
    [(ThresholdClass(3), USERS), (PointClass(3), POINTED), (FiniteClass([[1, 1, 0], [0, 0, 1]]), USERS)],
    ids=["thresholds", "points", "matrix"],
)
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_its_releases_follow_the_law_of_all_paths(concepts: Any, users: Users, relation: str) -> None:
    learner = UserLevelProperLearner(concepts, epsilon=6, resolution="0.25", margin="0.2")
    placed = learner.under(Relation(relation), PAIR)
    each, added = float(placed.estimator.each), relation == "add_remove"

    def scale(threshold: float) -> float:
        return (max(threshold, 1 - threshold) if added else 1.0) / each

    matrix = matrix_of(concepts)
    law = proper_law(matrix, 2, 0.25, 0.2, scale, float(placed.exponent))(users)
    wrong = proper_law(matrix, 2, 0.25, 0.2, scale, 0.2 * float(placed.exponent))(users)
    assert placed.exponent == (3 if added else Decimal("1.5"))
    assert sum(law.values()) == pytest.approx(1)
    values = [placed.release(sample_of(users, 2), entropy=seeded(3, i)).value for i in range(800)]
    found = Counter((float(one.estimate.low), int(str(one.params["place"]))) for one in values)
    names = {outcome: at for at, outcome in enumerate(law)}
    assert set(found) <= set(names)
    counts = {names[outcome]: many for outcome, many in found.items()}
    assert events_p_value(counts, 800, {at: law[outcome] for outcome, at in names.items()}) > SIGNIFICANCE
    assert events_p_value(counts, 800, {at: wrong[outcome] for outcome, at in names.items()}) < SIGNIFICANCE


def test_where_no_error_is_too_large_the_first_concept_will_do() -> None:
    learner = UserLevelProperLearner(ThresholdClass(3), epsilon=8, resolution="0.25", margin="0.3")
    placed = learner.under(Relation.REPLACE_ONE, PAIR)
    hopeless = sample_of((((0, 0), (0, 1)), ((1, 0), (1, 1))) * 200, 2)
    found = placed.release(hopeless, entropy=seeded(1)).value
    assert found.estimate.high + learner.margin >= 1
    assert (found.level, found.params) == (None, {"place": "0"})
    assert isinstance(found, Hypothesis)
    assert found.output_in_class


# ---- privacy --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_pair_of_neighbours_tells_more_than_is_claimed(relation: str, size: int) -> None:
    """Of thresholds on two points, the whole transcript: the end of the search and the concept."""
    learner = UserLevelProperLearner(ThresholdClass(2), epsilon=1, resolution="0.125", margin="0.2")
    placed = learner.under(Relation(relation), PAIR)
    each, added = float(placed.estimator.each), relation == "add_remove"

    def scale(threshold: float) -> float:
        return (max(threshold, 1 - threshold) if added else 1.0) / each

    law = proper_law(matrix_of(ThresholdClass(2)), 2, 0.125, 0.2, scale, float(placed.exponent))
    exact = worst_of_users(law, 2, 2, size, relation)
    assert 0.2 < exact <= float(placed.claim().epsilon) + 1e-9


def test_a_learner_of_examples_pays_for_all_examples_of_a_user() -> None:
    """In a scope of users the errors of a concept move by m: the exponent is divided by it, and the claim is kept;
    without that nearly three times the claim are lost."""
    concepts = matrix_of(ThresholdClass(3))
    learner = ExponentialPPACLearner(ThresholdClass(3), epsilon=1).under(Relation.REPLACE_ONE, TRIPLE)

    def law_at(exponent: float) -> Any:
        def law(users: Users) -> dict[int, float]:
            errors = np.array([sum(errors_by_user(row, users)) for row in concepts])
            weights = np.exp(-exponent * errors)
            return dict(enumerate((weights / weights.sum()).tolist()))

        return law

    assert learner.exponent == Decimal("0.166666666666")
    assert worst_of_users(law_at(float(learner.exponent)), 3, 3, 2, "replace_one") <= 1
    assert worst_of_users(law_at(0.5), 3, 3, 2, "replace_one") == pytest.approx(2.728777, abs=1e-6)


def test_parts_are_the_tests_and_the_choice() -> None:
    placed = UserLevelProperLearner(ThresholdClass(9), epsilon=1, resolution="0.1", margin="0.2", share="0.25")
    assert placed.parts() == Sequence((Repeated(PureDP("0.0625"), times=4), BoundedRange("0.75")))
    assert placed.claim() == PureDP(1)


def test_an_audit_finds_its_claim_kept_and_a_smaller_one_broken() -> None:
    learner = UserLevelProperLearner(FiniteClass([[0], [1]]), epsilon=3, resolution="0.4", margin="0.15")
    placed = learner.under(Relation.REPLACE_ONE, Unit("user", max_contributions=2))
    left, right = (sample_of((((0, y), (0, y)),), 2) for y in (0, 1))

    def places(data: UserSample, size: int, rng: np.random.Generator) -> Any:
        seed = int(rng.integers(2**40))
        return np.array(
            [int(str(placed.release(data, entropy=seeded(seed, i)).value.params["place"])) for i in range(size)]
        )

    kept, broken = (
        audit_mechanism(places, left, right, PureDP(claim), trials=600, batched=True, seed=5) for claim in ("3", "0.2")
    )
    assert (kept.verdict, broken.verdict) == ("not_refuted", "violation")


# ---- what it finds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0, 0.1], ids=["fits", "noisy"])
def test_as_many_users_as_planned_learn(noise: float) -> None:
    m, alpha = 100, 0.1
    learner = UserLevelProperLearner.planned(ThresholdClass(1023), m, "0.1", "0.1", epsilon=1)
    placed = learner.under(Relation.REPLACE_ONE, Unit("user", max_contributions=m))
    needed, rng, missed = placed.plan("0.1").needed, np.random.default_rng(4), 0
    assert needed == 1099
    for seed in range(12):
        x = rng.integers(0, 1023, (needed, m))
        y = (x < 500) ^ (rng.random(x.shape) < noise)
        place = int(str(placed.release(UserSample(x, y), entropy=seeded(6, seed)).value.params["place"]))
        missed += abs(place - 500) / 1023 * (1 - 2 * noise) > alpha
    assert missed <= 6  # of Bin(12, 0.1) more come with probability 0.0001


def test_fewer_users_are_planned_where_counts_move_one_way() -> None:
    learner = UserLevelProperLearner.planned(ThresholdClass(1023), 100, "0.1", "0.1", epsilon=1)
    unit = Unit("user", max_contributions=100)
    sharp, plain = (learner.under(relation, unit) for relation in (Relation.ADD_REMOVE, Relation.REPLACE_ONE))
    assert sharp.exponent == 2 * plain.exponent
    assert sharp.plan("0.1").needed <= plain.plan("0.1").needed
    assert sharp.claim() == plain.claim()


def test_a_hundred_thousand_users_take_seconds() -> None:
    rng = np.random.default_rng(1)
    for concepts in (ThresholdClass(2**40), PointClass(2**40)):
        learner = UserLevelProperLearner(concepts, epsilon=1, resolution="0.05", margin="0.1")
        placed = learner.under(Relation.REPLACE_ONE, Unit("user", max_contributions=20))
        x = rng.integers(0, 2**40, (20_000, 20))
        found = placed.release(UserSample(x, x < 2**39), entropy=seeded(1)).value
        assert found.estimate.high <= 1
    assert found.estimate.low > Decimal("0.3")  # by points, which are almost never met again


# ---- in a ledger ----------------------------------------------------------------------------------------------------


class Broken:
    """Entropy that fails after so many words."""

    def __init__(self, words: int) -> None:
        self.left = words
        self.source = seeded(1)

    def words(self, count: int, /) -> Words:
        self.left -= count
        if self.left < 0:
            raise OSError("no entropy")
        return self.source.words(count)


def test_a_learner_that_raises_midway_leaves_its_full_charge() -> None:
    book = Ledger.in_memory()
    unit = Unit("user", max_contributions=2)
    scope = book.scope("users", unit=unit, relation="replace_one", budget=PureDP(1))
    learner = UserLevelProperLearner(ThresholdClass(3), epsilon="0.75", resolution="0.1", margin="0.2")

    placed, endless = learner.under(Relation.REPLACE_ONE, unit), Broken(10**6)
    placed.release(sample_of(USERS, 2), entropy=endless)
    used = 10**6 - endless.left

    class Raising(UserLevelProperLearner):
        """The learner, which fails once its estimate is done."""

        def release(self, data: UserSample, *, entropy: Any) -> Any:
            return super().release(data, entropy=Broken(used - 1))

    raising = Raising(ThresholdClass(3), epsilon="0.75", resolution="0.1", margin="0.2")
    with pytest.raises(ContractViolation, match="raised an error"):
        scope.release(raising, sample_of(USERS, 2))
    assert scope.spent(0).upper == pytest.approx(0.75)
    book.verify()


def test_what_was_found_is_for_the_caller_alone() -> None:
    book = Ledger.in_memory()
    scope = book.scope("users", unit=PAIR, relation="add_remove", budget=PureDP(1))
    learner = UserLevelProperLearner(ThresholdClass(3), epsilon=1, resolution="0.1", margin="0.2")
    receipt = scope.release(learner, sample_of(USERS, 2))
    assert len(receipt.value.estimate.tests) == 4
    assert scope.spent(0).upper == pytest.approx(1)
    with pytest.raises(ParameterError, match="data"):
        scope.release(learner, UserSample(np.zeros((2, 3)), np.zeros((2, 3))))
    book.verify()


def test_the_order_of_users_and_of_their_examples_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 2**62, (60, 4)), rng.integers(0, 2, (60, 4))
    learner = UserLevelProperLearner(ThresholdClass(2**62), epsilon=4, resolution="0.1", margin="0.2")
    placed = learner.under(Relation.REPLACE_ONE, Unit("user", max_contributions=4))
    users, examples = rng.permutation(60), rng.permutation(4)
    one = placed.release(UserSample(x, y), entropy=seeded(1))
    other = placed.release(UserSample(x[users][:, examples], y[users][:, examples]), entropy=seeded(1))
    assert one == other
    assert math.isfinite(float(one.value.estimate.middle))


# ---- thresholds both ways -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [1, 2, 7])
def test_thresholds_both_ways_are_the_rows_of_their_matrix(points: int) -> None:
    concepts = ThresholdClass(points, both_ways=True)
    matrix = FiniteClass(matrix_of(concepts))
    assert matrix.size == concepts.size == 2 * (points + 1)
    assert vc_dim(matrix.matrix).dimension == concepts.vc
    for place, row in enumerate(matrix.matrix):
        assert concepts.predict(place, range(points)).tolist() == row.tolist()
    assert (concepts.words(0), concepts.words(points + 1)) == ("x < 0", "x >= 0")
    assert concepts.predict(points + 1, [0, "none"]).tolist() == [1, 0]
    rng = np.random.default_rng(points)
    x, y = rng.integers(0, points, (30, 4)), rng.integers(0, 2, (30, 4))
    for one, other in (
        [known.errors(LabeledSample(x[:, 0], y[:, 0])) for known in (concepts, matrix)],
        [mistakes_in(known, UserSample(x, y)).beyond(1) for known in (concepts, matrix)],
    ):
        assert np.repeat(one.errors, one.counts.astype(int)).tolist() == other.errors.tolist()


@pytest.mark.parametrize("word", ["first", "second"])
def test_which_of_two_words_comes_first_does_not_decide_what_can_be_learned(word: str) -> None:
    """Found: where the low points have label 0, users learned a constant, which errs on half of all examples."""
    x = np.random.default_rng(1).integers(0, 2**32, (400, 50))
    y = (x < 2**31) == (word == "first")
    common: dict[str, Any] = {"epsilon": 2, "resolution": "0.1", "margin": "0.1"}
    errors = []
    for both_ways in (True, False):
        concepts = ThresholdClass(2**32, both_ways=both_ways)
        learner = UserLevelProperLearner(concepts, **common).under(Relation.REPLACE_ONE, Unit("user", 50))
        found = learner.release(UserSample(x, y), entropy=seeded(1)).value
        errors.append(float((found.predict(x.reshape(-1)) != y.reshape(-1)).mean()))
    assert errors[0] < 0.1
    assert (errors[1] > 0.4) == (word == "second")
    assert (
        learner.plan("0.1").needed
        < dataclasses.replace(learner, concept_class=ThresholdClass(2**32, both_ways=True)).plan("0.1").needed
    )


def test_what_takes_thresholds_one_way_says_so() -> None:
    both_ways = ThresholdClass(8, both_ways=True)
    with pytest.raises(ParameterError, match="one way"):
        threshold_learner(both_ways, LabeledSample([1], [1]))
    with pytest.raises(ParameterError, match="both_ways"):
        ThresholdClass(8, both_ways=1)  # type: ignore[arg-type]
    assert both_ways.described() == {"class": "thresholds", "points": "8", "both_ways": True}
    assert ThresholdClass(8).described() == {"class": "thresholds", "points": "8"}
