"""The trapezoid rule for sampled Gaussians: points, tilted weights, K(c) and what all of them may err by.

Row by row: one row of an array is of one pair, and a single pair is one row. Several c at once stand before the rows.
M(c) = E_P e^{cL} is summed in one of two ways. From 1, where nothing overflows: M - 1 = E_P(e^{cL} - 1), whose
rounding is in proportion to E_P|e^{cL} - 1|, so that K = log1p(M - 1) keeps its digits for a small rate run 10^10
times. From the largest term, where e^{cL} might overflow, and for cut measures. docs/proofs/engine.md, sections 4, 6.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.families.gaussian.smooth_cut import Cut
from dpledger.accounting.laws.law import Cumulants, Direction
from dpledger.accounting.laws.sampled_curve import (
    ALIAS,
    DIGITS,
    MOST_POINTS,
    Curve,
    quadrature_step,
    short_step,
    step_of_few,
)
from dpledger.errors import WorkLimit

__all__ = [
    "BLOCK",
    "Grid",
    "Pairs",
    "TiltedPairs",
    "Weighted",
    "fine_grid",
    "kept_grid",
    "log_moments",
    "make_grid",
    "power",
    "row_products",
    "tilted",
    "weighted",
]

MOST_CUT_POINTS = 1 << 13  # at frequency 0 with a cut, whose factor costs a call a point
MOST_IN_AN_ARRAY = 1 << 23  # of one array
BLOCK = 1 << 17  # numbers of an array that stays in the cache
REACH = math.sqrt(2 * (DIGITS + 12))  # deviations beyond which a normal density is nothing
CLOSE = 0.1  # of the reach: what a range may be wider by, where its mode is looked for
SHARED = 18.0  # times sigma: tilts up to there share a grid
STEEPEST = 500.0  # the largest c |L| for which e^{cL} is summed from 1
LARGEST_SQUARE = 650.0  # and the largest x^2 / 2 sigma^2
CELLS_BEHIND = 192
_BEHIND = np.unique(elementary.geometric(1, CELLS_BEHIND, 13).astype(np.intp))
SEEN = 1e-27  # a share of all weights: points of less are left to the tails, with a cut
FLUSHED = 1e-250  # a term below this share of the largest is none: its products would be slow, below the normal floats
UNDERFLOW = 1e-300  # more than what underflows
UNRESOLVED = "the quadrature of a sampled Gaussian does not resolve its integrand"


Value = TypeVar("Value", float, Array)


class Pairs(Protocol):
    """N(0, sigma^2) and a mixture of such noise around places from 0 to 1, the last of them 1: one such pair, or
    several of one direction, a row each, as far as the rule needs them. `sigma`: a column. `cut`: of one pair alone."""

    @property
    def sigma(self) -> Array: ...
    @property
    def direction(self) -> Direction: ...
    @property
    def cut(self) -> Cut | None: ...
    def curve(self, x: Array) -> Curve:
        """L at exact points, whose rows rise."""
        ...

    def slope(self, x: Array) -> Array:
        """About s(x) = sigma^2 L'(x), in [0, 1]."""
        ...

    def __hash__(self) -> int: ...


def power(pairs: Pairs, c: Value) -> Value:
    """w, the power of the density ratio that e^{c loss} is under N(0, sigma^2)."""
    return c + 1 if pairs.direction == "remove" else -c


def row_products(left: Array, right: Array) -> Array:
    """The inner products of rows, for each c."""
    products: Array = np.einsum("...ij,ij->...i", left, right)
    return products


