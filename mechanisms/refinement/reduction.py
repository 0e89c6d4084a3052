"""Noise reduction: one statistic with ever less noise, all of one chain, until what is made of it is good enough.

The driver of accuracy first for a statistic and an error of the caller's own: a hypothesis is whatever `error` makes of
a published level, with the statistic's sensitivity declared and the error's. `AccuracyFirst` proves its own. Up to
level t the chain costs that level alone, where `Doubling` pays for all of its answers.

>>> from dpledger.mechanisms.entropy import seeded
>>> near = Judged(1234.0, lambda published: abs(published - 1234.0))
>>> search = NoiseReduction(
...     least="0.01", most="1.28", levels=8, accepts=20, check_epsilon=2, sensitivity=1, error_sensitivity=1
... )
>>> found = search.release(near, entropy=seeded(1))
>>> found.value.accepted, found.value.level, found.value.epsilon
(True, 4, Decimal('0.08'))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from dpledger.accounting.composition import Composition, Sequence
from dpledger.accounting.ex_post.boundaries import TimeUniformBoundary
from dpledger.accounting.guarantees import ZCDP, ApproxDP, Failure, PureDP
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.one_shot import ShortText
from dpledger.mechanisms.protocol import UNSAID, Release
from dpledger.mechanisms.refinement.gradual_run import Answer
from dpledger.mechanisms.refinement.judged import Judged, Search, error_of, named
from dpledger.mechanisms.refinement.levels import ChainNoise, Levels
from dpledger.mechanisms.threshold.sparse_vector import SparseVector
from dpledger.mechanisms.threshold.threshold_run import Outcome
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
class NoiseReduction(Search):
    """Answer with ever less noise, from level `least` to level `most` in equal ratios, until a noisy check accepts.
    Ligett-Neel-Roth-Waggoner-Wu 2017; Whitehouse-Ramdas-Wu-Rogers 2022.

    `levels`: how many there are: epsilons of Laplace noise, or of Gaussian `noise` mus, which have a rho, or by a
    `boundary` an epsilon and a delta. `sensitivity`: how far one unit moves the statistic, in the l1 norm for Laplace
    noise and in the l2 norm for Gaussian, `error_sensitivity`: how far it moves the error of any fixed answer, both
    under the relation (the caller vouches for them; `justification` says why, in one line). `dimension`: 1 for a
    number, else the length of the vector. `accepts`: an answer is accepted if its error is below that, up to noise; an
    error that is no number is above. `check_epsilon`: of all tests together; what was not started comes back. `share`:
    of it, what the threshold gets; None: the best. `grid`, `bound`, `missing`: as of `GradualRelease`.
    The value is a `Reduced`: the last answer (a float, or float64[dimension], of any sign), whether it was accepted,
    its level and that level's epsilon or mu.

    >>> search = dpl.ex_post.NoiseReduction(
    ...     least="0.01", most="1.28", levels=8, sensitivity=1, error_sensitivity=1, accepts=20, check_epsilon=2
    ... )
    >>> search.claim()
    PureDP(epsilon=Decimal('3.28'), kind='pure_dp')
    """

    least: Positive
    most: Positive
    levels: Annotated[Whole, Field(strict=True, ge=2, le=10**5)]
    accepts: Signed
    check_epsilon: Positive
    sensitivity: Positive
    error_sensitivity: Positive
    noise: ChainNoise = given(default="laplace")
    boundary: TimeUniformBoundary | None = given(default=None)
    share: OptionalPositive = given(default=None)
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
            _ = walk.plan, walk.law(self.levels)
        with named("least", self.least):
            walk.require_noise()
        self._require_checks()
        with named("most", self.most):
            self.claim()

    def claim(self) -> PureDP | ApproxDP | ZCDP:
        """The tests and the finest level."""
        return self._walk.claim(self._checks().parts(), self.levels)

    def parts(self) -> Composition:
        """The tests beside one chain."""
        return Sequence((self._checks().parts(), self._walk.chain(self.levels)))

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
            **self._stated(),
        }
        result: dict[str, Plain] = plain(values)
        return result

    def release(self, data: Judged, *, entropy: Entropy) -> Release[Reduced]:
        """The first answer that is accepted, or the finest. ContractViolation if the error of an answer raises or is no
        number: what that tells of the data is not covered, and the full plan is charged."""
        self.inspect(data)
        walk, tests = self._walk, self._checks().open(None, entropy=entropy)
        answers = walk.published(self.levels, self._steps(data.value), why=self.justification, entropy=entropy)
        k, accepted = 0, False
        while k < self.levels and not accepted:
            k += 1
            value = self._answer(answers(k))
            accepted = tests.ask(error_of(data, value)) is Outcome.BELOW
        mu = walk.number(k) if walk.measure == "mu" else None
        found = Reduced(value=value, accepted=accepted, level=k, epsilon=walk.epsilon(k), mu=mu)
        return Release(value=found, parts=Sequence((tests.close().parts, walk.chain(self.levels, reached=k))))

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

    @property
    def _grid(self) -> Decimal:
        return self._walk.plan.grid

    def _checks(self) -> SparseVector:
        return self._tests(self.levels)
