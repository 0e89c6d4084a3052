"""Learners of a class in the zoo: each true loss again, by enumeration; the auditor finds every fault and no other."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.guarantees import PureDP
from dpledger.audit import audit_outputs
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.finite_class import ExponentialPPACLearner
from dpledger.mechanisms.learning.samples import LabeledSample
from dpledger.mechanisms.learning.theory.concepts import ThresholdClass
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, events_p_value
from house_cases import HOUSE
from house_cases.learning.classes import LEARNED_CLASSES
from judged_cases import judged
from learning_oracle import exponential_law, worst_loss

pytestmark = pytest.mark.sliced

THRESHOLDS = np.arange(3)[None, :] < np.arange(4)[:, None]
BITS = np.array([[False, True], [True, False]])
WEIGHED = {
    "learned_threshold": exponential_law(THRESHOLDS, 0.5),
    "learned_threshold_whole_exponent": exponential_law(THRESHOLDS, 1.0),
    "learned_bit": exponential_law(BITS, 0.5),
}


@pytest.mark.parametrize("name", LEARNED_CLASSES)
def test_every_learner_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    result = judged(name, trials=40_000 if HOUSE[name].batched else 2_000, relation="replace_one")
    assert result.epsilon_lower <= HOUSE[name].true_epsilon
    assert HOUSE[name].tight or result.epsilon_lower > 0  # all of a claim is lost where what tells is rare


def test_our_own_learner_is_found_to_keep_its_claim_and_no_smaller_one() -> None:
    learner = ExponentialPPACLearner(ThresholdClass(3), epsilon=1).under(Relation.REPLACE_ONE, Unit("record"))
    shown: Any = HOUSE["learned_threshold"]
    pair = (LabeledSample([x for x, _ in side], [y for _, y in side]) for side in (shown.left, shown.right))
    entropy = seeded(3)
    left, right = (learner.sample(side, 12_000, entropy) for side in pair)
    for epsilon, verdict in (("1", "not_refuted"), ("0.5", "violation")):
        assert audit_outputs(left, right, PureDP(epsilon), relation="replace_one").verdict == verdict


@pytest.mark.parametrize("name", WEIGHED)
def test_the_true_loss_of_weights_is_that_of_both_laws(name: str) -> None:
    left, right = (WEIGHED[name](list(side)) for side in (HOUSE[name].left, HOUSE[name].right))  # type: ignore[call-overload]
    assert float(np.abs(np.log(left / right)).max()) == pytest.approx(HOUSE[name].true_epsilon, abs=1e-9)
    if name != "learned_bit":
        assert worst_loss(WEIGHED[name], 3, 4, "replace_one") == pytest.approx(HOUSE[name].true_epsilon, abs=1e-9)


@pytest.mark.parametrize(("size", "exact"), [(1, 1.470615), (2, 1.756442), (4, 1.961963)], ids=["one", "two", "four"])
def test_the_whole_exponent_loses_up_to_twice_the_claim(size: int, exact: float) -> None:
    found = worst_loss(exponential_law(THRESHOLDS, 1.0), 3, size, "replace_one")
    assert found == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("name", WEIGHED)
def test_implementations_draw_from_their_law(name: str) -> None:
    shown = HOUSE[name]
    drawn = shown.mechanism(shown.left, 20_000, np.random.default_rng(5))
    law: Any = WEIGHED[name](list(shown.left))  # type: ignore[call-overload]
    assert events_p_value(Counter(drawn.tolist()), 20_000, dict(enumerate(law.tolist()))) > SIGNIFICANCE


@pytest.mark.parametrize("name", [name for name, one in LEARNED_CLASSES.items() if math.isinf(one.true_epsilon)])
def test_an_infinite_loss_is_an_outcome_of_one_side_alone(name: str) -> None:
    shown, rng = HOUSE[name], np.random.default_rng(1)

    def outcomes(data: object) -> set[object]:
        if shown.batched:
            return set(shown.mechanism(data, 2000, rng).tolist())
        try:
            return {shown.mechanism(data, rng) for _ in range(200)}
        except ValueError:
            return {"raised"}

    assert outcomes(shown.left) ^ outcomes(shown.right)
