"""A private classifier by a vote of models: which error rate the records give, and how many records a rate takes.

    iid   given the models, an i.i.d. query is spoilt (more than dissent k models err) with probability at most
          (gamma + a)/dissent; U of m are, but for a failure, and the cutoff is U + 1
    each  every model errs on at most B of the m queries, so fewer than B/dissent are spoilt
    paper the published cutoff 3 ((gamma + a) m + sqrt(m log(m/beta)/2))

More chunks take more noise away and leave each model fewer records: the cutoff is the least that its own errors keep.

>>> plan = binclas_plan(10**8, 1, max_queries=100, epsilon=1, delta="1e-6", beta="0.05", mode="kov")
>>> plan.law.cutoff, plan.chunks, plan.chunk_size, plan.spoilt
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
from dpledger.accounting.leaves import SparseVectorLaw
from dpledger.decimals import Number, add, read, round_up, text, whole
from dpledger.errors import InfeasiblePlan, ParameterError, UnknownWord
from dpledger.mechanisms.stability.plans.answers import THIRD, Plan, open_unit, ratio
from dpledger.mechanisms.stability.plans.counting import MOST_TRIALS, divided, quantile, wrong_beyond
from dpledger.mechanisms.stability.plans.distances import (
    PlanMode,
    distance_of,
    law_of,
    others,
    read_mode,
    require_budget,
)
from dpledger.mechanisms.stability.plans.sample_sizes import Agnostic, FromFunction, Realizable, SampleSize
from dpledger.mechanisms.stability.plans.subsample import chunks_for

__all__ = ["ClassifierPlan", "Counting", "Learner", "Regime", "binclas_plan", "binclas_required_n", "learner_of"]

Counting: TypeAlias = Literal["iid", "each", "paper"]
Regime: TypeAlias = Literal["realizable", "agnostic"]
Learner: TypeAlias = SampleSize | Callable[[Decimal, Decimal], int]

MOST_RECORDS = 10**18
HINT = Fraction(1, 100)  # relative: how closely an error says how many records would do
ONE = Decimal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierPlan(Plan):
    """With `chunks` models of at least `chunk_size` records, each within `accuracy` of the best of its class, at most
    `spoilt` of `max_queries` queries are unanswered or wrong. `chosen` records, of which `needed` are used; `terms`:
    how many spoilt queries each part of the argument allows; `others`: the chunks of other ways of testing, by name."""

    law: SparseVectorLaw
    max_queries: int
    chunks: int
    chunk_size: int
    accuracy: Decimal
    best_error: Decimal
    spoilt: int
    required_distance: Decimal
    dissent: Fraction
    beta: Decimal
    others: tuple[tuple[str, int], ...]

    @property
    def rate(self) -> Decimal:
        """The part of the queries that may be unanswered or wrong, rounded up."""
        return round_up(Fraction(self.spoilt, self.max_queries))

    def words(self) -> str:
        """The plan in a few sentences."""
        other, chunks = self.others[0]
        warning = (
            " The constants are worst cases over every distribution: with chunks chosen on public data the same "
            "privacy holds, and the accuracy is what it is found to be."
        )
        return (
            f"{self.chunks} chunks of {self.chunk_size} records or more, of {self.chosen}: each model errs with "
            f"probability at most {text(round_up(add(self.best_error, self.accuracy)))}. With probability at least "
            f"1 - {text(self.beta)} none of {self.max_queries} queries comes after a halt, and at most {self.spoilt} "
            f"are unanswered or wrong (most of them for the {self.binding}). Tests are {self.law.mode} with cutoff "
            f"{self.law.cutoff}; the next best, {other}, would take {chunks} chunks.{warning}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What is asked of a classifier, but for the records."""

    max_queries: int
    epsilon: Decimal
    delta: Decimal
    beta: Decimal
    best_error: Decimal
    learner: SampleSize
    mode: PlanMode
    counting: Counting
    dissent: Fraction

    @property
    def share(self) -> Decimal:
        """Beta in three: the noise, the models, the count."""
        return divided(self.beta, 3)


def learner_of(vc: int, regime: Regime, gamma: Decimal, learner: Learner | None) -> SampleSize:
    """The sample size of a class of VC dimension `vc`, or the caller's own."""
    if regime not in ("realizable", "agnostic"):
        raise UnknownWord("regime", regime, "realizable or agnostic")
    if regime == "realizable" and gamma:
        raise ParameterError("gamma", gamma, "0 in regime realizable: some hypothesis of the class never errs")
    if learner is None:
        return Realizable(vc) if regime == "realizable" else Agnostic(vc)
    whole(vc, field="vc", least=0)
    if hasattr(learner, "accuracy"):
        return learner
    if not callable(learner):
        raise ParameterError("learner", learner, "a sample size, or a function of (accuracy, failure)")
    return FromFunction(learner)


def binclas_plan(
    n: int,
    vc: int,
    *,
    max_queries: int,
    epsilon: Number,
    delta: Number,
    beta: Number,
    regime: Regime = "realizable",
    gamma: Number = 0,
    learner: Learner | None = None,
    mode: PlanMode = "auto",
    counting: Counting = "iid",
    dissent: Number = THIRD,
) -> ClassifierPlan:
    """What a classifier of n records will do for so many queries.

    Claim: n i.i.d. records, cut into chunks by a public rule into equal sizes, and (iid, paper) i.i.d. queries of the
    same distribution: with probability at least 1 - beta there is no halt, and at most `spoilt` queries are unanswered
    or wrong. `gamma`: a bound on the least error of the class; `learner`: a sample size in place of the class's, or a
    function of (accuracy, failure). Any number of classes. Raises ParameterError naming the field, and InfeasiblePlan,
    which says how many records would do.
    Source: docs/proofs/stability_utility.md, "Counting"."""
    records = whole(n, field="n", least=1, most=MOST_RECORDS)
    task = _task(vc, max_queries, epsilon, delta, beta, regime, gamma, learner, mode, counting, dissent)
    found = _found(task, records, least=1, most=task.max_queries)
    if found is None:
        raise InfeasiblePlan(_would_take(task, records))
    return _told(task, found)


