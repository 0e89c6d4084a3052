"""A privacy profile at some points: the guarantee `privacy_curve`."""

from __future__ import annotations

import functools
from fractions import Fraction

from dpledger.accounting.arithmetic.prices import approximate_cost
from dpledger.accounting.families.leaf_rules import (
    LeafRules,
    may_overlap,
    no_group,
    no_theorem,
    states_no_orders,
)
from dpledger.accounting.guarantees import PrivacyCurve
from dpledger.accounting.laws.cells import Bracket
from dpledger.accounting.laws.curve import curve_bracket
from dpledger.relations import Relation

__all__ = ["PRIVACY_CURVE"]


@functools.lru_cache(maxsize=64)
def _bracket(leaf: PrivacyCurve, _relation: Relation) -> Bracket:
    return curve_bracket(leaf.epsilons, leaf.deltas, leaf.reached)


PRIVACY_CURVE = LeafRules(
    kind=PrivacyCurve,
    attested=True,
    price=lambda leaf, _, orders: approximate_cost(leaf.epsilons[-1], leaf.deltas[-1], orders),
    failure=lambda leaf, _: Fraction(min(leaf.deltas)),
    outcome=None,
    exclusive=may_overlap,
    stated_orders=states_no_orders,
    noise_fields=frozenset(),
    loss_fields=frozenset(),
    mirrors=lambda _: "above",  # a promise in both directions: the same profile, by pairs that are rounded apart
    bracket=_bracket,
    alone=None,
    sampled=None,
    shuffled=no_theorem("shuffled is certified for pure local randomisers, not for privacy_curve"),
    quick=False,
    in_floats=False,
    null_is_absence=False,
    grouped=no_group("privacy_curve"),
    relative=False,
    gaussian=None,
    renyi=None,
    range=None,
    copies=None,
    batch_divergences=None,
    reason=None,
)
