"""What the shuffled outputs of many users show: what all randomisers stay below, and what some of them show.

docs/proofs/amplification.md, section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.finite import FinitePair
from dpledger.accounting.laws.shuffling import agreeing_below, shuffled_bracket
from dpledger.decimals import float_down, float_up

__all__ = ["likely_responses", "shuffled_pairs"]


def shuffled_pairs(
    epsilon: Decimal, categories: int, users: int, below: Callable[[float, int], FinitePair]
) -> PairBracket | None:
    """Pairs above and below the shuffled answers of so many users of an epsilon-DP randomiser; None where they show
    nothing. `below`, of the local epsilon rounded down and the users: what users who agree show, whose randomiser is
    one that is meant, seen through two of its outcomes.

    Claim: above dominates; some randomiser of this description is as bad as below. Source: the module's.
    """
    if not epsilon:
        return None
    above = shuffled_bracket(float_up(epsilon), categories, users).above
    return PairBracket(above, below(float_down(epsilon), users))


def likely_responses(rare: float, users: int) -> FinitePair:
    """Users who agree, and answer in two ways: the other way `rare` times as likely."""
    return agreeing_below(rare / (1 + rare), (rare / (1 + rare), 1 / (1 + rare)), users)
