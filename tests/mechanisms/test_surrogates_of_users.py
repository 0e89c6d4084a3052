"""Hypotheses drawn by how few users a concept near them fails: scores by their definition, laws and losses by
enumeration, published numbers of users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from itertools import product
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.guarantees import PureDP
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.representations.representations import HashedPointRepresentation
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, PointClass, ThresholdClass, matrix_of
from dpledger.mechanisms.learning.theory.users.user_sizes import proper_users, surrogate_users
from dpledger.mechanisms.learning.users.mistakes import mistakes_of, point_mistakes
from dpledger.mechanisms.learning.users.reading import users_of
from dpledger.mechanisms.learning.users.surrogate_learner import UserLevelSurrogateLearner
from dpledger.mechanisms.learning.users.surrogates import hashed_user_scores, matrix_scores
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from user_conformance import PAIR, ForPairs, sample_of
from users_oracle import Users, errors_by_user, estimate_law, level_between, worst_of_users

pytestmark = pytest.mark.sliced

TWO = FiniteClass(matrix_of(ThresholdClass(2)))
EVERY = FiniteClass(list(product((0, 1), repeat=2)))
HASHED = HashedPointRepresentation(dimension=3, bits=2, a="0.5", seed=1)
Matrix = npt.NDArray[np.bool_]


class TestOfHashedPoints(ForPairs):
    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]] = (
        {"epsilon": 0},
        {"margin": "0.9"},
        {"representation": EVERY},
        {"concept_class": ThresholdClass(8), "representation": HASHED},
    )

    def make(self, **changes: Any) -> Any:
        given_ = {
            "concept_class": PointClass(8),
            "representation": HASHED,
            "epsilon": "0.5",
            "resolution": "0.1",
            "margin": "0.2",
        }
        return UserLevelSurrogateLearner(**{**given_, **changes})


class TestOfMatrices(TestOfHashedPoints):
    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]] = (
        {"share": 0},
        {"representation": FiniteClass([[0, 1, 1]])},
        {"representation": HASHED},
    )

    def make(self, **changes: Any) -> Any:
        return super().make(**{"concept_class": TWO, "representation": EVERY, **changes})


# ---- scores ---------------------------------------------------------------------------------------------------------


def dense(concepts: Matrix, hypotheses: Matrix, users: Users, level: int) -> list[int]:
    """Q by its definition."""
    failed = [sum(many > level for many in errors_by_user(f, users)) for f in concepts]
    return [
        min(
            often + sum(any(h[x] != f[x] for x, _ in user) for user in users)
            for f, often in zip(concepts, failed, strict=True)
        )
        for h in hypotheses
    ]


def users_on(points: int, most: int = 7) -> st.SearchStrategy[tuple[int, Users]]:
    """A number of examples, and users with so many."""
    example = st.tuples(st.integers(0, points - 1), st.integers(0, 1))
    return st.integers(1, 4).flatmap(
        lambda m: st.tuples(
            st.just(m), st.lists(st.lists(example, min_size=m, max_size=m).map(tuple), max_size=most).map(tuple)
        )
    )


@settings(max_examples=80, deadline=None)
@given(
    sample=users_on(4),
    concepts=st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=1, max_size=5),
    others=st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=1, max_size=5),
)
def test_scores_are_those_of_the_definition(
    sample: tuple[int, Users], concepts: list[list[int]], others: list[list[int]]
) -> None:
    (m, users), c, h = sample, FiniteClass(concepts), FiniteClass(others)
    read = users_of(sample_of(users, m), 4)
    for level in range(m):
        found = matrix_scores(c, h, read, mistakes_of(c, read).beyond(level))
        assert found.tolist() == dense(c.matrix, h.matrix, users, level)


@settings(max_examples=150, deadline=None)
@given(sample=users_on(8), seed=st.integers(0, 300), copies=st.integers(1, 2), everywhere=st.booleans())
def test_scores_of_hashed_points_are_those_of_all_points(
    sample: tuple[int, Users], seed: int, copies: int, everywhere: bool
) -> None:
    """With hashes that leave cells without a point, and samples in which every point occurs."""
    m, users = sample
    users = (*users, *(((x, 0),) * m for x in range(8))) if everywhere else users
    hashed = HashedPointRepresentation(dimension=3, bits=2, a="0.5", seed=seed, copies=copies)
    matrix = np.array([hashed.cells(range(8), copy=copy) == cell for copy in range(copies) for cell in range(4)])
    found = point_mistakes(PointClass(8), users_of(sample_of(users, m), 8))
    for level in range(m):
        defined = dense(np.eye(8, dtype=bool), matrix, users, level)
        assert hashed_user_scores(hashed, found, level).tolist() == defined


def test_many_pairs_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted at once changes nothing, where every user has one point and positives elsewhere."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 8, (60, 4))
    x[:, 0] = rng.integers(0, 2, 60)
    users: Users = tuple(tuple((int(a), int(a < 2)) for a in row) for row in x)
    found, hashed = point_mistakes(PointClass(8), users_of(sample_of(users, 4), 8)), HASHED
    whole = hashed_user_scores(hashed, found, 0).tolist()
    for at_once in (1, 7, 50):
        monkeypatch.setattr("dpledger.mechanisms.learning.users.surrogates.PAIRS_AT_ONCE", at_once)
        assert hashed_user_scores(hashed, found, 0).tolist() == whole
    cells = hashed.cells(range(8))
    assert whole == dense(np.eye(8, dtype=bool), np.array([cells == cell for cell in range(4)]), users, 0)


# ---- the law and its losses -----------------------------------------------------------------------------------------


def surrogate_law(placed: UserLevelSurrogateLearner, concepts: Matrix, hypotheses: Matrix, *, added: bool) -> Any:
    """The law of (`low`, the place of the hypothesis), from the definition."""
    resolution, margin = float(placed.resolution), float(placed.margin)
    each, exponent = float(placed.estimator.each), float(placed.exponent)
    width = 2.0**-placed.estimator.rounds
    estimate = estimate_law(concepts, 2, resolution, lambda nu: (max(nu, 1 - nu) if added else 1.0) / each)

    def law(users: Users) -> dict[Any, float]:
        found: dict[Any, float] = {}
        for low, chance in estimate(users).items():
            upper = low + width + resolution
            if upper + margin >= 1:
                found[low, 0] = chance
                continue
            scores = np.array(dense(concepts, hypotheses, users, level_between(2, upper, upper + margin)))
            weights = np.exp(-exponent * (scores - scores.min()))
            found |= {(low, place): chance * float(p) for place, p in enumerate(weights / weights.sum())}
        return found

    return law


def placed_under(relation: str, epsilon: object, resolution: str) -> UserLevelSurrogateLearner:
    learner = UserLevelSurrogateLearner(
        concept_class=TWO,
        representation=EVERY,
        epsilon=epsilon,  # type: ignore[arg-type]
        resolution=resolution,
        margin="0.2",
    )
    return learner.under(Relation(relation), PAIR)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_its_releases_follow_the_law_of_all_paths(relation: str) -> None:
    placed = placed_under(relation, 8, "0.25")
    users: Users = (((0, 1), (1, 0)), ((0, 1), (0, 1)), ((0, 1), (1, 1)), ((1, 0), (1, 0)), ((0, 1), (1, 0)))
    added = relation == "add_remove"
    law = surrogate_law(placed, TWO.matrix, EVERY.matrix, added=added)(users)
    values = [placed.release(sample_of(users, 2), entropy=seeded(3, i)).value for i in range(800)]
    found = Counter((float(one.estimate.low), int(str(one.params["place"]))) for one in values)
    names = {outcome: at for at, outcome in enumerate(law)}
    counts = {names[outcome]: many for outcome, many in found.items()}
    assert events_p_value(counts, 800, {at: law[outcome] for outcome, at in names.items()}) > SIGNIFICANCE
    assert {one.output_in_class for one in values} <= {True, False}
    flat = dict.fromkeys(names.values(), 1 / len(names))
    assert events_p_value(counts, 800, flat) < SIGNIFICANCE


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("size", [1, 2])
def test_no_pair_of_neighbours_tells_more_than_is_claimed(relation: str, size: int) -> None:
    placed = placed_under(relation, 1, "0.125")
    law = surrogate_law(placed, TWO.matrix, EVERY.matrix, added=relation == "add_remove")
    exact = worst_of_users(law, 2, 2, size, relation)
    assert 0.2 < exact <= float(placed.claim().epsilon) + 1e-9


@pytest.mark.parametrize("relation", Relation, ids=lambda relation: relation.value)
def test_the_exponent_follows_from_the_relation(relation: Relation) -> None:
    placed = placed_under(relation.value, 1, "0.25")
    assert placed.exponent == Decimal("0.125" if relation is Relation.REPLACE_ONE else "0.25")
    assert placed.choosing == Decimal("0.5")
    assert placed.claim() == PureDP(1)


# ---- how many users -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "needed"), [(25, 7679), (100, 2508), (400, 1289)])
def test_published_numbers_of_users(m: int, needed: int) -> None:
    plan = surrogate_users(PointClass(2**20), m, "0.1", "0.1", epsilon=1)
    assert plan.needed == needed
    assert plan.status == "certified"


@pytest.mark.parametrize("bits", [20, 40, 64])
@pytest.mark.parametrize("m", [25, 100, 400])
def test_the_whole_class_stays_cheaper(bits: int, m: int) -> None:
    whole, hashed = (plan(PointClass(2**bits), m, "0.1", "0.1", epsilon=1) for plan in (proper_users, surrogate_users))
    assert whole.needed < hashed.needed


def test_what_leaves_next_to_nothing_of_alpha_is_passed_over() -> None:
    """Of a third, rounded, some shares leave 10^-13."""
    assert 1000 < surrogate_users(PointClass(2**20), 30, "0.333333333333333333", "0.1", epsilon=1).needed < 2000


def test_a_planned_learner_plans_the_same() -> None:
    learner = UserLevelSurrogateLearner.planned(PointClass(2**20), 25, "0.1", "0.1", epsilon=1, seed=7)
    placed = learner.under(Relation.REPLACE_ONE, Unit("user", max_contributions=25))
    assert placed.plan("0.1", "0.1").needed == 7679
    again = UserLevelSurrogateLearner.planned(PointClass(2**20), 25, "0.1", "0.1", epsilon=1)
    assert again.representation != learner.representation
    for alpha, beta in (("0.1", "0.001"), ("0.08", "0.1")):
        with pytest.raises(InfeasiblePlan):
            placed.plan(alpha, beta)


def test_a_class_of_few_points_is_learned_properly() -> None:
    with pytest.raises(InfeasiblePlan):
        UserLevelSurrogateLearner.planned(PointClass(2**8), 100, "0.1", "0.1", epsilon=1)
    with pytest.raises(ParameterError, match="power of two"):
        UserLevelSurrogateLearner.planned(PointClass(1000), 100, "0.1", "0.1", epsilon=1)
    with pytest.raises(ParameterError, match="matrix"):
        placed_under("replace_one", 1, "0.125").plan("0.5", "0.1")


def test_as_many_users_as_planned_learn() -> None:
    m, rng = 100, np.random.default_rng(4)
    learner = UserLevelSurrogateLearner.planned(PointClass(2**20), m, "0.1", "0.1", epsilon=1, seed=3)
    placed, missed = learner.under(Relation.REPLACE_ONE, Unit("user", max_contributions=m)), 0
    for seed in range(6):
        x = np.where(rng.random((2508, m)) < 0.3, 77, rng.integers(0, 2**20, (2508, m)))
        y = (x == 77) ^ (rng.random(x.shape) < 0.05)
        pairs = np.stack([x, y], axis=2)
        found = placed.release(sample_of(pairs, m), entropy=seeded(6, seed)).value  # type: ignore[arg-type]
        missed += not found.predict([77])[0]
    assert missed <= 4  # of Bin(6, 0.1) more come with probability 0.0001


def test_an_entry_says_what_was_fixed() -> None:
    book = Ledger.in_memory()
    scope = book.scope("users", unit=PAIR, relation="zero_out", budget=PureDP(1))
    learner = UserLevelSurrogateLearner(
        concept_class=PointClass(8), representation=HASHED, epsilon=1, resolution="0.1", margin="0.2"
    )
    receipt = scope.release(learner, sample_of((((1, 1), (2, 0)), ((1, 1), (1, 1))), 2))
    assert not receipt.value.output_in_class
    assert scope.spent(0).upper == pytest.approx(1)
    book.verify()


def test_more_hashes_miss_less_often() -> None:
    """Twelve hashes of 2^12 cells, where one of them is too coarse."""
    unit, fine = Unit("user", max_contributions=4), {"dimension": 40, "a": "0.0008", "seed": 1}
    one, many = (HashedPointRepresentation(bits=12, copies=copies, **fine) for copies in (1, 12))  # type: ignore[arg-type]
    learners = [
        UserLevelSurrogateLearner(
            concept_class=PointClass(2**40), representation=each, epsilon=1, resolution="0.05", margin="0.1"
        ).under(Relation.REPLACE_ONE, unit)
        for each in (one, many)
    ]
    with pytest.raises(InfeasiblePlan):
        learners[0].plan("0.3", "0.1")
    assert learners[1].plan("0.3", "0.1").needed > 0


def test_a_split_that_no_number_of_users_is_enough_for_does_not_stop_the_search() -> None:
    """A third of alpha, rounded: of some splits next to nothing is left for the difference."""
    third = Decimal(1) / 3
    found = surrogate_users(PointClass(2**20), 30, third, "0.1", epsilon=third)
    assert found.needed <= surrogate_users(PointClass(2**20), 30, "0.3", "0.1", epsilon="0.3").needed


def test_who_has_no_hash_is_told_what_to_do() -> None:
    with pytest.raises(InfeasiblePlan, match=r"a hash of \d+ bits would be needed.*UserLevelProperLearner"):
        UserLevelSurrogateLearner.planned(PointClass(2**10), 30, "0.2", "0.1", epsilon=1)
