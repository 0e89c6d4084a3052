"""Numbers known to lie between two decimals; what is computed of them is rounded outward, at a stated precision.

`decimal` rounds its logarithm, exponential and root correctly; each end is moved on by one unit in the last place. So
the true number is always inside, and with more digits the ends meet. Proof: docs/proofs/noise.md, section 4.

>>> at = Outward(30)
>>> low, high = at.exp(at.negative(at.exact(Fraction(1, 3))))
>>> float(low) <= 0.7165313105737893 <= float(high)
True
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from dpledger.decimals import own_context

__all__ = ["Bracket", "Outward"]

_ZERO, _ONE = Decimal(0), Decimal(1)
_Step: TypeAlias = Callable[[Decimal], Decimal]


class Bracket(NamedTuple):
    """A number from `low` to `high`."""

    low: Decimal
    high: Decimal


class Outward:
    """Arithmetic of brackets with `digits` digits."""

    def __init__(self, digits: int) -> None:
        self._down, self._up = own_context(digits, ROUND_FLOOR), own_context(digits, ROUND_CEILING)
        self._near = own_context(digits)

    def exact(self, number: Fraction) -> Bracket:
        """A rational number."""
        above, below = Decimal(number.numerator), Decimal(number.denominator)
        return Bracket(self._down.divide(above, below), self._up.divide(above, below))

    def between(self, ends: tuple[Fraction, Fraction]) -> Bracket:
        """A number between two rational ones."""
        return Bracket(self.exact(ends[0]).low, self.exact(ends[1]).high)

    def negative(self, x: Bracket) -> Bracket:
        """-x."""
        return Bracket(x.high.copy_negate(), x.low.copy_negate())

    def add(self, x: Bracket, y: Bracket) -> Bracket:
        """x + y."""
        return Bracket(self._down.add(x.low, y.low), self._up.add(x.high, y.high))

    def subtract(self, x: Bracket, y: Bracket) -> Bracket:
        """x - y."""
        return self.add(x, self.negative(y))

    def times(self, x: Bracket, y: Bracket) -> Bracket:
        """x y, for x of either sign and y at least 0."""
        low = self._down.multiply(x.low, y.low if x.low > 0 else y.high)
        return Bracket(low, self._up.multiply(x.high, y.high if x.high > 0 else y.low))

    def over(self, x: Bracket, y: Bracket) -> Bracket:
        """x / y, for y above 0; unbounded where y may be 0."""
        if y.low <= 0:
            return Bracket(Decimal("-Infinity") if x.low < 0 else _ZERO, Decimal("Infinity"))
        low = self._down.divide(x.low, y.high if x.low > 0 else y.low)
        return Bracket(low, self._up.divide(x.high, y.low if x.high > 0 else y.high))

    def ln(self, x: Bracket) -> Bracket:
        """ln x, for x at least 0; unbounded below where x may be 0."""
        return Bracket(self._ln(x.low, self._near.next_minus), self._ln(x.high, self._near.next_plus))

    def _ln(self, x: Decimal, outward: _Step) -> Decimal:
        if x <= 0:
            return Decimal("-Infinity")
        return _ZERO if x == 1 else outward(self._near.ln(x)) if x.is_finite() else x

    def exp(self, x: Bracket) -> Bracket:
        """e^x, for x at most 0."""
        low = max(_ZERO, self._near.next_minus(self._near.exp(x.low)))
        return Bracket(low, min(_ONE, self._near.next_plus(self._near.exp(min(_ZERO, x.high)))))

    def root(self, x: Bracket) -> Bracket:
        """The square root of x, at least 0."""
        low = max(_ZERO, self._near.next_minus(self._near.sqrt(max(_ZERO, x.low))))
        return Bracket(low, self._near.next_plus(self._near.sqrt(x.high)))
