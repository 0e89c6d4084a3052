"""Sums of two float64: splits are exact, and what is rounded is less than is said."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.mechanisms.noise import doubles
from dpledger.mechanisms.noise.doubles import Doubles

FLOATS = st.builds(lambda m, e: float(m) * 2.0**e, st.integers(-(2**53), 2**53), st.integers(-150, 60))
PAIRS = st.tuples(FLOATS, FLOATS.map(lambda x: x * 2.0**-60)).map(
    lambda both: doubles.two_sum(np.array([both[0]]), np.array([both[1]]))
)


def exact(x: Doubles) -> Fraction:
    return Fraction(float(x.high[0])) + Fraction(float(x.low[0]))


@given(FLOATS, FLOATS)
def test_a_sum_of_floats_is_split_exactly(x: float, y: float) -> None:
    assert exact(doubles.two_sum(np.array([x]), np.array([y]))) == Fraction(x) + Fraction(y)


@given(FLOATS, FLOATS)
def test_a_product_of_floats_is_split_exactly(x: float, y: float) -> None:
    assert exact(doubles._two_product(np.array([x]), np.array([y]))) == Fraction(x) * Fraction(y)


@given(st.integers(0, 2**64 - 1))
def test_a_word_is_read_exactly(word: int) -> None:
    assert exact(doubles.from_words(np.array([word], dtype=np.uint64))) == Fraction(word, 2**64)


@given(PAIRS, PAIRS)
def test_sums_and_products_err_less_than_they_say(x: Doubles, y: Doubles) -> None:
    most = abs(exact(x)) + abs(exact(y))
    assert abs(exact(doubles.add(x, y)) - exact(x) - exact(y)) <= most / 2**103
    product = exact(x) * exact(y)
    assert abs(exact(doubles.times(x, y)) - product) <= abs(product) / 2**102


@given(PAIRS)
def test_roots_err_less_than_they_say(x: Doubles) -> None:
    if exact(x) <= 0:
        return
    found, wide = exact(doubles.root(x)), Fraction(1, 2**102)
    assert (found * (1 - wide)) ** 2 <= exact(x) <= (found * (1 + wide)) ** 2


@pytest.mark.parametrize("rounded", [doubles.add, doubles.times])
def test_half_of_a_sum_forgotten_is_found(rounded: Callable[[Doubles, Doubles], Doubles]) -> None:
    """The twin: without the lower halves the bounds above do not hold."""
    third, seventh = doubles.from_fraction(Fraction(1, 3)), doubles.from_fraction(Fraction(1, 7))
    cut = Doubles(third.high, np.zeros(1))
    assert abs(exact(rounded(cut, seventh)) - exact(rounded(third, seventh))) > Fraction(1, 2**70)
