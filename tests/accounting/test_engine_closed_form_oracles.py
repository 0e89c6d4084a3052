"""The engine against closed forms at 60 digits: lower <= exact <= upper, and narrow."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.composition import GaussianLaw, LaplaceLaw, Repeated, Sequence
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.covering import alone, contours
from dpledger.accounting.engine.dispatch import epsilon_interval
from dpledger.accounting.engine.solve import finite_epsilon
from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.guarantees import ApproxDP, BoundedRange, PureDP
from dpledger.accounting.laws.finite import approximate_pair
from dpledger.accounting.lowering import PldList
from dpledger.accounting.profile import compose
from engine_oracles import (
    binomial_delta,
    bounded_range_delta,
    gaussian_delta,
    holds_delta,
    holds_epsilon,
    laplace_delta,
    mixed_delta,
    mp,
    real,
    response_atoms,
)
from seed_batches import over_seeds


def width(lower: float, upper: float) -> float:
    return (upper - lower) / upper if upper > 0 else 0.0


def test_gaussians_at_any_count_and_delta() -> None:
    """Dong-Roth-Su 2022: T Gaussians are one of mu sqrt(T); Balle-Wang 2018 gives its profile."""
    rng = np.random.default_rng(1)
    widest = 0.0
    for _ in range(120):
        multiplier = f"{math.exp(rng.uniform(-2, 7)):.6g}"
        count = int(10 ** rng.uniform(0, 9))
        delta = f"{math.exp(-rng.uniform(1, 140)):.4g}"
        mu = mp.sqrt(count) / real(multiplier)
        at = compose(Repeated(GaussianLaw(multiplier), times=count)).epsilon(delta)
        assert holds_epsilon(at.lower, at.upper, lambda e, mu=mu: gaussian_delta(mu, e), real(delta)), multiplier
        if at.lower > 0:
            widest = max(widest, width(at.lower, at.upper))
    assert widest < 1e-7


def test_delta_of_gaussians() -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        mu = math.exp(rng.uniform(-4, 3))
        epsilon = abs(rng.normal(mu * mu / 2, 3 * mu))
        exact = gaussian_delta(real(repr(mu)), real(repr(epsilon)))
        at = alone(contours, Composed(((GaussianLoss(mu * mu), 1),)), epsilon)
        assert at.lower <= exact <= at.upper
        assert at.relative_width() < 1e-6


@pytest.mark.sliced
@pytest.mark.parametrize(("e0", "count"), [("0.01", 500), ("0.1", 100), ("0.7", 40), ("2", 12), ("0.003", 2000)])
@pytest.mark.parametrize("delta", ["1e-3", "1e-9", "1e-25"])
def test_randomised_response_both_ways(e0: str, count: int, delta: str) -> None:
    """Counting and the smoothed contour must both hold the binomial sum."""

    def exact(epsilon: Any) -> Any:
        return binomial_delta(real(e0), count, epsilon)

    counted = compose(Repeated(PureDP(e0), times=count)).epsilon(delta)
    assert holds_epsilon(counted.lower, counted.upper, exact, real(delta))
    assert width(counted.lower, counted.upper) < 1e-8
    log_delta = math.log(float(delta))
    contour = finite_epsilon(Composed(((approximate_pair(float(e0), 0.0).loss(), count),)), log_delta, log_delta)
    assert holds_epsilon(contour.lower, contour.upper, exact, real(delta) * (1 + real("1e-14")))
    assert contour.lower <= counted.upper
    assert counted.lower <= contour.upper


@over_seeds(12, 200)
def test_gaussian_with_responses_and_failures(seed: int) -> None:
    """Gaussian x RR^T x (0, delta0): a sum of Gaussian profiles, with infinite mass."""
    rng = np.random.default_rng(seed)
    e0, count, multiplier = f"{rng.uniform(0.01, 1):.3g}", int(rng.integers(1, 30)), f"{rng.uniform(0.3, 8):.3g}"
    delta0 = f"{10 ** rng.uniform(-12, -7):.3g}"
    mu, atoms = 1 / real(multiplier), response_atoms(real(e0), count)
    kept = (1 - real(delta0)) ** count

    def exact(epsilon: Any) -> Any:
        return 1 - kept + kept * mixed_delta(lambda e: gaussian_delta(mu, e), atoms, epsilon)

    profile = compose(Sequence((GaussianLaw(multiplier), Repeated(ApproxDP(e0, delta0), times=count))))
    for delta in ("1e-2", "1e-4", "1e-6"):
        at = profile.epsilon(delta)
        assert holds_epsilon(at.lower, at.upper, exact, real(delta))
        assert at.lower == at.upper or width(at.lower, at.upper) < 1e-5 or at.upper < 1e-3
    point = profile.delta("0.25")
    assert holds_delta(point.lower, point.upper, exact(real("0.25")))


@over_seeds(10, 150)
def test_laplace_or_bounded_range_with_responses(seed: int) -> None:
    """One continuous bounded loss and T responses: atoms, a density, saturation. Where epsilon lies on a heavy atom the
    contour alone is wide; what is answered is narrow."""
    rng = np.random.default_rng(100 + seed)
    e0, r0, count = f"{rng.uniform(0.05, 2):.3g}", f"{rng.uniform(0.02, 0.8):.3g}", int(rng.integers(1, 40))
    smooth, loss = (
        (laplace_delta, LaplaceLoss(float(e0))) if seed % 2 else (bounded_range_delta, BoundedRangeLoss(float(e0)))
    )
    atoms = response_atoms(real(r0), count)

    def exact(epsilon: Any) -> Any:
        return mixed_delta(lambda e: smooth(real(e0), e), atoms, epsilon)

    composed = Composed(((loss, 1), (approximate_pair(float(r0), 0.0).loss(), count)))
    for delta in ("1e-1", "1e-5", "1e-12"):
        log_delta = math.log(float(delta))
        at = finite_epsilon(composed, log_delta, log_delta)
        assert holds_epsilon(at.lower, at.upper, exact, real(delta) * (1 + real("1e-14")))
        answer = epsilon_interval(PldList(composed.parts, (), Fraction(0)), Decimal(delta))
        assert holds_epsilon(answer.lower, answer.upper, exact, real(delta))
        assert width(answer.lower, answer.upper) < 2e-3 or answer.upper < 1e-3


@pytest.mark.parametrize("epsilon", ["0.05", "1", "7"])
@pytest.mark.parametrize("delta", ["0.2", "1e-3", "1e-12", "1e-40"])
def test_one_release_in_closed_form(epsilon: str, delta: str) -> None:
    for leaf, exact in ((LaplaceLaw(epsilon), laplace_delta), (BoundedRange(epsilon), bounded_range_delta)):
        profile = compose(leaf)
        at = profile.epsilon(delta)
        assert holds_epsilon(at.lower, at.upper, lambda e, exact=exact: exact(real(epsilon), e), real(delta))
        assert width(at.lower, at.upper) < 1e-9 or at.upper < 1e-9
        for point in ("0", "0.01", epsilon, "9"):
            found = profile.delta(point)
            assert holds_delta(found.lower, found.upper, exact(real(epsilon), real(point)))


def test_two_laplace_releases_by_quadrature() -> None:
    """delta_2(eps) = E delta_1(eps - L): atoms at both ends and an integral over the density."""

    def exact(epsilon: Any, e0: Any) -> Any:
        inner = mp.quad(
            lambda x: mp.exp((x - e0) / 2) / 4 * laplace_delta(e0, epsilon - x),
            sorted({-e0, e0, *(p for p in (epsilon - e0, epsilon + e0) if -e0 < p < e0)}),
        )
        return laplace_delta(e0, epsilon - e0) / 2 + mp.exp(-e0) / 2 * laplace_delta(e0, epsilon + e0) + inner

    for e0, delta in (("1", "1e-3"), ("0.3", "0.05"), ("2", "1e-8")):
        at = compose(Repeated(LaplaceLaw(e0), times=2)).epsilon(delta)
        assert holds_epsilon(at.lower, at.upper, lambda e, e0=e0: exact(e, real(e0)), real(delta))
        assert width(at.lower, at.upper) < 1e-4


def test_a_delta_far_below_the_smallest_float_keeps_a_valid_bound() -> None:
    at = compose(GaussianLaw(1)).epsilon(Decimal("1e-5000"))
    assert at.upper == math.inf
    assert at.lower > 37
