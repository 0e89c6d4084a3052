"""One of k values, the true one likelier: the law `randomized_response`."""

from __future__ import annotations

import functools
from decimal import Decimal

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.prices import Cost, pure_cost
from dpledger.accounting.families.leaf_rules import (
    BY_ITS_BRACKET,
    NO_FIELDS,
    NO_OUTCOME,
    Divergences,
    GroupFacts,
    LeafRules,
    Orders,
    PriceFacts,
    exact_pair,
    floats_up,
    found_by_its_bracket,
    may_overlap,
    mirrors_itself,
    never_fails,
    states_no_orders,
    written,
)
from dpledger.accounting.families.randomized_response.leaf import RandomizedResponseLaw
from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.concentration import rho_of
from dpledger.accounting.laws.finite import FinitePair, randomised_response_pair
from dpledger.accounting.laws.shuffling import likely_responses, shuffled_bracket, shuffled_pairs
from dpledger.relations import Relation

__all__ = ["RANDOMIZED_RESPONSE"]


def _cost(leaf: RandomizedResponseLaw, _relation: Relation, orders: Orders) -> Cost:
    """The prices of an epsilon, or the divergences of its own pair where these are less."""
    whole = pure_cost(leaf.epsilon, orders)
    if not leaf.epsilon:
        return whole
    rdp = dict(zip(orders, _rdp(leaf, orders), strict=True))
    return whole.or_better(Cost(pure=None, rho=_rho(leaf), mu_squared=None, rdp=rdp))


@functools.lru_cache(maxsize=1024)
def _rdp(leaf: RandomizedResponseLaw, orders: Orders) -> Divergences:
    return tuple(map(written, _pair(leaf).loss().rdp_upper(floats_up(orders)).tolist()))


@functools.lru_cache(maxsize=256)
def _rho(leaf: RandomizedResponseLaw) -> Decimal | None:
    return written(rho_of(_pair(leaf).loss()))


def _pair(leaf: RandomizedResponseLaw) -> FinitePair:
    return randomised_response_pair(float(leaf.epsilon), leaf.k)


def _bracket(leaf: RandomizedResponseLaw, _relation: Relation) -> PairBracket | None:
    if not leaf.epsilon:
        return None
    pair = _pair(leaf)
    return PairBracket(pair, pair)


def _shuffled(leaf: RandomizedResponseLaw, users: int) -> PairBracket | None:
    """Responses on three values and more are seen whole."""
    return shuffled_pairs(leaf.epsilon, leaf.k, users, functools.partial(_agreeing, leaf.k))


def _agreeing(categories: int, epsilon: float, users: int) -> FinitePair:
    if categories > 2:
        return shuffled_bracket(epsilon, categories, users).below
    return likely_responses(scalars.exp(-epsilon), users)


RANDOMIZED_RESPONSE = LeafRules(
    kind=RandomizedResponseLaw,
    attested=False,
    price=PriceFacts(
        cap=_cost,
        exclusive=may_overlap,
        stated_orders=states_no_orders,
        noise_fields=NO_FIELDS,
        loss_fields=frozenset({"epsilon"}),
        in_floats=True,
    ),
    pair=exact_pair(
        failure=never_fails,
        mirrors=mirrors_itself,
        bracket=_bracket,
        alone=BY_ITS_BRACKET,
    ),
    group=GroupFacts(
        grouped=lambda leaf, *_: leaf,  # its pair is that of any two values
        relative=False,
        copies=lambda law, leaf: 1 if leaf.epsilon <= law.epsilon and leaf.k >= law.k else None,
    ),
    batch=found_by_its_bracket(_shuffled),
    outcome=NO_OUTCOME,
)
