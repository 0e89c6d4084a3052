"""Sampled Gaussians side by side, a row for each: the conformance of one law, and the parts of the quadrature."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.arithmetic.floating import ULPS
from dpledger.accounting.families.gaussian import sampled_grid, tilted_rows
from dpledger.accounting.families.gaussian.sampled import BundledGaussians, SampledGaussianLoss, SampledPairs
from dpledger.accounting.families.gaussian.sampled_grid import (
    Grid,
    geometric_tails,
    log_moments,
    make_grid,
    power,
    tilted,
    weighted,
)
from dpledger.accounting.laws import fourier
from dpledger.accounting.laws.fourier import node_deviations, rounding_of_deviations
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.laws.sampled_curve import DIGITS, LossCurve, mixed_curve, quadrature_step, short_step
from dpledger.errors import WorkLimit
from engine_oracles import SampledTransform, flint_number, mp
from law_conformance import LawConformance
from worst_functions import worst_functions

UNIT = 2.0**-53
PARTS = (("0.01", "1", 2), ("0.2", "6", 1), ("0.05", "0.8", 3))


@pytest.fixture(scope="module", params=[0, 1, -1], ids=["ours", "above", "below"], autouse=True)
def functions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever holds here holds with functions that err by all of what `elementary` claims, two units."""
    with worst_functions(request.param, ULPS):
        yield


@functools.cache
def one(rate: str, sigma: str, direction: Direction, z: Any) -> Any:
    power = z + 1 if direction == "remove" else -z
    return flint_number(SampledTransform(rate, sigma)([flint_number.to_ball(power)])[0])


@functools.cache
def exactly(direction: Direction, z: Any) -> Any:
    """The product of the transforms of all runs."""
    product = mp.mpc(1)
    for rate, sigma, count in PARTS:
        product *= one(rate, sigma, direction, z) ** count
    return product


def bundle(direction: Direction) -> BundledGaussians:
    return BundledGaussians(
        tuple((SampledGaussianLoss(float(rate), float(sigma), direction), count) for rate, sigma, count in PARTS)
    )


class RowsConformance(LawConformance):
    direction: Direction

    @property
    def loss(self) -> BundledGaussians:  # type: ignore[override]
        return bundle(self.direction)

    @property
    def transform(self) -> Any:  # type: ignore[override]
        return functools.partial(exactly, self.direction)

    def test_a_bundle_has_no_renyi_price(self) -> None:
        """It is a part of a composition: no price is asked of it, and none is given."""
        assert self.loss.rdp_upper(1 + np.array(self.tilts)).tolist() == [math.inf] * len(self.tilts)


class TestRowsRemove(RowsConformance):
    direction: Direction = "remove"


class TestRowsAdd(RowsConformance):
    direction: Direction = "add"


@given(rate=st.sampled_from([1e-9, 1e-3, 0.3, 0.99]), u=st.floats(1e-9, 800) | st.floats(-800, -1e-9))
def test_a_loss_at_a_point_is_within_its_error(rate: float, u: float) -> None:
    """And that is some roundings of u and of the loss: also of what moves u by so much."""
    rows = mixed_curve(np.array([[rate]]), np.array([[u, u]]))
    found, error = float(rows.values[0, 1]), float(rows.errors[0, 1])
    alone = mixed_curve(rate, np.array([u]))  # with the rate as a number
    assert [float(alone.values[0]), float(alone.errors[0])] == [found, error]
    exact = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(u)))
    assert abs(found - exact) <= error
    gain = rate * math.exp(min(u, 700.0))
    share = gain / (1 - rate + gain)
    lost = rate * abs(math.expm1(min(u, 700.0))) / (1 - rate + gain)
    assert error <= UNIT * (4.01 * abs(found) + 8.01 * (lost + abs(u) * share)) + UNIT * (u > 600) * 20 * (
        abs(u) + abs(math.log(rate))
    )


@given(rate=st.sampled_from([1e-9, 1e-3, 0.3, 0.99, 1 - 1e-12]), u=st.floats(-700, 900))
def test_a_slope_keeps_its_digits_however_small_it_is(rate: float, u: float) -> None:
    exact = mp.mpf(rate) * mp.exp(u) / (1 - mp.mpf(rate) + mp.mpf(rate) * mp.exp(u))
    found = float(mixed_curve(rate, np.array([u])).slopes[0])
    assert abs(found - exact) <= 20 * UNIT * exact


