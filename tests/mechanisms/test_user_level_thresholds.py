"""The user-level threshold learner: the law of its transcripts and its exact epsilon on tiny domains, its faulty twins,
its plan, how often it fails, and its entries."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pytest

from dpledger.accounting.composition import Repeated, Sequence
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.rules import check, cost
from dpledger.errors import BudgetRefused, ContractViolation, InfeasiblePlan, ParameterError
from dpledger.ledger.entries.bodies import Reserved
from dpledger.ledger.ledger import Ledger
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.hypotheses import Hypothesis
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.concepts import PointClass, ThresholdClass
from dpledger.mechanisms.learning.theory.users.threshold_sizes import Comparison, threshold_users
from dpledger.mechanisms.learning.users.comparisons import least_of
from dpledger.mechanisms.learning.users.thresholds import UserLevelThresholdLearner
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from mechanism_conformance import MechanismConformance
from threshold_learner_oracle import Learner, Transcript, User, users_on, worst_loss

pytestmark = pytest.mark.sliced

NAN = float("nan")
COMPARISONS: list[Comparison] = ["paper", "noisy_max", "sharp"]
STEPS = 2**20
DRAWS = 1500


def sample_of(users: Any, m: int) -> UserSample:
    x = np.array([[x for x, _ in user] for user in users], dtype=np.int64).reshape(len(users), m)
    return UserSample(x, np.array([[y for _, y in user] for user in users], dtype=np.int64).reshape(len(users), m))


class Conforms(MechanismConformance):
    relations = tuple(Relation)
    unit = Unit("patient", max_contributions=2)
    good_data = UserSample(np.arange(200).reshape(100, 2), np.tile([1, 0], (100, 1)))
    bad_data = (
        UserSample(np.zeros((0, 2)), np.zeros((0, 2))),
        UserSample(np.array([[NAN, np.inf], [-np.inf, 0.5]]), np.array([[NAN, 1], [0, np.inf]])),
        UserSample(np.array([["x", 10**400], [None, -1]], dtype=object), np.array([[1, None], ["a", 2]], dtype=object)),
        UserSample(np.array([[2**64 - 1, 0]], dtype=np.uint64), np.array([[True, False]])),
    )
    bad_containers = (
        None,
        [[1, 0]],
        UserSample(np.zeros((1, 3)), np.zeros((1, 3))),
        UserSample(np.zeros((2, 2)), np.zeros((1, 2))),
    )
    bad_parameters = (
        {"epsilon": 0},
        {"alpha": 1},
        {"beta": 0},
        {"comparison": "loud"},
        {"concept_class": PointClass(8)},
        {"estimate_share": "0.5", "median_share": "0.5"},
        {"resolution": "0.1", "margin": "0.2", "alpha": "0.4"},
        {"resolution": 0},
        {"epsilon": "1e-60"},
        {"epsilon": "1e-12", "resolution": "0.01", "margin": "0.02"},
    )
    comparison: Comparison
    inside: ClassVar[dict[str, str]] = {"resolution": "0.05", "margin": "0.1"}

    def make(self, **changes: Any) -> UserLevelThresholdLearner:
        values = {"concept_class": ThresholdClass(2**64), "epsilon": "0.5", "alpha": "0.3", **self.inside}
        return UserLevelThresholdLearner(**{**values, "comparison": self.comparison, **changes})


class TestSharp(Conforms):
    """With the resolution and the margin that the plan chooses."""

    comparison = "sharp"
    inside: ClassVar[dict[str, str]] = {}


class TestNoisyMax(Conforms):
    comparison = "noisy_max"


class TestPaper(Conforms):
    comparison = "paper"


class TestBothWays(Conforms):
    comparison = "sharp"

    def make(self, **changes: Any) -> UserLevelThresholdLearner:
        return super().make(**{"concept_class": ThresholdClass(2**64, both_ways=True), **changes})


# ---- the law --------------------------------------------------------------------------------------------------------


def learner_of(
    comparison: Comparison, relation: Relation, m: int = 2, points: int = 2, *, both_ways: bool = False
) -> UserLevelThresholdLearner:
    """Four tests, a choice of two directions where there are two, and two rounds."""
    return UserLevelThresholdLearner(
        ThresholdClass(points, both_ways=both_ways),
        epsilon=4,
        alpha="0.99",
        resolution="0.1",
        margin="0.2",
        comparison=comparison,
    ).under(relation, Unit("user", m))


def oracle_of(learner: UserLevelThresholdLearner, epsilon: float = 4.0) -> Learner:
    """From the specification's budget: a quarter for tests, a quarter for medians, half for comparisons."""
    one_way = learner.relation in (Relation.ADD_REMOVE, Relation.ZERO_OUT)
    tests, rounds, ways = 4, 2, 1 + learner.concept_class.both_ways
    comparing = epsilon / 2 / (rounds + ways - 1)
    scale = {"paper": 3 / comparing, "noisy_max": (1 if one_way else 2) / comparing}
    unit = learner.unit
    assert unit is not None
    return Learner(
        points=learner.concept_class.points,
        m=unit.max_contributions,
        resolution=0.1,
        margin=0.2,
        masses=(1.0, 0.75),
        tests=tests,
        test_epsilon=epsilon / 4 / tests,
        test_moved=(lambda middle: max(middle, STEPS - middle)) if one_way else (lambda middle: STEPS),
        exponent=epsilon / 4 / rounds / (1 if one_way else 2),
        comparison=learner.comparison,
        scale=scale.get(learner.comparison, (1 if one_way else 2) / comparing),
        ways=ways,
    )


