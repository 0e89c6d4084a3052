"""A student that learns from private labels: how many public rows it needs, and how many private records its teacher.

The teacher is a private classifier (`classifier`) of models with error at most gamma + a each. A row is spoilt if more
than a third of them err; on the others the label that the student sees is the true one, so that its own error is small
there, by a relative deviation bound which asks nothing of the labels on spoilt rows.

>>> plan = label_private_plan(1, "0.1", epsilon=1, delta="1e-6")
>>> plan.public_rows, plan.cutoff
(2348, 79)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, add, multiply, read, round_down, round_up, text, whole
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.plan import THIRD, open_unit
from dpledger.mechanisms.stability.plans.classifier import Learner, Regime, learner_of
from dpledger.mechanisms.stability.plans.counting import divided, quantile
from dpledger.mechanisms.stability.plans.promises import (
    BETA,
    HALF,
    PlanOfTests,
    distance_of,
    planned_tests,
    read_budget,
    read_mode,
)
from dpledger.mechanisms.stability.plans.sample_sizes import MOST_DIMENSION, log_sauer
from dpledger.mechanisms.stability.plans.subsample import chunks_for
from dpledger.mechanisms.stability.stable_tests import StableMode

__all__ = ["LabelPrivatePlan", "label_private_plan", "student_error"]

MOST_ROWS = 10**12
STEPS = 150  # of the count of spoilt rows, that a search walks through one by one
ONE = Decimal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPrivatePlan(PlanOfTests):
    """`public_rows` are labelled by `chunks` models of `chunk_size` private records, each within `accuracy` of the
    best; at most `spoilt` of the labels are wrong or coins. `error`: what the student's is at most. `needed`: private
    records; `terms`: parts of that error, in millionths.

    >>> dpl.planning.label_private_plan(1, "0.1", epsilon=1, delta="1e-6").public_rows
    2348
    """

    public_rows: int
    chunks: int
    chunk_size: int
    accuracy: Decimal
    best_error: Decimal
    spoilt: int
    student_error: Decimal
    error: Decimal

    def words(self) -> str:
        """The plan in a few sentences."""
        return (
            f"{self.public_rows} public rows, and {self.needed} private records in {self.chunks} chunks of "
            f"{self.chunk_size}: with probability at least 1 - {text(self.beta)} at most {self.spoilt} labels are "
            f"wrong or coins, and the student errs with probability at most {text(self.error)}, most of it for the "
            f"{self.binding}. {self.asked()}. The student may be used without "
            "limit; rows that are not of the records' distribution cost accuracy, not privacy."
        )


def label_private_plan(
    vc: int,
    alpha: Number,
    *,
    epsilon: Number,
    delta: Number,
    beta: Number = BETA,
    mode: StableMode = "auto",
    delta_split: Number = HALF,
    regime: Regime = "realizable",
    gamma: Number = 0,
    learner: Learner | None = None,
) -> LabelPrivatePlan:
    """The public rows and private records with which a student of a class of VC dimension `vc` errs with probability at
    most alpha (agnostic: 7 gamma + alpha).

    Claim: records and rows i.i.d. of one distribution, a student that minimises its errors on the labels it is given:
    so with probability at least 1 - beta, half of it the student's, a sixth each for noise, models and count.
    `learner`: the teacher's models, as in `binclas_plan`. Raises ParameterError naming the field, InfeasiblePlan where
    the bound is no bound. Source: docs/proofs/stability_utility.md, "Students".

    >>> plan = dpl.planning.label_private_plan(1, "0.1", epsilon=1, delta="1e-6")
    >>> plan.public_rows, plan.needed
    (2348, 103997760)
    """
    dimension = whole(vc, field="vc", least=1, most=MOST_DIMENSION)
    target, risk, best = open_unit(alpha, "alpha"), open_unit(beta, "beta"), read(gamma, field="gamma")
    budget = read_budget(epsilon, delta, delta_split)
    if not best < 1:
        raise ParameterError("gamma", best, "a number in [0, 1)")
    size, way = learner_of(dimension, regime, best, learner), read_mode(mode)
    accuracy = round_down(Fraction(target) / 12)
    spoils = round_up(3 * Fraction(add(best, accuracy)))
    promised = add(multiply(best, 7), target)
    if not (promised < 1 and accuracy):
        raise InfeasiblePlan(f"an error of 7 gamma + alpha = {promised} promises nothing: it must be below 1")
    share, student = divided(risk, 6), multiply(risk, HALF)
    allowed = add(multiply(best, 4), round_down(Fraction(target) * Fraction(3, 4)))
    rows, learnt = _rows(dimension, student, add(best, spoils), allowed)
    spoilt = quantile(rows, spoils, share)
    tests = planned_tests(budget, spoilt + 1, rows, way)
    distance = distance_of(tests, rows, share)
    chunks = chunks_for(distance, THIRD)
    samples = size.needed(accuracy, divided(share, chunks))
    return LabelPrivatePlan(
        needed=chunks * samples,
        chosen=chunks * samples,
        terms=tuple(
            (name, math.ceil(1_000_000 * part))
            for name, part in (("teacher", Fraction(spoils)), ("student", Fraction(learnt)))
        ),
        status="conservative",
        budget=budget,
        tests=tests,
        public_rows=rows,
        chunks=chunks,
        chunk_size=samples,
        accuracy=accuracy,
        best_error=best,
        spoilt=spoilt,
        student_error=learnt,
        error=round_up(add(learnt, spoils)),
        required_distance=distance,
        beta=risk,
    )


def student_error(dimension: int, rows: int, mistakes: int | Fraction, failure: Decimal) -> Decimal:
    """The error of every hypothesis that errs on at most `mistakes` of `rows` i.i.d. rows, from above: q + t^2/2 +
    t sqrt(q + t^2/4), q = mistakes/rows, t^2 = 4 log(4 S(V, 2 rows)/failure)/rows.

    Claim: with probability at least 1 - failure, for all hypotheses at once. Source: relative deviations (Vapnik 1982;
    Anthony-Shawe-Taylor 1993); docs/proofs/stability_utility.md, "Students"."""
    with localcontext(outward.context(failure)):
        square = 4 * (outward.ln(Decimal(4)) + log_sauer(dimension, 2 * rows) - outward.ln(failure)) / rows
        seen = Decimal(mistakes.numerator) / (mistakes.denominator * rows)
        return outward.above(seen + square / 2 + square.sqrt() * (seen + square / 4).sqrt())


def _rows(dimension: int, failure: Decimal, best: Decimal, allowed: Decimal) -> tuple[int, Decimal]:
    """The least number of rows at which the student's error is at most `allowed`, and that error: half of `failure` for
    the count of its best hypothesis's mistakes, half for the deviation. Where the count takes more than STEPS values,
    a number whose predecessor would not do."""
    half = divided(failure, 2)

    def error(rows: int, mistakes: int | Fraction) -> Decimal:
        return student_error(dimension, rows, mistakes, half)

    def fewest(start: int, mistakes: Fraction, each: Fraction) -> int:
        """The least number of at least `start` rows that is enough with mistakes + each rows, where the error falls."""
        low, high = start - 1, start
        while error(high, max(mistakes + each * high, Fraction(0))) > allowed:
            if high > MOST_ROWS:
                raise InfeasiblePlan(f"a student's error of {allowed} would take more than 10^12 public rows")
            low, high = high, 2 * high - start + 1
        while high - low > 1:
            middle = (low + high) // 2
            enough = error(middle, max(mistakes + each * middle, Fraction(0))) <= allowed
            low, high = (low, middle) if enough else (middle, high)
        return high

    chance = Fraction(best)
    rows = fewest(1, Fraction(-1), chance)  # a quantile above the median is at least the mean less one
    for _ in range(STEPS):
        mistakes = quantile(rows, best, half)
        found = error(rows, mistakes)
        if found <= allowed:
            return rows, found
        rows = fewest(rows + 1, Fraction(mistakes), Fraction(0))  # fewer would not do even with as few mistakes
    low, high = rows, 2 * rows
    while error(high, quantile(high, best, half)) > allowed:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if error(middle, quantile(middle, best, half)) <= allowed else (middle, high)
    return high, error(high, quantile(high, best, half))
