"""The levels of a chain that a search walks through, from coarse to fine: numbers in equal ratios, and their noise.

A level is an epsilon of Laplace noise or a mu of Gaussian noise. Whoever reads them says how far one unit moves the
statistic, in the l1 norm for the one and in the l2 norm for the other; what is published up to a level costs what that
level costs (docs/proofs/filters.md, "Chains").

>>> walk = Levels(noise="laplace", least=Decimal("0.1"), most=Decimal(10), count=3, moved=Decimal(1), entries=1)
>>> [walk.number(k) for k in (1, 2, 3)], walk.chain(2).of
([Decimal('0.1'), Decimal('1'), Decimal('10')], LaplaceLaw(epsilon=Decimal('1'), kind='laplace'))
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, TypeAlias, assert_never

import numpy.typing as npt

from dpledger.accounting.arithmetic import outward, scalars
from dpledger.accounting.chains import Chain, ChainLaw
from dpledger.accounting.composition import Composition, LaplaceLaw, Sequence
from dpledger.accounting.ex_post.boundaries import TimeUniformBoundary
from dpledger.accounting.guarantees import ZCDP, ApproxDP, Failure, PrivacyFailure, PureDP
from dpledger.accounting.pricing.costs import cost
from dpledger.decimals import INFINITY, multiply, round_up
from dpledger.errors import ParameterError
from dpledger.mechanisms import noise as drawing
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import Sensitivity
from dpledger.mechanisms.numeric.gaussian import gaussian_leaf
from dpledger.mechanisms.numeric.grid import Floats, to_floats
from dpledger.mechanisms.numeric.one_shot import derived
from dpledger.mechanisms.refinement.gaussian import GaussianPlan, averages, gaussian_plan, noise_multiplier
from dpledger.mechanisms.refinement.laplace import LaplacePlan, laplace_plan
from dpledger.relations import Relation

__all__ = ["ChainNoise", "Levels", "level"]

ChainNoise: TypeAlias = Literal["laplace", "gaussian"]

_APART = 1e-9  # two levels in a row, relative: far more than 12 digits lose


@dataclass(frozen=True, kw_only=True)
class Levels:
    """Levels 1 to `count`, from `least` to `most`. `moved`: how far one unit moves the statistic, in the norm of the
    noise, under `relation`; `entries`: of the statistic. `grid`: the step of what is published, by default that of the
    plan. `boundary`: of Gaussian noise, gives levels an epsilon, and the chain a delta. `suffix`: of "least" and "most"
    in errors."""

    noise: ChainNoise
    least: Decimal
    most: Decimal
    count: int
    moved: Decimal
    entries: int
    grid: Decimal | None = None
    boundary: TimeUniformBoundary | None = None
    relation: Relation = Relation.ADD_REMOVE
    suffix: str = ""

    def __post_init__(self) -> None:
        least, most = Fraction(self.least), Fraction(self.most)
        if not least < most:
            raise ParameterError(
                f"most{self.suffix}", str(self.most), f"a number above least{self.suffix}, {self.least}"
            )
        if scalars.log1p(float((most - least) / least)) < _APART * (self.count - 1):
            expected = f"fewer levels between {self.least} and {self.most}: each at least a billionth above the last"
            raise ParameterError("levels", self.count, expected)
        if self.boundary is not None and self.noise != "gaussian":
            raise ParameterError("boundary", self.boundary.kind, "None: only Gaussian noise has one")

    @property
    def measure(self) -> Literal["epsilon", "mu"]:
        """What the number of a level is."""
        return "epsilon" if self.noise == "laplace" else "mu"

    @cached_property
    def plan(self) -> LaplacePlan | GaussianPlan:
        """How levels are made; `sensitivity`: of the statistic on its grid."""
        match self.noise:
            case "laplace":
                return laplace_plan(self.most, self.moved, self.entries, False, self.grid)
            case "gaussian":
                return gaussian_plan(self.most, self.moved, self.entries, self.grid)
            case _:
                assert_never(self.noise)

    def require_noise(self) -> None:
        """ParameterError unless every level has noise that can be drawn, whatever was published before it. The largest
        is that of the first one; or, of Gaussian noise, what the second one adds, where levels are close: those after
        it add more precision, up to rounding."""
        match self.plan:
            case LaplacePlan() as plan:
                plan.noise(self.least)
            case GaussianPlan() as plan:
                first = plan.step(self.least, Fraction(0))
                second = plan.step(self.number(2), 1 / Fraction(first.sigma) ** 2)
                derived(multiply(second.sigma, 2), mu=self.least)
            case _:
                assert_never(self.plan)

    def number(self, k: int) -> Decimal:
        """Of level k, from 1."""
        return level(self.least, self.most, self.count, k)

    def upto(self, enough: Decimal) -> int:
        """The first level whose number is `enough`, else the last."""
        return 1 + bisect.bisect_left(range(1, self.count), enough, key=self.number)

    def law(self, k: int) -> ChainLaw:
        """Of level k, as a chain names it."""
        match self.noise:
            case "laplace":
                return LaplaceLaw(self.number(k))
            case "gaussian":
                return gaussian_leaf(noise_multiplier(self.number(k)), self.relation)
            case _:
                assert_never(self.noise)

    def chain(self, kept: int, reached: int | None = None) -> Chain:
        """The first `kept` levels, of which those up to `reached` were published."""
        ran = None if reached is None else self.law(reached)
        return Chain(self.law(kept), reached=ran, boundary=self.boundary)

    def epsilon(self, k: int) -> Decimal:
        """What the chain up to level k costs as an epsilon, beside the boundary's delta: infinite without one."""
        pure = cost(self.chain(k), self.relation).pure
        return INFINITY if pure is None else pure

    def claim(self, check: Composition, kept: int) -> PureDP | ApproxDP | ZCDP:
        """What tests and the first `kept` levels guarantee together: rho of Gaussian noise without a boundary."""
        price = cost(Sequence((check, self.chain(kept))), self.relation)
        if price.pure is None:
            assert price.rho is not None, "tests and Gaussian noise both have a rho"
            return ZCDP(price.rho)
        return PureDP(price.pure) if self.boundary is None else ApproxDP(price.pure, price.delta)

    def failures(self) -> tuple[Failure, ...]:
        """That of the boundary."""
        return () if self.boundary is None else (PrivacyFailure(self.boundary.delta, "time_uniform_boundary"),)

    def published(self, kept: int, steps: npt.NDArray[Any], *, why: str, entropy: Entropy) -> Callable[[int], Floats]:
        """What levels are answered with, one after another, for a statistic in steps of the plan's grid."""
        plan = self.plan
        match plan:
            case LaplacePlan():
                moved = Sensitivity(plan.sensitivity, "l1", why)
                chain = drawing.chain(plan.noise(self.number(kept)), steps, sensitivity=moved, entropy=entropy)
                return lambda k: to_floats(chain.refine(plan.noise(self.number(k)).scale), plan.grid)
            case GaussianPlan():
                mean_at = averages(plan, steps, why, entropy)
                return lambda k: mean_at(self.number(k))
            case _:
                assert_never(plan)


def level(least: Decimal, most: Decimal, levels: int, k: int) -> Decimal:
    """The number of level k of 1..levels: least (most / least)^((k-1)/(levels-1)), to 12 digits; the same on every
    machine."""
    if not 1 <= k <= levels:
        raise ParameterError("k", k, f"a level from 1 to {levels}")
    if k in (1, levels):
        return least if k == 1 else most
    with localcontext(outward.context()):
        ratio = outward.ln(most / least)
        return round_up(least * outward.exp(ratio * (k - 1) / (levels - 1)))
