"""Single numbers and vectors: what is declared covers what a neighbour can do, on the grid that is really used."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy.stats import binom

from dpledger.accounting.composition import GaussianLaw
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import recording
from dpledger.mechanisms.numeric import Count, Gaussian, Geometric, IntegerGaussian, Laplace
from dpledger.mechanisms.numeric.grid import TotalMap, nearest_whole, on_grid, to_steps, vector_to_steps
from dpledger.mechanisms.protocol import Mechanism, Sampled
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, binomial_p_value, cumulative_p_value
from noise_oracle import cdf_of

pytestmark = pytest.mark.sliced

BOUND = Decimal(10**6)
positives = st.decimals(min_value="0.001", max_value="1000", places=6)
numbers = st.floats(-2e6, 2e6)
powers = st.integers(-20, 10).map(lambda e: Decimal(2**e) if e >= 0 else Decimal(5**-e).scaleb(e))


def passed(mechanism: Any, data: object) -> Any:
    """The whole numbers that the mechanism hands to the noise functions."""
    with recording() as draws:
        mechanism.release(data, entropy=seeded(1))
    (only,) = draws
    return only.value


def test_they_are_mechanisms_and_can_be_sampled() -> None:
    mechanisms: list[Mechanism[object, Any]] = [
        Laplace(sensitivity=1, epsilon=1),
        Gaussian(sensitivity=1, noise_multiplier=1.0),
        Geometric(sensitivity=1, epsilon=1),
        IntegerGaussian(sensitivity=1, sigma=1),
        Count(epsilon=1, of="rows"),
    ]
    for mechanism in mechanisms:
        assert isinstance(mechanism, Mechanism)
        assert isinstance(mechanism, Sampled)
        data = [3] if isinstance(mechanism, Count) else 3
        assert mechanism.sample(data, 7, seeded(1)).shape == (7,)


@given(x=numbers, moved=st.fractions(-1, 1), sensitivity=positives, grid=powers)
def test_rounding_to_the_grid_moves_neighbours_by_at_most_the_sensitivity_on_the_grid(
    x: float, moved: Fraction, sensitivity: Decimal, grid: Decimal
) -> None:
    how = TotalMap(grid=grid, bound=BOUND, missing=Decimal(0))
    y = Fraction(x) + moved * Fraction(sensitivity)
    distance = abs(to_steps(x, how) - to_steps(y, how)) * Fraction(grid)
    assert distance <= Fraction(on_grid(sensitivity, grid)) < Fraction(sensitivity) + Fraction(grid)


@given(
    entries=st.lists(st.tuples(numbers, st.fractions(-1, 1)), min_size=1, max_size=5),
    grid=powers,
)
def test_rounding_a_vector_moves_it_by_at_most_its_l1_sensitivity_on_the_grid(
    entries: list[tuple[float, Fraction]], grid: Decimal
) -> None:
    how = TotalMap(grid=grid, bound=BOUND, missing=Decimal(0))
    length = Decimal(math.ceil(1000 * sum(abs(moved) for _, moved in entries))) / 1000 or Decimal("0.001")
    steps = sum(abs(to_steps(x, how) - to_steps(Fraction(x) + moved, how)) for x, moved in entries)
    assert steps * Fraction(grid) <= Fraction(on_grid(length, grid, len(entries)))


@given(sensitivity=positives, epsilon=positives, dimension=st.integers(1, 1000))
def test_a_vector_costs_hardly_more_than_a_number(sensitivity: Decimal, epsilon: Decimal, dimension: int) -> None:
    mechanism = Laplace(sensitivity=sensitivity, epsilon=epsilon, dimension=dimension)
    moved = Fraction(on_grid(sensitivity, mechanism.noise.grid, dimension))
    assert moved <= Fraction(mechanism.noise.scale) * Fraction(epsilon)
    assert moved <= Fraction(sensitivity) * (1 + Fraction(1, 1024))


@given(sensitivity=positives, epsilon=positives, grid=st.none() | powers)
def test_laplace_noise_is_never_less_than_its_epsilon_needs(
    sensitivity: Decimal, epsilon: Decimal, grid: Decimal | None
) -> None:
    mechanism = Laplace(sensitivity=sensitivity, epsilon=epsilon, grid=grid)
    moved = Fraction(on_grid(sensitivity, mechanism.noise.grid))
    exact = moved / Fraction(epsilon)
    assert exact <= Fraction(mechanism.noise.scale) <= exact * (1 + Fraction(1, 10**11))
    if grid is None:
        assert moved <= Fraction(sensitivity) * (1 + Fraction(1, 1024))


@settings(max_examples=30, deadline=None)
@given(sensitivity=positives, epsilon=st.decimals("0.01", "20", places=3), grid=powers, cell=st.integers(-50, 50))
def test_no_cell_tells_neighbours_apart_by_more_than_epsilon(
    sensitivity: Decimal, epsilon: Decimal, grid: Decimal, cell: int
) -> None:
    """The likelihood of each rounded output, from the law's distribution function, at the two extreme neighbours."""
    mechanism = Laplace(sensitivity=sensitivity, epsilon=epsilon, grid=grid)
    steps = int(on_grid(sensitivity, grid) / grid)
    cdf = cdf_of(mechanism.noise)
    here, there = (cdf(at) - cdf(at - 1) for at in (cell, cell - steps))
    assume(min(here, there) > 1e-9)  # below, the difference of two floats says nothing
    assert abs(math.log(here / there)) <= float(epsilon) * (1 + 1e-5)


