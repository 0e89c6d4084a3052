"""Laws on a lattice that bound a privacy profile from above and from below.

A profile delta(y), y = e^eps, is convex and falling. On the lattice of losses l_k = (start + k width) unit:

    upper  the polygon through delta at the points e^{l_k} (connect the dots): above, by convexity
    lower  on each cell a line below delta; at each point the lower of its two lines; the greatest convex polygon below
           these values is below delta on every cell

A convex falling polygon with its corners on the lattice is the profile of a measure on the lattice: Q mass at a corner
is its change of slope. Both are built in plain floating point; then the polygon that the floats really have is summed
in positive terms, compared with what it must not cross, and scaled until it does not. Source: Doroshenko et al. 2022
(connect the dots); docs/proofs/lattice.md, sections 2 and 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.curve import convex_chain
from dpledger.accounting.laws.law import Profiled
from dpledger.errors import WorkLimit

__all__ = ["LatticeMeasure", "Mesh", "lower_steps", "upper_steps"]

MOST_CELLS = 1 << 15
_ROUNDS = 40
_WIDEST = 600.0  # losses up to here: e^l stays a float


@dataclass(frozen=True, slots=True)
class Mesh:
    """Losses that are whole multiples of `unit`, a power of two; lattices of `width` (even, below 2^25) units."""

    unit: float
    width: int

    @property
    def spacing(self) -> float:
        return self.width * self.unit

    @classmethod
    def near(cls, spacing: float) -> Mesh:
        """The mesh with a spacing of at most `spacing`, nearest to it."""
        mantissa, exponent = math.frexp(spacing)
        return cls(math.ldexp(1.0, exponent - 24), 2 * math.floor(math.ldexp(mantissa, 23)))

    def units_up(self, value: float) -> int:
        return math.ceil(value / self.unit)

    def units_down(self, value: float) -> int:
        return math.floor(value / self.unit)


@dataclass(frozen=True, slots=True, eq=False)
class LatticeMeasure:
    """A measure on the losses (start + k width) unit: P masses `masses`, and `infinite` at +infinity.

    Its profile bounds the law's on the side that it was made for."""

    mesh: Mesh
    start: int
    masses: Array
    infinite: float

    @property
    def points(self) -> Array:
        return _points(self.mesh, self.start, self.masses.size)


def _points(mesh: Mesh, start: int, count: int) -> Array:
    """Exact: numerators stay below 2^53."""
    if not abs(start) + count * mesh.width < 1 << 52:
        raise WorkLimit("the lattice is too fine for its range")
    points: Array = (start + np.arange(count, dtype=np.float64) * mesh.width) * mesh.unit
    if max(abs(float(points[0])), abs(float(points[-1]))) > _WIDEST:
        raise WorkLimit(f"losses beyond {_WIDEST} are not put on a lattice")
    return points


def _cells(mesh: Mesh, low: float, high: float) -> int:
    cells = max(1, math.ceil((high - low) / mesh.spacing))
    if cells >= MOST_CELLS:
        raise WorkLimit(f"a loss needs more than {MOST_CELLS} cells")
    return cells


def upper_steps(law: Profiled, mesh: Mesh, low: float, high: float) -> LatticeMeasure:
    """The polygon through the profile at lattice points from about `low` to `high`.

    Claim: the profile of the result is at least the law's, everywhere. Source: docs/proofs/lattice.md, Lemma 3.
    """
    cells = _cells(mesh, low, high)
    start = mesh.units_up(min(high, law.largest)) - cells * mesh.width  # a bounded loss ends on the lattice
    points = _points(mesh, start, cells + 1)
    wanted = law.above(points)
    ratios = elementary.exp(points)
    widths = ratios[:-1] * scalars.expm1(mesh.spacing)
    slopes = np.concatenate([[(wanted[0] - 1) / ratios[0]], np.diff(wanted) / widths, [0.0]])
    weights = np.maximum(np.diff(slopes), 0.0)
    infinite = float(wanted[-1])
    found = infinite + _heights(weights, widths)
    whole = float(found[0] + ratios[0] * np.sum(weights))
    short = np.max(wanted / np.maximum(found, 1e-300), initial=1.0 / whole)
    scale = max(1.0, float(short)) * (1 + _rounding(cells))
    return LatticeMeasure(mesh, start, weights * ratios * scale, infinite * scale)


def _heights(weights: Array, widths: Array) -> Array:
    """sum over k > j of weights[k] (y_k - y_j), for every j: all terms are positive."""
    beyond = np.cumsum(weights[::-1])[::-1]
    return np.append(np.cumsum((widths * beyond[1:])[::-1])[::-1], 0.0)


def _rounding(cells: int) -> float:
    """The relative rounding of `_heights`, of e^l, and of masses as weights times ratios, twice over."""
    return UNIT * (4 * cells + 120)


def lower_steps(law: Profiled, mesh: Mesh, low: float, high: float) -> LatticeMeasure:
    """The greatest convex polygon below the lines of the cells, from about `low` to `high`.

    Claim: the profile of the result is at most the law's, everywhere. Source: docs/proofs/lattice.md, Lemma 4.
    """
    start, cells, fixed = _placed(law, mesh, low, high)
    points = _points(mesh, start, cells + 1)
    middles = points - mesh.spacing / 2
    for number, middle in fixed:
        middles[number] = middle
    ratios = elementary.exp(points)
    heights, falls = law.lines(middles)
    left, right = _ends(heights, falls, ratios)
    early = np.flatnonzero(right < 0)
    early = early[early < np.max(np.flatnonzero(right >= 0), initial=-1)]
    if early.size:  # little just above the middle, more far beyond: touch at the right end, the line is positive there
        heights[early], falls[early] = law.lines(points[early])
        left, right = _ends(heights, falls, ratios)
    negative = np.flatnonzero(right < 0)
    last = (int(negative[0]) if negative.size else right.size) - 1
    if last < 0:
        return _at_one_point(law, mesh, low)
    allowed = np.append(np.minimum(right[:last], left[:last]), 0.0)
    widths = ratios[:last] * scalars.expm1(mesh.spacing)
    whole = float(heights[0])
    weights = _convex(ratios[: last + 1], allowed, whole, mesh.spacing)
    found = _heights(weights, widths)
    over = np.max(found[:-1] / np.maximum(allowed[:-1], 1e-300), initial=1.0)
    over = max(float(over), float(found[0] + ratios[0] * np.sum(weights)) / max(whole, 1e-300))
    masses = weights * ratios[: last + 1] / (over * (1 + _rounding(cells)))
    return LatticeMeasure(mesh, start, masses, 0.0)


