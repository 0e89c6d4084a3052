"""Gaussian noise on the integers: the law `discrete_gaussian`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.families.declared.renyi import zcdp_cost
from dpledger.accounting.families.discrete.gaussian_loss import DiscreteGaussianLoss
from dpledger.accounting.families.discrete.leaf import DiscreteGaussianLaw
from dpledger.accounting.families.gaussian.price import gaussian_mu_squared
from dpledger.accounting.families.gaussian.rules import divergence_of_both, sampled_divergences
from dpledger.accounting.families.leaf_rules import (
    BY_ITS_BRACKET,
    NO_FIELDS,
    NO_OUTCOME,
    BatchFacts,
    Divergences,
    GroupFacts,
    LeafRules,
    Orders,
    exact_pair,
    mirrors_itself,
    never_fails,
    no_theorem,
    overlapping,
    written,
)
from dpledger.accounting.laws.cells import PairBracket, discrete_gaussian_bracket
from dpledger.accounting.laws.draws import Draw, Poisson, Subset
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.decimals import float_up, is_whole, multiply, round_up, subtract
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = ["DISCRETE_GAUSSIAN"]

HALF = Decimal("0.5")


def _cost(leaf: DiscreteGaussianLaw, _relation: Relation, orders: Orders) -> Cost:
    """Source: Canonne-Kamath-Steinke 2020, Theorem 4."""
    return zcdp_cost(round_up(multiply(gaussian_mu_squared(leaf.sensitivity, leaf.sigma), HALF)), orders)


def _whole(sensitivity: Decimal) -> int:
    """The shift of one whole number. A vector of them has no pair here: its l2 norm need not be whole."""
    if sensitivity != int(sensitivity):
        raise CannotCertify("the pair of discrete_gaussian is that of one whole number: state a vector as zcdp")
    return int(sensitivity)


def _bracket(leaf: DiscreteGaussianLaw, _relation: Relation) -> PairBracket | None:
    return discrete_gaussian_bracket(float(leaf.sigma), _whole(leaf.sensitivity))


def _alone(leaf: DiscreteGaussianLaw, _relation: Relation, _direction: Direction) -> Loss | None:
    return DiscreteGaussianLoss(float(leaf.sigma), _whole(leaf.sensitivity))


def _on_batch(leaf: DiscreteGaussianLaw, how: Draw, _relation: Relation, orders: Orders) -> Divergences:
    """The chords of (a - 1) D_a between the whole orders around each, where the moments E_Q W^j, j = 0..a, of a
    discrete Gaussian are at most those of a Gaussian. Source: docs/proofs/amplification.md, section 9."""
    if not isinstance(how, Poisson | Subset):
        return (None,) * len(orders)
    mu = float_up(leaf.sensitivity) / float(leaf.sigma)
    ends = dict.fromkeys(end for order in orders for end in (math.floor(order), math.ceil(order)) if end > 1)
    values = {1: 0.0, **_at_whole_orders(mu, how, tuple(ends))}
    return tuple(_on_chord(order, values) for order in orders)


def _on_chord(order: Decimal, values: Mapping[int, float]) -> Decimal | None:
    """The divergence of `order`, from (a - 1) D_a at the whole orders beside it."""
    low, high = math.floor(order), math.ceil(order)
    if low == high:
        found = values[low] / (low - 1)
    else:
        share = float_up(subtract(order, Decimal(low)))
        chord = values[low] + share * max(0.0, values[high] - values[low])
        found = chord / float(subtract(order, Decimal(1))) * (1 + 1e-14)
    return written(found)


def _at_whole_orders(mu: float, how: Poisson | Subset, orders: tuple[int, ...]) -> dict[int, float]:
    """At least (a - 1) D_a of both directions at each whole order a: of a symmetric pair removing is the worse one."""
    rate = how.rate if isinstance(how, Poisson) else Fraction(how.batch, how.population)
    found = {}
    each = sampled_divergences(rate, mu * mu * (1 + 1e-15), tuple(map(Decimal, orders)))
    for order, (_, removing) in zip(orders, each, strict=True):
        worst = removing if isinstance(how, Poisson) else divergence_of_both((removing, removing), Decimal(order))
        found[order] = worst * (order - 1) * (1 + 1e-15)
    return found


def _copies(law: DiscreteGaussianLaw, leaf: DiscreteGaussianLaw) -> int | None:
    """A shorter shift of one whole number, in the same noise. A greater sigma is not dominated."""
    whole = is_whole(law.sensitivity) and is_whole(leaf.sensitivity)
    return 1 if whole and leaf.sigma == law.sigma and leaf.sensitivity <= law.sensitivity else None


DISCRETE_GAUSSIAN = LeafRules(
    kind=DiscreteGaussianLaw,
    attested=False,
    price=overlapping(_cost, noise_fields=frozenset({"sigma"}), loss_fields=NO_FIELDS),
    pair=exact_pair(
        failure=never_fails,
        mirrors=mirrors_itself,
        bracket=_bracket,
        alone=_alone,
    ),
    group=GroupFacts(
        grouped=lambda leaf, k, _: DiscreteGaussianLaw(leaf.sigma, multiply(leaf.sensitivity, k)),
        relative=False,
        copies=_copies,
    ),
    batch=BatchFacts(
        sampled=BY_ITS_BRACKET,
        shuffled=no_theorem("shuffled is certified for pure local randomisers, not for discrete_gaussian"),
        quick=False,
        null_is_absence=False,
        divergences=_on_batch,
    ),
    outcome=NO_OUTCOME,
)