def binclas_required_n(
    rate: Number,
    vc: int,
    *,
    max_queries: int,
    epsilon: Number,
    delta: Number,
    beta: Number,
    regime: Regime = "realizable",
    gamma: Number = 0,
    learner: Learner | None = None,
    mode: PlanMode = "auto",
    counting: Counting = "iid",
    dissent: Number = THIRD,
) -> ClassifierPlan:
    """The plan with the least n, its `needed`, whose rate of unanswered or wrong queries is at most `rate`.

    Claim: that of `binclas_plan` for `needed` records, and no fewer do by this argument. Raises as that, InfeasiblePlan
    where 10^18 records would not do."""
    wanted = Fraction(open_unit(rate, "rate"))
    task = _task(vc, max_queries, epsilon, delta, beta, regime, gamma, learner, mode, counting, dissent)
    found = _fewest_records(task, wanted)
    if found is None:
        raise InfeasiblePlan(f"no number of records up to 10^18 keeps {_reason(task, wanted)}")
    return replace(_told(task, found), needed=found.records)


def _task(
    vc: int,
    max_queries: int,
    epsilon: Number,
    delta: Number,
    beta: Number,
    regime: Regime,
    gamma: Number,
    learner: Learner | None,
    mode: PlanMode,
    counting: Counting,
    dissent: Number,
) -> _Task:
    best = read(gamma, field="gamma")
    if not best < 1:
        raise ParameterError("gamma", best, "a number in [0, 1)")
    if counting not in ("iid", "each", "paper"):
        raise UnknownWord("counting", counting, "iid, each or paper")
    task = _Task(
        max_queries=whole(max_queries, field="max_queries", least=1, most=MOST_TRIALS),
        epsilon=read(epsilon, field="epsilon"),
        delta=read(delta, field="delta"),
        beta=open_unit(beta, "beta"),
        best_error=best,
        learner=learner_of(vc, regime, best, learner),
        mode=read_mode(mode),
        counting=counting,
        dissent=ratio(dissent, "dissent", above=Fraction(0), below=Fraction(1, 2)),
    )
    require_budget(task.epsilon, task.delta)
    return task


def _distance(task: _Task, cutoff: int) -> tuple[SparseVectorLaw, Decimal, int]:
    """The law of that cutoff, the distance it needs, and the chunks that give it."""
    law = law_of(task.epsilon, task.delta, cutoff, task.max_queries, task.mode)
    distance = distance_of(task.mode, law, task.max_queries, task.share)
    return law, distance, chunks_for(distance, task.dissent)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A cutoff that keeps its own count of spoilt queries, and what it was counted for."""

    records: int
    law: SparseVectorLaw
    distance: Decimal
    chunks: int
    accuracy: Decimal
    spoilt: int


def _found(task: _Task, records: int, *, least: int, most: int) -> _Found | None:
    """The least cutoff in least..most that keeps its own count, None where none does.

    The count rises with the cutoff (more chunks, fewer records each), so that no cutoff below the one that a count asks
    for can keep it: the search goes from count to count."""
    cutoff = least
    while cutoff <= most:
        law, distance, chunks = _distance(task, cutoff)
        accuracy = task.learner.accuracy(records // chunks, divided(task.share, chunks))
        spoilt, wanted = _count(task, add(task.best_error, accuracy), chunks)
        if wanted <= cutoff:
            return _Found(records=records, law=law, distance=distance, chunks=chunks, accuracy=accuracy, spoilt=spoilt)
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
    beside = others(task.epsilon, task.delta, found.law.cutoff, task.max_queries, task.share, taken=found.law.mode)
    size = found.records // found.chunks
    return ClassifierPlan(
        needed=found.chunks * size,
        chosen=found.records,
        terms=(("best of the class", best), ("learner", learnt), ("chance", max(0, found.spoilt - best - learnt))),
        status="conservative",
        law=found.law,
        max_queries=task.max_queries,
        chunks=found.chunks,
        chunk_size=size,
        accuracy=found.accuracy,
        best_error=task.best_error,
        spoilt=found.spoilt,
        required_distance=found.distance,
        dissent=task.dissent,
        beta=task.beta,
        others=tuple((name, chunks_for(each, task.dissent)) for name, each in beside),
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
    while high - low > max(1, within * high):
        middle = (low + high) // 2
        found = _found(task, middle, least=best.law.cutoff, most=most)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    return best


def _would_take(task: _Task, records: int) -> str:
    enough = _fewest_records(task, Fraction(1), within=HINT)
    told = f"{records} records keep no cutoff up to {task.max_queries}"
    if enough is None:
        return f"{told}, and neither do 10^18: {_reason(task, Fraction(1))}"
    return f"{told}: {enough.records} would do, in {enough.chunks} chunks"


def _reason(task: _Task, rate: Fraction) -> str:
    if Fraction(task.best_error) >= rate * task.dissent:
        return (
            f"a rate of {round_up(rate)}: with best error {task.best_error} the vote may be spoilt on "
            f"{round_up(min(Fraction(1), Fraction(task.best_error) / task.dissent))} of the queries whatever n is"
        )
    return f"a rate of {round_up(rate)} for {task.max_queries} queries at epsilon {task.epsilon}: take a larger one"
