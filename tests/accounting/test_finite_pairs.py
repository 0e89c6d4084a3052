"""Pairs with finitely many outcomes: masses, losses and profiles against exact sums, within the errors stated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.arithmetic.floating import ULPS
from dpledger.accounting.laws import finite
from dpledger.accounting.laws.finite import (
    FinitePair,
    approximate_pair,
    discrete_laplace_pair,
    listed_pair,
    randomised_response_pair,
)
from worst_functions import worst_functions

mp = mpmath.mp.clone()
mp.dps = 50
Real = Any  # an mpmath number

UNIT = 2.0**-53
Outcomes = list[tuple[Real, Real]]  # P and Q of each


@pytest.fixture(scope="module", params=[0, 1, -1], ids=["ours", "above", "below"], autouse=True)
def functions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever holds here holds with functions that err by all of what `elementary` claims, two units."""
    with worst_functions(request.param, ULPS):
        yield


def number(value: Decimal | Fraction | float) -> Real:
    exact = Fraction(value)
    return mp.mpf(exact.numerator) / exact.denominator


def response(epsilon: str, delta: str) -> tuple[FinitePair, Outcomes]:
    e, d = mp.mpf(epsilon), mp.mpf(delta)
    likely = (1 - d) / (1 + mp.exp(-e))
    outcomes = [(likely, 1 - d - likely), (1 - d - likely, likely)]
    return approximate_pair(float(epsilon), float(delta)), outcomes + [(d, mp.mpf(0)), (mp.mpf(0), d)] * (d > 0)


def among(epsilon: str, categories: int) -> tuple[FinitePair, Outcomes]:
    odds = mp.exp(mp.mpf(epsilon))
    whole = odds + categories - 1
    outcomes = [(odds / whole, 1 / whole), (1 / whole, odds / whole)]
    rest = (categories - 2) / whole
    return randomised_response_pair(float(epsilon), categories), outcomes + [(rest, rest)] * (categories > 2)


def geometric(scale: str, sensitivity: int) -> tuple[FinitePair, Outcomes]:
    a = mp.exp(-1 / mp.mpf(scale))
    side, centre = 1 / (1 + a), (1 - a) / (1 + a)
    left = [side, *(centre * a**k for k in range(1, sensitivity)), side * a**sensitivity]
    return discrete_laplace_pair(float(scale), sensitivity), list(zip(left, reversed(left), strict=True))


LISTED = (("0.5", "0.125"), ("0.25", "0.5"), ("0.1", "0.05"), ("0.1", "0"), ("0", "0.2"), ("0.05", "0.125"))


def listed() -> tuple[FinitePair, Outcomes]:
    left, right = (tuple(Decimal(one[side]) for one in LISTED) for side in (0, 1))
    return listed_pair(left, right), [(number(p), number(q)) for p, q in zip(left, right, strict=True)]


PAIRS = {
    "response": response("0.7", "0"),
    "response with delta": response("2.5", "0.001"),
    "tiny": response("0.00001", "0"),
    "large": response("12", "0.2"),
    "categories": among("1.3", 7),
    "two categories": among("0.4", 2),
    "geometric": geometric("2.7", 4),
    "narrow": geometric("0.08", 3),
    "wide": geometric("900", 1),
    "listed": listed(),
}
RATES = (0.001, 0.3, 0.96875)


def grouped(outcomes: Outcomes) -> tuple[dict[int, tuple[Real, Real]], Real, Real]:
    """Masses by loss, to thirty digits, and what only one of the two has."""
    by: dict[int, tuple[Real, Real]] = {}
    for p, q in outcomes:
        if p and q:
            key = int(mp.nint(mp.log(p / q) * mp.mpf(10) ** 30))
            before = by.get(key, (mp.mpf(0), mp.mpf(0)))
            by[key] = before[0] + p, before[1] + q
    only = [mp.fsum(one[side] for one in outcomes if not one[1 - side]) for side in (0, 1)]
    return by, only[0], only[1]


