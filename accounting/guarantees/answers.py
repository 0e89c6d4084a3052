"""What a guarantee answers for itself, the nones of it by name, and what several of them say alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import NamedTuple, TypeAlias, TypeVar

from dpledger.accounting.arithmetic.prices import Cost
from dpledger.decimals import ZERO

__all__ = [
    "TOO_LARGE",
    "AddsUpAsEpsilon",
    "Need",
    "NeverFails",
    "NoCurrency",
    "NoProfile",
    "Point",
    "ReadAtAnyDelta",
    "Say",
    "below_limit",
    "some_of",
]

TOO_LARGE = Decimal(10**18)  # no decimal that is written down reaches it

Say: TypeAlias = Callable[[Decimal], str]
"""How a number is written."""

G = TypeVar("G")


class Need(NamedTuple):
    """What a claim asks of a price: what it is, how much is claimed, and how much was found, None without a theorem."""

    name: str
    claimed: Decimal
    found: Decimal | None


class Point(NamedTuple):
    """(epsilon, delta)-DP."""

    epsilon: Decimal
    delta: Decimal


# ---- what a guarantee answers for itself, and the nones of it by name -----------------------------------------------
#
# variant, registered     in words, and in those of the registry of deployments
# is_point                whether an epsilon and a delta are all that it says
# fails                   the delta that it lets fail, whatever it is read at
# own_delta               that at which it is an epsilon by itself; None where one is read from it at any
# epsilon_at(delta)       the epsilon that it means there
# points                  those of a privacy profile, where that is how it is said
# needs(price)            what it asks of a price in currencies that add up
# summand, sum_of         the guarantee as which it adds up with its like; None: as an epsilon and a delta alone
# in_words(say)           its numbers; an epsilon never stands without its delta


class NeverFails:
    __slots__ = ()

    @property
    def fails(self) -> Decimal:
        return ZERO


class ReadAtAnyDelta:
    __slots__ = ()

    @property
    def own_delta(self) -> None:
        return None


class NoProfile:
    __slots__ = ()

    @property
    def points(self) -> tuple[Point, ...]:
        return ()


class NoCurrency:
    __slots__ = ()

    def needs(self, price: Cost) -> tuple[Need, ...]:
        del price
        return ()


class AddsUpAsEpsilon:
    __slots__ = ()

    @property
    def summand(self) -> None:
        return None


def below_limit(kind: Callable[[Decimal], G], amount: Decimal) -> G | None:
    """The sum of some guarantees; None where it is too large to be one."""
    return kind(amount) if amount < TOO_LARGE else None


def some_of(points: Sequence[str], what: str) -> str:
    """The first, the middle and the last of a list, and how many there are."""
    shown = sorted({0, len(points) // 2, len(points) - 1})
    told = ", ".join(points[place] for place in shown)
    return told if len(points) <= len(shown) else f"{told} ({len(points)} {what} in all)"
