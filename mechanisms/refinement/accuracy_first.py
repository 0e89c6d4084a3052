"""Accuracy first: the cheapest of ever finer private hypotheses whose excess risk is shown to be small enough.

    a chain of hypotheses theta_1, theta_2, ..., each with less noise        (`erm`, `noise.chain`)
    AboveThreshold on -(L(theta_t) - min L): the first that passes is the answer

The chain costs what its last level costs, and the check at most its epsilon: what comes back is all that finer levels
would have taken. Ligett-Neel-Roth-Waggoner-Wu 2017, "Accuracy First"; the sensitivity of the excess risk is corrected
(docs/proofs/accuracy_first.md).

>>> from dpledger.mechanisms.entropy import seeded
>>> rng = np.random.default_rng(1)
>>> x = rng.uniform(-0.5, 0.5, (2000, 2))
>>> found = AccuracyFirst(target_excess_risk="0.05", family="ridge", rows=2000, dimension=2, regularisation="0.05")
>>> result = found.release((x, x @ [0.8, -0.6]), entropy=seeded(1))
>>> result.value.reached, result.value.epsilon < found.plan().most_epsilon
(True, True)
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, StringConstraints

from dpledger.accounting.composition import Chain, Composition, LaplaceLaw, Sequence, SparseVectorLaw
from dpledger.accounting.guarantees import AccuracyFailure, Failure, PureDP
from dpledger.decimals import Number, add, negative, read, round_up
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms import noise
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import RoundedLaplace, Sensitivity
from dpledger.mechanisms.numeric.grid import default_grid, on_grid, to_floats
from dpledger.mechanisms.protocol import Release, fixed
from dpledger.mechanisms.refinement.erm import Family, Problem, Radius, problem
from dpledger.mechanisms.refinement.examples import Shape, bounded, check_examples
from dpledger.mechanisms.refinement.planning import AccuracyPlan, Calibration, calibrated, level, theories
from dpledger.mechanisms.threshold.run import Outcome, SparseVectorRun, Thresholding
from dpledger.mechanisms.threshold.sparse_vector import SparseVector, thresholding
from dpledger.number_fields import OpenProbability, OptionalPositive, Positive, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["AccuracyFirst", "Hypothesis"]

_DIGITS = 6  # of what follows from doubles and is no bound: the same on every machine
_HALF = Decimal("0.5")
_ROUNDING = 64  # the statistic's own rounding to the grid is at most this part of its sensitivity
_FINE = 16  # the grid is at least so much finer than the finest noise
_COARSE = 2**28  # steps of the coarsest noise by default: float64 decides nearly all of its draws
_STEPS_OF_CHECK = 6  # of the query's grid: what rounding and discrete noise cost the check in accuracy, at most
_QUERY_WHY = "R/n for each row that a unit takes part with, R the largest loss in the ball; errors of solver, rounding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """What was found. `theta`: for features and labels that are divided by their bounds; empty where nothing was
    published. `reached`: whether it passed the check; else it is the finest one. `level`: its place, from 1; `epsilon`:
    of that level. `coefficients`: for features and labels as they are."""

    theta: tuple[float, ...]
    reached: bool
    level: int
    epsilon: Decimal
    feature_bound: Decimal
    label_bound: Decimal

    @property
    def coefficients(self) -> npt.NDArray[np.float64]:
        """theta * label_bound / feature_bound; of a logistic one the label bound is 1."""
        return np.array(self.theta) * (float(self.label_bound) / float(self.feature_bound))


@record
class AccuracyFirst:
    """A hypothesis whose excess risk is at most `target_excess_risk`, as privately as that allows.

    `family`: ridge (labels in [-label_bound, label_bound]) or logistic (labels above 0 against all others). `rows`,
    `dimension`: how many examples of how many features there are, public. Under add_remove, where their number is
    private, `rows` is what sums of losses are divided by, fixed beforehand and at best a little more than there are;
    a run on more than 16 times as many publishes nothing. `regularisation`: lambda, from 10^-6.
    `feature_bound`, `label_bound`: public; each row of features is divided by its bound and shrunk into the l1 ball of
    radius 1, each label clipped, and what is no number counts as 0. `target`: the label's column, where the data are
    one table; else they are a pair (features, labels). `beta`: the chance that a hypothesis that passes is worse than
    the target. `radius`: of the ball that hypotheses are projected on. `calibration`: how the check is set.
    `levels`: how many hypotheses there may be, of epsilons in equal ratios from `least_epsilon`
    (default: 1/rows, or the least whose noise is quick to draw) to `most_epsilon` (default: 4 times what the published
    utility theorem takes). `keep`: only the first so many of them are used. Data never raise."""

    target_excess_risk: Positive
    family: Family
    rows: Annotated[Whole, Field(strict=True, ge=2, le=2**26)]
    dimension: Annotated[Whole, Field(strict=True, ge=1, le=1000)]
    regularisation: Positive
    beta: OpenProbability = given(default="0.1")
    feature_bound: Positive = given(default=1)
    label_bound: Positive = given(default=1)
    target: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = given(default=None)
    radius: Radius = given(default="tight")
    calibration: Calibration = given(default="union")
    levels: Annotated[Whole, Field(strict=True, ge=2, le=10**5)] = given(default=100)
    least_epsilon: OptionalPositive = given(default=None)
    most_epsilon: OptionalPositive = given(default=None)
    keep: Annotated[Whole, Field(strict=True, ge=1, le=10**5)] | None = given(default=None)
    relation: Relation | None = given(default=None)
    unit: Unit | None = given(default=None)
    kind: Literal["accuracy_first"] = tag(default="accuracy_first")

    def __post_init__(self) -> None:
        if not Decimal("1e-6") <= self.regularisation <= 1:
            raise ParameterError("regularisation", str(self.regularisation), "a number from 10^-6 to 1")
        if self.family == "logistic" and self.label_bound != 1:
            raise ParameterError("label_bound", str(self.label_bound), "1: labels of a classification are signs")
        if self.keep is not None and self.keep > self.levels:
            raise ParameterError("keep", self.keep, f"at most levels = {self.levels}")
        _run_of(self)

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism for this relation and unit, its levels fixed. RelationError if it names others;
        ParameterError where a unit may have many rows."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        if own_unit.max_contributions > 1:
            expected = f"a unit with one row, or one row made of all of one {own_unit.name}"
            raise ParameterError("unit", f"{own_unit.name} with {own_unit.max_contributions} rows", expected)
        placed = dataclasses.replace(self, relation=own_relation, unit=own_unit)
        run = _run_of(placed)
        changes: dict[str, Any] = {
            "least_epsilon": run.least,
            "most_epsilon": run.most,
            "keep": run.kept,
        }
        return dataclasses.replace(placed, **changes)

    def within(self, left: Number) -> Self:
        """The same mechanism without the levels whose epsilon, with that of the check, is above `left`: what an account
        of the scope admits (`scope.account().left_by_account`). InfeasiblePlan where no level is left."""
        budget, run = read(left, field="left"), _run_of(self)
        fitting = sum(add(run.check.law.epsilon, run.epsilon(k)) <= budget for k in range(1, run.kept + 1))
        if not fitting:
            needed = add(run.check.law.epsilon, run.epsilon(1))
            raise InfeasiblePlan(
                f"the check and the coarsest level take {needed}, of {budget} that are left: a larger "
                "target_excess_risk or fewer levels take less"
            )
        changes: dict[str, Any] = {"least_epsilon": run.least, "most_epsilon": run.most, "keep": fitting}
        return dataclasses.replace(self, **changes)

    def claim(self) -> PureDP:
        """The check and the finest level."""
        return PureDP(_run_of(self).cap)

    def parts(self) -> Composition:
        """A sparse vector leaf beside a chain of Laplace levels."""
        run = _run_of(self)
        return Sequence((run.check.law, Chain(LaplaceLaw(run.finest))))

    def failures(self) -> tuple[Failure, ...]:
        """None of privacy: with chance beta the hypothesis is worse than it passed for."""
        said = "the excess risk, on the bounded rows, of a hypothesis that passed is at most target_excess_risk"
        return (AccuracyFailure(self.beta, said),)

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the sensitivities, the check and the levels that are used."""
        run = _run_of(self)
        values = {
            "target_excess_risk": self.target_excess_risk,
            "family": self.family,
            "rows": self.rows,
            "dimension": self.dimension,
            "regularisation": self.regularisation,
            "beta": self.beta,
            "feature_bound": self.feature_bound,
            "label_bound": self.label_bound,
            "bounded_by": "each row shrunk into the l1 ball of radius 1, each label clipped, in steps of 2^-18",
            "target": self.target,
            "radius": self.radius,
            "ball": round_up(run.problem.ball, digits=_DIGITS),
            "tolerance": round_up(run.problem.tolerance, digits=_DIGITS),
            "sensitivity": run.moved,
            "justification": run.problem.why,
            "query_sensitivity": run.query_moved,
            "query_justification": _QUERY_WHY,
            "grid": run.grid,
            "calibration": self.calibration,
            "slack": run.slack,
            "check_epsilon": run.check.law.epsilon,
            "levels": self.levels,
            "least_epsilon": run.least,
            "most_epsilon": run.most,
            "keep": run.kept,
        }
        result: dict[str, Plain] = plain(values)
        return result

    def plan(self) -> AccuracyPlan:
        """What it will do, and what the same accuracy would take by theory alone."""
        run = _run_of(self)
        return AccuracyPlan(
            family=self.family,
            levels=run.kept,
            target_excess_risk=self.target_excess_risk,
            beta=self.beta,
            check_epsilon=run.check.law.epsilon,
            least_epsilon=run.least,
            most_epsilon=run.finest,
            cap=run.cap,
            theory=theories(run.problem, float(self.target_excess_risk)),
        )

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are examples of `dimension` features, with labels: `rows` of them, where their
        number is public."""
        check_examples(data, self._shape)

    def release(self, data: object, *, entropy: Entropy) -> Release[Hypothesis]:
        """The first hypothesis that passes, or the finest one, which did not. Where the solver did not reach its
        tolerance, or rows are far more than `rows`, nothing is published, and the run stands outside the guarantee at
        its full charge: that is known of the data, and no noise covers it."""
        self.inspect(data)
        run = _run_of(self)
        solved = run.problem.solved(*bounded(data, self._shape, signs=run.problem.signs))
        if not solved.certified:
            return Release(value=self._found(None, reached=False, k=0), parts=self.parts(), outside_guarantee=True)
        moved = Sensitivity(run.moved, "l1", run.problem.why)
        chain = noise.chain(run.law, solved.statistic(run.power), sensitivity=moved, entropy=entropy)
        checks = SparseVectorRun(run.check, None, entropy)
        k, passed = 0, False
        while k < run.kept and not passed:
            k += 1
            theta = run.problem.hypothesis(to_floats(chain.refine(run.scale(k)), run.grid))
            passed = checks.ask(-solved.excess(theta)) is Outcome.ABOVE
        spent = checks.close().parts
        assert isinstance(spent, SparseVectorLaw), "the leaf of the check"
        parts = Sequence((spent, Chain(LaplaceLaw(run.finest), reached=LaplaceLaw(run.epsilon(k)))))
        return Release(value=self._found(theta, reached=passed, k=k), parts=parts)

    @property
    def _shape(self) -> Shape:
        return Shape(
            rows=None if self.relation is Relation.ADD_REMOVE else self.rows,
            dimension=self.dimension,
            feature_bound=self.feature_bound,
            label_bound=self.label_bound,
            target=self.target,
        )

    def _found(self, theta: npt.NDArray[np.float64] | None, *, reached: bool, k: int) -> Hypothesis:
        return Hypothesis(
            theta=() if theta is None else tuple(theta.tolist()),
            reached=reached,
            level=k,
            epsilon=_run_of(self).epsilon(k) if k else Decimal(0),
            feature_bound=self.feature_bound,
            label_bound=self.label_bound,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What is used. `moved`: of the statistic on its grid of steps 2^-power; `check`: the tests, `query_moved` the
    sensitivity of the excess risk and -`slack` the threshold; `finest`: epsilon of the last of the `kept` levels."""

    problem: Problem
    check: Thresholding
    query_moved: Decimal
    slack: Decimal
    least: Decimal
    most: Decimal
    levels: int
    kept: int
    grid: Decimal
    power: int
    moved: Decimal

    def epsilon(self, k: int) -> Decimal:
        """Of level k, from 1."""
        return level(self.least, self.most, self.levels, k)

    def scale(self, k: int) -> Decimal:
        """Of the noise of level k. Claim: moved / scale <= epsilon, exactly."""
        return round_up(Fraction(self.moved) / Fraction(self.epsilon(k)))

    @property
    def finest(self) -> Decimal:
        return self.epsilon(self.kept)

    @property
    def cap(self) -> Decimal:
        return add(self.check.law.epsilon, self.finest)

    @property
    def law(self) -> RoundedLaplace:
        return RoundedLaplace(scale=self.scale(self.kept), grid=self.grid)


