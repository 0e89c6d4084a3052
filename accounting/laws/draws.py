"""Who is in a batch: everyone, or a secret part of the units."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

__all__ = ["EVERYONE", "Allocation", "Draw", "Poisson", "Shuffle", "Subset"]


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
    """Each unit in one of `steps` batches, steps > 1."""

    steps: int


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Each of `users` runs the leaf on its own."""

    users: int


Draw: TypeAlias = Poisson | Subset | Allocation | Shuffle
EVERYONE = Poisson(Decimal(1))
