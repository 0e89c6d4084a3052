"""Coins: each falls with exactly the probability it was given, rational or not, on one word of entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import ExpMinus, Uniform, happens, happens_each, recording, replaying, sampled, uniform
from dpledger.mechanisms.noise.bernoulli import tossed, uniform_below
from exact_tests import SIGNIFICANCE, binomial_p_value, events_p_value
from noise_oracle import WordList

WORD = 2**64


def scripted(words: Sequence[int]) -> WordList:
    return WordList(np.array(words, dtype=np.uint64), seeded(1))


def true_value(probability: Any) -> Any:
    """The probability in mpmath, at the precision that is set."""
    if isinstance(probability, ExpMinus):
        exponent = Fraction(probability.exponent)  # type: ignore[arg-type]
        return mp.exp(-mp.mpf(exponent.numerator) / exponent.denominator)
    return mp.mpf(Fraction(probability).numerator) / Fraction(probability).denominator


probabilities = st.one_of(
    st.fractions(0, 1),
    st.fractions(0, 40).map(ExpMinus),
    st.decimals("1e-60", "1", places=60),
    st.sampled_from(
        [Fraction(0), Fraction(1), Fraction(1, WORD), 1 - Fraction(1, WORD**2), ExpMinus(0), ExpMinus(300)]
    ),
)


@settings(max_examples=150, deadline=None)
@given(probability=probabilities, words=st.lists(st.integers(0, WORD - 1), min_size=1, max_size=8))
def test_a_coin_falls_if_its_uniform_number_is_below_the_probability(probability: Any, words: list[int]) -> None:
    with mp.workdps(200):
        scaled = true_value(probability) * WORD
        assume(all(word != mp.floor(scaled) for word in words))
        expected = [bool(word < scaled) for word in words]
    source = scripted(words)
    assert happens(probability, size=len(words), entropy=source).tolist() == expected
    assert [happens(probability, entropy=scripted([word])) for word in words] == expected
    assert sampled(probability, len(words), entropy=scripted(words)).tolist() == np.flatnonzero(expected).tolist()
    assert source.asked == len(words)  # whatever the probability is


@given(
    probability=st.sampled_from([Fraction(1, 3), Decimal("0.1"), ExpMinus(Fraction(1, 3)), ExpMinus("0.7")]),
    ties=st.integers(1, 4),
    offset=st.sampled_from([-1, 1]),
)
def test_a_tie_of_all_bits_so_far_draws_more(probability: Any, ties: int, offset: int) -> None:
    with mp.workdps(300):
        expansion = int(mp.floor(true_value(probability) * mp.mpf(WORD) ** (ties + 1)))
    digits = [(expansion >> (64 * (ties - i))) % WORD for i in range(ties + 1)]
    source = scripted([*digits[:-1], digits[-1] + offset])
    assert happens(probability, entropy=source) == (offset < 0)
    assert source.asked == ties + 1


@pytest.mark.parametrize("exponent", [Fraction(1, 10**2_000), 10**7, 10**18, 10**4000])
def test_a_probability_at_the_very_edge_is_known_at_once(exponent: Any) -> None:
    """Found: e^-(10^9) was written out as a fraction of a billion digits. Its first bits are zeros, like those of the
    number itself; those of e^-x, for a tiny x, are ones."""
    small = exponent < 1
    for words in ([WORD // 2], [0, 0, 1], [WORD - 1, WORD - 1, WORD - 2]):
        source = scripted(words)
        assert happens(ExpMinus(exponent), entropy=source) is small
        assert source.asked == (1 if words[0] != (WORD - 1 if small else 0) else 3)


def test_a_probability_whose_expansion_ends_counts_the_tie_as_outside() -> None:
    source = scripted([WORD // 2])
    assert happens("0.5", entropy=source) is False
    assert source.asked == 1


@pytest.mark.parametrize(
    ("probability", "twin"),
    [(Fraction(1, 3), Fraction(33, 100)), (ExpMinus(1), Fraction(36, 100)), (ExpMinus("0.001"), Fraction(998, 1000))],
)
def test_many_coins_fall_as_often_as_they_should_and_a_twin_does_not(probability: Any, twin: Any) -> None:
    coins, expected = 2**20, float(true_value(probability))
    fallen = happens(probability, size=coins, entropy=seeded(3))
    assert binomial_p_value(int(fallen.sum()), coins, expected) > SIGNIFICANCE
    assert binomial_p_value(int(happens(twin, size=coins, entropy=seeded(4)).sum()), coins, expected) < SIGNIFICANCE


@given(each=st.lists(st.tuples(probabilities, st.integers(0, WORD - 1)), max_size=8))
@settings(max_examples=100, deadline=None)
def test_coins_of_their_own_probabilities_fall_as_each_would_alone(each: list[tuple[Any, int]]) -> None:
    given_, words = [one for one, _ in each], [word for _, word in each]
    alone = [happens(one, entropy=scripted([word])) for one, word in each]
    with recording() as draws:
        fell = happens_each(given_, entropy=scripted(words))
    assert fell.tolist() == np.flatnonzero(alone).tolist()
    assert [(draw.shape, list(draw.value)) for draw in draws] == [
        ((len(each),), [one if isinstance(one, ExpMinus) else Fraction(one) for one in given_])
    ]
    with replaying(draws):
        assert happens_each(given_, entropy=seeded(9)).tolist() == fell.tolist()


@pytest.mark.parametrize("bad", [-1, "1.0000000001", float("nan"), float("inf"), "x", None, True, Fraction(4, 3)])
def test_what_is_no_probability_is_refused(bad: Any) -> None:
    with pytest.raises(ParameterError, match="probability"):
        happens(bad, entropy=scripted([]))
    with pytest.raises(ParameterError, match="probability"):
        sampled(bad, 3, entropy=scripted([]))
    with pytest.raises(ParameterError, match="probability"):
        happens_each([bad], entropy=scripted([]))


@pytest.mark.parametrize("bad", [-1, "-0.5", float("inf"), float("nan"), None, "x"])
def test_an_exponent_that_is_negative_or_no_number_is_refused(bad: Any) -> None:
    with pytest.raises(ParameterError, match="exponent"):
        ExpMinus(bad)


@pytest.mark.parametrize("size", [-1, 2.0, "3"])
def test_a_size_is_a_whole_number(size: Any) -> None:
    with pytest.raises(ParameterError, match="size"):
        happens("0.5", size=size, entropy=seeded(0))


# ---- whole numbers -------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(count=st.integers(1, 2**140), seed=st.integers(0, 2**16))
def test_a_uniform_whole_number_is_the_floor_of_count_times_u(count: int, seed: int) -> None:
    source = WordList(seeded(seed).words(8), seeded(seed, 1))
    found = uniform_below(count, source)
    u = sum(Fraction(int(word), WORD ** (i + 1)) for i, word in enumerate(seeded(seed).words(8)[: source.asked]))
    assert found == math.floor(count * u)
    assert found + 1 >= count * (u + Fraction(1, WORD**source.asked))  # whatever follows would not change it


def test_a_cell_that_the_first_word_does_not_settle_takes_another() -> None:
    """3 U at U = 0.0101...: the word WORD // 3 leaves both 0 and 1 open; the next one decides."""
    for last, expected in [(0, 0), (WORD - 1, 1)]:
        source = scripted([WORD // 3, last])
        assert uniform_below(3, source) == expected
        assert source.asked == 2


def test_uniform_whole_numbers_are_even() -> None:
    entropy = seeded(7)
    found = [uniform_below(5, entropy) for _ in range(20_000)]
    counts = {value: found.count(value) for value in range(5)}
    assert events_p_value(counts, len(found), dict.fromkeys(range(5), 0.2)) > SIGNIFICANCE


def test_an_irrational_chance_is_bracketed_until_it_is_known() -> None:
    asked = []

    def root_half(at: Any) -> Any:
        asked.append(at)
        return at.root(at.exact(Fraction(1, 2)))

    entropy = seeded(8)
    falls = sum(tossed(root_half, entropy) for _ in range(5_000))
    assert binomial_p_value(falls, 5_000, math.sqrt(0.5)) > SIGNIFICANCE
    assert len(asked) == 5_000  # one look is enough, ties aside


# ---- uniform whole numbers ------------------------------------------------------------------------------------------


@given(
    k=st.one_of(st.integers(1, 12), st.integers(1, 2**64), st.sampled_from([2**32 - 1, 2**32, 2**32 + 1, 2**64])),
    words=st.lists(st.one_of(st.integers(0, WORD - 1), st.sampled_from([0, WORD - 1])), max_size=6),
)
def test_each_uniform_number_is_floor_k_u_of_the_words_that_follow(k: int, words: list[int]) -> None:
    """A word decides, but where the next could carry over: then it is drawn."""
    found = uniform(k, len(words), entropy=scripted(words)).tolist()
    for word, number in zip(words, found, strict=True):
        assert k * word // WORD <= number <= (k * (word + 1) - 1) // WORD < k


@pytest.mark.parametrize("k", [3, 2**33 + 1, 3 * 2**62])
def test_a_tie_is_decided_by_the_next_word(k: int) -> None:
    tied = next(word for word in (WORD * at // k for at in range(1, k)) if (k * word) % WORD)
    below = k * tied // WORD
    assert uniform(k, 1, entropy=scripted([tied, 0])).tolist() == [below]
    assert uniform(k, 1, entropy=scripted([tied, WORD - 1])).tolist() == [below + 1]


def test_uniform_numbers_are_as_likely_each_and_those_of_a_die_with_a_face_more_are_not() -> None:
    def counted(k: int) -> dict[int, int]:
        return dict(enumerate(np.bincount(uniform(k, 60_000, entropy=seeded(4)).astype(np.int64), minlength=6)[:5]))

    assert events_p_value(counted(6), 60_000, dict.fromkeys(range(5), 1 / 6)) > SIGNIFICANCE
    assert events_p_value(counted(7), 60_000, dict.fromkeys(range(5), 1 / 6)) < SIGNIFICANCE


def test_uniform_numbers_are_in_the_log_and_replayed() -> None:
    with recording() as draws:
        then = uniform(5, 40, entropy=seeded(1))
    assert [(draw.law, draw.value, draw.shape, draw.sensitivity) for draw in draws] == [(Uniform(5), 5, (40,), None)]
    with replaying(draws):
        assert np.array_equal(uniform(5, 40, entropy=seeded(2)), then)
    with replaying(draws):
        assert uniform(4, 40, entropy=seeded(2)).max() < 4  # another law: drawn afresh


@pytest.mark.parametrize("k", [0, -1, 2**64 + 1, 1.5, "6", None])
def test_a_uniform_number_is_among_one_to_two_to_the_sixty_four(k: Any) -> None:
    with pytest.raises(ParameterError, match="k"):
        uniform(k, 1, entropy=seeded(1))


# ---- in the log ---------------------------------------------------------------------------------------------------


def test_coins_are_in_the_log_with_their_probability_and_as_positions() -> None:
    with recording() as draws:
        one = happens("0.5", entropy=seeded(1))
        many = happens(ExpMinus(1), size=1000, entropy=seeded(2))
    assert [draw.law.kind for draw in draws] == ["bernoulli", "bernoulli"]
    assert [draw.value for draw in draws] == [Fraction(1, 2), ExpMinus(1)]
    assert [draw.size for draw in draws] == [1, 1000]
    assert draws[0].output is one
    assert np.array_equal(draws[1].output, np.flatnonzero(many))
    assert all(draw.sensitivity is None for draw in draws)


def test_a_replay_lets_coins_fall_as_recorded_whatever_their_probability_is_now() -> None:
    """A probability may depend on the data: it is what was passed, and the law is that of a coin."""

    def run(probability: str, seed: int) -> tuple[bool, list[bool]]:
        entropy = seeded(seed)
        return happens(probability, entropy=entropy), happens(probability, size=50, entropy=entropy).tolist()

    with recording() as draws:
        recorded = run("0.3", 1)
    with replaying(draws) as again:
        assert run("0.6", 2) == recorded
    assert [draw.value for draw in again] == [Fraction(3, 5)] * 2
    with replaying(draws):
        happens("0.3", entropy=seeded(1))
        assert len(happens("0.3", size=51, entropy=seeded(1))) == 51  # another number of coins: drawn afresh
