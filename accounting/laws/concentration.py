"""The zCDP price of a loss that is bounded: the supremum of D_a / a over all orders a."""

from __future__ import annotations

import numpy as np

from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.laws.law import Loss
from dpledger.errors import WorkLimit

__all__ = ["rho_of"]

ORDERS_MARGIN = 1e-4  # relative: how far above the greatest price of an order the supremum over orders may be
ROUNDS = 8
FARTHEST = 1e9
ROUNDING = 1e-13  # above the roundings of a chord, relative


def rho_of(loss: Loss) -> float:
    """At least sup K(c)/(c (1 + c)) over c > 0: K is convex and 0 at 0, so that between two values of c it is below its
    chord, and K(c)/c is at most the largest loss beyond the last one, where K is not or cannot be looked at; cells that
    may hold the supremum are cut until they are narrow. What is computed of K at a cut counts where it is below the
    chord.

    Claim: result-zCDP in the direction of the loss. Source: Bun-Steinke 2016, Definition 1.1."""
    most = loss.largest
    edges, moments = np.array([0.0]), np.array([0.0])
    while edges[-1] < FARTHEST and _lowest(edges, moments) * (1 + edges[-1]) < most:
        further = _further(float(edges[-1]))
        try:
            found = loss.log_moments(further)
        except WorkLimit:
            break
        edges, moments = np.append(edges, further), np.append(moments, found)
    for _ in range(ROUNDS):
        wide = _on_cells(edges, moments) > _lowest(edges, moments) * (1 + ORDERS_MARGIN)
        if not wide.any():
            break
        starts, widths = edges[:-1][wide], np.diff(edges)[wide]
        cuts = np.concatenate([starts + share * widths for share in (0.25, 0.5, 0.75)])
        order = np.argsort(np.append(edges, cuts), kind="stable")
        found = np.minimum(loss.log_moments(cuts), np.interp(cuts, edges, moments) * (1 + ROUNDING))
        moments = np.append(moments, found)[order]
        edges = np.append(edges, cuts)[order]
    return max(float(np.max(_on_cells(edges, moments), initial=0.0)), most / (1 + float(edges[-1]))) * (1 + ROUNDING)


def _further(last: float) -> Array:
    """The next few values of c."""
    further = []
    for _ in range(4):
        last = 1.25 * last + 0.25
        further.append(last)
    return np.array(further)


def _lowest(edges: Array, moments: Array) -> float:
    """The greatest K(c)/(c (1 + c)) that was seen."""
    return float(np.max(moments[1:] / (edges[1:] * (1 + edges[1:])), initial=0.0))


def _on_cells(edges: Array, moments: Array) -> Array:
    """The supremum of the chord over c (1 + c), cell by cell: of (sc - b)/(c + c^2) it is where s c^2 = b (1 + 2c)."""
    starts, ends, below = edges[:-1], edges[1:], moments[:-1]
    slopes = np.diff(moments) / (ends - starts)
    missing = np.maximum(slopes * starts - below, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        highest = np.where(slopes > 0, (missing + np.sqrt(missing * (missing + slopes))) / slopes, starts)
        at = np.clip(highest, starts, ends)
        inside: Array = (below + slopes * (at - starts)) / (at * (1 + at))
    return np.where(at > 0, inside, slopes)
