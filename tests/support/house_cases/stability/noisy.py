"""Cases of a noisy maximum of votes: one query, exact integer Gaussian noise on the votes of each class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit.zoo.cases import Case

__all__ = ["HYBRID", "NOISY", "Hybrid", "Maximum", "law_of"]

Votes = tuple[int, ...]


def gaussian(sigma: float) -> dict[int, float]:
    """The masses of an integer Gaussian, to twelve sigma."""
    reach = math.ceil(12 * sigma) + 1
    weights = {k: math.exp(-k * k / (2 * sigma * sigma)) for k in range(-reach, reach + 1)}
    whole = math.fsum(weights.values())
    return {k: weight / whole for k, weight in weights.items()}


def law_of(votes: Votes, sigma: float, threshold: int | None = None, wide: float = 1.0) -> dict[int, float]:
    """P(answer), by every value of the noise; ties to the smallest class, and one key more for what is not answered."""
    noise = gaussian(sigma)
    below = {k: math.fsum(p for j, p in noise.items() if j < k) for k in range(min(noise) - 9, max(noise) + 10)}
    found = {}
    for one, count in enumerate(votes):
        total = 0.0
        for k, chance in noise.items():
            for other, its in enumerate(votes):
                if other != one:  # a class before it must have less, one behind it no more
                    most = count + k - its + (other > one)
                    chance *= below[max(min(most, max(below)), min(below))]
            total += chance
        found[one] = total
    if threshold is None:
        return found
    passes = math.fsum(p for k, p in gaussian(wide).items() if max(votes) + k >= threshold)
    return {one: passes * chance for one, chance in found.items()} | {len(votes): 1 - passes}


@dataclass(frozen=True, slots=True)
class Maximum:
    """The noisy maximum of votes, by noise of `sigma`; `shared`: one draw for all classes, which moves none of them."""

    sigma: float
    shared: bool = False

    def law(self, votes: Votes) -> dict[int, float]:
        if self.shared:
            best = int(np.argmax(votes))
            return {one: float(one == best) for one in range(len(votes))}
        return law_of(votes, self.sigma)

    def __call__(self, votes: Votes, size: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        law = self.law(votes)
        return rng.choice(list(law), size, p=np.array(list(law.values())) / math.fsum(law.values()))


@dataclass(frozen=True, slots=True)
class Hybrid:
    """One query: the winner where half the gap, less one, passes a test of Laplace noise on the integers; else, with a
    code of its own, the noisy maximum. `bare`: without its noise."""

    sigma: float
    scale: float = 1.0
    threshold: int = 6
    bare: bool = False

    def law(self, votes: Votes) -> dict[int, float]:
        first, second = sorted(votes, reverse=True)[:2]
        distance, q = max(0, -(-(first - second) // 2) - 1), math.exp(-1 / self.scale)
        short = self.threshold - distance
        passes = q ** (short + 1) / (1 + q) if short >= 0 else 1 - q**-short / (1 + q)
        maximum = Maximum(self.sigma).law(votes)
        if self.bare:
            maximum = {one: float(one == int(np.argmax(votes))) for one in maximum}
        return {int(np.argmax(votes)): passes} | {
            len(votes) + one: (1 - passes) * chance for one, chance in maximum.items()
        }

    def __call__(self, votes: Votes, size: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        law = self.law(votes)
        return rng.choice(list(law), size, p=np.array(list(law.values())) / math.fsum(law.values()))


def _case(about: str, mechanism: Maximum, pair: tuple[Votes, Votes], runs: int = 20_000) -> Case:
    """Claimed at the largest loss of a right one on this pair, rounded up."""
    left, right = (mechanism.law(votes) for votes in pair)
    lost = max(abs(math.log(left[one] / right[one])) if left[one] and right[one] else math.inf for one in left)
    return Case(
        about=about, mechanism=mechanism, left=pair[0], right=pair[1], claim=PureDP(1), true_epsilon=lost, runs=runs
    )


NOISY: Mapping[str, Case] = MappingProxyType(
    {
        "noisy_maximum": _case("the largest count, sigma 3", Maximum(3.0), ((6, 5), (5, 6))),
        "noisy_maximum_narrow": _case("half of a vote's noise", Maximum(0.9), ((6, 5), (5, 6))),
        "noisy_maximum_shared": _case("one draw for all classes", Maximum(3.0, shared=True), ((6, 5), (5, 6))),
    }
)


def _hybrid(about: str, mechanism: Hybrid) -> Case:
    """On two tables with another winner: what is lost beside a delta of 0.01, by bisection."""
    pair, delta = ((6, 5), (5, 6)), 0.01
    left, right = (mechanism.law(votes) for votes in pair)

    def beyond(epsilon: float) -> float:
        return max(
            math.fsum(max(0.0, one[key] - math.exp(epsilon) * other.get(key, 0.0)) for key in one)
            for one, other in ((left, right), (right, left))
        )

    low, high = 0.0, 20.0
    while high - low > 1e-9:
        low, high = (low, (low + high) / 2) if beyond((low + high) / 2) <= delta else ((low + high) / 2, high)
    return Case(
        about=about,
        mechanism=mechanism,
        left=pair[0],
        right=pair[1],
        claim=ApproxDP(1, "0.01"),
        true_epsilon=high if beyond(20.0) <= delta else math.inf,
    )


HYBRID: Mapping[str, Case] = MappingProxyType(
    {
        "hybrid_votes": _hybrid("free where far, else the largest count, sigma 3", Hybrid(3.0)),
        "hybrid_votes_bare": _hybrid("the winner without noise, where the test failed", Hybrid(3.0, bare=True)),
    }
)
