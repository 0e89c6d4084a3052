"""The float tier of the samplers: its tolerances are those that the proof derives, and what it calls certain is."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.mechanisms.noise.floats import (
    EDGE,
    MARGIN_ERROR,
    SMALLEST_PREFIX,
    UNIT,
    cells_of,
    excess,
    logarithm,
    polar,
    settled,
)

HALF = Fraction(1, 2)
UNSURE = Fraction(1, 2**52)  # of a fraction: nearer to its boundary the float comparison may go either way


def power(exponent: int) -> Fraction:
    return Fraction(2**exponent) if exponent >= 0 else Fraction(1, 2**-exponent)


def is_sure(y: float, tolerance: Fraction) -> bool | None:
    """Whether everything within a tolerance of y has one floor; None at the boundary itself."""
    fraction = Fraction(y) - math.floor(y)
    room = min(fraction, 1 - fraction) - tolerance
    return None if abs(room) < UNSURE * max(Fraction(1), tolerance) else room > 0


class WorstLogarithms:
    """Functions as the tolerances assume them: a logarithm that is wrong by 2^-48 of itself."""

    def __init__(self, side: int) -> None:
        self.side = side

    def log(self, x: Any) -> Any:
        return np.log(x) * (1 + self.side * 0.99 * 2.0**-48)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@given(
    exponential=st.floats(0.0, 11.5) | st.floats(0, 1e-3),
    scale=st.sampled_from([0.3, 1.0, 10.0, 2.0**20, 3.0**25, 2.0**44]),
    offset=st.sampled_from([0.0, 0.5]),
    coarse=st.sampled_from([1.0, 2.0**20, 2.0**30]),
)
def test_a_cell_is_certain_where_the_tolerance_of_the_proof_lies_in_one(
    exponential: float, scale: float, offset: float, coarse: float
) -> None:
    """2^-47 y + 2^-52 r + 2^-51, times what it is widened by (docs/proofs/noise.md, 3.1); plain numbers and arrays."""
    require_as_proven(exponential, scale, offset, coarse)


@pytest.mark.parametrize("offset", [0.0, 0.5])
@pytest.mark.parametrize("boundary", [1, 2, 3])
def test_no_part_of_the_tolerance_is_left_out_beside_a_boundary(boundary: int, offset: float) -> None:
    """Where it is a few units in the last place, each of its three parts decides of some."""
    for units in range(-200, 200):
        require_as_proven(boundary + units * 2.0**-52 - offset, 1.0, offset, 1.0)


def require_as_proven(exponential: float, scale: float, offset: float, coarse: float) -> None:
    y = exponential * scale + offset if offset else max(exponential * scale, 0.5)
    tolerance = Fraction(coarse) * (Fraction(y) * power(-47) + Fraction(scale) * power(-52) + power(-51))
    one = cells_of(-exponential, scale, offset, coarse, math)
    many = cells_of(np.array([-exponential] * 3), scale, offset, coarse, np)
    assert one[0] == math.floor(y) == many[0][1]
    expected = is_sure(y, tolerance)
    assert expected is None or expected == bool(one[1]) == bool(many[1][1])


@given(
    squares=st.floats(2.0**-20, 1 - 2.0**-20) | st.floats(2.0**-20, 1e-3) | st.floats(0.999, 1 - 2.0**-20),
    scale=st.sampled_from([0.3, 10.0, 2.0**20, 2.0**40]),
    coarse=st.sampled_from([1.0, 2.0**20]),
)
def test_the_room_of_a_normal_variate_is_that_of_the_proof(squares: float, scale: float, coarse: float) -> None:
    """One half less r F (2^-48 + 2^-50 / M) + 2^-51, with F = sqrt(2 M / S) and M = -ln S."""
    factor, room = polar(squares, scale, coarse, math)
    factors, rooms = polar(np.array([squares]), scale, coarse, np)
    with mp.workdps(40):
        m = -mp.log(squares)
        exact = mp.sqrt(2 * m / squares) * scale
        tolerance = coarse * (exact * (mp.mpf(2) ** -48 + mp.mpf(2) ** -50 / m) + mp.mpf(2) ** -51)
        for found, left in ((factor, room), (factors[0], rooms[0])):
            assert abs(found - exact) <= exact * (mp.mpf(2) ** -49 + mp.mpf(2) ** -51 / m)
            assert abs((mp.mpf("0.5") - left) - tolerance) <= tolerance * mp.mpf("1e-6") + 2.0**-53


@pytest.mark.parametrize("side", [-1, 1])
def test_the_tolerances_hold_with_the_worst_logarithm_that_is_assumed(side: int) -> None:
    """And would not if they were half as wide: measured with the logarithms of numpy alone, they could be."""
    by, scale, draw = WorstLogarithms(side), 2.0**40, np.random.default_rng(12)
    prefixes = (2.0 ** draw.uniform(46, 63, 60)).astype(np.int64) | draw.integers(0, 2**10, 60)
    squares = np.concatenate([draw.uniform(0.1, 0.9, 20), 2.0 ** -draw.uniform(1, 19, 20)])
    cells = logarithm(prefixes, by) * -scale
    factors, rooms = polar(squares, scale, 1.0, by)
    worst = [mp.mpf(0), mp.mpf(0)]
    with mp.workdps(50):
        for prefix, y in zip(prefixes.tolist(), cells.tolist(), strict=True):
            tolerance = mp.mpf(y) * mp.mpf(2) ** -47 + scale * mp.mpf(2) ** -52 + mp.mpf(2) ** -51
            for end in (prefix, prefix + 1):
                worst[0] = max(worst[0], abs(y + scale * mp.log(mp.mpf(end) / 2**63)) / tolerance)
        for square, factor, room in zip(squares.tolist(), factors.tolist(), rooms.tolist(), strict=True):
            exact = mp.sqrt(-2 * mp.log(mp.mpf(square)) / mp.mpf(square)) * scale
            worst[1] = max(worst[1], abs(factor - exact) / (mp.mpf("0.5") - room))
    assert 0.5 < worst[0] < 1
    assert 0.4 < worst[1] < 1


@given(
    prefix=st.integers(2**46, 2**63 - 1),
    proposal=st.integers(0, 200),
    sigma=st.sampled_from([0.3, 1.0, 7.5, 30.0]),
)
def test_a_threshold_less_an_exponential_errs_by_less_than_its_margin(prefix: int, proposal: int, sigma: float) -> None:
    """Where it decides; a threshold far beyond every exponential is right whatever it is."""
    scale = math.floor(sigma) + 1
    centre, halved = Fraction(sigma) ** 2 / scale, 1 / (2 * Fraction(sigma) ** 2)
    found = excess(logarithm(prefix, math), abs(proposal - float(centre)), float(halved))
    threshold = (proposal - centre) ** 2 * halved
    with mp.workdps(40):
        for end in (prefix, prefix + 1):
            true = mp.mpf(threshold.numerator) / threshold.denominator + mp.log(mp.mpf(end) / 2**63)
            assert abs(found - true) <= MARGIN_ERROR / 2 if threshold <= 16 else found > 4 < true


def test_the_margin_of_a_threshold_is_about_what_its_parts_may_err_by() -> None:
    """2^-45 for the threshold and 2^-43.8 for the exponential: not less than these, and not a hundred times more."""
    assert 2.0**-43.2 <= MARGIN_ERROR <= 2.0**-39.5


@given(y=st.floats(-1e15, 1e15), room=st.floats(-1.0, 0.5))
def test_what_is_settled_is_the_floor(y: float, room: float) -> None:
    cell, sure = settled(y, room, math)
    assert cell == math.floor(y)
    fraction = abs(Fraction(y) - math.floor(y) - HALF)
    assert bool(sure) == (fraction < Fraction(room)) or abs(fraction - Fraction(room)) < UNSURE


def test_at_the_end_of_its_room_nothing_is_settled() -> None:
    assert [bool(settled(5.25, room, math)[1]) for room in (0.25, 0.25 + 2.0**-53)] == [False, True]
    with np.errstate(invalid="ignore"):
        assert not settled(np.array([math.inf, math.nan]), np.array([0.5, 0.5]), np)[1].any()


def test_the_edges_are_where_the_proof_begins() -> None:
    """U >= 2^-17 and 2^-20 <= S: the chord that bounds what the prefix leaves open ends at 17 ln 2, and a square root
    of S is at least 2^-10."""
    assert Fraction(SMALLEST_PREFIX) * Fraction(UNIT) == power(-17)
    assert math.sqrt(EDGE) == 2.0**-10
    assert Fraction(UNIT) == Fraction(1, 2**63)
