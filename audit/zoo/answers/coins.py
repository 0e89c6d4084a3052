"""Randomised responses of one bit and what is wrongly made of them: finite supports, so that all is enumerated."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from dpledger.audit.zoo.implementations import Implementation, Numbers, Rng

__all__ = ["BestOfHidden", "PublishedCoin", "RareSteps", "RevealingDraws", "RevealingRuns", "SpentBeforeTheCoin"]


def _kept(epsilon: Decimal) -> float:
    """The chance that a randomised response keeps the bit."""
    return float(1 / (1 + np.exp(-float(epsilon))))


def _answered(bit: bool, epsilon: Decimal, size: int, rng: Rng) -> Numbers:
    return np.equal(rng.random(size) < _kept(epsilon), bit)


@dataclass(frozen=True)
class PublishedCoin(Implementation):
    """A fair coin that is published takes a randomised response of epsilon `cheap` or of `dear`: (which, answer)."""

    cheap: Decimal
    dear: Decimal

    def __call__(self, data: bool, size: int, rng: Rng) -> Numbers:
        is_dear = rng.random(size) < 0.5
        answers = np.where(is_dear, _answered(data, self.dear, size, rng), _answered(data, self.cheap, size, rng))
        return np.stack([is_dear, answers], axis=1)


@dataclass(frozen=True)
class SpentBeforeTheCoin(Implementation):
    """A response of epsilon `first`, and then, as the budget is not passed yet, a published coin: (which, both answers
    as the bits of a number). The test after the outcome comes too late."""

    first: Decimal
    cheap: Decimal
    dear: Decimal

    def __call__(self, data: bool, size: int, rng: Rng) -> Numbers:
        coin = PublishedCoin(self.cheap, self.dear)(data, size, rng)
        return np.stack([coin[:, 0], coin[:, 1] + 2 * _answered(data, self.first, size, rng)], axis=1)


@dataclass(frozen=True)
class RareSteps(Implementation):
    """How many of some steps came out rare: on the left each with the chance (1 - e^-gain)/(e^fall - e^-gain), on the
    right e^fall times as often. A rare step loses -fall, a common one gain."""

    steps: int
    gain: Decimal
    fall: Decimal

    def __call__(self, data: bool, size: int, rng: Rng) -> Numbers:
        gain, fall = float(self.gain), float(self.fall)
        rare = (1 - np.exp(-gain)) / (np.exp(fall) - np.exp(-gain))
        return rng.binomial(self.steps, rare if data else rare * np.exp(fall), size)


@dataclass(frozen=True)
class RevealingRuns(Implementation):
    """Some runs that each show the bit with probability `delta` and nothing else: what was shown, or -1."""

    runs: int
    delta: Decimal

    def __call__(self, data: bool, size: int, rng: Rng) -> Numbers:
        return np.where((rng.random((size, self.runs)) < float(self.delta)).any(axis=1), int(data), -1)


@dataclass(frozen=True)
class RevealingDraws(Implementation):
    """A published draw takes one of some responses, of epsilons `least`, 2 `least`, ..., and shows the bit itself with
    probability `reveal` instead: (which, answer, or 2 and 3 for the bit itself)."""

    draws: int
    least: Decimal
    reveal: Decimal

    def __call__(self, data: bool, size: int, rng: Rng) -> Numbers:
        which = rng.integers(self.draws, size=size)
        answers = np.equal(rng.random(size) < 1 / (1 + np.exp(-float(self.least) * (1 + which))), data)
        shown = rng.random(size) < float(self.reveal)
        return np.stack([which, np.where(shown, 2 + int(data), answers)], axis=1)


@dataclass(frozen=True)
class BestOfHidden(Implementation):
    """The true bit if one of some hidden responses shows it."""

    runs: int
    epsilon: Decimal

    def __call__(self, data: bool, size: int, rng: Rng) -> Numbers:
        shown = (rng.random((size, self.runs)) < _kept(self.epsilon)).any(axis=1)
        return np.equal(shown, data)
