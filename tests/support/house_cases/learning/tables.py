"""A round of boosting, and a step of logistic regression, right and wrong: every true loss is enumerated, or that of
a normal law. Bins whose edges come from
the sample stand among the learners of a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

import numpy as np

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit.zoo.cases import Case
from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = ["BOOSTED", "LOGISTIC", "BoostedRound", "LogisticStep"]


@dataclass(frozen=True)
class BoostedRound(Implementation):
    """After `rounds` stumps that say 1: a constant, with weight e^(exponent times the weight of the labels that it gets
    right). `shared`: the weights are divided by their mean, which is private, as if that moved a score by no more."""

    rounds: int
    gamma: Decimal
    exponent: Decimal
    shared: bool

    def chances(self, labels: Sequence[int]) -> tuple[float, float]:
        """How probable each constant is."""
        gamma = float(self.gamma)
        margin = self.rounds * (1 - gamma / (2 + gamma))
        weights = np.array([(1 - gamma) ** (margin / 2) if label else 1.0 for label in labels])
        if self.shared:
            weights /= weights.mean()
        ones = np.array(labels, dtype=bool)
        more = float(self.exponent) * float(weights[ones].sum() - weights[~ones].sum())
        zero = 1 / (1 + float(np.exp(more)))
        return zero, 1 - zero

    def __call__(self, labels: Sequence[int], size: int, rng: Rng) -> Numbers:
        return rng.choice(2, size=size, p=self.chances(labels))


_LEFT, _RIGHT = (1,) * 9 + (0,), (1,) * 10


def _boosted(about: str, true_epsilon: float, *, shared: bool) -> Case:
    return Case(
        about=about,
        mechanism=BoostedRound(20, Decimal("0.4"), Decimal("0.5"), shared),
        left=_LEFT,
        right=_RIGHT,
        claim=PureDP(1),
        true_epsilon=true_epsilon,
    )


BOOSTED: Mapping[str, Case] = MappingProxyType(
    {
        "boosted_round": _boosted("a round of boosting with weights in [0, 1], as claimed", 0.2765176780, shared=False),
        "boosted_round_shared_weights": _boosted(
            "weights divided by their private sum: one record may have nearly all of it, at worst as many times the "
            "claim as there are records",
            4.9860551098,
            shared=True,
        ),
    }
)
"""Rounds of boosting, by name."""


@dataclass(frozen=True)
class LogisticStep(Implementation):
    """The first step, of weights 0: for each bin of 15 columns, and of all rows, half a row with label 0 more. `sigma`:
    of the noise on each, at least 4 where mu 1 is claimed, since a row is in 16 bins."""

    sigma: float

    def __call__(self, labels: Sequence[int], size: int, rng: Rng) -> Numbers:
        sums = sum(0.5 - label for label in labels)
        return sums + self.sigma * rng.normal(size=(size, _COLUMNS + 1))


_COLUMNS = 15


def _stepped(about: str, sigma: float, true_epsilon: float) -> Case:
    return Case(
        about=about,
        mechanism=LogisticStep(sigma),
        left=(0, 1, 0),
        right=(0, 1),
        claim=ApproxDP("4.3772", "1e-5"),
        true_epsilon=true_epsilon,
    )


LOGISTIC: Mapping[str, Case] = MappingProxyType(
    {
        "logistic_step": _stepped("a step of logistic regression: noise for all bins of a row", 4.0, 1.9930914044),
        "logistic_step_of_one_bin": _stepped("noise as if a row were in one bin of all", 1.0, 9.9972561464),
    }
)
"""Steps of logistic regression, by name."""
