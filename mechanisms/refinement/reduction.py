"""Noise reduction: one statistic with ever less noise, all of one chain, until what is made of it is good enough.

The driver of accuracy first for a statistic and an error of the caller's own: a hypothesis is whatever `error` makes of
a published level, with the statistic's sensitivity declared and the error's. `AccuracyFirst` proves its own. Up to
level t the chain costs that level alone, where `Doubling` pays for all of its answers.

>>> from dpledger.mechanisms.entropy import seeded
>>> near = Judged(1234.0, lambda published: abs(published - 1234.0))
>>> search = NoiseReduction(least="0.01", most="1.28", levels=8, accepts=20, check_epsilon=2)
>>> found = search.release(near, entropy=seeded(1))
>>> found.value.accepted, found.value.level, found.value.epsilon
(True, 4, Decimal('0.08'))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.composition import Composition, Sequence
from dpledger.accounting.ex_post.boundaries import TimeUniformBoundary
from dpledger.accounting.guarantees import ZCDP, ApproxDP, Failure, PureDP
from dpledger.decimals import text
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.grid import (
    TotalMap,
    check_map,
    check_number,
    check_vector,
    to_steps,
    vector_to_steps,
)
from dpledger.mechanisms.numeric.one_shot import ShortText, Vouched
from dpledger.mechanisms.protocol import UNSAID, Release, check_declared
from dpledger.mechanisms.refinement.doubling import Judged, error_of, named
from dpledger.mechanisms.refinement.levels import ChainNoise, Levels
from dpledger.mechanisms.refinement.run import Answer
from dpledger.mechanisms.threshold.run import Outcome
from dpledger.mechanisms.threshold.sparse_vector import SparseVector
from dpledger.number_fields import OptionalPositive, Positive, Signed, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["NoiseReduction", "Reduced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """The end of a search. `value`: the last answer, of this `level`, from 1. `accepted`: whether its check passed;
    else no level was left. `epsilon`: of the level, infinite for Gaussian noise without a boundary; `mu`: of Gaussian
    noise."""

    value: Answer
    accepted: bool
    level: int
    epsilon: Decimal
    mu: Decimal | None


@record
class NoiseReduction(Vouched):
    """Answer with ever less noise, from level `least` to level `most` in equal ratios, until a noisy check accepts.
    Ligett-Neel-Roth-Waggoner-Wu 2017; Whitehouse-Ramdas-Wu-Rogers 2022.

    `levels`: how many there are: epsilons of Laplace noise, or of Gaussian `noise` mus, which have a rho, or by a
    `boundary` an epsilon and a delta. `sensitivity`: how far one unit moves the statistic, in the l1 norm for Laplace
    noise and in the l2 norm for Gaussian, `error_sensitivity`: how far it moves the error of any fixed answer, both
    under the relation (the caller vouches for them; `justification` says why, in one line). `dimension`: 1 for a
    number, else the length of the vector. `accepts`: an answer is accepted if its error is below that, up to noise; an
    error that is no number is above. `check_epsilon`: of all tests together; what was not started comes back. `share`:
    of it, what the threshold gets; None: the best. `grid`, `bound`, `missing`: as of `GradualRelease`.
    """

    least: Positive
    most: Positive
    levels: Annotated[Whole, Field(strict=True, ge=2, le=10**5)]
    accepts: Signed
    check_epsilon: Positive
    noise: ChainNoise = given(default="laplace")
    boundary: TimeUniformBoundary | None = given(default=None)
    share: OptionalPositive = given(default=None)
    sensitivity: Positive = given(default=1)
    error_sensitivity: Positive = given(default=1)
    dimension: Annotated[Whole, Field(strict=True, ge=1, lt=2**31)] = given(default=1)
    grid: OptionalPositive = given(default=None)
    bound: Positive = given(default=2**53)
    missing: Signed = given(default=0)
    justification: ShortText = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["noise_reduction"] = tag(default="noise_reduction")

    def __post_init__(self) -> None:
        walk = self._walk
        with named("most", self.most):
            plan, _ = walk.plan, walk.law(self.levels)
        check_map(plan.grid, self.bound, self.missing)
        with named("least", self.least):
            walk.require_noise()
        if self.share is not None and not self.share < 1:
            raise ParameterError("share", text(self.share), "a part of check_epsilon, in (0, 1)")
        with named("check_epsilon", self.check_epsilon):
            self._tests()
        with named("most", self.most):
            self.claim()

    def under(self, relation: Relation, unit: Unit) -> Self:
        """As `Vouched.under`, for both sensitivities."""
        placed = Vouched.under(self, relation, unit)  # the decorator makes another class, which super() does not know
        check_declared(self.error_sensitivity, self.justification, unit)
        return placed

    def claim(self) -> PureDP | ApproxDP | ZCDP:
        """The tests and the finest level."""
        return self._walk.claim(self._tests().parts(), self.levels)

    def parts(self) -> Composition:
        """The tests beside one chain."""
        return Sequence((self._tests().parts(), self._walk.chain(self.levels)))

    def failures(self) -> tuple[Failure, ...]:
        """That of the boundary."""
        return self._walk.failures()

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the grid as it is used and those of the tests."""
        values = {
            "least": self.least,
            "most": self.most,
            "levels": self.levels,
            "accepts": self.accepts,
            "noise": self.noise,
            "boundary": self.boundary,
            "share": self.share,
            "checks": self._tests().parameters(),
            "sensitivity": self.sensitivity,
            "error_sensitivity": self.error_sensitivity,
            "dimension": self.dimension,
            "grid": self._walk.plan.grid,
            "bound": self.bound,
            "missing": self.missing,
            "justification": self.justification,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are a `Judged` of one number or, where the dimension is above 1, of a vector."""
        if not isinstance(data, Judged):
            raise ParameterError("data", type(data).__name__, "Judged(value, error)")
        if self.dimension == 1:
            check_number(data.value)
        else:
            check_vector(data.value, self.dimension)

    def release(self, data: Judged, *, entropy: Entropy) -> Release[Reduced]:
        """The first answer that is accepted, or the finest. ContractViolation if the error of an answer raises or is no
        number: what that tells of the data is not covered, and the full plan is charged."""
        self.inspect(data)
        walk, tests = self._walk, self._tests().open(None, entropy=entropy)
        answers = walk.published(self.levels, self._steps(data.value), why=self.justification, entropy=entropy)
        k, accepted = 0, False
        while k < self.levels and not accepted:
            k += 1
            published = answers(k)
            value: Answer = float(published[0]) if self.dimension == 1 else published
            accepted = tests.ask(error_of(data, value)) is Outcome.BELOW
        mu = walk.number(k) if walk.measure == "mu" else None
        found = Reduced(value=value, accepted=accepted, level=k, epsilon=walk.epsilon(k), mu=mu)
        return Release(value=found, parts=Sequence((tests.close().parts, walk.chain(self.levels, reached=k))))

    def _steps(self, value: object) -> npt.NDArray[Any]:
        how = TotalMap(grid=self._walk.plan.grid, bound=self.bound, missing=self.missing)
        if self.dimension == 1:
            return np.array([to_steps(value, how)])
        return vector_to_steps(value, how, self.dimension)

    @property
    def _walk(self) -> Levels:
        return Levels(
            noise=self.noise,
            least=self.least,
            most=self.most,
            count=self.levels,
            moved=self.sensitivity,
            entries=self.dimension,
            grid=self.grid,
            boundary=self.boundary,
            relation=self.relation or Relation.ADD_REMOVE,
        )

    def _tests(self) -> SparseVector:
        """What tests the errors: below the threshold is the one answer that is charged, and ends the search."""
        return SparseVector(
            epsilon=self.check_epsilon,
            cutoff=1,
            threshold=self.accepts,
            mode="single_threshold",
            max_queries=self.levels,
            share=self.share,
            sensitivity=self.error_sensitivity,
            justification=self.justification,
            missing="above",
        )

    def _automatic(self) -> dict[str, Any]:
        return {"grid": self._walk.plan.grid}
