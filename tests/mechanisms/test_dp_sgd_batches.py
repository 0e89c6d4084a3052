"""The batch sampler: each unit in with probability exactly the decimal rate, independently of the others."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from dpledger.mechanisms.entropy import Words, seeded
from dpledger.mechanisms.training.batches import poisson_batch

SIGNIFICANCE = 1e-9


class Scripted:
    """An entropy source that hands out the given words, so that a test reaches cases of probability 2^-64."""

    def __init__(self, words: Iterable[int]) -> None:
        self.left = list(words)

    def words(self, count: int, /) -> Words:
        given_out, self.left = self.left[:count], self.left[count:]
        assert len(given_out) == count, "the sampler drew more words than the script holds"
        return np.array(given_out, dtype=np.uint64)


@given(rate=st.decimals("0.000000001", "1", places=30), words=st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_a_unit_is_in_exactly_if_its_uniform_number_is_below_the_rate(rate: Decimal, words: list[int]) -> None:
    """The rule in rational numbers: with 64 bits known and none of them a tie, U < q iff word/2^64 < q."""
    source = Scripted(words)
    first = math.floor(Fraction(rate) * 2**64)
    if rate == 1 or first in words:
        return
    batch = poisson_batch(rate, len(words), entropy=source)
    assert batch.tolist() == [i for i, word in enumerate(words) if Fraction(word, 2**64) < Fraction(rate)]


@given(
    rate=st.sampled_from(["0.1", "0.123456789012345678901234567890123456789", "0.3", "0.999999999999999999999"]),
    ties=st.integers(1, 4),
    offset=st.sampled_from([-1, 1]),
)
def test_a_tie_of_all_bits_so_far_draws_more(rate: str, ties: int, offset: int) -> None:
    """The first words agree with the binary expansion of the rate; the next one decides."""
    expansion = math.floor(Fraction(rate) * 2 ** (64 * (ties + 1)))
    digits = [(expansion >> (64 * (ties - i))) % 2**64 for i in range(ties + 1)]
    last = min(max(digits[-1] + offset, 0), 2**64 - 1)
    if last == digits[-1]:
        return
    source = Scripted([*digits[:-1], last])
    batch = poisson_batch(Decimal(rate), 1, entropy=source)
    assert batch.tolist() == ([0] if offset < 0 else [])
    assert source.left == []


def test_a_rate_whose_expansion_ends_counts_the_tie_as_outside() -> None:
    """U = 1/2 exactly is not below 1/2, and needs no further bits."""
    assert poisson_batch(Decimal("0.5"), 2, entropy=Scripted([2**63, 2**63 - 1])).tolist() == [1]


def test_rate_one_takes_everyone_and_draws_nothing() -> None:
    assert poisson_batch(Decimal(1), 5, entropy=Scripted([])).tolist() == [0, 1, 2, 3, 4]


def test_nobody_gives_an_empty_batch() -> None:
    assert poisson_batch(Decimal("0.5"), 0, entropy=seeded(0)).tolist() == []


@pytest.mark.parametrize("rate", ["0.001", "0.15", "0.5", "0.97"])
def test_sizes_follow_the_binomial_and_positions_are_even(rate: str) -> None:
    """The size of one batch of 2^20 units, and of its first half, against the exact binomial; blocks do not matter."""
    units = 2**20
    batch = poisson_batch(Decimal(rate), units, entropy=seeded(11))
    assert stats.binomtest(len(batch), units, float(rate)).pvalue > SIGNIFICANCE
    early = int((batch < units // 2).sum())
    assert stats.binomtest(early, units // 2, float(rate)).pvalue > SIGNIFICANCE
    assert (np.diff(batch) > 0).all()


def test_the_size_test_rejects_a_rate_that_is_wrong_by_three_percent() -> None:
    units = 2**20
    batch = poisson_batch(Decimal("0.1545"), units, entropy=seeded(12))
    assert stats.binomtest(len(batch), units, 0.15).pvalue < SIGNIFICANCE


def test_pairs_of_units_are_independent() -> None:
    """Neighbouring units are both in with probability q^2: a batch that is a shifted window would fail."""
    units, rate = 2**20, 0.3
    inside = np.zeros(units, dtype=bool)
    inside[poisson_batch(Decimal("0.3"), units, entropy=seeded(13))] = True
    both = int((inside[0::2] & inside[1::2]).sum())
    assert stats.binomtest(both, units // 2, rate**2).pvalue > SIGNIFICANCE