def drawn(learner: UserLevelThresholdLearner, users: Any, size: int) -> Counter[Transcript]:
    assert learner.unit is not None
    run = learner._read(sample_of(users, learner.unit.max_contributions))
    found: Counter[Transcript] = Counter()
    entropy = seeded(11)
    for _ in range(size):
        one = run.learned(entropy)
        answers = tuple(test.passed for test in one.least_error.tests)
        found[answers, int(one.place > learner.concept_class.points), tuple((r.place, r.side) for r in one.rounds)] += 1
        assert all((len(each.heard) > 0) == (learner.comparison == "paper") for each in one.rounds)
    return found


OURS: tuple[User, ...] = (((0, 1), (1, 0)), ((0, 0), (1, 0)), ((0, 1), (0, 1)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("comparison", "relation", "both_ways"),
    [
        ("paper", Relation.REPLACE_ONE, False),
        ("noisy_max", Relation.REPLACE_ONE, False),
        ("sharp", Relation.REPLACE_ONE, False),
        ("sharp", Relation.ADD_REMOVE, False),
        ("sharp", Relation.REPLACE_ONE, True),
        ("noisy_max", Relation.ADD_REMOVE, True),
    ],
)
def test_transcripts_follow_their_law_and_no_other(comparison: Comparison, relation: Relation, both_ways: bool) -> None:
    learner = learner_of(comparison, relation, both_ways=both_ways)
    oracle, louder = oracle_of(learner), oracle_of(learner, epsilon=8.0)
    true, twice = oracle.law(OURS), louder.law(OURS)
    assert math.fsum(true.values()) == pytest.approx(1, abs=1e-9)
    found = drawn(learner, OURS, DRAWS)
    assert set(found) <= set(true)
    counts = {place: found[path] for place, path in enumerate(true)}
    here, there = (dict(enumerate(law[path] for path in true)) for law in (true, twice))
    assert events_p_value(counts, DRAWS, here) > SIGNIFICANCE
    assert events_p_value(counts, DRAWS, there) < SIGNIFICANCE


# ---- privacy --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comparison", "points", "both_ways"),
    [*((comparison, points, False) for comparison in COMPARISONS for points in (1, 2)), ("sharp", 2, True)],
)
@pytest.mark.parametrize("relation", list(Relation), ids=lambda relation: relation.value)
def test_no_pair_of_neighbours_tells_more_than_is_claimed(
    comparison: Comparison, relation: Relation, points: int, both_ways: bool
) -> None:
    learner = learner_of(comparison, relation, points=points, both_ways=both_ways)
    found = worst_loss(oracle_of(learner).law, users_on(points, 2), 2, relation.value)
    assert 0.5 < found <= float(learner.claim().epsilon) + 1e-9


def test_without_shares_rounds_tell_more_than_epsilon() -> None:
    """The faulty twin: each median and each comparison at the whole epsilon."""
    learner = learner_of("sharp", Relation.REPLACE_ONE)
    right = oracle_of(learner, epsilon=1.0)
    wrong = Learner(**{**vars(right), "exponent": 0.5, "scale": 2.0})
    found = worst_loss(wrong.law, users_on(2, 2), 2, "replace_one")
    assert 1.5 < found <= 0.25 + 2 * (1 + 1)


