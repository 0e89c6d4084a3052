"""What an accuracy-first release needs: the check that keeps its promise, the levels it walks through, and what the
same accuracy would take by a utility theorem alone.

Nothing here certifies privacy. The check is AboveThreshold on the negated excess risk with threshold -s, noise of scale
2 Delta / epsilon on the threshold and 4 Delta / epsilon on each query; `calibrated` chooses s and epsilon so that with
probability at least 1 - beta no hypothesis worse than alpha is accepted, and -s plus noise is below 0.

>>> for way in ("paper", "closed", "union", "exact"):
...     print(way, f"{calibrated(way, moved=1, alpha=1, beta=0.1, levels=120).epsilon:.2f}")
paper 124.53
closed 40.68
union 33.78
exact 33.42
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Literal, TypeAlias, assert_never

import numpy as np

from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.decimals import INFINITY, text
from dpledger.mechanisms.refinement.erm import Family, Logistic, Problem, Ridge

__all__ = ["AccuracyPlan", "Calibrated", "Calibration", "Theory", "calibrated", "theories", "theory_deviation"]

Calibration: TypeAlias = Literal["union", "exact", "closed", "paper"]
Theory: TypeAlias = Literal["published", "derived", "smooth"]

_PANELS, _ORDER = 64, 12  # Gauss-Legendre between two kinks
_REACH = 60.0  # scales of noise, beyond which no mass is counted: e^-60
_SEARCH = 60  # halvings


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The check: `slack` is s, minus the threshold; `epsilon` what it costs when it halts."""

    slack: float
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyPlan:
    """How an accuracy-first release will run, before it does. `least`, `most`: the numbers of its coarsest and finest
    level, each a `measure`; `least_epsilon`, `most_epsilon` what these cost as an epsilon, infinite for Gaussian noise
    without a boundary. `claim`: of levels and check together, `cap` its epsilon. `theory`: the level at which each
    utility theorem promises the same excess in expectation, by its name."""

    family: Family
    levels: int
    target_excess_risk: Decimal
    beta: Decimal
    check_epsilon: Decimal
    measure: Literal["epsilon", "mu"]
    least: Decimal
    most: Decimal
    least_epsilon: Decimal
    most_epsilon: Decimal
    claim: PureDP | ApproxDP | ZCDP
    theory: tuple[tuple[Theory, float], ...]

    @property
    def cap(self) -> Decimal:
        """The epsilon of the claim: infinite, where it is a rho."""
        return INFINITY if isinstance(self.claim, ZCDP) else self.claim.epsilon

    def words(self) -> str:
        """The plan in a few sentences."""
        theory = " or ".join(f"{level:.3g} ({name})" for name, level in self.theory)
        most = f"rho {text(self.claim.rho)}" if isinstance(self.claim, ZCDP) else f"epsilon {text(self.claim.epsilon)}"
        return (
            f"Up to {self.levels} hypotheses, from {self.measure} {text(self.least)} to {text(self.most)}; "
            f"the check costs at most {text(self.check_epsilon)}. The first that passes is charged its own level and "
            f"the check, and none more than {most}. By theory alone it would take {self.measure} {theory}."
        )


def calibrated(way: Calibration, *, moved: float, alpha: float, beta: float, levels: int) -> Calibrated:
    """(s, epsilon) of the check for queries of sensitivity `moved`, among at most `levels` hypotheses.

    Claim: P(some query with excess above alpha passes) + P(s + threshold noise <= 0) <= beta, with Laplace noise.
    Source: docs/proofs/accuracy_first.md, section 4; paper: Dwork-Roth 2014, theorem 3.24; closed: the released code of
    Ligett et al. 2017, with its constant put right."""
    match way:
        case "paper":
            epsilon = 16 * moved * math.log(2 * levels / beta) / alpha
            return Calibrated(slack=alpha / 2, epsilon=epsilon)
        case "closed":
            epsilon = 8 * moved * math.log(2 * 1.5**-0.75 * math.sqrt(levels) / beta) / alpha
            noise = 2 * moved / epsilon
            slack = alpha / 4 + 0.75 * noise * math.log(1.5) - 0.5 * noise * math.log(levels)
            return Calibrated(slack=slack, epsilon=epsilon)
        case "union":
            ratio = 3 * math.log(1 / beta) + 2 * math.log(levels) + math.log(1.5)
            return Calibrated(slack=alpha / ratio * math.log(1.5 / beta), epsilon=2 * moved / alpha * ratio)
        case "exact":
            ratio, slack = _least_ratio(beta, levels)
            return Calibrated(slack=alpha / ratio * slack, epsilon=2 * moved / alpha * ratio)
        case _:
            assert_never(way)


