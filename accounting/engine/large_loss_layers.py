"""Layers of jumps: where the runs of a list are cut, and the measures that come of it.

Every choice is valid. The last cut is so far out that nothing is lost; the others so close to each other that the
density of a jump's loss is all but exponential over a layer, down to where it falls so steeply that small losses rule.
docs/proofs/engine.md, section 11.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import Array
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.saddle_point import Ladder
from dpledger.accounting.engine.tilt import ladder_of
from dpledger.accounting.families.gaussian.jumping_runs import JumpingRuns, Runs
from dpledger.accounting.families.gaussian.sampled import SampledGaussianLoss
from dpledger.accounting.families.gaussian.smooth_cut import Cut, mass_beyond
from dpledger.accounting.laws.law import Loss
from dpledger.errors import WorkLimit

__all__ = ["PREFACTOR", "Layered", "can_jump", "jumps", "layered", "mass_above"]

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
_DEVIATIONS = 38.4  # standard deviations: normal tails beyond are no floats


@dataclass(frozen=True, slots=True)
class Layered:
    """`terms`: the runs within the first cut, and so many jumps into each layer, each with Chernoff bounds. `beyond`:
    those of more jumps. `lost`: the mass that the last cuts take away."""

    terms: tuple[tuple[Composed, Ladder], ...]
    beyond: tuple[Ladder, ...]
    lost: float


def can_jump(composed: Composed) -> bool:
    """Whether there are uncut Poisson-sampled Gaussians, direction remove, and not too many to be told apart."""
    return 0 < sum(jumps(loss) for loss, _ in composed.parts) <= MOST_LAWS


def jumps(loss: Loss) -> TypeGuard[SampledGaussianLoss]:
    """Whether it is an uncut Poisson-sampled Gaussian, direction remove."""
    return isinstance(loss, SampledGaussianLoss) and loss.direction == "remove" and loss.cut is None


def layered(composed: Composed, delta: float, steepness: float) -> Layered:
    """Layers for a profile of about `delta`; the first begins where the law falls so steeply. Raises WorkLimit where
    there is one scale only.

    Claim: the profile of the list is at least the sum of those of the terms, and at most that, the Chernoff bounds
    `beyond` and `lost`. Source: docs/proofs/engine.md, section 11.
    """
    runs = [(loss, count) for loss, count in composed.parts if isinstance(loss, SampledGaussianLoss) and jumps(loss)]
    others = [(loss, count) for loss, count in composed.parts if not jumps(loss)]
    levels, tilt = _levels(runs, delta, steepness)
    cuts = [_cuts(loss, levels, tilt) for loss, _ in runs]
    small = Composed(
        (*((replace(loss, cut=own[0]), count) for (loss, count), own in zip(runs, cuts, strict=True)), *others)
    )
    c = tilt * MULTIPLES
    log_others = Composed(tuple(others)).log_moments(c) if others else np.zeros(c.size)
    terms, beyond = [(small, ladder_of(c, small.log_moments(c)))], []
    log_delta = scalars.log(delta)
    epsilon = terms[0][1].epsilon(log_delta + PREFACTOR)
    for j in reversed(range(len(levels) - 1)):
        groups = tuple(
            Runs(replace(loss, cut=own[j]), replace(loss, cut=replace(own[j + 1], start=own[j].point)), count)
            for (loss, count), own in zip(runs, cuts, strict=True)
        )
        for numbers, ladder in _numbers(groups, (c, log_others), log_delta, epsilon):
            terms.append((Composed(((numbers, 1), *others)), ladder))
            epsilon = max(epsilon, ladder.epsilon(log_delta + PREFACTOR))
        if numbers.most < sum(numbers.counts):
            beyond.append(ladder_of(c, numbers.log_moments_beyond(c) + log_others))
    lost = sum(
        count * mass_beyond(loss.rate, loss.sigma, own[-1]) for (loss, count), own in zip(runs, cuts, strict=True)
    )
    return Layered(tuple(terms), tuple(beyond), lost * (1 + 1e-9))


def _numbers(
    groups: tuple[Runs, ...], others: tuple[Array, Array], log_delta: float, epsilon: float
) -> Iterator[tuple[JumpingRuns, Ladder]]:
    """One jump, two, ...: one by one while at the tilt that they ask for more jumps are to be expected; then all that
    are left at once, as soon as they are known to be far too rare at about this epsilon. `others`: tilts, and upper
    bounds of K of the other losses there."""
    c, log_others = others
    total = sum(runs.count for runs in groups)
    last = min(MOST_JUMPS, total)
    for k in range(1, last + 1):
        several = JumpingRuns(groups, k, min(k + MORE, total))
        together = ladder_of(c, several.log_moments(c) + log_others)
        if k == last or together.log_delta(epsilon) < log_delta - FAR_BELOW:
            break
        alone = JumpingRuns(groups, k, k)
        ladder = ladder_of(c, alone.log_moments(c) + log_others)
        epsilon = max(epsilon, ladder.epsilon(log_delta + PREFACTOR))
        tilt = float(c[np.argmin(ladder.log_bounds - c * epsilon)])
        if np.interp(BEYOND * tilt, c, alone.log_expected(c)) < scalars.log(k):
            break
        yield alone, ladder
    yield several, together


def _levels(runs: Sequence[tuple[SampledGaussianLoss, int]], delta: float, steepness: float) -> tuple[Array, float]:
    """Losses at which the runs are cut: the last so far out that nothing is lost, the others so close to each other
    that the density of a jump's loss is all but exponential between two of them; and the largest tilt to be used."""
    last, single, first = (
        max(_loss_beyond(loss, mass / (count * len(runs))) for loss, count in runs)
        for mass in (LOST * delta, delta, MOST_EXPECTED)
    )
    if not 0 < first < single < last:
        raise WorkLimit("the losses have one scale only")
    losses = elementary.geometric(first, last, LAYER_POINTS)
    log_density = elementary.log_of_sum([scalars.log(count) + _log_density(loss, losses) for loss, count in runs])
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


