"""Which keys are published that nobody knew beforehand: each by a coin, the likelier the more units have it.

    pi(0) = 0
    pi(n) = the greatest probability with which a key of n units may be published at (epsilon, delta) a key

A unit that comes alone to a key publishes it with probability delta. That is what delta is for, and why there is no
choice of unknown keys without one. The recursion pi(n) = min(e^epsilon pi(n-1) + delta, 1 - e^-epsilon (1 - pi(n-1) -
delta), 1) is that of a value at distance n - 1 (`release_probability`), which is certified, rounding included.
Desfontaines-Voss-Gipson-Mandayam 2022. Proof: docs/proofs/groups.md, section 1.

>>> choice = KeyChoice(epsilon=Decimal(1), delta=Decimal("0.00001"), keys=1)
>>> [round(float(choice.probability(n)), 7) for n in (0, 1, 2, 12, 22, 23)]
[0.0, 1e-05, 3.72e-05, 0.760311, 0.9999949, 1.0]
>>> choice.published_from("0.5")
12
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache

from dpledger.accounting.certificates.stable_releases import release_distance, release_probability, sure_distance
from dpledger.accounting.composition import Composition, Repeated
from dpledger.accounting.guarantees import ApproxDP
from dpledger.decimals import Number, read, round_down, subtract
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import happens_each
from dpledger.mechanisms.numeric.one_shot import derived

__all__ = ["KeyChoice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChoice:
    """Unknown keys at (epsilon, delta) in total, where one unit moves the counts of at most `keys` of them, each by
    one. ParameterError where the share of a key is no epsilon, or no delta below a half."""

    epsilon: Decimal
    delta: Decimal
    keys: int

    def __post_init__(self) -> None:
        release_probability(self.each.epsilon, self.each.delta, 0)

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
        """(epsilon, delta) of a key, as often as one unit moves one."""
        return self.each if self.keys == 1 else Repeated(self.each, times=self.keys)

    def probability(self, units: int) -> Fraction:
        """With what probability a key of so many units is published.

        Claim: one key, whose number of units moves by at most one, is (epsilon, delta)-DP; all of them are what `parts`
        compose to. Source: docs/proofs/groups.md, section 1."""
        return release_probability(self.each.epsilon, self.each.delta, units - 1) if units > 0 else Fraction(0)

    def published_from(self, probability: Number) -> int:
        """From how many units on a key is published with this probability, in (0, 1]."""
        wanted = read(probability, field="probability")
        if not 0 < wanted <= 1:
            raise ParameterError("probability", probability, "a number in (0, 1]")
        if wanted == 1:
            return sure_distance(self.each.epsilon, self.each.delta) + 1
        return release_distance(self.each.epsilon, self.each.delta, subtract(Decimal(1), wanted)) + 1

    def chosen(self, units: Sequence[int], *, entropy: Entropy) -> list[int]:
        """The places of the keys that are published, of keys with so many units each: a coin for each."""
        probability = cache(self.probability)
        fell: list[int] = happens_each([probability(n) for n in units], entropy=entropy).tolist()
        return fell
