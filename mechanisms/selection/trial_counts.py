"""How many trials a selection runs: an exact draw of a declared law, by proposals that are kept with rational chances.

A negative binomial number: a geometric k is kept with probability prod_{l<k} (l + eta)/(l + 1), l from 1, which is at
most 1 for eta <= 1. A Poisson number: a geometric k with P(k) proportional to r^k, r = m/(1 + m), is kept with
probability w_k/w_max, w_k = (1 + m)^k/k!, largest at k = floor(1 + m). docs/proofs/selection.md, section 6.

>>> from dpledger.mechanisms.entropy import seeded
>>> drawn_trials(NegativeBinomialTrials(eta=1, gamma="0.1"), seeded(1)) >= 1
True
"""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

from dpledger.accounting.trials import NegativeBinomialTrials, PoissonTrials, Trials
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import happens, sampled

__all__ = ["check_drawable", "drawn_trials"]

MOST_MEAN = 10**4  # a selection runs about so many trials: no more are of use
COINS = 64  # tossed at a time


def check_drawable(repeats: Trials) -> None:
    """ParameterError for a law that is not drawn here: eta above 1, a mean above 10^4, a bound below the mean."""
    if isinstance(repeats, NegativeBinomialTrials) and repeats.eta > 1:
        raise ParameterError("repeats", f"eta {repeats.eta}", "an eta of at most 1: more costs more for the same mean")
    if repeats.mean > MOST_MEAN:
        raise ParameterError("repeats", f"a mean of {repeats.mean}", f"a mean of at most {MOST_MEAN} trials")
    if repeats.most is not None and repeats.most < math.floor(repeats.mean):
        raise ParameterError("repeats", f"most={repeats.most}", f"at least the mean, {repeats.mean}")


def drawn_trials(repeats: Trials, entropy: Entropy) -> int:
    """K, exactly; 0 where a Poisson number is above `most`."""
    match repeats:
        case NegativeBinomialTrials(eta=eta, gamma=gamma, most=most):
            while True:
                k = 1 + _failures(gamma, entropy)
                if (most is None or k <= most) and happens(_kept(eta, k), entropy=entropy, given=True):
                    return k
        case PoissonTrials(mean=mean, most=most):
            rate = Fraction(mean)
            while True:
                k = _failures(1 / (1 + rate), entropy)
                if happens(_weight(rate, k), entropy=entropy, given=True):
                    return k if most is None or k <= most else 0
        case _:
            assert_never(repeats)


def _failures(chance: Decimal | Fraction, entropy: Entropy) -> int:
    """How many coins of this probability do not fall before the first that does."""
    before = 0
    while True:
        fell = sampled(chance, COINS, entropy=entropy, given=True)
        if fell.size:
            return before + int(fell[0])
        before += COINS


def _kept(eta: Decimal, k: int) -> Fraction:
    """prod (l + eta)/(l + 1), l = 1 to k - 1; 1 for eta = 1."""
    top, bottom = eta.as_integer_ratio()
    over = math.prod(l_ * bottom + top for l_ in range(1, k))
    return Fraction(over, bottom ** (k - 1) * math.factorial(k))


@functools.lru_cache(maxsize=1024)
def _weight(mean: Fraction, k: int) -> Fraction:
    """w_k/w_max, as a product of ratios between k and the largest."""
    best = math.floor(1 + mean)
    low, high = min(k, best), max(k, best)
    steps = (high - low) * (1 if k > best else -1)
    return (1 + mean) ** steps * Fraction(math.factorial(best), math.factorial(k))
