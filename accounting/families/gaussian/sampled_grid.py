"""The trapezoid rule for a sampled Gaussian: points, tilted weights, K(c) and what all of them may err by.

M(c) = E_P e^{cL} is summed in one of two ways. From 1, where nothing overflows: M - 1 = E_P(e^{cL} - 1), whose
rounding is in proportion to E_P|e^{cL} - 1|, so that K = log1p(M - 1) keeps its digits for a small rate run 10^10
times. From the largest term, where e^{cL} might overflow, and for cut measures. docs/proofs/engine.md, sections 4, 6.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Protocol

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
    step_of_few,
)
from dpledger.errors import WorkLimit

__all__ = [
    "LARGEST_SQUARE",
    "STEEPEST",
    "UNDERFLOW",
    "Grid",
    "Pair",
    "Weighted",
    "cumulants",
    "fine_grid",
    "geometric_tails",
    "grid_up_to",
    "log_moments",
    "make_grid",
    "rough_cumulants",
    "weighted",
]

MOST_CUT_POINTS = 1 << 13  # at frequency 0 with a cut, whose factor costs a call a point
REACH = math.sqrt(2 * (DIGITS + 12))  # deviations beyond which a normal density is nothing
SHARED = 18.0  # times sigma: tilts up to there share a grid
STEEPEST = 500.0  # the largest c |L| for which e^{cL} is summed from 1
LARGEST_SQUARE = 650.0  # and the largest x^2 / 2 sigma^2
CELLS_BEHIND = 192
_BEHIND = np.unique(elementary.geometric(1, CELLS_BEHIND, 13).astype(np.intp))
SEEN = 1e-27  # a share of all weights: points of less are left to the tails, with a cut
FLUSHED = 1e-250  # a term below this share of the largest is none: its products would be slow, below the normal floats
UNDERFLOW = 1e-300  # more than what underflows


class Pair(Protocol):
    """N(0, sigma^2) and a mixture of such noise around places from 0 to 1, the last of them 1, as far as the rule needs
    it."""

    @property
    def sigma(self) -> float: ...
    @property
    def direction(self) -> Direction: ...
    @property
    def cut(self) -> Cut | None: ...
    def power(self, c: float) -> float:
        """w, the power of the density ratio that e^{c loss} is under N(0, sigma^2)."""
        ...

    def curve(self, x: Array) -> Curve:
        """L at exact points that rise."""
        ...

    def slope(self, x: float) -> float:
        """About s(x) = sigma^2 L'(x), in [0, 1]."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Grid:
    """Points x and all that depends on x alone; good for every tilt in (0, c_top] and frequency up to t_top.

    `curve`: L(x). `squares`: x^2 / 2 sigma^2 - log chi(x). `from_one`: up to which c M may be summed from 1; 0: none.
    """

    pair: Pair
    step: float
    x: Array
    curve: Curve
    squares: Array
    from_one: float

    @functools.cached_property
    def losses(self) -> Array:
        """Of this direction: +-L(x)."""
        return self.curve.values if self.pair.direction == "remove" else -self.curve.values

    @functools.cached_property
    def scale(self) -> float:
        """The step times the largest value of the normal density."""
        return self.step / (self.pair.sigma * math.sqrt(2 * math.pi))

    @functools.cached_property
    def slack(self) -> Array:
        """Bounds of the error of w L(x), over |w|."""
        bounds: Array = self.curve.errors + (8 * UNIT) * np.abs(self.curve.values)
        return bounds

    @functools.cached_property
    def masses(self) -> Array:
        """The terms of the rule for P itself."""
        exponents = self.curve.values - self.squares if self.pair.direction == "remove" else -self.squares
        terms: Array = elementary.exp(exponents) * self.scale
        return terms

    @functools.cached_property
    def doubts(self) -> Array:
        """Bounds of the errors of the masses, and of those of a sum of them."""
        relative = _relative(self.slack, self.squares, self.pair.power(0.0), 0.0)
        bounds: Array = self.masses * (relative + (self.x.size + 40) * UNIT)
        return bounds

    @functools.cached_property
    def powers(self) -> tuple[Array, Array]:
        """The masses times 1, L and L^2, as rows, and their sums."""
        first = self.masses * self.losses
        rows = np.array([self.masses, first, first * self.losses])
        return rows, rows.sum(axis=1)

    @functools.cached_property
    def shifts(self) -> tuple[Array, float]:
        """The masses times `slack`, and their sum."""
        products = self.masses * self.slack
        return products, float(products.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """The normalised tilted weights on a grid, of sum `total` times e^`top` before; of that sum, relative, what lies
    beyond the ends (`tails`) and what all of it may err by (`defect`)."""

    grid: Grid
    c: float
    power: float
    top: float
    total: float
    weights: Array
    tails: float
    defect: float

    def relative_errors(self) -> Array:
        """Bounds of the relative error of each weight before it is normalised."""
        return _relative(self.grid.slack, self.grid.squares, self.power, self.top)


def _relative(slack: Array, squares: Array, power: float, top: float) -> Array:
    bounds: Array = abs(power) * slack + (8 * UNIT) * (squares + (abs(top) + 4))
    return bounds


def _rounded_up(c: float) -> float:
    """The least number of three significant bits that is at least c: neighbouring tilts share a grid."""
    mantissa, exponent = math.frexp(c)
    return math.ldexp(math.ceil(mantissa * 8), exponent - 3)


def grid_up_to(pair: Pair, c: float) -> Grid:
    """A grid at frequency 0 for tilts up to c, kept for the next call unless it is large."""
    if pair.cut:
        return _kept_cut_grid(pair, pair.cut.tilt if c <= pair.cut.tilt else _rounded_up(max(c, SHARED * pair.sigma)))
    if c >= 1000 * pair.sigma:
        return make_grid(pair, c, 0.0)
    return _kept_grid(pair, _rounded_up(max(c, SHARED * pair.sigma)))


@functools.lru_cache(maxsize=1024)
def _kept_grid(pair: Pair, c_top: float) -> Grid:
    return make_grid(pair, c_top, 0.0)


@functools.lru_cache(maxsize=32)
def _kept_cut_grid(pair: Pair, c_top: float) -> Grid:
    return make_grid(pair, c_top, 0.0)


def make_grid(
    pair: Pair, c_top: float, t_top: float, step: float | None = None, within: tuple[float, float] | None = None
) -> Grid:
    """The grid of the trapezoid rule for tilts up to c_top and frequencies up to t_top; `step`: known to be short
    enough; `within`: where nearly all of it is known to be.

    Raises WorkLimit where it needs more than MOST_POINTS points (MOST_CUT_POINTS while a cut is being placed).
    """
    sigma, cut = pair.sigma, pair.cut
    if step is None:
        step = quadrature_step(sigma, pair.power(c_top), t_top, DIGITS, cut_width=cut.width if cut else math.inf)
    low, high = within or _range(pair, c_top)
    most = MOST_CUT_POINTS if cut and c_top > cut.tilt and t_top == 0 else MOST_POINTS
    if not (high - low) / step < most:
        raise WorkLimit(f"the quadrature of a sampled Gaussian needs more than {most} points")
    x = np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64) * step
    curve = pair.curve(x)
    squares = x * x / (2 * scalars.square(sigma))
    largest = max(abs(float(curve.values[0])), abs(float(curve.values[-1])))
    from_one = STEEPEST / largest if not cut and max(squares[0], squares[-1]) <= LARGEST_SQUARE else 0.0
    if cut:
        squares -= cut.log_kept(x)
    return Grid(pair, step, x, curve, squares, from_one)


