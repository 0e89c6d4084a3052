"""Shuffled local randomisers: the profile of the worst dataset, from above and from below.

One user's value, x0 or x1, is exchanged; each of the n - 1 others hides it. With e = exp of the local epsilon and a =
e^eps the profile is (1/n) E(X_1 + ... + X_n)_+, X_i independent copies of a loss that is e - a or 1 - a e, each with
probability p, and else

    any randomiser, at most       p = 1 / (e + 1)        0
    response on k > 2, at most    p = 1 / (e + k - 1)    1 - a with probability (k - 2) p, else 0
    the same, at least            p = 1 / (e + k - 1)    v (1 - a),  v = (k - 2) / (e + k - 3)

The last is what n - 1 users show who all hold a third value. With M ~ Bin(n, 2p) of the first kind, J ~ Bin(M, 1/2) of
them below 0, it is (e - 1)(1 + a)/n E(g - J)_+, g linear in M and in the number of those that are 1 - a.
Source: docs/proofs/amplification.md, section 5; Feldman-McMillan-Talwar 2023 (the second and third pair).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import numpy as np

from dpledger.accounting.arithmetic import elementary, scalars
from dpledger.accounting.arithmetic.floating import UNIT, Array
from dpledger.accounting.laws.cells import PairBracket
from dpledger.accounting.laws.curve import bracket_of_points
from dpledger.accounting.laws.finite import FinitePair
from dpledger.decimals import float_down, float_up
from dpledger.errors import CannotCertify

__all__ = ["agreeing_below", "likely_responses", "shuffled_bracket", "shuffled_deltas", "shuffled_pairs"]

PROFILE_POINTS = 160  # epsilons of the profile up to where delta is LEAST_DELTA
FEW_POINTS = 24  # from there to the local epsilon
LEAST_DELTA = 1e-25
LARGEST_EPSILON = 40.0  # of a local randomiser: beyond, hardly another user is expected to hide it among 10^9
LEAST_EPSILON = math.nextafter(1e-9, 0)  # 1e-9 rounded down: below, next to nobody's answer tells anything
SINGLE = 1500  # numbers M that are looked at one by one; of more, groups
MOST_RESPONSES = 2048  # outcomes of the bound from users who agree
DEVIATIONS = 16.0  # standard deviations of M
UNLISTED = 1e-35  # at least the probability of all other M
ROOTS = 7.5  # times sqrt(m): how far below m/2 the masses of J are listed
_PLACES = np.concatenate([np.arange(-16.0, -8), np.arange(-64, 65) / 8, np.arange(9.0, 17)])  # ends of groups


@functools.lru_cache(maxsize=64)
def shuffled_bracket(epsilon: float, categories: int, users: int) -> PairBracket:
    """Symmetric pairs above and below what `users` responses on `categories` values show of one user, where all others
    hold a third value.

    Claim: above also dominates every dataset of such responses, and for two categories every `epsilon`-DP randomiser,
    under replace_one; below is dominated by that dataset, for three categories and more. Source:
    docs/proofs/amplification.md, sections 5 and 8. Raises CannotCertify above LARGEST_EPSILON and
    below LEAST_EPSILON.
    """
    if epsilon > LARGEST_EPSILON:
        raise CannotCertify(f"shuffled is certified for local epsilons up to {LARGEST_EPSILON:g}, not {epsilon:g}")
    if epsilon < LEAST_EPSILON:
        raise CannotCertify(f"shuffled is certified for local epsilons from {LEAST_EPSILON:g} on, not {epsilon:g}")
    coarse = epsilon * elementary.geometric(1e-7, 1, 40)[:-1]
    near = coarse[shuffled_deltas(epsilon, categories, users, coarse)[1] > LEAST_DELTA]
    far = min(epsilon, float(near[-1]) * 1.52) if near.size else epsilon * 1e-6
    grid = np.unique(
        np.concatenate([np.linspace(0.0, far, PROFILE_POINTS), elementary.geometric(far, epsilon, FEW_POINTS)])
    )
    grid = grid[grid < epsilon * (1 - 1e-9)]
    floors, ceilings = (np.append(side, 0.0) for side in shuffled_deltas(epsilon, categories, users, grid))
    ratios = elementary.exp(np.append(grid, epsilon * (1 + 4 * UNIT)))  # to shuffle is to post-process: 0 at epsilon
    falling, most = np.minimum.accumulate(ceilings), np.maximum.accumulate(floors[::-1])[::-1]
    higher, lower = ratios * (1 + 4 * UNIT), ratios * (1 - 4 * UNIT)
    higher[0] = lower[0] = 1.0
    return bracket_of_points(higher, falling, lower, np.minimum(most, falling))


def shuffled_deltas(local: float, categories: int, users: int, epsilons: Array) -> tuple[Array, Array]:
    """Lower and upper bounds of the profile at each of `epsilons`, 0 <= epsilon < `local`; of two categories the upper
    one holds for every randomiser, and there is no lower one.

    Claim: as the module says, `local` within a relative error of UNIT. Source: module; groups of M by a martingale.
    """
    steep, ratios = scalars.expm1(local), elementary.exp(epsilons)
    whole = steep * (1 + ratios)
    rise, fall = ratios * elementary.expm1(local - epsilons) / whole, elementary.expm1(epsilons) / whole
    third = categories - 2  # the weight of all values but two, beside `steep` that of the likelier one
    shown = third / (steep + third)
    lower, upper = np.zeros(epsilons.size), np.zeros(epsilons.size)
    for first, last, mass in _groups(users, 2, steep + third, SINGLE):
        lag, slack = (0.5 - rise) * (last - first), 64 * UNIT * (users * fall + rise * last + 1)
        means = _Means.of(last, 1)
        least, share = _starts(users - last, third, steep)
        upper += mass * (
            elementary.product(share, means.at(rise * last - np.multiply.outer(least, fall) + lag + slack))
        )
        if shown:
            slope = rise + shown * fall
            at = slope * first - users * shown * fall - (0.5 - slope) * (last - first) - slack
            lower += mass * _Means.of(first, -1).at(at)
    error = 1e-8 + 64 * UNIT * (1 + local)
    scale = whole / users
    return scale * lower * (1 - error), np.minimum(1.0, scale * (1 + error) * upper + UNLISTED)


@functools.lru_cache(maxsize=4096)
def _groups(trials: int, for_it: float, against: float, single: int) -> tuple[tuple[int, int, float], ...]:
    """Groups first..last of values of Bin(trials, for_it / (for_it + against)), and their probability, within 1e-9,
    relative; up to `single` of them are each a group.

    What is not listed has a probability below UNLISTED in all: Bernstein's inequality at 16 (s + 4), s the standard
    deviation, is 2 exp(-128 (s + 4)^2 / (s^2 + 16 (s + 4)/3)) <= 2 e^{-96}, the least at s = 0.
    """
    if not for_it or not trials:
        return ((0, 0, 1.0),)
    mean = trials * (for_it / (for_it + against))
    spread = math.sqrt(mean * (against / (for_it + against))) + 4
    first, last = max(0, math.floor(mean - DEVIATIONS * spread)), min(trials, math.ceil(mean + DEVIATIONS * spread))
    masses = _shares(trials, min(trials, math.floor(mean)), first, last, for_it / against)
    edges = np.arange(first, last + 2)
    if edges.size > single + 1:
        places = mean + spread * _PLACES
        edges = np.unique(np.clip(np.concatenate([[first], np.floor(places), [last + 1]]), first, last + 1))
    sums = np.add.reduceat(masses, (edges[:-1] - first).astype(np.int64))
    ends = edges.astype(np.int64).tolist()
    return tuple((a, b - 1, mass) for a, b, mass in zip(ends[:-1], ends[1:], sums.tolist(), strict=True))


@functools.lru_cache(maxsize=2048)
def _starts(trials: int, for_it: float, against: float) -> tuple[Array, Array]:
    """The least of each group of such values, and their probabilities."""
    groups = _groups(trials, for_it, against, 0)
    return np.array([float(least) for least, _, _ in groups]), np.array([share for _, _, share in groups])


def _shares(trials: int, mode: int, first: int, last: int, odds: float) -> Array:
    """P(Bin = first..last) by ratios from the one at `mode`, as shares of their sum: within 12 UNIT a step and what is
    left out. odds = chance/(1 - chance)."""
    rising = np.arange(mode, last, dtype=np.float64)
    falling = np.arange(mode, first, -1, dtype=np.float64)
    above = np.cumprod((trials - rising) / (rising + 1) * odds)
    below = np.cumprod(falling / (trials - falling + 1) / odds)
    masses = np.concatenate([below[::-1], [1.0], above])
    shares: Array = masses / masses.sum()
    return shares


@dataclass(frozen=True, slots=True)
class _Means:
    """E(g - J)_+, J ~ Bin(m, 1/2), g <= m/2 + 1/2. With C(t) = P(J <= t) it is sum_{i < t} C(i) + (g - t) C(t), t =
    ceil(g) - 1: sums of positive terms, from `lowest` on; within 1e-9, relative."""

    lowest: int
    below: Array
    sums: Array

    @staticmethod
    @functools.lru_cache(maxsize=8)
    def of(m: int, side: Literal[1, -1]) -> _Means:
        """What is below the lowest listed is taken at a geometric series (side 1), or left out (-1)."""
        top = m // 2
        lowest = max(0, top - math.ceil(ROOTS * math.sqrt(m)) - 4)
        j = np.arange(top, lowest, -1, dtype=np.float64)
        masses = _central(m) * np.cumprod(np.append(1.0, j / (m - j + 1)))[::-1]
        ratio = lowest / (m - lowest + 1)
        rest = float(masses[0]) * ratio / (1 - ratio) if side > 0 else 0.0
        below = np.cumsum(masses) + rest
        return _Means(lowest, below, rest / (1 - ratio) + np.append(0.0, np.cumsum(below)))

    def at(self, g: Array) -> Array:
        """At each g."""
        t = np.ceil(g) - 1
        place = np.clip(t - self.lowest, 0, self.below.size - 1).astype(np.int64)
        found = self.sums[place] + (g - t) * self.below[place]
        means: Array = np.where(t >= self.lowest, found, np.where(g > 0, self.sums[0], 0.0))
        return means


def _central(m: int) -> float:
    """P(Bin(m, 1/2) = floor(m/2)), within 1e-14 and a few roundings."""
    k = (m + 1) // 2
    if k < 64:
        return math.comb(2 * k, k) / 4.0**k
    x = 1 / k
    return scalars.exp(
        -x / 8 + (scalars.square(x) * x) / 192 - (scalars.square(scalars.square(x)) * x) / 640
    ) / math.sqrt(math.pi * k)


def agreeing_below(rare: float, other: tuple[float, float], users: int) -> FinitePair:
    """What two outcomes of a randomiser show of one user, where all others hold the value that gives the second outcome
    with probability `rare`; the one user holds that value, or one whose outcomes have the probabilities `other`. Some
    counts are taken together, far ones left out.

    Claim: dominated by the shuffled outputs of a randomiser of which these are outcomes. Assumes: `rare`, at most 1/2,
    and `other` within 16 UNIT, relative. Source: docs/proofs/amplification.md, section 5.
    """
    others = users - 1
    mean, spread = others * rare, math.sqrt(others * rare * (1 - rare)) + 1
    first, last = max(0, math.floor(mean - DEVIATIONS * spread)), min(others, math.ceil(mean + DEVIATIONS * spread))
    masses = _shares(others, min(others, math.floor(mean)), first, last, rare / (1 - rare))
    none, one = np.append(masses, 0.0), np.insert(masses, 0, 0.0)  # the user's outcome is the first, the second
    starts = np.arange(0, none.size, -(-none.size // MOST_RESPONSES))
    left = np.add.reduceat((1 - rare) * none + rare * one, starts)
    right = np.add.reduceat(other[0] * none + other[1] * one, starts)
    relative = UNIT * (64 * masses.size + 256)
    seen = np.minimum(left, right) > 1e-290
    losses = elementary.log(left[seen] / right[seen])
    errors, kept = 2 * relative + 4 * UNIT * (1 + np.abs(losses)), 1 - UNLISTED - relative
    return FinitePair.of(losses, (left[seen] * kept, right[seen] * kept), (0.0, 0.0), errors, 2 * relative)


def shuffled_pairs(
    epsilon: Decimal, categories: int, users: int, below: Callable[[float, int], FinitePair]
) -> PairBracket | None:
    """Pairs above and below the shuffled answers of so many users of an epsilon-DP randomiser; None where they show
    nothing. `below`, of the local epsilon rounded down and the users: what users who agree show, whose randomiser is
    one that is meant, seen through two of its outcomes.

    Claim: above dominates; some randomiser of this description is as bad as below. Source: that of the module.
    """
    if not epsilon:
        return None
    above = shuffled_bracket(float_up(epsilon), categories, users).above
    return PairBracket(above, below(float_down(epsilon), users))


def likely_responses(rare: float, users: int) -> FinitePair:
    """Users who agree, and answer in two ways: the other way `rare` times as likely."""
    return agreeing_below(rare / (1 + rare), (rare / (1 + rare), 1 / (1 + rare)), users)
