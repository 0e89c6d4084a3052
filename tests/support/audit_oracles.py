"""Oracles for the audit room that share no code with it, and auditors that are wrong on purpose."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt

Rng = np.random.Generator
Sampler = Callable[[float, int, Rng], npt.NDArray[Any]]


def exact_pmf(hits: int, trials: int, p: Fraction) -> Fraction:
    """P(X = hits), X binomial(trials, p), as a fraction."""
    return math.comb(trials, hits) * p**hits * (1 - p) ** (trials - hits)


def exact_tail(hits: int, trials: int, p: Fraction) -> Fraction:
    """P(X >= hits) as a fraction."""
    return sum((exact_pmf(k, trials, p) for k in range(hits, trials + 1)), Fraction(0))


def fifty_digit_tail(hits: int, trials: int, p: float) -> mpmath.mpf:
    """P(X >= hits) at 50 digits: gamma functions for the first term, then term by term until nothing is added."""
    with mpmath.workdps(50):
        yes, no = mpmath.mpf(p), 1 - mpmath.mpf(p)
        ways = mpmath.loggamma(trials + 1) - mpmath.loggamma(hits + 1) - mpmath.loggamma(trials - hits + 1)
        term = total = mpmath.exp(ways + hits * mpmath.log(yes) + (trials - hits) * mpmath.log(no))
        for place in range(hits, trials):
            term = term * (trials - place) * yes / ((place + 1) * no)
            total += term
            if term < total * mpmath.mpf(10) ** -20:
                break
        return total


def outcomes_of_two(trials: int, p: Fraction, q: Fraction) -> Iterator[tuple[int, int, Fraction]]:
    """Every pair of counts of `trials` coins on each side, with its exact probability."""
    left = [exact_pmf(k, trials, p) for k in range(trials + 1)]
    right = [exact_pmf(k, trials, q) for k in range(trials + 1)]
    for x, first in enumerate(left):
        for y, second in enumerate(right):
            yield x, y, first * second


def at_most_so_often(alarms: int, audits: int, rate: float) -> float:
    """The probability of seeing at least `alarms` in `audits` if the true rate is `rate` (exact tail)."""
    if alarms == 0:
        return 1.0
    return float(exact_tail(alarms, audits, Fraction(rate)))


def normal_lower_limit(hits: int, trials: int, z: float) -> float:
    """The textbook normal limit: an auditor that must be caught under-covering."""
    share = hits / trials
    return share - z * math.sqrt(share * (1 - share) / trials)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon of a Gaussian pair at `delta`, by bisection of the formula of Balle-Wang 2018 at 40 digits."""
    with mpmath.workdps(40):
        low, high = mpmath.mpf(0), mpmath.mpf(100)
        for _ in range(150):
            middle = (low + high) / 2
            first = mpmath.ncdf(-middle / mu + mpmath.mpf(mu) / 2)
            if first - mpmath.e**middle * mpmath.ncdf(-middle / mu - mpmath.mpf(mu) / 2) > delta:
                low = middle
            else:
                high = middle
        return float(low)


# ---- mechanisms that tests run in worker processes -------------------------------------------------------------------


def unruly(data: float, rng: Rng) -> object:
    """A correct mechanism (the data is ignored) whose outputs are of every kind."""
    kind = rng.integers(8)
    match int(kind):
        case 0:
            return None
        case 1:
            return "text"
        case 2:
            raise ValueError("a message that must not be kept")
        case 3:
            return float("nan")
        case 4:
            return (1.0, 2.0)
        case 5:
            return {"b": 1, "a": {2, 3}}
        case 6:
            return -math.inf
        case _:
            return float(rng.normal())
