"""Ridge regression: loss (y - theta.x)^2 / 2.

A chain publishes the sums X^T X and X^T y (covariance perturbation), or the minimiser (output perturbation). Of the
matrix it publishes the upper triangle, off its diagonal twice: the entries of a row's x x^T still add up to at most 1,
and each noise off the diagonal is halved. Where labels alone are private X^T X is what it is, and only X^T y is noisy.
The eigenvalues of a noisy matrix are raised to the n lambda that the true one has at least; this is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from scipy.linalg import eigh_tridiagonal, hessenberg

from dpledger.mechanisms.numeric.grid import Floats
from dpledger.mechanisms.refinement.erm.shared import ABOVE, ROUND, Family, Minimum, Risk, least_of, nearest
from dpledger.mechanisms.refinement.examples import Steps

__all__ = ["Post", "Ridge", "RidgeSums"]

Post: TypeAlias = Literal["clipped", "reference"]

_WIDE = 2**36  # steps of a product of two entries in 1
_CHUNK = 2**16  # rows: a product of so many sums less than 2^53 steps, which doubles add exactly
_SMALL, _NARROW = 2**5, 100  # rows, of so many columns: no more, or BLAS wakes its threads, which wait for each other


@dataclass(frozen=True, slots=True, kw_only=True)
class RidgeSums:
    """X^T X and X^T y in steps of 2^-36, and the sum of y^2: exact."""

    products: Steps
    labelled: Steps
    squares: int


@dataclass(frozen=True, kw_only=True)
class Ridge(Risk[RidgeSums]):
    """Least squares. `post`: what is made of noisy sums; "reference" solves with the matrix as it is, which takes far
    more privacy for the same accuracy and is kept for comparison."""

    post: Post = "clipped"

    family: ClassVar[Family] = "ridge"
    signs: ClassVar[bool] = False

    @property
    def entries(self) -> int:
        """The upper triangle of the matrix, row by row, then the vector; or the vector or the minimiser alone."""
        if self.perturbed == "output" or self.only_labels:
            return self.dimension
        return self.dimension * (self.dimension + 3) // 2

    @property
    def ball(self) -> float:
        """1 / sqrt(lambda); tight: half of it, since lambda |theta|^2 = mean of (y - m) m <= 1/4 at the minimiser."""
        return (1.0 if self.radius == "reference" else 0.5) / math.sqrt(self.weight) * ABOVE

    @property
    def largest_loss(self) -> float:
        return (1 + self.ball) ** 2 / 2

    @property
    def flipped_range(self) -> float:
        return 4 * self.ball

    @property
    def flipped_slope(self) -> float:
        return 2.0

    @property
    def largest_entry(self) -> float:
        """A minimiser of as many rows as there may be, or their sum."""
        return self.of_minimum if self.perturbed == "output" else self.most_rows

    @property
    def blur(self) -> float:
        return (self.dimension + 16) * ROUND * (1 + 2 * self.reach) * self.crowd

    @property
    def error(self) -> float:
        """Products of matrix and vector: as many roundings as a row has entries, twice."""
        return (2 * self.dimension + 16) * ROUND * (1 + 2 * self.reach) ** 2 * self.crowd

    @property
    def slope(self) -> float:
        return 1 + self.reach

    @property
    def curvature(self) -> float:
        return 1.0

    @property
    def ideal(self) -> float:
        """Of the sums, entrywise: a row adds at most 1 to the triangle and 1 to the vector, in either norm.

        Claim: in the l2 norm sqrt(2) for a row that comes or goes, sqrt(9/2) for one that is replaced; in both norms 2
        for one whose label is, which moves the vector alone. Source: docs/proofs/accuracy_first.md, section 2."""
        if self.perturbed == "output":
            return self.of_output
        if self.only_labels:
            return 2.0
        if self.norm == "l1":
            return 2.0 * self.shares
        return math.sqrt(2.0 if self.shares == 1 else 4.5) * ABOVE

    @property
    def why(self) -> str:
        if self.perturbed == "output":
            moved = (
                "a label moves a gradient by at most 2" if self.only_labels else "a row has a gradient of at most 1 + B"
            )
            return f"strong convexity: {moved}, and solvers err by tolerance/lambda"
        if self.only_labels:
            return "rows in the l1 ball of radius 1, labels in [-1, 1]: a label moves X^T y by at most 2, and X^T X not"
        return "rows in the l1 ball of radius 1: one adds at most 1 to X^T X and 1 to X^T y, entrywise"

    def examples(self, features: Steps, labels: Steps) -> RidgeSums:
        """The sums, of examples in steps."""
        size = self.dimension
        together = _SMALL if size <= _NARROW else _CHUNK
        products, labelled, squares = np.zeros((size, size), dtype=np.int64), np.zeros(size, dtype=np.int64), 0
        for start in range(0, len(features), together):
            x = features[start : start + together].astype(np.float64)
            y = labels[start : start + together].astype(np.float64)
            products += (x.T @ x).astype(np.int64)
            labelled += (x.T @ y).astype(np.int64)
            squares += int(y @ y)
        return RidgeSums(products=products, labelled=labelled, squares=squares)

    def minimum(self, examples: RidgeSums, radius: float | None = None) -> Minimum:
        """The solution of (X^T X + n (lambda + more) I) theta = X^T y."""
        z, v = self._means(examples)
        matrix = z + self.weight * np.eye(self.dimension)
        theta, more = least_of(matrix, v, radius)
        gradient = matrix @ theta + more * theta - v
        certified = bool(float(np.sqrt((gradient**2).sum())) <= self.solved_to)
        return Minimum(theta=theta, risk=self.risk(theta, examples), more=more, certified=certified)

    def risk(self, theta: Floats, examples: RidgeSums) -> float:
        """L(theta), within `error`."""
        z, v = self._means(examples)
        squares = examples.squares / (_WIDE * self.rows)
        loss = (theta @ z @ theta - 2 * (v @ theta) + squares) / 2
        return float(loss + self.weight / 2 * (theta @ theta))

    def _means(self, sums: RidgeSums) -> tuple[Floats, Floats]:
        return sums.products / (_WIDE * self.rows), sums.labelled / (_WIDE * self.rows)

    def statistic(self, examples: RidgeSums, minimum: Minimum, power: int) -> Steps:
        """The statistic in whole steps of 2^-power."""
        if self.perturbed == "output":
            return nearest(minimum.theta, power)
        whole = examples.labelled
        if not self.only_labels:
            twice = examples.products + np.triu(examples.products, 1)
            whole = np.concatenate([twice[np.triu_indices(self.dimension)], whole])
        shift = 36 - power
        return whole << -shift if shift <= 0 else (whole + (1 << (shift - 1))) >> shift

    def hypothesis(self, noisy: Floats, examples: RidgeSums) -> Floats:
        """The noisy minimiser, or what solves the noisy sums; projected. The true matrix is looked at where it does not
        depend on what is private."""
        if self.perturbed == "output":
            return self.projected(noisy)
        size = self.dimension
        vector, floor = noisy[-size:], self.rows * self.weight
        matrix = examples.products / _WIDE if self.only_labels else _symmetric(noisy[:-size], size)
        if self.post == "reference":
            raw, *_ = np.linalg.lstsq(matrix + floor * np.eye(size), vector, rcond=None)
            return self.projected(raw.astype(np.float64))
        return self.projected(_solved_above(floor, matrix + floor * np.eye(size), vector))


def _solved_above(floor: float, matrix: Floats, vector: Floats) -> Floats:
    """What solves a symmetric system whose eigenvalues below `floor` are raised to it. By way of a matrix with three
    diagonals, which, unlike `eigh`, wakes no threads of BLAS up to `_NARROW` columns."""
    narrow, turn = hessenberg(matrix, calc_q=True)
    values, vectors = eigh_tridiagonal(np.diag(narrow), np.diag(narrow, 1))
    theta: Floats = turn @ (vectors @ ((vectors.T @ (turn.T @ vector)) / np.maximum(values, floor)))
    return theta


def _symmetric(triangle: Floats, size: int) -> Floats:
    """The matrix of an upper triangle that has twice what is off its diagonal."""
    upper: Floats = np.zeros((size, size))
    upper[np.triu_indices(size)] = triangle
    return (upper + upper.T) / 2