def _log_density(loss: SampledGaussianLoss, losses: Array) -> Array:
    """log of the density of the loss under P."""
    x = _outcomes(loss, losses)
    slopes = 1 - (1 - loss.rate) * elementary.exp(-losses)
    density: Array = (
        losses - x * x / (2 * scalars.square(loss.sigma)) + scalars.log(loss.sigma) - elementary.log(slopes)
    )
    return density


def _outcomes(loss: SampledGaussianLoss, losses: Array) -> Array:
    """x, where L(x) = l > 0."""
    far = losses - scalars.log(loss.rate) + elementary.log1p(-(1 - loss.rate) * elementary.exp(-losses))
    outcomes: Array = 0.5 + scalars.square(loss.sigma) * far
    return outcomes


def mass_above(loss: SampledGaussianLoss, level: float) -> float:
    """About the mass that P has where the loss is above a level > 0."""
    return _mass_to_the_right(loss, float(_outcomes(loss, np.array([level]))[0]))


def _mass_to_the_right(loss: SampledGaussianLoss, outcome: float) -> float:
    near, far = (scalars.erfc((outcome - mean) / (loss.sigma * math.sqrt(2))) / 2 for mean in (0.0, 1.0))
    return (1 - loss.rate) * near + loss.rate * far


def _loss_beyond(loss: SampledGaussianLoss, mass: float) -> float:
    """About the loss beyond which P has this mass."""
    low, high = 0.0, _DEVIATIONS * loss.sigma
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _mass_to_the_right(loss, middle) > mass else (low, middle)
    return float(
        elementary.logaddexp(
            scalars.log1p(-loss.rate), scalars.log(loss.rate) + (high - 0.5) / scalars.square(loss.sigma)
        )
    )


def _cuts(loss: SampledGaussianLoss, levels: Array, tilt: float) -> list[Cut]:
    """Nested: of one width, so narrow that e^{tilt L} does not outgrow it, and at most a quarter of any layer."""
    points = _outcomes(loss, levels)
    width = 1.6 * scalars.square(loss.sigma) / math.sqrt(2.4 * (tilt + 1) + 2)
    width = min(width, float(np.min(np.diff(points))) / 4 * (1 - 1e-9))
    if not (width > 0 and points[0] > 0):
        raise WorkLimit("the layers cannot be told apart")
    points[-1] *= scalars.hypot(loss.sigma, width) / loss.sigma
    return [Cut(point, width, tilt=tilt) for point in points.tolist()]
