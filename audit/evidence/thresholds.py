"""Lower bounds on epsilon from one fixed number of runs: events chosen on one part, exact limits on the other.

The selection part picks, for each direction, one event for the point that is reported and one event with one knot for a
claimed curve. Every look that follows is fixed by then and has its share of the error budget; the estimation part is
fresh, so each count in it is binomial and Clopper-Pearson limits hold exactly, whatever the selection did.
Statement and proof: docs/proofs/audit.md 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger import decimals
from dpledger.audit.claims import Point, Target
from dpledger.audit.events import Event
from dpledger.audit.evidence.binomial import lower_limit, tail_at_least, tail_at_most, upper_limit
from dpledger.audit.features.value import Candidates, candidates
from dpledger.audit.outcomes import Outcomes

__all__ = [
    "Direction",
    "Look",
    "PlannedLook",
    "Tally",
    "best_event",
    "look_at",
    "margin_of",
    "most_telling",
    "needed_epsilon",
    "plan_looks",
]

Scores: TypeAlias = npt.NDArray[np.float64]

RANKING_Z = 3.0  # standard deviations taken off when thousands of candidates are ranked: guards against lucky ones
BEYOND_LUCK = 4.0  # standard deviations: the best of thousands of candidates seldom gets as far without a fault
POWER = Decimal("0.9")
POWER_STEPS = (0.25, 0.5, 0.65, 0.75, 0.83, 0.89, 0.93, 0.96, 0.98, 0.99)  # of the likelier count, from above


class Direction(Enum):
    """Which side the event is likelier on."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLook:
    """One test, fixed before the estimation part is drawn. `share`: its part of the error budget. `rank`: how well it
    did in the selection part; it decides which look is drawn, and nothing else."""

    event: Event
    direction: Direction
    point: Point
    share: Fraction
    rank: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often an event happened in the estimation part."""

    left: int
    right: int
    runs_left: int
    runs_right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one test found. `likelier_lower`: a lower limit of the event's probability on the side where it is likelier;
    `rarer_upper`: an upper limit on the other. `epsilon_lower` holds at the point's delta, except with the share."""

    planned: PlannedLook
    tally: Tally
    likelier_lower: float
    rarer_upper: float
    epsilon_lower: Decimal

    @property
    def refuted(self) -> bool:
        """Whether this look refutes the point that it tests."""
        return self.epsilon_lower > self.planned.point.epsilon


def most_telling(looks: Sequence[Look]) -> Look:
    """The look whose bound is highest above the point that it tests, or least below it."""
    return max(looks, key=lambda look: decimals.subtract(look.epsilon_lower, look.planned.point.epsilon))


# ---- before the estimation part -------------------------------------------------------------------------------------


def plan_looks(left: Outcomes, right: Outcomes, target: Target, alpha: Fraction) -> tuple[PlannedLook, ...]:
    """The looks that the selection part suggests, with shares that add up to `alpha`.

    `left`, `right`: the selection part. The ranking uses approximate limits: a poor rank costs power, never validity.
    """
    sizes = len(left), len(right)
    pool = list(candidates(left, right))
    found: list[tuple[float, Event, Direction, Point]] = [
        (*best_event(pool, direction, target.point, sizes), direction, target.point) for direction in Direction
    ]
    if target.knots:
        for direction in Direction:
            ranked = [(*_best(pool, direction, knot, sizes, _margin_score), direction, knot) for knot in target.knots]
            found.append(max(ranked, key=lambda item: item[0]))
    share = alpha / len(found)
    return tuple(
        PlannedLook(event=event, direction=direction, point=point, share=share, rank=rank)
        for rank, event, direction, point in found
    )


def best_event(
    pool: Sequence[Candidates], direction: Direction, point: Point, sizes: tuple[int, int]
) -> tuple[float, Event]:
    """The event that should give the best bound; if that would not refute the claim, and another breaks it by more
    than luck explains (a rare leak, say), that one."""
    bound, event = _best(pool, direction, point, sizes, _bound_score)
    if bound > float(point.epsilon):
        return bound, event
    margin, breaking = _best(pool, direction, point, sizes, _margin_score)
    return (bound, breaking) if margin >= BEYOND_LUCK else (bound, event)


