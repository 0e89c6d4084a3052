"""Mechanisms with few outcomes, as rows of probabilities, and their losses: an oracle without any of our code."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

Floats = npt.NDArray[np.float64]

__all__ = ["bounds", "excess", "integrated_delta", "probabilistic_delta", "rows"]


@st.composite
def rows(draw: st.DrawFn, count: int, outcomes: int = 4) -> Floats:
    """`count` distributions on the same outcomes, some of which may have no mass."""
    masses = st.lists(st.integers(0, 40), min_size=outcomes, max_size=outcomes).filter(any)
    found = np.array([draw(masses) for _ in range(count)], dtype=np.float64)
    made: Floats = found / found.sum(axis=1, keepdims=True)
    return made


def bounds(outcomes: int = 4) -> st.SearchStrategy[Floats]:
    """A bound of the loss at each outcome."""
    return st.lists(st.floats(0, 2.5), min_size=outcomes, max_size=outcomes).map(np.array)


def excess(p: Floats, q: Floats, bound: Floats) -> float:
    """The integral of (dP - e^E dQ)_+."""
    return float(np.maximum(p - np.exp(bound) * q, 0).sum())


def integrated_delta(neighbours: Iterable[Floats], bound: Floats) -> float:
    """The least delta of the bound in the sense integrated, over all ordered pairs."""
    return max(excess(p, q, bound) for p, q in itertools.permutations(neighbours, 2))


def probabilistic_delta(neighbours: Iterable[Floats], bound: Floats) -> float:
    """The least delta in the sense probabilistic."""
    pairs = itertools.permutations(neighbours, 2)
    return max(float(p[p > np.exp(bound) * q * (1 + 1e-12)].sum()) for p, q in pairs)
