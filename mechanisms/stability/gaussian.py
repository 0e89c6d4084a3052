"""The run of Gaussian tests of distances: each draws its own noise and is counted; the last one halts."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from dpledger.accounting.certificates.gaussian_tests import GaussianTestsLaw, gaussian_tests_parts
from dpledger.accounting.composition import Composition
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.noise import DiscreteGaussian, Sensitivity, draw

__all__ = ["GaussianTests"]

_BLOCK = 2**14  # tests on one vector of noise


class GaussianTests:
    """The tests of a run and their count. One caller at a time: the conversation sees to that."""

    def __init__(self, law: GaussianTestsLaw, justification: str, entropy: Entropy) -> None:
        self._law = law
        self._noise = DiscreteGaussian(law.sigma)
        self._sensitivity = Sensitivity(1, "l2", justification)
        self._entropy = entropy
        self._asked = 0
        self._charged = 0

    @property
    def asked(self) -> int:
        """How many tests were run."""
        return self._asked

    @property
    def charged(self) -> int:
        """How many of them failed: as many as were not, they cost the same."""
        return self._charged

    @property
    def left(self) -> int:
        """How many may still be run."""
        return self._law.max_queries - self._asked

    @property
    def halted(self) -> bool:
        """Whether all were run."""
        return not self.left

    @property
    def planned(self) -> Composition:
        """What they are made of."""
        return gaussian_tests_parts(self._law)

    def ended(self) -> Composition:
        """The same, with the tests that were run: which counts as far as a ledger granted no more."""
        return dataclasses.replace(gaussian_tests_parts(self._law), done=self._asked)

    def test(self, steps: int) -> bool:
        """Whether a value at this distance passes: drawn and counted."""
        passed: bool = self._passed(np.array([steps], dtype=np.int64)).item()
        return passed

    def test_many(self, steps: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which values pass, up to the last test."""
        steps = steps[: self.left]
        starts = range(0, len(steps), _BLOCK)
        return np.concatenate(
            [np.ones(0, dtype=np.bool_), *(self._passed(steps[start : start + _BLOCK]) for start in starts)]
        )

    def _passed(self, steps: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        noisy = draw(self._noise, steps, sensitivity=self._sensitivity, entropy=self._entropy)
        passed: npt.NDArray[np.bool_] = np.asarray(noisy > self._law.threshold, dtype=np.bool_)
        self._asked += len(steps)
        self._charged += int(len(steps) - passed.sum())
        return passed
