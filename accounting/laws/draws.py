"""Who is in a batch: everyone, or a secret part of the units; and runs of everyone in their order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from dpledger.errors import CannotCertify

__all__ = [
    "EVERYONE",
    "Allocation",
    "Draw",
    "Poisson",
    "Ranged",
    "Runs",
    "Shuffle",
    "Subset",
    "below_one",
    "everyones",
    "in_blocks",
]


@dataclass(frozen=True, slots=True)
class Poisson:
    """Each unit with probability `rate`, independently; 1: everyone."""

    rate: Decimal


@dataclass(frozen=True, slots=True)
class Subset:
    """A uniformly random set of `batch` of `population` units, batch < population."""

    population: int
    batch: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """Each unit in one of `steps` batches, steps > 1; or, of a unit that is in several, one of as many blocks of steps:
    then some mechanism shows what a Poisson sample at the rate `shown` does, and 0 is nothing."""

    steps: int
    shown: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Each of `users` runs the leaf on its own."""

    users: int


Draw: TypeAlias = Poisson | Subset | Allocation | Shuffle
EVERYONE = Poisson(Decimal(1))

Runs: TypeAlias = tuple[tuple[float, int], ...]
"""Bounded ranges that everyone is in, each with how often it is run, the first of them first."""


def in_blocks(runs: Iterable[tuple[float, int]]) -> Runs:
    """The same runs, those of one range that follow each other as one."""
    grouped = itertools.groupby(runs, key=lambda each: each[0])
    return tuple((eta, sum(count for _, count in each)) for eta, each in grouped)


class Ranged(NamedTuple):
    """A bounded range, who is in its batch, and how often it is run."""

    eta: Decimal
    how: Draw
    times: int


def everyones(ranges: Iterable[Ranged]) -> Runs:
    """Those that everyone is in, of which 0 shows nothing."""
    return in_blocks((float(each.eta), each.times) for each in ranges if each.how == EVERYONE and float(each.eta))


def below_one(rate: Decimal) -> float:
    """A rate below 1 as a float that is one too."""
    rounded = float(rate)
    if rounded >= 1:
        raise CannotCertify("a sampling rate within 1e-16 of 1: state it as 1")
    return rounded
