"""Learners of users, right and wrong: each user is some examples (point, label), and neighbours differ in one user.
Thresholds are 1[x < u]. Finite outcomes: every true loss is enumerated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpledger.accounting.guarantees import PureDP
from dpledger.audit.zoo.cases import Case
from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng
from dpledger.decimals import add, exact, multiply
from dpledger.mechanisms.learning.theory.users.gap import GRID_BITS, BinomialGap

__all__ = ["LEARNED_FROM_USERS", "LeastErrorOfUsers", "ThresholdsByExamples", "ThresholdsByUsers"]

User: TypeAlias = tuple[tuple[int, int], ...]
Users: TypeAlias = Sequence[User]
Ints: TypeAlias = npt.NDArray[np.int64]

STEPS = 2**GRID_BITS
HALF = Decimal("0.5")
EXAMPLES = 2  # of each user whose least error is searched for


def _mistakes(thresholds: Ints, data: Users) -> Ints:
    """Of each threshold (row), by each user."""
    rows = np.array(data, dtype=np.int64).reshape(len(data), -1, 2)
    wrong = (rows[None, :, :, 0] < thresholds[:, None, None]) != rows[None, :, :, 1]
    return np.asarray(wrong.sum(axis=2), dtype=np.int64)


def _weighed(scores: npt.NDArray[Any], exponent: Decimal) -> Numbers:
    weights = np.exp(-float(exponent) * (scores - scores.min()))
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class ThresholdsByUsers(Implementation):
    """A threshold on `points` points, by how many users make more than `level` mistakes. Li-Wang-Ye 2024."""

    points: int
    level: int
    exponent: Decimal

    def law(self, data: Users) -> Numbers:
        """The probability of each threshold."""
        return _weighed((_mistakes(np.arange(self.points + 1), data) > self.level).sum(axis=1), self.exponent)

    def __call__(self, data: Users, size: int, rng: Rng) -> Numbers:
        return rng.choice(self.points + 1, size=size, p=self.law(data))


@dataclass(frozen=True)
class ThresholdsByExamples(Implementation):
    """A threshold on `points` points, by all mistakes, of which a user makes as many as there are examples."""

    points: int
    exponent: Decimal

    def law(self, data: Users) -> Numbers:
        """The probability of each threshold."""
        return _weighed(_mistakes(np.arange(self.points + 1), data).sum(axis=1), self.exponent)

    def __call__(self, data: Users, size: int, rng: Rng) -> Numbers:
        return rng.choice(self.points + 1, size=size, p=self.law(data))


@dataclass(frozen=True)
class LeastErrorOfUsers(Implementation):
    """Where the search for the least error ends, in steps of what it is halved to: `tests` tests of `epsilon` each,
    among the thresholds 0 to `points`, with noise on the grid 2^-20. `narrow`: of the scale
    max(nu, 1 - nu)/epsilon, which is enough where users come and go."""

    points: int
    resolution: Decimal
    tests: int
    epsilon: Decimal
    narrow: bool = False

    def law(self, data: Users) -> Numbers:
        """The probability of each end."""
        mistakes = _mistakes(np.arange(self.points + 1), data)
        found = np.zeros(2**self.tests)
        for end, chance in self._walked(mistakes, Decimal(0), Decimal(1), self.tests):
            found[int(multiply(end, 2**self.tests))] += chance
        return found

    def __call__(self, data: Users, size: int, rng: Rng) -> Numbers:
        return rng.choice(2**self.tests, size=size, p=self.law(data))

    def _walked(self, mistakes: Ints, low: Decimal, high: Decimal, left: int) -> Iterator[tuple[Decimal, float]]:
        if not left:
            yield low, 1.0
            return
        guess = multiply(add(low, high), HALF)
        bit = self._passes(mistakes, guess)
        yield from ((end, bit * chance) for end, chance in self._walked(mistakes, low, guess, left - 1))
        yield from ((end, (1 - bit) * chance) for end, chance in self._walked(mistakes, guess, high, left - 1))

    def _passes(self, mistakes: Ints, guess: Decimal) -> float:
        """The probability that the least error is found to be at most `guess`."""
        upper = add(guess, self.resolution)
        if upper >= 1:
            return 1.0
        gap = BinomialGap(EXAMPLES, guess, upper)
        fewest = int((mistakes > gap.level).sum(axis=1).min())
        excess = STEPS * fewest - mistakes.shape[1] * gap.middle
        moved = max(gap.middle, STEPS - gap.middle) if self.narrow else STEPS
        rate = float(self.epsilon) / moved
        q = math.exp(-rate)
        return math.exp(-rate * excess) / (1 + q) if excess >= 0 else 1 - math.exp(-rate * (1 - excess)) / (1 + q)


_THREE = ((((0, 1),) * 3, ((0, 0),) * 3), (((0, 1),) * 3, ((0, 1),) * 3))
_DECIDES = ((((0, 1),) * 2, ((0, 1),) * 2, ((0, 0),) * 2), (((0, 1),) * 2,) * 3)
_OTHERS = (((0, 0), (0, 0)), ((0, 1), (1, 0)))
_MOVES = ((*_OTHERS, ((0, 0), (0, 1))), (*_OTHERS, ((0, 1), (0, 1))))
_EIGHTH, _SIXTEENTH = exact(0.125), exact(0.0625)
_THIRD = Decimal("0.333333333333")
_QUARTER = Decimal("0.25")


def _of_users(about: str, mechanism: Callable[..., Any], pair: tuple[Users, Users], true_epsilon: float) -> Case:
    """A learner of users, claimed at 1 under replace_one."""
    return Case(
        about=about,
        mechanism=mechanism,
        left=pair[0],
        right=pair[1],
        claim=PureDP(1),
        true_epsilon=true_epsilon,
    )


LEARNED_FROM_USERS: Mapping[str, Case] = MappingProxyType(
    {
        "users_threshold": _of_users(
            "a threshold by how many users it fails often, as claimed",
            ThresholdsByUsers(3, 1, Decimal("0.5")),
            _THREE,
            0.8279889392,
        ),
        "users_threshold_by_examples": _of_users(
            "a threshold by all mistakes, as if a user were one example; at worst 3",
            ThresholdsByExamples(3, Decimal("0.5")),
            _THREE,
            2.7287774134,
        ),
        "users_least_error": _of_users(
            "the least error by three tests of a third of epsilon each, as claimed; all of it on this pair",
            LeastErrorOfUsers(0, _EIGHTH, 3, _THIRD),
            _DECIDES,
            0.999999999999,
        ),
        "users_least_error_undivided": _of_users(
            "the least error by three tests of all of epsilon each",
            LeastErrorOfUsers(0, _EIGHTH, 3, Decimal(1)),
            _DECIDES,
            3.0,
        ),
        "users_least_error_replaced": _of_users(
            "the least error of thresholds by four tests of a quarter of epsilon each, as claimed",
            LeastErrorOfUsers(2, _SIXTEENTH, 4, _QUARTER),
            _MOVES,
            0.9456709724,
        ),
        "users_least_error_narrow_noise": _of_users(
            "the same with the noise that is enough where users come and go, among users who are replaced",
            LeastErrorOfUsers(2, _SIXTEENTH, 4, _QUARTER, narrow=True),
            _MOVES,
            1.4422409204,
        ),
    }
)
"""Learners of users, right and wrong, by name."""
