"""What an error bound adds for roundings is as much as they may be: each law here fails without that term of its bound.

The functions are asked one by one, with what they are given exact: in a price other errors hide such a term."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pytest

from dpledger.accounting.arithmetic import elementary
from dpledger.accounting.arithmetic.floating import ULPS, UNIT
from dpledger.accounting.families.gaussian import opposed, opposed_price, sampled_price
from dpledger.accounting.families.gaussian.mixture_curve import Mixture
from dpledger.accounting.families.gaussian.sampled import SampledPairs
from dpledger.accounting.families.gaussian.sampled_grid import TiltedPairs, make_grid
from dpledger.accounting.guarantees.epsilons import MOST_CURVE_POINTS
from dpledger.accounting.laws import curve
from dpledger.accounting.laws.cells import FARTHEST, laplace_bracket
from dpledger.accounting.laws.law import sum_up
from engine_oracles import mp
from worst_functions import worst_functions

Held: TypeAlias = tuple[Any, Any, Any]
"""A bound from below, one from above, and what is to lie between them."""
NOTHING = -math.inf


def real(number: float, units: int = 0) -> Any:
    """A parameter of which `number` may be the float: so many roundings off."""
    return mp.mpf(number) * (1 + units * mp.mpf(UNIT))


def within(found: float, error: float, exact: Any) -> Held:
    return mp.mpf(found) - mp.mpf(error), mp.mpf(found) + mp.mpf(error), exact


def ends_of_cells() -> Iterator[Held]:
    """The losses of the finite pair above Laplace noise are equal shares of epsilon, whatever rounds to this one."""
    pair = laplace_bracket(0.7).above
    cells = len(pair.losses) - 1
    for units in (-1, 0, 1):
        for k, (loss, error) in enumerate(zip(pair.losses, pair.loss_errors, strict=True)):
            yield within(loss, error, real(0.7, units) * (mp.mpf(2 * k) / cells - 1))


def terms_of_a_sampled_price() -> Iterator[Held]:
    """e^{-x^2/2s^2} (e^{wL} - 1 - w(e^L - 1)), as a series where the gain is small."""
    sigma, steps = 4.0, np.array([0.5])
    for rate, w in product((1e-9, 1e-5, 0.3), (-3.0, 5.0, 30.0)):
        points = sampled_price._Points(rate, sigma, np.array([w]), steps, np.array([-96.0]), np.array([193]))
        powered = elementary.exp(w * points.curve.values - points.squares)
        terms, errors = sampled_price._terms(points, np.full(193, w), powered)
        for units in (-1, 1):
            q, s = real(rate, units), real(sigma, -units)
            for x, term, error in zip(points.x.tolist(), terms.tolist(), errors.tolist(), strict=True):
                gain = q * mp.expm1((mp.mpf(x) - mp.mpf("0.5")) / s**2)
                yield within(term, error, mp.exp(-(mp.mpf(x) ** 2) / (2 * s**2)) * ((1 + gain) ** w - 1 - w * gain))


def sums_of_rows() -> Iterator[Held]:
    """K of many runs of each of some pairs, K of each being exact."""
    rng = np.random.default_rng(0)
    for rows in (2, 5, 40):
        pairs = SampledPairs(np.full((rows, 1), 0.1), np.linspace(1.0, 2.0, rows)[:, None], "remove")
        grid, values = make_grid(pairs, 1.0, 0.0), rng.uniform(0.1, 1.0, rows)
        counts = rng.integers(1, 10**9, rows).astype(np.float64)
        found = TiltedPairs(grid, 1.0, grid.masses, values, np.zeros(rows)).cumulants(counts)
        exact = mp.fsum(mp.mpf(count) * mp.mpf(value) for count, value in zip(counts, values, strict=True))
        yield within(found.value, found.error, exact)


def masses_of_an_opposed_pair() -> Iterator[Held]:
    """P's masses are Q's times e^loss, and Q's are all that the cells had, whose own masses are exact."""
    mixture = Mixture(4.0, (1.0,), (1e-14,), (math.log(1e-14),), 1 - 1e-14)
    reach = 1 + FARTHEST * mixture.sigma
    edges = reach * (2 * np.arange(opposed.CELLS + 1, dtype=np.float64) / opposed.CELLS - 1)
    cells = opposed._cells(mixture, edges)._replace(mass_error=0.0)
    pair = opposed._above(mixture, edges, cells)
    for loss, left, right in zip(pair.losses, pair.left, pair.right, strict=True):
        yield within(left, left * pair.mass_error, mp.mpf(right) * mp.exp(mp.mpf(loss)))
    total = math.fsum(pair.right)
    yield within(total, total * pair.mass_error, mp.fsum(map(mp.mpf, cells.right.tolist())))


