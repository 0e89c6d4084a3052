"""The learned parities of the zoo: each true loss again, by enumeration; and the auditor finds every fault and never
more than the truth. The parities of the house itself are not refuted."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import parity_oracle as oracle
from dpledger.accounting.guarantees import PureDP
from dpledger.audit import audit_mechanism
from dpledger.mechanisms.learning.parities.parity_learners import PrivateParityLearner, RepeatedParity
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.relations import Relation
from exact_tests import SIGNIFICANCE, events_p_value
from house_cases import HOUSE
from house_cases.learning.parities import PARITIES, LearnedParity, LeastParity, ParityUntilSuccess
from judged_cases import judged

pytestmark = pytest.mark.sliced


def law_of(mechanism: LearnedParity, rows: oracle.Rows) -> oracle.Law:
    run = partial(oracle.one_run, rows, 1, Fraction(mechanism.rate), Fraction(mechanism.fail))
    match mechanism:
        case LeastParity():
            return run(uniform=False)
        case ParityUntilSuccess():
            return oracle.until_success(run(), Fraction(0))
        case _:
            return run()


@pytest.mark.parametrize("name", PARITIES)
def test_the_loss_of_every_case(name: str) -> None:
    shown: Any = HOUSE[name]
    laws = [law_of(shown.mechanism, side) for side in (shown.left, shown.right)]
    loss = oracle.largest_loss(*laws)
    told = math.inf if loss is None else math.log(loss)
    assert told == pytest.approx(shown.true_epsilon, abs=1e-9)
    for side, law in zip((shown.left, shown.right), laws, strict=True):
        drawn = shown.mechanism(side, 50_000, np.random.default_rng(3))
        counts = {place: int(np.count_nonzero(drawn == answer)) for place, answer in enumerate((0, 1, -1))}
        assert events_p_value(counts, 50_000, dict(enumerate(map(float, law)))) > SIGNIFICANCE


@pytest.mark.parametrize("name", PARITIES)
def test_every_case_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    result = judged(name, trials=60_000)
    assert 0 < result.epsilon_lower <= HOUSE[name].true_epsilon


@pytest.mark.parametrize("mode", ["once", pytest.param("until_success", marks=pytest.mark.slow)])
def test_the_learners_themselves_are_not_refuted_and_lose_nearly_what_they_claim(mode: str) -> None:
    learner: Any = PrivateParityLearner(dimension=1, epsilon=1)
    if mode == "until_success":
        learner = RepeatedParity(dimension=1, epsilon=1, stop_probability="0.01")
    left, right = (LabeledSample([1] * 8, [0] * 7 + [label]) for label in (0, 1))
    own, half = (
        audit_mechanism(learner, left, right, claim, trials=20_000, relation=Relation.REPLACE_ONE, seed=12)
        for claim in (None, PureDP("0.5"))
    )
    assert own.verdict == "not_refuted"
    assert half.verdict == "violation"
