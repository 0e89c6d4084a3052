"""How many records a learner needs, and how accurate it is with those it has: proved, for any distribution.

A sample size is asked both ways: `needed(accuracy, failure)` and `accuracy(samples, failure)`, where with probability
at least 1 - failure the learner's error is at most the best of its class plus that accuracy. A class of VC dimension V
gives

    Realizable  2 S(V, 2N) 2^(-aN/2) <= b and N >= 8/a    any consistent learner         Blumer et al. 1989
    Agnostic    4 S(V, 2N) exp(-N a^2/32) <= b            empirical risk minimisation    Vapnik-Chervonenkis 1971

with S(V, N) the sum of the binomials C(N, i), i <= V (Sauer's lemma), in logarithms. What a caller knows better is a
function of (accuracy, failure): `FromFunction`.

>>> from decimal import Decimal
>>> Realizable(1).needed(Decimal("0.1"), Decimal("0.05"))
291
>>> Agnostic(3).needed(Decimal("0.2"), Decimal("0.05"))
28341
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np

from dpledger.accounting.arithmetic import outward, scalars
from dpledger.decimals import ZERO, add, multiply, round_up, whole
from dpledger.errors import InfeasiblePlan, ParameterError

__all__ = ["Agnostic", "FromFunction", "LearnerSize", "Realizable", "log_sauer"]

MOST_DIMENSION = 10**7
MOST_SAMPLES = 10**18
SEARCH = 60  # halvings of an accuracy
ONE = Decimal(1)
TWO = Decimal(2)
HALF = Decimal("0.5")


@runtime_checkable
class LearnerSize(Protocol):
    """What a learner needs, both ways round; an accuracy of 1 takes no record."""

    def needed(self, accuracy: Decimal, failure: Decimal) -> int: ...

    def accuracy(self, samples: int, failure: Decimal) -> Decimal: ...


@lru_cache(maxsize=4096)
def log_sauer(dimension: int, points: int) -> Decimal:
    """log of the sum of C(points, i) for i <= dimension, from above: how many labellings of so many points a class of
    that VC dimension has at most.

    Claim: at least that logarithm, where 2 dimension < points by at most 2e-11 of it and 1e-12, else by at most log 2.
    Source: Sauer 1972; docs/proofs/stability_utility.md, "Sample sizes"."""
    with localcontext(outward.context(Decimal(points))):
        if 2 * dimension >= points:
            return outward.above(points * outward.ln(TWO))
        ways = outward.ln_factorial(points) - outward.ln_factorial(dimension)
        largest = ways - outward.ln_factorial(points - dimension)
        return outward.above(largest + outward.ln(Decimal.from_float(_falling(dimension, points))))


def _falling(dimension: int, points: int) -> float:
    """The sum over i <= dimension of C(points, i)/C(points, dimension), from above: the ratios of neighbours fall with
    i, and are below 1."""
    first = dimension / (points - dimension + 1)
    terms = min(dimension, math.ceil(50 / -scalars.log(first)) + 1) if dimension else 0
    places = dimension - np.arange(terms, dtype=np.float64)
    products = np.cumprod(places / (points - places + 1))
    rest = float(products[-1]) * first / (1 - first) if terms < dimension else 0.0
    return (1.0 + float(products.sum()) + rest) * (1 + (8 * terms + 64) * 2.0**-53)


@dataclass(frozen=True, slots=True)
class _OfDimension(ABC):
    """A class of VC dimension `dimension`."""

    dimension: int

    def __post_init__(self) -> None:
        whole(self.dimension, field="dimension", least=1, most=MOST_DIMENSION)

    @abstractmethod
    def accuracy(self, samples: int, failure: Decimal) -> Decimal:
        """It falls with the samples (docs/proofs/stability_utility.md, "Sample sizes")."""

    def needed(self, accuracy: Decimal, failure: Decimal) -> int:
        """The least N with `accuracy(N, failure) <= accuracy`."""
        if not 0 < accuracy < 1:
            raise ParameterError("accuracy", accuracy, "a number in (0, 1)")
        if not 0 < failure < 1:
            raise ParameterError("failure", failure, "a number in (0, 1)")
        low, high = 0, 1
        while self.accuracy(high, failure) > accuracy:
            if high > MOST_SAMPLES:
                raise InfeasiblePlan(f"a learner as accurate as {accuracy} needs more than 10^18 records")
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.accuracy(middle, failure) <= accuracy else (middle, high)
        return high


@dataclass(frozen=True, slots=True)
class Realizable(_OfDimension):
    """A consistent learner of a class of VC dimension `dimension`, where some hypothesis never errs."""

    def accuracy(self, samples: int, failure: Decimal) -> Decimal:
        """Claim: with probability at least 1 - failure every consistent hypothesis has at most that error.
        Source: Blumer et al. 1989; docs/proofs/stability_utility.md, "Sample sizes"."""
        if samples < 8:
            return ONE
        with localcontext(outward.context(failure)):
            bits = (outward.ln(TWO) + log_sauer(self.dimension, 2 * samples) - outward.ln(failure)) / outward.ln(TWO)
            return min(ONE, outward.above(2 * max(bits, Decimal(4)) / samples))


@dataclass(frozen=True, slots=True)
class Agnostic(_OfDimension):
    """Empirical risk minimisation over a class of VC dimension `dimension`, for any distribution."""

    def accuracy(self, samples: int, failure: Decimal) -> Decimal:
        """Claim: with probability at least 1 - failure the hypothesis of least empirical error is within that of the
        best. Source: Vapnik-Chervonenkis 1971 (deviation a/2, both sides); docs/proofs/stability_utility.md."""
        if samples < 1:
            return ONE
        with localcontext(outward.context(failure)):
            exponent = outward.ln(Decimal(4)) + log_sauer(self.dimension, 2 * samples) - outward.ln(failure)
            return min(ONE, outward.above((32 * exponent / samples).sqrt()))


@dataclass(frozen=True, slots=True)
class FromFunction:
    """A sample size that the caller knows: `size(accuracy, failure)` records are enough, which more always are."""

    size: Callable[[Decimal, Decimal], int]

    def needed(self, accuracy: Decimal, failure: Decimal) -> int:
        """What the caller says."""
        return whole(self.size(accuracy, failure), field="learner", least=0)

    def accuracy(self, samples: int, failure: Decimal) -> Decimal:
        """An accuracy, by bisection, for which so many records are enough by the caller's word."""
        low, high = ZERO, ONE
        for _ in range(SEARCH):
            middle = round_up(multiply(add(low, high), HALF))
            if middle in (low, high):
                break
            low, high = (low, middle) if self.needed(middle, failure) <= samples else (middle, high)
        return high
