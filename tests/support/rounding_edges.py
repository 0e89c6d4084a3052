"""Rows whose clipped steps hang on the last bits of their norm: what an attacker of a clipped sum would hand in.

A row points along (k + 1/2, ..., k + 1/2), and the clip norm is that vector's length in steps of the grid: clipped,
each entry lies at the edge between k and k + 1 steps, and how the squares were added decides which of them it becomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from training_mutants import layout_steps

__all__ = ["GRID", "Edge", "edge"]

GRID = 2.0**-10
_TRIED = 500  # rows tried at each clip norm
_ULPS = range(-40, 60)  # clip norms tried, in units in the last place around the edge


@dataclass(frozen=True, slots=True)
class Edge:
    """A row of which `layout_steps` makes other steps, in every entry, in a column-major block than in a
    row-major one; for this clip norm, and `GRID`."""

    row: npt.NDArray[np.float64]
    clip_norm: float

    @property
    def clip_decimal(self) -> Decimal:
        """The clip norm exactly, as a parameter takes it."""
        return Decimal(self.clip_norm)


def edge(dimension: int, steps: int, seed: int = 0) -> Edge:
    """An edge between `steps` and `steps` + 1, found by search; the difference is always towards the same side."""
    rng = np.random.default_rng(seed)
    half = np.full(dimension, steps + 0.5)
    jitter = rng.integers(-2, 3, (_TRIED, dimension)) if dimension < 8 else np.zeros((_TRIED, dimension))
    rows = rng.uniform(2, 1000, (_TRIED, 1)) * half * (1 + jitter * 2.0**-52)
    length = float(np.sqrt((half**2).sum()) * GRID)
    for ulps in _ULPS:
        clip_norm = length * (1 + (dimension + ulps) * 2.0**-52)  # the norm is rounded up by as many
        moved = layout_steps(np.asfortranarray(rows), clip_norm, GRID) - layout_steps(rows, clip_norm, GRID)
        found = np.flatnonzero(np.abs(moved.sum(axis=1)) == dimension)
        if len(found):
            return Edge(rows[found[0]], clip_norm)
    raise AssertionError(f"no edge of dimension {dimension} was found: einsum adds in one order here")
