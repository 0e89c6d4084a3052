"""Renyi moments of the good part of a pair, from its privacy profile.

    E_V[(dU'/dV)^a] = 1 + a(a-1) [ int_0^c e^{(a-1)x} delta(x) dx + int_0^inf e^{-ax} delta'(x) dx ]
                        - a e^{(a-1)c} delta(c)

with U' = min(U, e^c V), `delta` the profile of (U, V) and `delta'` that of (V, U). Both fall and are convex in e^x, so
that the chord in e^x of upper bounds is an upper bound; a chord in x is none. docs/proofs/certified_prices.md.
"""

from __future__ import annotations

import math

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array

__all__ = ["chord_integral", "divergence_upper", "places"]

POINTS = 100
SPAN = 1e4  # the last point over the first one above 0
LEAST_EXCESS = 2.0**-20  # of an order over 1: nearer to 1 digits are lost, and the divergence rises with the order
LARGEST_LOG = 600.0  # of a moment; where it may be beyond, c itself is the answer
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
