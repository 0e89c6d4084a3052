"""Laplace noise on the integers: the law `discrete_laplace`."""

from __future__ import annotations

import functools
from decimal import Decimal

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.conversions import mu_squared_of_pure
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.families.discrete.leaf import DiscreteLaplaceLaw
from dpledger.accounting.families.discrete.price import (
    discrete_laplace_epsilon,
    discrete_laplace_rdp,
    discrete_laplace_rho,
)
from dpledger.accounting.families.leaf_rules import (
    BY_ITS_BRACKET,
    NO_FIELDS,
    NO_OUTCOME,
    GroupFacts,
    LeafRules,
    Orders,
    exact_pair,
    found_by_its_bracket,
    mirrors_itself,
    never_fails,
    overlapping,
)
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.finite import FinitePair, discrete_laplace_pair
from dpledger.accounting.laws.shuffling import agreeing_below, shuffled_pairs
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = ["DISCRETE_LAPLACE"]

MOST_ATOMS = 1 << 13


def _cost(leaf: DiscreteLaplaceLaw, _relation: Relation, orders: Orders) -> Cost:
    """GDP at the price of any mechanism with this epsilon: the scalar law's own does not hold in many dimensions."""
    epsilon = discrete_laplace_epsilon(leaf.scale, leaf.sensitivity)
    return Cost(
        pure=epsilon,
        rho=discrete_laplace_rho(leaf.scale, leaf.sensitivity),
        mu_squared=mu_squared_of_pure(epsilon),
        rdp={order: discrete_laplace_rdp(leaf.scale, leaf.sensitivity, order) for order in orders},
    )


def _bracket(leaf: DiscreteLaplaceLaw, _relation: Relation) -> PairBracket | None:
    if leaf.sensitivity >= MOST_ATOMS:
        raise CannotCertify(f"discrete_laplace with a sensitivity of {MOST_ATOMS} or more: state it as pure_dp")
    if not int(leaf.sensitivity):
        return None
    pair = discrete_laplace_pair(float(leaf.scale), int(leaf.sensitivity))
    return PairBracket(pair, pair)


def _shuffled(leaf: DiscreteLaplaceLaw, users: int) -> PairBracket | None:
    epsilon = discrete_laplace_epsilon(leaf.scale, Decimal(int(leaf.sensitivity)))
    return shuffled_pairs(epsilon, 2, users, functools.partial(_agreeing, leaf))


def _agreeing(leaf: DiscreteLaplaceLaw, _epsilon: float, users: int) -> FinitePair:
    step = scalars.exp(-1 / float(leaf.scale))
    rare = scalars.exp(-float(leaf.sensitivity) / float(leaf.scale)) / (1 + step)
    return agreeing_below(rare, (step / (1 + step), 1 / (1 + step)), users)


def _grouped(leaf: DiscreteLaplaceLaw, k: int, _relation: Relation) -> DiscreteLaplaceLaw | PureDP:
    whole = int(leaf.sensitivity)
    return DiscreteLaplaceLaw(leaf.scale, Decimal(whole * k)) if whole else PureDP(0)


def _copies(law: DiscreteLaplaceLaw, leaf: DiscreteLaplaceLaw) -> int | None:
    """More noise is the law's and more beside it; a shorter shift of whole steps is dominated. A smaller ratio of both
    alone is not: the steps of the losses differ."""
    return 1 if leaf.scale >= law.scale and int(leaf.sensitivity) <= int(law.sensitivity) else None


DISCRETE_LAPLACE = LeafRules(
    kind=DiscreteLaplaceLaw,
    attested=False,
    price=overlapping(_cost, noise_fields=frozenset({"scale"}), loss_fields=NO_FIELDS),
    pair=exact_pair(
        failure=never_fails,
        mirrors=mirrors_itself,
        bracket=_bracket,
        alone=BY_ITS_BRACKET,
    ),
    group=GroupFacts(
        grouped=_grouped,
        relative=False,
        copies=_copies,
    ),
    batch=found_by_its_bracket(_shuffled),
    outcome=NO_OUTCOME,
)
