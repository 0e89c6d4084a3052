"""Doubling: independent answers, each with twice the epsilon of the one before, until one is accurate enough.

The baseline of noise reduction. Every answer is paid for: up to round t, 2 eps_t - eps_1 for the answers, beside the
checks. A chain that stops at the same level pays for its last answer alone.

>>> from dpledger.mechanisms.entropy import seeded
>>> near = Judged(1234.0, lambda published: abs(published - 1234.0))
>>> search = Doubling(
...     first="0.01", rounds=8, accepts=20, check_epsilon=2, sensitivity=1, error_sensitivity=1
... )
>>> found = search.release(near, entropy=seeded(1))
>>> found.value.accepted, found.value.rounds, found.value.epsilon
(True, 3, Decimal('0.04'))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, assert_never

import numpy.typing as npt
from pydantic import Field

from dpledger.accounting.composition import Composition, LaplaceLaw, Repeated, Sequence
from dpledger.accounting.guarantees import PureDP
from dpledger.decimals import add, multiply, read, text, total
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import Sensitivity, draw
from dpledger.mechanisms.numeric import Laplace
from dpledger.mechanisms.numeric.grid import to_floats
from dpledger.mechanisms.numeric.one_shot import ShortText
from dpledger.mechanisms.protocol import UNSAID, Release
from dpledger.mechanisms.refinement.gradual_run import Answer
from dpledger.mechanisms.refinement.judged import Judged, Search, error_of, named
from dpledger.mechanisms.refinement.laplace import LaplacePlan, laplace_plan
from dpledger.mechanisms.threshold.sparse_vector import SparseVector
from dpledger.mechanisms.threshold.threshold_run import Outcome
from dpledger.number_fields import OptionalPositive, Positive, Signed, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["Doubled", "Doubling"]

_WORST = Decimal(2**53)  # the error that is no number counts as


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubled:
    """The end of a search. `value`: the last answer, of this `epsilon`, after so many `rounds`. `accepted`: whether its
    check passed; else no round was left."""

    value: Answer
    accepted: bool
    rounds: int
    epsilon: Decimal


@record
class Doubling(Search):
    """Answer with fresh Laplace noise of epsilon `first`, 2 `first`, 4 `first`, ..., until a noisy check accepts.
    Ligett-Neel-Roth-Waggoner-Wu 2017, section 4.

    `rounds`: at most so many. `sensitivity`: how far one unit moves the statistic in the l1 norm, `error_sensitivity`:
    how far it moves the error of any fixed answer, both under the relation (the caller vouches for them;
    `justification` says why, in one line). `dimension`: 1 for a number, else the length of the vector. `accepts`: an
    answer is accepted if its error is below that, up to noise; an error that is no number is above. `check`:
    "above_threshold" tests all rounds with one threshold, at `check_epsilon` in total, and what was not started comes
    back; "laplace" adds fresh noise at `check_epsilon` for each check, and the full plan stays charged: nothing in its
    record tells how many rounds were started. `share`: of `check_epsilon`, what the one threshold gets; None: the best.
    `grid`, `bound`, `missing`: as of `GradualRelease`.
    The value is a `Doubled`: the last answer (a float, or float64[dimension], of any sign), whether it was accepted,
    the number of rounds and the last one's epsilon.

    >>> search = dpl.ex_post.Doubling(
    ...     first="0.01", rounds=8, sensitivity=1, error_sensitivity=1, accepts=20, check_epsilon=2
    ... )
    >>> search.claim()
    PureDP(epsilon=Decimal('4.55'), kind='pure_dp')
    """

    first: Positive
    rounds: Annotated[Whole, Field(strict=True, ge=1, le=64)]
    accepts: Signed
    check_epsilon: Positive
    sensitivity: Positive
    error_sensitivity: Positive
    check: Literal["above_threshold", "laplace"] = given(default="above_threshold")
    share: OptionalPositive = given(default=None)
    dimension: Annotated[Whole, Field(strict=True, ge=1, lt=2**31)] = given(default=1)
    grid: OptionalPositive = given(default=None)
    bound: Positive = given(default=2**53)
    missing: Signed = given(default=0)
    justification: ShortText = given(default=UNSAID)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["doubling"] = tag(default="doubling")

    def __post_init__(self) -> None:
        with named("first", self.first):
            plan, levels = self._plan, self._levels()
            for epsilon in levels:
                plan.noise(epsilon)
        if self.share is not None and self.check == "laplace":
            raise ParameterError("share", text(self.share), "None: each check has noise of its own and no threshold")
        self._require_checks()
        self.claim()

    def _levels(self) -> tuple[Decimal, ...]:
        """The epsilon of each round."""
        return tuple(_doubled(self.first, times) for times in range(self.rounds))

    def claim(self) -> PureDP:
        """The checks and all answers together."""
        checked = self.check_epsilon
        if self.check == "laplace":
            checked = multiply(checked, self.rounds)
        return PureDP(read(add(checked, total(self._levels())), field="first"))

    def parts(self) -> Composition:
        """The checks, and then the answers in order."""
        answers = Sequence(tuple(map(LaplaceLaw, self._levels())))
        match self._checks():
            case SparseVector() as tests:
                return Sequence((tests.parts(), answers))
            case Laplace() as check:
                return Sequence((Repeated(check.parts(), times=self.rounds), answers))
            case other:
                assert_never(other)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the grid as it is used and those of the checks."""
        values = {
            "first": self.first,
            "rounds": self.rounds,
            "accepts": self.accepts,
            "check": self.check,
            **self._stated(),
        }
        result: dict[str, Plain] = plain(values)
        return result

    def release(self, data: Judged, *, entropy: Entropy) -> Release[Doubled]:
        """The first answer that is accepted, or the last. ContractViolation if the error of an answer raises or is no
        number: what that tells of the data is not covered, and the full plan is charged."""
        self.inspect(data)
        steps, checks = self._steps(data.value), self._checks()
        tests = checks.open(None, entropy=entropy) if isinstance(checks, SparseVector) else None
        accepted, done, value = False, 0, self._published(steps, self.first, entropy)
        while True:
            done, error = done + 1, error_of(data, value)
            if tests is not None:
                accepted = tests.ask(error) is Outcome.BELOW
            elif isinstance(checks, Laplace):
                accepted = Fraction(float(checks.release(error, entropy=entropy).value)) <= Fraction(self.accepts)
            if accepted or done == self.rounds:
                break
            value = self._published(steps, _doubled(self.first, done), entropy)
        found = Doubled(value=value, accepted=accepted, rounds=done, epsilon=_doubled(self.first, done - 1))
        return Release(value=found, parts=self._ran(done, tests.close().parts if tests is not None else None))

    def _ran(self, done: int, tests: Composition | None) -> Composition:
        """The parts, with how many rounds were started."""
        parts = self.parts()
        assert isinstance(parts, Sequence), "the checks and the answers"
        checks, answers = parts.of
        assert isinstance(answers, Sequence), "one for each round"
        if tests is None:
            assert isinstance(checks, Repeated), "one for each round"
            tests = replace(checks, done=done)
        return Sequence((tests, replace(answers, done=done)))

    def _published(self, steps: npt.NDArray[Any], epsilon: Decimal, entropy: Entropy) -> Answer:
        moved = Sensitivity(self._plan.sensitivity, "l1", self.justification)
        noisy = draw(self._plan.noise(epsilon), steps, sensitivity=moved, entropy=entropy)
        return self._answer(to_floats(noisy, self._plan.grid))

    @property
    def _plan(self) -> LaplacePlan:
        last = _doubled(self.first, self.rounds - 1)
        return laplace_plan(last, self.sensitivity, self.dimension, False, self.grid)

    @property
    def _grid(self) -> Decimal:
        return self._plan.grid

    def _checks(self) -> SparseVector | Laplace:
        match self.check:
            case "above_threshold":
                return self._tests(self.rounds)
            case "laplace":
                return Laplace(
                    epsilon=self.check_epsilon,
                    sensitivity=self.error_sensitivity,
                    justification=self.justification,
                    missing=_WORST,
                )
            case other:
                assert_never(other)


def _doubled(first: Decimal, times: int) -> Decimal:
    return read(multiply(first, 2**times), field="rounds")
