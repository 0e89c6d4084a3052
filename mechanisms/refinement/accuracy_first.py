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

import bisect
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

from dpledger.accounting.composition import Composition, Sequence
from dpledger.accounting.ex_post.boundaries import TimeUniformBoundary
from dpledger.accounting.guarantees import ZCDP, AccuracyFailure, ApproxDP, Failure, PureDP
from dpledger.decimals import Number, read, round_down, round_up, text
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.numeric.one_shot import exactly_one
from dpledger.mechanisms.protocol import Release, fixed
from dpledger.mechanisms.refinement.accuracy_plans import AccuracyPlan, theories
from dpledger.mechanisms.refinement.accuracy_runs import DIGITS, AccuracyRun, enough_for, levels_for
from dpledger.mechanisms.refinement.checks import WalkPlan, check_of, rate_check_of
from dpledger.mechanisms.refinement.checks.falling import stages_of
from dpledger.mechanisms.refinement.erm import Family, Perturbed, Post, Radius, problem
from dpledger.mechanisms.refinement.examples import Shape, bounded, check_examples, examples_read_as
from dpledger.mechanisms.refinement.judged import named
from dpledger.mechanisms.refinement.levels import ChainNoise
from dpledger.number_fields import OpenProbability, OptionalPositive, Positive, Whole
from dpledger.relations import Relation, Unit
from dpledger.schema import Plain, given, plain, record, tag

__all__ = ["AccuracyFirst", "LinearHypothesis"]

_MARGINS = 4  # the margin of an error rate is this part of it by default


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearHypothesis:
    """What was found. `theta`: for features and labels that are divided by their bounds; empty where nothing was
    published. `reached`: whether it passed the check; else it is the finest one. `level`: its place, from 1; `epsilon`:
    of that level, infinite for Gaussian noise without a boundary; `mu`: of Gaussian noise. `coefficients`: for features
    and labels as they are."""

    theta: tuple[float, ...]
    reached: bool
    level: int
    epsilon: Decimal
    mu: Decimal | None
    feature_bound: Decimal
    label_bound: Decimal

    @property
    def coefficients(self) -> npt.NDArray[np.float64]:
        """theta * label_bound / feature_bound; of a logistic one the label bound is 1."""
        return np.array(self.theta) * (float(self.label_bound) / float(self.feature_bound))


