"""Boundaries in time: each against its definition at 60 digits, and against paths that may stop whenever they like."""

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom, norm

from dpledger.accounting.ex_post.boundaries import (
    LinearBoundary,
    MixtureBoundary,
    TimeUniformBoundary,
    height,
)
from dpledger.errors import ParameterError
from exact_tests import SIGNIFICANCE
from price_oracles import Real, mp, real

pytestmark = pytest.mark.sliced

MILLIONTH, TWENTIETH = Decimal("1e-6"), Decimal("0.05")
KINDS = (LinearBoundary, MixtureBoundary)
CLOSE = real("3e-12")  # relative: the margin that is kept, and twelve digits


# ---- what each is ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("boundary", "published"),
    [
        (LinearBoundary(1, MILLIONTH), "5.25652"),
        (MixtureBoundary(1, MILLIONTH), "7.34001"),
    ],
)
def test_the_published_heights_at_variance_one(boundary: TimeUniformBoundary, published: str) -> None:
    assert height(boundary, Decimal(1)) == pytest.approx(Decimal(published), abs=Decimal("0.00001"))


def linear(v: Real, tuning: Real, delta: Real) -> Real:
    """The line l v/2 + log(1/delta)/l that touches the fixed-time curve sqrt(2 v log(1/delta)) at `tuning`."""
    slope = mp.sqrt(2 * mp.log(1 / delta) / tuning)
    return slope * v / 2 + mp.log(1 / delta) / slope


def mixed(s: Real, v: Real, precision: Real) -> Real:
    """The half-normal mixture of exp(l s - l^2 v/2) over l >= 0, by quadrature."""
    peak, width = max(s, 0) / (v + precision), 1 / mp.sqrt(v + precision)
    edges = [0, *(peak + k * width for k in (-8, 0, 8, 16) if peak + k * width > 0)]
    weight = 2 * mp.sqrt(precision / (2 * mp.pi))
    return mp.quad(lambda at: weight * mp.exp(-precision * at**2 / 2 + at * s - at**2 * v / 2), edges)


def conservative(v: Real, tuning: Real, delta: Real) -> Real:
    """The form of the literature for the mixture."""
    return mp.sqrt(2 * (v + tuning) * mp.log(mp.sqrt((v + tuning) / tuning) / delta))


variances = st.integers(-12, 12).flatmap(lambda e: st.integers(0, 999).map(lambda n: Decimal(n).scaleb(e)))
tunings = st.integers(-9, 6).flatmap(lambda e: st.integers(1, 999).map(lambda n: Decimal(n).scaleb(e)))
deltas = st.integers(1, 999).flatmap(lambda n: st.integers(-30, -3).map(lambda e: Decimal(n).scaleb(e)))


@given(variances, tunings, deltas)
@settings(max_examples=60, deadline=None)
def test_lines_are_their_formula(v: Decimal, tuning: Decimal, delta: Decimal) -> None:
    exact = linear(real(v), real(tuning), real(delta))
    assert exact <= real(height(LinearBoundary(tuning, delta), v)) <= exact * (1 + 20 * CLOSE)


@given(variances, tunings, deltas)
@settings(max_examples=60, deadline=None)
def test_at_its_height_the_mixture_is_one_over_delta(v: Decimal, tuning: Decimal, delta: Decimal) -> None:
    """By the closed form of the integral, which the next test holds against quadrature."""
    found = real(height(MixtureBoundary(tuning, delta), v))
    total = real(v) + real(tuning)

    def log_mixture(s: Real) -> Real:
        x = s / mp.sqrt(total)
        return mp.log(2 * mp.ncdf(x)) + x**2 / 2 + mp.log(real(tuning) / total) / 2

    assert log_mixture(found) >= mp.log(1 / real(delta)) >= log_mixture(found * (1 - 30 * CLOSE))
    assert found <= conservative(real(v), real(tuning), real(delta)) * (1 + 20 * CLOSE)


@pytest.mark.parametrize(("v", "tuning", "delta"), [("1", "1", "1e-6"), ("0", "2", "0.3"), ("70", "0.5", "0.9")])
def test_the_mixture_by_quadrature(v: str, tuning: str, delta: str) -> None:
    found = real(height(MixtureBoundary(tuning, delta), Decimal(v)))
    assert mixed(found, real(v), real(tuning)) >= 1 / real(delta)
    assert mixed(found * (1 - 30 * CLOSE), real(v), real(tuning)) < 1 / real(delta)


