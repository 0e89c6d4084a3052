"""Bounds where a number is asked for: they unpack, compare where the answer is known, and are written outward."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, FloatOperation, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.accounting.bounds import Bounds
from dpledger.errors import CannotCertify, ParameterError

NUMBERS = st.floats(allow_nan=False, width=64)
PAIRS = st.tuples(NUMBERS, NUMBERS).map(sorted).map(lambda ends: Bounds(*ends))
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@given(PAIRS)
def test_they_unpack_and_have_two_items(bounds: Bounds) -> None:
    lower, upper = bounds
    assert (lower, upper) == (bounds[0], bounds[1]) == (bounds.lower, bounds.upper)
    assert len(bounds) == 2
    assert bounds[-1] == upper
    assert np.asarray([bounds, bounds]).shape == (2, 2)
    with pytest.raises(IndexError):
        bounds[2]


@given(PAIRS, NUMBERS, st.sampled_from(sorted(COMPARISONS)))
def test_a_comparison_is_answered_where_both_ends_agree(bounds: Bounds, other: float, sign: str) -> None:
    """Both ends agree where the comparison is monotone in the truth: then every truth between them does."""
    compared = COMPARISONS[sign]
    ends = {compared(bounds.lower, other), compared(bounds.upper, other)}
    if len(ends) == 1:
        assert compared(bounds, other) in ends
        assert compared(bounds, np.float64(other)) in ends
    else:
        with pytest.raises(CannotCertify, match=r"compare \.lower or \.upper"):
            compared(bounds, other)


@given(PAIRS, NUMBERS)
def test_a_number_may_stand_on_the_left(bounds: Bounds, other: float) -> None:
    try:
        known = bounds < other
    except CannotCertify:
        with pytest.raises(CannotCertify):
            assert other > bounds
    else:
        assert (other > bounds) is known
        assert bool(np.float64(other) > bounds) == known


@given(PAIRS, PAIRS, st.sampled_from(sorted(COMPARISONS)))
def test_bounds_compare_where_no_two_truths_disagree(left: Bounds, right: Bounds, sign: str) -> None:
    compared = COMPARISONS[sign]
    told = {compared(a, b) for a in left for b in right}
    if len(told) == 1:
        assert compared(left, right) in told
    else:
        with pytest.raises(CannotCertify, match="overlap"):
            compared(left, right)


def test_numbers_of_every_type_are_compared_exactly() -> None:
    tenth = Bounds(0.1, 0.1)  # the float lies above one tenth
    assert tenth > Decimal("0.1")
    assert tenth > "0.1"
    assert tenth <= 0.1
    assert tenth > Fraction(1, 10)
    assert tenth < np.float32(0.2)
    with localcontext(Context(prec=1, traps=[FloatOperation])):
        assert tenth < 1
        assert tenth > Decimal("0.1")
        assert f"{tenth:.1f}" == "[0.1, 0.2]"


@pytest.mark.parametrize("other", [math.nan, Decimal("nan"), "about one", None, True, [1]])
def test_what_is_no_number_is_refused_by_name(other: object) -> None:
    with pytest.raises(ParameterError, match="other"):
        assert Bounds(0, 1) < other  # type: ignore[operator]


@given(PAIRS, st.integers(0, 30), st.sampled_from("feg%"))
def test_they_are_written_outward(bounds: Bounds, digits: int, kind: str) -> None:
    low, high = f"{bounds:.{digits}{kind}}".strip("[]").split(", ")
    share = 100 if kind == "%" else 1
    for end, text, side in ((bounds.lower, low, -1), (bounds.upper, high, 1)):
        if math.isfinite(end):
            written = Fraction(text.rstrip("%")) / share
            last = (
                Fraction(10) ** -digits / share if kind in "f%" else abs(Fraction(end)) * Fraction(10) ** (1 - digits)
            )
            assert 0 <= (written - Fraction(end)) * side <= last
        else:
            assert float(text) == end


def test_a_format_that_is_none_of_numbers_is_refused() -> None:
    assert f"{Bounds(0, 1)}" == "Bounds(lower=0.0, upper=1.0)"
    with pytest.raises(ParameterError, match=r"like \.3f"):
        f"{Bounds(0, 1):>20}"
