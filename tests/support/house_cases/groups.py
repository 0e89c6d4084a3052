"""Keys that are published, and counts by groups, right and wrong. True losses in closed form: the probability of each
set of keys, and Laplace noise on counts that move together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Literal

import numpy as np

from dpledger.accounting.guarantees import ApproxDP, PureDP
from dpledger.audit.zoo.cases import Case
from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = ["GROUPS", "CappedCounts", "PublishedKeys"]

_ONE, _HUNDREDTH = Decimal(1), Decimal("0.01")


@dataclass(frozen=True)
class PublishedKeys(Implementation):
    """Which keys are published, as the bits of a number, of keys with so many units each. `rule`: by the best
    probabilities for this epsilon and delta a key, each that a unit has, or those whose number of others that have it
    is above 10 under Gaussian noise of `sigma`."""

    epsilon: Decimal
    delta: Decimal
    rule: Literal["best", "any", "noisy"] = "best"
    sigma: float = 0.0

    def chance(self, units: int) -> float:
        """With what probability a key of so many units is published."""
        if self.rule == "any":
            return float(units > 0)
        if self.rule == "noisy":
            masses = {noise: math.exp(-((noise / self.sigma) ** 2) / 2) for noise in range(-200, 201)}
            above = math.fsum(mass for noise, mass in masses.items() if units - 1 + noise > 10)
            return above / math.fsum(masses.values()) if units else 0.0
        grown, found = math.exp(float(self.epsilon)), 0.0
        for _ in range(units):
            found = min(grown * found + float(self.delta), 1 - (1 - found - float(self.delta)) / grown, 1.0)
        return found

    def __call__(self, data: Sequence[int], size: int, rng: Rng) -> Numbers:
        fell = rng.random((size, len(data))) < np.array([self.chance(units) for units in data])
        numbers: Numbers = fell @ 2 ** np.arange(len(data))
        return numbers


@dataclass(frozen=True)
class CappedCounts(Implementation):
    """How many rows each of three groups has, with Laplace noise for a unit of two rows: data are the rows of each
    unit, by group. `cap`: how many rows of a unit count, which are the first here."""

    cap: int

    def __call__(self, data: Sequence[Sequence[int]], size: int, rng: Rng) -> Numbers:
        rows = [group for unit in data for group in unit[: self.cap]]
        return np.bincount(rows, minlength=3) + rng.laplace(0, 2, (size, 3))


def _keys(about: str, mechanism: PublishedKeys, pair: tuple[tuple[int, ...], ...], true_epsilon: float) -> Case:
    return Case(
        about=about,
        mechanism=mechanism,
        left=pair[0],
        right=pair[1],
        claim=ApproxDP(1, "0.01"),
        true_epsilon=true_epsilon,
    )


def _shared(about: str, sigma: float, true_epsilon: float) -> Case:
    mechanism = PublishedKeys(_ONE, _HUNDREDTH, "noisy", sigma)
    return replace(_keys(about, mechanism, ((12,) * 9, (13,) * 9), true_epsilon), runs=20_000)


def _counts(about: str, cap: int, true_epsilon: float) -> Case:
    return Case(
        about=about,
        mechanism=CappedCounts(cap),
        left=((0, 1), (2,)),
        right=((0, 1), (2,), (0, 0, 1, 1, 2, 2)),
        claim=PureDP(1),
        true_epsilon=true_epsilon,
    )


GROUPS: Mapping[str, Case] = MappingProxyType(
    {
        "published_keys": _keys(
            "keys by the best probabilities, as claimed: one of three units, or of four",
            PublishedKeys(_ONE, _HUNDREDTH),
            ((3,), (4,)),
            1.0,
        ),
        "published_keys_new": _keys(
            "keys by the best probabilities: one of one unit, or of none",
            PublishedKeys(_ONE, _HUNDREDTH),
            ((0,), (1,)),
            0.0,
        ),
        "published_keys_any": _keys(
            "every key is published that a unit has: delta 1",
            PublishedKeys(_ONE, _HUNDREDTH, "any"),
            ((3, 0), (3, 1)),
            math.inf,
        ),
        "published_keys_without_shares": _keys(
            "a unit is in three keys, each at all of epsilon and delta; at worst 3",
            PublishedKeys(_ONE, _HUNDREDTH),
            ((3, 3, 3), (4, 4, 4)),
            2.6980440975,
        ),
        "published_keys_shared": _shared(
            "a unit is in nine keys, which share Gaussian noise: sigma 8", 8.0, 0.4694511535
        ),
        "published_keys_shared_by_one": _shared(
            "the same with the noise of a single key: sigma 1.5", 1.5, 4.4875643613
        ),
        "capped_counts": _counts("two rows of a unit count, as claimed", 2, 1.0),
        "capped_counts_never": _counts(
            "the cap is not enforced: six rows of a unit count, with the noise of two", 6, 3.0
        ),
    }
)
"""By name."""