def check_pair(pair: FinitePair, outcomes: Outcomes, narrow: float) -> None:
    """Outcome by outcome: as many, in some order, each within the errors that are stated, which are small."""
    by, only_left, only_right = grouped(outcomes)
    rows = zip(pair.losses, pair.left, pair.right, pair.loss_errors, strict=True)
    found = sorted(rows, key=lambda row: row[0])
    assert len(found) == len(by)
    for (loss, left, right, error), key in zip(found, sorted(by), strict=True):
        p, q = by[key]
        assert abs(loss - mp.log(p / q)) <= error
        assert error <= narrow * (abs(loss) + 1)
        assert abs(left - p) <= p * pair.mass_error
        assert abs(right - q) <= q * pair.mass_error
    assert pair.mass_error <= narrow * (20 + max(map(abs, pair.losses)))
    for only, exact in ((pair.only_left, only_left), (pair.only_right, only_right)):
        assert abs(only - exact) <= exact * (pair.mass_error + 2 * UNIT)
    assert pair.imbalance == 0


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_has_the_outcomes_of_its_mechanism(name: str) -> None:
    pair, outcomes = PAIRS[name]
    check_pair(pair, outcomes, 16 * UNIT)
    check_pair(pair.turned(), [(q, p) for p, q in outcomes], 16 * UNIT)
    assert pair.turned().turned() == pair
    assert pair.loss_in("remove").losses.tolist() == list(pair.losses)
    assert pair.loss_in("add").losses.tolist() == [-x for x in pair.losses]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("rate", RATES)
def test_a_sample_of_a_pair_mixes_its_masses(name: str, rate: float) -> None:
    """((1-q) Q + q P, Q); what only Q has is likelier without the unit."""
    pair, outcomes = PAIRS[name]
    q = mp.mpf(rate)
    mixed = [((1 - q) * right + q * left, right) for left, right in outcomes]
    check_pair(pair.sampled(rate), mixed, 16 * UNIT * (1 + 1 / (1 - rate)))
    assert pair.sampled(rate).only_right == 0


@given(
    x=st.floats(-40, 200) | st.floats(701, 900),
    rate=st.sampled_from([1e-9, 0.01, 0.5, 0.99]),
    error=st.sampled_from([0.0, 1e-12, 1e-3]),
)
def test_the_loss_of_a_sample_is_known_as_well_as_that_of_what_is_sampled(x: float, rate: float, error: float) -> None:
    found, stated = finite._mixed_loss(x, error, rate)
    exact = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(x)))
    beside = [mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(x) + side * mp.mpf(error))) for side in (-1, 1)]
    for true in (exact, *(beside if error < 1e-6 else ())):
        assert abs(found - true) <= stated
    gain = rate * math.exp(min(x, 700)) / (1 - rate + rate * math.exp(min(x, 700)))
    steps = abs(found) + max(x, 0) + abs(math.log(rate)) + 1 / (1 - rate)
    assert stated <= gain * error * (1 + 1e-5) + 16 * UNIT * steps


def delta(outcomes: Outcomes, y: Real) -> Real:
    return mp.fsum(max(p - y * q, mp.mpf(0)) for p, q in outcomes)


def points_of(pair: FinitePair) -> list[float]:
    ends = [x + shift for x in pair.losses for shift in (-1e-3, 0.0, 1e-9, 0.3)]
    return sorted({min(600.0, x) for x in (*ends, -2.0, 0.0, 0.1, 1.0)})


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("rate", [None, 0.3])
def test_the_profile_lies_between_its_bounds_and_close_to_them(name: str, rate: float | None) -> None:
    """Given that the loss is finite; the lines never rise above it, anywhere."""
    pair, outcomes = PAIRS[name]
    if rate is not None:
        q = mp.mpf(rate)
        pair, outcomes = pair.sampled(rate), [((1 - q) * right + q * left, right) for left, right in outcomes]
    finite_part = 1 - mp.fsum(p for p, q in outcomes if not q)
    kept = [(p / finite_part, q / finite_part) for p, q in outcomes if q]
    profile = pair.loss().profile()
    points = np.array(points_of(pair))
    above = profile.above(points)
    first, second = profile.lines(points)
    room = 1e-12 * (1 + max(map(abs, pair.losses)))
    for place, upper, a, b in zip(points.tolist(), above.tolist(), first.tolist(), second.tolist(), strict=True):
        y = mp.exp(mp.mpf(place))
        exact = delta(kept, y)
        assert exact <= upper <= min(1, exact + room) or (upper == 0 == exact)
        for other in (place - 1.0, place, place + 0.5, 2 * place):
            z = mp.exp(mp.mpf(other))
            assert a - b * z <= delta(kept, z)
        assert a - b * y >= exact - room * (1 + y * b)
        assert b >= 0
    smallest = min(mp.log(p / q) for p, q in kept if p)
    largest = max(mp.log(p / q) for p, q in kept if p)
    assert profile.smallest <= smallest <= largest <= profile.largest
    assert profile.largest - largest <= 1e-14 * (1 + abs(largest)) + 4 * max(pair.loss_errors)