@dataclass(frozen=True, eq=False)
class Grid:
    """Points x and all that depends on x alone; good for every tilt in (0, c_top] and frequency up to t_top.

    `steps`: a column. `curve`: L(x). `squares`: x^2 / 2 sigma^2 - log chi(x). `from_one`: up to which c M may be summed
    from 1; 0: none.
    """

    pairs: Pairs
    steps: Array
    x: Array
    curve: Curve
    squares: Array
    from_one: float

    @functools.cached_property
    def losses(self) -> Array:
        """Of this direction: +-L(x)."""
        return self.curve.values if self.pairs.direction == "remove" else -self.curve.values

    @functools.cached_property
    def scale(self) -> Array:
        """The step times the largest value of the normal density."""
        return self.steps / (self.pairs.sigma * math.sqrt(2 * math.pi))

    @functools.cached_property
    def slack(self) -> Array:
        """Bounds of the error of w L(x), over |w|."""
        bounds: Array = self.curve.errors + (8 * UNIT) * np.abs(self.curve.values)
        return bounds

    @functools.cached_property
    def masses(self) -> Array:
        """The terms of the rule for P itself."""
        exponents = self.curve.values - self.squares if self.pairs.direction == "remove" else -self.squares
        terms: Array = elementary.exp(exponents) * self.scale
        return terms

    @functools.cached_property
    def doubts(self) -> Array:
        """Bounds of the errors of the masses, and of those of a sum of them."""
        relative = (8 * UNIT) * (self.squares + 4) + (self.x.shape[1] + 40) * UNIT
        if self.pairs.direction == "remove":
            relative += self.slack
        bounds: Array = self.masses * relative
        return bounds

    @functools.cached_property
    def falls(self) -> tuple[Array, Array, float]:
        """At the end that powers move, the right one for remove: by how much a term falls over the one before, at power
        0 and less of that at each unit of power. At the other end, what lies beyond."""
        pairs, scale = self.pairs, self.steps[:, 0] / scalars.square(self.pairs.sigma[:, 0])
        left, right = -scale * self.x[:, 0], scale * self.x[:, -1]
        if pairs.direction == "add":
            return left, scale * (1 + 1e-9 + self.curve.slope_error) * self.curve.slopes[:, 0], _rest(right)
        if pairs.cut is None:
            return right, scale, _rest(left)
        first, last = float(self.x[0, 0]), float(self.x[0, -1])
        rise = scalars.exp(pairs.cut.log_growth(first))  # before the start chi rises, to 1 at most
        still = rise * _rest(left + self.steps[0] * pairs.cut.rise(first))
        return right + self.steps[0] * pairs.cut.hazard(last), scale, still

    @functools.cached_property
    def shifts(self) -> tuple[Array, Array]:
        """The masses times `slack`, and their sums."""
        products = self.masses * self.slack
        return products, products.sum(axis=1)


@dataclass(frozen=True, eq=False)
class Weighted:
    """The normalised tilted weights on a grid, of sum `total` times e^`top` before; of that sum, relative, what lies
    beyond the ends (`tails`) and what all of it may err by (`defect`). For one c or several."""

    grid: Grid
    c: Array
    top: Array
    total: Array
    weights: Array
    tails: Array
    defect: Array

    def moments(self) -> tuple[Array, Array]:
        """K, and bounds of its error; infinite where there is none."""
        values = self.top + elementary.log(self.total * self.grid.scale[:, 0])
        missing = ALIAS + self.defect
        errors = 8 * UNIT * (np.abs(values) + np.abs(self.top) + 2) - elementary.log1p(-np.minimum(missing, 0.1))
        return values, np.where(missing < 0.1, errors, math.inf)

    def relative_errors(self) -> Array:
        """Bounds of the relative error of each weight before it is normalised."""
        w = power(self.grid.pairs, self.c)
        bounds: Array = np.abs(w) * self.grid.slack + (8 * UNIT) * (self.grid.squares + (np.abs(self.top) + 4)[:, None])
        return bounds


