"""One stable release: the best probability against its recursion at fifty digits, the noisy one against exact sums, and
both against every event of a pair of neighbours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.certificates.stable_releases import (
    grouped_noisy,
    noisy_distance,
    noisy_release,
    release_distance,
    release_probability,
    sure_distance,
)
from dpledger.errors import InfeasiblePlan, ParameterError

pytestmark = pytest.mark.sliced


@pytest.fixture(autouse=True, scope="module")
def sixty_digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


epsilons = st.decimals("0.01", 12, places=3, allow_nan=False)
deltas = st.sampled_from(list(map(Decimal, ("0.3", "0.01", "1e-6", "1e-12", "1e-30"))))


def number(value: Fraction | Decimal) -> mpmath.mpf:
    exact = Fraction(value)
    return mpmath.mpf(exact.numerator) / exact.denominator


def recursion(epsilon: Decimal, delta: Decimal) -> list[mpmath.mpf]:
    """The best probabilities, step by step until they are 1."""
    grow, found = mpmath.exp(number(epsilon)), [number(delta)]
    while found[-1] < 1:
        last = found[-1]
        found.append(min(grow * last + number(delta), 1 - (1 - last - number(delta)) / grow, mpmath.mpf(1)))
    return found


def keeps(lower: Fraction, upper: Fraction, epsilon: Decimal, delta: Decimal) -> bool:
    """Whether coins of two probabilities, the second not the smaller, are (epsilon, delta)-close on every event."""
    grow, slack = mpmath.exp(number(epsilon)), number(delta)
    return lower <= upper and (
        number(upper) <= grow * number(lower) + slack and number(1 - lower) <= grow * number(1 - upper) + slack
    )


@given(epsilons, deltas)
@settings(max_examples=60, deadline=None)
def test_the_probability_is_that_of_the_recursion_from_below(epsilon: Decimal, delta: Decimal) -> None:
    exact = recursion(epsilon, delta)
    assert abs(sure_distance(epsilon, delta) - (len(exact) - 1)) <= 1
    for distance, best in enumerate(exact):
        found = number(release_probability(epsilon, delta, distance))
        assert found <= best
        assert found >= best * (1 - mpmath.mpf("1e-13")) or best == 1, (distance, found, best)


@pytest.mark.slow
@given(epsilons, deltas)
@settings(max_examples=60, deadline=None)
def test_neighbouring_distances_are_close_on_every_event(epsilon: Decimal, delta: Decimal) -> None:
    sure = sure_distance(epsilon, delta)
    chances = [release_probability(epsilon, delta, distance) for distance in range(sure + 2)]
    assert chances[0] <= Fraction(delta)
    assert chances[-1] == chances[sure] == 1
    assert all(keeps(a, b, epsilon, delta) for a, b in itertools.pairwise(chances))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [("1e-9", "1e-9"), ("1e-9", "1e-40"), ("0.0003", "1e-12"), ("1e-60", "0.01")]
)
def test_far_curves_keep_the_budget_where_they_turn_and_end(epsilon: str, delta: str) -> None:
    """Too long to iterate: looked at in both branches, at the turn and at the end."""
    budget = Decimal(epsilon), Decimal(delta)
    sure = sure_distance(*budget)
    places = {0, 1, sure // 4, sure // 2, *range(max(0, sure // 2 - 40), sure // 2 + 40), sure - 2, sure - 1, sure}
    for place in sorted(places):
        assert keeps(release_probability(*budget, place), release_probability(*budget, place + 1), *budget), place


def test_more_than_the_best_probability_is_found() -> None:
    """The twin is a part in a million too generous at one distance."""
    epsilon, delta = Decimal(1), Decimal("1e-6")
    for distance in range(1, sure_distance(epsilon, delta) - 1):
        before, here = (release_probability(epsilon, delta, at) for at in (distance - 1, distance))
        assert not keeps(before, here * Fraction(1000001, 1000000), epsilon, delta), distance


def test_the_published_numbers() -> None:
    """The specification's table at epsilon 1, delta 0.01."""
    expected = [0.01, 0.0371828, 0.1110734, 0.3119287, 0.7505515, 0.9119118, 0.9712730, 0.9931107, 1]
    found = [float(release_probability(Decimal(1), Decimal("0.01"), distance)) for distance in range(9)]
    assert found == pytest.approx(expected, abs=6e-8)
    assert release_probability(Decimal(1), Decimal("0.01"), 2**62) == 1


def test_two_steps_attain_the_delta_of_the_group_lemma() -> None:
    epsilon, delta = Decimal("0.7"), Decimal("1e-5")
    assert float(release_probability(epsilon, delta, 1)) == pytest.approx(1e-5 * (1 + float(mpmath.exp("0.7"))))


