"""Many distinct sampled Gaussians between few that dominate them and few that they dominate."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from scipy.integrate import quad

from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.engine import large_losses
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.covering import alone
from dpledger.accounting.engine.large_losses import large_losses_epsilon, layers
from dpledger.accounting.families.gaussian.loss import GaussianLoss
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.laws.law import Parts


def laws(seed: int, count: int) -> Parts:
    rng = random.Random(seed)
    drawn = ((10 ** rng.uniform(-4, -2), rng.uniform(0.9, 3.0)) for _ in range(count))
    return tuple((SampledGaussianLoss(rate, sigma, "remove"), rng.randint(1, 9)) for rate, sigma in drawn)


def moment(loss: SampledGaussianLoss, c: float) -> float:
    """E of e^{cL} - 1 under P, by a quadrature that shares nothing with the engine's."""
    scale = loss.sigma

    def term(x: float) -> float:
        ratio = loss.rate * math.expm1((x - 0.5) / scale**2)
        density = math.exp(-((x / scale) ** 2) / 2) / (scale * math.sqrt(2 * math.pi))
        return density * (1 + ratio) * math.expm1(c * math.log1p(ratio))

    return float(quad(term, -12 * scale, 12 * scale + c + 1, points=(0.0, c + 1), limit=400)[0])


def total(parts: Parts, c: float) -> float:
    return math.fsum(
        count * math.log1p(moment(loss, c)) for loss, count in parts if isinstance(loss, SampledGaussianLoss)
    )


@pytest.mark.parametrize("seed", range(4))
def test_every_renyi_divergence_lies_between_those_of_the_two_lists(seed: int) -> None:
    """Which post-processing never raises; the counts are kept, and what is no such law stays."""
    parts = laws(seed, 30)
    above, below = large_losses._enclosed(Composed((*parts, (GaussianLoss(0.1), 3))))
    for some in (above, below):
        assert some.runs == sum(count for _, count in parts) + 3
        assert len(some.parts) <= large_losses.LEVELS + 1
        assert some.parts[-1] == (GaussianLoss(0.1), 3)
    for c in (0.3, 2.0):
        assert total(below.parts, c) < total(parts, c) < total(above.parts, c)


def test_few_laws_are_taken_one_by_one() -> None:
    few = Composed(laws(1, large_losses.MOST_LAWS))
    assert large_losses._enclosed(few) == (few, few)


@pytest.mark.parametrize("spread", [0.0, 1e-6, 1e-2])
def test_what_holds_of_the_two_lists_holds_of_the_laws_one_by_one(
    spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its intervals meet those without levels; laws that hardly differ lose next to nothing."""
    parts = tuple(
        (SampledGaussianLoss(0.0007301 * (1 + spread * i), 1.7597 * (1 + spread * i), "remove"), 40 + i)
        for i in range(3)
    )
    composed, delta = Composed(parts), 3.829e-35
    single = large_losses_epsilon(composed, delta, delta)
    at = alone(layers, composed, single.upper, delta)
    large_losses._enclosed.cache_clear()
    monkeypatch.setattr(large_losses, "MOST_LAWS", 2)
    monkeypatch.setattr(large_losses, "LEVELS", 1)
    found = large_losses_epsilon(composed, delta, delta)
    assert found.lower <= single.upper
    assert single.lower <= found.upper
    assert found.relative_width() <= 1e-5 + 12 * spread
    again = alone(layers, composed, single.upper, delta)
    assert again.lower <= at.upper
    assert at.lower <= again.upper
    assert again.upper <= at.upper * 1.01 or spread == 1e-2
    lower, upper = answers(composed, single.upper, delta)
    assert lower <= at.upper
    assert at.lower <= upper
    large_losses._enclosed.cache_clear()


def answers(composed: Composed, epsilon: float, about: float) -> tuple[float, float]:
    points: Array = np.array([epsilon])
    found = [answer(points) for answer in layers(composed, epsilon, about)]
    assert found
    return max(float(low[0]) for low, _ in found), min(float(high[0]) for _, high in found)
