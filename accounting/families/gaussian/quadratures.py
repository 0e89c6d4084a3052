"""Quadratures of many sampled Gaussians side by side: one row of an array for each.

The same rule, the same strip and the same error terms as for one, row by row: docs/proofs/engine.md, sections 3, 4 and
6. Only the order of the work differs. Phases are formed by multiplication: a term at node k = b B + r, |r| <= B/2, is a
product of at most k + B phases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, ComplexArray
from dpledger.accounting.families.gaussian.layer_rows import LayerRows, layer_rows_below
from dpledger.accounting.families.gaussian.sampled_grid import LARGEST_SQUARE, STEEPEST, UNDERFLOW
from dpledger.accounting.laws.sampled_curve import ALIAS, DIGITS
from dpledger.errors import WorkLimit

__all__ = [
    "MOST_IN_AN_ARRAY",
    "Grids",
    "Laws",
    "Tilts",
    "bounds_of_moments",
    "curves",
    "grids_for",
    "layers_of",
    "node_sums",
    "tilted_on",
]

MOST_IN_AN_ARRAY = 1 << 23  # of one array
CELLS = 160  # of the layers of one law
BLOCK = 1 << 17  # numbers of a table of phases: it stays in the cache
_FRACTIONS = elementary.geometric(1e-6, 0.97, 40)  # as in laws.sampled_curve


@dataclass(frozen=True, slots=True, eq=False)
class Laws:
    """Sampled Gaussians of one direction: rates and sigmas, as columns; `sign`: 1 for remove, -1 for add."""

    rate: Array
    sigma: Array
    sign: float

    def power(self, c: float) -> float:
        """w, the power of the density ratio that e^{c loss} is under N(0, sigma^2)."""
        return c + 1 if self.sign > 0 else -c


@dataclass(frozen=True, slots=True, eq=False)
class Grids:
    """Row by row: points `x`; `losses`, of this direction; bounds of their `errors`, and of those of w L(x) over |w|,
    `slack`; `squares`: x^2 / 2 sigma^2. `masses`: those of P; `doubts`: bounds of their errors and of those of a sum of
    them; `shifts`: masses times slack. `from_one`: up to which c M may be summed from 1. `scale`: step / (sigma
    sqrt(2 pi)); `ratios`: step / sigma^2; `first_slopes`: s at the first points."""

    laws: Laws
    x: Array
    losses: Array
    errors: Array
    slack: Array
    squares: Array
    masses: Array
    doubts: Array
    shifts: Array
    from_one: float
    scale: Array
    ratios: Array
    first_slopes: Array


@dataclass(frozen=True, slots=True, eq=False)
class Tilts:
    """Row by row: normalised weights, their defect, K and its error, mean, variance."""

    grids: Grids
    weights: Array
    defect: Array
    value: Array
    error: Array
    mean: Array
    variance: Array


def grids_for(laws: Laws, c_top: float, t_top: float) -> Grids:
    """Grids for tilts up to c_top and frequencies up to t_top. Raises WorkLimit where they are too large."""
    rate, sigma = laws.rate, laws.sigma
    steps = _steps(laws, c_top, t_top)
    reach = sigma * math.sqrt(2 * (DIGITS + 12))
    low, high = (-reach, c_top + 1 + reach) if laws.sign > 0 else (-c_top * _slope(laws, 0.0) - reach, reach)
    most = float(np.max((high - low) / steps)) + 4
    if not most * rate.size < MOST_IN_AN_ARRAY:
        raise WorkLimit(f"{rate.size} quadratures of sampled Gaussians need more than {MOST_IN_AN_ARRAY} points")
    size = math.ceil(most)
    steps = _short(np.minimum(steps, (high - low) / (size - 3)))  # finer, where others need more points
    x = (np.floor(low / steps) + np.arange(size)) * steps
    values, errors = curves(rate, (x - 0.5) / scalars.square(sigma))
    slack = errors + (8 * UNIT) * np.abs(values)
    squares = x * x / (2 * scalars.square(sigma))
    largest, faintest = (float(np.max(np.abs(ends[:, [0, -1]]))) for ends in (values, squares))
    scale = steps[:, 0] / (sigma[:, 0] * math.sqrt(2 * math.pi))
    masses = elementary.exp(values - squares if laws.sign > 0 else -squares) * scale[:, None]
    relative = abs(laws.power(0.0)) * slack + (8 * UNIT) * (squares + 4) + (size + 40) * UNIT
    return Grids(
        laws=laws,
        x=x,
        losses=laws.sign * values,
        errors=errors,
        slack=slack,
        squares=squares,
        masses=masses,
        doubts=masses * relative,
        shifts=masses * slack,
        from_one=STEEPEST / largest if faintest <= LARGEST_SQUARE else 0.0,
        scale=scale,
        ratios=steps[:, 0] / scalars.square(sigma[:, 0]),
        first_slopes=_slope(laws, x[:, :1])[:, 0] * (1 + 1e-9),
    )


def _steps(laws: Laws, c_top: float, t_top: float) -> Array:
    """`quadrature_step` of each law."""
    sigma = laws.sigma
    heights = _FRACTIONS * (math.pi * scalars.square(sigma))
    exponents = heights * (heights / (2 * scalars.square(sigma)) + t_top / scalars.square(sigma)) + (
        scalars.log(2) + DIGITS
    )
    power = laws.power(c_top)
    if power < 0:
        exponents += power * elementary.log(elementary.cos(heights / (2 * scalars.square(sigma))))
    widest: Array = np.max(2 * math.pi * heights / exponents, axis=1, keepdims=True)
    return _short(np.minimum(widest, 0.7 * sigma))


def _short(steps: Array) -> Array:
    """Rounded down to 20 significant bits: their multiples up to 2^33 are exact."""
    mantissas, powers = np.frexp(steps)
    short: Array = np.ldexp(np.floor(np.ldexp(mantissas, 20)), powers - 20)
    return short


def tilted_on(grids: Grids, c: float) -> Tilts:
    """The laws tilted at c; WorkLimit where a grid does not hold one's weights."""
    w, losses = grids.laws.power(c), grids.losses
    whole = c <= grids.from_one
    if whole:
        growth = elementary.expm1(c * losses)
        weights, top = grids.masses * growth + grids.masses, np.zeros(1)
    else:
        weights, top = _from_top(grids, w)
    total = _sums(weights)
    weights /= total[:, None]
    moved = abs(w) * _dots(weights, grids.slack) + 8 * UNIT * (_dots(weights, grids.squares) + np.abs(top) + 4)
    defect = moved * (1 + 1e-6) + UNIT * (grids.x.shape[1] + 20) + _beyond(grids, w, weights[:, 0], weights[:, -1])
    if not np.all(defect < 0.01):
        raise WorkLimit("the quadrature of a sampled Gaussian does not resolve its integrand")
    if whole:
        value, error = _from_one(grids, c, growth)
    else:
        value = top + elementary.log(total * grids.scale)
        error = -elementary.log1p(-ALIAS - defect) + 8 * UNIT * (np.abs(value) + np.abs(top) + 2)
    mean = _dots(weights, losses)
    apart = losses - mean[:, None]
    apart *= apart
    return Tilts(grids, weights, defect, value, error, mean, _dots(weights, apart))


