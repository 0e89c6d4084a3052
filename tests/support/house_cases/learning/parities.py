"""Parities learned from a random part of the examples, right and wrong. True losses by enumeration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

import numpy as np

from dpledger.accounting.guarantees import PureDP
from dpledger.audit.zoo.cases import Case
from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = ["PARITIES", "LearnedParity", "LeastParity", "ParityUntilSuccess"]

FAIL = -1
BOTH = 3  # parities that fit nothing yet: 0 and x, a bit each


def _fits(x: int, y: int) -> int:
    """Which of the parities 0 and x of one bit fit an example, a bit each."""
    return (1 if y == 0 else 0) | (2 if x == y else 0)


@dataclass(frozen=True)
class LearnedParity(Implementation):
    """One run on examples (x, y) of one bit: a parity that fits those kept, 0 or 1; -1 of FAIL."""

    rate: Decimal
    fail: Decimal

    def __call__(self, data: Sequence[tuple[int, int]], size: int, rng: Rng) -> Numbers:
        fitting = np.full(size, BOTH)
        for x, y in data:
            fitting &= np.where(rng.random(size) < float(self.rate), _fits(x, y), BOTH)
        found = np.where(fitting == BOTH, self._of_both(size, rng), fitting - 1)  # FAIL where none is left
        return np.where(rng.random(size) < float(self.fail), FAIL, found)

    def _of_both(self, size: int, rng: Rng) -> Numbers:
        return rng.integers(2, size=size)


@dataclass(frozen=True)
class LeastParity(LearnedParity):
    """The least parity that fits, in place of any."""

    def _of_both(self, size: int, rng: Rng) -> Numbers:
        return np.zeros_like(super()._of_both(size, rng))


@dataclass(frozen=True)
class ParityUntilSuccess(LearnedParity):
    """Runs until one does not fail."""

    def __call__(self, data: Sequence[tuple[int, int]], size: int, rng: Rng) -> Numbers:
        found = np.full(size, FAIL)
        while (failed := np.flatnonzero(found == FAIL)).size:
            found[failed] = super().__call__(data, failed.size, rng)
        return found


def _learned(
    about: str,
    mechanism: LearnedParity,
    pair: tuple[Sequence[tuple[int, int]], ...],
    true_epsilon: float,
) -> Case:
    """A parity claimed at epsilon 1/2."""
    return Case(
        about=about,
        mechanism=mechanism,
        left=pair[0],
        right=pair[1],
        claim=PureDP("0.5"),
        true_epsilon=true_epsilon,
    )


_HALF = Decimal("0.5")
_RATE = Decimal("0.2449186624037091")  # tanh(1/4), rounded down
_LABELS = (((1, 1),), ((1, 0),))
_NO_PARITY = (((0, 1),), ((0, 0),))

PARITIES: Mapping[str, Case] = MappingProxyType(
    {
        "parity": _learned(
            "a parity that fits the examples kept, as claimed",
            LearnedParity(_RATE, _HALF),
            _LABELS,
            0.49999999999999994,
        ),
        "parity_rate_of_epsilon": _learned(
            "each example is kept with probability epsilon, in place of tanh(epsilon/2)",
            LearnedParity(_HALF, _HALF),
            _LABELS,
            math.log(3),
        ),
        "parity_no_coin": _learned(
            "FAIL only where no parity fits: an example that none fits shows",
            LearnedParity(_RATE, Decimal(0)),
            _NO_PARITY,
            math.inf,
        ),
        "parity_least_solution": _learned(
            "the least parity that fits, and not any of them", LeastParity(_RATE, _HALF), _LABELS, math.inf
        ),
        "parity_until_success": _learned(
            "runs until one succeeds, at the price of one; six examples, at worst 0.7809298",
            ParityUntilSuccess(_RATE, _HALF),
            (((1, 0),) * 5 + ((1, 1),), ((1, 0),) * 6),
            0.7043249806,
        ),
    }
)
"""Parities, right and wrong, by name."""
