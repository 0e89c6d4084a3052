"""Cases of a training with noise that later steps take off again: one person's turns against none, seen by somebody who
knows which steps they are; what is seen is the statistic of the likelihood ratio, in quarters of a deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dpledger.accounting.guarantees import ApproxDP
from dpledger.audit.zoo.cases import Case

__all__ = ["TRAINED", "Turns", "epsilon_at"]

FACTOR = (1.0, 0.75, 0.5, 0.25)
STEPS, GROUPS, DELTA = 8, 4, 0.01


@dataclass(frozen=True, slots=True)
class Turns:
    """Eight steps, four groups, noise of `sigma` on C times the sums; `every`: the person takes part in every step, in
    place of the two of the first group. Data: how many people there are, 1 or 0."""

    sigma: float
    every: bool = False

    @property
    def apart(self) -> float:
        """How far C times the person's gradients, 1 each, are from nothing, in deviations."""
        c = sum(value * np.eye(STEPS, k=-lag) for lag, value in enumerate(FACTOR))
        turns = [1.0 if self.every or step % GROUPS == 0 else 0.0 for step in range(STEPS)]
        return float(np.linalg.norm(c @ np.array(turns))) / self.sigma

    def law(self, people: int) -> dict[int, float]:
        """The masses of quarters of a deviation."""
        centre = self.apart * people

        def below(x: float) -> float:
            return math.erfc((centre - x) / math.sqrt(2)) / 2

        quarters = range(-48, 49 + math.ceil(4 * self.apart))
        return {k: below((k + 0.5) / 4) - below((k - 0.5) / 4) for k in quarters}

    def __call__(self, people: int, size: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = np.rint(4 * rng.normal(self.apart * people, 1, size)).astype(np.int64)
        return found


def epsilon_at(delta: float, mechanism: Turns) -> float:
    """The least epsilon of the two laws at delta, by halving: to 2^-40."""
    with_person, without = mechanism.law(1), mechanism.law(0)

    def exceeds(epsilon: float) -> float:
        return math.fsum(max(with_person[k] - math.exp(epsilon) * without[k], 0.0) for k in without)

    low, high = 0.0, 60.0
    for _ in range(46):
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds(middle) > delta else (low, middle)
    return high


NORM = math.sqrt(sum(value * value for value in FACTOR))
CLAIM = ApproxDP("3.71", "0.01")
"""Of two turns at noise multiplier 1, which is what all three claim: a Gaussian of mu = sqrt(2)."""


def _case(about: str, mechanism: Turns) -> Case:
    return Case(
        about=about,
        mechanism=mechanism,
        left=1,
        right=0,
        claim=CLAIM,
        true_epsilon=epsilon_at(DELTA, mechanism),
        runs=6_000,
    )


TRAINED: Mapping[str, Case] = MappingProxyType(
    {
        "ftrl_turns": _case("two turns, four steps apart", Turns(NORM)),
        "ftrl_forgotten_norm": _case("noise as if the factor moved nobody further", Turns(1.0)),
        "ftrl_every_group": _case("groups that take no turns: each person is in every step", Turns(NORM, every=True)),
    }
)
"""By name."""
