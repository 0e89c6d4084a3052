"""Regularised empirical risks, what one example moves in them, and hypotheses that are made of noisy statistics.

    L(theta) = mean of loss(theta, x_i, y_i) + (lambda / 2) |theta|_2^2,   |x_i|_1 <= 1, |y_i| <= 1

Ridge (loss (y - theta.x)^2 / 2) publishes the sums X^T X and X^T y: covariance perturbation. The noisy matrix is made
symmetric and its eigenvalues are raised to the n lambda that the true one has at least; this is post-processing.
Logistic (loss log(1 + e^(-y theta.x)), y = +1 or -1) publishes the minimiser: output perturbation (Chaudhuri,
Monteleoni, Sarwate 2011). Bounds hold under replace_one, with a public number of rows.

>>> ridge = Ridge(rows=100_000, dimension=77, regularisation=Decimal("0.005"), radius="reference")
>>> round(ridge.ball, 3), ridge.moved, round(float(ridge.query_moved) * 1e5, 2)
(14.142, Decimal('4'), 229.29)
>>> logistic = Logistic(rows=100_000, dimension=28, regularisation=Decimal("0.005"), radius="reference")
>>> round(float(logistic.moved), 5)
0.02119
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.decimals import round_up
from dpledger.mechanisms.numeric.grid import Floats, nearest_whole
from dpledger.mechanisms.refinement.examples import ONE, Steps

__all__ = [
    "Family",
    "Logistic",
    "LogisticExamples",
    "Minimum",
    "Problem",
    "Radius",
    "Ridge",
    "RidgeSums",
    "Solved",
    "problem",
]

Family: TypeAlias = Literal["ridge", "logistic"]
Radius: TypeAlias = Literal["reference", "tight"]

_ROUND = 2.0**-50  # several roundings of a double
_ABOVE = 1 + 2.0**-30  # what is computed in doubles is raised by this, and then rounded up
_DIGITS = 9
_WIDE = 2**36  # steps of a product of two entries in 1
_CHUNK = 2**16  # rows: a product of so many sums less than 2^53 steps, which doubles add exactly
_FEW = 2**12  # rows whose gradients are added in doubles at once
_LOSS_STEPS = 2**26
_MOST_NEWTON = 200
_LAMBERT = 0.27846454276107380  # w with w e^(1 + w) = 1, the largest m / (1 + e^m)


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum:
    """A minimiser of a risk, up to a gradient that is small where it is `certified`, and its risk."""

    theta: Floats
    risk: float
    certified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """A problem on examples. `statistic`: what a chain publishes, in whole steps of 2^-power, by that power; `excess`:
    the excess risk of a hypothesis."""

    certified: bool
    statistic: Callable[[int], Steps]
    excess: Callable[[Floats], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RidgeSums:
    """X^T X and X^T y in steps of 2^-36, and the sum of y^2: exact."""

    products: Steps
    labelled: Steps
    squares: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticExamples:
    """The rows y x, all that the risk depends on."""

    signed: Floats


@dataclass(frozen=True, kw_only=True)
class _Shared:
    rows: int
    dimension: int
    regularisation: Decimal
    radius: Radius

    @property
    def weight(self) -> float:
        """lambda, as a double."""
        return float(self.regularisation)

    @property
    def ball(self) -> float:
        """The radius of the ball around 0 that holds the minimiser, on which every hypothesis is projected."""
        raise NotImplementedError

    @property
    def largest_loss(self) -> float:
        """Of any example at any hypothesis of the ball."""
        raise NotImplementedError

    @property
    def largest_entry(self) -> float:
        """Of the statistic, at most."""
        raise NotImplementedError

    @property
    def blur(self) -> float:
        """How far rounding moves the norm of a gradient, at most."""
        raise NotImplementedError

    @property
    def error(self) -> float:
        """How far rounding moves a computed risk, at most."""
        raise NotImplementedError

    @property
    def tolerance(self) -> float:
        """The norm of the true gradient at a certified minimum, at most: 10^-3 / n and the rounding errors."""
        return (1e-3 / self.rows + 2 * self.blur) * _ABOVE

    @property
    def solved_to(self) -> float:
        """The computed norm at which a solver may stop: with `blur` below `tolerance`."""
        return 1e-3 / self.rows + self.blur

    @property
    def off(self) -> float:
        """How far a computed excess risk is from the true one, at most."""
        return 2 * self.error + self.tolerance**2 / (2 * self.weight)

    @cached_property
    def query_moved(self) -> Decimal:
        """How far one unit moves the computed excess risk of a published hypothesis, at most.

        Claim: with R the largest loss, |excess(D) - excess(D')| <= 2 R / n under replace_one: the risk of a fixed
        hypothesis moves by at most R / n, and so does the least risk, which is attained in the ball on both sides. What
        is computed is off by at most two errors of rounding and tolerance^2 / (2 lambda), on either side. Source:
        docs/proofs/accuracy_first.md, section 3."""
        return round_up((2 * self.largest_loss / self.rows + 2 * self.off) * _ABOVE, digits=_DIGITS)

    def projected(self, theta: Floats) -> Floats:
        """The nearest point of the ball."""
        norm = float(np.sqrt((theta**2).sum()))
        return theta if norm <= self.ball else theta * (self.ball / norm)


@dataclass(frozen=True, kw_only=True)
class Ridge(_Shared):
    """Least squares with covariance perturbation."""

    family: ClassVar[Family] = "ridge"
    signs: ClassVar[bool] = False
    why: ClassVar[str] = "rows in the l1 ball of radius 1: a unit moves X^T X by 2 and X^T y by 2, entrywise"

    @property
    def entries(self) -> int:
        """Of the statistic: the matrix, row by row, then the vector."""
        return self.dimension * (self.dimension + 1)

    @property
    def ball(self) -> float:
        """1 / sqrt(lambda); tight: half of it, since lambda |theta|^2 = mean of (y - m) m <= 1/4 at the minimiser."""
        return (1.0 if self.radius == "reference" else 0.5) / math.sqrt(self.weight) * _ABOVE

    @property
    def largest_loss(self) -> float:
        return (1 + self.ball) ** 2 / 2

    @property
    def largest_entry(self) -> float:
        return self.rows

    @property
    def blur(self) -> float:
        return (self.dimension + 16) * _ROUND * (1 + 2 * self.ball)

    @property
    def error(self) -> float:
        return (self.entries + 16) * _ROUND * (1 + 2 * self.ball) ** 2

    @cached_property
    def moved(self) -> Decimal:
        """How far one unit moves the statistic, in the l1 norm, under replace_one: exactly attained."""
        return Decimal(4)

    def examples(self, features: Steps, labels: Steps) -> RidgeSums:
        """The sums, of examples in steps."""
        size = self.dimension
        products, labelled, squares = np.zeros((size, size), dtype=np.int64), np.zeros(size, dtype=np.int64), 0
        for start in range(0, len(features), _CHUNK):
            x = features[start : start + _CHUNK].astype(np.float64)
            y = labels[start : start + _CHUNK].astype(np.float64)
            products += (x.T @ x).astype(np.int64)
            labelled += (x.T @ y).astype(np.int64)
            squares += int(y @ y)
        return RidgeSums(products=products, labelled=labelled, squares=squares)

    def solved(self, features: Steps, labels: Steps) -> Solved:
        """The problem on examples in steps."""
        sums = self.examples(features, labels)
        least = self.minimum(sums)
        return Solved(
            certified=least.certified,
            statistic=partial(self.statistic, sums, least),
            excess=lambda theta: self.risk(theta, sums) - least.risk,
        )

    def minimum(self, sums: RidgeSums) -> Minimum:
        """The solution of (X^T X + n lambda I) theta = X^T y."""
        z, v = self._means(sums)
        matrix = z + self.weight * np.eye(self.dimension)
        theta: Floats = np.linalg.solve(matrix, v).astype(np.float64)
        gradient = matrix @ theta - v
        certified = bool(float(np.sqrt((gradient**2).sum())) <= self.solved_to)
        return Minimum(theta=theta, risk=self.risk(theta, sums), certified=certified)

    def risk(self, theta: Floats, sums: RidgeSums) -> float:
        """L(theta), within `error`."""
        z, v = self._means(sums)
        squares = sums.squares / (_WIDE * self.rows)
        loss = (theta @ z @ theta - 2 * (v @ theta) + squares) / 2
        return float(loss + self.weight / 2 * (theta @ theta))

    def _means(self, sums: RidgeSums) -> tuple[Floats, Floats]:
        return sums.products / (_WIDE * self.rows), sums.labelled / (_WIDE * self.rows)

    def statistic(self, sums: RidgeSums, minimum: Minimum, power: int) -> Steps:  # noqa: ARG002
        """The statistic in whole steps of 2^-power."""
        whole = np.concatenate([sums.products.reshape(-1), sums.labelled])
        shift = 36 - power
        return whole << -shift if shift <= 0 else (whole + (1 << (shift - 1))) >> shift

    def hypothesis(self, noisy: Floats) -> Floats:
        """From a noisy statistic, by symmetrising, raising eigenvalues to n lambda and solving."""
        size = self.dimension
        matrix, vector = noisy[: size * size].reshape(size, size), noisy[size * size :]
        floor = self.rows * self.weight
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2 + floor * np.eye(size))
        return self.projected(vectors @ ((vectors.T @ vector) / np.maximum(values, floor)))


@dataclass(frozen=True, kw_only=True)
class Logistic(_Shared):
    """Logistic regression with output perturbation."""

    family: ClassVar[Family] = "logistic"
    signs: ClassVar[bool] = True
    why: ClassVar[str] = "strong convexity: a unit moves the minimiser by 2/(n lambda), solvers by 2 tolerance/lambda"

    @property
    def entries(self) -> int:
        """Of the statistic: the minimiser."""
        return self.dimension

    @property
    def ball(self) -> float:
        """sqrt(2 ln 2 / lambda), from L(theta) <= L(0); tight: sqrt(w / lambda), since lambda |theta|^2 is the mean of
        m / (1 + e^m) at the minimiser, at most w."""
        return math.sqrt((2 * math.log(2) if self.radius == "reference" else _LAMBERT) / self.weight) * _ABOVE

    @property
    def largest_loss(self) -> float:
        return self.ball + math.log1p(math.exp(-self.ball))

    @property
    def largest_entry(self) -> float:
        return self.ball + self.tolerance / self.weight

    @property
    def blur(self) -> float:
        depth = min(_FEW, self.rows) + self.rows / _FEW + self.dimension + 32
        return depth * _ROUND * (1 + 2 * self.ball)

    @property
    def error(self) -> float:
        return 1 / _LOSS_STEPS + (self.dimension + 32) * _ROUND * (1 + 2 * self.ball)

    @cached_property
    def moved(self) -> Decimal:
        """How far one unit moves the certified minimiser, in the l1 norm, under replace_one.

        Claim: |theta~(D) - theta~(D')|_1 <= sqrt(p) (2 / (n lambda) + 2 tolerance / lambda), as gradients of the loss
        have norm at most 1 and the risk is lambda-strongly convex. Source: docs/proofs/accuracy_first.md, section 2."""
        far = (2 / self.rows + 2 * self.tolerance) / self.weight
        return round_up(math.sqrt(self.dimension) * far * _ABOVE, digits=_DIGITS)

    def examples(self, features: Steps, labels: Steps) -> LogisticExamples:
        """The signed rows, of examples in steps."""
        return LogisticExamples(signed=features * np.sign(labels)[:, None] / ONE)

    def solved(self, features: Steps, labels: Steps) -> Solved:
        """The problem on examples in steps."""
        examples = self.examples(features, labels)
        least = self.minimum(examples)
        return Solved(
            certified=least.certified,
            statistic=partial(self.statistic, examples, least),
            excess=lambda theta: self.risk(theta, examples) - least.risk,
        )

    def minimum(self, examples: LogisticExamples) -> Minimum:
        """Newton's method with halved steps."""
        theta: Floats = np.zeros(self.dimension)
        gradient, norm = self._gradient(theta, examples)
        value = self.risk(theta, examples)
        for _ in range(_MOST_NEWTON):
            if norm <= self.solved_to:
                break
            step: Floats = np.linalg.solve(self._hessian(theta, examples), gradient).astype(np.float64)
            theta, value = self._descended(theta, value, step, examples)
            gradient, norm = self._gradient(theta, examples)
        return Minimum(theta=theta, risk=value, certified=norm <= self.solved_to)

    def _descended(self, theta: Floats, value: float, step: Floats, examples: LogisticExamples) -> tuple[Floats, float]:
        """The longest of the halved steps that does not raise the risk, up to its error."""
        length = 1.0
        while length > _ROUND:
            moved = theta - length * step
            risk = self.risk(moved, examples)
            if risk <= value + 2 * self.error:
                return moved, risk
            length /= 2
        return theta, value

    def _gradient(self, theta: Floats, examples: LogisticExamples) -> tuple[Floats, float]:
        total = np.zeros(self.dimension)
        for rows in _chunks(examples.signed, _FEW):
            total -= rows.T @ _sigmoid(-(rows @ theta))
        gradient = total / self.rows + self.weight * theta
        return gradient, float(np.sqrt((gradient**2).sum()))

    def _hessian(self, theta: Floats, examples: LogisticExamples) -> Floats:
        total = np.zeros((self.dimension, self.dimension))
        for rows in _chunks(examples.signed, _CHUNK):
            chance = _sigmoid(rows @ theta)
            total += (rows * (chance * (1 - chance))[:, None]).T @ rows
        return total / self.rows + self.weight * np.eye(self.dimension)

    def risk(self, theta: Floats, examples: LogisticExamples) -> float:
        """L(theta), within `error`: each loss is rounded to 2^-26, and whole numbers are added."""
        losses = np.logaddexp(0.0, -(examples.signed @ theta))
        loss = int(nearest_whole(losses * _LOSS_STEPS).astype(np.int64).sum()) / (_LOSS_STEPS * self.rows)
        return float(loss + self.weight / 2 * (theta @ theta))

    def statistic(self, examples: LogisticExamples, minimum: Minimum, power: int) -> Steps:  # noqa: ARG002
        """The minimiser in whole steps of 2^-power."""
        return nearest_whole(minimum.theta * 2.0**power).astype(np.int64)

    def hypothesis(self, noisy: Floats) -> Floats:
        """The noisy minimiser, projected."""
        return self.projected(noisy)


Problem: TypeAlias = Ridge | Logistic


def problem(family: Family, **public: Any) -> Problem:
    """The problem of a family."""
    return Ridge(**public) if family == "ridge" else Logistic(**public)


def _chunks(rows: Floats, size: int) -> Iterator[Floats]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _sigmoid(values: npt.NDArray[np.float64]) -> Floats:
    return np.exp(-np.logaddexp(0.0, -values))
