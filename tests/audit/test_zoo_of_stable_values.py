"""The sparse vectors that are charged where a test fails, and the released values, of the zoo: each true loss again, by
quadrature or in closed form; and the auditor finds every fault and never more than the truth.

The numbers are those of the specification's tables where it has them; two of its rows, the runs that never halt and
those whose noise is of one charge, are of the epochs' own law here, which is not that of independent tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import mpmath
import numpy as np
import pytest

from dpledger.audit.zoo.implementations import Numbers
from house_cases import HOUSE
from house_cases.stability.charged import ChargedTests, NoisyRelease, ReleasedValues
from house_cases.stability.stable import CHARGED, STABLE
from judged_cases import judged
from sparse_vector_oracle import Law, Noise, charges_within

pytestmark = pytest.mark.sliced

TRIALS = {
    "charged_tests_half_query_noise": 200_000,
    "charged_tests_one_more": 2_500_000,
    "stable_values_one_more": 2_500_000,
    "charged_tests_fresh_thresholds": 200_000,
    "stable_release_decadic_logarithm": 60_000,
}


LONG = 1_000_000  # runs, above which an audit is one of the slow tests


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if TRIALS.get(name, 0) > LONG else [])
        for name in (*CHARGED, *STABLE)
    ],
)
def test_every_case_gets_the_verdict_that_its_true_loss_asks_for(name: str) -> None:
    result = judged(name, trials=TRIALS.get(name, 20_000))
    assert result.epsilon_lower <= HOUSE[name].true_epsilon
    assert (result.epsilon_lower > 0) == (HOUSE[name].true_epsilon > 0)


# ---- sparse vectors -------------------------------------------------------------------------------------------------


def law_of(shown: ChargedTests | ReleasedValues) -> Law:
    threshold_noise, query_noise = (Noise(float(scale), False) for scale in (shown.threshold_scale, shown.query_scale))
    threshold = float(shown.threshold)
    return Law(threshold_noise, query_noise, threshold, shown.cutoff, every_test=shown.redraw == "query")


def largest_loss(there: Sequence[float], back: Sequence[float]) -> float:
    return max(abs(math.log(p / q)) for p, q in zip(there, back, strict=True))


@pytest.mark.parametrize("name", ["charged_tests", "charged_tests_half_query_noise", "charged_tests_one_more"])
def test_the_loss_of_every_answer(name: str) -> None:
    shown = HOUSE[name]
    law = law_of(shown.mechanism)  # type: ignore[arg-type]
    there, back = (law.distribution(side) for side in (shown.left, shown.right))  # type: ignore[arg-type]
    assert sum(there.values()) == pytest.approx(1)
    assert largest_loss(list(there.values()), list(back.values())) == pytest.approx(shown.true_epsilon, abs=1e-9)
    published = {
        "charged_tests": ("111110", 0.0094967678, 0.0036448163),
        "charged_tests_half_query_noise": ("111110", 0.0090661453, 0.0020443828),
        "charged_tests_one_more": ("111110111110", 0.0012947148, 0.0002259966),
    }
    event, p, q = published[name]
    assert [there[event], back[event]] == pytest.approx([p, q], rel=1e-6)


def test_the_loss_of_queries_without_noise() -> None:
    """The order of two numbers: that of equal ones never shows, that of the others with 1 - e^(-1/2)."""
    rng, shown = np.random.default_rng(1), HOUSE["charged_tests_no_query_noise"]
    passed_then_failed = 2 * 3 + 1
    found = [np.mean(shown.mechanism(side, 200_000, rng) == passed_then_failed) for side in (shown.left, shown.right)]
    assert found[0] == 0
    assert found[1] == pytest.approx(1 - math.exp(-0.5), abs=0.01)


def test_the_loss_of_a_threshold_for_each_query() -> None:
    shown = HOUSE["charged_tests_fresh_thresholds"]
    law = law_of(shown.mechanism)  # type: ignore[arg-type]
    one = [law.probability([side[0]], "1") for side in (shown.left, shown.right)]  # type: ignore[index]
    laws = [[*(p**place * (1 - p) for place in range(19)), p**19] for p in one]
    assert [law[-1] for law in laws] == pytest.approx([0.0020671673, 0.0003413760])
    assert largest_loss(laws[0], laws[1]) == pytest.approx(shown.true_epsilon, abs=1e-9)


def counted(value: float, queries: int, cutoff: int | None) -> list[float]:
    """The law of how many of equal queries fail, epoch by epoch; all that reach the cutoff together."""
    law = Law(Noise(2, False), Noise(4, False), 0.0, 1)
    at_least = charges_within(law, value, queries)
    last = queries if cutoff is None else cutoff
    return [*(at_least[k] - at_least[k + 1] for k in range(last)), at_least[last]]


@pytest.mark.parametrize(
    ("name", "queries", "cutoff"), [("charged_tests_never_halt", 200, None), ("charged_tests_noise_of_one", 70, 40)]
)
def test_the_loss_of_a_number_of_charges(name: str, queries: int, cutoff: int | None) -> None:
    shown = HOUSE[name]
    there, back = counted(0.0, queries, cutoff), counted(1.0, queries, cutoff)
    seen = [k for k in range(len(there)) if min(there[k], back[k]) > 1e-11]  # what differences of doubles can show
    told = max(abs(math.log(there[k] / back[k])) for k in seen)
    assert told <= shown.true_epsilon + 1e-6
    last = math.log(there[-1] / back[-1]) if there[-1] > 0 else 0.0
    assert max(told, last) == pytest.approx(shown.true_epsilon, abs=2e-4)
    rng = np.random.default_rng(3)
    drawn = np.bincount(shown.mechanism(shown.left, 20_000, rng), minlength=len(there)) / 20_000
    assert np.abs(drawn - np.array(there)).max() < 0.02


def test_the_loss_of_target_charging_by_charges() -> None:
    shown = HOUSE["target_charging_by_charges"]
    above = [1 - math.exp(-1) / 2, 0.5]
    laws = [[*(p**place * (1 - p) for place in range(6)), p**6] for p in above]
    assert [law[-1] for law in laws] == pytest.approx([0.2953475946, 0.015625])
    assert epsilon_of(laws[0], laws[1], 1e-6) == pytest.approx(shown.true_epsilon, abs=1e-9)


def epsilon_of(there: Sequence[float], back: Sequence[float], delta: float) -> float:
    sides = [dict(enumerate(map(float, side))) for side in (there, back)]
    low, high = 0.0, 60.0
    for _ in range(100):
        middle = (low + high) / 2
        excess = max(
            sum(max(0.0, left[k] - math.exp(middle) * right[k]) for k in left)
            for left, right in (sides, reversed(sides))
        )
        low, high = (middle, high) if excess > delta else (low, middle)
    return high


# ---- released values ------------------------------------------------------------------------------------------------


def passes(shown: NoisyRelease, distance: float) -> float:
    gap = (float(shown.threshold) - distance) / float(shown.scale)
    return math.exp(-gap) / 2 if gap >= 0 else 1 - math.exp(gap) / 2


@pytest.mark.parametrize(
    ("name", "distances", "published"),
    [
        ("stable_release", (6, 7), None),
        ("stable_release_whole_lead", (6, 8), (0.1239376088, 0.0167731314)),
    ],
)
def test_the_loss_of_a_distance(name: str, distances: tuple[int, int], published: tuple[float, float] | None) -> None:
    shown = HOUSE[name]
    chances = [passes(shown.mechanism, at) for at in distances]  # type: ignore[arg-type]
    laws = [[p, 1 - p] for p in chances]
    assert epsilon_of(laws[0], laws[1], 0.01) == pytest.approx(shown.true_epsilon, abs=1e-9)
    if published is not None:
        assert [law[1] for law in laws] == pytest.approx(published, rel=1e-8)


def test_the_loss_of_a_proposed_sensitivity() -> None:
    """Cell by cell: UNSTABLE, and the number's noise where it passes."""
    points = np.linspace(-60, 61, 200_001)
    for name in ("propose_test_release", "propose_test_release_untested"):
        shown, laws = HOUSE[name], []
        pair: Any = (shown.left, shown.right)
        for number, distance in pair:
            tails = np.exp(-np.abs(points - number)) / 2
            cells = np.diff(np.where(points < number, tails, 1 - tails))
            stopped = 0.0 if name.endswith("untested") else math.exp(3.9120230054 - distance) / 2
            laws.append(np.array([stopped, *((1 - stopped) * cells)]))

        def excess(epsilon: float, laws: Sequence[Numbers] = laws) -> float:
            left, right = laws
            grown = math.exp(epsilon)
            return max(float(np.maximum(p - grown * q, 0).sum()) for p, q in ((left, right), (right, left)))

        low, high = 0.0, 20.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0.01 else (low, middle)
        assert high == pytest.approx(shown.true_epsilon, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "delta"),
    [("stable_release_threshold_without_epsilon", 0.1255943216), ("stable_release_decadic_logarithm", 0.0012393761)],
)
def test_the_delta_of_a_value_that_a_neighbour_does_not_have(name: str, delta: float) -> None:
    shown = HOUSE[name]
    assert passes(shown.mechanism, 0) == pytest.approx(delta, rel=1e-8)  # type: ignore[arg-type]
    assert delta > float(shown.claim.delta)  # type: ignore[union-attr, arg-type]


