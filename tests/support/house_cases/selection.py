"""Cases of the best of several runs of randomised response on one bit, each run of epsilon 1/3, claimed at 1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dpledger.accounting.guarantees import PureDP
from dpledger.audit.zoo.cases import Case

__all__ = ["SELECTED", "BestOf"]


@dataclass(frozen=True, slots=True)
class BestOf:
    """The largest of K answers, each the bit with odds of e^epsilon. K: geometric of `mean`; `fixed`: always the mean;
    `by_data`: so many more trials where the bit is 1."""

    epsilon: float
    mean: int
    fixed: bool = False
    by_data: int = 0

    def nothing_better(self, bit: int) -> float:
        """P(all answers are 0)."""
        chance = 1 / (1 + math.exp(self.epsilon))
        zero = chance if bit else 1 - chance
        mean = self.mean + self.by_data * bit
        return zero**mean if self.fixed else zero / (mean - (mean - 1) * zero)

    def __call__(self, bit: int, size: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        mean = self.mean + self.by_data * bit
        trials = np.full(size, mean) if self.fixed else rng.geometric(1 / mean, size)
        ones = 1 / (1 + math.exp(-self.epsilon if bit else self.epsilon))
        return (rng.binomial(trials, ones) > 0).astype(np.int64)


def _case(about: str, mechanism: BestOf) -> Case:
    zeros = [mechanism.nothing_better(bit) for bit in (0, 1)]
    lost = max(abs(math.log(zeros[0] / zeros[1])), abs(math.log((1 - zeros[0]) / (1 - zeros[1]))))
    return Case(about=about, mechanism=mechanism, left=0, right=1, claim=PureDP(1), true_epsilon=lost, runs=20_000)


SELECTED: Mapping[str, Case] = MappingProxyType(
    {
        "selected_geometric": _case("the best of a geometric number of runs", BestOf(1 / 3, 5)),
        "selected_fixed": _case("the best of five runs, always five", BestOf(1 / 3, 5, fixed=True)),
        "selected_by_data": _case("more trials, by the data", BestOf(1 / 3, 5, by_data=20)),
    }
)
