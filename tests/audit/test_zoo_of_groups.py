"""Groups of the zoo: each true loss again, by the law of every set of keys or of counts that move together; the auditor
finds every fault and no other, and none in our own groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpledger.accounting.guarantees import ApproxDP
from dpledger.audit import audit_mechanism
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.groups.group_by import GroupBy
from dpledger.mechanisms.numeric import Count
from dpledger.relations import Relation, Unit
from group_oracle import best_probability, hockey_stick, noisy_probability
from house_cases import HOUSE
from house_cases.groups import GROUPS, CappedCounts, PublishedKeys
from judged_cases import judged

pytestmark = pytest.mark.sliced

OF_KEYS = [name for name, shown in GROUPS.items() if isinstance(shown.mechanism, PublishedKeys)]
OF_COUNTS = [name for name in GROUPS if name not in OF_KEYS]


@pytest.mark.parametrize("name", GROUPS)
def test_every_case_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    result = judged(name, trials=60_000)
    assert result.epsilon_lower <= HOUSE[name].true_epsilon


def law_of(mechanism: PublishedKeys, units: Sequence[int]) -> dict[frozenset[str], float]:
    """Of every set of keys, by the recursion of the oracle, or its noise."""

    def chance(n: int) -> float:
        match mechanism.rule:
            case "best":
                return float(best_probability(str(mechanism.epsilon), str(mechanism.delta), n))
            case "noisy":
                return noisy_probability(str(mechanism.sigma), 10, n)
            case "any":
                return float(n > 0)

    chances = list(map(chance, units))
    law: dict[frozenset[str], float] = {}
    for fell in itertools.product((False, True), repeat=len(units)):
        published = frozenset(str(place) for place, one in enumerate(fell) if one)
        law[published] = math.prod(p if one else 1 - p for p, one in zip(chances, fell, strict=True))
    return law


@pytest.mark.parametrize("name", OF_KEYS)
def test_the_true_loss_of_a_choice_of_keys(name: str) -> None:
    shown: Any = GROUPS[name]
    here, there = (law_of(shown.mechanism, side) for side in (shown.left, shown.right))
    claimed = float(shown.claim.delta)

    def delta(epsilon: float) -> float:
        return max(hockey_stick(here, there, epsilon), hockey_stick(there, here, epsilon))

    if math.isinf(shown.true_epsilon):
        assert delta(50) > claimed
    else:
        assert delta(shown.true_epsilon) <= claimed + 1e-10
        assert not shown.true_epsilon or delta(shown.true_epsilon - 1e-6) > claimed


@pytest.mark.parametrize("name", OF_COUNTS)
def test_the_true_loss_of_counts_that_move_together(name: str) -> None:
    """Laplace noise of scale 2 far out on one side: the sum of the moves over the scale."""
    shown: Any = GROUPS[name]
    mechanism: CappedCounts = shown.mechanism
    moved = [
        np.bincount([group for unit in side for group in unit[: mechanism.cap]], minlength=3)
        for side in (shown.left, shown.right)
    ]
    assert np.abs(moved[0] - moved[1]).sum() / 2 == shown.true_epsilon


OURS: dict[str, Any] = {"key_epsilon": 1, "key_delta": "0.02", "units": "unit", "keys_per_unit": 2}


def table_of(data: pd.DataFrame, rng: np.random.Generator) -> tuple[Any, ...]:
    """One of our own, of unknown keys."""
    mine = GroupBy("key", [Count(1, of="rows")], **OURS).under(Relation.ADD_REMOVE, Unit("user", 3))
    value = mine.release(data, entropy=seeded(int(rng.integers(2**62)))).value
    return tuple((key, value[key]["count"]) for key in value)


@pytest.mark.slow
def test_our_own_groups_are_not_refuted() -> None:
    rows = [(f"u{n}", key) for n in range(5) for key in "ab"]
    data = pd.DataFrame(rows, columns=["unit", "key"])
    more = pd.concat([data, pd.DataFrame([("v", "a"), ("v", "b"), ("v", "c")], columns=["unit", "key"])])
    result = audit_mechanism(table_of, data, more, ApproxDP(2, "0.02"), trials=1_500, seed=3)
    assert result.verdict == "not_refuted"