def test_a_direction_that_is_chosen_without_noise_is_told_by_one_user() -> None:
    """The faulty twin: the direction is read off the counts."""

    class Told(Learner):
        def _least(self, counts: list[int]) -> list[float]:
            return [float(counts[0] <= counts[1]), float(counts[0] > counts[1])] if len(counts) == 2 else [1.0]

    twin = Told(**{**vars(oracle_of(learner_of("sharp", Relation.REPLACE_ONE, both_ways=True))), "masses": ()})
    possible = lru_cache(lambda users: {told: chance for told, chance in twin.law(users).items() if chance})
    assert worst_loss(possible, users_on(2, 2), 2, "replace_one") == math.inf


def index_law(counts: list[int], scale: float) -> list[float]:
    """Of the least of counts with discrete Laplace noise, by the oracle."""
    return Learner(1, 1, 0.1, 0.1, (1.0,), 1, 1.0, lambda _: 1, 1.0, "noisy_max", scale)._least(counts)


@pytest.mark.parametrize("monotone", [False, True])
def test_the_index_of_the_least_noisy_count_tells_no_more_than_its_epsilon(monotone: bool) -> None:
    """On all triples near each other, and of half the noise it tells nearly twice as much."""
    epsilon = 1.0
    worst = {1: 0.0, 2: 0.0}
    for halved in worst:
        scale = (1 if monotone else 2) / epsilon / halved
        for counts in ([0, 10, 12], [0, 0, 0], [2, 1, 0], [5, 0, 9], [1, 0, 0]):
            for step in np.ndindex(*([2 if monotone else 3] * 3)):
                other = [a + (s if monotone else s - 1) for a, s in zip(counts, step, strict=True)]
                here, there = index_law(counts, scale), index_law(other, scale)
                worst[halved] = max(worst[halved], *(abs(math.log(p / q)) for p, q in zip(here, there, strict=True)))
    assert 0.9 < worst[1] <= epsilon + 1e-9
    assert 1.8 < worst[2] <= 2 * epsilon + 1e-9


def test_a_level_from_the_sample_itself_has_no_guarantee() -> None:
    """The faulty twin: with the level of the sample's own least error one user moves counts by many."""
    steady: list[User] = [((0, 1), (0, 0))] * 6
    users, other = [*steady, ((0, 1), (0, 1))], [*steady, ((0, 1), (0, 0))]

    def counts(data: list[User], level: int) -> list[int]:
        return [sum(sum((x < v) != y for x, y in user) > level for user in data) for v in (0, 1)]

    def own_level(data: list[User]) -> int:
        errors = [sum((x < v) != y for user in data for x, y in user) for v in (0, 1)]
        return min(errors) // len(data)

    moved = [abs(a - b) for a, b in zip(counts(users, own_level(users)), counts(other, own_level(other)), strict=True)]
    assert max(moved) > 1
    fixed = [abs(a - b) for a, b in zip(counts(users, 0), counts(other, 0), strict=True)]
    assert max(fixed) <= 1


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("relation", list(Relation), ids=lambda relation: relation.value)
@pytest.mark.parametrize("both_ways", [False, True])
def test_its_parts_compose_to_its_claim(comparison: Comparison, relation: Relation, both_ways: bool) -> None:
    concepts = ThresholdClass(2**20, both_ways=both_ways)
    learner = UserLevelThresholdLearner(concepts, epsilon="0.7", alpha="0.1", comparison=comparison)
    placed = learner.under(relation, Unit("user", 25))
    check(placed.claim(), placed.parts(), relation)
    spent = cost(placed.parts(), relation).pure
    assert spent is not None
    share = Decimal("0.525") if relation is Relation.LABEL_FLIP else Decimal("0.7")
    assert share * (1 - Decimal("1e-9")) <= spent <= placed.claim().epsilon <= share
    parts = placed.parts()
    assert isinstance(parts, Sequence)
    estimator, medians, comparisons = parts.of
    assert isinstance(medians, Repeated)
    assert isinstance(comparisons, Repeated)
    assert medians.times == placed.halving.rounds
    assert comparisons.times == placed.halving.rounds + both_ways
    assert estimator == placed.estimator.parts()


