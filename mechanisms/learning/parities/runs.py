"""Runs on one sample that each find a parity which fits a random part of it, or fail.

    once, with probability fail:    no parity, whatever the examples are
    each example, with probability rate, independently:  kept
    a uniform one of the parities that fit all those kept; none if there is none

Every run tosses the same coins, whether they matter or not. How long elimination takes depends on the examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.learning.equations import MOST_UNKNOWNS, Bits, Echelon, Systems, Words
from dpledger.mechanisms.learning.samples import LabeledSample, bits_of, labels_of
from dpledger.mechanisms.noise import happens, sampled

__all__ = ["FoundParities", "ParityRuns"]

HALF = Decimal("0.5")


@dataclass(frozen=True, slots=True, eq=False)
class FoundParities:
    """What many runs found: `numbers`, one each, meaningless where `fits` is false. Bit j of a number is unknown j."""

    fits: npt.NDArray[np.bool_]
    numbers: npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ParityRuns:
    """The examples as equations, and with what probabilities a run fails and keeps each. A null record is the equation
    0 = 0, which fits every parity."""

    left: Bits
    right: Bits
    rate: Decimal
    fail: Decimal

    @classmethod
    def on(cls, sample: LabeledSample, dimension: int, rate: Decimal, fail: Decimal) -> ParityRuns:
        """Runs on a sample whose rows are `dimension` bits each."""
        rows = bits_of(sample.x, dimension)
        return cls(rows.bits, labels_of(sample.y) * rows.known, rate, fail)

    @property
    def unknowns(self) -> int:
        """Bits of a row."""
        return int(self.left.shape[1])

    def one(self, entropy: Entropy) -> int | None:
        """The number of the parity that a run finds; None if it fails."""
        forced = happens(self.fail, entropy=entropy)
        kept = sampled(self.rate, len(self.left), entropy=entropy)
        free = happens(HALF, entropy=entropy, size=self.unknowns).astype(np.uint8)
        found = Echelon.of(self.left[kept], self.right[kept])
        if found is None or forced:
            return None
        return int.from_bytes(np.packbits(found.solution(free), bitorder="little").tobytes(), "little")

    def many(self, size: int, entropy: Entropy) -> FoundParities:
        """What so many independent runs find: all at once where the unknowns fit a word, else one by one."""
        if self.unknowns > MOST_UNKNOWNS:
            answers = [self.one(entropy) for _ in range(size)]
            numbers = np.empty(size, dtype=object)
            numbers[:] = [0 if answer is None else answer for answer in answers]
            return FoundParities(np.array([answer is not None for answer in answers], dtype=np.bool_), numbers)
        forced = happens(self.fail, entropy=entropy, size=size)
        systems = Systems(size, self.unknowns)
        for equation in self._words().tolist():
            systems.add(equation, happens(self.rate, entropy=entropy, size=size))
        free = np.zeros(size, dtype=np.uint64)
        for unknown in range(self.unknowns):
            free |= happens(HALF, entropy=entropy, size=size).astype(np.uint64) << np.uint64(unknown)
        return FoundParities(systems.solvable & ~forced, systems.solutions(free))

    def _words(self) -> Words:
        """Each equation as a word, the right side its highest bit."""
        places = np.arange(self.unknowns, dtype=np.uint64)
        left = np.bitwise_or.reduce(self.left.astype(np.uint64) << places, axis=1, initial=np.uint64(0))
        words: Words = left | self.right.astype(np.uint64) << np.uint64(self.unknowns)
        return words
