"""The zCDP price of a loss that is bounded: the supremum of D_a / a over all orders a."""

from __future__ import annotations

import numpy as np

from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.laws.law import Loss

__all__ = ["rho_of"]

ORDERS_MARGIN = 3e-3  # relative: how far above the greatest price of an order the supremum over orders may be
ROUNDS = 5
FARTHEST = 1e9


def rho_of(loss: Loss) -> float:
    """At least sup K(c)/(c (1 + c)) over c > 0: K(c)/c rises with c and is at most the largest loss, so that two values
    of c bound what is between them; cells that may hold the supremum are cut until they are narrow.

    Claim: result-zCDP in the direction of the loss. Source: Bun-Steinke 2016, Definition 1.1."""
    most = loss.largest
    edges = np.array([0.25])
    slopes = _slopes(loss, edges)
    while float(np.max(slopes / (1 + edges))) * (1 + edges[-1]) < most and edges[-1] < FARTHEST:
        edges = np.append(edges, 1.25 * edges[-1] + 0.25)
        slopes = np.append(slopes, _slopes(loss, edges[-1:]))
    for _ in range(ROUNDS):
        starts = np.append(0.0, edges[:-1])
        wide = slopes / (1 + starts) > np.max(slopes / (1 + edges)) * (1 + ORDERS_MARGIN)
        if not wide.any():
            break
        cuts = np.concatenate([starts[wide] + share * (edges - starts)[wide] for share in (0.25, 0.5, 0.75)])
        order = np.argsort(np.append(edges, cuts), kind="stable")
        slopes = np.append(slopes, _slopes(loss, cuts))[order]
        edges = np.append(edges, cuts)[order]
    ceiling = float(np.max(slopes / (1 + np.append(0.0, edges[:-1]))))
    return max(ceiling, most / (1 + float(edges[-1]))) * (1 + 1e-14)


def _slopes(loss: Loss, c: Array) -> Array:
    """At least K(c)/c, the divergence of order 1 + c."""
    slopes: Array = loss.log_moments(c) / c
    return slopes
