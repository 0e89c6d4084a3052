"""The lattice engine: certified bounds for few compositions, where no transform decays, and for profiles in a box.

Each loss is put on a lattice twice, above and below (`staircase`); both lists are composed (`convolution`). Between
lattice points the composed profiles are linear in e^eps. The two differ by about T (c+1) h^2 / 8 in epsilon, h the
spacing and c the tilt: the spacing is chosen for the width that is wanted, and once more from the width that it gave.
docs/proofs/lattice.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.contour import Ladder
from dpledger.accounting.engine.convolution import Convolved, convolve, ladder_of
from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.engine.solve import Interval
from dpledger.accounting.engine.staircase import Mesh, Steps, lower_steps, upper_steps
from dpledger.accounting.engine.tilt import Saddle, ladder_around, saddle_for_delta, saddle_for_epsilon
from dpledger.accounting.laws.smooth_cut import require_error_function
from dpledger.accounting.laws.tails import TINY, Profiled, profile_of
from dpledger.errors import WorkLimit

__all__ = ["lattice_delta", "lattice_epsilon", "profiles_of"]

WIDTH = 5e-4  # relative, of epsilon: aimed at
SMALL = 0.05  # an epsilon below this is wanted to an absolute width only
PASSES = 5
LONGEST = 1 << 17  # of a transform
DIGITS = 11.0  # aliases are to be below e^-DIGITS of delta
_SCAN = 96  # points at which the range of a loss is looked for
_TILTS = np.geomspace(0.3, 8.0, 24)  # tilts tried, in units of the last one
_RUNGS = np.geomspace(1.1, 4.0, 8)  # Chernoff bounds of the aliases, in units of the tilt

Part = tuple[Profiled, int]
Counted = tuple[Steps, int]


def profiles_of(composed: Composed) -> list[Part] | None:
    """The profile of every loss, with counts; None where one has no tails."""
    parts: list[Part] = []
    for loss, count in composed.parts:
        profile = profile_of(loss)
        if profile is None:
            return None
        parts.append((profile, count))
    return parts


def lattice_epsilon(composed: Composed, down: float, up: float) -> Interval:
    """Bounds of the least epsilon >= 0 with d(epsilon) <= delta, d the profile of the finite loss.

    Claim: the upper bound holds for every delta >= down, the lower for every delta <= up. Source:
    docs/proofs/lattice.md, section 6.
    """
    found = Interval(0.0, composed.largest)
    parts = profiles_of(composed)
    if parts is None:
        return found
    require_error_function()
    try:
        saddle = saddle_for_delta(composed, math.log(down), WIDTH)
        plan = _plan(composed, parts, saddle, ladder_around(composed, saddle), max(saddle.epsilon, SMALL))
        for _ in range(PASSES):
            above = _steps(plan, parts, upper_steps)
            found = found.meet(_bounds(plan, parts, above, down, up, found))
            if found.upper - found.lower <= 2 * WIDTH * max(found.upper, SMALL):
                break
            plan = _refined(plan, above, found, math.log(down))
    except WorkLimit:
        pass
    return found


def lattice_delta(composed: Composed, epsilon: float) -> Interval:
    """Bounds of d(epsilon), d the profile of the finite loss.

    Claim: lower <= d(epsilon) <= upper. Source: docs/proofs/lattice.md, section 6.
    """
    found = Interval(0.0, 1.0)
    parts = profiles_of(composed)
    if parts is None or epsilon >= composed.largest:
        return found if parts is None else Interval(0.0, 0.0)
    require_error_function()
    try:
        saddle = saddle_for_epsilon(composed, epsilon)
        plan = _plan(composed, parts, saddle, ladder_around(composed, saddle), 1 / saddle.c)
        for _ in range(PASSES):
            above, below = _steps(plan, parts, upper_steps), _steps(plan, parts, lower_steps)
            upper = _delta_above(_composed(above, plan), epsilon)
            lower = 0.0
            if all(steps.masses.any() for steps, _ in below):
                lower = _delta_below(_composed(below, plan), epsilon)
            found = found.meet(Interval(lower, upper))
            if found.relative_width() <= 2 * WIDTH or found.upper <= TINY:
                break
            finer = plan.spacing * min(0.7, max(1 / 16, math.sqrt(WIDTH / min(found.relative_width(), 1.0))))
            plan = replace(plan, spacing=finer)
    except WorkLimit:
        pass
    return found


# ---- choices: any of them is valid -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """A tilt, a window, a spacing, an epsilon to look around, and the range of losses of each part."""

    c: float
    window: float
    spacing: float
    epsilon: float
    ranges: tuple[tuple[float, float], ...]


def _refined(plan: Plan, above: list[tuple[Steps, int]], found: Interval, log_delta: float) -> Plan:
    """A finer plan, from what the last one found and from the moments of the lattice laws: they end, so that those
    losses that are too rare to matter do not rule their tilt."""
    ladder = ladder_of(above, plan.c * _TILTS)
    epsilon = min(found.upper, max(plan.epsilon, 1e-12))
    c, window = _tilt_and_window(ladder, epsilon, log_delta)
    spacing = _spacing(max(epsilon, SMALL), above, c)
    return Plan(c, window, min(0.7 * plan.spacing, max(plan.spacing / 16, 0.8 * spacing)), epsilon, plan.ranges)


def _spacing(wanted: float, parts: Sequence[tuple[object, int]], c: float) -> float:
    """For a width of WIDTH times `wanted`."""
    runs = sum(count for _, count in parts)
    return math.sqrt(8 * WIDTH * wanted / (runs * (c + 1)))


def _plan(composed: Composed, parts: list[Part], saddle: Saddle, ladder: Ladder, wanted: float) -> Plan:
    c, window = _tilt_and_window(ladder, saddle.epsilon, saddle.log_delta)
    total = sum(count for _, count in parts)
    share = 0.02 * WIDTH * max(1.0, c * wanted) / total
    ranges = tuple(
        _range(profile, ladder.c, loss.log_moments(ladder.c), c, share, saddle.log_delta)
        for (profile, _), (loss, _) in zip(parts, composed.parts, strict=True)
    )
    return Plan(c, window, _spacing(wanted, parts, c), max(saddle.epsilon, 1e-12), ranges)


def _tilt_and_window(ladder: Ladder, epsilon: float, log_delta: float) -> tuple[float, float]:
    """The tilt with the smallest window whose aliases are small, as for the contour."""
    c = ladder.c
    excess = ladder.log_bounds - c * epsilon - log_delta + DIGITS + 2
    best = (math.inf, float(c[0]))
    for i in range(len(c) - 3):
        behind = (DIGITS + 1 - log_delta) / c[i]
        ahead = float(np.min(excess[i + 1 :] / (c[i + 1 :] - c[i])))
        best = min(best, (max(float(behind), ahead), float(c[i])))
    return best[1], best[0]


def _range(
    profile: Profiled, tilts: Array, log_moments: Array, c: float, share: float, log_delta: float
) -> tuple[float, float]:
    """Where to put the lattice: above it a mass of about share delta, below it a share of the tilted mass."""
    log_share = math.log(share)
    high = min(profile.largest, float(np.min((log_moments - log_delta - log_share) / tilts)))
    log_moment = float(np.interp(c, tilts, log_moments))
    low = max(profile.smallest, (log_moment + log_share - 7) / c)
    scan = np.linspace(low, high, _SCAN)
    mass = profile.mass_above(scan)
    with np.errstate(divide="ignore"):
        beyond = np.log(np.maximum(mass, 0.0)) - log_delta
        behind = np.log(np.maximum(1 - mass, 1e-17)) + c * scan - log_moment
    small_above = np.flatnonzero(beyond <= log_share)
    small_below = np.flatnonzero(behind <= log_share - 7)
    last = int(small_above[0]) if small_above.size else _SCAN - 1
    first = min(int(small_below[-1]) if small_below.size else 0, last - 1)
    return float(scan[max(0, first)]), float(scan[last]) if last < _SCAN - 1 else high


# ---- one lattice -----------------------------------------------------------------------------------------------------


def _steps(plan: Plan, parts: list[Part], made: Callable[[Profiled, Mesh, float, float], Steps]) -> list[Counted]:
    mesh = Mesh.near(plan.spacing)
    return [(made(law, mesh, *where), count) for (law, count), where in zip(parts, plan.ranges, strict=True)]


def _bounds(plan: Plan, parts: list[Part], above: list[Counted], down: float, up: float, found: Interval) -> Interval:
    """The interval that one spacing gives."""
    upper = min(found.upper, _epsilon_above(_composed(above, plan), down, plan.epsilon, found))
    if upper <= 0:
        return Interval(0.0, 0.0)
    below = _steps(plan, parts, lower_steps)
    if not all(steps.masses.any() for steps, _ in below):
        return Interval(0.0, upper)
    return Interval(_epsilon_below(_composed(below, plan), up, min(upper, plan.epsilon + plan.window)), upper)


def _composed(parts: list[Counted], plan: Plan) -> Convolved:
    length = 1 << max(6, math.ceil(math.log2(plan.window / plan.spacing)))
    if length > LONGEST:
        raise WorkLimit(f"the lattice needs a transform of more than {LONGEST} points")
    return convolve(parts, plan.c, length, ladder_of(parts, plan.c * _RUNGS))


def _epsilon_above(sums: Convolved, delta: float, guess: float, found: Interval) -> float:
    """Claim: the profile is at most delta there. Source: docs/proofs/lattice.md, section 6."""
    first = sums.nearest(0.0)
    start = max(first + 1, sums.nearest(min(found.upper, guess)) + 1)
    j = _last(lambda k: sums.upper(k) > delta, first, start, sums.values.size)
    if j < first:
        return 0.0
    above, below = sums.upper(j), sums.upper(j + 1)
    if not below <= delta < above:
        return math.inf
    share = ((above - delta) * (1 + 1e-12) + 8 * UNIT * above) / (above - below)
    return _between(sums, j, min(1.0, share)) + 8 * UNIT * abs(sums.position(j + 1)) + 1e-300


def _epsilon_below(sums: Convolved, delta: float, upper: float) -> float:
    """Claim: the profile is at least delta there, or the result is 0. Source: docs/proofs/lattice.md, section 6."""
    first = sums.nearest(0.0) + 1
    start = max(first, sums.nearest(upper) + 1)
    j = _last(lambda k: sums.lower(k) >= delta, first, start, 0)
    if j < first:
        return 0.0
    above, below = sums.lower(j), min(sums.lower(j + 1), delta)
    share = ((above - delta) * (1 - 1e-12) - 8 * UNIT * above) / (above - below) if above > delta else 0.0
    return max(0.0, _between(sums, j, max(0.0, share)) - 8 * UNIT * abs(sums.position(j + 1)))


def _between(sums: Convolved, j: int, share: float) -> float:
    """The point whose e^eps lies at `share` of the way from the lattice point j to the next."""
    return sums.position(j) + math.log1p(share * math.expm1(sums.mesh.spacing))


def _delta_above(sums: Convolved, epsilon: float) -> float:
    """Claim: at least the profile at epsilon. Source: docs/proofs/lattice.md, section 6."""
    j, share, slack = _place(sums, epsilon)
    above, below = sums.upper(j), sums.upper(j + 1)
    return (above - max(0.0, share - slack) * max(0.0, above - below)) * (1 + 8 * UNIT)


def _delta_below(sums: Convolved, epsilon: float) -> float:
    """Claim: at most the profile at epsilon. Source: docs/proofs/lattice.md, section 6."""
    j, share, slack = _place(sums, epsilon)
    above, below = sums.lower(j), sums.lower(j + 1)
    if above <= below:
        return above
    return max(0.0, above - min(1.0, share + slack) * (above - below)) * (1 - 1e-12)


def _place(sums: Convolved, epsilon: float) -> tuple[int, float, float]:
    """The lattice point before epsilon, where e^epsilon lies on the way to the next, and the rounding of that."""
    j = sums.nearest(epsilon)
    spacing = sums.mesh.spacing
    share = math.expm1(max(0.0, epsilon - sums.position(j))) / math.expm1(spacing)
    return j, share, 1e-12 + 8 * UNIT * abs(epsilon) / spacing


def _last(holds: Callable[[int], bool], first: int, start: int, room: int) -> int:
    """A j where `holds` and at j + 1 does not: downward from `start`, first - 1 where it never does; or upward, by
    about `room` at most: then the last j tried."""
    stride, low, high = 1, start, start
    if holds(start):
        while holds(high := low + stride):
            if high > start + room:
                return high
            low, stride = high, 2 * stride
    else:
        while not holds(low := max(first, high - stride)):
            if low <= first:
                return first - 1
            high, stride = low, 2 * stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
