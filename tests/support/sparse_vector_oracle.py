"""The exact law of sparse vector transcripts, by summation (discrete noise) or quadrature (continuous noise).

Shares no code with the mechanism. A transcript is a string of "1" (the test passed: free) and "0" (it did not:
charged).
Values and threshold are whole numbers for the discrete noise; scales are in the same units.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """Laplace noise of this scale: on the integers, or continuous."""

    scale: float
    discrete: bool = True

    def above(self, t: Floats) -> Floats:
        """P(noise > t); for discrete noise t is whole."""
        if self.scale == 0:
            return (t < 0).astype(np.float64)
        size = np.abs(t)
        if self.discrete:
            q = math.exp(-1 / self.scale)
            return np.where(t >= 0, q ** (size + 1) / (1 + q), 1 - q**size / (1 + q))
        return np.where(t >= 0, np.exp(-size / self.scale) / 2, 1 - np.exp(-size / self.scale) / 2)

    def nodes(self, breaks: Sequence[float]) -> tuple[Floats, Floats]:
        """Points and weights that integrate a function with kinks at `breaks` against this law."""
        if self.scale == 0:
            return np.zeros(1), np.ones(1)
        reach = 60 * self.scale
        if self.discrete:
            q = math.exp(-1 / self.scale)
            points = np.arange(-math.ceil(reach), math.ceil(reach) + 1, dtype=np.float64)
            return points, (1 - q) / (1 + q) * q ** np.abs(points)
        return self._segments(sorted({-reach, reach, 0.0, *(x for x in breaks if abs(x) < reach)}))

    def _segments(self, edges: Sequence[float]) -> tuple[Floats, Floats]:
        unit, unit_weights = np.polynomial.legendre.leggauss(40)
        points, weights = [], []
        for low, high in itertools.pairwise(edges):
            pieces = max(1, math.ceil((high - low) / (2 * self.scale)))
            for a, b in itertools.pairwise(np.linspace(low, high, pieces + 1)):
                x = (a + b) / 2 + (b - a) / 2 * unit
                points.append(x)
                weights.append(unit_weights * (b - a) / 2 * np.exp(-np.abs(x) / self.scale) / (2 * self.scale))
        return np.concatenate(points), np.concatenate(weights)


@dataclass(frozen=True)
class Law:
    """How a run is noised. `refreshed`: a fresh threshold after each charged test. `every_test`: one for each test."""

    threshold_noise: Noise
    query_noise: Noise
    threshold: float
    cutoff: int
    refreshed: bool = True
    every_test: bool = False

    def probability(self, values: Sequence[float], transcript: str) -> float:
        """The probability of `transcript` on fixed query values."""
        return math.prod(self._epoch(values[i:j], transcript[i:j]) for i, j in self._epochs(transcript))

    def transcripts(self, length: int) -> Iterator[str]:
        """Every transcript that a run with this many queries can end with."""
        for bits in itertools.product("01", repeat=length):
            text = "".join(bits)
            charged = list(itertools.accumulate(int(bit == "0") for bit in text))
            if self.cutoff not in charged:
                yield text
            elif charged.index(self.cutoff) == length - 1 or set(text[charged.index(self.cutoff) + 1 :]) == {"0"}:
                yield text[: charged.index(self.cutoff) + 1]

    def distribution(self, values: Sequence[float]) -> dict[str, float]:
        """Each transcript with its probability."""
        return {text: self.probability(values, text) for text in self.transcripts(len(values))}

    def _epochs(self, transcript: str) -> Iterator[tuple[int, int]]:
        start = 0
        for end in range(1, len(transcript) + 1):
            fresh = self.every_test or (self.refreshed and transcript[end - 1] == "0")
            if fresh or end == len(transcript):
                yield start, end
                start = end

    def _epoch(self, values: Sequence[float], answers: str) -> float:
        """B(q, o): one threshold, its noise z integrated out."""
        z, weights = self.threshold_noise.nodes([value - self.threshold for value in values])
        likelihood = np.ones_like(z)
        for value, answer in zip(values, answers, strict=True):
            passes = self.query_noise.above(self.threshold + z - value)
            likelihood *= passes if answer == "1" else 1 - passes
        return float(weights @ likelihood)


def hockey_stick(left: dict[str, float], right: dict[str, float], epsilon: float) -> float:
    """The sum over transcripts of max(0, P - e^epsilon Q)."""
    return sum(max(0.0, p - math.exp(epsilon) * right[text]) for text, p in left.items())


def charges_within(law: Law, value: float, queries: int) -> Floats:
    """P(at least k of `queries` equal queries are charged), k = 0, 1, ..., for a run that never halts: the lengths of
    epochs are independent, so their distribution is convolved."""
    length = [law.probability([value] * n, "1" * (n - 1) + "0") for n in range(1, queries + 1)]
    epoch = np.array([0.0, *length])
    tests_so_far, result = np.eye(1, queries + 1)[0], [1.0]
    for _ in range(queries):
        tests_so_far = np.convolve(tests_so_far, epoch)[: queries + 1]
        result.append(float(tests_so_far.sum()))
    return np.array(result)
