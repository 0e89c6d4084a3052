"""Bets: the weights of cells that grow fastest by an estimate, among those that a claim allows.

The reverse information projection of an estimate (p, q) onto the pairs that keep a claim, in its dual form: maximise

    F(theta) = sum_i p_i log a_i + q_i log b_i - cost(theta)        (concave; cost = sum p + sum q at the optimum)

where a cell of ratio p/q takes the best point of the polygon that `Regions` makes of theta: a vertex, or a point of a
side. Many problems are solved at once. Any theta is a valid bet: what happens here costs power, never validity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpledger.audit.evidence.edges import Regions
from dpledger.audit.outcomes.structure import Floats

__all__ = ["Bets", "project", "weights"]

DAMPING = (1e-9, 1e-6, 1e-4, 1e-2, 0.3, 10.0)  # of the diagonal, tried in this order
ENOUGH = 1e-3  # of what the gradient promises, by which a step must raise F
ROUNDING = 1e-14  # of F
LEAST = 1e-14  # of a coordinate, of total 2
MOST_STEPS = 40
SHRINK = 0.003  # no coordinate falls below this part of itself in one step
LEAST_WEIGHT = 1e-100  # of a vertex, in place of 0
LEAST_MASS = 1e-80  # of a cell


@dataclass(frozen=True, slots=True, eq=False)
class Bets:
    """Logarithms of the weights of each cell, float64[problems, cells], divided by half the cost: exp(left + right) of
    a pair of runs is an e-value. `growth`: what the estimate expects of a pair, float64[problems]."""

    left: Floats
    right: Floats
    growth: Floats


class _Problem:
    """Problems in work: cells' masses and ratios, and the rows of the linear forms whose logarithms F sums."""

    def __init__(self, regions: Regions, p: Floats, q: Floats, strata: npt.NDArray[np.int64] | None) -> None:
        self.regions, self.p, self.q, self.strata = regions, p, q, strata
        total = self.p + self.q
        self.ratio = self.p / self.q
        self.spread = self.p * np.log(self.p / total) + self.q * np.log(self.q / total)
        a, b, s = self.regions.a, self.regions.b, self.regions.slopes[..., None]
        sides = a[:, :, :-1] + b[:, :, :-1] / s
        count = a.shape[0]
        self.rows = np.concatenate([part.reshape(count, -1, a.shape[3]) for part in (a, b, sides)], 1)

    def places(self, theta: Floats) -> npt.NDArray[np.int64]:
        """Where each cell lies: 2 v on vertex v, 2 j - 1 on the side before vertex j."""
        (a, b), s = self.vertices(theta), self.regions.slopes
        breaks = np.stack([s * a[..., :-1] / b[..., :-1], s * a[..., 1:] / b[..., 1:]], -1)
        breaks = breaks.reshape(*breaks.shape[:2], -1)
        mine = breaks if self.strata is None else breaks[np.arange(len(breaks))[:, None], self.strata]
        places: npt.NDArray[np.int64] = (self.ratio[..., None] > mine).sum(-1)
        return places

    def vertices(self, theta: Floats) -> tuple[Floats, Floats]:
        """Both weights of each vertex: float64[problems, strata, vertices]."""
        a, b = (np.einsum("csvd,cd->csv", part, theta) for part in (self.regions.a, self.regions.b))
        return np.maximum(a, LEAST_WEIGHT), np.maximum(b, LEAST_WEIGHT)

    def slopes_of(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """F, its gradient, and minus its second derivatives, at theta."""
        count, strata, edges = self.regions.slopes.shape
        kinds = strata * (2 * edges + 1)
        places = self.places(theta)
        if self.strata is not None:
            places += self.strata * (2 * edges + 1)
        flat = (places + (np.arange(count) * kinds)[:, None]).ravel()
        p, q, spread = (
            np.bincount(flat, part.ravel(), count * kinds).reshape(count, strata, 2 * edges + 1)
            for part in (self.p, self.q, self.spread)
        )
        on_sides = p[..., 1::2] + q[..., 1::2]
        mass = np.concatenate([part.reshape(count, -1) for part in (p[..., ::2], q[..., ::2], on_sides)], 1)
        value = np.maximum((self.rows @ theta[..., None])[..., 0], LEAST_WEIGHT)
        fixed = (spread[..., 1::2] + q[..., 1::2] * np.log(self.regions.slopes)).sum((1, 2))
        held = mass / value
        goal = (mass * np.log(value)).sum(1) + fixed - theta.sum(1)
        gradient = (held[:, None] @ self.rows)[:, 0] - 1
        curvature = np.swapaxes(self.rows * (held / value)[..., None], 1, 2) @ self.rows
        return goal, gradient, curvature

    def only(self, chosen: npt.NDArray[np.int64]) -> _Problem:
        strata = None if self.strata is None else self.strata[chosen]
        return _Problem(self.regions[chosen], self.p[chosen], self.q[chosen], strata)


def project(
    regions: Regions,
    p: Floats,
    q: Floats,
    *,
    runs: int,
    strata: npt.NDArray[np.int64] | None = None,
    shares: tuple[float, float] = (1.0, 1.0),
) -> Bets:
    """Bets that are nearly the best by the estimates p, q > 0: float64[problems, cells], each summing to 1.

    `runs`: a pair may grow by 0.02/runs less than it could. `strata`: of each cell, int64[problems, cells].
    `shares`: runs of a block on the left and right, divided by half their sum.
    Claim: for every pair that keeps the claim, n independent runs left and m right in the proportion of the shares have
        the mean of exp(sum of left + sum of right) <= 1. Source: docs/proofs/audit.md 5.
    """
    problem = _Problem(regions, np.maximum(p * shares[0], LEAST_MASS), np.maximum(q * shares[1], LEAST_MASS), strata)
    theta = _solved(problem, max(0.02 / runs, 1e-10))
    left, right = weights(regions, theta, problem.p, problem.q, strata)
    left, right = left - np.log(shares[0]), right - np.log(shares[1])
    growth = (problem.p * left).sum(1) + (problem.q * right).sum(1)
    idle = ~(growth > 0)
    left[idle], right[idle], growth[idle] = 0.0, 0.0, 0.0
    return Bets(left, right, growth)


def weights(
    regions: Regions, theta: Floats, p: Floats, q: Floats, strata: npt.NDArray[np.int64] | None = None
) -> tuple[Floats, Floats]:
    """Logarithms of the weights that theta gives to each cell, less the logarithm of half the cost.

    Claim: E_P a + E_Q b <= 2 for every pair that keeps the claim, whatever theta >= 0, p, q > 0 are."""
    problem = _Problem(regions, p, q, strata)
    places = problem.places(theta)
    (a, b), s = problem.vertices(theta), regions.slopes
    rows, group = np.arange(len(theta))[:, None], 0 if strata is None else strata
    after = (places + 1) // 2  # the vertex itself, or the one that the side ends in
    at_a, at_b = a[rows, group, after], b[rows, group, after]
    before = np.maximum(after - 1, 0)
    slope = s[rows, group, np.minimum(before, s.shape[2] - 1)]
    reach = a[rows, group, before] + b[rows, group, before] / slope
    on_side, part, other = places % 2 == 1, p / (p + q), q / (p + q)
    left = np.log(np.where(on_side, reach * part, at_a))
    right = np.log(np.where(on_side, slope * reach * other, at_b))
    half = np.log(theta.sum(1) / 2)[:, None]
    return left - half, right - half


def _solved(problem: _Problem, tolerance: float) -> Floats:
    """Newton's method with damping, of all problems at once; those that are done leave."""
    count, size = problem.p.shape[0], problem.regions.a.shape[3]
    result = np.full((count, size), 2.0 / size)
    left, theta = np.arange(count), result.copy()
    level = np.zeros(count, dtype=np.int64)
    goal, gradient, curvature = problem.slopes_of(theta)
    for _ in range(MOST_STEPS):
        gap = 2 * gradient.max(1) - (gradient * theta).sum(1)
        going = gap > tolerance
        if not going.all():
            result[left] = theta
            kept = np.flatnonzero(going)
            if not kept.size:
                return result
            left, theta, level, gap = left[kept], theta[kept], level[kept], gap[kept]
            goal, gradient, curvature = goal[kept], gradient[kept], curvature[kept]
            problem = problem.only(kept)
        tried = _step(theta, gradient, curvature, level)
        new = problem.slopes_of(tried)
        promised = (gradient * (tried - theta)).sum(1)
        better = (new[0] >= goal + ENOUGH * promised - ROUNDING) | (level == len(DAMPING))
        theta = np.where(better[:, None], tried, theta)
        goal, gradient = np.where(better, new[0], goal), np.where(better[:, None], new[1], gradient)
        curvature = np.where(better[:, None, None], new[2], curvature)
        level = np.where(better, np.maximum(np.minimum(level, len(DAMPING) - 1) - 2, 0), level + 1)
    result[left] = theta
    return result


def _step(theta: Floats, gradient: Floats, curvature: Floats, level: npt.NDArray[np.int64]) -> Floats:
    """One damped Newton step each, in units of the coordinates themselves, so that none falls below 0; where every
    damping has failed, a multiplicative step, which never lowers F."""
    pull = theta * gradient
    system = theta[:, :, None] * curvature * theta[:, None, :]
    diagonal = np.einsum("cdd->cd", system)
    damping = np.array([*DAMPING, 1.0])[level][:, None]
    extra = damping * diagonal + np.maximum(-pull, 0) + 1e-14 * diagonal.max(1)[:, None]
    system = system + extra[:, :, None] * np.eye(theta.shape[1])
    factor = np.maximum(1 + np.linalg.solve(system, pull[..., None])[..., 0], SHRINK)
    gone = level == len(DAMPING)
    moved: Floats = theta * np.where(gone[:, None], 1 + gradient, factor)
    scaled: Floats = np.maximum(moved * (2 / moved.sum(1))[:, None], LEAST)  # F is largest along a ray at this cost
    return scaled
