"""A pair of distributions, outcome by outcome: the law `pmf`. The only leaf whose two directions are its writer's."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpledger.accounting.arithmetic.prices import Cost, approximate_cost
from dpledger.accounting.families.declared.leaf import PmfPair
from dpledger.accounting.families.declared.pmf_price import pmf_epsilon, pmf_failure, pmf_rdp
from dpledger.accounting.families.leaf_rules import (
    BY_ITS_BRACKET,
    NO_FIELDS,
    NO_OUTCOME,
    GroupFacts,
    LeafRules,
    Mirror,
    Orders,
    exact_pair,
    found_by_its_bracket,
    no_group,
    no_theorem,
    overlapping,
)
from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.finite import listed_pair
from dpledger.accounting.laws.law import Direction
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = ["PMF"]


def _cost(leaf: PmfPair, _relation: Relation, orders: Orders) -> Cost:
    """The largest finite loss of either direction as epsilon, the larger mass at infinity as delta (every event is
    P(S) <= e^epsilon Q(S) + delta); without such mass, the larger Renyi divergence. Source: Mironov 2017, Definition 3.
    """
    delta = pmf_failure(leaf.left, leaf.right)
    whole = approximate_cost(pmf_epsilon(leaf.left, leaf.right), delta, orders)
    if delta:
        return whole
    rdp = {order: pmf_rdp(leaf.left, leaf.right, order) for order in orders}
    return replace(whole, rdp=rdp)


def _failure(leaf: PmfPair, direction: Direction) -> Fraction:
    here, there = (leaf.left, leaf.right) if direction == "remove" else (leaf.right, leaf.left)
    failure = sum((Fraction(p) for p, q in zip(here, there, strict=True) if not q), Fraction(0))
    if float(failure) >= 1 > failure:
        raise CannotCertify("a pmf whose loss is infinite with a probability within 1e-16 of 1 promises nothing")
    return failure


def _bracket(leaf: PmfPair, _relation: Relation) -> PairBracket | None:
    if leaf.left == leaf.right:
        return None
    pair = listed_pair(leaf.left, leaf.right)
    return PairBracket(pair, pair)


def _mirrors(leaf: PmfPair) -> Mirror:
    outcomes = sorted(zip(leaf.left, leaf.right, strict=True))
    return "above" if outcomes == sorted(zip(leaf.right, leaf.left, strict=True)) else "not"


PMF = LeafRules(
    kind=PmfPair,
    attested=False,
    price=overlapping(_cost, noise_fields=NO_FIELDS, loss_fields=NO_FIELDS),
    pair=exact_pair(
        failure=_failure,
        mirrors=_mirrors,
        bracket=_bracket,
        alone=BY_ITS_BRACKET,
    ),
    group=GroupFacts(
        grouped=no_group("pmf"),
        relative=False,
        copies=lambda law, leaf: 1 if leaf == law else None,
    ),
    batch=found_by_its_bracket(no_theorem("shuffled is certified for pure local randomisers, not for pmf")),
    outcome=NO_OUTCOME,
)