def bounds_of_moments(grids: Grids, c: float) -> Array:
    """Upper bounds of K(c), row by row; infinite where there is none.

    Claim: each is at least K(c). Source: docs/proofs/engine.md, sections 4 and 6."""
    if c <= grids.from_one:
        value, error = _from_one(grids, c, elementary.expm1(c * grids.losses))
        return value + error
    w = grids.laws.power(c)
    weights, top = _from_top(grids, w)
    total = _sums(weights)
    moved = abs(w) * _dots(weights, grids.slack) + 8 * UNIT * _dots(weights, grids.squares)
    rounding = moved / total * (1 + 1e-6) + UNIT * (grids.x.shape[1] + 52 + 8 * np.abs(top))
    missing = ALIAS + rounding + _beyond(grids, w, weights[:, 0] / total, weights[:, -1] / total)
    value = top + elementary.log(total * grids.scale)
    rest = 1.1 * missing + 8 * UNIT * (np.abs(value) + np.abs(top) + 2)
    return np.where(missing < 0.1, value + rest, math.inf)


def _from_top(grids: Grids, w: float) -> tuple[Array, Array]:
    """The weights of e^{wL} N(0, sigma^2) in units of the largest, and the logarithm of that."""
    weights = (w * grids.laws.sign) * grids.losses
    weights -= grids.squares
    top: Array = weights.max(axis=1)
    weights -= top[:, None]
    return elementary.exp(weights), top


