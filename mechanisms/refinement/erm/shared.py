"""What the families of empirical risks share: neighbours, balls, tolerances, and the least risk in a ball.

    L(theta) = sum of loss(theta.x_i, y_i) / n + (lambda / 2) |theta|_2^2,   |x_i|_1 <= 1, |y_i| <= 1

`n` is public. Where neighbours have as many rows (replace_one, label_flip, zero_out) it is their number. Under
add_remove it is a number that was fixed beforehand, whatever the rows are, and all holds for up to `_CROWD` times as
many.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Generic, Literal, TypeAlias, TypeVar, assert_never

import numpy as np

from dpledger.decimals import round_up
from dpledger.mechanisms.numeric.grid import Floats, nearest_whole
from dpledger.mechanisms.refinement.examples import Steps
from dpledger.relations import Relation

__all__ = [
    "ABOVE",
    "ROUND",
    "Family",
    "Minimum",
    "Norm",
    "Perturbed",
    "Radius",
    "Risk",
    "Solved",
    "least_of",
    "nearest",
]

Family: TypeAlias = Literal["ridge", "logistic"]
Radius: TypeAlias = Literal["reference", "tight"]
Perturbed: TypeAlias = Literal["covariance", "output"]
Norm: TypeAlias = Literal["l1", "l2"]

Examples = TypeVar("Examples")

ABOVE = 1 + 2.0**-30
"""What is computed in doubles is raised by this, and then rounded up."""
ROUND = 2.0**-50
"""Several roundings of a double."""

_DIGITS = 9
_CROWD = 16
_MOST_ROWS = 2**26
_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum:
    """A minimiser of L(theta) + (more / 2) |theta|^2, up to a gradient that is small where it is `certified`, and its
    L."""

    theta: Floats
    risk: float
    more: float
    certified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """A problem on examples. `statistic`: what a chain publishes, in whole steps of 2^-power, by that power;
    `hypothesis`: of what was published; `excess`: its excess risk; `mistakes`: on how many rows it errs, None where a
    hypothesis is no classifier."""

    certified: bool
    statistic: Callable[[int], Steps]
    hypothesis: Callable[[Floats], Floats]
    excess: Callable[[Floats], float]
    mistakes: Callable[[Floats], int] | None


@dataclass(frozen=True, kw_only=True)
class Risk(ABC, Generic[Examples]):
    """A family's risk. `rows` is n; `perturbed`: what a chain publishes of it, with sensitivities in `norm`."""

    rows: int
    dimension: int
    regularisation: Decimal
    radius: Radius
    relation: Relation = Relation.REPLACE_ONE
    perturbed: Perturbed = "output"
    norm: Norm = "l1"

    family: ClassVar[Family]
    signs: ClassVar[bool]

    @property
    def weight(self) -> float:
        """lambda, as a double."""
        return float(self.regularisation)

    @property
    def shares(self) -> int:
        """Rows that one unit takes part with, before and after: 2 where its row is replaced by another one, 1 where the
        row comes or goes, or becomes a null row."""
        match self.relation:
            case Relation.REPLACE_ONE | Relation.LABEL_FLIP:
                return 2
            case Relation.ADD_REMOVE | Relation.ZERO_OUT:
                return 1
            case _:
                assert_never(self.relation)

    @property
    def only_labels(self) -> bool:
        """Whether neighbours have the same features, and differ in a label."""
        return self.relation is Relation.LABEL_FLIP

    @property
    def counts_are_public(self) -> bool:
        """Whether neighbours have equally many rows, n."""
        return self.relation is not Relation.ADD_REMOVE

    @property
    def most_rows(self) -> int:
        """There may be so many: a run on more publishes nothing."""
        return self.rows if self.counts_are_public else max(self.rows, min(_CROWD * self.rows, _MOST_ROWS))

    @property
    def crowd(self) -> float:
        """That, over n."""
        return self.most_rows / self.rows

    @property
    def reach(self) -> float:
        """The radius of a ball around 0 that holds the minimiser, for at most `most_rows` rows."""
        return self.ball * math.sqrt(self.crowd)

    @property
    @abstractmethod
    def entries(self) -> int:
        """Of the statistic."""

    @property
    @abstractmethod
    def ball(self) -> float:
        """The radius of the ball around 0 that holds the minimiser of n rows, on which every hypothesis is
        projected."""

    @property
    @abstractmethod
    def largest_loss(self) -> float:
        """Of any example at any hypothesis of the ball; the least one is 0 or more."""

    @property
    @abstractmethod
    def largest_entry(self) -> float:
        """Of the statistic, at most."""

    @property
    @abstractmethod
    def blur(self) -> float:
        """How far rounding moves the norm of a gradient, at most."""

    @property
    @abstractmethod
    def error(self) -> float:
        """How far rounding moves a computed risk, at most."""

    @property
    @abstractmethod
    def slope(self) -> float:
        """The norm of the gradient of an example's loss at a minimiser, at most."""

    @property
    @abstractmethod
    def flipped_range(self) -> float:
        """What one label changes a row's loss by lies, over the ball, in an interval of this length."""

    @property
    @abstractmethod
    def flipped_slope(self) -> float:
        """How far one label moves the gradient of a row's loss, at most, at any hypothesis."""

    @property
    @abstractmethod
    def curvature(self) -> float:
        """The largest eigenvalue of the Hessian of a loss, at most."""

    @property
    @abstractmethod
    def ideal(self) -> float:
        """How far one unit moves the statistic, in its norm, for a solver that makes no error."""

    @property
    @abstractmethod
    def why(self) -> str:
        """One line that says why that is so."""

    @abstractmethod
    def examples(self, features: Steps, labels: Steps) -> Examples:
        """What the risk depends on, of examples in steps."""

    @abstractmethod
    def risk(self, theta: Floats, examples: Examples) -> float:
        """L(theta), within `error`."""

    @abstractmethod
    def minimum(self, examples: Examples, radius: float | None = None) -> Minimum:
        """The minimiser of L; in the ball of a `radius` around 0, with the `more` that pulls it there. In a number of
        steps that is fixed by what is public: how long it takes tells of no row."""

    @abstractmethod
    def statistic(self, examples: Examples, minimum: Minimum, power: int) -> Steps:
        """The statistic in whole steps of 2^-power."""

    @abstractmethod
    def hypothesis(self, noisy: Floats, examples: Examples) -> Floats:
        """From a noisy statistic, and of the examples what is the same for all neighbours: post-processing."""

    def mistakes(self, examples: Examples) -> Callable[[Floats], int] | None:  # noqa: ARG002
        """On how many rows a hypothesis errs; None where it is no classifier."""
        return None

    @cached_property
    def moved(self) -> Decimal:
        """How far one unit moves the statistic, in its norm: exactly, for sums of rows; else with the solver's error on
        either side.

        Claim: for what a solver returns, |theta~(D) - theta~(D')|_2 <= shares slope / (n lambda) + 2 tolerance /
        lambda, as the risk is lambda-strongly convex; `flipped_slope` instead of shares slope where one label differs;
        sqrt(p) times that in the l1 norm. Source:
        docs/proofs/accuracy_first.md, section 2."""
        if self.perturbed == "covariance":
            return round_up(Fraction(self.ideal))
        far = 2 * self.tolerance / self.weight * self.spread
        return round_up((self.ideal + far) * ABOVE, digits=_DIGITS)

    @property
    def spread(self) -> float:
        """How much longer a vector of the dimension may be in the norm than in the l2 norm."""
        return math.sqrt(self.dimension) if self.norm == "l1" else 1.0

    @property
    def tolerance(self) -> float:
        """The norm of the true gradient at a certified minimum, at most: 10^-3 / n and the rounding errors."""
        return (1e-3 / self.rows + 2 * self.blur) * ABOVE

    @property
    def solved_to(self) -> float:
        """The computed norm at which a solver may stop: with `blur` below `tolerance`."""
        return 1e-3 / self.rows + self.blur

    @property
    def off(self) -> float:
        """How far a computed excess risk is from the true one, at most."""
        gap = 0.0 if self.counts_are_public else 6 * self.error
        return 2 * self.error + gap + self.tolerance**2 / (2 * self.weight)

    @cached_property
    def query_moved(self) -> Decimal:
        """How far one unit moves the computed excess risk of a published hypothesis, at most.

        Claim: with R the largest loss, |excess(D) - excess(D')| <= shares R / n: what one row adds to the risk of a
        fixed hypothesis of the ball, and to the least risk in the ball, lies in one interval of length R / n; what one
        label does, in one of `flipped_range` / n. What is computed is off by at most `off`, on either side. Source:
        docs/proofs/accuracy_first.md, section 3."""
        moved = (self.flipped_range if self.only_labels else self.shares * self.largest_loss) / self.rows
        return round_up((moved + 2 * self.off) * ABOVE, digits=_DIGITS)

    def solved(self, features: Steps, labels: Steps) -> Solved:
        """The problem on examples in steps; of more rows than there may be, on the first of them, and not certified."""
        most = self.most_rows
        examples = self.examples(features[:most], labels[:most])
        found = self.minimum(examples)
        least = self._least_in_ball(examples, found)
        return Solved(
            certified=found.certified and least is not None and len(features) <= most,
            statistic=lambda power: self.statistic(examples, found, power),
            hypothesis=lambda noisy: self.hypothesis(noisy, examples),
            excess=lambda theta: self.risk(theta, examples) - (least or 0.0),
            mistakes=self.mistakes(examples),
        )

    def _least_in_ball(self, examples: Examples, found: Minimum) -> float | None:
        """The least risk of a hypothesis of the ball; None where that is not certified.

        Claim: within `off` less one `error`. As many rows as n have their minimiser in the ball. Else, for every
        more >= 0, the least of L + more (|theta|^2 - ball^2) / 2 is a lower bound of it, and L at a point of the ball
        an upper one. Source: docs/proofs/accuracy_first.md, section 3."""
        if self.counts_are_public:
            return found.risk
        outer = self.minimum(examples, self.ball)
        length = float((outer.theta**2).sum())
        inner = self.risk(self.projected(outer.theta), examples)
        gap = inner - outer.risk - outer.more / 2 * (length - self.ball**2)
        return inner if outer.certified and gap <= 4 * self.error else None

    def projected(self, theta: Floats) -> Floats:
        """The nearest point of the ball."""
        norm = float(np.sqrt((theta**2).sum()))
        return theta if norm <= self.ball else theta * (self.ball / norm)

    @property
    def of_minimum(self) -> float:
        """The norm of what a solver returns, at most."""
        return self.reach + self.tolerance / self.weight

    @property
    def of_output(self) -> float:
        """How far one unit moves the minimiser, in the norm."""
        gradients = self.flipped_slope if self.only_labels else self.shares * self.slope
        return gradients / (self.rows * self.weight) * self.spread


def least_of(matrix: Floats, vector: Floats, radius: float | None) -> tuple[Floats, float]:
    """Where theta.M theta / 2 - v.theta is least, in the ball of a radius if one is given, and the multiple of the
    identity that M needs for that. Always in as many steps."""
    size, more = len(vector), 0.0
    if radius is not None:
        values, vectors = np.linalg.eigh(matrix)
        parts = vectors.T @ vector
        low, high = 0.0, float(np.sqrt((vector**2).sum())) / radius
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_far = float(((parts / (values + middle)) ** 2).sum()) > radius**2
            low, high = (middle, high) if is_far else (low, middle)
        more = high if float(((parts / values) ** 2).sum()) > radius**2 else 0.0
    theta: Floats = np.linalg.solve(matrix + more * np.eye(size), vector).astype(np.float64)
    return theta, more


def nearest(theta: Floats, power: int) -> Steps:
    """A vector in whole steps of 2^-power."""
    whole: Steps = nearest_whole(theta * 2.0**power).astype(np.int64)
    return whole
