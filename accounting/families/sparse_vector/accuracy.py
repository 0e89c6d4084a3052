"""How likely a test of a sparse vector passes, and how far above the threshold a query must be to pass."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, localcontext
from functools import lru_cache
from typing import Literal, TypeAlias

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.families.sparse_vector.leaf import SparseVectorLaw
from dpledger.decimals import add, in_own_context, is_whole, multiply, subtract
from dpledger.errors import ParameterError

__all__ = ["Noise", "difference_tail", "pass_probability", "svt_alpha"]

Noise: TypeAlias = Literal["laplace", "discrete_laplace"]

HALF = Decimal("0.5")
ONE = Decimal(1)


def svt_alpha(law: SparseVectorLaw, max_queries: int, beta: Decimal, *, noise: Noise = "laplace") -> Decimal:
    """How far above the threshold a query must be to pass, for all of `max_queries` queries at once, in units of the
    sensitivity (`discrete_laplace`: for scales and queries in whole steps); rounded up.

    Claim: with probability at least 1 - beta every query at least that far above passes, as long as fewer than the
    cutoff are not. Source: docs/proofs/sparse_vector.md, "Utility".
    """
    if not 0 < beta < 1:
        raise ParameterError("beta", beta, "a number in (0, 1)")
    if max_queries < 1:
        raise ParameterError("max_queries", max_queries, "a whole number of at least 1")
    thresholds = 1 if law.mode == "single_threshold" else law.cutoff
    share = beta if law.mode == "target_charging" else multiply(beta, HALF)
    with localcontext(outward.context(law.query_scale)):
        even = max(ONE, thresholds / beta)
        on_threshold = outward.above(law.threshold_scale * outward.ln(even))
        if noise == "laplace":
            return add(on_threshold, outward.above(law.query_scale * outward.ln(max(ONE, max_queries / share / 2))))
        kept = 1 + outward.exp(-1 / law.query_scale)
        on_queries = outward.above(law.query_scale * outward.ln(max(ONE, max_queries / share / kept)))
        return add(_ceiling(on_threshold), _ceiling(on_queries))


def _ceiling(number: Decimal) -> Decimal:
    return number.to_integral_value(rounding=ROUND_CEILING)


def pass_probability(
    value: Decimal, threshold: Decimal, threshold_scale: Decimal, query_scale: Decimal, *, noise: Noise
) -> Decimal:
    """P(value + noise(query_scale) > threshold + noise(threshold_scale)), to at least thirty digits; for the discrete
    noise `value` and `threshold` are whole. threshold_scale 0: no noise on the threshold."""
    gap = subtract(threshold, value)
    with localcontext(outward.context(gap)):
        if noise == "laplace":
            tail = difference_tail(abs(gap), threshold_scale, query_scale, noise=noise)
            return tail if gap >= 0 else 1 - tail
        if gap >= 0:
            return difference_tail(gap + 1, threshold_scale, query_scale, noise=noise)
        return 1 - difference_tail(-gap, threshold_scale, query_scale, noise=noise)


@lru_cache(maxsize=4096)
def difference_tail(distance: Decimal, threshold_scale: Decimal, query_scale: Decimal, *, noise: Noise) -> Decimal:
    """P(noise(query_scale) - noise(threshold_scale) > distance) for distance >= 0; of discrete noise that it is at
    least `distance`, a whole number >= 1. To at least thirty digits.

    Source: docs/proofs/sparse_vector.md, "Tails".
    """
    if distance < (1 if noise == "discrete_laplace" else 0):
        raise ParameterError("distance", distance, "0 or more (discrete noise: 1 or more)")
    if noise == "discrete_laplace" and not is_whole(distance):
        raise ParameterError("distance", distance, "a whole number of steps")
    narrow, broad = sorted((threshold_scale, query_scale))  # the difference is symmetric
    with localcontext(outward.context(narrow, broad, subtract(broad, narrow))):
        if noise == "laplace":
            return _continuous_tail(distance, narrow, broad)
        return _discrete_tail(distance, narrow, broad)


@in_own_context
def _continuous_tail(s: Decimal, narrow: Decimal, broad: Decimal) -> Decimal:
    if narrow == broad:
        return outward.exp(-s / broad) * (1 + s / (2 * broad)) / 2
    if not narrow:
        return outward.exp(-s / broad) / 2
    wide, close = broad**2 * outward.exp(-s / broad), narrow**2 * outward.exp(-s / narrow)
    return (wide - close) / (2 * (broad**2 - narrow**2))


@in_own_context
def _discrete_tail(s: Decimal, narrow: Decimal, broad: Decimal) -> Decimal:
    q2 = outward.exp(-1 / broad)
    if not narrow:
        return q2**s / (1 + q2)
    q1 = outward.exp(-1 / narrow)
    mass = (1 - q1) / (1 + q1) * (1 - q2) / (1 + q2)
    if narrow == broad:
        return mass * q2**s / (1 - q2) * (s + 1 + 2 * q2**2 / (1 - q2**2) + q2 / (1 - q2))
    crossed = q1 * q2 / (1 - q1 * q2)
    heavy = q2**s / (1 - q2) * (q2 / (q2 - q1) + crossed)
    light = q1**s / (1 - q1) * (q1 / (q2 - q1) - crossed)
    return mass * (heavy - light)
