"""Guesses at the least error of a class: what tells of a guess, and a scan that stops at the first which is enough.

    excess(p) = k - n nu;  k = how many users even the best concept fails more than `level` times; n users, fraction nu
    scan: W = noise(2/epsilon); p = 0, a, 2a, ...: stop at the first p with excess(p) + noise(4/epsilon) <= W

`level` and nu tell an error of p from one of p + a. In whole steps of 2^-20 users; the scan is a sparse vector of one
charged answer, all of whose guesses are public.

>>> scan = GuessScan(examples=100, resolution=Decimal("0.1"), epsilon=Decimal(1), top=Decimal(1), one_way=False)
>>> scan.most, scan.law.threshold_scale, scan.law.query_scale
(9, Decimal('2'), Decimal('4'))
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from dpledger.accounting.composition import SparseVectorLaw
from dpledger.decimals import add, exact, multiply
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.theory.users.estimator_sizes import guesses_for, scan_law
from dpledger.mechanisms.learning.theory.users.gap import GRID_BITS, BinomialGap
from dpledger.mechanisms.learning.users.mistakes import Mistakes
from dpledger.mechanisms.noise import DiscreteLaplace, Sensitivity
from dpledger.mechanisms.threshold.epochs import EpochPlan, Epochs

__all__ = [
    "MOVED",
    "STEPS",
    "GuessScan",
    "LeastError",
    "Tested",
    "Told",
    "excess_at",
    "fraction_of",
    "in_users",
    "moved_by",
]

STEPS: int = 2**GRID_BITS
HALF = Decimal("0.5")
STEP = exact(Fraction(1, STEPS))
Told: TypeAlias = tuple[str, str, tuple[tuple[str, int, str, bool], ...]]
"""An interval and its tests, as they are kept."""

MOVED = "one user changes the fewest users with many mistakes, less the threshold of each user, by at most this"


@dataclass(frozen=True, slots=True)
class Tested:
    """One test: whether the least error was found to be below `guess` and not above it, and by which level and fraction
    of users."""

    guess: Decimal
    level: int
    threshold: Decimal
    passed: bool


@dataclass(frozen=True, slots=True)
class LeastError:
    """The least error of the class is from `low` to `high`; `tests` are those that say so."""

    low: Decimal
    high: Decimal
    tests: tuple[Tested, ...]

    @property
    def middle(self) -> Decimal:
        """Half-way between them."""
        return multiply(add(self.low, self.high), HALF)

    def told(self) -> Told:
        """It in texts and numbers, of which `retold` makes an equal one."""
        tests = tuple((str(one.guess), one.level, str(one.threshold), one.passed) for one in self.tests)
        return str(self.low), str(self.high), tests

    @classmethod
    def retold(cls, told: Told) -> LeastError:
        """The inverse of `told`."""
        low, high, tests = told
        made = (Tested(Decimal(guess), level, Decimal(nu), passed) for guess, level, nu, passed in tests)
        return cls(Decimal(low), Decimal(high), tuple(made))


def excess_at(gap: BinomialGap, fewest: int, users: int) -> int:
    """How many steps the fewest users with more than `level` mistakes are above the threshold."""
    return STEPS * fewest - users * gap.middle


def moved_by(gap: BinomialGap, *, one_way: bool) -> int:
    """By how many steps one user moves the excess at a guess.

    Claim: one who comes or goes moves it by c - nu, c 0 or 1; one who is replaced by 1. Source:
    docs/proofs/learning_users.md, section 3."""
    return max(gap.middle, STEPS - gap.middle) if one_way else STEPS


def in_users(steps: int) -> Decimal:
    """So many steps as a number of users."""
    return multiply(Decimal(steps), STEP)


def fraction_of(gap: BinomialGap) -> Decimal:
    """The fraction of users that a guess is tested by."""
    return in_users(gap.middle)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessScan:
    """Guesses 0, resolution, 2 resolution, ..., below `top` and 1 - resolution, tested in turn until one is enough.

    `examples`: of each user. `top`: what the least error is at most, whatever the data. `one_way`: neighbours have one
    user more or less.

    Claim: epsilon-DP, levels and thresholds being fixed beforehand; a scan that ended after t tests, as the sparse
    vector of its tests. Source: docs/proofs/learning_users.md, section 3; Dwork-Roth 2014, algorithm 1.
    """

    examples: int
    resolution: Decimal
    epsilon: Decimal
    top: Decimal
    one_way: bool

    @property
    def most(self) -> int:
        """How many guesses are tested at most; the next one is enough whatever the data."""
        return guesses_for(self.resolution, self.top)

    @property
    def law(self) -> SparseVectorLaw:
        """Its leaf, without an outcome."""
        return scan_law(self.epsilon)

    @property
    def moved(self) -> int:
        """By how many steps one user moves the excess at any of the guesses."""
        return _moved_most(self.examples, self.resolution, self.most) if self.one_way else STEPS

    def check(self) -> None:
        """ParameterError where its noise, of one user for each, is beyond what can be drawn."""
        try:
            self._plan(STEPS)
        except ParameterError:
            raise ParameterError("epsilon", self.epsilon, f"more: such noise in steps of 2^-{GRID_BITS}") from None

    def _plan(self, moved: int) -> EpochPlan:
        """Its tests, where one user moves an excess by so much."""
        law = self.law
        return EpochPlan(
            law=law,
            threshold=0,
            threshold_noise=DiscreteLaplace(multiply(law.threshold_scale, moved)),
            query_noise=DiscreteLaplace(multiply(law.query_scale, moved)),
            sensitivity=Sensitivity(moved, "linf", MOVED),
            max_queries=self.most,
        )

    def searched(self, mistakes: Mistakes, entropy: Entropy) -> tuple[LeastError, SparseVectorLaw]:
        """An interval, and the leaf with the outcome: which the tests of the interval tell."""
        epochs = Epochs(self._plan(self.moved), entropy)
        fewest: dict[int, int] = {}
        tests: list[Tested] = []
        while not epochs.halted:
            gap = _gap(self.examples, self.resolution, len(tests))
            if gap.level not in fewest:
                fewest[gap.level] = mistakes.beyond(gap.level).least
            above = epochs.test(excess_at(gap, fewest[gap.level], mistakes.users))
            tests.append(Tested(gap.low, gap.level, fraction_of(gap), passed=not above))
        return self._between(tests), epochs.ended()

    def _between(self, tests: list[Tested]) -> LeastError:
        """Above the guess before the last by no more than two resolutions."""
        at = len(tests) - tests[-1].passed
        low, high = (multiply(self.resolution, place) for place in (max(0, at - 1), at + 1))
        return LeastError(low, min(self.top, high), tuple(tests))


def _gap(examples: int, resolution: Decimal, place: int) -> BinomialGap:
    """The laws of mistakes that a guess tells apart."""
    return BinomialGap(examples, multiply(resolution, place), multiply(resolution, place + 1))


@lru_cache(maxsize=256)
def _moved_most(examples: int, resolution: Decimal, most: int) -> int:
    return max(moved_by(_gap(examples, resolution, place), one_way=True) for place in range(most))