@given(sensitivity=positives, scale=positives)
def test_a_laplace_mechanism_of_given_scale_claims_what_that_scale_keeps(sensitivity: Decimal, scale: Decimal) -> None:
    mechanism = Laplace(sensitivity=sensitivity, scale=scale)
    moved = Fraction(on_grid(sensitivity, mechanism.noise.grid))
    assert mechanism.noise.scale == scale
    assert moved / Fraction(scale) <= Fraction(mechanism.claim().epsilon)


@settings(deadline=None)
@given(
    data=st.lists(st.tuples(numbers, st.floats(-1, 1)), min_size=1, max_size=6),
    sensitivity=positives,
    multiplier=positives,
)
def test_gaussian_vectors_of_neighbours_stay_within_the_declared_sensitivity(
    data: list[tuple[float, float]], sensitivity: Decimal, multiplier: Decimal
) -> None:
    left, direction = (np.array(column) for column in zip(*data, strict=True))
    length = float(np.linalg.norm(direction))
    assume(length > 1e-9)
    right = left + direction / length * float(sensitivity) * (1 - 1e-9)
    assume(float(np.linalg.norm(right - left)) <= float(sensitivity))
    mechanism = Gaussian(noise_multiplier=multiplier, sensitivity=sensitivity, dimension=len(left))
    before, after = (
        np.atleast_1d(passed(mechanism, vector if len(vector) > 1 else vector[0])).reshape(-1).tolist()
        for vector in (left, right)
    )
    difference = [a - b for a, b in zip(before, after, strict=True)]
    squared = sum(d * d for d in difference) * Fraction(mechanism.noise.grid) ** 2
    assert squared <= (Fraction(mechanism.noise.sigma) / Fraction(multiplier)) ** 2


@given(sensitivity=positives, sigma=positives, dimension=st.integers(1, 10**6))
def test_a_gaussian_mechanism_of_given_sigma_claims_what_that_sigma_keeps(
    sensitivity: Decimal, sigma: Decimal, dimension: int
) -> None:
    mechanism = Gaussian(sigma=sigma, sensitivity=sensitivity, dimension=dimension)
    moved = Fraction(sensitivity)
    if dimension > 1:
        moved += Fraction(math.isqrt(dimension)) * Fraction(mechanism.noise.grid)
    assert mechanism.noise.sigma == sigma
    assert moved / Fraction(sigma) <= Fraction(mechanism.claim().mu)
    assert Fraction(mechanism.claim().mu) <= Fraction(sensitivity) / Fraction(sigma) * Fraction(1011, 1010)


def test_replacing_a_unit_counts_sigma_against_half_of_the_sensitivity() -> None:
    mechanism = Gaussian(sensitivity=1, noise_multiplier=3)
    for relation in Relation:
        placed = mechanism.under(relation, Unit())
        replaced = relation in (Relation.REPLACE_ONE, Relation.LABEL_FLIP)
        assert placed.parts() == GaussianLaw(noise_multiplier=6 if replaced else 3)
        assert placed.claim() == mechanism.claim()
    assert mechanism.parts() == GaussianLaw(noise_multiplier=3)


@given(values=st.lists(st.floats(), min_size=2, max_size=8), grid=powers, missing=st.integers(-5, 5))
def test_a_vector_is_mapped_entry_by_entry(values: list[float], grid: Decimal, missing: int) -> None:
    how = TotalMap(grid=grid, bound=Decimal(2**40), missing=Decimal(missing))
    expected = [to_steps(value, how) for value in values]
    assert vector_to_steps(np.array(values), how, len(values)).tolist() == expected
    assert vector_to_steps(values, how, len(values)).tolist() == expected
    assert vector_to_steps(values, how, len(values) + 1).tolist() == [to_steps(missing, how)] * (len(values) + 1)


