"""How well m examples of a user tell an error of p from one of q: the gap between two binomial laws.

The event that tells them apart best is "more than `level` mistakes". Its probability moves by about 0.8 sqrt(m) (q - p)
where sqrt(m) (q - p) is below one, while one user changes it for one user alone: that is what many examples of each
user are good for.

>>> one = BinomialGap(25, "0.3", "0.4")
>>> one.level, round(one.lower, 9)
(8, Decimal('0.403396675'))
>>> round(gap_worst(25, "0.05"), 9)
Decimal('0.191656553')
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, localcontext
from functools import lru_cache

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, read, subtract, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.binomial_tails import MOST_TRIALS, tail_above, tail_up_to

__all__ = ["GRID_BITS", "BinomialGap", "gap_worst"]

ZERO, ONE = Decimal(0), Decimal(1)

GRID_BITS = 20
"""Fractions of users are compared in steps of 2^-20."""

ON_THE_EDGE = Decimal("1e-30")  # relative to m: a level so near to a whole number is that number


@dataclass(frozen=True, slots=True, init=False)
class BinomialGap:
    """Bin(m, p) against Bin(m, q), 0 <= p < q <= 1; `examples` is m.

    Claim: `level` is an l for which P(Bin(m, q) > l) - P(Bin(m, p) > l) is greatest, and so the total variation
    distance; it lies from `lower` to `upper`. Source: docs/proofs/learning_users.md, section 1 (the likelihood ratio is
    monotone); Li-Wang-Ye 2024, lemma 4.1.
    """

    examples: int
    low: Decimal
    high: Decimal
    level: int

    def __init__(self, examples: int, low: Number, high: Number) -> None:
        m = whole(examples, field="examples", least=1, most=MOST_TRIALS)
        p, q = read(low, field="low"), read(high, field="high")
        if not p < q <= 1:
            raise ParameterError("high", q, f"a number above {p}, at most 1")
        for name, value in (("examples", m), ("low", p), ("high", q), ("level", _level(m, p, q))):
            object.__setattr__(self, name, value)

    def chance(self, error: Decimal) -> tuple[Decimal, Decimal]:
        """P(Bin(m, error) > level), from below and from above."""
        upper = tail_above(self.examples, error, self.level)
        with localcontext(outward.context()):
            return max(ZERO, 1 - tail_up_to(self.examples, error, self.level)), upper

    @property
    def lower(self) -> Decimal:
        """The gap, from below."""
        with localcontext(outward.context()):
            return max(ZERO, self.chance(self.high)[0] - self.chance(self.low)[1])

    @property
    def upper(self) -> Decimal:
        """The gap, from above."""
        with localcontext(outward.context()):
            return min(ONE, self.chance(self.high)[1] - self.chance(self.low)[0])

    @property
    def middle(self) -> int:
        """The fraction of users half-way between P(Bin(m, p) > level) and P(Bin(m, q) > level), in steps of 2^-20."""
        with localcontext(outward.context()):
            both = sum(self.chance(self.low) + self.chance(self.high), start=ZERO) / 4
            return int((both * 2**GRID_BITS).to_integral_value(ROUND_HALF_EVEN))


@lru_cache(maxsize=4096)
def _level(m: int, p: Decimal, q: Decimal) -> int:
    """floor(m ln((1-p)/(1-q)) / ln(q (1-p) / (p (1-q)))): more mistakes than so many are likelier under q."""
    if not p:
        return 0
    if q == 1:
        return m - 1
    with localcontext(outward.context(p, q, subtract(q, p), subtract(ONE, q))):
        fewer, more = outward.ln((1 - p) / (1 - q)), outward.ln(q / p)
        return int((m * (fewer / (fewer + more) + ON_THE_EDGE)).to_integral_value(ROUND_FLOOR))


@lru_cache(maxsize=4096)
def gap_worst(examples: int, difference: Number) -> Decimal:
    """The least gap of two errors with this difference, wherever they lie, from below.

    With M = 2 floor(m/2) and q = (1 + difference)/2 it is P(Bin(M, q) > M/2) - P(Bin(M, q) < M/2); for m = 1 the
    difference itself. Claim: certified, not proved: on 8001 errors for m up to 400 and differences from 0.001 to 0.3;
    equality for even m at p = (1 - difference)/2. Source: docs/proofs/learning_users.md, section 1."""
    m, apart = whole(examples, field="examples", least=1, most=MOST_TRIALS), read(difference, field="difference")
    if not apart > 0:
        raise ParameterError("difference", apart, "a number above 0")
    if apart >= 1 or m == 1:
        return min(ONE, apart)
    with localcontext(outward.context(apart)):
        return BinomialGap(m - m % 2, (1 - apart) / 2, (1 + apart) / 2).lower
