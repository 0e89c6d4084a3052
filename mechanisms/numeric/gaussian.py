"""The Gaussian mechanism for a number, or a vector of a public dimension, that the caller computed.

Each entry is rounded to the grid, and a normal variable, rounded to the same grid, is added as whole steps. The
release is a post-processing of the continuous mechanism on the rounded vector, so its leaf is
`GaussianLaw(noise_multiplier)`.

>>> Gaussian(sensitivity=1, noise_multiplier=2).claim()
GDP(mu=Decimal('0.5'), kind='gdp')
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dpledger.accounting.composition import Composition, GaussianLaw
from dpledger.accounting.guarantees import GDP
from dpledger.decimals import Number, multiply, round_down, round_up
from dpledger.mechanisms.noise import RoundedGaussian
from dpledger.mechanisms.numeric.added import NoisePlan, RealNumbers
from dpledger.mechanisms.numeric.grid import check_map, default_grid, on_grid
from dpledger.mechanisms.numeric.one_shot import ShortText, derived, exactly_one
from dpledger.mechanisms.protocol import UNSAID
from dpledger.number_fields import OptionalPositive, Positive, Signed, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import given, record, tag

__all__ = ["Gaussian", "gaussian_leaf"]


@record
class Gaussian(RealNumbers):
    """Release a number or a vector with Gaussian noise. Dong-Roth-Su 2022, theorem 2.7: mu = sensitivity / sigma.

    `sensitivity`: how far one unit moves it in the l2 norm, under the relation (the caller vouches for it;
    `justification` says why, in one line). Exactly one of `noise_multiplier` (sigma / sensitivity) and `sigma` is
    given.
    `dimension`: 1 for a number, else the length of the vector. `grid`: the step of the result, a power of two; default:
    the largest that costs at most 0.1 % of the noise. An entry beyond `bound` counts as the bound, and one that is not
    a number as `missing`; no value raises. Data that are not one number, or not a vector of this length, are refused.
    The value is a float, or float64[dimension]; any entry may be negative.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> total = dpl.Gaussian(sensitivity=5, sigma=20, justification="a stay counts at most five days")
    >>> round(float(total.release(1234, entropy=seeded(1)).value), 2)
    1239.47
    """

    norm: ClassVar[Literal["l1", "l2"]] = "l2"

    sensitivity: Positive
    noise_multiplier: OptionalPositive = given(default=None)
    sigma: OptionalPositive = given(default=None)
    dimension: Annotated[Whole, Field(strict=True, ge=1, lt=2**31)] = given(default=1)
    grid: OptionalPositive = given(default=None)
    bound: Positive = given(default=2**53)
    missing: Signed = given(default=0)
    justification: ShortText = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["gaussian"] = tag(default="gaussian")

    def __post_init__(self) -> None:
        exactly_one(noise_multiplier=self.noise_multiplier, sigma=self.sigma)
        check_map(self._plan.grid, self.bound, self.missing)

    @property
    def _plan(self) -> _Plan:
        return _planned(self.sensitivity, self.noise_multiplier, self.sigma, self.grid, self.dimension)

    @property
    def noise(self) -> RoundedGaussian:
        """The law of the noise of each entry, on its grid."""
        return RoundedGaussian(sigma=self._plan.sigma, grid=self._plan.grid)

    def claim(self) -> GDP:
        """mu = sensitivity / sigma, rounded up."""
        return GDP(self._plan.mu)

    def parts(self) -> Composition:
        """One Gaussian leaf. Where a unit is replaced, the leaf's noise multiplier counts sigma against the bound of
        one unit's contribution, which is half of the sensitivity; where no relation is fixed yet, add_remove is meant.
        """
        return gaussian_leaf(self._plan.noise_multiplier, self.relation)

    def _used(self) -> Mapping[str, Decimal]:
        return {"noise_multiplier": self._plan.noise_multiplier, "sigma": self._plan.sigma}

    def interval(self, confidence: Number) -> float:
        """The half-width around each released entry that holds its number (within the bound) with at least this
        probability; counts the rounding to the grid."""
        return self._within(confidence, 1)


def gaussian_leaf(noise_multiplier: Decimal, relation: Relation | None) -> GaussianLaw:
    """The leaf of noise that is so many times the sensitivity. Its own multiplier counts sigma against the bound of one
    unit's contribution: half of the sensitivity, where a unit is replaced."""
    replaced = relation in (Relation.REPLACE_ONE, Relation.LABEL_FLIP)
    return GaussianLaw(multiply(noise_multiplier, 2) if replaced else noise_multiplier)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Plan(NoisePlan):
    """With the parameters of the noise."""

    noise_multiplier: Decimal
    mu: Decimal
    sigma: Decimal


@functools.lru_cache(maxsize=512)
def _planned(
    sensitivity: Decimal, noise_multiplier: Decimal | None, sigma: Decimal | None, grid: Decimal | None, dimension: int
) -> _Plan:
    """Claim: sensitivity / sigma <= 1 / noise_multiplier <= mu, exactly, for the values in the plan."""
    length = Fraction(sensitivity)
    ideal = Fraction(sigma) if sigma is not None else Fraction(noise_multiplier or 0) * length
    given_by = "sigma" if sigma is not None else "noise_multiplier"
    if grid is None:
        grid = default_grid(**{given_by: ideal, "sensitivity": length / _root_above(dimension)})
    if dimension == 1:
        moved = on_grid(sensitivity, grid)
    else:  # each entry's rounding errors, at most half a step before and after: docs/proofs/noise.md, section 5
        moved = derived(round_up(length + Fraction(grid) * _root_above(dimension)), sensitivity=sensitivity)
    if noise_multiplier is None:
        noise_multiplier = derived(round_down(ideal / Fraction(moved)), sigma=sigma)
    if sigma is None:
        sigma = derived(round_up(Fraction(noise_multiplier) * Fraction(moved)), noise_multiplier=noise_multiplier)
    mu = derived(round_up(1 / Fraction(noise_multiplier)), noise_multiplier=noise_multiplier)
    return _Plan(noise_multiplier=noise_multiplier, mu=mu, sigma=sigma, grid=grid, sensitivity=moved)


def _root_above(dimension: int) -> Fraction:
    """A rational number that is at least sqrt(dimension), by less than 2^-20."""
    return Fraction(math.isqrt((dimension << 40) - 1) + 1, 2**20)
