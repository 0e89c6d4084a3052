"""Sparse vectors and noisy maxima, as they were published and as people write them.

Of the six sparse vectors of Lyu-Su-Li 2017 the first two are right. At epsilon 1, with c answers above:

    1   threshold Lap(2), queries Lap(4c)           4   threshold Lap(4), queries Lap(4/3)
    2   Lap(2c), redrawn after each above, Lap(4c)  5   threshold Lap(2), queries without noise, never halts
    3   Lap(2), Lap(2c), the noisy value is told    6   threshold Lap(2), queries Lap(2), never halts
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Literal, NamedTuple

from dpledger.audit.zoo.cases import INFINITE, Case, Shown, family
from dpledger.audit.zoo.implementations import Implementation, Rng

__all__ = ["SEARCHED"]


@dataclass(frozen=True)
class SearchedQueries(Implementation):
    """Which queries pass a threshold of 0, as a list that ends with the `halts`-th that does. `values`: in place of
    True, by what they were compared with."""

    threshold_scale: Decimal
    query_scale: Decimal
    halts: int
    redrawn: bool = False
    values: bool = False

    def __call__(self, data: Sequence[float], rng: Rng) -> list[bool | float]:
        told: list[bool | float] = []
        above = 0
        threshold = rng.laplace(scale=float(self.threshold_scale))
        for query in data:
            noisy = query + (float(rng.laplace(scale=float(self.query_scale))) if self.query_scale else 0.0)
            passed = bool(noisy >= threshold)
            told.append(noisy if passed and self.values else passed)
            above += passed
            if above == self.halts:
                break
            if passed and self.redrawn:
                threshold = rng.laplace(scale=float(self.threshold_scale))
        return told


class Best(NamedTuple):
    """The place of the best, and how good it is, if that is told."""

    place: int
    value: float | None


@dataclass(frozen=True)
class NoisyMaximum(Implementation):
    """The place of the highest of noisy numbers. `told`: its noisy value too. `noise`: Laplace of scale 2, or
    exponential of mean 2, with which the place alone would cost no more."""

    told: bool
    noise: Literal["laplace", "exponential"] = "laplace"

    def __call__(self, data: Sequence[float], rng: Rng) -> Best:
        draw = rng.laplace if self.noise == "laplace" else rng.exponential
        noisy = [x + float(draw(scale=2.0)) for x in data]
        place = max(range(len(noisy)), key=noisy.__getitem__)
        return Best(place, noisy[place] if self.told else None)


_QUERIES = (0.0,) * 5 + (1.0,), (1.0,) * 5 + (0.0,)
_TWO = (0.0,) * 4 + (1.0,) * 2, (1.0,) * 4 + (0.0,) * 2
_EIGHT = (0.0,) * 4 + (1.0,) * 4, (1.0,) * 4 + (0.0,) * 4
_NEVER = 99


def _run(threshold_scale: str, query_scale: str, halts: int, **more: bool) -> SearchedQueries:
    return SearchedQueries(Decimal(threshold_scale), Decimal(query_scale), halts, **more)


SEARCHED: Mapping[str, Case] = MappingProxyType(
    {
        **family(
            _TWO,
            sparse_vector_1=Shown("the first of six, with two answers above", _run("2", "8", 2), 0.6348412722, 500),
            sparse_vector_2=Shown("the second, which redraws", _run("4", "8", 2, redrawn=True), 0.4918424376, 500),
            sparse_vector_4=Shown(
                "the fourth: noise on queries for one answer; at worst 3.25",
                _run("4", "1.3333333333", 2),
                2.9132427285,
                20_000,
            ),
        ),
        **family(
            _EIGHT,
            sparse_vector_5=Shown("the fifth: no noise on queries", _run("2", "0", _NEVER), INFINITE),
            sparse_vector_6=Shown(
                "the sixth: any number of answers above", _run("2", "2", _NEVER), 3.1846376328, 4_000
            ),
        ),
        **family(
            _QUERIES,
            noisy_maximum=Shown("which of six is the best, by Laplace noise", NoisyMaximum(False), 0.9516267683),
        ),
        **family(
            ((0.0,) * 8 + (4.0,), (1.0,) * 8 + (3.0,)),
            sparse_vector_3=Shown(
                "the third: it tells the value that it compared", _run("2", "2", 1, values=True), 4.0, 300_000
            ),
        ),
        **family(
            ((0.0,) * 5, (1.0,) * 5),
            noisy_maximum_with_value=Shown("and its noisy value; five queries", NoisyMaximum(True), 2.5, 5_000),
            noisy_maximum_with_value_exponential=Shown(
                "and its value, with noise that is never negative", NoisyMaximum(True, "exponential"), INFINITE, 4_000
            ),
        ),
    }
)
"""Searches, right and wrong, by name."""
