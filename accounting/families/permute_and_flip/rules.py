"""Permute-and-flip: the law `permute_and_flip`. docs/proofs/events.md, section 1; noise.md, section 9."""

from __future__ import annotations

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.families.laplace.price import laplace_cost
from dpledger.accounting.families.leaf_rules import (
    HAS_A_PAIR,
    NO_ALLOWANCE,
    NO_FIELDS,
    NO_OUTCOME,
    NO_SQUARES,
    ONE_MECHANISM,
    GroupFacts,
    LeafRules,
    LossBracket,
    Orders,
    PairFacts,
    found_by_its_bracket,
    mirrors_itself,
    never_fails,
    no_theorem,
    overlapping,
)
from dpledger.accounting.families.permute_and_flip.leaf import PermuteAndFlipLaw
from dpledger.accounting.laws.cells import PairBracket, laplace_bracket
from dpledger.accounting.laws.finite import FinitePair, randomised_response_pair
from dpledger.accounting.laws.law import Direction
from dpledger.decimals import float_down, multiply
from dpledger.relations import Relation

__all__ = ["PERMUTE_AND_FLIP"]

ROUNDING = 1e-14  # relative; above what is lost in the epsilon of two candidates


def _cost(leaf: PermuteAndFlipLaw, _relation: Relation, orders: Orders) -> Cost:
    """The prices of Laplace noise of this epsilon, which dominates."""
    return laplace_cost(leaf.epsilon, orders)


def _of_two(leaf: PermuteAndFlipLaw) -> FinitePair:
    """Two candidates, of which the unit makes the worse one the better: a response of epsilon log(2 e^{epsilon/2} - 1)
    = epsilon/2 + log(2 - e^{-epsilon/2})."""
    half = float_down(leaf.epsilon) / 2
    return randomised_response_pair((half + scalars.log1p(-scalars.expm1(-half))) * (1 - ROUNDING), 2)


def _bracket(leaf: PermuteAndFlipLaw, _relation: Relation) -> PairBracket | None:
    """Above, Laplace noise; below, two candidates."""
    if not leaf.epsilon:
        return None
    return PairBracket(laplace_bracket(float(leaf.epsilon)).above, _of_two(leaf))


def _alone(leaf: PermuteAndFlipLaw, _relation: Relation, _direction: Direction) -> LossBracket | None:
    return LossBracket(LaplaceLoss(float(leaf.epsilon)), _of_two(leaf).loss()) if leaf.epsilon else None


PERMUTE_AND_FLIP = LeafRules(
    kind=PermuteAndFlipLaw,
    attested=False,
    price=overlapping(_cost, noise_fields=NO_FIELDS, loss_fields=frozenset({"epsilon"})),
    pair=PairFacts(
        failure=never_fails,
        mirrors=mirrors_itself,
        bracket=_bracket,
        alone=_alone,
        squares=NO_SQUARES,
        renyi=HAS_A_PAIR,
        envelope=ONE_MECHANISM,
        reason="permute_and_flip is dominated by Laplace noise: the lower bound is that of two candidates",
    ),
    group=GroupFacts(
        grouped=lambda leaf, k, _: PermuteAndFlipLaw(multiply(leaf.epsilon, k)),
        relative=False,
        copies=NO_ALLOWANCE,
    ),
    batch=found_by_its_bracket(
        no_theorem("shuffled is certified for pure local randomisers, not for permute_and_flip")
    ),
    outcome=NO_OUTCOME,
)
