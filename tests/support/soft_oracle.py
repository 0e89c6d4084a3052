"""The exact law of soft labels on given distances, by quadrature over each threshold; shares no code with a mechanism.

A transcript has a letter a query: p and s (the plain, the shifted test passed), u (neither), and h where the run ended
with a failed plain test.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sparse_vector_oracle import Noise

__all__ = ["SoftLaw"]

Distances = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class SoftLaw:
    """`failed`: so many failed tests end a run. `renewed`: whether each of them renews the threshold."""

    threshold_noise: Noise
    query_noise: Noise
    threshold: float
    failed: int
    renewed: bool = True

    @classmethod
    def of(cls, law: Any) -> Self:
        """That of a leaf, with discrete noise."""
        return cls(
            Noise(float(law.threshold_scale)),
            Noise(float(law.query_scale)),
            float(law.stable_at),
            law.cutoff,
            law.mode not in ("single_threshold", "target_charging"),
        )

    def transcripts(self, queries: int, so_far: str = "", failed: int = 0) -> Iterator[str]:
        """All of them that so many queries may end with."""
        if len(so_far) == queries or failed == self.failed:
            yield so_far
            return
        yield from self.transcripts(queries, so_far + "p", failed)
        if failed + 1 == self.failed:
            yield so_far + "h"
            return
        yield from self.transcripts(queries, so_far + "s", failed + 1)
        yield from self.transcripts(queries, so_far + "u", failed + 2)

    def probability(self, distances: Distances, transcript: str) -> float:
        """Of a transcript, on these (plain, shifted) distances."""
        epochs: list[list[tuple[float, bool]]] = [[]]
        for distance, passed in self._tests(distances, transcript):
            epochs[-1].append((distance, passed))
            if not passed and self.renewed:
                epochs.append([])
        return math.prod(self._epoch(epoch) for epoch in epochs if epoch)

    def distribution(self, distances: Distances) -> dict[str, float]:
        """Each transcript with its probability."""
        return {text: self.probability(distances, text) for text in self.transcripts(len(distances))}

    def published(self, distances: Distances, values: Sequence[tuple[Any, Any]]) -> dict[Any, float]:
        """The law of the answers: the values of the tests that passed, None where neither did."""
        found: dict[Any, float] = defaultdict(float)
        for transcript, chance in self.distribution(distances).items():
            answers = tuple(
                {"p": plain, "s": shifted}.get(letter)
                for letter, (plain, shifted) in zip(transcript, values, strict=False)
            )
            found[answers] += chance
        return found

    @staticmethod
    def _tests(distances: Distances, transcript: str) -> Iterator[tuple[float, bool]]:
        for (plain, shifted), letter in zip(distances, transcript, strict=False):
            yield plain, letter == "p"
            if letter in "su":
                yield shifted, letter == "s"

    def _epoch(self, tests: list[tuple[float, bool]]) -> float:
        z, weights = self.threshold_noise.nodes([distance - self.threshold for distance, _ in tests])
        likelihood = np.ones_like(z)
        for distance, passed in tests:
            above = self.query_noise.above(self.threshold + z - distance)
            likelihood *= above if passed else 1 - above
        return float(weights @ likelihood)
