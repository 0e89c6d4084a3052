"""Profiles where failures, certain losses or rates close to 1 rule, and where a divergence of 0 shows nothing."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from dpledger.accounting.accountant import Accountant
from dpledger.accounting.composition import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    GaussianLaw,
    PmfPair,
    PoissonSampled,
    RandomizedResponseLaw,
    Repeated,
    Sequence,
)
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.second_moment import moment_epsilon
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.normal_tails import gaussian_epsilon
from dpledger.accounting.guarantees import RDP, ZCDP, ApproxDP
from dpledger.accounting.laws.finite import randomised_response_pair
from dpledger.accounting.profile import Bounds, compose

RATES = ["0.999999999", "0.9999999999", "0.999999999997", "0.99999999999992567"]


@pytest.mark.parametrize("rate", RATES)
def test_a_rate_close_to_one_does_not_hide_what_the_right_side_alone_shows(rate: str) -> None:
    """Left is outcome 0 for sure; right is either. Sampled and turned round, outcome 1 has the loss -log(1 - rate)."""
    pair = PoissonSampled(PmfPair(("1", "0"), ("0.5", "0.5")), rate)
    exact = math.log((0.5 - 1e-10) / 0.5) - math.log(float(1 - Decimal(rate)))
    bounds = compose(pair, direction="add").epsilon("1e-10")
    assert bounds.lower <= exact + 1e-9
    assert bounds.upper >= exact - 1e-9


def test_so_for_a_promise_with_much_delta() -> None:
    tree = PoissonSampled(ApproxDP("1.369", "0.849"), "0.99999999999992567")
    assert compose(tree, direction="add").epsilon("1e-9").upper >= 30.230262


def test_where_only_failures_are_spent() -> None:
    assert Accountant("0.2").append(ApproxDP(0, "1e-6")).upper == 0
    failures = Sequence(tuple(ApproxDP(0, f"0.00{i}") for i in range(10, 32)))
    assert compose(failures).epsilon("0.5").upper == 0


@pytest.mark.parametrize("leaf", [ZCDP(0), RDP((2, 5), (0, 3))], ids=lambda leaf: leaf.kind)
def test_a_divergence_of_zero_shows_nothing(leaf: ZCDP | RDP) -> None:
    nothing = Bounds(0.0, 0.0)
    profile = compose(Repeated(leaf, times=10))
    assert (profile.epsilon(0), profile.epsilon("1e-9"), profile.delta(0)) == (nothing, nothing, nothing)
    beside = compose(Sequence((leaf, GaussianLaw(2)))).epsilon("1e-6")
    assert beside == compose(GaussianLaw(2)).epsilon("1e-6")


@pytest.mark.parametrize(
    "tree",
    [
        Repeated(RandomizedResponseLaw("0.1"), times=10**6),
        Repeated(PmfPair(("0.7", "0.2", "0.1"), ("0.1", "0.3", "0.6")), times=1000),
        Repeated(ExponentialLaw("0.03"), times=10**12),
    ],
    ids=["responses", "pmf", "exponential"],
)
def test_where_almost_everything_is_lost_the_profile_says_so(tree: Repeated) -> None:
    """The losses are in the hundreds at least: whoever looks is sure."""
    profile = compose(tree)
    for epsilon in (0, 1, 50):
        assert profile.delta(epsilon).lower >= 0.9999


@pytest.mark.parametrize(
    ("tree", "delta", "width"),
    [
        (Repeated(DiscreteLaplaceLaw("0.052871", 3), times=1950237), "2.9859e-120", 1e-9),
        (Repeated(DiscreteLaplaceLaw("0.017084", 3), times=1231700), "1.6993e-101", 1e-6),
        (Repeated(DiscreteGaussianLaw("4.2976", 100), times=309346), "0.999", 0.1),
        (Repeated(PoissonSampled(GaussianLaw("0.022074"), rate="0.99976461"), times=7287065145), "1.6255e-7", 1e-5),
        (PoissonSampled(DiscreteLaplaceLaw("0.01", 1), rate="0.5"), "0.001", 1e-3),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_large_losses_that_are_nearly_certain_are_known_from_below_too(
    tree: Repeated, delta: str, width: float
) -> None:
    bounds = compose(tree).epsilon(delta)
    assert 0 < bounds.lower <= bounds.upper
    assert bounds.upper - bounds.lower <= width * bounds.upper


@pytest.mark.parametrize("seed", range(40))
def test_the_second_moment_is_below_the_truth(seed: int) -> None:
    """Gaussians of every size, whose epsilon has a closed form, and randomised responses, counted."""
    rng = np.random.default_rng(seed)
    delta = float(10 ** rng.uniform(-80, -0.01))
    gaussian = GaussianLoss(float(10 ** rng.uniform(-6, 6)))
    exact = gaussian_epsilon(gaussian.mu_squared, delta, delta)
    found = moment_epsilon(Composed(((gaussian, 1),)), delta, delta)
    assert 0 <= found.lower <= exact.upper
    deviations = math.sqrt(gaussian.mu_squared) * (4 + 3 * math.sqrt(-math.log(delta)))
    if delta < 0.1:
        assert found.lower >= gaussian.mu_squared / 2 - 4 * deviations
    local, runs = float(rng.uniform(0.01, 8)), int(rng.integers(1, 300))
    response = randomised_response_pair(local, 2).loss()
    counted = compose(Repeated(RandomizedResponseLaw(repr(local)), times=runs)).epsilon(repr(delta))
    assert moment_epsilon(Composed(((response, runs),)), delta, delta).lower <= counted.upper
