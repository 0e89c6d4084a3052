"""Choices by clipped comparisons of pairs, right and wrong. True losses by enumeration.

A user is an order of four concepts, the best first: the first has no mistakes, the next one, and so on. The clip is one
mistake, so that sums of preferences need not be an order themselves: h' is better than h, h than g', g' than g, and g
than h', and a user who changes his mind moves the scores of h and g by two each, apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from dpledger.accounting.guarantees import PureDP
from dpledger.audit.zoo.cases import Case
from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = ["CLIPPED", "DrawnByClippedPairs", "preferring"]

Order: TypeAlias = tuple[int, ...]

_H, _ABOVE_H, _ABOVE_G, _G = range(4)
_CONCEPTS = 4


@dataclass(frozen=True)
class DrawnByClippedPairs(Implementation):
    """One of four concepts by the least of its sums of clipped preferences, e^-exponent a step. Ghazi et al. 2023."""

    exponent: Decimal

    def law(self, data: Sequence[Order]) -> Numbers:
        """The probability of each concept."""
        preferred = np.zeros((_CONCEPTS, _CONCEPTS))
        for order in data:
            mistakes = np.argsort(order)
            preferred += np.sign(mistakes[None, :] - mistakes[:, None])
        scores = preferred.min(axis=1)
        weights = np.exp(float(self.exponent) * (scores - scores.max()))
        return np.asarray(weights / weights.sum())

    def __call__(self, data: Sequence[Order], size: int, rng: Rng) -> Numbers:
        return rng.choice(_CONCEPTS, size=size, p=self.law(data))


def preferring(better: int, worse: int) -> tuple[Order, Order]:
    """Two users who together prefer one concept to another, by two, and are of no opinion on all other pairs."""
    rest = tuple(one for one in range(_CONCEPTS) if one not in (better, worse))
    return (better, worse, *rest), (*rest[::-1], better, worse)


def _drawn(about: str, exponent: str, many: int, true_epsilon: float) -> Case:
    """`many` of each pair, but of those who prefer g' to g."""
    others = (
        *preferring(_ABOVE_H, _H) * many,
        *preferring(_H, _ABOVE_G) * many,
        *preferring(_G, _ABOVE_H) * many,
        *preferring(_ABOVE_G, _G),
    )
    return Case(
        about=about,
        mechanism=DrawnByClippedPairs(Decimal(exponent)),
        left=(*others, (_H, _ABOVE_H, _ABOVE_G, _G)),
        right=(*others, (_ABOVE_H, _H, _G, _ABOVE_G)),
        claim=PureDP(1),
        true_epsilon=true_epsilon,
    )


CLIPPED: Mapping[str, Case] = MappingProxyType(
    {
        "clipped_pairs": _drawn(
            "a concept by clipped comparisons, as claimed: all of it, where the users' preferences run in a circle",
            "0.25",
            20,
            0.9998440148,
        ),
        "clipped_pairs_counted_once": _drawn(
            "a user who changes moves a sum by twice the clip, as if by the clip; at worst 2", "0.5", 3, 1.5844735
        ),
    }
)
"""Choices by clipped comparisons, right and wrong, by name."""
