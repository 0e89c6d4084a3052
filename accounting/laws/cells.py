"""A continuous pair between two finite ones: cells of its loss, spread to their ends or merged into single outcomes.

Let (P, Q) have the loss l = log dP/dQ with density g under Q. For a cell [a, b] of losses, moving each l to a or b so
that e^l keeps its mean under Q gives a pair that dominates; taking the whole cell as one outcome gives one that is
dominated. Beyond the cells, P's mass is moved to +infinity above, and left out below. docs/proofs/amplification.md,
sections 1 and 2.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.finite import FinitePair
from dpledger.accounting.laws.gauss_legendre import gauss_legendre
from dpledger.errors import CannotCertify

__all__ = ["PairBracket", "bounded_range_bracket", "discrete_gaussian_bracket", "gaussian_bracket", "laplace_bracket"]

BRACKET_CELLS = 2048
FARTHEST = 16.0  # standard deviations that the cells of a Gaussian reach: beyond, a mass below 1e-56
CELL_POINTS = 16  # of the Gauss-Legendre rule, a cell
_ELLIPSE = 8.0  # of the proof of its error
_RULE = 1e-13  # relative: more than the rule's error
MOST_LATTICE = 4096  # outcomes of a discrete Gaussian on each side
LEAST_REACH = 12.0  # standard deviations, of a discrete Gaussian: beyond, a mass below 1e-31
LARGEST_LOSS = 600.0  # e^loss is taken, and summed


@dataclass(frozen=True, slots=True)
class PairBracket:
    """`above` dominates a pair; `below` is dominated by it (its masses may add up to less than 1). One object where
    the pair itself is finite."""

    above: FinitePair
    below: FinitePair


def gaussian_bracket(mu_squared: float) -> PairBracket:
    """N(mu, 1) and N(0, 1): the loss is N(-mu^2/2, mu^2) under Q.

    Claim: above dominates, below is dominated. Source: docs/proofs/amplification.md, sections 1 and 2.
    """
    mu = math.sqrt(mu_squared)
    reach = mu_squared / 2 + FARTHEST * mu
    far = FARTHEST + mu  # of Q, in standard deviations
    tail = scalars.exp(-scalars.square(FARTHEST) / 2) / FARTHEST  # Mills: P's mass beyond the two ends is below it
    cells = _cells(
        reach,
        lambda x: -scalars.square(x + mu_squared / 2) / (2 * mu_squared) - scalars.log(mu * math.sqrt(2 * math.pi)),
        slope=far / mu,
        curvature=1 / mu_squared,
        density_error=UNIT * (32 + 8 * far * far),
    )
    return cells.bracket(tail=tail)


def laplace_bracket(epsilon: float) -> PairBracket:
    """Laplace noise: atoms at the ends, e^{-(e + l)/2}/4 between them under Q.

    Claim: above dominates, below is dominated. Source: docs/proofs/amplification.md, sections 1 and 2.
    """
    cells = _cells(
        epsilon, lambda x: -(epsilon + x) / 2 - scalars.log(4), slope=0.5, density_error=UNIT * (32 + 4 * epsilon)
    )
    return cells.bracket(atom=0.5)


def bounded_range_bracket(eta: float) -> PairBracket:
    """The envelope of eta-bounded range: density e^{-(eta + x)/2} / (2 (1 - e^-eta)) under Q.

    Claim: above dominates, below is dominated. Source: Dong-Durfee-Rogers 2020, Lemma 4.2 (the envelope);
    docs/proofs/amplification.md, sections 1 and 2.
    """
    front = scalars.log(-2 * scalars.expm1(-eta))
    return _cells(eta, lambda x: -(eta + x) / 2 - front, slope=0.5, density_error=UNIT * (32 + 4 * eta)).bracket()


# ---- cells ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Cells of the loss of a pair that is its own mirror image. Under Q: `to_low`, `to_high`, what each cell sends to
    its ends; their sum is its mass. `edges` rise from -reach to reach. `error`: relative, of every mass."""

    edges: Array
    to_low: Array
    to_high: Array
    error: float

    def bracket(self, *, atom: float = 0.0, tail: float = 0.0) -> PairBracket:
        """`atom`: P's mass at the largest loss, Q's at the smallest. `tail`: at least P's mass beyond the ends."""
        return PairBracket(self._above(atom, tail), self._below(atom))

    def _above(self, atom: float, tail: float) -> FinitePair:
        right = np.zeros(self.edges.size)
        right[:-1] += self.to_low
        right[1:] += self.to_high
        right[0] += atom
        right[-1] += atom * scalars.exp(-float(self.edges[-1]))
        left = right[::-1].copy()  # the mirror image: P's mass at l is Q's at -l
        return self._pair(self.edges, left, right, tail, 4 * UNIT * np.abs(self.edges))

    def _below(self, atom: float) -> FinitePair:
        right = self.to_low + self.to_high
        left = right[::-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = elementary.log(left / right)
        middles = (self.edges[:-1] + self.edges[1:]) / 2
        losses = np.where(np.isfinite(losses) & (np.minimum(left, right) > 1e-290), losses, middles)
        usable = np.minimum(left, right) > 1e-290  # a ratio of masses that have all their digits
        losses, left, right = losses[usable], left[usable], right[usable]
        errors = 2 * self.error + 4 * UNIT * (np.abs(losses) + 1)
        if atom:
            end, rare = float(self.edges[-1]), atom * scalars.exp(-float(self.edges[-1]))
            losses = np.concatenate([[-end], losses, [end]])
            left, right = np.concatenate([[rare], left, [atom]]), np.concatenate([[atom], right, [rare]])
            errors = np.concatenate([[4 * UNIT * end], errors, [4 * UNIT * end]])
        return self._pair(losses, left, right, 0.0, errors)

    def _pair(self, losses: Array, left: Array, right: Array, tail: float, errors: Array) -> FinitePair:
        error = self.error + 8 * UNIT * (1 + float(self.edges[-1]))
        return FinitePair.of(losses, (left, right), (tail, tail), errors, error)


def _cells(
    reach: float,
    log_density: Callable[[Array], Array],
    *,
    slope: float,
    density_error: float,
    curvature: float = 0.0,
) -> _Cells:
    """Cells from -reach to reach. `slope`, `curvature`: at least |(log g)'| on them and |(log g)''|, log g being a
    polynomial of degree 2 at most; `density_error`: relative, of the computed g.

    Raises CannotCertify where the cells are too wide for the rule. Source: docs/proofs/amplification.md, section 2.
    """
    width = 2 * reach / BRACKET_CELLS
    _require_fine(width / 2, slope, curvature, reach)
    index = np.arange(BRACKET_CELLS + 1, dtype=np.float64)
    edges = reach * (2 * index / BRACKET_CELLS - 1)
    nodes, weights = gauss_legendre(CELL_POINTS)
    above, below = (1 + nodes) * (width / 2), (1 - nodes) * (width / 2)  # distances to the two ends
    points = np.add.outer((edges[:-1] + edges[1:]) / 2, nodes * (width / 2))
    density = elementary.exp(log_density(points)) * (weights * (width / 2))
    whole = scalars.expm1(width)
    to_high = elementary.product(density, elementary.expm1(above) / whole)
    to_low = elementary.product(density, elementary.exp(above) * elementary.expm1(below) / whole)
    return _Cells(edges, to_low, to_high, _RULE + density_error + 64 * UNIT)


def _require_fine(half: float, slope: float, curvature: float, reach: float) -> None:
    """The rule's relative error is below `_RULE`: Trefethen 2013, Theorem 19.3, on the ellipse of parameter 8."""
    stretch = 6 * half  # from any point of a cell to any point of its ellipse
    growth = (
        (slope + 1) * stretch + curvature * stretch * stretch + scalars.log(4 * (1 + half) / -scalars.expm1(-2 * half))
    )
    growth += 2 * slope * half  # the least of g on the cell, beside the value at one point
    log_error = scalars.log(64 / 15 * 64 / 63) - 2 * (CELL_POINTS - 1) * scalars.log(_ELLIPSE) + growth
    if reach > LARGEST_LOSS or not log_error < scalars.log(_RULE):
        raise CannotCertify("losses this large on a secret batch have no certified bound here")


# ---- the integers ---------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def discrete_gaussian_bracket(sigma: float, shift: int) -> PairBracket:
    """Gaussian noise on the integers around `shift` and around 0: outcome by outcome, the far ones moved or left out.

    Claim: above dominates, below is dominated. Source: Canonne-Kamath-Steinke 2020 (the law);
    docs/proofs/amplification.md, section 2. Raises CannotCertify where the outcomes are too many.
    """
    reach = min(math.ceil(38.5 * sigma), MOST_LATTICE)
    if reach < LEAST_REACH * sigma or shift > MOST_LATTICE:
        raise CannotCertify(f"discrete_gaussian on a secret batch is certified up to a sigma of {MOST_LATTICE // 12}")
    x = np.arange(-reach, reach + shift + 1, dtype=np.float64)
    log_right = -(x * x) / (2 * sigma * sigma)
    falling = (reach + 1) / (sigma * sigma)
    log_next = -scalars.square(reach + 1) / (2 * sigma * sigma)
    rest = scalars.exp(log_next) / -scalars.expm1(-falling)
    whole = float(np.sum(elementary.exp(log_right)))
    right = elementary.exp(log_right) / whole
    left = right[::-1].copy()
    losses = (2 * x - shift) * shift / (2 * sigma * sigma)
    errors = 8 * UNIT * np.abs(losses)
    tail = 2 * rest / whole * (1 + 1e-9) + 1e-300
    error = UNIT * (x.size + 64 + 8 * 38.5**2) + 2 * rest / whole

    return PairBracket(
        *(FinitePair.of(losses, (left, right), (beyond, beyond), errors, error) for beyond in (tail, 0.0))
    )