def _best(
    pool: Sequence[Candidates],
    direction: Direction,
    point: Point,
    sizes: tuple[int, int],
    score: Callable[[Scores, Scores, int, int, Point], Scores],
) -> tuple[float, Event]:
    best = -math.inf, 0, pool[0]
    for family in pool:
        likelier, rarer, n, m = family.left, family.right, *sizes
        if direction is Direction.RIGHT:
            likelier, rarer, n, m = rarer, likelier, m, n
        scores = score(likelier.astype(np.float64), rarer.astype(np.float64), n, m, point)
        top = int(np.argmax(scores))
        rank = float(scores[top]) - family.handicap
        if rank > best[0]:
            best = rank, top, family
    return best[0], best[2].event(best[1])


def _bound_score(likelier: Scores, rarer: Scores, n: int, m: int, point: Point) -> Scores:
    """About the epsilon that the event would certify at the point's delta."""
    above = _wilson(likelier, n, -RANKING_Z) - float(point.delta)
    scores = np.full(likelier.shape, -np.inf)
    useful = above > 0
    scores[useful] = np.log(above[useful]) - np.log(_wilson(rarer[useful], m, RANKING_Z))
    return scores


def _margin_score(likelier: Scores, rarer: Scores, n: int, m: int, point: Point) -> Scores:
    """By how many standard deviations the event seems to break the point."""
    growth = math.exp(min(float(point.epsilon), 300.0))
    p, q = (likelier + 0.5) / (n + 1), (rarer + 0.5) / (m + 1)
    spread = np.sqrt(p * (1 - p) / n + growth * q * (growth * (1 - q) / m))
    scores: Scores = (p - growth * q - float(point.delta)) / spread
    return scores


def margin_of(left: int, right: int, direction: Direction, point: Point, sizes: tuple[int, int]) -> float:
    """By how many standard deviations an event with these counts seems to break the point."""
    (likelier, n), (rarer, m) = (left, sizes[0]), (right, sizes[1])
    if direction is Direction.RIGHT:
        (likelier, n), (rarer, m) = (rarer, m), (likelier, n)
    return float(_margin_score(np.array([float(likelier)]), np.array([float(rarer)]), n, m, point)[0])


def _wilson(hits: Scores, runs: int, z: float) -> Scores:
    """The Wilson score limit (1927), an approximation used for ranking alone."""
    middle, square = hits / runs, z * z / runs
    limit: Scores = (middle + square / 2 + z * np.sqrt(middle * (1 - middle) / runs + square / (4 * runs))) / (
        1 + square
    )
    return limit


# ---- after it -------------------------------------------------------------------------------------------------------


def look_at(planned: PlannedLook, tally: Tally) -> Look:
    """What the estimation part says about one planned look.

    Claim: except with probability at most `planned.share` over the estimation part, the mechanism's true epsilon at the
        point's delta, on this pair of datasets, is at least `epsilon_lower`.
    Source: docs/proofs/audit.md 3. Assumes: the runs are independent, and drawn after the look was planned.
    """
    (hits, runs), (rare, rare_runs) = _by_direction(planned.direction, tally)
    alpha = decimals.float_down(decimals.round_down(planned.share / 2))
    lower, upper = lower_limit(hits, runs, alpha), upper_limit(rare, rare_runs, alpha)
    epsilon = _epsilon_of(lower, upper, planned.point.delta)
    return Look(planned=planned, tally=tally, likelier_lower=lower, rarer_upper=upper, epsilon_lower=epsilon)


def _by_direction(direction: Direction, tally: Tally) -> tuple[tuple[int, int], tuple[int, int]]:
    left, right = (tally.left, tally.runs_left), (tally.right, tally.runs_right)
    return (left, right) if direction is Direction.LEFT else (right, left)


