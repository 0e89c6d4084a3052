"""Sums of w_j e^{i t y_j} over many nodes t = 0, step, 2 step, ... at once.

The node number is written k = b*B + r. One table holds e^{i r step y}, another w e^{i b B step y}; their matrix product
is the answer: about 2 sqrt(n) vectors of sines and cosines instead of n.
"""

from __future__ import annotations

import math

import numpy as np

from dpledger.accounting.engine.floating import UNIT, Array, ComplexArray

__all__ = ["node_sums", "rounding_of_node_sums"]


def node_sums(weights: Array, points: Array, step: float, count: int) -> ComplexArray:
    """sum_j weights[j] e^{i k step points[j]}, k = 0..count-1. `step` has at most 30 significant bits."""
    block = 1 << max(0, (count - 1).bit_length() + 1) // 2
    table = np.ones((block, points.size), dtype=np.complex128)
    size = 1
    while size < block:
        np.multiply(table[:size], _phases(size * step, points), out=table[size : 2 * size])
        size *= 2
    starts = np.arange(-(-count // block), dtype=np.float64) * (block * step)
    rows = weights * _phases(starts[:, None], points)
    sums: ComplexArray = (rows @ table.T).ravel()[:count]
    return sums


def _phases(t: float | Array, points: Array) -> ComplexArray:
    angles = t * points
    phases = np.empty(np.shape(angles), dtype=np.complex128)
    np.cos(angles, out=phases.real)
    np.sin(angles, out=phases.imag)
    return phases


def rounding_of_node_sums(weights: Array, points: Array, step: float, count: int) -> Array:
    """Bounds of the rounding errors of `node_sums` for weights that are exact, node by node.

    A term is a product of at most log2(B) + 2 phases (each within 2 CIRCULAR, angles of one sign, each rounded once)
    and a weight; the inner product of J complex terms adds at most 2(J + 4) units. docs/proofs/engine.md, section 6.
    """
    total = float(np.sum(np.abs(weights)))
    factors = math.log2(max(2, count)) / 2 + 4
    angles = float(np.sum(np.abs(weights) * np.abs(points)))
    bounds: Array = UNIT * (
        total * (2 * points.size + 32 * factors) + np.arange(count, dtype=np.float64) * (step * 2 * angles)
    )
    return bounds
