"""Medians, noisy counts and halved thresholds of the zoo: each true loss again, by enumeration or integration; the
auditor finds every fault and no other."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace

from dpledger.accounting.guarantees import PureDP
from dpledger.audit import audit_outputs
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.users.median import UserLevelMedian
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from house_cases import HOUSE
from house_cases.learning.medians import MEDIANS, HalvedThreshold, MedianOfUsers
from judged_cases import judged
from threshold_learner_oracle import Learner

pytestmark = pytest.mark.sliced

WITH_A_LAW = [name for name, shown in MEDIANS.items() if hasattr(shown.mechanism, "law")]


def law_of(name: str, data: Any) -> dict[Any, float]:
    found = MEDIANS[name].mechanism.law(data)  # type: ignore[attr-defined]
    return dict(found) if isinstance(found, dict) else dict(enumerate(found.tolist()))


@pytest.mark.parametrize("name", MEDIANS)
def test_every_case_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    result = judged(name, trials=60_000)
    assert 0 < result.epsilon_lower <= HOUSE[name].true_epsilon


@pytest.mark.parametrize("name", WITH_A_LAW)
def test_the_true_loss_of_a_law_is_that_of_its_two_sides(name: str) -> None:
    here, there = (law_of(name, side) for side in (MEDIANS[name].left, MEDIANS[name].right))
    assert here.keys() == there.keys()
    worst = max(abs(math.log(here[key] / there[key])) for key in here)
    assert worst == pytest.approx(MEDIANS[name].true_epsilon, abs=1e-9)


def chance_of_least(counts: Sequence[int], scale: float) -> float:
    """That the first is the least, with Laplace noise on each."""

    def density(z: float) -> float:
        others = math.prod(float(laplace.sf(z - count, scale=scale)) for count in counts[1:])
        return float(laplace.pdf(z - counts[0], scale=scale)) * others

    edges = [min(counts) - 80, *sorted(set(counts)), max(counts) + 80]
    return sum(quad(density, a, b, epsabs=1e-14, limit=200)[0] for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize(("name", "scale"), [("least_noisy_count", 2.0), ("least_noisy_count_half_noise", 1.0)])
def test_the_true_loss_of_the_least_count_by_integration(name: str, scale: float) -> None:
    left, right = (chance_of_least(side, scale) for side in (MEDIANS[name].left, MEDIANS[name].right))  # type: ignore[arg-type]
    assert math.log(left / right) == pytest.approx(MEDIANS[name].true_epsilon, abs=1e-7)


def test_half_of_the_noise_loses_nearly_twice_the_claim() -> None:
    """The number of the specification."""
    left, right = chance_of_least((12, 2, 0), 1.0), chance_of_least((13, 1, -1), 1.0)
    assert math.log(left / right) == pytest.approx(1.999996, abs=1e-6)


def worst_of_medians(median: MedianOfUsers, m: int) -> float:
    """On all pairs of four users with m points from 0 to 3."""
    every = list(itertools.combinations_with_replacement(range(4), m))
    law = lru_cache(maxsize=None)(lambda users: np.log(median.law(users)))
    return max(
        float(np.abs(law(users) - law(tuple(sorted((*users[:at], *users[at + 1 :], other))))).max())
        for users in itertools.combinations_with_replacement(every, 4)
        for at in range(4)
        for other in every
    )


@pytest.mark.parametrize(
    ("name", "m"), [("median_of_users", 2), ("median_of_points", 2), ("median_of_three_points", 3)]
)
def test_the_pair_of_a_median_is_the_worst_of_all(name: str, m: int) -> None:
    shown: Any = MEDIANS[name]
    assert worst_of_medians(shown.mechanism, m) == pytest.approx(shown.true_epsilon, abs=1e-9)


@pytest.mark.parametrize("name", ["halved_threshold", "halved_threshold_without_shares"])
def test_a_halved_threshold_is_the_learner_without_its_estimate(name: str) -> None:
    """Against the oracle's rounds at a level of 0."""
    shown: Any = MEDIANS[name]
    given: HalvedThreshold = shown.mechanism
    levels = (0.01,) * given.rounds  # masses so small that one point counts
    oracle = Learner(
        2, 2, 0.1, 0.1, levels, 1, 1.0, lambda _: 1, float(given.median_exponent), "sharp", 1 / float(given.exponent)
    )
    sides = {"left": 0, "here": 1, "right": 2}
    for data in (shown.left, shown.right):
        wanted = {
            tuple(number for w, side in path for number in (w, sides[side])): chance
            for path, chance in oracle._rounds(data, 0, 0, 0, 2, 0, ())
        }
        assert given.law(data) == pytest.approx(wanted)


@pytest.mark.parametrize("name", WITH_A_LAW)
def test_implementations_draw_from_their_law(name: str) -> None:
    shown: Any = MEDIANS[name]
    law = law_of(name, shown.left)
    if isinstance(shown.mechanism, HalvedThreshold):
        law = {shown.mechanism.number(path): chance for path, chance in law.items()}
    drawn = Counter(shown.mechanism(shown.left, 20_000, np.random.default_rng(5)).tolist())
    assert events_p_value(drawn, 20_000, law) > SIGNIFICANCE


@pytest.mark.slow
def test_our_own_median_is_found_to_keep_its_claim_and_no_smaller_one() -> None:
    shown: Any = MEDIANS["median_of_users"]
    median = UserLevelMedian(points=4, epsilon=1, mass="0.1").under(Relation.REPLACE_ONE, Unit("user", 2))
    left, right = (UserSample(np.array(side), np.zeros((4, 2))) for side in (shown.left, shown.right))
    entropy = seeded(3)
    outputs = [median.sample(side, 12_000, entropy).tolist() for side in (left, right)]
    assert events_p_value(Counter(outputs[0]), 12_000, law_of("median_of_users", shown.left)) > SIGNIFICANCE
    for epsilon, verdict in (("1", "not_refuted"), ("0.4", "violation")):
        assert audit_outputs(outputs[0], outputs[1], PureDP(epsilon), relation="replace_one").verdict == verdict
