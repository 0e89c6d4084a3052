"""Two scales: many small losses and a few large ones, in a list that holds sampled Gaussians of a small rate.

There the tail is ruled by one outcome far out, or a few: the law of the loss falls more slowly than any exponential for
a while, and a contour loses all its digits, whatever its tilt. Smooth cuts at X_1 < ... < X_n divide the runs by the
layer that the farthest of them reaches:

    A_n^T = A_1^T + sum over j of (A_{j+1}^T - A_j^T),    A_j the measures cut at X_j

Each term is a positive measure with a tilt of its own, at which a contour is sharp; what is cut away altogether is
bounded by its mass. Direction remove only: in the direction add the loss is bounded. docs/proofs/engine.md, section 11.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.covering import Answer, from_bounds
from dpledger.accounting.engine.large_loss_layers import FEW_PARTS, PREFACTOR, Layered, has_large_losses, layered
from dpledger.accounting.engine.saddle_point import ChernoffBounds, Contour
from dpledger.accounting.engine.solve import WIDTH, logs_of, solved
from dpledger.accounting.engine.tilt import Saddle, chernoff_bounds_around, choose_contour, saddle_for_delta
from dpledger.accounting.laws.closed_forms import at_one
from dpledger.accounting.laws.intervals import Interval
from dpledger.errors import WorkLimit

__all__ = ["large_losses_epsilon", "layers", "two_scales"]

MOST_LAWS, LEVELS = 24, 8  # laws that are cut one by one; so many that enclose more of them
LARGE_SHARE = 0.03  # of what many small losses add up to: a single one of less rules nothing
SPREAD, STEEP = 25.0, 23.0  # of c^2 K'' over -log delta at a tilt of rare outcomes; it is to be more where c epsilon is
NEGLIGIBLE = 1e-9  # of delta: a term that Chernoff's bound answers for
DELTA_TOLERANCE, SHARP_EPSILON = 1e-7, 1e-7  # relative: of delta, of epsilon
MOST_ERROR = 0.1  # relative, of a term that is a small share of delta
ATTEMPTS = 3
PLACED, PLACED_WELL = 8, 0.5  # how often layers are placed for a delta, anew where the last was not as close
STEEPNESS = (1.0, 2.0)  # of the first layer: the second where an interval from the first is wide
NARROW_EPSILON, NARROW_DELTA = 1e-5, 1e-3  # relative width of epsilon, of delta, that is not wide
RUNGS = 14  # around a saddle
LEAST_LOG_SHARE = -600.0  # of the logarithm of a share: what is smaller underflows


def two_scales(composed: Composed, log_delta: float) -> bool:
    """Whether, as far as can be told quickly, a few large losses rule the tail: at its tilt a contour would weigh
    outcomes far beyond, whose variance shows. A guess: any answer is valid."""
    if not has_large_losses(composed) or len(composed.parts) > FEW_PARTS:
        return False
    height, delta = -log_delta, scalars.exp(log_delta)
    rare = [(loss.rare, count) for loss, count in composed.parts if loss.rare is not None]
    variance = sum(count * one.chi_squared for one, count in rare)
    far = LARGE_SHARE * (variance / 2 + math.sqrt(2 * height * variance))
    if not any(count * one.mass_above(far) > delta for one, count in rare):
        return False
    try:
        saddle = saddle_for_delta(composed, log_delta, WIDTH)  # the contour's own, kept for it
        spread = scalars.square(saddle.c) * composed.moments(saddle.c).variance
    except WorkLimit:
        return False
    excess = max(0.0, saddle.c * saddle.epsilon / height - 1)
    return excess < 1 and spread > SPREAD * height * scalars.exp(STEEP * excess)


def large_losses_epsilon(composed: Composed, down: float, up: float) -> Interval:
    """Bounds of the least epsilon >= 0 with d(epsilon) <= delta.

    Claim: the upper bound holds for every delta >= down, the lower for every delta <= up. Source:
    docs/proofs/engine.md, section 11.
    """
    found = Interval(0.0, composed.largest)
    if not has_large_losses(composed):
        return found
    above, below = _enclosed(composed)
    if above is not composed:
        least, most = (_found(some, STEEPNESS[0], found, logs_of(down, up)) for some in (below, above))
        return Interval(least.lower, most.upper)
    for steepness in STEEPNESS:
        found = _found(composed, steepness, found, logs_of(down, up))
        if found.relative_width() <= NARROW_EPSILON or found.upper <= 0:
            break
    return found


def _found(composed: Composed, steepness: float, found: Interval, log_deltas: tuple[float, float]) -> Interval:
    """What is left of an interval, by layers of one steepness."""
    log_down, log_up = log_deltas
    try:
        made = layered(composed, scalars.exp(log_down), steepness)
        epsilon = max(chernoff.epsilon(log_down + PREFACTOR) for _, chernoff in made.terms)
        for _ in range(ATTEMPTS):
            sum_of_terms = _sum(made, epsilon, log_down)
            if not sum_of_terms.contours:
                break
            found = found.meet(solved(sum_of_terms, found, epsilon, log_down, log_up))
            if found.relative_width() <= SHARP_EPSILON or found.upper <= 0:
                break
            epsilon = (found.lower + found.upper) / 2 if found.relative_width() < 0.01 else found.upper
    except WorkLimit:
        pass
    return found


def layers(composed: Composed, epsilon: float, about: float) -> Iterator[Answer]:
    """Layers for one epsilon, of each steepness, placed for a delta of `about`, then for what they say of it: a
    `covering.Method`.

    Claim: as `Sum.bounds_at`. Source: docs/proofs/engine.md, section 11.
    """
    above, below = _enclosed(composed)
    if above is composed:
        yield from _placed(composed, epsilon, about)
        return
    for least, most in zip(_placed(below, epsilon, about), _placed(above, epsilon, about), strict=False):
        yield functools.partial(_between, least, most)


def _between(least: Answer, most: Answer, epsilons: Array) -> tuple[Array, Array]:
    return least(epsilons)[0], most(epsilons)[1]


@functools.lru_cache(maxsize=16)
def _enclosed(composed: Composed) -> tuple[Composed, Composed]:
    """A composition that dominates it and one that it dominates, of few laws that are cut; itself, twice, where its
    laws are few.

    Claim: the profile lies between theirs. Source: docs/proofs/engine.md, section 11 (many distinct laws).
    """
    rare = [(loss, count) for loss, count in composed.parts if loss.rare is not None]
    enclosed = rare[0][0].enclosed(rare, LEVELS) if len(rare) > MOST_LAWS else None
    if enclosed is None:
        return composed, composed
    others = [(loss, count) for loss, count in composed.parts if loss.rare is None]
    above, below = (Composed((*some, *others)) for some in enclosed)
    return above, below


def _placed(composed: Composed, epsilon: float, about: float) -> Iterator[Answer]:
    """Layers of each steepness, placed for a better guess of delta each time."""
    if not has_large_losses(composed):
        return
    for steepness in STEEPNESS:
        guess = about
        with contextlib.suppress(WorkLimit):
            for _ in range(PLACED):
                if not guess > 0:
                    break
                terms = _sum(layered(composed, guess, steepness), epsilon, scalars.log(guess))
                yield functools.partial(from_bounds, terms.bounds_at)
                about = min(about, scalars.exp(min(0.0, terms.bounds(epsilon).upper)))
                kept = replace(terms, lost=0.0).bounds(epsilon)
                better = kept.upper if kept.upper < scalars.log(PLACED_WELL * guess) else kept.lower
                if kept.upper - kept.lower <= NARROW_DELTA or not better < scalars.log(PLACED_WELL * guess):
                    break
                guess = scalars.exp(better)


# ---- the sum of the terms -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sum:
    """The profile as that of several measures: contours for some, Chernoff bounds for the others, and what is lost."""

    contours: tuple[tuple[Contour, ChernoffBounds], ...]
    faint: tuple[ChernoffBounds, ...]
    lost: float

    @property
    def c(self) -> float:
        return min(contour.c for contour, _ in self.contours)

    @property
    def window(self) -> float:
        return min(contour.window for contour, _ in self.contours)

    def estimate(self, epsilon: float) -> tuple[float, float]:
        """log d(eps) and its derivative, uncertified."""
        found = [contour.estimate(epsilon) for contour, _ in self.contours]
        logs, slopes = np.array(found).T
        shares = elementary.exp(logs - np.max(logs))
        return float(np.max(logs) + elementary.log(shares.sum())), float(
            elementary.product(shares, slopes) / shares.sum()
        )

    def bounds(self, epsilon: float) -> Interval:
        """`bounds_at`, of one epsilon. Claim: as there."""
        return at_one(self.bounds_at, epsilon)

    def bounds_at(self, epsilons: Array) -> tuple[Array, Array]:
        """Claim: lower <= log d(epsilon) <= upper at each. Source: docs/proofs/engine.md, section 11."""
        found = [contour.bounds_at(epsilons) for contour, _ in self.contours]
        lower = _log_sums([low for low, _ in found], -1.0, epsilons.shape)
        terms = [
            np.minimum(high, chernoff.log_deltas(epsilons))
            for (_, high), (_, chernoff) in zip(found, self.contours, strict=True)
        ]
        terms.extend(chernoff.log_deltas(epsilons) for chernoff in self.faint)
        if self.lost:
            terms.append(np.full(epsilons.shape, scalars.log(self.lost)))
        return lower, _log_sums(terms, 1.0, epsilons.shape)


def _log_sums(logs: list[Array], side: float, shape: tuple[int, ...]) -> Array:
    """The logarithms of sums of exponentials at several points, moved by more than their rounding to the side that
    `side` says."""
    rows = np.reshape(logs, (-1, *shape))
    most: Array = np.max(rows, axis=0, initial=-math.inf)
    finite = np.isfinite(most)
    values: Array = most.copy()
    values[finite] += elementary.log(elementary.exp(rows[:, finite] - most[finite]).sum(axis=0))
    values[finite] += side * 16 * UNIT * (len(logs) + 1) * (1 + np.abs(values[finite]))
    return values


def _sum(made: Layered, epsilon: float, log_delta: float) -> Sum:
    contours, faint = [], list(made.beyond)
    for term, wide in made.terms:
        drawn = None
        if wide.log_delta(epsilon) >= log_delta + scalars.log(NEGLIGIBLE):
            drawn = _contour(term, wide, epsilon, log_delta)
        if drawn:
            contours.append(drawn)
        else:
            faint.append(wide)
    return Sum(tuple(contours), tuple(faint), made.lost)


def _contour(
    term: Composed, wide: ChernoffBounds, epsilon: float, log_delta: float
) -> tuple[Contour, ChernoffBounds] | None:
    """A contour for a term as sharp as its share of delta asks for; None where that is too much work."""
    saddle = _saddle(wide, epsilon)
    share = scalars.exp(min(0.0, max(LEAST_LOG_SHARE, saddle.log_delta - log_delta)))
    tolerance, width = min(MOST_ERROR, DELTA_TOLERANCE / share), min(MOST_ERROR, WIDTH / share)
    try:
        chernoff = chernoff_bounds_around(term, saddle.c, _multiples(wide, saddle))
        return choose_contour(term, saddle, chernoff, tolerance=tolerance, width=width), chernoff
    except WorkLimit:
        return None


def _saddle(chernoff: ChernoffBounds, epsilon: float) -> Saddle:
    """The tilt of the best Chernoff bound, between the bounds that are next to the best of them."""
    logs = chernoff.log_bounds - chernoff.c * epsilon
    i = int(np.argmin(logs))
    aside = 0.0
    if 0 < i < logs.size - 1:
        before, after = float(logs[i - 1] - logs[i]), float(logs[i + 1] - logs[i])
        aside = (before - after) / (2 * (before + after)) if 0 < before + after < math.inf else 0.0
    c = float(chernoff.c[i]) * scalars.exp(aside * scalars.log(float(chernoff.c[1] / chernoff.c[0])))
    return Saddle(c, epsilon, min(0.0, float(logs[i])))


def _multiples(wide: ChernoffBounds, saddle: Saddle) -> Array:
    """Of a saddle's tilt, inside the wide bounds. Where epsilon is less than all losses of the term any tilt will do,
    and a larger one needs a shorter window."""
    low, high = (1.0, 10.0) if saddle.c <= 1.1 * wide.c[0] else (0.35, 2.4)
    return elementary.geometric(low, max(1.3, min(high, float(wide.c[-1]) / saddle.c)), RUNGS)
