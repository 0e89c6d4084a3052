"""The law `permute_and_flip` against the mechanism itself, enumerated as it is published: candidates in every order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence as Scores

import pytest

from dpledger.accounting.composition import (
    LaplaceLaw,
    PermuteAndFlipLaw,
    PoissonSampled,
    RandomizedResponseLaw,
    Repeated,
)
from dpledger.accounting.profile import compose
from dpledger.errors import CannotCertify

EPSILON = 1.3
STEPS = (0.0, 0.4, 1.1, 3.0)


def chosen(scores: Scores[float]) -> list[float]:
    """The chance of each candidate; scores in units of 2 sensitivity/epsilon. Orders are gone through one by one."""
    best, chances = max(scores), [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1.0 / len(orders)
        for candidate in order:
            taken = math.exp(scores[candidate] - best)
            chances[candidate] += left * taken
            left *= 1 - taken
    return chances


def hockey_stick(here: Scores[float], there: Scores[float], epsilon: float) -> float:
    return math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(here, there, strict=True))


def laplace(epsilon: float) -> float:
    """The profile of Laplace noise with a shift of EPSILON, below that."""
    return max(0.0, -math.expm1((epsilon - EPSILON) / 2))


@pytest.mark.parametrize("candidates", [2, 3, 4])
def test_no_choice_shows_more_than_laplace_noise(candidates: int) -> None:
    largest = [0.0] * 14
    for scores in itertools.product(STEPS, repeat=candidates - 1):
        for moved in itertools.product((-EPSILON / 2, 0.0, EPSILON / 2), repeat=candidates):
            here, there = (0.0, *scores), [a + b for a, b in zip((0.0, *scores), moved, strict=True)]
            pair = chosen(here), chosen(there)
            for place in range(14):
                largest[place] = max(largest[place], hockey_stick(*pair, place / 10))
    for place, found in enumerate(largest):
        assert found <= laplace(place / 10) + 1e-12


def test_two_candidates_reach_it_at_each_epsilon() -> None:
    for epsilon in (0.0, 0.3, 0.9):
        gaps = [step / 500 for step in range(1500)]
        found = max(hockey_stick(chosen((gap, 0)), chosen((gap - EPSILON, 0)), epsilon) for gap in gaps)
        assert laplace(epsilon) - 1e-5 <= found <= laplace(epsilon) + 1e-12
        bounds = compose(PermuteAndFlipLaw(EPSILON)).delta(epsilon)
        assert found <= bounds.upper == pytest.approx(laplace(epsilon), rel=1e-5)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_its_bounds_lie_between_two_candidates_and_laplace_noise(times: int) -> None:
    found = compose(Repeated(PermuteAndFlipLaw(EPSILON), times=times))
    above = compose(Repeated(LaplaceLaw(EPSILON), times=times))
    of_two = RandomizedResponseLaw(math.log(2 * math.exp(EPSILON / 2) - 1))
    below = compose(Repeated(of_two, times=times))
    for delta in ("0.1", "0.001"):
        assert found.epsilon(delta).upper == pytest.approx(above.epsilon(delta).upper, rel=1e-5)
        assert found.epsilon(delta).lower == pytest.approx(below.epsilon(delta).lower, rel=1e-6)
    assert found.notes == ("permute_and_flip is dominated by Laplace noise: the lower bound is that of two candidates",)


def test_a_sample_of_it_is_above_what_two_candidates_show() -> None:
    rate, there = 0.2, chosen((-EPSILON / 4, EPSILON / 4))
    here = [rate * p + (1 - rate) * q for p, q in zip(chosen((EPSILON / 4, -EPSILON / 4)), there, strict=True)]
    profile = compose(PoissonSampled(PermuteAndFlipLaw(EPSILON), rate=str(rate)))
    for epsilon in (0.0, 0.05, 0.1):
        shown = max(hockey_stick(here, there, epsilon), hockey_stick(there, here, epsilon))
        bounds = profile.delta(epsilon)
        assert bounds.lower - 1e-9 <= shown <= bounds.upper


@pytest.mark.parametrize(("epsilon", "runs"), [("1e-60", 1), ("1500", 1), ("1500", 1420), ("9e17", 3)])
def test_however_large_an_epsilon_is_bounded(epsilon: str, runs: int) -> None:
    """Two candidates lose epsilon log(2 e^{epsilon/2} - 1), where e^{epsilon/2} is no float too."""
    spent = compose(Repeated(PermuteAndFlipLaw(epsilon), times=runs)).epsilon(0)
    half = float(epsilon) / 2
    truth = runs * (half + math.log1p(-math.expm1(-half)))
    assert truth * (1 - 1e-12) <= spent.lower <= truth * (1 + 1e-15)
    assert runs * float(epsilon) <= spent.upper <= runs * float(epsilon) * (1 + 1e-12)


def test_a_sample_of_more_than_floats_hold_is_refused_by_name() -> None:
    with pytest.raises(CannotCertify, match="losses this large"):
        compose(PoissonSampled(PermuteAndFlipLaw(1500), rate="0.01"))
