"""How many of independent trials succeed: the counts that keep a failure, by exact binomial tails.

No normal approximation takes part; a guess in doubles only says where a search begins.

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

import numpy as np
from scipy.special import bdtrc

from dpledger.accounting.arithmetic import outward
from dpledger.decimals import own_context
from dpledger.errors import InfeasiblePlan
from dpledger.mechanisms.binomial_tails import tail_above
from dpledger.mechanisms.stability.ensembles.ensemble import MOST_CHUNKS

__all__ = ["divided", "fewest_votes", "quantile", "wrong_beyond"]

CHUNK = 1 << 16  # numbers of votes that are guessed at once
RIGHT = Fraction(3, 4)  # how likely a model of a fresh chunk votes for the label that the query has


def divided(failure: Decimal, parts: int) -> Decimal:
    """failure / parts, from below; of any size, so that no share of a failure becomes 0."""
    return own_context(40, ROUND_FLOOR).divide(failure, Decimal(parts))


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
