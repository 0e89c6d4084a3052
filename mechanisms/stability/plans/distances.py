"""From which distance on every query is answered: of a law of stable tests, with the paper's constants, and of Gaussian
tests without a cutoff.

>>> from decimal import Decimal
>>> paper_distance(Decimal(1), Decimal("1e-6"), 20, 1000, Decimal("0.05"))
Decimal('19353.4714902')
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Literal, TypeAlias

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.arithmetic.conversions import delta_of_gdp
from dpledger.accounting.leaves import SparseVectorLaw
from dpledger.accounting.sparse_vectors.accuracy import svt_alpha
from dpledger.accounting.sparse_vectors.losses import certify
from dpledger.accounting.sparse_vectors.scales import MODES, SparseVectorMode, sparse_vector_law
from dpledger.accounting.sparse_vectors.stable_scales import stable_law
from dpledger.decimals import add, multiply, round_down, round_up, subtract
from dpledger.errors import CannotCertify, InfeasiblePlan, ParameterError, UnknownWord, WorkLimit

__all__ = [
    "PlanMode",
    "distance_needed",
    "distance_of",
    "gaussian_distance",
    "law_of",
    "others",
    "paper_chunks",
    "paper_distance",
    "read_mode",
    "require_budget",
]

PlanMode: TypeAlias = SparseVectorMode | Literal["auto", "paper"]

HALF = Decimal("0.5")
SEARCH = 60  # halvings of a noise scale


def read_mode(mode: PlanMode) -> PlanMode:
    """The mode, if it is one."""
    if mode not in ("auto", "paper", *MODES):
        raise UnknownWord("mode", mode, f"auto, paper or one of {', '.join(MODES)}")
    return mode


@lru_cache(maxsize=4096)
def law_of(
    epsilon: Decimal, delta: Decimal, cutoff: int, max_queries: int, mode: PlanMode, delta_split: Decimal = HALF
) -> SparseVectorLaw:
    """The law of stable tests that a mechanism of this mode runs. `paper`: the scales of dr14 at delta/2, and the
    threshold 2 scale log(2 max_queries/delta), rounded up; `certify` accepts it."""
    cutoff = min(cutoff, max_queries)
    if mode != "paper":
        return stable_law(epsilon, delta, cutoff, mode, max_queries=max_queries, delta_split=delta_split)
    law = sparse_vector_law(epsilon, round_down(multiply(delta, HALF)), cutoff, "dr14")
    with localcontext(outward.context(delta)):
        threshold = outward.above(2 * law.threshold_scale * outward.ln(2 * max_queries / delta))
    law = replace(law, delta=delta, stable_at=math.ceil(threshold))
    certify(law)
    return law


def distance_needed(law: SparseVectorLaw, queries: int, beta: Decimal) -> Decimal:
    """The distance, in whole steps, from which on every one of `queries` values is released.

    Claim: with probability at least 1 - beta over the noise, which is discrete, as long as fewer queries than the
    cutoff are nearer. Source: docs/proofs/sparse_vector.md, "Utility"."""
    return add(Decimal(law.stable_at or 0), svt_alpha(law, queries, beta, noise="discrete_laplace"))


def distance_of(mode: PlanMode, law: SparseVectorLaw, queries: int, beta: Decimal) -> Decimal:
    """The distance that a plan of this mode counts on: what the law needs, or the published one if that is more."""
    needed = distance_needed(law, queries, beta)
    return max(needed, paper_distance(law.epsilon, law.delta, law.cutoff, queries, beta)) if mode == "paper" else needed


def others(
    epsilon: Decimal, delta: Decimal, cutoff: int, queries: int, beta: Decimal, *, taken: str
) -> tuple[tuple[str, Decimal], ...]:
    """The distance that each other mode needs, and Gaussian tests, which have no cutoff ("gaussian"); those that have
    none here are left out."""
    found: list[tuple[str, Decimal]] = []
    for mode in MODES:
        if mode == taken:
            continue
        try:
            law = law_of(epsilon, delta, cutoff, queries, mode)
        except (CannotCertify, InfeasiblePlan, WorkLimit):
            continue
        found.append((mode, distance_needed(law, queries, beta)))
    found.append(("gaussian", gaussian_distance(epsilon, delta, queries, beta)))
    return tuple(sorted(found, key=lambda one: one[1]))


def paper_distance(epsilon: Decimal, delta: Decimal, cutoff: int, queries: int, beta: Decimal) -> Decimal:
    """8 scale log(4 m T/min(delta, beta)), the published distance of Corollary 3.9; rounded up.

    Claim: at least `distance_needed` of the paper's law. Source: docs/proofs/stability_utility.md, "The paper's"."""
    with localcontext(outward.context(delta)):
        root = (2 * cutoff * outward.ln(2 / delta)).sqrt()
        return outward.above(32 * outward.ln(4 * queries * cutoff / min(delta, beta)) * root / epsilon)


