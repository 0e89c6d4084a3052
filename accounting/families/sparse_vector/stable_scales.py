"""The least noise, and the least threshold, with which a sparse vector may release a value with each free answer.

A query is a whole distance to a dataset of another value, 0 where a neighbour has one (docs/proofs/sparse_vector.md,
"Released values"). Part of delta pays for composing the tests, the rest for the values.

>>> law = stable_law(Decimal(1), Decimal("1e-6"), 20, "single_threshold", max_queries=1000)
>>> law.stable_at, law.monotone
(692, None)
"""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, outward
from dpledger.accounting.families.sparse_vector.accuracy import Noise, svt_alpha
from dpledger.accounting.families.sparse_vector.leaf import SparseVectorLaw
from dpledger.accounting.families.sparse_vector.losses import certify, composition_delta
from dpledger.accounting.families.sparse_vector.scales import (
    AUTO_BETA,
    AUTO_QUERIES,
    MODES,
    SHARE_DIGITS,
    SparseVectorMode,
    sparse_vector_law,
)
from dpledger.accounting.families.sparse_vector.stability import stability_delta
from dpledger.decimals import ZERO, add, multiply, round_down, round_up, subtract
from dpledger.errors import CannotCertify, InfeasiblePlan, ParameterError, WorkLimit

__all__ = ["published_law", "required_distance", "stable_law"]

Array = npt.NDArray[np.float64]
MOST_STEPS = 2**53 - 1  # a threshold is below it
HALF = Decimal("0.5")


@lru_cache(maxsize=256)
def stable_law(
    epsilon: Decimal,
    delta: Decimal,
    cutoff: int,
    mode: SparseVectorMode | Literal["auto"],
    *,
    max_queries: int | None = None,
    delta_split: Decimal = HALF,
    share: Decimal | None = None,
) -> SparseVectorLaw:
    """The law with the least noise, and then the least threshold, that keeps (epsilon, delta) with released values.

    Claim: `certify` accepts the result. `delta_split`: the part of delta that composition may use, in (0, 1); the pure
    modes use none. `share`: as in `sparse_vector_law`; None: the one with the least `required_distance`. With mode auto
    the mode that has the least; ties go to the first of `MODES`. Raises as `sparse_vector_law`, and InfeasiblePlan
    where no threshold that can be written would do.
    """
    if not 0 < delta < HALF:
        raise ParameterError("delta", delta, "a number in (0, 0.5): values are released with some probability")
    if not 0 < delta_split < 1:
        raise ParameterError("delta_split", delta_split, "a number in (0, 1)")
    cutoff = cutoff if max_queries is None else min(cutoff, max_queries)
    queries = max_queries or AUTO_QUERIES * cutoff
    if mode != "auto":
        return _of_mode(epsilon, delta, cutoff, mode, queries, delta_split, share)
    found = []
    for each in MODES:
        own = share if each == "single_threshold" else None
        try:
            found.append(_of_mode(epsilon, delta, cutoff, each, queries, delta_split, own))
        except (CannotCertify, InfeasiblePlan, WorkLimit):
            continue  # this mode has no scale here: another one has
    if not found:
        raise InfeasiblePlan(f"no mode keeps delta {delta} at epsilon {epsilon}")
    return min(found, key=lambda law: required_distance(law, queries, AUTO_BETA))


def required_distance(law: SparseVectorLaw, max_queries: int, beta: Decimal, *, noise: Noise = "laplace") -> Decimal:
    """The distance from which on every value is released, for all of `max_queries` queries at once: `stable_at` and
    `svt_alpha` above it.

    Claim: with probability at least 1 - beta, for noise of this kind, as long as fewer queries than the cutoff are
    nearer."""
    return add(Decimal(law.stable_at or 0), svt_alpha(law, max_queries, beta, noise=noise))