def a_moment_from_its_largest_term() -> Iterator[Held]:
    """Of one point x, a rounded multiple of the step, and a sigma within two roundings; its curve is exact."""
    nothing = np.zeros(1)
    for sigma, x in ((1.0, 1e3), (0.3, 700.1), (7.7, 1e5)):
        squares = np.array([x]) * x / (2 * sigma * sigma)
        ahead = squares / 2
        points = (ahead, nothing, 4 * UNIT * ahead, squares)
        upper = opposed_price._whole(1.0, points, np.zeros(2), 1.0, 0.0)
        yield NOTHING, upper, 2 * mp.mpf(float(ahead[0])) - real(x, -1) ** 2 / (2 * real(sigma, 2) ** 2)


def sums_of_products() -> Iterator[Held]:
    """Of one sign, and of both, which all but cancel; of counts that floats hold, and of larger ones."""
    rng = np.random.default_rng(0)
    for size, sign, most in product((1, 3, 20), (-1, 1), (100, 2**62)):
        for _ in range(20):
            losses = [*rng.uniform(1, 2, size).tolist(), *(sign * rng.uniform(1, 2, size)).tolist()]
            counts = rng.integers(1, most, 2 * size).tolist()
            exact = sum(count * Fraction(loss) for count, loss in zip(counts, losses, strict=True))
            yield NOTHING, sum_up([count * loss for count, loss in zip(counts, losses, strict=True)]), exact


def polygons() -> Iterator[Held]:
    """The profile of the pair above some corners is at least their heights, that of the pair below at most: of those
    masses of Q that the pair has as floats, up to as many corners as a curve may have."""
    rng = np.random.default_rng(0)
    for size in (3, 30, 2 * MOST_CURVE_POINTS + 2):
        ratios = 1 + np.cumsum(rng.exponential(1.0, size)) / 8
        ratios, heights = np.append(1.0, ratios), np.append(1 / (1 + ratios) ** 2, 0.0)
        for side in ("above", "below"):
            pair = curve._pair(ratios, heights, side)
            profile, beyond = Fraction(pair.only_left), Fraction(0)
            for k in range(size - 1, -1, -1):
                beyond += Fraction(pair.right[k])
                profile += beyond * (Fraction(ratios[k + 1]) - Fraction(ratios[k]))
                height = Fraction(heights[k])
                yield (NOTHING, profile, height) if side == "above" else (profile, math.inf, height)


def test_what_lower_polygons_are_less_by_covers_the_roundings_of_as_many_corners_as_there_are() -> None:
    """Two sums over the corners, of which a curve has two a point: it is less twice by the slack."""
    assert (2 * 2 * (MOST_CURVE_POINTS + 1) + 32) * UNIT <= 2 * curve._SCALE_SLACK


@pytest.mark.parametrize("side", [0, 1, -1], ids=["ours", "above", "below"])
@pytest.mark.parametrize(
    "law",
    [
        ends_of_cells,
        terms_of_a_sampled_price,
        sums_of_rows,
        masses_of_an_opposed_pair,
        a_moment_from_its_largest_term,
        sums_of_products,
        polygons,
    ],
)
def test_roundings_are_covered(law: Callable[[], Iterator[Held]], side: int) -> None:
    with worst_functions(side, ULPS):
        for least, most, exact in law():
            assert least <= exact <= most