def test_the_right_threshold_keeps_its_delta_on_that_pair() -> None:
    """STAB-OK: the published threshold has half of delta."""
    assert passes(HOUSE["stable_release"].mechanism, 0) == pytest.approx(0.005)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "delta"),
    [
        ("stable_values_one_charge", 0.0647498264),
        ("stable_values_whole_epsilon", 0.6151355383),
        ("stable_values_never_halt", 0.7226104269),
    ],
)
def test_the_delta_of_values_that_neighbours_do_not_have(name: str, delta: float) -> None:
    """Each of them is released with p while the run lasts: 1 - (1-p)^E, E the tests that may fail, 50 at most."""
    shown = HOUSE[name].mechanism
    assert isinstance(shown, ReleasedValues)
    one = law_of(shown).probability([0.0], "1")
    assert 1 - (1 - one) ** min(shown.cutoff, 50) == pytest.approx(delta, rel=1e-7)


@pytest.mark.parametrize(
    ("name", "delta"), [("stable_values_published", "0.000666472250001317"), ("stable_values", "0.05")]
)
def test_the_right_thresholds_keep_theirs(name: str, delta: str) -> None:
    """OQR-OK1, the published threshold, and OQR-OK2, the tight one, which attains the claim: the values of one side are
    released with this probability in all, on the other never, so that no epsilon is left beside the claim's delta."""
    shown = HOUSE[name].mechanism
    assert isinstance(shown, ReleasedValues)
    with mpmath.workdps(40):
        a, b, w = (mpmath.mpf(str(one)) for one in (shown.threshold_scale, shown.query_scale, shown.threshold))
        one = (b**2 * mpmath.exp(-w / b) - a**2 * mpmath.exp(-w / a)) / (2 * (b**2 - a**2))
        released = 1 - (1 - one) ** shown.cutoff
        assert released <= mpmath.mpf("0.05")
        assert abs(released / mpmath.mpf(delta) - 1) < 1e-11
    assert law_of(shown).probability([0.0], "1") == pytest.approx(float(one), rel=1e-9)


def test_the_loss_of_one_unstable_answer_more() -> None:
    """OQR-B5: distances around a threshold lose what queries around 0 do, less what a delta of 10^-6 hides. The
    threshold is right for one unstable answer."""
    shown, unshifted = HOUSE["stable_values_one_more"], HOUSE["charged_tests_one_more"]
    assert isinstance(shown.mechanism, ChargedTests)
    law = law_of(shown.mechanism)
    there, back = (law.distribution(side) for side in (shown.left, shown.right))  # type: ignore[arg-type]
    assert largest_loss(list(there.values()), list(back.values())) == pytest.approx(unshifted.true_epsilon, abs=1e-9)
    told = epsilon_of(list(there.values()), list(back.values()), 1e-6)
    assert told == pytest.approx(shown.true_epsilon, abs=1e-9)
    smaller = law_of(replace(shown.mechanism, threshold=Decimal(53)))
    assert law.probability([0.0], "1") < 1e-6 < smaller.probability([0.0], "1")