def fine_grid(base: Weighted, at: Cumulants, t_top: float) -> Grid:
    """The grid for one tilt and frequencies up to t_top. Behind a cut, where the loss is still flat, it is coarser."""
    pair, cut = base.grid.pair, base.grid.pair.cut
    if cut is None:
        return make_grid(pair, base.c, t_top)
    slopes, log_beyond = _shares_behind(base, at, cut)
    step = step_of_few(pair.sigma, cut.width, t_top, DIGITS, slopes, log_beyond)
    general = quadrature_step(pair.sigma, base.power, t_top, DIGITS, cut_width=cut.width)
    kept = base.grid.x[np.flatnonzero(base.weights > SEEN)]
    low, high = float(kept[0]) - base.grid.step, float(kept[-1]) + base.grid.step
    stiff = scalars.square(pair.sigma / cut.width)  # where the terms surely fall, to the left and to the right:
    left = cut.start * stiff / (1 + stiff) - cut.width if cut.start > -math.inf else -0.2 * pair.sigma
    right = (base.power + stiff * cut.point) / (1 + stiff) + cut.width
    return make_grid(pair, base.c, t_top, max(step, general), (min(low, left), max(high, right)))


def _shares_behind(base: Weighted, at: Cumulants, cut: Cut) -> tuple[Array, Array]:
    """s at a few points behind a cut, and upper bounds of the log of the share of I(w) that lies beyond each: from
    cells up to where the terms surely fall.

    Source: docs/proofs/engine.md, section 10 (flat losses).
    """
    pair, variance = base.grid.pair, scalars.square(base.grid.pair.sigma)
    surely = max(0.0, (base.power - cut.point) * scalars.square(cut.width) / variance)
    x = cut.point + np.linspace(0.0, max(surely + 2 * cut.width, 16 * cut.width), CELLS_BEHIND + 1)
    curve, kept = pair.curve(x), cut.log_kept(x)
    log_normal = (
        -scalars.square(np.maximum(x, 0.0)) / (2 * variance) - scalars.log(pair.sigma * math.sqrt(2 * math.pi)) + kept
    )
    cells = base.power * curve.values[1:] + log_normal[:-1] + scalars.log(x[1] - x[0])
    fall = (float(x[-1]) - base.power) / variance + cut.hazard(float(x[-1]))
    last = base.power * float(curve.values[-1]) + float(log_normal[-1]) - scalars.log(fall) if fall > 0 else math.inf
    log_beyond = elementary.running_log_of_sum(np.append(cells, last)[::-1])[::-1] - (at.value - at.error) + 1e-6
    return curve.slopes[_BEHIND] * (1 + 1e-9), log_beyond[_BEHIND]


