"""Mutants of the sparse vector: each is tests that break one rule, priced and claimed as the correct one.

`MUTANTS` names them; `open_mutant` opens one in place of the correct run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dpledger.decimals import multiply
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace
from dpledger.mechanisms.threshold import SparseVector, SparseVectorRun
from dpledger.mechanisms.threshold.epochs import EpochPlan, Epochs
from dpledger.mechanisms.threshold.sparse_vector import thresholding
from dpledger.mechanisms.threshold.threshold_run import Thresholding

__all__ = ["MUTANTS", "open_mutant"]


class NoQueryNoise(Epochs):
    """SVT-B1: the queries get no noise. Infinite loss: an order of the two noisy comparisons becomes impossible."""

    def test(self, steps: int) -> bool:
        return self._counted(steps > self._threshold())


class HalfQueryNoise(Epochs):
    """SVT-B2: the query noise has the scale of the threshold noise. True epsilon 3 / threshold_scale an epoch."""

    def __init__(self, plan: EpochPlan, entropy: Entropy) -> None:
        assert plan.threshold_noise is not None
        super().__init__(dataclasses.replace(plan, query_noise=plan.threshold_noise), entropy)


class OneMore(Epochs):
    """SVT-B3: halts after cutoff + 1 charged answers, with noise set for the cutoff."""

    @property
    def halted(self) -> bool:
        return self.charged == self._plan.law.cutoff + 1


class NeverHalts(Epochs):
    """SVT-B4: the cutoff is ignored."""

    @property
    def halted(self) -> bool:
        return False


class FreshThreshold(Epochs):
    """SVT-B5: the threshold noise is redrawn for every query, so that free answers are no longer free."""

    def test(self, steps: int) -> bool:
        self._noisy_threshold = None
        return super().test(steps)


class NoiseOfOneCharge(Epochs):
    """SVT-B6: the noise is set for a cutoff of one. True epsilon: cutoff times the claim."""

    def __init__(self, plan: EpochPlan, entropy: Entropy) -> None:
        assert plan.threshold_noise is not None
        cutoff = plan.law.cutoff
        smaller = (DiscreteLaplace(noise.scale / cutoff) for noise in (plan.threshold_noise, plan.query_noise))
        threshold_noise, query_noise = smaller
        wrong = dataclasses.replace(plan, threshold_noise=threshold_noise, query_noise=query_noise)
        super().__init__(wrong, entropy)


class ChargesAsCalls(Epochs):
    """TCT-B1: target charging composed over the cutoff instead of the calls: noise of cutoff / epsilon on a query. The
    loss grows with the length of the run."""

    def __init__(self, plan: EpochPlan, entropy: Entropy) -> None:
        law = plan.law
        scale = multiply(plan.sensitivity.value, law.cutoff) / law.epsilon
        super().__init__(dataclasses.replace(plan, query_noise=DiscreteLaplace(scale)), entropy)


class _Faulty(SparseVectorRun):
    """The run whose tests are those of a mutant."""

    def __init__(self, mutant: type[Epochs], plan: Thresholding, data: object, entropy: Entropy) -> None:
        super().__init__(plan, data, entropy)
        self._tests = mutant(plan, entropy)


MUTANTS: Mapping[str, type[Epochs]] = {
    "SVT-B1": NoQueryNoise,
    "SVT-B2": HalfQueryNoise,
    "SVT-B3": OneMore,
    "SVT-B4": NeverHalts,
    "SVT-B5": FreshThreshold,
    "SVT-B6": NoiseOfOneCharge,
    "TCT-B1": ChargesAsCalls,
}


def open_mutant(name: str, mechanism: SparseVector, data: object, *, entropy: Entropy) -> SparseVectorRun:
    """The faulty run `name` in place of the mechanism's own."""
    return _Faulty(MUTANTS[name], thresholding(mechanism), data, entropy)
