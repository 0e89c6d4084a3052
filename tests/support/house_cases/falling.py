"""Cases of two threshold tests whose noise is halved in between: the threshold's, of scale 2 and 1, along a chain; the
faulty one draws it afresh. Whether neither query was above loses 1 at most, as with one threshold of scale 1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from scipy.signal import fftconvolve

from dpledger.accounting.guarantees import PureDP
from dpledger.audit.zoo import Case

__all__ = ["FALLING", "TwoTests"]

Floats = npt.NDArray[np.float64]
_QUERY = 0.25  # the scale of the second test's noise; that of the first is twice as large
_PLACES: Floats = np.linspace(-60, 60, 24_001)
_STEP = 120 / 24_000


def _density(scale: float) -> Floats:
    found: Floats = np.exp(-np.abs(_PLACES) / scale) / (2 * scale) * _STEP
    return found


def _below(x: Floats, scale: float) -> Floats:
    tail = np.exp(-np.abs(x) / scale) / 2
    return np.where(x < 0, tail, 1 - tail)


@dataclass(frozen=True, slots=True)
class TwoTests:
    """Whether neither of two queries is above 0, by noise."""

    shared: bool

    def __call__(self, queries: tuple[float, float], size: int, rng: np.random.Generator) -> Floats:
        fine = rng.laplace(0, 1, size)
        kept = rng.random(size) < 0.25
        coarse = np.where(kept & self.shared, 0.0, rng.laplace(0, 2, size)) + (fine if self.shared else 0)
        first = queries[0] + rng.laplace(0, 2 * _QUERY, size) >= coarse
        second = queries[1] + rng.laplace(0, _QUERY, size) >= fine
        return np.where(first | second, 0.0, 1.0)

    def neither(self, queries: tuple[float, float]) -> float:
        """P(neither is above)."""
        first, second = _below(_PLACES - queries[0], 2 * _QUERY), _below(_PLACES - queries[1], _QUERY)
        alone: Floats = np.full_like(first, _density(2) @ first)
        # beyond the places the first test is below, where noise is large
        moved = 1 - fftconvolve(1 - first, _density(2), mode="same")
        given = 0.25 * first + 0.75 * moved if self.shared else alone
        return float(_density(1) @ (second * given))


def _case(about: str, shared: bool) -> Case:
    mechanism, left, right = TwoTests(shared), (1.0, 1.0), (2.0, 2.0)
    p, q = mechanism.neither(left), mechanism.neither(right)
    lost = max(abs(math.log(p / q)), abs(math.log((1 - p) / (1 - q))))
    return Case(
        about=about, mechanism=mechanism, left=left, right=right, claim=PureDP(1), true_epsilon=lost, runs=20_000
    )


FALLING: Mapping[str, Case] = MappingProxyType(
    {
        "falling_chain": _case("tests whose noise falls, the threshold's along a chain", True),
        "falling_fresh": _case("tests whose noise falls, with fresh noise on the threshold", False),
    }
)
