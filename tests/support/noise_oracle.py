"""The noise laws once more, slowly: distribution functions and variates from their definitions, in mpmath.

Shares no code with the samplers. A variate here is computed at 60 digits from the same words of entropy that the
sampler reads, so the two must agree on every single draw.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, assert_never

import mpmath as mp
import numpy as np

from dpledger.mechanisms.entropy import Words
from dpledger.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian, RoundedLaplace

__all__ = ["WordList", "cdf_of", "laplace_from_word", "normal_pair_from_words"]

DIGITS = 60


class WordList:
    """Entropy that hands out given words, then those of another source. It remembers how many were asked for."""

    def __init__(self, words: Words, then: Any) -> None:
        self._words = words
        self._then = then
        self.asked = 0

    def words(self, count: int, /) -> Words:
        start = min(self.asked, len(self._words))
        given = self._words[start : start + count]
        self.asked += count
        missing = count - len(given)
        return np.concatenate([given, self._then.words(missing)]) if missing else given.copy()


def _number(value: Decimal) -> Any:
    return mp.mpf(value.as_integer_ratio()[0]) / value.as_integer_ratio()[1]


def cdf_of(law: Law) -> Callable[[int], float]:
    """k -> P(noise <= k), in steps of the grid."""
    with mp.workdps(DIGITS):
        match law:
            case RoundedLaplace(scale=scale, grid=grid):
                steps = _number(scale) / _number(grid)
                return lambda k: float(_laplace_cdf((mp.mpf(k) + 0.5) / steps))
            case RoundedGaussian(sigma=sigma, grid=grid):
                steps = _number(sigma) / _number(grid)
                return lambda k: float(mp.ncdf((mp.mpf(k) + 0.5) / steps))
            case DiscreteLaplace(scale=scale):
                ratio = mp.exp(-1 / _number(scale))
                return lambda k: float(_discrete_laplace_cdf(k, ratio))
            case DiscreteGaussian(sigma=sigma):
                return _discrete_gaussian_cdf(_number(sigma))
            case _:
                assert_never(law)


def _laplace_cdf(x: Any) -> Any:
    return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2


def _discrete_laplace_cdf(k: int, ratio: Any) -> Any:
    """Sums of the two geometric series of (1 - q)/(1 + q) q^|k|."""
    if k < 0:
        return ratio ** (-k) / (1 + ratio)
    return 1 - ratio ** (k + 1) / (1 + ratio)


def _discrete_gaussian_cdf(sigma: Any) -> Callable[[int], float]:
    """By summing the weights exp(-k^2 / 2 sigma^2) out to 30 sigma."""
    reach = int(30 * sigma) + 5
    with mp.workdps(DIGITS):
        weights = [mp.exp(-mp.mpf(k * k) / (2 * sigma * sigma)) for k in range(-reach, reach + 1)]
        mass = mp.fsum(weights)
        sums: list[Any] = []
        running = mp.mpf(0)
        for weight in weights:
            running += weight
            sums.append(running)
    return lambda k: 0.0 if k < -reach else 1.0 if k > reach else float(sums[k + reach] / mass)


def laplace_from_word(word: int, ratio: Fraction) -> int | None:
    """sign * round(ratio * E) from the upper 63 bits (E) and the lowest bit (sign) of a word; None if the 63 bits do
    not decide it."""
    ends = [_exponential_steps((word >> 1) + more, ratio) for more in (0, 1)]
    if ends[0] != ends[1]:
        return None
    return -ends[0] if word & 1 else ends[0]


def _exponential_steps(prefix: int, ratio: Fraction) -> int:
    if prefix == 0:
        return -1
    with mp.workdps(DIGITS):
        exponential = -mp.log(mp.mpf(prefix) / 2**63)
        return int(mp.floor(exponential * ratio.numerator / ratio.denominator + 0.5))


def normal_pair_from_words(first: int, second: int, ratio: Fraction) -> tuple[int, int] | None:
    """The pair of the polar method from the middles of the two words' intervals, rounded; None where it rejects."""
    with mp.workdps(DIGITS):
        u, v = (_signed_middle(word) for word in (first, second))
        s = u * u + v * v
        if s >= 1:
            return None
        factor = mp.sqrt(-2 * mp.log(s) / s) * ratio.numerator / ratio.denominator
        return int(mp.floor(u * factor + 0.5)), int(mp.floor(v * factor + 0.5))


def _signed_middle(word: int) -> Any:
    signed = word - 2**64 if word >= 2**63 else word
    return (mp.mpf(signed) + 0.5) / 2**63
