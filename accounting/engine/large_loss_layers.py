"""Layers of large losses: where the runs of a list are cut, and the measures that result.

Every choice is valid. The last cut is so far out that nothing is lost; the others so close to each other that the
density of a jump's loss is all but exponential over a layer, down to where it falls so steeply that small losses rule.
docs/proofs/engine.md, section 11.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.saddle_point import ChernoffBounds
from dpledger.accounting.engine.tilt import chernoff_bounds
from dpledger.accounting.laws.law import Jumping, RareLosses
from dpledger.errors import WorkLimit

__all__ = ["FEW_PARTS", "PREFACTOR", "Layered", "has_large_losses", "layered"]

FEW_PARTS = 8
MOST_LAWS = 128
LOST = 1e-8  # of delta: what the last cuts may take away in all
BELOW_CHORD = 6.0  # of the logarithm of a jump's density below its chord over a layer: what a contour may lose there
LEVEL = 1e-3  # so deep in all where it is not convex
MOST_LAYERS = 12
MOST_JUMPS, MORE = 12, 20  # numbers of jumps that are told apart, and that are taken together
MOST_EXPECTED = 0.5  # jumps in all runs, on average, beyond the first cut
FAR_BELOW = 35.0  # log delta: there a term needs no closer look
LAYER_POINTS = 512
STEEPER = 2.0  # times as steep as where one jump is as rare as delta: there layers begin
ROOM = 2.5  # tilts up to so many times that steepness are to fit the cuts
STEEP_ENOUGH = 1.5  # of -log delta: c epsilon, so that small losses alone are seen to be rarer than delta
BEYOND = 1.5  # times its tilt: so far are a contour's aliases bounded
PREFACTOR = 2.5  # log of what Chernoff's bound is more than the truth, about
MULTIPLES = elementary.geometric(1 / 300, 1.0, 40)  # of the largest tilt: small ones where epsilon is far below a jump


@dataclass(frozen=True, slots=True)
class Layered:
    """`terms`: the runs within the first cut, and so many jumps into each layer, each with Chernoff bounds. `beyond`:
    those of more jumps. `lost`: the mass that the last cuts take away."""

    terms: tuple[tuple[Composed, ChernoffBounds], ...]
    beyond: tuple[ChernoffBounds, ...]
    lost: float


def has_large_losses(composed: Composed) -> bool:
    """Whether there are losses of which rare ones can be told apart, and not too many of them."""
    return 0 < sum(loss.rare is not None for loss, _ in composed.parts) <= MOST_LAWS


def layered(composed: Composed, delta: float, steepness: float) -> Layered:
    """Layers for a profile of about `delta`; the first begins where the law falls so steeply. Raises WorkLimit where
    there is one scale only.

    Claim: the profile of the list is at least the sum of those of the terms, and at most that, the Chernoff bounds
    `beyond` and `lost`. Source: docs/proofs/engine.md, section 11.
    """
    runs = [(loss.rare, count) for loss, count in composed.parts if loss.rare is not None]
    others = [(loss, count) for loss, count in composed.parts if loss.rare is None]
    levels, tilt = _levels(runs, delta, steepness)
    cuts = [(rare.nested(levels, tilt), count) for rare, count in runs]
    small = Composed((*((own.first, count) for own, count in cuts), *others))
    c = tilt * MULTIPLES
    log_others = Composed(tuple(others)).log_moments(c) if others else np.zeros(c.size)
    terms, beyond = [(small, chernoff_bounds(c, small.log_moments(c)))], []
    log_delta = scalars.log(delta)
    epsilon = terms[0][1].epsilon(log_delta + PREFACTOR)
    for j in reversed(range(len(levels) - 1)):
        layer = cuts[0][0].layer(cuts, j)
        for numbers, chernoff in _numbers(layer, (c, log_others), log_delta, epsilon):
            terms.append((Composed(((numbers, 1), *others)), chernoff))
            epsilon = max(epsilon, chernoff.epsilon(log_delta + PREFACTOR))
        if numbers.most < numbers.runs:
            beyond.append(chernoff_bounds(c, numbers.log_moments_beyond(c) + log_others))
    lost = sum(count * own.lost for own, count in cuts)
    return Layered(tuple(terms), tuple(beyond), lost * (1 + 1e-9))


def _numbers(
    layer: Jumping, others: tuple[Array, Array], log_delta: float, epsilon: float
) -> Iterator[tuple[Jumping, ChernoffBounds]]:
    """One jump, two, ...: one by one while at the tilt that they ask for more jumps are to be expected; then all that
    are left at once, as soon as they are known to be far too rare at about this epsilon. `others`: tilts, and upper
    bounds of K of the other losses there."""
    c, log_others = others
    last = min(MOST_JUMPS, layer.runs)
    for k in range(1, last + 1):
        several = layer.jumping(k, min(k + MORE, layer.runs))
        together = chernoff_bounds(c, several.log_moments(c) + log_others)
        if k == last or together.log_delta(epsilon) < log_delta - FAR_BELOW:
            break
        alone = layer.jumping(k, k)
        chernoff = chernoff_bounds(c, alone.log_moments(c) + log_others)
        epsilon = max(epsilon, chernoff.epsilon(log_delta + PREFACTOR))
        tilt = float(c[np.argmin(chernoff.log_bounds - c * epsilon)])
        if np.interp(BEYOND * tilt, c, alone.log_expected(c)) < scalars.log(k):
            break
        yield alone, chernoff
    yield several, together


def _levels(runs: Sequence[tuple[RareLosses, int]], delta: float, steepness: float) -> tuple[Array, float]:
    """Losses at which the runs are cut: the last so far out that nothing is lost, the others so close to each other
    that the density of a jump's loss is all but exponential between two of them; and the largest tilt to be used."""
    last, single, first = (
        max(rare.loss_beyond(mass / (count * len(runs))) for rare, count in runs)
        for mass in (LOST * delta, delta, MOST_EXPECTED)
    )
    if not 0 < first < single < last:
        raise WorkLimit("the losses have one scale only")
    losses = elementary.geometric(first, last, LAYER_POINTS)
    log_density = elementary.log_of_sum([scalars.log(count) + rare.log_density(losses) for rare, count in runs])
    falls = -np.gradient(log_density, losses)
    tilt = STEEPER * max(float(np.interp(single, losses, falls)), 1.0)
    steep = np.flatnonzero(falls[losses < single] > steepness * tilt)
    start = int(steep[-1]) + 1 if steep.size else 0
    bend = np.maximum(-np.gradient(falls, losses), 0.0)
    steps = np.sqrt(bend[start + 1 :] / (8 * BELOW_CHORD)) * np.diff(losses[start:]) + LEVEL / LAYER_POINTS
    depth = np.concatenate([[0.0], np.cumsum(steps)])
    layers = max(1, min(MOST_LAYERS, math.ceil(float(depth[-1]))))
    levels: Array = np.interp(np.linspace(0.0, depth[-1], layers + 1), depth, losses[start:])
    return levels, max(ROOM * tilt, STEEP_ENOUGH * -scalars.log(delta) / single)