@lru_cache(maxsize=256)
def published_law(epsilon: Decimal, delta: Decimal, cutoff: int, max_queries: int) -> SparseVectorLaw:
    """The scales and the threshold of Bassily-Thakkar-Thakurta 2018, Algorithm 3: lambda = sqrt(32 T log(2/delta))
    / epsilon (on queries twice that), w = 2 lambda log(2m/delta).

    Claim: `certify` accepts the result. The published argument for w does not hold, the guarantee does
    (docs/proofs/sparse_vector.md, "Released values"). Raises as `stable_law`.
    """
    if not 0 < delta < HALF:
        raise ParameterError("delta", delta, "a number in (0, 0.5): values are released with some probability")
    cutoff = min(cutoff, max_queries)
    law = sparse_vector_law(epsilon, round_down(multiply(delta, HALF)), cutoff, "dr14")
    with localcontext(outward.context(delta)):
        threshold = law.query_scale * outward.ln(2 * max_queries / delta)
        at = int(threshold.to_integral_value(rounding=ROUND_CEILING))
    if at > MOST_STEPS:
        raise InfeasiblePlan(f"the published threshold for {max_queries} queries is 2^53 or more")
    law = replace(law, delta=delta, stable_at=at)
    certify(law)
    return law


def _of_mode(
    epsilon: Decimal,
    delta: Decimal,
    cutoff: int,
    mode: SparseVectorMode,
    queries: int,
    delta_split: Decimal,
    share: Decimal | None,
) -> SparseVectorLaw:
    if mode == "single_threshold" and share is None:
        share = _best_share(float(epsilon), float(delta), cutoff, queries)
    composed = ZERO if mode in ("single_threshold", "basic") else round_down(multiply(delta, delta_split))
    law = sparse_vector_law(epsilon, composed, cutoff, mode, max_queries=queries, share=share)
    law = _with_threshold(replace(law, delta=delta), subtract(delta, composition_delta(law)))
    certify(law)
    return law


def _with_threshold(law: SparseVectorLaw, stability: Decimal) -> SparseVectorLaw:
    """The law at the least threshold, from 1 on, whose `stability_delta` is at most this."""

    def enough(at: int) -> bool:
        return stability_delta(replace(law, stable_at=at)) <= stability

    low, high = 0, 1
    while not enough(high):
        if high > MOST_STEPS // 2:
            raise InfeasiblePlan(f"no threshold below 2^53 releases a value with probability at most {stability}")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return replace(law, stable_at=high)


def _best_share(epsilon: float, delta: float, cutoff: int, queries: int) -> Decimal:
    """The share of epsilon on the threshold, in thousandths, with the least distance from which on every value is
    released; in doubles, for continuous noise: a guide, of which nothing is proven."""
    shares = np.arange(1, 10**SHARE_DIGITS) / 10**SHARE_DIGITS
    on_threshold, on_queries = 1 / (shares * epsilon), 2 * cutoff / ((1 - shares) * epsilon)
    beta = float(AUTO_BETA)
    needed = _thresholds(on_threshold, on_queries, delta / cutoff)
    needed += on_threshold * elementary.log(1 / beta) + on_queries * elementary.log(max(1.0, queries / beta))
    return round_up(Fraction(int(np.argmin(needed)) + 1, 10**SHARE_DIGITS))


def _thresholds(narrow: Array, broad: Array, tail: float) -> Array:
    """Where P(noise(broad) - noise(narrow) > w) is about `tail`: it lies between the tails of either scale alone."""
    widest = np.maximum(narrow, broad)
    low: Array = np.zeros_like(widest)
    high: Array = widest * (elementary.log(1 / tail) + 10) * 2
    squares = broad**2 - narrow**2
    squares = np.where(np.abs(squares) < 1e-9 * widest**2, 1e-9 * widest**2, squares)
    for _ in range(60):
        middle = (low + high) / 2
        found = (broad**2 * elementary.exp(-middle / broad) - narrow**2 * elementary.exp(-middle / narrow)) / (
            2 * squares
        )
        low, high = np.where(found > tail, middle, low), np.where(found > tail, high, middle)
    return high