@pytest.mark.parametrize(
    ("rate", "sigma", "c"), [(0.01, 0.5, 1.0), (0.01, 0.25, 3.0), (1e-3, 0.2, 0.5), (0.1, 0.15, 1.0)]
)
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_layers_are_below_the_density_of_the_tilted_loss(
    rate: float, sigma: float, c: float, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cell by cell, also where the loss hardly moves and its density is huge."""
    told: list[tuple[np.ndarray, np.ndarray]] = []
    monkeypatch.setattr(tilted_rows, "layers_below", lambda floors, widths: told.append((floors, widths)))
    loss = SampledGaussianLoss(rate, sigma, direction)
    base = loss.tilted(c).base
    ends: list[np.ndarray] = []

    def curve(pairs: SampledPairs, x: np.ndarray) -> LossCurve:
        ends.append(x[0])
        return mixed_curve(pairs.rate, (x - 0.5) / pairs.sigma**2)

    monkeypatch.setattr(SampledPairs, "curve", curve)
    tilted_rows._layers(base)
    floors, widths = told[0]
    q, s, w = mp.mpf(rate), mp.mpf(sigma), mp.mpf(power(loss.pairs, c))
    moment = mp.exp(exact_log_moment(q, s, w))

    def density(x: Any) -> Any:
        grown = q * mp.exp((x - mp.mpf("0.5")) / s**2)
        slope = grown / (1 - q + grown) / s**2
        return mp.exp(w * mp.log(1 - q + grown) - x * x / (2 * s * s)) / (s * mp.sqrt(2 * mp.pi) * moment * slope)

    least = [min(density(mp.mpf(x)), density(mp.mpf(y))) for x, y in itertools.pairwise(ends[-1].tolist())]
    usable = widths[0] > 0
    assert usable.sum() > 50
    assert all(floor <= limit for floor, limit, some in zip(floors[0].tolist(), least, usable, strict=True) if some)


def exact_log_moment(q: Any, s: Any, w: Any) -> Any:
    """log of E e^{wL} under N(0, s^2), by a fine sum."""
    step = s / 40
    points = (k * step for k in range(-800, int((w + 20 * s) / step) + 800))
    return mp.log(
        mp.fsum(mp.exp(w * mp.log1p(q * mp.expm1((x - mp.mpf("0.5")) / s**2)) - x * x / (2 * s * s)) for x in points)
        * step
        / (s * mp.sqrt(2 * mp.pi))
    )


@pytest.mark.parametrize("count", [1, 2, 7, 40, 41, 100, 333])
def test_sums_at_nodes_are_those_of_phases_one_by_one(count: int) -> None:
    """Row by row, less their value at frequency 0: they err by no more than is stated, which near 0 is in proportion
    to the frequency."""
    draw = np.random.default_rng(count)
    weights, points, step = draw.random((3, 50)), draw.normal(size=(3, 50)), float(np.float32(0.83))
    weights /= weights.sum(axis=1, keepdims=True)
    sums = node_deviations(weights, points, step, count)
    assert sums.shape == (3, count)
    t = step * np.arange(count, dtype=np.float64)
    sizes = (weights * np.abs(points)).sum(axis=1, keepdims=True)
    bounds = rounding_of_deviations(1.0, sizes, 50, t)
    for row in range(3):
        for k in {0, 1, count // 2, count - 1} & set(range(count)):
            pairs = zip(weights[row].tolist(), points[row].tolist(), strict=True)
            turns = (mp.mpf(weight) * mp.expm1(mp.mpc(0, mp.mpf(step) * k * mp.mpf(point))) for weight, point in pairs)
            assert abs(mp.mpc(complex(sums[row, k])) - mp.fsum(turns)) <= bounds[row, k]
            assert bounds[row, k] <= UNIT * (8 * 50 + 40 * (k + 2 * (math.isqrt(count) // 2) + 3))
            assert bounds[row, k] <= UNIT * 202 * t[k] * sizes[row, 0] * (1 + 1e-12)


@pytest.mark.parametrize("count", [1, 2, 7, 40, 41, 100, 333, 5000])
def test_nodes_are_sums_of_three_numbers_of_which_there_are_few(count: int) -> None:
    """Every node is the sum of one of each, once; a sine and a cosine is taken of each of them, not of each node."""
    ones, tens, numbers = fourier._split(count)
    low, high, far = np.split(numbers, [ones, ones + tens])
    sums = (far[:, None, None] + high[None, :, None] + low).ravel()
    assert sums[:count].tolist() == list(range(count))
    assert sums.size < count + ones * tens
    assert ones * tens <= 2 * math.sqrt(count) + 1
    assert numbers.size <= 2 * math.sqrt(count) + 5 * count**0.25


@given(step=st.floats(1e-9, 1e9))
def test_steps_keep_twenty_bits_and_are_not_longer(step: float) -> None:
    found = float(short_step(np.array([[step]]))[0, 0])
    assert found <= step < found * (1 + 2.0**-18)
    bits = math.ldexp(math.frexp(found)[0], 20)
    assert bits == int(bits)


def pairs_of(direction: Direction) -> SampledPairs:
    numbers = np.array([(float(rate), float(sigma)) for rate, sigma, _ in PARTS])
    return SampledPairs(numbers[:, :1], numbers[:, 1:], direction)


def steps_of(pairs: SampledPairs, c: float, t: float) -> list[float]:
    found: list[float] = quadrature_step(pairs.sigma, power(pairs, c), t, DIGITS)[:, 0].tolist()
    return found


def mode(rate: str, sigma: str, c: float) -> float:
    """Of e^{-cL} N(0, s^2): x = -c s(x), s rising."""
    q, variance = mp.mpf(rate), mp.mpf(sigma) ** 2

    def off(x: Any) -> Any:
        grown = q * mp.exp((x - mp.mpf(1) / 2) / variance)
        return x + c * grown / (1 - q + grown)

    return float(mp.findroot(off, (-mp.mpf(c), mp.mpf(0)), solver="anderson", tol=1e-20))


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("c", [0.01, 1.0, 14.0])
def test_points_are_as_far_apart_as_the_strip_allows_and_reach_as_far_as_the_weights(
    direction: Direction, c: float
) -> None:
    """No law has another number of points than the others: steps are shorter where others need more."""
    pairs = pairs_of(direction)
    grid, longest = make_grid(pairs, c, 3.0), np.array(steps_of(pairs, c, 3.0))
    steps, sigma = np.diff(grid.x, axis=1), pairs.sigma
    assert (np.ptp(steps, axis=1) == 0).all()
    assert (steps[:, :1] == grid.steps).all()
    assert (steps[:, 0] <= longest).all()
    assert steps[:, 0].max() >= 0.9 * longest.min()
    assert (steps[:, 0] / longest).max() >= 0.98
    reach = sigma[:, 0] * math.sqrt(2 * (DIGITS + 12))
    modes = np.array([mode(rate, deviation, c) for rate, deviation, _ in PARTS])
    low, high = (-reach, c + 1 + reach) if direction == "remove" else (modes - reach, reach)
    assert (grid.x[:, 0] <= low).all()
    assert (grid.x[:, -1] >= high).all()
    assert grid.x.shape[1] <= 4 + 1.2 * float(np.max((2 * reach + c + 1) / longest))
    assert np.allclose(grid.masses.sum(axis=1), 1, rtol=1e-12)
    found, at = weighted(grid, c), tilted(grid, c)
    for weights in (found.weights, at.weights):
        assert np.allclose(weights.sum(axis=1), 1)
    assert np.allclose(found.weights, at.weights, rtol=1e-11, atol=1e-16)
    assert (found.defect < 1e-10).all()
    bounds = log_moments(grid, np.array([c / 7, c]))
    for part, upper, value, error in zip(PARTS, bounds.T.tolist(), at.values.tolist(), at.errors.tolist(), strict=True):
        exact = [mp.log(one(*part[:2], direction, mp.mpc(tilt)).real) for tilt in (c / 7, c)]
        for truth, bound in zip(exact, upper, strict=True):
            assert truth <= bound <= truth + 1e-12 * (1 + abs(truth))
        assert abs(value - exact[1]) <= error <= 1e-12 * (1 + abs(exact[1]))


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("c", [0.7, 9.0])
def test_both_ways_to_sum_agree(direction: Direction, c: float) -> None:
    """From 1, and from the largest term: each is the exact K within its own error, of every row."""
    pairs = pairs_of(direction)
    grid = make_grid(pairs, c, 0.0)
    assert c <= grid.from_one
    from_top = replace(grid, from_one=0.0)
    for way in (grid, from_top):
        at, (bounds,) = tilted(way, c), log_moments(way, np.array([c]))
        for part, value, error, bound in zip(
            PARTS, at.values.tolist(), at.errors.tolist(), bounds.tolist(), strict=True
        ):
            exact = mp.log(one(*part[:2], direction, mp.mpc(c)).real)
            assert abs(value - exact) <= error <= 1e-12 * (1 + abs(exact))
            assert exact <= bound <= exact + 1e-12 * (1 + abs(exact))


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("short", [(0.5, 0.5, 0.5), (0.9, 0.2, 0.9)])
def test_tails_are_those_of_the_row_that_falls_least(direction: Direction, short: tuple[float, ...]) -> None:
    """More than what each row leaves out, and at most some times as much for one of them."""
    pairs, c = pairs_of(direction), 5.0
    whole = make_grid(pairs, c, 0.0)
    middle = np.take_along_axis(whole.x, weighted(whole, c).weights.argmax(axis=1)[:, None], axis=1)
    low, high = (middle + np.array(short)[:, None] * (whole.x[:, [end]] - middle) for end in (0, -1))
    grid = make_grid(pairs, c, 0.0, within=(low, high))
    for end, factor, side in zip((0, -1), geometric_tails(grid, power(pairs, np.array([c]))), (-1, 1), strict=True):
        shares = [beyond(pairs, grid, row, c, end, side) for row in range(len(PARTS))]
        assert max(shares) <= factor <= 5 * (1 + max(shares))


def beyond(pairs: SampledPairs, grid: Grid, row: int, c: float, end: int, side: int) -> float:
    """What lies beyond the end of a row, in terms of the weight there."""
    rate, sigma, w = mp.mpf(pairs.rate[row, 0]), mp.mpf(pairs.sigma[row, 0]), power(pairs, c)
    at, step = mp.mpf(grid.x[row, end]), mp.mpf(grid.steps[row, 0])

    def log_term(x: Any) -> Any:
        return w * mp.log1p(rate * mp.expm1((x - mp.mpf(1) / 2) / sigma**2)) - x * x / (2 * sigma**2)

    terms = (mp.exp(log_term(at + side * k * step) - log_term(at)) for k in range(1, 60))
    return float(mp.fsum(terms))


def longest(share: float, sigma: float, w: float, t: float) -> float:
    """The step for a strip of this share of the height pi s^2."""
    a = share * math.pi * sigma * sigma
    exponent = a * a / (2 * sigma * sigma) + a * t / sigma**2 + math.log(2) + DIGITS
    if w < 0:
        exponent += w * math.log(math.cos(a / (2 * sigma * sigma)))
    return 2 * math.pi * a / exponent


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_step_is_the_longest_of_some_strips(direction: Direction) -> None:
    """Of heights up to that where L ceases to be analytic: 2 pi a / (log of what the integrand may be there)."""
    pairs, t = pairs_of(direction), 3.0
    w = power(pairs, 5.0)
    assert w == (6.0 if direction == "remove" else -5.0)
    for step, sigma in zip(steps_of(pairs, 5.0, t), pairs.sigma[:, 0].tolist(), strict=True):
        shares = np.geomspace(1e-6, 0.97, 2000).tolist()
        at = max(range(len(shares)), key=lambda i: longest(shares[i], sigma, w, t))
        nearby = np.linspace(shares[max(at - 1, 0)], shares[min(at + 1, len(shares) - 1)], 2000).tolist()
        best = max(longest(share, sigma, w, t) for share in nearby)
        best = min(best, 0.7 * sigma)
        assert 0.8 * best <= step <= best * (1 + 1e-9)
        assert step == float(quadrature_step(sigma, w, t, DIGITS)[0])  # as of a number


def test_too_many_points_are_refused() -> None:
    """Of one, and of all together: a thousand rows may have fewer points each than three."""
    pairs = pairs_of("remove")
    with pytest.raises(WorkLimit, match="needs more than"):
        make_grid(pairs, 1e9, 0.0)
    with pytest.raises(WorkLimit, match="needs more than"):
        make_grid(pairs, 1.0, 1e9)
    assert make_grid(pairs, 1e3, 0.0).x.shape[1] > sampled_grid.MOST_IN_AN_ARRAY / 3000
    many = SampledPairs(np.tile(pairs.rate, (1000, 1)), np.tile(pairs.sigma, (1000, 1)), "remove")
    with pytest.raises(WorkLimit, match="3000 sampled Gaussians needs more than"):
        make_grid(many, 1e3, 0.0)
