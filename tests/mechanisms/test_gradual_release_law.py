"""What gradual releases publish has the law that they are charged for: marginals, ties, levels together, boundaries.

A release of a long vector is that many releases of a number at once, each with noise of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import norm

from chain_oracle import discrete_joint, discrete_laplace
from dpledger.accounting.ex_post.boundaries import (
    LinearBoundary,
    MixtureBoundary,
    TimeUniformBoundary,
    height,
)
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.refinement import GradualGaussian, GradualRelease
from exact_tests import SIGNIFICANCE, binomial_p_value, cumulative_p_value, events_p_value
from noise_oracle import cdf_of

pytestmark = pytest.mark.sliced

MANY = 60_000
Numbers = npt.NDArray[Any]


def levels_of(mechanism: Any, *queries: Any, seed: int = 1, value: float = 0.0) -> list[Numbers]:
    """Of many statistics at once, each level that is asked for."""
    run = mechanism.open(np.full(MANY, value), entropy=seeded(seed))
    return [run.ask(query) for query in queries]


def many(**changes: Any) -> GradualRelease:
    """Statistics of which one unit moves any one by one."""
    return GradualRelease(**{"epsilon": 2, "sensitivity": 1, "dimension": MANY, "whole": True, **changes})


# ---- each level -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"sensitivity": 3}, {"whole": False, "grid": 2.0**-20}])
def test_every_level_is_the_statistic_with_laplace_noise_of_its_epsilon(changes: dict[str, Any]) -> None:
    mechanism = many(**changes)
    grid = float(mechanism.grid_in_use)
    for epsilon, level in zip(("0.1", "0.5", "2"), levels_of(mechanism, "0.1", "0.5", "2", value=5.0), strict=True):
        noise, wider = mechanism.noise(epsilon), mechanism.noise(Decimal(epsilon) * Decimal("0.94"))
        steps = np.rint((level - 5.0) / grid).astype(np.int64)
        points = [round(float(noise.scale) * part / grid) for part in (-3, -1, -0.3, 0.3, 1, 3)]
        assert cumulative_p_value(steps, cdf_of(noise), points) > SIGNIFICANCE
        assert cumulative_p_value(steps, cdf_of(wider), points) < SIGNIFICANCE


def test_a_level_stays_with_the_square_of_the_ratio_of_epsilons() -> None:
    coarse, fine = levels_of(many(whole=False, grid=2.0**-20), "0.5", 2)
    stayed = int((coarse == fine).sum())
    assert binomial_p_value(stayed, MANY, 1 / 16) > SIGNIFICANCE
    assert binomial_p_value(stayed, MANY, 1 / 4) < SIGNIFICANCE


# ---- two levels -----------------------------------------------------------------------------------------------------

CELLS = list(itertools.product(range(-4, 5), repeat=2))


def p_value(coarse: Numbers, fine: Numbers, law: Callable[[int, int], float]) -> float:
    counts = {i: int(((coarse == x) & (fine == y)).sum()) for i, (x, y) in enumerate(CELLS)}
    return events_p_value(counts, len(coarse), {i: law(x, y) for i, (x, y) in enumerate(CELLS)})


def test_two_levels_together_have_the_law_of_the_chain() -> None:
    coarse, fine = levels_of(many(), "0.5", "1")
    assert p_value(coarse, fine, discrete_joint(2, 1)) > SIGNIFICANCE
    for wrong in (discrete_joint(2, 1, keep=0.5), discrete_joint(2, 1, added=1)):
        assert p_value(coarse, fine, wrong) < SIGNIFICANCE
    fresh = levels_of(many(), "0.5", seed=2)[0]
    assert p_value(fresh, fine, discrete_joint(2, 1)) < SIGNIFICANCE


def test_a_level_that_was_chosen_after_the_one_before_has_the_law_of_that_choice() -> None:
    """Who saw less than 0 asks for epsilon 1 next, the others for 3/2."""
    runs = 6_000
    seen = []
    for seed in range(runs):
        run = GradualRelease(epsilon=2, whole=True, sensitivity=1).open(0, entropy=seeded(seed))
        first = run.ask("0.5")
        seen.append((first, run.ask(1 if first < 0 else "1.5")))
    joint = {-1: discrete_joint(2, 1), 1: discrete_joint(2, 2 / 3)}
    cells = [(x, y) for x, y in CELLS if max(abs(x), abs(y)) <= 3]
    counts = {i: seen.count(cell) for i, cell in enumerate(cells)}
    expected = {i: joint[-1 if x < 0 else 1](x, y) for i, (x, y) in enumerate(cells)}
    assert events_p_value(counts, runs, expected) > SIGNIFICANCE


@pytest.mark.parametrize("scales", [(2.0, 1.0), (10.0, 0.5), (1.5, 1.4)])
def test_two_levels_tell_what_the_last_one_tells_at_every_pair_of_answers(scales: tuple[float, float]) -> None:
    joint, last = discrete_joint(*scales), discrete_laplace(scales[1])
    for x, y in itertools.product(range(-8, 9), repeat=2):
        loss = math.log(joint(x, y) / joint(x - 1, y - 1))
        assert loss == pytest.approx(math.log(last(y) / last(y - 1)), abs=1e-9)
        assert abs(loss) <= 1 / scales[1] + 1e-9


# ---- Gaussian levels ------------------------------------------------------------------------------------------------


def test_gaussian_levels_are_a_brownian_path() -> None:
    """Each has its variance, and what a level adds to the next one is independent of that."""
    mus = (0.25, 0.5, 1.0, 2.0)
    levels = levels_of(GradualGaussian(mu=2, dimension=MANY, grid=2.0**-20, sensitivity=1), *mus, value=5.0)
    for mu, level in zip(mus, levels, strict=True):
        for part in (-1.0, -0.3, 0.5, 1.5):
            hits = int((level - 5.0 <= part / mu).sum())
            assert binomial_p_value(hits, MANY, float(norm.cdf(part))) > SIGNIFICANCE
            assert binomial_p_value(hits, MANY, float(norm.cdf(part * 1.2))) < SIGNIFICANCE
    for coarse, fine in itertools.pairwise(levels):
        agreeing = int((((coarse - fine) > 0) == (fine > 5.0)).sum())
        assert binomial_p_value(agreeing, MANY, 0.5) > SIGNIFICANCE
        agreeing = int(((coarse > 5.0) == (fine > 5.0)).sum())  # correlation 1/2: not two of their own
        assert binomial_p_value(agreeing, MANY, 0.5 + math.asin(0.5) / math.pi) > SIGNIFICANCE
        assert binomial_p_value(agreeing, MANY, 0.5) < SIGNIFICANCE


DOUBLINGS = [Decimal(str(2 ** (k / 2))) for k in range(-20, 1)]  # mu, so that the variance of the loss doubles


def crossings(curve: Callable[[Decimal], float]) -> int:
    """How many of many analysts see, at one level or another, a loss above v/2 + curve(v)."""
    levels = levels_of(GradualGaussian(mu=1, dimension=MANY, sensitivity=1), *DOUBLINGS)
    crossed = np.zeros(MANY, dtype=bool)
    for mu, level in zip(DOUBLINGS, levels, strict=True):
        v = mu * mu
        loss = float(v) * (1 - 2 * level) / 2  # log of the densities for 0 and for 1
        crossed |= loss > float(v) / 2 + curve(v)
    return int(crossed.sum())


@pytest.mark.parametrize("kind", [LinearBoundary, MixtureBoundary])
def test_the_loss_stays_below_the_boundary_at_every_level_but_for_its_delta(kind: Any) -> None:
    delta = 0.05
    boundary: TimeUniformBoundary = kind(tuning="0.01", delta=delta)
    crossed = crossings(lambda v: float(height(boundary, v)))
    assert crossed <= delta * MANY + 5 * math.sqrt(delta * MANY)  # a false alarm of less than 10^-6


def test_the_tail_of_one_fixed_level_is_crossed_far_more_often() -> None:
    """The unsound use U6: twenty levels, each doubling the variance."""
    crossed = crossings(lambda v: math.sqrt(v) * float(norm.isf(0.05)))
    assert crossed > 0.3 * MANY


# ---- how precise it is ----------------------------------------------------------------------------------------------

ONE: list[Any] = [
    GradualRelease(epsilon=2, sensitivity=1),
    GradualRelease(epsilon=2, whole=True, sensitivity=1),
    GradualGaussian(mu=2, sensitivity=1),
]


@pytest.mark.parametrize(
    "mechanism", [*ONE, GradualRelease(epsilon=2, grid=1, sensitivity=1), GradualGaussian(mu=2, grid=1, sensitivity=1)]
)
def test_an_interval_holds_the_number_as_often_as_it_says(mechanism: Any) -> None:
    runs, missed = 2000, 0
    for seed in range(runs):
        run = mechanism.open(7.0, entropy=seeded(seed))
        run.ask("0.4")
        missed += abs(run.ask(1) - 7.0) > mechanism.interval(1, "0.9")
    assert missed <= 0.1 * runs + 5 * math.sqrt(0.09 * runs)  # a false alarm of less than 10^-6


def test_finer_levels_are_more_precise() -> None:
    for mechanism in ONE:
        widths = [mechanism.interval(level, "0.95") for level in ("0.1", "0.5", "1", "2")]
        assert all(coarse > fine for coarse, fine in itertools.pairwise(widths))
