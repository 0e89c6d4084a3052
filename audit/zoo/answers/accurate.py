"""Searches for an answer that is accurate enough: accuracy first and doubling, correct and faulty.

Accuracy first in one dimension: ridge regression of labels in [-1, 1] on a constant, whose labels may change. The least
risk is at mean/(1 + lambda), which one label moves by 2/(n (1 + lambda)); in the ball of radius 1 a loss is at most 2,
so the excess risk of a hypothesis moves by at most 4/n. Ligett-Neel-Roth-Waggoner-Wu 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = ["DoubledAnswers", "EveryLevelShown", "FirstAccurate"]

CURVATURE = 1.25  # 1 + lambda
LARGEST_LOSS = 2.0  # in the ball of radius 1
SLACK = 1.5  # a hypothesis passes if its noisy excess risk is below
NONE = 3  # where none of two passed


@dataclass(frozen=True)
class FirstAccurate(Implementation):
    """The first of two hypotheses of a Laplace chain of epsilons `coarse` and `fine` that passes a check of epsilon
    `check`, and what was published up to it: (which, or 3 for none, first level, second level or NaN).

    `chain_noise`, `check_noise`: over what the sensitivities ask for; 1 is right. `tolerance`: the gradient at
    which the solver stops, which comes from above where the first label is positive, else from below."""

    coarse: Decimal
    fine: Decimal
    check: Decimal
    chain_noise: Decimal = Decimal(1)
    check_noise: Decimal = Decimal(1)
    tolerance: Decimal = Decimal(0)

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        which, levels = self._searched(data, size, rng)
        levels[which == 1, 1] = np.nan
        return np.column_stack([which, levels])

    def _searched(self, data: Sequence[float], size: int, rng: Rng) -> tuple[Numbers, Numbers]:
        least = sum(data) / len(data) / CURVATURE
        found = least + float(self.tolerance) / CURVATURE * np.sign(data[0])
        levels = found + self._noise(len(data), size, rng)
        query, threshold = (
            times * LARGEST_LOSS * 2 / len(data) * float(self.check_noise) / float(self.check) for times in (4, 2)
        )
        excess = CURVATURE / 2 * (np.clip(levels, -1, 1) - least) ** 2
        noisy = -excess + rng.laplace(0.0, query, (size, 2))
        passed = noisy >= -SLACK + rng.laplace(0.0, threshold, (size, 1))
        return np.where(passed.any(axis=1), 1 + passed.argmax(axis=1), NONE), levels

    def _noise(self, rows: int, size: int, rng: Rng) -> Numbers:
        moved = 2 / (rows * CURVATURE) * float(self.chain_noise)
        coarse, fine = moved / float(self.coarse), moved / float(self.fine)
        finer = rng.laplace(0.0, fine, size)
        kept = rng.random(size) < (fine / coarse) ** 2
        return np.stack([np.where(kept, finer, finer + rng.laplace(0.0, coarse, size)), finer], axis=1)


@dataclass(frozen=True)
class EveryLevelShown(FirstAccurate):
    """The same, and both levels are published whichever passed."""

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        which, levels = self._searched(data, size, rng)
        return np.column_stack([which, levels])


@dataclass(frozen=True)
class DoubledAnswers(Implementation):
    """Answers with Laplace noise of their own, of epsilon `first`, 2 `first`, ..., until a check of epsilon `check`
    accepts: (round, or `rounds` + 1 for none, how many published answers are at most 0).

    The data are a statistic and its error, which both move by at most 1; an error below 0 is accepted. `check_noise`:
    over what is asked for; 1 is right."""

    first: Decimal
    rounds: int
    check: Decimal
    check_noise: Decimal = Decimal(1)

    def __call__(self, data: Sequence[float], size: int, rng: Rng) -> Numbers:
        value, error = data
        scales = 1 / (float(self.first) * 2.0 ** np.arange(self.rounds))
        low = value + rng.laplace(0.0, scales, (size, self.rounds)) <= 0
        accepted = error + rng.laplace(0.0, float(self.check_noise) / float(self.check), (size, self.rounds)) < 0
        ended = np.where(accepted.any(axis=1), 1 + accepted.argmax(axis=1), self.rounds + 1)
        published = np.arange(self.rounds) < np.minimum(ended, self.rounds)[:, None]
        return np.stack([ended, (low & published).sum(axis=1)], axis=1)
