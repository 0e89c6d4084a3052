"""Rounds of boosting and steps of logistic regression: each true loss again, by an exact law; the auditor finds the
faults and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dpledger.audit import audit_mechanism
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.booster import STEPS, PrivateStumpBooster
from dpledger.mechanisms.learning.logistic import PrivateLogisticLearner
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.tables import weighted_bins
from dpledger.mechanisms.learning.tables.binning import Binning
from dpledger.relations import Relation, Unit
from house_cases import HOUSE
from house_cases.learning.tables import BOOSTED, LOGISTIC

pytestmark = pytest.mark.sliced


@pytest.mark.parametrize("name", [*BOOSTED, *LOGISTIC])
def test_every_round_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    shown = HOUSE[name]
    claim: Any = shown.claim
    result = audit_mechanism(
        shown.mechanism, shown.left, shown.right, claim, trials=10_000, batched=True, relation="replace_one", seed=5
    )
    assert result.verdict == ("violation" if shown.faulty else "not_refuted")
    assert 0 < result.epsilon_lower <= shown.true_epsilon


@pytest.mark.parametrize("name", BOOSTED)
def test_the_true_loss_is_that_of_both_laws(name: str) -> None:
    shown: Any = HOUSE[name]
    left, right = (np.array(shown.mechanism.chances(side)) for side in (shown.left, shown.right))
    assert float(np.abs(np.log(left / right)).max()) == pytest.approx(shown.true_epsilon, abs=1e-9)


def test_the_round_is_that_of_our_own_booster() -> None:
    """The scores of the two constants, after as many stumps that say 1."""
    shown: Any = HOUSE["boosted_round"]
    bins = Binning({0: [1]}, source="made up")
    booster = PrivateStumpBooster(binning=bins, epsilon=1, gamma="0.4")
    labels = np.array(shown.left, dtype=np.uint8)
    zero, one = booster.scores(bins.read([[0]] * len(labels)), labels, (1,) * 20)[:2] / STEPS
    said = 1 / (1 + np.exp(0.5 * (one - zero)))
    assert said == pytest.approx(shown.mechanism.chances(shown.left)[0], abs=1e-5)


@pytest.mark.parametrize("name", LOGISTIC)
def test_the_true_loss_of_a_step_is_that_of_a_normal_law(name: str) -> None:
    shown: Any = HOUSE[name]
    mu, epsilon = 2 / shown.mechanism.sigma, shown.true_epsilon  # half a row, in 16 bins
    delta = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(1e-5, rel=1e-6)


def test_the_step_is_that_of_our_own_learner() -> None:
    """From weights 0: half a row in each bin that it is in, of all columns; and its noise is for that many."""
    bins = Binning({at: [1] for at in range(15)}, source="made up")
    learner = PrivateLogisticLearner(bins, rho="0.5", steps=1).under(Relation.LABEL_FLIP, Unit())
    assert float(str(learner.parameters()["sensitivity"])) == pytest.approx(4)
    assert float(str(learner.parameters()["sigma"])) == pytest.approx(4)
    exact = PrivateLogisticLearner(bins, rho=10**12, steps=1).under(Relation.LABEL_FLIP, Unit())
    found = exact.sample(LabeledSample([[0] * 15] * 3, [0, 1, 0]), 1, seeded(1))[0, 0]
    seen = found[np.abs(found) > 9]
    assert len(seen) == 16
    assert seen == pytest.approx(-(2 / 16) * 0.5 / (3 * 0.25) * weighted_bins.STEPS, rel=1e-4)