def _range(pair: Pair, c: float) -> tuple[float, float]:
    """Where the tilted weights are, for every tilt up to c: from the mode of the tilted density outward."""
    reach = pair.sigma * REACH
    if pair.direction == "remove":
        high = c + 1 + reach
        if pair.cut:
            widths = 1.3 * (c + 1) * pair.cut.width / scalars.square(pair.sigma) + REACH
            kept = pair.cut.point + widths * pair.cut.width
            high = min(high, kept) if pair.cut.start < high else kept
        return max(-reach, _first(pair)), high
    low, high = -c * pair.slope(0.0), 0.0
    while high - low > 0.1 * pair.sigma:
        middle = (low + high) / 2
        low, high = (middle, high) if -c * pair.slope(middle) > middle else (low, middle)
    return low - reach, reach


def _first(pair: Pair) -> float:
    """Before which a window leaves nothing."""
    if pair.cut is None or pair.cut.start == -math.inf:
        return -math.inf
    start, width = pair.cut.start, pair.cut.width
    return start - (REACH + max(0.0, start) * width / scalars.square(pair.sigma)) * width


def weighted(grid: Grid, c: float) -> Weighted:
    """The rule's weights for e^{cL} under P; WorkLimit where the range does not hold them."""
    power = grid.pair.power(c)
    if c <= grid.from_one:
        top, weights = 0.0, grid.masses * elementary.exp(c * grid.losses)
    else:
        exponents = power * grid.curve.values - grid.squares
        top = float(exponents.max())
        weights = elementary.exp(exponents - top)
        weights[weights < FLUSHED] = 0.0
    total = float(weights.sum())
    weights /= total
    before, after = geometric_tails(grid, power)
    tails = (float(weights[0]) + UNDERFLOW) * before + (float(weights[-1]) + UNDERFLOW) * after
    moved = abs(power) * float(elementary.product(weights, grid.slack))
    rounding = (moved + 8 * UNIT * (float(elementary.product(weights, grid.squares)) + abs(top) + 4)) * (1 + 1e-6)
    defect = rounding + UNIT * (grid.x.size + 20) + tails
    if not defect < 0.01:
        raise WorkLimit("the quadrature of a sampled Gaussian does not resolve its integrand")
    return Weighted(grid, c, power, top, total, weights, tails, defect)


def rough_cumulants(grid: Grid, c: float) -> Cumulants:
    """K, K' and K'' for a search: nothing is claimed of their errors."""
    if c > grid.from_one:
        return cumulants(weighted(grid, c))
    rows, sums = grid.powers
    grown, first, second = (elementary.product(rows, elementary.expm1(c * grid.losses))).tolist()
    total = 1 + grown
    mean = (float(sums[1]) + first) / total
    return Cumulants(scalars.log1p(grown), math.inf, mean, max((float(sums[2]) + second) / total - mean * mean, 0.0))


