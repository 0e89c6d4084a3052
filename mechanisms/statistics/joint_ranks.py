"""Several places among whole numbers by the rows between them: the joint exponential mechanism of quantiles.

>>> choice = JointChoice(Decimal(1), 1, (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)), exchanged=True)
>>> choice.exponent(1)
Decimal('0.25')
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from dpledger.accounting.arithmetic import scalars
from dpledger.decimals import round_down, round_up
from dpledger.mechanisms.noise import ExponentialWeights, RisingPlaces, Sensitivity
from dpledger.mechanisms.numeric.one_shot import derived
from dpledger.mechanisms.statistics.ranks import Ranked

__all__ = ["JointChoice"]

MOST_SHARES = 16  # the work rises with the square
MOST_ROWS = 2.0**16  # that are looked at on each side of a quantile, of values that are all different
_LOOKED = 45.0  # logarithm: what is further is proposed once in 2^64
_SLACK = 1 + 2.0**-30


@dataclass(frozen=True, slots=True)
class JointChoice:
    """A choice of places for `shares` of the rows. `epsilon`: the range of its losses; `rows`: of a unit at most;
    `exchanged`: whether rows are exchanged for others, and not added or removed.

    A tuple misses, in rows, what each part between its places has too many or too few of, all together."""

    epsilon: Decimal
    rows: int
    shares: tuple[Fraction, ...]
    exchanged: bool

    @property
    def moved(self) -> Fraction:
        """How far one unit moves what any tuple misses, in rows. Claim: a row that is exchanged leaves one part and
        enters another, 2; one that is added is in one part, and moves what each should have: 2 less twice the least
        gap. Source: Gillenwater-Joseph-Kulesza 2021; docs/proofs/statistics.md, section 3."""
        ends = (Fraction(0), *self.shares, Fraction(1))
        least = min(high - low for low, high in pairwise(ends))
        return self.rows * (Fraction(2) if self.exchanged else 2 * (1 - least))

    @property
    def scale(self) -> int:
        """The steps of score in a row."""
        return math.lcm(*(share.denominator for share in self.shares))

    def exponent(self, denominator: int) -> Decimal:
        """Of one step of score. Claim: 2 moved denominator exponent <= epsilon, so that the loss has that range."""
        return derived(round_down(Fraction(self.epsilon) / (2 * self.moved * denominator)), epsilon=self.epsilon)

    def is_small(self, places: int) -> bool:
        """Whether a draw among so many places is little work, whatever the rows are. Public."""
        reach = (len(self.shares) * scalars.log(places) + _LOOKED) / float(self.exponent(1))
        return len(self.shares) <= MOST_SHARES and reach <= 2 * MOST_ROWS

    def within(self, places: int, miss: float) -> float:
        """The rows by which any of the places is wrong at most, with a probability of at least 1 - miss.

        Claim: a tuple misses twice what the worst of its places is off, at least; one tuple has each place off by a row
        at most, and misses twice their number at most; each that misses t more is e^(-exponent t) less likely. Source:
        docs/proofs/statistics.md, section 3."""
        count = len(self.shares)
        beyond = (count * scalars.log(places) - scalars.log(miss)) / float(self.exponent(1))
        return (beyond / 2 + count) * _SLACK

    def prepared(self, column: Ranked, first: int, last: int) -> RisingPlaces:
        """The choice among the places first, ..., last of a column."""
        why = "a row leaves a part and enters another" if self.exchanged else "a row that is added is in one part"
        moved = Sensitivity(round_up(self.moved * self.scale), "linf", why)
        law = ExponentialWeights(self.exponent(self.scale))
        return RisingPlaces(law, column, self.shares, first=first, last=last, sensitivity=moved)
