"""The exact path of the samplers: ends that hold what they bound, no wider than their digits say."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.mechanisms.entropy import Words
from dpledger.mechanisms.noise.refine import (
    Lazy,
    _add,
    _down,
    _exponential,
    _ln_above,
    _ln_below,
    _polar_factor,
    _root_above,
    _root_below,
    _square,
    _times,
    _up,
    exponential_cell,
    exponential_exceeds,
    polar_cells,
)

Ends = tuple[Fraction, Fraction]

fractions = st.fractions(Fraction(1, 10**6), 1, max_denominator=10**6)
some_digits = st.integers(8, 40)


class Given:
    """Entropy of given words, one at a time; it counts them."""

    def __init__(self, *words: int) -> None:
        self.left, self.asked = list(words), 0

    def words(self, count: int, /) -> Words:
        assert count == 1
        self.asked += 1
        return np.array([self.left.pop(0)], dtype=np.uint64)


def number(value: Fraction) -> Any:
    return mp.mpf(value.numerator) / value.denominator


def is_around(ends: Ends, true: Any, relative: Any) -> bool:
    """Whether both ends are on their side of a number, strictly, and within so much of it, relatively."""
    low, high = map(number, ends)
    return bool(low < true < high and high - low <= relative * true)


@given(value=fractions, digits=some_digits)
def test_logarithms_and_roots_lie_between_ends_that_are_a_few_units_apart(value: Fraction, digits: int) -> None:
    with mp.workdps(digits + 60):
        few = 4 * mp.mpf(10) ** (1 - digits)
        if value < 1:
            true = mp.log(number(value))
            low, high = number(_ln_below(value, digits)), number(_ln_above(value, digits))
            assert low < true < high <= 0
            assert high - low <= few * (abs(true) + 1)  # the argument is rounded as well
        root = _root_below(value, digits), _root_above(value, digits)
        assert is_around(root, mp.sqrt(number(value)), few)
        third = Fraction(_down(value, digits)), Fraction(_up(value, digits))
        assert third[0] <= value <= third[1]
        assert third[1] - third[0] <= Fraction(10, 10**digits) * value


def test_the_logarithm_of_one_and_the_root_of_zero_are_zero() -> None:
    assert _ln_above(Fraction(1), 20) == 0 == _root_below(Fraction(0), 20)
    assert _ln_below(Fraction(10**9 - 1, 10**9), 20) < 0 < _root_above(Fraction(1, 10**9), 20)


@given(low=fractions, wide=st.fractions(0, Fraction(1, 10), max_denominator=10**5), digits=st.integers(12, 40))
def test_the_polar_factor_falls_from_one_end_to_the_other(low: Fraction, wide: Fraction, digits: int) -> None:
    high = min(low + wide, 1 - Fraction(1, 10**6))
    low = min(low, high)
    with mp.workdps(digits + 40):
        first, last = (mp.sqrt(-2 * mp.log(number(s)) / number(s)) for s in (low, high))
        found = _polar_factor((low, high), digits)
        few = mp.mpf(10) ** (9 - digits)  # next to 1 the logarithm loses six digits of its argument
        assert number(found[0]) < last <= first < number(found[1])
        assert number(found[1]) - first < few * (1 + first) > last - number(found[0])


def test_the_polar_factor_at_one_is_no_less_than_zero() -> None:
    assert _polar_factor((Fraction(1, 2), Fraction(1)), 20)[0] == 0


signed = st.integers(-9, 8)


@given(numerator=signed, bits=st.integers(1, 4))
def test_a_square_lies_between_the_least_and_the_largest_of_its_interval(numerator: int, bits: int) -> None:
    lazy = Lazy(numerator, bits, Given())
    low, high = lazy.bounds()
    assert (low, high - low) == (Fraction(numerator, 2**bits), Fraction(1, 2**bits))
    inner = [low + (high - low) * Fraction(k, 8) for k in range(9)]
    squares = [x * x for x in inner]
    assert _square(lazy) == (min(squares), max(squares))


ends_of = st.tuples(st.fractions(-3, 3, max_denominator=8), st.fractions(0, 2, max_denominator=8))


@given(signed=ends_of, positive=ends_of)
def test_products_and_sums_are_those_of_the_ends_that_are_farthest(signed: Ends, positive: Ends) -> None:
    """The least and the largest of what two intervals can give: of the four corners."""
    left = (signed[0], signed[0] + signed[1])
    right = (abs(positive[0]), abs(positive[0]) + positive[1])
    corners = [x * y for x, y in itertools.product(left, right)]
    assert _times(left, right) == (min(corners), max(corners))
    assert _add(left, right) == (left[0] + right[0], left[1] + right[1])


@given(numerator=st.integers(1, 255))
def test_an_exponential_lies_between_the_ends_of_its_uniform(numerator: int) -> None:
    """No wider than those ends are apart, beside a few units of its digits."""
    found = _exponential(Lazy(numerator, 8, Given()))
    assert found is not None
    with mp.workdps(80):
        least, most = -mp.log(mp.mpf(numerator + 1) / 256), -mp.log(mp.mpf(numerator) / 256)
        few = mp.mpf(10) ** -25
        assert max(0, least - few) <= number(found[0]) <= least < most < number(found[1]) < most + few


def test_next_to_zero_an_exponential_has_no_end() -> None:
    assert _exponential(Lazy(0, 8, Given())) is None


words = st.integers(0, 2**64 - 1)


@given(prefix=st.integers(0, 15), word=words, ratio=st.fractions(Fraction(1, 3), 1000), half=st.booleans())
def test_a_cell_is_that_of_the_whole_uniform(prefix: int, word: int, ratio: Fraction, half: bool) -> None:
    """The bits that are asked for go after those that are known, 64 at a time."""
    offset = Fraction(1, 2) if half else Fraction(0)
    entropy = Given(word, 2**63, 0)
    uniform = Lazy(prefix, 4, entropy)
    found = exponential_cell(ratio, offset, uniform)
    with mp.workdps(80):
        for after in (0, 1):
            whole = (((prefix << 64 | word) << 64) + 2**63 << 64) + after
            true = number(ratio) * -mp.log(mp.mpf(whole) / mp.mpf(2) ** 196) + number(offset)
            assert found == math.floor(true)
    assert uniform.bits == 4 + 64 * entropy.asked


@given(prefix=st.integers(0, 15), word=words, share=st.floats(2.0**-20, 1))
def test_an_exponential_exceeds_what_the_whole_uniform_exceeds(prefix: int, word: int, share: float) -> None:
    """Thresholds that the bits known so far leave open: on either side the whole uniform decides."""
    threshold = Fraction(-math.log((prefix + share) / 16))
    found = exponential_exceeds(threshold, Lazy(prefix, 4, Given(word, 2**63, 0)))
    with mp.workdps(80):
        true = -mp.log(mp.mpf((prefix << 64 | word) << 64 | 2**63) / mp.mpf(2) ** 132)
        assert found == (true > number(threshold))


@given(first=signed, second=signed, word=words, other=words, ratio=st.fractions(Fraction(1, 3), 100))
def test_normal_cells_are_those_of_the_whole_coordinates(
    first: int, second: int, word: int, other: int, ratio: Fraction
) -> None:
    """Both coordinates get as many bits; a point outside the circle is rejected."""
    entropies = Given(word, 2**63, 1), Given(other, 2**62, 1)
    lazies = Lazy(first, 3, entropies[0]), Lazy(second, 3, entropies[1])
    found = polar_cells(ratio, *lazies)
    assert entropies[0].asked == entropies[1].asked
    with mp.workdps(90):
        u = mp.mpf((first << 64 | word) << 64 | 2**63) / mp.mpf(2) ** 131
        v = mp.mpf((second << 64 | other) << 64 | 2**62) / mp.mpf(2) ** 131
        s = u * u + v * v
        if s >= 1:
            assert found is None
        else:
            factor = number(ratio) * mp.sqrt(-2 * mp.log(s) / s)
            assert found == (math.floor(u * factor + 0.5), math.floor(v * factor + 0.5))


@pytest.mark.parametrize(("corner", "asked"), [((0, 7), 1), ((-8, 0), 1), ((8, 0), 0), ((7, 7), 0)])
def test_more_bits_are_asked_for_while_a_square_may_be_on_either_side_of_one(
    corner: tuple[int, int], asked: int
) -> None:
    entropies = Given(2**63), Given(2**63)
    found = polar_cells(Fraction(1, 9), *(Lazy(*one) for one in zip(corner, (3, 3), entropies, strict=True)))
    assert [entropy.asked for entropy in entropies] == [asked, asked]
    assert (found is None) == (not asked)
