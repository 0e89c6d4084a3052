"""Noise that is drawn, kept, shared or seeded in the ways that people find."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from dpledger.accounting.guarantees import ApproxDP
from dpledger.audit.zoo.cases import INFINITE, Case, Shown, family
from dpledger.audit.zoo.implementations import Implementation, Rng

__all__ = ["NOISED"]


@dataclass(frozen=True)
class SeededCount(Implementation):
    """A noisy count whose generator is the caller's, or has a seed that is always the same, or comes of the data."""

    seed: Literal["given", "fixed", "of the data"]

    def __call__(self, data: Sequence[int], rng: Rng) -> float:
        match self.seed:
            case "fixed":
                rng = np.random.default_rng(0)
            case "of the data":
                rng = np.random.default_rng(sum(data))
        return float(len(data) + rng.laplace())


@dataclass(frozen=True)
class NoiseOfBits(Implementation):
    """A count with Laplace noise that is computed from a uniform number of so many bits."""

    bits: int

    def __call__(self, data: Sequence[int], rng: Rng) -> float:
        uniform = (int(rng.integers(2**self.bits)) + 0.5) / 2**self.bits - 0.5
        return len(data) - math.copysign(math.log1p(-2 * abs(uniform)), uniform)


@dataclass(frozen=True)
class CountsOfGroups(Implementation):
    """How many 0 and how many 1 there are. `shared`: both have the same noise."""

    shared: bool

    def __call__(self, data: Sequence[int], rng: Rng) -> dict[str, float]:
        first = rng.laplace()
        return {
            "zeros": data.count(0) + first,
            "ones": data.count(1) + (first if self.shared else rng.laplace()),
        }


@dataclass(frozen=True)
class ExponentialNoise(Implementation):
    """A count with the difference of two exponential numbers. `one_sided`: with one."""

    one_sided: bool

    def __call__(self, data: Sequence[int], rng: Rng) -> float:
        return float(len(data) + rng.exponential() - (0.0 if self.one_sided else rng.exponential()))


@dataclass(frozen=True)
class Measured:
    """A number and how precise it is."""

    value: float
    sigma: float


@dataclass(frozen=True)
class GaussianCount(Implementation):
    """A count with Gaussian noise of sigma 1, as a dataclass."""

    def __call__(self, data: Sequence[int], rng: Rng) -> Measured:
        return Measured(value=len(data) + float(rng.normal()), sigma=1.0)


@dataclass(frozen=True)
class AskedTwice(Implementation):
    """The same count twice, claimed once. `cached`: the second answer is the first."""

    cached: bool

    def __call__(self, data: Sequence[int], rng: Rng) -> dict[str, float]:
        cache: dict[str, float] = {}

        def ask(query: str) -> float:
            if query not in cache or not self.cached:
                cache[query] = len(data) + float(rng.laplace())
            return cache[query]

        return {"first": ask("count"), "again": ask("count")}


class CachedTotal(NamedTuple):
    """A total, and how often the cache had what was asked."""

    value: float
    hits: int


@dataclass(frozen=True)
class CachedRows(Implementation):
    """A noisy total of the lengths of names, which a cache keeps by name. `told`: so are its hits."""

    told: bool

    def __call__(self, data: Sequence[str], rng: Rng) -> CachedTotal:
        cache: dict[str, int] = {}
        hits = 0
        total = 0
        for name in data:
            hits += name in cache
            total += cache.setdefault(name, min(len(name), 4))
        return CachedTotal(total + float(rng.laplace(scale=4.0)), hits if self.told else 0)


_ROWS = (1,) * 5

NOISED: Mapping[str, Case] = MappingProxyType(
    {
        **family(
            (_ROWS, _ROWS[1:]),
            seed_given=Shown("a noisy count by the caller's generator", SeededCount("given"), 1.0),
            seed_fixed=Shown("a seed that is always the same", SeededCount("fixed"), INFINITE),
            seed_of_the_data=Shown("a seed that is computed from the data", SeededCount("of the data"), INFINITE),
            noise_of_many_bits=Shown("noise from a uniform number of 52 bits", NoiseOfBits(52), 1.0),
            noise_of_few_bits=Shown("of 8 bits: no value is possible on both sides", NoiseOfBits(8), INFINITE),
            noise_of_both_signs=Shown("the difference of two exponentials", ExponentialNoise(False), 1.0),
            noise_of_one_sign=Shown("an exponential alone: never too low", ExponentialNoise(True), INFINITE),
            asked_twice_cached=Shown("a count asked twice, and remembered", AskedTwice(True), 1.0),
            asked_twice=Shown("a count asked twice, with fresh noise, and charged once", AskedTwice(False), 2.0, 2_000),
            gaussian_claimed_as_pure=Shown("Gaussian noise has no pure epsilon", GaussianCount(), INFINITE, 2_000),
        ),
        **family(
            (_ROWS, _ROWS[1:]),
            claim=ApproxDP(1, "0.13"),
            gaussian_in_a_dataclass=Shown("Gaussian noise at a delta that is enough", GaussianCount(), 0.9832633766),
        ),
        **family(
            ((0, 1, 1), (0, 1)),
            noise_of_each_group=Shown("two disjoint counts, each with noise", CountsOfGroups(False), 1.0, 500),
            noise_shared_by_groups=Shown("both with the same noise: its difference", CountsOfGroups(True), INFINITE),
        ),
        **family(
            (("Anna", "Bo", "Anna"), ("Anna", "Bo")),
            cache_of_rows=Shown("a noisy total that is computed with a cache", CachedRows(False), 1.0),
            cache_of_rows_counts_hits=Shown("and the hits of the cache are told", CachedRows(True), INFINITE),
        ),
    }
)
"""Noise, right and wrong, by name."""
