"""Kinds whose pairs are known from both sides only: each side against closed forms, lattice sums and quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from amplification_oracles import gaussian_allocation_delta, lognormal_mean_moment
from dpledger.accounting.composition import (
    DiscreteGaussianLaw,
    ExponentialLaw,
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
    RandomAllocation,
    Repeated,
    SampledWithoutReplacement,
    Sequence,
)
from dpledger.accounting.guarantees import GDP, BoundedRange
from dpledger.accounting.laws.cells import (
    PairBracket,
    bounded_range_bracket,
    discrete_gaussian_bracket,
    gaussian_bracket,
    laplace_bracket,
)
from dpledger.accounting.laws.finite import FinitePair, approximate_pair, mirrored
from dpledger.accounting.laws.law import Direction
from dpledger.accounting.laws.ratios import averaged
from dpledger.accounting.profile import compose
from dpledger.errors import CannotCertify
from dpledger.relations import Relation
from engine_oracles import bounded_range_delta, gaussian_delta, holds_delta, laplace_delta, mp, real

pytestmark = pytest.mark.sliced

REPLACE = Relation.REPLACE_ONE


def profile_of(pair: FinitePair, epsilon: Any) -> Any:
    """delta(epsilon) of a pair as its floats say it, at 60 digits: P - e^eps Q where that is positive."""
    grown = mp.exp(epsilon)
    gaps = (mp.mpf(p) - grown * mp.mpf(q) for p, q in zip(pair.left, pair.right, strict=True))
    return mp.mpf(pair.only_left) + mp.fsum(gap for gap in gaps if gap > 0)


# ---- cells ----------------------------------------------------------------------------------------------------------

NOISES: dict[str, tuple[Callable[[float], PairBracket], Callable[[Any, Any], Any]]] = {
    "gaussian": (lambda mu: gaussian_bracket(mu * mu), lambda mu, e: gaussian_delta(mp.sqrt(mp.mpf(mu * mu)), e)),
    "laplace": (laplace_bracket, lambda e0, e: laplace_delta(mp.mpf(e0), e)),
    "bounded range": (bounded_range_bracket, lambda eta, e: bounded_range_delta(mp.mpf(eta), e)),
}


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(NOISES)), st.floats(0.05, 8), st.floats(-3, 15))
def test_the_cells_hold_the_profile_between_them(noise: str, size: float, epsilon: float) -> None:
    made, exact = NOISES[noise]
    bracket, at = made(size), exact(size, mp.mpf(epsilon))
    for pair, side in ((bracket.above, 1), (bracket.below, -1)):
        likely = math.fsum(p for p, loss in zip(pair.left, pair.losses, strict=True) if loss > epsilon - 1e-9)
        stated = mp.mpf(2 * pair.mass_error + max(pair.loss_errors)) * likely + mp.mpf("1e-300")
        assert side * (profile_of(pair, epsilon) - at) >= -stated


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 6.0])
def test_the_cells_are_narrow(epsilon: float) -> None:
    bracket = gaussian_bracket(1.0)
    exact = gaussian_delta(mp.mpf(1), mp.mpf(epsilon))
    assert profile_of(bracket.above, epsilon) <= exact * mp.mpf("1.002")
    assert profile_of(bracket.below, epsilon) >= exact * mp.mpf("0.998")


def test_masses_of_cells_are_right_to_the_stated_error() -> None:
    """The whole mass of P and of Q, and the mean of the ratio: 1, but for the tails."""
    for bracket in (gaussian_bracket(0.25), laplace_bracket(3.0), bounded_range_bracket(2.0)):
        for masses in (bracket.above.left, bracket.above.right, bracket.below.left, bracket.below.right):
            assert abs(math.fsum(masses) - 1) < 1e-11


def test_noise_too_small_for_cells_is_refused() -> None:
    with pytest.raises(CannotCertify, match="losses this large"):
        gaussian_bracket(1e4)
    with pytest.raises(CannotCertify, match="losses this large"):
        compose(RandomAllocation(GaussianLaw("0.01"), steps=2))


# ---- Poisson samples ------------------------------------------------------------------------------------------------


def sampled_delta(base: Callable[[Any], Any], rate: Any, epsilon: Any, direction: str) -> Any:
    """Balle-Barthe-Gaboardi 2018, Theorem 2, and the same turned round."""
    if direction == "remove":
        return rate * base(mp.log(1 + mp.expm1(epsilon) / rate))
    rest = 1 - (1 - rate) * mp.exp(epsilon)
    return rest * base(mp.log(rate * mp.exp(epsilon) / rest)) if rest > 0 else mp.mpf(0)


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(("eta", "rate"), [("0.1", "0.5"), ("1", "0.01"), ("3", "0.2"), ("8", "0.001")])
def test_a_sample_of_a_bounded_range(eta: str, rate: str, direction: Direction) -> None:
    profile = compose(PoissonSampled(BoundedRange(eta), rate=rate), direction=direction)
    assert compose(PoissonSampled(ExponentialLaw(eta), rate=rate), direction=direction).delta("0.01") == profile.delta(
        "0.01"
    )
    for epsilon in ("0", "0.001", "0.05", "0.3"):
        exact = sampled_delta(lambda e: bounded_range_delta(real(eta), e), real(rate), real(epsilon), direction)
        at = profile.delta(epsilon)
        assert holds_delta(at.lower, at.upper, exact)
        assert at.upper - at.lower <= 2e-3 * at.upper + 1e-6


def lattice_delta(sigma: Any, shift: int, rate: Any, epsilon: Any, direction: str) -> Any:
    """Every outcome of the discrete Gaussian, around 0 and around `shift`, sampled with this rate."""
    reach = int(60 * sigma) + shift
    masses = {x: mp.exp(-(mp.mpf(x) ** 2) / (2 * sigma**2)) for x in range(-reach - shift, reach + 1)}
    whole = mp.fsum(masses.values())
    total = []
    for x in range(-reach, reach + 1):
        without = masses[x] / whole
        mixed = (1 - rate) * without + rate * masses[x - shift] / whole
        here, there = (mixed, without) if direction == "remove" else (without, mixed)
        total.append(max(mp.mpf(0), here - mp.exp(epsilon) * there))
    return mp.fsum(total)


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(("sigma", "shift", "rate"), [("0.4", 1, "0.3"), ("2", 1, "0.05"), ("7.5", 4, "0.5")])
def test_a_sample_of_a_discrete_gaussian(sigma: str, shift: int, rate: str, direction: Direction) -> None:
    profile = compose(PoissonSampled(DiscreteGaussianLaw(sigma, shift), rate=rate), direction=direction)
    for epsilon in ("0", "0.05", "0.2", "1.5"):
        exact = lattice_delta(real(sigma), shift, real(rate), real(epsilon), direction)
        at = profile.delta(epsilon)
        assert holds_delta(at.lower, at.upper, exact)
        assert at.upper - at.lower <= 1e-9 * at.upper


def test_a_discrete_gaussian_with_too_many_outcomes_is_refused() -> None:
    assert discrete_gaussian_bracket(300.0, 1).above.only_left < 1e-30
    with pytest.raises(CannotCertify, match="sigma of 341"):
        compose(PoissonSampled(DiscreteGaussianLaw(400, 1), rate="0.1"))


def test_a_wide_discrete_gaussian_is_like_a_gaussian_in_a_sample() -> None:
    discrete = compose(Repeated(PoissonSampled(DiscreteGaussianLaw(60, 60), rate="0.05"), times=50)).epsilon("1e-6")
    smooth = compose(Repeated(PoissonSampled(GaussianLaw(1), rate="0.05"), times=50)).epsilon("1e-6")
    assert abs(discrete.upper - smooth.upper) < 2e-3 * smooth.upper
    assert discrete.upper - discrete.lower < 1e-3 * discrete.upper


def test_a_declared_gdp_is_sampled_like_the_gaussian_it_is() -> None:
    for times in (1, 200):
        declared = compose(Repeated(PoissonSampled(GDP("0.5"), rate="0.1"), times=times)).epsilon("1e-5")
        noise = compose(Repeated(PoissonSampled(GaussianLaw(2), rate="0.1"), times=times)).epsilon("1e-5")
        assert declared == noise


# ---- without replacement --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "population", "batch"), [(1, 10, 1), (2, 1000, 30), ("0.8", 4, 3), (20, 60000, 256)])
def test_gaussian_noise_without_replacement_once(noise: Any, population: int, batch: int) -> None:
    """(m/n) delta(log(1 + (e^eps - 1) n/m)) of a Gaussian with mu = 2/noise, in both directions, attained by a sum of
    opposite contributions: N(0) mixed with N(2/noise), against N(0)."""
    rate = mp.mpf(batch) / population
    profile = compose(
        SampledWithoutReplacement(GaussianLaw(noise), population=population, batch=batch), relation=REPLACE
    )
    for epsilon in ("0", "0.01", "0.3", "2"):
        exact = sampled_delta(lambda e: gaussian_delta(2 / real(noise), e), rate, real(epsilon), "remove")
        at = profile.delta(epsilon)
        assert holds_delta(at.lower, at.upper, exact)
        assert at.upper - at.lower <= 2e-3 * at.upper + 1e-9


def test_runs_without_replacement_cover_either_order_of_the_pair() -> None:
    """Each order is what a mechanism shows under replace_one: the bound is above both, the lower end is the larger."""
    tree = Repeated(SampledWithoutReplacement(GaussianLaw(4), population=50, batch=5), times=200)
    sides = [
        compose(Repeated(PoissonSampled(GaussianLaw(2), rate="0.1"), times=200), direction=side).epsilon("1e-5")
        for side in ("add", "remove")
    ]
    at = compose(tree, relation=REPLACE).epsilon("1e-5")
    largest = max(side.upper for side in sides)
    assert at.lower <= largest
    assert at.lower >= largest * (1 - 1e-2)
    assert largest <= at.upper <= 1.3 * largest


def test_several_gaussians_on_one_batch_without_replacement_are_one() -> None:
    both = SampledWithoutReplacement(Sequence((GaussianLaw(3), GaussianLaw(4))), population=100, batch=10)
    single = SampledWithoutReplacement(GaussianLaw("2.4"), population=100, batch=10)
    left, right = (compose(Repeated(tree, times=20), relation=REPLACE).epsilon("1e-5") for tree in (both, single))
    assert abs(left.upper - right.upper) < 1e-6


# ---- random allocation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("sigma", ["0.5", "3"])
def test_one_of_two_steps_against_quadrature(sigma: str, direction: Direction) -> None:
    profile = compose(RandomAllocation(GaussianLaw(sigma), steps=2), direction=direction)
    for epsilon in ("0", "0.1", "0.6", "1.5", "4"):
        exact = gaussian_allocation_delta(real(sigma), real(epsilon), direction)
        at = profile.delta(epsilon)
        assert at.lower <= exact + mp.mpf("1e-20")
        assert at.upper >= exact - mp.mpf("1e-20")
        assert at.upper - at.lower <= 2e-3 * at.upper + 1e-12


@settings(max_examples=6, deadline=None)
@given(st.floats(0.8, 4), st.integers(2, 300))
def test_the_average_of_many_ratios_has_the_right_moments(sigma: float, steps: int) -> None:
    """E W = 1, and E W^2, E W^3 of the average, in closed form: above from above, below from below, near each other."""
    bracket = gaussian_bracket(1 / sigma**2)
    above, below = averaged(bracket.above, steps, "above"), averaged(bracket.below, steps, "below")
    for order in (1, 2, 3):
        exact = 1.0 if order == 1 else lognormal_mean_moment(sigma, steps, order)
        upper, lower = (
            float(np.sum(np.array(pair.right) * np.exp(order * np.array(pair.losses)))) for pair in (above, below)
        )
        assert upper >= exact * (1 - 1e-9)
        assert lower <= exact * (1 + 1e-9)
        assert upper - lower <= 5e-3 * exact
    assert abs(math.fsum(above.right) + above.only_right - 1) < 1e-9
    assert abs(math.fsum(above.left) + above.only_left - 1) < 1e-9


@pytest.mark.parametrize("steps", [3, 8])
def test_an_allocation_costs_less_than_its_mechanism_and_more_than_nothing(steps: int) -> None:
    """A step that holds the unit is the mechanism: to know which one it was only helps (joint convexity)."""
    for leaf in (GaussianLaw(1), LaplaceLaw(1), BoundedRange(1), DiscreteGaussianLaw(2, 1)):
        whole, part = compose(leaf).epsilon("1e-6"), compose(RandomAllocation(leaf, steps=steps)).epsilon("1e-6")
        assert part.upper <= whole.upper * (1 + 1e-3)
        assert 0 < part.lower <= part.upper
        if not isinstance(leaf, BoundedRange):  # its envelope is not attained where several ratios are averaged
            assert part.upper - part.lower <= 5e-3 * part.upper


def test_an_allocation_is_about_a_poisson_sample_of_the_same_rate() -> None:
    """Feldman-Shenfeld 2025: for many steps, close to Poisson sampling with rate 1/steps."""
    allocated = compose(RandomAllocation(GaussianLaw(2), steps=200)).epsilon("1e-6")
    poisson = compose(Repeated(PoissonSampled(GaussianLaw(2), rate="0.005"), times=200)).epsilon("1e-6")
    assert 0.5 * poisson.upper < allocated.upper < 1.5 * poisson.upper


def test_under_zero_out_an_allocated_gaussian_costs_the_same() -> None:
    tree = RandomAllocation(GaussianLaw(1), steps=4)
    assert compose(tree, relation=Relation.ZERO_OUT).epsilon("1e-5") == compose(tree).epsilon("1e-5")
    assert compose(RandomAllocation(GaussianLaw(1), steps=1), relation=REPLACE).epsilon("1e-5") == compose(
        GaussianLaw(1), relation=REPLACE
    ).epsilon("1e-5")


# ---- symmetric pairs ------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 5), st.integers(1, 99), st.floats(0, 5))
def test_a_mirrored_sample_has_the_profile_of_the_sample_in_both_directions(
    local: float, percent: int, epsilon: float
) -> None:
    sample = approximate_pair(local, 1e-6).sampled(percent / 100)
    pair = mirrored(sample)
    exact = profile_of(sample, epsilon)
    for side in (pair, pair.turned()):
        assert abs(profile_of(side, epsilon) - exact) <= mp.mpf("1e-12")
    assert abs(math.fsum(pair.left) + pair.only_left - 1) < 1e-9
    assert Fraction(0.0) <= min(map(Fraction, pair.left))