def _from_one(grids: Grids, c: float, growth: Array) -> tuple[Array, Array]:
    """K(c) = log1p(E_P(e^{cL} - 1)) from `growth` e^{cL} - 1, and bounds of the error."""
    excess = _dots(growth, grids.masses)
    first, last = ((2 + growth[:, end]) * grids.masses[:, end] for end in (0, -1))
    missing = _beyond(grids, grids.laws.power(c), first, last)
    rounding = _dots(np.abs(growth), grids.doubts) + c * (_dots(growth, grids.shifts) + _sums(grids.shifts))
    relative = 2 * ALIAS + (rounding * (1 + 1e-6) + missing) / (1 + excess)
    value = elementary.log1p(excess)
    return value, np.where(relative < 0.1, 1.1 * relative + 8 * UNIT * np.abs(value), math.inf)


def _dots(left: Array, right: Array) -> Array:
    """The inner products of rows."""
    products: Array = np.einsum("ij,ij->i", left, right)
    return products


def _sums(rows: Array) -> Array:
    sums: Array = rows.sum(axis=1)
    return sums


def _beyond(grids: Grids, w: float, first: Array, last: Array) -> Array:
    """What lies beyond the first and the last points, in terms of the weights there; for every power between 0 and w.

    Claim: at least the sum of the terms left out, row by row. Source: docs/proofs/engine.md, section 4."""
    right = grids.x[:, -1] - max(w, 0.0)
    left = -grids.x[:, 0] + min(w, 0.0) * grids.first_slopes
    if not (np.all(right > 0) and np.all(left > 0)):
        raise WorkLimit("the tails of a sampled Gaussian's quadrature are not seen to fall")
    after = (last + UNDERFLOW) / -elementary.expm1(-grids.ratios * right)
    before = (first + UNDERFLOW) / -elementary.expm1(-grids.ratios * left)
    bounds: Array = (after + before) * (1 + 1e-6)
    return bounds


# ---- nodes and decay ------------------------------------------------------------------------------------------------


