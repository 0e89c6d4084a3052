"""One test of a whole ex-post claim: bets on all of its strata at once, fixed on the selection part.

A bet gives each cell i of outcomes a weight a_i on the left and b_i on the right. Where the claim allows the ratio
g = e^E in the cell's stratum, weights with

    a <= l + k,   b <= m + h,   a + b/g <= l + m/g,   a/g + b <= l/g + m,

have E_P a + E_Q b <= l + m + delta (k + h) for every pair that keeps the claim. So the product of the weights of n runs
and m runs, over its largest mean, is an e-value: under the claim it is above 1/alpha with probability at most alpha.
How the weights are chosen costs power alone. Statement and proof: docs/proofs/audit.md 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpledger.audit.features.value import Counts
from dpledger.audit.outcomes import Floats
from dpledger.audit.strata import MOST_TESTED

__all__ = ["Bet", "Joint", "Weights", "bet_on", "settle"]

PRIOR = 2.0  # runs: how much of an estimate is the pooled share of its cell
ROUNDING = 2e-12  # of the logarithm of a weight, a run: what doubles may be off
SWEEPS, STEPS = 4, 40  # of the search for a bet
MOST_SPARE = 50.0  # k and h, over l and m, where the claim has no delta or a small one
UNCLAIMED = 1e300  # a ratio that no two estimated masses have
LEAST_P = 690.0  # no p-value is shown below e to the minus this
BOLDNESS = (1.0, 0.5, 0.2, 0.08)  # of the arms: what few runs suggest is bolder than the truth
LEAST_WEIGHT = 1e-290  # in place of 0
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of each cell on the two sides, as logarithms, with their cost, l + m + delta (k + h)."""

    left: tuple[float, ...]
    right: tuple[float, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class Bet:
    """A bet: several weights, bold and timid. The mean of their e-values is one."""

    arms: tuple[Weights, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """What the bet came to. `log_wealth`: the logarithm of the e-value; `share`: of the error budget."""

    log_wealth: float
    share: Fraction

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted over its strata together, at the share."""
        return self.log_wealth > -math.log(self.share) * (1 + 1e-12)

    @property
    def p_value(self) -> float:
        """At most this chance has an e-value as large, if the claim holds."""
        return math.exp(-min(max(self.log_wealth, 0.0), LEAST_P))


@dataclass(frozen=True, slots=True)
class _Search:
    """Estimated masses of the cells and the ratio that the claim allows in each, with the parameters of a bet on them:
    `tilt` the part of l in l + m = 1, and k and h."""

    p: Floats
    q: Floats
    growth: Floats
    runs: tuple[int, int]
    delta: float
    tilt: float = 0.5
    spare_left: float = 0.0
    spare_right: float = 0.0

    @property
    def cost(self) -> float:
        return 1 + self.delta * (self.spare_left + self.spare_right)

    def weights(self) -> tuple[Floats, Floats]:
        """The weights of the cells: the largest expected logarithm that the region allows."""
        (n, m), low, high, g = self.runs, self.tilt, 1 - self.tilt, self.growth
        p, q = n * self.p / (n * self.p + m * self.q), m * self.q / (n * self.p + m * self.q)
        likelier, rarer = _on_edge(p, q, g, low, high, self.spare_left)
        likelier_right, rarer_right = _on_edge(q, p, g, high, low, self.spare_right)
        on_left, on_right = p * high > g * q * low, q * low > g * p * high
        left = np.where(on_left, likelier, np.where(on_right, rarer_right, low))
        right = np.where(on_left, rarer, np.where(on_right, likelier_right, high))
        return left, right

    def growth_rate(self) -> float:
        """The expected logarithm of the e-value, by the estimates."""
        (n, m), (left, right) = self.runs, self.weights()
        with np.errstate(divide="ignore"):
            gained = n * (self.p @ np.log(left)) + m * (self.q @ np.log(right))
        return float(gained - _most(self.cost, self.runs))


def _on_edge(p: Floats, q: Floats, g: Floats, low: float, high: float, spare: float) -> tuple[Floats, Floats]:
    """The weights of cells that break the claim towards p: on a + b/g = low + high/g, with a <= low + spare."""
    with np.errstate(over="ignore"):
        free, other = (low + high / g) * p, (g * low + high) * q
        clipped = free > low + spare
        return np.where(clipped, low + spare, free), np.where(clipped, high - g * spare, other)


def bet_on(left: Counts, right: Counts, epsilons: Floats, delta: float) -> Bet:
    """The bet that the counts of a selection part suggest. `epsilons`: the claimed loss of each cell; infinite where
    nothing is claimed."""
    n, m = int(left.sum()), int(right.sum())
    pooled = (left + right + 0.5) / (n + m + 0.5 * left.size)
    p, q = ((counts + PRIOR * pooled) / (runs + PRIOR) for counts, runs in ((left, n), (right, m)))
    growth = np.where(np.isinf(epsilons), UNCLAIMED, np.exp(np.minimum(epsilons, MOST_TESTED)))
    found = _Search(p=p, q=q, growth=growth, runs=(n, m), delta=delta, tilt=n / (n + m))
    if not delta:
        found = replace(found, spare_left=MOST_SPARE, spare_right=MOST_SPARE)
    for _ in range(SWEEPS):
        found = _improved(found, lambda one, x: replace(one, tilt=x), 1e-3, 1 - 1e-3)
        if delta:
            found = _improved(found, lambda one, x: replace(one, spare_left=math.exp(x)), -15, math.log(MOST_SPARE))
            found = _improved(found, lambda one, x: replace(one, spare_right=math.exp(x)), -15, math.log(MOST_SPARE))
    return Bet(arms=tuple(_part_of(found, part) for part in BOLDNESS))


def _part_of(found: _Search, part: float) -> Weights:
    """So much of the way from no bet, a = l and b = m, to the one that was found: the region is convex, and k and h
    shrink as much."""
    sides = zip(found.weights(), (found.tilt, 1 - found.tilt), strict=True)
    left, right = (np.log(np.maximum(level + part * (side - level), LEAST_WEIGHT)) for side, level in sides)
    return Weights(tuple(left.tolist()), tuple(right.tolist()), 1 + part * (found.cost - 1))


def _improved(found: _Search, at: Callable[[_Search, float], _Search], low: float, high: float) -> _Search:
    """The best along one parameter, by golden sections; what was found before, if that is no better."""
    for _ in range(STEPS):
        first, second = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if at(found, first).growth_rate() > at(found, second).growth_rate():
            high = second
        else:
            low = first
    better = at(found, (low + high) / 2)
    return better if better.growth_rate() > found.growth_rate() else found


def _most(cost: float, runs: tuple[int, int]) -> float:
    """The logarithm of the largest product of means A^n B^m with A + B <= cost."""
    n, m = runs
    return n * math.log(cost * n / (n + m)) + m * math.log(cost * m / (n + m))


def settle(bet: Bet, left: Counts, right: Counts, share: Fraction) -> Joint:
    """What a bet comes to on the counts of an estimation part.

    Claim: if the mechanism keeps the ex-post claim on this pair, the result is refuted with probability at most `share`
        over the estimation part. Source: docs/proofs/audit.md 6 (Markov's inequality for the e-value).
    Assumes: the bet was fixed before the counted runs were drawn, and the runs are independent."""
    n, m = int(left.sum()), int(right.sum())
    gained = [
        float(left @ np.array(arm.left) + right @ np.array(arm.right)) - _most(arm.cost, (n, m)) for arm in bet.arms
    ]
    best = max(gained)
    mixed = best + math.log(sum(math.exp(one - best) for one in gained) / len(gained))
    return Joint(log_wealth=mixed - ROUNDING * (n + m), share=share)