def _epsilon_of(likelier_lower: float, rarer_upper: float, delta: Decimal) -> Decimal:
    """log((p - delta)/q), rounded down. Claim: p > e^epsilon q + delta for every epsilon below it. Source: algebra;
    two roundings of relative size 2^-53 before the logarithm and one after it are covered by the 2^-50 taken off."""
    above = likelier_lower - decimals.float_up(delta)
    if not above > rarer_upper:
        return decimals.ZERO
    epsilon = math.log(above / rarer_upper)
    return decimals.round_down(epsilon - 2.0**-50 * (1 + epsilon)) if epsilon > 1e-12 else decimals.ZERO


def needed_epsilon(look: Look) -> Decimal | None:
    """The least true epsilon that this look would have refuted with probability 0.9, had its event kept the
    probability that was measured on the side where it is likelier. None: no epsilon, with so few runs.

    Claim: if P(S) is the measured share and Q(S) = (P(S) - delta)/e^result, then the look refutes its point with
        probability at least 0.9 over the estimation part.
    Source: docs/proofs/audit.md 5 (exact binomial probabilities, summed over steps of the likelier count).
    """
    (hits, runs), (_, rare_runs) = _by_direction(look.planned.direction, look.tally)
    share, delta = hits / runs, decimals.float_up(look.planned.point.delta)
    steps = _refuting(look.planned, hits, runs, rare_runs)
    if sum(weight for weight, _ in steps) <= float(POWER) or share <= delta:
        return None
    low, high = 0.0, share - delta
    for _ in range(60):
        middle = math.sqrt(low * high) if low > 0 else high / 64
        if sum(weight * _chance_at_most(most, rare_runs, middle) for weight, most in steps) >= float(POWER):
            low = middle
        else:
            high = middle
        if high - low <= 1e-6 * high:
            break
    return decimals.round_up(math.log((share - delta) / low) * (1 + 1e-12))


def _refuting(planned: PlannedLook, hits: int, runs: int, rare_runs: int) -> list[tuple[float, int]]:
    """Steps (w, y): with probability at least w each, and apart from each other, the likelier count is such that the
    look refutes its point if the rarer count is at most y."""
    alpha, point = decimals.float_down(decimals.round_down(planned.share / 2)), planned.point
    growth = math.exp(min(decimals.float_up(point.epsilon), 700.0)) * (1 + 1e-9)
    steps: list[tuple[float, int]] = []
    higher = 0.0  # probability of the counts of earlier, higher steps
    for level in POWER_STEPS:
        fewest = _fewest(hits, runs, level)
        ceiling = min((lower_limit(fewest, runs, alpha) - decimals.float_up(point.delta)) / growth, 1.0)
        if ceiling > 0 and tail_at_most(0, rare_runs, ceiling) <= alpha:
            reached = 1 - _chance_at_most(fewest - 1, runs, hits / runs)
            steps.append((reached - higher, _most(rare_runs, ceiling, alpha)))
            higher = reached
    return steps


def _fewest(hits: int, runs: int, level: float) -> int:
    """A count that is reached with probability at least `level`, at the share that was measured."""
    return _greatest(0, hits, lambda count: 1 - _chance_at_most(count - 1, runs, hits / runs) >= level)


def _most(runs: int, ceiling: float, alpha: float) -> int:
    """The largest count whose upper limit is at most `ceiling`."""
    return _greatest(0, runs - 1, lambda count: tail_at_most(count, runs, ceiling) <= alpha)


def _chance_at_most(hits: int, trials: int, probability: float) -> float:
    """P(X <= hits), to 3e-8, from whichever tail is evaluated without loss."""
    if hits < 0:
        return 0.0
    if hits >= trials * probability:
        return 1 - tail_at_least(hits + 1, trials, probability) if hits < trials else 1.0
    return tail_at_most(hits, trials, probability)


def _greatest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The greatest whole number of [low, high] for which `holds`, which is true at `low` and turns false once."""
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
