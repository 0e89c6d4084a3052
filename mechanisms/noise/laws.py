"""The primitive noise laws, as inert data: what can be drawn, and how far what `draw` adds reaches.

Each law lives on a grid of step `grid`, and its values are whole numbers of steps. A *rounded* law is the law of an
ideal continuous variable rounded to the nearest step, so a release is a post-processing of the continuous mechanism;
a *discrete* law is a law on the integers.

>>> RoundedLaplace(scale=10, grid="0.0078125").grid
Decimal('0.0078125')
>>> half_width(DiscreteLaplace(scale=1), "0.95")
3
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Annotated, Literal, TypeAlias, assert_never

from pydantic import Field, StringConstraints

from dpledger.decimals import Number, exact, read, subtract
from dpledger.errors import ParameterError
from dpledger.number_fields import Positive, Whole
from dpledger.schema import record, tag

__all__ = [
    "AnyLaw",
    "Bernoulli",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExpMinus",
    "ExponentialWeights",
    "Law",
    "PermuteAndFlipChoice",
    "RandomizedAnswer",
    "Refinement",
    "RoundedGaussian",
    "RoundedLaplace",
    "Sensitivity",
    "Uniform",
    "Weighted",
    "half_width",
    "rational",
    "steps_per_scale",
]

_ONE = Decimal(1)
_SLACK = 1 + 2.0**-40  # covers the rounding of the float logarithms, roots and quantiles below


@record
class DiscreteLaplace:
    """Integers k with P(k) proportional to exp(-|k| / scale). Inusah-Kozubowski 2006."""

    scale: Positive
    kind: Literal["discrete_laplace"] = tag(default="discrete_laplace")

    @property
    def grid(self) -> Decimal:
        """The step: one."""
        return _ONE


@record
class DiscreteGaussian:
    """Integers k with P(k) proportional to exp(-k^2 / (2 sigma^2)). Canonne-Kamath-Steinke 2020, definition 1."""

    sigma: Positive
    kind: Literal["discrete_gaussian"] = tag(default="discrete_gaussian")

    @property
    def grid(self) -> Decimal:
        """The step: one."""
        return _ONE


@record
class RoundedLaplace:
    """Whole numbers of steps: a continuous Laplace variable of this scale, divided by `grid` and rounded to nearest."""

    scale: Positive
    grid: Positive
    kind: Literal["rounded_laplace"] = tag(default="rounded_laplace")


@record
class RoundedGaussian:
    """Whole numbers of steps: a normal variable of deviation sigma, divided by `grid` and rounded to nearest."""

    sigma: Positive
    grid: Positive
    kind: Literal["rounded_gaussian"] = tag(default="rounded_gaussian")


Law: TypeAlias = DiscreteLaplace | DiscreteGaussian | RoundedLaplace | RoundedGaussian
"""The closed union of noise laws; told apart by `kind`."""


@record
class Bernoulli:
    """A coin, or independent ones of one probability. What is passed is the probability."""

    kind: Literal["bernoulli"] = tag(default="bernoulli")


@dataclass(frozen=True, slots=True)
class ExpMinus:
    """The probability e^-exponent, for an exact number of at least 0: a decimal, or any fraction."""

    exponent: Number

    def __post_init__(self) -> None:
        if rational(self.exponent, field="exponent") < 0:
            raise ParameterError("exponent", self.exponent, "a number that is not negative")


def rational(value: Number, *, field: str) -> Fraction:
    """The number that `value` says, exactly. Raises ParameterError for what is no number or not finite."""
    if type(value) is Fraction:
        return value
    number = exact(value, field=field)
    if not number.is_finite():
        raise ParameterError(field, value, "a finite number")
    return Fraction(number)


@record
class ExponentialWeights:
    """One of many candidates, each with probability proportional to e^(exponent score). McSherry-Talwar 2007.

    `exponent`: of one step of score; `exponent_for` says which is epsilon-DP."""

    exponent: Positive
    kind: Literal["exponential_weights"] = tag(default="exponential_weights")


@record
class PermuteAndFlipChoice:
    """The candidate whose score plus an exponential variate of mean 1 / exponent is the greatest. McKenna-Sheldon 2020,
    Ding et al. 2021."""

    exponent: Positive
    kind: Literal["permute_and_flip"] = tag(default="permute_and_flip")


@record
class RandomizedAnswer:
    """One of the answers 0 to k - 1: the true one with odds e^epsilon to 1 against each other one. Warner 1965."""

    epsilon: Positive
    k: Annotated[Whole, Field(strict=True, ge=2, le=2**32)]
    kind: Literal["randomized_response"] = tag(default="randomized_response")


@record
class Uniform:
    """One of the whole numbers 0 to k - 1, each as likely, whatever the data are. What is passed is k."""

    k: Annotated[Whole, Field(strict=True, ge=1, le=2**64)]
    kind: Literal["uniform"] = tag(default="uniform")


Weighted: TypeAlias = ExponentialWeights | PermuteAndFlipChoice
"""The closed union of laws that choose by scores."""


@record
class Refinement:
    """A level of a chain that may go on to `finest`: the noise of the finest level, coarsened to this scale. As a law
    of its own it is that of `finest` at this scale; what ties it to the other levels is in `chain`."""

    finest: RoundedLaplace | DiscreteLaplace
    scale: Positive
    kind: Literal["refinement"] = tag(default="refinement")


AnyLaw: TypeAlias = Law | Bernoulli | Uniform | Weighted | RandomizedAnswer | Refinement
"""The closed union of everything that is drawn, and that the log holds."""


@record
class Sensitivity:
    """How far one unit moves what is passed to `draw`, in the units of the law's scale (a step counts `grid`).

    `norm`: in which norm over the entries. `justification`: one line that says why, for whoever reads the record.
    """

    value: Positive
    norm: Literal["l1", "l2", "linf"]
    justification: Annotated[str, StringConstraints(min_length=1, max_length=500)]


def steps_per_scale(law: Law) -> Fraction:
    """The scale (or sigma) in steps of the grid, exactly."""
    match law:
        case DiscreteLaplace(scale=scale):
            return Fraction(scale)
        case DiscreteGaussian(sigma=sigma):
            return Fraction(sigma)
        case RoundedLaplace(scale=scale, grid=grid):
            return Fraction(scale) / Fraction(grid)
        case RoundedGaussian(sigma=sigma, grid=grid):
            return Fraction(sigma) / Fraction(grid)
        case _:
            assert_never(law)


def half_width(law: Law, confidence: Number, entries: int = 1) -> int:
    """Steps h such that the noise is within -h..h with at least the probability `confidence`, in (0, 1); that of so
    many independent `entries` at once.

    Claim: P(|noise| <= h) >= confidence^(1/entries). It bounds accuracy, never privacy.
    Source: exponential tails (Laplace: P(|X| > t) = exp(-t/scale); discrete: 2 q^(h+1)/(1+q), q = exp(-1/scale));
    normal quantile; Canonne-Kamath-Steinke 2020, proposition 25 (the discrete tail at h + 1 is at most the
    normal one at h).
    """
    level = read(confidence, field="confidence")
    if not 0 < level < 1:
        raise ParameterError("confidence", confidence, "a number in (0, 1)")
    return _half_width(law, level, entries)


@lru_cache(maxsize=256)  # the same of each entry of a table
def _half_width(law: Law, level: Decimal, entries: int) -> int:
    miss = _missed(level, entries)
    steps = float(steps_per_scale(law)) * _SLACK
    match law:
        case DiscreteLaplace():
            least = steps * (math.log(2 / miss) - math.log1p(math.exp(-1 / steps))) * _SLACK - 1
            return max(0, math.ceil(least + 2.0**-30))
        case RoundedLaplace():
            return math.ceil(steps * -math.log(miss) * _SLACK + 0.5)
        case RoundedGaussian():
            return math.ceil(steps * -NormalDist().inv_cdf(miss / 2) * _SLACK + 0.5)
        case DiscreteGaussian():
            return math.ceil(steps * -NormalDist().inv_cdf(miss / 2) * _SLACK)
        case _:
            assert_never(law)


def _missed(level: Decimal, entries: int) -> float:
    """1 - level^(1/entries), from below."""
    miss = float(subtract(_ONE, level))
    if entries == 1:
        return miss
    kept = math.log1p(-miss) if miss < 0.5 else math.log(float(level))
    return -math.expm1(kept / entries) / _SLACK
