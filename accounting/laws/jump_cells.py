"""The rare large losses of a sampled Gaussian, direction remove, as masses on a lattice of losses.

A smooth cut chi splits the densities P and Q into chi P, chi Q, whose losses are small, and (1 - chi) P, (1 - chi) Q:
the *jumps*. Outcomes x are divided into cells; on a cell, 1 - chi lies between its values at the two ends, and the
masses under P and Q are differences of normal tails. Then

    above  a cell's masses go to two neighbouring lattice points, so that neither the P mass nor the Q mass changes
    below  a cell's P mass has one loss, the logarithm of P mass over Q mass

docs/proofs/engine.md, section 11.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.engine.floating import UNIT, Array
from dpledger.accounting.laws.sampled_curve import loss_curve
from dpledger.accounting.laws.smooth_cut import ULPS, Cut
from dpledger.accounting.laws.subsampled import SampledGaussianLoss
from dpledger.errors import WorkLimit

__all__ = ["FARTHEST", "JumpCells", "jump_cells"]

FARTHEST = 37.5  # standard deviations: normal tails beyond are below the normal floats
FAINT = 1e-320  # more than what a tail below the normal floats may be off by
FINER = 4  # cells of outcomes for a cell of losses
_COMMON = 0.05  # of the cells: those whose loss may be nearer to their left end than that of the others
Bounds = tuple[Array, Array]


@dataclass(frozen=True, slots=True, eq=False)
class JumpCells:
    """P masses: `above` on the losses i `spacing`, `below` on (i + `offset`) `spacing`, i = 0, 1, ...

    `slack`: what a loss of `above` may be too small by. `beyond`: the P mass that `above` leaves out."""

    spacing: float
    above: Array
    below: Array
    offset: float
    slack: float
    beyond: float


@dataclass(frozen=True, slots=True, eq=False)
class _Masses:
    """Bounds of the P mass and the Q mass of each cell of losses from i `spacing`, with the most of 1 - chi (`most_p`,
    `least_q` with the same factor) and with the least."""

    most_p: Array
    least_q: Array
    least_p: Array
    most_q: Array


def jump_cells(loss: SampledGaussianLoss, cut: Cut, largest: float, count: int) -> JumpCells:
    """The jumps of `loss` on the losses 0, h, ..., `count` h = `largest`.

    Claim: every profile of a product rises if its factor (1 - chi)(P, Q) is replaced by `above`, each loss raised by
    `slack`, and the mass `beyond` at infinity; and falls if it is replaced by `below`. Source: docs/proofs/engine.md,
    section 11.
    """
    spacing = largest / count
    losses: Array = np.arange(FINER * count + 1, dtype=np.float64) * (spacing / FINER)
    x = 0.5 + loss.sigma**2 * _base_losses(losses, loss.rate)
    reached = min(count, int(np.count_nonzero(x[::FINER] < FARTHEST * loss.sigma)) - 1)
    losses, x = losses[: FINER * reached + 1], x[: FINER * reached + 1]
    if reached < 1 or not np.all(np.diff(x) > 0):
        raise WorkLimit("the cells of a sampled Gaussian's jumps cannot be told apart")
    curve = loss_curve(loss.rate, loss.sigma, x)
    slack = float(np.max(np.abs(curve.values - losses) + curve.errors)) + 32 * UNIT * (1 + largest)
    masses, before, beyond = _masses(loss, cut, x)
    starts = losses[:-1:FINER]
    above, below = np.zeros(count + 1), np.zeros(count + 1)
    above[: reached + 1] = _above(masses, starts, slack, spacing)
    above[0] += before
    below[:reached], offset = _below(masses, starts, slack, spacing)
    return JumpCells(spacing, above, below, offset, slack, beyond)


def _base_losses(losses: Array, rate: float) -> Array:
    """log(1 + (e^l - 1)/q)."""
    near = np.log1p(np.expm1(np.minimum(losses, 1.0)) / rate)
    far = losses - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(losses, 1.0)))
    values: Array = np.where(losses < 1, near, far)
    return values


def _masses(loss: SampledGaussianLoss, cut: Cut, x: Array) -> tuple[_Masses, float, float]:
    """Of the cells between every FINER points x; what lies before the first point, and beyond the last."""
    rate = loss.rate
    without, shifted = _tails(x, 0.0, loss.sigma), _tails(x, 1.0, loss.sigma)
    (q_low, q_high), (s_low, s_high) = _between(without), _between(shifted)
    doubt = 8 * UNIT / (1 - rate)
    p_low = ((1 - rate) * q_low + rate * s_low) * (1 - doubt)
    p_high = ((1 - rate) * q_high + rate * s_high) * (1 + doubt) + FAINT
    jumps, error = _tails(2 * cut.point - x, cut.point, cut.width)  # 1 - chi(x): the normal law is symmetric
    least, most = jumps[:-1] * (1 - error[:-1]), jumps[1:] * (1 + error[1:]) + FAINT
    masses = _Masses(_joined(p_high * most), _joined(q_low * most), _joined(p_low * least), _joined(q_high * least))
    before = float(jumps[0] * (1 + error[0])) + FAINT
    ends = [float(tails[-1] * (1 + errors[-1])) for tails, errors in (without, shifted)]
    beyond = ((1 - rate) * ends[0] + rate * ends[1]) * (1 + doubt) + FAINT
    return masses, before, beyond


def _joined(masses: Array) -> Array:
    """The sums of FINER neighbours."""
    sums: Array = masses.reshape(-1, FINER).sum(axis=1)
    return sums


def _tails(x: Array, mean: float, sigma: float) -> Bounds:
    """The mass of N(mean, sigma^2) beyond each x, and a bound of its relative error (beside FAINT), with that of a
    relative change of x and sigma by UNIT."""
    arguments = (x - mean) / (sigma * math.sqrt(2))
    moved = UNIT * (8 * np.abs(arguments) + 4 * (np.abs(x) + abs(mean)) / sigma)
    erfc = math.erfc
    tails = 0.5 * np.array([erfc(value) for value in arguments.tolist()])
    return tails, 2 * ULPS * UNIT + 2.1 * moved * (np.maximum(arguments, 0.0) + 1)


def _between(tails: Bounds) -> Bounds:
    """Bounds of the masses between neighbouring points."""
    values, errors = tails
    doubts = values * errors
    differences = values[:-1] - values[1:]
    doubt = (doubts[:-1] + doubts[1:]) * (1 + 1e-9) + UNIT * np.abs(differences) + FAINT
    return np.maximum(differences - doubt, 0.0), differences + doubt


def _above(masses: _Masses, starts: Array, slack: float, spacing: float) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        gains = np.log(masses.most_p / masses.least_q) - starts + slack
    share = np.expm1(-gains) / math.expm1(-spacing) * (1 + 1e-12) + 1e-12
    right = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 1.0)
    above = np.zeros(starts.size + 1)
    above[1:] += masses.most_p * right
    above[:-1] += masses.most_p * (1 - right)
    return above * (1 + 16 * UNIT)


def _below(masses: _Masses, starts: Array, slack: float, spacing: float) -> tuple[Array, float]:
    """One offset for all; a cell with a smaller one moves its mass to the cell before, or gives it up."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gains = (np.log(masses.least_p / masses.most_q) - starts - slack) / spacing
    offsets = np.where(np.isfinite(gains), gains, -math.inf)
    offset = min(max(float(np.quantile(np.maximum(offsets, 0.0), _COMMON)), 0.0), 1.0)
    below = np.where(offsets >= offset, masses.least_p, 0.0)
    moved = np.flatnonzero((offsets < offset) & (offsets + 1 >= offset))
    moved = moved[moved > 0]
    below[moved - 1] += masses.least_p[moved]
    return below * (1 - 16 * UNIT), offset
