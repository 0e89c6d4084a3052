"""Trainings of the zoo: their true losses again, by the formula of Gaussians; the auditor finds every fault."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dpledger as dpl
from dpledger.mechanisms.training.factor import column_norm
from house_cases import HOUSE
from house_cases.training import FACTOR, NORM, TRAINED, Turns
from judged_cases import judged

pytestmark = pytest.mark.sliced


def gaussian_delta(apart: float, epsilon: float) -> float:
    """Balle-Wang 2018, theorem 8."""
    a, b = apart / 2 - epsilon / apart, -apart / 2 - epsilon / apart
    return float(stats.norm.cdf(a) - math.exp(epsilon) * stats.norm.cdf(b))


@pytest.mark.parametrize("name", TRAINED)
def test_every_case_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    result = judged(name, trials=6_000)
    assert 0 < result.epsilon_lower <= HOUSE[name].true_epsilon


@pytest.mark.parametrize("name", TRAINED)
def test_the_true_loss_is_that_of_two_gaussians_but_for_the_quarters(name: str) -> None:
    case: Any = TRAINED[name]
    mechanism: Turns = case.mechanism
    assert gaussian_delta(mechanism.apart, case.true_epsilon) == pytest.approx(0.01, rel=0.1)
    for people in (0, 1):
        law = mechanism.law(people)
        assert math.fsum(law.values()) == pytest.approx(1, abs=1e-12)
        drawn = mechanism(people, 20_000, np.random.default_rng(5))
        assert abs(float(drawn.mean()) - 4 * mechanism.apart * people) < 0.2


def test_the_claim_is_what_the_mechanism_itself_is_charged_for_two_turns() -> None:
    plan = dpl.learning.DPFTRL(
        steps=8, groups=4, coefficients=FACTOR, noise_multiplier=1, clip_norm=1, dimension=1, expected_batch_size=1
    )
    assert plan.turns == 2
    assert float(column_norm(plan.factor)) == pytest.approx(NORM)
    assert TRAINED["ftrl_turns"].mechanism.apart == pytest.approx(math.sqrt(2))  # type: ignore[attr-defined]
    claimed = float(TRAINED["ftrl_turns"].claim.epsilon)  # type: ignore[union-attr]
    assert 0.99 * claimed < dpl.compose(plan.parts()).epsilon("0.01").upper <= claimed
