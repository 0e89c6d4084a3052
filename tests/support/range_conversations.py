"""The worst conversations of bounded ranges with losses on a lattice, counted exactly: what some analyst attains."""

from __future__ import annotations

import math
from collections.abc import Sequence as Ordered

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


def attained(step: float, cells: Ordered[int]) -> Numbers:
    """The worst delta at 0, step, 2 step, ... of one run after another, the first of them last, each with the range
    cells times step and a larger loss that is a multiple of the step and chosen by what came out."""
    values = np.zeros(1)
    for m in cells:
        values = before(step, values, m)
    return values


def before(step: float, values: Numbers, m: int) -> Numbers:
    """The worst delta of one more run, of range m steps, before what has these."""
    wide, size = _wide(step, values, m), values.size + m
    best = np.zeros(size)
    for t in range(m + 1):
        likely = math.expm1((t - m) * step) / math.expm1(-m * step)
        here, there = wide[m - t : m - t + size], wide[2 * m - t : 2 * m - t + size]
        np.maximum(best, likely * here + (1 - likely) * there, out=best)
    return best


def before_a_response(step: float, values: Numbers, far: int) -> Numbers:
    """The delta of a randomized response with the losses +-far steps, before what has these."""
    wide, size = _wide(step, values, far), values.size + far
    likely = 1 / (1 + math.exp(-far * step))
    found: Numbers = likely * wide[:size] + (1 - likely) * wide[2 * far : 2 * far + size]
    return found


def in_any_order(step: float, cells: Ordered[int]) -> Numbers:
    """The worst delta where the analyst chooses which run is next as well, over all subsets that may be left."""
    size = sum(cells) + 1
    best = [np.zeros(size) for _ in range(1 << len(cells))]
    for left in range(1, 1 << len(cells)):
        for i, m in enumerate(cells):
            if left >> i & 1:
                np.maximum(best[left], before(step, best[left ^ (1 << i)], m)[:size], out=best[left])
    return best[-1]


def _wide(step: float, values: Numbers, m: int) -> Numbers:
    below = -step * np.arange(1, m + 1)
    mirror = np.zeros(m)
    mirror[: values.size - 1] = values[1 : m + 1]
    return np.concatenate([(-np.expm1(below) + np.exp(below) * mirror)[::-1], values, np.zeros(2 * m)])
