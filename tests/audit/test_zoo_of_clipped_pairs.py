"""Clipped comparisons of the zoo: each true loss again, from the learner's own scores; the auditor finds the fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpledger.mechanisms.learning.samples import UserSample
from dpledger.mechanisms.learning.theory.concepts import FiniteClass
from dpledger.mechanisms.learning.users.clipped_pairwise import ClippedPairwiseEM, clipped_pairwise_scores
from dpledger.relations import Relation, Unit
from house_cases import HOUSE
from house_cases.learning.clipped import CLIPPED, preferring
from judged_cases import judged

CONCEPTS = FiniteClass([[int(not x >> h & 1) for x in range(16)] for h in range(4)])
"""At point x, those concepts are 0 whose bit x has: an example (x, 1) is a mistake of these."""


def users_of(orders: Any) -> UserSample:
    """Three examples a user: the last three of the order err on one, the last two on another, the last on the third."""
    x = np.array([[sum(1 << h for h in order[first:]) for first in (1, 2, 3)] for order in orders])
    return UserSample(x, np.ones_like(x))


def loss_of(name: str) -> float:
    shown: Any = HOUSE[name]
    logs = []
    for orders in (shown.left, shown.right):
        scores = clipped_pairwise_scores(CONCEPTS, users_of(orders), 1)
        weights = np.exp(float(shown.mechanism.exponent) * (scores - scores.max()))
        logs.append(np.log(weights / weights.sum()))
        assert np.exp(logs[-1]).tolist() == pytest.approx(shown.mechanism.law(orders).tolist())
    return float(np.abs(logs[0] - logs[1]).max())


@pytest.mark.parametrize("name", CLIPPED)
def test_the_loss_of_every_case(name: str) -> None:
    assert loss_of(name) == pytest.approx(HOUSE[name].true_epsilon, abs=1e-6)


def test_the_learner_has_the_exponent_at_which_a_circle_of_preferences_attains_its_claim() -> None:
    learner = ClippedPairwiseEM(CONCEPTS, epsilon=1, clip=1).under(Relation.REPLACE_ONE, Unit("user", 3))
    right, once = (HOUSE[name].mechanism for name in CLIPPED)
    assert learner.exponent == right.exponent == once.exponent / 2  # type: ignore[attr-defined]
    assert HOUSE["clipped_pairs"].tight
    assert loss_of("clipped_pairs") > 0.999


def test_pairs_of_users_are_of_one_opinion_only() -> None:
    scores = clipped_pairwise_scores(CONCEPTS, users_of(preferring(2, 0)), 1)
    assert scores.tolist() == [-2, 0, 0, 0]


@pytest.mark.parametrize("name", CLIPPED)
def test_every_case_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    result = judged(name, trials=60_000)
    assert result.epsilon_lower <= HOUSE[name].true_epsilon
