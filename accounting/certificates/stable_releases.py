"""With what probability one value may be released, by its distance from a dataset that has another.

A value is released, or not, by its *distance* d: a whole number that one unit moves by at most 1, and 0 on both of two
neighbours that have different values. `release_probability` is the greatest there is; `noisy_release` tests the
distance with Laplace noise. Proofs: docs/proofs/stability.md, sections 1 and 2.

>>> one, delta = Decimal(1), Decimal("0.01")
>>> [round(float(release_probability(one, delta, d)), 7) for d in range(4)]
[0.01, 0.0371828, 0.1110734, 0.3119287]
>>> sure_distance(one, delta), noisy_release(one, delta).threshold
(8, 4)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from dpledger.accounting.arithmetic import outward
from dpledger.accounting.families.sparse_vector.accuracy import difference_tail
from dpledger.decimals import ZERO, in_own_context, multiply, round_up, subtract
from dpledger.errors import InfeasiblePlan, ParameterError

__all__ = [
    "NoisyRelease",
    "grouped_noisy",
    "noisy_distance",
    "noisy_release",
    "release_distance",
    "release_probability",
    "sure_distance",
]

ONE = Decimal(1)
HALF = Decimal("0.5")
MOST_EPSILON = Decimal(200)  # of more, this much is used: delta, at least 10^-60, times e^200 is above 1
KEPT_BACK = Decimal("1e-15")  # of delta: what the rounding of probabilities may cost
MOST_STEPS = 2**53 - 1  # a threshold is below it


def _require(epsilon: Decimal, delta: Decimal) -> None:
    if not (epsilon.is_finite() and epsilon > 0):
        raise ParameterError("epsilon", epsilon, "a number above 0")
    if not 0 < delta < HALF:
        raise ParameterError("delta", delta, "a number in (0, 0.5): values are released with some probability")


# ---- the best probability -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    """Probabilities rise as `delta` (e^(epsilon (d+1)) - 1)/(e^epsilon - 1) up to the distance `turn`; from there what
    is `left` to 1 falls, and nothing is left at `sure`. `bits`: of a probability; `digits`: of what is computed."""

    epsilon: Decimal
    delta: Decimal
    turn: int
    left: Decimal
    sure: int
    bits: int
    digits: int


@lru_cache(maxsize=256)
def _curve(epsilon: Decimal, delta: Decimal) -> _Curve:
    _require(epsilon, delta)
    epsilon = min(epsilon, MOST_EPSILON)
    # e^epsilon times two units in the last place stay below what is kept back of delta
    bits = math.ceil(float(epsilon) * 1.4427) - delta.adjusted() * 4 + 60
    digits = math.ceil(bits * 0.3011) + 40
    with localcontext(outward.context(epsilon, delta, digits=digits)):
        kept = delta * (1 - KEPT_BACK)
        step = outward.expm1(epsilon)
        turn = _whole(outward.ln1p((1 - kept) * step / (kept * (step + 2))) / epsilon, ROUND_FLOOR)
        left = 1 - kept * outward.expm1(epsilon * (turn + 1)) / step
        sure = turn + _whole(outward.ln1p(left * step / kept) / epsilon, ROUND_CEILING)
    return _Curve(epsilon=epsilon, delta=kept, turn=turn, left=left, sure=sure, bits=bits, digits=digits)


@in_own_context
def _whole(number: Decimal, rounding: str) -> int:
    return int(number.to_integral_value(rounding=rounding))


def release_probability(epsilon: Decimal, delta: Decimal, distance: int) -> Fraction:
    """The probability with which a value at this distance is released: a multiple of a power of two.

    Claim: releasing with it is (epsilon, delta)-DP; and it is at most what any mechanism that is may have, which it
    misses by no more than 1e-14 of delta e^(epsilon d).
    Source: docs/proofs/stability.md, section 2; the recursion of Desfontaines-Voss-Gipson-Mandayam 2022, from d = 0.
    """
    if distance < 0:
        raise ParameterError("distance", distance, "a whole number of at least 0")
    curve = _curve(epsilon, delta)
    if distance >= curve.sure:
        return Fraction(1)
    with localcontext(outward.context(epsilon, delta, digits=curve.digits)):
        step = outward.expm1(curve.epsilon)
        if distance <= curve.turn:
            found = curve.delta * outward.expm1(curve.epsilon * (distance + 1)) / step
        else:
            grown = outward.expm1(curve.epsilon * (distance - curve.turn))
            found = 1 - (curve.left - curve.delta * grown / step) / (1 + grown)
        return Fraction(_whole(found * 2**curve.bits - 1, ROUND_FLOOR), 2**curve.bits)


def sure_distance(epsilon: Decimal, delta: Decimal) -> int:
    """The least distance from which on every value is released."""
    return _curve(epsilon, delta).sure


def release_distance(epsilon: Decimal, delta: Decimal, beta: Decimal) -> int:
    """The least distance at which a value is released with probability at least 1 - beta."""
    _require_beta(beta)
    low, high = -1, sure_distance(epsilon, delta)
    while high - low > 1:
        middle = (low + high) // 2
        enough = release_probability(epsilon, delta, middle) >= 1 - Fraction(beta)
        low, high = (low, middle) if enough else (middle, high)
    return high


def _require_beta(beta: Decimal) -> None:
    if not 0 < beta < 1:
        raise ParameterError("beta", beta, "a number in (0, 1)")


# ---- by noise on the distance ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyRelease:
    """A value is released if distance + DLap(scale) > threshold. `delta`: with what probability at distance 0."""

    scale: Decimal
    threshold: int
    delta: Decimal


@lru_cache(maxsize=256)
def noisy_release(epsilon: Decimal, delta: Decimal) -> NoisyRelease:
    """The test with the least threshold that releases a value at distance 0 with probability at most `delta`.

    Claim: it is (epsilon, result.delta)-DP, and result.delta is at most `delta`.
    Source: docs/proofs/stability.md, section 1. InfeasiblePlan where no threshold that can be written would do.
    """
    _require(epsilon, delta)
    scale = round_up(1 / Fraction(epsilon))
    with localcontext(outward.context(scale, delta)):
        tail = delta * (1 + outward.exp(-1 / scale))
        threshold = max(0, _whole(-scale * outward.ln(tail), ROUND_CEILING) - 1)
    while (released := _released_at_0(scale, threshold)) > delta:
        threshold += 1
    if threshold > MOST_STEPS:
        raise InfeasiblePlan(f"epsilon {epsilon} and delta {delta} need a threshold of 2^53 or more")
    return NoisyRelease(scale=scale, threshold=threshold, delta=released)


def _released_at_0(scale: Decimal, threshold: int) -> Decimal:
    return outward.above(difference_tail(Decimal(threshold + 1), ZERO, scale, noise="discrete_laplace"))


def noisy_distance(release: NoisyRelease, beta: Decimal) -> int:
    """The least distance at which a value is released with probability at least 1 - beta, or one above.

    Claim: P(noise >= threshold + 1 - result) >= 1 - beta."""
    _require_beta(beta)
    # P(noise <= -x) = q^x/(1+q) for x >= 1, and x = distance - threshold
    with localcontext(outward.context(release.scale, subtract(ONE, beta))):
        kept = 1 + outward.exp(-1 / release.scale)
        if beta * kept >= 1:
            return release.threshold + 1
        return release.threshold + max(1, _whole(-release.scale * outward.ln(beta * kept), ROUND_CEILING))


def grouped_noisy(epsilon: Decimal, release: NoisyRelease) -> tuple[Decimal, Decimal]:
    """(2 epsilon, P(noise >= threshold)): what the test keeps for two steps of the relation of its distance. That is
    at most e^epsilon times its delta.

    Claim: it is (result)-DP under replace_one, if the distance is one of add_remove. Source: docs/proofs/stability.md,
    section 1. InfeasiblePlan where that delta is 1."""
    if release.threshold:
        delta = _released_at_0(release.scale, release.threshold - 1)
    else:
        with localcontext(outward.context(release.scale)):
            delta = outward.above(1 / (1 + outward.exp(-1 / release.scale)))
    if delta >= 1:
        raise InfeasiblePlan(f"two steps at epsilon {epsilon} and delta {release.delta} leave no delta below 1")
    return multiply(epsilon, 2), delta
