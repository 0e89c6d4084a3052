"""The losses that the zoo states for selections, by enumeration of what comes out. An auditor finds each of them by
sampling (`test_audit_mechanism.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from choice_oracle import probabilities
from dpledger.audit.zoo.answers.selection import SELECTED, NoisyBest, OneOfMany, WeightedChoice, WeightedOccurring
from dpledger.mechanisms.noise import ExponentialWeights, PermuteAndFlip


def law(specimen: Any, data: Any) -> Mapping[int, float]:
    match specimen:
        case WeightedChoice():
            return dict(enumerate(probabilities(ExponentialWeights(specimen.exponent), list(map(int, data)))))
        case NoisyBest():
            return dict(enumerate(probabilities(PermuteAndFlip(specimen.exponent), list(map(int, data)))))
        case WeightedOccurring():
            occurring = [place for place, count in enumerate(data) if count]
            counts = [int(data[place]) for place in occurring]
            return dict(zip(occurring, probabilities(ExponentialWeights(specimen.exponent), counts), strict=True))
        case OneOfMany():
            kept = float(specimen.kept)
            others = (1 - kept) / (specimen.answers - 1)
            return {place: kept if place == data else others for place in range(specimen.answers)}
    raise AssertionError(specimen)


@pytest.mark.parametrize("name", list(SELECTED))
def test_it_loses_on_its_pair_what_is_stated(name: str) -> None:
    shown = SELECTED[name]
    left, right = (law(shown.mechanism, data) for data in (shown.left, shown.right))
    worst = max(
        abs(math.log(left[place] / right[place])) if place in left and place in right else math.inf
        for place in left.keys() | right.keys()
    )
    assert worst == pytest.approx(shown.true_epsilon, abs=1e-9)
    assert shown.faulty == (name not in {"exponential_mechanism", "permute_and_flip"})
