"""A declared bound of the loss at what was published: the leaf `ex_post`, whose run says what it lost.

The whole of it is the mechanism's word, the cap as much as the loss of a run: a record of it is attested, before and
after. So what comes back is what the declared guarantee gives back, and never more: the loss is not above the cap, a
delta stays, and what the other currencies need beforehand stays.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from dpledger.accounting.arithmetic.prices import Cost, approximate_cost
from dpledger.accounting.families.declared.leaf import ExPostDP
from dpledger.accounting.families.declared.worst_case import approximate_bracket, grouped_approximate
from dpledger.accounting.families.leaf_rules import (
    BY_ITS_BRACKET,
    NO_ALLOWANCE,
    NO_FIELDS,
    ExPost,
    GroupFacts,
    LeafRules,
    Orders,
    PriceFacts,
    exact_pair,
    found_by_its_bracket,
    mirrors_itself,
    no_theorem,
    states_no_orders,
)
from dpledger.errors import ParameterError
from dpledger.relations import Relation

__all__ = ["EX_POST_DP"]


def _cap(leaf: ExPostDP, _relation: Relation, orders: Orders) -> Cost:
    """Its cap: (epsilon, delta)-DP. No Renyi price but through rho, as a sparse vector: an epsilon above about 0.2 is
    then charged as an epsilon, the currency in which the loss of a run is refunded. Source: docs/proofs/filters.md,
    "Setting", "Refunds"."""
    return replace(approximate_cost(leaf.epsilon, leaf.delta, orders), rdp=dict.fromkeys(orders))


def _exclusive(leaf: ExPostDP) -> bool:
    """With a delta no theorem interleaves it where both its prices count: its good part is one of whole transcripts."""
    return bool(leaf.delta)


def _loss(leaf: ExPostDP) -> Decimal:
    assert leaf.outcome is not None, "asked only of a leaf whose outcome is known"
    return leaf.outcome.epsilon


def _require_possible(leaf: ExPostDP) -> None:
    if _loss(leaf) > leaf.epsilon:
        raise ParameterError("ExPostOutcome.epsilon", _loss(leaf), f"at most {leaf.epsilon}, the cap")


EX_POST_DP = LeafRules(
    kind=ExPostDP,
    attested=True,
    price=PriceFacts(
        cap=_cap,
        exclusive=_exclusive,
        stated_orders=states_no_orders,
        noise_fields=NO_FIELDS,
        loss_fields=frozenset({"epsilon"}),
        in_floats=False,
    ),
    pair=exact_pair(
        failure=lambda leaf, _: Fraction(leaf.delta),
        mirrors=mirrors_itself,
        bracket=lambda leaf, _: approximate_bracket(leaf.epsilon, leaf.delta),
        alone=BY_ITS_BRACKET,
    ),
    group=GroupFacts(
        grouped=lambda leaf, k, _: grouped_approximate(leaf.epsilon, leaf.delta, k),
        relative=False,
        copies=NO_ALLOWANCE,
    ),
    batch=found_by_its_bracket(no_theorem("shuffled is certified for pure local randomisers, not for ex_post")),
    outcome=ExPost(
        known=lambda leaf: leaf.outcome is not None,
        planned=lambda leaf: ExPostDP(leaf.epsilon, leaf.sense, leaf.delta),
        answers=lambda _: None,
        require_possible=_require_possible,
        loss=_loss,
    ),
)