# ---- its plan -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "comparison", "needed"),
    [(25, "sharp", 47297), (100, "sharp", 21251), (25, "paper", 118716), (100, "paper", 60013)],
)
def test_its_plan_asks_for_as_many_users_as_the_specification(m: int, comparison: Comparison, needed: int) -> None:
    """Discrete noise needs a step more a round, which is less than one in a thousand."""
    found = threshold_users(ThresholdClass(2**20), m, "0.1", "0.1", epsilon=1, comparison=comparison)
    assert needed <= found.needed <= needed * 1.001
    if comparison == "sharp":
        assert found.needed == needed
    inside = {name: float(value) for name, value in found.inside}
    assert 2 * inside["resolution"] + inside["margin"] + inside["remaining"] <= 0.1
    assert "conservative" in found.words()


def test_a_plan_follows_what_is_given() -> None:
    fixed = threshold_users(ThresholdClass(2**20), 100, "0.1", "0.1", epsilon=1, resolution="0.0125", margin="0.05")
    free = threshold_users(ThresholdClass(2**20), 100, "0.1", "0.1", epsilon=1)
    one_way = threshold_users(ThresholdClass(2**20), 100, "0.1", "0.1", epsilon=1, monotone=True)
    assert dict(fixed.inside)["remaining"] == Decimal("0.025")
    assert one_way.needed <= free.needed <= fixed.needed
    with pytest.raises(InfeasiblePlan, match="smaller resolution"):
        threshold_users(ThresholdClass(2**20), 100, "0.1", "0.1", epsilon=1, resolution="0.05", margin="0.05")
    for alpha in ("1e-30", "1e-59"):
        with pytest.raises(InfeasiblePlan, match="a larger alpha"):
            threshold_users(ThresholdClass(8), 1, alpha, "0.1", epsilon=1)


def test_two_directions_ask_for_one_comparison_more() -> None:
    one, two = (ThresholdClass(2**20, both_ways=both_ways) for both_ways in (False, True))
    few, more = (threshold_users(concepts, 100, "0.1", "0.1", epsilon=1).needed for concepts in (one, two))
    assert few < more < 1.2 * few


# ---- how it does ----------------------------------------------------------------------------------------------------


def failures(n: int, noise: float, runs: int, comparison: Comparison = "sharp") -> int:
    """Of so many runs on users of 100 examples with flipped labels, whose error was more than 0.1 above the least."""
    size = 2**20
    learner = UserLevelThresholdLearner(ThresholdClass(size), epsilon=1, alpha="0.1", comparison=comparison)
    learner = learner.under(Relation.REPLACE_ONE, Unit("user", 100))
    rng, failed = np.random.default_rng(17), 0
    for seed in range(runs):
        u = int(rng.integers(0, size + 1))
        x = rng.integers(0, size, (n, 100))
        y = (x < u) ^ (rng.random(x.shape) < noise)
        found = learner.release(UserSample(x, y), entropy=seeded(seed)).value
        failed += abs(found.place - u) / size * (1 - 2 * noise) > 0.1
    return failed


def test_a_few_thousand_users_are_enough() -> None:
    assert failures(3000, 0.0, 5) == failures(3000, 0.2, 5) == 0


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_three_thousand_users_do_not_fail_in_a_hundred_runs(noise: float) -> None:
    assert failures(3000, noise, 100) == 0


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("comparison", ["sharp", "paper"])
def test_fewer_users_fail_no_more_often_than_is_published(noise: float, comparison: Comparison) -> None:
    """3 to 7 in a hundred runs with a thousand users, 18 to 29 with three hundred, of a population that is not said; of
    uniform points we see none, and 1 to 18."""
    assert failures(1000, noise, 100, comparison) <= 7
    assert failures(300, noise, 100, comparison) <= 29


def released(first: str, concepts: ThresholdClass, comparison: Comparison) -> float:
    """The error of what is learned where the low points have this label."""
    x = np.random.default_rng(1).integers(0, 2**32, (1000, 50))
    y = (x < 2**31) == (first == "yes")
    learner = UserLevelThresholdLearner(concepts, epsilon=4, alpha="0.2", comparison=comparison)
    found = learner.under(Relation.REPLACE_ONE, Unit("user", 50)).release(UserSample(x, y), entropy=seeded(1)).value
    assert isinstance(found, Hypothesis)
    return float((found.predict(x.reshape(-1)) != y.reshape(-1)).mean())


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("first", ["yes", "no"])
def test_which_of_two_words_comes_first_does_not_decide_what_can_be_learned(first: str, comparison: Comparison) -> None:
    assert released(first, ThresholdClass(2**32, both_ways=True), comparison) < 0.1
    assert (released(first, ThresholdClass(2**32), comparison) > 0.4) == (first == "no")


