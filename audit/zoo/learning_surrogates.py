"""Hypotheses drawn by how well a concept near them does, right and wrong. True losses by enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

import numpy as np

from dpledger.accounting.guarantees import PureDP
from dpledger.audit.zoo.exhibit import Exhibit
from dpledger.audit.zoo.specimen import Numbers, Rng, Specimen

__all__ = ["SURROGATES", "DrawnBySurrogate"]

_HYPOTHESES = np.array(list(itertools.product((0, 1), repeat=3)))
_THRESHOLDS = np.array([[int(x < u) for x in range(3)] for u in range(4)])


@dataclass(frozen=True)
class DrawnBySurrogate(Specimen):
    """One of the eight hypotheses on three points, by the errors of a threshold and what they differ in on the examples
    (x, y); e^-exponent a step. A replaced example moves a score by two. Li-Wang-Ye 2024."""

    exponent: Decimal

    def law(self, data: Sequence[tuple[int, int]]) -> Numbers:
        """The probability of each hypothesis."""
        x, y = np.array(data).reshape(-1, 2).T
        errors = (_THRESHOLDS[:, x] != y).sum(axis=1)
        differ = (_HYPOTHESES[:, None, x] != _THRESHOLDS[None, :, x]).sum(axis=2)
        weights = np.exp(-float(self.exponent) * (errors + differ).min(axis=1))
        return np.asarray(weights / weights.sum())

    def __call__(self, data: Sequence[tuple[int, int]], size: int, rng: Rng) -> Numbers:
        return rng.choice(len(_HYPOTHESES), size=size, p=self.law(data))


def _drawn(about: str, exponent: str, true_epsilon: float) -> Exhibit:
    return Exhibit(
        about=about,
        mechanism=DrawnBySurrogate(Decimal(exponent)),
        left=((0, 0), (0, 0), (2, 1), (2, 1)),
        right=((0, 0), (0, 0), (2, 1), (1, 0)),
        claim=PureDP(1),
        true_epsilon=true_epsilon,
    )


SURROGATES: Mapping[str, Exhibit] = MappingProxyType(
    {
        "surrogate": _drawn("a hypothesis by how well a threshold near it does, as claimed", "0.25", 0.5614640449),
        "surrogate_sensitivity_of_one": _drawn(
            "a score that moves by two, as if it moved by one; at worst 2", "0.5", 1.1256498233
        ),
    }
)
"""Surrogates, right and wrong, by name."""