@record
class AccuracyFirst:
    """A hypothesis whose excess risk is at most `target_excess_risk`, as privately as that allows; or a classifier that
    errs on at most a share `target_error_rate` of the rows. Exactly one of the two is given.

    `family`: ridge (labels in [-label_bound, label_bound]) or logistic (labels above 0 against all others). `rows`,
    `dimension`: how many examples of how many features there are, public. Under add_remove, where their number is
    private, `rows` is what sums of losses are divided by, fixed beforehand and at best a little more than there are;
    the guarantee assumes that there are at most 16 times as many, and a run on more publishes nothing, which tells
    that. `regularisation`: lambda, from 10^-6. `feature_bound`, `label_bound`: public; each row of features is divided
    by its bound and shrunk into the l1 ball of radius 1, each label clipped, and what is no number counts as 0.
    `target`: the label's column, where the data are one table; else they are a pair (features, labels). `beta`: the
    chance that a hypothesis that passes is worse than the target. `perturbed`: whether a chain publishes the sums of
    ridge ("covariance", its default) or the minimiser ("output"); `post`: "reference" solves noisy sums as they are,
    for comparison. `noise`: of the chain; "gaussian" has a rho, or by a `boundary` an epsilon and a delta. `radius`: of
    the ball that hypotheses are projected on. `levels`: how many hypotheses there
    may be, of epsilons in equal ratios from `least_epsilon` (default: 1/rows, or the least whose noise is quick to
    draw) to `most_epsilon` (default: 4 times what the sharpest utility theorem takes); of Gaussian noise from
    `least_mu` to `most_mu`. `keep`: only the first so many of them are used (default: up to those 4 times: if none
    passed by then it is the noise of the check, and a finer hypothesis would not pass either). `error_margin`: a
    classifier passes, but for the noise of the check, where its share of mistakes is so much below `target_error_rate`
    (default: a quarter of it); one row moves that share by 1/rows, and an excess risk by several times that. With sums
    of ridge the noise of the check falls along the walk, where the chain has an epsilon. Data never raise.
    The value is a `LinearHypothesis`: `coefficients` of any sign, whether they passed, their level and its epsilon.

    >>> task = {"family": "ridge", "rows": 100, "dimension": 2, "regularisation": 1}
    >>> search = dpl.ex_post.AccuracyFirst(target_excess_risk=1, **task)
    >>> search.plan().most_epsilon  # what the costliest level costs; it stops before, where it can
    Decimal('0.216569')
    """

    family: Family
    rows: Annotated[Whole, Field(strict=True, ge=2, le=2**26)]
    dimension: Annotated[Whole, Field(strict=True, ge=1, le=1000)]
    regularisation: Positive
    target_excess_risk: OptionalPositive = given(default=None)
    target_error_rate: OptionalPositive = given(default=None)
    error_margin: OptionalPositive = given(default=None)
    beta: OpenProbability = given(default="0.1")
    feature_bound: Positive = given(default=1)
    label_bound: Positive = given(default=1)
    target: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = given(default=None)
    perturbed: Perturbed | None = given(default=None)
    post: Post = given(default="clipped")
    noise: ChainNoise = given(default="laplace")
    boundary: TimeUniformBoundary | None = given(default=None)
    radius: Radius = given(default="tight")
    levels: Annotated[Whole, Field(strict=True, ge=2, le=10**5)] = given(default=100)
    least_epsilon: OptionalPositive = given(default=None)
    most_epsilon: OptionalPositive = given(default=None)
    least_mu: OptionalPositive = given(default=None)
    most_mu: OptionalPositive = given(default=None)
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
        unused = ("least_mu", "most_mu") if self.noise == "laplace" else ("least_epsilon", "most_epsilon")
        for field in unused:
            if getattr(self, field) is not None:
                raise ParameterError(field, str(getattr(self, field)), f"None: levels of {self.noise} noise are others")
        self._check_target()
        run = _run_of(self)
        with named(f"most{run.levels.suffix}", run.most):
            self.claim()

    def _check_target(self) -> None:
        exactly_one(target_excess_risk=self.target_excess_risk, target_error_rate=self.target_error_rate)
        rate = self.target_error_rate
        if rate is None:
            if self.error_margin is not None:
                raise ParameterError("error_margin", str(self.error_margin), "None: it is of a target_error_rate")
            return
        if self.family != "logistic":
            raise ParameterError("target_error_rate", str(rate), 'None: family="ridge" is no classifier')
        if not rate < 1:
            raise ParameterError("target_error_rate", str(rate), "a number below 1")
        if not self._alpha < rate:
            raise ParameterError("error_margin", str(self.error_margin), f"a number below {text(rate)}, the rate")

    @property
    def _alpha(self) -> Decimal:
        """What the check lets pass at most: an excess of the risk, or of the share of mistakes over the one at which a
        classifier passes but for noise."""
        if self.target_excess_risk is not None:
            return self.target_excess_risk
        if self.error_margin is not None:
            return self.error_margin
        return round_down(Fraction(self.target_error_rate or 0) / _MARGINS)

    def under(self, relation: Relation, unit: Unit) -> Self:
        """The same mechanism for this relation and unit, its levels fixed. RelationError if it names others;
        ParameterError where a unit may have many rows."""
        own_relation, own_unit = fixed(self.relation, self.unit, relation, unit)
        if own_unit.max_contributions > 1:
            expected = f"a unit with one row, or one row made of all of one {own_unit.name}"
            raise ParameterError("unit", f"{own_unit.name} with {own_unit.max_contributions} rows", expected)
        placed = dataclasses.replace(self, relation=own_relation, unit=own_unit)
        return placed._automatic(_run_of(placed).kept)

    def within(self, left: Number) -> Self:
        """The same mechanism without the levels that take, with the check, more than `left`: what an account of the
        scope has room for, as `scope.account().left_by_account["pure"]`, of epsilons, or of rho for Gaussian noise
        without a boundary. InfeasiblePlan where no level is left."""
        budget, run = read(left, field="left"), _run_of(self)
        fitting = bisect.bisect_right(range(1, run.kept + 1), budget, key=run.price)
        if not fitting:
            raise InfeasiblePlan(
                f"the check and the coarsest level take {text(run.price(1))}, of {text(budget)} that are left: a "
                "larger target or fewer levels take less"
            )
        return self._automatic(fitting)

    def _automatic(self, kept: int) -> Self:
        """The same mechanism, with the first `kept` of its levels fixed."""
        run = _run_of(self)
        measure = run.levels.measure
        changes: dict[str, Any] = {f"least_{measure}": run.least, f"most_{measure}": run.most, "keep": kept}
        return dataclasses.replace(self, **changes)

    def claim(self) -> PureDP | ApproxDP | ZCDP:
        """The check and the finest level."""
        return _run_of(self).claim

    def parts(self) -> Composition:
        """A sparse vector leaf beside a chain."""
        run = _run_of(self)
        return Sequence((run.check.law(run.kept), run.levels.chain(run.kept)))

    def failures(self) -> tuple[Failure, ...]:
        """Of privacy that of the boundary alone: with chance beta the hypothesis is worse than it passed for."""
        what = "the excess risk" if self.target_error_rate is None else "the share of mistakes"
        most = "target_excess_risk" if self.target_error_rate is None else "target_error_rate"
        said = f"{what}, on the bounded rows, of a hypothesis that passed is at most {most}"
        return (*_run_of(self).levels.failures(), AccuracyFailure(self.beta, said))

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the sensitivities, the check and the levels that are used."""
        run = _run_of(self)
        check = run.check.law(run.kept)
        values = {
            "target_excess_risk": self.target_excess_risk,
            "target_error_rate": self.target_error_rate,
            "error_margin": None if self.target_error_rate is None else self._alpha,
            "family": self.family,
            "rows": self.rows,
            "dimension": self.dimension,
            "regularisation": self.regularisation,
            "beta": self.beta,
            "feature_bound": self.feature_bound,
            "label_bound": self.label_bound,
            "bounded_by": "each row shrunk into the l1 ball of radius 1, each label clipped, in steps of 2^-18",
            "target": self.target,
            "perturbed": run.problem.perturbed,
            "post": self.post,
            "noise": self.noise,
            "boundary": self.boundary,
            "radius": self.radius,
            "ball": round_up(run.problem.ball, digits=DIGITS),
            "tolerance": round_up(run.problem.tolerance, digits=DIGITS),
            "sensitivity": run.levels.plan.sensitivity,
            "norm": run.problem.norm,
            "assumes": None if run.problem.counts_are_public else f"there are at most {run.problem.most_rows} rows",
            "justification": run.problem.why,
            "query_sensitivity": run.check.moved,
            "query_justification": run.check.why,
            "grid": run.levels.plan.grid,
            "slack": run.check.slack,
            "check_epsilon": check.epsilon,
            "threshold_scale": check.threshold_scale,
            "query_scale": check.query_scale,
            "check_stages": None if run.check.stages is None else list(run.check.stages.ends),
            "check_falls_from": None if run.check.stages is None else run.check.stages.ratios[0],
            "check_room": run.check.room or None,
            "levels": self.levels,
            f"least_{run.levels.measure}": run.least,
            f"most_{run.levels.measure}": run.most,
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
            target_error_rate=self.target_error_rate,
            beta=self.beta,
            check_epsilon=run.check.law(run.kept).epsilon,
            measure=run.levels.measure,
            least=run.least,
            most=run.levels.number(run.kept),
            least_epsilon=run.levels.epsilon(1),
            most_epsilon=run.levels.epsilon(run.kept),
            claim=run.claim,
            theory=theories(run.problem, float(self._alpha)),
        )

    def values_read_as(self) -> tuple[str, ...]:
        """What values that are not ordinary numbers count as: by the parameters, never by the data."""
        return examples_read_as(self._shape, signs=_run_of(self).problem.signs)

    def inspect(self, data: object) -> None:
        """ParameterError unless `data` are examples of `dimension` features, with labels: `rows` of them, where their
        number is public."""
        check_examples(data, self._shape)

    @np.errstate(all="ignore")  # whatever the caller lets numpy raise or say: it would tell of the data
    def release(self, data: object, *, entropy: Entropy) -> Release[LinearHypothesis]:
        """The first hypothesis that passes, or the finest one, which did not. Where the solver did not reach its
        tolerance, or rows are far more than `rows`, nothing is published, and the run stands outside the guarantee at
        its full charge: that is known of the data, and no noise covers it."""
        self.inspect(data)
        run = _run_of(self)
        solved = run.problem.solved(*bounded(data, self._shape, signs=run.problem.signs))
        if not solved.certified:
            return Release(value=self.value_of(((), False, 0)), parts=self.parts(), outside_guarantee=True)
        answers = run.levels.published(run.kept, solved.statistic(run.power), why=run.problem.why, entropy=entropy)
        tests = run.check.begin(run.kept, entropy)
        measured = solved.excess if self.target_error_rate is None or solved.mistakes is None else solved.mistakes
        k, passed = 0, False
        while k < run.kept and not passed:
            k += 1
            theta = solved.hypothesis(answers(k))
            passed = tests.is_above(-measured(theta))
        parts = Sequence((tests.ended(), run.levels.chain(run.kept, reached=k)))
        return Release(value=self.value_of((tuple(theta.tolist()), passed, k)), parts=parts)

    @property
    def _shape(self) -> Shape:
        return Shape(
            rows=None if self.relation is Relation.ADD_REMOVE else self.rows,
            dimension=self.dimension,
            feature_bound=self.feature_bound,
            label_bound=self.label_bound,
            target=self.target,
        )

    def plain_of(self, value: LinearHypothesis) -> tuple[tuple[float, ...], bool, int]:
        """What was found but for what the level costs, which follows from the parameters."""
        return value.theta, value.reached, value.level

    def value_of(self, plain: tuple[tuple[float, ...], bool, int]) -> LinearHypothesis:
        """The hypothesis, as `plain_of` says it."""
        theta, reached, k = plain
        levels = _run_of(self).levels
        return LinearHypothesis(
            theta=theta,
            reached=reached,
            level=k,
            epsilon=levels.epsilon(k) if k else Decimal(0),
            mu=levels.number(k) if k and levels.measure == "mu" else None,
            feature_bound=self.feature_bound,
            label_bound=self.label_bound,
        )


@functools.lru_cache(maxsize=128)
def _run_of(mechanism: AccuracyFirst) -> AccuracyRun:
    """The run of a mechanism: what its parameters come to."""
    alpha, laplace = mechanism._alpha, mechanism.noise == "laplace"
    risk = problem(
        mechanism.family,
        perturbed=mechanism.perturbed,
        post=mechanism.post,
        rows=mechanism.rows,
        dimension=mechanism.dimension,
        regularisation=mechanism.regularisation,
        radius=mechanism.radius,
        relation=mechanism.relation or Relation.REPLACE_ONE,
        norm="l1" if laplace else "l2",
    )
    enough = enough_for(risk, alpha)
    levels = levels_for(
        risk,
        noise=mechanism.noise,
        rows=mechanism.rows,
        count=mechanism.levels,
        least=mechanism.least_epsilon if laplace else mechanism.least_mu,
        most=(mechanism.most_epsilon if laplace else mechanism.most_mu) or enough,
        boundary=mechanism.boundary,
    )
    ends = mechanism.levels if mechanism.post == "reference" else levels.upto(enough)
    kept = mechanism.keep or ends
    falls = risk.perturbed == "covariance" and (laplace or mechanism.boundary is not None)
    stages = stages_of(walk=ends, levels=mechanism.levels) if falls else None
    walk = WalkPlan(levels=mechanism.levels, kept=kept, stages=stages)
    asked: dict[str, Any] = {"beta": mechanism.beta, "walk": walk}
    if mechanism.target_error_rate is None:
        check = check_of(risk, target=alpha, **asked)
    else:
        check = rate_check_of(mechanism.rows, target=mechanism.target_error_rate, margin=alpha, **asked)
    return AccuracyRun(problem=risk, check=check, levels=levels, kept=kept)
