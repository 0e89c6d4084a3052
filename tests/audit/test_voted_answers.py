"""The losses that the zoo states for answers by votes, by the exact law of their transcripts.

Here they are quadrature; and an auditor finds each of them by sampling.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from house_cases import HOUSE
from house_cases.stability.aggregates import BASE, UNSTABLE
from house_cases.stability.voted import VOTED
from judged_cases import judged
from sparse_vector_oracle import Law, Noise, hockey_stick

pytestmark = pytest.mark.sliced

FINITE = (
    "voted_answers",
    "voted_answers_whole_gap",
    "voted_answers_overlap_of_two",
    "voted_answers_overlap_of_three",
)


def patterns(name: str, data: Any) -> dict[str, float]:
    """Which queries are answered ("1"), up to the one that ends it: the exact law."""
    implementation: Any = HOUSE[name].mechanism
    votes = implementation.votes(data)
    ahead = 2 * votes.sum(axis=0) - len(votes)
    threshold, query = (
        Noise(float(scale), False) for scale in (implementation.threshold_scale, implementation.query_scale)
    )
    law = Law(threshold, query, float(implementation.threshold), implementation.cutoffs(data))
    return law.distribution(implementation.distances(ahead).tolist())


def code(pattern: str, value: int, queries: int) -> int:
    """The outcome of a transcript in which all answers are of one class."""
    digits = [1 + value if bit == "1" else UNSTABLE for bit in pattern] + [0] * (queries - len(pattern))
    return sum(digit * BASE ** (queries - 1 - place) for place, digit in enumerate(digits))


def epsilon_at(left: dict[str, float], right: dict[str, float], delta: float) -> float:
    if hockey_stick(left, right, 0.0) <= delta:
        return 0.0
    return float(brentq(lambda epsilon: hockey_stick(left, right, epsilon) - delta, 0.0, 20.0, xtol=1e-13))


TRIALS = {
    "voted_answers": 100_000,
    "voted_answers_whole_gap": 100_000,
    "voted_answers_overlap_of_two": 200_000,
    "classifier_half_count": 100_000,
}


@pytest.mark.parametrize("name", VOTED)
def test_every_case_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    result = judged(name, trials=TRIALS.get(name, 20_000))
    assert 0 < result.epsilon_lower <= VOTED[name].true_epsilon


@pytest.mark.parametrize("name", FINITE)
def test_it_loses_on_its_pair_what_is_stated(name: str) -> None:
    shown = HOUSE[name]
    left, right = (patterns(name, data) for data in (shown.left, shown.right))
    claim: Any = shown.claim
    delta = float(claim.delta)
    worst = max(epsilon_at(left, right, delta), epsilon_at(right, left, delta))
    assert worst == pytest.approx(shown.true_epsilon, abs=1e-9)
    assert shown.faulty == (name != "voted_answers")


@pytest.mark.parametrize(
    ("name", "answered", "chances"),
    [
        ("voted_answers", 9, (0.0054285311, 0.0020096392)),
        ("voted_answers_whole_gap", 9, (0.0218360177, 0.0033112777)),
        ("voted_answers_overlap_of_two", 5, (0.0107008876, 0.0015546696)),
        ("voted_answers_overlap_of_three", 5, (0.0265285215, 0.0015546696)),
    ],
)
def test_the_event_that_tells_most(name: str, answered: int, chances: tuple[float, float]) -> None:
    """All but the last query answered: published probabilities, and a log ratio that is the stated loss."""
    event = "1" * answered + "0"
    found = tuple(patterns(name, data)[event] for data in (HOUSE[name].left, HOUSE[name].right))
    assert found == pytest.approx(chances, abs=5e-11)
    assert math.log((found[0] - 1e-4) / found[1]) == pytest.approx(HOUSE[name].true_epsilon, abs=1e-9)


def test_a_shift_of_all_chunks_turns_a_sure_answer() -> None:
    name = "voted_answers_runs_of_a_list"
    votes = [HOUSE[name].mechanism.votes(data) for data in (HOUSE[name].left, HOUSE[name].right)]  # type: ignore[attr-defined]
    assert [set(table.ravel().tolist()) for table in votes] == [{0}, {1}]
    assert patterns(name, HOUSE[name].left)["1"] == pytest.approx(0.98354, abs=5e-6)


def test_a_half_count_passes_too_often_where_one_vote_decides() -> None:
    name = "classifier_half_count"
    unstable = patterns(name, HOUSE[name].left)["00"]
    assert 1 - unstable == pytest.approx(0.0564888512, abs=5e-11)
    right = patterns("classifier_half_count", HOUSE[name].right)["00"]
    assert 1 - right == pytest.approx(0.05, abs=1e-9)  # a tie: the distance is 0, and the claim is met with equality


def test_outcomes_are_transcripts() -> None:
    """The sampler's codes have the frequencies of the law, each within six deviations."""
    shown, runs = HOUSE["voted_answers_overlap_of_two"], 200_000
    drawn = shown.mechanism(shown.left, runs, np.random.default_rng(20261122))
    for pattern, chance in patterns("voted_answers_overlap_of_two", shown.left).items():
        hits = int((drawn == code(pattern, 0, 6)).sum())
        assert abs(hits - runs * chance) <= 6 * math.sqrt(runs * chance * (1 - chance)) + 6
