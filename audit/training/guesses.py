"""How rarely so many guesses of one training are right: bounds on a tail, under one claimed point and under a curve.

Each of m canaries is in the data by a fair coin; of n guesses, a number that is fixed beforehand, v are right. Under a
claim v is rarely large, and every function here bounds how rarely. All bounds are of the same number, so the smallest
holds and nothing is paid for the choice.

>>> chance_of_guesses(100, 40, 40, 1.0, 0.0) < 1e-5
True
>>> beyond_the_curve(100, 40, 40, [(1.0, 0.0)], 1e-3)
True
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from dpledger.audit.evidence.binomial import tail_at_least

__all__ = ["beyond_the_curve", "chance_of_guesses"]

ROUNDING = 1 + 1e-6  # of a bound, on the safe side


def chance_of_guesses(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """An upper bound on the probability of at least so many `right` guesses among `guesses`, where each of `canaries`
    is in by a fair coin and the training is (epsilon, delta)-DP for adding or removing one.

    Claim: at least that probability, for every way to guess whose number of guesses is fixed beforehand. Source:
        Steinke, Nasr and Jagielski 2023, theorem 5.2; of its probabilities P(v > X >= v - i) the tail P(X >= v - i) is
        taken, which is no smaller."""
    chance = 1 / (1 + math.exp(-epsilon))
    tail = tail_at_least(right, guesses, chance)
    if not delta:
        return min(1.0, tail * ROUNDING)
    apart = 0.0
    for more in range(1, right + 1):
        if 1 / more <= apart:  # a tail is at most 1
            break
        apart = max(apart, tail_at_least(right - more, guesses, chance) / more)
    return min(1.0, (tail + 2 * canaries * delta * apart) * ROUNDING)


def beyond_the_curve(
    canaries: int, guesses: int, right: int, points: Sequence[tuple[float, float]], chance: float
) -> bool:
    """Whether at least so many `right` guesses have a probability below `chance` under every training that is
    (epsilon, delta)-DP at each of the `points` at once.

    Claim: if it says so, they have. Source: Mahloujifar, Melis and Chaudhuri, "Auditing f-differential privacy in one
        run", 2024, with the convex hull of the points as its trade-off curve; docs/proofs/audit.md 10."""
    # Of P(right = t) = p_t let R_s = sum of t p_t, and W_s = sum of (guesses - t) p_t, over t >= s. The curve asks for
    # W_{s-1} >= least(R_s). What least mass lies below `right` if the chance of it is `chance`?
    least = _Envelope(canaries, points)
    hits, misses = right * chance, (guesses - right) * chance
    for count in range(right - 1, -1, -1):
        asked = max(misses, least(hits))
        hits += count / (guesses - count) * (asked - misses)
        misses = asked
        if hits + misses > guesses * ROUNDING:  # R_s + W_s is guesses * P(right >= s)
            return True
    return False


class _Envelope:
    """The largest of lines, as a function of one number: how many wrong guesses so many right ones need at least."""

    def __init__(self, canaries: int, points: Sequence[tuple[float, float]]) -> None:
        lines = {0.0: 0.0}  # the intercept of each slope
        for epsilon, delta in points:
            ratio = math.exp(min(epsilon, 600.0))
            for slope, at in ((1 / ratio, -delta / ratio), (ratio, 1 - delta - ratio)):
                lines[slope] = max(lines.get(slope, -math.inf), canaries * at)
        kept: list[tuple[float, float]] = []
        starts: list[float] = []
        for slope, at in sorted(lines.items()):
            start = -math.inf
            while kept:
                start = (kept[-1][1] - at) / (slope - kept[-1][0])
                if start > starts[-1]:
                    break
                kept.pop(), starts.pop()
                start = -math.inf
            kept.append((slope, at))
            starts.append(start)
        self._lines, self._starts = kept, starts

    def __call__(self, hits: float) -> float:
        slope, at = self._lines[bisect_right(self._starts, hits) - 1]
        return slope * hits + at
