"""A privacy profile at some points: the guarantee `privacy_curve`."""

from __future__ import annotations

import functools
from fractions import Fraction

from dpledger.accounting.arithmetic.prices import approximate_cost
from dpledger.accounting.families.leaf_rules import (
    BY_ITS_BRACKET,
    NO_ALLOWANCE,
    NO_FIELDS,
    NO_OUTCOME,
    GroupFacts,
    LeafRules,
    exact_pair,
    found_by_its_bracket,
    no_group,
    no_theorem,
    overlapping,
)
from dpledger.accounting.guarantees import PrivacyCurve
from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.curve import curve_bracket
from dpledger.relations import Relation

__all__ = ["PRIVACY_CURVE"]


@functools.lru_cache(maxsize=64)
def _bracket(leaf: PrivacyCurve, _relation: Relation) -> PairBracket:
    return curve_bracket(leaf.epsilons, leaf.deltas, leaf.reached)


PRIVACY_CURVE = LeafRules(
    kind=PrivacyCurve,
    attested=True,
    price=overlapping(
        lambda leaf, _, orders: approximate_cost(leaf.epsilons[-1], leaf.deltas[-1], orders),
        noise_fields=NO_FIELDS,
        loss_fields=NO_FIELDS,
    ),
    pair=exact_pair(
        failure=lambda leaf, _: Fraction(min(leaf.deltas)),
        mirrors=lambda _: "above",  # a promise in both directions: the same profile, by pairs that are rounded apart
        bracket=_bracket,
        alone=BY_ITS_BRACKET,
    ),
    group=GroupFacts(
        grouped=no_group("privacy_curve"),
        relative=False,
        copies=NO_ALLOWANCE,
    ),
    batch=found_by_its_bracket(no_theorem("shuffled is certified for pure local randomisers, not for privacy_curve")),
    outcome=NO_OUTCOME,
)
