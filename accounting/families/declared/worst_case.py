"""Declared epsilons: `pure_dp` and `approx_dp`, and the worst mechanism that keeps them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dpledger.accounting.arithmetic import scalars
from dpledger.accounting.arithmetic.prices import approximate_cost, group_delta, pure_cost
from dpledger.accounting.families.leaf_rules import (
    BY_ITS_BRACKET,
    BY_ITS_LOSSES,
    NO_ALLOWANCE,
    NO_FIELDS,
    NO_OUTCOME,
    BatchFacts,
    GroupFacts,
    LeafRules,
    exact_pair,
    mirrors_itself,
    never_fails,
    no_theorem,
    overlapping,
)
from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.finite import FinitePair, approximate_pair
from dpledger.accounting.laws.law import Direction, Loss
from dpledger.accounting.laws.shuffling import likely_responses, shuffled_bracket, shuffled_pairs
from dpledger.decimals import ZERO, multiply
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

__all__ = [
    "APPROX_DP",
    "PURE_DP",
    "agreeing_responses",
    "approximate_bracket",
    "grouped_approximate",
]

THIRD = 0.8
"""Above this local epsilon users who hold a third value hide less than those who hold the first."""


def approximate_bracket(epsilon: Decimal, delta: Decimal) -> PairBracket | None:
    """The pair of the worst mechanism that keeps (epsilon, delta)."""
    if not epsilon and not delta:
        return None
    if float(delta) == 1.0:
        raise CannotCertify("a guarantee with a delta within 1e-16 of 1 promises nothing")
    pair = approximate_pair(float(epsilon), float(delta))
    return PairBracket(pair, pair)


def grouped_approximate(epsilon: Decimal, delta: Decimal, k: int) -> ApproxDP:
    """Source: Vadhan 2017, Lemma 2.2."""
    larger = group_delta(epsilon, delta, k)
    if larger is None:
        raise CannotCertify(f"a group of {k} has a delta of 1 or more")
    return ApproxDP(multiply(epsilon, k), larger)


def _pure_loss(leaf: PureDP, _relation: Relation, _direction: Direction) -> Loss | None:
    return approximate_pair(float(leaf.epsilon), 0.0).loss() if leaf.epsilon else None


def agreeing_responses(epsilon: float, users: int) -> FinitePair:
    """Users who agree and run the worst randomiser of this epsilon that is known."""
    if epsilon > THIRD:
        return shuffled_bracket(epsilon, 3, users).below
    return likely_responses(scalars.exp(-epsilon), users)


PURE_DP = LeafRules(
    kind=PureDP,
    attested=True,
    price=overlapping(
        lambda leaf, _, orders: pure_cost(leaf.epsilon, orders),
        noise_fields=NO_FIELDS,
        loss_fields=frozenset({"epsilon"}),
    ),
    pair=exact_pair(
        failure=never_fails,
        mirrors=mirrors_itself,
        bracket=lambda leaf, _: approximate_bracket(leaf.epsilon, ZERO),
        alone=_pure_loss,
    ),
    group=GroupFacts(
        grouped=lambda leaf, k, _: PureDP(multiply(leaf.epsilon, k)),
        relative=False,
        copies=NO_ALLOWANCE,
    ),
    batch=BatchFacts(
        sampled=BY_ITS_BRACKET,
        shuffled=lambda leaf, users: shuffled_pairs(leaf.epsilon, 2, users, agreeing_responses),
        quick=True,
        null_is_absence=False,
        divergences=BY_ITS_LOSSES,
    ),
    outcome=NO_OUTCOME,
)


def _approximate_loss(leaf: ApproxDP, _relation: Relation, _direction: Direction) -> Loss | None:
    shown = approximate_bracket(leaf.epsilon, leaf.delta)
    return None if shown is None else approximate_pair(float(leaf.epsilon), float(leaf.delta)).loss()


APPROX_DP = LeafRules(
    kind=ApproxDP,
    attested=True,
    price=overlapping(
        lambda leaf, _, orders: approximate_cost(leaf.epsilon, leaf.delta, orders),
        noise_fields=NO_FIELDS,
        loss_fields=frozenset({"epsilon"}),
    ),
    pair=exact_pair(
        failure=lambda leaf, _: Fraction(leaf.delta),
        mirrors=mirrors_itself,
        bracket=lambda leaf, _: approximate_bracket(leaf.epsilon, leaf.delta),
        alone=_approximate_loss,
    ),
    group=GroupFacts(
        grouped=lambda leaf, k, _: grouped_approximate(leaf.epsilon, leaf.delta, k),
        relative=False,
        copies=NO_ALLOWANCE,
    ),
    batch=BatchFacts(
        sampled=BY_ITS_BRACKET,
        shuffled=no_theorem("shuffled is certified for pure local randomisers, not for approx_dp"),
        quick=True,
        null_is_absence=False,
        divergences=BY_ITS_LOSSES,
    ),
    outcome=NO_OUTCOME,
)
