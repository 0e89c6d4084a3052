"""How many users are enough to find the least error of a class, each with m examples, by halving or by guesses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias, assert_never

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.composition import SparseVectorLaw
from dpledger.accounting.families.sparse_vector.scales import sparse_vector_law
from dpledger.decimals import Number, exact, read, round_down, text, whole
from dpledger.errors import InfeasiblePlan
from dpledger.mechanisms.learning.theory.concepts import FiniteClass, PointClass, ThresholdClass
from dpledger.mechanisms.learning.theory.needed_units import (
    SampleSize,
    ceiling,
    largest_of,
    natural_log,
    uc_one,
    users_of_examples,
)
from dpledger.mechanisms.learning.theory.users.gap import GRID_BITS, gap_worst
from dpledger.mechanisms.plan import open_unit

__all__ = [
    "MOST_EXAMPLES",
    "ROUNDED",
    "ErrorSearch",
    "Richness",
    "estimator_plan",
    "estimator_terms",
    "estimator_users",
    "guesses_for",
    "rounds_for",
    "scan_law",
]

ErrorSearch: TypeAlias = Literal["bisection", "scan"]
"""How the least error is searched for: by halving, with a part of epsilon for each test; by guesses from below, with a
sparse vector of all of them."""

ZERO, ONE, HALF = Decimal(0), Decimal(1), Decimal("0.5")
MOST_EXAMPLES = 10**9  # of a user
SLACKS = tuple(exact(Fraction(f, 20)) for f in range(2, 10))  # of the gap: what the counts of users may deviate by
ROUNDED = exact(Fraction(1, 2 ** (GRID_BITS + 1)))  # by which a threshold of the estimator may be off its middle


@dataclass(frozen=True, slots=True)
class Richness:
    """What is known of a class: ln |C|, and its VC dimension where there is a formula for it."""

    size: int
    vc: int | None

    @classmethod
    def of(cls, concepts: FiniteClass | PointClass | ThresholdClass) -> Richness:
        """Of a class."""
        return cls(concepts.size, concepts.vc)

    def deviation(self, slack: Decimal, failure: Decimal, *, levels: int, m: int, more: int = 0) -> int:
        """How many users keep the frequencies of all concepts, at each of so many levels, within `slack`; `more`: the
        further events of the union."""
        return uc_one(slack, failure, ln_card=natural_log(self.size + more), vc=self.vc, mult=levels, m=m)


def rounds_for(resolution: Decimal) -> int:
    """ceil(log2(1/resolution)): how often [0, 1] is halved until it is no wider."""
    return max(1, (math.ceil(1 / Fraction(resolution)) - 1).bit_length())


def guesses_for(resolution: Decimal, top: Decimal = ONE) -> int:
    """How many of 0, resolution, 2 resolution, ... are below `top` and below 1 - resolution."""
    return min(math.ceil(Fraction(top) / Fraction(resolution)), math.ceil(1 / Fraction(resolution)) - 1)


def estimator_users(richness: Richness, m: int, resolution: Decimal, epsilon: Decimal, failure: Decimal) -> int:
    """How many users the search for the least error by bisection needs, to be within `resolution` but with probability
    `failure`. Claim and source: `estimator_terms`."""
    return max(needed for _, needed in estimator_terms(richness, m, resolution, epsilon, failure, "bisection"))


def scan_law(epsilon: Decimal) -> SparseVectorLaw:
    """The leaf of a scan, without an outcome: half of epsilon for the threshold, half for where it stops."""
    return sparse_vector_law(epsilon, ZERO, 1, "single_threshold", share=HALF)


@lru_cache(maxsize=1024)
def estimator_terms(
    richness: Richness, m: int, resolution: Decimal, epsilon: Decimal, failure: Decimal, search: ErrorSearch
) -> tuple[tuple[str, int], ...]:
    """How many users that asks for, by cause, in the best way to share the gap.

    Claim: the greater of the deviation of all concepts within s, at each of the levels that may be used, and of noise
    within n (Gamma/2 - s), for the best of some s < Gamma/2. Published bounds of the bisection leave the levels out,
    which depend on the data through the search.
    Source: docs/proofs/learning_users.md, section 3; Li-Wang-Ye 2024, lemma 4.5."""
    gap, tests = gap_worst(m, resolution), _most_guesses(search, resolution)
    noise = _noise_of(search, resolution, epsilon, failure)
    with localcontext(outward.context(resolution, epsilon, failure)):
        half = round_down(failure / 2)
        found = [
            (
                ("deviation of all concepts", richness.deviation(slack, half, levels=min(m, tests), m=m, more=1)),
                ("noise of the tests", ceiling(noise / (gap / 2 - share * gap - ROUNDED))),
            )
            for share in SLACKS
            if (slack := round_down(share * gap)) > 0 and gap / 2 - share * gap > ROUNDED
        ]
    if not found:
        raise InfeasiblePlan(f"a grid of 2^-{GRID_BITS} cannot tell errors apart that differ by {resolution}")
    return min(found, key=lambda terms: max(needed for _, needed in terms))


def _most_guesses(search: ErrorSearch, resolution: Decimal) -> int:
    """How many guesses a search may come to, on any data."""
    match search:
        case "bisection":
            return int(2 ** rounds_for(resolution) - 1)
        case "scan":
            return guesses_for(resolution)
        case _:
            assert_never(search)


def _noise_of(search: ErrorSearch, resolution: Decimal, epsilon: Decimal, failure: Decimal) -> Decimal:
    """What the noise of no test is beyond but with probability failure/2, in users.

    Source: docs/proofs/learning_users.md, section 3."""
    match search:
        case "bisection":
            rounds = rounds_for(resolution)
            with localcontext(outward.context(epsilon, failure)):
                return outward.ln(2 * rounds / failure) * rounds / epsilon
        case "scan":
            law, guesses = scan_law(epsilon), guesses_for(resolution)
            with localcontext(outward.context(epsilon, failure)):
                threshold, queries = outward.ln(4 / failure), outward.ln(2 * guesses / failure)
                return law.threshold_scale * threshold + law.query_scale * queries + 6 * ROUNDED
        case _:
            assert_never(search)


def estimator_plan(
    concept_class: FiniteClass | PointClass | ThresholdClass,
    examples: int,
    resolution: Number,
    epsilon: Number,
    beta: Number,
    search: ErrorSearch = "bisection",
) -> SampleSize:
    """How many users a `MinimumErrorEstimator` needs for its interval to hold the least error.

    Claim: but with probability beta, if `gap_worst` is what it is certified to be. Source: `estimator_terms`."""
    width, risk = open_unit(resolution, "resolution"), open_unit(beta, "beta")
    m = whole(examples, field="examples", least=1, most=MOST_EXAMPLES)
    return largest_of(
        estimator_terms(Richness.of(concept_class), m, width, read(epsilon, field="epsilon"), risk, search),
        status="certified",
        target=f"the least error within {text(width)}, but with probability {text(risk)}",
        bound=f"users, least error by {search}",
        units=users_of_examples(m),
    )
