"""The Renyi divergences of two mixtures moved against each other (`opposed`), by the trapezoid rule.

E_Q W = 1, so I(a) - 1 = E_Q[W^a - 1 - a(W - 1)], W = e^{M(x) - M(-x)}, and this integrand is nowhere negative. Where
W^a might overflow I is summed as it is, from its largest term. docs/proofs/mixtures.md, section 7.
"""

from __future__ import annotations

import math

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.families.gaussian.mixture_curve import Mixture
from dpledger.accounting.laws.law import excess, prices

__all__ = ["opposed_divergences"]

DIGITS = 44.0  # e^-44 is below every rounding
MOST_POINTS = 1 << 19
STEEPEST = 500.0  # the largest a |L| for which W^a is summed from 1
LARGEST_SQUARE = 650.0  # and the largest x^2/2 sigma^2
TURNS = tuple(math.pi * k / 24 for k in range(1, 24))  # heights of the strip that are tried, over sigma^2


def opposed_divergences(mixture: Mixture, orders: Array) -> Array:
    """The Renyi divergences, the same in both directions, rounded up; infinite where the rule does not resolve one.

    Claim: at least D_a(P||Q), each a function of its own order alone. Source: docs/proofs/mixtures.md, section 7."""
    c = excess(orders)
    return prices(np.array([_log_moment(mixture, one) for one in c.tolist()]), c)


def _log_moment(mixture: Mixture, c: float) -> float:
    """log E_Q W^(1 + c), rounded up."""
    variance = scalars.square(mixture.sigma)
    digits = DIGITS + 31 - 2 * scalars.log(min(1.0, math.fsum(mixture.weights)) + 1e-300)
    step = max(_step(variance, c, turn, digits) for turn in TURNS)
    reach = mixture.sigma * math.sqrt(2 * (digits + 12))
    low, high = -1 - reach, 2 * c + 1 + reach
    if not (high - low) / step < MOST_POINTS:
        return math.inf
    x = np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64) * step
    here, there = mixture.curve(x), mixture.curve(-x[::-1])
    ahead, behind = here.values, there.values[::-1]
    slack = (here.errors + there.errors[::-1]) + 4 * UNIT * (np.abs(ahead) + np.abs(behind))
    squares = x * x / (2 * variance)
    falls = np.array([step * (-x[0] - 1) / variance, step * (x[-1] - 2 * c - 1) / variance])
    beyond = 1 / elementary.expm1(falls)  # of each end, what lies beyond over the last term
    scale = step / (mixture.sigma * math.sqrt(2 * math.pi))
    sums = _from_one if (c + 1) * np.abs(ahead - behind).max() < STEEPEST and squares.max() < LARGEST_SQUARE else _whole
    return sums(c, (ahead, behind, slack, squares), beyond, scale, scalars.exp(-digits))


def _step(variance: float, c: float, turn: float, digits: float) -> float:
    """The longest step of the rule whose error is below e^-digits for this height of the strip."""
    exponent = turn * turn * variance / 2 - c * scalars.log(scalars.cos(turn / 2))
    return 2 * math.pi * turn * variance * (1 - 1e-9) / (digits + exponent + 1)


Points = tuple[Array, Array, Array, Array]
"""M(x), M(-x), a bound of the error of their difference and of either, and x^2/2 sigma^2."""


def _from_one(c: float, points: Points, beyond: Array, scale: float, alias: float) -> float:
    """log1p(I - 1), with every error added."""
    ahead, behind, slack, squares = points
    losses, a = ahead - behind, c + 1
    masses = elementary.exp(behind - squares) * scale
    grown, once = elementary.expm1(a * losses), elementary.expm1(losses)
    gains = grown - a * once
    wrong = 8 * UNIT * (np.abs(grown) + a * np.abs(once)) + 1.1 * a * np.abs(grown - once) * slack
    relative = slack + UNIT * (8 * squares + _roundings(gains))
    total = float((masses * (np.maximum(gains, 0.0) * (1 + 2 * relative) + wrong)).sum())
    ends = masses[[0, -1]] * (grown[[0, -1]] + 1 + a)
    gained = (total + 1.1 * float((ends * beyond).sum())) * (1 + 1e-12)
    return scalars.log1p(gained + 1.1 * alias * (gained + 2 * a + 1)) * (1 + 8 * UNIT)


def _roundings(values: Array) -> int:
    """Roundings of a sum of these."""
    return values.size + 40


def _whole(c: float, points: Points, beyond: Array, scale: float, alias: float) -> float:
    """log I, from its largest term."""
    ahead, behind, slack, squares = points
    exponents = (c + 1) * ahead - c * behind - squares
    top = float(exponents.max())
    terms = elementary.exp(exponents - top)
    total = float(terms.sum())
    ends = terms[[0, -1]] + 1e-290
    missing = float((ends * beyond).sum()) / total * 1.1
    each = (c + 1) * slack + 8 * UNIT * (squares + abs(top) + 4)
    rounding = 1.1 * float((terms * each).sum()) / total + _roundings(terms) * UNIT
    if not rounding + missing < 0.1:
        return math.inf
    value = top + scalars.log(total * scale)
    return value + 1.1 * (rounding + missing + alias) + 16 * UNIT * (abs(value) + abs(top) + 2)
