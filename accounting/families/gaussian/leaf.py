"""Gaussian noise: the laws that a composition tree holds."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Literal

from pydantic import ValidationInfo, field_validator

from dpledger.decimals import total
from dpledger.number_fields import Count, Exacts, Noise, Rate
from dpledger.schema import record, tag

__all__ = [
    "MOST_SHIFTS",
    "GaussianLaw",
    "GaussianWithReplacementLaw",
    "MixtureOfGaussiansLaw",
    "TruncatedSampledGaussianLaw",
]

MOST_SHIFTS = 256
"""Sensitivities that a mixture may list."""


@record
class GaussianLaw:
    """Gaussian noise; noise_multiplier = sigma / the l2 bound of one unit's contribution.

    Adding, removing or zeroing a unit moves the mean by at most that bound (mu = 1/noise_multiplier); replacing one,
    or flipping its label, by at most twice that (mu = 2/noise_multiplier).

    >>> round(dpl.compose((dpl.GaussianLaw(noise_multiplier=4), 10)).epsilon("1e-6").upper, 4)
    3.7472
    """

    noise_multiplier: Noise
    kind: Literal["gaussian"] = tag(default="gaussian")


@record
class MixtureOfGaussiansLaw:
    """Gaussian noise of deviation `sigma` on a sum that one unit moves by at most `sensitivities[j]` (l2) with
    probability `weights[j]`, and not at all with what is missing to 1. add_remove and zero_out. Choquette-Choo et al.
    2024.

    A `Group` of k units that come or go together, over a `PoissonSampled` Gaussian, reads as the mixture of 1 to k with
    the weights of Bin(k, rate).

    >>> step = dpl.planning.MixtureOfGaussiansLaw(sigma=8, sensitivities=(1, 2), weights=("0.0198", "0.0001"))
    >>> round(dpl.compose((step, 200)).epsilon("1e-6").upper, 4)
    0.1335
    """

    sigma: Noise
    sensitivities: Exacts
    weights: Exacts
    kind: Literal["mixture_of_gaussians"] = tag(default="mixture_of_gaussians")

    @field_validator("sensitivities")
    @classmethod
    def _rise(cls, found: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
        if not 1 <= len(found) <= MOST_SHIFTS:
            raise ValueError(f"1 to {MOST_SHIFTS} sensitivities")
        if not (found[0] > 0 and all(left < right for left, right in itertools.pairwise(found))):
            raise ValueError("sensitivities above 0 that rise (what moves nothing has no weight of its own)")
        return found

    @field_validator("weights")
    @classmethod
    def _add_up(cls, weights: tuple[Decimal, ...], info: ValidationInfo) -> tuple[Decimal, ...]:
        if len(weights) != len(info.data.get("sensitivities", weights)):
            raise ValueError("as many probabilities as sensitivities")
        if not (min(weights) > 0 and total(weights) <= 1):
            raise ValueError("probabilities above 0 that add up to at most 1")
        return weights


@record
class TruncatedSampledGaussianLaw:
    """Gaussian noise on a Poisson sample at `rate` of `population` units, of which a random subset of `batch` is kept
    where it has more. `noise_multiplier`: as of `GaussianLaw`. An upper bound. Ganesh 2025, arXiv 2508.15089.

    Under add_remove `population` counts the units of the larger of two neighbours; else it is public.

    >>> step = dpl.planning.TruncatedSampledGaussianLaw(noise_multiplier=1, rate="0.01", population=1000, batch=30)
    >>> round(dpl.compose((step, 100)).epsilon("1e-6").upper, 3)
    1.244
    """

    noise_multiplier: Noise
    rate: Rate
    population: Count
    batch: Count
    kind: Literal["truncated_sampled_gaussian"] = tag(default="truncated_sampled_gaussian")


@record
class GaussianWithReplacementLaw:
    """Gaussian noise on `draws` records drawn one by one from a public number of units, `population`, each of them the
    same whatever was drawn before: a unit may be in a batch several times. `noise_multiplier`: as of `GaussianLaw`. An
    upper bound, under replace_one and zero_out. Balle-Barthe-Gaboardi 2018, Theorem 10.

    >>> step = dpl.planning.GaussianWithReplacementLaw(noise_multiplier=4, population=1000, draws=10)
    >>> round(dpl.compose((step, 100), relation="replace_one").epsilon("1e-6").upper, 2)
    0.37
    """

    noise_multiplier: Noise
    population: Count
    draws: Count
    kind: Literal["gaussian_with_replacement"] = tag(default="gaussian_with_replacement")

    @field_validator("population")
    @classmethod
    def _may_miss_a_unit(cls, population: int) -> int:
        if population < 2:
            raise ValueError("at least 2 units")
        return population
