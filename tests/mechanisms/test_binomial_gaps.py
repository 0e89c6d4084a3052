"""Gaps of two binomial laws: published numbers, every level by enumeration, and bounds on either side."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from math import comb
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom

from dpledger.errors import ParameterError
from dpledger.mechanisms.learning.theory.users.gap import BinomialGap, gap_worst

ERRORS = st.decimals(0, 1, places=4)


def tail(m: int, error: Decimal, level: int) -> Fraction:
    """P(Bin(m, error) > level), by whole numbers."""
    return sum((_density(m, error, k) for k in range(level + 1, m + 1)), Fraction(0))


def _density(m: int, error: Decimal, k: int) -> Fraction:
    p = Fraction(error)
    return comb(m, k) * p**k * (1 - p) ** (m - k)


@pytest.mark.parametrize(
    ("m", "p", "q", "level", "gap"),
    [
        (25, "0.3", "0.4", 8, 0.403396674958),
        (100, "0.05", "0.1", 7, 0.665988659576),
        (10, 0, "0.2", 0, 0.8926258176),
        (7, "0.9", 1, 6, 0.5217031),
    ],
)
def test_published_gaps(m: int, p: str, q: str, level: int, gap: float) -> None:
    found = BinomialGap(m, p, q)
    assert found.level == level
    assert float(found.lower) == pytest.approx(gap, abs=1e-9)
    assert float(found.upper) == pytest.approx(gap, abs=1e-9)
    if m == 25:
        both = [float(bound) for error in ("0.3", "0.4") for bound in found.chance(Decimal(error))]
        assert both == pytest.approx([0.323071874897] * 2 + [0.726468549855] * 2, abs=1e-9)
        assert found.middle == round((0.323071874897 + 0.726468549855) / 2 * 2**20)


@settings(deadline=None, max_examples=150)
@given(m=st.integers(1, 25), errors=st.lists(ERRORS, min_size=2, max_size=2, unique=True).map(sorted))
def test_the_gap_is_the_greatest_of_all_levels_and_the_total_variation(m: int, errors: list[Decimal]) -> None:
    p, q = errors
    gaps = [tail(m, q, level) - tail(m, p, level) for level in range(m)]
    variation = sum((abs(_density(m, q, k) - _density(m, p, k)) for k in range(m + 1)), Fraction(0)) / 2
    found = BinomialGap(m, p, q)
    assert gaps[found.level] == max(gaps) == variation
    assert Fraction(found.lower) <= max(gaps) <= Fraction(found.upper)
    assert Fraction(found.upper) - Fraction(found.lower) <= Fraction(1, 10**10)


@settings(deadline=None, max_examples=60)
@given(m=st.integers(1, 12), errors=st.lists(ERRORS, min_size=2, max_size=2, unique=True).map(sorted))
def test_the_gap_is_an_integral_of_the_density_at_its_level(m: int, errors: list[Decimal]) -> None:
    found = BinomialGap(m, *errors)
    level = found.level
    with mpmath.workdps(30):
        p, q = (mpmath.mpf(str(error)) for error in errors)
        density = m * mpmath.binomial(m - 1, level)
        integral = mpmath.quad(lambda u: density * u**level * (1 - u) ** (m - 1 - level), [p, q])
    assert float(found.lower) == pytest.approx(float(integral), abs=1e-10)


def summed(m: int, error: str, level: int) -> Any:
    """P(Bin(m, error) > level), term by term up to what thirty digits do not show."""
    with mpmath.workdps(40):
        p, k = mpmath.mpf(error), level + 1
        ways = mpmath.loggamma(m + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(m - k + 1)
        term = mpmath.exp(ways + k * mpmath.log(p) + (m - k) * mpmath.log(1 - p))
        total, start = mpmath.mpf(0), k
        while k <= m and (k < start + 2000 or term > mpmath.mpf("1e-32")):
            total, term, k = total + term, term * (m - k) / (k + 1) * p / (1 - p), k + 1
        return total


def test_a_million_examples() -> None:
    found = BinomialGap(10**6, "0.3", "0.3005")
    level = found.level
    assert all(
        binom.sf(level, 10**6, 0.3005) - binom.sf(level, 10**6, 0.3)
        >= binom.sf(other, 10**6, 0.3005) - binom.sf(other, 10**6, 0.3) - 1e-12
        for other in range(level - 50, level + 50)
    )
    exact = Decimal(str(summed(10**6, "0.3005", level) - summed(10**6, "0.3", level)))
    assert found.lower <= exact <= found.upper <= found.lower + Decimal("1e-9")


# ---- wherever the errors lie ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "difference", "gap"),
    [
        (4, "0.1", 0.1495),
        (25, "0.05", 0.191656552933),
        (100, "0.05", 0.382265692312),
        (100, "0.1", 0.682695602126),
        (400, "0.025", 0.382759946964),
        (1, "0.3", 0.3),
        (7, 1, 1),
    ],
)
def test_published_worst_gaps(m: int, difference: str, gap: float) -> None:
    assert float(gap_worst(m, difference)) == pytest.approx(gap, abs=1e-9)


@pytest.mark.parametrize("m", [1, 2, 3, 7, 10, 25, 50, 101, 400])
@pytest.mark.parametrize("difference", ["0.001", "0.05", "0.3"])
def test_no_gap_of_a_grid_is_below_the_worst(m: int, difference: str) -> None:
    apart = float(difference)
    low = np.linspace(0, 1 - apart, 2001)
    laws = [binom.pmf(np.arange(m + 1)[:, None], m, np.minimum(at, 1)[None, :]) for at in (low, low + apart)]
    gaps = np.abs(laws[0] - laws[1]).sum(axis=0) / 2
    worst = float(gap_worst(m, difference))
    assert worst <= gaps.min() + 1e-11
    if m % 2 == 0:
        assert worst == pytest.approx(gaps[1000], abs=1e-10)  # at (1 - difference)/2


ONE_SIGMA = math.erf(math.sqrt(0.5))
"""2 Phi(1) - 1."""


def least_on_a_grid(m: int, difference: float, cells: int) -> float:
    """The least total variation of Bin(m, p) and Bin(m, p + difference) over cells + 1 values of p."""
    low = np.linspace(0, 1 - difference, cells + 1)[: cells // 2 + 1]  # the rest is its mirror image
    least = math.inf
    for part in np.array_split(low, max(1, m * len(low) // 2**21)):
        errors = np.stack([part, np.minimum(part + difference, 1)])
        tells = np.diff(binom.sf(np.arange(m)[:, None], m, errors[:, None, :]), axis=0)[0]
        least = min(least, float(tells.max(axis=0).min()))
    return least


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2, 3, 7, 10, 25, 50, 100, 101, 400])
def test_no_gap_of_a_fine_grid_is_below_the_worst(m: int) -> None:
    for difference in ("0.001", "0.01", "0.05", "0.1", "0.3"):
        assert float(gap_worst(m, difference)) <= least_on_a_grid(m, float(difference), 8000) + 1e-11


def test_more_examples_never_tell_less() -> None:
    gaps = [BinomialGap(m, "0.2", "0.25").lower for m in range(1, 60)]
    assert all(less <= more + Decimal("1e-10") for less, more in itertools.pairwise(gaps))


def test_what_is_no_gap_is_refused() -> None:
    for bad in ((0, 0, "0.1"), (2, "0.2", "0.2"), (2, "-0.1", "0.2"), (2, "0.5", "1.1"), (2.0, 0, 1)):
        with pytest.raises(ParameterError):
            BinomialGap(*bad)
    with pytest.raises(ParameterError, match="difference"):
        gap_worst(3, 0)