@given(epsilons, deltas, st.sampled_from(["0.5", "0.05", "1e-9"]))
@settings(max_examples=60, deadline=None)
def test_from_the_told_distance_on_a_value_is_released(epsilon: Decimal, delta: Decimal, beta: str) -> None:
    at = release_distance(epsilon, delta, Decimal(beta))
    assert release_probability(epsilon, delta, at) >= 1 - Fraction(beta)
    assert at == 0 or release_probability(epsilon, delta, at - 1) < 1 - Fraction(beta)
    noisy = noisy_release(epsilon, delta)
    far = noisy_distance(noisy, Decimal(beta))
    assert passes(noisy.scale, noisy.threshold, far) >= 1 - mpmath.mpf(beta)
    assert far <= 1 or passes(noisy.scale, noisy.threshold, far - 2) < 1 - mpmath.mpf(beta)
    assert far >= at, "noise never does better than the best probability"


# ---- by noise -------------------------------------------------------------------------------------------------------


def passes(scale: Decimal, threshold: int, distance: int) -> mpmath.mpf:
    """P(distance + DLap(scale) > threshold), summed from its tails."""
    q = mpmath.exp(-1 / number(scale))
    over = threshold - distance
    return q ** (over + 1) / (1 + q) if over >= 0 else 1 - q ** (-over) / (1 + q)


@given(epsilons, deltas)
@settings(max_examples=60, deadline=None)
def test_the_threshold_is_the_least_that_keeps_delta(epsilon: Decimal, delta: Decimal) -> None:
    found = noisy_release(epsilon, delta)
    assert number(found.scale) * number(epsilon) >= 1
    released = passes(found.scale, found.threshold, 0)
    assert released <= number(found.delta) <= number(delta)
    assert number(found.delta) <= released * (1 + mpmath.mpf("1e-10")) + mpmath.mpf("1e-59")
    assert found.threshold == 0 or passes(found.scale, found.threshold - 1, 0) > number(delta) * (
        1 - mpmath.mpf("1e-11")
    )


def test_the_published_numbers_of_the_noisy_release() -> None:
    found = noisy_release(Decimal(1), Decimal("0.01"))
    assert found.threshold == 4
    expected = [0.00492583395604, 0.0133898049327, 0.0989380198014, 0.73105857863, 0.986610195067]
    assert [float(passes(found.scale, 4, d)) for d in (0, 1, 3, 5, 8)] == pytest.approx(expected, rel=1e-11)


@given(st.decimals("0.05", 4, places=2), st.sampled_from(list(map(Decimal, ("0.1", "0.01", "1e-6")))))
@settings(max_examples=40, deadline=None)
def test_two_steps_of_the_noisy_release(epsilon: Decimal, delta: Decimal) -> None:
    """Every pair of distances that two steps can have: with different values one is 0 and the other at most 1."""
    noisy = noisy_release(epsilon, delta)
    try:
        twice, larger = grouped_noisy(epsilon, noisy)
    except InfeasiblePlan:
        assert passes(noisy.scale, noisy.threshold, 1) > 1 - mpmath.mpf("1e-11")
        return
    grow, attained = mpmath.exp(number(twice)), mpmath.mpf(0)
    for distance in range(noisy.threshold + 30):
        for other in range(max(0, distance - 2), distance + 3):
            here, there = (passes(noisy.scale, noisy.threshold, at) for at in (distance, other))
            same = max(here - grow * there, mpmath.mpf(0)) + max(1 - here - grow * (1 - there), mpmath.mpf(0))
            assert same <= mpmath.mpf("1e-40")
            if {distance, other} in ({0}, {0, 1}):
                excess = here + max(1 - here - grow * (1 - there), mpmath.mpf(0))
                assert excess <= number(larger)
                attained = max(attained, excess)
    assert attained >= number(larger) * (1 - mpmath.mpf("1e-5")), "or less would do"


@pytest.mark.parametrize(
    ("epsilon", "delta", "field"), [("0", "0.1", "epsilon"), ("1", "0", "delta"), ("1", "0.5", "delta")]
)
def test_budgets_that_release_nothing_or_anything_are_refused(epsilon: str, delta: str, field: str) -> None:
    for make in (noisy_release, lambda e, d: release_probability(e, d, 3)):
        with pytest.raises(ParameterError, match=field):
            make(Decimal(epsilon), Decimal(delta))
    with pytest.raises(ParameterError, match="distance"):
        release_probability(Decimal(1), Decimal("0.1"), -1)


@pytest.mark.parametrize("distance", [0, 1, 3, 7])
def test_a_value_that_is_released_exactly_often_enough_is_near_enough(distance: int) -> None:
    """The probability is a fraction of a power of two, so a beta that leaves no room for it is a decimal."""
    epsilon, delta = Decimal("0.4"), Decimal("0.01")
    missed = 1 - release_probability(epsilon, delta, distance)
    with localcontext(Context(prec=2000, traps=[Inexact])):
        beta = Decimal(missed.numerator) / Decimal(missed.denominator)
        less = beta - Decimal("1e-300")
    assert release_distance(epsilon, delta, beta) == distance
    assert release_distance(epsilon, delta, less) == distance + 1
