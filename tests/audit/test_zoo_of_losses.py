"""What realised losses are wrongly made into, in the zoo; and that the correct cases claim what records settle.

The true losses and the verdicts stand in `test_zoo.py`."""

from __future__ import annotations

import math
from decimal import Decimal
from operator import itemgetter
from typing import Any

import pytest

from dpledger.accounting.composition import Chain, LaplaceLaw, Sequence
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.pricing.costs import cost
from dpledger.audit import audit_mechanism
from dpledger.audit.zoo import ZOO
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.threshold import AboveThreshold
from dpledger.relations import Relation
from zoo_oracle import rare_law

pytestmark = pytest.mark.sliced


def claimed(name: str) -> list[Decimal]:
    return [loss for loss, _ in ZOO[name].strata]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cap"),
    [("above_threshold_halt_billed_as_silence", PureDP(1)), ("accuracy_first_half_query", PureDP("2.8"))],
    ids=["a halt", "half of the query"],
)
def test_pooling_hides_it(name: str, cap: PureDP) -> None:
    """The same runs, held to the cap that the mechanism has beforehand: nothing is found."""
    shown = ZOO[name]
    pooled = audit_mechanism(shown.mechanism, shown.left, shown.right, cap, trials=100_000, batched=True, seed=11)
    assert pooled.verdict == "not_refuted"
    assert shown.faulty


def test_a_hundred_cheap_steps_are_likely_on_one_side_and_have_a_large_delta() -> None:
    rare = rare_law(100, 0.01, 1)
    one_way = sum(max(0.0, p - math.exp(0.5307) * q) for p, q in rare)
    assert one_way == pytest.approx(0.2103, abs=5e-5)
    assert rare[0][0] == pytest.approx(0.561, abs=5e-4)


def test_what_the_correct_threshold_claims_is_what_its_record_settles() -> None:
    run = AboveThreshold(epsilon=1, threshold=0, max_queries=6, sensitivity=1)
    shown: Any = ZOO["above_threshold_losses"].claim
    for place, values in ((1, [9e9]), (3, [-9e9, -9e9, 9e9]), (6, [-9e9] * 6)):
        conversation = run.open(values, entropy=seeded(1))
        for at in range(place):
            conversation.ask(itemgetter(at))
        settled = cost(conversation.close().parts, Relation.ADD_REMOVE).pure
        assert settled == shown.loss.losses[place - 1 if values[-1] > 0 else 6]


def test_what_correct_doubling_claims() -> None:
    """After round t: t checks, and 2 eps_t - eps_1 for the answers."""
    told = [ended * 0.2 + 2 * 0.5 * 2 ** (ended - 1) - 0.5 for ended in (1, 2, 3)]
    assert claimed("doubling") == [Decimal(f"{loss:g}") for loss in told]


@pytest.mark.parametrize("name", ["accuracy_first", "accuracy_first_fine", "accuracy_first_every_level_shown"])
def test_what_accuracy_first_claims(name: str) -> None:
    """min(1, t/4) of the check, half of it where none passes, and the last level."""
    given: Any = ZOO[name].mechanism
    assert claimed(name) == [given.check / 4 + given.coarse, given.check / 2 + given.fine]


def test_what_accuracy_first_claims_is_what_its_parts_settle() -> None:
    """A check of 4 that halts at the first of two, on a chain that reached 0.2."""
    check = AboveThreshold(epsilon=4, threshold=0, max_queries=2, sensitivity=1)

    conversation = check.open([9e9], entropy=seeded(1))
    conversation.ask(itemgetter(0))
    law: Any = conversation.close().parts
    parts = Sequence((law, Chain(LaplaceLaw("0.8"), reached=LaplaceLaw("0.2"))))
    assert cost(parts, Relation.REPLACE_ONE).pure == Decimal("1.2") == claimed("accuracy_first")[0]
