"""Logistic regression: loss log(1 + e^(-y theta.x)), y = +1 or -1. A chain publishes the minimiser: output perturbation
(Chaudhuri, Monteleoni, Sarwate 2011)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpledger.accounting.arithmetic import scalars
from dpledger.mechanisms.numeric.grid import Floats, nearest_whole
from dpledger.mechanisms.refinement.erm.shared import ABOVE, ROUND, Family, Minimum, Risk, least_of, nearest
from dpledger.mechanisms.refinement.examples import ONE, Steps
from dpledger.mechanisms.training.row_sums import row_sums

__all__ = ["Logistic", "LogisticExamples"]

_CHUNK = 2**16  # rows whose Hessians are added at once
_FEW = 2**12  # rows whose gradients are added in doubles at once
_LOSS_STEPS = 2**26
_NEWTON = 30  # steps: always so many; at most 15 were needed by what is hard (the tests)
_LENGTHS = 6  # of a step that are tried
_LAMBERT = 0.27846454276107380  # w with w e^(1 + w) = 1, the largest m / (1 + e^m)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticExamples:
    """The rows y x, all that the risk depends on."""

    signed: Floats


@dataclass(frozen=True, kw_only=True)
class Logistic(Risk[LogisticExamples]):
    """Classification by the sign of theta.x."""

    family: ClassVar[Family] = "logistic"
    signs: ClassVar[bool] = True

    @property
    def entries(self) -> int:
        """The minimiser."""
        return self.dimension

    @property
    def ball(self) -> float:
        """sqrt(2 ln 2 / lambda), from L(theta) <= L(0); tight: sqrt(w / lambda), since lambda |theta|^2 is the mean of
        m / (1 + e^m) at the minimiser, at most w."""
        return math.sqrt((2 * scalars.log(2.0) if self.radius == "reference" else _LAMBERT) / self.weight) * ABOVE

    @property
    def largest_loss(self) -> float:
        return self.ball + scalars.log1p(scalars.exp(-self.ball))

    @property
    def flipped_range(self) -> float:
        return 2 * self.ball

    @property
    def flipped_slope(self) -> float:
        return 1.0

    @property
    def largest_entry(self) -> float:
        return self.of_minimum

    @property
    def blur(self) -> float:
        depth = min(_FEW, self.most_rows) + self.most_rows / _FEW + self.dimension + 32
        return depth * ROUND * (1 + 2 * self.reach) * self.crowd

    @property
    def error(self) -> float:
        return (1 / _LOSS_STEPS + (self.dimension + 32) * ROUND * (1 + 2 * self.reach)) * self.crowd

    @property
    def slope(self) -> float:
        return 1.0

    @property
    def curvature(self) -> float:
        return 0.25

    @property
    def ideal(self) -> float:
        return self.of_output

    @property
    def why(self) -> str:
        moved = "a label moves a gradient by" if self.only_labels else "a row has a gradient of"
        return f"strong convexity: {moved} at most 1, and solvers err by tolerance/lambda"

    def examples(self, features: Steps, labels: Steps) -> LogisticExamples:
        """The signed rows, of examples in steps."""
        return LogisticExamples(signed=features * np.sign(labels)[:, None] / ONE)

    def minimum(self, examples: LogisticExamples, radius: float | None = None) -> Minimum:
        """Newton's method; each step has the longest of a few lengths at which the risk is least, up to its error."""
        theta, more = np.zeros(self.dimension), 0.0
        for _ in range(_NEWTON):
            hessian = self._hessian(theta, examples)
            target, more = least_of(hessian, hessian @ theta - self._gradient(theta, examples), radius)
            tried = [theta + 2.0**-halved * (target - theta) for halved in range(_LENGTHS)]
            risks = [self.risk(one, examples) for one in tried]
            theta = tried[[risk <= min(risks) + 2 * self.error for risk in risks].index(True)]
        left = self._gradient(theta, examples) + more * theta
        certified = bool(float(np.sqrt((left**2).sum())) <= self.solved_to)
        return Minimum(theta=theta, risk=self.risk(theta, examples), more=more, certified=certified)

    def _gradient(self, theta: Floats, examples: LogisticExamples) -> Floats:
        total = np.zeros(self.dimension)
        for rows in _chunks(examples.signed, _FEW):
            total -= rows.T @ _sigmoid(-(rows @ theta))
        return total / self.rows + self.weight * theta

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

    def mistakes(self, examples: LogisticExamples) -> Callable[[Floats], int]:
        """On how many rows theta.x has not the label's sign: of each row by itself, to the last bit."""

        def wrong(theta: Floats) -> int:
            return sum(int((row_sums(rows * theta) <= 0).sum()) for rows in _chunks(examples.signed, _CHUNK))

        return wrong

    def statistic(self, examples: LogisticExamples, minimum: Minimum, power: int) -> Steps:  # noqa: ARG002
        """The minimiser in whole steps of 2^-power."""
        return nearest(minimum.theta, power)

    def hypothesis(self, noisy: Floats, examples: LogisticExamples) -> Floats:  # noqa: ARG002
        """The noisy minimiser, projected."""
        return self.projected(noisy)


def _chunks(rows: Floats, size: int) -> Iterator[Floats]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _sigmoid(values: npt.NDArray[np.float64]) -> Floats:
    return np.exp(-np.logaddexp(0.0, -values))
