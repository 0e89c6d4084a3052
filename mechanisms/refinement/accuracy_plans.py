"""What an accuracy-first release needs: the check that keeps its promise, the levels it walks through, and what the
same accuracy would take by a utility theorem alone.

Nothing here certifies privacy. The check is AboveThreshold on the negated excess risk with threshold -s, noise of scale
Delta / (share epsilon) on the threshold and 2 Delta / ((1 - share) epsilon) on each query; `calibrated` chooses s,
epsilon and share so that with probability at least 1 - beta no hypothesis worse than alpha is accepted, and -s plus
noise is below 0.

>>> f"{calibrated(moved=1, alpha=1, beta=0.1, levels=120).epsilon:.2f}"
'30.69'
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Literal, TypeAlias, assert_never

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.decimals import INFINITY, text
from dpledger.mechanisms.refinement.erm import Family, Logistic, Problem, Ridge

__all__ = ["AccuracyPlan", "Calibrated", "Theory", "calibrated", "crossing", "theories", "theory_deviation"]

Theory: TypeAlias = Literal["published", "derived", "smooth"]

_HALF = np.array(  # nodes and weights of Gauss-Legendre, on panels of at most a scale of noise
    [
        [0.12523340851146892, 0.3678314989981802, 0.5873179542866175],
        [0.7699026741943047, 0.9041172563704749, 0.9815606342467193],
        [0.24914704581340279, 0.23349253653835481, 0.20316742672306592],
        [0.16007832854334623, 0.10693932599531843, 0.04717533638651183],
    ]
).reshape(2, 6)  # Abramowitz-Stegun, table 25.4
_POINTS, _SHARES = np.append(-_HALF[0, ::-1], _HALF[0]), np.append(_HALF[1, ::-1], _HALF[1])
_REACH = 60.0  # scales of noise, beyond which all mass counts as missing: e^-60 of beta


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The check: `slack` is s, minus the threshold; `epsilon` what it costs when it halts, and `share` the hundredths
    of it that the threshold gets. `ratio`: alpha in scales of the threshold's noise; `missed`: the part of beta with
    which some query may pass wrongly."""

    slack: float
    epsilon: float
    share: int
    ratio: float
    missed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyPlan:
    """How an accuracy-first release will run, before it does. `least`, `most`: the numbers of its coarsest and finest
    level, each a `measure`; `least_epsilon`, `most_epsilon` what these cost as an epsilon, infinite for Gaussian noise
    without a boundary. `claim`: of levels and check together, `cap` its epsilon. `theory`: the level at which each
    utility theorem promises the same excess in expectation, by its name."""

    family: Family
    levels: int
    target_excess_risk: Decimal | None
    target_error_rate: Decimal | None
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


def calibrated(*, moved: float, alpha: float, beta: float, levels: int) -> Calibrated:
    """The cheapest check for queries of sensitivity `moved`, among at most `levels` hypotheses.

    Claim: P(some query with excess above alpha passes) + P(s + threshold noise <= 0) <= beta, with Laplace noise.
    Source: docs/proofs/accuracy_first.md, section 4."""
    ratio, slack, share = _least_ratio(beta, levels)
    return Calibrated(
        slack=alpha / ratio * slack,
        epsilon=moved / alpha * ratio * 100 / share,
        share=share,
        ratio=ratio,
        missed=beta - scalars.exp(-slack) / 2,
    )


@functools.lru_cache(maxsize=64)
def _least_ratio(beta: float, levels: int) -> tuple[float, float, int]:
    """The alpha and its s, in scales of the threshold noise, and the share that keep beta at the least epsilon: what
    the threshold may miss of beta, and its share, are sought in whole hundredths: all machines find the same."""
    share, part, step = 50, 33, 16
    least, slack = _ratio(beta, levels, share, part)
    while step:
        near = ((share + step, part), (share - step, part), (share, part + step), (share, part - step))
        tried = [(*_ratio(beta, levels, *one), *one) for one in near if all(0 < number < 100 for number in one)]
        best = min(tried, key=lambda one: one[0] / one[2])
        if best[0] / best[2] < least / share:
            least, slack, share, part = best
        else:
            step //= 2
    return least, slack, share


def _ratio(beta: float, levels: int, share: int, part: int) -> tuple[float, float]:
    """The least alpha, and its s, where the threshold alone misses with `part` hundredths of beta: infinite where s
    would not be above 0. Both in scales of its noise, of which that of a query has 2 share / (1 - share)."""
    slack, scale = -scalars.log(2 * beta * part / 100), 2 * share / (100 - share)
    if slack <= 0:
        return math.inf, slack
    left, reach = scalars.log(beta * (1 - part / 100)), _REACH - scalars.log(beta)

    def above(room: float) -> float:
        return scalars.log(max(_bad_pass(room, levels, scale, reach), math.ulp(0.0))) - left

    if above(0.0) <= 0:
        return slack, slack
    low, high = 0.0, max(scale, 1.0)
    while above(high) > 0:
        low, high = high, 2 * high
    return slack + crossing(above, low, high), slack


def crossing(falling: Callable[[float], float], low: float, high: float, *, within: float = 1e-12) -> float:
    """Where a function that falls from `low` to `high` crosses zero, or less than `within` of high beyond: by false
    positions, where an end that stays twice counts half (Dowell-Jarratt 1971)."""
    at_low, at_high, last = falling(low), falling(high), 0.0
    within *= high
    while high - low > within:
        crossing = low + (high - low) * (at_low / (at_low - at_high))
        middle = min(max(crossing, low + within / 2), high - within / 2)
        value = falling(middle)
        if value > 0:
            low, at_low, at_high = middle, value, at_high / 2 if last > 0 else at_high
        else:
            high, at_high, at_low = middle, value, at_low / 2 if last < 0 else at_low
        last = value
    return high


def _bad_pass(room: float, levels: int, scale: float, reach: float) -> float:
    """The integral of Lap_1(z) (1 - (1 - F(z - room))^levels), F the distribution function of Lap_scale, room
    alpha - s: beyond the reach it counts as 1."""
    edges = sorted({-reach, 0.0, min(room, reach), reach})
    total = scalars.exp(-reach)
    for left, right in pairwise(edges):
        bounds = np.linspace(left, right, math.ceil(right - left) + 1)
        half = (bounds[1:] - bounds[:-1])[:, None] / 2
        z = (bounds[1:] + bounds[:-1])[:, None] / 2 + half * _POINTS
        x = (z - room) / scale
        far = elementary.exp(-np.abs(x)) / 2
        passes = -elementary.expm1(levels * elementary.log1p(-np.minimum(np.where(x < 0, far, 1 - far), 1 - 2.0**-53)))
        total += float((half * _SHARES * elementary.exp(-np.abs(z)) / 2 * passes).sum())
    return total


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
