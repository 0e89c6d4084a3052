"""Soft labels: which precision the records give, from the stability of the learner.

Scores of models trained on N records lie within r of their mean with probability at least 3/4, where r follows from
the learner's mean-square on-average stability at N (`on_average`). Bins at least four times as wide as r, on a
partition and on its shift by half a bin, then catch two thirds of the votes in one bin for every query.

>>> plan = soft_plan(
...     10**7, lambda size: 1 / size, "0.05", max_queries=1000, uncertain=20, epsilon=1, delta="1e-6", beta="0.05"
... )
>>> plan.failed_tests, plan.bins, plan.accuracy
(21, 6, Decimal('0.125'))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpledger.decimals import Number, multiply, read, round_up, text, whole
from dpledger.errors import InfeasiblePlan, ParameterError
from dpledger.mechanisms.binomial_tails import MOST_TRIALS
from dpledger.mechanisms.plan import THIRD, open_unit
from dpledger.mechanisms.stability.on_average import radius
from dpledger.mechanisms.stability.plans.counting import fewest_votes
from dpledger.mechanisms.stability.plans.promises import (
    BETA,
    HALF,
    PlanOfTests,
    distance_of,
    planned_tests,
    read_budget,
    read_mode,
)
from dpledger.mechanisms.stability.plans.subsample import chunks_for, hoeffding_votes
from dpledger.mechanisms.stability.stable_tests import StableMode

__all__ = ["SoftPlan", "bins_for", "soft_plan"]

MOST_RECORDS = 10**18
MOST_BINS = 10**6  # what a learner that hardly moves is given


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftPlan(PlanOfTests):
    """`chunks` models of `chunk_size` records answer `max_queries` queries to within `accuracy`, in `bins` bins.
    `failed_tests`: the cutoff; `radius`: how far a score strays from its mean; `required_gap`: the lead of a bin that
    is answered. `chosen` records, of which `needed` are used; `terms`: the chunks that each part asks for.

    >>> words = {"max_queries": 1000, "epsilon": 1, "delta": "1e-6", "beta": "0.05"}
    >>> dpl.planning.soft_plan(10**7, lambda size: 1 / size, "0.05", uncertain=20, **words).accuracy
    Decimal('0.125')
    """

    max_queries: int
    uncertain: int
    failed_tests: int
    chunks: int
    chunk_size: int
    radius: Decimal
    bins: int
    accuracy: Decimal
    required_gap: int

    def words(self) -> str:
        """The plan in a few sentences."""
        return (
            f"{self.chunks} chunks of {self.chunk_size} records, decided by the {self.binding}; {self.bins} bins. With "
            f"probability at least 1 - {text(self.beta)} all of {self.max_queries} queries are answered to within "
            f"{text(self.accuracy)} of the learner's mean score, as long as at most {self.uncertain} of them have a "
            f"mean score far from 0 and 1. {self.asked()}. Each chunk must hold equally many records."
        )


def bins_for(stray: Decimal, quality: Decimal) -> int:
    """The most bins, up to 10^6, whose width is at least 4 r and more than r + zeta.

    Raises InfeasiblePlan where there is only one, whose answer is 1/2 whatever is asked."""
    r, end = Fraction(stray), Fraction(stray) + Fraction(quality)
    if not 2 * max(4 * r, end) <= 1 or 2 * end == 1:
        raise InfeasiblePlan(
            f"scores that stray by r = {stray}, of quality zeta = {quality}, leave one bin: 4 r must be at most 1/2 "
            "and r + zeta below it; take more records, or a learner that is more stable"
        )
    most = math.floor(1 / max(4 * r, end, Fraction(1, MOST_BINS)))
    return most - 1 if end * most == 1 else most


def soft_plan(
    n: int,
    mu: Callable[[int], Number],
    zeta: Number,
    *,
    epsilon: Number,
    delta: Number,
    beta: Number = BETA,
    uncertain: int,
    max_queries: int,
    mode: StableMode = "auto",
    delta_split: Number = HALF,
) -> SoftPlan:
    """The precision that n records give. `mu(N)`: the learner's mean-square stability at N samples; `zeta`: a mean
    score within it of 0 or 1 is of weak quality; `uncertain`: how many queries at most lack it.

    Claim: n i.i.d. records in chunks of equal size: with probability at least 1 - beta every query is answered, within
    half a bin of the mean score where that has weak quality and within 3/4 of a bin elsewhere. Half of beta is the
    noise's, half the scores'. Raises ParameterError naming the field, InfeasiblePlan where there are too few records.
    Source: docs/proofs/stability_utility.md, "Soft answers".

    >>> words = {"max_queries": 1000, "epsilon": 1, "delta": "1e-6", "beta": "0.05"}
    >>> plan = dpl.planning.soft_plan(10**7, lambda size: 1 / size, "0.05", uncertain=20, **words)
    >>> plan.bins, plan.accuracy
    (6, Decimal('0.125'))
    """
    records = whole(n, field="n", least=1, most=MOST_RECORDS)
    queries = whole(max_queries, field="max_queries", least=1, most=MOST_TRIALS)
    spoilt = whole(uncertain, field="uncertain", least=0, most=queries)
    budget, way = read_budget(epsilon, delta, delta_split), read_mode(mode, gaussian=False)
    quality, risk = read(zeta, field="zeta"), open_unit(beta, "beta")
    if not quality < HALF:
        raise ParameterError("zeta", quality, "a number in [0, 0.5)")
    half, paper = multiply(risk, HALF), way == "paper"
    cutoff = 2 * (spoilt + 1) if paper else spoilt + 1
    tests = planned_tests(budget, cutoff, 2 * queries, way)
    distance = distance_of(tests, 2 * queries, half)
    votes = hoeffding_votes(2 * queries, risk) if paper else 3
    chunks = fewest_votes(
        queries, half, dissent=THIRD, least=max(chunks_for(distance, THIRD), votes), skips_thirds=True
    )
    samples = records // chunks
    if not samples:
        raise InfeasiblePlan(f"{records} records are fewer than the {chunks} chunks that are needed")
    stray = radius(_mean_square(mu, samples), samples, factor=32 if paper else 2)
    try:
        bins = bins_for(stray, quality)
    except InfeasiblePlan as error:
        raise InfeasiblePlan(f"{records} records in {chunks} chunks of {samples}: {error}") from None
    return SoftPlan(
        needed=chunks * samples,
        chosen=records,
        terms=(
            ("distance", chunks_for(distance, THIRD)),
            ("scores", max(votes, fewest_votes(queries, half, dissent=THIRD, least=3, skips_thirds=True))),
        ),
        status="conservative" if paper else "proved",
        budget=budget,
        tests=tests,
        max_queries=queries,
        uncertain=spoilt,
        failed_tests=min(cutoff, 2 * queries),
        chunks=chunks,
        chunk_size=samples,
        radius=stray,
        bins=bins,
        accuracy=round_up(Fraction(3, 4 * bins)),
        required_distance=distance,
        required_gap=2 * (distance + 1),
        beta=risk,
    )


def _mean_square(mu: Callable[[int], Number], samples: int) -> Decimal:
    if not callable(mu):
        raise ParameterError("mu", mu, "a function of the number of samples")
    return read(mu(samples), field="mu")
