"""A private classifier by a vote of models: which error rate the records give, and how many records a rate takes.

    iid   given the models, an i.i.d. query is spoilt (more than dissent k models err) with probability at most
          (gamma + a)/dissent; U of m are, but for a failure, and the cutoff is U + 1
    each  every model errs on at most B of the m queries, so fewer than B/dissent are spoilt
    paper the published cutoff 3 ((gamma + a) m + sqrt(m log(m/beta)/2))

More chunks take more noise away and leave each model fewer records: the cutoff is the least that its own errors keep.

>>> plan = binclas_plan(10**8, 1, epsilon=1, delta="1e-6", max_queries=100, mode="kov")
>>> plan.cutoff, plan.chunks, plan.chunk_size, plan.spoilt
(3, 1920, 52083, 2)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Literal, TypeAlias, assert_never

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, add, read, round_up, text, whole
from dpledger.errors import CannotCertify, InfeasiblePlan, ParameterError, WorkLimit
from dpledger.mechanisms.binomial_tails import MOST_TRIALS
from dpledger.mechanisms.plan import THIRD, open_unit, ratio
from dpledger.mechanisms.stability.plans.counting import divided, quantile, wrong_beyond
from dpledger.mechanisms.stability.plans.promises import (
    BETA,
    HALF,
    Budget,
    PlanOfTests,
    compared,
    distance_of,
    planned_tests,
    read_budget,
    read_mode,
)
from dpledger.mechanisms.stability.plans.sample_sizes import Agnostic, FromFunction, LearnerSize, Realizable
from dpledger.mechanisms.stability.plans.subsample import chunks_for, chunks_of_each
from dpledger.mechanisms.stability.stable_tests import StableMode, StableTests
from dpledger.schema import one_of

__all__ = ["ClassifierPlan", "Counting", "Learner", "Regime", "binclas_plan", "binclas_required_n", "learner_of"]

Counting: TypeAlias = Literal["iid", "each", "paper"]
Regime: TypeAlias = Literal["realizable", "agnostic"]
Learner: TypeAlias = LearnerSize | Callable[[Decimal, Decimal], int]

MOST_RECORDS = 10**18
MOST_MISSING = 1000  # cutoffs without a law, after which a search gives up
HINT = Fraction(1, 100)  # relative: how closely an error says how many records would do
ONE = Decimal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierPlan(PlanOfTests):
    """With `chunks` models of at least `chunk_size` records, each within `accuracy` of the best of its class, at most
    `spoilt` of `max_queries` queries are unanswered or wrong. `chosen` records, of which `needed` are used; `terms`:
    how many spoilt queries each part of the argument allows.

    >>> plan = dpl.planning.binclas_plan(10**8, 1, epsilon=1, delta="1e-6", max_queries=100, mode="kov")
    >>> plan.chunks, plan.spoilt
    (1920, 2)
    """

    max_queries: int
    chunks: int
    chunk_size: int
    accuracy: Decimal
    best_error: Decimal
    spoilt: int
    dissent: Fraction

    @property
    def rate(self) -> Decimal:
        """The part of the queries that may be unanswered or wrong, rounded up."""
        return round_up(Fraction(self.spoilt, self.max_queries))

    def others(self) -> tuple[tuple[StableMode, int], ...]:
        """The chunks that every other way of testing would take for as many spoilt queries, by its name."""
        share = divided(self.beta, 3)
        found = compared(self.budget, self.spoilt + 1, self.max_queries, share, taken=self.mode)
        return chunks_of_each(found, self.dissent)

    def words(self) -> str:
        """The plan in a few sentences."""
        error = text(round_up(add(self.best_error, self.accuracy)))
        found = [
            f"{self.chunks} chunks of {self.chunk_size} records or more, of {self.chosen}: each model errs with "
            f"probability at most {error}",
            f"With probability at least 1 - {text(self.beta)} none of {self.max_queries} queries comes after a halt, "
            f"and at most {self.spoilt} are unanswered or wrong (most of them for the {self.binding})",
            self.asked(),
            "The constants are worst cases over every distribution: with chunks chosen on public data the same privacy "
            "holds, and the accuracy is what it is found to be",
        ]
        found[3:3] = [f"The next best, {mode}, would take {chunks} chunks" for mode, chunks in self.others()[:1]]
        return ". ".join(found) + "."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What is asked of a classifier, but for the records."""

    max_queries: int
    budget: Budget
    beta: Decimal
    best_error: Decimal
    learner: LearnerSize
    mode: StableMode
    counting: Counting
    dissent: Fraction

    @property
    def share(self) -> Decimal:
        """Beta in three: the noise, the models, the count."""
        return divided(self.beta, 3)


