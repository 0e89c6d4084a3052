"""The labels of the zoo, for students and as scores: each true loss again, by quadrature or in closed form, and the
verdict that it asks for. The numbers are those of the specification's tables."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from house_cases import HOUSE
from house_cases.stability.labelled import LABELLED, CountedOnce, SoftTests
from judged_cases import judged
from soft_oracle import SoftLaw
from sparse_vector_oracle import Law, Noise

pytestmark = pytest.mark.sliced

TRIALS = {
    "labelled_rows": 50_000,
    "soft_labels": 50_000,
    "soft_labels_noise_of_queries": 400_000,
}


@pytest.mark.parametrize("name", LABELLED)
def test_every_case_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    result = judged(name, trials=TRIALS.get(name, 5_000))
    assert 0 < result.epsilon_lower <= HOUSE[name].true_epsilon


def law_of(shown: Any) -> SoftLaw:
    threshold_noise, query_noise = (Noise(float(scale), False) for scale in (shown.threshold_scale, shown.query_scale))
    return SoftLaw(threshold_noise, query_noise, float(shown.threshold), int(shown.failed))


def code(transcript: str, queries: int) -> int:
    digits = ["0psu".index(letter.replace("h", "u")) for letter in transcript.ljust(queries, "0")]
    return sum(digit * 4**place for place, digit in enumerate(reversed(digits)))


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("soft_labels", (0.0070544190, 0.0039871053)),
        ("soft_labels_noise_of_queries", (0.0067306250, 0.0019789293)),
    ],
)
def test_the_loss_of_soft_labels(name: str, published: tuple[float, float]) -> None:
    shown: Any = HOUSE[name]
    law = law_of(shown.mechanism)
    there, back = (law.distribution(side) for side in (shown.left, shown.right))
    assert sum(there.values()) == pytest.approx(1)
    assert [there["ppspph"], back["ppspph"]] == pytest.approx(published, rel=1e-6)
    losses = {text: abs(math.log(there[text] / back[text])) for text in there}
    assert max(losses, key=losses.__getitem__) == "ppspph"
    assert losses["ppspph"] == pytest.approx(shown.true_epsilon, abs=1e-9)


def test_the_implementation_runs_by_that_law() -> None:
    """Every transcript of 200,000 runs within 6 standard deviations: a false alarm below 10^-7."""
    shown: Any = HOUSE["soft_labels"]
    drawn = shown.mechanism(shown.left, 200_000, np.random.default_rng(5))
    expected = law_of(shown.mechanism).distribution(shown.left)
    for text, chance in expected.items():
        seen = int((drawn == code(text, 6)).sum())
        assert abs(seen - 200_000 * chance) <= 6 * math.sqrt(200_000 * chance) + 1


def test_thresholds_are_drawn_for_each_failed_test_but_the_last() -> None:
    """What a failure of both tests costs: counted once, a run draws up to twice the thresholds that its noise is for,
    and the worst loss of a query grows from 2 (2/scale) to 2 (2/scale + 1/(2 scale))."""
    given = (Decimal(4), Decimal(8), Decimal(4), Decimal(2))
    never = ((-1000, -1000),) * 4
    rng = np.random.default_rng(1)
    right, wrong = (kind(*given).answers(never, 10, rng)[1] for kind in (SoftTests, CountedOnce))
    assert set(right.tolist()) == {2}
    assert set(wrong.tolist()) == {4}


def test_the_chance_of_a_larger_distance() -> None:
    shown: Any = HOUSE["soft_labels_larger_distance"]
    chance = law_of(shown.mechanism).probability([(20, 20)], "p")
    assert chance == pytest.approx(0.9128290843, abs=1e-9)
    rng = np.random.default_rng(2)
    left, right = (shown.mechanism(side, 50_000, rng) for side in (shown.left, shown.right))
    assert abs(np.mean(left == 1) - chance) < 6 * math.sqrt(chance * (1 - chance) / 50_000)
    assert not (right == 1).any()


def test_the_loss_of_labelled_rows() -> None:
    """Coins that are told apart from answers change nothing: that of nine answers and a coin."""
    shown: Any = HOUSE["labelled_rows"]
    law = Law(Noise(2, False), Noise(4, False), 35.219351047, 1)
    left, right = ([(gap + 1) // 2 - 1 for gap in gaps] for gaps in ([71] * 10, [69] * 9 + [73]))
    chances = [law.probability(side, "1111111110") for side in (left, right)]
    assert chances == pytest.approx([0.0054285311, 0.0020096392], rel=1e-6)
    assert math.log((chances[0] - 1e-4) / chances[1]) == pytest.approx(shown.true_epsilon, abs=1e-6)


def test_the_chance_of_a_row_that_is_asked_again() -> None:
    shown: Any = HOUSE["labelled_rows_asked_again"]
    once = Law(Noise(4, False), Noise(8, False), 26.0883188928, 1).probability([0], "1")
    assert 1 - (1 - once) ** 50 == pytest.approx(0.7226104269, abs=1e-9)
    rng = np.random.default_rng(3)
    drawn = [shown.mechanism(side, 50_000, rng) for side in (shown.left, shown.right)]
    told = [{label: float(np.mean(one == label)) for label in (1, 2)} for one in drawn]
    assert {label for label in (1, 2) if told[0][label] > 0} != {label for label in (1, 2) if told[1][label] > 0}
    for one in told:
        assert abs(max(one.values()) - 0.7226104269) < 6 * math.sqrt(0.2 / 50_000)
