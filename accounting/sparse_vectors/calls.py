"""How many calls of target charging are worth certifying, in doubles: a guide, of which nothing is proven."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtr, bdtrc

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.errors import InfeasiblePlan

__all__ = ["fewest_losses"]

CALLS_TRIED = 10**5  # numbers of calls that are compared at one scale


def fewest_losses(epsilon: float, delta: float, cutoff: int, step_epsilon: float) -> tuple[float, int]:
    """The least target_delta over the number of calls, in doubles, and that number: a guide to what is certified.

    More calls than cutoff/q, by so much that few charges have probability below delta/1000, never help; nor do calls
    whose expected loss is far above epsilon, which would be endless where q is tiny."""
    charge = 1 / (1 + scalars.exp(min(step_epsilon, 700.0)))
    most = math.ceil(
        min(10**11, (2 * epsilon + 10 + 10 * step_epsilon) / (step_epsilon * scalars.tanh(step_epsilon / 2)))
    )
    if most < cutoff or float(bdtr(cutoff - 1, most, charge)) > delta:
        return 1.0, most
    first = _calls_needed(cutoff, charge, delta)
    last = min(most, _calls_needed(cutoff, charge, delta / 1000))
    calls = np.arange(first, last + 1, max(1, (last - first) // CALLS_TRIED), dtype=np.int64)
    least_wins = np.floor((epsilon / step_epsilon + calls) / 2)  # those above it lose more than epsilon
    heavy = bdtrc(least_wins, calls, 1 - charge)
    light = bdtrc(least_wins, calls, charge)
    with np.errstate(divide="ignore", over="ignore"):
        excess = np.where(
            least_wins < calls, heavy - elementary.exp(np.minimum(epsilon + elementary.log(light), 0)), 0.0
        )
    losses = np.maximum(excess, 0) + bdtr(cutoff - 1, calls, charge)
    best = int(np.argmin(losses))
    return float(losses[best]), int(calls[best])


def _calls_needed(cutoff: int, charge: float, failure: float) -> int:
    """The fewest calls of which fewer than `cutoff` are charged with probability at most `failure`."""
    low, high = cutoff - 1, cutoff
    while float(bdtr(cutoff - 1, high, charge)) > failure:
        if high > 10**11:
            raise InfeasiblePlan("target_charging needs more than 10^11 calls")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if float(bdtr(cutoff - 1, middle, charge)) > failure else (low, middle)
    return high