@dataclass(frozen=True, eq=False)
class TiltedPairs:
    """The pairs tilted at one c: their normalised weights, of which nothing is claimed, K, and bounds of its error."""

    grid: Grid
    c: float
    weights: Array
    values: Array
    errors: Array

    @functools.cached_property
    def mean(self) -> Array:
        """K'."""
        return row_products(self.weights, self.grid.losses)

    def cumulants(self, counts: Array) -> Cumulants:
        """K and its error, K' and K'' of the sum of so many runs of each pair."""
        apart = self.grid.losses - self.mean[:, None]
        errors = (self.errors + (counts.size + 8) * UNIT * np.abs(self.values)) * (1 + 1e-9)
        rows = np.array([self.values, errors, row_products(self.weights, apart * apart)])
        value, error, variance = (rows * counts).sum(axis=1).tolist()
        return Cumulants(value, error, math.fsum((counts * self.mean).tolist()), variance)


def _rounded_up(c: float) -> float:
    """The least number of three significant bits that is at least c: neighbouring tilts share a grid."""
    mantissa, exponent = math.frexp(c)
    return math.ldexp(math.ceil(mantissa * 8), exponent - 3)


def kept_grid(pair: Pairs, c: float) -> Grid:
    """A grid of one pair at frequency 0 for tilts up to c, kept for the next call unless it is large."""
    sigma, cut = float(pair.sigma[0, 0]), pair.cut
    if cut:
        return _kept_cut_grid(pair, cut.tilt if c <= cut.tilt else _rounded_up(max(c, SHARED * sigma)))
    if c >= 1000 * sigma:
        return make_grid(pair, c, 0.0)
    return _kept_grid(pair, _rounded_up(max(c, SHARED * sigma)))


@functools.lru_cache(maxsize=1024)
def _kept_grid(pair: Pairs, c_top: float) -> Grid:
    return make_grid(pair, c_top, 0.0)


@functools.lru_cache(maxsize=32)
def _kept_cut_grid(pair: Pairs, c_top: float) -> Grid:
    return make_grid(pair, c_top, 0.0)


def make_grid(
    pairs: Pairs, c_top: float, t_top: float, steps: Array | None = None, within: tuple[Array, Array] | None = None
) -> Grid:
    """The grid of the trapezoid rule for tilts up to c_top and frequencies up to t_top; `steps`: known to be short
    enough; `within`: where nearly all of it is known to be. All rows have as many points: where others need more, a
    step is shorter.

    Raises WorkLimit where it needs more than MOST_POINTS points (MOST_CUT_POINTS while a cut is being placed), or more
    than MOST_IN_AN_ARRAY in all.
    """
    sigma, cut = pairs.sigma, pairs.cut
    if steps is None:
        w = power(pairs, c_top)
        given = sigma if sigma.size > 1 else float(sigma[0, 0])  # of one pair numbers are faster
        width = cut.width if cut else math.inf
        steps = quadrature_step(given, w, t_top, DIGITS, cut_width=width).reshape(sigma.shape)
    low, high = within or _range(pairs, c_top)
    most = MOST_CUT_POINTS if cut and c_top > cut.tilt and t_top == 0 else MOST_POINTS
    needed = float(((high - low) / steps).max())
    if not needed < min(most, MOST_IN_AN_ARRAY / sigma.size):
        raise WorkLimit(f"the quadrature of {sigma.size} sampled Gaussians needs more than {most} points")
    cells = math.ceil(needed)
    if sigma.size > 1:
        steps = np.minimum(steps, short_step((high - low) / cells))
    x = (np.floor(low / steps) + np.arange(cells + 3)) * steps
    curve = pairs.curve(x)
    squares = x * x / (2 * scalars.square(sigma))
    from_one = 0.0
    if cut:
        squares -= cut.log_kept(x)
    elif float(squares[:, :: cells + 2].max()) <= LARGEST_SQUARE:
        from_one = STEEPEST / float(np.abs(curve.values[:, :: cells + 2]).max())
    return Grid(pairs, steps, x, curve, squares, from_one)


