"""Rounds of boosting in the zoo: each true loss again, by an exact law; the auditor finds the fault and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpledger.audit import audit_mechanism
from dpledger.mechanisms.learning.booster import STEPS, PrivateStumpBooster
from dpledger.mechanisms.learning.tables.binning import Binning
from house_cases import HOUSE
from house_cases.learning.tables import BOOSTED


@pytest.mark.parametrize("name", BOOSTED)
def test_every_round_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    shown = HOUSE[name]
    claim: Any = shown.claim
    result = audit_mechanism(
        shown.mechanism, shown.left, shown.right, claim, trials=40_000, batched=True, relation="replace_one", seed=5
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
