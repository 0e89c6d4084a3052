"""A number or a vector, answered ever more precisely with Gaussian noise: a Brownian path, read backwards.

What is published at each level is an independent rounded Gaussian around the statistic, and the answer is the mean of
all of them, weighted by their precisions. Their precisions add up to that of the level, so all answers together are as
revealing as one Gaussian of the last level's variance, whatever made the analyst stop there.

>>> from dpledger.mechanisms.entropy import seeded
>>> run = GradualGaussian(mu=2, sensitivity=1).open(1234, entropy=seeded(2))
>>> [round(run.ask(mu)) for mu in ("0.05", "0.1", "0.5")]
[1216, 1231, 1234]
>>> run.close().parts.reached
GaussianLaw(noise_multiplier=Decimal('2'), kind='gaussian')
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.chains import Chain
from dpledger.accounting.composition import GaussianLaw
from dpledger.accounting.ex_post.boundaries import TimeUniformBoundary
from dpledger.accounting.guarantees import GDP, ApproxDP, Failure, PrivacyFailure
from dpledger.accounting.pricing.costs import cost
from dpledger.decimals import Number, round_up
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import RoundedGaussian, Sensitivity, draw, half_width
from dpledger.mechanisms.numeric.gaussian import gaussian_leaf
from dpledger.mechanisms.numeric.grid import check_map, default_grid, on_grid, to_floats
from dpledger.mechanisms.numeric.one_shot import ShortText, derived
from dpledger.mechanisms.protocol import UNSAID
from dpledger.mechanisms.refinement.gradual_run import Answer, GradualStatistic
from dpledger.number_fields import OptionalPositive, Positive, Signed, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["GaussianPlan", "GradualGaussian", "averages", "gaussian_plan", "noise_multiplier"]

_ROUNDED_UP = Fraction(1) + Fraction(1, 10**10)  # more than the digits of a noise multiplier and of the sigmas lose


@record
class GradualGaussian(GradualStatistic):
    """Answer with one statistic again and again, each time with less Gaussian noise: `ask(mu)`, `mu` rising.
    Whitehouse-Ramdas-Wu-Rogers 2022.

    `mu`: the cap, of the finest level that may be asked for; a level costs mu-GDP, mu^2/2 of zCDP, under every stopping
    rule. `sensitivity`: how far one unit moves the statistic in the l2 norm, under the relation (the caller vouches for
    it; `justification` says why, in one line). `boundary`: a curve in time, fixed now, that gives it an epsilon and a
    delta in place of mu. `dimension`: 1 for a number, else the length of the vector. `grid`: the step of what is
    published, a power of two; default: the largest that costs at most 0.1 % of the noise. An entry beyond `bound`
    counts as the bound and what is no number as `missing`; no value raises. What is no number, or no vector of this
    length, is refused.
    An answer is a float, or float64[dimension]; any entry may be negative.

    >>> from dpledger.mechanisms.entropy import seeded
    >>> run = dpl.ex_post.GradualGaussian(mu=1, sensitivity=1).open(1234, entropy=seeded(1))
    >>> [round(float(run.ask(mu))) for mu in ("0.1", "0.5", "1")]
    [1237, 1235, 1235]
    """

    measure: ClassVar[str] = "mu"

    mu: Positive
    sensitivity: Positive
    dimension: Annotated[Whole, Field(strict=True, ge=1, lt=2**31)] = given(default=1)
    boundary: TimeUniformBoundary | None = given(default=None)
    grid: OptionalPositive = given(default=None)
    bound: Positive = given(default=2**53)
    missing: Signed = given(default=0)
    justification: ShortText = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["gradual_gaussian"] = tag(default="gradual_gaussian")

    def __post_init__(self) -> None:
        check_map(self.grid_in_use, self.bound, self.missing)
        self._plan.noise(self.mu)
        self.claim()

    @property
    def _plan(self) -> GaussianPlan:
        return gaussian_plan(self.mu, self.sensitivity, self.dimension, self.grid)

    @property
    def grid_in_use(self) -> Decimal:
        """The step of what is published."""
        return self._plan.grid

    def claim(self) -> GDP | ApproxDP:
        """The cap: mu; with a boundary (epsilon, delta), v/2 + psi(v) at v = mu^2."""
        if self.boundary is None:
            return GDP(self.mu)
        price = cost(self.parts(), self.relation or Relation.ADD_REMOVE)
        assert price.pure is not None, "a chain with a boundary has a pure price"
        return ApproxDP(derived(price.pure, mu=self.mu), price.delta)

    def parts(self) -> Chain:
        """One chain of Gaussian noise."""
        return Chain(self._law(self.mu), boundary=self.boundary)

    def _law(self, level: Decimal) -> GaussianLaw:
        """The law of a level, as the chain names it; where no relation is fixed yet, add_remove is meant."""
        return gaussian_leaf(noise_multiplier(level), self.relation)

    def failures(self) -> tuple[Failure, ...]:
        """That of the boundary."""
        return () if self.boundary is None else (PrivacyFailure(self.boundary.delta, "time_uniform_boundary"),)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the grid as it is used and the deviation of the finest level."""
        values = {
            "mu": self.mu,
            "sensitivity": self.sensitivity,
            "dimension": self.dimension,
            "boundary": self.boundary,
            "sigma": self._plan.noise(self.mu).sigma,
            "grid": self.grid_in_use,
            "bound": self.bound,
            "missing": self.missing,
            "justification": self.justification,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def _answers(self, steps: npt.NDArray[Any], entropy: Entropy) -> Callable[[Decimal], Answer]:
        """The averages of the plan."""
        mean_at = averages(self._plan, steps, self.justification, entropy)

        def answer(mu: Decimal) -> Answer:
            mean = mean_at(mu)
            return float(mean[0]) if self.dimension == 1 else mean

        return answer

    def interval(self, mu: Number, confidence: Number) -> float:
        """The half-width around each entry of the answer at this level that holds its number (within the bound) with at
        least this probability; counts the rounding to the grid. Of one level that is chosen beforehand."""
        noise = self._plan.noise(self._level_asked(mu))
        wider = RoundedGaussian(sigma=round_up(Fraction(noise.sigma) * _ROUNDED_UP), grid=noise.grid)
        return float(to_floats(np.array([half_width(wider, confidence) + 1]), noise.grid)[0])

    def _automatic(self) -> dict[str, Any]:
        return {"grid": self.grid_in_use}


def averages(
    plan: GaussianPlan, steps: npt.NDArray[Any], justification: str, entropy: Entropy
) -> Callable[[Decimal], npt.NDArray[np.float64]]:
    """What levels mu that grow finer are answered with: the mean of what was published, weighted by precision.

    Claim: the precisions of what was published add up to at most that of the level, exactly: what counts as spent is
    rounded up."""
    moved = Sensitivity(plan.sensitivity, "l2", justification)
    mean: npt.NDArray[np.float64] = np.zeros(len(steps))
    spent = Fraction(0)

    def answer(mu: Decimal) -> npt.NDArray[np.float64]:
        nonlocal mean, spent
        noise = plan.step(mu, spent)
        published = to_floats(draw(noise, steps, sensitivity=moved, entropy=entropy), plan.grid)
        precision = 1 / Fraction(noise.sigma) ** 2
        spent = _shortened(spent + precision)
        mean = mean + float(precision / spent) * (published - mean)
        return mean.copy()

    return answer


def noise_multiplier(mu: Decimal) -> Decimal:
    """1/mu, rounded up."""
    return derived(round_up(1 / Fraction(mu)), mu=mu)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GaussianPlan:
    """What is used. `sensitivity` is that of the vector rounded to the grid."""

    sensitivity: Decimal
    grid: Decimal

    def noise(self, mu: Decimal) -> RoundedGaussian:
        """A Gaussian of the level's own variance: what all that was published is worth."""
        sigma = Fraction(noise_multiplier(mu)) * Fraction(self.sensitivity)
        return RoundedGaussian(sigma=derived(round_up(sigma), mu=mu), grid=self.grid)

    def step(self, mu: Decimal, spent: Fraction) -> RoundedGaussian:
        """The noise of what is published next, after precisions that add up to `spent`, below that of the level.

        Claim: spent + 1/sigma^2 <= 1/(noise multiplier * sensitivity)^2, exactly.
        Source: docs/proofs/ex_post.md, "Gradual releases"."""
        whole = 1 / (Fraction(noise_multiplier(mu)) * Fraction(self.sensitivity)) ** 2
        return RoundedGaussian(sigma=derived(round_up(_root_above(1 / (whole - spent))), mu=mu), grid=self.grid)


@functools.lru_cache(maxsize=512)
def gaussian_plan(mu: Decimal, sensitivity: Decimal, dimension: int, grid: Decimal | None) -> GaussianPlan:
    """Claim: entries that move by `sensitivity` in the l2 norm move by at most that of the plan once rounded. Source:
    docs/proofs/noise.md, section 5."""
    length, root = Fraction(sensitivity), _root_above(Fraction(dimension))
    if grid is None:
        grid = default_grid(mu=length / Fraction(mu), sensitivity=length / root)
    if dimension == 1:
        return GaussianPlan(sensitivity=on_grid(sensitivity, grid), grid=grid)
    moved = derived(round_up(length + Fraction(grid) * root), sensitivity=sensitivity)
    return GaussianPlan(sensitivity=moved, grid=grid)


def _root_above(number: Fraction) -> Fraction:
    """A rational number that is at least the square root, by less than 2^-60 of it."""
    product = number.numerator * number.denominator << 128
    return Fraction(math.isqrt(product - 1) + 1, number.denominator << 64)


def _shortened(number: Fraction) -> Fraction:
    """A rational number of few digits that is at least the positive `number`, by less than 2^-190 of it."""
    places = 192 - (number.numerator.bit_length() - number.denominator.bit_length())
    scaled = number * Fraction(2) ** places
    return -(-scaled.numerator // scaled.denominator) / Fraction(2) ** places
