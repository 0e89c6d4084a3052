"""Clipped comparisons of pairs: scores against their definition, losses on all neighbours, published sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st
from mpmath import mp

from dpledger.accounting.guarantees import BoundedRange, PureDP
from dpledger.errors import ContractViolation, InfeasiblePlan, ParameterError, WorkLimit
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.concepts import (
    ConceptClass,
    FiniteClass,
    ParityClass,
    PointClass,
    ThresholdClass,
    matrix_of,
)
from dpledger.mechanisms.learning.theory.users.clipped_sizes import clipped_pairwise_plan
from dpledger.mechanisms.learning.users import clipped_pairwise
from dpledger.mechanisms.learning.users.clipped_pairwise import ClippedPairwiseEM, clipped_pairwise_scores
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from mechanism_conformance import MechanismConformance

pytestmark = pytest.mark.sliced

User = tuple[tuple[int, int], ...]
Floats = npt.NDArray[np.float64]

CLASSES: list[ConceptClass] = [
    PointClass(4),
    ThresholdClass(4),
    ParityClass(2),
    FiniteClass([[0, 0, 1, 1], [1, 1, 1, 0], [1, 1, 1, 0]]),
]
THREE = Unit("user", max_contributions=3)


def sample_of(users: tuple[User, ...], examples: int) -> UserSample:
    rows = np.array([[list(example) for example in user] for user in users], dtype=np.int64).reshape(-1, examples, 2)
    return UserSample(rows[:, :, 0], rows[:, :, 1])


def spelt_out(concepts: ConceptClass, users: tuple[User, ...], clip: int) -> list[int]:
    """The scores by their definition, one user and one pair at a time."""
    mistakes = [[sum(int(row[x]) != y for x, y in user) for row in matrix_of(concepts).tolist()] for user in users]
    places = range(concepts.size)
    return [min(sum(max(-clip, min(clip, a[g] - a[h])) for a in mistakes) for g in places) for h in places]


class TestClippedPairwise(MechanismConformance):
    relations = tuple(Relation)
    unit = THREE
    good_data = sample_of((((0, 1), (1, 1), (3, 0)), ((2, 0), (2, 0), (0, 1))), 3)
    bad_data = (
        UserSample(np.zeros((0, 3)), np.zeros((0, 3))),
        UserSample(np.array([[math.nan, 1, 2], [-5, 10**9, 0.4]]), np.array([[1, 0, math.nan], [7, 1, 0]])),
        UserSample(np.array([["x", None, 2**90]], dtype=object), np.array([[None, "1", 1]], dtype=object)),
    )
    bad_containers = (None, [1, 0], UserSample(np.zeros((2, 2)), np.zeros((2, 2))))
    bad_parameters: ClassVar[tuple[Mapping[str, object], ...]] = (
        {"epsilon": 0},
        {"clip": 0},
        {"clip": True},
        {"concept_class": 4},
    )

    def make(self, **changes: Any) -> Any:
        return ClippedPairwiseEM(**{"concept_class": ThresholdClass(4), "epsilon": "0.5", "clip": 2, **changes})


# ---- scores ---------------------------------------------------------------------------------------------------------

USERS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=3, max_size=3).map(tuple), max_size=9
)


@pytest.mark.parametrize("concepts", CLASSES, ids=str)
@given(users=USERS.map(tuple), clip=st.integers(1, 4))
def test_scores_are_those_of_the_definition(concepts: ConceptClass, users: tuple[User, ...], clip: int) -> None:
    found = clipped_pairwise_scores(concepts, sample_of(users, 3), clip).tolist()
    assert found == spelt_out(concepts, users, clip)


def test_users_are_counted_in_blocks_and_in_any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    x, y, order = rng.integers(0, 4, (50, 3)), rng.integers(0, 2, (50, 3)), rng.permutation(50)
    whole = clipped_pairwise_scores(CLASSES[1], UserSample(x, y), 2).tolist()
    monkeypatch.setattr(clipped_pairwise, "CELLS_AT_ONCE", 7)
    monkeypatch.setattr(clipped_pairwise, "NARROW", 0)
    assert clipped_pairwise_scores(CLASSES[1], UserSample(x[order], y[order]), 2).tolist() == whole


def test_a_user_with_an_unknown_example_counts_nowhere() -> None:
    rows = np.array([[0.0, 1.0, 3.0], [2.0, math.nan, 2.0]])
    both, one = (
        clipped_pairwise_scores(ThresholdClass(4), UserSample(part, np.ones((len(part), 3))), 2)
        for part in (rows, rows[:1])
    )
    assert both.tolist() == one.tolist()


def test_draws_follow_the_law_and_not_that_of_twice_the_epsilon() -> None:
    users: tuple[User, ...] = (((0, 1), (1, 1), (2, 0)), ((1, 1), (1, 1), (3, 0)), ((3, 0), (2, 1), (0, 1)))
    learner = ClippedPairwiseEM(ThresholdClass(4), epsilon=4, clip=2).under(Relation.REPLACE_ONE, THREE)
    found = learner.sample(sample_of(users, 3), 6000, seeded(2))
    counts = dict(enumerate(np.bincount(found, minlength=5).tolist()))
    laws = [law_of(spelt_out(ThresholdClass(4), users, 2), rate) for rate in (0.5, 1.0)]
    assert events_p_value(counts, 6000, dict(enumerate(laws[0].tolist()))) > SIGNIFICANCE
    assert events_p_value(counts, 6000, dict(enumerate(laws[1].tolist()))) < SIGNIFICANCE


# ---- privacy --------------------------------------------------------------------------------------------------------


def law_of(scores: list[int], exponent: float) -> Floats:
    weights = np.exp(exponent * np.array(scores, dtype=np.float64))
    found: Floats = weights / weights.sum()
    return found


def points_in(user: User) -> list[int]:
    return sorted(x for x, _ in user)


def neighbours(relation: Relation, kinds: list[User], size: int) -> Iterator[tuple[tuple[User, ...], ...]]:
    for rest in itertools.combinations_with_replacement(kinds, size - 1):
        match relation:
            case Relation.REPLACE_ONE:
                yield from (((*rest, a), (*rest, b)) for a, b in itertools.permutations(kinds, 2))
            case Relation.LABEL_FLIP:
                pairs = itertools.permutations(kinds, 2)
                yield from (
                    ((*rest, a), (*rest, b)) for a, b in pairs if sorted(x for x, _ in a) == sorted(x for x, _ in b)
                )
            case _:
                yield from (pair for a in kinds for pair in (((*rest, a), rest), (rest, (*rest, a))))


def worst(relation: Relation, exponent: float, size: int, clip: int, examples: int) -> float:
    """The exact loss on all neighbours, thresholds on two points, the larger of which has so many users."""
    kinds = list(itertools.combinations_with_replacement([(x, y) for x in (0, 1) for y in (0, 1)], examples))
    laws: dict[tuple[User, ...], Floats] = {}

    def law(users: tuple[User, ...]) -> Floats:
        key = tuple(sorted(users))
        if key not in laws:
            laws[key] = np.log(law_of(spelt_out(ThresholdClass(2), users, clip), exponent))
        return laws[key]

    return max(float((law(a) - law(b)).max()) for a, b in neighbours(relation, kinds, size))


@pytest.mark.parametrize("relation", Relation, ids=lambda relation: relation.value)
@pytest.mark.parametrize(("clip", "examples"), [(1, 2), (2, 2), (5, 2), (1, 3)])
def test_no_pair_of_neighbours_tells_more_than_is_claimed(relation: Relation, clip: int, examples: int) -> None:
    learner = ClippedPairwiseEM(ThresholdClass(2), epsilon=1, clip=clip).under(relation, Unit("user", examples))
    for size in (1, 2) if examples == 3 else (1, 2, 3):
        assert worst(relation, float(learner.exponent), size, clip, examples) <= 1 + 1e-9


def test_what_is_not_clipped_or_half_counted_tells_more() -> None:
    """Twins: sums of whole differences, as if they were clipped; one user counted once where he may change his mind."""
    assert worst(Relation.REPLACE_ONE, 0.25, 2, clip=3, examples=3) > 1.2
    assert worst(Relation.REPLACE_ONE, 0.5, 3, clip=1, examples=2) > 1.1


@pytest.mark.parametrize("relation", Relation, ids=lambda relation: relation.value)
def test_the_exponent_follows_from_clip_unit_and_relation(relation: Relation) -> None:
    learner = ClippedPairwiseEM(ThresholdClass(4), epsilon=1, clip=5)
    twice = 1 if relation in (Relation.ADD_REMOVE, Relation.ZERO_OUT) else 2
    for unit, once in ((THREE, 3), (Unit("user", 8), 5)):
        exact = Fraction(1, 2 * once * twice)
        assert exact * (1 - Fraction(1, 10**9)) < Fraction(learner.under(relation, unit).exponent) <= exact


def test_a_single_concept_costs_nothing() -> None:
    assert ClippedPairwiseEM(FiniteClass([[0, 1]]), epsilon=1, clip=1).claim() == BoundedRange(0)


def test_all_pairs_are_compared_so_that_concepts_are_few() -> None:
    with pytest.raises(WorkLimit, match="all pairs"):
        ClippedPairwiseEM(PointClass(2**64), epsilon=1, clip=1)


# ---- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "examples", "known"),
    [("0.1", 100, 250), ("0.1", 1000, 102), ("0.1", 10**4, 74), ("0.01", 100, 12934), ("0.01", 10**4, 250)],
)
def test_published_sizes(alpha: str, examples: int, known: int) -> None:
    plan = clipped_pairwise_plan(1025, examples, alpha, "0.1", epsilon=1, relation=Relation.REPLACE_ONE)
    clip = int(dict(plan.inside)["clip"])
    assert plan.needed == known
    learner = ClippedPairwiseEM(ThresholdClass(1024), epsilon=1, clip=clip)
    placed = learner.under(Relation.REPLACE_ONE, Unit("user", examples))
    assert placed.plan(alpha, "0.1").needed <= known
    assert f"{known:,} users" in plan.words()
    assert clipped_pairwise_plan(1025, examples, alpha, "0.1", epsilon=1, relation=Relation.ADD_REMOVE).needed <= known


@given(
    size=st.integers(1, 10**6),
    examples=st.integers(1, 10**5),
    alpha=st.integers(1, 999),
    beta=st.integers(1, 999),
    epsilon=st.integers(1, 5000),
)
def test_a_plan_keeps_its_theorem(size: int, examples: int, alpha: int, beta: int, epsilon: int) -> None:
    a, b, e = (Decimal(value).scaleb(-3) for value in (alpha, beta, epsilon))
    plan = clipped_pairwise_plan(size, examples, a, b, epsilon=e, relation=Relation.REPLACE_ONE)
    inside = dict(plan.inside)
    with mp.workdps(40):
        mu, tau, m = mp.mpf(str(inside["drift"])), int(inside["clip"]), examples
        assert mu <= min(m * mp.mpf(str(a)), tau) * (1 + mp.mpf("1e-5"))

        def beyond(start: Any) -> Any:
            return mp.sqrt(mp.pi * m / 2) * mp.erfc(start / mp.sqrt(2 * m))

        gained = mu if tau >= m else mu - beyond(tau - mu) - beyond(tau)
        spread = min(tau * tau, m)
        rate = min(mp.mpf(str(e)) / (4 * tau), gained / (4 * spread))
        exact = (2 * mp.log(size) - mp.log(mp.mpf(str(b)))) / (rate * gained - 2 * rate * rate * spread)
        assert plan.needed == pytest.approx(float(exact), rel=1e-3, abs=1.001)


def test_what_clipping_leaves_nothing_of_is_infeasible() -> None:
    learner = ClippedPairwiseEM(ThresholdClass(4), epsilon=1, clip=1).under(Relation.REPLACE_ONE, Unit("user", 10**4))
    with pytest.raises(InfeasiblePlan, match="clip later"):
        learner.plan("0.1", "0.1")
    with pytest.raises(InfeasiblePlan, match="more than"):
        clipped_pairwise_plan(10, 10, "0.1", "0.1", epsilon="1e-59", relation=Relation.REPLACE_ONE)
    for changes in ({"alpha": 0}, {"beta": 1}, {"epsilon": 0}, {"size": 0}, {"examples": 0}):
        given = {"size": 10, "examples": 10, "alpha": "0.1", "beta": "0.1", "epsilon": 1, **changes}
        with pytest.raises(ParameterError, match=next(iter(changes))):
            clipped_pairwise_plan(relation=Relation.REPLACE_ONE, **given)  # type: ignore[arg-type]


def test_it_learns_from_as_many_users_as_are_planned() -> None:
    rng, failed = np.random.default_rng(4), 0
    learner = ClippedPairwiseEM(ThresholdClass(256), epsilon=1, clip=29)
    placed = learner.under(Relation.REPLACE_ONE, Unit("user", 100))
    users = placed.plan("0.1", "0.1").needed
    for seed in range(10):
        x = rng.integers(0, 256, (users, 100))
        y = (x < 100) ^ (rng.random(x.shape) < 0.2)
        found = placed.release(UserSample(x, y), entropy=seeded(5, seed)).value.place
        failed += 0.6 * abs(found - 100) / 256 > 0.1
    assert failed <= 5  # of Bin(10, 0.1) more come with probability 0.00015


# ---- in a ledger ----------------------------------------------------------------------------------------------------


def test_users_are_charged_whole_and_a_run_that_raises_stays_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Ledger.in_memory()
    scope = book.scope("users", unit=THREE, relation="replace_one", budget=PureDP(2))
    learner, data = ClippedPairwiseEM(ThresholdClass(4), epsilon=1, clip=2), TestClippedPairwise.good_data
    assert scope.release(learner, data).value.output_in_class

    def broken(*_: object) -> object:
        raise ArithmeticError("in the middle")

    monkeypatch.setattr(clipped_pairwise, "clipped_pairwise_scores", broken)
    with pytest.raises(ContractViolation, match="the full charge stands"):
        scope.release(learner, data)
    assert scope.spent(0).upper == pytest.approx(2)
    book.verify()