def learner_of(vc: int, regime: Regime, gamma: Decimal, learner: Learner | None) -> LearnerSize:
    """The sample size of a class of VC dimension `vc`, or the caller's own."""
    if one_of(regime, ("realizable", "agnostic"), field="regime") == "realizable" and gamma:
        raise ParameterError("gamma", gamma, "0 in regime realizable: some hypothesis of the class never errs")
    if learner is None:
        return Realizable(vc) if regime == "realizable" else Agnostic(vc)
    whole(vc, field="vc", least=0)
    if isinstance(learner, LearnerSize):
        return learner
    if not callable(learner):
        raise ParameterError("learner", learner, "a sample size, or a function of (accuracy, failure)")
    return FromFunction(learner)


def binclas_plan(
    n: int,
    vc: int,
    *,
    epsilon: Number,
    delta: Number,
    beta: Number = BETA,
    max_queries: int,
    mode: StableMode = "auto",
    delta_split: Number = HALF,
    regime: Regime = "realizable",
    gamma: Number = 0,
    learner: Learner | None = None,
    counting: Counting = "iid",
    dissent: Number = THIRD,
) -> ClassifierPlan:
    """What a classifier of n records will do for so many queries.

    Claim: n i.i.d. records, cut into chunks by a public rule into equal sizes, and (iid, paper) i.i.d. queries of the
    same distribution: with probability at least 1 - beta there is no halt, and at most `spoilt` queries are unanswered
    or wrong. `gamma`: a bound on the least error of the class; `learner`: a sample size in place of the class's, or a
    function of (accuracy, failure). Any number of classes. Raises ParameterError naming the field, and InfeasiblePlan,
    which says how many records would do.
    Source: docs/proofs/stability_utility.md, "Counting".

    >>> plan = dpl.planning.binclas_plan(10**8, 1, epsilon=1, delta="1e-6", max_queries=100, mode="kov")
    >>> plan.chunks, plan.chunk_size, plan.spoilt
    (1920, 52083, 2)
    """
    records = whole(n, field="n", least=1, most=MOST_RECORDS)
    budget = read_budget(epsilon, delta, delta_split)
    task = _task(vc, budget, beta, max_queries, mode, regime, gamma, learner, counting, dissent)
    found = _found(task, records, least=1, most=task.max_queries)
    if found is None:
        raise InfeasiblePlan(_would_take(task, records))
    return _told(task, found)


def binclas_required_n(
    rate: Number,
    vc: int,
    *,
    epsilon: Number,
    delta: Number,
    beta: Number = BETA,
    max_queries: int,
    mode: StableMode = "auto",
    delta_split: Number = HALF,
    regime: Regime = "realizable",
    gamma: Number = 0,
    learner: Learner | None = None,
    counting: Counting = "iid",
    dissent: Number = THIRD,
) -> ClassifierPlan:
    """The plan with the least n, its `needed`, whose rate of unanswered or wrong queries is at most `rate`.

    Claim: that of `binclas_plan` for `needed` records, and no fewer do by this argument. Raises as that, InfeasiblePlan
    where 10^18 records would not do.

    >>> plan = dpl.planning.binclas_required_n("0.1", 1, epsilon=1, delta="1e-6", max_queries=20, mode="kov")
    >>> plan.needed
    12412638
    """
    wanted = Fraction(open_unit(rate, "rate"))
    budget = read_budget(epsilon, delta, delta_split)
    task = _task(vc, budget, beta, max_queries, mode, regime, gamma, learner, counting, dissent)
    found = _fewest_records(task, wanted)
    if found is None:
        raise InfeasiblePlan(f"no number of records up to 10^18 keeps {_reason(task, wanted)}")
    return replace(_told(task, found), needed=found.records)


