"""A mechanism known by its privacy curve alone: bounds of delta at some epsilons, in either direction, as finite pairs.

delta is convex, falling and at most 1 in y = e^epsilon >= 1, and one symmetric pair has the largest profile that both
directions allow:

    above   the greatest convex polygon below the upper bounds: it is a mechanism's that keeps them, so it is exact for
            a promise
    below   between two points, delta is above the lines through an upper and the next lower bound; the greatest convex
            polygon below these lines

Doroshenko et al. 2022 (connect the dots); docs/proofs/amplification.md, sections 3 and 8.
"""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import accumulate

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, Rounding
from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.finite import FinitePair, mirrored
from dpledger.decimals import float_down, float_up
from dpledger.errors import CannotCertify

__all__ = ["bracket_of_points", "convex_chain", "curve_bracket"]

LARGEST_EPSILON = 600.0
CLOSEST = 1e-12
"""Relative gap of e^epsilon between two points."""
_SCALE_SLACK = 1e-12  # relative: what lower polygons are less by, for every rounding that is not verified
_MOST_REACH = scalars.exp(5.0)  # by this factor of e^epsilon a lower bound reaches at most beyond the last point


def curve_bracket(
    epsilons: tuple[Decimal, ...], deltas: tuple[Decimal, ...], reached: tuple[Decimal, ...] = ()
) -> PairBracket:
    """Symmetric pairs above and below a mechanism with delta(epsilons[i]) <= deltas[i] in both directions; and, where
    `reached` is given, delta(epsilons[i]) >= reached[i] in both. Without it, below is the worst mechanism that keeps
    the promise.

    Claim: above dominates, below is dominated. Assumes: epsilons rise from 0 or more; each reached[i] is at most
    deltas[j] for every j <= i. Source: docs/proofs/amplification.md, section 8. Raises CannotCertify above
    LARGEST_EPSILON.
    """
    higher, ceilings = _points(epsilons, tuple(accumulate(deltas, min)), "above", 1.0)
    above = _pair(*_hull(higher, ceilings), "above")
    if not reached:
        return PairBracket(
            above, _pair(*_hull(*_points(epsilons, tuple(accumulate(deltas, min)), "below", 1.0)), "below")
        )
    known = tuple(accumulate(reversed(reached), max))[::-1]  # a later value holds before as well: delta falls
    lower, floors = _points(epsilons, known, "below", float_down(known[0]))
    return PairBracket(above, _pair(*_hull(*_lines(lower, floors, ceilings)), "below"))


def bracket_of_points(higher: Array, ceilings: Array, lower: Array, floors: Array) -> PairBracket:
    """Symmetric pairs above and below a mechanism with delta(log higher[i]) <= ceilings[i], delta(log lower[i]) >=
    floors[i] in both directions; higher[i] >= lower[i], and above it by at most the shift of `_lines`.

    Claim: above dominates, below is dominated. Assumes: both rise from 1, the bounds fall, floors[i] <= ceilings[i].
    Source: docs/proofs/amplification.md, section 8. Raises CannotCertify where they do not rise in floats.
    """
    if not (np.all(np.diff(higher) > 0) and np.all(np.diff(lower) > 0)):
        raise CannotCertify("the epsilons of a mechanism are too small to be told apart in floats")
    above = _pair(*_hull(higher, ceilings), "above")
    return PairBracket(above, _pair(*_hull(*_lines(lower, floors, ceilings)), "below"))


def _points(
    epsilons: tuple[Decimal, ...], deltas: tuple[Decimal, ...], side: Rounding, first: float
) -> tuple[Array, Array]:
    """e^epsilon and bounds of delta that fall, both rounded to the side, which keeps delta on it. The first point is
    at epsilon 0, with the bound `first` where none is given there."""
    if float_up(epsilons[-1]) > LARGEST_EPSILON:
        raise CannotCertify(f"a privacy curve is certified up to an epsilon of {LARGEST_EPSILON:g}")
    rounded, sign = (float_up, 1) if side == "above" else (float_down, -1)
    exponents = np.array([rounded(epsilon) for epsilon in epsilons])
    bounds = np.array([rounded(delta) for delta in deltas])
    ratios = np.where(exponents > 0, elementary.exp(exponents) * (1 + sign * 4 * UNIT), 1.0)
    if exponents[0] > 0:
        ratios = np.append(1.0, ratios)
        bounds = np.append(first, bounds)
    if not np.all(np.diff(ratios) > CLOSEST * ratios[1:]):
        raise CannotCertify(
            f"the points of a privacy curve are to be more than {CLOSEST:g} apart, and above 0 or at it"
        )
    return ratios, bounds


