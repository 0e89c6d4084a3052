"""Which unknown keys are published: each by a coin, which is likelier the more units have the key.

    pi(0) = 0
    up to 3 keys of a unit    pi(n) = the greatest probability with which a key of n units may be published at a share
                              of (epsilon, delta): the best where a unit has one key
    from 4 on                 pi(n) = P(n - 1 + N(0, sigma^2) > threshold), on the integers: all keys of a unit share
                              the noise, so that it grows with the root of their number

A unit that comes alone to a key publishes it with a part of delta. That is what delta is for, and why there is no
choice of unknown keys without one. The first is that of a value at distance n - 1 (`release_probability`), the second
that of a Gaussian test of it (`gaussian_tests`), both certified, rounding included. Desfontaines-Voss-Gipson-Mandayam
2022; docs/proofs/groups.md, section 1.

>>> choice = KeyChoice(epsilon=Decimal(1), delta=Decimal("0.00001"), keys=1)
>>> [round(float(choice.probability(n)), 7) for n in (0, 1, 2, 12, 22, 23)]
[0.0, 1e-05, 3.72e-05, 0.760311, 0.9999949, 1.0]
>>> choice.published_from("0.5")
12
>>> [KeyChoice(epsilon=Decimal(1), delta=Decimal("0.00001"), keys=k).published_from("0.5") for k in (3, 4, 30)]
[33, 39, 111]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache

from dpledger.accounting.certificates.gaussian_tests import GaussianTestsLaw, gaussian_tests, release_chance
from dpledger.accounting.certificates.stable_releases import release_distance, release_probability, sure_distance
from dpledger.accounting.composition import Composition, Repeated
from dpledger.accounting.guarantees import ApproxDP
from dpledger.decimals import Number, read, round_down, subtract
from dpledger.errors import CannotCertify, InfeasiblePlan, ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import happens_each
from dpledger.mechanisms.numeric.one_shot import derived

__all__ = ["KeyChoice"]

_FEWEST_SHARED = 4  # keys of a unit from which on shared noise publishes more: docs/group_by.md has the numbers
_MOST_SHARED = 10**6
_MOST_EPSILON = 100
_LEAST_DELTA = Decimal("1e-18")
_ROUNDED = Decimal("1e-12")  # the part of delta that is kept for rounding
_MOST_SIGMA = 2**14  # of a table that has some twenty entries a unit


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChoice:
    """Unknown keys at (epsilon, delta) in total, where one unit moves the counts of at most `keys` of them, each by
    one. ParameterError where the share of a key is no epsilon, or no delta below a half."""

    epsilon: Decimal
    delta: Decimal
    keys: int

    def __post_init__(self) -> None:
        if self.law is None:
            release_probability(self.each.epsilon, self.each.delta, 0)

    @property
    def law(self) -> GaussianTestsLaw | None:
        """Of the tests that all keys of a unit share; None where each key has its own."""
        return _tests(self.epsilon, self.delta, self.keys)

    @property
    def each(self) -> ApproxDP:
        """What one key costs."""
        if self.delta >= Decimal("0.5"):
            raise ParameterError("key_delta", self.delta, "a number in (0, 0.5)")
        return ApproxDP(
            derived(round_down(Fraction(self.epsilon) / self.keys), key_epsilon=self.epsilon),
            derived(round_down(Fraction(self.delta) / self.keys), key_delta=self.delta),
        )

    def parts(self) -> Composition:
        """(epsilon, delta) of all keys together; or of a key, as often as one unit moves one."""
        if self.law is not None:
            return ApproxDP(self.epsilon, self.delta)
        return self.each if self.keys == 1 else Repeated(self.each, times=self.keys)

    def probability(self, units: int) -> Fraction:
        """With what probability a key of so many units is published.

        Claim: one key, whose number of units moves by at most one, is (epsilon, delta)-DP, and all of them are what
        `parts` compose to; or all keys that one unit moves, together. Source: docs/proofs/groups.md, section 1."""
        if units <= 0:
            return Fraction(0)
        if self.law is not None:
            return release_chance(self.law, units - 1)
        return release_probability(self.each.epsilon, self.each.delta, units - 1)

    def published_from(self, probability: Number) -> int:
        """From how many units on a key is published with this probability, in (0, 1]."""
        wanted = read(probability, field="probability")
        if not 0 < wanted <= 1:
            raise ParameterError("probability", probability, "a number in (0, 1]")
        if self.law is not None:
            low, high = 0, self.law.threshold
            while self.probability(high) < wanted:
                low, high = high, 2 * high
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if self.probability(middle) >= wanted else (middle, high)
            return high
        if wanted == 1:
            return sure_distance(self.each.epsilon, self.each.delta) + 1
        return release_distance(self.each.epsilon, self.each.delta, subtract(Decimal(1), wanted)) + 1

    def chosen(self, units: Sequence[int], *, entropy: Entropy) -> list[int]:
        """The places of the keys that are published, of keys with so many units each: a coin for each."""
        probability = cache(self.probability)
        fell: list[int] = happens_each([probability(n) for n in units], entropy=entropy).tolist()
        return fell


@lru_cache(maxsize=256)
def _tests(epsilon: Decimal, delta: Decimal, keys: int) -> GaussianTestsLaw | None:
    """The Gaussian tests of the keys of a unit, where they publish more than a choice of its own for each key does.

    Claim: with probabilities that are up to 10^-80 off they keep (epsilon, delta): what all keys' roundings may add,
    keys (1 + e^epsilon) 10^-80, is less than the 10^-12 of delta that is left for it."""
    if not (_FEWEST_SHARED <= keys <= _MOST_SHARED and epsilon <= _MOST_EPSILON and delta >= _LEAST_DELTA):
        return None
    try:
        law = gaussian_tests(epsilon, round_down(Fraction(delta) * (1 - Fraction(_ROUNDED))), keys)
    except (CannotCertify, InfeasiblePlan, ParameterError):
        return None
    return law if law.sigma <= _MOST_SIGMA else None