@given(st.sampled_from(KINDS), variances, variances, tunings, deltas)
@settings(max_examples=60, deadline=None)
def test_more_variance_is_no_lower(kind: type, v: Decimal, more: Decimal, tuning: Decimal, delta: Decimal) -> None:
    boundary = kind(tuning, delta)
    assert height(boundary, v) <= height(boundary, v + more)
    assert height(boundary, v) <= height(kind(tuning, delta / 7), v)


@pytest.mark.parametrize("kind", KINDS)
def test_a_delta_next_to_one_and_sizes_at_the_edges_have_a_height(kind: type) -> None:
    for delta in ("1e-60", "0." + "9" * 60):
        for tuning in ("1e-40", "1", "1e17"):
            for v in ("0", "1e-60", "1e17"):
                assert 0 < height(kind(tuning, delta), Decimal(v)) < Decimal("1e50")
    assert height(kind(1, "0.1"), Decimal("Infinity")).is_infinite()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_boundary_is_refused(kind: type) -> None:
    for bad in ({"tuning": 0}, {"tuning": -1}, {"tuning": "nan"}, {"delta": 0}, {"delta": 1}, {"delta": "-0.1"}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            kind(**{"tuning": 1, "delta": "0.1", **bad})
    for variance in ("-1e-9", "nan"):
        with pytest.raises(ParameterError, match="variance"):
            height(kind(1, "0.1"), Decimal(variance))


# ---- who crosses ----------------------------------------------------------------------------------------------------

PATHS = 20_000
TIMES = np.geomspace(1e-4, 1e4, 400)


@pytest.fixture(scope="module")
def paths() -> npt.NDArray[np.float64]:
    """Brownian motion at `TIMES`, of which exp(l B - l^2 v/2) is a martingale for every l."""
    steps = np.sqrt(np.diff(TIMES, prepend=0.0))
    return np.cumsum(np.random.default_rng(20261122).standard_normal((PATHS, TIMES.size)) * steps, axis=1)


def crossings(paths: npt.NDArray[np.float64], curve: Callable[[float], float]) -> int:
    """How many paths are on or above the curve at some time: what an analyst reaches who stops as she likes."""
    return int(np.count_nonzero((paths >= np.array([curve(v) for v in TIMES])).any(axis=1)))


def heights(boundary: TimeUniformBoundary) -> Callable[[float], float]:
    return lambda v: float(height(boundary, Decimal(repr(float(v)))))


@pytest.mark.parametrize(
    ("boundary", "at_least"),
    [
        (LinearBoundary(1, TWENTIETH), 0.03),
        (MixtureBoundary(1, TWENTIETH), 0.03),
    ],
)
def test_no_more_paths_cross_than_delta(
    paths: npt.NDArray[np.float64], boundary: TimeUniformBoundary, at_least: float
) -> None:
    """And enough to show that the curve is not far above what it must be."""
    crossed = crossings(paths, heights(boundary))
    print(boundary.kind, crossed / PATHS)
    assert binom.sf(crossed - 1, PATHS, float(TWENTIETH)) > SIGNIFICANCE
    assert binom.cdf(crossed, PATHS, at_least) > SIGNIFICANCE


def test_the_fixed_time_curve_is_crossed_by_most(paths: npt.NDArray[np.float64]) -> None:
    crossed = crossings(paths, lambda v: float(norm.isf(0.05) * np.sqrt(v)))
    print("fixed time", crossed / PATHS)
    assert binom.sf(crossed - 1, PATHS, 0.5) < SIGNIFICANCE


def test_a_line_tuned_where_one_happens_to_stop_is_no_boundary(paths: npt.NDArray[np.float64]) -> None:
    """The least of all lines."""
    crossed = crossings(paths, lambda v: float(np.sqrt(2 * v * np.log(20))))
    assert binom.sf(crossed - 1, PATHS, 4 * float(TWENTIETH)) < SIGNIFICANCE


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LinearBoundary, MixtureBoundary])
def test_the_best_of_eight_tunings_is_no_boundary(paths: npt.NDArray[np.float64], kind: type) -> None:
    curves = [heights(kind(Decimal(10) ** k, TWENTIETH)) for k in range(-4, 4)]
    crossed = crossings(paths, lambda v: min(curve(v) for curve in curves))
    print("best of eight", kind.__name__, crossed / PATHS)
    assert binom.sf(crossed - 1, PATHS, float(TWENTIETH)) < SIGNIFICANCE