@given(values=st.lists(st.floats(-(2**60), 2**60), max_size=20))
def test_nearest_whole_is_exact(values: list[float]) -> None:
    exact = [math.floor(Fraction(value) + Fraction(1, 2)) for value in values]
    assert nearest_whole(np.array(values, dtype=np.float64)).tolist() == exact


@pytest.mark.parametrize("value", [0.49999999999999994, -0.49999999999999994, -1e-20, 0.5, -0.5, 1.5, 2**52 + 0.5])
def test_nearest_whole_survives_the_classic_traps(value: float) -> None:
    assert nearest_whole(np.array([value]))[0] == math.floor(Fraction(value) + Fraction(1, 2))


@pytest.mark.parametrize(
    ("value", "counts_as"),
    [
        (float("nan"), 7),
        (Decimal("sNaN"), 7),
        (float("inf"), 100),
        (-(10**400), -100),
        (Decimal("1e999999999999"), 100),
        (Decimal("-1e-999999999999"), 0),
        (True, 1),
        (np.float32(2.5), 2.5),
        (np.array(3), 3),
        (np.int8(-4), -4),
        (Fraction(1, 4), 0.25),
    ],
)
def test_whatever_comes_counts_as_something_public(value: object, counts_as: float) -> None:
    mechanism = Laplace(sensitivity=1, epsilon=1, bound=100, missing=7)
    expected = mechanism.release(counts_as, entropy=seeded(1)).value
    assert mechanism.release(value, entropy=seeded(1)).value == expected


def test_under_fixes_the_grid() -> None:
    for mechanism in (
        Laplace(sensitivity=1, epsilon="0.3"),
        Gaussian(sensitivity=1, noise_multiplier="0.3", dimension=7),
    ):
        placed = mechanism.under(Relation.ADD_REMOVE, Unit())
        assert mechanism.grid is None
        assert placed.grid == mechanism.noise.grid
        assert placed.parameters() == mechanism.parameters()


# ---- laws -----------------------------------------------------------------------------------------------------------

DRAWS = 100_000


def test_a_laplace_release_follows_its_law_around_the_number() -> None:
    mechanism = Laplace(sensitivity=2, epsilon="0.4", grid="0.25")  # scale 5
    draws = mechanism.sample(17, DRAWS, seeded(31))
    steps = np.round((draws - 17) * 4).astype(np.int64)
    assert np.array_equal(steps, (draws - 17) * 4)
    points = [-180, -60, -20, -5, 0, 8, 40, 180]
    assert cumulative_p_value(steps, cdf_of(mechanism.noise), points) > SIGNIFICANCE
    half = Laplace(sensitivity=1, epsilon="0.4", grid="0.25").sample(17, DRAWS, seeded(32))
    assert cumulative_p_value(np.round((half - 17) * 4), cdf_of(mechanism.noise), points) < SIGNIFICANCE


def test_a_gaussian_release_follows_its_law_around_each_entry() -> None:
    mechanism = Gaussian(sensitivity=1, sigma=5, dimension=3, grid="0.25")
    data = np.array([1.0, -2.0, 300.0])
    draws = mechanism.sample(data, DRAWS, seeded(33))
    assert draws.shape == (DRAWS, 3)
    steps = (draws - data) * 4
    points = [-80, -40, -20, -5, 0, 8, 30, 80]
    for entry in range(3):
        assert cumulative_p_value(steps[:, entry], cdf_of(mechanism.noise), points) > SIGNIFICANCE
    for a, b in ((0, 1), (1, 2), (0, 2)):
        agreeing = int(np.count_nonzero((steps[:, a] > 0) == (steps[:, b] > 0)))
        ties = cdf_of(mechanism.noise)(0)  # P(not positive)
        assert binomial_p_value(agreeing, DRAWS, ties * ties + (1 - ties) ** 2) > SIGNIFICANCE
    shared = np.repeat(steps[:, :1], 2, axis=1)
    assert binomial_p_value(int(np.count_nonzero((shared[:, 0] > 0) == (shared[:, 1] > 0))), DRAWS, 0.5) < SIGNIFICANCE


