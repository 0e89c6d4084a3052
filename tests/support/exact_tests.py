"""Statistical tests with exact tails: a sampler against its law, at a significance that a whole project can add up.

Every test is of binomial counts (how many draws fell into an event of known probability), so its p-value is exact; a
family of events is paid for by Bonferroni. Nothing is approximated by a normal or a chi-square law. Seeds are fixed by
the caller, and each sampler is tested beside a twin that is wrong by a stated amount and must be rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

__all__ = ["SIGNIFICANCE", "binomial_p_value", "cumulative_p_value", "events_p_value", "independence_p_value"]

SIGNIFICANCE = 1e-8
"""Of one statistical test. A hundred of them raise a false alarm with probability at most 10^-6."""


def binomial_p_value(successes: int, trials: int, probability: float) -> float:
    """The two-sided p-value of `successes` among `trials`: twice the smaller exact tail (at most 1)."""
    below = binom.cdf(successes, trials, probability)
    above = binom.sf(successes - 1, trials, probability)
    return float(min(1.0, 2 * min(below, above)))


def events_p_value(counts: Mapping[int, int], trials: int, probabilities: Mapping[int, float]) -> float:
    """That all events have their probabilities; the smallest p-value times the number of events. Valid whatever the
    dependence between the events."""
    smallest = min(binomial_p_value(counts.get(event, 0), trials, p) for event, p in probabilities.items())
    return min(1.0, len(probabilities) * smallest)


def cumulative_p_value(sample: npt.NDArray[Any], cdf: Callable[[int], float], points: Sequence[int]) -> float:
    """That the integers `sample` are independent draws with P(k <= point) = cdf(point), at each of `points`."""
    counts = {point: int(np.count_nonzero(sample <= point)) for point in points}
    return events_p_value(counts, sample.size, {point: cdf(point) for point in points})


def independence_p_value(sample: npt.NDArray[Any]) -> float:
    """That neighbouring draws of a symmetric law have independent signs: each two non-zero ones agree half the time.

    Pairs do not overlap, so that the count is binomial."""
    pairs = sample[: sample.size // 2 * 2].reshape(-1, 2)
    pairs = pairs[(pairs != 0).all(axis=1)]
    agreeing = int(np.count_nonzero((pairs[:, 0] > 0) == (pairs[:, 1] > 0)))
    return binomial_p_value(agreeing, len(pairs), 0.5)
