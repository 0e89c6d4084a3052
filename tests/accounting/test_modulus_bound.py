"""The upper bound that needs no contour, and the second directions it answers for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated, Sequence
from dpledger.accounting.engine import choose
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.mills import gaussian_epsilon
from dpledger.accounting.engine.modulus import modulus_ladder, upper_delta, upper_epsilon
from dpledger.accounting.engine.solve import finite_delta, finite_epsilon, from_logs
from dpledger.accounting.engine.tilt import ladder_around, saddle_for_delta
from dpledger.accounting.guarantees import ApproxDP
from dpledger.accounting.laws.gaussian import GaussianLoss
from dpledger.accounting.laws.laplace import LaplaceLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.subsampled import Direction, SampledGaussianLoss
from dpledger.accounting.profile import compose
from engine_oracles import mp, real, sampled_gaussian_delta
from seed_batches import over_seeds

ONE = np.ones(1)


def modulus(composed: Composed, log_delta: float) -> float:
    return modulus_ladder(composed.tilted(saddle_for_delta(composed, log_delta, 2e-4).c)).epsilon(log_delta)


def chernoff(composed: Composed, log_delta: float) -> float:
    return ladder_around(composed, saddle_for_delta(composed, log_delta, 2e-4).c, ONE).epsilon(log_delta)


def random_losses(rng: np.random.Generator) -> Composed:
    parts: list[tuple[Loss, int]] = []
    for _ in range(int(rng.integers(1, 4))):
        side: Direction = "add" if rng.random() < 0.5 else "remove"
        kinds: list[Loss] = [
            SampledGaussianLoss(10 ** rng.uniform(-3, -0.3), rng.uniform(0.7, 4), side),
            GaussianLoss(rng.uniform(0.01, 2)),
            LaplaceLoss(rng.uniform(0.05, 2)),
        ]
        parts.append((kinds[int(rng.integers(3))], int(10 ** rng.uniform(0, 5))))
    return Composed(tuple(parts))


@over_seeds(40, 600)
def test_it_is_above_the_certified_lower_end(seed: int) -> None:
    """At the saddle and at tilts that are far from it, where it is only wide."""
    rng = np.random.default_rng(seed)
    composed, log_delta = random_losses(rng), -float(10 ** rng.uniform(0.3, 2.5))
    found = finite_epsilon(composed, log_delta, log_delta)
    c = saddle_for_delta(composed, log_delta, 2e-4).c
    for share in (0.3, 1.0, 1.7):
        assert max(0.0, modulus_ladder(composed.tilted(share * c)).epsilon(log_delta)) >= found.lower


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(("rate", "sigma"), [("0.3", "0.8"), ("0.01", "1"), ("0.9", "3")])
def test_it_is_an_upper_bound_for_one_run_in_closed_form(rate: str, sigma: str, direction: Direction) -> None:
    """Where the transform hardly decays, and the saddle point's answer would be too small."""
    composed = Composed(((SampledGaussianLoss(float(rate), float(sigma), direction), 1),))
    for log_delta in (-2.0, -12.0, -60.0):
        epsilon = modulus(composed, log_delta)
        exact = sampled_gaussian_delta(real(rate), real(sigma), mp.mpf(epsilon), direction)
        assert exact <= mp.exp(mp.mpf(log_delta))


@pytest.mark.parametrize("mu_squared", [1e-6, 0.04, 1.0, 300.0])
def test_for_a_gaussian_it_is_the_saddle_points_answer(mu_squared: float) -> None:
    """The decay is exact: what is left is the step sum, 15 % of delta, and what the saddle point leaves out."""
    for log_delta in (-20.0, -80.0, -600.0):
        composed = Composed(((GaussianLoss(mu_squared), 1),))
        truth = gaussian_epsilon(mu_squared, math.exp(log_delta), math.exp(log_delta))
        c = saddle_for_delta(composed, log_delta, 2e-4).c
        assert truth.lower <= modulus(composed, log_delta) <= truth.upper + 0.2 / c