def test_ten_users_fail() -> None:
    assert failures(10, 0.2, 20) > 5


def test_where_no_error_is_told_apart_any_threshold_does() -> None:
    """Labels that follow no threshold: the upper end of the search is too near to 1."""
    x = np.tile([0, 7], (400, 1))
    learner = UserLevelThresholdLearner(
        ThresholdClass(8), epsilon=50, alpha="0.95", resolution="0.2", margin="0.4"
    ).under(Relation.REPLACE_ONE, Unit("user", 2))
    found = learner.release(UserSample(x, np.tile([0, 1], (400, 1))), entropy=seeded(1)).value
    assert found.least_error.high + Decimal("0.4") >= 1
    assert (found.place, found.rounds) == (0, ())


def test_the_least_of_one_count_is_that_count() -> None:
    for comparison in COMPARISONS:
        assert least_of([7], comparison, Decimal(1), monotone=False, entropy=seeded(1)).place == 0


@pytest.mark.parametrize(
    ("epsilon", "shares"),
    [("1e-12", ("0.25", "0.25")), ("1e-10", ("0.9999999", "1e-9")), ("0.01", ("0.5", "1e-60"))],
    ids=["tests", "comparisons", "medians"],
)
def test_what_is_too_small_to_draw_by_is_refused_before_it_is_charged(epsilon: str, shares: tuple[str, str]) -> None:
    book = Ledger.in_memory()
    scope = book.scope("people", unit=Unit("user", 4), relation="replace_one", budget=PureDP(1))

    def released() -> object:
        learner = UserLevelThresholdLearner(
            ThresholdClass(8),
            epsilon=epsilon,
            alpha="0.5",
            comparison="paper",
            estimate_share=shares[0],
            median_share=shares[1],
            resolution="0.05",
            margin="0.1",
        )
        return scope.release(learner, UserSample(np.zeros((3, 4)), np.zeros((3, 4))))

    with pytest.raises(ParameterError, match="epsilon"):
        released()
    assert scope.spent(0).upper == 0


def test_the_order_of_users_and_of_their_examples_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 2**62, (200, 9)), rng.integers(0, 2, (200, 9))
    learner = UserLevelThresholdLearner(ThresholdClass(2**62), epsilon=1, alpha="0.3")
    learner = learner.under(Relation.REPLACE_ONE, Unit("user", 9))
    users, own = rng.permutation(200), rng.permutation(9)
    found = [
        learner.release(UserSample(x[i][:, j], y[i][:, j]), entropy=seeded(2)).value
        for i, j in ((slice(None), slice(None)), (users, own))
    ]
    assert found[0] == found[1]


# ---- in a ledger ----------------------------------------------------------------------------------------------------


def test_a_release_leaves_an_entry_without_the_data_or_the_path() -> None:
    book = Ledger.in_memory()
    scope = book.scope("people", unit=Unit("user", 4), relation="add_remove", budget=PureDP(1))
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2**20, (300, 4))
    receipt = scope.release(
        UserLevelThresholdLearner(ThresholdClass(2**20), epsilon=1, alpha="0.4"), UserSample(x, x < 2**19)
    )
    assert isinstance(receipt.value, Hypothesis)
    assert receipt.value.output_in_class
    assert receipt.value.predict([0, 2**20 - 1]).tolist() in ([1, 0], [0, 0], [1, 1])
    *_, last = (entry.body for entry in book.entries() if isinstance(entry.body, Reserved))
    kept = last.mechanism.parameters
    assert kept["epsilon_comparisons"] == "0.5"
    assert kept["mass_bounds"][:2] == ["1", "0.75"]  # type: ignore[index]
    with pytest.raises(BudgetRefused):
        scope.release(UserLevelThresholdLearner(ThresholdClass(2**20), epsilon=1, alpha="0.4"), UserSample(x, x < 3))
    book.verify()


def test_a_run_that_breaks_midway_is_charged_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Ledger.in_memory()
    scope = book.scope("people", unit=Unit("user", 4), relation="replace_one", budget=PureDP(1))
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2**20, (300, 4))

    def broken(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("dpledger.mechanisms.learning.users.thresholds.least_of", broken)
    learner = UserLevelThresholdLearner(ThresholdClass(2**20), epsilon=1, alpha="0.4")
    with pytest.raises(ContractViolation):
        scope.release(learner, UserSample(x, x < 2**19))
    assert scope.spent(0).upper == pytest.approx(1)
    book.verify()