def _task(
    vc: int,
    budget: Budget,
    beta: Number,
    max_queries: int,
    mode: StableMode,
    regime: Regime,
    gamma: Number,
    learner: Learner | None,
    counting: Counting,
    dissent: Number,
) -> _Task:
    best = read(gamma, field="gamma")
    if not best < 1:
        raise ParameterError("gamma", best, "a number in [0, 1)")
    one_of(counting, ("iid", "each", "paper"), field="counting")
    return _Task(
        max_queries=whole(max_queries, field="max_queries", least=1, most=MOST_TRIALS),
        budget=budget,
        beta=open_unit(beta, "beta"),
        best_error=best,
        learner=learner_of(vc, regime, best, learner),
        mode=read_mode(mode),
        counting=counting,
        dissent=ratio(dissent, "dissent", above=Fraction(0), below=Fraction(1, 2)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A cutoff that keeps its own count of spoilt queries, and what it was counted for."""

    records: int
    cutoff: int
    tests: StableTests
    distance: int
    chunks: int
    accuracy: Decimal
    spoilt: int


def _found(task: _Task, records: int, *, least: int, most: int) -> _Found | None:
    """The least cutoff in least..most that keeps its own count, None where none does.

    The count rises with the cutoff (more chunks, fewer records each), so that no cutoff below the one that a count asks
    for can keep it: the search goes from count to count. In mode gaussian there is none to keep."""
    cutoff, missing = least, 0
    while cutoff <= most:
        try:
            tests = planned_tests(task.budget, cutoff, task.max_queries, task.mode)
        except (CannotCertify, InfeasiblePlan, WorkLimit):  # dr14 has none for many charges at a large epsilon
            if missing == MOST_MISSING:
                raise
            cutoff, missing = cutoff + 1, missing + 1
            continue
        distance = distance_of(tests, task.max_queries, task.share)
        try:
            chunks = chunks_for(distance, task.dissent)
        except InfeasiblePlan:
            return None  # a larger cutoff takes more of them
        accuracy = task.learner.accuracy(records // chunks, divided(task.share, chunks))
        spoilt, wanted = _count(task, add(task.best_error, accuracy), chunks)
        if wanted <= cutoff or (task.mode == "gaussian" and wanted <= most):
            return _Found(
                records=records,
                cutoff=cutoff,
                tests=tests,
                distance=distance,
                chunks=chunks,
                accuracy=accuracy,
                spoilt=spoilt,
            )
        cutoff = wanted
    return None


def _count(task: _Task, error: Decimal, chunks: int) -> tuple[int, int]:
    """How many queries are spoilt at most, and the cutoff that lets them be."""
    queries, share = task.max_queries, task.share
    match task.counting:
        case "iid":
            spoilt = quantile(queries, round_up(Fraction(error) / task.dissent), share)
            return spoilt, spoilt + 1
        case "each":
            mistakes = quantile(queries, error, divided(share, chunks))
            spoilt = wrong_beyond(mistakes, task.dissent)
            return spoilt, spoilt + 1
        case "paper":
            with localcontext(outward.context(share)):
                deviation = (queries * outward.ln(max(queries, chunks) / share) / 2).sqrt()
                mistakes = math.ceil(outward.above(error * queries + deviation))
            wanted = max(1, math.ceil(mistakes / task.dissent))
            return min(wanted - 1, queries), wanted
        case _:
            assert_never(task.counting)


def _told(task: _Task, found: _Found) -> ClassifierPlan:
    part = Fraction(task.max_queries) / task.dissent
    best, learnt = (math.ceil(Fraction(error) * part) for error in (task.best_error, found.accuracy))
    size = found.records // found.chunks
    return ClassifierPlan(
        needed=found.chunks * size,
        chosen=found.records,
        terms=(("best of the class", best), ("learner", learnt), ("chance", max(0, found.spoilt - best - learnt))),
        status="conservative",
        budget=task.budget,
        tests=found.tests,
        max_queries=task.max_queries,
        chunks=found.chunks,
        chunk_size=size,
        accuracy=found.accuracy,
        best_error=task.best_error,
        spoilt=found.spoilt,
        required_distance=found.distance,
        dissent=task.dissent,
        beta=task.beta,
    )


def _fewest_records(task: _Task, rate: Fraction, *, within: Fraction = Fraction(0)) -> _Found | None:
    """What the fewest records (but for the part `within` of them) give that spoil at most that part of the queries. The
    least cutoff falls with n: that of more records is where the search for fewer begins."""
    most = min(task.max_queries, math.floor(rate * task.max_queries) + 1)
    low, high = 0, 1
    best = _found(task, high, least=1, most=most)
    while best is None:
        if high >= MOST_RECORDS:
            return None
        low, high = high, min(16 * high, MOST_RECORDS)
        best = _found(task, high, least=1, most=most)
    while high - low > max(Fraction(1), within * high):
        middle = (low + high) // 2
        found = _found(task, middle, least=best.cutoff, most=most)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    return best


def _would_take(task: _Task, records: int) -> str:
    told = f"{records} records keep no cutoff up to {task.max_queries}"
    enough = _fewest_records(task, Fraction(1), within=HINT)
    if enough is None:
        told += f", and neither do 10^18: {_reason(task, Fraction(1))}"
    else:
        told += f": {enough.records} would do, in {enough.chunks} chunks"
    if task.mode == "gaussian":
        return told
    uncharged = _found(replace(task, mode="gaussian"), records, least=1, most=task.max_queries)
    return told if uncharged is None else f"{told}; mode gaussian, without a cutoff, would spoil {uncharged.spoilt}"


def _reason(task: _Task, rate: Fraction) -> str:
    if Fraction(task.best_error) >= rate * task.dissent:
        return (
            f"a rate of {round_up(rate)}: with best error {task.best_error} the vote may be spoilt on "
            f"{round_up(min(Fraction(1), Fraction(task.best_error) / task.dissent))} of the queries whatever n is"
        )
    return (
        f"a rate of {round_up(rate)} for {task.max_queries} queries at epsilon {task.budget.epsilon}: take a larger one"
    )
