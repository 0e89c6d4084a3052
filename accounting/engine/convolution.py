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

from dpledger.accounting.engine.composed import log_kappa
from dpledger.accounting.engine.contour import Ladder
from dpledger.accounting.engine.floating import UNIT, Array, ComplexArray, lowered, raised
from dpledger.accounting.engine.staircase import Mesh, Steps
from dpledger.errors import WorkLimit

__all__ = ["Convolved", "convolve", "ladder_of"]

_FFT = 16.0
"""Of ||error|| <= _FFT UNIT log2(N) ||x|| for a transform of length N = 2^k; Theorem 24.2 gives 6.7."""
_FLOOR = 1e-300
_STEEPEST = 100.0  # spacing times tilt: beyond, nothing is resolved


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
    aliases: Ladder | None = None

    @property
    def window(self) -> float:
        return self.values.size * self.mesh.spacing

    def position(self, j: int) -> float:
        """The lattice point number j; rounded once."""
        return (self.start + j * self.mesh.width) * self.mesh.unit

    def nearest(self, epsilon: float) -> int:
        """The number of the last lattice point at or below epsilon, about."""
        return (math.floor(epsilon / self.mesh.unit) - self.start) // self.mesh.width

    def _front(self, epsilon: float, side: float) -> float:
        log_front = self.log_front - self.c * epsilon
        slack = self.front_error + 8 * UNIT * (abs(self.log_front) + abs(self.c * epsilon) + 4)
        return math.exp(min(700.0, log_front + side * slack))

    def upper(self, j: int) -> float:
        """Claim: at least delta at the lattice point j. Source: docs/proofs/lattice.md, Lemma 5."""
        value = float(self.values[j % self.values.size]) + self.error
        return self.infinite + raised(self._front(self.position(j), 1.0) * value, 8 * UNIT)

    def lower(self, j: int) -> float:
        """Claim: at most delta at the lattice point j. Source: docs/proofs/lattice.md, Lemma 5."""
        value = float(self.values[j % self.values.size]) - self.error
        if value <= 0:
            return 0.0
        at = self.position(j)
        found = lowered(self._front(at, -1.0) * value, 8 * UNIT) - math.exp(min(self._log_alias(at), 700.0))
        return found if found > 0 else 0.0

    def _log_alias(self, epsilon: float) -> float:
        """Claim: at least the log of the aliases on both sides. Source: docs/proofs/engine.md, Lemma 2."""
        window = self.window * (1 - 1e-9)
        behind = -self.c * window - math.log(-math.expm1(-self.c * window))
        if self.aliases is None:
            return math.inf
        gap = (self.aliases.c - self.c) * window
        bounds, at = self.aliases.log_bounds, self.aliases.c * epsilon
        slack = 8 * UNIT * (np.abs(bounds) + np.abs(at))
        ahead = float(np.min(bounds - at + slack - gap - np.log(-np.expm1(-gap))))
        return float(np.logaddexp(behind, ahead)) + 1e-9


def ladder_of(parts: list[tuple[Steps, int]], c: Array) -> Ladder:
    """Chernoff bounds of the composition of lattice laws: K is a finite sum. Source: docs/proofs/engine.md, Lemma 3."""
    total, sizes = np.zeros(c.size), np.zeros(c.size)
    for steps, count in parts:
        exponents = np.multiply.outer(c, steps.points) + np.log(np.maximum(steps.masses, _FLOOR))
        top = np.max(exponents, axis=1)
        values = top + np.log(np.sum(np.exp(exponents - top[:, None]), axis=1))
        total += count * values
        far = c * float(np.max(np.abs(steps.points)))
        sizes += count * (np.abs(values) + np.abs(top) + far + 700 + steps.masses.size)
    log_moments = total + (16 * UNIT) * sizes
    return Ladder(c, log_moments, log_moments + log_kappa(c) * (1 - 4 * UNIT))


@dataclass(slots=True)
class _Product:
    """prod phi_i^T_i, `size` >= its true and its computed modulus, and `lost` its relative error in units of `size`."""

    value: ComplexArray
    log_size: Array
    lost: Array


