"""How many chunks a vote of models needs, so that all queries but a few are answered.

>>> plan = subsample_plan(1, "1e-6", cutoff=20, max_queries=1000, beta="0.05")
>>> plan.law.mode, plan.chunks, plan.binding
('target_charging', 6504, 'distance')
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.guarantees import PrivacyFailure
from dpledger.accounting.leaves import SparseVectorLaw
from dpledger.accounting.sparse_vectors import delta_by_cause
from dpledger.decimals import Number, multiply, read, text, whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.stability.plans.answers import THIRD, Plan, open_unit, ratio
from dpledger.mechanisms.stability.plans.counting import MOST_TRIALS, fewest_votes
from dpledger.mechanisms.stability.plans.distances import (
    PlanMode,
    distance_of,
    law_of,
    others,
    read_mode,
    require_budget,
)

__all__ = ["SubsamplePlan", "chunks_for", "subsample_plan"]

HALF = Decimal("0.5")
MOST_CUTOFF = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsamplePlan(Plan):
    """`chunks` models vote on `max_queries` queries. `required_distance`: from there on a query is answered; `dissent`:
    the part of the votes that may be wrong; `others`: the distance of every other way of testing, by its name."""

    law: SparseVectorLaw
    max_queries: int
    required_distance: Decimal
    dissent: Fraction
    beta: Decimal
    others: tuple[tuple[str, Decimal], ...]

    @property
    def chunks(self) -> int:
        """How many models vote."""
        return self.chosen

    @property
    def failures(self) -> tuple[PrivacyFailure, ...]:
        """What of delta pays for composing the tests, and what for the values."""
        return delta_by_cause(self.law)

    def words(self) -> str:
        """The plan in a few sentences."""
        other, distance = self.others[0]
        return (
            f"{self.chunks} chunks, decided by the {self.binding}: {_asked(self.terms)}. If each model is right with "
            f"probability at least 3/4 on every query, then with probability at least 1 - {text(self.beta)} all of "
            f"{self.max_queries} queries are answered, and rightly, but for those that fewer than "
            f"{self.law.cutoff} others spoil. Tests are {self.law.mode}, from distance {text(self.required_distance)} "
            f"on answered; the next best, {other}, from {text(distance)} on."
        )


def _asked(terms: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name} needs {needed}" for name, needed in terms)


def chunks_for(distance: Decimal, dissent: Fraction) -> int:
    """The least k whose votes are that far from another winner when at most dissent k of them are wrong:
    2 (distance + 1)/(1 - 2 dissent). Source: docs/proofs/stability_utility.md, "Votes"."""
    return max(3, math.ceil(2 * (Fraction(distance) + 1) / (1 - 2 * dissent)))


def subsample_plan(
    epsilon: Number,
    delta: Number,
    *,
    cutoff: int,
    max_queries: int,
    beta: Number,
    mode: PlanMode = "auto",
    dissent: Number = THIRD,
    delta_split: Number = HALF,
) -> SubsamplePlan:
    """The chunks that a vote needs, and its law.

    Claim: where each of k independent models votes for one label of each query with probability at least 3/4, then with
    probability at least 1 - beta every query is answered with it, as long as fewer queries than the cutoff are not so;
    half of beta is the noise's, half the votes'. `paper`: the published distance, and Hoeffding's k for the votes.
    Raises ParameterError naming the field, InfeasiblePlan where no k will do.
    Source: docs/proofs/stability_utility.md, "Votes"."""
    budget = read(epsilon, field="epsilon"), read(delta, field="delta")
    require_budget(*budget)
    planned = whole(cutoff, field="cutoff", least=1, most=MOST_CUTOFF)
    queries = whole(max_queries, field="max_queries", least=1, most=MOST_TRIALS)
    risk, way = open_unit(beta, "beta"), read_mode(mode)
    part = ratio(dissent, "dissent", above=Fraction(1, 4), below=Fraction(1, 2))
    split, half = open_unit(delta_split, "delta_split"), multiply(risk, HALF)
    law = law_of(*budget, planned, queries, way, split)
    distance = distance_of(way, law, queries, half)
    if way == "paper":
        if part != THIRD:
            raise ParameterError("dissent", dissent, "1/3 in mode paper")
        votes = _hoeffding(queries, half)
        least = max(chunks_for(distance, part), votes)
    else:
        votes = fewest_votes(queries, half, dissent=part, least=3)
        least = fewest_votes(queries, half, dissent=part, least=chunks_for(distance, part))
    return SubsamplePlan(
        needed=least,
        chosen=least,
        terms=(("distance", chunks_for(distance, part)), ("votes", votes)),
        status="conservative" if way == "paper" else "proved",
        law=law,
        max_queries=queries,
        required_distance=distance,
        dissent=part,
        beta=risk,
        others=others(*budget, law.cutoff, queries, half, taken=law.mode),
    )


def _hoeffding(queries: int, beta: Decimal) -> int:
    """72 log(m/beta), rounded up."""
    with localcontext(outward.context(beta)):
        return math.ceil(72 * outward.ln(queries / beta))
