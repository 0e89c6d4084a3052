"""Likelihood ratios under Q and their averages: what random allocation shows.

A pair (P, Q) is the law of W = dP/dQ under Q, and the mass that P has where Q has none. One law dominates another if it
is larger in convex order: a mean-preserving spread of W. Averages of independent ratios keep that order, so a law on a
grid that is spread (or merged, for the other side) after every step bounds the average. docs/proofs/amplification.md,
sections 1 and 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array, Rounding
from dpledger.accounting.laws.finite import FinitePair
from dpledger.errors import CannotCertify

__all__ = ["averaged"]


WORK = 3 << 23  # pairs of ratios that all steps together may lay out
LAST_GRID = 4096  # kept after the last step
ROWS = 96  # of the table of pairs that is laid out at once
LEAST_PAIR_MASS = 1e-60  # pairs with less of P and Q are not laid out one by one
LOWEST = -40.0  # log ratios below are spread between this and a ratio of 0
LARGEST_LOSS = 650.0


@dataclass(frozen=True, slots=True, eq=False)
class _Ratios:
    """Rising `values` of W with `masses` under Q; relative errors of both."""

    values: Array
    masses: Array
    value_error: float
    mass_error: float


def averaged(pair: FinitePair, times: int, side: Rounding) -> FinitePair:
    """(P', Q^times), where P' runs P in one of `times` places, chosen uniformly, and Q in the others.

    Claim: above, the result dominates that pair; below, it is dominated. Source: docs/proofs/amplification.md,
    section 4 (Shaked-Shanthikumar 2007, Theorem 3.A.12, for the order).
    """
    if times == 1:
        return pair
    base, size = _of_pair(pair), _size(times)
    if times > 2 and base.values.size > size:
        base = _on_grid(base, _grid(base.values, base.masses, size), side)
    whole, count = base, 1
    for bit in bin(times)[3:]:
        last = 2 * count == times
        whole, count = _mixed(whole, count, whole, count, side, LAST_GRID if last else size), 2 * count
        if bit == "1":
            last = count + 1 == times
            whole, count = _mixed(whole, count, base, 1, side, LAST_GRID if last else size), count + 1
    return _to_pair(whole, pair.only_left)


def _size(times: int) -> int:
    """Points of the grid after each step but the last. A rare large ratio is rounded in every step: all have alike."""
    return math.isqrt(WORK // (times.bit_length() + times.bit_count()))


def _of_pair(pair: FinitePair) -> _Ratios:
    losses = np.array(pair.losses)
    if losses.size and float(np.max(np.abs(losses))) > LARGEST_LOSS:
        raise CannotCertify("losses this large have no certified bound under random allocation")
    error = float(np.max(np.array(pair.loss_errors), initial=0.0)) * (1 + 1e-9) + 8 * UNIT
    order = np.argsort(losses, kind="stable")
    values, masses = elementary.exp(losses[order]), np.array(pair.right)[order]
    if pair.only_right:
        values, masses = np.concatenate([[0.0], values]), np.concatenate([[pair.only_right], masses])
    return _Ratios(values, masses, error, pair.mass_error)


def _to_pair(law: _Ratios, only_left: float) -> FinitePair:
    zero = law.values == 0
    values, masses = law.values[~zero], law.masses[~zero]
    kept = masses > 0
    values, masses = values[kept], masses[kept]
    losses = elementary.log(values)
    errors, only = (
        4 * UNIT * np.abs(losses) + law.value_error * (1 + 1e-6),
        (only_left, float(np.sum(law.masses[zero]))),
    )
    return FinitePair.of(losses, (values * masses, masses), only, errors, law.mass_error + law.value_error + 4 * UNIT)


# ---- one step -------------------------------------------------------------------------------------------------------


def _mixed(left: _Ratios, m: int, right: _Ratios, n: int, side: Rounding, size: int) -> _Ratios:
    """The average of m ratios with n more, from the averages of each, on a grid of `size` points."""
    if left.values.size * right.values.size <= size:
        return _table(left, m, right, n)
    rough = _table(_thinned(left), m, _thinned(right), n)
    top = (m * left.values[-1] + n * right.values[-1]) / (m + n)
    grid = _grid(np.append(rough.values, top), np.append(rough.masses, 0.0), size)
    total, means, counts = np.zeros(grid.size), np.zeros(grid.size), np.zeros(grid.size)
    ours, theirs = m / (m + n) * left.values, n / (m + n) * right.values
    for start in range(0, left.values.size, ROWS):
        rows, columns = slice(start, start + ROWS), right.masses.copy()
        if left is right:  # each pair of two blocks once, for both orders
            columns[:start] = 0
            columns[start + ROWS :] *= 2
        near = _not_faint(left.masses[rows] * (1 + left.values[rows]), columns * (1 + right.values))
        values = np.add.outer(ours[rows], theirs[near]).ravel()
        masses = np.multiply.outer(left.masses[rows], columns[near]).ravel()
        _lay(values, masses, grid, side, (total, means, counts))
        if side == "above":
            columns[near] = 0
            mass, far = float(np.sum(left.masses[rows])), float(np.sum(columns))
            mean = float(elementary.product(left.masses[rows], ours[rows])) * far + mass * float(
                elementary.product(columns, theirs)
            )
            total[-1] += mean / float(grid[-1]) * (1 + 1e-9)
            total[0] += mass * far
    error = 2 * UNIT * (float(np.max(counts)) + left.values.size / ROWS + 8)
    exact = max(left.value_error, right.value_error) + 8 * UNIT
    return _collected(grid, total, means, exact, left.mass_error + right.mass_error + error, side)


def _not_faint(rows: Array, columns: Array) -> slice:
    """The columns, from first to last, that have more than LEAST_PAIR_MASS of P and Q together with some row. Pairs
    with others are left out below, and spread from 0 to the largest value above."""
    seen = np.flatnonzero(columns * float(np.max(rows)) >= LEAST_PAIR_MASS)
    return slice(int(seen[0]), int(seen[-1]) + 1) if seen.size else slice(0, 0)


def _on_grid(law: _Ratios, grid: Array, side: Rounding) -> _Ratios:
    total, means, counts = np.zeros(grid.size), np.zeros(grid.size), np.zeros(grid.size)
    _lay(law.values, law.masses, grid, side, (total, means, counts))
    error = law.mass_error + 2 * UNIT * (float(np.max(counts)) + 8)
    return _collected(grid, total, means, law.value_error + 8 * UNIT, error, side)


def _lay(values: Array, masses: Array, grid: Array, side: Rounding, into: tuple[Array, Array, Array]) -> None:
    """Spread each mass to the two grid points around it, keeping the mean, or add it to its cell."""
    total, means, counts = into
    cell = np.searchsorted(grid[1:-1], values, side="right")
    if side == "above":
        upper = (values - grid[cell]) / np.diff(grid)[cell]
        np.clip(upper, 0.0, 1.0, out=upper)
        total += np.bincount(cell, masses * (1 - upper), grid.size)
        total += np.bincount(cell + 1, masses * upper, grid.size)
    else:
        total += np.bincount(cell, masses, grid.size)
        means += np.bincount(cell, masses * values, grid.size)
    counts += np.bincount(cell, minlength=grid.size)


def _collected(
    grid: Array, total: Array, means: Array, value_error: float, mass_error: float, side: Rounding
) -> _Ratios:
    kept = total > 0
    if side == "above":
        return _Ratios(grid[kept], total[kept], value_error, mass_error)
    return _Ratios(means[kept] / total[kept], total[kept], value_error + 2 * mass_error, mass_error)


def _table(left: _Ratios, m: int, right: _Ratios, n: int) -> _Ratios:
    """Every pair, in rising order."""
    share = m / (m + n)
    values = np.add.outer(share * left.values, (1 - share) * right.values).ravel()
    masses = np.multiply.outer(left.masses, right.masses).ravel()
    order = np.argsort(values, kind="stable")
    error = max(left.value_error, right.value_error) + 8 * UNIT
    return _Ratios(values[order], masses[order], error, left.mass_error + right.mass_error + 4 * UNIT)


def _thinned(law: _Ratios) -> _Ratios:
    """A few of the values, to see where the mass is: any grid is valid."""
    step = -(-law.values.size // 64)
    starts = np.arange(0, law.values.size, step)
    return _Ratios(law.values[::step], np.add.reduceat(law.masses, starts), 0.0, 0.0)


def _grid(values: Array, masses: Array, size: int) -> Array:
    """0, and rising ratios up to the largest value: evenly around 1 on the scale of the bulk, geometrically far off."""
    positive = values > 0
    logs = np.maximum(elementary.log(values[positive]), LOWEST)
    order = np.argsort(logs, kind="stable")
    weight = np.cumsum(masses[positive][order] * (1 + values[positive][order]))
    low, high = (logs[order][np.searchsorted(weight, part * weight[-1])] for part in (0.1, 0.9))
    scale = max((high - low) / 2, 1e-6)
    first, last = scalars.asinh(float(np.min(logs)) / scale), scalars.asinh(float(np.max(logs)) / scale)
    inner = elementary.exp(scale * elementary.sinh(np.linspace(first, last, size - 2)))
    points = np.unique(np.concatenate([[0.0], inner, [float(np.max(values)) * (1 + 8 * UNIT)]]))
    top = float(points[-1])
    kept: Array = points[(points < top * (1 - 1e-9)) | (points == top)]
    return kept
