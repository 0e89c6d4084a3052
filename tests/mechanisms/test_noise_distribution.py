"""Each law, drawn many times, against its exact distribution function; and a twin 3 % too narrow that is rejected."""

from __future__ import annotations

from typing import assert_never

import numpy as np
import pytest

from dpledger.decimals import multiply
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    RoundedGaussian,
    RoundedLaplace,
    half_width,
)
from dpledger.mechanisms.noise.sampling import sample, sample_one
from exact_tests import SIGNIFICANCE, cumulative_p_value, independence_p_value
from noise_oracle import cdf_of

DRAWS = 200_000

# The law, a twin whose scale is 3 % smaller, and the points in steps at which the distribution functions are compared:
# from the middle to where 20 draws of 200,000 fall beyond.
CASES: list[tuple[Law, Law, list[int]]] = [
    (
        RoundedLaplace(10, grid="0.125"),
        RoundedLaplace("9.7", grid="0.125"),
        [-736, -400, -80, -20, 0, 10, 80, 240, 736],
    ),
    (RoundedLaplace("0.8", grid=1), RoundedLaplace("0.776", grid=1), [-7, -4, -2, -1, 0, 1, 3, 6]),
    (
        RoundedGaussian(10, grid="0.125"),
        RoundedGaussian("9.7", grid="0.125"),
        [-296, -160, -80, -40, 0, 20, 80, 160, 296],
    ),
    (RoundedGaussian("0.8", grid=1), RoundedGaussian("0.776", grid=1), [-3, -2, -1, 0, 1, 2]),
    (DiscreteLaplace(10), DiscreteLaplace("9.7"), [-92, -50, -20, -10, -2, 0, 1, 10, 40, 92]),
    (DiscreteLaplace("0.8"), DiscreteLaplace("0.776"), [-7, -4, -2, -1, 0, 1, 3, 6]),
    (DiscreteGaussian(10), DiscreteGaussian("9.7"), [-37, -20, -10, -5, -1, 0, 5, 10, 20, 37]),
    (DiscreteGaussian("0.8"), DiscreteGaussian("0.776"), [-3, -2, -1, 0, 1, 2]),
]


@pytest.mark.parametrize(("law", "twin", "points"), CASES, ids=lambda case: getattr(case, "kind", None))
def test_draws_follow_the_law_and_not_one_that_is_narrower(law: Law, twin: Law, points: list[int]) -> None:
    draws = sample(law, DRAWS, seeded(21))
    assert draws.dtype == np.int64
    assert cumulative_p_value(draws, cdf_of(law), points) > SIGNIFICANCE
    assert cumulative_p_value(sample(twin, DRAWS, seeded(22)), cdf_of(law), points) < SIGNIFICANCE
    assert independence_p_value(draws) > SIGNIFICANCE


def a_tenth_narrower(law: Law) -> Law:
    match law:
        case RoundedLaplace(scale=scale, grid=grid):
            return RoundedLaplace(multiply(scale, "0.9"), grid)
        case RoundedGaussian(sigma=sigma, grid=grid):
            return RoundedGaussian(multiply(sigma, "0.9"), grid)
        case DiscreteLaplace(scale=scale):
            return DiscreteLaplace(multiply(scale, "0.9"))
        case DiscreteGaussian(sigma=sigma):
            return DiscreteGaussian(multiply(sigma, "0.9"))
        case _:
            assert_never(law)


@pytest.mark.parametrize(
    ("law", "points"), [(case[0], case[2]) for case in CASES], ids=lambda case: getattr(case, "kind", None)
)
def test_single_draws_follow_the_law_and_not_one_that_is_a_tenth_narrower(law: Law, points: list[int]) -> None:
    entropy, twin = seeded(26), a_tenth_narrower(law)
    draws = np.array([sample_one(law, entropy) for _ in range(DRAWS // 10)])
    narrow = np.array([sample_one(twin, entropy) for _ in range(DRAWS // 10)])
    inner = points[1:-1]
    assert cumulative_p_value(draws, cdf_of(law), inner) > SIGNIFICANCE
    assert cumulative_p_value(narrow, cdf_of(law), inner) < SIGNIFICANCE
    assert independence_p_value(draws) > SIGNIFICANCE


def test_a_twin_that_repeats_itself_is_rejected() -> None:
    draws = sample(RoundedLaplace(10, grid="0.125"), 1000, seeded(23))
    assert independence_p_value(np.repeat(draws, 2)) < SIGNIFICANCE


@pytest.mark.parametrize("law", [case[0] for case in CASES], ids=lambda law: law.kind)
@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999999"])
def test_half_widths_hold_the_stated_probability_and_hardly_more(law: Law, confidence: str) -> None:
    cdf, width = cdf_of(law), half_width(law, confidence)

    def inside(h: int) -> float:
        return cdf(h) - cdf(-h - 1)

    assert inside(width) >= float(confidence)
    assert width < 2 or inside(width - 2) < float(confidence)


def test_half_widths_stand_at_the_edges_of_the_parameters() -> None:
    assert half_width(DiscreteLaplace("1e-50"), "0.999999") == 0
    assert half_width(RoundedLaplace("1e-50", grid=1), "0.999999") == 1
    assert half_width(RoundedGaussian(10**17, grid="1e-59"), "0.5") > 6 * 10**75


@pytest.mark.slow
@pytest.mark.parametrize(("law", "twin", "points"), CASES, ids=lambda case: getattr(case, "kind", None))
def test_ten_million_draws_follow_the_law_and_not_one_that_is_half_a_percent_narrower(
    law: Law, twin: Law, points: list[int]
) -> None:
    draws = sample(law, 10**7, seeded(24))
    assert cumulative_p_value(draws, cdf_of(law), points) > SIGNIFICANCE
    mixed = np.where(np.arange(10**7) % 6 == 0, sample(twin, 10**7, seeded(25)), draws)  # a sixth of it 3 % narrower
    assert cumulative_p_value(mixed, cdf_of(law), points) < SIGNIFICANCE
