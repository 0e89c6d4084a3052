"""The surrogate scores of the zoo: each true loss again, from the learner's own scores; the auditor finds the fault."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dpledger.mechanisms.learning.representations.scores import surrogate_scores
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.theory.concepts import FiniteClass
from house_cases import HOUSE
from house_cases.learning.surrogates import SURROGATES
from judged_cases import judged

pytestmark = pytest.mark.sliced

THRESHOLDS = FiniteClass([[int(x < u) for x in range(3)] for u in range(4)])
EVERY = FiniteClass(list(itertools.product((0, 1), repeat=3)))
APART = (
    FiniteClass([[1, 0, 1, 0, 1], [0, 1, 0, 1, 1]]),
    FiniteClass([[1, 1, 1, 0, 0], [1, 1, 0, 1, 1], [0, 0, 1, 1, 0]]),
)


@pytest.mark.parametrize("name", SURROGATES)
def test_the_loss_of_every_case(name: str) -> None:
    shown: Any = HOUSE[name]
    logs = []
    for rows in (shown.left, shown.right):
        classes = APART if shown.tight else (THRESHOLDS, EVERY)
        scores = surrogate_scores(*classes, LabeledSample([x for x, _ in rows], [y for _, y in rows]))
        weights = np.exp(-float(shown.mechanism.exponent) * scores)
        logs.append(np.log(weights / weights.sum()))
        assert np.exp(logs[-1]).tolist() == pytest.approx(shown.mechanism.law(rows).tolist())
    assert float(np.abs(logs[0] - logs[1]).max()) == pytest.approx(shown.true_epsilon, abs=1e-9)


@pytest.mark.parametrize("name", SURROGATES)
def test_every_case_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    result = judged(name, trials=200_000)
    assert result.epsilon_lower <= HOUSE[name].true_epsilon
    assert HOUSE[name].tight or result.epsilon_lower > 0