def paper_chunks(epsilon: Decimal, delta: Decimal, cutoff: int, queries: int, beta: Decimal) -> Decimal:
    """136 log(4 m T/min(delta, beta/2)) sqrt(T log(2/delta))/epsilon, the published k of Theorem 3.11, rounded up: of a
    distance that is not halved, and so half of what is needed."""
    with localcontext(outward.context(delta)):
        root = (cutoff * outward.ln(2 / delta)).sqrt()
        return outward.above(136 * outward.ln(4 * queries * cutoff / min(delta, beta / 2)) * root / epsilon)


@lru_cache(maxsize=1024)
def gaussian_distance(epsilon: Decimal, delta: Decimal, queries: int, beta: Decimal) -> Decimal:
    """The distance that direct tests with Gaussian noise need, half of delta for the values; continuous noise, for
    comparison.

    Claim: with s the least noise whose `queries`-fold composition is (epsilon, delta/2)-DP and Gamma the threshold with
    1 - (1 - Q(Gamma/s))^m <= delta/2, every query at Gamma + s Q^-1(beta/m) is answered with probability 1 - beta.
    Source: docs/proofs/stability_utility.md, "Gaussian tests"."""
    half = multiply(delta, HALF)
    with localcontext(outward.context(delta)):
        mu = _largest_gdp(epsilon, half)
        s = Decimal(queries).sqrt() / mu
        one = -outward.expm1(outward.ln1p(-half) / queries)
        threshold = s * outward.tail_quantile(-outward.ln(one))
        return outward.above(threshold + s * outward.tail_quantile(-outward.ln(min(beta / queries, HALF))))


def _largest_gdp(epsilon: Decimal, delta: Decimal) -> Decimal:
    """A mu, from below, with delta_of_gdp(mu, epsilon) <= delta."""
    low, high = Decimal(1), Decimal(2)
    while delta_of_gdp(low, epsilon) > delta:
        low, high = round_down(multiply(low, HALF)), low
        if not low:
            raise InfeasiblePlan(f"no Gaussian noise keeps delta {delta} at epsilon {epsilon}")
    while delta_of_gdp(high, epsilon) <= delta:
        low, high = high, round_up(multiply(high, Decimal(2)))
    for _ in range(SEARCH):
        middle = round_down(multiply(add(low, high), HALF))
        if middle in (low, high) or subtract(high, low) <= multiply(high, Decimal("1e-9")):
            break
        low, high = (middle, high) if delta_of_gdp(middle, epsilon) <= delta else (low, middle)
    return low


def require_budget(epsilon: Decimal, delta: Decimal) -> None:
    """Stable answers need some of both."""
    if not epsilon > 0:
        raise ParameterError("epsilon", epsilon, "a number above 0")
    if not 0 < delta < HALF:
        raise ParameterError("delta", delta, "a number in (0, 0.5): values are released with some probability")
