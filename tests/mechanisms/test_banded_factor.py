"""Banded factors beside dense matrices: their norms, every pattern of turns, and the error that they leave."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st
from scipy import optimize

from dpledger.errors import ParameterError
from dpledger.mechanisms.training.factor import banded_factor, check_coefficients, column_norm, error_of, places_of

Floats = npt.NDArray[np.float64]


def toeplitz(column: Any, steps: int) -> Floats:
    """Lower triangular, constant on diagonals; entry by entry."""
    return np.array(
        [[float(column[i - j]) if 0 <= i - j < len(column) else 0.0 for j in range(steps)] for i in range(steps)]
    )


def sums(steps: int, momentum: float = 0.0) -> Floats:
    """Prefix sums of what heavy-ball momentum makes of gradients."""
    ones = np.tril(np.ones((steps, steps)))
    kept = toeplitz([momentum**k for k in range(steps)], steps)
    return np.asarray(ones @ kept)


def dense_error(factor: Any, steps: int, momentum: float = 0.0) -> float:
    c = toeplitz(factor, steps)
    left = sums(steps, momentum) @ np.linalg.inv(c)
    longest = max(float(np.linalg.norm(c[:, j])) for j in range(steps))
    return float(np.linalg.norm(left)) / math.sqrt(steps) * longest


FALLING = st.lists(st.integers(1, 10**4), min_size=0, max_size=6).map(
    lambda tail: (Decimal(1), *(Decimal(number).scaleb(-4) for number in sorted(tail, reverse=True)))
)


@given(factor=FALLING)
def test_the_norm_is_rounded_up_and_by_very_little(factor: tuple[Decimal, ...]) -> None:
    found, exact = Fraction(column_norm(factor)) ** 2, sum(Fraction(number) ** 2 for number in factor)
    assert exact <= found <= exact * (1 + Fraction(1, 10**10))
    with mpmath.workdps(40):
        assert abs(mpmath.mpf(str(column_norm(factor))) - mpmath.norm([mpmath.mpf(str(c)) for c in factor])) < 1e-10


def turns(steps: int, apart: int) -> list[tuple[int, ...]]:
    """All sets of steps that are at least so far apart."""
    return [
        steps_taken
        for count in range(1, steps + 1)
        for steps_taken in itertools.combinations(range(steps), count)
        if all(after - before >= apart for before, after in itertools.pairwise(steps_taken))
    ]


def longest_move(factor: Any, steps: int, apart: int, most: int, seed: int) -> float:
    """The furthest that gradients of norm 1, of one unit, in any steps so far apart, move C times the gradients: in
    three dimensions, all alike and in random directions."""
    c, generator, far = toeplitz(factor, steps), np.random.default_rng(seed), 0.0
    for pattern in turns(steps, apart):
        if len(pattern) > most:
            continue
        for directions in (np.ones((steps, 3)), generator.normal(size=(steps, 3))):
            gradients = np.zeros((steps, 3))
            taken = list(pattern)
            gradients[taken] = directions[taken] / np.linalg.norm(directions[taken], axis=1, keepdims=True)
            far = max(far, float(np.linalg.norm(c @ gradients)))
    return far


@pytest.mark.parametrize(
    ("steps", "bands", "groups"), [(7, 1, 1), (8, 2, 2), (9, 3, 3), (9, 2, 4), (6, 6, 6), (10, 4, 5)]
)
def test_no_pattern_of_turns_moves_further_than_the_norm_says(steps: int, bands: int, groups: int) -> None:
    """And one that is not cut off at the end moves just as far: sqrt(turns) ||c||."""
    factor = banded_factor(steps, bands)
    most = -(-steps // groups)
    far, said = longest_move(factor, steps, groups, most, seed=7), math.sqrt(most) * float(column_norm(factor))
    assert far <= said * (1 + 1e-12)
    whole = [j for j in range(steps) if j + bands <= steps]
    if all(j in whole for j in range(0, steps, groups)):
        assert far == pytest.approx(said, rel=1e-10)


def test_turns_that_are_closer_move_further() -> None:
    """The twin: two turns in steps next to each other, where the factor has three bands."""
    factor = banded_factor(9, 3)
    assert longest_move(factor, 9, 1, 2, seed=7) > 1.2 * math.sqrt(2) * float(column_norm(factor))


@pytest.mark.parametrize("momentum", ["0", "0.9"])
@pytest.mark.parametrize(("steps", "bands"), [(1, 1), (12, 1), (12, 4), (30, 30), (40, 7)])
def test_the_error_is_that_of_dense_matrices(steps: int, bands: int, momentum: str) -> None:
    factor = banded_factor(steps, bands, momentum=momentum)
    assert error_of(factor, steps, Decimal(momentum)) == pytest.approx(dense_error(factor, steps, float(momentum)))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(("steps", "bands"), [(8, 3), (30, 5), (24, 24), (50, 12)])
def test_scipy_finds_nothing_that_is_a_thousandth_better(steps: int, bands: int, momentum: float) -> None:
    def error(tail: Floats) -> float:
        return dense_error([1.0, *tail.tolist()], steps, momentum)

    start: Floats = np.full((bands - 1,), 0.5)
    least = float(optimize.minimize(error, start, method="L-BFGS-B").fun)
    factor = banded_factor(steps, bands, momentum=momentum)
    assert error_of(factor, steps, Decimal(str(momentum))) <= 1.001 * least


def test_one_band_is_the_noise_of_dp_sgd() -> None:
    """White noise: the sum of t steps has t times its variance, (n + 1) / 2 in the mean."""
    assert banded_factor(99, 1) == (Decimal(1),)
    assert error_of((Decimal(1),), 99, Decimal(0)) == pytest.approx(math.sqrt(50))


@pytest.mark.parametrize("steps", [4, 32, 100])
def test_with_all_bands_it_lies_between_the_square_root_and_the_least_of_all_factors(steps: int) -> None:
    """Above: the square root of A has the coefficients binom(2k, k) / 4^k (Henzinger et al. 2023), error
    sum r_k^2 where n is large. Below: the nuclear norm of A over n, for any factor, Toeplitz or not."""
    root = [math.comb(2 * k, k) / 4**k for k in range(steps)]
    of_root = dense_error(root, steps)
    closed = math.sqrt(sum((steps - k) * r * r for k, r in enumerate(root)) / steps * sum(r * r for r in root))
    assert of_root == pytest.approx(closed)
    least = float(np.linalg.norm(sums(steps), "nuc")) / steps
    assert least < error_of(banded_factor(steps, steps), steps, Decimal(0)) <= of_root * (1 + 1e-6)


def test_more_bands_leave_less_error() -> None:
    errors = [error_of(banded_factor(64, bands), 64, Decimal(0)) for bands in (1, 2, 4, 8, 16, 32, 64)]
    assert errors == sorted(errors, reverse=True)


@given(steps=st.integers(1, 60), bands=st.integers(1, 60), momentum=st.sampled_from(["0", "0.5", "0.95"]))
def test_what_is_found_may_be_used(steps: int, bands: int, momentum: str) -> None:
    factor = banded_factor(steps, min(steps, bands), momentum=momentum)
    check_coefficients(factor)
    assert len(factor) == min(steps, bands)
    assert places_of(factor) <= 4


@pytest.mark.parametrize(
    ("field", "given_"),
    [
        ("steps", {"steps": 0, "bands": 1}),
        ("steps", {"steps": 50_001, "bands": 1}),
        ("bands", {"steps": 5, "bands": 6}),
        ("bands", {"steps": 5000, "bands": 1025}),
        ("momentum", {"steps": 5, "bands": 2, "momentum": 1}),
        ("momentum", {"steps": 5, "bands": 2, "momentum": -1}),
    ],
)
def test_sizes_that_make_no_factor_are_refused(field: str, given_: Any) -> None:
    with pytest.raises(ParameterError) as refusal:
        banded_factor(**given_)
    assert refusal.value.field == field