def node_sums(weights: Array, angles: Array, count: int) -> tuple[ComplexArray, int]:
    """sum_j weights[i, j] e^{i k angles[i, j]} for k below `count`, row by row; and B.

    With k = b B + r, |r| <= h, B = 2h + 1: for each b the sums for r and -r are those of cosines and of sines."""
    half = max(1, math.isqrt(count) // 2 + 1)
    block = 2 * half + 1
    blocks = -(-(count + half) // block)
    rows, points = weights.shape
    sums = np.empty((rows, blocks, block), dtype=np.complex128)
    size = max(1, BLOCK // (half * points))
    for start in range(0, rows, size):
        part = slice(start, start + size)
        _fill_sums(sums[part], weights[part], angles[part], half)
    return sums.reshape(rows, -1)[:, half : half + count], block


def _fill_sums(sums: ComplexArray, weights: Array, angles: Array, half: int) -> None:
    blocks = sums.shape[1]
    sines, cosines = elementary.circle(angles)
    turn = cosines + 1j * sines
    table = np.empty((half, *angles.shape), dtype=np.complex128)
    table[0] = turn
    for r in range(1, half):
        table[r] = elementary.times(table[r - 1], turn)
    jump = elementary.times(elementary.times(table[-1], table[-1]), turn)
    starts = np.empty((blocks, *angles.shape), dtype=np.complex128)
    starts[0] = weights
    for b in range(1, blocks):
        starts[b] = elementary.times(starts[b - 1], jump)
    lines = np.concatenate([starts.real, starts.imag]).transpose(1, 0, 2)
    cosines = elementary.product(lines, table.real.transpose(1, 2, 0))
    sines = elementary.product(lines, table.imag.transpose(1, 2, 0))
    sums[:, :, half] = lines.sum(axis=2)[:, :blocks] + 1j * lines.sum(axis=2)[:, blocks:]
    even = cosines[:, :blocks] + 1j * cosines[:, blocks:]
    odd = 1j * sines[:, :blocks] - sines[:, blocks:]
    sums[:, :, half + 1 :] = even + odd
    sums[:, :, half - 1 :: -1] = even - odd


def layers_of(tilts: Tilts, c: float, most: int) -> LayerRows:
    """Layers below the density of each loss tilted at c, of the first `most`: as `laws.subsampled`, row by row.

    Claim: their decay is proven. Source: docs/proofs/engine.md, section 3."""
    grids, x, w = tilts.grids, tilts.grids.x[:most], tilts.grids.laws.power(c)
    rate, sigma = grids.laws.rate[:most], grids.laws.sigma[:most]
    variance, half_step = scalars.square(sigma), (x[:, 1:2] - x[:, :1]) / 2
    kept = tilts.weights[:most] > 1e-8
    first = np.argmax(kept, axis=1)[:, None]
    last = kept.shape[1] - 1 - np.argmax(kept[:, ::-1], axis=1)[:, None]
    low = np.take_along_axis(x, first, axis=1) - half_step
    high = np.take_along_axis(x, last, axis=1) + half_step
    ends = low + (high - low) / (2 * CELLS) * np.arange(2 * CELLS + 1)
    loss, errors, gains = _curves_and_gains(rate, (ends - 0.5) / variance)
    edges, middles, slopes = ends[:, ::2], ends[:, 1::2], (gains + rate) / (gains + 1)
    log_constant = (tilts.value + tilts.error)[:most, None] + elementary.log(sigma * math.sqrt(2 * math.pi))
    powers, squares = w * loss[:, 1::2], scalars.square(middles) / (2 * variance)
    thinned = elementary.log(np.maximum(slopes[:, 1::2], 1e-300) / variance)
    rounding = 8 * UNIT * (np.abs(powers) + squares + np.abs(thinned) + np.abs(log_constant))
    log_density = powers - squares - log_constant - thinned - rounding - abs(w) * errors[:, 1::2]
    bends = (w + 1) * slopes[:, ::2]
    upward = np.abs(np.maximum(bends[:, :-1], bends[:, 1:]) - edges[:, :-1] - 1)
    downward = np.abs(np.minimum(bends[:, :-1], bends[:, 1:]) - edges[:, 1:] - 1)
    slack = np.maximum(upward, downward) / variance * np.diff(edges) / 2
    floor = elementary.exp(np.minimum(log_density - slack - 1e-9, 700.0))
    widths = np.diff(loss[:, ::2]) - errors[:, 2::2] - errors[:, :-2:2]
    usable = (widths > 0) & (slopes[:, 1::2] > 1e-300)
    return layer_rows_below(np.where(usable, floor, 0.0), np.where(usable, widths, 0.0))


def _slope(laws: Laws, x: Array | float) -> Array:
    """s(x) = sigma^2 L'(x), in (0, 1)."""
    odds = elementary.log(laws.rate) - elementary.log1p(-laws.rate) + (x - 0.5) / scalars.square(laws.sigma)
    slopes: Array = 1 / (1 + elementary.exp(np.minimum(-odds, 700.0)))
    return slopes


def curves(rate: Array, u: Array) -> tuple[Array, Array]:
    """log(1 - q + q e^u) with bounds of its error: `laws.sampled_curve.mixed_curve`, row by row."""
    values, errors, _ = _curves_and_gains(rate, u)
    return values, errors


def _curves_and_gains(rate: Array, u: Array) -> tuple[Array, Array, Array]:
    """`curves`, and q (e^u - 1), for u up to 600 or for 600."""
    gains = rate * elementary.expm1(np.minimum(u, 600.0))
    values = elementary.log1p(gains)
    errors = (4 * UNIT) * np.abs(values) + (8 * UNIT) * (np.abs(gains) + np.abs(u) * (gains + rate)) / (gains + 1)
    far = u > 600
    if far.any():
        logs = np.broadcast_to(elementary.log(rate), u.shape)
        values = np.where(far, u + logs, values)
        errors = np.where(far, UNIT * (8 * np.abs(values) + 8 * u + 8 * np.abs(logs)), errors)
    return values, errors, gains
