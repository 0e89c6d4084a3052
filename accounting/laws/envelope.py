"""Symmetric pairs from profiles: a few upper bounds of delta(eps), eps >= 0, become a finite pair that dominates.

delta is convex in a = e^eps, so the broken line through bounds at points e_0 = 0 < ... < e_N dominates it between them;
its kinks are the masses of a pair. Losses below 0 mirror those above. docs/proofs/amplification.md, section 3.
"""

from __future__ import annotations

import math

import numpy as np

from dpledger.accounting.arithmetic import elementary
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.finite import FinitePair

__all__ = ["envelope", "mirrored"]

_KINK_SLACK = 1e-13  # relative, added to what a kink must reach


def envelope(epsilons: Array, deltas: Array) -> FinitePair:
    """A symmetric pair whose profile is at least `deltas` at `epsilons` (rising from 0), hence above every symmetric
    profile that is at most `deltas` there. Beyond the last point its delta is the last one: mass at infinity.

    Claim: dominates each symmetric pair of such a profile. Source: docs/proofs/amplification.md, section 3.
    """
    ratios = elementary.exp(epsilons)
    gaps = elementary.exp(epsilons[:-1]) * elementary.expm1(np.diff(epsilons))
    right = np.zeros(epsilons.size)
    reached = wanted = float(deltas[-1])
    slope = 0.0
    for k in range(epsilons.size - 2, -1, -1):
        wanted = max(wanted, float(deltas[k]))
        missing = wanted * (1 + _KINK_SLACK) - reached - slope * float(gaps[k])
        if missing > 0:
            right[k + 1] = missing / float(gaps[k])
            slope += float(right[k + 1])
        reached += slope * float(gaps[k])
    right[0] = 0.0
    left = right * ratios
    return mirrored(
        FinitePair(
            tuple(epsilons.tolist()),
            tuple(left.tolist()),
            tuple(right.tolist()),
            float(deltas[-1]),
            float(deltas[-1]),
            tuple((4 * UNIT * epsilons).tolist()),
            UNIT * (8 + 4 * float(epsilons[-1])),
        )
    )


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
