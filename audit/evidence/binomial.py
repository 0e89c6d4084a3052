"""Exact one-sided limits of a binomial probability (Clopper-Pearson 1934), certified in floating point.

A limit is found by bisection whose kept end always satisfies the tail inequality, evaluated by an upper bound of the
binomial tail. So the limit that is returned is on the safe side whatever the bisection does; no normal approximation
takes part. Statement and proof: docs/proofs/audit.md, sections 1 and 2.

>>> lower, upper = lower_limit(5, 10, 0.025), upper_limit(5, 10, 0.025)
>>> round(lower, 6), round(upper, 6)
(0.187086, 0.812914)
"""

from __future__ import annotations

import functools
import math

import numpy as np

from dpledger.errors import ParameterError

__all__ = ["lower_limit", "tail_at_least", "tail_at_most", "upper_limit"]

MOST_TRIALS = 10**12
SLACK = 1e-8  # relative; the tail's rounding error is below that for up to 10^12 trials (docs/proofs/audit.md 2)
LEAST_ALPHA = 1e-200
UNDERFLOW = 1e-290  # added to every tail: more than a first term that became 0
_STEPS = 200  # halvings: more than the exponents and digits of a float below 1 need
_CLOSE = 1e-13  # the bisection ends at this relative width
_BLOCK = 256  # terms of a tail that are summed at first; each further block is four times as long
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


@functools.lru_cache(maxsize=4096)
def lower_limit(hits: int, trials: int, alpha: float) -> float:
    """A lower confidence limit of the probability of an event seen `hits` times in `trials` independent runs.

    Claim: for every true probability p, the limit exceeds p with probability at most alpha.
    Source: Clopper-Pearson 1934; docs/proofs/audit.md 1.
    """
    _check(hits, trials, alpha)
    if hits == 0:
        return 0.0
    inside, outside = 0.0, hits / trials
    for _ in range(_STEPS):
        middle = _between(inside, outside)
        if tail_at_least(hits, trials, middle) <= alpha:
            inside = middle
        else:
            outside = middle
        if outside - inside <= _CLOSE * outside:
            break
    return inside


@functools.lru_cache(maxsize=4096)
def upper_limit(hits: int, trials: int, alpha: float) -> float:
    """An upper confidence limit of the probability of an event seen `hits` times in `trials` independent runs.

    Claim: for every true probability p, the limit is below p with probability at most alpha.
    Source: Clopper-Pearson 1934; docs/proofs/audit.md 1.
    """
    _check(hits, trials, alpha)
    if hits == trials:
        return 1.0
    inside, outside = 1.0, hits / trials
    for _ in range(_STEPS):
        middle = 0.5 * (inside + outside)
        if tail_at_most(hits, trials, middle) <= alpha:
            inside = middle
        else:
            outside = middle
        if inside - outside <= _CLOSE * inside:
            break
    return inside


def _check(hits: int, trials: int, alpha: float) -> None:
    if not 1 <= trials <= MOST_TRIALS:
        raise ParameterError("trials", trials, "a whole number from 1 to 10^12")
    if not 0 <= hits <= trials:
        raise ParameterError("hits", hits, f"a whole number from 0 to {trials}")
    if not LEAST_ALPHA <= alpha < 1:
        raise ParameterError("alpha", alpha, "a number in [1e-200, 1)")


def _between(low: float, high: float) -> float:
    """A point between two probabilities: the geometric mean where they differ by orders of magnitude."""
    return math.sqrt(low * high) if low > 0 and high > 4 * low else 0.5 * (low + high)


def tail_at_least(hits: int, trials: int, probability: float) -> float:
    """Claim: an upper bound on P(X >= hits) for X binomial(trials, probability), tight to 2e-8 where hits is above
    the mean (elsewhere 1). Source: docs/proofs/audit.md 2."""
    return _tail(hits, trials, probability, 1.0 - probability)


def tail_at_most(hits: int, trials: int, probability: float) -> float:
    """Claim: an upper bound on P(X <= hits) for X binomial(trials, probability), tight to 2e-8 where hits is below
    the mean (elsewhere 1). Source: docs/proofs/audit.md 2."""
    return _tail(trials - hits, trials, 1.0 - probability, probability)


def _tail(hits: int, trials: int, p: float, q: float) -> float:
    """P(X >= hits), as its first term times the sum of the products of ratios of neighbouring terms."""
    if hits <= trials * p:
        return 1.0
    if p <= 0:
        return 0.0
    log_p = math.log(p) if p < 0.5 else math.log1p(-q)
    first = math.exp(_log_term(hits, trials, p, q) if hits < trials else trials * log_p)
    total, term, start, block = 0.0, 1.0, hits, _BLOCK
    while start <= trials:
        places = np.arange(start, min(start + block, trials + 1), dtype=np.float64)
        ratios = (trials - places) * (p / q) / (places + 1.0) if q > 0 else np.zeros_like(places)
        products = term * np.concatenate([[1.0], np.cumprod(ratios)])
        total += float(products[:-1].sum())
        term, ratio = float(products[-1]), float(ratios[-1])
        start, block = start + len(places), 4 * block
        if ratio < 1 and term < 1e-12 * total * (1 - ratio):
            total += term / (1 - ratio)  # the ratios fall, so the rest is at most this geometric sum
            break
    return min(1.0, first * total * (1 + SLACK) + UNDERFLOW)


def _log_term(hits: int, trials: int, p: float, q: float) -> float:
    """log P(X = hits) for 0 < hits < trials, by Loader's saddle point form (2000), which does not cancel."""
    misses = trials - hits
    correction = _stirling_error(trials) - _stirling_error(hits) - _stirling_error(misses)
    deviance = _deviance(hits, trials * p) + _deviance(misses, trials * q)
    return correction - deviance + 0.5 * math.log(trials / (2 * math.pi * hits * misses))


def _stirling_error(n: int) -> float:
    """log n! - log(sqrt(2 pi n) (n/e)^n), to 1e-13."""
    if n < 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi)
    return sum(c / float(n) ** (2 * place + 1) for place, c in enumerate(_STIRLING))


def _deviance(seen: float, expected: float) -> float:
    """seen log(seen/expected) + expected - seen, without cancellation where they are close."""
    ratio = (seen - expected) / (seen + expected)
    if abs(ratio) >= 0.1:
        return seen * math.log(seen / expected) + expected - seen
    square, power, total = ratio * ratio, 2 * seen * ratio, (seen - expected) * ratio
    for place in range(1, 100):
        power *= square
        step = power / (2 * place + 1)
        if total + step == total:
            break
        total += step
    return total