@functools.lru_cache(maxsize=64)
def _least_ratio(beta: float, levels: int) -> tuple[float, float]:
    """The least alpha, and its s, in scales of the threshold noise, that keep beta: by bisection, from above."""
    low, high = 0.0, 3 * math.log(1 / beta) + 2 * math.log(levels) + math.log(1.5)
    slack = math.log(1.5 / beta)
    for _ in range(_SEARCH):
        middle = (low + high) / 2
        found = _best_slack(middle, beta, levels)
        if found is None:
            low = middle
        else:
            high, slack = middle, found
        if high - low <= high * 1e-7:
            break
    return high, slack


def _best_slack(alpha: float, beta: float, levels: int) -> float | None:
    """An s that keeps beta at this alpha, None where none does: the sum of the two has one minimum, sought by the
    golden section."""
    low, high = max(0.0, math.log(0.5 / beta)), alpha
    if low >= high:
        return None
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(40):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if _misses(alpha, left, levels) <= _misses(alpha, right, levels):
            high = right
        else:
            low = left
    best = (low + high) / 2
    return best if _misses(alpha, best, levels) <= beta else None


def _misses(alpha: float, slack: float, levels: int) -> float:
    """P(a bad query passes) + P(s + threshold noise <= 0), where all queries have excess alpha."""
    return _bad_pass(alpha, slack, levels) + math.exp(-slack) / 2


def _bad_pass(alpha: float, slack: float, levels: int) -> float:
    """The integral of Lap_1(z) (1 - (1 - F(slack + z - alpha))^levels), F the distribution function of Lap_2: beyond
    the reach it counts as 1."""
    kink = alpha - slack
    edges = sorted({-_REACH, 0.0, min(max(kink, -_REACH), _REACH), _REACH})
    total = math.exp(-_REACH)
    for left, right in pairwise(edges):
        bounds = np.linspace(left, right, _PANELS + 1)
        points, weights = _legendre()
        half = (bounds[1:] - bounds[:-1])[:, None] / 2
        z = (bounds[1:] + bounds[:-1])[:, None] / 2 + half * points
        x = (slack + z - alpha) / 2
        tail = np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)
        passes = -np.expm1(levels * np.log1p(-np.minimum(tail, 1 - 2.0**-53)))
        total += float((half * weights * np.exp(-np.abs(z)) / 2 * passes).sum())
    return total


@functools.cache
def _legendre() -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    points, weights = np.polynomial.legendre.leggauss(_ORDER)
    return points, weights


def theory_deviation(problem: Problem, formula: Theory, alpha: float) -> float | None:
    """The standard deviation of the noise of each entry up to which a utility theorem bounds the *expected* excess risk
    by alpha; None where the family has no such formula.

    published: of Ligett et al. 2017 (logistic: without the regulariser's own term). derived: the published bound of
    ridge's sums with the 1/2 of the loss. smooth: of a minimiser, from the Hessian. Source:
    docs/proofs/accuracy_first.md, section 5."""
    n, p, ball = problem.rows, problem.dimension, problem.ball
    if problem.perturbed == "covariance":
        matrix = 0.0 if problem.only_labels else p * ball**2 / 2
        derived = alpha * n / (math.sqrt(p) * ball + matrix)
        return {"published": derived / 2, "derived": derived}.get(formula)
    smooth = math.sqrt(2 * alpha / (p * (problem.curvature + problem.weight)))
    match problem:
        case Ridge():
            return {"smooth": smooth}.get(formula)
        case Logistic():
            return {"published": alpha / math.sqrt(p), "smooth": smooth}.get(formula)
        case _:
            assert_never(problem)


def theories(problem: Problem, alpha: float) -> tuple[tuple[Theory, float], ...]:
    """Every formula that the problem has, with the level at which it bounds the expected excess risk by alpha: the
    epsilon of Laplace noise, or the mu of Gaussian noise, by the norm of the sensitivity."""
    names: tuple[Theory, ...] = ("published", "derived", "smooth")
    found = ((name, theory_deviation(problem, name, alpha)) for name in names)
    scaled = problem.ideal * (math.sqrt(2) if problem.norm == "l1" else 1.0)
    return tuple((name, scaled / deviation) for name, deviation in found if deviation is not None)
