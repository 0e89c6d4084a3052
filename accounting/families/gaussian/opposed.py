"""Two mixtures of Gaussians moved against each other: what units that are exchanged see of a Poisson sample.

P = w_0 N(0, s^2) + sum w_j N(r_j, s^2) and Q = w_0 N(0, s^2) + sum w_j N(-r_j, s^2), each the other's mirror image.
The loss M(x) - M(-x), M of `mixture_curve`, rises with the outcome, so that cells of the outcome are cells of the loss:
each is spread to its ends (above), or is one outcome (below). docs/proofs/mixtures.md, section 7.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import ERFC_ULPS, UNIT, Array
from dpledger.accounting.families.gaussian.mixture_curve import Mixture
from dpledger.accounting.laws.cells import FARTHEST, PairBracket
from dpledger.accounting.laws.finite import FinitePair
from dpledger.errors import CannotCertify

__all__ = ["opposed_bracket"]

CELLS = 2048
LEAST_SIGMA = 0.04  # with less noise a cell is too long, and its mass below the floats
LEAST_MASS = 1e-290  # of a cell, which has all its digits
NEAR_AN_END = 1 / 16  # a cell sends at least that share of its mass to each end
LARGEST_MOVE = 0.01  # of a loss, by all errors


class _Cells(NamedTuple):
    """Cells of the outcome, those of mass below LEAST_MASS left out.

    `place`: each one's number. `left`, `right`: P and Q, within `mass_error`, relative. `ratios`: log P/Q, within
    `ratio_errors`. `beyond`: at least P's mass outside of them, and Q's. `imbalance`: by how much P with `beyond`, and
    without it, misses 1 at most."""

    place: npt.NDArray[np.intp]
    left: Array
    right: Array
    ratios: Array
    ratio_errors: Array
    mass_error: float
    beyond: float
    imbalance: float


@functools.lru_cache(maxsize=64)
def opposed_bracket(mixture: Mixture) -> PairBracket:
    """Finite pairs above and below (P, Q).

    Claim: above dominates it, below is dominated, in both directions. Source: docs/proofs/mixtures.md, section 7.
    Raises CannotCertify for a sigma below LEAST_SIGMA, and where a loss is not resolved."""
    if mixture.sigma < LEAST_SIGMA:
        raise CannotCertify(
            f"noise of {mixture.sigma:.3g} times the most that units contribute who are exchanged on a Poisson sample: "
            f"a certified bound is known from {LEAST_SIGMA} on"
        )
    reach = 1 + FARTHEST * mixture.sigma
    edges = reach * (2 * np.arange(CELLS + 1, dtype=np.float64) / CELLS - 1)
    cells = _cells(mixture, edges)
    return PairBracket(_above(mixture, edges, cells), _below(cells))


def _cells(mixture: Mixture, edges: Array) -> _Cells:
    """P - Q is summed from the shifts alone, so that log P/Q keeps its digits where these are rare."""
    mass, doubt = _masses(0.0, mixture.sigma, edges)
    left, wrong = mixture.rest * mass, mixture.rest * doubt
    excess, moved, wrong_excess = np.zeros((3, mass.size))
    for shift, weight in zip(mixture.shifts, mixture.weights, strict=True):
        mass, doubt = _masses(shift, mixture.sigma, edges)
        left, wrong = left + weight * mass, wrong + weight * doubt
        excess, moved = excess + weight * (mass - mass[::-1]), moved + weight * (mass + mass[::-1])
        wrong_excess = wrong_excess + weight * (doubt + doubt[::-1])
    terms = (len(mixture.shifts) + 8) * UNIT
    resolved = np.minimum(left, left[::-1]) > LEAST_MASS
    place, lost = np.flatnonzero(resolved), math.fsum(left[~resolved].tolist()) * (1 + 1e-6)
    right, excess = left[::-1][place], excess[place]
    wrong_excess = (wrong_excess + terms * moved)[place]
    left, wrong = left[place], wrong[place]
    mass_error = float((wrong / left).max()) + terms
    sizes = elementary.log1p(np.abs(excess) / np.minimum(left, right))  # of the loss, whose sign is the outcome's
    ratio_errors = 1.1 * (wrong_excess + np.abs(excess) * mass_error) / np.maximum(left, right) + 8 * UNIT * sizes
    tail = scalars.exp(-scalars.square(FARTHEST) / 2) / FARTHEST  # Mills: P's mass beyond the two ends is below it
    return _Cells(
        place, left, right, np.where(excess < 0, -sizes, sizes), ratio_errors, mass_error, tail + lost, 2 * tail + lost
    )


def _masses(place: float, sigma: float, edges: Array) -> tuple[Array, Array]:
    """N(place, sigma^2) of each cell, from the tail on the cell's side, and bounds of the errors."""
    z = (edges - place) / sigma
    size = np.abs(z)
    tails = 0.5 * elementary.erfc(size * math.sqrt(0.5))
    moved = UNIT * (10 * size + 8 / sigma)  # of z: place and sigma are within two roundings
    wrong = tails * (2 * ERFC_ULPS * UNIT + 1.1 * moved * (size + 1))  # the hazard at z is at most z + 1
    first, last = tails[:-1], tails[1:]
    across = (z[:-1] < 0) & (z[1:] > 0)
    masses = np.where(across, 1 - first - last, np.abs(first - last))
    return masses, wrong[:-1] + wrong[1:] + 2 * UNIT * np.where(across, 1.0, first + last)


