"""The clipped sum: exact, whatever the rows hold; one row moves it by at most clip_norm / grid + sqrt(d) / 2."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import hypothesis.extra.numpy as hnp
import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from dpledger.mechanisms.training.clipping import clipped_sum

Floats = npt.NDArray[np.float64]

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
ROWS = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8), elements=ANY_FLOAT)
CLIPS = st.sampled_from([1e-6, 0.1, 1.0, 3.7, 1e9])
POWERS = st.integers(-50, -1)


def grid_for(clip_norm: float, power: int) -> float:
    """A power of two between clip_norm 2^-50 and clip_norm."""
    exponent = int(np.floor(np.log2(clip_norm))) + max(power, -49)
    return float(2.0**exponent)


def exact_row(row: Floats, clip_norm: float, grid: float) -> list[mpmath.mpf]:
    """The ideal clipped row in steps, at 60 digits; zeros where a value is not finite."""
    with mpmath.workdps(60):
        if not np.isfinite(row).all():
            return [mpmath.mpf(0)] * len(row)
        norm = mpmath.norm([mpmath.mpf(float(x)) for x in row])
        factor = mpmath.mpf(1) if norm <= clip_norm else mpmath.mpf(clip_norm) / norm
        return [mpmath.mpf(float(x)) * factor / mpmath.mpf(grid) for x in row]


@given(rows=ROWS, clip_norm=CLIPS, power=POWERS)
def test_the_sum_is_the_exact_one_up_to_the_rounding_of_each_row(rows: Floats, clip_norm: float, power: int) -> None:
    """Each entry is within half a step a row (and a relative 1e-13 of the clip, for the float factor) of the ideal."""
    grid = grid_for(clip_norm, power)
    total = clipped_sum(rows, clip_norm=clip_norm, grid=grid)
    ideal = [sum(column) for column in zip(*(exact_row(row, clip_norm, grid) for row in rows), strict=True)]
    slack = len(rows) * (0.5 + 1e-13 * clip_norm / grid)
    assert all(abs(int(entry) - value) <= slack for entry, value in zip(total, ideal, strict=True))


@given(rows=ROWS, clip_norm=CLIPS, power=POWERS)
def test_one_row_is_never_longer_than_its_bound(rows: Floats, clip_norm: float, power: int) -> None:
    """In exact arithmetic: ||r|| <= clip_norm / grid + sqrt(d) / 2, whatever the row holds."""
    grid = grid_for(clip_norm, power)
    for row in rows:
        steps = clipped_sum(row[np.newaxis], clip_norm=clip_norm, grid=grid)
        square = sum(int(entry) ** 2 for entry in steps)
        with mpmath.workdps(60):
            bound = mpmath.mpf(clip_norm) / mpmath.mpf(grid) + mpmath.sqrt(rows.shape[1]) / 2
            assert mpmath.sqrt(square) <= bound


@given(rows=ROWS, clip_norm=CLIPS, power=POWERS, data=st.data())
def test_the_sum_is_the_sum_of_its_rows_in_any_order(
    rows: Floats, clip_norm: float, power: int, data: st.DataObject
) -> None:
    grid = grid_for(clip_norm, power)
    order = data.draw(st.permutations(range(len(rows))))
    one_by_one = [clipped_sum(row[np.newaxis], clip_norm=clip_norm, grid=grid).tolist() for row in rows]
    expected = [sum(column) for column in zip(*one_by_one, strict=True)]
    assert clipped_sum(rows, clip_norm=clip_norm, grid=grid).tolist() == expected
    assert clipped_sum(rows[np.array(order)], clip_norm=clip_norm, grid=grid).tolist() == expected


@pytest.mark.parametrize("dimension", [1, 2, 7, 64, 1000])
def test_a_long_random_row_stays_within_the_clip_norm_before_rounding(dimension: int) -> None:
    """On the finest grid the rounding is negligible, so this is lemma 2 itself, checked with rational numbers."""
    generator = np.random.default_rng(5)
    clip = float(2.0**49)
    for _ in range(200):
        row = generator.standard_normal(dimension) * np.exp(generator.uniform(-40, 300))
        steps = clipped_sum(row[np.newaxis], clip_norm=clip, grid=1.0)
        assert sum(int(entry) ** 2 for entry in steps) <= (Fraction(clip) + Fraction(dimension, 2)) ** 2


def test_rows_beyond_the_range_of_squares_are_clipped_not_lost() -> None:
    """A norm whose square overflows still gives a row of norm clip_norm (TRN-B7 gives an unclipped one)."""
    rows = np.array([[1e200, 0.0], [0.0, -1e308], [3e170, 4e170]])
    assert clipped_sum(rows, clip_norm=1.0, grid=2.0**-10).tolist() == [1024 + 614, -1024 + 819]


def test_a_row_with_a_value_that_is_not_finite_counts_as_zero() -> None:
    rows = np.array([[np.nan, 1.0], [np.inf, 1.0], [1.0, -np.inf], [0.5, 0.5]])
    assert clipped_sum(rows, clip_norm=1.0, grid=0.125).tolist() == [4, 4]


def test_whole_numbers_and_short_floats_count_like_float64() -> None:
    whole = np.array([[3, 4], [0, 1]])
    expected = clipped_sum(whole.astype(np.float64), clip_norm=2.0, grid=0.25).tolist()
    assert clipped_sum(whole, clip_norm=2.0, grid=0.25).tolist() == expected
    assert clipped_sum(whole.astype(np.float16), clip_norm=2.0, grid=0.25).tolist() == expected


def test_no_rows_give_zero() -> None:
    assert clipped_sum(np.zeros((0, 3)), clip_norm=1.0, grid=0.25).tolist() == [0, 0, 0]


def test_a_sum_beyond_int64_is_still_exact() -> None:
    """2^14 rows of 2^50 steps: 2^64."""
    rows = np.full((2**14, 1), 1e30)
    total = clipped_sum(rows, clip_norm=2.0**50, grid=1.0)
    one = int(clipped_sum(rows[:1], clip_norm=2.0**50, grid=1.0)[0])
    assert int(total[0]) == 2**14 * one > 2**63


@given(rows=ROWS, extra=hnp.arrays(np.float64, (1, 3), elements=ANY_FLOAT))
def test_adding_a_unit_in_one_dimension_moves_the_whole_number_by_at_most_the_floor(
    rows: Floats, extra: Floats
) -> None:
    """floor((C + g/2) / g) whole steps, for d = 1."""
    clip, grid = Decimal("0.7"), Decimal("0.125")
    before = clipped_sum(rows[:, :1], clip_norm=0.7, grid=0.125)
    after = clipped_sum(np.concatenate([rows[:, :1], extra[:, :1]]), clip_norm=0.7, grid=0.125)
    assert abs(int(after[0]) - int(before[0])) <= (clip + grid / 2) // grid