def _at_one_point(law: Profiled, mesh: Mesh, low: float) -> LatticeMeasure:
    """All that is above `low`, as one loss: of a law so narrow that no line of a cell is positive at its right end.

    The line of all of it is below the profile, and so is what is left of it where it is positive."""
    (height,), (fall,) = (ends.tolist() for ends in law.lines(np.array([low])))
    loss = scalars.log(height / fall) if height > 0 else 0.0
    start = mesh.units_down(loss - 8 * UNIT * (1 + abs(loss)))
    return LatticeMeasure(mesh, start, np.array([height]), 0.0)


def _ends(heights: Array, falls: Array, ratios: Array) -> tuple[Array, Array]:
    """The line of each cell at its left end (of all but the first: that is 0) and at its right end, rounded down."""
    error = 16 * UNIT
    right = heights * (1 - error) - falls * ratios * (1 + error)
    left = heights[1:] * (1 - error) - falls[1:] * ratios[:-1] * (1 + error)
    return left, right


Placed = tuple[int, int, tuple[tuple[int, float], ...]]


def _placed(law: Profiled, mesh: Mesh, low: float, high: float) -> Placed:
    """First lattice point in units, number of cells, and where a line is to touch other than in the middle of a cell.

    A loss that ends is merged within half a cell of its end, and the ratio of what is merged is made a lattice point:
    an atom there, or a mass that is narrow beside the spacing, would lose to first order anywhere else."""
    half = mesh.spacing / 2
    ends_low, ends_high = low <= law.smallest + half, high >= law.largest - half
    if ends_low and (not ends_high or _mass_within(law, half) < 0):
        heights, falls = law.lines(np.array([law.smallest + half]))
        at = _log_ratio(1 - float(heights[0]), 1 - float(falls[0]), law.smallest, law.smallest + half)
        start = mesh.units_down(at)
        return start, _cells(mesh, at, high), ((1, law.smallest + half),)
    if ends_high:
        heights, falls = law.lines(np.array([law.largest - half]))
        at = _log_ratio(float(heights[0]), float(falls[0]), law.largest - half, law.largest) - 64 * UNIT
        cells = _cells(mesh, low, at)
        return mesh.units_down(at) - cells * mesh.width, cells, ((cells, law.largest - half),)
    cells = _cells(mesh, low, high)
    return mesh.units_up(high) - cells * mesh.width, cells, ()


def _mass_within(law: Profiled, half: float) -> float:
    """The mass within `half` of the upper end, less that within it of the lower end."""
    near_low, near_high = law.lines(np.array([law.smallest + half, law.largest - half]))[0].tolist()
    return float(near_high - (1 - near_low))


def _log_ratio(left: float, right: float, low: float, high: float) -> float:
    """log(left / right), where that is between `low` and `high`; their middle otherwise."""
    ratio = scalars.log(left / right) if left > 0 and right > 0 else math.inf
    return ratio if low < ratio < high else (low + high) / 2


def _convex(ratios: Array, allowed: Array, whole: float, spacing: float) -> Array:
    """Changes of slope of the greatest convex polygon below (0, whole) and (ratios, allowed), falling to 0 at the end.

    A corner above the chord of its neighbours is on no convex polygon below them all: such corners leave, all at once,
    until there are none but by rounding; those count as straight, and the scale makes up for it. Where that goes on,
    one pass from the left takes out the rest."""
    at, heights = np.concatenate([[0.0], ratios]), np.concatenate([[whole], allowed])
    kept = _between_ends(at, heights)
    straight = 32 * UNIT / scalars.expm1(spacing)
    for _ in range(_ROUNDS):
        slopes = np.append(np.diff(heights[kept]) / np.diff(at[kept]), 0.0)
        concave = np.flatnonzero(np.diff(slopes)[:-1] < straight * slopes[:-2])
        if concave.size == 0:
            break
        kept = np.delete(kept, concave + 1)
    else:
        kept = kept[convex_chain(at[kept].tolist(), heights[kept].tolist())]
    changes = np.diff(np.append(np.diff(heights[kept]) / np.diff(at[kept]), 0.0))
    weights = np.zeros(ratios.size)
    weights[kept[1:] - 1] = np.maximum(changes, 0.0)
    return weights


def _between_ends(at: Array, heights: Array) -> npt.NDArray[np.intp]:
    """Both ends, and the corners between the first and the last edge of the greatest convex polygon: of the lines from
    an end to the other corners, the edge is the one below all."""
    last = at.size - 1
    first_edge = 1 + int(np.argmin((heights[1:] - heights[0]) / at[1:]))
    last_edge = int(np.argmin((heights[:-1] - heights[-1]) / (at[-1] - at[:-1])))
    inner = np.arange(first_edge, max(first_edge, last_edge) + 1)
    return np.concatenate([[0], inner[inner < last], [last]])
