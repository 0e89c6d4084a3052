"""Cases that a second adversarial reader tried: those that were wrong once, and random ones against other oracles."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

import nested_runs
from dpledger.accounting.accountant import Accountant
from dpledger.accounting.calibration import calibrate, meets
from dpledger.accounting.composition import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    GaussianLaw,
    Group,
    LaplaceLaw,
    Parallel,
    PmfPair,
    PoissonSampled,
    PostProcessed,
    RandomAllocation,
    RandomizedResponseLaw,
    Repeated,
    SampledWithoutReplacement,
    Sequence,
)
from dpledger.accounting.conversions import epsilon_of_zcdp
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.jumps import jumps_epsilon
from dpledger.accounting.engine.mills import gaussian_epsilon
from dpledger.accounting.engine.second_moment import moment_epsilon
from dpledger.accounting.guarantees import RDP, ZCDP, ApproxDP, BoundedRange, PureDP
from dpledger.accounting.laws.finite import randomised_response_pair
from dpledger.accounting.laws.gaussian import GaussianLoss
from dpledger.accounting.laws.subsampled import Direction, SampledGaussianLoss
from dpledger.accounting.profile import Bounds, compose
from dpledger.errors import CannotCertify
from dpledger.relations import Relation
from engine_oracles import seeds

# ---- groups and parallel parts --------------------------------------------------------------------------------------

RESPONSE = RandomizedResponseLaw(1)


@pytest.mark.parametrize(
    "parts",
    [
        Parallel((RESPONSE, RESPONSE)),
        Sequence((GaussianLaw(3), Parallel((RESPONSE, RESPONSE)))),
        Repeated(PostProcessed(Parallel((RESPONSE, RESPONSE))), times=3),
        Parallel((RESPONSE, LaplaceLaw(1))),
    ],
    ids=lambda tree: tree.kind,
)
def test_two_units_may_be_in_two_parts_that_are_alike(parts: Parallel) -> None:
    """Each part then answers differently: two randomised responses lose twice what one does."""
    with pytest.raises(CannotCertify, match="different parallel parts"):
        compose(Group(parts, k=2, relation=Relation.ADD_REMOVE), relation="add_remove")


def test_a_group_of_one_is_what_it_holds_in_parallel_too() -> None:
    parts = Parallel((RESPONSE, LaplaceLaw("0.5"), GaussianLaw(2)))
    alone = compose(parts).epsilon("1e-4")
    assert compose(Group(parts, k=1, relation=Relation.ADD_REMOVE)).epsilon("1e-4") == alone


def test_one_part_alone_may_hold_a_group() -> None:
    one = Group(Parallel((LaplaceLaw("0.5"),)), k=2, relation=Relation.ADD_REMOVE)
    assert compose(one).epsilon(0) == compose(LaplaceLaw(1)).epsilon(0)
    promised = Group(ApproxDP("0.5", "1e-6"), k=2, relation=Relation.ADD_REMOVE)
    assert compose(promised).epsilon("0.1").upper <= 1


# ---- nothing, and almost everything ---------------------------------------------------------------------------------


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


# ---- calibration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["1e-40", "1e-58", "0.3333333333"])
def test_the_least_decimals_are_within_reach(target: str) -> None:
    """Every value that is tried is one that a parameter may have: 60 digits after the point."""
    found = calibrate(lambda epsilon: PureDP(epsilon), PureDP(target), seek="most", within=("1e-60", 1))
    assert Decimal(target) * Decimal("0.99999") <= found <= Decimal(target)


def test_a_target_that_is_met_here_and_there_is_met_by_the_result() -> None:
    """The search assumes that more noise costs less; the result is checked all the same."""

    def trap(noise: Decimal) -> GaussianLaw:
        return GaussianLaw("0.1") if 4 < noise < 10 else GaussianLaw(noise)

    target = ApproxDP(1, "1e-5")
    assert meets(trap(calibrate(trap, target)), target)


# ---- bounded ranges on secret batches -------------------------------------------------------------------------------


def test_samples_of_bounded_ranges_have_no_lower_bound_that_no_mechanism_attains() -> None:
    """Each run is (eta^2/8)-zCDP, sampled or not (Dong-Durfee-Rogers 2020; quasi-convexity)."""
    eta, runs = Decimal("0.002594"), 400
    most = epsilon_of_zcdp(runs * eta * eta / 8, Decimal("1.6568e-8"))
    for leaf in (BoundedRange(eta), ExponentialLaw(eta)):
        tree = Repeated(PoissonSampled(leaf, rate="0.99999984335"), times=runs)
        bounds = compose(tree).epsilon("1.6568e-8")
        assert 0.9 * float(most) <= bounds.lower <= float(most) <= bounds.upper
    subsets = Repeated(SampledWithoutReplacement(BoundedRange(eta), population=10**9, batch=10**9 - 1), times=runs)
    assert compose(subsets, relation="replace_one").epsilon("1.6568e-8").lower <= float(most)


@pytest.mark.parametrize("eta", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_an_allocation_of_bounded_ranges_says_no_more_than_is_attained(eta: float, direction: Direction) -> None:
    """Two steps, each with two losses eta apart, at every position: the worst of these is attained."""
    bounds = compose(RandomAllocation(BoundedRange(eta), steps=2), direction=direction)
    for epsilon in (0.1 * eta, 0.4 * eta):
        attained = max(allocated_in_two(eta, i / 40, j / 40, epsilon, direction) for i in range(41) for j in range(41))
        at = bounds.delta(epsilon)
        assert 0 < at.lower <= attained * (1 + 1e-9)
        assert attained <= at.upper * (1 + 1e-9)


def allocated_in_two(eta: float, first: float, second: float, epsilon: float, direction: Direction) -> float:
    """delta of the average of two independent ratios, each of them e^{t eta} or e^{(t - 1) eta}."""
    steps = []
    for position in (first, second):
        high, low = math.exp(position * eta), math.exp((position - 1) * eta)
        likely = (1 - low) / (high - low)  # under Q, so that the mean is 1
        steps.append(((high, likely), (low, 1 - likely)))
    grown, total = math.exp(epsilon), 0.0
    for ratio, mass in steps[0]:
        for other, other_mass in steps[1]:
            average = (ratio + other) / 2
            total += mass * other_mass * max(0.0, average - grown if direction == "remove" else 1 - grown * average)
    return total


@pytest.mark.parametrize("times", [1, 2, 30])
def test_the_accountant_agrees_on_sampled_bounded_ranges(times: int) -> None:
    tree = PoissonSampled(BoundedRange("0.5"), rate="0.9")
    accountant = Accountant("1e-5")
    found = accountant.append(tree, times)
    whole = compose(Repeated(tree, times=times)).epsilon("1e-5")
    assert max(found.lower, whole.lower) <= min(found.upper, whole.upper)
    assert found.lower <= whole.lower * (1 + 1e-3)


# ---- lower bounds where losses are large and nearly certain ---------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "delta", "width"),
    [
        (Repeated(DiscreteLaplaceLaw("0.052871", 3), times=1950237), "2.9859e-120", 1e-9),
        (Repeated(DiscreteLaplaceLaw("0.017084", 3), times=1231700), "1.6993e-101", 1e-9),
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


# ---- two scales, few runs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(12, 150))
def test_a_few_runs_against_nested_quadrature(seed: int) -> None:
    """Two or three runs, epsilons that jumps rule; whatever is found holds the truth, by jumps alone and by all."""
    rng = np.random.default_rng(seed)
    runs = 2 if seed % 4 else 3
    sigma, rate = float(rng.uniform(0.4, 4.5)), float(10 ** rng.uniform(-6, -1.3))
    delta = float(10 ** rng.uniform(-240, -4))
    composed = Composed(((SampledGaussianLoss(rate, sigma, "remove"), runs),))
    tree = Repeated(PoissonSampled(GaussianLaw(repr(sigma)), rate=repr(rate)), times=runs)
    for found in (jumps_epsilon(composed, delta, delta), compose(tree, direction="remove").epsilon(repr(delta))):
        ends = [end for end in (found.lower, found.upper) if 0 < end < math.inf]
        if not ends:  # no split: the losses have one scale only
            continue
        exact = dict(zip(ends, nested_runs.log_delta(rate, sigma, runs, np.array(ends)).tolist(), strict=True))
        assert exact.get(found.lower, math.inf) >= math.log(delta) - 1e-8
        assert exact.get(found.upper, -math.inf) <= math.log(delta) + 1e-8