def cumulants(tilted: Weighted) -> Cumulants:
    """K and its error, K' and K''."""
    grid, c, top = tilted.grid, tilted.c, tilted.top
    mean = float(elementary.product(tilted.weights, grid.losses))
    apart = grid.losses - mean
    variance = float(elementary.product(tilted.weights, apart * apart))
    if c <= grid.from_one:
        value, error = map(float, _from_one(grid, c, c))
    else:
        value = top + scalars.log(tilted.total * grid.scale)
        error = -scalars.log1p(-ALIAS - tilted.defect) + 8 * UNIT * (abs(value) + abs(top) + 2)
    return Cumulants(value, error, mean, variance)


def log_moments(grid: Grid, c: Array) -> Array:
    """Upper bounds of K at several c."""
    largest = float(np.max(c))
    if largest <= grid.from_one:
        values, errors = _from_one(grid, c, largest)
        return values + errors
    w = c + 1 if grid.pair.direction == "remove" else -c
    exponents = np.multiply.outer(w, grid.curve.values) - grid.squares
    top = np.max(exponents, axis=1)
    weights = elementary.exp(exponents - top[:, None])
    total = np.sum(weights, axis=1)
    each = np.abs(w) * (elementary.product(weights, grid.slack)) + (8 * UNIT) * (
        elementary.product(weights, grid.squares)
    )
    rounding = each / total * (1 + 1e-6) + UNIT * (grid.x.size + 52 + 8 * np.abs(top))
    before, after = geometric_tails(grid, grid.pair.power(largest))
    first, last = weights[:, 0] / total + UNDERFLOW, weights[:, -1] / total + UNDERFLOW
    missing = ALIAS + rounding + first * before + last * after
    values = top + elementary.log(total * grid.scale)
    rest = 1.1 * missing + 8 * UNIT * (np.abs(values) + np.abs(top) + 2)
    return np.where(missing < 0.1, values + rest, math.inf)


def _from_one(grid: Grid, c: float | Array, largest: float) -> tuple[Array, Array]:
    """K(c) = log1p(E_P(e^{cL} - 1)), and bounds of the error; `largest`: of the c. Source: docs/proofs/engine.md,
    section 6."""
    growth = elementary.expm1(np.multiply.outer(c, grid.losses))
    excess, (shifts, shift) = elementary.product(growth, grid.masses), grid.shifts
    rounding = elementary.product(np.abs(growth), grid.doubts) + c * (elementary.product(growth, shifts) + shift)
    before, after = geometric_tails(grid, grid.pair.power(largest))
    first, last = float(grid.masses[0]), float(grid.masses[-1])
    missing = ((2 + growth[..., 0]) * first + UNDERFLOW) * before + ((2 + growth[..., -1]) * last + UNDERFLOW) * after
    relative = 2 * ALIAS + (rounding + missing) / (1 + excess)
    values = elementary.log1p(excess)
    return values, np.where(relative < 0.1, 1.1 * relative + 8 * UNIT * np.abs(values), math.inf)


def geometric_tails(grid: Grid, power: float) -> tuple[float, float]:
    """What lies beyond the first and the last point, in terms of the weight there; infinite where that is not seen to
    fall. For every power between 0 and this one (above 0, where this one is: from 1 on, too).

    Claim: at least the sum of the terms left out. Source: docs/proofs/engine.md, section 4.
    """
    pair, scale, rise = grid.pair, grid.step / scalars.square(grid.pair.sigma), 1.0
    right = float(grid.x[-1]) - max(power, 0.0)
    left = -float(grid.x[0]) + (power * float(grid.curve.slopes[0]) if power < 0 else 0.0)
    if pair.cut:  # beyond the end chi falls further; before the start it rises, to 1 at most
        right += scalars.square(pair.sigma) * pair.cut.hazard(float(grid.x[-1]))
        first = float(grid.x[0])
        left += scalars.square(pair.sigma) * pair.cut.rise(first)
        rise = scalars.exp(pair.cut.log_growth(first))
    if not (right > 0 and left > 0):
        return math.inf, math.inf
    return rise * (1 + 1e-6) / -scalars.expm1(-scale * left), (1 + 1e-6) / -scalars.expm1(-scale * right)
