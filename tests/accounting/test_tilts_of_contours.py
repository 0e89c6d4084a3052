"""Where a contour lies: tilts next to the best ones there are, Chernoff bounds, and how many nodes are asked for."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.engine import tilt
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.tilt import (
    chernoff_bounds,
    choose_contour,
    saddle_for_delta,
    saddle_for_epsilon,
)
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.laws.finite import approximate_pair
from dpledger.errors import WorkLimit

mp = mpmath.mp.clone()
mp.dps = 40
Real = Any  # an mpmath number

UNIT = 2.0**-53
LISTS = {
    "gaussian": Composed(((GaussianLoss(0.3), 4),)),
    "wide gaussian": Composed(((GaussianLoss(1e-6), 1),)),
    "responses": Composed(((approximate_pair(0.1, 0.0).loss(), 300),)),
    "one response": Composed(((approximate_pair(1.0, 0.0).loss(), 1),)),
    "laplace": Composed(((LaplaceLoss(0.4), 20), (GaussianLoss(0.1), 2))),
    "sampled": Composed(((SampledGaussianLoss(0.01, 0.8, "remove"), 500),)),
    "sampled, added": Composed(((SampledGaussianLoss(0.0003, 0.5, "add"), 500),)),
    "rarely sampled": Composed(((SampledGaussianLoss(1e-6, 1.0, "remove"), 1000), (GaussianLoss(1e-6), 1))),
    "once, and much noise": Composed(((SampledGaussianLoss(0.0001, 5.0, "remove"), 1),)),
}


def log_kappa(c: float) -> Real:
    """log of c^c / (1+c)^(1+c)."""
    at = mp.mpf(c)
    return at * mp.log(at) - (1 + at) * mp.log(1 + at)


@given(c=st.floats(1e-9, 1e9), moment=st.floats(-3, 1e4))
def test_a_chernoff_bound_has_the_factor_of_its_tilt(c: float, moment: float) -> None:
    """delta <= e^{K - c epsilon} c^c / (1+c)^(1+c), rounded up by a few roundings at most."""
    found = chernoff_bounds(np.array([c]), np.array([moment]))
    exact = mp.mpf(moment) + log_kappa(c)
    room = 64 * UNIT * (abs(moment) + abs(log_kappa(c)) + 1)
    assert exact - room / 16 <= found.log_bounds[0] <= exact + room
    assert found.log_bounds[0] >= exact or abs(moment) < 1
    assert (found.c[0], found.log_moments[0]) == (c, moment)
    assert abs(tilt._log_kappa(c) - log_kappa(c)) <= 1e-13 * (1 + abs(log_kappa(c)))


def least(composed: Composed, value: Any) -> float:
    """The least of a function of c and K over tilts of any size."""
    found = math.inf
    for c in np.geomspace(1e-3, 1e5, 240).tolist():
        try:
            moment = composed.moments(c).value
        except WorkLimit:
            break
        if math.isfinite(moment):
            found = min(found, value(c, moment + tilt._log_kappa(c)))
    return found


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("log_delta", [-0.7, -12.0, -60.0])
def test_the_tilt_for_a_delta_gives_nearly_the_least_epsilon(name: str, log_delta: float) -> None:
    """By its bound; and the epsilon that is said to go with it is about that."""
    composed = LISTS[name]
    saddle = saddle_for_delta(composed, log_delta, 1e-3)
    best = least(composed, lambda c, bound: (bound - log_delta) / c)
    at = (composed.moments(saddle.c).value + tilt._log_kappa(saddle.c) - log_delta) / saddle.c
    room = 0.02 * abs(best) + 0.02 * min(1.0, abs(best) + 1 / saddle.c)
    assert best - room <= at <= best + room
    assert abs(saddle.epsilon - at) <= room
    assert saddle.log_delta == log_delta


@pytest.mark.parametrize("name", [name for name in LISTS if name != "rarely sampled"])
@pytest.mark.parametrize("share", [0.3, 0.9, 1.3])
def test_the_tilt_for_an_epsilon_gives_nearly_the_least_delta(name: str, share: float) -> None:
    """Where one rare loss makes K bend it may not: other methods answer there."""
    composed = LISTS[name]
    epsilon = share * saddle_for_delta(composed, -12.0, 1e-3).epsilon
    epsilon = min(epsilon, 0.97 * composed.largest)
    saddle = saddle_for_epsilon(composed, epsilon)
    best = least(composed, lambda c, bound: bound - c * epsilon)
    assert saddle.epsilon == epsilon
    at = composed.moments(saddle.c).value + tilt._log_kappa(saddle.c) - saddle.c * epsilon
    assert saddle.log_delta == pytest.approx(min(0.0, at), abs=1e-9)
    assert at <= best + 0.05 + 0.01 * abs(best)


class Counting:
    """A composition that counts how often its moments are asked for."""

    def __init__(self, composed: Composed) -> None:
        self.composed, self.asked = composed, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.composed, name)

    def moments(self, c: float) -> Any:
        self.asked += 1
        return self.composed.moments(c)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("log_delta", [-0.7, -12.0, -60.0])
def test_a_tilt_is_found_with_few_moments(name: str, log_delta: float) -> None:
    composed: Any = Counting(LISTS[name])
    saddle = saddle_for_delta.__wrapped__(composed, log_delta, 1e-3)
    assert composed.asked <= (5 if "gaussian" in name else 10)
    composed.asked = 0
    saddle_for_epsilon(composed, saddle.epsilon)
    assert composed.asked <= 30


@given(variance=st.floats(1e-6, 0.5), count=st.integers(1, 1000), height=st.floats(0.5, 300))
def test_the_tilt_of_small_losses_is_that_of_their_variance(variance: float, count: int, height: float) -> None:
    """c^2 V / 2 + log(1 + c) = height, but for one step from c^2 V / 2 = height, and at least half of it."""
    loss = GaussianLoss(variance)
    composed, total = Composed(((loss, count),)), count * variance
    rough = math.sqrt(2 * height / total)
    expected = math.sqrt(2 * max(height - math.log1p(rough), height / 2) / total)
    assert tilt._tilt_of_small_losses(composed, height) == pytest.approx(expected, rel=1e-9)


def test_the_tilt_is_one_where_losses_are_large_or_nothing_is_asked() -> None:
    large = approximate_pair(2.0, 0.0).loss()
    assert tilt._tilt_of_small_losses(Composed(((large, 3),)), 5.0) == 1.0
    assert tilt._tilt_of_small_losses(Composed(((GaussianLoss(0.1), 3), (large, 3))), 5.0) == 1.0
    assert tilt._tilt_of_small_losses(Composed(((approximate_pair(0.1, 0.0).loss(), 3),)), 0.0) == 1.0


@given(c=st.floats(1e-3, 1e3), power=st.floats(0.2, 5), factor=st.floats(0.3, 3), target=st.floats(0.1, 100))
def test_a_step_is_exact_where_the_height_is_a_power(c: float, power: float, factor: float, target: float) -> None:
    height = factor * c**power
    found = tilt._risen(c, height, power * height, target, 1e6)
    assert found == pytest.approx(min(max((target / factor) ** (1 / power), c / 1e6), c * 1e6), rel=1e-9)
    near = tilt._risen(c, height, power * height, target, 1.5)
    assert c / 1.5 * (1 - 1e-12) <= near <= c * 1.5 * (1 + 1e-12)
    assert tilt._risen(c, -1.0, 1.0, target, 3.0) == c * 3.0
    assert tilt._risen(c, 1.0, 0.0, target, 1e6) == c * 5.0
    assert tilt._risen(c, 1.0, 1.0, -1.0, 4.0) == pytest.approx(c / 4)


@given(c=st.floats(0.1, 10), gap=st.floats(-5, 5), slope=st.floats(0.01, 5))
def test_newtons_step_stays_between_what_is_known(c: float, gap: float, slope: float) -> None:
    """A fifth to four times as much at once; else the geometric mean."""
    plain = min(max(c - gap / slope, c / 5), 4 * c)
    assert tilt._newton(c, gap, slope, 0.0, math.inf) == plain
    assert tilt._newton(c, gap, 0.0, 0.0, math.inf) == 2 * c
    low, high = plain * 1.1, plain * 2
    assert tilt._newton(c, gap, slope, low, high) == pytest.approx(math.sqrt(max(low, c / 5) * min(high, 4 * c)))
    assert tilt._newton(c, gap, slope, plain, high) != plain


@given(step=st.floats(1e-12, 1e12))
def test_a_step_keeps_thirty_bits_and_is_not_longer(step: float) -> None:
    found = tilt._thirty_bits(step)
    assert found <= step < found * (1 + 2.0**-28)
    mantissa = math.ldexp(math.frexp(found)[0], 30)
    assert mantissa == int(mantissa)


def test_nodes_are_counted_to_where_the_values_fall_below() -> None:
    """Between two counts by interpolation; all of the way where the fall is a cliff; within those that there are."""
    counts = tilt._COUNTS
    assert counts.size == 36
    for target in (-3.3, -10.0, -15.5):
        values = -counts / 100
        if values[0] > target > values[-1]:
            assert tilt._first_below(values, target) == pytest.approx(-target * 100, abs=1)
    cliff = np.where(np.arange(36) < 20, 0.0, -40.0)
    assert tilt._first_below(cliff, -1.0) == math.ceil(counts[20])
    gentle = np.where(np.arange(36) < 20, 0.0, -20.0)
    assert tilt._first_below(gentle, -1.0) == math.ceil(counts[19] + (counts[20] - counts[19]) / 20)
    shifted = np.where(np.arange(36) < 20, -50.0, -60.0)
    assert tilt._first_below(shifted, -52.0) == math.ceil(counts[19] + (counts[20] - counts[19]) / 5)
    assert tilt._first_below(cliff - 5, -1.0) == 2
    assert tilt._first_below(cliff, -99.0) == tilt.MOST_NODES
    assert tilt._first_below(cliff, -40.0) == math.ceil(counts[20])


@pytest.mark.parametrize("name", ["gaussian", "responses", "laplace", "sampled"])
def test_a_contour_has_a_hundred_nodes_or_so_and_no_more_than_are_allowed(name: str) -> None:
    composed = LISTS[name]
    saddle = saddle_for_delta(composed, -12.0, 1e-3)
    chernoff = tilt.chernoff_bounds_around(composed, saddle.c)
    contour = choose_contour(composed, saddle, chernoff, tolerance=1e-6, width=1e-3)
    assert 4 <= contour.count <= 400
    assert 0.3 * saddle.c <= contour.c <= 2.4 * saddle.c
    window = 2 * math.pi / contour.step
    assert window >= (12 + math.log(1e6)) / contour.c
    with pytest.raises(WorkLimit, match="too many"):
        choose_contour(composed, saddle, chernoff, tolerance=1e-6, width=1e-3, most=contour.count - 1)
    again = choose_contour(composed, saddle, chernoff, tolerance=1e-6, width=1e-3, most=contour.count)
    assert again.count == contour.count
