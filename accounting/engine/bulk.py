"""The profile of many runs of one loss that is cut, tabulated at once for several numbers of runs.

A few contours, each good for a stretch of the profile, bound it at knots; between knots it is convex in e^eps, which
bounds it from both sides. The contours of n runs and of n - 1 differ in a power only, so that their quadratures are
made once. docs/proofs/engine.md, section 11.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dpledger.accounting.engine.composed import Composed, TiltedComposition, log_kappa
from dpledger.accounting.engine.contour import Contour, Ladder
from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.engine.tilt import Line, choose_line, ladder_around, saddle_for_delta
from dpledger.accounting.laws.law import Cumulants, Loss, Nodes, Tilted
from dpledger.errors import WorkLimit

__all__ = ["Bulk", "TabulatedProfile"]

LEVELS = (
    0.0,
    -3.0,
    -8.0,
    -15.0,
    -24.0,
    -36.0,
    -52.0,
    -72.0,
    -96.0,
    -125.0,
    -160.0,
    -200.0,
    -250.0,
    -310.0,
    -380.0,
    -460.0,
    -550.0,
    -650.0,
)
"""log delta of the contours, from where delta is about a deviation."""
REACH = 20.0  # of e^{-tilt epsilon}: smaller parts of the profile are left to Chernoff's bound
TOLERANCE, WIDTH = 1e-6, 2e-3  # relative: of delta by decay, of delta by smoothing
STEP = 0.05  # between knots, in units of 1/c
MOST_KNOTS, LAST_KNOTS = 400, 200  # of a stretch, and beyond the last contour
BEHIND = 10.0  # deviations
RUNGS = 48
LARGEST = 300.0  # an epsilon up to which e^{-2 epsilon} is a normal float
ROUNDING = 1e-9  # over the relative distance of two knots: more than what all positions are rounded by


@dataclass(eq=False)
class Remembered:
    """A loss that forms nothing twice."""

    loss: Loss
    _tilted: dict[float, RememberedTilt] = field(default_factory=dict)
    _log_moments: dict[bytes, Array] = field(default_factory=dict)

    @property
    def infinite_mass(self) -> float:
        return self.loss.infinite_mass

    @property
    def largest(self) -> float:
        return self.loss.largest

    @property
    def largest_down(self) -> float:
        return self.loss.largest_down

    def cumulants(self, c: float) -> Cumulants:
        return self.loss.cumulants(c)

    def rdp_upper(self, order: float) -> float:
        return self.loss.rdp_upper(order)

    def log_moments(self, c: Array) -> Array:
        key = c.tobytes()
        if key not in self._log_moments:
            self._log_moments[key] = self.loss.log_moments(c)
        return self._log_moments[key]

    def tilted(self, c: float) -> Tilted:
        if c not in self._tilted:
            self._tilted[c] = RememberedTilt(self.loss.tilted(c))
        return self._tilted[c]


@dataclass(eq=False)
class RememberedTilt:
    """A tilted loss that forms its nodes once."""

    tilted: Tilted
    _nodes: dict[tuple[float, int], Nodes] = field(default_factory=dict)

    @property
    def cumulants(self) -> Cumulants:
        return self.tilted.cumulants

    def log_decay(self, t: Array, horizon: float = math.inf) -> Array:
        return self.tilted.log_decay(t, horizon)

    def nodes(self, step: float, count: int, work: int) -> Nodes:
        if (step, count) not in self._nodes:
            self._nodes[step, count] = self.tilted.nodes(step, count, work)
        return self._nodes[step, count]


@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    """A contour's line, the points of its ladder, and the knots that it answers for."""

    line: Line
    ladder: Array
    knots: slice


