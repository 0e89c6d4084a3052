"""How many of independent trials succeed: exact binomial tails, from above, and the counts that keep a failure.

A tail is its largest term, in wide decimals, times a sum of ratios of neighbouring terms in doubles, whose rounding is
added. No normal approximation takes part; a guess in doubles only says where a search begins.

>>> from decimal import Decimal
>>> quantile(100, Decimal("0.1"), Decimal("0.05"))
15
>>> fewest_votes(1, Decimal("0.05"), dissent=Fraction(1, 3), least=3)
66
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import ZERO, in_own_context, own_context, subtract
from dpledger.errors import InfeasiblePlan, WorkLimit
from dpledger.mechanisms.stability.ensembles.ensemble import MOST_CHUNKS

__all__ = ["divided", "fewest_votes", "least_chunk", "quantile", "tail_above", "tail_up_to", "wrong_beyond"]

Array: TypeAlias = npt.NDArray[np.float64]

MOST_TRIALS = 10**12
ROUNDING_UNIT = Decimal.from_float(2.0**-53)
REST = 1e-14  # relative: what is left out of a sum is bounded by a geometric one when it is below this
BLOCK = 256  # terms that are summed at first; each further block is four times as long
CHUNK = 1 << 16  # numbers of votes that are guessed at once
RIGHT = Fraction(3, 4)  # how likely a model of a fresh chunk votes for the label that the query has
ONE = Decimal(1)


def divided(failure: Decimal, parts: int) -> Decimal:
    """failure / parts, from below; of any size, so that no share of a failure becomes 0."""
    return own_context(40, ROUND_FLOOR).divide(failure, Decimal(parts))


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


def quantile(trials: int, chance: Decimal, failure: Decimal) -> int:
    """The least U with P(Bin(trials, chance) > U) <= failure, as `tail_above` bounds it.

    Claim: more than the result succeed with probability at most `failure`."""
    if chance >= 1:
        return trials

    def enough(count: int) -> bool:
        return tail_above(trials, chance, count) <= failure

    return _least(enough, _guess(trials, float(chance), float(failure)), trials)


def _guess(trials: int, chance: float, failure: float) -> int:
    low, high = -1, trials
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if float(bdtrc(middle, trials, chance)) <= failure else (middle, high)
    return high


def _least(enough: Callable[[int], bool], start: int, most: int) -> int:
    """The least number in 0..most that is enough, which `most` is: outward from `start` in growing steps, then by
    halves."""
    step = 1
    if enough(start):
        low, high = start - 1, start
        while low >= 0 and enough(low):
            low, high, step = low - 2 * step, low, 2 * step
        low = max(low, -1)
    else:
        low, high = start, min(start + 1, most)
        while high < most and not enough(high):
            low, high, step = high, min(high + 2 * step, most), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def fewest_votes(queries: int, failure: Decimal, *, dissent: Fraction, least: int, skips_thirds: bool = False) -> int:
    """The least k >= `least` (`skips_thirds`: no multiple of 3) with P(Bin(k, 3/4) < (1 - dissent) k) at most
    failure/queries.

    Claim: if each of k independent voters is right with probability at least 3/4, whatever the query, then with
    probability at least 1 - failure at least (1 - dissent) k are right on each of `queries` queries. The tail is not
    monotone in k, so that k itself is checked. Raises InfeasiblePlan above 2^20, and unless dissent > 1/4.
    Source: docs/proofs/stability_utility.md, "Votes"."""
    gap = dissent - (1 - RIGHT)
    if gap <= 0:
        raise InfeasiblePlan(f"a dissent of {dissent} must be above 1/4, the chance of a wrong vote")
    each = divided(failure, queries)
    with localcontext(outward.context(each)):
        hoeffding = math.ceil(-outward.ln(each) * gap.denominator**2 / (2 * gap.numerator**2))
    most = max(least, hoeffding) + 3  # one of three neighbours is allowed, and enough by Hoeffding's inequality
    if most > MOST_CHUNKS + 3:
        raise InfeasiblePlan(f"{most} chunks would be needed for the votes: an ensemble has at most {MOST_CHUNKS}")
    wrong = Decimal("0.25")
    for start in range(least, most + 1, CHUNK):
        votes = np.arange(start, min(start + CHUNK, most + 1))
        most_wrong = votes * dissent.numerator // dissent.denominator
        likely = bdtrc(most_wrong.astype(np.float64), votes, 0.25) <= 1.001 * max(float(each), 1e-300)
        for k in votes[likely].tolist():
            if skips_thirds and k % 3 == 0:
                continue
            if tail_above(k, wrong, k * dissent.numerator // dissent.denominator) <= each:
                return int(k)
    raise InfeasiblePlan(f"no number of chunks up to {most} keeps the votes")  # cannot occur: Hoeffding's inequality


def wrong_beyond(mistakes: int, dissent: Fraction) -> int:
    """How many queries at most have more than dissent k wrong votes, if each of k models errs on at most so many.

    Claim: at most that many. Source: Lemma 4.2; docs/proofs/stability_utility.md, "Counting"."""
    return max(0, math.ceil(mistakes / dissent) - 1)


def least_chunk(records: int, chunks: int, failure: Decimal) -> int:
    """How many records every chunk has at least, where each record goes to one of them at random.

    Claim: with probability at least 1 - failure; n/k - sqrt(2 (n/k) log(k/failure)), rounded up, as sizes are whole.
    Source: Chernoff's bound and a union over the chunks."""
    with localcontext(outward.context(failure)):
        mean = Decimal(records) / chunks
        width = outward.above((2 * mean * outward.ln(chunks / failure)).sqrt())
        return math.ceil(outward.below(mean - width)) if mean > width else 0
