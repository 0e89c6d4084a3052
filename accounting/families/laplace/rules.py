"""Laplace noise: the law `laplace`."""

from __future__ import annotations

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.families.laplace.leaf import LaplaceLaw
from dpledger.accounting.families.laplace.loss import LaplaceLoss
from dpledger.accounting.families.laplace.price import laplace_cost
from dpledger.accounting.families.laplace.sampled import SampledLaplaceLoss
from dpledger.accounting.families.leaf_rules import (
    BY_ITS_LOSSES,
    NO_FIELDS,
    NO_OUTCOME,
    BatchFacts,
    GroupFacts,
    LeafRules,
    exact_pair,
    mirrors_itself,
    never_fails,
    overlapping,
)
from dpledger.accounting.laws.cells import PairBracket, laplace_bracket
from dpledger.accounting.laws.finite import FinitePair
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.accounting.laws.shuffling import agreeing_below, shuffled_pairs
from dpledger.decimals import multiply
from dpledger.relations import Relation

__all__ = ["LAPLACE"]


def _bracket(leaf: LaplaceLaw, _relation: Relation) -> PairBracket | None:
    return laplace_bracket(float(leaf.epsilon)) if leaf.epsilon else None


def _alone(leaf: LaplaceLaw, _relation: Relation, _direction: Direction) -> Loss | None:
    return LaplaceLoss(float(leaf.epsilon)) if leaf.epsilon else None


def _sampled(leaf: LaplaceLaw, rate: float, _relation: Relation, direction: Direction) -> Loss | None:
    return SampledLaplaceLoss(rate, float(leaf.epsilon), direction) if leaf.epsilon else None


def _agreeing(epsilon: float, users: int) -> FinitePair:
    """Above the larger of two values, at the distance of the sensitivity."""
    return agreeing_below(scalars.exp(-epsilon) / 2, (0.5, 0.5), users)


LAPLACE = LeafRules(
    kind=LaplaceLaw,
    attested=False,
    price=overlapping(
        lambda leaf, _, orders: laplace_cost(leaf.epsilon, orders),
        noise_fields=NO_FIELDS,
        loss_fields=frozenset({"epsilon"}),
    ),
    pair=exact_pair(
        failure=never_fails,
        mirrors=mirrors_itself,
        bracket=_bracket,
        alone=_alone,
    ),
    group=GroupFacts(
        grouped=lambda leaf, k, _: LaplaceLaw(multiply(leaf.epsilon, k)),
        relative=False,
        copies=lambda law, leaf: 1 if leaf.epsilon <= law.epsilon else None,
    ),
    batch=BatchFacts(
        sampled=_sampled,
        shuffled=lambda leaf, users: shuffled_pairs(leaf.epsilon, 2, users, _agreeing),
        quick=True,
        null_is_absence=False,
        divergences=BY_ITS_LOSSES,
    ),
    outcome=NO_OUTCOME,
)