def _above(mixture: Mixture, edges: Array, cells: _Cells) -> FinitePair:
    """Each cell spread to its ends, so that its mean ratio is kept: what each end is sent is exact for ends that are
    no further in, and within `moves` of those computed."""
    curve = mixture.curve(edges)
    losses = curve.values - curve.values[::-1]
    errors = curve.errors + curve.errors[::-1] + UNIT * np.abs(losses)
    low, high = losses[cells.place], losses[cells.place + 1]
    width = np.maximum(high - low, 0.0)
    whole, part = elementary.expm1(width), elementary.expm1(np.clip(cells.ratios - low, 0.0, width))
    flat = whole == 0
    share = np.clip(np.where(flat, 0.5, part / np.where(flat, 1.0, whole)), NEAR_AN_END, 1 - NEAR_AN_END)
    missed = np.abs(elementary.log1p(share * whole) - (cells.ratios - low)) + cells.ratio_errors
    missed += 2 * (errors[cells.place] + errors[cells.place + 1]) + 16 * UNIT * (width + np.abs(cells.ratios))
    moves = 1.1 * missed * np.maximum(1 / share, (whole + 1) / (1 - share))
    if not float(moves.max()) < LARGEST_MOVE:
        raise CannotCertify("the loss of units that are exchanged on this Poisson sample is not resolved")
    right, moved = np.zeros((2, edges.size))
    right[cells.place] = cells.right * (1 - share)
    right[cells.place + 1] += cells.right * share
    moved[cells.place] = moves
    moved[cells.place + 1] = np.maximum(moved[cells.place + 1], moves)
    kept = right > 0
    losses, right, errors = losses[kept], right[kept], (errors + moved)[kept]
    left = right * elementary.exp(losses)
    mass_error = cells.mass_error + 1.1 * float(errors.max()) + 16 * UNIT * (1 + float(np.abs(losses).max()))
    return FinitePair(
        tuple(losses.tolist()),
        tuple(left.tolist()),
        tuple(right.tolist()),
        cells.beyond,
        cells.beyond,
        tuple(errors.tolist()),
        mass_error,
        cells.imbalance,
    )


def _below(cells: _Cells) -> FinitePair:
    """Each cell as one outcome."""
    return FinitePair(
        tuple(cells.ratios.tolist()),
        tuple(cells.left.tolist()),
        tuple(cells.right.tolist()),
        0.0,
        0.0,
        tuple(cells.ratio_errors.tolist()),
        cells.mass_error,
        cells.imbalance,
    )