@pytest.mark.parametrize("name", PAIRS)
def test_transforms_lie_within_their_errors(name: str) -> None:
    """K(c) of the finite part, at small tilts from 1 and at large ones from its largest term."""
    pair, outcomes = PAIRS[name]
    finite_part = 1 - mp.fsum(p for p, q in outcomes if not q)
    loss, c = pair.loss(), np.array([1e-9, 1e-4, 0.01, 0.4, 3.0, 60.0, 5000.0])
    bounds = loss.log_moments(c)
    reach = max(map(abs, pair.losses))
    for at, bound in zip(c.tolist(), bounds.tolist(), strict=True):
        exact = mp.log(mp.fsum(p / finite_part * (p / q) ** mp.mpf(at) for p, q in outcomes if p and q))
        found = loss.tilted(at).cumulants
        assert abs(found.value - exact) <= found.error
        assert exact <= bound
        scale = (at * reach if at * reach <= 0.01 and pair.imbalance == 0 else 1 + at * reach) + abs(found.value)
        assert found.error <= 200 * UNIT * (pair.mass_error / UNIT + 1) / 10 * scale + 1e-300
        assert bound - exact <= 2.1 * found.error
    assert loss.largest_down <= max(pair.losses) <= loss.largest
    assert loss.largest - loss.largest_down <= 4 * max(pair.loss_errors) + 8 * UNIT * reach + 1e-300


@pytest.mark.parametrize("most", [3.0, 8.0])
def test_a_mass_at_infinity_becomes_a_large_loss_that_is_as_bad(most: float) -> None:
    """Of a mechanism that is known to be (most, 0)-DP: twice the mass, log 2 beyond."""
    pair, _ = PAIRS["response with delta"]
    loss = pair.loss()
    found = loss.within(most)
    assert found.infinite_mass == 0
    assert found.losses[-1] >= most + math.log(2) >= found.losses[-1] - 1e-14
    assert found.masses[-1] >= 2 * loss.infinite_mass >= found.masses[-1] * (1 - 1e-15)
    assert found.imbalance >= found.masses[-1]
    assert found.losses[:-1].tolist() == loss.losses.tolist()
    for epsilon in np.linspace(0, most, 9).tolist():
        counted = float(found.masses[-1]) * -math.expm1(epsilon - float(found.losses[-1]))
        assert counted >= loss.infinite_mass * (1 - 1e-14)


def test_the_worst_case_knows_its_epsilon() -> None:
    found = approximate_pair(2.5, 0.001).loss()
    assert found.largest_down <= 2.5 <= found.largest <= 2.5 + 16 * UNIT * 2.5
    assert found == approximate_pair(2.5, 0.001).loss()
    assert found != approximate_pair(2.5, 0.002).loss()
    assert hash(found) == hash(approximate_pair(2.5, 0.001).loss())


def test_prices_are_infinite_where_the_loss_may_be() -> None:
    orders = np.array([2.0, 7.0])
    assert approximate_pair(1.0, 0.1).loss().rdp_upper(orders).tolist() == [math.inf, math.inf]
    prices = approximate_pair(1.0, 0.0).loss().rdp_upper(orders)
    likely = 1 / (1 + mp.exp(-1))
    for order, price in zip(orders.tolist(), prices.tolist(), strict=True):
        exact = mp.log(likely * mp.exp(order - 1) + (1 - likely) * mp.exp(1 - order)) / (order - 1)
        assert exact <= price <= exact * (1 + 1e-12)


@pytest.mark.parametrize("ratio", ["1/2", "2", "0.5000001", "1.9999", "1.0000000000000000000001", "1e-300", "7e200"])
def test_logarithms_of_fractions_keep_their_digits_next_to_one(ratio: str) -> None:
    found, exact = finite._log_of(Fraction(ratio)), mp.log(number(Fraction(ratio)))
    assert abs(found - exact) <= 8 * UNIT * abs(found)


def test_outcomes_without_mass_are_left_out_and_nothing_is_known_of_the_balance() -> None:
    pair = FinitePair((1.0, -1.0), (1.0, 0.0), (0.5, 0.5), 0.0, 0.0, (0.0, 0.0), UNIT, 0.0)
    loss = pair.loss()
    assert loss.losses.tolist() == [1.0]
    assert loss.imbalance == math.inf