def convolve(parts: list[tuple[Steps, int]], c: float, length: int, aliases: Ladder | None = None) -> Convolved:
    """The composition of lattice laws on one mesh, each `count` times, by transforms of `length`, a power of two.

    `aliases`: Chernoff bounds of this composition; without them there are upper bounds only."""
    mesh = parts[0][0].mesh
    if not mesh.spacing * (c + 1) < _STEEPEST:
        raise WorkLimit("the lattice is too coarse for its tilt")
    half = length // 2 + 1
    product = _Product(np.ones(half, dtype=np.complex128), np.zeros(half), np.zeros(half))
    log_front, front_error, log_whole, infinite, start = 0.0, 0.0, 0.0, 0.0, 0
    for steps, count in parts:
        tilted, log_moment, relative = _tilted(steps, c, length)
        _multiply(product, tilted, count)
        log_front += count * log_moment
        front_error += count * (relative + 8 * UNIT * (abs(log_moment) + 1))
        whole = float(np.sum(steps.masses)) * (1 + UNIT * steps.masses.size) + steps.infinite
        log_whole += count * max(0.0, math.log(whole)) if whole > 1 else 0.0
        infinite += count * steps.infinite
        start += count * steps.start
    values, error = _profile_values(product, c, mesh.spacing, length)
    if infinite:
        infinite *= math.exp(log_whole) * (1 + 1e-9) if log_whole < 700 else math.inf
    return Convolved(mesh, start, c, log_front, values, error, front_error, infinite, aliases)


def _tilted(steps: Steps, c: float, length: int) -> tuple[Array, float, float]:
    """Tilted masses of sum about 1, folded to `length`; K; a bound of their relative errors."""
    points = steps.points
    positive = steps.masses > 0
    logs = np.log(np.where(positive, steps.masses, 1.0))
    exponents = np.where(positive, c * points + logs, -math.inf)
    top = float(np.max(exponents))
    if top == -math.inf:
        raise WorkLimit("no mass of a loss is on its lattice")
    masses = np.exp(exponents - top)
    total = float(np.sum(masses))
    masses = masses / total
    far = float(masses @ (np.abs(points) * c + np.abs(logs)))
    relative = 8 * UNIT * (far * (1 + 1e-6) + abs(top) + 8)
    log_moment = top + math.log(total)
    folds = -(-masses.size // length)
    folded = np.zeros(folds * length)
    folded[: masses.size] = masses
    if folds > 1:
        folded = folded.reshape(folds, length).sum(axis=0)
    return folded, log_moment, relative + UNIT * (folds + 4)


def _multiply(product: _Product, tilted: Array, count: int) -> None:
    """product *= (transform of `tilted`)^count, with its errors. docs/proofs/lattice.md, Lemma 6."""
    length = tilted.size
    transform = np.fft.rfft(tilted)
    missed = _FFT * UNIT * math.log2(length) * math.sqrt(length) * _norm(tilted) + _FLOOR
    size = np.abs(transform) * (1 + 4 * UNIT) + missed
    product.value = product.value * _power(transform, count)
    logs = np.log(size)
    product.log_size += count * logs + (8 * UNIT * count) * (np.abs(logs) + 1)
    product.lost += count * (missed / size) + 4 * UNIT * (count + 2)


def _norm(values: Array) -> float:
    """The Euclidean norm, rounded up."""
    return math.sqrt(float(np.sum(values * values))) * (1 + 1e-6)


def _power(base: ComplexArray, count: int) -> ComplexArray:
    """base^count by squaring: a relative error of at most 3 (count - 1) UNIT."""
    result: ComplexArray | None = None
    while True:
        if count & 1:
            result = base if result is None else result * base
        count >>= 1
        if not count:
            break
        base = base * base
    return np.ones_like(base) if result is None else result


def _profile_values(product: _Product, c: float, spacing: float, length: int) -> tuple[Array, float]:
    """The kernel times the product, transformed back, and a bound of the error of each value."""
    kernel, kernel_size = _kernel(c, spacing, length)
    inexact = UNIT * (128 + 96 / math.expm1(spacing * c))
    sizes = np.exp(np.minimum(product.log_size, 700.0)) * kernel_size * (1 + inexact)
    lost = float(sizes @ (np.minimum(product.lost, 2.0) + inexact + 8 * UNIT)) * (1 + 1e-9)
    error = 2 / length * lost + _FFT * UNIT * math.log2(length) * math.sqrt(2 / length) * _norm(sizes)
    return np.fft.irfft(product.value * kernel, n=length), error * (1 + 1e-6)


@functools.lru_cache(maxsize=4)
def _kernel(c: float, spacing: float, length: int) -> tuple[ComplexArray, Array]:
    """g at the nodes of a transform, and its modulus: the laws above and below share them."""
    angles = np.arange(length // 2 + 1, dtype=np.float64) * (2 * math.pi / length)
    near, far = _less_one(spacing * c, angles), _less_one(spacing * (c + 1), angles)
    turned = math.exp(spacing * c) * (np.cos(angles) - 1j * np.sin(angles))
    kernel = turned * math.expm1(spacing) / (near * far)
    return kernel, np.abs(kernel)


def _less_one(real: float, angles: Array) -> ComplexArray:
    """e^{real - i angle} - 1, without cancellation."""
    sines = np.sin(angles / 2)
    value: ComplexArray = math.expm1(real) * np.cos(angles) - 2 * sines * sines - 1j * math.exp(real) * np.sin(angles)
    return value
