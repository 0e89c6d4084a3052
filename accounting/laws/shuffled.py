"""Which randomisers of a shuffle may be meant by a leaf: what all of them stay below, and what some of them show.

docs/proofs/amplification.md, section 5.
"""

from __future__ import annotations

import math
from decimal import Decimal

from dpledger.accounting.composition import (
    DiscreteLaplaceLaw,
    ExponentialLaw,
    LaplaceLaw,
    RandomizedResponseLaw,
)
from dpledger.accounting.guarantees import BoundedRange, PureDP
from dpledger.accounting.laws.cells import Bracket
from dpledger.accounting.laws.draws import Leaf
from dpledger.accounting.laws.finite import FinitePair
from dpledger.accounting.laws.shuffling import agreeing_below, shuffled_bracket
from dpledger.accounting.prices import discrete_laplace_epsilon
from dpledger.decimals import float_down, float_up
from dpledger.errors import CannotCertify

__all__ = ["shuffled_pairs"]

THIRD = 0.8
"""Above this local epsilon users who hold a third value hide less than those who hold the first."""


def shuffled_pairs(leaf: Leaf, users: int) -> Bracket | None:
    """Pairs above and below the shuffled answers of so many users; None where they show nothing. Below: users who
    agree, whose randomiser is one that is meant, seen through two of its outcomes; responses on three values and more
    are seen whole.

    Claim: above dominates; some randomiser of this description is as bad as below. Source: the module's.
    """
    epsilon = _local_epsilon(leaf)
    if not epsilon:
        return None
    categories = leaf.k if isinstance(leaf, RandomizedResponseLaw) else 2
    above = shuffled_bracket(float_up(epsilon), categories, users).above
    return Bracket(above, _agreeing(leaf, float_down(epsilon), users))


def _agreeing(leaf: Leaf, epsilon: float, users: int) -> FinitePair:
    """What users who agree show, for a local epsilon that is rounded down."""
    match leaf:
        case RandomizedResponseLaw(k=k) if k > 2:
            return shuffled_bracket(epsilon, k, users).below
        case PureDP() if epsilon > THIRD:
            return shuffled_bracket(epsilon, 3, users).below
        case LaplaceLaw():  # above the larger of two values, at the distance of the sensitivity
            return agreeing_below(math.exp(-epsilon) / 2, (0.5, 0.5), users)
        case DiscreteLaplaceLaw(scale=scale, sensitivity=sensitivity):
            step = math.exp(-1 / float(scale))
            rare = math.exp(-float(sensitivity) / float(scale)) / (1 + step)
            return agreeing_below(rare, (step / (1 + step), 1 / (1 + step)), users)
        case BoundedRange(eta=eta) | ExponentialLaw(epsilon=eta):  # a response of half of eta has this range
            return _agreeing(PureDP(eta), epsilon / 2, users)
        case _:
            rare = math.exp(-epsilon)
            return agreeing_below(rare / (1 + rare), (rare / (1 + rare), 1 / (1 + rare)), users)


def _local_epsilon(leaf: Leaf) -> Decimal:
    """The epsilon of a pure local randomiser, rounded up."""
    match leaf:
        case PureDP(epsilon=epsilon) | LaplaceLaw(epsilon=epsilon) | RandomizedResponseLaw(epsilon=epsilon):
            return epsilon
        case BoundedRange(eta=eta) | ExponentialLaw(epsilon=eta):
            return eta
        case DiscreteLaplaceLaw(scale=scale, sensitivity=sensitivity):
            return discrete_laplace_epsilon(scale, Decimal(int(sensitivity)))
        case _:
            raise CannotCertify(f"shuffled is certified for pure local randomisers, not for {leaf.kind}")