def _hull(ratios: Array, bounds: Array) -> tuple[Array, Array]:
    """The corners of the greatest convex polygon below the points that a symmetric pair allows: the (epsilon, delta) of
    each point bounds delta(0), Kairouz-Oh-Viswanath 2015, Theorem 3.3."""
    y, heights = ratios.tolist(), bounds.tolist()
    heights[0] = min(1.0, heights[0], *(1 - 2 * (1 - d) / (1 + r) for r, d in zip(y[1:], heights[1:], strict=True)))
    kept = convex_chain(y, heights)
    return ratios[kept], np.array(heights)[kept]


def convex_chain(x: list[float], y: list[float]) -> list[int]:
    """The corners of the greatest convex polygon below some points, whose x do not fall: of several at one x the lowest
    counts. Source: Andrew 1979."""
    chain: list[int] = []
    for k in range(len(x)):
        if chain and x[k] == x[chain[-1]]:
            if y[k] >= y[chain[-1]]:
                continue
            chain.pop()
        while len(chain) > 1:
            i, j = chain[-2], chain[-1]
            if (y[j] - y[i]) * (x[k] - x[j]) < (y[k] - y[j]) * (x[j] - x[i]):
                break
            chain.pop()
        chain.append(k)
    return chain


def _lines(at: Array, least: Array, ceiling: Array) -> tuple[Array, Array]:
    """Points whose polygon is below delta: the lower bounds, between them where the lines from both sides meet, and
    where the last line falls to 0."""
    falls = np.diff(at)
    shift = 32 * UNIT * at[1:] * (1 + elementary.log(at[1:]))  # the ceilings stand a little further to the right
    after = np.minimum(np.append((least[0] - 1) / 2, (least[1:] - ceiling[:-1]) / (falls - shift)), 0.0)
    before = np.minimum(np.append((ceiling[2:] - least[1:-1]) / (falls + shift)[1:], 0.0)[: falls.size], 0.0)
    steep = after[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = (least[:-1] - least[1:] + before * falls) / (before - steep)
    meet = np.clip(np.where(np.isfinite(meet), meet, 0.0), falls / 4096, falls * (1 - 1 / 4096))  # between the points
    here = np.minimum(least[:-1] + steep * meet, least[1:] - before * (falls - meet))  # beside the crossing: below both
    between = np.maximum(here - 16 * UNIT * (least[:-1] + (np.abs(steep) + np.abs(before)) * falls), 0.0)
    slope = min(float(after[-1]), 0.0)
    reach = min(float(least[-1]) / -slope if slope < 0 else math.inf, float(at[-1]) * (_MOST_REACH - 1))
    end = float(at[-1]) + max(reach * (1 - 1e-12), float(at[-1]) * 1e-9)
    places = np.append(np.stack([at[:-1], at[:-1] + meet], axis=1).ravel(), [at[-1], end])
    heights = np.append(np.stack([least[:-1], between], axis=1).ravel(), [least[-1], 0.0])
    return places, heights


def _pair(ratios: Array, heights: Array, side: Rounding) -> FinitePair:
    """The symmetric pair with the polygon as its profile at ratios from 1 on: Q mass is change of slope. What the
    floats have is summed in positive terms, compared, and scaled to the side."""
    widths = np.diff(ratios)
    weights = np.maximum(np.diff(np.append(np.diff(heights) / widths, 0.0)), 0.0)
    beyond = np.cumsum(weights[::-1])[::-1]
    found = float(heights[-1]) + np.append(np.cumsum((widths * beyond)[::-1])[::-1], 0.0)
    rounding = UNIT * (8 * heights.size + 64)
    if side == "above":
        scale = float(np.max(heights / np.maximum(found, 1e-300), initial=1.0)) * (1 + rounding)
    else:  # P and Q of the losses above 0 are at most 1 together: what is below a profile is so at ratios below 1 too
        over = np.max(found / np.maximum(heights, 1e-300), where=found > 0, initial=1.0)
        whole = float(np.sum(weights * (1 + ratios[1:]))) + float(heights[-1])
        scale = (1 - _SCALE_SLACK) / max(float(over), whole * (1 + rounding))
    epsilons, right = elementary.log(ratios[1:]), weights * scale
    infinite, errors = float(heights[-1]) * scale, 8 * UNIT * (1 + epsilons)
    symmetric = mirrored(FinitePair.of(epsilons, (right * ratios[1:], right), (infinite, infinite), errors, 8 * UNIT))
    return symmetric if side == "above" else _scaled(symmetric, 1 - _SCALE_SLACK)


def _scaled(pair: FinitePair, factor: float) -> FinitePair:
    left, right = (tuple(factor * mass for mass in masses) for masses in (pair.left, pair.right))
    infinite = pair.only_left * factor
    return FinitePair(pair.losses, left, right, infinite, infinite, pair.loss_errors, pair.mass_error)
