"""How a sampled Gaussian is cut, and where its profile is guessed: against quadrature and the closed form."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.families.gaussian import sampled
from dpledger.accounting.families.gaussian.rare import RareGaussian
from dpledger.errors import WorkLimit

mp = mpmath.mp.clone()
mp.dps = 40
Real = Any  # an mpmath number

CASES = ((0.01, 1.0), (0.0004925, 1.4052), (0.3, 0.6), (0.003566, 2.4686))
cases = pytest.mark.parametrize(("rate", "sigma"), CASES)


def rare_of(rate: float, sigma: float) -> RareGaussian:
    found = sampled.SampledGaussianLoss(rate, sigma, "remove").rare
    assert isinstance(found, RareGaussian)
    return found


def tail(x: Real) -> Real:
    return mp.erfc(x / mp.sqrt(2)) / 2


def mass_right_of(rate: float, sigma: float, x: Real) -> Real:
    return (1 - mp.mpf(rate)) * tail(x / sigma) + mp.mpf(rate) * tail((x - 1) / sigma)


def outcome(rate: float, sigma: float, loss: Real) -> Real:
    return mp.mpf(sigma) ** 2 * mp.log1p(mp.expm1(loss) / mp.mpf(rate)) + mp.mpf(1) / 2


@cases
def test_masses_beyond_losses_are_those_of_the_mixture(rate: float, sigma: float) -> None:
    rare = rare_of(rate, sigma)
    for loss in (0.01, 0.5, 2.0, 9.0):
        exact = mass_right_of(rate, sigma, outcome(rate, sigma, mp.mpf(loss)))
        assert rare.mass_above(loss) == pytest.approx(float(exact), rel=1e-9)
    for mass in (0.3, 1e-3, 1e-40, 1e-200):
        found = rare.loss_beyond(mass)
        least = mp.log1p(-mp.mpf(rate))
        assert found > least
        exact = mass_right_of(rate, sigma, outcome(rate, sigma, mp.mpf(found)))
        assert float(exact) == pytest.approx(mass, rel=1e-5)


@cases
def test_the_density_of_a_loss_is_the_slope_of_its_mass(rate: float, sigma: float) -> None:
    """But for sqrt(2 pi), which all laws have in common."""
    losses = (0.05, 1.0, 6.0)
    for loss, found in zip(losses, rare_of(rate, sigma).log_density(np.array(losses)).tolist(), strict=True):
        step = mp.mpf("1e-12")
        ends = [mass_right_of(rate, sigma, outcome(rate, sigma, mp.mpf(loss) + side * step)) for side in (-1, 1)]
        exact = mp.log((ends[0] - ends[1]) / (2 * step)) + mp.log(2 * mp.pi) / 2
        assert found == pytest.approx(float(exact), rel=1e-9, abs=1e-9)


@cases
def test_chi_squared_is_that_of_the_pair(rate: float, sigma: float) -> None:
    exact = mp.mpf(rate) ** 2 * mp.expm1(1 / mp.mpf(sigma) ** 2)
    assert rare_of(rate, sigma).chi_squared == pytest.approx(float(exact), rel=1e-9)


@cases
@pytest.mark.parametrize("tilt", [1.0, 40.0])
def test_cuts_lie_at_their_levels_and_are_as_wide_as_fits(rate: float, sigma: float, tilt: float) -> None:
    """At most a quarter of any layer, and so narrow that the tilted density does not outgrow the cut."""
    rare = rare_of(rate, sigma)
    levels = np.array([0.5, 0.8, 2.0, 3.0])
    cuts = rare.nested(levels, tilt).cuts
    places = [float(outcome(rate, sigma, mp.mpf(level))) for level in levels.tolist()]
    for cut, place in zip(cuts[:-1], places, strict=False):
        assert cut.point == pytest.approx(place, rel=1e-9)
        assert cut.tilt == tilt
    widths = {cut.width for cut in cuts}
    assert len(widths) == 1
    (width,) = widths
    fits = 1.6 * sigma * sigma / math.sqrt(2.4 * (tilt + 1) + 2)
    quarter = min(b - a for a, b in itertools.pairwise(places)) / 4
    assert width == pytest.approx(min(fits, quarter), rel=1e-6)
    assert width <= min(fits, quarter)
    assert cuts[-1].point == pytest.approx(places[-1] * math.hypot(sigma, width) / sigma, rel=1e-9)


def test_levels_that_are_one_or_begin_below_the_middle_are_refused() -> None:
    rare = rare_of(0.01, 1.0)
    with pytest.raises(WorkLimit, match="told apart"):
        rare.nested(np.array([0.5, 0.5, 1.0]), 1.0)
    with pytest.raises(WorkLimit, match="told apart"):
        rare.nested(np.array([-0.00995, 0.5, 1.0]), 1.0)


@given(
    rate=st.sampled_from([1e-4, 0.01, 0.3, 0.9]),
    sigma=st.sampled_from([0.5, 1.0, 4.0]),
    share=st.floats(0.05, 0.97),
)
def test_the_guess_of_an_epsilon_is_where_the_closed_form_says(rate: float, sigma: float, share: float) -> None:
    """In the direction add, whose losses end at -log(1 - q): the profile at the guess is delta."""
    epsilon = mp.mpf(share) * -mp.log1p(-mp.mpf(rate))
    delta = added(rate, sigma, epsilon)
    if delta > mp.mpf("1e-250"):
        found = sampled._guessed_addition(rate, sigma, float(delta))
        assert found == pytest.approx(float(epsilon), rel=1e-6)


def added(rate: float, sigma: float, epsilon: Real) -> Real:
    """r base(log(q e^eps / r)), r = 1 - (1 - q) e^eps (Balle-Barthe-Gaboardi 2018)."""
    q, mu = mp.mpf(rate), 1 / mp.mpf(sigma)
    left = 1 - (1 - q) * mp.exp(epsilon)
    inner = mp.log(q * mp.exp(epsilon) / left)
    return left * (tail(inner / mu - mu / 2) - mp.exp(inner) * tail(inner / mu + mu / 2))