class Bulk:
    """The profiles of `count` or a few less runs of `loss`, measures of mass `masses` (bounds) at most 1, for epsilons
    up to `ceiling`; sharp where the profile is above e^`least` and, times e^{tilt epsilon}, not small. Raises
    WorkLimit."""

    def __init__(
        self, loss: Loss, count: int, masses: tuple[float, float], *, tilt: float, least: float, ceiling: float
    ) -> None:
        if not 0 < ceiling < LARGEST:
            raise WorkLimit(f"epsilons beyond {LARGEST} are not tabulated")
        self._loss, self._masses = Remembered(loss), masses
        self._profiles: dict[int, TabulatedProfile] = {}
        whole = Composed(((self._loss, count),))
        self._place(whole, tilt, least, ceiling)
        self.rungs = np.geomspace(0.1 * tilt, 8 * tilt + self._stretches[-1].line.tilted.c, RUNGS)

    def _place(self, whole: Composed, tilt: float, least: float, ceiling: float) -> None:
        """Contours, and knots from far below the mean to the ceiling."""
        still = whole.moments(1e-9)
        deviation = math.sqrt(max(still.variance, 0.0))
        start = still.mean - BEHIND * deviation
        if deviation == 0 or start < -LARGEST:
            raise WorkLimit(f"losses of no width, or beyond {LARGEST}, are not tabulated")
        base = min(-0.7, math.log(2 * deviation))
        closest = (64 + 8 * (ceiling + abs(start))) * UNIT / ROUNDING
        pieces: list[Array] = []
        self._stretches: list[_Stretch] = []
        first, used = start, 0
        for level in LEVELS:
            saddle = saddle_for_delta(whole, base + level, WIDTH)
            ladder = ladder_around(whole, saddle)
            width = WIDTH / max(1.0, saddle.c * abs(saddle.epsilon))
            line = choose_line(whole, saddle, ladder, tolerance=TOLERANCE, width=width)
            end = max(min(saddle.epsilon, ceiling), start + 4 * closest)
            most = min(MOST_KNOTS, math.ceil((end - start) * saddle.c / STEP), int((end - start) / closest))
            pieces.append(np.linspace(start, end, max(2, most), endpoint=False))
            self._stretches.append(_Stretch(line, ladder.c, slice(used, used + pieces[-1].size)))
            first = end if not level else first
            start, used = end, used + pieces[-1].size
            if level + tilt * (end - first) < -REACH or base + level < least or end >= ceiling:
                break
        far = max(ceiling, start + LAST_KNOTS * closest)
        self._knots = np.concatenate([*pieces, np.linspace(start, far, LAST_KNOTS)])

    def log_moments(self) -> Array:
        """Upper bounds of K at `rungs`, of one run."""
        return self._loss.log_moments(self.rungs)

    def profile(self, runs: int) -> TabulatedProfile:
        if runs not in self._profiles:
            self._profiles[runs] = self._tabulated(runs)
        return self._profiles[runs]

    def _tabulated(self, runs: int) -> TabulatedProfile:
        composed = Composed(((self._loss, runs),))
        lower: Array = np.full(self._knots.size, -math.inf)
        upper = _ladder(composed, self.rungs).log_deltas(self._knots)
        for stretch in self._stretches:
            line, where = stretch.line, stretch.knots
            tilted = TiltedComposition(line.tilted.c, ((self._loss.tilted(line.tilted.c), runs),))
            ladder = _ladder(composed, stretch.ladder)
            try:
                contour = Contour(tilted, ladder, step=line.step, count=line.count, mu_squared=line.mu_squared)
            except WorkLimit:
                break  # Chernoff's bound has to do, here and beyond
            below, above = contour.bounds_at(self._knots[where])
            lower[where], upper[where] = np.maximum(lower[where], below), np.minimum(upper[where], above)
        low, high = (mass**runs for mass in self._masses)
        slack = 1e-13 + 4 * UNIT * runs
        return tabulated(self._knots, lower, upper, (low * (1 - slack), min(1.0, high * (1 + slack))))


def _ladder(composed: Composed, c: Array) -> Ladder:
    log_moments = composed.log_moments(c)
    return Ladder(c, log_moments, log_moments + log_kappa(c) * (1 - 4 * UNIT) + 4 * UNIT * np.abs(log_moments))


# ---- a table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class TabulatedProfile:
    """Bounds of a profile at `points` y = e^{epsilon - top}, which rise from 0 to 1. In the cell after each point it is
    at least the line through that point with slope `leaving`, and at least the line of slope `arriving` to the next."""

    top: float
    least_mass: float
    points: Array
    lower: Array
    upper: Array
    leaving: Array
    arriving: Array

    def above(self, epsilons: Array) -> Array:
        """Claim: at least the profile, epsilon known up to the rounding of a few operations. Source:
        docs/proofs/engine.md, section 11."""
        y = np.exp(np.minimum(epsilons - self.top, 0.0))
        bounds: Array = np.interp(y, self.points, self.upper) * (1 + 1e-12)
        return bounds

    def below(self, epsilons: Array) -> Array:
        """Claim: at most the profile, in the same sense. Source: docs/proofs/engine.md, section 11."""
        y = np.exp(np.minimum(epsilons - self.top, 0.0))
        j = np.clip(np.searchsorted(self.points, y, side="right") - 1, 0, self.points.size - 2)
        left = self.lower[j] + self.leaving[j] * (y - self.points[j])
        right = self.lower[j + 1] + self.arriving[j] * (y - self.points[j + 1])
        lines = np.maximum(left, right) - 4 * ROUNDING * self.upper[j]
        whole = self.least_mass - np.exp(np.minimum(epsilons, 1.0)) * (1 + ROUNDING)
        bounds: Array = np.maximum(np.maximum(lines, whole), 0.0)
        return np.where(epsilons < self.top, bounds, 0.0)


def tabulated(knots: Array, log_lower: Array, log_upper: Array, masses: tuple[float, float]) -> TabulatedProfile:
    """From bounds of the logarithm at `knots`, which rise, and of the whole mass.

    Assumes: neighbouring knots are at least (64 + 8 (top - least)) UNIT / ROUNDING apart.
    """
    top = float(knots[-1])
    points = np.append(0.0, np.exp(knots - top))
    upper: Array = np.append(masses[1], np.minimum(np.exp(np.minimum(log_upper, 0.0)) * (1 + 1e-12), masses[1]))
    lower: Array = np.append(masses[0], np.exp(log_lower) * (1 - 1e-12))
    upper = np.minimum.accumulate(upper)  # the profile falls
    lower = np.maximum.accumulate(lower[::-1])[::-1]
    upper, lower = _blurred(upper, lower)
    gaps = np.diff(points)
    leaving, arriving = np.full(gaps.size, -math.inf), np.zeros(gaps.size)
    leaving[1:] = np.minimum((lower[1:-1] - upper[:-2]) / gaps[:-1], 0.0) * (1 + 1e-12)
    arriving[:-1] = np.minimum((upper[2:] - lower[1:-1]) / gaps[1:], 0.0) * (1 - 1e-12)
    return TabulatedProfile(top, masses[0], points, lower, upper, leaving, arriving)


def _blurred(upper: Array, lower: Array) -> tuple[Array, Array]:
    """Bounds that hold a rounding beside their knots too: a convex function changes there by less than its fall since
    the knot before."""
    before = np.append(upper[0], upper[:-1])
    return upper + 4 * ROUNDING * before, np.maximum(lower - 4 * ROUNDING * before, 0.0)
