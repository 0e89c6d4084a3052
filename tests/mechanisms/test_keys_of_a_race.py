"""Bounds of the random times of a race: they hold the time of every number that a word may begin, and are narrow."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise.exponential_race import _BEYOND, _exponentials, _gaps, _key, _keys, _Runner
from dpledger.mechanisms.noise.laws import ExponentialWeights, PermuteAndFlipChoice
from dpledger.mechanisms.noise.refine import Lazy

LAWS = (ExponentialWeights("0.37"), PermuteAndFlipChoice("0.37"))
laws = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind)
words = st.integers(2**8, 2**64 - 2**44 - 1) | st.integers(2**8, 2**40) | st.integers(2**63, 2**64 - 2**44 - 1)


def exact_key(law: Any, uniform: Any, gap: int, count: int) -> Any:
    """The logarithm of the least of so many times, and the gap."""
    time = -mp.log1p(-uniform) / count
    if isinstance(law, PermuteAndFlipChoice):
        time = -mp.expm1(-time)
    return mp.log(time) + mp.mpf(Fraction(law.exponent).numerator) / Fraction(law.exponent).denominator * gap


@laws
@given(word=words, gap=st.integers(0, 10**6) | st.just(0), count=st.sampled_from([None, 1, 2, 7, 10**6, 2**62, 10**40]))
def test_a_key_lies_between_its_ends(law: Any, word: int, gap: int, count: int | None) -> None:
    """Whatever bits follow the word; within a few errors of the float path."""
    several = None if count is None else np.array([count, 1], dtype=object if count > 2**63 else np.int64)
    given_words = np.array([word, 2**63], dtype=np.uint64)
    low, high = _keys(law, np.array([float(gap), 0.0]), several, given_words, 1.0)
    with mp.workdps(60):
        for end in (word, word + 1):
            exact = exact_key(law, mp.mpf(end) / 2**64, gap, count or 1)
            assert low[0] < exact < high[0]
        size = abs(math.log(word / 2**64)) + math.log(count or 1) + 50
        assert high[0] - low[0] <= 2 * (2.0**-38.9 + 2.0**-43.9 * (size + 2 * gap) + 2.1 / word)
        wide = _keys(law, np.array([float(gap), 0.0]), several, given_words, 2.0**10)
        assert wide[1][0] - wide[0][0] == pytest.approx(2**10 * (high[0] - low[0]), rel=2e-2)


@laws
def test_what_floats_do_not_know_is_left_open(law: Any) -> None:
    """A word whose first bits say nothing, one next to the end, a gap and a multiplicity beyond floats."""
    beyond = _BEYOND
    given_words = np.array([2**8 - 1, 2**8, 2**64 - 2**44, 2**64 - 2**44 - 1, 2**63, 2**63], dtype=np.uint64)
    gaps = np.array([0.0, 0.0, 0.0, 0.0, beyond, beyond / 2])
    low, high = _keys(law, gaps, None, given_words, 1.0)
    assert np.isneginf(low).tolist() == [True, False, False, False, False, False]
    assert np.isposinf(high).tolist() == [False, False, True, False, True, False]
    counts = np.array([10**400, int(beyond), int(beyond) // 2, 0, 1, 1], dtype=object)
    low, high = _keys(law, np.zeros(6), counts, np.full(6, 2**63, dtype=np.uint64), 1.0)
    assert np.isneginf(low).tolist() == [True, True, False, False, False, False]
    assert np.isposinf(high).tolist() == [True, True, False, True, False, False]
    assert np.isposinf(low).tolist() == [False, False, False, True, False, False]


@laws
@given(word=words, gap=st.integers(0, 10**30), count=st.sampled_from([1, 3, 10**6, 10**40, 10**80]))
def test_the_exact_path_lies_between_its_ends_and_narrows(law: Any, word: int, gap: int, count: int) -> None:
    uniform = Lazy(word, 64, seeded(5))
    widths = []
    for _ in range(2):
        found = _key(law, _Runner(0, gap, count, uniform))
        with mp.workdps(250):
            low, high = (
                mp.mpf(end.as_integer_ratio()[0]) / end.as_integer_ratio()[1] for end in (found.low, found.high)
            )
            for side in (0, 1):
                number = mp.mpf(uniform.numerator + side) / mp.mpf(2) ** uniform.bits
                assert low <= exact_key(law, number, gap, count) <= high
            widths.append(high - low)
        uniform.refine()
    assert widths[1] <= widths[0] / 2**50


def test_gaps_are_exact_in_every_type_of_score() -> None:
    """Modulo 2^64, also where the difference of two scores is no int64."""
    scores = np.array([2**63 - 1, -(2**63), 0, 5], dtype=np.int64)
    assert _gaps(scores, 2**63 - 1).tolist() == [0.0, float(2**64 - 1), float(2**63 - 1), float(2**63 - 6)]
    unsigned = np.array([0, 2**64 - 1], dtype=np.uint64)
    assert _gaps(unsigned, 2**64 - 1).tolist() == [float(2**64 - 1), 0.0]
    large = np.array([10**400, 10**400 - 3, 10**400 + 9, 0], dtype=object)
    assert _gaps(large, 10**400).tolist() == [0.0, 3.0, 0.0, _BEYOND]


@given(word=st.integers(0, 2**64 - 1))
def test_exponentials_are_those_of_the_words_or_less_beyond_the_top(word: int) -> None:
    found = float(_exponentials(np.array([word], dtype=np.uint64))[0])
    with mp.workdps(40):
        exact = -mp.log1p(-mp.mpf(word) / mp.mpf(2) ** 64)
        if 2**64 - word > 2**44:
            assert abs(found - exact) <= exact * 2.0**-46 + 2.0**-42 * (word > 2**63) + mp.mpf(2) ** -60
        else:
            assert found <= exact + 2.0**-40
            assert found == pytest.approx(20 * math.log(2))
