"""A leaf and who is in its batch: what `reading` finds in a tree, and `drawn` turns into losses."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from dpledger.accounting.composition import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    GaussianLaw,
    LaplaceLaw,
    PmfPair,
    RandomizedResponseLaw,
    SparseVectorLaw,
)
from dpledger.accounting.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, PrivacyCurve, PureDP
from dpledger.relations import Relation

__all__ = [
    "EVERYONE",
    "Allocation",
    "Draw",
    "Drawn",
    "JointGaussian",
    "Leaf",
    "Poisson",
    "Shuffle",
    "Subset",
    "mirrors_itself",
    "mu_ratio_of",
    "mu_squared_of",
    "shift_of",
]


@dataclass(frozen=True, slots=True)
class JointGaussian:
    """Several Gaussians on one batch: mu^2 of all together."""

    mu_squared: Fraction
    kind: str = "gaussian"


Leaf: TypeAlias = (
    JointGaussian
    | PureDP
    | ApproxDP
    | ZCDP
    | GDP
    | RDP
    | BoundedRange
    | PrivacyCurve
    | LaplaceLaw
    | GaussianLaw
    | DiscreteLaplaceLaw
    | DiscreteGaussianLaw
    | RandomizedResponseLaw
    | ExponentialLaw
    | PmfPair
    | SparseVectorLaw
)


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


@dataclass(frozen=True, slots=True)
class Drawn:
    """A leaf and who is in its batch."""

    leaf: Leaf
    how: Draw = EVERYONE


def mirrors_itself(drawn: Drawn) -> bool:
    """Whether the pair is the same in both directions, up to the order of its outcomes."""
    return drawn.how == EVERYONE and not isinstance(drawn.leaf, PmfPair | PrivacyCurve)


def mu_squared_of(leaf: GaussianLaw | GDP | JointGaussian, relation: Relation) -> Fraction:
    """(the shift of the mean / sigma)^2."""
    return Fraction(*mu_ratio_of(leaf, relation))


def mu_ratio_of(leaf: GaussianLaw | GDP | JointGaussian, relation: Relation) -> tuple[int, int]:
    """`mu_squared_of`, as numerator and denominator."""
    if isinstance(leaf, JointGaussian):
        return leaf.mu_squared.as_integer_ratio()
    if isinstance(leaf, GDP):
        shift, sigma = leaf.mu.as_integer_ratio()
    else:
        top, bottom = leaf.noise_multiplier.as_integer_ratio()
        shift, sigma = shift_of(relation) * bottom, top
    return shift * shift, sigma * sigma


def shift_of(relation: Relation) -> int:
    """By how many sensitivities a release may move."""
    return 2 if relation in (Relation.REPLACE_ONE, Relation.LABEL_FLIP) else 1