def fine_grid(base: TiltedPairs, t_top: float) -> Grid:
    """The grid for one tilt and frequencies up to t_top. Behind a cut, where the loss is still flat, it is coarser."""
    grid, pairs, c = base.grid, base.grid.pairs, base.c
    cut = pairs.cut
    if cut is None:
        return make_grid(pairs, c, t_top)
    sigma, w = float(pairs.sigma[0, 0]), c + 1
    slopes, log_beyond = _shares_behind(base, sigma, w, cut)
    step = step_of_few(sigma, cut.width, t_top, DIGITS, slopes, log_beyond)
    general = quadrature_step(pairs.sigma, w, t_top, DIGITS, cut_width=cut.width)
    kept = grid.x[base.weights > SEEN]
    low, high = kept[0] - grid.steps, kept[-1] + grid.steps
    stiff = scalars.square(sigma / cut.width)  # where the terms surely fall, to the left and to the right:
    left = cut.start * stiff / (1 + stiff) - cut.width if cut.start > -math.inf else -0.2 * sigma
    right = (w + stiff * cut.point) / (1 + stiff) + cut.width
    return make_grid(pairs, c, t_top, np.maximum(step, general), (np.minimum(low, left), np.maximum(high, right)))


def _shares_behind(base: TiltedPairs, sigma: float, w: float, cut: Cut) -> tuple[Array, Array]:
    """s at a few points behind a cut, and upper bounds of the log of the share of I(w) that lies beyond each: from
    cells up to where the terms surely fall.

    Source: docs/proofs/engine.md, section 10 (flat losses).
    """
    variance = scalars.square(sigma)
    surely = max(0.0, (w - cut.point) * scalars.square(cut.width) / variance)
    x = cut.point + np.linspace(0.0, max(surely + 2 * cut.width, 16 * cut.width), CELLS_BEHIND + 1)
    curve, kept = base.grid.pairs.curve(x[None]), cut.log_kept(x)
    values, slopes = curve.values[0], curve.slopes[0]
    log_normal = (
        -scalars.square(np.maximum(x, 0.0)) / (2 * variance) - scalars.log(sigma * math.sqrt(2 * math.pi)) + kept
    )
    cells = w * values[1:] + log_normal[:-1] + scalars.log(x[1] - x[0])
    fall = (float(x[-1]) - w) / variance + cut.hazard(float(x[-1]))
    last = w * float(values[-1]) + float(log_normal[-1]) - scalars.log(fall) if fall > 0 else math.inf
    log_beyond = elementary.running_log_of_sum(np.append(cells, last)[::-1])[::-1] - (base.values - base.errors) + 1e-6
    return slopes[_BEHIND] * (1 + 1e-9), log_beyond[_BEHIND]


def _range(pairs: Pairs, c: float) -> tuple[Array, Array]:
    """Where the tilted weights are, for every tilt up to c: from the mode of the tilted density outward."""
    reach, cut = pairs.sigma * REACH, pairs.cut
    if pairs.direction == "add":  # the mode is at -c s(mode), s rising
        low, high = -c * pairs.slope(np.zeros_like(reach)), np.zeros_like(reach)
        while float(((high - low) / reach).max()) > CLOSE:
            middle = (low + high) / 2
            behind = -c * pairs.slope(middle) > middle
            low, high = np.where(behind, middle, low), np.where(behind, high, middle)
        return low - reach, reach
    high = c + 1 + reach
    if cut is None:
        return -reach, high
    variance = scalars.square(pairs.sigma)
    kept = cut.point + (1.3 * (c + 1) * cut.width / variance + REACH) * cut.width
    if cut.start == -math.inf:
        return -reach, np.minimum(high, kept)
    first = cut.start - (REACH + max(0.0, cut.start) * cut.width / variance) * cut.width  # before, a window is nothing
    return np.maximum(-reach, first), np.where(cut.start < high, np.minimum(high, kept), kept)


