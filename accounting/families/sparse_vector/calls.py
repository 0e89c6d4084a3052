"""How many calls of target charging are worth certifying, in doubles: a guide, of which nothing is proven. It is the
same on every machine, for the number that it finds is recorded."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.families.sparse_vector.pure_steps import kov_delta
from dpledger.errors import InfeasiblePlan

__all__ = ["fewest_losses"]

Array: TypeAlias = npt.NDArray[np.float64]

CALLS_TRIED = 10**6  # numbers of calls that are compared at one scale


def fewest_losses(epsilon: float, delta: float, cutoff: int, step_epsilon: float) -> tuple[float, int]:
    """The least target_delta over the number of calls, in doubles, and that number: a guide to what is certified.

    More calls than cutoff/q, by so much that few charges have probability below delta/1000, never help; nor do calls
    whose expected loss is far above epsilon, which would be endless where q is tiny. `delta` is below 1/2."""
    charge = 1 / (1 + scalars.exp(min(step_epsilon, 700.0)))
    most = math.ceil(
        min(10**11, (2 * epsilon + 10 + 10 * step_epsilon) / (step_epsilon * scalars.tanh(step_epsilon / 2)))
    )
    if most < cutoff or _few_charges(cutoff, charge, most) > delta:
        return 1.0, most
    first = _calls_needed(cutoff, charge, delta)
    last = min(most, first + CALLS_TRIED, _calls_needed(cutoff, charge, delta / 1000))
    losses = _excesses(epsilon, step_epsilon, charge, first, last) + _all_few_charges(cutoff, charge, first, last)
    best = int(np.argmin(losses))
    return float(losses[best]), first + best


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


def _all_few_charges(cutoff: int, charge: float, first: int, last: int) -> Array:
    """That for all calls from `first` to `last`: one more call changes it by the chance that it reaches the cutoff."""
    calls = np.arange(first, last, dtype=np.float64)
    ratios = (calls[:-1] + 1) * (1 - charge) / (calls[:-1] + 2 - cutoff)
    reaching = charge * _mass(first, cutoff - 1, charge) * np.cumprod(np.append(1.0, ratios))[: len(calls)]
    return np.cumsum(np.append(_few_charges(cutoff, charge, last), reaching[::-1]))[::-1]


def _excesses(epsilon: float, step_epsilon: float, charge: float, first: int, last: int) -> Array:
    """kov_delta for all calls from `first` to `last`.

    The loss of n calls is a walk of steps up and down by step_epsilon. One more call changes delta where the walk is at
    the last height up to epsilon, from which it steps above it, or at the next one, from which it may come back."""
    height = math.floor(epsilon / step_epsilon)
    least = float(kov_delta(Decimal.from_float(epsilon), Fraction(step_epsilon), first))
    start, gains = max(first, height), np.zeros(last - first)
    if start < last:
        calls = np.arange(start, last, dtype=np.int64)
        ups, below = (calls + height + 1) // 2, (calls - height) % 2 == 0
        win, grown = 1 - charge, calls.astype(np.float64) + 1
        ratios = np.where(below, grown / (ups + 1) * win, grown / (calls + 1 - ups) * charge)
        logs = np.cumsum(np.append(_log_mass(start, int(ups[0]), win), elementary.log(ratios[:-1])))
        above = scalars.expm1(epsilon - step_epsilon * (height + 1))
        back = scalars.expm1(epsilon - step_epsilon * height)
        gains[start - first :] = elementary.exp(logs) * np.where(below, -win * above, charge * back)
    return np.cumsum(np.append(least, gains))


def _mass(trials: int, hits: int, chance: float) -> float:
    return scalars.exp(_log_mass(trials, hits, chance))


def _log_mass(trials: int, hits: int, chance: float) -> float:
    """log P(Bin(trials, chance) = hits), 0 < chance < 1."""
    ways = scalars.log_factorial(trials) - scalars.log_factorial(hits) - scalars.log_factorial(trials - hits)
    return ways + hits * scalars.log(chance) + (trials - hits) * scalars.log1p(-chance)
