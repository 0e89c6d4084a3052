"""Gaussian noise on samples of a fixed size: bounded by finite pairs side by side, a mechanism in cases that are told,
and as likely with the unit as without it; and the rules that such laws share."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.arithmetic.prices import Cost
from dpledger.accounting.families.gaussian.leaf import GaussianWithReplacementLaw, TruncatedSampledGaussianLaw
from dpledger.accounting.families.leaf_rules import (
    HAS_A_PAIR,
    NO_ALLOWANCE,
    NO_FIELDS,
    NO_OUTCOME,
    NO_SQUARES,
    OF_A_FIXED_SIZE,
    ONE_MECHANISM,
    BatchFacts,
    GroupFacts,
    LeafRules,
    LossBracket,
    Mirror,
    Orders,
    PairFacts,
    PriceFacts,
    may_overlap,
    never_fails,
    no_group,
    states_no_orders,
)
from dpledger.accounting.laws.finite import FinitePair
from dpledger.accounting.laws.law import Direction
from dpledger.relations import Relation

__all__ = ["mu_squared_of", "rules_of_fixed_size", "told"]

Law = TypeVar("Law", TruncatedSampledGaussianLaw, GaussianWithReplacementLaw)


def mu_squared_of(leaf: TruncatedSampledGaussianLaw | GaussianWithReplacementLaw, shift: int) -> float:
    """mu^2 where the mean moves by so many contributions."""
    return float((shift / Fraction(leaf.noise_multiplier)) ** 2)


def told(cases: list[tuple[float, FinitePair]]) -> FinitePair:
    """One of these pairs with these probabilities: with a mass above 1 where they are rounded up, which dominates.

    Claim: H_a is the mean of theirs. Source: docs/proofs/amplification.md, section 6."""
    return FinitePair(
        tuple(loss for _, pair in cases for loss in pair.losses),
        tuple(p * mass for p, pair in cases for mass in pair.left),
        tuple(p * mass for p, pair in cases for mass in pair.right),
        math.fsum(p * pair.only_left for p, pair in cases),
        math.fsum(p * pair.only_right for p, pair in cases),
        tuple(error for _, pair in cases for error in pair.loss_errors),
        max(pair.mass_error for _, pair in cases) + 4 * UNIT,
    )


def rules_of_fixed_size(
    kind: type[Law],
    name: str,
    *,
    cost: Callable[[Law, Relation, Orders], Cost],
    mirrors: Callable[[Law], Mirror],
    alone: Callable[[Law, Relation, Direction], LossBracket],
    relative: bool,
    reason: str,
) -> LeafRules[Law]:
    """The rules of such a law: no other draw may sample it, and no group of it is priced."""
    return LeafRules(
        kind=kind,
        attested=False,
        price=PriceFacts(
            cap=cost,
            exclusive=may_overlap,
            stated_orders=states_no_orders,
            noise_fields=frozenset({"noise_multiplier"}),
            loss_fields=NO_FIELDS,
            in_floats=True,
        ),
        pair=PairFacts(
            failure=never_fails,
            mirrors=mirrors,
            bracket=OF_A_FIXED_SIZE,
            alone=alone,
            squares=NO_SQUARES,
            renyi=HAS_A_PAIR,
            envelope=ONE_MECHANISM,
            reason=reason,
        ),
        group=GroupFacts(
            grouped=no_group(name),
            relative=relative,
            copies=NO_ALLOWANCE,
        ),
        batch=BatchFacts(
            sampled=OF_A_FIXED_SIZE,
            shuffled=OF_A_FIXED_SIZE,
            quick=False,
            null_is_absence=False,
            divergences=OF_A_FIXED_SIZE,
        ),
        outcome=NO_OUTCOME,
    )
