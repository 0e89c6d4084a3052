"""Contracts of learners: kept at the planned sizes, broken by learners that are wrong, and exact where all samples are
walked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpledger.audit.learning.contracts import check_contract, exact_failure
from dpledger.audit.learning.populations import Population, hard_populations, noisy
from dpledger.errors import ClaimTooSmall, ParameterError, WorkLimit
from dpledger.mechanisms.learning.baselines import occam_learner, threshold_learner
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.hypotheses import Concept, Hypothesis
from dpledger.mechanisms.learning.parities.parity_learners import FAIL, PrivateParityLearner, RepeatedParity
from dpledger.mechanisms.learning.representations.representation_learners import RealizableRepresentationLearner
from dpledger.mechanisms.learning.representations.representations import HashedPointRepresentation
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.theory.concepts import (
    ConceptClass,
    FiniteClass,
    ParityClass,
    PointClass,
    ThresholdClass,
    matrix_of,
)
from dpledger.mechanisms.learning.theory.contracts import (
    AgnosticContract,
    PACContract,
    PPACContract,
)
from dpledger.mechanisms.learning.theory.parity_sizes import parity_plan
from dpledger.mechanisms.learning.theory.sizes import occam
from dpledger.mechanisms.learning.users.clipped_pairwise import ClippedPairwiseEM
from dpledger.mechanisms.learning.users.user_learners import UserLevelProperLearner
from dpledger.relations import Relation, Unit
from learning_oracle import exponential_law

pytestmark = pytest.mark.sliced

FOUR = ThresholdClass(4)
TILTED = Population("tilted", ((0, 1), (1, 1), (2, 0), (3, 0)), (50, 16, 17, 17))


def test_the_failure_of_the_specification() -> None:
    """Thresholds on four points, n = 25, alpha = .15, epsilon = 1."""
    learner = ExponentialPPACLearner(FOUR, epsilon=1)
    assert exact_failure(learner, PACContract("0.15", "0.1"), 25, TILTED) == pytest.approx(0.269149, abs=1e-6)
    bound = 4 * (1 - 0.15 * (1 - math.exp(-0.5))) ** 25
    assert bound == pytest.approx(0.874, abs=5e-4)
    for population in hard_populations(FOUR, "0.15"):
        assert exact_failure(learner, PACContract("0.15", "0.1"), 25, population) <= bound


def test_the_exact_failure_is_that_of_all_sequences() -> None:
    learner, law = ExponentialPPACLearner(FOUR, epsilon=2), exponential_law(matrix_of(FOUR), 1.0)
    noised = noisy(TILTED, "0.25")
    chances = [w / sum(noised.weights) for w in noised.weights]
    fails = [noised.error(Concept(FOUR, u)) > noised.least_error(FOUR) + Fraction(3, 20) for u in range(5)]
    expected = 0.0
    for drawn in itertools.product(range(8), repeat=3):
        chance = math.prod(chances[at] for at in drawn)
        expected += chance * float(law([noised.examples[at] for at in drawn])[fails].sum())
    assert exact_failure(learner, AgnosticContract("0.15", "0.1"), 3, noised) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "concepts",
    [PointClass(5), FOUR, ParityClass(2), FiniteClass([[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 0]])],
    ids=str,
)
def test_planned_sizes_keep_the_contract(concepts: ConceptClass) -> None:
    learner = ExponentialPPACLearner(concepts, epsilon=4)
    contract = PACContract("0.25", "0.2")
    n = learner.plan("0.25", "0.2").needed
    found = check_contract(learner, contract, n, hard_populations(concepts, "0.25"), relation="replace_one", trials=400)
    assert found.verdict == "not_refuted"
    assert found.met
    private = PPACContract("0.25", "0.2", 4)
    some = hard_populations(concepts, "0.25")[:2]
    assert check_contract(learner, private, n, some, relation="replace_one", trials=400).met


def test_an_agnostic_plan_keeps_the_agnostic_contract() -> None:
    learner, contract = ExponentialPPACLearner(ThresholdClass(1000), epsilon=2), AgnosticContract("0.25", "0.2")
    populations = [noisy(one, "0.2") for one in hard_populations(ThresholdClass(1000), "0.25")[::7]]
    n = learner.plan("0.25", "0.2", agnostic=True).needed
    found = check_contract(learner, contract, n, populations, trials=200)
    assert found.met
    assert {one.how for one in found.findings} == {"exact", "sampled"} or found.worst.how == "sampled"


def test_learners_without_privacy_keep_theirs() -> None:
    for concepts, learn in (
        (ThresholdClass(2**40), lambda sample, rng: threshold_learner(ThresholdClass(2**40), sample)),
        (PointClass(64), lambda sample, rng: occam_learner(PointClass(64), sample)),
    ):
        n = occam(64, "0.1", "0.1").needed
        some = hard_populations(concepts, "0.1")[:6]
        assert check_contract(learn, PACContract("0.1", "0.1"), n, some, concepts=concepts, trials=300).met


def test_no_answer_breaks_every_contract() -> None:
    found = check_contract(lambda sample, rng: FAIL, PACContract("0.2", "0.2"), 5, [TILTED], concepts=FOUR, trials=50)
    assert (found.verdict, found.worst.failures) == ("violation", 50)


def test_parities_and_hashed_points_keep_theirs_at_planned_sizes() -> None:
    parities, points = ParityClass(4), PointClass(2**20)
    plan = parity_plan(4, "0.25", "0.2", epsilon=2, relation=Relation.REPLACE_ONE)
    parity = RepeatedParity(4, epsilon=2, stop_probability=dict(plan.inside)["stop probability"])
    hashed = HashedPointRepresentation(dimension=20, bits=12, a="0.0125", seed=7)
    pointed = RealizableRepresentationLearner(representation=hashed, epsilon=1)
    assert pointed.under(Relation.REPLACE_ONE, Unit()).plan("0.1", "0.05").needed == 385
    for learner, contract, n, concepts, trials in (
        (parity, PPACContract("0.25", "0.2", 2), plan.needed, parities, 1200),
        (pointed, PPACContract("0.1", "0.05", 1), 385, points, 400),
    ):
        some = hard_populations(concepts, contract.alpha)[:: 60 if concepts is points else 40]
        found = check_contract(
            learner, contract, n, some, concepts=concepts, trials=trials, relation="replace_one", error="1e-3"
        )
        assert found.met, found.worst


@pytest.mark.slow
def test_parities_of_twelve_bits_keep_theirs_at_the_published_size() -> None:
    learner = RepeatedParity(12, epsilon=1, stop_probability="0.0256")
    assert learner.under(Relation.REPLACE_ONE, Unit()).plan("0.1", "0.05").needed == 386
    some = hard_populations(ParityClass(12), "0.1")[:3:2]
    found = check_contract(
        learner,
        PPACContract("0.1", "0.05", 1),
        386,
        some,
        concepts=ParityClass(12),
        trials=1500,
        relation="replace_one",
        error="1e-3",
    )
    assert found.met, found.worst


def test_parities_of_many_bits_are_compared_by_elimination_and_not_by_weighing_each() -> None:
    concepts, plan = ParityClass(64), parity_plan(64, "0.25", "0.2", epsilon=2, relation=Relation.REPLACE_ONE)
    learner = RepeatedParity(64, epsilon=2, stop_probability=dict(plan.inside)["stop probability"])
    some = hard_populations(concepts, "0.25")[1:3]
    found = check_contract(
        learner, PACContract("0.25", "0.2"), plan.needed, some, concepts=concepts, trials=60, relation="replace_one"
    )
    assert found.verdict == "not_refuted"
    neither = Population("neither", ((3, 1), (3, 0)), (1, 1))
    with pytest.raises(WorkLimit, match="64 bits"):
        check_contract(learner, AgnosticContract("0.25", "0.2"), 9, [neither], concepts=concepts)
    with pytest.raises(ParameterError, match="65 bits"):
        hard_populations(ParityClass(65), "0.25")


def test_a_learner_of_normalised_scores_breaks_the_contract() -> None:
    """exp(epsilon q / (2n)): private, and useless."""
    law = exponential_law(matrix_of(FOUR), 1 / (2 * 100))

    def learn(sample: LabeledSample, rng: np.random.Generator) -> Hypothesis:
        pairs = list(zip(np.asarray(sample.x).tolist(), np.asarray(sample.y).tolist(), strict=True))
        return Concept(FOUR, int(rng.choice(5, p=law(pairs))))

    found = check_contract(learn, PACContract("0.2", "0.2"), 100, [TILTED], concepts=FOUR, trials=300)
    assert found.verdict == "violation"
    assert not found.met
    assert found.worst.lower > 0.2


def test_a_learner_is_compared_with_the_class_that_was_named() -> None:
    """Whether its law is enumerated or its runs are counted. One that knows the constant 0 alone is no learner of
    thresholds, though it keeps every contract beside itself."""
    nothing, contract = FiniteClass([[0, 0, 0, 0]]), AgnosticContract("0.1", "0.1")
    learner = ExponentialPPACLearner(nothing, epsilon=4)
    assert check_contract(learner, contract, 10, [TILTED]).met
    exact = check_contract(learner, contract, 10, [TILTED], concepts=FOUR)
    counted = check_contract(lambda sample, rng: Concept(nothing, 0), contract, 10, [TILTED], concepts=FOUR, trials=100)
    assert (exact.worst.how, counted.worst.how) == ("exact", "sampled")
    assert (exact.verdict, counted.verdict) == ("violation", "violation")
    assert check_contract(learner, PACContract("0.1", "0.1"), 10, [TILTED], concepts=FOUR).verdict == "violation"


def test_an_answer_without_a_hypothesis_keeps_no_contract() -> None:
    """Parities of twelve bits, repeated until success: 386 examples are enough; of one that says FAIL half of the time
    no number is."""
    concepts, contract = ParityClass(12), PACContract("0.1", "0.05")
    repeated = RepeatedParity(dimension=12, epsilon=1, stop_probability="0.02").under(Relation.REPLACE_ONE, Unit())
    n = repeated.plan("0.1", "0.05").needed
    some = hard_populations(concepts, "0.1")[:3]
    kept = check_contract(repeated, contract, n, some, concepts=concepts, relation=Relation.REPLACE_ONE, trials=300)
    assert kept.verdict == "not_refuted"
    once = PrivateParityLearner(dimension=12, epsilon=1)
    broken = check_contract(once, contract, n, some, concepts=concepts, trials=300)
    assert broken.verdict == "violation"
    assert broken.worst.failures > 100


@pytest.mark.parametrize("answer", [None, 3, "fail"], ids=str)
def test_what_is_no_hypothesis_is_refused(answer: Any) -> None:
    with pytest.raises(ParameterError, match="learner"):
        check_contract(lambda sample, rng: answer, PACContract("0.2", "0.2"), 5, [TILTED], concepts=FOUR, trials=2)


def of_users(learner: Any, needed: Callable[[Any], int]) -> tuple[Any, int]:
    """A learner, and how many users of 25 examples its plan asks for."""
    return learner, needed(learner.under(Relation.REPLACE_ONE, Unit("user", max_contributions=25)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "needed"),
    [
        of_users(UserLevelProperLearner.planned(FOUR, 25, "0.2", "0.2", epsilon=2), lambda one: one.plan("0.2").needed),
        of_users(ClippedPairwiseEM(FOUR, epsilon=2, clip=12), lambda one: one.plan("0.2", "0.2").needed),
        of_users(
            ExponentialPPACLearner(FOUR, epsilon=2),
            lambda one: -(-one.plan("0.2", "0.2", agnostic=True).needed // 25),
        ),
    ],
    ids=["by users", "clipped pairs", "group privacy"],
)
def test_learners_of_users_keep_theirs_with_as_many_users_as_planned_and_not_with_one(
    learner: Any, needed: int
) -> None:
    contract = AgnosticContract("0.2", "0.2")
    some = [noisy(one, "0.1") for one in hard_populations(FOUR, "0.2")[::7]]
    trials = 250 if isinstance(learner, ExponentialPPACLearner) else 100
    kept = check_contract(
        learner, contract, needed, some, examples=25, trials=trials, relation="replace_one", error="1e-3"
    )
    assert kept.met
    assert check_contract(learner, contract, 1, some, examples=25, trials=200, relation="replace_one").verdict == (
        "violation"
    )


def test_users_are_independent_draws_of_a_population() -> None:
    drawn = TILTED.users(4000, 3, np.random.default_rng(3))
    assert drawn.x.shape == drawn.y.shape == (4000, 3)
    labels = dict(TILTED.examples)
    assert {(int(x), int(y)) for x, y in zip(drawn.x.ravel(), drawn.y.ravel(), strict=True)} == set(labels.items())
    shares = np.array(TILTED.weights) / sum(TILTED.weights)
    for column in drawn.x.T:
        seen = np.array([int((column == point).sum()) for point, _ in TILTED.examples])
        assert stats.chisquare(seen, 4000 * shares).pvalue > 1e-6


def test_a_contract_of_privacy_needs_the_privacy() -> None:
    learner = ExponentialPPACLearner(FOUR, epsilon=1)
    contract = PPACContract("0.2", "0.2", "0.5")
    assert check_contract(learner, contract, 10, [TILTED], relation=Relation.ADD_REMOVE).n == 10
    with pytest.raises(ClaimTooSmall):
        check_contract(learner, contract, 10, [TILTED], relation=Relation.REPLACE_ONE)
    with pytest.raises(ParameterError, match="a function promises no privacy"):
        check_contract(lambda sample, rng: Concept(FOUR, 0), contract, 10, [TILTED], concepts=FOUR)


def test_no_evidence_is_no_verdict() -> None:
    learner = ExponentialPPACLearner(FOUR, epsilon=1)
    with pytest.raises(ParameterError, match="populations"):
        check_contract(learner, PACContract("0.2", "0.2"), 10, [])
    with pytest.raises(ParameterError, match="a concept of the class"):
        check_contract(learner, PACContract("0.2", "0.2"), 10, [noisy(TILTED, "0.1")])
    with pytest.raises(ParameterError, match="concepts"):
        check_contract(lambda sample, rng: Concept(FOUR, 0), PACContract("0.2", "0.2"), 10, [TILTED])
    with pytest.raises(WorkLimit):
        exact_failure(learner, PACContract("0.2", "0.2"), 10**6, TILTED)
    for bad in (((), ()), (((0, 1),), (0,)), (((0, 2),), (1,)), (((0, 1),), (1, 2))):
        with pytest.raises(ParameterError):
            Population("bad", *bad)
