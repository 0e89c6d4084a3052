"""How many calls of target charging to plan for, in doubles: a guide, of which nothing is proven. It is the same on
every machine, for the number that it finds is recorded."""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np

from dpledger.accounting.arithmetic import scalars
from dpledger.errors import InfeasiblePlan

__all__ = ["best_calls"]


def best_calls(epsilon: float, delta: float, cutoff: int, step_epsilon: float) -> int | None:
    """The number of calls at which target_delta is least; None where no number keeps `delta`, which is below 1/2.

    One more call adds to kov_delta and takes from few_charges: the sum falls at first, then rises. Calls of one parity
    are compared with each other, for by which steps their walk passes epsilon is the same."""
    charge = 1 / (1 + scalars.exp(min(step_epsilon, 700.0)))
    most = _calls_revealed(epsilon, step_epsilon)
    if most < cutoff or _few_charges(cutoff, charge, most) > delta:
        return None
    first = _calls_needed(cutoff, charge, delta)

    def change(calls: int) -> float:
        """What one more call changes: the walk may pass epsilon, the charges may reach the cutoff."""
        gain = _excess_gained(epsilon, step_epsilon, charge, calls)
        return gain - charge * _mass(calls, cutoff - 1, charge)

    def least(start: int) -> int:
        pairs = range((most - start) // 2)
        return start + 2 * bisect_left(
            pairs, 0.0, key=lambda pair: change(start + 2 * pair) + change(start + 2 * pair + 1)
        )

    low, high = sorted((least(first), least(min(first + 1, most))))
    return high if sum(change(calls) for calls in range(low, high)) < 0 else low


def _calls_revealed(epsilon: float, step_epsilon: float) -> int:
    """From so many calls on kov_delta is at least 1/2 (they are 10^11 at most): the mean of their loss is at least 1.2
    standard deviations above epsilon + 2, which it passes with probability 0.59, by Cantelli's inequality; and
    0.59 (1 - e^-2) > 1/2."""
    slope = scalars.tanh(step_epsilon / 2)
    mean, margin = step_epsilon * slope, 1.2 * step_epsilon * math.sqrt(1 - slope * slope)
    root = (margin + math.sqrt(margin * margin + 4 * mean * (epsilon + 2))) / (2 * mean)
    return math.ceil(min(10**11, root * root))


def _calls_needed(cutoff: int, charge: float, failure: float) -> int:
    """The fewest calls of which fewer than `cutoff` are charged with probability at most `failure`."""
    low, high = cutoff - 1, cutoff
    while _few_charges(cutoff, charge, high) > failure:
        if high > 10**11:
            raise InfeasiblePlan("target_charging needs more than 10^11 calls")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _few_charges(cutoff, charge, middle) > failure else (low, middle)
    return high


def _few_charges(cutoff: int, charge: float, calls: int) -> float:
    """P(Bin(calls, charge) < cutoff); 1 where it is at least a half, the mean being below the cutoff.

    Of the terms from the last one down, each at most the one before, those below 10 sqrt(cutoff) widths are e^-50."""
    if calls * charge <= cutoff - 1:
        return 1.0
    terms = min(cutoff - 1, 64 + 10 * (math.isqrt(cutoff) + 1))
    charged = np.arange(cutoff - 1, cutoff - 1 - terms, -1, dtype=np.float64)
    below = np.cumprod(charged / (calls - charged + 1) * ((1 - charge) / charge))
    return _mass(calls, cutoff - 1, charge) * (1 + float(np.sum(below)))


def _excess_gained(epsilon: float, step_epsilon: float, charge: float, calls: int) -> float:
    """What one more call adds to kov_delta.

    The loss of n calls is a walk of steps up and down by step_epsilon. One more call changes delta where the walk is at
    the last height up to epsilon, from which it steps above it, or at the next one, from which it may come back."""
    height = math.floor(epsilon / step_epsilon)
    if calls < height:
        return 0.0
    mass = _mass(calls, (calls - height) // 2, charge)
    if (calls - height) % 2:
        return mass * charge * scalars.expm1(epsilon - step_epsilon * height)
    return -mass * (1 - charge) * scalars.expm1(epsilon - step_epsilon * (height + 1))


def _mass(trials: int, hits: int, chance: float) -> float:
    return scalars.exp(_log_mass(trials, hits, chance))


def _log_mass(trials: int, hits: int, chance: float) -> float:
    """log P(Bin(trials, chance) = hits), 0 < chance < 1."""
    ways = scalars.log_factorial(trials) - scalars.log_factorial(hits) - scalars.log_factorial(trials - hits)
    return ways + hits * scalars.log(chance) + (trials - hits) * scalars.log1p(-chance)