@pytest.mark.parametrize(
    "mechanism",
    [Geometric(sensitivity=1, epsilon="0.2"), IntegerGaussian(sensitivity=1, sigma=4), Count(epsilon="0.2", of="rows")],
)
def test_integer_releases_follow_their_law_around_the_number(mechanism: Geometric | IntegerGaussian | Count) -> None:
    data: object = [1] * 9 if isinstance(mechanism, Count) else 9
    draws = mechanism.sample(data, DRAWS, seeded(34)) - 9
    points = [-20, -10, -5, -1, 0, 3, 8, 20]
    assert draws.dtype == np.int64
    assert cumulative_p_value(draws, cdf_of(mechanism.noise), points) > SIGNIFICANCE
    assert cumulative_p_value(draws + (draws > 0), cdf_of(mechanism.noise), points) < SIGNIFICANCE


def test_intervals_cover_at_their_confidence() -> None:
    laplace, gaussian = Laplace(sensitivity=1, epsilon="0.4"), Gaussian(sensitivity=1, noise_multiplier=5)
    for mechanism in (laplace, gaussian):
        missed = int(
            np.count_nonzero(np.abs(mechanism.sample(3.3, DRAWS, seeded(35)) - 3.3) > mechanism.interval("0.95"))
        )
        assert binom.sf(missed - 1, DRAWS, 0.05) > SIGNIFICANCE
        assert missed > 0.04 * DRAWS


def test_the_interval_of_a_vector_covers_all_entries_at_once() -> None:
    mechanism, truth = Laplace(sensitivity=1, epsilon="0.4", dimension=20), np.linspace(-1, 1, 20)
    missed = np.abs(mechanism.sample(truth, 20_000, seeded(37)) - truth).max(axis=1) > mechanism.interval("0.9")
    assert binom.sf(int(missed.sum()) - 1, 20_000, 0.1) > SIGNIFICANCE
    assert missed.mean() > 0.09
    alone = np.abs(mechanism.sample(truth, 20_000, seeded(38)) - truth).max(axis=1) > Laplace(
        sensitivity=1, epsilon="0.4"
    ).interval("0.9")
    assert binom.sf(int(alone.sum()) - 1, 20_000, 0.1) < SIGNIFICANCE


@pytest.mark.parametrize("make", [Laplace, Geometric], ids=["laplace", "geometric"])
@pytest.mark.parametrize("error", ["3", "11.5", "400"])
def test_an_error_that_is_asked_for_has_the_least_epsilon(make: Any, error: str) -> None:
    found = make.for_error(error, "0.95", sensitivity=2, justification="two rows")
    epsilon = found.claim().epsilon
    assert found.interval("0.95") <= float(error)
    assert make(epsilon=epsilon * Decimal("0.9999"), sensitivity=2).interval("0.95") > float(error)
    assert 0 < float(epsilon) * float(error) / (2 * math.log(20)) - 1 < 0.01 or make is Geometric
    assert found.parameters()["justification"] == "two rows"


def test_whole_noise_at_half_an_epsilon_has_the_published_law() -> None:
    known = {0: 0.244918662404, 1: 0.148550677884, 2: 0.090100540658, 3: 0.054648740365}
    cdf = cdf_of(Geometric(sensitivity=1, epsilon="0.5").noise)
    assert {k: float(cdf(k) - cdf(k - 1)) for k in known} == pytest.approx(known, abs=1e-11)
    assert {-k: float(cdf(-k) - cdf(-k - 1)) for k in known} == pytest.approx(
        {-k: p for k, p in known.items()}, abs=1e-11
    )


def test_an_error_below_the_grid_is_nobodys() -> None:
    with pytest.raises(InfeasiblePlan, match="too coarse"):
        Laplace.for_error("0.5", "0.95", sensitivity=1, grid=1)
    with pytest.raises(ParameterError, match="error"):
        Geometric.for_error(0, "0.95", sensitivity=1)


def test_the_mean_of_a_lecture() -> None:
    """Five values in [0, 10], one of them replaced: the numbers of the specification, and twenty entries by mpmath."""
    lecture = Laplace(sensitivity=2, epsilon=1, grid=str(Decimal(2) ** -40))
    assert lecture.parameters()["scale"] == "2"
    assert lecture.interval("0.95") == pytest.approx(5.991464547108, abs=1e-9)
    for entries in (2, 20, 1000):
        with mpmath.workdps(40):
            exact = -2 * mpmath.log(1 - mpmath.mpf("0.95") ** (mpmath.mpf(1) / entries))
        fine = Laplace(sensitivity=1, scale=2, dimension=entries, grid=str(Decimal(2) ** -40))
        assert fine.interval("0.95") == pytest.approx(float(exact), abs=1e-9)
        assert fine.interval("0.95") >= float(exact)
        assert fine.interval("0.95") <= 2 * math.log(entries / 0.05) + 1e-9
    assert Laplace(sensitivity=1, scale=2, dimension=3).interval("1e-9") > 0
