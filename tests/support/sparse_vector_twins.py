"""Faulty twins of the sparse vector: each is a run that breaks one rule, priced and claimed as the correct one.

`TWINS` names them; `open_twin` opens one in place of the correct run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dpledger.decimals import multiply
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteLaplace
from dpledger.mechanisms.threshold import Outcome, SparseVector, SparseVectorRun
from dpledger.mechanisms.threshold.run import Thresholding
from dpledger.mechanisms.threshold.sparse_vector import thresholding

__all__ = ["TWINS", "open_twin"]


class NoQueryNoise(SparseVectorRun):
    """SVT-B1: the queries get no noise. Infinite loss: an order of the two noisy comparisons becomes impossible."""

    def _test(self, steps: int) -> Outcome:
        return self._answered(steps > self._threshold())


class HalfQueryNoise(SparseVectorRun):
    """SVT-B2: the query noise has the scale of the threshold noise. True epsilon 3 / threshold_scale an epoch."""

    def __init__(self, tests: Thresholding, data: object, entropy: Entropy) -> None:
        assert tests.threshold_noise is not None
        super().__init__(dataclasses.replace(tests, query_noise=tests.threshold_noise), data, entropy)


class OneMore(SparseVectorRun):
    """SVT-B3: halts after cutoff + 1 charged answers, with noise set for the cutoff."""

    @property
    def halted(self) -> bool:
        return len(self._closed_epochs) == self._tests.law.cutoff + 1


class NeverHalts(SparseVectorRun):
    """SVT-B4: the cutoff is ignored."""

    @property
    def halted(self) -> bool:
        return False


class FreshThreshold(SparseVectorRun):
    """SVT-B5: the threshold noise is redrawn for every query, so that free answers are no longer free."""

    def _test(self, steps: int) -> Outcome:
        self._noisy_threshold = None
        return super()._test(steps)


class NoiseOfOneCharge(SparseVectorRun):
    """SVT-B6: the noise is set for a cutoff of one. True epsilon: cutoff times the claim."""

    def __init__(self, tests: Thresholding, data: object, entropy: Entropy) -> None:
        assert tests.threshold_noise is not None
        cutoff = tests.law.cutoff
        smaller = (DiscreteLaplace(noise.scale / cutoff) for noise in (tests.threshold_noise, tests.query_noise))
        threshold_noise, query_noise = smaller
        right = dataclasses.replace(tests, threshold_noise=threshold_noise, query_noise=query_noise)
        super().__init__(right, data, entropy)


class ChargesAsCalls(SparseVectorRun):
    """TCT-B1: target charging composed over the cutoff instead of the calls: noise of cutoff / epsilon on a query. The
    loss grows with the length of the run."""

    def __init__(self, tests: Thresholding, data: object, entropy: Entropy) -> None:
        law = tests.law
        scale = multiply(tests.sensitivity.value, law.cutoff) / law.epsilon
        super().__init__(dataclasses.replace(tests, query_noise=DiscreteLaplace(scale)), data, entropy)


TWINS: Mapping[str, type[SparseVectorRun]] = {
    "SVT-B1": NoQueryNoise,
    "SVT-B2": HalfQueryNoise,
    "SVT-B3": OneMore,
    "SVT-B4": NeverHalts,
    "SVT-B5": FreshThreshold,
    "SVT-B6": NoiseOfOneCharge,
    "TCT-B1": ChargesAsCalls,
}


def open_twin(name: str, mechanism: SparseVector, data: object, *, entropy: Entropy) -> SparseVectorRun:
    """The faulty run `name` in place of the mechanism's own."""
    return TWINS[name](thresholding(mechanism), data, entropy)