@functools.lru_cache(maxsize=128)
def _run_of(mechanism: AccuracyFirst) -> _Run:
    """The run of a mechanism.

    Claim: one unit moves the statistic in steps of `grid` by at most `moved` in the l1 norm: each of its entries is
    rounded, which adds at most a step. Source: docs/proofs/noise.md, section 5."""
    alpha = mechanism.target_excess_risk
    risk = problem(
        mechanism.family,
        rows=mechanism.rows,
        dimension=mechanism.dimension,
        regularisation=mechanism.regularisation,
        radius=mechanism.radius,
        relation=mechanism.relation or Relation.REPLACE_ONE,
    )
    _, first = theories(risk, float(alpha))[0]
    most = mechanism.most_epsilon or round_up(4 * first, digits=_DIGITS)
    moved = Fraction(risk.moved)
    grid = default_grid(
        regularisation=moved * 1024 / (_ROUNDING * risk.entries), most_epsilon=moved / Fraction(most) * 1024 / _FINE
    )
    on_steps = round_up(moved + risk.entries * Fraction(grid))
    quick = round_up(Fraction(on_steps) / (Fraction(grid) * _COARSE), digits=_DIGITS)
    least = mechanism.least_epsilon or max(round_up(Fraction(1, mechanism.rows), digits=_DIGITS), quick)
    if not least < most:
        raise ParameterError("most_epsilon", str(most), f"a number above least_epsilon, {least}")
    check, query_moved, slack = _check_of(mechanism, risk)
    return _Run(
        problem=risk,
        check=check,
        query_moved=query_moved,
        slack=slack,
        least=least,
        most=most,
        levels=mechanism.levels,
        kept=mechanism.keep or mechanism.levels,
        grid=grid,
        power=Fraction(grid).denominator.bit_length() - 1,
        moved=on_steps,
    )


