"""Of a bounded range run several times, the lower bound is that of mechanisms that exist, not that of the envelope."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from dpledger.accounting.accountant import Accountant
from dpledger.accounting.arithmetic.conversions import epsilon_of_zcdp
from dpledger.accounting.composition import (
    ExponentialLaw,
    PoissonSampled,
    RandomAllocation,
    Repeated,
    SampledWithoutReplacement,
)
from dpledger.accounting.guarantees import BoundedRange
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.profile import compose


def test_two_bounded_ranges_have_no_lower_bound_that_no_mechanism_attains() -> None:
    """The best adaptive pair of 1-bounded-range mechanisms has delta 0.152452 at 0.5, one of 4 has 0.262093 at 5."""
    for eta, epsilon, worst in ((1, "0.5", 0.152452), (4, "5", 0.262093)):
        bounds = compose(Repeated(BoundedRange(eta), times=2)).delta(epsilon)
        assert bounds.lower - 5e-7 <= worst <= bounds.upper + 5e-7


@pytest.mark.parametrize("leaf", [BoundedRange("1"), BoundedRange("0.3")], ids=str)
def test_an_accountant_says_no_more_of_bounded_ranges_than_is_attained(leaf: BoundedRange) -> None:
    """Each alone is attained by a mechanism; that all of them are at once is another claim."""
    accountant = Accountant("1e-5")
    for more, times in ((1, 1), (1, 2), (8, 10)):
        found = accountant.append(leaf, more)
        assert found == compose(Repeated(leaf, times=times)).epsilon("1e-5")


def test_two_bounded_ranges_cost_less_than_their_envelope_twice() -> None:
    """The optimum of the adaptive adversary, by recursion over the two positions, is 8.93e-6 at 1.9538."""
    accountant = Accountant("1e-5")
    accountant.append(BoundedRange("1"))
    assert accountant.append(BoundedRange("1")).lower < 1.9538


def test_samples_of_bounded_ranges_have_no_lower_bound_that_no_mechanism_attains() -> None:
    """Each run is (eta^2/8)-zCDP, sampled or not (Dong-Durfee-Rogers 2020; quasi-convexity)."""
    eta, runs = Decimal("0.002594"), 400
    most = epsilon_of_zcdp(runs * eta * eta / 8, Decimal("1.6568e-8"))
    for leaf in (BoundedRange(eta), ExponentialLaw(eta)):
        tree = Repeated(PoissonSampled(leaf, rate="0.99999984335"), times=runs)
        bounds = compose(tree).epsilon("1.6568e-8")
        assert 0.9 * float(most) <= bounds.lower <= float(most) <= bounds.upper
    subsets = Repeated(SampledWithoutReplacement(BoundedRange(eta), population=10**9, batch=10**9 - 1), times=runs)
    assert compose(subsets, relation="replace_one").epsilon("1.6568e-8").lower <= float(most)


@pytest.mark.parametrize("eta", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_an_allocation_of_bounded_ranges_says_no_more_than_is_attained(eta: float, direction: Direction) -> None:
    """Two steps, each with two losses eta apart, at every position: the worst of these is attained."""
    bounds = compose(RandomAllocation(BoundedRange(eta), steps=2), direction=direction)
    for epsilon in (0.1 * eta, 0.4 * eta):
        attained = max(allocated_in_two(eta, i / 40, j / 40, epsilon, direction) for i in range(41) for j in range(41))
        at = bounds.delta(epsilon)
        assert 0 < at.lower <= attained * (1 + 1e-9)
        assert attained <= at.upper * (1 + 1e-9)


def allocated_in_two(eta: float, first: float, second: float, epsilon: float, direction: Direction) -> float:
    """delta of the average of two independent ratios, each of them e^{t eta} or e^{(t - 1) eta}."""
    steps = []
    for position in (first, second):
        high, low = math.exp(position * eta), math.exp((position - 1) * eta)
        likely = (1 - low) / (high - low)  # under Q, so that the mean is 1
        steps.append(((high, likely), (low, 1 - likely)))
    grown, total = math.exp(epsilon), 0.0
    for ratio, mass in steps[0]:
        for other, other_mass in steps[1]:
            average = (ratio + other) / 2
            total += mass * other_mass * max(0.0, average - grown if direction == "remove" else 1 - grown * average)
    return total


@pytest.mark.parametrize("times", [1, 2, 30])
def test_the_accountant_agrees_on_sampled_bounded_ranges(times: int) -> None:
    tree = PoissonSampled(BoundedRange("0.5"), rate="0.9")
    accountant = Accountant("1e-5")
    found = accountant.append(tree, times)
    whole = compose(Repeated(tree, times=times)).epsilon("1e-5")
    assert max(found.lower, whole.lower) <= min(found.upper, whole.upper)
    assert found.lower <= whole.lower * (1 + 1e-3)
