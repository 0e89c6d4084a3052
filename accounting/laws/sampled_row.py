"""A sampled Gaussian at one tilt and its nodes, on one grid: all that a row of `engine.place` needs, in few passes.

The rule, the strip and the error terms are those of `sampled_grid` and `subsampled`; the sums that bound the errors are
one product of a few columns. docs/proofs/engine.md, sections 4 and 6.
"""

from __future__ import annotations

import math

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.laws.fourier import node_deviations, nodes_of_deviations, rounding_of_deviations
from dpledger.accounting.laws.law import Cumulants, Nodes
from dpledger.accounting.laws.sampled_grid import ALIAS, UNDERFLOW, geometric_tails, make_grid
from dpledger.accounting.laws.subsampled import SampledGaussianLoss
from dpledger.errors import WorkLimit

__all__ = ["sampled_row"]


def sampled_row(law: SampledGaussianLoss, c: float, step: float, count: int, work: int) -> tuple[Cumulants, Nodes]:
    """K and its derivatives at c, and log phi at the nodes, of a law without a cut: those of `law.tilted(c)`.

    Claim: as for `Tilted`. Raises WorkLimit. Source: docs/proofs/engine.md, sections 4 and 6."""
    grid = make_grid(law, c, step * (count - 1))
    if grid.x.size * count > work:
        raise WorkLimit(f"the nodes of a sampled Gaussian need more than {work} terms")
    if c > grid.from_one:
        tilted = law.tilted(c)
        return tilted.cumulants, tilted.nodes(step, count, work)
    masses, losses = grid.masses, grid.losses
    exponents = c * losses
    growth, weights = elementary.expm1(exponents), masses * elementary.exp(exponents)
    total = float(weights.sum())
    weights /= total
    mean = float(elementary.product(weights, losses))
    apart = losses - mean
    grown, sizes = masses * growth, weights * np.abs(apart)
    columns = np.array([weights, np.abs(grown), sizes])
    terms = np.array([grid.slack, grid.curve.errors, grid.squares, np.ones(losses.size)])
    of_weights, of_growth, of_sizes = (elementary.product(columns, terms.T)).tolist()
    before, after = geometric_tails(grid, law.power(c))
    tails = (float(weights[0]) + UNDERFLOW) * before + (float(weights[-1]) + UNDERFLOW) * after
    moved = abs(law.power(c)) * of_weights[0] + 8 * UNIT * (of_weights[2] + 4)
    defect = moved * (1 + 1e-6) + UNIT * (losses.size + 20) + tails
    if not defect < 0.01:
        raise WorkLimit("the quadrature of a sampled Gaussian does not resolve its integrand")
    first, last = ((2 + float(growth[end])) * float(masses[end]) + UNDERFLOW for end in (0, -1))
    missed = c * total * of_weights[0] + first * before + last * after
    value, error = _from_one(float(grown.sum()), abs(law.power(0.0)), of_growth, losses.size, missed)
    size, normal = of_sizes[3], 1.01 * (ALIAS + defect)
    weighed = abs(law.power(c)) * of_sizes[0] + 8 * UNIT * (of_sizes[2] + 4 * size) + size * normal
    displaced = of_weights[1] + 2 * UNIT * (size + abs(mean) * of_weights[3])
    t = step * np.arange(count, dtype=np.float64)
    each = np.minimum(4 * normal, t * weighed) + t * displaced + rounding_of_deviations(1.0, size, losses.size, t)
    errors = each * (1 + 1e-3) + 2.1 * (ALIAS + tails)
    deviations = node_deviations(weights, apart, step, count)
    return Cumulants(value, error, mean, float(elementary.product(weights, apart * apart))), nodes_of_deviations(
        deviations, errors
    )


def _from_one(excess: float, power: float, of_growth: list[float], points: int, missed: float) -> tuple[float, float]:
    """K from M - 1, and a bound of its error; `of_growth`: sums of what the terms of M - 1 may err by, and of these."""
    slack, _, squares, size = of_growth
    doubt = power * slack + 8 * UNIT * (squares + 4 * size) + (points + 40) * UNIT * size
    relative, value = 2 * ALIAS + (doubt + missed) / (1 + excess), scalars.log1p(excess)
    return value, 1.1 * relative + 8 * UNIT * abs(value) if relative < 0.1 else math.inf
