"""The second of two directions: that it is not above the first is shown by one rough contour, and never wrongly."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpledger.accounting.composition import GaussianLaw, LaplaceLaw, PoissonSampled, Repeated, Sequence
from dpledger.accounting.engine import dispatch, methods
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.solve import finite_epsilon, is_at_most
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.guarantees import ApproxDP
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.accounting.profile import Bounds, compose
from engine_oracles import mp, real, sampled_gaussian_delta
from seed_batches import over_seeds


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
def test_never_below_the_certified_lower_end_and_far_above_it_always(seed: int) -> None:
    rng = np.random.default_rng(seed)
    composed, log_delta = random_losses(rng), -float(10 ** rng.uniform(0.3, 2.5))
    found = finite_epsilon(composed, log_delta, log_delta)
    for share in (0.3, 0.9, 0.999999, 1 - 1e-12):
        assert found.lower == 0 or not is_at_most(composed, log_delta, share * found.lower)
    assert not is_at_most(composed, log_delta, 5e-324) or found.lower <= 5e-324
    for epsilon in (1.3 * found.upper + 0.1, 1e12, 1e300):
        assert is_at_most(composed, log_delta, epsilon)


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(("rate", "sigma"), [("0.3", "0.8"), ("0.01", "1"), ("0.9", "3")])
def test_of_one_run_against_the_closed_form(rate: str, sigma: str, direction: Direction) -> None:
    """Where the transform hardly decays."""
    composed, shown = Composed(((SampledGaussianLoss(float(rate), float(sigma), direction), 1),)), 0
    for epsilon in (0.01, 0.1, 0.5, 1.0, 3.0):
        exact = sampled_gaussian_delta(real(rate), real(sigma), mp.mpf(epsilon), direction)
        if not exact:
            continue  # beyond the largest loss
        log_delta = float(mp.log(exact))
        assert not is_at_most(composed, log_delta - 1e-9 * abs(log_delta), epsilon)
        shown += is_at_most(composed, log_delta / 4, epsilon)
    assert shown >= 1


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


def test_beside_a_direction_of_infinite_loss_the_other_is_not_evaluated() -> None:
    """It cannot be larger; a contour at an epsilon of infinity would multiply 0 by it, which numpy warns of."""
    what = PoissonSampled(ApproxDP("0.01", "0.009"), rate="0.999999"), LaplaceLaw("1e-30")
    for delta in ("1e-50", "1e-12", "0.5e-2"):
        assert compose(*what).epsilon(delta) == Bounds(math.inf, math.inf)


def test_a_delta_that_is_below_a_floor_is_said_to_be_at_most_that() -> None:
    (case,) = compose(Repeated(PoissonSampled(GaussianLaw(1), rate="0.01"), 900), direction="add").cases
    alone = dispatch.delta_interval(case, 1.0)
    known = dispatch.delta_interval(case, 1.0, 1.1 * alone.upper)
    assert alone.lower <= known.upper <= 1.1 * alone.upper * (1 + 1e-9)
    sharp = dispatch.delta_interval(case, 1.0, 0.9 * alone.lower)
    assert max(sharp.lower, alone.lower) <= min(sharp.upper, alone.upper)
    assert math.isclose(sharp.upper, alone.upper, rel_tol=1e-6)


@over_seeds(12, 100)
def test_a_floor_changes_nothing_above_it(seed: int) -> None:
    """Not above the floor an answer may be wide; it is never wrong, and above the floor it is the same."""
    rng = np.random.default_rng(seed)
    rate, sigma = f"{10 ** rng.uniform(-3, -0.3):.6f}", f"{rng.uniform(0.6, 4):.4f}"
    side: Direction = "add" if rng.random() < 0.5 else "remove"
    tree = Repeated(PoissonSampled(GaussianLaw(sigma), rate=rate), int(rng.choice([7, 90])))
    (case,), delta = compose(tree, direction=side).cases, Decimal("1e-6")
    plain = dispatch.epsilon_interval(case, delta)
    for share in (0.5, 0.99, 1.01, 1.3, 4.0):
        floor = share * plain.upper
        found = dispatch.epsilon_interval(case, delta, floor)
        assert found.lower <= plain.upper
        assert plain.lower <= found.upper
        assert found == plain or found.upper <= floor


@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta"),
    [
        ("3.85", "2.1e-3", 19_000_000, "1e-255"),
        ("2.36", "4.1e-4", 3_900_000, "1e-68"),
        ("1", "0.01", 1000, "1e-5"),
        ("1", "0.01", 10, "1e-5"),
    ],
)
def test_the_smaller_direction_is_not_solved(
    sigma: str, rate: str, count: int, delta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, each direction is; together the smaller one is seen not to be above the larger one's lower end."""
    asked: list[Composed] = []

    def counted(composed: Composed, *rest: Any) -> Any:
        asked.append(composed)
        return finite_epsilon(composed, *rest)

    monkeypatch.setattr(methods, "finite_epsilon", lambda *rest, **named: counted(*rest, *named.values()))
    training = Repeated(PoissonSampled(GaussianLaw(sigma), rate=rate), count)
    both = compose(training).epsilon(delta)
    sides = {part[0] for composed in asked for part in composed.parts}
    assert len(sides) == 1
    alone = [compose(training, direction=side).epsilon(delta) for side in ("remove", "add")]
    assert len({part[0] for composed in asked for part in composed.parts}) == 2
    assert max(at.lower for at in alone) <= both.upper
    assert both.lower <= max(at.upper for at in alone)
