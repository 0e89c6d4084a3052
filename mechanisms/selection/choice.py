"""Scores, then a choice: what every mechanism shares that draws one of many by whole scores, whatever is chosen.

>>> from dpledger.mechanisms.entropy import seeded
>>> choice = Choice.weighing(1, moved=1, why="a record changes each count of errors by at most one")
>>> choice.exponent, choice.one([-40, 0, -40], entropy=seeded(0))
(Decimal('0.5'), 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from dpledger.decimals import Number
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import ExponentialWeights, Sensitivity, Weighted, choose, exponent_for
from dpledger.mechanisms.noise.choices import Wholes
from dpledger.mechanisms.numeric.one_shot import derived

__all__ = ["Choice"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice by the law `law`, of scores that one unit moves by at most `moved` steps, for the reason `why`."""

    law: Weighted
    moved: int
    why: str

    @classmethod
    def weighing(cls, epsilon: Number, *, moved: int, why: str, monotone: bool = False) -> Self:
        """By exponential weights; `monotone`: all scores move in one direction. ParameterError where nothing is left of
        epsilon for one step of score.

        Claim: epsilon-bounded range. Source: `noise.exponent_for`."""
        exponent = exponent_for(epsilon, sensitivity=moved, monotone=monotone)
        return cls(ExponentialWeights(derived(exponent, epsilon=epsilon)), moved, why)

    @property
    def exponent(self) -> Decimal:
        """How much likelier, as a logarithm, one more step of score makes a candidate."""
        return self.law.exponent

    def said(self) -> dict[str, object]:
        """What the record keeps of it."""
        return {"exponent": self.exponent, "sensitivity": self.moved, "justification": self.why}

    def one(self, scores: Wholes, *, entropy: Entropy, counts: Wholes | None = None) -> int:
        """The place of one candidate, as `noise.choose` draws it."""
        moved = Sensitivity(self.moved, "linf", self.why)
        return choose(self.law, scores, sensitivity=moved, entropy=entropy, counts=counts)

    def many(self, scores: Wholes, size: int, *, entropy: Entropy, counts: Wholes | None = None) -> list[int]:
        """The places of so many candidates, drawn independently."""
        return [self.one(scores, entropy=entropy, counts=counts) for _ in range(size)]
