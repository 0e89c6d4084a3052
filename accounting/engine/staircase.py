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

from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.laws.tails import Profiled
from dpledger.errors import WorkLimit

__all__ = ["Mesh", "Steps", "lower_steps", "upper_steps"]

MOST_CELLS = 1 << 16
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
class Steps:
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


def upper_steps(law: Profiled, mesh: Mesh, low: float, high: float) -> Steps:
    """The polygon through the profile at lattice points from about `low` to `high`.

    Claim: the profile of the result is at least the law's, everywhere. Source: docs/proofs/lattice.md, Lemma 3.
    """
    cells = _cells(mesh, low, high)
    start = mesh.units_up(min(high, law.largest)) - cells * mesh.width  # a bounded loss ends on the lattice
    points = _points(mesh, start, cells + 1)
    wanted = law.above(points)
    ratios = np.exp(points)
    widths = ratios[:-1] * math.expm1(mesh.spacing)
    slopes = np.concatenate([[(wanted[0] - 1) / ratios[0]], np.diff(wanted) / widths, [0.0]])
    weights = np.maximum(np.diff(slopes), 0.0)
    infinite = float(wanted[-1])
    found = infinite + _heights(weights, widths)
    whole = float(found[0] + ratios[0] * np.sum(weights))
    short = np.max(wanted / np.maximum(found, 1e-300), initial=1.0 / whole)
    scale = max(1.0, float(short)) * (1 + _rounding(cells))
    return Steps(mesh, start, weights * ratios * scale, infinite * scale)


def _heights(weights: Array, widths: Array) -> Array:
    """sum over k > j of weights[k] (y_k - y_j), for every j: all terms are positive."""
    beyond = np.cumsum(weights[::-1])[::-1]
    return np.append(np.cumsum((widths * beyond[1:])[::-1])[::-1], 0.0)


def _rounding(cells: int) -> float:
    """The relative rounding of `_heights`, of e^l, and of masses as weights times ratios, twice over."""
    return UNIT * (4 * cells + 120)


def lower_steps(law: Profiled, mesh: Mesh, low: float, high: float) -> Steps:
    """The greatest convex polygon below the lines of the cells, from about `low` to `high`.

    Claim: the profile of the result is at most the law's, everywhere. Source: docs/proofs/lattice.md, Lemma 4.
    """
    cells = _cells(mesh, low, high)
    top, middle = _top(law, mesh, high)
    start = top - cells * mesh.width
    points = _points(mesh, start, cells + 1)
    middles = points - mesh.spacing / 2
    middles[-1] = middle
    heights, falls = law.lines(middles)
    ratios = np.exp(points)
    error = 16 * UNIT
    right = heights * (1 - error) - falls * ratios * (1 + error)
    left = heights[1:] * (1 - error) - falls[1:] * ratios[:-1] * (1 + error)
    negative = np.flatnonzero(right < 0)
    last = (int(negative[0]) if negative.size else right.size) - 1
    if last < 0:
        return Steps(mesh, start, np.zeros(1), 0.0)
    allowed = np.append(np.minimum(right[:last], left[:last]), 0.0)
    widths = ratios[:last] * math.expm1(mesh.spacing)
    whole = float(heights[0])
    weights = _convex(ratios[: last + 1], allowed, whole)
    found = _heights(weights, widths)
    over = np.max(found[:-1] / np.maximum(allowed[:-1], 1e-300), initial=1.0)
    over = max(float(over), float(found[0] + ratios[0] * np.sum(weights)) / max(whole, 1e-300))
    masses = weights * ratios[: last + 1] / (over * (1 + _rounding(cells)))
    return Steps(mesh, start, masses, 0.0)


def _top(law: Profiled, mesh: Mesh, high: float) -> tuple[int, float]:
    """The last lattice point, in units, and the middle of the cell below it.

    A bounded loss is merged from half a cell below its end on: the ratio of what is merged is the last point, so that
    nothing is lost at an atom there."""
    if high < law.largest:
        top = mesh.units_up(high)
        return top, (top - mesh.width // 2) * mesh.unit
    middle = law.largest - mesh.spacing / 2
    height, fall = (float(side[0]) for side in law.lines(np.array([middle])))
    ratio = math.log(height / fall) - 64 * UNIT if height > 0 and fall > 0 else middle
    if not middle < ratio <= law.largest:
        ratio = middle
    return mesh.units_down(ratio), middle


def _convex(ratios: Array, allowed: Array, whole: float) -> Array:
    """Changes of slope of the greatest convex polygon below (0, whole) and (ratios, allowed), falling to 0 at the end.

    A corner above the chord of its neighbours is on no convex polygon below them all: such corners leave, all at once,
    until there are none."""
    at, heights = np.concatenate([[0.0], ratios]), np.concatenate([[whole], allowed])
    kept = np.arange(at.size)
    while True:
        slopes = np.append(np.diff(heights[kept]) / np.diff(at[kept]), 0.0)
        changes = np.diff(slopes)
        concave = np.flatnonzero(changes[:-1] < 0)
        if concave.size == 0:
            break
        kept = np.delete(kept, concave + 1)
    weights = np.zeros(ratios.size)
    weights[kept[1:] - 1] = np.maximum(changes, 0.0)
    return weights
