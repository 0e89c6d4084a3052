"""Many losses on one lattice, composed by one tilted FFT, with bounds of every error.

Masses p_k on a lattice are tilted, a_k = p_k e^{c l_k - K}; the transform of the composition is the product of theirs
to the powers of their counts, and times the lattice kernel

    g(z) = sum over r >= 1 of e^{-rhz} (1 - e^{-rh}) = 1/(e^{hz} - 1) - 1/(e^{h(z+1)} - 1)

it is the transform of e^{c eps} delta(eps) on all lattice points at once, added up over periods W = N h:
S(eps) = sum over j of delta(eps + jW) e^{cjW}. So S is above delta, and less its aliases below. The error of an FFT is
bounded in the Euclidean norm: Higham 2002, Theorem 24.2. docs/proofs/lattice.md, sections 4 and 5.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import SUBNORMAL, UNIT, Array, ComplexArray, by_squaring
from dpledger.accounting.engine.composed import log_kappa
from dpledger.accounting.engine.connect_the_dots import LatticeMeasure, Mesh
from dpledger.accounting.engine.covering import Indices
from dpledger.accounting.engine.saddle_point import ChernoffBounds
from dpledger.errors import WorkLimit

__all__ = ["Convolved", "Moments", "Product", "Transformed", "chernoff_bounds", "convolve", "transformed"]

_FFT = 16.0
"""Of ||error|| <= _FFT UNIT log2(N) ||x|| for a transform of length N = 2^k; Theorem 24.2 gives 6.7."""
_FLOOR = 1e-300
_STEEPEST = 100.0  # spacing times tilt: beyond, nothing is resolved
_USELESS = 300.0  # a logarithm: values that err by e^this say nothing


@dataclass(frozen=True, slots=True, eq=False)
class Convolved:
    """S at the lattice points (start + j width) unit, j any whole number, tilted by c: `values`, periodic in j, times
    e^{log_front - c eps}, within `error` of each value and a relative `front_error`.

    `infinite`: the mass at infinity, rounded up. `aliases`: Chernoff bounds of the profile, for lower bounds."""

    mesh: Mesh
    start: int
    c: float
    log_front: float
    values: Array
    error: float
    front_error: float
    infinite: float
    aliases: ChernoffBounds | None = None

    @property
    def window(self) -> float:
        return self.values.size * self.mesh.spacing

    def position(self, j: int) -> float:
        """The lattice point number j; rounded once."""
        return (self.start + j * self.mesh.width) * self.mesh.unit

    def positions(self, numbers: Indices) -> Array:
        """The lattice points of these numbers, below 2^52 units; each rounded once."""
        points: Array = (self.start + numbers * self.mesh.width).astype(np.float64) * self.mesh.unit
        return points

    def nearest(self, epsilon: float) -> int:
        """The number of the last lattice point at or below epsilon, about."""
        return (math.floor(epsilon / self.mesh.unit) - self.start) // self.mesh.width

    def _fronts(self, at: Array, side: float) -> Array:
        slack = self.front_error + 8 * UNIT * (abs(self.log_front) + self.c * np.abs(at) + 4)
        fronts: Array = elementary.exp(np.minimum(700.0, self.log_front - self.c * at + side * slack))
        return fronts

    def uppers(self, numbers: Indices) -> Array:
        """Claim: at least delta at the lattice points of these numbers. Source: docs/proofs/lattice.md, Lemma 5."""
        return self._above(numbers % self.values.size, self.positions(numbers))

    def _above(self, places: Indices, at: Array) -> Array:
        above = self._fronts(at, 1.0) * (self.values[places] + self.error)
        found: Array = self.infinite + np.nextafter(above * (1 + 8 * UNIT) + SUBNORMAL, math.inf)
        return found

    def lowers(self, numbers: Indices) -> Array:
        """Claim: at most delta at the lattice points of these numbers. Source: docs/proofs/lattice.md, Lemma 5."""
        return self._below(numbers % self.values.size, self.positions(numbers))

    def _below(self, places: Indices, at: Array) -> Array:
        values = self.values[places] - self.error
        below = self._fronts(at, -1.0) * np.maximum(values, 0.0)
        below = below * (1 - 8 * UNIT) - SUBNORMAL - elementary.exp(np.minimum(self._log_aliases(at), 700.0))
        return np.where(values > 0, np.maximum(below, 0.0), 0.0)

    def upper(self, j: int) -> float:
        """`uppers`, at one point, however far out."""
        return float(self._above(np.array([j % self.values.size]), np.array([self.position(j)]))[0])

    def lower(self, j: int) -> float:
        """`lowers`, at one point, however far out."""
        return float(self._below(np.array([j % self.values.size]), np.array([self.position(j)]))[0])

    def _log_aliases(self, epsilons: Array) -> Array:
        """Claim: at least the log of the aliases on both sides. Source: docs/proofs/engine.md, Lemma 2."""
        if self.aliases is None:
            return np.full(epsilons.shape, math.inf)
        window = self.window * (1 - 1e-9)
        behind = -self.c * window - scalars.log(-scalars.expm1(-self.c * window))
        gaps = (self.aliases.c - self.c) * window
        bounds, at = self.aliases.log_bounds, np.multiply.outer(epsilons, self.aliases.c)
        slack = 8 * UNIT * (np.abs(bounds) + np.abs(at))
        ahead = np.min(bounds - at + slack - gaps - elementary.log(-elementary.expm1(-gaps)), axis=-1)
        logs: Array = elementary.logaddexp(behind, ahead) + 1e-9
        return logs


def chernoff_bounds(parts: list[tuple[LatticeMeasure, int]], c: Array) -> ChernoffBounds:
    """Chernoff bounds of the composition of lattice laws: K is a finite sum. Source: docs/proofs/engine.md, Lemma 3."""
    moments = Moments.none(c)
    for steps, count in parts:
        moments = moments.plus(Moments.of(steps, c), count)
    return moments.chernoff()


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """K of a composition of lattice laws at several `c`, and the `sizes` of the terms that round."""

    c: Array
    values: Array
    sizes: Array

    @classmethod
    def none(cls, c: Array) -> Moments:
        """Of nothing."""
        return cls(c, np.zeros(c.size), np.zeros(c.size))

    @classmethod
    def of(cls, steps: LatticeMeasure, c: Array) -> Moments:
        """Of one run of a law."""
        exponents = np.multiply.outer(c, steps.points) + elementary.log(np.maximum(steps.masses, _FLOOR))
        top = np.max(exponents, axis=1)
        values = top + elementary.log(np.sum(elementary.exp(exponents - top[:, None]), axis=1))
        far = c * float(np.max(np.abs(steps.points)))
        return cls(c, values, np.abs(values) + np.abs(top) + far + 700 + steps.masses.size)

    def plus(self, other: Moments, count: int) -> Moments:
        return Moments(self.c, self.values + count * other.values, self.sizes + count * other.sizes)

    def chernoff(self) -> ChernoffBounds:
        """Chernoff bounds."""
        log_moments = self.values + (16 * UNIT) * self.sizes
        return ChernoffBounds(self.c, log_moments, log_moments + log_kappa(self.c) * (1 - 4 * UNIT))


def convolve(
    parts: list[tuple[LatticeMeasure, int]], c: float, length: int, aliases: ChernoffBounds | None = None
) -> Convolved:
    """The composition of lattice laws on one mesh, each `count` times, by transforms of `length`, a power of two.

    `aliases`: Chernoff bounds of this composition; without them there are upper bounds only."""
    product = Product(parts[0][0].mesh, c, length)
    for steps, count in parts:
        product.multiply(transformed(steps, c, length), count)
    return product.convolved(aliases)


@dataclass(frozen=True, slots=True, eq=False)
class Transformed:
    """The transform of a law on a lattice, tilted: `value`; `logs` of what is at least its true and its computed
    modulus; by how much it may miss (`lost`), in units of that. K and its relative error; log of the mass, where that
    is above 1; the infinite mass; the first lattice point."""

    value: ComplexArray
    logs: Array
    lost: Array
    log_moment: float
    relative: float
    log_whole: float
    infinite: float
    start: int


def transformed(steps: LatticeMeasure, c: float, length: int) -> Transformed:
    """One run of a law. Raises WorkLimit where the lattice is too coarse for the tilt, or holds no mass of it."""
    if not steps.mesh.spacing * (c + 1) < _STEEPEST:
        raise WorkLimit("the lattice is too coarse for its tilt")
    tilted, log_moment, relative = _tilted(steps, c, length)
    value = np.fft.rfft(tilted)
    missed = _FFT * UNIT * (length.bit_length() - 1) * math.sqrt(length) * _norm(tilted) + _FLOOR
    size = elementary.modulus(value) * (1 + 4 * UNIT) + missed
    whole = float(np.sum(steps.masses)) * (1 + UNIT * steps.masses.size) + steps.infinite
    log_whole = max(0.0, scalars.log(whole)) if whole > 1 else 0.0
    return Transformed(
        value, elementary.log(size), missed / size, log_moment, relative, log_whole, steps.infinite, steps.start
    )


class Product:
    """prod phi_i^T_i, a modulus that is at least the true and the computed one, and the relative error in units of it;
    and what else a composition on a lattice needs, all of it additive. docs/proofs/lattice.md, Lemma 6."""

    def __init__(self, mesh: Mesh, c: float, length: int) -> None:
        self._mesh, self._c, self._length = mesh, c, length
        half = length // 2 + 1
        self._value: ComplexArray = np.ones(half, dtype=np.complex128)
        self._log_size, self._lost = np.zeros(half), np.zeros(half)
        self._log_front, self._front_error, self._log_whole, self._infinite, self._start = 0.0, 0.0, 0.0, 0.0, 0

    def multiply(self, law: Transformed, count: int) -> None:
        """`count` more runs of a law: each product adds a relative error of at most 3 UNIT."""
        self._value = elementary.times(self._value, by_squaring(law.value, count, elementary.times))
        self._log_size += count * law.logs + (8 * UNIT * count) * (np.abs(law.logs) + 1) + UNIT * np.abs(self._log_size)
        self._lost += count * law.lost + 4 * UNIT * (count + 2)
        self._log_front += count * law.log_moment
        self._front_error += count * (law.relative + 8 * UNIT * (abs(law.log_moment) + 1))
        self._front_error += UNIT * abs(self._log_front)
        self._log_whole += count * law.log_whole
        self._infinite += count * law.infinite
        self._start += count * law.start

    def convolved(self, aliases: ChernoffBounds | None) -> Convolved:
        """The profile of all of them."""
        values, error = self._profile_values()
        infinite = self._infinite
        if infinite:
            infinite *= scalars.exp(self._log_whole) * (1 + 1e-9) if self._log_whole < 700 else math.inf
        return Convolved(
            self._mesh, self._start, self._c, self._log_front, values, error, self._front_error, infinite, aliases
        )

    def _profile_values(self) -> tuple[Array, float]:
        """The kernel times the product, transformed back, and a bound of the error of each value."""
        c, spacing, length = self._c, self._mesh.spacing, self._length
        kernel, kernel_size = _kernel(c, spacing, length)
        inexact = UNIT * (128 + 96 / scalars.expm1(spacing * c))
        if self._log_size.max() > _USELESS:
            raise WorkLimit("so many runs leave nothing but rounding on a lattice")
        sizes = elementary.exp(self._log_size) * kernel_size * (1 + inexact)
        lost = float(elementary.product(sizes, np.minimum(self._lost, 2.0) + inexact + 8 * UNIT)) * (1 + 1e-9)
        error = 2 / length * lost + _FFT * UNIT * (length.bit_length() - 1) * math.sqrt(2 / length) * _norm(sizes)
        return np.fft.irfft(elementary.times(self._value, kernel), n=length), error * (1 + 1e-6)


def _tilted(steps: LatticeMeasure, c: float, length: int) -> tuple[Array, float, float]:
    """Tilted masses of sum about 1, folded to `length`; K; a bound of their relative errors."""
    points = steps.points
    positive = steps.masses > 0
    logs = elementary.log(np.where(positive, steps.masses, 1.0))
    exponents = np.where(positive, c * points + logs, -math.inf)
    top = float(np.max(exponents))
    if top == -math.inf:
        raise WorkLimit("no mass of a loss is on its lattice")
    masses = elementary.exp(exponents - top)
    total = float(np.sum(masses))
    masses = masses / total
    far = float(elementary.product(masses, np.abs(points) * c + np.abs(logs)))
    relative = 8 * UNIT * (far * (1 + 1e-6) + abs(top) + 8)
    log_moment = top + scalars.log(total)
    folds = -(-masses.size // length)
    folded = np.zeros(folds * length)
    folded[: masses.size] = masses
    if folds > 1:
        folded = folded.reshape(folds, length).sum(axis=0)
    return folded, log_moment, relative + UNIT * (folds + 4)


def _norm(values: Array) -> float:
    """The Euclidean norm, rounded up."""
    return math.sqrt(float(np.sum(values * values))) * (1 + 1e-6)


@functools.lru_cache(maxsize=4)
def _kernel(c: float, spacing: float, length: int) -> tuple[ComplexArray, Array]:
    """g at the nodes of a transform, and its modulus: the laws above and below share them."""
    angles = np.arange(length // 2 + 1, dtype=np.float64) * (2 * math.pi / length)
    near, far = _less_one(spacing * c, angles), _less_one(spacing * (c + 1), angles)
    sines, cosines = elementary.circle(angles)
    turned = scalars.exp(spacing * c) * (cosines - 1j * sines)
    kernel = turned * scalars.expm1(spacing) / elementary.times(near, far)
    return kernel, elementary.modulus(kernel)


def _less_one(real: float, angles: Array) -> ComplexArray:
    """e^{real - i angle} - 1, without cancellation."""
    half_sines, (sines, cosines) = elementary.sin(angles / 2), elementary.circle(angles)
    value: ComplexArray = scalars.expm1(real) * cosines - 2 * half_sines * half_sines - 1j * scalars.exp(real) * sines
    return value
