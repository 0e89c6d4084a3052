"""Finite pairs side by side: a mechanism in cases that are told, and as likely with the unit as without it."""

from __future__ import annotations

import math

from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.laws.finite import FinitePair

__all__ = ["told"]


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
