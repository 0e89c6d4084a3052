"""A million draws of each mechanism that chooses, against its law, and against that of an epsilon 2 % larger.

What is counted are events of known probability, so every p-value is exact: a right sampler fails one of these tests
with a probability of at most 1e-8 (`exact_tests.SIGNIFICANCE`). The discrete Laplace law has its ten million draws in
test_noise_distribution.py."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import parity_oracle
from choice_oracle import probabilities
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.parities.parity_learners import PrivateParityLearner
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
from dpledger.mechanisms.noise import ExponentialWeights
from dpledger.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, Segments
from exact_tests import SIGNIFICANCE, events_p_value

pytestmark = pytest.mark.slow

MILLION = 10**6
SCORES = (3, 2, 2, 0)


def follows(drawn: npt.NDArray[Any], law: Mapping[int, float], twin: Mapping[int, float]) -> bool:
    """Whether `drawn` has the law, and not that of the twin."""
    assert len(drawn) >= MILLION
    counts = dict(enumerate(np.bincount(drawn.astype(np.int64)).tolist()))
    assert sum(counts.get(event, 0) for event in law) == len(drawn)
    p_value, of_twin = (events_p_value(counts, len(drawn), one) for one in (law, twin))
    return p_value > SIGNIFICANCE > of_twin


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
def test_a_choice_of_four(kind: Any) -> None:
    def law_of(epsilon: Any) -> dict[int, float]:
        mechanism = kind(candidates=4, epsilon=epsilon, sensitivity=1)
        return dict(enumerate(probabilities(mechanism.law, mechanism._steps(SCORES)[0].tolist())))

    drawn = kind(candidates=4, epsilon=1, sensitivity=1).sample(SCORES, MILLION, seeded(61))
    assert follows(drawn, law_of(1), law_of("1.02"))


def test_a_choice_among_segments() -> None:
    """Three segments, the widest of them in its two halves and a rest of one candidate: four events."""
    counts, scores = [2, 2**30, 5], [40, 0, 38]
    edges = np.cumsum([2, 2**29, 2**29 - 1, 1, 5])

    def law_of(exponent: str) -> dict[int, float]:
        first, wide, last = probabilities(ExponentialWeights(exponent), scores, counts)
        halves = (wide / 2, wide * (0.5 - 2.0**-30), wide * 2.0**-30)
        return dict(enumerate((first, *halves, last)))

    mechanism = ExponentialMechanism(candidates=sum(counts), epsilon=1, sensitivity=1)
    drawn = mechanism.sample(Segments(scores, counts), MILLION, seeded(62))
    assert follows(np.searchsorted(edges, drawn, side="right"), law_of("0.5"), law_of("0.51"))


def test_a_threshold_of_very_many() -> None:
    """2^20 + 1 thresholds in four segments."""
    learner = ExponentialPPACLearner(ThresholdClass(2**20), epsilon=1)
    x, y = [5] * 22 + [900] * 25 + [2**19] * 3, [1] * 22 + [0] * 25 + [1] * 3
    edges = np.array([6, 901, 2**19 + 1, 2**20 + 1])  # c_u is wrong on x < u where y = 0, on x >= u where y = 1
    errors, counts = [25, 3, 28, 25], np.diff(edges, prepend=0).tolist()

    def law_of(exponent: str) -> dict[int, float]:
        return dict(enumerate(probabilities(ExponentialWeights(exponent), [-k for k in errors], counts)))

    drawn = learner.sample(LabeledSample(x, y), MILLION, seeded(63))
    assert follows(np.searchsorted(edges, drawn, side="right"), law_of("0.5"), law_of("0.51"))


def test_two_million_parities() -> None:
    """Eight parities and FAIL, of four rows of three bits at a rate of 1/4; the twin's is 0.26."""
    rows = ((1, 1), (2, 0), (3, 0), (7, 1))

    def law_of(rate: Fraction) -> dict[int, float]:
        return dict(enumerate(map(float, parity_oracle.one_run(rows, 3, rate, Fraction(1, 2)))))

    learner = PrivateParityLearner(dimension=3, sampling_rate="0.25")
    drawn = learner.sample(LabeledSample([x for x, _ in rows], [y for _, y in rows]), 2 * MILLION, seeded(64))
    assert follows(np.where(np.equal(drawn, -1), 8, drawn), law_of(Fraction(1, 4)), law_of(Fraction(26, 100)))
