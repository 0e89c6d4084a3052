"""Binomial tails, from above: exact sums, and no normal approximation.

A tail is its largest term, in wide decimals, times a sum of ratios of neighbouring terms in doubles, whose rounding is
added.

>>> from decimal import Decimal
>>> tail_above(10, Decimal("0.5"), 8) >= Decimal(11) / 1024
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import ZERO, in_own_context, subtract
from dpledger.errors import WorkLimit

__all__ = ["MOST_TRIALS", "tail_above", "tail_up_to"]

Array: TypeAlias = npt.NDArray[np.float64]

MOST_TRIALS = 10**12
ROUNDING_UNIT = Decimal.from_float(2.0**-53)
REST = 1e-14  # relative: what is left out of a sum is bounded by a geometric one when it is below this
BLOCK = 256  # terms that are summed at first; each further block is four times as long
ONE = Decimal(1)


@lru_cache(maxsize=4096)
def tail_above(trials: int, chance: Decimal, count: int) -> Decimal:
    """P(Bin(trials, chance) > count), from above, by less than one part in 10^7.

    Claim: at least that probability. Source: docs/proofs/stability_utility.md, "Tails". Raises WorkLimit above 10^12
    trials."""
    if trials > MOST_TRIALS:
        raise WorkLimit(f"a binomial tail of {trials} trials is beyond the limit of {MOST_TRIALS}")
    if count >= trials or not chance:
        return ZERO if count >= 0 or trials == 0 else ONE
    if count < 0 or chance >= 1:
        return ONE
    first, p = count + 1, float(chance)
    odds = p / float(subtract(ONE, chance))
    peak = min(max(first, math.floor((trials + 1) * p)), trials)
    up, ups = _run(lambda k: (trials - peak - k) / (peak + k + 1) * odds, trials - peak)
    down, downs = _run(lambda k: (peak - k) / (trials - peak + k + 1) / odds, peak - first)
    with localcontext(outward.context(Decimal(trials), chance, subtract(ONE, chance))):
        slack = 1 + (16 * (ups + downs) + 128) * ROUNDING_UNIT
        relative = 1 + Decimal.from_float(up) + Decimal.from_float(down)
        return min(ONE, _kept(relative * slack * _mass(trials, chance, peak)))


@in_own_context
def _kept(value: Decimal) -> Decimal:
    """The value with the outward margin, of any size: `outward.above` keeps 60 places, and a tail may be less."""
    return value * (1 + outward.MARGIN)


def tail_up_to(trials: int, chance: Decimal, count: int) -> Decimal:
    """P(Bin(trials, chance) <= count), from above."""
    return tail_above(trials, subtract(ONE, chance), trials - count - 1)


@in_own_context
def _mass(n: int, chance: Decimal, hits: int) -> Decimal:
    """Bin(n, chance)(hits), with a relative error below 1e-20."""
    ways = outward.ln_factorial(n) - outward.ln_factorial(hits) - outward.ln_factorial(n - hits)
    return outward.exp(ways + hits * outward.ln(chance) + (n - hits) * outward.ln1p(-chance))


def _run(ratio: Callable[[Array], Array], length: int) -> tuple[float, int]:
    """The sum over j = 1..length of ratio(0) ... ratio(j-1), for ratios that fall and are at most about 1, from above
    but for rounding; and how many terms were added."""
    total, term, start, block = 0.0, 1.0, 0, BLOCK
    while start < length:
        places = np.arange(start, min(start + block, length), dtype=np.float64)
        ratios = ratio(places)
        products = term * np.cumprod(ratios)
        total += float(products.sum())
        term, last = float(products[-1]), float(ratios[-1])
        start, block = start + len(places), 4 * block
        if last < 1 and term * last <= REST * (1 + total) * (1 - last):
            return total + term * last / (1 - last), start
    return total, start
