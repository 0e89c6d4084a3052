"""Elementary functions: as exact as they say, of one float and of many alike, and at their edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays_of

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import CIRCULAR, ERFC_ULPS, ULPS, UNIT

pytestmark = pytest.mark.sliced

Floats = npt.NDArray[np.float64]
POINTS = 600
FUNCTIONS = ("exp", "expm1", "log", "log1p", "sin", "cos", "erfc")


def between(low: float, high: float) -> Floats:
    return np.random.default_rng(7).uniform(low, high, POINTS)


def powers(low: float, high: float) -> Floats:
    return np.exp2(between(low, high))


SMALL = np.concatenate([powers(-60, 0), -powers(-60, 0), between(-2, 2), between(-0.03, 0.03)])
ARGUMENTS: dict[str, tuple[Floats, int]] = {
    "exp": (np.concatenate([between(-744, 709.7), SMALL]), ULPS),
    "expm1": (np.concatenate([between(-50, 709.7), between(690, 709.7), SMALL]), ULPS),
    "log": (np.concatenate([powers(-1074, 1023), between(0.5, 2), between(0.99, 1.01)]), ULPS),
    "log1p": (np.concatenate([powers(-60, 60), -powers(-60, -0.001), between(-1, 3)]), ULPS),
    "erfc": (np.concatenate([between(-6, 26.4), between(0.4, 3), SMALL]), ERFC_ULPS),
}


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_the_last_digits_are_right(name: str) -> None:
    points, ulps = ARGUMENTS[name]
    with mpmath.workdps(60):
        for x, value in zip(points.tolist(), getattr(elementary, name)(points).tolist(), strict=True):
            truth = getattr(mpmath, name)(mpmath.mpf(x))
            assert abs(value - truth) <= ulps * math.ulp(float(truth)), x


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_small_and_large(name: str) -> None:
    points = np.concatenate([between(-7, 7), between(-6.7e7, 6.7e7), SMALL])
    with mpmath.workdps(60):
        for x, value in zip(points.tolist(), getattr(elementary, name)(points).tolist(), strict=True):
            size = min(1.0, abs(x)) if name == "sin" else 1.0
            assert abs(value - getattr(mpmath, name)(mpmath.mpf(x))) <= CIRCULAR / 4 * size, x


def test_angles_of_points() -> None:
    x, y = between(-1, 1), np.random.default_rng(8).normal(size=POINTS) * powers(-40, 1)
    with mpmath.workdps(60):
        for a, b, value in zip(x.tolist(), y.tolist(), elementary.arctan2(y, x).tolist(), strict=True):
            truth = mpmath.atan2(mpmath.mpf(b), mpmath.mpf(a))
            assert abs(value - truth) <= 6 * UNIT * abs(truth)
    edges = np.array([0.0, -0.0, 1.0, -1.0])
    assert np.allclose(elementary.arctan2(edges[:, None], edges), np.arctan2(edges[:, None], edges), rtol=1e-15, atol=0)


def test_the_exact_ones_are_exact() -> None:
    assert elementary.exp(np.zeros(30)).tolist() == [1.0] * 30
    assert elementary.log(np.ones(30)).tolist() == [0.0] * 30
    assert elementary.expm1(np.zeros(30)).tolist() == elementary.log1p(np.zeros(30)).tolist() == [0.0] * 30
    assert [scalars.bits_above(x) for x in (0.5, 0.51, 1.0, 1.01, 4096.0)] == [-1, 0, 0, 1, 12]


anything = st.floats(allow_subnormal=True)


@given(x=arrays_of.arrays(np.float64, st.integers(1, 60), elements=anything))
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in {"sin", "cos"}])
def test_many_are_as_one(name: str, x: Floats) -> None:
    """In blocks, one by one and alone: the same bits. Also where no entry of a block is special."""
    together = getattr(elementary, name)(np.resize(x, 10_000))[: x.size]
    assert np.array_equal(getattr(elementary, name)(x), together, equal_nan=True)
    usual = x[(np.abs(x) < 680) & (np.abs(x) >= 2.0**-1022)]
    usual = np.abs(usual) if name in {"log", "log1p"} else usual
    found_of_usual = getattr(elementary, name)(np.resize(usual, 100))[: usual.size]
    assert found_of_usual.tolist() == [getattr(scalars, name)(value) for value in usual.tolist()]
    for value, found in zip(x.tolist(), together.tolist(), strict=True):
        try:
            alone = getattr(scalars, name)(value)
        except (OverflowError, ValueError):
            assert not math.isfinite(found)
        else:
            assert alone == found or (math.isnan(alone) and math.isnan(found))


@given(x=arrays_of.arrays(np.float64, 40, elements=st.floats(-6e7, 6e7)))
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_many_angles_are_as_one(name: str, x: Floats) -> None:
    one_by_one = [getattr(scalars, name)(value) for value in x.tolist()]
    assert getattr(elementary, name)(x).tolist() == one_by_one
    for angles in (x, x.reshape(8, 5), np.resize(x, 10_000)):
        sines, cosines = elementary.circle(angles)
        found = sines if name == "sin" else cosines
        assert found.shape == angles.shape
        assert found.ravel()[: x.size].tolist() == one_by_one


@given(x=anything)
@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "erfc", "tanh", "asinh"])
def test_edges_are_those_of_the_standard_library(name: str, x: float) -> None:
    def outcome(function: Callable[[float], float]) -> Any:
        try:
            return function(x)
        except (OverflowError, ValueError) as error:
            return type(error)

    ours, theirs = outcome(getattr(scalars, name)), outcome(getattr(math, name))
    if isinstance(theirs, float) and math.isfinite(theirs):
        assert abs(ours - theirs) <= 16 * math.ulp(theirs)
    else:
        assert ours is theirs or ours == theirs or (math.isnan(ours) and math.isnan(theirs))


@pytest.mark.parametrize("x", [2.0**26, -(2.0**27), math.inf])
def test_angles_beyond_the_reduction_have_no_value(x: float) -> None:
    for one, many in ((scalars.sin, elementary.sin), (scalars.cos, elementary.cos)):
        assert np.isnan(many(np.array([x, 1.0] * 20))).tolist() == [True, False] * 20
        assert np.isnan(elementary.circle(np.array([x, 1.0] * 20))).tolist() == [[True, False] * 20] * 2
        with pytest.raises(ValueError, match="angle"):
            one(x)


@given(logs=arrays_of.arrays(np.float64, (3, 5), elements=st.floats(-800, 700)))
def test_sums_of_powers(logs: Floats) -> None:
    expected = np.logaddexp.reduce(logs)
    assert np.allclose(elementary.log_of_sum(logs), expected, rtol=1e-14, atol=1e-14)
    assert np.allclose(elementary.running_log_of_sum(logs[0]), np.logaddexp.accumulate(logs[0]), rtol=1e-14, atol=1e-14)
    assert np.allclose(elementary.logaddexp(logs[0], logs[1]), np.logaddexp(logs[0], logs[1]), rtol=1e-14, atol=1e-14)


def test_sums_of_no_power_and_of_infinite_ones() -> None:
    ends = np.array([-math.inf, math.inf, 0.0])
    assert elementary.logaddexp(ends, -math.inf).tolist() == ends.tolist()
    assert elementary.log_of_sum(np.array([ends, np.full(3, -math.inf)])).tolist() == ends.tolist()


def test_products_are_those_of_matrices() -> None:
    draw = np.random.default_rng(3)
    vector, wide, tall, stack = (draw.normal(size=size) for size in (7, (4, 7), (7, 5), (3, 7, 5)))
    for left, right in ((vector, vector), (wide, vector), (vector, tall), (wide, tall), (wide, stack), (vector, stack)):
        assert np.allclose(elementary.product(left, right), left @ right)
        assert np.allclose(elementary.product(left * 1j, right + 2j), (left * 1j) @ (right + 2j))
    assert np.allclose(elementary.times(wide + 1j, wide * 2j), (wide + 1j) * (wide * 2j))
    assert np.allclose(elementary.convolved(vector, wide[0]), np.convolve(vector, wide[0]))
    assert np.allclose(elementary.from_polar(np.abs(vector), vector), np.abs(vector) * np.exp(1j * vector))
    assert np.allclose(elementary.modulus(wide + 1j), np.abs(wide + 1j))
    assert np.allclose(elementary.angle(wide + 1j), np.angle(wide + 1j))


def test_made_of_these() -> None:
    x, y = between(-20, 20), powers(-300, 300)
    assert np.allclose(elementary.sinh(x), np.sinh(x), rtol=1e-14)
    assert np.allclose(elementary.hypot(x, y), np.hypot(x, y), rtol=1e-15)
    assert [scalars.hypot(3.0, 4.0), scalars.hypot(0.0, 0.0), scalars.hypot(-math.inf, 1.0)] == [5.0, 0.0, math.inf]
    assert np.allclose(elementary.geometric(1e-4, 1e6, 400), np.geomspace(1e-4, 1e6, 400), rtol=1e-14)
    for n in (0, 1, 5, 31, 32, 100, 10**6):
        assert scalars.log_factorial(n) == pytest.approx(math.lgamma(n + 1), rel=1e-14)
