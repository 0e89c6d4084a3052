"""Sums of w_j e^{i t y_j} over many nodes t = 0, step, 2 step, ... at once, and less their value at t = 0.

The node number is written k = b*B + r. One table holds e^{i r step y} - 1, another e^{i b B step y} - 1; since
e^{i(a+b)} - 1 = e^{ib}(e^{ia} - 1) + (e^{ib} - 1), a matrix product gives the answer, and two smaller tables give the
first: little more than sqrt(n) vectors of sines and cosines instead of n. Each e^{ia} - 1 = 2i sin(a/2) e^{ia/2} keeps
its digits where a is small.
"""

from __future__ import annotations

import functools

import numpy as np

from dpledger.accounting.arithmetic import elementary
from dpledger.accounting.arithmetic.floating import UNIT, Array, ComplexArray
from dpledger.accounting.laws.law import FLOOR, Nodes

__all__ = [
    "node_deviations",
    "nodes_of_deviations",
    "nodes_of_sums",
    "rounding_of_deviations",
]


def node_deviations(weights: Array, points: Array, step: float, count: int) -> ComplexArray:
    """sum_j weights[j] (e^{i k step points[j]} - 1), k = 0..count-1; row by row where there are several rows. `step`
    has at most 30 significant bits."""
    ones, tens, numbers = _split(count)
    turns = _turns(step * numbers, points)
    low, high, far = turns[..., :ones, :], turns[..., ones : ones + tens, :], turns[..., ones + tens :, :]
    near = _sums(high, low)
    weights = weights[..., None, :]
    far = weights * far
    sums: ComplexArray = elementary.product(weights + far, near.swapaxes(-1, -2)) + far.sum(axis=-1)[..., None]
    return sums.reshape(*points.shape[:-1], -1)[..., :count]


@functools.lru_cache(maxsize=256)
def _split(count: int) -> tuple[int, int, Array]:
    """Every k below `count` is b B + p m + s: how many s there are and how many p, and all s, p m and b B."""
    bits = max(0, (count - 1).bit_length() + 1) // 2
    few, block = 1 << (bits + 1) // 2, 1 << bits
    numbers = (*range(few), *range(0, block, few), *range(0, count, block))
    return few, block // few, np.array(numbers, dtype=np.float64)


def _turns(t: Array, points: Array) -> ComplexArray:
    """e^{i t y} - 1 for each t (row) and point."""
    halves = (t / 2)[:, None] * points[..., None, :]
    sines, cosines = elementary.circle(halves)
    turns = np.empty(halves.shape, dtype=np.complex128)
    np.multiply(sines, -2 * sines, out=turns.real)
    np.multiply(2 * sines, cosines, out=turns.imag)
    return turns


def _sums(high: ComplexArray, low: ComplexArray) -> ComplexArray:
    """e^{i(a + b)} - 1 for each a of `high`, each b of `low` and each point."""
    low = low[..., None, :, :]
    sums: ComplexArray = elementary.times(high[..., :, None, :], 1 + low) + low
    return sums.reshape(*sums.shape[:-3], -1, sums.shape[-1])


def rounding_of_deviations(total: float | Array, size: float | Array, terms: int, t: Array) -> Array:
    """Bounds of the rounding errors of `node_deviations` at each t, for weights that are exact: `total` is the sum of
    their moduli, `size` that of weight times |point|.

    Source: docs/proofs/engine.md, section 6 (node sums).
    """
    bounds: Array = UNIT * ((2 * terms + 100) * np.minimum(4 * total, t * size) + 2 * size * t)
    return bounds


def nodes_of_sums(weights: Array, points: Array, step: float, count: int, error: Array) -> Nodes:
    """Nodes from weights that add up to 1 but for roundings; `error`: what phi may err by beside those made here.

    Source: docs/proofs/engine.md, section 6 (node sums).
    """
    size = float(elementary.product(weights, np.abs(points)))
    rounding = rounding_of_deviations(1.01, 1.01 * size, points.size, step * np.arange(count, dtype=np.float64))
    deviations = node_deviations(weights, points, step, count)
    return nodes_of_deviations(deviations, error + rounding + UNIT * (points.size + 8))


def nodes_of_deviations(deviations: ComplexArray, error: Array) -> Nodes:
    """Nodes from computed values of phi - 1 and bounds of their absolute errors: near 1 the logarithm keeps the digits
    of phi - 1. Source: docs/proofs/engine.md, section 6."""
    real, imaginary = deviations.real, deviations.imag
    grown = real * (2 + real) + imaginary * imaginary  # |phi|^2 - 1
    phi = 1 + deviations
    modulus = np.maximum(elementary.modulus(phi), FLOOR)
    rest = grown - (modulus - 1) * (modulus + 1)  # of |phi|^2, beside the square of what was rounded
    log_modulus = elementary.log(modulus) + np.where(grown > -0.5, rest / (2 + 2 * np.maximum(grown, -0.5)), 0.0)
    log_phi = log_modulus + 1j * elementary.angle(phi)
    lost = error + (8 * UNIT) * (np.abs(real) + np.abs(imaginary)) + FLOOR
    sizes = np.abs(log_modulus) + np.abs(log_phi.imag)
    return Nodes(log_phi, elementary.log1p(lost / modulus) + (64 * UNIT) * sizes)
