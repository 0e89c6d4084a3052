"""Bounded ranges: the guarantee `bounded_range` and, under another name, the law `exponential`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

from dpledger.accounting.arithmetic.conversions import mu_squared_of_pure, rdp_of_pure, zcdp_of_pure
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.families.bounded_range.conversations import (
    dominating_ranges,
    shown_ranges,
    tilts_of_ranges,
)
from dpledger.accounting.families.bounded_range.leaf import ExponentialLaw
from dpledger.accounting.families.bounded_range.loss import BoundedRangeLoss
from dpledger.accounting.families.declared.worst_case import agreeing_responses
from dpledger.accounting.families.leaf_rules import (
    HAS_A_PAIR,
    NO_ALLOWANCE,
    NO_FIELDS,
    NO_OUTCOME,
    NO_SQUARES,
    GroupFacts,
    LeafRules,
    Orders,
    PairFacts,
    RangeEnvelope,
    found_by_its_bracket,
    mirrors_itself,
    never_fails,
    overlapping,
)
from dpledger.accounting.guarantees import BoundedRange
from dpledger.accounting.laws.cells import PairBracket, bounded_range_bracket
from dpledger.accounting.laws.finite import FinitePair
from dpledger.accounting.laws.shuffling import shuffled_pairs
from dpledger.decimals import multiply, round_up

__all__ = ["BOUNDED_RANGE", "EXPONENTIAL"]

EIGHTH = Decimal("0.125")
HALF = Decimal("0.5")
_REASON = "a bounded range run more than once is bounded from both sides of its worst conversation, on a lattice"

L = TypeVar("L")


def _cost(eta: Decimal, orders: Orders) -> Cost:
    """eta-bounded range: eta-DP, eta^2/8-zCDP, and the mu-GDP of an eta/2-DP mechanism, which is the least that holds.
    Source: Cesar-Rogers 2021, Lemma 3.2; Dong-Durfee-Rogers 2020; docs/proofs/filters.md, "Prices"."""
    exact = multiply(multiply(eta, eta), EIGHTH)
    rdp = {order: min(round_up(multiply(exact, order)), rdp_of_pure(eta, order)) for order in orders}
    return Cost(
        pure=eta,
        rho=min(round_up(exact), zcdp_of_pure(eta)),
        mu_squared=mu_squared_of_pure(multiply(eta, HALF)),
        rdp=rdp,
    )


def _agreeing(epsilon: float, users: int) -> FinitePair:
    """A response of half of eta has this range."""
    return agreeing_responses(epsilon / 2, users)


def _bracket(eta: Decimal) -> PairBracket | None:
    return bounded_range_bracket(float(eta)) if eta else None


def _alone(eta: Decimal) -> BoundedRangeLoss | None:
    return BoundedRangeLoss(float(eta)) if eta else None


def _rules(kind: type[L], eta: Callable[[L], Decimal], field: str, *, attested: bool) -> LeafRules[L]:
    """Of a leaf that is known by its range alone."""
    return LeafRules(
        kind=kind,
        attested=attested,
        price=overlapping(
            lambda leaf, _, orders: _cost(eta(leaf), orders), noise_fields=NO_FIELDS, loss_fields=frozenset({field})
        ),
        pair=PairFacts(
            failure=never_fails,
            mirrors=mirrors_itself,
            bracket=lambda leaf, _: _bracket(eta(leaf)),
            alone=lambda leaf, *_: _alone(eta(leaf)),
            squares=NO_SQUARES,
            renyi=HAS_A_PAIR,
            envelope=RangeEnvelope(eta=eta, above=dominating_ranges, tilts=tilts_of_ranges, below=shown_ranges),
            reason=_REASON,
        ),
        group=GroupFacts(
            grouped=lambda leaf, k, _: BoundedRange(multiply(eta(leaf), k)),  # the losses of a path of k steps add up
            relative=False,
            copies=NO_ALLOWANCE,
        ),
        batch=found_by_its_bracket(lambda leaf, users: shuffled_pairs(eta(leaf), 2, users, _agreeing)),
        outcome=NO_OUTCOME,
    )


BOUNDED_RANGE = _rules(BoundedRange, lambda leaf: leaf.eta, "eta", attested=True)
EXPONENTIAL = _rules(ExponentialLaw, lambda leaf: leaf.epsilon, "epsilon", attested=False)
