"""The lattice engine: certified bounds for few compositions, where no transform decays, and for profiles in a box.

Each loss is put on a lattice twice, above and below (`connect_the_dots`); both lists are composed (`convolution`).
Between lattice points the composed profiles are linear in e^eps. The two differ by about T (c+1) h^2 / 8 in epsilon, h
the spacing and c the tilt: the spacing is chosen for the width that is wanted, and once more from the width that it
gave. docs/proofs/lattice.md.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import SUBNORMAL, UNIT, Array
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.connect_the_dots import MOST_CELLS, LatticeMeasure, Mesh, lower_steps, upper_steps
from dpledger.accounting.engine.convolution import Convolved, chernoff_bounds, convolve
from dpledger.accounting.engine.covering import Answer, Indices
from dpledger.accounting.engine.saddle_point import ChernoffBounds
from dpledger.accounting.engine.support_estimate import SupportEstimate, support_estimate
from dpledger.accounting.laws.closed_forms import at_one
from dpledger.accounting.laws.intervals import Interval
from dpledger.accounting.laws.law import Profiled
from dpledger.accounting.laws.tails import TINY
from dpledger.errors import WorkLimit

__all__ = [
    "RUNGS",
    "SMALL",
    "LatticePlan",
    "lattice_epsilon",
    "lattices",
    "profiles_of",
]

WIDTH = 5e-4  # relative, of epsilon: aimed at, at first
CLOSE = 1e-4  # relative, of delta: aimed at by lattices for many epsilons
CAREFUL = 0.52  # of that, once a try was too wide
FINER = 64  # times, at most, from one spacing to the next
LOOSE = 8.0  # Chernoff's bound of delta is rarely further than e^LOOSE from it
SMALL = 3e-4  # an epsilon below this is wanted to an absolute width only
PASSES = 5
LONGEST_TRANSFORM = 1 << 16  # of a transform
_ROOM = 1.02  # a first spacing is not as fine as may be laid out: some cells are left for rounding
MOST_LAWS = 1024  # each is put on the lattice anew at every try
RUNGS = elementary.geometric(1.1, 4.0, 8)  # Chernoff bounds of the aliases, in units of the tilt

FARTHEST = 2.0**51  # units of a mesh
LESS = scalars.log(1e4)  # by this much less of the losses each further try leaves out
Part = tuple[Profiled, int]
Counted = tuple[LatticeMeasure, int]


def profiles_of(composed: Composed) -> list[Part] | None:
    """The profile of every loss, with counts; None where one has no tails, or where they are too many."""
    parts: list[Part] = []
    if len(composed.parts) > MOST_LAWS:
        return None
    for loss, count in composed.parts:
        profile = loss.profile()
        if profile is None:
            return None
        parts.append((profile, count))
    return parts


def lattice_epsilon(composed: Composed, down: float, up: float, width: float = WIDTH) -> Interval:
    """Bounds of the least epsilon >= 0 with d(epsilon) <= delta, d the profile of the finite loss. `width`: relative,
    aimed at.

    Claim: the upper bound holds for every delta >= down, the lower for every delta <= up. Source:
    docs/proofs/lattice.md, section 6.
    """
    found, parts = Interval(0.0, composed.largest), profiles_of(composed)
    if parts is None:
        return found
    try:
        log_delta = scalars.log(down)
        estimate = support_estimate(parts, log_delta, _log_share(parts, -log_delta / 2, width))
        tilt, epsilon = estimate.saddle_for_delta(log_delta)
        plan = _plan(estimate, tilt, min(found.upper, max(epsilon, 1e-12)), log_delta, max(width, WIDTH))
        for tries in range(1, PASSES + 1):
            above = _steps(plan, parts, upper_steps)
            found = found.meet(_bounds(plan, parts, above, down, up, found))
            if found.upper < math.inf and found.upper - found.lower <= 2 * width * max(found.upper, SMALL):
                break
            plan = _refined(plan, _plan(estimate, tilt, min(found.upper, 2 * plan.epsilon), log_delta, width, tries))
    except WorkLimit:
        pass
    return found


def lattices(composed: Composed, epsilon: float, about: float) -> Iterator[Answer]:  # noqa: ARG001 - of one lattice
    """Lattices for one epsilon, each finer than the last: a `covering.Method`. None where a loss has no tails.

    Claim: as `ComposedLattice.deltas`. Source: docs/proofs/lattice.md, section 6.
    """
    parts = profiles_of(composed)
    if parts is None or epsilon >= composed.largest:
        return
    single = max(float(law.above(np.array([epsilon]))[0]) for law, _ in parts)
    log_single, found = scalars.log(max(single, TINY)), Interval(0.0, 1.0)  # of one run: at most that of all
    for width in CLOSE, WIDTH:
        estimate = support_estimate(parts, log_single, _log_share(parts, 1.0, width))
        tilt, chernoff = estimate.saddle_for_epsilon(epsilon)
        where = estimate.tilt_and_window(tilt, epsilon, max(log_single, min(chernoff, 0.0) - LOOSE))
        plan = _plan_at(estimate, epsilon, where, width / tilt, scalars.log(width / estimate.runs))
        with contextlib.suppress(WorkLimit):
            for _ in range(PASSES):
                lattice = _lattice(plan, parts)
                yield lattice.deltas
                found = found.meet(at_one(lattice.deltas, epsilon))
                finer = plan.spacing * min(0.7, max(1 / 16, math.sqrt(width / min(found.relative_width(), 1.0))))
                plan = replace(plan, spacing=finer)
        if found.relative_width() <= 2 * WIDTH:
            return


# ---- choices: any of them is valid -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LatticePlan:
    """A tilt, a window, a spacing, an epsilon to look around, and the range of losses of each part."""

    c: float
    window: float
    spacing: float
    epsilon: float
    ranges: tuple[tuple[float, float], ...]

    @property
    def length(self) -> int:
        """Of a transform. Raises WorkLimit where that is too long."""
        length = 1 << max(6, scalars.bits_above(self.window / self.spacing))
        if length > LONGEST_TRANSFORM:
            raise WorkLimit(f"the lattice needs a transform of more than {LONGEST_TRANSFORM} points")
        return length


def _log_share(parts: Sequence[Part], steepness: float, width: float) -> float:
    """log of the share of delta that a loss may lose at its upper end: a small part of the width aimed at."""
    runs = sum(count for _, count in parts)
    return scalars.log(0.02 * width * max(1.0, steepness) / runs)


def _plan(
    estimate: SupportEstimate, tilt: float, epsilon: float, log_delta: float, width: float, tries: int = 0
) -> LatticePlan:
    """For a width of `width` times epsilon, or a little more than epsilon where that is small. Each try that was too
    wide leaves less of the losses out: at a steep tilt what is moved to the lower end counts for more than its
    share."""
    where, wanted = estimate.tilt_and_window(tilt, epsilon, log_delta), width * max(epsilon, SMALL)
    log_share = scalars.log(width / estimate.runs) - tries * LESS
    return _plan_at(estimate, epsilon, where, wanted * CAREFUL if tries else wanted, log_share)


def _refined(last: LatticePlan, wanted: LatticePlan) -> LatticePlan:
    """The wanted plan, if it is finer than the last one, but not much finer at once."""
    return replace(wanted, spacing=max(last.spacing / FINER, min(0.7 * last.spacing, wanted.spacing)))


def _plan_at(
    estimate: SupportEstimate, epsilon: float, tilt_and_window: tuple[float, float], wanted: float, log_share: float
) -> LatticePlan:
    """For a width of `wanted`; each loss may lose a share of e^log_share."""
    c, window = tilt_and_window
    ranges = tuple(part.range(c, log_share) for part in estimate.parts)
    spacing = math.sqrt(8 * wanted / (estimate.runs * (c + 1)))
    finest = max(window / LONGEST_TRANSFORM, *((high - low) / MOST_CELLS for low, high in ranges))
    return LatticePlan(c, window, max(spacing, _ROOM * finest), epsilon, ranges)


@dataclass(frozen=True, slots=True, eq=False)
class ComposedLattice:
    """One composition above and one below the profile."""

    above: Convolved
    below: Convolved

    def deltas(self, epsilons: Array) -> tuple[Array, Array]:
        """Claim: lower[i] <= d(epsilons[i]) <= upper[i]. Source: docs/proofs/lattice.md, section 6."""
        return _deltas_below(self.below, epsilons), _deltas_above(self.above, epsilons)


def _lattice(plan: LatticePlan, parts: list[Part]) -> ComposedLattice:
    above, below = _steps(plan, parts, upper_steps), _steps(plan, parts, lower_steps)
    return ComposedLattice(_composed(above, plan), _composed_below(below, plan))


# ---- one lattice -----------------------------------------------------------------------------------------------------


def _steps(
    plan: LatticePlan, parts: list[Part], made: Callable[[Profiled, Mesh, float, float], LatticeMeasure]
) -> list[Counted]:
    mesh = Mesh.near(plan.spacing)
    return [(made(law, mesh, *where), count) for (law, count), where in zip(parts, plan.ranges, strict=True)]


def _bounds(
    plan: LatticePlan, parts: list[Part], above: list[Counted], down: float, up: float, found: Interval
) -> Interval:
    """The interval that one spacing gives."""
    upper = min(found.upper, _epsilon_above(_composed(above, plan), down, plan.epsilon, found))
    if upper <= 0:
        return Interval(0.0, 0.0)
    below = _composed_below(_steps(plan, parts, lower_steps), plan)
    return Interval(_epsilon_below(below, up, min(upper, plan.epsilon + plan.window)), upper)


def _composed(parts: list[Counted], plan: LatticePlan, aliases: ChernoffBounds | None = None) -> Convolved:
    return convolve(parts, plan.c, plan.length, aliases)


def _composed_below(parts: list[Counted], plan: LatticePlan) -> Convolved:
    return _composed(parts, plan, chernoff_bounds(parts, plan.c * RUNGS))


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
    return sums.position(j) + scalars.log1p(share * scalars.expm1(sums.mesh.spacing))


def _deltas_above(sums: Convolved, epsilons: Array) -> Array:
    """Claim: at least the profile at each epsilon. Source: docs/proofs/lattice.md, section 6."""
    numbers, shares, slack = _places(sums, epsilons)
    above, below = (np.minimum(sums.uppers(each), 1.0) for each in (numbers, numbers + 1))  # no profile is above 1
    between = above - np.maximum(0.0, shares - slack) * np.maximum(0.0, above - below)
    found: Array = np.nextafter(between * (1 + 8 * UNIT) + SUBNORMAL, math.inf)
    return found


def _deltas_below(sums: Convolved, epsilons: Array) -> Array:
    """Claim: at most the profile at each epsilon. Source: docs/proofs/lattice.md, section 6."""
    numbers, shares, slack = _places(sums, epsilons)
    above, below = sums.lowers(numbers), sums.lowers(numbers + 1)
    between = above - np.minimum(1.0, shares + slack) * (above - below)
    found = np.where(above <= below, above, np.maximum(0.0, between * (1 - 1e-12) - SUBNORMAL))
    return np.where(epsilons < FARTHEST * sums.mesh.unit, found, 0.0)


def _places(sums: Convolved, epsilons: Array) -> tuple[Indices, Array, Array]:
    """The lattice point before each epsilon, where e^epsilon lies on the way to the next, and the rounding of that; of
    what is too far for that, the end of a cell before it."""
    mesh = sums.mesh
    if abs(sums.start) >= FARTHEST:
        raise WorkLimit("a lattice begins beyond the whole numbers that floats hold")
    units = np.floor(np.minimum(epsilons / mesh.unit, FARTHEST)).astype(np.int64)
    numbers = (units - sums.start) // mesh.width
    beyond = np.clip(epsilons - sums.positions(numbers), 0.0, mesh.spacing)
    slack = 1e-12 + 8 * UNIT * np.abs(epsilons) / mesh.spacing
    return numbers, elementary.expm1(beyond) / scalars.expm1(mesh.spacing), slack


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
