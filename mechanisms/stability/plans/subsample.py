"""How many chunks a vote of models needs, so that all queries but a few are answered.

>>> plan = subsample_plan(epsilon=1, delta="1e-6", cutoff=20, max_queries=1000)
>>> plan.mode, plan.chunks, plan.binding
('target_charging', 6504, 'distance')
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import Number, multiply, text, whole
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.binomial_tails import MOST_TRIALS
from dpledger.mechanisms.plan import THIRD, open_unit, ratio
from dpledger.mechanisms.stability.ensembles.ensemble import FEWEST_CHUNKS, MOST_CHUNKS
from dpledger.mechanisms.stability.plans.counting import fewest_votes
from dpledger.mechanisms.stability.plans.promises import (
    BETA,
    HALF,
    PlanOfTests,
    compared,
    distance_of,
    planned_tests,
    read_budget,
    read_mode,
)
from dpledger.mechanisms.stability.stable_tests import StableMode

__all__ = ["SubsamplePlan", "chunks_for", "chunks_of_each", "hoeffding_votes", "subsample_plan"]

MOST_CUTOFF = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsamplePlan(PlanOfTests):
    """`chunks` models vote on `max_queries` queries. `dissent`: the part of the votes that may be wrong.

    >>> dpl.planning.subsample_plan(epsilon=1, delta="1e-6", cutoff=20, max_queries=1000).chunks
    6504
    """

    max_queries: int
    dissent: Fraction

    @property
    def chunks(self) -> int:
        """How many models vote."""
        return self.chosen

    def others(self) -> tuple[tuple[StableMode, int], ...]:
        """The chunks that every other way of testing would take for its distance, by its name; the least first."""
        cutoff = self.cutoff or self.max_queries
        found = compared(self.budget, cutoff, self.max_queries, multiply(self.beta, HALF), taken=self.mode)
        return chunks_of_each(found, self.dissent)

    def words(self) -> str:
        """The plan in a few sentences."""
        unlike = "however few they are" if self.cutoff is None else f"if fewer than {self.cutoff} others are not"
        found = [
            f"{self.chunks} chunks, decided by the {self.binding}: {_asked(self.terms)}",
            f"Of {self.max_queries} queries, those on which each model is right with probability at least 3/4 are all "
            f"answered, and rightly, with probability at least 1 - {text(self.beta)}, {unlike}",
            self.asked(),
        ]
        found += [f"The next best, {mode}, would take {chunks} chunks" for mode, chunks in self.others()[:1]]
        return ". ".join(found) + "."


def _asked(terms: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name} needs {needed}" for name, needed in terms)


def chunks_for(distance: int, dissent: Fraction) -> int:
    """The least k whose votes are that far from another winner when at most dissent k of them are wrong:
    2 (distance + 1)/(1 - 2 dissent). InfeasiblePlan above 2^20. Source: docs/proofs/stability_utility.md, "Votes"."""
    needed = max(FEWEST_CHUNKS, math.ceil(2 * (distance + 1) / (1 - 2 * dissent)))
    if needed > MOST_CHUNKS:
        raise InfeasiblePlan(
            f"{needed} chunks would be needed, an ensemble has at most {MOST_CHUNKS}: take a larger epsilon, fewer "
            "queries, or a smaller cutoff"
        )
    return needed


def chunks_of_each(
    distances: tuple[tuple[StableMode, int], ...], dissent: Fraction
) -> tuple[tuple[StableMode, int], ...]:
    """The chunks that each distance takes; those that no ensemble has are left out."""
    found: list[tuple[StableMode, int]] = []
    for mode, distance in distances:
        with suppress(InfeasiblePlan):
            found.append((mode, chunks_for(distance, dissent)))
    return tuple(found)


def subsample_plan(
    *,
    epsilon: Number,
    delta: Number,
    beta: Number = BETA,
    cutoff: int | None = None,
    max_queries: int,
    mode: StableMode = "auto",
    delta_split: Number = HALF,
    dissent: Number = THIRD,
) -> SubsamplePlan:
    """The chunks that a vote needs, and its law.

    Claim: where each of k independent models votes for one label of each query with probability at least 3/4, then with
    probability at least 1 - beta every query is answered with it, as long as fewer queries than the cutoff are not so
    (gaussian, without a cutoff: however many). Half of beta is the noise's, half the votes'. `paper`: the published
    distance, and Hoeffding's k for the votes.
    Raises ParameterError naming the field, InfeasiblePlan where no k will do.
    Source: docs/proofs/stability_utility.md, "Votes".

    >>> plan = dpl.planning.subsample_plan(epsilon=1, delta="1e-6", cutoff=20, max_queries=1000)
    >>> plan.mode, plan.chunks
    ('target_charging', 6504)
    """
    budget, way = read_budget(epsilon, delta, delta_split), read_mode(mode)
    if way == "gaussian" and cutoff is not None:
        raise ParameterError("cutoff", cutoff, "nothing in mode gaussian: every test costs the same")
    queries = whole(max_queries, field="max_queries", least=1, most=MOST_TRIALS)
    planned = queries if way == "gaussian" else whole(cutoff, field="cutoff", least=1, most=MOST_CUTOFF)
    risk, part = open_unit(beta, "beta"), ratio(dissent, "dissent", above=Fraction(1, 4), below=Fraction(1, 2))
    half = multiply(risk, HALF)
    tests = planned_tests(budget, planned, queries, way)
    distance = distance_of(tests, queries, half)
    if way == "paper":
        if part != THIRD:
            raise ParameterError("dissent", dissent, "1/3 in mode paper")
        votes = hoeffding_votes(queries, half)
        least = max(chunks_for(distance, part), votes)
    else:
        votes = fewest_votes(queries, half, dissent=part, least=3)
        least = fewest_votes(queries, half, dissent=part, least=chunks_for(distance, part))
    return SubsamplePlan(
        needed=least,
        chosen=least,
        terms=(("distance", chunks_for(distance, part)), ("votes", votes)),
        status="conservative" if way == "paper" else "proved",
        budget=budget,
        tests=tests,
        required_distance=distance,
        beta=risk,
        max_queries=queries,
        dissent=part,
    )


def hoeffding_votes(queries: int, beta: Decimal) -> int:
    """How many votes Hoeffding's inequality asks for: 72 log(m/beta), rounded up."""
    with localcontext(outward.context(beta)):
        return math.ceil(72 * outward.ln(queries / beta))
