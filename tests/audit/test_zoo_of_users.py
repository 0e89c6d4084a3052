"""Learners of users in the zoo: each true loss again, from an oracle of its own; the auditor finds every fault and no
other."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from exact_tests import SIGNIFICANCE, events_p_value
from house_cases import HOUSE
from house_cases.learning.users import (
    LEARNED_FROM_USERS,
    LeastErrorOfUsers,
    ThresholdsByExamples,
    ThresholdsByUsers,
)
from judged_cases import judged
from users_oracle import Users, errors_by_user, estimate_law, worst_of_users

pytestmark = pytest.mark.sliced

Law = dict[Any, float]


def law_of(mechanism: Any) -> Any:
    """The law of an implementation, from its definition."""
    if isinstance(mechanism, LeastErrorOfUsers):
        thresholds, each = np.arange(mechanism.points + 1), float(mechanism.epsilon)

        def scale(threshold: float) -> float:
            return (max(threshold, 1 - threshold) if mechanism.narrow else 1.0) / each

        concepts = np.arange(2)[None, :] < thresholds[:, None]
        return estimate_law(concepts, 2, float(mechanism.resolution), scale)
    return lambda users: by_thresholds(mechanism, users)


def by_thresholds(mechanism: ThresholdsByUsers | ThresholdsByExamples, users: Users) -> Law:
    concepts: npt.NDArray[np.bool_] = np.arange(mechanism.points)[None, :] < np.arange(mechanism.points + 1)[:, None]
    errors = [errors_by_user(row, users) for row in concepts]
    if isinstance(mechanism, ThresholdsByUsers):
        errors = [[int(many > mechanism.level) for many in row] for row in errors]
    weights = np.exp(-float(mechanism.exponent) * np.array([sum(row) for row in errors]))
    return dict(enumerate((weights / weights.sum()).tolist()))


@pytest.mark.parametrize("name", LEARNED_FROM_USERS)
def test_the_loss_of_every_case(name: str) -> None:
    shown: Any = HOUSE[name]
    left, right = (law_of(shown.mechanism)(side) for side in (shown.left, shown.right))
    for side, law in ((shown.left, left), (shown.right, right)):
        found = shown.mechanism.law(side)
        assert found[found > 0].tolist() == pytest.approx([law[key] for key in sorted(law) if law[key]], abs=1e-9)
    lost = [abs(np.log(left[key] / right[key])) for key in left if left[key]]
    assert max(lost) == pytest.approx(shown.true_epsilon, abs=1e-9)


@pytest.mark.parametrize("name", LEARNED_FROM_USERS)
def test_every_case_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    result = judged(name, trials=60_000)
    assert 0 < result.epsilon_lower <= HOUSE[name].true_epsilon


@pytest.mark.parametrize("name", LEARNED_FROM_USERS)
def test_implementations_draw_from_their_law(name: str) -> None:
    shown: Any = HOUSE[name]
    drawn = shown.mechanism(shown.left, 20_000, np.random.default_rng(5))
    law = dict(enumerate(shown.mechanism.law(shown.left).tolist()))
    assert events_p_value(Counter(drawn.tolist()), 20_000, law) > SIGNIFICANCE


def test_examples_weighed_as_if_they_were_users_are_at_worst_what_the_case_loses() -> None:
    shown: Any = HOUSE["users_threshold_by_examples"]
    assert worst_of_users(law_of(shown.mechanism), 3, 3, 2, "replace_one") == pytest.approx(2.7287774134, abs=1e-9)


def test_narrow_noise_is_at_worst_what_the_case_loses_and_enough_where_users_come_and_go() -> None:
    law = law_of(HOUSE["users_least_error_narrow_noise"].mechanism)
    assert worst_of_users(law, 2, 2, 3, "replace_one") == pytest.approx(1.4422409203, abs=1e-9)
    assert worst_of_users(law, 2, 2, 3, "add_remove") <= 1 + 1e-9
