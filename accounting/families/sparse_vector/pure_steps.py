"""Exact composition of equal pure steps, as binomial sums that are certified from above.

A run of n adaptively chosen, e-DP steps composes exactly like n randomized responses (Kairouz-Oh-Viswanath 2015), so
its delta is a binomial mean. The sum runs over a window of 13 sqrt(n) on each side of the mean; Hoeffding's inequality
bounds the rest. The largest term comes from Stirling's series in wide decimals, the others by the ratio of neighbouring
terms in doubles, whose accumulated rounding is added.

>>> kov_delta(Decimal(1), Fraction(7, 10), 3)
Decimal('0.199023947842')
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, outward, scalars
from dpledger.decimals import ZERO, in_own_context
from dpledger.errors import WorkLimit

__all__ = ["few_charges", "kov_delta"]

Array: TypeAlias = npt.NDArray[np.float64]

MOST_COMPOSED = 10**10  # of one composition: the window that is summed has 26 sqrt(steps) terms
WINDOW = 13  # widths sqrt(n) kept on each side of a binomial mean
BEYOND_WINDOW = Decimal("1e-146")  # twice exp(-2 * 13^2) = 1.6e-147, by Hoeffding's inequality
REVEALING = 300  # a step with a larger epsilon is revealed: its delta is bounded by 1
ROUNDING_UNIT = Decimal.from_float(2.0**-53)
ONE = Decimal(1)


def kov_delta(epsilon: Decimal, step_epsilon: Fraction, steps: int) -> Decimal:
    """The delta of `steps` adaptively chosen, `step_epsilon`-DP steps at `epsilon`, from above: the sum over l of
    Bin(steps, p)(l) max(0, 1 - e^(epsilon - (2l - steps) step_epsilon)), p = e^step_epsilon / (1 + e^step_epsilon).

    Claim: the composition is (epsilon, result)-DP; no smaller delta holds for all such steps, but for rounding.
    Source: Kairouz-Oh-Viswanath 2015, Theorem 3.3 (for equal steps). Raises WorkLimit above 10^10 steps.
    """
    if Fraction(epsilon) >= steps * step_epsilon:
        return ZERO
    if step_epsilon > REVEALING:
        return ONE
    first = math.floor((Fraction(epsilon) / step_epsilon + steps) / 2) + 1
    least_loss = float((2 * first - steps) * step_epsilon - Fraction(epsilon))
    loss_step = float(2 * step_epsilon)

    def excess(wins: Array) -> Array:
        return -elementary.expm1(-(least_loss + loss_step * (wins - first)))

    return _binomial_mean(steps, step_epsilon, first, steps, excess)


def few_charges(cutoff: int, step_epsilon: Fraction, calls: int) -> Decimal:
    """P(Bin(calls, 1/(1 + e^step_epsilon)) < cutoff), from above: the chance that `calls` tests, each charged with at
    least that probability, do not reach the cutoff.

    Claim: at least that probability. Source: docs/proofs/sparse_vector.md, "Target charging".
    """
    if cutoff > calls or step_epsilon > REVEALING:
        return ONE
    return _binomial_mean(calls, step_epsilon, calls - cutoff + 1, calls, np.ones_like)


def _binomial_mean(n: int, log_odds: Fraction, low: int, high: int, weight: Callable[[Array], Array]) -> Decimal:
    """The sum over l in [low, high] of Bin(n, p)(l) weight(l), weights in [0, 1] given to a few ulp, log_odds =
    log p/(1-p) >= 0; from above, and at most 1."""
    if n > MOST_COMPOSED:
        raise WorkLimit(f"a composition of {n} steps is beyond the limit of {MOST_COMPOSED}")
    p = 1 / (1 + scalars.exp(-float(log_odds)))
    width = WINDOW * math.sqrt(n) + 1
    start, stop = max(low, math.floor(p * n - width)), min(high, math.ceil(p * n + width))
    beyond = BEYOND_WINDOW if (start, stop) != (low, high) else ZERO
    if start > stop:
        return beyond
    peak = min(max(math.floor((n + 1) * p), start), stop)
    odds = scalars.exp(float(log_odds))
    rising = np.arange(peak, stop, dtype=np.float64)
    falling = np.arange(peak, start, -1, dtype=np.float64)
    above_peak = np.cumprod((n - rising) / (rising + 1) * odds)
    below_peak = np.cumprod(falling / (n - falling + 1) / odds)
    wins = np.concatenate(([float(peak)], rising + 1, falling - 1))
    relative = np.concatenate(([1.0], above_peak, below_peak))
    total = Decimal.from_float(float(np.sum(relative * weight(wins))))
    with localcontext(outward.context(Decimal(n))):
        slack = 1 + (8 * len(relative) + 64) * ROUNDING_UNIT
        return min(ONE, outward.above(total * slack * _binomial_mass(n, Fraction(log_odds), peak) + beyond))


@in_own_context
def _binomial_mass(n: int, log_odds: Fraction, wins: int) -> Decimal:
    """Bin(n, p)(wins) in the current context, with a relative error below 1e-20."""
    losing = outward.ln1p(outward.exp(Decimal(log_odds.numerator) / Decimal(log_odds.denominator)))
    gain = wins * (Decimal(log_odds.numerator) / Decimal(log_odds.denominator))
    return outward.exp(
        outward.ln_factorial(n) - outward.ln_factorial(wins) - outward.ln_factorial(n - wins) + gain - n * losing
    )
