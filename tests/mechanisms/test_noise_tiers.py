"""What the proofs of the float tiers assume and claim, measured against mpmath; and twins that claim more.

Errors are measured on what the samplers see: random uniforms and points, and those next to where the bounds are worst.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import numpy.typing as npt
import pytest

from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import Law, RoundedGaussian, RoundedLaplace, floats, pairs
from dpledger.mechanisms.noise.sampling import Widening, sample

pytestmark = pytest.mark.sliced

DIGITS = 60
NEVER_SURE = 1e30

Prefixes = npt.NDArray[np.int64]


def uniform_prefixes(count: int, smallest: int) -> Prefixes:
    """Random ones, small ones, and ones next to 1 (where the exponential is next to 0)."""
    generator = np.random.default_rng(5)
    spread = 2.0 ** generator.uniform(math.log2(smallest), 63, count)
    near_one = 2.0**63 * (1 - 2.0 ** -generator.uniform(1, 40, count))
    drawn = np.concatenate([generator.random(count) * 2.0**63, spread, near_one, [smallest]])
    low = generator.integers(0, 2**10, drawn.size)  # the bits that a float64 does not hold
    prefixes: Prefixes = np.clip(drawn.astype(np.int64) | low, smallest, 2**63 - 1)
    return prefixes


def points(count: int) -> Prefixes:
    """Signed prefixes int64[2, n] with 2^-20 <= S <= 1 - 2^-20, small and large S among them."""
    generator = np.random.default_rng(6)
    radii = np.concatenate(
        [
            np.sqrt(generator.random(count)),
            2.0 ** -generator.uniform(0, 10, count),
            1 - 2.0 ** -generator.uniform(1, 20.9, count),
        ]
    )
    angles = generator.random(radii.size) * 2 * np.pi
    drawn = np.stack([radii * np.cos(angles), radii * np.sin(angles)])
    prefix = (drawn * 2.0**63).astype(np.int64) | generator.integers(0, 2**10, drawn.shape)
    squares = float_squares(prefix)
    return prefix[:, (squares >= floats.EDGE) & (squares <= 1 - floats.EDGE)]


def float_squares(prefix: Prefixes) -> npt.NDArray[np.float64]:
    point = prefix * floats.UNIT
    squares: npt.NDArray[np.float64] = point[0] * point[0] + point[1] * point[1]
    return squares


def true_exponential(numerator: int) -> Any:
    return -mp.log(mp.mpf(numerator) / 2**63)


def true_normal(first: int, second: int) -> Any:
    u, v = mp.mpf(first) / 2**63, mp.mpf(second) / 2**63
    s = u * u + v * v
    return u * mp.sqrt(-2 * mp.log(s) / s)


# ---- facts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("logarithms", [np.log, lambda xs: [math.log(x) for x in xs]], ids=["numpy", "math"])
def test_logarithms_are_as_accurate_as_the_tolerances_assume(logarithms: Callable[[Any], Any]) -> None:
    """Assumed: 2^-48. Measured on the arguments that the samplers use: the whole range, and next to 1."""
    with mp.workdps(40):
        arguments = uniform_prefixes(1500, 2**40) * floats.UNIT
        arguments = arguments[arguments < 1]
        worst = max(
            abs(mp.mpf(float(value)) / mp.log(mp.mpf(float(x))) - 1)
            for x, value in zip(arguments, logarithms(arguments), strict=True)
        )
    assert worst < 2.0**-50


def test_the_table_of_exponentials_holds_heads_of_24_bits_and_tails_that_make_up_for_them() -> None:
    heads, tails = pairs._exponentials()
    assert np.array_equal(heads, heads.astype(np.float32))
    with mp.workdps(DIGITS):
        for i in [*range(0, len(heads), 97), len(heads) - 1]:
            true = mp.exp(mp.mpf(i) / 1024)
            assert abs(mp.mpf(heads[i]) + mp.mpf(tails[i]) - true) < true * mp.mpf(2) ** -76
    assert math.log(2) * 20 < (len(heads) - 1) / 1024


# ---- the bounds of the proofs ---------------------------------------------------------------------------------------


def test_the_first_tier_keeps_its_bounds() -> None:
    """A variate of the whole interval that the prefix leaves is within the tolerance, and within half of it."""
    scale, one = 3.0**30, 2.0**-1000  # so large that the constants for small numbers do not count
    worst = mp.mpf(0)
    with mp.workdps(DIGITS):
        prefixes = uniform_prefixes(700, floats.SMALLEST_PREFIX)
        for prefix, value in zip(prefixes.tolist(), (-floats.logarithm(prefixes, np)).tolist(), strict=True):
            tolerance = value * scale * floats._EXPONENTIAL_RELATIVE + scale * floats._EXPONENTIAL_ABSOLUTE + one
            for end in (prefix, prefix + 1):
                worst = max(worst, abs(mp.mpf(value * scale) - true_exponential(end) * mp.mpf(scale)) / tolerance)
        prefix = points(700)
        factors, rooms = floats.polar(float_squares(prefix), scale, 1.0, np)
        for (first, second), factor, tolerance in zip(prefix.T.tolist(), factors, 0.5 - rooms, strict=True):
            value = mp.mpf(float(first * floats.UNIT * factor))
            for ends in ((first, second), (first + 1, second + 1), (first, second + 1)):
                worst = max(worst, abs(value - true_normal(*ends) * mp.mpf(scale)) / mp.mpf(float(tolerance)))
    assert 0.01 < worst < 0.5


def test_the_logarithm_of_the_second_tier_keeps_its_bound() -> None:
    with mp.workdps(DIGITS):
        prefixes = uniform_prefixes(1000, pairs._SMALLEST_PREFIX)
        high = (prefixes >> pairs._LOW).astype(np.float64) * pairs._SHORT_UNIT
        low = (prefixes & (2**pairs._LOW - 1)) * floats.UNIT
        near = high + low
        found = zip(prefixes.tolist(), near, low, *pairs._logarithm(high, low, near, -np.log(near)), strict=True)
        worst = mp.mpf(0)
        for prefix, uniform, rest, whole, first, second in found:
            assert Fraction(whole) - Fraction(first) == Fraction(whole - first)
            error = abs(mp.mpf(whole) - mp.mpf(first) - mp.mpf(second) - true_exponential(prefix))
            worst = max(worst, error / (2.0**-68 + 2.0**-51.3 * rest / uniform))
    assert 0.01 < worst < 1


@pytest.mark.parametrize("scale", [Fraction(2**40), Fraction(10**15, 7), Fraction(1, 3), Fraction(2**52)], ids=str)
def test_the_second_tier_keeps_its_bounds(scale: Fraction) -> None:
    """Everywhere in the interval that the prefix leaves; and it needs a hundredth of its tolerance at least."""
    steps, worst = pairs.ScaledSteps.of(scale), mp.mpf(0)

    def compare(found: pairs.TrackedNumbers, true: list[Any]) -> Any:
        """The largest error, in tolerances."""
        columns = zip(found.cells.tolist(), found.fraction.tolist(), found.tolerance.tolist(), strict=True)
        return max(
            abs(cell + mp.mpf(fraction) - mp.mpf(1) / 2 - mp.mpf(scale.numerator) / scale.denominator * true[i]) / width
            for i, (cell, fraction, width) in enumerate(columns)
        )

    with mp.workdps(DIGITS):
        prefixes = uniform_prefixes(400, pairs._SMALLEST_PREFIX)
        exponentials = pairs.exponential_cells(steps, 0.5, prefixes)
        for shift in (0, 1):
            ends = (prefixes + shift).tolist()
            worst = max(worst, compare(exponentials, [true_exponential(end) for end in ends]))
        prefix = points(300)
        normal = pairs.polar_cells(steps, prefix, float_squares(prefix))
        for corner in ((0, 0), (1, 1), (0, 1)):
            for ours, other in ((0, 1), (1, 0)):
                mine, its = ((prefix[k] + corner[k]).tolist() for k in (ours, other))
                one = pairs.TrackedNumbers(normal.cells[ours], normal.fraction[ours], normal.tolerance)
                worst = max(worst, compare(one, [true_normal(*point) for point in zip(mine, its, strict=True)]))
    assert worst < 1
    assert worst > 0.01 or scale < 1


@pytest.mark.parametrize("scale", [Fraction(1, 2**20), Fraction(1), Fraction(2**40)], ids=str)
def test_the_tolerances_of_the_second_tier_are_those_of_the_proof(scale: Fraction) -> None:
    """r (2^-62 / U + 2^-61) + 2^-50, and r F (2^-60 + 2^-61 / M) + 2^-50."""
    steps, r = pairs.ScaledSteps.of(scale), float(scale)
    prefixes, point = uniform_prefixes(100, pairs._SMALLEST_PREFIX), points(100)
    uniform, squares = prefixes * 2.0**-63, float_squares(point)
    m = -np.log(squares)
    exponential = r * (2.0**-62 / uniform + 2.0**-61) + 2.0**-50
    normal = r * np.sqrt(2 * m / squares) * (2.0**-60 + 2.0**-61 / m) + 2.0**-50
    assert np.allclose(pairs.exponential_cells(steps, 0.5, prefixes).tolerance, exponential, rtol=1e-9, atol=0)
    assert np.allclose(pairs.polar_cells(steps, point, squares).tolerance, normal, rtol=1e-9, atol=0)


# ---- twins that claim more ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("make", [RoundedLaplace, RoundedGaussian])
@pytest.mark.parametrize(
    ("trusting", "scale"), [(Widening(0.0), 2**50), (Widening(NEVER_SURE, 0.0), 2**52)], ids=["floats", "pairs"]
)
def test_a_tier_that_trusts_its_last_bits_is_caught(
    make: Callable[[int, int], Law], trusting: Widening, scale: int
) -> None:
    """Without tolerances, and with so many steps in a scale, the last bits show in some draws."""
    law, differing = make(scale, 1), 0
    for seed in range(6, 12):
        exact, trusted, proved = (
            sample(law, 3000, seeded(seed), widening=widening)
            for widening in (Widening(NEVER_SURE, NEVER_SURE), trusting, Widening())
        )
        differing += int(np.count_nonzero(trusted != exact))
        assert np.array_equal(proved, exact)
    assert 2 < differing < 3000
