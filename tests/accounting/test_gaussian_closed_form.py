"""Lists of Gaussians, from next to no noise to next to no signal: the closed form, against mpmath at 1000 digits."""

from __future__ import annotations

import math
import random
from typing import Any

import mpmath
import pytest

from dpledger.accounting.composition import GaussianLaw, Repeated, Sequence
from dpledger.accounting.families.gaussian.normal_tails import gaussian_delta, gaussian_epsilon
from dpledger.accounting.guarantees import GDP
from dpledger.accounting.profile import compose

pytestmark = pytest.mark.sliced

mp = mpmath.mp.clone()
mp.dps = 1000
Real = Any  # an mpmath number

FAR = 10**6  # N(-FAR) is below 10^(-10^11): nothing that is compared here


def exact_delta(mu_squared: float, epsilon: float) -> Real:
    """Balle-Wang 2018, Theorem 8."""
    mu, at = mp.sqrt(mp.mpf(mu_squared)), mp.mpf(epsilon)
    first, second = at / mu - mu / 2, at / mu + mu / 2
    if second > FAR:  # e^epsilon N(-second) = phi(first)/second (1 - 1/second^2 + ...)
        later = mp.exp(-(first**2) / 2) / mp.sqrt(2 * mp.pi) / second if abs(first) < 100 else mp.mpf(0)
        return tail(first) - later
    return tail(first) - mp.exp(at) * tail(second)


def tail(x: Real) -> Real:
    if abs(x) > FAR:
        return mp.mpf(0 if x > 0 else 1)
    return mp.erfc(x / mp.sqrt(2)) / 2


def drawn(seed: int, count: int) -> list[tuple[float, float]]:
    """(mu^2, delta): mu from 1e-150 to 1e150, delta from 1e-300 to 1 - 1e-10."""
    source = random.Random(seed)
    found = []
    for _ in range(count):
        exponent = source.choice(
            [source.uniform(-300, -30), source.uniform(-30, -2), source.uniform(-3, 6), source.uniform(6, 300)]
        )
        log_delta = source.choice(
            [source.uniform(-300, 0), source.uniform(-6, -0.01), -(10 ** source.uniform(-10, -1))]
        )
        found.append((10.0**exponent, 10.0**log_delta))
    return found


@pytest.mark.parametrize(("mu_squared", "delta"), drawn(1, 120))
def test_epsilon_holds_the_root_and_is_next_to_exact(mu_squared: float, delta: float) -> None:
    found = gaussian_epsilon(mu_squared, delta, delta)
    exact = mp.mpf(delta)
    assert exact_delta(mu_squared, found.upper) <= exact
    assert found.lower == 0 or exact_delta(mu_squared, found.lower) >= exact
    # the profile is known to about 1e-13: that is what epsilon is known to where the profile is flat, or epsilon near 0
    flatness = 1e-13 / (1 - delta)
    assert found.upper - found.lower <= 1e-11 * found.upper + (1e-13 + flatness) * (math.sqrt(mu_squared) + mu_squared)


@pytest.mark.parametrize(("mu_squared", "delta"), drawn(2, 60))
@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 1.7])
def test_delta_holds_the_exact_one(mu_squared: float, delta: float, factor: float) -> None:
    epsilon = factor * gaussian_epsilon(mu_squared, delta, delta).upper
    found, exact = gaussian_delta(mu_squared, epsilon), exact_delta(mu_squared, epsilon)
    assert found.lower <= exact <= found.upper
    if exact > 1e-300 and mu_squared < 1e6:  # beyond, mu itself is a rounded number
        assert found.upper - found.lower <= 1e-9 * found.upper


@pytest.mark.parametrize("mu_squared", [1e-300, 1e-20, 1.0, 1e20])
@pytest.mark.parametrize("delta", [5e-324, 1e-320, 1e-310, 1 - 2**-53])
def test_the_ends_of_what_a_float_holds_are_bounded_too(mu_squared: float, delta: float) -> None:
    found = gaussian_epsilon(mu_squared, delta, delta)
    assert exact_delta(mu_squared, found.upper) <= delta
    assert found.lower == 0 or exact_delta(mu_squared, found.lower) >= delta
    assert delta > 0.5 or found.upper - found.lower <= 40 * math.sqrt(mu_squared)


def test_what_is_declared_to_be_exact_is_read_with_its_rounding() -> None:
    """mu^2 of a tenth is no float: the bounds hold for one over a hundred, and for the floats beside it."""
    found = gaussian_epsilon(0.01, 1e-5, 1e-5)
    for beside in (math.nextafter(0.01, 0), math.nextafter(0.01, 1)):
        other = gaussian_epsilon(beside, 1e-5, 1e-5)
        assert other.lower <= found.upper
        assert found.lower <= other.upper


@pytest.mark.parametrize("noise", ["1e-60", "1e-15", "0.001", "1", "1e9", "1e17"])
@pytest.mark.parametrize("times", [1, 10**12])
@pytest.mark.parametrize("delta", ["1e-300", "1e-5", "0.5"])
def test_every_noise_and_count_is_answered_narrowly(noise: str, times: int, delta: str) -> None:
    spent = compose(Repeated(GaussianLaw(noise), times=times)).epsilon(delta)
    assert spent.upper - spent.lower <= 1e-11 * spent.upper


def test_unlike_gaussians_are_one() -> None:
    """Dong-Roth-Su 2022, Corollary 3.3: 3, 4 and 12 make 13."""
    listed = compose(Sequence((GDP(3), GDP(4), GDP(12)))).epsilon("1e-6")
    one = compose(GDP(13)).epsilon("1e-6")
    assert abs(listed.upper - one.upper) <= 1e-11 * one.upper


def test_an_epsilon_beyond_every_float_has_a_delta_of_none() -> None:
    assert compose(GaussianLaw(1)).delta("1e5000").lower == 0
    assert compose(GaussianLaw(1)).delta("1e400").upper <= 5e-324