def _weighted(grid: Grid, c: Array) -> Weighted:
    w = power(grid.pairs, c[..., None])
    exponents = w[..., None] * grid.curve.values - grid.squares
    top = exponents.max(axis=-1)
    weights = elementary.exp(exponents - top[..., None])
    weights[weights < FLUSHED] = 0.0
    total = weights.sum(axis=-1)
    weights /= total[..., None]
    before, after = geometric_tails(grid, w)
    tails = (weights[..., 0] + UNDERFLOW) * before + (weights[..., -1] + UNDERFLOW) * after
    moved = np.abs(w) * row_products(weights, grid.slack)
    rounding = (moved + 8 * UNIT * (row_products(weights, grid.squares) + np.abs(top) + 4)) * (1 + 1e-6)
    return Weighted(grid, c, top, total, weights, tails, rounding + UNIT * (grid.x.shape[1] + 20) + tails)


def weighted(grid: Grid, c: float) -> Weighted:
    """The rule's weights for e^{cL} under P; WorkLimit where a range does not hold them."""
    found = _weighted(grid, np.array(c))
    if not float(found.defect.max()) < 0.01:
        raise WorkLimit(UNRESOLVED)
    return found


def tilted(grid: Grid, c: float) -> TiltedPairs:
    """The pairs tilted at c; WorkLimit where the rule does not resolve one."""
    if c > grid.from_one:
        found = weighted(grid, c)
        return TiltedPairs(grid, c, found.weights, *found.moments())
    growth = elementary.expm1(c * grid.losses)
    values, errors = _from_one(grid, np.array(c), growth)
    if not float(errors.max()) < math.inf:
        raise WorkLimit(UNRESOLVED)
    weights = grid.masses * growth + grid.masses
    return TiltedPairs(grid, c, weights / weights.sum(axis=1, keepdims=True), values, errors)


def log_moments(grid: Grid, c: Array) -> Array:
    """Upper bounds of K at several c, a row of all pairs for each; infinite where there is none.

    Claim: each is at least K(c). Source: docs/proofs/engine.md, sections 4 and 6."""
    size = max(1, BLOCK // grid.x.size)
    return np.concatenate([_log_moments(grid, c[start : start + size]) for start in range(0, c.size, size)])


def _log_moments(grid: Grid, c: Array) -> Array:
    if float(c.max()) > grid.from_one:
        values, errors = _weighted(grid, c).moments()
    else:
        values, errors = _from_one(grid, c, elementary.expm1(c[:, None, None] * grid.losses))
    return values + errors


def _from_one(grid: Grid, c: Array, growth: Array) -> tuple[Array, Array]:
    """K(c) = log1p(E_P(e^{cL} - 1)) from `growth` e^{cL} - 1, and bounds of the error; infinite where there is none.
    Source: docs/proofs/engine.md, section 6."""
    tilts, (shifts, shift) = c[..., None], grid.shifts
    excess = row_products(growth, grid.masses)
    rounding = row_products(np.abs(growth), grid.doubts) + tilts * (row_products(growth, shifts) + shift)
    before, after = geometric_tails(grid, power(grid.pairs, tilts))
    first, last = ((2 + growth[..., end]) * grid.masses[:, end] + UNDERFLOW for end in (0, -1))
    relative = 2 * ALIAS + (rounding + first * before + last * after) / (1 + excess)
    values = elementary.log1p(excess)
    return values, np.where(relative < 0.1, 1.1 * relative + 8 * UNIT * np.abs(values), math.inf)


def geometric_tails(grid: Grid, w: Array) -> tuple[float, float]:
    """What lies beyond the first and the last points of any row, in terms of the weights there; infinite where that is
    not seen to fall. For every power between 0 and w (above 0, where w is: from 1 on, too).

    Claim: at least the sum of the terms left out, of each row. Source: docs/proofs/engine.md, section 4.
    """
    fall, pull, still = grid.falls
    moved = _rest(fall - np.abs(w) * pull)
    return (moved, still) if grid.pairs.direction == "add" else (still, moved)


def _rest(falls: Array) -> float:
    """At least the sums of series whose terms fall by e^-fall each, 1/(1 - e^-fall) <= 1 + 1/fall, over the first."""
    least = float(falls.min())
    return (1 + 1e-6) * (1 + 1 / least) if least > 0 else math.inf
