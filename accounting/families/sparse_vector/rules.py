"""The sparse vector: the law `sparse_vector`, whose run publishes what it lost."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction

from dpledger.accounting.arithmetic.prices import Cost, approximate_cost
from dpledger.accounting.families.declared.worst_case import approximate_bracket, grouped_approximate
from dpledger.accounting.families.leaf_rules import (
    BY_ITS_BRACKET,
    NO_ALLOWANCE,
    NO_FIELDS,
    ExPost,
    GroupFacts,
    LeafRules,
    Orders,
    exact_pair,
    found_by_its_bracket,
    mirrors_itself,
    no_theorem,
    overlapping,
)
from dpledger.accounting.families.sparse_vector.leaf import SparseVectorLaw, SparseVectorOutcome
from dpledger.accounting.families.sparse_vector.losses import certify, ex_post_epsilon, require_possible
from dpledger.accounting.guarantees import ApproxDP
from dpledger.accounting.laws.cells import PairBracket
from dpledger.relations import Relation

__all__ = ["SPARSE_VECTOR"]


def _cap(leaf: SparseVectorLaw, _relation: Relation, orders: Orders) -> Cost:
    """What it claims, once the scales are shown to keep it. No Renyi price but through rho: an epsilon above about 0.2
    is then charged as an epsilon, the currency in which the outcome is refunded. Source: docs/proofs/filters.md,
    "Refunds"."""
    certify(_planned(leaf))
    return replace(approximate_cost(leaf.epsilon, leaf.delta, orders), rdp=dict.fromkeys(orders))


def _planned(leaf: SparseVectorLaw) -> SparseVectorLaw:
    stated = {field.name: getattr(leaf, field.name) for field in fields(leaf) if field.name != "outcome"}
    return SparseVectorLaw(**stated)


def _outcome(leaf: SparseVectorLaw) -> SparseVectorOutcome:
    assert leaf.outcome is not None, "asked only of a leaf whose outcome is known"
    return leaf.outcome


EX_POST = ExPost(
    known=lambda leaf: leaf.outcome is not None,
    planned=_planned,
    answers=lambda leaf: _outcome(leaf).tests,
    require_possible=lambda leaf: require_possible(leaf, _outcome(leaf)),
    loss=lambda leaf: ex_post_epsilon(leaf, _outcome(leaf)),
)


def _bracket(leaf: SparseVectorLaw, _relation: Relation) -> PairBracket | None:
    certify(leaf)
    return approximate_bracket(leaf.epsilon, leaf.delta)


def _grouped(leaf: SparseVectorLaw, k: int, _relation: Relation) -> ApproxDP:
    certify(leaf)
    return grouped_approximate(leaf.epsilon, leaf.delta, k)


SPARSE_VECTOR = LeafRules(
    kind=SparseVectorLaw,
    attested=False,
    price=overlapping(_cap, noise_fields=NO_FIELDS, loss_fields=frozenset({"epsilon"})),
    pair=exact_pair(
        failure=lambda leaf, _: Fraction(leaf.delta),
        mirrors=mirrors_itself,
        bracket=_bracket,
        alone=BY_ITS_BRACKET,
    ),
    group=GroupFacts(
        grouped=_grouped,
        relative=False,
        copies=NO_ALLOWANCE,
    ),
    batch=found_by_its_bracket(no_theorem("shuffled is certified for pure local randomisers, not for sparse_vector")),
    outcome=EX_POST,
)
