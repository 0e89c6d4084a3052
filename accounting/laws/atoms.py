"""The formulas of losses with finitely many values: K from 1, bounds of reach and variance, nodes.

Each is for one loss or for many, row by row: the last axis is that of the values. docs/proofs/engine.md, sections 3, 6.
"""

from __future__ import annotations

import math

import numpy as np

from dpledger.accounting.arithmetic import elementary
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.fourier import node_deviations, nodes_of_deviations, rounding_of_deviations
from dpledger.accounting.laws.law import Nodes

__all__ = ["SLIGHT", "from_one", "mean_error", "nodes_of_atoms"]

FEW_NODES = 64  # up to here each is summed by itself
SLIGHT = 0.02  # the largest c |L| for which e^{cL} is summed from 1: with larger ones runs are few


def mean_error(weights: Array, each: Array) -> Array:
    """Of a sum of tilted masses, and of its logarithm, where the logarithms of its terms are within `each`; row by
    row."""
    most = each.max(axis=-1, initial=0.0)
    grown = each if most.max(initial=0.0) < 1e-7 else elementary.expm1(np.minimum(each, 1.0))
    bounds: Array = np.where(most < 1, (weights * grown).sum(axis=-1), most) * (1 + 1e-6)
    return bounds


def from_one(
    c: Array,
    losses: Array,
    masses: Array,
    loss_errors: Array,
    errors: tuple[Array | float, Array | float],
    imbalance: Array | float,
) -> tuple[Array, Array]:
    """K(c) = log1p(E(e^{cL} - 1)) for each c and each row, and bounds of the error. `errors`: relative, of the masses;
    and the infinite mass. Source: docs/proofs/engine.md, section 6 (K from 1)."""
    mass_error, infinite = errors
    exponents = np.multiply.outer(c, losses)
    if max(float(exponents.max()), -float(exponents.min())) > SLIGHT:
        shape = exponents.shape[:-1]
        return np.zeros(shape), np.full(shape, math.inf)
    growth = elementary.expm1(exponents)
    excess = (growth * masses).sum(axis=-1) / (1 - infinite)
    relative = mass_error * (1 + 2 * infinite / (1 - infinite)) + (losses.shape[-1] + 24) * UNIT
    rounding = (np.abs(growth) * masses).sum(axis=-1) * relative
    moved = 1.1 * (masses * (loss_errors + UNIT * np.abs(losses))).sum(axis=-1)
    lost = (rounding + np.multiply.outer(c, moved) + imbalance) / (1 - infinite)
    values = elementary.log1p(excess)
    return values, np.where(lost < 0.01, 1.1 * lost + 8 * UNIT * np.abs(values), math.inf)


def nodes_of_atoms(
    losses: Array, errors: Array, weights: Array, each: Array, mean: Array, step: float, count: int
) -> Nodes:
    """Those of the atoms at `losses` (within `errors`) with normalised
    `weights` (before that within `each`, relative), the means being exact; row by row. Source: docs/proofs/engine.md,
    section 6 (atoms)."""
    points = losses - mean[..., None]
    moduli = np.abs(points)
    sizes = weights * moduli
    size = sizes.sum(axis=-1)[..., None]
    displaced = (weights * (errors + 2 * UNIT * (moduli + np.abs(mean)[..., None]))).sum(axis=-1)[..., None]
    relative = mean_error(weights, each)[..., None]
    weighed = (sizes * each).sum(axis=-1)[..., None] + size * relative
    t = step * np.arange(count, dtype=np.float64)
    if t[-1] * size.max() <= 1:  # every error is in proportion to t
        lost = t * (1.02 * weighed + (1 + 1e-6) * displaced + UNIT * (2 * points.shape[-1] + 102) * size)
    else:
        lost = np.minimum(3.1 * relative, t * (1.02 * weighed)) + t * displaced * (1 + 1e-6)
        lost += rounding_of_deviations(1 + 1e-6, size, points.shape[-1], t)
    if not each.max() < 0.01:
        lost[each.max(axis=-1) >= 0.01] = math.inf
    return _nodes(*_deviations(weights, points, step, count), lost)


def _deviations(weights: Array, points: Array, step: float, count: int) -> tuple[Array, Array]:
    """Real and imaginary part of phi - 1: as `node_deviations`; where nodes are few, each by itself."""
    if count > FEW_NODES:
        sums = node_deviations(weights, points, step, count)
        return sums.real, sums.imag
    halves = points[..., None] * (step / 2 * np.arange(count, dtype=np.float64))
    (sines, cosines), weights = elementary.circle(halves), weights[..., None, :]
    real, imaginary = elementary.product(weights, sines * sines), elementary.product(weights, sines * cosines)
    return -2 * real[..., 0, :], 2 * imaginary[..., 0, :]


def _nodes(real: Array, imaginary: Array, error: Array) -> Nodes:
    """As `nodes_of_deviations`, of real and imaginary parts; quicker where |phi|^2 is above 1/2 everywhere."""
    grown = real * (2 + real) + imaginary * imaginary  # |phi|^2 - 1
    if not grown.min() > -0.5:
        return nodes_of_deviations(real + 1j * imaginary, error)
    log_modulus, angle = elementary.log1p(grown) / 2, elementary.arctan2(imaginary, 1 + real)
    lost = (error + (8 * UNIT) * elementary.hypot(real, imaginary)) / np.sqrt(1 + grown)
    return Nodes(log_modulus + 1j * angle, lost + (64 * UNIT) * elementary.hypot(log_modulus, angle))
