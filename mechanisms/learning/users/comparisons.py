"""Which of a few counts of users is the least, found at random; each moves by at most one with a user.

>>> from dpledger.mechanisms.entropy import seeded
>>> least_of([90, 3, 70], "sharp", Decimal(1), monotone=False, entropy=seeded(1)).place
1
>>> least_of([90, 3, 70], "paper", Decimal(1), monotone=False, entropy=seeded(1)).heard
(83, 1, 61)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import assert_never

import numpy as np

from dpledger.decimals import round_up
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.theory.users.threshold_sizes import Comparison, noise_scale
from dpledger.mechanisms.noise import DiscreteLaplace, PermuteAndFlipChoice, Sensitivity, choose, draw, exponent_for

__all__ = ["LeastCount", "comparison_law", "least_of"]

_EACH = "a user moves the least count of a range by at most one"
_ALL = "a user moves each of three counts by at most one"


@dataclass(frozen=True, slots=True)
class LeastCount:
    """The place of the count that was found; what may be published of the counts themselves."""

    place: int
    heard: tuple[int, ...] = ()


def least_of(
    counts: Sequence[int], comparison: Comparison, epsilon: Decimal, *, monotone: bool, entropy: Entropy
) -> LeastCount:
    """One of at most three counts, which is likely to be the least.

    Claim: epsilon-DP; with `monotone` for neighbours between which no count falls, or none rises.
    Source: docs/proofs/learning_median.md, "Privacy of the threshold learner"; McKenna-Sheldon 2020."""
    row, law = np.array(counts, dtype=np.int64), comparison_law(comparison, epsilon, monotone=monotone)
    match law:
        case PermuteAndFlipChoice():
            return LeastCount(choose(law, -row, sensitivity=Sensitivity(1, "linf", _EACH), entropy=entropy))
        case DiscreteLaplace():
            moved = Sensitivity(3, "l1", _ALL) if comparison == "paper" else Sensitivity(1, "linf", _EACH)
            noisy = draw(law, row, sensitivity=moved, entropy=entropy)
            heard = tuple(int(count) for count in noisy) if comparison == "paper" else ()
            return LeastCount(int(np.argmin(noisy)), heard)
        case _:
            assert_never(law)


def comparison_law(
    comparison: Comparison, epsilon: Decimal, *, monotone: bool
) -> DiscreteLaplace | PermuteAndFlipChoice:
    """What a comparison draws. ParameterError where epsilon is too small for it."""
    match comparison:
        case "paper" | "noisy_max":
            scale = noise_scale(comparison, epsilon, monotone=monotone)
            return DiscreteLaplace(round_up(Fraction(scale) / 2))
        case "sharp":
            return PermuteAndFlipChoice(exponent_for(epsilon, sensitivity=1, monotone=monotone))
        case _:
            assert_never(comparison)
