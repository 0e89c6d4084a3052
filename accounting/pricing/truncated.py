"""Renyi moments of the good part of a pair, from its privacy profile.

    E_V[(dU'/dV)^a] = 1 + a(a-1) [ int_0^c e^{(a-1)x} delta(x) dx + int_0^inf e^{-ax} delta'(x) dx ]
                        - a e^{(a-1)c} delta(c)

with U' = min(U, e^c V), `delta` the profile of (U, V) and `delta'` that of (V, U). Both fall and are convex in e^x, so
that the chord in e^x of upper bounds is an upper bound; a chord in x is none. docs/proofs/certified_prices.md.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array

__all__ = ["chord_integral", "divergence_upper", "line_upper", "places"]

POINTS = 100
SPAN = 1e4  # the last point over the first one above 0
LEAST_EXCESS = 2.0**-20  # of an order over 1: nearer to 1 digits are lost, and the divergence rises with the order
LARGEST_LOG = 600.0  # of a moment; where it may be beyond, c itself is the answer
FIRST_EXCESS = 2.0**-6  # of the first order over 1 of a line
GROWTH = 1.5  # from one order to the next, before they are halved
MOST_POWERS = 80  # of it: orders below 2^53, less one exact; beyond, no price of 10^-14 and more changes
MOST_HALVINGS = 200  # of the orders of a line
LINE_WIDTH = 2.0**-9  # relative: how near a line comes to the divergences that were asked
SLACK = 64 * UNIT  # relative: above the roundings of one term, but for those of its exponent


def places(c: float) -> Array:
    """Where the profile is asked: 0, and points from c/SPAN to c in equal ratios, the last one c itself; 0 alone where
    c is 0. They are part of the rule: whoever computes a price again asks at the same points."""
    if not c:
        return np.zeros(1)
    ratios = elementary.exp((np.arange(POINTS, dtype=np.float64) / (POINTS - 1) - 1) * scalars.log(SPAN))
    return np.concatenate(([0.0], c * ratios[:-1], [c]))


def divergence_upper(x: Array, there: Array, back: Array, last: float, order_minus_one: float) -> float:
    """An upper bound of log E_V[(dU'/dV)^(1 + l)] / l, at least 0 and at most c; l = `order_minus_one` above 0.

    `x`: from 0 to c, rising. `there`, `back`: upper bounds of delta and of delta' at each. `last`: a lower bound of
    delta(c), or 0.
    Claim: at least the Renyi divergence of U' from V, of every order up to 1 + l.
    Source: docs/proofs/certified_prices.md, section 2.
    """
    c, more = float(x[-1]), max(order_minus_one, LEAST_EXCESS)
    power = 1 + more
    if not 0 < power * c <= LARGEST_LOG:
        return c
    slack = SLACK * (1 + power * c)
    beyond = float(np.min(back)) * scalars.exp(-power * c) / power
    within = chord_integral(x, there, more) + chord_integral(x, back, -power) + beyond * (1 + slack)
    added = power * more * within
    taken = power * scalars.exp(more * c) * last * (1 - slack)
    excess = added - taken + SLACK * (added + taken)
    return min(scalars.log1p(excess) / more * (1 + SLACK), c) if excess > 0 else 0.0


def line_upper(divergence: Callable[[float], float], c: float) -> float:
    """A slope r of a line in the order: `divergence(l)`, an upper bound of the divergence of order 1 + l that is at
    most c, makes it at most r (1 + l) at every order.

    Claim: D_a <= a * result for every a > 1, where D rises with the order, is at most `divergence(a - 1)` at each that
    is asked, and at most c. The orders are halved where the bound leaves most, until that is `LINE_WIDTH`.
    Source: docs/proofs/certified_prices.md, section 5.
    """
    orders, found, reached = [1.0], [0.0], 0.0
    order = 1 + FIRST_EXCESS
    while len(orders) <= MOST_POWERS and (not reached or c > orders[-1] * reached):
        orders.append(order)
        found.append(divergence(order - 1))
        reached = max(reached, found[-1] / order)
        order *= GROWTH
    beyond = c / orders[-1]
    cells = [(-high / low, low, order, high) for (low, order), high in zip(pairwise(orders), found[1:], strict=True)]
    heapq.heapify(cells)
    for _ in range(MOST_HALVINGS):
        slope, low, order, high = cells[0]
        if -slope <= max(beyond, reached * (1 + LINE_WIDTH)):
            break
        middle = (low + order) / 2
        between = min(divergence(middle - 1), high)
        reached = max(reached, between / middle)
        heapq.heapreplace(cells, (-between / low, low, middle, between))
        heapq.heappush(cells, (-high / middle, middle, order, high))
    return max(beyond, -cells[0][0]) * (1 + SLACK)


def chord_integral(x: Array, delta: Array, b: float) -> float:
    """An upper bound of the integral of e^{b t} delta(t) over [x[0], x[-1]]; b is neither 0 nor -1.

    `delta`: upper bounds, at each x, of a function that falls and is convex in e^t.
    Claim: at least the integral. On [t, t+h] a chord in e^t integrates to e^{bt} [(A - r) delta(t) + r delta(t+h)],
    A = expm1(bh)/b, B = expm1((b+1)h)/(b+1), r = (B - A)/expm1(h); r is rounded down, all else up.
    Source: docs/proofs/certified_prices.md, section 2.
    """
    falling = np.minimum.accumulate(delta)
    h = np.diff(x)
    flat, rising = elementary.expm1(b * h) / b, elementary.expm1((b + 1) * h) / (b + 1)
    lost = SLACK * (1 + np.abs(b) * h + h) * (flat + rising) / elementary.expm1(h)
    right = np.clip((rising - flat) / elementary.expm1(h) - lost, 0.0, flat)
    weights = elementary.exp(b * x[:-1]) * (1 + SLACK * (1 + np.abs(b) * x[1:]))
    terms = weights * (flat * falling[:-1] - right * (falling[:-1] - falling[1:]))
    return math.fsum(terms.tolist()) * (1 + SLACK)
