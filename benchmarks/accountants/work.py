"""What is composed: parts with counts and a delta, as a tree of ours; the named cases, and random ones from seeds."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from dpledger.accounting.composition import (
    Composition,
    DiscreteGaussianLaw,
    GaussianLaw,
    LaplaceLaw,
    PoissonSampled,
    Repeated,
    Sequence,
)
from dpledger.accounting.guarantees import PureDP

Kind = Literal["gaussian", "discrete_gaussian", "laplace", "response"]


@dataclass(frozen=True)
class Part:
    """`size`: the noise multiplier of a Gaussian, the epsilon of a Laplace or randomised response. `rate`: of the
    Poisson sample that it runs on, 1 for everyone."""

    kind: Kind
    size: float
    count: int = 1
    rate: float = 1.0

    def tree(self) -> Composition:
        leaf = self._leaf()
        once = leaf if self.rate == 1 else PoissonSampled(leaf, rate=self.rate)
        return Repeated(once, times=self.count)

    def _leaf(self) -> Composition:
        match self.kind:
            case "gaussian":
                return GaussianLaw(self.size)
            case "discrete_gaussian":
                return DiscreteGaussianLaw(self.size, 1)
            case "laplace":
                return LaplaceLaw(self.size)
            case "response":
                return PureDP(self.size)


@dataclass(frozen=True)
class Work:
    """What is asked: epsilon of all the parts at `delta`."""

    name: str
    parts: tuple[Part, ...]
    delta: float

    def tree(self) -> Composition:
        return self.parts[0].tree() if len(self.parts) == 1 else Sequence(tuple(part.tree() for part in self.parts))

    def unlike(self, i: int) -> Work:
        """The same work but for the tenth digit of each size: nothing that was kept from a run before fits it."""
        return replace(self, parts=tuple(replace(part, size=part.size * (1 + i * 1e-10)) for part in self.parts))

    @property
    def runs(self) -> int:
        return sum(part.count for part in self.parts)


def dp_sgd(name: str, sigma: float, rate: float, steps: int, delta: float) -> Work:
    return Work(name, (Part("gaussian", sigma, steps, rate),), delta)


MAIN = (
    dp_sgd("A: sigma 1, rate 0.01, 1000 steps, 1e-5", 1.0, 0.01, 1000, 1e-5),
    dp_sgd("B: sigma 0.8, rate 256/60000, 14063 steps, 1e-5", 0.8, 256 / 60000, 14063, 1e-5),
    dp_sgd("C: sigma 1.1, rate 1e-3, 1e5 steps, 1e-6", 1.1, 1e-3, 10**5, 1e-6),
    dp_sgd("D: sigma 2, rate 0.05, 5000 steps, 1e-8", 2.0, 0.05, 5000, 1e-8),
    dp_sgd("E: sigma 0.6, rate 4096/1.3e6, 30000 steps, 1e-7", 0.6, 4096 / 1.3e6, 30000, 1e-7),
)
OTHERS = (
    dp_sgd("A at 1e-12", 1.0, 0.01, 1000, 1e-12),
    dp_sgd("A at 1e-30", 1.0, 0.01, 1000, 1e-30),
    dp_sgd("A at 1e-100", 1.0, 0.01, 1000, 1e-100),
    dp_sgd("sigma 1, rate 0.01, 1e5 steps, 1e-300", 1.0, 0.01, 10**5, 1e-300),
    dp_sgd("sigma 1, rate 0.01, 1e6 steps, 1e-5", 1.0, 0.01, 10**6, 1e-5),
    dp_sgd("sigma 0.8, rate 1e-3, 1e6 steps, 1e-8", 0.8, 1e-3, 10**6, 1e-8),
    dp_sgd("sigma 1, rate 1e-4, 1e8 steps, 1e-9", 1.0, 1e-4, 10**8, 1e-9),
    dp_sgd("sigma 2, rate 1e-5, 1e10 steps, 1e-9", 2.0, 1e-5, 10**10, 1e-9),
    dp_sgd("D at 1e-12 (docs/peers.md)", 2.0, 0.05, 5000, 1e-12),
    Work("Gaussian, sigma 1000, 1e6 runs, 1e-5", (Part("gaussian", 1000, 10**6),), 1e-5),
    Work("Gaussian, sigma 5, 100 runs, 1e-30", (Part("gaussian", 5, 100),), 1e-30),
    Work("discrete Gaussian, sigma 50, 1e5 runs, 1e-9", (Part("discrete_gaussian", 50, 10**5),), 1e-9),
    Work("Laplace 0.1, 500 runs, 1e-6", (Part("laplace", 0.1, 500),), 1e-6),
    Work("Laplace 1, 20 runs, 1e-6", (Part("laplace", 1.0, 20),), 1e-6),
    Work("Laplace 0.01, 1e4 runs, 1e-6", (Part("laplace", 0.01, 10**4),), 1e-6),
    Work("randomised response 0.1, 500 runs, 1e-6", (Part("response", 0.1, 500),), 1e-6),
    Work("randomised response 0.01, 1e4 runs, 1e-6", (Part("response", 0.01, 10**4),), 1e-6),
)


def distinct(count: int, seed: int) -> Work:
    """So many sampled Gaussians, no two alike, twenty steps each."""
    rng = random.Random(seed)
    parts = (
        Part("gaussian", round(rng.uniform(0.8, 4), 6), 20, round(rng.uniform(1e-4, 0.02), 7)) for _ in range(count)
    )
    return Work(f"{count} distinct, 20 steps each, 1e-5", tuple(parts), 1e-5)


def few_runs(seed: int) -> Iterator[Work]:
    """2 to 63 steps of a sampled Gaussian, delta 1e-3 to 1e-12."""
    return _random_dp_sgd(seed, (2, 63), (1e-4, 0.5), (-12, -3))


def any_training(seed: int) -> Iterator[Work]:
    """64 to 10^8 steps of a sampled Gaussian, delta 1e-2 to 1e-300."""
    return _random_dp_sgd(seed, (64, 10**8), (1e-4, 0.5), (-300, -2))


def _random_dp_sgd(
    seed: int, steps: tuple[int, int], rates: tuple[float, float], exponents: tuple[float, float]
) -> Iterator[Work]:
    rng = random.Random(seed)
    while True:
        rate = math.exp(rng.uniform(math.log(rates[0]), math.log(rates[1])))
        times = round(math.exp(rng.uniform(math.log(steps[0]), math.log(steps[1]))))
        yield dp_sgd("", rng.uniform(0.5, 4), rate, times, 10 ** rng.uniform(*exponents))


def closed_mixes(seed: int) -> Iterator[Work]:
    """Up to twenty entries that have transforms in closed form, each up to a thousand times."""
    rng = random.Random(seed)
    sizes: dict[Kind, tuple[float, float]] = {"gaussian": (2, 100), "laplace": (0.005, 0.5), "response": (0.005, 0.5)}
    while True:
        parts = []
        for _ in range(rng.randint(2, 20)):
            kind = rng.choice(list(sizes))
            size = math.exp(rng.uniform(*map(math.log, sizes[kind])))
            parts.append(Part(kind, float(f"{size:.4g}"), round(math.exp(rng.uniform(0, math.log(1000))))))
        yield Work("", tuple(parts), 10 ** rng.uniform(-12, -2))
