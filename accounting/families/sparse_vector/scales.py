"""The least noise with which a sparse vector keeps a budget, mode by mode; and which mode is the most accurate.

Imported by whoever plans a sparse vector, and not with its package: pricing one needs none of it.

>>> law = sparse_vector_law(Decimal(1), Decimal(0), 1, "basic")
>>> law.threshold_scale, law.query_scale
(Decimal('2'), Decimal('4'))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias, assert_never

from dpledger.accounting.arithmetic import outward, scalars
from dpledger.accounting.families.sparse_vector.accuracy import svt_alpha
from dpledger.accounting.families.sparse_vector.calls import best_calls
from dpledger.accounting.families.sparse_vector.leaf import SparseVectorLaw
from dpledger.accounting.families.sparse_vector.losses import certify, target_delta
from dpledger.accounting.families.sparse_vector.pure_steps import kov_delta
from dpledger.decimals import ZERO, add, multiply, round_up, subtract
from dpledger.errors import CannotCertify, ClaimTooSmall, InfeasiblePlan, ParameterError, WorkLimit

__all__ = [
    "AUTO_BETA",
    "AUTO_QUERIES",
    "MODES",
    "SHARE_DIGITS",
    "SparseVectorMode",
    "auto_mode",
    "divided",
    "sparse_vector_law",
]

SparseVectorMode: TypeAlias = Literal["single_threshold", "target_charging", "basic", "dr14", "zcdp", "kov"]

MODES: tuple[SparseVectorMode, ...] = ("single_threshold", "target_charging", "kov", "zcdp", "basic", "dr14")
"""Every mode, in the order in which `auto_mode` breaks ties."""

AUTO_BETA = Decimal("0.05")  # the utility failure at which modes are compared
AUTO_QUERIES = 1000  # queries a charged answer, where the number of queries is not limited
SHARE_DIGITS = 3  # of the part of epsilon that single_threshold gives the threshold
SEARCH_WIDTH = Decimal("1e-11")  # relative width at which a scale is found
ONE = Decimal(1)
HALF = Decimal("0.5")


@lru_cache(maxsize=512)
def sparse_vector_law(
    epsilon: Decimal,
    delta: Decimal,
    cutoff: int,
    mode: SparseVectorMode,
    *,
    max_queries: int | None = None,
    share: Decimal | None = None,
    monotone: bool = False,
) -> SparseVectorLaw:
    """The law of `mode` with the least noise that keeps (epsilon, delta); the pure modes use no delta.

    Claim: `certify` accepts the result. `share`: of epsilon, in (0, 1), on the threshold in single_threshold; else
    the best for the utility, for which alone `max_queries` counts. `monotone`: all queries move in one direction
    between neighbours (target_charging gains nothing by it).
    Source: docs/proofs/sparse_vector.md, "Scales". Raises ParameterError for a range, CannotCertify where the formula
    of dr14 does not hold, InfeasiblePlan if no scale was found.
    """
    _require_budget(epsilon, delta, cutoff, mode)
    _require_share(share, mode)
    match mode:
        case "single_threshold":
            best = share or _best_share(cutoff, max_queries or AUTO_QUERIES * cutoff, monotone)
            law = divided(epsilon, cutoff, best, monotone=monotone)
        case "basic":
            law = _epochs_law(epsilon, ZERO, cutoff, mode, round_up(2 * cutoff / Fraction(epsilon)), monotone)
        case "dr14":
            law = _epochs_law(epsilon, delta, cutoff, mode, _dr14_scale(epsilon, delta, cutoff), monotone)
        case "zcdp":
            law = _epochs_law(epsilon, delta, cutoff, mode, _zcdp_scale(epsilon, delta, cutoff), monotone)
        case "kov":
            law = _epochs_law(epsilon, delta, cutoff, mode, _kov_scale(epsilon, delta, cutoff), monotone)
        case "target_charging":
            law = _target_charging(epsilon, delta, cutoff)
        case _:
            assert_never(mode)
    try:
        certify(law)
    except ClaimTooSmall as error:
        raise CannotCertify(f"the scales of mode {mode} do not keep the budget: {error}") from None
    return law


def _require_budget(epsilon: Decimal, delta: Decimal, cutoff: int, mode: SparseVectorMode) -> None:
    if not (epsilon.is_finite() and epsilon > 0):
        raise ParameterError("epsilon", epsilon, "a number above 0")
    if not 0 <= delta < HALF:
        raise ParameterError("delta", delta, "a number in [0, 0.5)")
    if cutoff < 1:
        raise ParameterError("cutoff", cutoff, "a whole number of at least 1")
    if not delta and mode not in ("single_threshold", "basic"):
        raise ParameterError("delta", delta, f"a number above 0 in mode {mode}")


def _require_share(share: Decimal | None, mode: SparseVectorMode | Literal["auto"]) -> None:
    if share is None:
        return
    if mode not in ("single_threshold", "auto"):
        raise ParameterError("share", share, f"nothing in mode {mode}: only single_threshold divides epsilon")
    if not 0 < share < 1:
        raise ParameterError("share", share, "a number in (0, 1): the part of epsilon on the threshold")


def _charge(monotone: bool) -> int:
    """What a charged test costs, in 1/query_scale."""
    return 1 if monotone else 2


def _epochs_law(
    epsilon: Decimal, delta: Decimal, cutoff: int, mode: SparseVectorMode, scale: Decimal, monotone: bool
) -> SparseVectorLaw:
    """Threshold noise of `scale` and twice that on queries (monotone: as much): an epoch of 2/scale."""
    on_queries = multiply(scale, _charge(monotone))
    return SparseVectorLaw(mode, cutoff, epsilon, delta, scale, on_queries, monotone=monotone or None)


def divided(epsilon: Decimal, cutoff: int, share: Decimal, *, monotone: bool = False) -> SparseVectorLaw:
    """The law of single_threshold with the share s of epsilon on the threshold: scales 1/(s epsilon) there and
    2 cutoff/((1-s) epsilon) on queries (monotone: cutoff/((1-s) epsilon)), rounded up."""
    threshold_scale = round_up(1 / Fraction(multiply(share, epsilon)))
    query_scale = round_up(_charge(monotone) * cutoff / Fraction(multiply(subtract(ONE, share), epsilon)))
    return SparseVectorLaw(
        "single_threshold", cutoff, epsilon, ZERO, threshold_scale, query_scale, monotone=monotone or None
    )


def _best_share(cutoff: int, queries: int, monotone: bool) -> Decimal:
    """The s that is best for the utility distance log(1/beta)/s + 2 cutoff log(queries/beta)/(1-s); monotone: half the
    second."""
    on_threshold = math.sqrt(scalars.log(1 / float(AUTO_BETA)))
    on_queries = math.sqrt(_charge(monotone) * cutoff * scalars.log(queries / float(AUTO_BETA)))
    return round_up(on_threshold / (on_threshold + on_queries), digits=SHARE_DIGITS)


def _dr14_scale(epsilon: Decimal, delta: Decimal, cutoff: int) -> Decimal:
    """sqrt(32 cutoff log(1/delta)) / epsilon. Source: Dwork-Roth 2014, Algorithm 2."""
    with localcontext(outward.context(delta)):
        return outward.above((-32 * cutoff * outward.ln(delta)).sqrt() / epsilon)


def _zcdp_scale(epsilon: Decimal, delta: Decimal, cutoff: int) -> Decimal:
    """sqrt(2 cutoff) (sqrt(epsilon + log(1/delta)) + sqrt(log(1/delta))) / epsilon. Source: Bun-Steinke 2016."""
    with localcontext(outward.context(delta)):
        log = -outward.ln(delta)
        return outward.above(Decimal(2 * cutoff).sqrt() * ((epsilon + log).sqrt() + log.sqrt()) / epsilon)


def _kov_scale(epsilon: Decimal, delta: Decimal, cutoff: int) -> Decimal:
    """The least scale whose epochs of 2/scale keep (epsilon, delta); basic composition bounds it."""
    return _least_scale(
        lambda scale: kov_delta(epsilon, 2 / Fraction(scale), cutoff) <= delta,
        round_up(2 * cutoff / Fraction(epsilon)),
    )


def _target_charging(epsilon: Decimal, delta: Decimal, cutoff: int) -> SparseVectorLaw:
    """The least query scale for which some number of calls, found in doubles, is certified to keep (epsilon, delta)."""

    def calls_at(scale: Decimal) -> int | None:
        return best_calls(float(epsilon), float(delta), cutoff, 1 / float(scale))

    def enough(scale: Decimal) -> bool:
        calls = calls_at(scale)
        return calls is not None and target_delta(epsilon, 1 / Fraction(scale), cutoff, calls) <= delta

    scale = _least_scale(enough, round_up(cutoff / Fraction(epsilon)))
    return SparseVectorLaw("target_charging", cutoff, epsilon, delta, ZERO, scale, calls_at(scale))


def _least_scale(enough: Callable[[Decimal], bool], start: Decimal) -> Decimal:
    """A scale that is enough, the next smaller one tried not being so: `enough` is true of large scales."""
    high = start
    while not enough(high):
        high = _next(high, Decimal(2))
    low = _next(high, HALF)
    while enough(low):
        high, low = low, _next(low, HALF)
    while subtract(high, low) > multiply(high, SEARCH_WIDTH):
        middle = round_up(multiply(add(low, high), HALF))
        if middle in (low, high):
            break
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _next(scale: Decimal, factor: Decimal) -> Decimal:
    moved = round_up(multiply(scale, factor))
    if not Decimal("1e-50") < moved < Decimal("1e17"):
        raise InfeasiblePlan("no noise scale within 1e-50 and 1e17 keeps the budget")
    return moved


@lru_cache(maxsize=512)
def auto_mode(
    epsilon: Decimal,
    delta: Decimal,
    cutoff: int,
    *,
    max_queries: int | None = None,
    share: Decimal | None = None,
    monotone: bool = False,
) -> SparseVectorMode:
    """The mode with the least `svt_alpha` at beta 0.05 for `max_queries` queries (1000 a charged answer if not given):
    a function of public parameters only. With delta = 0 it is single_threshold; ties go to the first of `MODES`.
    `share`: that of single_threshold, where that is compared."""
    _require_share(share, "auto")
    if not delta:
        return "single_threshold"
    queries = max_queries or AUTO_QUERIES * cutoff
    best: tuple[Decimal, SparseVectorMode] | None = None
    for mode in MODES:
        own = share if mode == "single_threshold" else None
        try:
            law = sparse_vector_law(epsilon, delta, cutoff, mode, max_queries=max_queries, share=own, monotone=monotone)
        except (CannotCertify, InfeasiblePlan, WorkLimit):
            continue  # this mode has no scale here: another one has
        alpha = svt_alpha(law, queries, AUTO_BETA)
        if best is None or alpha < best[0]:
            best = (alpha, mode)
    if best is None:
        raise InfeasiblePlan(f"no mode keeps delta {delta} at epsilon {epsilon}")
    return best[1]
