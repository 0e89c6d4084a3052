"""The samplers compute a fixed function of their bits, exactly: float64 where it is certain, arithmetic where not."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.mechanisms.entropy import Words, seeded
from dpledger.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian, RoundedLaplace
from dpledger.mechanisms.noise.refine import Lazy, exponential_cell, exponential_exceeds, polar_cells
from dpledger.mechanisms.noise.sampling import Widening, sample, sample_one
from exact_tests import SIGNIFICANCE, cumulative_p_value
from noise_oracle import WordList, cdf_of, laplace_from_word, normal_pair_from_words

pytestmark = pytest.mark.sliced

NEVER_SURE = 1e30  # widens an error bound so far that the next tier decides every draw
BY_PAIRS, EXACTLY = Widening(NEVER_SURE, 1.0), Widening(NEVER_SURE, NEVER_SURE)
LAWS: tuple[Law, ...] = (
    RoundedLaplace(scale=10, grid="0.0078125"),
    RoundedLaplace(scale="0.3", grid=1),
    RoundedGaussian(sigma=10, grid="0.0078125"),
    RoundedGaussian(sigma="0.3", grid=1),
    DiscreteLaplace(scale=10),
    DiscreteLaplace(scale="0.3"),
    DiscreteGaussian(sigma=10),
    DiscreteGaussian(sigma="0.3"),
)

scales = st.decimals(min_value="1e-9", max_value="1e9", places=12).filter(lambda x: x > 0)


@st.composite
def laws(draw: st.DrawFn) -> Law:
    scale, grid = draw(scales), draw(st.sampled_from(["1", "0.0009765625", "3", "0.7"]))
    choices: list[Law] = [
        RoundedLaplace(scale, grid),
        RoundedGaussian(scale, grid),
        DiscreteLaplace(scale),
        DiscreteGaussian(scale),
    ]
    return draw(st.sampled_from(choices))


@settings(max_examples=60, deadline=None)
@given(law=laws(), seed=st.integers(0, 2**32))
def test_the_three_tiers_agree_on_every_draw(law: Law, seed: int) -> None:
    exact = sample(law, 40, seeded(seed), widening=EXACTLY).tolist()
    assert sample(law, 40, seeded(seed)).tolist() == exact
    assert sample(law, 40, seeded(seed), widening=BY_PAIRS).tolist() == exact
    assert sample_one(law, seeded(seed)) == sample_one(law, seeded(seed), widening=EXACTLY)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind)
@pytest.mark.parametrize(
    "widening",
    [Widening(2.0**26), Widening(2.0**33), Widening(2.0**33, 2.0**33), Widening(NEVER_SURE, 2.0**45)],
    ids=str,
)
def test_any_hand_over_between_the_tiers_gives_the_same_draws(law: Law, widening: Widening) -> None:
    assert sample(law, 500, seeded(3)).tolist() == sample(law, 500, seeded(3), widening=widening).tolist()
    once, widely = seeded(4), seeded(4)
    assert [sample_one(law, once) for _ in range(100)] == [
        sample_one(law, widely, widening=widening) for _ in range(100)
    ]


class CountingRefused(Exception):
    """Raised in place of words, with how many were asked for."""


class Refusing:
    """Entropy that says how many words were asked for, and gives none."""

    def words(self, count: int, /) -> Words:
        raise CountingRefused(count)


class Keeping:
    """Entropy that keeps every block that it hands out."""

    def __init__(self, seed: int) -> None:
        self.blocks: list[Words] = []
        self._source = seeded(seed)

    def words(self, count: int, /) -> Words:
        self.blocks.append(self._source.words(count))
        return self.blocks[-1]


def one_after_another(law: Law, blocks: list[Words]) -> Words:
    """The words of the first batch of an array in the order in which single draws read them."""
    match law:
        case RoundedGaussian():
            return blocks[0].reshape(2, -1).T.reshape(-1)
        case DiscreteGaussian(sigma=sigma):
            proposal, thresholds, ordered = DiscreteLaplace(int(sigma) + 1), iter(blocks[1]), []
            for word in blocks[0]:
                ordered.append(word)
                with suppress(CountingRefused):  # of a second word: the first was refused, and has no threshold
                    sample_one(proposal, WordList(np.array([word]), Refusing()))
                    ordered.append(next(thresholds))
            return np.array(ordered)
        case _:
            return blocks[0]


@pytest.mark.parametrize("law", [*LAWS, RoundedLaplace(2**38, 1), RoundedGaussian(2**38, 1)], ids=lambda law: law.kind)
def test_an_array_holds_what_single_draws_give_for_the_same_words(law: Law) -> None:
    source = Keeping(8)
    many = sample(law, 600, source)[:200].tolist()  # of normal pairs, those are firsts
    ordered = WordList(one_after_another(law, source.blocks), Refusing())
    assert [sample_one(law, ordered) for _ in range(200)] == many


@settings(max_examples=40, deadline=None)
@given(scale=scales, seed=st.integers(0, 2**32))
def test_laplace_draws_are_those_of_the_definition(scale: Decimal, seed: int) -> None:
    law = RoundedLaplace(scale, grid="0.001")
    words = seeded(seed).words(20)
    drawn = sample(law, 20, WordList(words, seeded(seed, 1))).tolist()
    ratio = Fraction(law.scale) / Fraction(law.grid)
    for value, word in zip(drawn, words.tolist(), strict=True):
        assert laplace_from_word(word, ratio) in (value, None)


@settings(max_examples=40, deadline=None)
@given(sigma=scales, seed=st.integers(0, 2**32))
def test_gaussian_draws_are_those_of_the_definition(sigma: Decimal, seed: int) -> None:
    law = RoundedGaussian(sigma, grid="0.5")
    words = seeded(seed).words(200)
    pairs = pairs_of_first_batch(10)
    drawn = sample(law, 10, WordList(words, seeded(seed, 1))).tolist()
    ratio = Fraction(law.sigma) / Fraction(law.grid)
    expected = [
        pair
        for i in range(pairs)
        if (pair := normal_pair_from_words(int(words[i]), int(words[pairs + i]), ratio)) is not None
    ]
    flat = [first for first, _ in expected] + [second for _, second in expected]
    shared = min(len(flat), len(drawn))
    assert drawn[:shared] == flat[:shared]


def pairs_of_first_batch(size: int) -> int:
    """How many pairs of words the first batch for `size` normal draws asks for."""
    with pytest.raises(CountingRefused) as asked:
        sample(RoundedGaussian(1, 1), size, Refusing())
    count: int = asked.value.args[0]
    return count // 2


def test_words_that_decide_nothing_are_refined() -> None:
    """The extreme prefixes: U next to 0 and to 1, the corners and the centre of the square."""
    ones, zeros = 2**64 - 1, 0
    for word in (zeros, 1, 2, ones, ones - 1):
        source = WordList(np.array([word], dtype=np.uint64), seeded(1))
        sample(RoundedLaplace(10**9, 1), 1, source)
    source = WordList(np.zeros(4, dtype=np.uint64), seeded(2))
    far = sample(RoundedLaplace(1, 1), 1, source)[0]
    assert far > 40  # 63 leading zeros of U: E is above 43
    assert source.asked > 1
    centre = WordList(np.zeros(100, dtype=np.uint64), seeded(2))
    assert np.abs(sample(RoundedGaussian(1, 1), 2, centre)).max() >= 5  # S near 0 means far out


@pytest.mark.parametrize("second", [0, 2**40], ids=["hardly inside", "hardly outside"])
def test_a_point_next_to_the_circle_is_kept_or_rejected_exactly(second: int) -> None:
    """S = (1 - 2^-63)^2 + (second / 2^63)^2: float64 takes both for 1. Inside, the variate is next to 0."""
    law, point = RoundedGaussian(1, 1), np.array([2**63 - 1, second], dtype=np.uint64)
    single = WordList(point, seeded(2))
    assert sample_one(law, single) == (sample_one(law, seeded(2)) if second else 0)
    assert single.asked > 2
    many = WordList(point.repeat(pairs_of_first_batch(10)), seeded(2))
    drawn = sample(law, 10, many)
    assert len(drawn) == 10
    assert drawn.any() == bool(second)


@pytest.mark.parametrize("bits", [0, 1, 5])
def test_exponentials_refined_from_few_bits_follow_their_law(bits: int) -> None:
    entropy = seeded(11, bits)
    ratio, starts = Fraction(7, 3), entropy.words(3000)
    draws = np.array([exponential_cell(ratio, Fraction(0), Lazy(int(w) >> (64 - bits), bits, entropy)) for w in starts])
    points = [0, 1, 2, 5, 10, 20]
    assert cumulative_p_value(draws, lambda k: float(1 - mp.exp(-(k + 1) / (mp.mpf(7) / 3))), points) > SIGNIFICANCE
    assert cumulative_p_value(draws, lambda k: float(1 - mp.exp(-(k + 1) / (mp.mpf(9) / 3))), points) < SIGNIFICANCE


def test_thresholds_refined_from_no_bits_follow_their_law() -> None:
    entropy = seeded(12)
    kept = np.array([exponential_exceeds(Fraction(1, 3), Lazy(0, 0, entropy)) for _ in range(3000)]).astype(np.int64)
    assert cumulative_p_value(kept, lambda k: float(1 - mp.exp(-mp.mpf(1) / 3)), [0]) > SIGNIFICANCE
    assert cumulative_p_value(kept, lambda k: float(1 - mp.exp(-mp.mpf(1) / 2)), [0]) < SIGNIFICANCE


def test_normal_pairs_refined_from_one_bit_follow_their_law() -> None:
    entropy = seeded(13)
    starts = (entropy.words(6000) % np.uint64(4)).astype(np.int64).reshape(2, 3000) - 2  # [-1, -1/2], ..., [1/2, 1]
    pairs = [polar_cells(Fraction(5), Lazy(int(a), 1, entropy), Lazy(int(b), 1, entropy)) for a, b in starts.T]
    draws = np.array([value for pair in pairs if pair is not None for value in pair])
    rejected = np.array([pair is None for pair in pairs]).astype(np.int64)
    points = [-12, -6, -3, -1, 0, 2, 5, 9]
    assert cumulative_p_value(rejected, lambda k: float(mp.pi / 4), [0]) > SIGNIFICANCE
    assert cumulative_p_value(draws, cdf_of(RoundedGaussian(5, 1)), points) > SIGNIFICANCE
    assert cumulative_p_value(draws, cdf_of(RoundedGaussian("5.6", 1)), points) < SIGNIFICANCE


def test_huge_noise_comes_as_python_integers() -> None:
    drawn = sample(RoundedGaussian(10**17, grid="1e-20"), 5, seeded(1))
    assert drawn.dtype == object
    assert all(type(value) is int and abs(value) > 2**64 for value in drawn)


def test_the_words_drawn_depend_on_the_noise_alone() -> None:
    """The sampler never sees the value, so this is a matter of types; here: asking is reproducible."""
    counts = []
    for _ in range(2):
        source = WordList(np.zeros(0, dtype=np.uint64), seeded(4))
        sample(DiscreteGaussian(3), 1000, source)
        counts.append(source.asked)
    assert counts[0] == counts[1]