@pytest.mark.parametrize("count", [4_000, 10**6, 10**9])
def test_of_many_runs_it_gives_back_what_a_chernoff_bound_gives_away(count: int) -> None:
    composed, log_delta = Composed(((SampledGaussianLoss(0.05, 2.0, "add"), count),)), -40.0
    found = finite_epsilon(composed, log_delta, log_delta)
    lost = modulus(composed, log_delta) - found.upper
    assert 0 <= lost <= 0.15 * (chernoff(composed, log_delta) - found.upper)


@over_seeds(20, 300)
def test_any_floor_gives_an_upper_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    composed, log_delta = random_losses(rng), -float(10 ** rng.uniform(0.3, 2.5))
    lower = finite_epsilon(composed, log_delta, log_delta).lower
    for floor in (5e-324, 1e-9, lower / 2, lower, 1.01 * lower, 2 * lower + 1, 1e12, 1e300, math.inf):
        if floor > 0:
            at = upper_epsilon(composed, log_delta, floor)
            assert at.lower == 0
            assert at.upper >= lower


@over_seeds(30, 400)
def test_delta_in_the_same_way(seed: int) -> None:
    rng = np.random.default_rng(seed)
    composed, log_delta = random_losses(rng), -float(10 ** rng.uniform(0.3, 2.5))
    epsilon = finite_epsilon(composed, log_delta, log_delta).upper
    if epsilon > 0:
        truth = finite_delta(composed, epsilon)
        c = saddle_for_delta(composed, log_delta, 2e-4).c
        for share in (0.3, 1.0, 1.7):
            assert modulus_ladder(composed.tilted(share * c)).log_delta(epsilon) >= truth.lower
        for floor in (1e-300, math.exp(log_delta) / 2, math.exp(log_delta), 0.9):
            assert upper_delta(composed, epsilon, floor).upper >= from_logs(truth).lower


@pytest.mark.parametrize("delta", ["0", "1e-9"])
@pytest.mark.parametrize("epsilon", ["0", "0.3", "1.9", "30"])
def test_delta_of_both_directions_is_the_larger_one(epsilon: str, delta: str) -> None:
    """With loss that is infinite at times too."""
    training = Repeated(PoissonSampled(GaussianLaw("1.1"), rate="0.01"), 900)
    tree = Sequence((training, ApproxDP("0.02", delta))) if delta != "0" else training
    both = compose(tree).delta(epsilon)
    alone = [compose(tree, direction=side).delta(epsilon) for side in ("remove", "add")]
    assert max(at.lower for at in alone) <= both.upper
    assert both.lower <= max(at.upper for at in alone)
    assert both.upper - both.lower <= 1e-2 * both.upper


def test_losses_that_never_decay_leave_the_chernoff_bound() -> None:
    """Outcomes on a lattice: |phi| comes back to 1, and the modulus says nothing."""
    composed = Composed(((LaplaceLoss(0.5), 30),))
    found = finite_epsilon(composed, -15.0, -15.0)
    at = upper_epsilon(composed, -15.0, found.lower)
    assert found.lower <= at.upper <= 1.2 * found.upper


@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta"),
    [("3.85", "2.1e-3", 19_000_000, "1e-255"), ("2.36", "4.1e-4", 3_900_000, "1e-68"), ("1", "0.01", 1000, "1e-5")],
)
def test_the_smaller_direction_needs_no_contour(
    sigma: str, rate: str, count: int, delta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, each direction does; together the smaller one is seen not to be above the larger one's lower end."""
    laid: list[Composed] = []

    def counted(composed: Composed, *rest: Any, **others: Any) -> Any:
        laid.append(composed)
        return finite_epsilon(composed, *rest, **others)

    monkeypatch.setattr(choose, "finite_epsilon", counted)
    training = Repeated(PoissonSampled(GaussianLaw(sigma), rate=rate), count)
    both = compose(training).epsilon(delta)
    assert len(laid) == 1
    alone = [compose(training, direction=side).epsilon(delta) for side in ("remove", "add")]
    assert len(laid) == 3
    assert max(at.lower for at in alone) <= both.upper
    assert both.lower <= max(at.upper for at in alone)
