"""Upper bounds from Renyi divergences, for leaves that promise no more: zCDP and RDP curves.

A leaf promises K(c) <= c D(1 + c), c > 0; K of a composition is at most the sum. Then delta(eps) <= kappa(c)
e^{K(c) - c eps}. Source: Canonne-Kamath-Steinke 2020, Proposition 12; Bun-Steinke 2016, Lemma 2.3 and Definition 8.1.
"""

from __future__ import annotations

import math
from typing import assert_never

import numpy as np

from dpledger.accounting.engine.composed import Composed, log_kappa
from dpledger.accounting.engine.contour import Ladder
from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.guarantees import RDP, ZCDP
from dpledger.decimals import float_down, float_up
from dpledger.errors import WorkLimit

__all__ = ["curve_ladder", "log_finite_of_curves"]

_GRID = np.geomspace(1e-4, 1e6, 400)


def log_finite_of_curves(curves: tuple[tuple[ZCDP | RDP, int], ...]) -> float:
    """log of the mass that the deltas of approximate zCDP leave, rounded down."""
    logs = [count * math.log1p(-float_up(leaf.delta)) for leaf, count in curves if isinstance(leaf, ZCDP)]
    return math.fsum(logs) * (1 + 8 * UNIT)


def curve_ladder(composed: Composed | None, curves: tuple[tuple[ZCDP | RDP, int], ...]) -> Ladder:
    """Chernoff bounds at many orders, of the losses and the curves together; K is infinite where a curve says nothing.

    Claim: each is at least log delta(eps) + c eps. Source: Canonne-Kamath-Steinke 2020, Proposition 12.
    """
    orders = [float_down(order) - 1 for leaf, _ in curves if isinstance(leaf, RDP) for order in leaf.orders]
    c = np.unique(np.concatenate([_GRID, np.array([x for x in orders if x > 0])]))
    total = np.zeros_like(c)
    for leaf, count in curves:
        total += count * _moments(leaf, c)
    if composed is not None:
        finite = np.flatnonzero(np.isfinite(total))
        total[finite] += _losses(composed, c[finite])
    kept = np.isfinite(total)
    total = total[kept] * (1 + (len(curves) + 16) * UNIT)
    return Ladder(c[kept], total, total + log_kappa(c[kept]) * (1 - 16 * UNIT) + 1e-14)


def _losses(composed: Composed, c: Array) -> Array:
    values = np.full_like(c, math.inf)
    for i in range(c.size):
        try:
            values[i] = composed.log_moments(c[i : i + 1])[0]
        except WorkLimit:
            continue
    return values


def _moments(leaf: ZCDP | RDP, c: Array) -> Array:
    """Upper bounds of K(c) = c D(1 + c)."""
    match leaf:
        case ZCDP(rho=rho):
            quadratic: Array = c * (c + 1) * (float_up(rho) * (1 + 8 * UNIT))
            return quadratic
        case RDP(orders=orders, epsilons=epsilons):
            at = np.array([0.0, *(float_up(order - 1) for order in orders)])
            values = [0.0, *(float_up((order - 1) * eps) for order, eps in zip(orders, epsilons, strict=True))]
            between = np.interp(c, at, np.array(values), right=math.inf)  # K is convex: chords lie above
            chords: Array = between * (1 + 16 * UNIT)
            return chords
        case _:
            assert_never(leaf)
