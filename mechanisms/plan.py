"""What every plan says: how much is needed, what decided it, what is taken, and on whose word."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

from dpledger.decimals import Number, read
from dpledger.errors import ParameterError

__all__ = ["THIRD", "Plan", "Status", "above_0", "open_unit", "ratio"]

Status: TypeAlias = Literal["proved", "exact", "certified", "conservative", "order"]
"""proved: a theorem with these constants; exact: no smaller number will do; certified: a theorem, but for an
inequality that was tried on a dense grid; conservative: proved, with constants that are known to be far too large;
order: constants left out."""

THIRD = Fraction(1, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`chosen`, of which `needed` is the least that will do; `terms`: what each part of the argument asks for, by its
    name."""

    needed: int
    chosen: int
    terms: tuple[tuple[str, int], ...]
    status: Status

    @property
    def binding(self) -> str:
        """The name of the term that asks for most."""
        return max(self.terms, key=lambda term: term[1])[0]


def above_0(value: Number, field: str) -> Decimal:
    """A number above 0."""
    number = read(value, field=field)
    if not number > 0:
        raise ParameterError(field, value, "a number above 0")
    return number


def open_unit(value: Number, field: str) -> Decimal:
    """A number in (0, 1)."""
    number = read(value, field=field)
    if not 0 < number < 1:
        raise ParameterError(field, number, "a number in (0, 1)")
    return number


def ratio(value: Number, field: str, *, above: Fraction, below: Fraction) -> Fraction:
    """A number strictly between the two; a Fraction needs no finite decimal."""
    number = value if isinstance(value, Fraction) else Fraction(read(value, field=field))
    if not above < number < below:
        raise ParameterError(field, value, f"a number in ({above}, {below})")
    return number
