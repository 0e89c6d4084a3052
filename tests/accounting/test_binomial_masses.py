"""Masses of binomial tails, against exact sums of fractions and the incomplete beta function."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.laws import binomial
from dpledger.accounting.laws.binomial import at_least
from dpledger.errors import CannotCertify
from worst_functions import worst_functions

CLOSE = 1e-10  # relative


@pytest.fixture(scope="module", params=[0, 1, -1], ids=["ours", "above", "below"], autouse=True)
def functions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever holds here holds with the worst elementary functions that are assumed."""
    with worst_functions(request.param):
        yield


@given(trials=st.integers(0, 60), rate=st.fractions(Fraction(1, 10**4), Fraction(9999, 10**4)), data=st.data())
def test_a_tail_of_few_trials_is_the_sum_of_its_masses(trials: int, rate: Fraction, data: st.DataObject) -> None:
    least = data.draw(st.integers(-1, trials + 1))
    numbers = range(max(least, 0), trials + 1)
    exact = sum((math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in numbers), Fraction(0))
    lower, upper = at_least(trials, rate, least)
    assert Fraction(lower) <= exact <= Fraction(upper)
    assert upper - lower <= CLOSE * exact + 3 * binomial._BEYOND
    if exact in (0, 1):
        assert lower == upper == exact


@pytest.mark.parametrize(("trials", "rate"), [(2000, "1/2"), (30000, "1/1000"), (5 * 10**9, "1/10000")])
@pytest.mark.parametrize("deviations", [-6.0, -1.0, 0.0, 0.5, 3.0, 9.0])
def test_a_tail_of_many_trials_is_that_of_the_beta_law(trials: int, rate: str, deviations: float) -> None:
    chance = Fraction(rate)
    least = max(1, math.floor(trials * chance + Fraction(deviations * math.sqrt(trials * chance * (1 - chance)))))
    lower, upper = at_least(trials, chance, least)
    assert 0 <= lower <= upper <= 1
    if trials <= 30000:
        with mpmath.workdps(40):
            at = mpmath.mpf(chance.numerator) / chance.denominator
            exact = mpmath.betainc(least, trials - least + 1, 0, at, regularized=True)
            assert lower <= exact <= upper
    assert upper - lower <= 1e-6 * upper + 3 * binomial._BEYOND


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(1, 2), Fraction(10**6 - 1, 10**6)])
def test_numbers_that_are_left_out_have_less_mass_than_is_said(rate: Fraction) -> None:
    """Beyond 14 deviations and 200 more, on both sides of the mean, by Bernstein's inequality."""
    trials = 10**5
    deviation = math.sqrt(trials * rate * (1 - rate))
    apart = 14 * deviation + 199
    bernstein = 2 * math.exp(-(apart**2) / (2 * (deviation**2 + apart / 3)))
    assert bernstein <= binomial._BEYOND
    far = math.ceil(trials * rate + 14 * deviation) + 202
    if far <= trials:
        assert at_least(trials, rate, far) == (0.0, binomial._BEYOND)
    near = math.floor(trials * rate - 14 * deviation) - 202
    if near > 0:
        lower, upper = at_least(trials, rate, near)
        assert 1 - 1e-6 <= lower <= 1 == upper


def test_too_many_likely_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """14 deviations and 200 more: of a hundred coins 270. What is certain needs none of them."""
    with pytest.raises(CannotCertify, match="2097152 numbers"):
        at_least(10**11, Fraction(1, 2), 5 * 10**10)
    assert at_least(10**11, Fraction(1, 2), 0) == (1.0, 1.0)
    monkeypatch.setattr(binomial, "MOST_TERMS", 270)
    assert at_least(100, Fraction(1, 2), 50)[0] > 0.5
    with pytest.raises(CannotCertify):
        at_least(101, Fraction(1, 2), 50)