def _check_of(mechanism: AccuracyFirst, risk: Problem) -> tuple[Thresholding, Decimal, Decimal]:
    """The tests, the sensitivity of the excess risk on its grid, and s.

    Claim: calibrated for continuous noise at an alpha that is smaller by what rounding the queries and the threshold,
    and discrete noise (stochastically at most a step larger), can add, the check keeps beta.
    Source: docs/proofs/accuracy_first.md, section 4."""
    grid = default_grid(rows=Fraction(risk.query_moved))
    query_moved = on_grid(risk.query_moved, grid)
    alpha = float(mechanism.target_excess_risk) - _STEPS_OF_CHECK * float(grid) - risk.off
    if not alpha > 0:
        expected = f"a number well above {query_moved}, which one unit moves it by: more rows, or more regularisation"
        raise ParameterError("target_excess_risk", str(mechanism.target_excess_risk), expected)
    found = calibrated(
        mechanism.calibration,
        moved=float(query_moved),
        alpha=alpha,
        beta=float(mechanism.beta),
        levels=mechanism.levels,
    )
    slack = round_up(found.slack, digits=_DIGITS)
    tests = SparseVector(
        epsilon=round_up(found.epsilon, digits=_DIGITS),
        cutoff=1,
        threshold=negative(add(slack, grid, grid)),
        sensitivity=query_moved,
        mode="single_threshold",
        share=_HALF,
        grid=grid,
        max_queries=mechanism.keep or mechanism.levels,
        charged="above",
        justification=_QUERY_WHY,
    )
    return thresholding(tests), query_moved, slack
