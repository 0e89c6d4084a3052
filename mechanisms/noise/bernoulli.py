"""Coins that fall as an exact probability says: a decimal, a fraction, e^-x, or any number that can be bracketed; and
uniform whole numbers.

A uniform number in [0, 1) is compared with the probability from its highest bits down; 64 bits decide all but one case
in 2^64, and where they do not, 64 more are drawn. So the probability is the number itself, not a float near it. One
word is drawn for a coin whatever its probability is, 0 and 1 too.

>>> from dpledger.mechanisms.entropy import seeded
>>> happens("0.25", size=4, entropy=seeded(0)).tolist()
[False, False, True, False]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

from dpledger.decimals import Number, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy, Words
from dpledger.mechanisms.noise.brackets import Bracket, Outward
from dpledger.mechanisms.noise.laws import Bernoulli, ExpMinus, Uniform, rational
from dpledger.mechanisms.noise.randomness_log import logged

__all__ = [
    "Chance",
    "Positions",
    "below",
    "cell",
    "falls",
    "happens",
    "happens_each",
    "sampled",
    "tossed",
    "uniform",
    "uniform_below",
    "uniforms",
]

Positions: TypeAlias = npt.NDArray[np.int64]
"""Positions, rising."""

Chance: TypeAlias = Fraction | Callable[[Outward], Bracket]
"""A probability: a rational number, or brackets of an irrational one at every precision."""

_BERNOULLI = Bernoulli()
_WORD_BITS = 64
_WORD = 2**_WORD_BITS
_BLOCK = 2**18  # coins at a time: the words and the comparison stay in the cache


@overload
def happens(probability: Number | ExpMinus, *, entropy: Entropy, size: None = None, given: bool = False) -> bool: ...
@overload
def happens(
    probability: Number | ExpMinus, *, entropy: Entropy, size: int, given: bool = False
) -> npt.NDArray[np.bool_]: ...
def happens(
    probability: Number | ExpMinus, *, entropy: Entropy, size: int | None = None, given: bool = False
) -> bool | npt.NDArray[np.bool_]:
    """Whether a coin of exactly this probability falls; for a `size`, as many independent ones.

    `probability`: in [0, 1], exact (a decimal, or a Fraction), or ExpMinus(x). Raises ParameterError for any other.
    `given`: of one coin, whether what follows is private whichever way it fell (`randomness_log.Draw`).
    Source: lazily refined uniforms (docs/proofs/noise.md, section 8); Knuth and Yao 1976.
    """
    if size is not None:
        fell = np.zeros(whole(size, field="size"), dtype=np.bool_)
        fell[sampled(probability, size, entropy=entropy)] = True
        return fell
    chance = _chance(probability)
    return logged(_BERNOULLI, tossed(chance, entropy), value=_passed(probability), shape=(), given=given)


def happens_each(probabilities: Sequence[Number | ExpMinus], *, entropy: Entropy) -> Positions:
    """The positions, rising, at which independent coins fall, each of exactly its own probability.

    They are one call in a log, since how many there are may be private. Otherwise as `happens`.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> happens_each([0, "0.5", 1, Fraction(1, 3)], entropy=seeded(0)).tolist()
    [2, 3]
    """
    chances = [_chance(one) for one in probabilities]
    words = entropy.words(len(chances)).tolist()
    fell = [
        place
        for place, (chance, word) in enumerate(zip(chances, words, strict=True))
        if below(chance, word, _WORD_BITS, entropy)
    ]
    passed = np.array([_passed(one) for one in probabilities], dtype=object)
    return logged(_BERNOULLI, np.array(fell, dtype=np.int64), value=passed, shape=passed.shape)


def sampled(probability: Number | ExpMinus, size: int, *, entropy: Entropy, given: bool = False) -> Positions:
    """The positions, rising, at which `size` independent coins of exactly this probability fall (a Poisson sample).

    In a log they stand as these positions. `given`: whether what follows is private whatever fell
    (`randomness_log.Draw`). Otherwise as `happens`.
    """
    chance, size = _chance(probability), whole(size, field="size")
    blocks = [start + _fallen(chance, min(_BLOCK, size - start), entropy) for start in range(0, size, _BLOCK)]
    positions = np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.int64)
    return logged(_BERNOULLI, positions, value=_passed(probability), shape=(size,), given=given)


def uniform(k: int, size: int, *, entropy: Entropy, given: bool = False) -> Words:
    """`size` independent whole numbers from 0 to k - 1, each exactly as likely; k from 1 to 2^64. A word each.

    `given`: whether what follows is private whatever was drawn (`randomness_log.Draw`).

    Source: docs/proofs/noise.md, section 8, of the probabilities 1/k.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> uniform(6, 5, entropy=seeded(0)).tolist()
    [1, 4, 0, 1, 5]
    """
    law, size = Uniform(k), whole(size, field="size")
    return logged(law, uniforms(k, entropy.words(size), entropy), value=k, shape=(size,), given=given)


def uniforms(count: int, words: Words, entropy: Entropy) -> Words:
    """floor(count U), the words being the first bits of U; count from 1 to 2^64."""
    if count == _WORD:
        return words
    half, lower = np.uint64(_WORD_BITS // 2), np.uint64(2**32 - 1)
    few, many = np.uint64(count) & lower, np.uint64(count) >> half
    low, high = words & lower, words >> half
    middle = high * few + (low * few >> half)  # below 2^64, as the next two sums
    other = low * many + (middle & lower)
    cells: Words = high * many + (middle >> half) + (other >> half)
    for tied in np.flatnonzero(words * np.uint64(count) > np.uint64(_WORD - count)):  # what follows may carry over
        cells[tied] = cell(count, int(words[tied]), _WORD_BITS, entropy)
    return cells


def tossed(chance: Chance, entropy: Entropy) -> bool:
    """Whether a fresh uniform number in [0, 1) is below `chance`, itself in [0, 1]."""
    return below(chance, int(entropy.words(1)[0]), _WORD_BITS, entropy)


def below(chance: Chance, numerator: int, bits: int, entropy: Entropy) -> bool:
    """Whether a uniform number whose first `bits` bits are `numerator` is below `chance`: more are drawn on a tie."""
    while numerator == (first := _first_bits(chance, bits)):
        if type(chance) is Fraction and chance * 2**bits == first:
            return False
        numerator, bits = numerator * _WORD + int(entropy.words(1)[0]), bits + _WORD_BITS
    return numerator < first


def uniform_below(count: int, entropy: Entropy, *, words: int = 1) -> int:
    """A uniform one of the whole numbers 0 to count - 1: floor(count U). `words`: how many are drawn at first."""
    numerator = 0
    for word in entropy.words(words).tolist():
        numerator = numerator * _WORD + word
    return cell(count, numerator, _WORD_BITS * words, entropy)


def cell(count: int, numerator: int, bits: int, entropy: Entropy) -> int:
    """floor(count U) for a uniform number whose first `bits` bits are `numerator`: more are drawn if needed."""
    while (found := count * numerator >> bits) != (count * (numerator + 1) - 1) >> bits:
        numerator, bits = numerator * _WORD + int(entropy.words(1)[0]), bits + _WORD_BITS
    return found


def _fallen(chance: Chance, size: int, entropy: Entropy) -> Positions:
    words = entropy.words(size)
    return np.flatnonzero(falls(chance, words, entropy)).astype(np.int64, copy=False)


def falls(chance: Chance, words: Words, entropy: Entropy) -> npt.NDArray[np.bool_]:
    """Which uniform numbers that begin with these words are below `chance`."""
    first = _first_bits(chance, _WORD_BITS)
    if first == _WORD:
        return np.ones(len(words), dtype=np.bool_)
    inside = words < np.uint64(first)
    for tied in np.flatnonzero(words == np.uint64(first)):
        inside[tied] = below(chance, first, _WORD_BITS, entropy)
    return inside


def _first_bits(chance: Chance, bits: int) -> int:
    """floor(chance 2^bits). Of an irrational number the brackets say it once they are narrow enough: it is between
    their ends, and none of them."""
    if isinstance(chance, Fraction):
        return (chance.numerator << bits) // chance.denominator
    digits = bits  # some three times as many as the bits have, so that hardly ever a second look is needed
    while True:
        at = Outward(digits)
        low, high = at.times(chance(at), at.exact(Fraction(1 << bits)))
        first, last = math.floor(low), math.ceil(high) - 1
        if first == last:
            return first
        digits *= 2


def _chance(probability: Number | ExpMinus) -> Chance:
    if isinstance(probability, ExpMinus):
        exponent = rational(probability.exponent, field="exponent")
        return _exp_minus(exponent) if exponent else Fraction(1)
    number = rational(probability, field="probability")
    if not 0 <= number <= 1:
        raise ParameterError("probability", probability, "a number from 0 to 1")
    return number


def _exp_minus(exponent: Fraction) -> Chance:
    return lambda at: at.exp(at.negative(at.exact(exponent)))


def _passed(probability: Number | ExpMinus) -> Fraction | ExpMinus:
    return probability if isinstance(probability, ExpMinus) else rational(probability, field="probability")
