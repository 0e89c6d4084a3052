"""The grid of a sampled Gaussian's quadrature: terms that are left out, tilted sums, with a cut and without one."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from dpledger.accounting.families.gaussian import sampled_grid
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.gaussian.sampled_grid import (
    Grid,
    geometric_tails,
    kept_grid,
    log_moments,
    make_grid,
    power,
    tilted,
    weighted,
)
from dpledger.accounting.families.gaussian.smooth_cut import Cut
from dpledger.errors import WorkLimit

mp = mpmath.mp.clone()
mp.dps = 40
Real = Any  # an mpmath number

REMOVE, ADD = (SampledGaussianLoss(0.02, 0.9, direction) for direction in ("remove", "add"))
CUT = SampledGaussianLoss(0.02, 0.9, "remove", cut=Cut(2.5, 0.25, tilt=12.0))
WINDOW = SampledGaussianLoss(0.02, 0.9, "remove", cut=Cut(3.5, 0.25, start=1.5, tilt=12.0))
PAIRS = {"remove": REMOVE, "add": ADD, "cut": CUT, "window": WINDOW}
pairs = pytest.mark.parametrize("name", PAIRS)
TILTS = (0.01, 0.5, 3.0, 11.0)
ONCE = np.ones(1)


def short_grid(pair: SampledGaussianLoss, c: float, low: float, high: float) -> Grid:
    """One that need not reach as far as the weights."""
    return make_grid(pair.pairs, c, 0.0, within=(np.array([[low]]), np.array([[high]])))


def tails_at(grid: Grid, c: float) -> tuple[float, float]:
    return geometric_tails(grid, power(grid.pairs, np.array([c])))


def log_kept(pair: SampledGaussianLoss, x: Real) -> Real:
    """The logarithm of the share of an outcome that the cut keeps."""
    if pair.cut is None:
        return mp.mpf(0)

    def tail(y: Real) -> Real:
        return mp.erfc(y / mp.sqrt(2)) / 2

    width = mp.mpf(pair.cut.width)
    kept = tail((x - pair.cut.point) / width)
    if pair.cut.start > -mp.inf:
        kept -= tail((x - pair.cut.start) / width)
    return mp.log(kept) if kept > 0 else -mp.inf


def loss_at(pair: SampledGaussianLoss, x: Real) -> Real:
    """L(x); that of the direction add is -L(x)."""
    return mp.log1p(mp.mpf(pair.rate) * mp.expm1((x - mp.mpf(1) / 2) / mp.mpf(pair.sigma) ** 2))


def term(pair: SampledGaussianLoss, c: float, x: Real) -> Real:
    """log of e^{wL} N(0, s^2), cut."""
    s = mp.mpf(pair.sigma)
    w = mp.mpf(c) + 1 if pair.direction == "remove" else -mp.mpf(c)
    return w * loss_at(pair, x) - x * x / (2 * s * s) - mp.log(s * mp.sqrt(2 * mp.pi)) + log_kept(pair, x)


def exact_moments(pair: SampledGaussianLoss, c: float) -> tuple[Real, Real]:
    """K and K' by a finer sum over a longer interval."""
    step = mp.mpf("0.1")
    terms = [(mp.exp(term(pair, c, step * k)), loss_at(pair, step * k)) for k in range(-140, 260)]
    total = mp.fsum(weight for weight, _ in terms)
    mean = mp.fsum(weight * loss for weight, loss in terms) / total
    return mp.log(step * total), mean if pair.direction == "remove" else -mean


@pairs
@pytest.mark.parametrize("c", TILTS)
def test_tilted_sums_are_those_of_a_far_finer_rule(name: str, c: float) -> None:
    pair = PAIRS[name]
    exact, mean = exact_moments(pair, c)
    grid = pair.grid_up_to(c)
    found = tilted(grid, c).cumulants(ONCE)
    assert abs(found.value - exact) <= found.error <= 3e-13 * (1 + abs(exact))
    for tilts in (np.array([c]), np.array([c / 7, c])):
        bound = float(log_moments(grid, tilts)[-1, 0])
        assert exact <= bound <= exact + 3e-13 * (1 + abs(exact))
    assert found.mean == pytest.approx(float(mean), rel=1e-9, abs=1e-12)


@pairs
@pytest.mark.parametrize("c", [0.5, 3.0, 11.0])
@pytest.mark.parametrize("short", [0.3, 0.6])
def test_what_lies_beyond_the_ends_is_a_geometric_sum_at_most(name: str, c: float, short: float) -> None:
    """Of a grid that is too short: more than what it leaves out, and at most some times as much."""
    pair = PAIRS[name]
    whole = pair.grid_up_to(c)
    (weights,) = weighted(whole, c).weights
    middle = float(whole.x[0, np.argmax(weights)])
    low, high = (middle + short * (float(end) - middle) for end in whole.x[0, [0, -1]])
    grid = short_grid(pair, c, low, high)
    before, after = tails_at(grid, c)
    step = mp.mpf(float(grid.steps[0, 0]))
    for end, factor, side in ((0, before, -1), (-1, after, 1)):
        first = mp.mpf(float(grid.x[0, end]))
        beyond = mp.fsum(mp.exp(term(pair, c, first + side * k * step)) for k in range(1, 40))
        at = mp.exp(term(pair, c, first))
        if np.isfinite(factor) and at > 0:
            assert beyond <= at * factor
            if pair.cut is None:
                assert at * factor <= 5 * (beyond + at)


@pairs
def test_a_grid_reaches_as_far_as_the_weights_and_is_kept_for_tilts_nearby(name: str) -> None:
    pair = PAIRS[name]
    for c in TILTS:
        grid = pair.grid_up_to(c)
        assert kept_grid(pair.pairs, c * (1 - 1e-9)) is grid
        found = weighted(grid, c)
        assert found.tails.max() < 1e-15
        assert found.weights[:, [0, -1]].max() < 1e-14
        assert found.weights.sum() == pytest.approx(1, abs=1e-12)
        assert tilted(grid, c).weights.sum() == pytest.approx(1, abs=1e-12)
        assert found.defect.max() < 1e-12
        assert grid.x.size < 800
        steps = np.diff(grid.x[0])
        assert np.allclose(steps, grid.steps, rtol=1e-12)
    assert sampled_grid._rounded_up(1.01) == 1.25
    assert sampled_grid._rounded_up(1.0) == 1.0
    assert sampled_grid._rounded_up(7.5) == 8.0


def test_too_many_points_and_ends_that_do_not_fall_are_refused() -> None:
    """An end is seen to fall or not by itself: that of the powers, the right one for remove, or the other one."""
    with pytest.raises(WorkLimit, match="more than 65536 points"):
        make_grid(REMOVE.pairs, 1e6, 0.0)
    for pair, c, moved in ((REMOVE, 3.0, 1), (ADD, 1000.0, 0)):
        short = short_grid(pair, c, -1.0, 1.0)
        tails = tails_at(short, c)
        assert tails[moved] == np.inf
        assert np.isfinite(tails[1 - moved])
        for refused in (weighted, tilted):
            with pytest.raises(WorkLimit, match="does not resolve"):
                refused(short, c)
        assert not np.isfinite(log_moments(short, np.array([c]))).any()
    beyond = short_grid(REMOVE, 3.0, 0.5, 6.0)  # its first point is no lower than the middle of N(0, s^2)
    assert tails_at(beyond, 3.0)[0] == np.inf
    assert not np.isfinite(log_moments(beyond, np.array([3.0]))).any()
