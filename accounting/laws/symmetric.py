"""Symmetric pairs: the one whose profile at eps >= 0 is that of a given pair, in both directions."""

from __future__ import annotations

import math

import numpy as np

from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.laws.finite import FinitePair

__all__ = ["mirrored"]


def mirrored(pair: FinitePair) -> FinitePair:
    """The symmetric pair with this one's profile at eps >= 0: its losses above 0, their mirror images, and what is
    left of the mass at 0.

    Assumes: P(L > 0) + Q(L > 0) <= 1 for the loss L, but for rounding; where that fails, the result has more mass than
    1, which dominates as well. Source: docs/proofs/amplification.md, section 3.
    """
    losses, left, right = np.array(pair.losses), np.array(pair.left), np.array(pair.right)
    errors = np.array(pair.loss_errors)
    above = losses > 0
    losses, left, right, errors = losses[above], left[above], right[above], errors[above]
    whole = math.fsum([*left.tolist(), *right.tolist(), pair.only_left])
    rest = max(0.0, 1 - whole * (1 - 2 * pair.mass_error))
    return FinitePair(
        (*losses.tolist(), 0.0, *(-losses).tolist()),
        (*left.tolist(), rest, *right.tolist()),
        (*right.tolist(), rest, *left.tolist()),
        pair.only_left,
        pair.only_left,
        (*errors.tolist(), 0.0, *errors.tolist()),
        pair.mass_error * 2 + 4 * UNIT,
    )
