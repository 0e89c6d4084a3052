"""Sampled Gaussians side by side, a row for each: the conformance of one law, and the parts of the quadrature."""

from __future__ import annotations

import cmath
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.arithmetic.floating import ULPS
from dpledger.accounting.families.gaussian import quadratures
from dpledger.accounting.families.gaussian.bundle import BundledGaussians
from dpledger.accounting.families.gaussian.quadratures import Laws, curves, grids_for, node_sums, tilted_on
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.laws.sampled_curve import DIGITS
from dpledger.errors import WorkLimit
from engine_oracles import SampledTransform, flint_number, mp
from law_conformance import LawConformance
from worst_functions import worst_functions

UNIT = 2.0**-53
PARTS = (("0.01", "1", 2), ("0.2", "6", 1), ("0.05", "0.8", 3))


@pytest.fixture(scope="module", params=[0, 1, -1], ids=["ours", "above", "below"], autouse=True)
def functions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever holds here holds with functions that err by all of what `elementary` claims, two units."""
    with worst_functions(request.param, ULPS // 2):
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

    def test_a_renyi_price_does_not_depend_on_the_orders_that_are_asked_for_with_it(self) -> None:
        """Nearly: a grid that is kept serves tilts nearby. No bundle is charged for, so no machine has to agree."""
        orders = 1 + np.array(self.tilts)
        alone = np.array([self.loss.rdp_upper(orders[i : i + 1])[0] for i in range(orders.size)])
        assert np.allclose(self.loss.rdp_upper(orders), alone, rtol=1e-10, atol=0)


class TestRowsRemove(RowsConformance):
    direction: Direction = "remove"


class TestRowsAdd(RowsConformance):
    direction: Direction = "add"


@given(rate=st.sampled_from([1e-9, 1e-3, 0.3, 0.99]), u=st.floats(1e-9, 800) | st.floats(-800, -1e-9))
def test_a_loss_at_a_point_is_within_its_error(rate: float, u: float) -> None:
    """And that is some roundings of u and of the loss: also of what moves u by so much."""
    values, errors = curves(np.array([[rate]]), np.array([[u, u]]))
    found, error = float(values[0, 1]), float(errors[0, 1])
    exact = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(u)))
    assert abs(found - exact) <= error
    gain = rate * math.exp(min(u, 700.0))
    share = gain / (1 - rate + gain)
    lost = rate * abs(math.expm1(min(u, 700.0))) / (1 - rate + gain)
    assert error <= UNIT * (4.01 * abs(found) + 8.01 * (lost + abs(u) * share)) + UNIT * (u > 600) * 20 * (
        abs(u) + abs(math.log(rate))
    )


@pytest.mark.parametrize("count", [1, 2, 7, 40, 41, 100, 333])
def test_sums_at_nodes_are_those_of_phases_one_by_one(count: int) -> None:
    """Each term is a product of at most as many phases as its node and a block."""
    draw = np.random.default_rng(count)
    weights, angles = draw.random((3, 50)), draw.normal(size=(3, 50))
    weights /= weights.sum(axis=1, keepdims=True)
    sums, block = node_sums(weights, angles, count)
    assert sums.shape == (3, count)
    assert count <= block * block <= 6 * count + 30
    for row in range(3):
        for k in (0, 1, count // 2, count - 1):
            pairs = zip(weights[row].tolist(), angles[row].tolist(), strict=True)
            if k < count:
                exact = sum(weight * cmath.exp(1j * k * angle) for weight, angle in pairs)
                assert abs(sums[row, k] - exact) <= UNIT * (8 * 50 + 40 * (k + block))


@given(step=st.floats(1e-9, 1e9))
def test_steps_keep_twenty_bits_and_are_not_longer(step: float) -> None:
    found = float(quadratures._short(np.array([[step]]))[0, 0])
    assert found <= step < found * (1 + 2.0**-18)
    bits = math.ldexp(math.frexp(found)[0], 20)
    assert bits == int(bits)


def laws(sign: float) -> Laws:
    numbers = np.array([(float(rate), float(sigma)) for rate, sigma, _ in PARTS])
    return Laws(numbers[:, :1], numbers[:, 1:], sign)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("c", [0.01, 1.0, 14.0])
def test_points_are_as_far_apart_as_the_strip_allows_and_reach_as_far_as_the_weights(sign: float, c: float) -> None:
    """One step more on either side than is needed, and no law has another number of points than the others."""
    row = laws(sign)
    grids = grids_for(row, c, 3.0)
    steps, sigma = np.diff(grids.x, axis=1), row.sigma
    assert (np.ptp(steps, axis=1) == 0).all()
    assert (steps[:, 0] <= quadratures._steps(row, c, 3.0)[:, 0]).all()
    assert steps[:, 0].max() >= 0.9 * quadratures._steps(row, c, 3.0).min()
    reach = sigma[:, 0] * math.sqrt(2 * (DIGITS + 12))
    centre = (0.0, c + 1) if sign > 0 else (-c, 0.0)
    assert (grids.x[:, 0] <= -reach + (centre[0] * 0 if sign > 0 else 0)).all()
    assert (grids.x[:, -1] >= reach + (centre[1] if sign > 0 else 0)).all()
    assert grids.x.shape[1] <= 4 + 1.2 * float(np.max((2 * reach + c + 1) / quadratures._steps(row, c, 3.0)[:, 0]))
    masses = grids.masses.sum(axis=1)
    assert np.allclose(masses, 1, rtol=1e-12)
    tilted = tilted_on(grids, c)
    assert np.allclose(tilted.weights.sum(axis=1), 1)
    assert (tilted.defect < 1e-10).all()
    for bounds in (quadratures.bounds_of_moments(grids, c), tilted.value + tilted.error):
        for found, (rate, deviation, _) in zip(bounds.tolist(), PARTS, strict=True):
            exact = mp.log(one(rate, deviation, "remove" if sign > 0 else "add", mp.mpc(c)).real)
            assert exact <= found <= exact + 1e-12 * (1 + abs(exact))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_step_is_the_longest_of_some_strips(sign: float) -> None:
    """Of heights up to that where L ceases to be analytic: 2 pi a / (log of what the integrand may be there)."""
    row, t = laws(sign), 3.0
    found = quadratures._steps(row, 5.0, t)[:, 0]
    w = 6.0 if sign > 0 else -5.0
    for step, sigma in zip(found.tolist(), row.sigma[:, 0].tolist(), strict=True):
        best = 0.0
        for share in np.geomspace(1e-6, 0.97, 2000).tolist():
            a = share * math.pi * sigma * sigma
            exponent = a * a / (2 * sigma * sigma) + a * t / sigma**2 + math.log(2) + DIGITS
            if w < 0:
                exponent += w * math.log(math.cos(a / (2 * sigma * sigma)))
            best = max(best, 2 * math.pi * a / exponent)
        best = min(best, 0.7 * sigma)
        assert 0.8 * best <= step <= best * (1 + 1e-9)


def test_too_many_points_are_refused() -> None:
    with pytest.raises(WorkLimit, match="need more than"):
        grids_for(laws(1.0), 1e9, 0.0)
    with pytest.raises(WorkLimit, match="need more than"):
        grids_for(laws(1.0), 1.0, 1e9)
