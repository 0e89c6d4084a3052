"""Few runs of a discrete Gaussian, counted: against the convolution of its masses at 60 digits; and on a lattice."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.composition import DiscreteGaussianLaw, GaussianLaw, PoissonSampled, Repeated, Sequence
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.connect_the_dots import Mesh, lower_steps, upper_steps
from dpledger.accounting.engine.covering import alone
from dpledger.accounting.engine.enumeration import ratios
from dpledger.accounting.engine.lattice import lattice_epsilon, lattices
from dpledger.accounting.families.discrete.gaussian_loss import DiscreteGaussianLoss
from dpledger.accounting.laws.closed_forms import at_one
from dpledger.accounting.laws.intervals import Interval
from dpledger.accounting.laws.law import ListedLosses
from dpledger.accounting.profile import compose
from engine_oracles import holds_delta, holds_epsilon, mp
from lattice_oracles import profile_of_steps
from seed_batches import over_seeds
from worst_functions import worst_functions


def counted_at(outcomes: ListedLosses, epsilon: float) -> Interval:
    """d(epsilon), by a sum over outcomes."""
    return at_one(functools.partial(ratios, outcomes, log_scale=0.0), epsilon)


@functools.lru_cache(maxsize=32)
def sums_of(sigma: float, runs: int, reach: int) -> dict[int, Any]:
    """The masses of the sum of `runs` draws, outcomes beyond `reach` of one draw left out."""
    ends = range(-reach, reach + 1)
    weights = {k: mp.exp(-mp.mpf(k * k) / (2 * mp.mpf(sigma) ** 2)) for k in ends}
    whole = mp.fsum(weights.values())
    once = {k: weight / whole for k, weight in weights.items()}
    sums = {0: mp.mpf(1)}
    for _ in range(runs):
        longer: dict[int, Any] = {}
        for at, mass in sums.items():
            for k, more in once.items():
                longer[at + k] = longer.get(at + k, mp.mpf(0)) + mass * more
        sums = longer
    return sums


def exact_delta(sigma: float, shift: int, runs: int, epsilon: Any) -> Any:
    scale = mp.mpf(shift) / (2 * mp.mpf(sigma) ** 2)
    terms = []
    for at, mass in sums_of(sigma, runs, math.ceil(17 * sigma) + 2).items():
        loss = scale * (runs * shift - 2 * at)
        if loss > epsilon:
            terms.append(mass * -mp.expm1(epsilon - loss))
    return mp.fsum(terms)


@pytest.mark.parametrize("side", [0, 1, -1], ids=["ours", "above", "below"])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 7.5, 40.0])
def test_the_masses_of_outcomes_err_by_less_than_is_stated(sigma: float, side: int) -> None:
    """And that says no more than their roundings do: sixteen units of all that is added up."""
    with worst_functions(side):
        _, logs, errors, log_beyond = DiscreteGaussianLoss(sigma, 1).outcomes(30.0)
    reach = len(logs) // 2
    exponents = [-mp.mpf(k * k) / (2 * mp.mpf(sigma) ** 2) for k in range(-reach, reach + 1)]
    further = [mp.exp(-mp.mpf(k * k) / (2 * mp.mpf(sigma) ** 2)) for k in range(reach + 1, 3 * reach + 30)]
    normaliser = mp.log(mp.fsum(map(mp.exp, exponents)) + 2 * mp.fsum(further))
    for exponent, log_mass, error in zip(exponents, logs.tolist(), errors.tolist(), strict=True):
        assert abs(log_mass - (exponent - normaliser)) <= error
        assert error <= 16 * UNIT * (float(abs(exponent)) + float(abs(normaliser)) + 160 * sigma + 60)
    assert mp.log(2 * mp.fsum(further)) - normaliser <= log_beyond


CASES = [(0.317, 2, 2), (0.5, 1, 3), (0.5, 3, 5), (1.0, 1, 4), (2.0, 5, 3), (3.0, 1, 2), (0.3, 1, 12)]


@pytest.mark.parametrize(("sigma", "shift", "runs"), CASES)
def test_few_runs_are_counted(sigma: float, shift: int, runs: int) -> None:
    profile = compose(Repeated(DiscreteGaussianLaw(str(sigma), shift), times=runs))
    for delta in ("0.5", "0.1", "1e-3", "1e-6", "1e-12", "1e-30"):
        at = profile.epsilon(delta)
        assert holds_epsilon(at.lower, at.upper, lambda e: exact_delta(sigma, shift, runs, e), mp.mpf(delta))
        assert at.upper - at.lower <= 1e-9 * at.upper
    mean = runs * shift**2 / (2 * sigma**2)
    for epsilon in (0.0, 0.513 * mean, 1.017 * mean, 1.539 * mean, 3.01 * mean):  # on no loss: there a rounding counts
        found = profile.delta(epsilon)
        assert holds_delta(found.lower, found.upper, exact_delta(sigma, shift, runs, mp.mpf(epsilon)))
        assert found.upper - found.lower <= 1e-8 * found.upper


def test_one_run_is_narrow_too() -> None:
    for sigma in ("0.4", "1", "20", "250"):
        at = compose(DiscreteGaussianLaw(sigma, 1)).epsilon("1e-6")
        assert at.upper - at.lower <= 1e-9 * at.upper


def test_what_is_not_listed_is_small_and_added() -> None:
    """Down to where masses underflow: there the contour answers, or the bound says so."""
    loss = DiscreteGaussianLoss(0.5, 1)
    outcomes = loss.counted(3, -690.0)
    assert outcomes is not None
    assert outcomes.log_beyond < -630
    assert counted_at(outcomes, 1e6).upper >= math.exp(outcomes.log_beyond)
    profile = compose(Repeated(DiscreteGaussianLaw("0.5", 1), times=3))
    for delta in ("1e-250", "1e-290"):
        at = profile.epsilon(delta)
        assert 0 < at.lower <= at.upper < math.inf
        assert profile.delta(at.upper).lower <= float(delta) * (1 + 1e-9)
    assert DiscreteGaussianLoss(50.0, 1).counted(40, -14.0) is None, "many outcomes are left to others"
    assert DiscreteGaussianLoss(9000.0, 1).counted(1, -14.0) is None


@over_seeds(30, 400)
def test_a_lattice_of_its_tails_bounds_the_profile(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sigma, shift = math.exp(rng.uniform(-0.8, 1.5)), int(rng.integers(1, 4))
    law = DiscreteGaussianLoss(sigma, shift).profile()
    assert law is not None
    mu = shift / sigma
    mesh = Mesh.near(mu * math.exp(rng.uniform(-3, 1)))
    low, high = mu * mu / 2 - mu * rng.uniform(0, 9), mu * mu / 2 + mu * rng.uniform(0.5, 9)
    for steps, side in ((upper_steps(law, mesh, low, high), 1), (lower_steps(law, mesh, low, high), -1)):
        points = [*rng.choice(steps.points, 3).tolist(), *(rng.choice(steps.points, 3) + mesh.spacing / 3).tolist()]
        for epsilon in points:
            there = exact_delta(sigma, shift, 1, mp.mpf(epsilon))
            assert side * (profile_of_steps(steps, mp.mpf(epsilon)) - there) >= -(mp.mpf(10) ** -60)


@over_seeds(6, 60)
def test_the_lattice_agrees_with_the_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sigma, shift, runs = math.exp(rng.uniform(-0.8, 1.2)), int(rng.integers(1, 3)), int(rng.integers(2, 6))
    loss, delta = DiscreteGaussianLoss(sigma, shift), 10 ** rng.uniform(-9, -1)
    at = lattice_epsilon(Composed(((loss, runs),)), delta, delta)
    outcomes = loss.counted(runs, -50.0)
    assert outcomes is not None
    assert counted_at(outcomes, at.upper).lower <= delta * (1 + 1e-9)
    assert at.lower == 0 or counted_at(outcomes, at.lower).upper >= delta * (1 - 1e-9)
    epsilon = float(rng.uniform(0, 3))
    found, counted = (
        alone(lattices, Composed(((loss, runs),)), epsilon),
        counted_at(outcomes, epsilon),
    )
    assert found.lower <= counted.upper
    assert counted.lower <= found.upper


def test_beside_sampled_gaussians_few_runs_are_narrow() -> None:
    """Small noise on the integers hardly smooths a transform: the lattice takes both."""
    step = PoissonSampled(GaussianLaw("1"), rate="0.1")
    for sigma in ("0.6", "1.3", "4"):
        tree = Sequence((Repeated(step, times=3), Repeated(DiscreteGaussianLaw(sigma, 1), times=2)))
        at = compose(tree).epsilon("1e-6")
        assert at.upper - at.lower <= 2e-3 * at.upper


@pytest.mark.parametrize("sigma", ["0.003", "0.01", "0.05", "0.1"])
def test_noise_that_is_mostly_zero(sigma: str) -> None:
    """Between two integers no mass is a float any more: sums are taken in units of the largest term."""
    loss = DiscreteGaussianLoss(float(sigma), 1)
    for c in (0.3, 0.5, 4.0):
        at, s = loss.cumulants(c), mp.mpf(float(sigma))
        terms = [mp.exp(-((mp.mpf(k) + c) ** 2) / (2 * s * s)) for k in range(-12, 8)]
        whole = mp.fsum(mp.exp(-mp.mpf(k * k) / (2 * s * s)) for k in range(-8, 9))
        exact = mp.mpf(c) * (c + 1) / (2 * s * s) + mp.log(mp.fsum(terms) / whole)
        assert abs(mp.mpf(at.value) - exact) <= at.error
    profile = compose(Sequence((Repeated(DiscreteGaussianLaw(sigma, 1), times=5), GaussianLaw(1))))
    spent = profile.epsilon("1e-6")
    assert 0 <= spent.lower <= spent.upper < math.inf
    assert profile.delta(spent.upper).lower <= 1e-6 * (1 + 1e-9)
